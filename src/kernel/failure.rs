//! Failure: why something went wrong, and how often: what is told of it, and kept. What follows from it is decided in
//! `attempt`.
//!
//! - **K4** Whoever was told no, or does not know, is not asked again by trying.

use serde::{Deserialize, Serialize};

/// Why something went wrong, in a form that can be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable, for programs: `step.failed`, `step.cap`, `question.rejected` …
    pub code: String,
    /// For people.
    pub message: String,
}

impl Failure {
    /// A failure from its code and its message.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
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

/// How often each tool and each step has failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Failures {
    tools: std::collections::BTreeMap<String, u32>,
    steps: std::collections::BTreeMap<String, u32>,
}

impl Failures {
    /// Calls of that tool that came back with an error.
    pub fn of_tool(&self, tool: &str) -> u32 {
        self.tools.get(tool).copied().unwrap_or_default()
    }

    /// Calls and attempts of that step that did, in whichever round or for whichever item.
    pub fn of_step(&self, step: &str) -> u32 {
        self.steps.get(&step_id(step)).copied().unwrap_or_default()
    }

    /// A call of `tool` in `step` came back with an error.
    pub(super) fn call(&mut self, tool: &str, step: &str) {
        *self.tools.entry(tool.to_owned()).or_default() += 1;
        self.attempt(step);
    }

    /// An attempt of `step` failed.
    pub(super) fn attempt(&mut self, step: &str) {
        *self.steps.entry(step_id(step)).or_default() += 1;
    }
}

/// A step's own id, whichever round or item it is in: of `control[2]/execute` it is `execute`.
fn step_id(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or(path);
    last.split('[').next().unwrap_or(last).to_owned()
}
