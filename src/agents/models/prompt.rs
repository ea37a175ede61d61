//! Prompt: what an agent is given, as something to be said to a model.
//!
//! One mapping for all providers, so that a conversation means the same to each of them (K5):
//!
//! ```text
//! instructions ......................... system
//! what a person said ................... heard, as it was said
//! what another agent said .............. heard, `name: text`
//! what the workflow itself asked ....... heard, `asked: text`
//! what this agent said and called ...... said
//! what its calls came back with ........ returned, right after the calls, in their order
//! what it is told for this step ........ told, in its place (at the end)
//! ```
//!
//! Nothing is shortened and nothing is added but the names and that word, and `GO_ON` where a model would
//! otherwise be asked to speak after itself.

use std::collections::BTreeMap;

use crate::kernel::{AgentInput, Message, Speaker, ToolCall};

/// Said to a model whose own words are the last: providers take those for the beginning of a reply.
const GO_ON: &str = "Go on.";
/// Who speaks where a step of the workflow asks a person: no agent does.
const ASKED: &str = "asked";
/// What a call came back with that never came back: providers want an outcome for every call.
const NO_OUTCOME: &str = "there is no outcome yet";

/// What is said to a model.
#[derive(Debug, PartialEq)]
pub(super) struct Prompt<'a> {
    /// What it is told to be.
    pub(super) system: &'a str,
    /// The conversation.
    pub(super) items: Vec<Item<'a>>,
}

/// One item of the conversation, as the model stands to it.
#[derive(Debug, PartialEq)]
pub(super) enum Item<'a> {
    /// An instruction in the course of the conversation.
    Told(&'a str),
    /// What somebody else said.
    Heard(String),
    /// What the model itself said and called.
    Said {
        /// The words; there may be none beside calls.
        text: &'a str,
        /// The calls.
        calls: &'a [ToolCall],
    },
    /// What a call came back with.
    Returned {
        /// The call.
        call: &'a ToolCall,
        /// Its outcome.
        text: &'a str,
    },
}

/// What is said to a model for `input`.
pub(super) fn prompt(input: &AgentInput) -> Prompt<'_> {
    let messages = || input.messages.iter().map(AsRef::as_ref);
    let outcome = |message: &'_ Message| message.role == Speaker::Tool;
    let mut outcomes: BTreeMap<&str, &Message> = messages()
        .filter(|message| outcome(message))
        .filter_map(|message| Some((message.call_id.as_deref()?, message)))
        .collect();
    let mut items = Vec::with_capacity(input.messages.len());
    for message in messages() {
        match message.role {
            Speaker::System => items.push(Item::Told(&message.text)),
            Speaker::User => items.push(Item::Heard(message.text.clone())),
            Speaker::Assistant if message.author == input.agent => {
                said(message, &mut outcomes, &mut items);
            }
            Speaker::Assistant => {
                let who = if message.author.is_empty() { ASKED } else { &message.author };
                items.push(Item::Heard(format!("{who}: {}", message.text)));
            }
            // Those that answer a call stand with it; one whose call is not to be seen is told.
            Speaker::Tool => {
                let called = messages().flat_map(|message| &message.calls);
                let is_answer =
                    called.into_iter().any(|call| Some(&call.id) == message.call_id.as_ref());
                if !is_answer {
                    items.push(Item::Heard(message.text.clone()));
                }
            }
        }
    }
    if let None | Some(Item::Said { .. }) = items.last() {
        items.push(Item::Told(GO_ON));
    }
    Prompt { system: &input.instructions, items }
}

fn said<'a>(
    message: &'a Message,
    outcomes: &mut BTreeMap<&str, &'a Message>,
    items: &mut Vec<Item<'a>>,
) {
    if message.text.is_empty() && message.calls.is_empty() {
        return;
    }
    items.push(Item::Said { text: &message.text, calls: &message.calls });
    for call in &message.calls {
        let text = outcomes.remove(call.id.as_str()).map_or(NO_OUTCOME, |outcome| &outcome.text);
        items.push(Item::Returned { call, text });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn input(messages: Vec<Message>) -> AgentInput {
        AgentInput {
            agent: "venue".into(),
            model: "m".into(),
            instructions: "You find venues.".into(),
            messages: messages.into_iter().map(Arc::new).collect(),
            begins: 0,
            tools: Vec::new(),
            output: None,
            failures: 0,
            key: String::new(),
            memo: None,
            summarises: None,
        }
    }

    fn own(text: &str, calls: &[&str]) -> Message {
        let mut message = Message::text(Speaker::Assistant, "venue", text);
        let call = |id: &&str| ToolCall::new(*id, "find", json!({}));
        message.calls = calls.iter().map(call).collect();
        message
    }

    fn returned(id: &str, text: &str) -> Message {
        Message { call_id: Some(id.into()), ..Message::text(Speaker::Tool, "", text) }
    }

    /// A prompt as a play reads.
    fn told(input: &AgentInput) -> Vec<String> {
        let line = |item: &Item<'_>| match item {
            Item::Told(text) => format!("told {text}"),
            Item::Heard(text) => format!("heard {text}"),
            Item::Said { text, calls } => {
                let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
                format!("said {text} {ids:?}")
            }
            Item::Returned { call, text } => format!("{} returned {text}", call.id),
        };
        prompt(input).items.iter().map(line).collect()
    }

    #[test]
    fn k5_a_model_is_told_the_whole_conversation_from_where_it_stands() {
        let input = input(vec![
            Message::text(Speaker::User, "ada", "Plan a party"),
            Message::text(Speaker::Assistant, "coordinator", "Venue first."),
            own("I look.", &["c1", "c2"]),
            returned("c1", "Pier 66"),
            returned("c2", "nothing"),
            Message::text(Speaker::Assistant, "budget", "It is dear."),
            Message::text(Speaker::Assistant, "", "Do we take it?"),
            Message::text(Speaker::User, "bob", "Take it."),
            own("Pier 66 it is.", &[]),
            Message::text(Speaker::System, "w", "Sum up."),
        ]);
        assert_eq!(prompt(&input).system, "You find venues.");
        assert_eq!(
            told(&input),
            [
                "heard Plan a party",
                "heard coordinator: Venue first.",
                "said I look. [\"c1\", \"c2\"]",
                "c1 returned Pier 66",
                "c2 returned nothing",
                "heard budget: It is dear.",
                "heard asked: Do we take it?",
                "heard Take it.",
                "said Pier 66 it is. []",
                "told Sum up.",
            ]
        );
    }

    #[test]
    fn outcomes_stand_with_their_calls_whenever_they_came() {
        let input = input(vec![
            Message::text(Speaker::User, "ada", "Go"),
            own("", &["c1", "c2", "c3"]),
            returned("c2", "two"),
            Message::text(Speaker::Assistant, "budget", "Meanwhile."),
            returned("c1", "one"),
            returned("c9", "whose call nobody saw"),
        ]);
        assert_eq!(
            told(&input),
            [
                "heard Go",
                "said  [\"c1\", \"c2\", \"c3\"]",
                "c1 returned one",
                "c2 returned two",
                "c3 returned there is no outcome yet",
                "heard budget: Meanwhile.",
                "heard whose call nobody saw",
            ]
        );
    }

    #[test]
    fn a_model_is_never_asked_to_speak_after_itself() {
        let after = input(vec![Message::text(Speaker::User, "ada", "Go"), own("Done.", &[])]);
        assert_eq!(told(&after), ["heard Go", "said Done. []", "told Go on."]);
        assert_eq!(told(&input(Vec::new())), ["told Go on."]);
    }
}
