//! Small workflows, as values.

use std::collections::BTreeMap;

use holdpoint::kernel::Kind;
use holdpoint::kernel::workflow::{
    Agent, Ends, Handoff, Human, HumanInput, Limits, Patience, Pattern, ReturnTo, Safety, Step,
    Tool, Work, Workflow,
};
use serde_json::Value;

fn agent(tools: &[&str]) -> Agent {
    Agent {
        instructions: "Do your part.".into(),
        model: "default".into(),
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        human_input: HumanInput::default(),
        output: None,
        retry: holdpoint::kernel::workflow::Retry::default(),
    }
}

fn workflow(name: &str, agents: &[&str], pattern: Pattern) -> Workflow {
    Workflow {
        secretive: false,
        name: name.into(),
        description: String::new(),
        input: None,
        limits: Limits::default(),
        models: BTreeMap::new(),
        tools: BTreeMap::new(),
        gates: Vec::new(),
        agents: agents.iter().map(|&name| (name.to_owned(), agent(&[]))).collect(),
        pattern,
        request_types: BTreeMap::new(),
        by_digest: false,
    }
}

fn turn(id: &str) -> Step {
    Step { id: id.into(), work: Work::Agent { agent: id.into(), prompt: None } }
}

/// `draft`, then a person's decision, then `send`.
pub(crate) fn approval(patience: Patience) -> Workflow {
    let human = Human {
        named: None,
        kind: Kind::Approval,
        prompt: "Send it?".into(),
        context: Value::Null,
        options: Vec::new(),
        response_schema: None,
        show: None,
        decides: false,
        editable: None,
        patience,
    };
    let decide = Step { id: "decide".into(), work: Work::Human(Box::new(human)) };
    let steps = vec![turn("draft"), decide, turn("send")];
    workflow("approval", &["draft", "send"], Pattern::Sequential { steps })
}

/// One agent and a user who take turns until more than `most` user messages were sent.
pub(crate) fn chat(most: u32) -> Workflow {
    let terms = Handoff {
        when: BTreeMap::new(),
        after_work: BTreeMap::new(),
        start: "host".into(),
        handoffs: BTreeMap::new(),
        return_to: ReturnTo::Previous,
        ends: Ends { user_messages_over: Some(most), last_message_contains: None },
        autonomous: BTreeMap::new(),
        prompt: "And then?".into(),
        patience: Patience::default(),
    };
    workflow("chat", &["host"], Pattern::Handoff(terms))
}

/// One agent with one tool of the given safety.
pub(crate) fn with_tool(safety: Safety) -> Workflow {
    let steps = vec![turn("worker")];
    let mut made = workflow("with_tool", &["worker"], Pattern::Sequential { steps });
    made.agents.insert("worker".into(), agent(&["pay"]));
    let tool = Tool {
        secret: Vec::new(),
        description: "Pays.".into(),
        provider: "test".into(),
        safety,
        tags: Vec::new(),
        parameters: None,
        settings: Value::Null,
    };
    made.tools.insert("pay".into(), tool);
    made
}
