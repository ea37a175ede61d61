//! Coordinator: it and its specialists say who is next, or that the user must be asked; when
//! nobody is next, it sums up.

use serde_json::{Value, json};

use crate::kernel::draft::Draft;
use crate::kernel::pattern::{Move, expired};
use crate::kernel::question::Origin;
use crate::kernel::run::{Heard, Last, Run};
use crate::kernel::terms::Kind;
use crate::kernel::turn::Purpose;

/// What a reply says about the way on. Asking the user comes before the next agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// What the agent has to say.
    pub summary: String,
    /// Who is next.
    pub next_agent: Option<String>,
    /// What the user is asked.
    pub user_prompt: Option<String>,
}

impl Directive {
    /// Reads a reply that fits the schema.
    pub fn read(output: &Value) -> Self {
        let text = |field: &str| {
            let text = output.get(field).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let asks = output.get("user_input_needed").and_then(Value::as_bool) == Some(true);
        let prompt = text("user_prompt").unwrap_or_else(|| "Please provide input.".into());
        Self {
            summary: text("summary").unwrap_or_default(),
            next_agent: text("next_agent"),
            user_prompt: asks.then_some(prompt),
        }
    }
}

/// The schema of a directive.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "summary": {"type": "string"},
            "next_agent": {"type": ["string", "null"]},
            "user_input_needed": {"type": "boolean"},
            "user_prompt": {"type": ["string", "null"]},
        },
        "required": ["summary", "next_agent", "user_input_needed", "user_prompt"],
        "additionalProperties": false,
    })
}

pub(super) fn objection(
    coordinator: &str,
    specialists: &[String],
    may_ask: bool,
    output: &Value,
) -> Option<String> {
    let directive = Directive::read(output);
    if directive.user_prompt.is_some() && !may_ask {
        return Some("the user cannot be asked here; decide by your own judgment".into());
    }
    let next = directive.next_agent?;
    if next == coordinator || specialists.contains(&next) {
        return None;
    }
    Some(format!(
        "there is no agent `{next}`; next_agent is null or one of: {}",
        specialists.join(", ")
    ))
}

pub(super) fn next(run: &Run, coordinator: &str) -> Move {
    let work = |agent: &str| Move::Turn {
        step: agent.to_owned(),
        agent: agent.to_owned(),
        purpose: Purpose::Work,
    };
    match &run.last {
        Last::Started => work(coordinator),
        Last::Turned { purpose: Purpose::Synthesis, output, .. } => {
            Move::Finish(if output.is_null() {
                run.last_words().map_or(Value::Null, |message| Value::String(message.text.clone()))
            } else {
                output.clone()
            })
        }
        Last::Turned { purpose: Purpose::Work | Purpose::Judgement, agent, output, .. } => {
            let directive = Directive::read(output);
            match (directive.user_prompt, directive.next_agent) {
                (Some(prompt), _) => Move::Ask(Box::new(ask(run, agent, prompt))),
                (None, Some(next)) => work(&next),
                (None, None) => Move::Turn {
                    step: coordinator.to_owned(),
                    agent: coordinator.to_owned(),
                    purpose: Purpose::Synthesis,
                },
            }
        }
        Last::Asked { step, agent, reply, .. } => match reply {
            Heard::Answer { .. } | Heard::Nothing => work(agent.as_deref().unwrap_or(coordinator)),
            Heard::Expired => expired(step),
            Heard::Withdrawn(by) => Move::Cancel { by: by.clone() },
        },
    }
}

fn ask(run: &Run, agent: &str, prompt: String) -> Draft {
    let spec = run.workflow.agents.get(agent);
    Draft {
        step: agent.to_owned(),
        agent: Some(agent.to_owned()),
        turn: None,
        origin: Origin::Directive,
        kind: Kind::Clarification,
        prompt,
        context: Value::Null,
        options: Vec::new(),
        schema: None,
        patience: spec.map(|spec| spec.human_input.patience.clone()).unwrap_or_default(),
        subject: None,
        decides: false,
        returns: false,
        editable: None,
        named: None,
    }
}
