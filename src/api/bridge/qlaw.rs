//! qlaw-cli's own events: how it recognises a pause, a failure and the end. It prints any string that an
//! event carries as `delta`, `text` or `content`, so nothing but text may have such a field.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::bridge::question_json;
use crate::engine::Published;
use crate::kernel::{Event, Failure, Message, Millis, Question, RunId};

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
                "request_type": question_json::type_of(question),
                "response_type": "object",
                "response_schema": question.response_schema(),
                "data": question_json::handoff(question, recent),
            }},
        },
    })
}

/// A failure; `response.failed` follows.
pub(super) fn failed(why: &Failure) -> Value {
    json!({"type": "error", "message": why.message, "code": why.code, "param": null})
}

/// What happened and is no item: how the run stands, what it warns of, why it failed, and its end.
pub(super) fn facts(run: &RunId, published: &Published) -> Vec<Value> {
    let at = published.at;
    let status = |data: Value| trace("WorkflowStatusEvent", &data, at);
    let end = |event_type: &str| {
        json!({
            "type": "response.workflow_event.complete",
            "data": {
                "event_type": event_type,
                "data": {"run_id": run.to_string()},
                "executor_id": null,
                "timestamp": question_json::time(Some(at)),
            },
        })
    };
    let event = &*published.event;
    if *event == Event::Parked {
        return vec![status(json!({"state": "IDLE_WITH_PENDING_REQUESTS"}))];
    }
    if *event == Event::Completed {
        return vec![status(json!({"state": "IDLE"})), end("WorkflowCompletedEvent")];
    }
    if let Event::Warned(why) = event {
        let warning = json!({"code": why.code, "message": why.message});
        return vec![trace("WorkflowWarningEvent", &warning, at)];
    }
    if let Event::Failed(why) = event {
        let error = json!({"error_type": why.code, "message": why.message});
        let error = trace("WorkflowErrorEvent", &error, at);
        return vec![status(json!({"state": "FAILED"})), error, end("WorkflowFailedEvent")];
    }
    if let Event::Cancelled { by, .. } = event {
        let state = status(json!({"state": "CANCELLED", "by": by}));
        return vec![state, end("WorkflowCancelledEvent")];
    }
    Vec::new()
}

/// A trace as it draws one.
fn trace(event_type: &str, data: &Value, at: Millis) -> Value {
    json!({
        "type": "response.trace.complete",
        "data": {
            "trace_type": "workflow_info",
            "event_type": event_type,
            "data": data,
            "timestamp": question_json::time(Some(at)),
        },
    })
}
