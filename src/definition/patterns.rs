//! Patterns that are graphs in short: several agents at the same time, and a chat among agents. They
//! are written out as programs here, so that the kernel has one interpreter for all of them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::definition::graph::PhaseGateFile;
use crate::kernel::graph::Program;

/// Several agents at the same time, and one that brings together what they said.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConcurrentFile {
    /// Who works at the same time.
    #[schemars(length(min = 1, max = 1_000))]
    pub(super) agents: Vec<String>,
    /// Who brings it together; without one the result is what each of them said, by name.
    pub(super) aggregator: Option<String>,
}

/// Agents that speak in turn until somebody says the word, or for so many turns.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupChatFile {
    /// Who takes part.
    #[schemars(length(min = 1, max = 100))]
    pub(super) agents: Vec<String>,
    /// Who says who speaks next; without one they take turns in their order.
    pub(super) selector: Option<String>,
    /// Turns in all.
    #[schemars(range(min = 1, max = 1_000))]
    pub(super) rounds: u32,
    /// The chat is over when somebody says this, whatever its case.
    #[schemars(length(min = 1))]
    pub(super) ends: Option<String>,
}

/// A plan that is made, reviewed, and carried out step by step.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanExecuteFile {
    /// Who says the task again so that it can be planned; nobody unless given.
    pub(super) improver: Option<String>,
    /// Who plans: its reply is `{steps: [{title, details}]}`, unless it has an `output` of its own
    /// in which `steps` is a list.
    pub(super) planner: String,
    /// Who looks at the plan before a person does; nobody unless given.
    pub(super) reviewer: Option<String>,
    /// Where a person looks at the plan; `{mode: plan_review}` unless given, `{mode: never}` where
    /// nobody does.
    pub(super) review: Option<PhaseGateFile>,
    /// Who says which worker carries a step out, or `terminator` where nothing is left to do. Needed
    /// where there are several workers.
    pub(super) controller: Option<String>,
    /// Who carries the steps out.
    #[schemars(length(min = 1, max = 100))]
    pub(super) workers: Vec<String>,
    /// Where a person looks at each step; `{mode: [before_step, on_error]}` unless given.
    pub(super) gate: Option<PhaseGateFile>,
    /// The most steps that a plan may have; 20 unless given.
    #[schemars(range(min = 1, max = 1_000))]
    pub(super) max_steps: Option<u32>,
}

pub(super) fn turn(agent: &str) -> Value {
    json!({"id": agent, "task": {"agent": {"agent": agent}}})
}

/// The program of these steps.
fn program(steps: &[Value]) -> Option<Program> {
    serde_json::from_value(json!({"steps": steps})).ok()
}

impl ConcurrentFile {
    /// It as a program.
    pub(super) fn program(&self) -> Option<Program> {
        program(&self.steps())
    }

    fn steps(&self) -> Vec<Value> {
        let branch = |agent: &String| json!({"name": agent, "steps": [turn(agent)]});
        let branches: Vec<Value> = self.agents.iter().map(branch).collect();
        let all = json!({"id": "all", "task": {"parallel": {"branches": branches}}});
        std::iter::once(all).chain(self.aggregator.iter().map(|agent| turn(agent))).collect()
    }
}

impl GroupChatFile {
    /// It as a program.
    pub(super) fn program(&self) -> Option<Program> {
        program(&self.steps())
    }

    fn steps(&self) -> Vec<Value> {
        let count = self.agents.len();
        let by_order = format!("(round - 1) % {count}");
        let on = if self.selector.is_some() { "steps.select.next" } else { &by_order };
        let case = |(index, agent): (usize, &String)| {
            let is = if self.selector.is_some() { json!(agent) } else { json!(index) };
            json!({"is": is, "steps": [turn(agent)]})
        };
        let cases: Vec<Value> = self.agents.iter().enumerate().map(case).collect();
        let select = self.selector.as_ref().map(|agent| {
            let output = json!({
                "type": "object",
                "properties": {"next": {"enum": self.agents}},
                "required": ["next"],
                "additionalProperties": false,
            });
            json!({"id": "select", "task": {"agent": {"agent": agent, "output": output}}})
        });
        let speak = json!({"id": "speak", "task": {"switch": {"on": on, "cases": cases}}});
        let steps: Vec<Value> = select.into_iter().chain([speak]).collect();
        let rounds = self.rounds;
        let until = match &self.ends {
            Some(word) => {
                format!("round >= {rounds} || contains(conversation.last, {})", json!(word))
            }
            None => format!("round >= {rounds}"),
        };
        vec![json!({"id": "chat", "task": {"loop": {
            "until": until, "steps": steps, "max_rounds": rounds}}})]
    }
}
