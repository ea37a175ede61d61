//! Question: what a person is asked, bound by digest to exactly what they were shown.
//!
//! This is the heart of the product: who is asked what, what an answer must look like, and what
//! silence means. Reading an answer (`read`) is here; what an answer leads to is the pattern's.
//!
//! - **K3** An answer is accepted only against the digest of what was shown.
//! - **K7** Nothing fails open: an ambiguous answer is refused, and silence never approves.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kernel::digest;
use crate::kernel::graph::Point;
use crate::kernel::id::{RequestId, RunId};
use crate::kernel::message::ToolCall;
use crate::kernel::schema::{self, Compiled, Mismatch};
use crate::kernel::time::Millis;

/// What answers to most questions must fit: the same for all of them, so it is made once.
static VERDICT: LazyLock<House> = LazyLock::new(|| House::of(verdict_schema()));
static USER_TURN: LazyLock<House> = LazyLock::new(|| House::of(user_turn_schema()));
static OUTCOME: LazyLock<House> = LazyLock::new(|| House::of(outcome_schema()));

/// A schema of the house's own.
struct House {
    schema: Arc<Value>,
    compiled: Arc<Compiled>,
}

impl House {
    fn of(schema: Value) -> Self {
        Self { compiled: Arc::new(Compiled::of(&schema)), schema: Arc::new(schema) }
    }
}

/// What kind of decision is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something the agent needs to know.
    Clarification,
    /// One of several options.
    Selection,
    /// A yes or a no.
    Approval,
    /// A plan to be approved or changed.
    PlanReview,
    /// A tool call to be allowed.
    ToolApproval,
    /// A side effect that may or may not have happened before a crash.
    OutcomeCheck,
}

impl Kind {
    /// Every kind, for lists and checks.
    pub const ALL: [Self; 6] = [
        Self::Clarification,
        Self::Selection,
        Self::Approval,
        Self::PlanReview,
        Self::ToolApproval,
        Self::OutcomeCheck,
    ];

    /// The word used in files and on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Clarification => "clarification",
            Self::Selection => "selection",
            Self::Approval => "approval",
            Self::PlanReview => "plan_review",
            Self::ToolApproval => "tool_approval",
            Self::OutcomeCheck => "outcome_check",
        }
    }

    /// The kind of that name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Whether silence may stand for an answer; never where something would be approved (K7).
    pub fn may_pass_by_silence(self) -> bool {
        match self {
            Self::Clarification | Self::Selection => true,
            Self::Approval | Self::PlanReview | Self::ToolApproval | Self::OutcomeCheck => false,
        }
    }
}

/// What silence means at the deadline.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// No.
    #[default]
    Reject,
    /// This answer; for clarifications and selections only.
    DefaultAnswer(Value),
    /// Go on without an answer; for clarifications and selections only.
    Continue,
    /// Ask somebody else; silence is a no after that.
    EscalateTo {
        /// Whom.
        to: Vec<String>,
        /// How long they have; for ever, if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
}

impl OnTimeout {
    /// The word used on the wire.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::DefaultAnswer(_) => "default_answer",
            Self::Continue => "continue",
            Self::EscalateTo { .. } => "escalate_to",
        }
    }

    /// Whether it lets nothing pass, and so stands at any question (K7).
    pub fn passes_nothing(&self) -> bool {
        match self {
            Self::Reject | Self::EscalateTo { .. } => true,
            Self::DefaultAnswer(_) | Self::Continue => false,
        }
    }
}

/// One thing that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// What the answer says.
    pub id: String,
    /// What a person reads; the id where empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl Choice {
    /// What a person reads.
    pub fn label(&self) -> &str {
        if self.label.is_empty() { &self.id } else { &self.label }
    }
}

/// What made the question, and so what its answer feeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A handoff agent's turn ended: the user speaks next.
    UserTurn,
    /// A reply said `user_input_needed`.
    Directive,
    /// The agent called `request_user_input`; the answer is that call's outcome.
    ToolCall(String),
    /// A human step of the workflow.
    HumanStep,
    /// A tool call whose outcome was lost, in a crash or on the way (E2).
    LostOutcome(String),
    /// A tool call that waits at a gate: exactly what will be done if it is allowed.
    Gate(Box<ToolCall>),
    /// A budget is spent, by its name: `run.tokens`.
    Budget(String),
    /// A step of a graph waits at its gate.
    Phase(Point),
}

/// A question, as it is journalled and shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Which of the run's questions, counted from 1.
    pub ordinal: u32,
    /// The step that asks.
    pub step: String,
    /// The agent that waits for the answer, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The turn that waits for it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// What made it.
    pub origin: Origin,
    /// What kind of decision.
    pub kind: Kind,
    /// What is asked.
    pub prompt: String,
    /// Facts to decide by.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub context: Value,
    /// What may be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Choice>,
    /// The schema of the answer, where the kind's own is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// When silence becomes an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    /// What silence means.
    #[serde(default, skip_serializing_if = "is_reject")]
    pub on_timeout: OnTimeout,
    /// Whom it is addressed to; empty for whoever may see the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// How long after the asking, and then again and again, a reminder is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind_ms: Option<u64>,
    /// When the next reminder is due; set when the event is folded in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind_at: Option<Millis>,
    /// When it was asked; set from the record's own time when the event is folded in.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub asked_at: Millis,
    /// How long the conversation was then; set when the event is folded in.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub messages: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_unset(at: &Millis) -> bool {
    at.0 == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_none_yet(count: &usize) -> bool {
    *count == 0
}

fn is_reject(on_timeout: &OnTimeout) -> bool {
    *on_timeout == OnTimeout::Reject
}

/// The decisions that let something happen; every other is a no.
const YES: [&str; 4] = ["approve", "allow_once", "allow_for_run", "edit"];

/// What an answer to an approval says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Approved,
    /// No; and whatever is not clearly a yes.
    Rejected,
}

impl Question {
    /// The question's id in `run`.
    pub fn id(&self, run: &RunId) -> RequestId {
        RequestId { run: run.clone(), ordinal: self.ordinal }
    }

    /// The digest of what a person is shown (K3): changing any of it changes the digest.
    pub fn digest(&self, run: &RunId) -> String {
        let mut shown = digest::Canonical::default();
        shown.raw("{\"context\":").value(&self.context);
        shown.raw(",\"kind\":").text(self.kind.word());
        shown.raw(",\"options\":[");
        for (index, option) in self.options.iter().enumerate() {
            shown.raw(if index == 0 { "[" } else { ",[" }).text(&option.id);
            shown.raw(",").text(&option.label).raw(",").text(&option.description).raw("]");
        }
        shown.raw("],\"prompt\":").text(&self.prompt);
        shown.raw(",\"request\":").value(&self.ordinal.into());
        shown.raw(",\"run\":").text(run.as_str());
        shown.raw(",\"schema\":").value(self.schema.as_ref().unwrap_or(&Value::Null));
        shown.raw(",\"step\":").text(&self.step).raw("}");
        shown.digest()
    }

    /// The JSON Schema that an answer is really validated against.
    pub fn response_schema(&self) -> Arc<Value> {
        if let Some(schema) = &self.schema {
            return Arc::new(schema.clone());
        }
        if let Some(house) = self.house() {
            return Arc::clone(&house.schema);
        }
        Arc::new(match self.kind {
            Kind::Selection => {
                json!({"enum": self.options.iter().map(|option| &option.id).collect::<Vec<_>>()})
            }
            Kind::Clarification
            | Kind::Approval
            | Kind::PlanReview
            | Kind::ToolApproval
            | Kind::OutcomeCheck => json!({"type": "string", "minLength": 1}),
        })
    }

    /// The house's own schema for it, if it goes by one.
    fn house(&self) -> Option<&'static House> {
        match (&self.schema, self.kind) {
            (None, Kind::Approval | Kind::PlanReview | Kind::ToolApproval) => Some(&VERDICT),
            (None, Kind::OutcomeCheck) => Some(&OUTCOME),
            (None, Kind::Clarification) if self.origin == Origin::UserTurn => Some(&USER_TURN),
            (None, Kind::Clarification | Kind::Selection) | (Some(_), _) => None,
        }
    }

    /// The response schema, ready to be checked against.
    fn compiled_schema(&self) -> Arc<Compiled> {
        match self.house() {
            Some(house) => Arc::clone(&house.compiled),
            None => Arc::new(Compiled::of(&self.response_schema())),
        }
    }

    /// Reads an answer: as it is where it fits, else as plain text that can only mean one thing.
    pub fn read(&self, value: &Value) -> Result<Value, Mismatch> {
        if self.is_any_text() {
            return match value {
                Value::String(text) if !text.is_empty() => Ok(value.clone()),
                Value::String(_)
                | Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => {
                    Err(Mismatch { at: String::new(), expected: "a text that is not empty".into() })
                }
            };
        }
        let schema = self.compiled_schema();
        if schema.fits(value) {
            return Ok(value.clone());
        }
        let meant = match value {
            Value::String(text) => self.meant_by(text.trim(), &schema),
            Value::Bool(yes) if self.is_verdict() => Some(self.decision(*yes)),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        };
        match meant {
            Some(meant) if !schema::is_too_deep(&meant) && schema.fits(&meant) => Ok(meant),
            Some(_) | None => Err(self.explain(schema.mismatch(value))),
        }
    }

    /// What an accepted answer to an approval decides.
    pub fn verdict(value: &Value) -> Verdict {
        let decision = value.get("decision").unwrap_or(value);
        let word = decision.as_str().unwrap_or_default();
        if decision.as_bool() == Some(true) || YES.contains(&word) {
            return Verdict::Approved;
        }
        Verdict::Rejected
    }

    /// Whether its answer is a yes or a no, whatever else a schema of its own lets it say.
    pub fn is_verdict(&self) -> bool {
        match self.kind {
            Kind::Approval | Kind::PlanReview | Kind::ToolApproval => true,
            Kind::Clarification | Kind::Selection | Kind::OutcomeCheck => false,
        }
    }

    /// A plain yes or no, in this question's own words.
    fn decision(&self, yes: bool) -> Value {
        let is_gate = matches!(self.origin, Origin::Gate(_));
        let word = match (is_gate, yes) {
            (false, true) => "approve",
            (false, false) => "reject",
            (true, true) => "allow_once",
            (true, false) => "deny",
        };
        json!({"decision": word})
    }

    fn is_any_text(&self) -> bool {
        self.schema.is_none() && self.kind == Kind::Clarification && self.origin != Origin::UserTurn
    }

    fn meant_by(&self, text: &str, schema: &Compiled) -> Option<Value> {
        let word = match text.to_lowercase().as_str() {
            "approve" | "approved" | "allow" | "yes" | "y" => Some(self.decision(true)),
            "reject" | "rejected" | "deny" | "no" | "n" => Some(self.decision(false)),
            word @ ("allow_once" | "allow_for_run") => Some(json!({"decision": word})),
            &_ => None,
        };
        let fits = |word: &Value| self.is_verdict() && schema.fits(word);
        if let Some(word) = word.filter(fits) {
            return Some(word);
        }
        let place = text.parse::<usize>().ok();
        let is_meant = |(index, option): &(usize, &Choice)| {
            option.id.eq_ignore_ascii_case(text)
                || option.label().eq_ignore_ascii_case(text)
                || place == Some(index + 1)
        };
        let mut meant = self.options.iter().enumerate().filter(is_meant);
        match (meant.next(), meant.next()) {
            (Some((_, option)), None) => Some(Value::String(option.id.clone())),
            // K7: what could mean either of two is neither.
            (Some(_), Some(_)) => None,
            (None, _) => schema.read_plain(text).or_else(|| object_in(text)),
        }
    }

    fn explain(&self, mismatch: Mismatch) -> Mismatch {
        let expected = if matches!(self.origin, Origin::Gate(_)) {
            "`allow_once` or `deny`, or {\"decision\": …, \"arguments\": …, \"note\": …} as the \
             response schema says"
                .into()
        } else if self.is_verdict() && self.schema.is_none() {
            "`approve` or `reject`, or {\"decision\": …, \"note\": …}".into()
        } else if !self.options.is_empty() {
            let ids: Vec<_> = self.options.iter().map(|option| option.id.as_str()).collect();
            format!("one of: {}", ids.join(", "))
        } else {
            mismatch.expected
        };
        Mismatch { at: mismatch.at, expected }
    }
}

/// An object that was written out as text: whoever has only text to give can say all of it so.
fn object_in(text: &str) -> Option<Value> {
    if text.starts_with('{') { serde_json::from_str(text).ok() } else { None }
}

fn user_turn_schema() -> Value {
    json!({"anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "maxItems": 0, "description": "an empty list ends the conversation"},
        {"type": "object", "properties": {"verb": {"const": "end"}}, "required": ["verb"], "additionalProperties": false},
    ]})
}

fn verdict_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "decision": {"enum": ["approve", "reject"]},
            "note": {"type": "string"},
        },
        "required": ["decision"],
        "additionalProperties": false,
    })
}

fn outcome_schema() -> Value {
    json!({"anyOf": [
        {"type": "object", "properties": {"verb": {"const": "happened"}, "result": {}}, "required": ["verb", "result"], "additionalProperties": false},
        {"type": "object", "properties": {"verb": {"enum": ["redo", "abort"]}}, "required": ["verb"], "additionalProperties": false},
    ]})
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;
