//! Act: what an agent does that a gate may stop: a call of a tool, a handoff, a reply that would become final.
//! All three wait as calls do, so that they are asked, judged, edited, refused and released in one way; only
//! what follows from a yes, and what an agent is told of a no, differs.
//!
//! - **K4** What was not let through has no path to being done.

use serde_json::{Value, json};

use crate::kernel::event::Event;
use crate::kernel::message::{Audience, Message, Speaker, ToolCall, readable};
use crate::kernel::offer::HANDOFF_PREFIX;
use crate::kernel::pattern;
use crate::kernel::policy::means_name;
use crate::kernel::rules::ANY;
use crate::kernel::run::Run;
use crate::kernel::schema;
use crate::kernel::spending::Usage;
use crate::kernel::tool::{Safety, Tool};
use crate::kernel::turn::{Purpose, Turn, Wish};
use crate::kernel::workflow::{Between, Gate, Pattern};

/// What a reply that waits is called where calls are.
pub const REPLY: &str = "reply";

/// What an agent does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act<'a> {
    /// It calls a tool.
    Tool(&'a Tool),
    /// It hands the conversation over.
    Handoff(&'a str),
    /// What it said becomes final; and where that says who is next, the conversation goes on with them.
    Reply(Option<&'a str>),
    /// Nothing that there is.
    Unknown,
}

impl<'a> Act<'a> {
    /// What a call is.
    pub(super) fn of(run: &'a Run, call: &'a ToolCall) -> Self {
        if let Some(tool) = run.workflow.tools.get(&call.tool) {
            return Self::Tool(tool);
        }
        match call.tool.strip_prefix(HANDOFF_PREFIX) {
            Some(to) => Self::Handoff(to),
            None if call.tool == REPLY => Self::Reply(next(run, call)),
            None => Self::Unknown,
        }
    }

    /// Whether a gate looks at it.
    pub(super) fn is_concern_of(self, gate: &Gate, (turn, call): (&Turn, &ToolCall)) -> bool {
        match self {
            Self::Tool(tool) => concerns(gate, &call.tool, tool),
            Self::Handoff(to) => gate.handoffs.iter().any(|one| between(one, &turn.agent, to)),
            Self::Reply(next) => {
                let goes = |to| gate.handoffs.iter().any(|one| between(one, &turn.agent, to));
                next.filter(|to| *to != turn.agent).is_some_and(goes)
                    || gate
                        .replies
                        .iter()
                        .any(|one| one == ANY || means_name(gate, one, &turn.agent))
            }
            Self::Unknown => false,
        }
    }

    /// What a person is asked, where no gate has words of its own.
    pub(super) fn asked(self, turn: &Turn, call: &ToolCall) -> String {
        let who =
            if turn.is_tools() { format!("step `{}`", turn.step) } else { turn.agent.clone() };
        match self {
            Self::Tool(_) | Self::Unknown => format!("May {who} call `{}`?", call.tool),
            Self::Handoff(to) => format!("May {who} hand the conversation over to {to}?"),
            Self::Reply(Some(to)) => format!("May what {who} says stand, and {to} be next?"),
            Self::Reply(None) => format!("May what {who} says stand?"),
        }
    }

    /// The schema of what may be put in its place.
    pub(super) fn parameters(self, run: &Run, turn: &Turn) -> Value {
        let object = || json!({"type": "object"});
        match self {
            Self::Tool(tool) => tool.parameters.clone().unwrap_or_else(object),
            Self::Handoff(_) => json!({"type": "object", "additionalProperties": false}),
            Self::Reply(_) => match pattern::output_schema(run, turn) {
                Some(schema) => {
                    let schema = known(run, turn, schema);
                    json!({"type": "object",
                        "properties": {"output": schema::within(&schema, "/properties/output")},
                        "required": ["output"], "additionalProperties": false})
                }
                None => json!({"type": "object",
                    "properties": {"text": {"type": "string", "minLength": 1}},
                    "required": ["text"], "additionalProperties": false}),
            },
            Self::Unknown => object(),
        }
    }

    /// What follows when it is let through: the intent of a call (E2), the handoff, the end of the step.
    pub(super) fn done(
        self,
        run: &Run,
        turn: &Turn,
        call: ToolCall,
        granted: Vec<(String, String)>,
    ) -> Vec<Event> {
        match self {
            Self::Tool(tool) => {
                let (turn, safety) = (turn.number, tool.safety);
                vec![Event::ToolCalled { turn, call, safety, granted }]
            }
            Self::Unknown => {
                let (turn, safety) = (turn.number, Safety::default());
                vec![Event::ToolCalled { turn, call, safety, granted }]
            }
            Self::Handoff(to) => vec![Event::HandedOff {
                turn: turn.number,
                call_id: call.id,
                from: turn.agent.clone(),
                to: to.to_owned(),
            }],
            Self::Reply(_) => said(run, turn, &call),
        }
    }
}

/// Who is next by a coordinator's reply, or a specialist's; nobody where it asks the user first.
fn next<'a>(run: &Run, call: &'a ToolCall) -> Option<&'a str> {
    if !matches!(run.workflow.pattern, Pattern::Coordinator { .. }) {
        return None;
    }
    let output = call.arguments.get("output")?;
    if output.get("user_input_needed").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    output.get("next_agent").and_then(Value::as_str).filter(|next| !next.is_empty())
}

/// A reply's schema, where whoever edits it can name nobody as the next who is not there.
fn known(run: &Run, turn: &Turn, mut schema: Value) -> Value {
    if let Pattern::Coordinator { coordinator, specialists, .. } = &run.workflow.pattern
        && turn.purpose == Purpose::Work
    {
        let all = std::iter::once(coordinator).chain(specialists).map(|name| json!(name));
        let all: Vec<Value> = all.chain([Value::Null]).collect();
        schema["properties"]["next_agent"] = json!({"enum": all});
    }
    schema
}

/// A reply that was let through: everybody hears it, and the step is done. Its agent has said it already, unless
/// somebody has put other words in its place.
fn said(run: &Run, turn: &Turn, call: &ToolCall) -> Vec<Event> {
    let output = call.arguments.get("output").cloned().unwrap_or_default();
    let words = pattern::words_of(&run.workflow, turn.purpose, &output);
    let text = match (call.arguments.get("text").and_then(Value::as_str), words) {
        (Some(text), _) => text.to_owned(),
        (None, Some(words)) => words,
        (None, None) => output.to_string(),
    };
    let is_own = turn.said == text;
    let message = Message::text(Speaker::Assistant, turn.agent.clone(), text);
    let message = if is_own { message.to(Audience::Except(turn.agent.clone())) } else { message };
    vec![
        Event::MessageAdded { turn: None, message, usage: Usage::default() },
        Event::StepCompleted { turn: turn.number, output },
    ]
}

/// A reply as it waits at a gate.
pub(super) fn reply(turn: &Turn, text: &str, output: &Value) -> ToolCall {
    let arguments =
        if output.is_null() { json!({"text": text}) } else { json!({"output": output}) };
    // One of its own for every reply of the turn.
    ToolCall::new(format!("{REPLY}#{}.{}", turn.number, turn.rounds), REPLY, arguments)
}

/// What an agent is told whose reply was not let through.
pub(super) fn unsaid(agent: &str, told: &Value) -> Message {
    let text = format!("Your reply was not passed on. {} Reply again.", readable(told));
    Message::text(Speaker::System, "holdpoint", text).to(Audience::Only(agent.to_owned()))
}

/// Whether what an agent says in a turn waits for somebody, so that nothing of it is told before.
pub(super) fn holds_replies(run: &Run, turn: &Turn) -> bool {
    // Where a reply says who is next, it is the handoff.
    let hands = turn.purpose == Purpose::Work
        && matches!(run.workflow.pattern, Pattern::Coordinator { .. });
    let is_from = |one: &Between| one.from.as_deref().is_none_or(|from| from == turn.agent);
    let is_held = |gate: &Gate| {
        gate.replies.iter().any(|one| one == ANY || means_name(gate, one, &turn.agent))
            || hands && gate.handoffs.iter().any(is_from)
    };
    !turn.is_judges() && run.gates().any(is_held)
}

/// Whether a gate is bound to a tool: by its name, by a tag, or to all that touch anything.
pub(super) fn concerns(gate: &Gate, name: &str, tool: &Tool) -> bool {
    let is_named = |known: &String| {
        means_name(gate, known, name) || known == ANY && tool.safety != Safety::Pure
    };
    gate.tools.iter().any(is_named) || gate.tags.iter().any(|tag| tool.tags.contains(tag))
}

fn between(one: &Between, from: &str, to: &str) -> bool {
    one.from.as_deref().is_none_or(|known| known == from)
        && one.to.as_deref().is_none_or(|known| known == to)
}

/// Whether the conversation at that moment is looked at as well: a call says what it does, anything else does
/// not.
pub(super) fn looks_around(wish: Wish<'_>) -> bool {
    wish.call.tool == REPLY || wish.call.tool.starts_with(HANDOFF_PREFIX) || wish.is_step
}

/// Whether rules look back to the run's beginning, and not only to when a person spoke last: whoever brings gates draws
/// steps out, and with them what has been said by then (K12).
pub(super) fn looks_back_to_the_beginning(run: &Run) -> bool {
    !run.brought.is_empty()
}

/// What was said since a person spoke last, with that.
pub(super) fn moment(run: &Run) -> String {
    let to_the_beginning = looks_back_to_the_beginning(run);
    let mut said = Vec::new();
    for message in run.conversation.iter().rev() {
        if let Some(message) = message.cleaned() {
            said.push(message.text);
        }
        if message.role == Speaker::User && !to_the_beginning {
            break;
        }
    }
    said.reverse();
    format!(" {}", said.join(" "))
}
