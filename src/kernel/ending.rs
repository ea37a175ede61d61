//! Ending: how questions and calls ended, and what can be told from that: who said what, whether a
//! pause is over, what was refused.
//!
//! - **K4** Whoever was told no, or does not know, is not asked again by trying.

use serde::{Deserialize, Serialize};

use crate::kernel::event::{Closing, Event, Failure, Version};
use crate::kernel::operator::Operator;
use crate::kernel::principal::Assurance;
use crate::kernel::run::{Run, Status};

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// Somebody answered.
    Answered(Said),
    /// Nobody did, or it was taken back.
    Closed(Closed),
}

/// Somebody's word, as far as a repeat of it is known by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Who.
    pub by: String,
    /// The idempotency key.
    pub key: String,
    /// The digest of the value as it was given.
    pub given: String,
    /// The version of the event.
    pub version: Version,
    /// Whether it refuses what was asked.
    pub is_no: bool,
    /// How well they were known.
    pub assurance: Assurance,
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

/// Why a tool's own step has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// Whether it may be tried again.
    pub why: NotDone,
    /// In words.
    pub failure: Failure,
}

/// In which way a call was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotDone {
    /// It went wrong.
    Failed,
    /// A person said no, or nobody said yes (K4).
    Denied,
    /// Nobody knows whether it was done.
    Unknown,
    /// What was about to be sent is not what was approved (K3).
    Broken,
}

impl NotDone {
    /// The stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::Failed => "tool.failed",
            Self::Denied => "tool.denied",
            Self::Unknown => "outcome.unknown",
            Self::Broken => crate::kernel::deed::BROKEN,
        }
    }

    /// Whether another try may help. Whoever was told no, or does not know, is not asked again by
    /// trying (K4).
    pub fn may_retry(self) -> bool {
        match self {
            Self::Failed => true,
            Self::Denied | Self::Unknown | Self::Broken => false,
        }
    }
}

impl Run {
    /// Everything that `who` has answered, or voted, in the order of the questions.
    pub fn said_by(&self, who: &str) -> impl Iterator<Item = &Said> {
        let ended = self.endings.iter().filter_map(|ending| match ending {
            Some(Ending::Answered(said)) => Some(said),
            Some(Ending::Closed(_)) | None => None,
        });
        let who = who.to_owned();
        ended.chain(self.voted.iter().map(|(_, said)| said)).filter(move |said| said.by == who)
    }

    /// Whether its `ordinal`-th question was ever asked of `who`, or `who` said something to it: they
    /// may know how it ended (K8).
    pub fn concerned(&self, ordinal: u32, who: &str, operator: &Operator) -> bool {
        let index = usize::try_from(ordinal).ok().and_then(|ordinal| ordinal.checked_sub(1));
        let Some(index) = index else { return false };
        let asked = self.asked_of.get(index).into_iter().flatten();
        let answered = match self.endings.get(index) {
            Some(Some(Ending::Answered(said))) => said.by == who,
            Some(Some(Ending::Closed(_)) | None) | None => false,
        };
        let voted = self.voted.iter().any(|(one, said)| *one == ordinal && said.by == who);
        answered || voted || asked.into_iter().any(|named| operator.means(named, who))
    }

    /// Whether somebody said no to its `ordinal`-th question, or nobody said yes while they could.
    pub fn was_refused(&self, ordinal: u32) -> bool {
        let index = usize::try_from(ordinal).ok().and_then(|ordinal| ordinal.checked_sub(1));
        match index.and_then(|index| self.endings.get(index)?.as_ref()) {
            Some(Ending::Answered(said)) => said.is_no,
            Some(Ending::Closed(Closed::Expired | Closed::Withdrawn)) => true,
            Some(Ending::Closed(Closed::StepOver | Closed::RunOver | Closed::Changed)) | None => {
                false
            }
        }
    }

    /// The version before its last leg: before it was answered last, or before it began.
    pub fn last_leg(&self) -> Version {
        let answered = self.endings.iter().flatten().filter_map(|ending| match ending {
            Ending::Answered(said) => Some(said.version - 1),
            Ending::Closed(_) => None,
        });
        answered.max().unwrap_or(0)
    }

    /// Whether it waits at the pause that the checkpoint at `version` was saved for.
    pub fn is_at(&self, version: Version) -> bool {
        let last = self.checkpoints.last().map(|(saved, _)| *saved);
        matches!(self.status, Status::Waiting { .. }) && last == Some(version)
    }

    /// Whether the pause that the leg after `version` ended in is over: somebody has answered since,
    /// or what it asked was closed.
    pub fn has_gone_on_since(&self, version: Version) -> bool {
        let answered = self.endings.iter().flatten().any(|ending| match ending {
            Ending::Answered(said) => said.version > version + 1,
            Ending::Closed(_) => false,
        });
        let pauses = self.checkpoints.iter().zip(&self.pauses);
        let mut since = pauses.filter(|((saved, _), _)| *saved > version).map(|(_, asks)| *asks);
        let (shown, is_later) = (since.next(), since.next().is_some());
        answered || (shown == Some(true) && (is_later || self.status.is_over()))
    }
}

impl Event {
    /// A question is closed by no person's word: by the clock, or since nothing hangs on it any more.
    pub fn closed_by_itself(ordinal: u32, closing: Closing, by: &str) -> Self {
        let (by, door, known, key) = (by.to_owned(), String::new(), None, String::new());
        Self::Closed { ordinal, closing, by, door, known, key }
    }

    /// The run is stopped by what somebody has said elsewhere: that event says how they were known.
    pub fn cancelled_after(by: String, reason: &str) -> Self {
        let (reason, door, known, key) = (reason.to_owned(), String::new(), None, String::new());
        Self::Cancelled { by, reason, door, known, key }
    }
}
