//! Terms: on which terms a person is asked (what kind of question it is, who is asked, how long it waits and what
//! silence means then), and how often an attempt is made. What is asked is not said here, nor whom it admits in the end.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::principal::Assurance;

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

/// Who is never admitted, however they are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Excluded {
    /// Whoever asked for it: who started the run, or forked it, and whoever that was for.
    Requester,
    /// Whoever changed what is now asked.
    Editor,
    /// Whoever has answered something else in the run.
    Participant,
}

/// Who is asked, and how many of them must agree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stage {
    /// The rules that this satisfies, by their names; none for a step's own question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Whom it is addressed to: names, `group:…`, `role:…`; empty for whoever may answer there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Whom it never admits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not: Vec<Excluded>,
    /// How many people must say the same.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub need: u32,
    /// How long they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
    /// Who is asked as well when that time is up, level by level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<Level>,
    /// How well they must be known; as the operator says, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assurance: Option<Assurance>,
}

/// Who is asked as well, and how long all of them then have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Whom.
    pub to: Vec<String>,
    /// How long; for ever, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_one(need: &u32) -> bool {
    *need == 1
}

/// How long a question waits, and what happens then.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Patience {
    /// Milliseconds from the asking to the deadline; none waits for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// What silence means.
    #[serde(default)]
    pub on_timeout: OnTimeout,
    /// How long after the asking, and then again and again, a reminder is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind_ms: Option<u64>,
    /// Whom the question is addressed to; empty for whoever owns the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Whom it never admits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not: Vec<Excluded>,
    /// How well whoever decides must be known; as the operator says, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assurance: Option<Assurance>,
    /// Who is asked, stage by stage, in place of `to`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Stage>,
    /// Whether a decision is answered only with the digest of what was shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_digest: bool,
}

impl Patience {
    /// The one stage that there is where no others were written down.
    pub(super) fn only_stage(&self) -> Stage {
        Stage {
            rules: Vec::new(),
            to: self.to.clone(),
            not: self.not.clone(),
            need: 1,
            within_ms: self.deadline_ms,
            escalate: Vec::new(),
            assurance: self.assurance,
        }
    }
}

/// What happens when an attempt fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Tries in all, the first included.
    pub attempts: u32,
    /// Pause before the second try; doubles with every further one.
    pub backoff_ms: u64,
    /// The pause never grows beyond this.
    pub backoff_ms_max: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 3, backoff_ms: 500, backoff_ms_max: 60_000 }
    }
}

/// That whoever decides may put a version of their own in the place of what they were shown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Editable {
    /// The JSON Schema of a version; the shape of what was shown, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}
