//! Modes: ready-made rules for a policy, by name: what a person is asked about, from nothing to everything. A mode is
//! nothing but gates, and for one of them a lift; whoever wants others writes them down (`custom`).

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::definition::gates::GateFile;
use crate::kernel::Workflow;
use crate::kernel::workflow::Pattern;

/// A ready-made rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ModeFile {
    /// Nobody is asked: every gate of the files is lifted, for the workflows and people that are named.
    Autonomous,
    /// A person lets everything pass: the plan and each of its steps, each step of a graph, each handoff; elsewhere each
    /// reply.
    Manual,
    /// A person reviews the plan.
    PlanOnly,
    /// A person is always asked at the checkpoints: after planning, and before what is tagged `edits`, `executes` or
    /// `deploys`.
    Mandatory,
    /// A person is asked when something is risky, uncertain, complex, or has failed before.
    Smart,
    /// The rule's own gates, and nothing else.
    Custom,
}

/// A place where a person is always asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckpointFile {
    /// When a plan is made.
    AfterPlanning,
    /// Before a tool that is tagged `edits`.
    BeforeFileEdit,
    /// Before a tool that is tagged `executes`.
    BeforeExecution,
    /// Before a tool that is tagged `deploys`.
    BeforeDeploy,
}

impl CheckpointFile {
    const ALL: [Self; 4] =
        [Self::AfterPlanning, Self::BeforeFileEdit, Self::BeforeExecution, Self::BeforeDeploy];

    fn gate(self) -> Value {
        let name = match self {
            Self::AfterPlanning => "after_planning",
            Self::BeforeFileEdit => "before_file_edit",
            Self::BeforeExecution => "before_execution",
            Self::BeforeDeploy => "before_deploy",
        };
        self.tag().map_or_else(|| plan(name), |tag| json!({"name": name, "tags": [tag]}))
    }

    /// The tag of the tools before which it is; none where it is after the planning.
    pub(super) fn tag(self) -> Option<&'static str> {
        match self {
            Self::AfterPlanning => None,
            Self::BeforeFileEdit => Some("edits"),
            Self::BeforeExecution => Some("executes"),
            Self::BeforeDeploy => Some("deploys"),
        }
    }
}

/// The step of a plan's workflow that makes the plan, and the one that each of its steps is.
pub(super) const PLANNING: &str = "planning";
const EXECUTE: &str = "execute";

fn plan(name: &str) -> Value {
    json!({"name": name, "steps": [PLANNING], "at": ["review"]})
}

/// Whether a workflow makes a plan and carries it out.
fn has_plan(workflow: &Workflow) -> bool {
    let Pattern::Graph(program) = &workflow.pattern else { return false };
    let steps = program.all();
    [PLANNING, EXECUTE].iter().all(|id| steps.iter().any(|step| step.id == *id))
}

impl ModeFile {
    /// Whether it lifts what the files ask.
    pub(super) fn lifts(self) -> bool {
        self == Self::Autonomous
    }

    /// The gates that it adds to a workflow.
    pub(super) fn gates(
        self,
        workflow: &Workflow,
        checkpoints: &[CheckpointFile],
    ) -> Vec<GateFile> {
        let written: Vec<Value> = match self {
            Self::Autonomous | Self::Custom => Vec::new(),
            Self::Manual => match &workflow.pattern {
                // A plan passes a person before any of its steps does.
                Pattern::Graph(_) if has_plan(workflow) => {
                    vec![plan("plan"), json!({"name": "manual", "steps": ["*"]})]
                }
                Pattern::Graph(_) => vec![json!({"name": "manual", "steps": ["*"]})],
                Pattern::Handoff(_) => vec![json!({"name": "manual", "handoffs": "any"})],
                Pattern::Sequential { .. } | Pattern::Coordinator { .. } => {
                    vec![json!({"name": "manual", "replies": "any"})]
                }
            },
            Self::PlanOnly => vec![plan("plan")],
            Self::Mandatory => {
                let all = if checkpoints.is_empty() { &CheckpointFile::ALL } else { checkpoints };
                all.iter().map(|checkpoint| checkpoint.gate()).collect()
            }
            Self::Smart => vec![json!({
                "name": "smart", "tools": ["*"], "handoffs": "any", "replies": "any", "when": [
                    {"keywords": ["delete", "production", "deploy", "critical", "irreversible"]},
                    {"environment": ["production"]},
                    "uncertain",
                    {"complex": {"options": 5, "steps": 10}},
                    {"failures_over": 2},
                ],
            })],
        };
        written.iter().filter_map(|gate| GateFile::deserialize(gate).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ready_made_gate_is_one() {
        let workflow = crate::definition::shipped().remove(0).workflow;
        for (mode, count) in [
            (ModeFile::Autonomous, 0),
            (ModeFile::Manual, 1),
            (ModeFile::PlanOnly, 1),
            (ModeFile::Mandatory, 4),
            (ModeFile::Smart, 1),
            (ModeFile::Custom, 0),
        ] {
            assert_eq!(mode.gates(&workflow, &[]).len(), count, "{mode:?}");
        }
    }
}
