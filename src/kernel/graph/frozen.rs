//! Frozen: what a step will do, with everything filled in, as it was when a person was asked.
//!
//! - **K3** After the yes exactly this is done; nothing is filled in again.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kernel::deed::Deed;

/// What a step will do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frozen {
    /// An agent's turn, told this.
    Agent {
        /// Who.
        agent: String,
        /// What it is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
    },
    /// A call of a tool.
    Tool {
        /// Which.
        tool: String,
        /// With what.
        arguments: Value,
        /// What that is, to be compared before it is sent; none in what earlier builds froze.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deed: Option<Box<Deed>>,
    },
    /// Another workflow's program.
    Sub {
        /// Which.
        workflow: String,
        /// What it is given.
        input: Value,
    },
    /// One of several ways, by its name, and the steps on it.
    Branch {
        /// Which.
        branch: String,
        /// The steps.
        steps: Vec<String>,
    },
    /// The same for each of these.
    Items {
        /// The list.
        items: Vec<Value>,
        /// The steps for each.
        steps: Vec<String>,
    },
    /// A wait, as long as this text says.
    Wait {
        /// How long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timer: Option<String>,
    },
    /// These values.
    Values(Value),
    /// Steps that are worked out as they are begun; what they do is asked at gates of their own.
    Steps(Vec<String>),
}

impl Frozen {
    /// As a person is shown it.
    pub(in crate::kernel) fn shown(&self) -> Value {
        match self {
            Self::Agent { agent, prompt } => json!({"agent": agent, "prompt": prompt}),
            Self::Tool { tool, arguments, deed } => called(tool, arguments, deed.as_deref()),
            Self::Sub { workflow, input } => json!({"workflow": workflow, "input": input}),
            Self::Branch { branch, steps } => json!({"branch": branch, "steps": steps}),
            Self::Items { items, steps } => json!({"items": items, "steps": steps}),
            Self::Wait { timer } => json!({"wait": timer}),
            Self::Values(values) => json!({"values": values}),
            Self::Steps(steps) => json!({"steps": steps}),
        }
    }
}

/// A call, as a person is shown it: what, with what, and where it goes if that is outside.
pub(in crate::kernel) fn called(tool: &str, arguments: &Value, deed: Option<&Deed>) -> Value {
    let mut shown = json!({"tool": tool, "arguments": arguments});
    if let Some(deed) = deed.filter(|deed| deed.is_outside()) {
        shown["destination"] = deed.destination.clone().into();
    }
    shown
}
