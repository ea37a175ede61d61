//! What is begun, answered and played where two processes share a store, whichever store it is.

use holdpoint::engine::{AnswerRequest, StartRequest};
use holdpoint::kernel::{AgentInput, Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::Actors;

pub(crate) fn start(workflow: &str, session: &str, key: &str) -> StartRequest {
    StartRequest {
        workflow: workflow.into(),
        session: session.into(),
        input: json!("Tell the team."),
        key: key.into(),
        ..StartRequest::default()
    }
}

pub(crate) fn answer(request: &str, value: Value) -> AnswerRequest {
    let answers = vec![(request.to_owned(), value, None)];
    AnswerRequest { answers, ..AnswerRequest::default() }
}

pub(crate) fn writers() -> Actors {
    Actors::default().says("draft", "Dear team").says("send", "Sent.")
}

pub(crate) fn slow_sender() -> Actors {
    writers().slowly("send")
}

/// Pays once, and says so.
pub(crate) fn payer(input: &AgentInput) -> Reply {
    if input.messages.iter().any(|message| message.call_id.is_some()) {
        return Reply { text: "Paid.".into(), ..Reply::default() };
    }
    let call = ToolCall::new("pay-1", "pay", json!({}));
    Reply { calls: vec![call], ..Reply::default() }
}

pub(crate) fn payers() -> Actors {
    Actors::default().plays("worker", payer).tool("pay")
}
