//! Cast: small workflows for the plays, of all patterns.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::kernel::workflow::{
    Agent, Ends, Handoff, Human, HumanInput, Limits, Model, Patience, Pattern, Retry, ReturnTo,
    Safety, Step, Tool, Work, Workflow,
};
use crate::kernel::{Choice, Kind, OnTimeout};

/// A workflow with these agents, each of which may look up, charge and ask.
pub(super) fn workflow(agents: &[&str], pattern: Pattern) -> Workflow {
    let tool = |safety| Tool {
        secret: Vec::new(),
        description: String::new(),
        provider: "scripted".into(),
        safety,
        tags: Vec::new(),
        parameters: Some(json!({"type": "object", "properties": {"id": {"type": "integer"}}})),
        settings: Value::Null,
    };
    let model = Model { provider: "scripted".into(), settings: Value::Null };
    Workflow {
        secretive: false,
        name: "play".into(),
        description: String::new(),
        input: None,
        limits: Limits::default(),
        models: BTreeMap::from([("m".into(), model)]),
        tools: BTreeMap::from([
            ("lookup".into(), tool(Safety::Pure)),
            ("charge".into(), tool(Safety::Unsafe)),
        ]),
        gates: Vec::new(),
        agents: agents.iter().map(|name| ((*name).to_owned(), agent())).collect(),
        pattern,
        request_types: BTreeMap::new(),
        by_digest: false,
    }
}

fn agent() -> Agent {
    Agent {
        instructions: "Be brief.".into(),
        model: "m".into(),
        tools: vec!["lookup".into(), "charge".into()],
        human_input: HumanInput::default(),
        output: None,
        retry: Retry { attempts: 3, backoff_ms: 1000, backoff_ms_max: 3000 },
    }
}

/// One step after the other, by agents `a` and `b`.
pub(super) fn sequence(steps: Vec<Step>) -> Workflow {
    workflow(&["a", "b"], Pattern::Sequential { steps })
}

/// A step of `agent`, under its own name.
pub(super) fn step(agent: &str) -> Step {
    Step { id: agent.into(), work: Work::Agent { agent: agent.into(), prompt: None } }
}

/// A human step of that kind; a selection is between `x` and `y`.
pub(super) fn human(id: &str, kind: Kind, patience: Patience) -> Step {
    let choice =
        |id: &str| Choice { id: id.into(), label: String::new(), description: String::new() };
    let options = if kind == Kind::Selection { vec![choice("x"), choice("y")] } else { Vec::new() };
    let human = Human {
        kind,
        named: None,
        prompt: "Well?".into(),
        context: Value::Null,
        options,
        response_schema: None,
        show: None,
        decides: false,
        editable: None,
        patience,
    };
    Step { id: id.into(), work: Work::Human(Box::new(human)) }
}

/// Waits for ever.
pub(super) fn forever() -> Patience {
    Patience::default()
}

/// Waits that long, and then does that.
pub(super) fn patience(deadline_ms: u64, on_timeout: OnTimeout) -> Patience {
    Patience { deadline_ms: Some(deadline_ms), on_timeout, ..Patience::default() }
}

/// A graph of these steps, by agents `a` and `b`; each as it is stored.
pub(super) fn graph(steps: &Value) -> Workflow {
    let program = serde_json::from_value(json!({"steps": steps})).expect("a program");
    workflow(&["a", "b"], Pattern::Graph(program))
}

/// The agent `chief`, and `venue` and `budget` as its specialists.
pub(super) fn coordination() -> Workflow {
    workflow(
        &["chief", "venue", "budget"],
        Pattern::Coordinator {
            coordinator: "chief".into(),
            specialists: vec!["venue".into(), "budget".into()],
            synthesis: "Sum up.".into(),
        },
    )
}

/// The terms under which `triage` may hand off to `repair` and `billing`, and `repair` to `billing`.
pub(super) fn terms() -> Handoff {
    Handoff {
        start: "triage".into(),
        handoffs: BTreeMap::from([
            ("triage".into(), vec!["repair".into(), "billing".into()]),
            ("repair".into(), vec!["billing".into()]),
        ]),
        when: BTreeMap::new(),
        after_work: BTreeMap::new(),
        return_to: ReturnTo::Previous,
        ends: Ends::default(),
        autonomous: BTreeMap::new(),
        prompt: "Your turn.".into(),
        patience: Patience::default(),
    }
}

/// A handoff workflow on those terms.
pub(super) fn support(terms: Handoff) -> Workflow {
    workflow(&["triage", "repair", "billing"], Pattern::Handoff(terms))
}
