//! Patterns that are graphs in short: several agents at the same time, and a chat among agents. They
//! are written out as programs here, so that the kernel has one interpreter for all of them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::definition::file::{PatternName, WorkflowFile};
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

/// The program of a file whose pattern is a graph in short.
pub(super) fn program(file: &WorkflowFile) -> Option<Program> {
    let steps = match file.pattern {
        PatternName::Concurrent => concurrent(file.concurrent.as_ref()?),
        PatternName::GroupChat => group_chat(file.group_chat.as_ref()?),
        PatternName::Sequential
        | PatternName::Coordinator
        | PatternName::Handoff
        | PatternName::Graph => return None,
    };
    serde_json::from_value(json!({"steps": steps})).ok()
}

fn turn(agent: &str) -> Value {
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
