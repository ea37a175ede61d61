//! Fault: every way in which a model does not answer, each with a stable code.
//!
//! Knows what a fault means (may another try help, is the server ill), not what is done about it:
//! the attempt retries, the circuit counts, the step's policy has the last word.

use crate::kernel::{AttemptFault, Failure, shortened};
use crate::ports::leave;

/// How much of a provider's own words is passed on: enough to act on, too little to fill a journal.
const WORDS_CHARS_MAX: usize = 400;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    /// The settings cannot be used.
    Settings,
    /// The environment has no key.
    KeyMissing,
    /// Nobody answers, or the connection broke before the reply began.
    Unreachable,
    /// No connection in time.
    TimeoutConnect,
    /// Not a word in time.
    TimeoutFirstToken,
    /// Not done in time.
    TimeoutTotal,
    /// The circuit is open: the server failed too often to be asked again just now.
    CircuitOpen,
    /// The key is not accepted.
    Unauthorized,
    /// Too many requests.
    RateLimited,
    /// The account has nothing left.
    QuotaUsedUp,
    /// No such model, or no such path.
    NotFound,
    /// The request is not accepted.
    Refused,
    /// The conversation does not fit into the model.
    ContextTooLong,
    /// The server failed.
    Unavailable,
    /// The reply broke off.
    CutStream,
    /// What came is not the JSON it should be.
    BadJson,
    /// Nothing was said and nothing called.
    Empty,
    /// An error instead of a reply, under a status that says that all is well.
    ErrorBody,
    /// The reply is larger than may be.
    TooLarge,
    /// The provider's filter stopped the reply.
    Filtered,
    /// The model declined to answer.
    Declined,
    /// A replay was asked for something that was never recorded.
    NotRecorded,
    /// The recording cannot be read or written.
    Recording,
    /// A halt stands, or this server may be taken for dead: nothing was asked.
    NotBegun,
}

impl Code {
    /// The stable word for programs.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Settings => "model.settings",
            Self::KeyMissing => "model.key_missing",
            Self::Unreachable => "model.unreachable",
            Self::TimeoutConnect => "model.timeout_connect",
            Self::TimeoutFirstToken => "model.timeout_first_token",
            Self::TimeoutTotal => "model.timeout_total",
            Self::CircuitOpen => "model.circuit_open",
            Self::Unauthorized => "model.unauthorized",
            Self::RateLimited => "model.rate_limited",
            Self::QuotaUsedUp => "model.quota_used_up",
            Self::NotFound => "model.not_found",
            Self::Refused => "model.refused",
            Self::ContextTooLong => "model.context_too_long",
            Self::Unavailable => "model.unavailable",
            Self::CutStream => "model.cut_stream",
            Self::BadJson => "model.bad_json",
            Self::Empty => "model.empty",
            Self::ErrorBody => "model.error_body",
            Self::TooLarge => "model.too_large",
            Self::Filtered => "model.filtered",
            Self::Declined => "model.declined",
            Self::NotRecorded => "model.not_recorded",
            Self::Recording => "model.recording",
            Self::NotBegun => leave::NOT_BEGUN,
        }
    }

    /// Whether another try may help.
    fn is_retriable(self) -> bool {
        match self {
            Self::Unreachable
            | Self::TimeoutConnect
            | Self::TimeoutFirstToken
            | Self::TimeoutTotal
            | Self::CircuitOpen
            | Self::RateLimited
            | Self::Unavailable
            | Self::CutStream
            | Self::BadJson
            | Self::Empty
            | Self::ErrorBody
            | Self::NotBegun => true,
            Self::Settings
            | Self::KeyMissing
            | Self::Unauthorized
            | Self::QuotaUsedUp
            | Self::NotFound
            | Self::Refused
            | Self::ContextTooLong
            | Self::TooLarge
            | Self::Filtered
            | Self::Declined
            | Self::NotRecorded
            | Self::Recording => false,
        }
    }

    /// Whether the server is ill, rather than the request, the key or the model's mood.
    pub(super) fn is_illness(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::TimeoutConnect
                | Self::TimeoutFirstToken
                | Self::TimeoutTotal
                | Self::Unavailable
                | Self::CutStream
        )
    }
}

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelFault {
    /// What went wrong.
    pub(super) code: Code,
    /// For people.
    pub(super) message: String,
    /// Whether another try may help.
    pub(super) retriable: bool,
    /// How long the server wants to be left alone.
    pub(super) retry_after_ms: Option<u64>,
}

impl ModelFault {
    /// A fault as its code has it.
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        let retriable = code.is_retriable();
        Self { code, message: message.into(), retriable, retry_after_ms: None }
    }

    /// The same, but no further try helps.
    #[must_use]
    pub(super) fn for_good(mut self) -> Self {
        self.retriable = false;
        self
    }

    /// As the engine takes it, with the name of the model that failed.
    pub(super) fn of_model(self, model: &str) -> AttemptFault {
        let message = format!("model `{model}`: {}", self.message);
        AttemptFault { failure: Failure::new(self.code.word(), message), retriable: self.retriable }
    }
}

/// A provider's own words, short enough to be passed on.
pub(super) fn words(text: &str) -> String {
    shortened(text.trim(), WORDS_CHARS_MAX)
}
