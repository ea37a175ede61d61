//! Memo: what is kept of a task at a remote agent, so that it is found again after a crash.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::Millis;

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memo {
    /// The task there.
    pub(super) task: String,
    /// Its context there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) context: String,
    /// Since when it has been at work: from then on it may take its time.
    pub(super) since: Millis,
    /// The fingerprint of what it asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<String>,
    /// Our call whose answer was sent, or was about to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answered: Option<String>,
}

impl Memo {
    /// What an earlier try noted, if it did.
    pub(super) fn read(memo: Option<&Value>) -> Option<Self> {
        Self::deserialize(memo?).ok()
    }

    /// As it is journalled.
    pub(super) fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
