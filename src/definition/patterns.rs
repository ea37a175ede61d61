//! Patterns that are graphs in short: several agents at the same time, and a chat among agents. They
//! are written out as programs here, so that the kernel has one interpreter for all of them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::definition::file::{PatternName, WorkflowFile};
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

/// The program of a file whose pattern is a graph in short.
pub(super) fn program(file: &WorkflowFile) -> Option<Program> {
    let steps = match file.pattern {
        PatternName::Concurrent => concurrent(file.concurrent.as_ref()?),
        PatternName::GroupChat => group_chat(file.group_chat.as_ref()?),
        PatternName::Sequential
        | PatternName::Coordinator
        | PatternName::Handoff
        | PatternName::PlanExecute
        | PatternName::Graph => return None,
    };
    serde_json::from_value(json!({"steps": steps})).ok()
}

pub(super) fn turn(agent: &str) -> Value {
    json!({"id": agent, "task": {"agent": {"agent": agent}}})
}

fn concurrent(terms: &ConcurrentFile) -> Vec<Value> {
    let branch = |agent: &String| json!({"name": agent, "steps": [turn(agent)]});
    let branches: Vec<Value> = terms.agents.iter().map(branch).collect();
    let all = json!({"id": "all", "task": {"parallel": {"branches": branches}}});
    std::iter::once(all).chain(terms.aggregator.iter().map(|agent| turn(agent))).collect()
}

fn group_chat(terms: &GroupChatFile) -> Vec<Value> {
    let count = terms.agents.len();
    let by_order = format!("(round - 1) % {count}");
    let on = if terms.selector.is_some() { "steps.select.next" } else { &by_order };
    let case = |(index, agent): (usize, &String)| {
        let is = if terms.selector.is_some() { json!(agent) } else { json!(index) };
        json!({"is": is, "steps": [turn(agent)]})
    };
    let cases: Vec<Value> = terms.agents.iter().enumerate().map(case).collect();
    let select = terms.selector.as_ref().map(|agent| {
        let output = json!({
            "type": "object",
            "properties": {"next": {"enum": terms.agents}},
            "required": ["next"],
            "additionalProperties": false,
        });
        json!({"id": "select", "task": {"agent": {"agent": agent, "output": output}}})
    });
    let speak = json!({"id": "speak", "task": {"switch": {"on": on, "cases": cases}}});
    let steps: Vec<Value> = select.into_iter().chain([speak]).collect();
    let rounds = terms.rounds;
    let until = match &terms.ends {
        Some(word) => {
            format!("round >= {rounds} || contains(conversation.last, {})", json!(word))
        }
        None => format!("round >= {rounds}"),
    };
    vec![json!({"id": "chat", "task": {"loop": {
        "until": until, "steps": steps, "max_rounds": rounds}}})]
}
