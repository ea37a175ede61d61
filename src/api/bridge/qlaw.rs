//! qlaw-cli's own events: how it recognises a pause and a failure. It prints any string that an
//! event carries as `delta`, `text` or `content`, so nothing but text may have such a field.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::bridge::ask;
use crate::kernel::{Failure, Message, Question, RunId};

/// A pause, in the only shape that it knows.
pub(super) fn paused(run: &RunId, question: &Question, recent: &[Arc<Message>]) -> Value {
    json!({
        "type": "response.trace.complete",
        "data": {
            "trace_type": "workflow_info",
            "event_type": "RequestInfoEvent",
            "data": {"request_info": {
                "request_id": question.id(run).to_string(),
                "source_executor_id": question.step,
                "request_type": ask::type_of(question),
                "response_type": "object",
                "response_schema": question.response_schema(),
                "data": ask::handoff(question, recent),
            }},
        },
    })
}

/// A failure; `response.failed` follows.
pub(super) fn failed(why: &Failure) -> Value {
    json!({"type": "error", "message": why.message, "code": why.code, "param": null})
}
