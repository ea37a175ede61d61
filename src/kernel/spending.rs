//! Spending: figures of what was used and spent, and of the most that may be. What happens when that is spent is
//! decided in `budget`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Figures of what a step used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read by the model.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens written by it.
    #[serde(default)]
    pub output_tokens: u64,
}

impl Usage {
    /// Whether there is nothing to store.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Steps begun.
    #[serde(skip_serializing_if = "is_zero")]
    pub steps: u64,
    /// Model calls that came back, with a reply or without.
    #[serde(skip_serializing_if = "is_zero")]
    pub model_calls: u64,
    /// Tokens read and written.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// Tool calls begun.
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u64,
    /// Milliseconds in which the run moved.
    #[serde(skip_serializing_if = "is_zero")]
    pub wall_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Spent {
    /// Whether there is nothing to store.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// The higher of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    fn each(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            steps: of(self.steps, other.steps),
            model_calls: of(self.model_calls, other.model_calls),
            tokens: of(self.tokens, other.tokens),
            tool_calls: of(self.tool_calls, other.tool_calls),
            wall_ms: of(self.wall_ms, other.wall_ms),
        }
    }
}

/// The most that may be spent; what is not given is not bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Tokens, read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Milliseconds in which it moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
}

impl Budget {
    /// Whether nothing is bounded.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens when a budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExceeded {
    /// The run fails.
    #[default]
    Fail,
    /// A person is asked for as much again; silence is a no (K7).
    Ask,
}

/// The budgets of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budgets {
    /// Of one run.
    #[serde(skip_serializing_if = "Budget::is_nothing")]
    pub run: Budget,
    /// Of all runs of a session.
    #[serde(skip_serializing_if = "Budget::is_nothing")]
    pub session: Budget,
    /// What happens when one is spent.
    pub on_exceeded: OnExceeded,
    /// How long a person has to extend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

impl Budgets {
    /// Whether nothing is bounded.
    pub fn is_nothing(&self) -> bool {
        self.run.is_nothing() && self.session.is_nothing()
    }
}

/// Extensions of budgets by people, and the no of one who did not extend.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Extensions {
    /// What is allowed instead, by the budget's name: `run.tokens`.
    pub(super) extended: BTreeMap<String, u64>,
    /// The budget that somebody refused to extend.
    pub(super) refused: Option<String>,
    /// What the session's other runs had spent when somebody was asked last.
    pub(super) beside: Spent,
}
