//! Offer: what an agent is given when it is asked to act, and the tools of the house's own that are among it. When it is
//! asked, and with which words, is worked out in `plan`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::kernel::message::Message;
use crate::kernel::workflow::Workflow;

/// The tool by which every agent may ask a person.
pub const ASK_TOOL: &str = "request_user_input";

/// What the name of a handoff tool begins with.
pub const HANDOFF_PREFIX: &str = "handoff_to_";

/// Everything an agent is given when it is asked to act (K5).
#[derive(Debug, Clone, PartialEq)]
pub struct AgentInput {
    /// Who is asked.
    pub agent: String,
    /// Which of the workflow's models answers.
    pub model: String,
    /// What it is told to be.
    pub instructions: String,
    /// What was said in the session before, the whole conversation as this agent sees it, and what
    /// it is told for this step.
    pub messages: Vec<Arc<Message>>,
    /// Where in them the run's own conversation begins.
    pub begins: usize,
    /// The tools it may call.
    pub tools: Vec<ToolOffer>,
    /// The schema its reply must fit.
    pub output: Option<Value>,
    /// Tries of this turn that failed before; interrupted ones count for nothing.
    pub failures: u32,
    /// The same for every try of this reply, so that the other side can tell (E2).
    pub key: String,
    /// What an earlier try of this turn noted.
    pub memo: Option<Value>,
    /// Where a summary is asked for: of everything before this place of what was said.
    pub summarises: Option<usize>,
}

/// A tool as it is offered to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOffer {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The schema of its arguments.
    pub parameters: Value,
}

/// `request_user_input`, as it is offered.
pub(super) fn ask_offer(workflow: &Workflow) -> ToolOffer {
    let kinds = ["clarification", "selection", "approval"].map(str::to_owned);
    let types: Vec<String> =
        kinds.into_iter().chain(workflow.request_types.keys().cloned()).collect();
    let mut request_type = json!({"enum": types});
    if !workflow.request_types.is_empty() {
        let titles = workflow.request_types.iter();
        let titles: Vec<_> =
            titles.map(|(name, known)| format!("{name}: {}", known.title)).collect();
        request_type["description"] = titles.join("; ").into();
    }
    ToolOffer {
        name: ASK_TOOL.into(),
        description: "Ask the user, and wait for the answer. Only when it is really needed.".into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "minLength": 1},
                "context": {"type": "object"},
                "request_type": request_type,
                "options": {"type": "array", "maxItems": 100, "items": {"anyOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "object", "properties": {
                        "id": {"type": "string", "minLength": 1},
                        "label": {"type": "string"},
                        "description": {"type": "string"},
                    }, "required": ["id"]},
                ]}},
                "response_schema": {
                    "type": "object",
                    "description": "The JSON Schema of the answer to a clarification.",
                },
            },
            "required": ["prompt"],
            "additionalProperties": false,
        }),
    }
}
