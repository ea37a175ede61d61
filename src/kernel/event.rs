//! Event: what has happened in a run. The stored contract: fields are added, never changed.
//!
//! Every event is one entry of the journal and one event of the public stream, so a sequence
//! number on the wire is a version of the journal (E1).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::claims::{Claimed, Delegated};
use crate::kernel::failure::Failure;
use crate::kernel::graph::{Opening, Outcome};
use crate::kernel::id::Version;
use crate::kernel::message::{Message, ToolCall};
use crate::kernel::principal::Known;
use crate::kernel::question::Question;
use crate::kernel::rules::InForce;
use crate::kernel::spending::Usage;
use crate::kernel::started::Started;
use crate::kernel::time::Millis;
use crate::kernel::tool::Safety;
use crate::kernel::turn::{Judging, Purpose};

/// How a question ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// The deadline passed: silence is a no.
    Rejected,
    /// The deadline passed, and the file says to go on without an answer.
    Passed,
    /// Somebody took it back.
    Withdrawn,
    /// The step that asked was stopped: nothing would come of an answer.
    Moot,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The run came to be.
    Started(Box<Started>),
    /// An attempt of a step was begun: the intent, recorded before the deed.
    StepStarted {
        /// Which of the run's turns, counted from 1.
        turn: u32,
        /// The step.
        step: String,
        /// Who performs it.
        agent: String,
        /// Which try, counted from 1.
        attempt: u32,
        /// Why.
        #[serde(default, skip_serializing_if = "Purpose::is_work")]
        purpose: Purpose,
        /// What the agent is told for this step, where that was worked out when it began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        /// The call that it looks at, where it is a judge's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        judges: Option<Box<Judging>>,
    },
    /// A piece of text, while the agent is still speaking.
    Delta {
        /// The turn.
        turn: u32,
        /// The attempt it belongs to; a later attempt begins anew.
        attempt: u32,
        /// The text.
        text: String,
    },
    /// Whoever works on an attempt noted something to find again after a crash: the id of the task
    /// that a remote agent has begun for us.
    Noted {
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
        /// What; it takes the place of what was noted before.
        memo: Value,
    },
    /// Something was said.
    MessageAdded {
        /// The turn whose reply it is, if it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<u32>,
        /// What was said.
        message: Message,
        /// What it cost.
        #[serde(default, skip_serializing_if = "Usage::is_nothing")]
        usage: Usage,
    },
    /// A tool is about to be called: the intent, recorded before the deed (E2).
    ToolCalled {
        /// The turn.
        turn: u32,
        /// The call.
        call: ToolCall,
        /// What may be done about it after a crash.
        safety: Safety,
        /// The gates that it passed by what somebody had allowed for the run, and who that was.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        granted: Vec<(String, String)>,
    },
    /// A tool's outcome is known.
    ToolReturned {
        /// The turn.
        turn: u32,
        /// The call's id.
        call_id: String,
        /// What came back, or what was wrong.
        value: Value,
        /// Whether it went wrong.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
    },
    /// An agent handed the conversation to another.
    HandedOff {
        /// The turn.
        turn: u32,
        /// The tool call by which it did.
        call_id: String,
        /// Who.
        from: String,
        /// To whom.
        to: String,
    },
    /// A step is done and will never be performed again (E3).
    StepCompleted {
        /// The turn.
        turn: u32,
        /// Its structured output, if it has one.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        output: Value,
    },
    /// An attempt failed.
    StepFailed {
        /// The turn.
        turn: u32,
        /// Which try.
        attempt: u32,
        /// Why.
        failure: Failure,
        /// When it is tried again; never, if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Millis>,
        /// Whether the attempt was merely cut off by a restart, which counts against nobody.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    /// A person is asked.
    Asked(Box<Question>),
    /// A person answered. Once (K2).
    Answered {
        /// Which question.
        ordinal: u32,
        /// What they said, as it was read.
        value: Value,
        /// Who said it.
        by: String,
        /// Through which door.
        door: String,
        /// The caller's idempotency key.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        key: String,
        /// The digest of what was given, where it was read into something else: by this a repeat
        /// is known (K2).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given: Option<String>,
        /// What they went on from, as their door names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The digest of what they decided (K3).
        #[serde(default, skip_serializing_if = "String::is_empty")]
        shown: String,
        /// How they were known; absent where nobody spoke, and before it was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
        /// In whose place they spoke, where that was handed to them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instead_of: Option<String>,
        /// Whether nothing is decided by it: what they changed is asked about in its turn.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        asks_anew: bool,
        /// What the nonces of questions are drawn from, from here on, where the run knows of a secret by it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        seed: String,
    },
    /// A person said their word on a question that needs more than theirs.
    Voted {
        /// Which question.
        ordinal: u32,
        /// What they said, as it was read.
        value: Value,
        /// Who said it.
        by: String,
        /// Through which door.
        door: String,
        /// The caller's idempotency key.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        key: String,
        /// The digest of what was given.
        given: String,
        /// The digest of what they decided (K3).
        shown: String,
        /// The stage that the question is in from here on: a later one, or an earlier one where
        /// somebody's word there no longer counts.
        #[serde(default)]
        stage: u32,
        /// How they were known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
        /// In whose place they spoke, where that was handed to them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instead_of: Option<String>,
        /// Whose earlier words no longer counted when it was said, and in which stage.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        void: Vec<(u32, String)>,
        /// What the nonces of questions are drawn from, from here on, where the run knows of a secret by it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        seed: String,
    },
    /// Somebody says that they are looking at a question, or no longer. That is advice.
    Claimed(Claimed),
    /// Somebody handed their place in a question over, or took it back.
    Delegated(Delegated),
    /// A question ended without an answer.
    Closed {
        /// Which question.
        ordinal: u32,
        /// How.
        closing: Closing,
        /// Who closed it; `timer` at a deadline.
        by: String,
        /// Through which door; empty where it was no person, or before it was written down.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        door: String,
        /// How they were known; absent in the same cases.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
        /// The caller's idempotency key.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        key: String,
    },
    /// Nobody has answered for a while, and whoever should is reminded.
    Reminded {
        /// Which question.
        ordinal: u32,
        /// When it is said again, if it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Millis>,
    },
    /// The deadline passed, and somebody else is asked; the question stays open.
    Escalated {
        /// Which question.
        ordinal: u32,
        /// Who is asked now.
        to: Vec<String>,
        /// When silence becomes a no.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Millis>,
    },
    /// A halt has ended: what would have been due since then is due as much later.
    Stood {
        /// Since when it had stood still.
        since: Millis,
        /// Whether the run as a whole did.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_whole: bool,
        /// Which of its questions did.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        questions: Vec<u32>,
    },
    /// A call was not made, since a halt stands; or it is about to be made after all. Without this nobody would
    /// know after a crash that it did not happen (E2).
    Held {
        /// The turn.
        turn: u32,
        /// The call's id.
        call_id: String,
        /// Whether it is about to be made.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_over: bool,
    },
    /// The store was put back from a backup, or made from an export: what is open and decides is asked
    /// anew by what follows, and what was granted is granted no more. Or what some of it asks was refused
    /// elsewhere: then that alone is asked anew.
    Renewed {
        /// The store's epoch from now on.
        epoch: String,
        /// What the nonces of questions are drawn from, from now on.
        seed: String,
        /// The questions that are asked anew, where it is nothing but that: what they ask was refused in
        /// another run of the family, and the epoch is what it was.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        only: Vec<u32>,
    },
    /// The operator's policy has changed: this is in force of it from here on. What is open stays open.
    Ruled(Box<InForce>),
    /// A tool that was allowed for the rest of the run is so no longer.
    Revoked {
        /// The tool.
        tool: String,
        /// Who said so.
        by: String,
        /// Through which door; empty where it was no person, or before it was written down.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        door: String,
        /// How they were known; absent in the same cases.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
        /// The caller's idempotency key.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        key: String,
    },
    /// A step of a graph, or something within one, was begun.
    #[serde(rename = "opened")]
    StepOpened {
        /// Which: `notify[3]/send`.
        path: String,
        /// As what.
        opening: Opening,
    },
    /// The work of a step of a graph came to this; a gate may still have a say.
    #[serde(rename = "came")]
    StepOutcome {
        /// Which.
        path: String,
        /// To what.
        outcome: Outcome,
    },
    /// A step of a graph is over, and will never be performed again (E3).
    #[serde(rename = "settled")]
    StepClosed {
        /// Which.
        path: String,
        /// What it came to.
        outcome: Outcome,
    },
    /// An external event came.
    Signalled {
        /// Its name.
        name: String,
        /// What came with it.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        value: Value,
        /// Who sent it.
        by: String,
        /// Through which door; empty before it was written down.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        door: String,
        /// How they were known; absent before it was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
        /// The caller's idempotency key.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        key: String,
    },
    /// The run as it stands can be taken up from here, or forked.
    CheckpointSaved,
    /// Nothing is owed but answers, external events or the clock: the run costs nothing until one
    /// comes.
    Parked,
    /// The run has a result.
    Output {
        /// The result.
        value: Value,
    },
    /// Something a person should know that stops nothing.
    Warned(Failure),
    /// The run is over and did what it should.
    Completed,
    /// The run is over and did not.
    Failed(Failure),
    /// The run was stopped.
    Cancelled {
        /// By whom.
        by: String,
        /// Why, if they said.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// Through which door; empty where it was no person, or before it was written down.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        door: String,
        /// How they were known; absent in the same cases.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
        /// The caller's idempotency key.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        key: String,
    },
}

impl Event {
    /// Which question it is about: asked, ended or changed by it.
    pub fn question(&self) -> Option<u32> {
        match self {
            Self::Asked(question) => Some(question.ordinal),
            Self::Answered { ordinal, .. }
            | Self::Closed { ordinal, .. }
            | Self::Voted { ordinal, .. }
            | Self::Reminded { ordinal, .. }
            | Self::Claimed(Claimed { ordinal, .. })
            | Self::Delegated(Delegated { ordinal, .. })
            | Self::Escalated { ordinal, .. } => Some(*ordinal),
            Self::Started(_)
            | Self::MessageAdded { .. }
            | Self::StepStarted { .. }
            | Self::Delta { .. }
            | Self::ToolCalled { .. }
            | Self::ToolReturned { .. }
            | Self::HandedOff { .. }
            | Self::Noted { .. }
            | Self::StepCompleted { .. }
            | Self::StepFailed { .. }
            | Self::Revoked { .. }
            | Self::Renewed { .. }
            | Self::Ruled(_)
            | Self::Stood { .. }
            | Self::Held { .. }
            | Self::StepOpened { .. }
            | Self::StepOutcome { .. }
            | Self::StepClosed { .. }
            | Self::Signalled { .. }
            | Self::CheckpointSaved
            | Self::Parked
            | Self::Output { .. }
            | Self::Warned(_)
            | Self::Completed
            | Self::Failed(_)
            | Self::Cancelled { .. } => None,
        }
    }
}

/// An event with its place in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its place: the sequence number that streams are taken up after.
    pub version: Version,
    /// When it was recorded.
    pub at: Millis,
    /// What happened.
    pub event: Event,
}
