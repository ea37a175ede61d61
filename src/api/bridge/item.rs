//! Items: what a response is made of, in OpenAI's shapes: messages, function calls, approvals.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::bridge::ask;
use crate::kernel::{Message, Question, RunId};

/// The function that a pause calls; whoever asked answers with its output.
pub(super) const REQUEST_INFO: &str = "request_info";

/// A part of a message that is text.
pub(super) fn text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// A message of an agent.
pub(super) fn message(id: &str, author: &str, status: &str, content: Option<&str>) -> Value {
    json!({
        "type": "message",
        "id": id,
        "role": "assistant",
        "status": status,
        "content": content.map(text).into_iter().collect::<Vec<_>>(),
        "author_name": author,
    })
}

/// A question: a call of `request_info`, or, where a tool call waits, a request to approve it.
pub(super) fn question(
    id: &str,
    run: &RunId,
    question: &Question,
    recent: &[Arc<Message>],
) -> Value {
    let request_id = question.id(run).to_string();
    if let Some((tool, arguments)) = ask::gated(question) {
        return json!({
            "type": "mcp_approval_request",
            "id": request_id,
            "name": tool,
            "arguments": arguments.to_string(),
            "server_label": "holdpoint",
            "request": ask::request(run, question),
        });
    }
    let mut request = ask::request(run, question);
    request["conversation"] = ask::conversation(recent);
    json!({
        "type": "function_call",
        "id": id,
        "call_id": request_id,
        "name": REQUEST_INFO,
        "arguments": json!({"request_id": request_id, "request": request}).to_string(),
        "status": "completed",
    })
}
