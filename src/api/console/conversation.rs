//! Conversation: what was said and done in a run, in order: words with their authors, tool calls
//! folded, questions and answers in their places.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::text;
use crate::kernel::{Audience, Closing, Event, Message, Millis, Recorded, Run, Speaker, Version};

/// One message, as a bubble.
pub(super) fn bubble(message: &Message) -> Markup {
    let side = if message.role == Speaker::User { "theirs" } else { "agents" };
    html! {
        div class={ "bubble " (side) } {
            p.who { (who(message)) }
            @match message.data.clone().or_else(|| structured(&message.text)) {
                Some(data) => { (text::value(&data)) }
                None => { div.prose { (text::shown(&message.text)) } }
            }
        }
    }
}

/// What an agent said as JSON, which is read more easily laid out.
fn structured(text: &str) -> Option<Value> {
    let is_braced = text.starts_with('{') && text.ends_with('}');
    if is_braced { serde_json::from_str(text).ok() } else { None }
}

fn who(message: &Message) -> Markup {
    let role = match message.role {
        Speaker::User => "person or caller",
        Speaker::Assistant if message.author.is_empty() => "the workflow",
        Speaker::Assistant => "agent",
        Speaker::Tool => "tool",
        Speaker::System => "the workflow",
    };
    html! {
        @if !message.author.is_empty() { strong { (text::shown(&message.author)) } " " }
        span.quiet { (role) }
    }
}

/// The whole feed.
pub(super) fn feed(run: &Run, journal: &[Recorded]) -> Markup {
    let returned = returned(journal);
    html! {
        ol.feed {
            @for recorded in journal {
                @let item = item(run, recorded, journal, &returned);
                @if !item.0.is_empty() { li { (item) } }
            }
            (speaking(run, journal))
        }
    }
}

type Returned<'a> = BTreeMap<&'a str, (&'a Value, bool, Millis)>;

fn returned(journal: &[Recorded]) -> Returned<'_> {
    let returns = journal.iter().filter_map(|recorded| {
        let Event::ToolReturned { call_id, value, failed, .. } = &recorded.event else {
            return None;
        };
        Some((call_id.as_str(), (value, *failed, recorded.at)))
    });
    returns.collect()
}

fn item(run: &Run, recorded: &Recorded, journal: &[Recorded], returned: &Returned<'_>) -> Markup {
    let event = &recorded.event;
    if let Event::Started(started) = event {
        return html! { (bubble(&Message::said(started.owner.clone(), &started.input))) };
    }
    if let Event::MessageAdded { message, .. } = event {
        return said(message, recorded.version);
    }
    if let Event::ToolCalled { call, .. } = event {
        return tool(call, returned.get(call.id.as_str()), recorded);
    }
    if let Event::HandedOff { from, to, .. } = event {
        return html! { p.turning { strong { (from) } " handed the conversation to " strong { (to) } } };
    }
    if let Event::Asked(question) = event {
        let id = run.request(question.ordinal);
        let is_open = run.questions.contains_key(&question.ordinal);
        return html! {
            div.asked {
                p.who { strong { (question.agent.as_deref().unwrap_or("The workflow")) } " asked a person · " (text::words(question.kind.word())) }
                p.prose { a href={ "/console/requests/" (id) } { (text::ticked(&question.prompt)) } }
                @if is_open { a.button.primary href={ "/console/requests/" (id) } { "Answer it" } }
            }
        };
    }
    ending(event, journal)
}

/// What an option that was chosen is called, where its id is another word.
fn label<'a>(journal: &'a [Recorded], ordinal: u32, value: &Value) -> Option<&'a str> {
    let options = journal.iter().find_map(|recorded| {
        let Event::Asked(question) = &recorded.event else { return None };
        (question.ordinal == ordinal).then_some(&question.options)
    })?;
    let chosen = options.iter().find(|option| value.as_str() == Some(option.id.as_str()))?;
    Some(chosen.label()).filter(|label| *label != chosen.id)
}

fn ending(event: &Event, journal: &[Recorded]) -> Markup {
    if let Event::Answered { by, door, value, ordinal, .. } = event {
        return html! {
            div.answered { p.who { strong { (by) } " answered · " (door) }
                @match label(journal, *ordinal, value) {
                    Some(label) => { (text::shown(label)) " " span.quiet.mono { (text::shown(&crate::kernel::readable(value))) } }
                    None => { (text::answer(value)) }
                }
            }
        };
    }
    if let Event::Closed { closing, by, .. } = event {
        let words = match closing {
            Closing::Rejected => "Nobody answered in time, which is a no".to_owned(),
            Closing::Passed => "Nobody answered in time; the run went on".to_owned(),
            Closing::Withdrawn => format!("{by} took the question back"),
            Closing::Moot => "The step that asked was stopped".to_owned(),
        };
        return html! { p.turning { (words) } };
    }
    if let Event::StepFailed { attempt, failure, .. } = event {
        return html! { p.turning.bad { "Attempt " (attempt) " failed: " (text::shown(&failure.message)) } };
    }
    if let Event::Revoked { tool, by, .. } = event {
        return html! { p.turning { (by) " no longer allows " code { (text::shown(tool)) } } };
    }
    if let Event::Signalled { name, value, by, .. } = event {
        return html! {
            div.answered {
                p.who { strong { (by) } " sent the event " code { (text::shown(name)) } }
                @if !value.is_null() { (text::value(value)) }
            }
        };
    }
    if let Event::Warned(failure) = event {
        return html! { p.turning.bad { "Warning: " (text::shown(&failure.message)) } };
    }
    html! {}
}

/// What is folded has an id, so that it stays open when the page is brought up to date.
fn said(message: &Message, version: Version) -> Markup {
    let is_private = matches!(message.audience, Audience::Only(_));
    if message.role == Speaker::Tool || message.text.is_empty() {
        return html! {};
    }
    if message.role == Speaker::System || (is_private && message.role == Speaker::User) {
        return html! {
            details.aside id={ "said-" (version) } {
                summary { "The workflow told " @match &message.audience { Audience::Only(agent) => { (agent) } Audience::All | Audience::Except(_) => { "everybody" } } }
                div.prose { (text::shown(&message.text)) }
            }
        };
    }
    bubble(message)
}

fn tool(
    call: &crate::kernel::ToolCall,
    returned: Option<&(&Value, bool, Millis)>,
    called: &Recorded,
) -> Markup {
    let at = called.at;
    html! {
        details.tool id={ "call-" (called.version) } {
            summary {
                "Tool " code { (text::shown(&call.tool)) }
                @match returned {
                    Some((_, true, back)) => { " · " span.bad { "failed" } " after " (text::length(back.since(at))) }
                    Some((_, false, back)) => { " · " (text::length(back.since(at))) }
                    None => { " · under way" }
                }
            }
            p.heading { "Arguments" } (text::json(&call.arguments))
            @if let Some((value, ..)) = returned { p.heading { "What came back" } (text::json(value)) }
        }
    }
}

/// Whether a result is nothing but messages, which stand in the conversation already.
pub(super) fn is_said(output: &Value) -> bool {
    let is_message = |item: &Value| item["role"].is_string() && item["text"].is_string();
    output.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(is_message))
}

/// What an agent is saying right now.
fn speaking(run: &Run, journal: &[Recorded]) -> Markup {
    html! {
        @for turn in run.turns.values().filter(|turn| turn.owes_reply()) {
            @let words = spoken(journal, turn.number, turn.attempt);
            @if !words.is_empty() {
                li { div.bubble.agents { p.who { strong { (turn.agent) } " " span.quiet { "is speaking" } } div.prose { (text::shown(&words)) } } }
            }
        }
    }
}

/// The pieces of a text since the turn's last whole reply.
fn spoken(journal: &[Recorded], number: u32, tried: u32) -> String {
    let mut words = String::new();
    for recorded in journal {
        if let Event::Delta { turn, attempt, text } = &recorded.event
            && (*turn, *attempt) == (number, tried)
        {
            words.push_str(text);
        }
        if let Event::MessageAdded { turn: Some(turn), .. } = &recorded.event
            && *turn == number
        {
            words.clear();
        }
    }
    words
}
