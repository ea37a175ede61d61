//! Response stream: a leg of a run as a response tells it, event by event.
//!
//! What it says follows from the journal, the dialect and whom it is told: again after a restart, the same
//! events have the same numbers and the same ids (E1). Only whose a question is to answer is said as it is
//! now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::asked;
use crate::api::bridge::heartbeat::Heartbeat;
use crate::api::bridge::id::{Dialect, ResponseId};
use crate::api::bridge::object::{Response, Standing};
use crate::api::bridge::{devui, item, qlaw, question_json};
use crate::engine::{Onlooker, Published, RunView};
use crate::kernel::{
    Event, Failure, Message, Millis, Purpose, Question, Speaker, Usage, Workflow, pattern,
};

/// Tells a leg.
#[derive(Debug)]
pub(super) struct Teller {
    pub(super) response: Response,
    workflow: Arc<Workflow>,
    /// Whom it is told to.
    onlooker: Onlooker,
    /// The number of the next event.
    sequence: u64,
    has_begun: bool,
    /// What is being said, by turn.
    speaking: BTreeMap<u32, Speech>,
    /// Who speaks in a turn, where its words are text for people as they come.
    speakers: BTreeMap<u32, Option<String>>,
    /// The items of executors that are at work, by turn.
    pub(super) executors: BTreeMap<u32, usize>,
    /// Questions that were told.
    asked: BTreeSet<u32>,
    last_text: String,
    last_step: String,
    heartbeat: Heartbeat,
}

/// Text that is being said.
#[derive(Debug)]
struct Speech {
    attempt: u32,
    index: usize,
    /// What was told of it.
    text: String,
    /// What a later attempt has said so far, while that is no more than was told of the one before:
    /// nobody is told the same twice.
    again: String,
}

impl Teller {
    /// Tells the leg `id` of a run.
    pub(super) fn new(id: ResponseId, view: &RunView, onlooker: Onlooker) -> Self {
        Self {
            response: Response {
                id,
                model: view.head.workflow.clone(),
                session: view.head.session.clone(),
                previous: None,
                metadata: view.head.metadata.clone(),
                created_at: Millis(0),
                standing: Standing::InProgress,
                output: Vec::new(),
                failure: None,
                usage: Usage::default(),
                waiting: Value::Null,
                receipt: Value::Null,
            },
            workflow: Arc::clone(&view.run.workflow),
            onlooker,
            sequence: 0,
            has_begun: false,
            speaking: BTreeMap::new(),
            speakers: BTreeMap::new(),
            executors: BTreeMap::new(),
            asked: BTreeSet::new(),
            last_text: String::new(),
            last_step: String::new(),
            heartbeat: Heartbeat::default(),
        }
    }

    /// Whether an event can be the first of a leg: somebody asked for what follows it.
    pub(super) fn begins_with(event: &Event) -> bool {
        matches!(
            event,
            Event::Started(_) | Event::Answered { .. } | Event::Voted { .. } | Event::Closed { .. }
        )
    }

    /// The events of a response that one event of the journal makes, in order, numbered.
    pub(super) fn tell(&mut self, published: &Published) -> Vec<Value> {
        let mut told = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            self.response.created_at = published.at;
            self.response.previous = went_on_from(&published.event);
            for name in ["response.created", "response.in_progress"] {
                told.push(json!({"type": name, "response": self.response.to_json()}));
            }
        }
        if self.is(Dialect::DevUi) {
            told.extend(devui::facts(&self.response.id.run, published));
        }
        if self.is(Dialect::Qlaw) {
            told.extend(qlaw::facts(&self.response.id.run, published));
        }
        self.translate(published, &mut told);
        if !told.is_empty() {
            self.heartbeat.told(published.at);
        }
        for event in &mut told {
            event["sequence_number"] = json!(self.sequence);
            self.sequence += 1;
        }
        told
    }

    /// An error that ends a stream; what was told before it stands.
    pub(super) fn broken(&mut self, code: &str, message: &str) -> Value {
        let sequence = self.sequence;
        self.sequence += 1;
        json!({
            "type": "error",
            "code": code,
            "message": message,
            "param": null,
            "sequence_number": sequence,
        })
    }

    pub(super) fn is(&self, dialect: Dialect) -> bool {
        self.response.id.dialect == dialect
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each event, and little logic")]
    fn translate(&mut self, published: &Published, told: &mut Vec<Value>) {
        match &*published.event {
            Event::StepStarted { turn, step, agent, purpose, .. } => {
                self.speakers.insert(*turn, self.plain_speaker(agent, *purpose));
                self.executor_begins(*turn, step, told);
            }
            Event::Delta { .. } if self.is(Dialect::OpenAi) => self.goes_on(published.at, told),
            Event::Delta { turn, attempt, text } => {
                let step = published.step.as_deref().unwrap_or_default();
                self.piece((*turn, *attempt), step, text, told);
            }
            Event::MessageAdded { turn, message, usage } => {
                self.response.usage.input_tokens += usage.input_tokens;
                self.response.usage.output_tokens += usage.output_tokens;
                self.said(*turn, message, told);
            }
            Event::StepCompleted { turn, output } => {
                self.hush(*turn, told);
                self.last_step = published.step.clone().unwrap_or_default();
                self.executor_ends(*turn, published, ("completed", output, &Value::Null), told);
            }
            Event::StepFailed { turn, failure, retry_at, .. } => {
                // What is tried again is likely to begin with the same words.
                if retry_at.is_none() {
                    self.hush(*turn, told);
                }
                let error = json!({"code": failure.code, "message": failure.message});
                self.executor_ends(*turn, published, ("failed", &Value::Null, &error), told);
            }
            Event::Asked(bare) => match &published.asked {
                Some(asked) => {
                    let question = self.onlooker.sees(&asked.question);
                    self.ask(&question, &asked.recent, told);
                }
                None => self.ask(bare, &[], told),
            },
            Event::Parked => {
                if let Some(waiting) = &published.waiting {
                    for question in &waiting.questions {
                        let question = self.onlooker.sees(question);
                        self.ask(&question, &[], told);
                    }
                    self.response.waiting = question_json::waiting(waiting, Some(&self.onlooker));
                }
                self.executors_rest(told);
                self.end(Standing::Completed, "response.completed", told);
            }
            Event::Output { value } => self.result(value, told),
            Event::Completed => self.end(Standing::Completed, "response.completed", told),
            Event::Failed(failure) => self.fail(failure, told),
            Event::Cancelled { .. } => {
                self.response.waiting = Value::Null;
                self.end(Standing::Cancelled, "response.incomplete", told);
            }
            Event::Voted { .. } => self.voted(published, told),
            Event::Started(_)
            | Event::ToolCalled { .. }
            | Event::ToolReturned { .. }
            | Event::HandedOff { .. }
            | Event::Answered { .. }
            | Event::Closed { .. }
            | Event::Noted { .. }
            | Event::Claimed(_)
            | Event::Delegated(_)
            | Event::Reminded { .. }
            | Event::Stood { .. }
            | Event::Held { .. }
            | Event::Escalated { .. }
            | Event::Revoked { .. }
            | Event::Renewed { .. }
            | Event::Ruled(_)
            | Event::StepOpened { .. }
            | Event::StepOutcome { .. }
            | Event::StepClosed { .. }
            | Event::Signalled { .. }
            | Event::CheckpointSaved
            | Event::Warned(_) => {}
        }
    }

    /// Somebody is speaking, and is told when they have ended.
    fn goes_on(&mut self, at: Millis, told: &mut Vec<Value>) {
        if self.heartbeat.is_due(at) {
            told.push(json!({"type": "response.in_progress", "response": self.response.to_json()}));
        }
    }

    /// The agent, if what it says is text for people. Structured output is told when it is whole.
    fn plain_speaker(&self, agent: &str, purpose: Purpose) -> Option<String> {
        let is_known = self.workflow.agents.contains_key(agent);
        let is_plain = pattern::speaks_plainly(&self.workflow, agent, purpose);
        (is_known && is_plain).then(|| agent.to_owned())
    }

    /// A piece of text, for those who take what was torn for void. A turn that began before this leg is known by its step alone, which in most
    /// patterns is called as its agent is; where it is not, its words are told when they are whole.
    fn piece(
        &mut self,
        (turn, attempt): (u32, u32),
        step: &str,
        text: &str,
        told: &mut Vec<Value>,
    ) {
        let by_step = || self.plain_speaker(step, Purpose::Work);
        let speaker = self.speakers.get(&turn).cloned().unwrap_or_else(by_step);
        let Some(agent) = speaker.filter(|_| !text.is_empty()) else { return };
        let (mut speech, text) = match self.speaking.remove(&turn) {
            None => (self.begins(attempt, &agent, told), text.to_owned()),
            Some(mut speech) => {
                if speech.attempt != attempt {
                    (speech.attempt, speech.again) = (attempt, text.to_owned());
                } else if speech.again.is_empty() {
                    speech.again = format!("{}{text}", speech.text);
                } else {
                    speech.again.push_str(text);
                }
                let again = std::mem::take(&mut speech.again);
                if let Some(rest) = again.strip_prefix(speech.text.as_str()) {
                    let rest = rest.to_owned();
                    (speech, rest)
                } else if speech.text.starts_with(&again) {
                    self.speaking.insert(turn, Speech { again, ..speech });
                    return;
                } else {
                    // Other words than were told: those are void.
                    self.tear(speech.index, &speech.text, told);
                    (self.begins(attempt, &agent, told), again)
                }
            }
        };
        speech.text.push_str(&text);
        if !text.is_empty() {
            told.push(self.delta(speech.index, &text));
        }
        self.speaking.insert(turn, speech);
    }

    fn begins(&mut self, attempt: u32, agent: &str, told: &mut Vec<Value>) -> Speech {
        let index = self.open(agent, told);
        Speech { attempt, index, text: String::new(), again: String::new() }
    }

    /// A whole message, of which pieces may have been told.
    fn said(&mut self, turn: Option<u32>, message: &Message, told: &mut Vec<Value>) {
        if message.role != Speaker::Assistant || message.author.is_empty() {
            return;
        }
        let Some(message) = message.cleaned() else { return };
        let speech = turn.and_then(|turn| self.speaking.remove(&turn));
        let (index, rest) = match speech {
            Some(speech) if message.text.starts_with(&speech.text) => {
                (speech.index, message.text.strip_prefix(&speech.text).map(str::to_owned))
            }
            Some(speech) => {
                self.tear(speech.index, &speech.text, told);
                (self.open(&message.author, told), Some(message.text.clone()))
            }
            None => (self.open(&message.author, told), Some(message.text.clone())),
        };
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            told.push(self.delta(index, &rest));
        }
        self.close(index, &message.text, "completed", told);
        self.last_text = message.text;
    }

    /// The result, unless it was said already: the last words, or the conversation itself.
    fn result(&mut self, value: &Value, told: &mut Vec<Value>) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if self.is(Dialect::DevUi) {
            let index = self.response.output.len();
            let id = self.response.id.item("msg", index);
            let mut item = item::message(&id, &self.last_step, "completed", Some(&text));
            item["metadata"] =
                json!({"workflow_event_type": "output", "executor_id": self.last_step});
            self.response.output.push(item.clone());
            told.extend(added_and_done(index, &item));
            return;
        }
        let text = match conversation(value) {
            // Every word of it was told, unless nobody said any in this leg: then the last ones are what
            // the caller is left with.
            Some(messages) if self.last_text.is_empty() => last_words(messages),
            Some(_) => return,
            None => text,
        };
        if text.is_empty() || text == self.last_text || value.is_null() {
            return;
        }
        self.utter(&text, told);
    }

    /// A word that is not the last: who has said what, and who is missing.
    fn voted(&mut self, published: &Published, told: &mut Vec<Value>) {
        if let Some(asked) = &published.asked {
            self.utter(&asked::votes(&asked.question), told);
        }
    }

    /// Something that no agent says, whole.
    fn utter(&mut self, text: &str, told: &mut Vec<Value>) {
        let index = self.open("", told);
        told.push(self.delta(index, text));
        self.close(index, text, "completed", told);
    }

    /// Begins a message; returns its place.
    fn open(&mut self, author: &str, told: &mut Vec<Value>) -> usize {
        let index = self.response.output.len();
        let id = self.response.id.item("msg", index);
        let is_first = !self.response.output.iter().any(|item| item["type"] == "message");
        let item = item::message(&id, author, "in_progress", None);
        told.push(json!({
            "type": "response.output_item.added", "output_index": index, "item": item,
        }));
        told.push(json!({
            "type": "response.content_part.added",
            "item_id": id,
            "output_index": index,
            "content_index": 0,
            "part": item::text(""),
        }));
        self.response.output.push(item);
        if self.is(Dialect::Qlaw) && !is_first {
            // It prints all text in one piece: what another says begins a paragraph.
            told.push(self.delta(index, "\n\n"));
        }
        index
    }

    fn delta(&self, index: usize, text: &str) -> Value {
        json!({
            "type": "response.output_text.delta",
            "item_id": self.response.id.item("msg", index),
            "output_index": index,
            "content_index": 0,
            "delta": text,
            "logprobs": [],
        })
    }

    /// Ends a message.
    fn close(&mut self, index: usize, text: &str, status: &str, told: &mut Vec<Value>) {
        let id = self.response.id.item("msg", index);
        if !self.is(Dialect::Qlaw) {
            told.push(json!({
                "type": "response.output_text.done",
                "item_id": id,
                "output_index": index,
                "content_index": 0,
                "text": text,
                "logprobs": [],
            }));
        }
        told.push(json!({
            "type": "response.content_part.done",
            "item_id": id,
            "output_index": index,
            "content_index": 0,
            "part": item::text(text),
        }));
        let Some(item) = self.response.output.get_mut(index) else { return };
        item["status"] = json!(status);
        item["content"] = json!([item::text(text)]);
        told.push(json!({
            "type": "response.output_item.done", "output_index": index, "item": item,
        }));
    }

    /// Ends a message that was begun, broke off, and came otherwise: what was told of it is void, and it
    /// is not in the response.
    fn tear(&mut self, index: usize, text: &str, told: &mut Vec<Value>) {
        if let Some(item) = self.response.output.get_mut(index) {
            item["void"] = json!(true);
        }
        self.close(index, text, "incomplete", told);
    }

    /// Ends what a turn was saying before it broke off.
    fn hush(&mut self, turn: u32, told: &mut Vec<Value>) {
        if let Some(speech) = self.speaking.remove(&turn) {
            self.close(speech.index, &speech.text, "incomplete", told);
        }
    }

    fn ask(&mut self, question: &Question, recent: &[Arc<Message>], told: &mut Vec<Value>) {
        if !self.asked.insert(question.ordinal) {
            return;
        }
        // Nothing that could be answered: it waits for somebody else (K8).
        if let Some(why) = self.onlooker.barred(question) {
            return self.utter(&asked::waits(question, &why), told);
        }
        let run = self.response.id.run.clone();
        let index = self.response.output.len();
        let id = self.response.id.item("fc", index);
        let item = item::question(&id, &run, question, recent);
        let item_id = item["id"].as_str().unwrap_or(&id).to_owned();
        // LangChain puts the arguments together from the pieces, and looks at nothing else.
        let by_pieces = matches!(self.response.id.dialect, Dialect::OpenAi | Dialect::Live);
        told.extend(item::asked(&item, index, by_pieces));
        self.response.output.push(item);
        match self.response.id.dialect {
            Dialect::OpenAi | Dialect::Live => {}
            Dialect::DevUi => {
                told.push(devui::paused(&run, question, recent, (&item_id, index)));
            }
            Dialect::Qlaw => told.push(qlaw::paused(&run, question, recent)),
        }
    }

    fn fail(&mut self, failure: &Failure, told: &mut Vec<Value>) {
        self.response.failure = Some(failure.clone());
        if self.is(Dialect::Qlaw) {
            told.push(qlaw::failed(failure));
        }
        self.end(Standing::Failed, "response.failed", told);
    }

    fn end(&mut self, standing: Standing, name: &str, told: &mut Vec<Value>) {
        for turn in self.speaking.keys().copied().collect::<Vec<_>>() {
            self.hush(turn, told);
        }
        self.response.standing = standing;
        told.push(json!({"type": name, "response": self.response.to_json()}));
    }
}

/// The response that whoever began this leg went on from. Other doors may leave other words there.
fn went_on_from(event: &Event) -> Option<String> {
    let from = if let Event::Started(started) = event {
        started.from.clone()
    } else if let Event::Answered { from, .. } = event {
        from.clone()
    } else {
        None
    };
    from.filter(|id| ResponseId::parse(id).is_some())
}

fn added_and_done(index: usize, item: &Value) -> [Value; 2] {
    ["response.output_item.added", "response.output_item.done"]
        .map(|name| json!({"type": name, "output_index": index, "item": item}))
}

/// A result that is nothing but the conversation.
fn conversation(value: &Value) -> Option<&[Value]> {
    let is_message = |item: &Value| item["role"].is_string() && item["text"].is_string();
    let items = value.as_array().map(Vec::as_slice);
    items.filter(|items| !items.is_empty() && items.iter().all(is_message))
}

/// What an agent said last in a conversation.
fn last_words(messages: &[Value]) -> String {
    let last = messages.iter().rev().find(|message| message["role"] == "assistant");
    last.and_then(|message| message["text"].as_str()).unwrap_or_default().to_owned()
}
