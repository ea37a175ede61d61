//! Render: events into what a person reads. Pure: an event goes in, text comes out.
//!
//! Two ways: [`Story`] tells a run as it happens, deltas in place; [`journal_line`] tells every event
//! on a line of its own. Whatever agents, tools and people wrote is made harmless, and its lines are
//! indented, so that it cannot pass for ours.

use std::collections::HashMap;

use serde_json::Value;

use crate::app::counted;
pub(super) use crate::cli::plainly::{brief, date, whole};
use crate::cli::plainly::{clock, indented};
use crate::cli::term::{Paint, line, plain};
use crate::cli::{json, people};
use crate::kernel::{Kind, REPLY, secret};
use crate::wire::v1::workflow_event::Event;
use crate::wire::v1::{Delta, Failure, Message, Request, ToolCalled, ToolResult, WorkflowEvent};

/// A tool's arguments and outcomes are told in one line; the journal has them whole.
const BRIEF_CHARS_MAX: usize = 160;
/// A journal line's body; `--json` has it whole.
const BODY_CHARS_MAX: usize = 400;
/// The tool whose call is told as the question it becomes.
const ASK_TOOL: &str = crate::kernel::ASK_TOOL;

/// Whose words the reader knows already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// The one who talks with the run: their own words and the questions come by other ways.
    Talker,
    /// Somebody who looks on.
    Onlooker,
}

/// Tells a run as it happens.
#[derive(Debug)]
pub(super) struct Story {
    paint: Paint,
    audience: Audience,
    /// Which agent performs a step; at most as many as the workflow has steps.
    agents: HashMap<String, String>,
    /// What is being said piece by piece, and is still open on the screen.
    speaking: Option<Speaking>,
    /// What was said last: an output that repeats it is not told again.
    last_said: String,
    /// What was told of a reply that was cut short, and goes on.
    pieces: String,
}

#[derive(Debug)]
struct Speaking {
    executor_id: String,
    turn: u32,
    attempt: u32,
    text: String,
}

impl Story {
    /// A story for that audience.
    pub(super) fn new(paint: Paint, audience: Audience) -> Self {
        let (last_said, pieces) = (String::new(), String::new());
        Self { paint, audience, agents: HashMap::new(), speaking: None, last_said, pieces }
    }

    /// What to write for an event; nothing for many.
    pub(super) fn tell(&mut self, event: &WorkflowEvent) -> String {
        let Some(event) = event.event.as_ref().map(|body| (body, event)) else {
            return String::new();
        };
        let (body, event) = event;
        if let Event::Delta(delta) = body {
            return self.delta(delta);
        }
        if let Event::Message(message) = body {
            return self.message(message);
        }
        let text = self.other(body, event);
        if text.is_empty() { text } else { self.hush() + &text }
    }

    /// Ends a line that is still open, before something else is written.
    pub(super) fn hush(&mut self) -> String {
        match self.speaking.take() {
            Some(speaking) => {
                self.last_said = speaking.text;
                "\n".into()
            }
            None => String::new(),
        }
    }

    fn delta(&mut self, delta: &Delta) -> String {
        let same = self.speaking.as_ref().is_some_and(|open| {
            (&open.executor_id, open.turn, open.attempt)
                == (&delta.executor_id, delta.turn, delta.attempt)
        });
        let mut text = String::new();
        if !same {
            text = self.hush();
            text.push_str(&self.paint.agent(&plain(self.agent(&delta.executor_id))));
            text.push_str("  ");
            self.speaking = Some(Speaking {
                executor_id: delta.executor_id.clone(),
                turn: delta.turn,
                attempt: delta.attempt,
                text: String::new(),
            });
        }
        if let Some(open) = &mut self.speaking {
            open.text.push_str(&delta.text);
        }
        text + &indented(&delta.text)
    }

    fn message(&mut self, message: &Message) -> String {
        let is_told = |open: &Speaking| {
            open.text == message.text
                || message.text.strip_prefix(self.pieces.as_str()) == Some(open.text.as_str())
        };
        let told = self.speaking.as_ref().is_some_and(is_told);
        let closing = self.hush();
        match message.role.as_str() {
            // A piece that everybody has read; what nobody has is told with the whole of it.
            "assistant" if message.cut && !message.only_for.is_empty() => {
                if told {
                    self.pieces.push_str(&message.text);
                    return closing + &self.paint.dim("  (cut short; it goes on)") + "\n";
                }
                return closing;
            }
            // It waits at a gate, which shows it; or it is asked for again. Nobody has heard it.
            "assistant" if !message.only_for.is_empty() => return closing,
            "assistant" => {
                self.pieces.clear();
                if told || message.text.is_empty() {
                    return closing;
                }
                self.last_said.clone_from(&message.text);
            }
            "user" if self.audience == Audience::Onlooker => {}
            &_ => return closing,
        }
        // Calls are told when they are made: until then they are only wanted.
        let said = Message { tool_calls: Vec::new(), ..message.clone() };
        closing + &utterance(self.paint, &said) + "\n"
    }

    #[expect(clippy::too_many_lines, reason = "one arm an event, and nothing else")]
    fn other(&mut self, body: &Event, event: &WorkflowEvent) -> String {
        let paint = self.paint;
        let looks_on = self.audience == Audience::Onlooker;
        match body {
            Event::Started(it) => {
                let about = format!("{} in {}", event.run_id, event.session_id);
                let name = paint.bold(&line(&it.workflow_id, BRIEF_CHARS_MAX));
                format!("{name}  {}\n", paint.dim(&line(&about, BRIEF_CHARS_MAX)))
            }
            Event::ExecutorInvoked(it) => {
                self.agents.insert(it.executor_id.clone(), it.agent.clone());
                String::new()
            }
            Event::ExecutorFailed(it) => {
                let why = it.failure.as_ref().map(failure).unwrap_or_default();
                let again = match it.retry_at.as_ref().and_then(json::timestamp) {
                    Some(at) => format!("; again at {}", clock(at)),
                    None => String::new(),
                };
                let step = line(&it.executor_id, BRIEF_CHARS_MAX);
                format!("{}\n", paint.warn(&format!("  ! {step}: {why}{again}")))
            }
            Event::ToolCall(it) => self.tool_call(it),
            Event::ToolResult(it) => tool_result(paint, it),
            Event::Handoff(it) => {
                let text = format!("  {} hands over to {}", it.source, it.target);
                format!("{}\n", paint.dim(&line(&text, BRIEF_CHARS_MAX)))
            }
            Event::RequestInfo(it) if looks_on => question(paint, it),
            Event::ResponseReceived(it) if looks_on => {
                let said = brief(&json::optional(it.value.as_ref()));
                let text = format!("  {} answered through {}: {said}", it.principal, it.door);
                format!("{}\n", line(&text, BODY_CHARS_MAX))
            }
            Event::VoteReceived(it) => {
                let said = brief(&json::optional(it.value.as_ref()));
                let text = format!("  {} said through {}: {said}", it.principal, it.door);
                format!("{}\n", line(&text, BODY_CHARS_MAX))
            }
            Event::RequestClaimed(it) => {
                let text = format!("  {}", people::told_claim(it));
                format!("{}\n", paint.dim(&line(&text, BODY_CHARS_MAX)))
            }
            Event::RequestDelegated(it) => {
                let text = format!("  {}", people::told_delegation(it));
                format!("{}\n", line(&text, BODY_CHARS_MAX))
            }
            Event::RequestClosed(it) => {
                let text = format!("  {} closed: {}", it.request_id, it.how);
                format!("{}\n", paint.warn(&line(&text, BRIEF_CHARS_MAX)))
            }
            Event::GrantRevoked(it) => {
                let text = format!("  {} is no longer allowed, says {}", it.tool, it.principal);
                format!("{}\n", paint.warn(&line(&text, BRIEF_CHARS_MAX)))
            }
            Event::RequestReminded(it) => {
                let text = format!("  {} still waits for an answer", it.request_id);
                format!("{}\n", paint.warn(&line(&text, BRIEF_CHARS_MAX)))
            }
            Event::RequestEscalated(it) => {
                format!("{}\n", paint.warn(&format!("  {}", people::told_escalation(it))))
            }
            Event::SignalReceived(_) | Event::StepSettled(_) => in_graph(paint, body),
            Event::Output(it) => self.output(&json::optional(it.value.as_ref())),
            Event::Warning(it) => format!("{}\n", paint.warn(&format!("  ! {}", failure(it)))),
            Event::Completed(_) => format!("{}\n", paint.good("completed")),
            Event::Failed(it) => format!("{}\n", paint.bad(&format!("failed: {}", failure(it)))),
            Event::Cancelled(it) => {
                let text = match it.reason.as_str() {
                    "" => format!("cancelled by {}", it.principal),
                    reason => format!("cancelled by {}: {reason}", it.principal),
                };
                format!("{}\n", paint.warn(&line(&text, BODY_CHARS_MAX)))
            }
            Event::RequestInfo(_)
            | Event::ResponseReceived(_)
            | Event::Status(_)
            | Event::ExecutorCompleted(_)
            | Event::StepOpened(_)
            | Event::StepWorked(_)
            | Event::CheckpointSaved(_)
            | Event::Noted(_)
            | Event::Delta(_)
            | Event::Message(_) => String::new(),
        }
    }

    fn tool_call(&self, called: &ToolCalled) -> String {
        let Some(call) = &called.call else { return String::new() };
        if call.tool == ASK_TOOL {
            return String::new();
        }
        // What nobody is to read stands on no screen.
        let arguments = json::optional(call.arguments.as_ref());
        let arguments = brief(&secret::hidden(&arguments, &call.secrets));
        let text =
            format!("  {} calls {}({arguments})", self.agent(&called.executor_id), call.tool);
        format!("{}\n", self.paint.dim(&line(&text, BRIEF_CHARS_MAX)))
    }

    fn output(&self, value: &Value) -> String {
        if value.as_str().is_some_and(|text| text == self.last_said) || value.is_null() {
            return String::new();
        }
        let shown = match value {
            Value::Array(items) if items.iter().all(is_utterance) => {
                format!("the conversation, {}", counted(items.len() as u64, "message"))
            }
            Value::String(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => indented(&whole(value)),
        };
        format!("{}  {shown}\n", self.paint.bold("output"))
    }

    fn agent<'a>(&'a self, executor_id: &'a str) -> &'a str {
        self.agents.get(executor_id).filter(|name| !name.is_empty()).map_or(executor_id, |it| it)
    }
}

/// What is worth a line of what happens in a graph.
fn in_graph(paint: Paint, body: &Event) -> String {
    let text = if let Event::SignalReceived(it) = body {
        format!("  {} came, from {}", it.name, it.principal)
    } else if let Event::StepSettled(it) = body
        && it.outcome == "skipped"
    {
        format!("  {} is skipped: {}", it.executor_id, it.reason)
    } else {
        return String::new();
    };
    format!("{}\n", paint.dim(&line(&text, BRIEF_CHARS_MAX)))
}

/// A question as a person reads it before they answer.
pub(super) fn question(paint: Paint, request: &Request) -> String {
    let who = match request.awaiting_agent.as_str() {
        "" => &request.source_step,
        agent => agent,
    };
    let title = people::title(request).map(|title| format!(": {title}")).unwrap_or_default();
    let asks = format!("{} asks{title} ({})", line(who, 64), json::kind(request.kind));
    let mut text = format!("{}  {}\n", paint.ask(&asks), paint.dim(&line(&request.request_id, 64)));
    // What is decided stands before what is asked about it.
    if let Some(subject) = subject(request) {
        text.push_str("  ");
        text.push_str(&indented(&subject));
        text.push('\n');
    }
    text.push_str("  ");
    text.push_str(&paint.bold(&indented(&request.prompt)));
    text.push('\n');
    if !request.to.is_empty() {
        let asked = line(&request.to.join(", "), BODY_CHARS_MAX);
        let before = people::before(request);
        let asked = format!("  asked of {asked}{before}");
        text.push_str(&paint.dim(&asked));
        text.push('\n');
    }
    for words in people::others(request).into_iter().chain(people::standing(request, people::now()))
    {
        text.push_str(&paint.dim(&format!("  {words}")));
        text.push('\n');
    }
    if let Some(context) = facts(request) {
        text.push_str("  ");
        text.push_str(&indented(&whole(&context)));
        text.push('\n');
    }
    for (index, option) in request.options.iter().enumerate() {
        let label = if option.label.is_empty() { &option.id } else { &option.label };
        let mut shown = format!("  {}. {}", index + 1, line(label, BODY_CHARS_MAX));
        if !option.description.is_empty() {
            shown.push_str(&paint.dim(&format!("  {}", line(&option.description, BODY_CHARS_MAX))));
        }
        text.push_str(&shown);
        text.push('\n');
    }
    if let Some(at) = request.deadline.as_ref().and_then(json::timestamp) {
        let silence = match request.on_timeout.as_str() {
            "escalate_to" => "then others are asked".to_owned(),
            meant => format!("silence means {}", line(meant, 64)),
        };
        let until = match request.stands_with_ms_left {
            Some(left) => format!("  {}; {silence}", standing(left)),
            None => format!("  until {}; {silence}", date(at)),
        };
        text.push_str(&paint.warn(&until));
        text.push('\n');
    } else if request.halted {
        text.push_str(&paint.warn("  stands still while halted"));
        text.push('\n');
    }
    text
}

/// What is said of the time of a question that stands at a halt: no deadline passes meanwhile.
pub(super) fn standing(left_ms: u64) -> String {
    format!("stands still while halted, {} left", people::length(left_ms))
}

/// What is decided, in words: a text, or the value that a step shows. What a gate stops, and what a step is
/// about to do, stands among the facts.
pub(super) fn subject(request: &Request) -> Option<String> {
    if let Some(text) = held(request) {
        return Some(text.to_owned());
    }
    match request.subject.as_deref()? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            let is_told = request.context.as_deref() == Some(value) || !request.options.is_empty();
            let is_own = json::kind(request.kind) == Kind::Approval.word() && !is_told;
            is_own.then(|| whole(value))
        }
    }
}

/// The words of a reply that waits at a gate.
fn held(request: &Request) -> Option<&str> {
    let context = request.context.as_deref().filter(|context| context["tool"] == REPLY)?;
    context["arguments"]["text"].as_str()
}

/// The facts of a question, where there are any. Words that stand above them as what is decided are none of them.
pub(super) fn facts(request: &Request) -> Option<Value> {
    let mut context = request.context.as_deref().filter(|context| !context.is_null())?.clone();
    if let (Some(_), Some(fields)) = (held(request), context.as_object_mut()) {
        fields.retain(|name, _| name != "tool" && name != "arguments");
    }
    Some(context)
}

/// An utterance of the conversation.
pub(super) fn utterance(paint: Paint, message: &Message) -> String {
    let name = match (message.author_name.as_str(), message.role.as_str()) {
        ("", role) => role,
        (author, _) => author,
    };
    let aside =
        if message.only_for.is_empty() || message.only_for != name { "" } else { " (to itself)" };
    let name = format!("{}{aside}", line(name, 64));
    let text = match (message.text.as_str(), message.data.as_ref()) {
        ("", Some(data)) => brief(data),
        (text, _) => text.to_owned(),
    };
    let calls = message.tool_calls.iter().map(|call| {
        let arguments = json::optional(call.arguments.as_ref());
        let arguments = brief(&secret::hidden(&arguments, &call.secrets));
        line(&format!("wants to call {}({arguments})", call.tool), BRIEF_CHARS_MAX)
    });
    let said = indented(&text);
    let cut = message.cut.then(|| "(cut short)".to_owned());
    let parts: Vec<String> =
        std::iter::once(said).filter(|said| !said.is_empty()).chain(cut).chain(calls).collect();
    let said = parts.join("\n  ");
    match message.role.as_str() {
        "user" => format!("{}  {said}", paint.bold(&name)),
        "assistant" => format!("{}  {said}", paint.agent(&name)),
        &_ => paint.dim(&format!("{name}  {said}")),
    }
}

/// One event on one line: sequence, time, name, and what it says.
pub(super) fn journal_line(paint: Paint, event: &WorkflowEvent) -> String {
    let (name, body) = json::body(event);
    let at = event.time.as_ref().and_then(json::timestamp).map(date).unwrap_or_default();
    let said = match &event.event {
        Some(Event::RequestInfo(asked)) => {
            let kind = json::kind(asked.kind);
            format!("{} {kind} at {}: {}", asked.request_id, asked.source_step, asked.prompt)
        }
        Some(Event::Status(changed)) => {
            let open = changed.workflow_waiting.iter().flat_map(|waiting| &waiting.requests);
            let ids: Vec<_> = open.map(|request| request.request_id.as_str()).collect();
            format!("{} {}", json::status(changed.status), ids.join(" "))
        }
        Some(_) | None => fields(&body),
    };
    let number = paint.dim(&format!("{:>6}  {at}", event.sequence));
    format!("{number}  {}  {}", paint.bold(&format!("{name:<18}")), line(&said, BODY_CHARS_MAX))
}

fn fields(body: &Value) -> String {
    let told = body.as_object().into_iter().flatten().filter(|(_, value)| !is_empty(value));
    told.map(|(name, value)| format!("{name}={}", brief(value))).collect::<Vec<_>>().join(" ")
}

/// The same in fewer letters, for tables: the time of today, or the day with its minutes.
pub(super) fn moment(at: jiff::Timestamp) -> String {
    let zone = jiff::tz::TimeZone::system();
    let (at, now) = (at.to_zoned(zone.clone()), people::now().to_zoned(zone));
    let form = if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
    at.strftime(form).to_string()
}

fn tool_result(paint: Paint, result: &ToolResult) -> String {
    let text = format!("  came back: {}", brief(&json::optional(result.value.as_ref())));
    let shown = line(&text, BRIEF_CHARS_MAX);
    format!("{}\n", if result.failed { paint.warn(&shown) } else { paint.dim(&shown) })
}

fn failure(failure: &Failure) -> String {
    match failure.code.as_str() {
        "" => line(&failure.message, BODY_CHARS_MAX),
        code => line(&format!("{} [{code}]", failure.message), BODY_CHARS_MAX),
    }
}

/// What was just told message by message needs no second telling as an output.
fn is_utterance(value: &Value) -> bool {
    value["role"].is_string() && value["text"].is_string()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
