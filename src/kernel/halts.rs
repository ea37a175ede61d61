//! Halts: what somebody has stopped, by name. What of a run that stops is said by `halt`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kernel::nested::{is_called, is_within};
use crate::kernel::time::Millis;

/// What is stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything.
    All,
    /// All runs of one workflow.
    Workflow(String),
    /// All calls of one tool.
    Tool(String),
    /// All work of one agent.
    Agent(String),
}

impl Scope {
    /// What it is, in words.
    pub fn words(&self) -> String {
        match self {
            Self::All => "everything".into(),
            Self::Workflow(name) => format!("the workflow `{name}`"),
            Self::Tool(name) => format!("the tool `{name}`"),
            Self::Agent(name) => format!("the agent `{name}`"),
        }
    }

    /// Whether a run of that workflow stands as a whole.
    pub(super) fn holds_run(&self, workflow: &str) -> bool {
        match self {
            Self::All => true,
            Self::Workflow(name) => name == workflow,
            Self::Tool(_) | Self::Agent(_) => false,
        }
    }

    /// Whether it stops this work in a run of that workflow.
    pub(super) fn holds(&self, workflow: &str, agent: &str, tool: Option<&str>) -> bool {
        match self {
            Self::All => true,
            // One that is a step of another: its tools and agents are called after it.
            Self::Workflow(name) => {
                let is_of_it = |called: &str| is_within(called, name);
                self.holds_run(workflow) || is_of_it(agent) || tool.is_some_and(is_of_it)
            }
            Self::Tool(name) => tool.is_some_and(|tool| is_called(tool, name)),
            Self::Agent(name) => is_called(agent, name),
        }
    }
}

/// One halt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Halt {
    /// By what it is taken back.
    pub id: String,
    /// What is stopped.
    pub scope: Scope,
    /// Why, in the words of whoever stopped it.
    pub reason: String,
    /// Who stopped it.
    pub by: String,
    /// Where they said so.
    pub door: String,
    /// Since when.
    pub at: Millis,
    /// Whether it is being taken back: runs are told how long they stood, and then it is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ending: bool,
    /// The caller's idempotency key; empty if it had none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
}

/// Every halt that stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Halts(pub Vec<Halt>);

impl Halts {
    /// The halt by which runs of that workflow stand as a whole, if one does.
    pub fn of_run(&self, workflow: &str) -> Option<&Halt> {
        self.0.iter().find(|halt| halt.scope.holds_run(workflow))
    }

    /// The halt by which nothing at all is done, if one stands.
    pub fn of_all(&self) -> Option<&Halt> {
        self.0.iter().find(|halt| halt.scope == Scope::All)
    }

    /// Whether one stops this work in runs of that workflow.
    pub fn stop(&self, workflow: &str, agent: &str, tool: Option<&str>) -> bool {
        self.0.iter().any(|halt| halt.scope.holds(workflow, agent, tool))
    }
}

/// How long a run has stood, as its journal says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stood {
    /// Up to when the run as a whole was told.
    pub(super) run: Millis,
    /// And each question.
    pub(super) questions: BTreeMap<u32, Millis>,
}
