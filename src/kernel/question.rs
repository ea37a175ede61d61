//! Question: what a person is asked, bound by digest to exactly what they were shown.
//!
//! This is the heart of the product: who is asked what, and how that can end. How an answer is read
//! is said in `reading`; what an answer leads to is the pattern's, and what silence means is among the `terms`.
//!
//! A question is one of two sorts. A *decision* lets something happen, or not; every other question
//! is *conversation*: it collects words. What follows from that (who may answer, and how an answer
//! must name its question) is said in `approvers` and `binding`.
//!
//! - **K3** What was shown is what happens: the digest is over everything that a person decides by
//!   and on, and an answer is accepted only against it.
//! - **K7** Nothing fails open: an ambiguous answer is refused, and silence never approves.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::aside::Aside;
use crate::kernel::choice::Choice;
use crate::kernel::claims::{Claim, Delegation};
use crate::kernel::graph::{Frozen, Point, called};
use crate::kernel::halts::Still;
use crate::kernel::message::ToolCall;
use crate::kernel::named::Named;
use crate::kernel::principal::Assurance;
use crate::kernel::refused::Refused;
use crate::kernel::said::{Said, Vote};
use crate::kernel::secret;
use crate::kernel::terms::{Kind, Level, OnTimeout, Stage};
use crate::kernel::time::Millis;
use crate::kernel::verb::Verb;

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
#[expect(clippy::struct_excessive_bools, reason = "each is a word of its own in the journal")]
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
    /// The request type that it is of, where its file names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<Box<Named>>,
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
    /// Up to when its clock was told that it stood still; set when events are folded in.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub stood_to: Millis,
    /// That its clock stands still as it is shown; never said where it is kept.
    #[serde(skip)]
    pub still: Option<Still>,
    /// What silence means.
    #[serde(default, skip_serializing_if = "is_reject")]
    pub on_timeout: OnTimeout,
    /// Whom it is addressed to; empty for whoever may see the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Whom it was asked of before others were asked as well; changed when events are folded in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked_before: Vec<String>,
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
    /// Whether it decides although its kind alone would not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decides: bool,
    /// What is decided, frozen when it was asked; where that is not the call of a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Box<Subject>>,
    /// Who is asked, one stage after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// Which stage it is in, counted from 0; changed when events are folded in.
    #[serde(default, skip_serializing_if = "is_first")]
    pub stage: u32,
    /// How many levels of the stage have been asked as well; changed when events are folded in.
    #[serde(default, skip_serializing_if = "is_first")]
    pub level: u32,
    /// What has been said so far by those it admits; changed when events are folded in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
    /// Who changed what is now asked; empty if nobody did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub editor: String,
    /// In whose place they did so; empty for their own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub editor_for: String,
    /// How well they were known.
    #[serde(default, skip_serializing_if = "Assurance::is_proven")]
    pub editor_assurance: Assurance,
    /// The service that changed it for them, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub editor_service: Option<String>,
    /// Who has taken part in its run, where a stage excludes them; set when events are folded in.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "barred")]
    pub participants: Vec<String>,
    /// Whom the stages that it has left were asked of; changed when events are folded in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<(u32, Vec<String>)>,
    /// Whose place somebody else holds; changed when events are folded in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<Delegation>,
    /// Who is looking at it, as they say; changed when events are folded in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Whether it may be returned to the agent whose work it is about.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub returns: bool,
    /// What a version of what is decided must look like, where one may be put in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub editable: Option<Value>,
    /// Whether a decision is answered only with its digest: its id or its code alone is not enough.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_digest: bool,
    /// Where the arguments of what is decided have secrets, as JSON pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Where they have what is for those who decide alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confided: Vec<String>,
    /// Whether the veil hides something in it from whoever is shown it; never so where it is kept. What nobody is to
    /// read of a call is hidden besides (`is_masked`).
    #[serde(skip)]
    pub is_veiled: bool,
    /// What those who decide are shown of it, where others are shown less; never where it is kept.
    #[serde(skip)]
    pub aside: Aside<Question>,
    /// Of a call whose outcome was lost: whether those it asks decided over that very call, and so are shown it; all
    /// others see masks in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub knows_call: bool,
    /// The gates at which the call was allowed before, while another had let it pass by a grant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<String>,
    /// Where the same was refused before, in other runs of the family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// By whom, and at which door, the leg of the run was begun that ended in it; set when the event
    /// is folded in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leg: Option<Leg>,
    /// What nobody can guess of it; set when the event is folded in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nonce: String,
    /// The digest of what is asked (K3); set when the event is folded in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

/// What is decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A text or a value: whoever goes on from it is given exactly this.
    Shown(Value),
    /// What a step will do, with everything filled in: exactly this is done.
    Task(Frozen),
}

/// Who began a leg of a run, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    /// Who.
    pub by: String,
    /// Through which door.
    pub door: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_unset(at: &Millis) -> bool {
    at.0 == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_first(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_none_yet(count: &usize) -> bool {
    *count == 0
}

fn is_reject(on_timeout: &OnTimeout) -> bool {
    *on_timeout == OnTimeout::Reject
}

impl Question {
    /// A question of that kind, of which nothing else is said yet.
    pub fn bare(kind: Kind, origin: Origin) -> Self {
        Self {
            ordinal: 1,
            step: String::new(),
            agent: None,
            turn: None,
            origin,
            kind,
            named: None,
            prompt: String::new(),
            context: Value::Null,
            options: Vec::new(),
            schema: None,
            deadline: None,
            stood_to: Millis(0),
            still: None,
            on_timeout: OnTimeout::Reject,
            to: Vec::new(),
            asked_before: Vec::new(),
            remind_ms: None,
            remind_at: None,
            asked_at: Millis(0),
            messages: 0,
            decides: false,
            subject: None,
            stages: Vec::new(),
            stage: 0,
            level: 0,
            votes: Vec::new(),
            editor: String::new(),
            editor_for: String::new(),
            editor_assurance: Assurance::default(),
            editor_service: None,
            participants: Vec::new(),
            reached: Vec::new(),
            delegations: Vec::new(),
            claim: None,
            returns: false,
            editable: None,
            by_digest: false,
            secrets: Vec::new(),
            confided: Vec::new(),
            is_veiled: false,
            aside: Aside::default(),
            knows_call: false,
            passed: Vec::new(),
            refused: Vec::new(),
            leg: None,
            nonce: String::new(),
            digest: String::new(),
        }
    }

    /// Whether its deadline has passed: never, as long as its clock stands still.
    pub fn is_overdue(&self, now: Millis) -> bool {
        self.still.is_none() && self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Who is asked as well if nobody has answered by its deadline.
    pub fn next_level(&self) -> Option<&Level> {
        self.current_stage()?.escalate.get(usize::try_from(self.level).ok()?)
    }

    /// What silence means, in the word used on the wire.
    pub fn silence(&self) -> &'static str {
        if self.next_level().is_some() { "escalate_to" } else { self.on_timeout.word() }
    }

    /// Whether it lets something happen, or not. Words alone never answer such a one (K9).
    pub fn decides(&self) -> bool {
        match self.kind {
            Kind::Approval | Kind::PlanReview | Kind::ToolApproval | Kind::OutcomeCheck => true,
            Kind::Clarification | Kind::Selection => self.decides,
        }
    }

    /// The gates that stopped the call that it is about, by their names.
    pub fn rules(&self) -> BTreeSet<&str> {
        if !matches!(self.origin, Origin::Gate(_)) {
            return BTreeSet::new();
        }
        let named = self.context.get("gates").and_then(Value::as_array).into_iter().flatten();
        named.filter_map(Value::as_str).collect()
    }

    /// What may be said to it, in the order in which it is offered; nothing where words are asked for.
    pub fn verbs(&self) -> Vec<Verb> {
        match (&self.origin, self.kind) {
            (Origin::Phase(_), _) => {
                self.options.iter().filter_map(|option| Verb::parse(&option.id)).collect()
            }
            (Origin::Gate(_), _) => {
                let offered = self.schema.as_ref();
                let offered =
                    offered.and_then(|schema| schema.pointer("/properties/decision/enum"));
                let words = offered.and_then(Value::as_array).into_iter().flatten();
                words.filter_map(|word| Verb::parse(word.as_str()?)).collect()
            }
            (_, Kind::OutcomeCheck) => vec![Verb::Happened, Verb::Redo, Verb::Abort],
            (_, Kind::Approval | Kind::PlanReview | Kind::ToolApproval)
                if self.editable.is_some() =>
            {
                edit_verbs(self.returns)
            }
            (_, Kind::Approval | Kind::PlanReview | Kind::ToolApproval) if self.returns => {
                vec![Verb::Approve, Verb::Reject, Verb::Return]
            }
            (_, Kind::Approval | Kind::PlanReview | Kind::ToolApproval) => {
                vec![Verb::Approve, Verb::Reject]
            }
            (_, Kind::Clarification | Kind::Selection) => Vec::new(),
        }
    }

    /// What is decided, as a person is shown it; null where words are asked for and nothing is shown.
    pub fn shown(&self) -> Value {
        let mut shown = self.decided();
        secret::replace(&mut shown, "/arguments", &self.secrets, &secret::mask);
        shown
    }

    /// What is decided, with a salted hash in the place of each secret.
    pub(super) fn shown_salted(&self) -> Value {
        let mut shown = self.decided();
        for secrets in [&self.secrets, &self.confided] {
            let salted = |it: &Value| secret::salted(it, &self.nonce);
            secret::replace(&mut shown, "/arguments", secrets, &salted);
        }
        shown
    }

    pub(super) fn decided(&self) -> Value {
        match (self.subject.as_deref(), &self.origin) {
            (Some(Subject::Shown(value)), _) => value.clone(),
            (Some(Subject::Task(frozen)), _) => frozen.shown(),
            (None, Origin::Gate(call)) => called(&call.tool, &call.arguments, call.deed.as_deref()),
            (None, Origin::Phase(_)) => {
                let facts = ["plan", "output", "failure", "task"];
                let found = facts.iter().find_map(|name| self.context.get(*name));
                found.cloned().unwrap_or_default()
            }
            (None, Origin::LostOutcome(_) | Origin::Budget(_)) => self.context.clone(),
            (
                None,
                Origin::UserTurn | Origin::Directive | Origin::ToolCall(_) | Origin::HumanStep,
            ) => Value::Null,
        }
    }
}

/// Why a question does not admit somebody, as they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyNot {
    /// It is addressed to others.
    NotAsked,
    /// They are asked in a stage that has not come.
    Later,
    /// They asked for it themselves, and it excludes whoever did.
    AskedForIt,
    /// They changed it, and it excludes whoever did.
    ChangedIt,
    /// They took part in the run, and it excludes whoever did.
    TookPart,
}

impl std::fmt::Display for WhyNot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotAsked => "is not among them",
            Self::Later => "is asked later, in a stage that has not come yet",
            Self::AskedForIt => "asked for it, and is excluded: somebody else must decide",
            Self::ChangedIt => "changed it, and is excluded: somebody else must decide",
            Self::TookPart => "took part in the run, and is excluded: somebody else must decide",
        })
    }
}

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// Somebody answered.
    Answered(Said),
    /// Nobody did, or it was taken back.
    Closed(Closed),
}

/// How a question ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Closed {
    /// Its deadline passed.
    Expired,
    /// Somebody took it back.
    Withdrawn,
    /// The step that asked was stopped.
    StepOver,
    /// Its run is over.
    RunOver,
    /// What was asked was changed, and is asked anew.
    Changed,
}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Expired => "its deadline has passed",
            Self::Withdrawn => "it was withdrawn",
            Self::StepOver => "its step is over",
            Self::RunOver => "its run is over",
            Self::Changed => "what it asked was changed, and is asked anew",
        })
    }
}

/// What may be said where what is asked may be changed, in the order in which it is offered.
pub(super) fn edit_verbs(returns: bool) -> Vec<Verb> {
    let verbs = [Verb::Approve, Verb::Edit, Verb::Reject];
    verbs.into_iter().chain(returns.then_some(Verb::Return)).collect()
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;
