//! Command: what may be asked of a run, and what can come of that. What does is worked out in `decide`; every way in which
//! it is declined is in `refusal`.

use serde_json::Value;

use crate::kernel::claims::{Holder, Span};
use crate::kernel::event::Event;
use crate::kernel::failure::Failure;
use crate::kernel::halts::Halt;
use crate::kernel::id::{RequestId, Version};
use crate::kernel::limits::WhenCut;
use crate::kernel::message::ToolCall;
use crate::kernel::principal::Principal;
use crate::kernel::refused::No;
use crate::kernel::schema;
use crate::kernel::spending::Usage;

/// One answer, as it came through a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The question.
    pub request: RequestId,
    /// What was said.
    pub value: Value,
    /// The digest of what the person was shown, if the door has one (K3).
    pub digest: Option<String>,
}

/// What an agent came back with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// What it said.
    pub text: String,
    /// Structured output, where the provider gives it apart from the text.
    pub output: Option<Value>,
    /// The tools it wants called.
    pub calls: Vec<ToolCall>,
    /// What it cost.
    pub usage: Usage,
    /// It was cut short at the most tokens it may have; and what the file says of that.
    pub cut: Option<WhenCut>,
}

impl Reply {
    /// Structured output: given apart, or as JSON in the text.
    pub(super) fn structured(&self, schema: &Value) -> Result<Value, String> {
        let value = match &self.output {
            Some(value) => value.clone(),
            None => serde_json::from_str(self.text.trim()).map_err(|error| {
                format!("the reply is not the JSON that was asked for: {error}")
            })?,
        };
        if schema::is_too_deep(&value) {
            return Err(format!("the reply nests deeper than {}", schema::DEPTH_MAX));
        }
        match schema::check(schema, &value) {
            Ok(()) => Ok(value),
            Err(mismatch) => Err(format!("at `{}`: {mismatch}", mismatch.at)),
        }
    }
}

/// Why an attempt did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFault {
    /// What went wrong.
    pub failure: Failure,
    /// Whether another try may help.
    pub retriable: bool,
}

/// Why a tool call brought nothing home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFault {
    /// What went wrong.
    pub failure: Failure,
    /// Whether the deed may have been done all the same: the answer was lost, not the call (E2).
    pub may_have_happened: bool,
}

/// Who wishes something, and with which idempotency key.
pub(super) type Wish<'a> = (&'a Principal, &'a str);

/// What may be asked of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Take these answers, all of them or none.
    Answer {
        /// The answers.
        answers: Vec<Answer>,
        /// The caller's idempotency key; empty if it has none.
        key: String,
        /// Who speaks.
        principal: Principal,
        /// What nonces are drawn from, from now on, should the run know of its first secret by them.
        seed: String,
    },
    /// Take a question back.
    Withdraw {
        /// The question.
        request: RequestId,
        /// Who speaks.
        principal: Principal,
        /// The caller's idempotency key; empty if it has none.
        key: String,
    },
    /// Say that one is looking at a question, or no longer.
    Claim {
        /// The question.
        request: RequestId,
        /// For how long; let go, if absent.
        span: Option<Span>,
        /// Who speaks.
        principal: Principal,
        /// The caller's idempotency key; empty if it has none.
        key: String,
    },
    /// Hand one's own place in a question over, or take it back.
    Delegate {
        /// The question.
        request: RequestId,
        /// To whom, and for how long; taken back, if absent.
        to: Option<Holder>,
        /// Who speaks.
        principal: Principal,
        /// The caller's idempotency key; empty if it has none.
        key: String,
    },
    /// Take back that a tool was allowed for the rest of the run.
    Revoke {
        /// The tool.
        tool: String,
        /// Who speaks.
        principal: Principal,
        /// The caller's idempotency key; empty if it has none.
        key: String,
    },
    /// Stop the run.
    Cancel {
        /// Why.
        reason: String,
        /// Who speaks.
        principal: Principal,
        /// The caller's idempotency key; empty if it has none.
        key: String,
    },
    /// An external event has come.
    Signal {
        /// Its name.
        name: String,
        /// What comes with it.
        value: Value,
        /// Who speaks.
        principal: Principal,
        /// The caller's idempotency key; empty if it has none.
        key: String,
    },
    /// A piece of an agent's text.
    Delta {
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
        /// The text.
        text: String,
    },
    /// Whoever works on an attempt wants to find something again after a crash.
    Noted {
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
        /// What; it takes the place of what was noted before.
        memo: Value,
    },
    /// An agent replied.
    Replied {
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
        /// What it came back with.
        reply: Reply,
        /// What was asked of it, where that was a summary: of everything before this place.
        summarises: Option<usize>,
    },
    /// An attempt failed.
    AttemptFailed {
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
        /// Why.
        fault: AttemptFault,
    },
    /// A tool came back.
    ToolReturned {
        /// The turn.
        turn: u32,
        /// The call.
        call_id: String,
        /// What it came back with, or why it did not.
        outcome: Result<Value, ToolFault>,
    },
    /// Whatever was under way when the process died is lost; go on from the journal.
    Recover,
    /// A failed run was forked where it failed: go on from there. Whatever it had called and is not
    /// known to touch nothing is asked about first.
    Retry,
    /// The store was put back from a backup, or made from an export.
    Renew {
        /// Its epoch from now on.
        epoch: String,
        /// What nonces are drawn from, from now on.
        seed: String,
    },
    /// These were refused in other runs of the family: what is open and the same says so from now on.
    Recall {
        /// The noes.
        noes: Vec<No>,
        /// What nonces are drawn from, from now on.
        seed: String,
    },
    /// Look at the operator's policy: what of it is in force for the run may have changed.
    Rule,
    /// A call is not made, since a halt stands; or it is about to be.
    Hold {
        /// The turn.
        turn: u32,
        /// The call.
        call_id: String,
        /// Whether it is about to be made.
        is_over: bool,
    },
    /// A halt ends: what would have been due meanwhile is due as much later.
    Stand {
        /// The halt.
        halt: Box<Halt>,
    },
    /// Look at the clock: deadlines and pauses may be over.
    Tick,
}

impl Command {
    /// Who says so, where it is somebody's word.
    pub fn speaker(&self) -> Option<&Principal> {
        match self {
            Self::Answer { principal, .. }
            | Self::Withdraw { principal, .. }
            | Self::Claim { principal, .. }
            | Self::Delegate { principal, .. }
            | Self::Revoke { principal, .. }
            | Self::Cancel { principal, .. }
            | Self::Signal { principal, .. } => Some(principal),
            Self::Delta { .. }
            | Self::Noted { .. }
            | Self::Replied { .. }
            | Self::AttemptFailed { .. }
            | Self::ToolReturned { .. }
            | Self::Recover
            | Self::Retry
            | Self::Renew { .. }
            | Self::Recall { .. }
            | Self::Rule
            | Self::Hold { .. }
            | Self::Stand { .. }
            | Self::Tick => None,
        }
    }
}

/// What a command means.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// These facts.
    Events(Vec<Event>),
    /// Nothing new: the same was asked before, and its outcome begins after this version.
    Repeat {
        /// Where the first call's events begin.
        after: Version,
    },
}
