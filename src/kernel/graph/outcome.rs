//! Outcome: what a step came to, and what is begun; as it is journalled.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::failure::Failure;
use crate::kernel::time::Millis;

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// This.
    Done(Value),
    /// It was passed over, and why.
    Skipped(String),
    /// It failed, and what it is part of with it.
    Failed(Failure),
    /// It failed, and that stops nothing.
    Tolerated(Failure),
    /// A person gave it back, by whom and why: what the agent did before it is done again.
    Returned(String),
}

/// What is begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// The next step of a sequence.
    Step,
    /// A branch.
    Branch,
    /// What is done for one item of a list.
    Item,
    /// A round of a loop.
    Round,
    /// Another workflow's program, and what it is given.
    Scope(Value),
    /// A step's list, as it was found.
    Items(Vec<Value>),
    /// A step's wait.
    Wait {
        /// Until when.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Millis>,
        /// For what external event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
    },
}

/// Where a person looks at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// Before it is begun.
    Before,
    /// When its work is done.
    After,
    /// When its work is done, and is a plan.
    Review,
    /// When it has failed.
    Error,
}
