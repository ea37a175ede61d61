//! Done: a deed of an earlier run, as a fork of it knows of it. What is told of it, and for how long, is `redone`'s.

use serde::{Deserialize, Serialize};

use crate::kernel::id::RunId;
use crate::kernel::time::Millis;

/// That something was done in the world, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The run that it was done in.
    pub run: RunId,
    /// What was called.
    pub tool: String,
    /// With what, in short, and with masks in the place of all that was secret in that run.
    pub arguments: String,
    /// When.
    pub at: Millis,
}

impl Done {
    /// In words.
    pub fn words(&self) -> String {
        let Self { run, tool, arguments, at } = self;
        format!("`{tool}` was called in run {run} on {} with {arguments}", at.date())
    }

    /// Whether that call would be the same once more, as far as can be told without what is secret in it.
    pub fn is(&self, tool: &str, arguments: &str) -> bool {
        self.tool == tool && self.arguments == arguments
    }
}
