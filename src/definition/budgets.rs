//! Budgets: what a run may spend, as it is written in YAML, and what that means.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::definition::time::LengthOfTime;
use crate::kernel::{Budget, Budgets, OnExceeded, duration_ms};

/// What a run may spend, and what happens when it is spent.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BudgetsFile {
    /// Turns of agents.
    #[schemars(range(min = 1))]
    pub(super) steps: Option<u64>,
    /// Model calls, those that failed included.
    #[schemars(range(min = 1))]
    pub(super) model_calls: Option<u64>,
    /// Tokens, read and written.
    #[schemars(range(min = 1))]
    pub(super) tokens: Option<u64>,
    /// Tool calls.
    #[schemars(range(min = 1))]
    pub(super) tool_calls: Option<u64>,
    /// Time in which the run moves; while it waits for people the clock stands.
    pub(super) wall_time: Option<LengthOfTime>,
    /// `fail` ends the run; `ask` asks a person for as much again. `fail` unless given.
    #[serde(default)]
    pub(super) on_exceeded: OnExceededFile,
    /// With `ask`: how long the question waits; silence is a no.
    pub(super) deadline: Option<LengthOfTime>,
    /// What all runs of a session may spend together.
    #[serde(default)]
    pub(super) session: BudgetFile,
}

/// What all runs of a session may spend together.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BudgetFile {
    /// Turns of agents.
    #[schemars(range(min = 1))]
    pub(super) steps: Option<u64>,
    /// Model calls, those that failed included.
    #[schemars(range(min = 1))]
    pub(super) model_calls: Option<u64>,
    /// Tokens, read and written.
    #[schemars(range(min = 1))]
    pub(super) tokens: Option<u64>,
    /// Tool calls.
    #[schemars(range(min = 1))]
    pub(super) tool_calls: Option<u64>,
    /// Time in which its runs move.
    pub(super) wall_time: Option<LengthOfTime>,
}

/// What happens when a budget is spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnExceededFile {
    /// The run fails.
    #[default]
    Fail,
    /// A person is asked for as much again.
    Ask,
}

impl BudgetsFile {
    /// The budgets that a checked file means.
    pub(super) fn compile(&self) -> Budgets {
        let ms = |time: &Option<LengthOfTime>| time.as_ref().and_then(|time| duration_ms(&time.0));
        let all = &self.session;
        Budgets {
            run: Budget {
                steps: self.steps,
                model_calls: self.model_calls,
                tokens: self.tokens,
                tool_calls: self.tool_calls,
                wall_ms: ms(&self.wall_time),
            },
            session: Budget {
                steps: all.steps,
                model_calls: all.model_calls,
                tokens: all.tokens,
                tool_calls: all.tool_calls,
                wall_ms: ms(&all.wall_time),
            },
            on_exceeded: match self.on_exceeded {
                OnExceededFile::Fail => OnExceeded::Fail,
                OnExceededFile::Ask => OnExceeded::Ask,
            },
            deadline_ms: ms(&self.deadline),
        }
    }
}
