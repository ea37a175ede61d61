//! Model: what the chat shows, and what keys and events make of it. Pure: it draws nothing and calls
//! nobody.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use crate::api::on_cancel::OnCancel;
use crate::cli::answer::{self, END, Meaning};
use crate::cli::filling::{Filling, Took};
use crate::cli::render::whole;
use crate::cli::term::plain;
use crate::cli::{json, people};
use crate::wire::v1::workflow_event::Event;
use crate::wire::v1::{Message, Request, RunStatus, WorkflowEvent, WorkflowWaiting};

/// Lines of a transcript that are kept; the journal keeps all.
const LINES_MAX: usize = 10_000;
/// A line that a person types; longer ones are for `holdpoint run -`.
const TYPED_MAX: usize = 100_000;

/// The command that cancels.
const CANCEL: &str = "/handoff-cancel";

/// What cancelling does here, unless somebody says otherwise.
pub(super) const ON_CANCEL: OnCancel = OnCancel::Withdraw;

/// Who a line of the transcript is by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum By {
    /// A person.
    Person(String),
    /// An agent.
    Agent(String),
    /// The chat itself: what happened, what a command found.
    Note,
    /// What went wrong.
    Trouble,
}

/// One thing that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) by: By,
    pub(super) text: String,
}

/// What a key asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Wish {
    /// Say this to the workflow.
    Say(String),
    /// Answer a request.
    Answer(Box<Request>, Value),
    /// Answer a request with a version of one's own, from an editor.
    Edit(Box<Request>),
    /// Take the request back.
    Withdraw(String),
    /// Stop the run.
    Stop,
    /// Say how the run stands.
    Status,
    /// List the sessions, or take up one.
    Sessions(Option<String>),
    /// Talk with another workflow.
    Use(String),
    /// Draw the workflow.
    Graph,
    /// Go, and lose nothing.
    Leave,
}

/// Everything that is shown.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) workflow: String,
    pub(super) session: String,
    pub(super) run: String,
    pub(super) status: String,
    /// The last event that came.
    pub(super) sequence: u64,
    pub(super) said: Vec<Said>,
    /// Who is speaking, and what so far.
    pub(super) speaking: Option<(String, String)>,
    /// What waits for an answer; the first is shown.
    pub(super) pending: VecDeque<Request>,
    pub(super) is_hidden: bool,
    /// Those that have fields, by request: what is filled in, and what is asked next.
    pub(super) forms: HashMap<String, Filling>,
    /// What is being typed.
    pub(super) typed: String,
    /// What was sent last: typed again for the person if it did not arrive.
    pub(super) sent: String,
    /// The server does not answer.
    pub(super) is_away: bool,
    /// Why the last answer was not taken.
    pub(super) objection: String,
    /// Lines that the reader has gone back.
    pub(super) scrolled: usize,
    /// Lines of the question that the reader has gone on. How many there are is known when it is drawn.
    pub(super) peeked: Cell<usize>,
    /// What cancelling does unless it is said.
    pub(super) on_cancel: OnCancel,
    /// What was said that it will do, and will be done when it is typed again.
    pub(super) cancelling: Option<(String, OnCancel)>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            workflow: String::new(),
            session: String::new(),
            run: String::new(),
            status: String::new(),
            sequence: 0,
            said: Vec::new(),
            speaking: None,
            pending: VecDeque::new(),
            is_hidden: false,
            forms: HashMap::new(),
            typed: String::new(),
            sent: String::new(),
            is_away: false,
            objection: String::new(),
            scrolled: 0,
            peeked: Cell::new(0),
            on_cancel: ON_CANCEL,
            cancelling: None,
        }
    }
}

impl Model {
    /// The request that is shown over the transcript.
    pub(super) fn overlay(&self) -> Option<&Request> {
        if self.is_hidden { None } else { self.pending.front() }
    }

    /// The form that is shown, if what is asked has fields.
    pub(super) fn form(&self) -> Option<&Filling> {
        self.forms.get(&self.overlay()?.request_id)
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.say(By::Note, &text.into());
    }

    pub(super) fn trouble(&mut self, text: &str) {
        self.say(By::Trouble, text);
    }

    /// Adds to the transcript. Text from elsewhere is made harmless here, once for all that show it.
    pub(super) fn say(&mut self, by: By, text: &str) {
        self.said.push(Said { by, text: plain(text.trim_end()).into_owned() });
        let excess = self.said.len().saturating_sub(LINES_MAX);
        self.said.drain(..excess);
    }

    /// A session that is taken up: nothing of another is left on the screen.
    pub(super) fn begin(&mut self, session: &str) {
        let (workflow, on_cancel) = (std::mem::take(&mut self.workflow), self.on_cancel);
        *self = Self { workflow, on_cancel, session: session.to_owned(), ..Self::default() };
    }

    /// What was said before the chat looked on.
    pub(super) fn recall(&mut self, messages: &[Message]) {
        for message in messages {
            self.message(message);
        }
    }

    /// Takes an event.
    #[expect(clippy::too_many_lines, reason = "one arm an event, and nothing else")]
    pub(super) fn take(&mut self, event: WorkflowEvent) {
        self.sequence = event.sequence;
        let Some(happened) = event.event else { return };
        match happened {
            Event::Started(started) => {
                self.status = "running".into();
                let input = whole(&json::optional(started.input.as_ref()));
                self.say(By::Person("you".into()), &input);
            }
            Event::Delta(delta) => match &mut self.speaking {
                Some((by, text)) if *by == delta.executor_id => text.push_str(&delta.text),
                Some(_) | None => self.speaking = Some((delta.executor_id, delta.text)),
            },
            Event::Message(message) => self.message(&message),
            Event::Handoff(handoff) => {
                self.note(format!("{} hands over to {}", handoff.source, handoff.target));
            }
            Event::ToolCall(called) => {
                let tool = called.call.map(|call| call.tool).unwrap_or_default();
                self.note(format!("{} calls {tool}", called.executor_id));
            }
            Event::RequestInfo(request) => self.ask(*request),
            Event::ResponseReceived(response) => {
                self.settle(&response.request_id);
                let by = By::Person(response.principal);
                self.say(by, &whole(&json::optional(response.value.as_ref())));
            }
            Event::VoteReceived(vote) => {
                let said = whole(&json::optional(vote.value.as_ref()));
                self.note(format!("{} said: {said}", vote.principal));
            }
            Event::RequestClaimed(claimed) => self.note(people::told_claim(&claimed)),
            Event::RequestDelegated(handed) => self.note(people::told_delegation(&handed)),
            Event::RequestClosed(closed) => {
                self.settle(&closed.request_id);
                self.note(format!("the request was {} by {}", closed.how, closed.principal));
            }
            Event::Status(changed) => {
                if changed.status == i32::from(RunStatus::Waiting) {
                    self.waits(changed.workflow_waiting.unwrap_or_default());
                }
            }
            Event::ExecutorFailed(failed) => {
                let why = failed.failure.map(|failure| failure.message).unwrap_or_default();
                self.speaking = None;
                self.trouble(&format!("{}: {why}", failed.executor_id));
            }
            Event::Warning(warning) => self.trouble(&warning.message),
            Event::Output(output) => self.result(&json::optional(output.value.as_ref())),
            Event::Completed(_) => self.end("completed", "The run is completed."),
            Event::Failed(failure) => {
                self.end("failed", &format!("The run has failed: {}", failure.message));
            }
            Event::Cancelled(cancelled) => {
                self.end(
                    "cancelled",
                    &format!("The run was cancelled by {}.", cancelled.principal),
                );
            }
            Event::SignalReceived(signal) => {
                self.note(format!("{} sent {}", signal.principal, signal.name));
            }
            Event::RequestReminded(_) => self.note("the request still waits"),
            Event::RequestEscalated(escalated) => {
                self.note(format!("the request now goes to {}", escalated.to.join(", ")));
            }
            Event::ExecutorInvoked(_)
            | Event::Noted(_)
            | Event::ExecutorCompleted(_)
            | Event::StepOpened(_)
            | Event::StepWorked(_)
            | Event::StepSettled(_)
            | Event::ToolResult(_)
            | Event::CheckpointSaved(_)
            | Event::GrantRevoked(_) => {}
        }
    }

    fn message(&mut self, message: &Message) {
        self.speaking = None;
        let by = match message.role.as_str() {
            "user" => By::Person(message.author_name.clone()),
            // What waits at a gate, or is asked for again, nobody has heard.
            "assistant" if !message.author_name.is_empty() && message.only_for.is_empty() => {
                By::Agent(message.author_name.clone())
            }
            &_ => return,
        };
        if !message.text.is_empty() {
            self.say(by, &message.text);
        }
    }

    fn result(&mut self, value: &Value) {
        let text = whole(value);
        let is_said = self.said.iter().any(|said| said.text == plain(text.trim_end()));
        if value.is_string() && !is_said {
            self.say(By::Agent(self.workflow.clone()), &text);
        }
    }

    fn ask(&mut self, request: Request) {
        if self.pending.iter().any(|known| known.request_id == request.request_id) {
            return;
        }
        if let Some(form) = answer::form(&request) {
            self.forms.insert(request.request_id.clone(), Filling::new(form));
        }
        self.pending.push_back(request);
        self.is_hidden = false;
    }

    /// The run waits, and this is all that it waits for; of very many, the first.
    pub(super) fn waits(&mut self, waiting: WorkflowWaiting) {
        self.status = "waiting".into();
        let open: Vec<_> =
            waiting.requests.iter().map(|request| request.request_id.clone()).collect();
        let is_whole = usize::try_from(waiting.open_requests) == Ok(open.len());
        self.pending.retain(|request| !is_whole || open.contains(&request.request_id));
        for request in waiting.requests {
            self.ask(request);
        }
    }

    /// A request that is open no longer.
    pub(super) fn settle(&mut self, request_id: &str) {
        self.pending.retain(|request| request.request_id != request_id);
        self.forms.remove(request_id);
        self.cancelling = None;
        self.status = "running".into();
        self.objection.clear();
        self.peeked.set(0);
    }

    /// The way to the server is broken, or whole again.
    pub(super) fn reach(&mut self, broken: Option<&str>) {
        let Some(why) = broken else {
            self.is_away = false;
            self.objection.clear();
            return self.note("The server is back.");
        };
        if !std::mem::replace(&mut self.is_away, true) {
            self.trouble(&format!("The server does not answer ({why}); trying again."));
        }
    }

    /// What was sent did not arrive: it is there again, to be sent once more.
    pub(super) fn unsend(&mut self) {
        if self.typed.is_empty() {
            self.typed = std::mem::take(&mut self.sent);
        }
    }

    fn end(&mut self, status: &str, text: &str) {
        status.clone_into(&mut self.status);
        self.speaking = None;
        self.pending.clear();
        self.note(text);
    }

    /// Takes a key.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a keyboard has more keys than we have uses"
    )]
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => Some(Wish::Leave),
                KeyCode::Char('u') => {
                    self.typed.clear();
                    None
                }
                _ => None,
            };
        }
        match key.code {
            KeyCode::Enter => return self.enter(),
            KeyCode::Esc => {
                self.is_hidden = !self.is_hidden && !self.pending.is_empty();
                self.cancelling = None;
            }
            KeyCode::Tab => {
                self.cancelling = None;
                self.pending.rotate_left(usize::from(self.pending.len() > 1));
                self.objection.clear();
                self.peeked.set(0);
            }
            KeyCode::Backspace => drop(self.typed.pop()),
            KeyCode::PageUp => self.scroll(10, true),
            KeyCode::PageDown => self.scroll(10, false),
            KeyCode::Up => self.scroll(1, true),
            KeyCode::Down => self.scroll(1, false),
            KeyCode::Char(char) if self.typed.len() < TYPED_MAX => self.typed.push(char),
            _ => {}
        }
        None
    }

    /// Goes through the question that is shown, or through what was said.
    fn scroll(&mut self, lines: usize, is_up: bool) {
        match (self.overlay().is_some(), is_up) {
            (true, true) => self.peeked.set(self.peeked.get().saturating_sub(lines)),
            (true, false) => self.peeked.set(self.peeked.get().saturating_add(lines)),
            (false, true) => self.scrolled = self.scrolled.saturating_add(lines),
            (false, false) => self.scrolled = self.scrolled.saturating_sub(lines),
        }
    }

    fn enter(&mut self) -> Option<Wish> {
        let typed = std::mem::take(&mut self.typed);
        let text = typed.trim();
        self.scrolled = 0;
        typed.clone_into(&mut self.sent);
        // Whatever is said in between, what was to be cancelled is not any more.
        let armed = self.cancelling.take().filter(|_| text.starts_with(CANCEL));
        self.cancelling = armed;
        let fills = self.form().is_some();
        if text.is_empty() && !fills {
            return None;
        }
        // In a field a path is a path; what is a command is one everywhere.
        if text.starts_with('/') && text != END && (!fills || is_command(text)) {
            return self.command(text);
        }
        let Some(request) = self.overlay().cloned() else {
            if !self.pending.is_empty() {
                self.typed = typed;
                self.note("a request waits: Esc shows it, /handoff-cancel cancels it");
                return None;
            }
            return Some(Wish::Say(text.to_owned()));
        };
        if let Some(form) = self.forms.get_mut(&request.request_id) {
            self.objection.clear();
            // What is asked now stands at the end.
            self.peeked.set(usize::MAX);
            match form.take(text) {
                Took::Next => return None,
                Took::Wrong(wrong) => {
                    self.objection = wrong.join("\n");
                    return None;
                }
                Took::Filled(value) => return Some(Wish::Answer(Box::new(request), value)),
            }
        }
        let value = match answer::read(&request, text) {
            Meaning::Value(value) => value,
            Meaning::Reject => answer::reject(""),
            Meaning::Deny => answer::deny(""),
            Meaning::Happened => answer::happened(""),
            Meaning::Edit => return Some(Wish::Edit(Box::new(request))),
            Meaning::Reasoned(word) => {
                self.objection = format!("say what should be different: {word}: …");
                return None;
            }
            Meaning::Unclear(why) => {
                self.objection = why;
                return None;
            }
        };
        Some(Wish::Answer(Box::new(request), value))
    }

    fn command(&mut self, text: &str) -> Option<Wish> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        match word {
            "/status" => Some(Wish::Status),
            "/sessions" => Some(Wish::Sessions((!rest.is_empty()).then(|| rest.to_owned()))),
            "/use" if !rest.is_empty() => Some(Wish::Use(rest.to_owned())),
            "/graph" => Some(Wish::Graph),
            "/quit" | "/exit" => Some(Wish::Leave),
            CANCEL => self.cancel(rest),
            "/help" => {
                self.is_hidden = !self.pending.is_empty();
                for line in HELP {
                    self.note(*line);
                }
                None
            }
            other => {
                self.note(format!("there is no {}; /help lists the commands", plain(other)));
                None
            }
        }
    }
}

fn is_command(text: &str) -> bool {
    let word = text.split(' ').next().unwrap_or_default();
    matches!(
        word,
        "/status" | "/sessions" | "/use" | "/graph" | "/quit" | "/exit" | CANCEL | "/help"
    )
}

const HELP: &[&str] = &[
    "/status            how the run stands",
    "/sessions [ID]     your sessions; with an ID, take it up",
    "/handoff-cancel    hide, withdraw or run: put the request away, take it back, stop the run;",
    "                   what it does is said first",
    "/graph             the workflow, as Mermaid draws it",
    "/use WORKFLOW      talk with another workflow",
    "/quit, Ctrl-C      leave; nothing is lost",
    "Enter answers or sends, Esc hides the request and shows it again, Tab shows the next one,",
    "PageUp and PageDown go through a long request, or through what was said.",
];

#[cfg(test)]
mod tests;
