//! Fault: every way in which a remote agent does not do what it was asked, each with a stable code.

use crate::kernel::{AttemptFault, Failure, shortened};
use crate::ports::leave;

/// How much of a remote's own words is passed on: enough to act on, too little to fill a journal.
const WORDS_CHARS_MAX: usize = 400;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    /// The settings cannot be used.
    Settings,
    /// The environment has no key.
    KeyMissing,
    /// The card cannot be used.
    Card,
    /// Nobody answers.
    Unreachable,
    /// The address is not one that may be reached.
    Private,
    /// The key is not accepted.
    Unauthorized,
    /// The request is not accepted.
    Refused,
    /// The remote no longer knows the task.
    TaskLost,
    /// The task failed there.
    Failed,
    /// The task was stopped there.
    Canceled,
    /// The work was not taken on.
    Rejected,
    /// What came is not what the protocol says.
    BadReply,
    /// The task does not come to rest.
    Timeout,
    /// The task is done, and there is nothing in it.
    Empty,
    /// What the remote asks is not answered.
    Unanswered,
    /// A halt stands, or this server may be taken for dead: nothing was sent.
    NotBegun,
}

impl Code {
    /// The stable word for programs.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Settings => "a2a.settings",
            Self::KeyMissing => "a2a.key_missing",
            Self::Card => "a2a.card",
            Self::Unreachable => "a2a.unreachable",
            Self::Private => "a2a.private_address",
            Self::Unauthorized => "a2a.unauthorized",
            Self::Refused => "a2a.refused",
            Self::TaskLost => "a2a.task_lost",
            Self::Failed => "a2a.failed",
            Self::Canceled => "a2a.canceled",
            Self::Rejected => "a2a.rejected",
            Self::BadReply => "a2a.bad_reply",
            Self::Timeout => "a2a.timeout",
            Self::Empty => "a2a.empty",
            Self::Unanswered => "a2a.unanswered",
            Self::NotBegun => leave::NOT_BEGUN,
        }
    }
}

/// Why a remote agent did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RemoteFault {
    /// What went wrong.
    pub(super) code: Code,
    /// For people.
    pub(super) message: String,
}

impl RemoteFault {
    /// A fault from its code and its words.
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// As the engine takes it, with the name of the model that failed. Only silence is worth
    /// another try: everything else is an answer.
    pub(super) fn of_model(self, model: &str) -> AttemptFault {
        AttemptFault {
            failure: Failure::new(
                self.code.word(),
                format!("agent `{model}`: {}", words(&self.message)),
            ),
            retriable: matches!(self.code, Code::Unreachable | Code::NotBegun),
        }
    }
}

/// A remote's own words, short enough to be passed on.
pub(super) fn words(text: &str) -> String {
    shortened(text.trim(), WORDS_CHARS_MAX)
}
