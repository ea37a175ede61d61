//! Items: what a response is made of, in OpenAI's shapes: messages, function calls, approvals.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::bridge::question_json;
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
    if let Some((tool, arguments)) = question_json::gated(question) {
        return json!({
            "type": "mcp_approval_request",
            "id": request_id,
            "name": tool,
            "arguments": arguments.to_string(),
            "server_label": "holdpoint",
            "request": question_json::request(run, question),
        });
    }
    let mut request = question_json::request(run, question);
    request["conversation"] = question_json::conversation(recent);
    json!({
        "type": "function_call",
        "id": id,
        "call_id": request_id,
        "name": REQUEST_INFO,
        "arguments": json!({"request_id": request_id, "request": request}).to_string(),
        "status": "completed",
    })
}

/// The events that tell a question's item, the arguments of a call in a piece of their own where that is
/// wanted.
pub(super) fn asked(item: &Value, index: usize, by_pieces: bool) -> Vec<Value> {
    let is_call = item["type"] == "function_call";
    let mut first = item.clone();
    if is_call {
        first["status"] = json!("in_progress");
        first["arguments"] = json!("");
    }
    let mut told = vec![json!({
        "type": "response.output_item.added", "output_index": index, "item": first,
    })];
    if is_call && by_pieces {
        told.push(json!({
            "type": "response.function_call_arguments.delta",
            "item_id": item["id"],
            "output_index": index,
            "delta": item["arguments"],
        }));
    }
    if is_call {
        told.push(json!({
            "type": "response.function_call_arguments.done",
            "item_id": item["id"],
            "output_index": index,
            "name": item["name"],
            "arguments": item["arguments"],
        }));
    }
    told.push(json!({
        "type": "response.output_item.done", "output_index": index, "item": item,
    }));
    told
}
