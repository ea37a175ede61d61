//! Patience: how long a question waits and what silence means then, as it is written in YAML, and what that
//! means. What is asked is not said here.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::definition::time::LengthOfTime;
use crate::kernel::workflow::Patience;
use crate::kernel::{OnTimeout, duration_ms};

/// How long a question waits, and what happens then.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PatienceFile {
    /// How long it waits for an answer; for ever unless given.
    pub(super) deadline: Option<LengthOfTime>,
    /// What silence means at the deadline; `reject` unless given.
    pub(super) on_timeout: Option<OnTimeoutFile>,
    /// How long after the asking, and then again and again, whoever should answer is reminded.
    pub(super) remind: Option<LengthOfTime>,
    /// Whom it is addressed to, people by name, `group:NAME`, `role:NAME`; whoever owns the
    /// session unless given.
    #[serde(default)]
    #[schemars(length(min = 1, max = 32))]
    pub(super) to: Vec<String>,
}

/// What silence means at the deadline.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnTimeoutFile {
    /// No.
    Reject,
    /// Go on without an answer; never for an approval.
    Continue,
    /// This answer; never for an approval.
    DefaultAnswer(Value),
    /// Somebody else is asked; silence is a no after that.
    EscalateTo(EscalateFile),
}

/// Who is asked when the deadline has passed.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EscalateFile {
    /// Whom, by the names of their keys.
    #[schemars(length(min = 1, max = 32))]
    pub(super) to: Vec<String>,
    /// How long they have; for ever unless given.
    pub(super) within: Option<LengthOfTime>,
}

impl OnTimeoutFile {
    pub(super) fn compile(&self) -> OnTimeout {
        match self {
            Self::Reject => OnTimeout::Reject,
            Self::Continue => OnTimeout::Continue,
            Self::DefaultAnswer(value) => OnTimeout::DefaultAnswer(value.clone()),
            Self::EscalateTo(terms) => OnTimeout::EscalateTo {
                to: terms.to.clone(),
                within_ms: terms.within.as_ref().and_then(|time| duration_ms(&time.0)),
            },
        }
    }
}

/// The patience of a deadline and of what silence means at it; whom it is with is added to it.
pub(super) fn patience(
    deadline: Option<&LengthOfTime>,
    on_timeout: Option<&OnTimeoutFile>,
) -> Patience {
    Patience {
        deadline_ms: deadline.and_then(|time| duration_ms(&time.0)),
        on_timeout: on_timeout.map(OnTimeoutFile::compile).unwrap_or_default(),
        ..Patience::default()
    }
}
