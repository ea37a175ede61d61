//! DevUI's own events: executors as items, pauses with the schema of the answer, facts as traces.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::bridge::{devui_schema, question_json};
use crate::engine::Published;
use crate::kernel::{Closing, Event, Message, Millis, Question, RunId};

/// A pause.
pub(super) fn paused(
    run: &RunId,
    question: &Question,
    recent: &[Arc<Message>],
    (item_id, output_index): (&str, usize),
) -> Value {
    let mut data = question_json::handoff(question, recent);
    let request = question_json::request(run, question);
    for field in
        ["kind", "type", "context", "options", "deadline", "on_timeout", "digest", "action"]
    {
        if let Some(fact) = request.get(field) {
            data[field] = fact.clone();
        }
    }
    json!({
        "type": "response.request_info.requested",
        "request_id": question.id(run).to_string(),
        "source_executor_id": question.step,
        "request_type": question_json::type_of(question),
        "request_data": data,
        // Its page makes the form of the answer from the one, and its other clients read the other.
        "request_schema": devui_schema::of(&question.response_schema()),
        "response_schema": question.response_schema(),
        "item_id": item_id,
        "output_index": output_index,
        "timestamp": question_json::time(Some(question.asked_at)),
    })
}

/// An executor at work, or done with it.
pub(super) fn executor(id: &str, step: &str, turn: u32) -> Value {
    json!({
        "type": "executor_action",
        "id": id,
        "executor_id": step,
        "status": "in_progress",
        "metadata": {"turn": turn},
        "result": null,
        "error": null,
    })
}

/// What happened and is no item: a trace, or a workflow event; a failure is traced in both of its shapes.
pub(super) fn facts(run: &RunId, published: &Published) -> Vec<Value> {
    let mut facts: Vec<Value> = fact(run, published).into_iter().collect();
    if let Event::Failed(why) = &*published.event {
        let error = json!({"error_type": why.code, "message": why.message});
        facts.push(trace("WorkflowErrorEvent", &error, published.at));
    }
    facts
}

#[expect(clippy::too_many_lines, reason = "one arm an event, and nothing else")]
fn fact(run: &RunId, published: &Published) -> Option<Value> {
    let request = |_: u32| published.request.as_ref().map(ToString::to_string).unwrap_or_default();
    let at = published.at;
    match &*published.event {
        Event::Started(started) => {
            Some(trace("WorkflowStartedEvent", &json!({"workflow_id": started.workflow}), at))
        }
        Event::Parked => {
            let state = json!({"state": "IDLE_WITH_PENDING_REQUESTS"});
            Some(trace("WorkflowStatusEvent", &state, at))
        }
        Event::Completed => Some(trace("WorkflowStatusEvent", &json!({"state": "IDLE"}), at)),
        Event::Failed(why) => {
            let state = json!({"state": "FAILED", "code": why.code, "message": why.message});
            Some(trace("WorkflowStatusEvent", &state, at))
        }
        Event::Cancelled { by, reason, .. } => {
            let state = json!({"state": "CANCELLED", "by": by, "reason": reason});
            Some(trace("WorkflowStatusEvent", &state, at))
        }
        Event::Warned(why) => {
            let warning = json!({"code": why.code, "message": why.message});
            Some(trace("WorkflowWarningEvent", &warning, at))
        }
        Event::HandedOff { from, to, .. } => {
            Some(happened("HandoffSentEvent", published, &json!({"source": from, "target": to})))
        }
        Event::ToolCalled { call, .. } => {
            let data = json!({"call_id": call.id, "name": call.tool, "arguments": call.arguments});
            Some(happened("ToolCallEvent", published, &data))
        }
        Event::ToolReturned { call_id, value, failed, .. } => {
            let data = json!({"call_id": call_id, "result": value, "failed": failed});
            Some(happened("ToolResultEvent", published, &data))
        }
        Event::Answered { ordinal, by, door, .. } => {
            let data = json!({"request_id": request(*ordinal), "by": by, "door": door});
            Some(happened("ResponseReceivedEvent", published, &data))
        }
        Event::Closed { ordinal, closing, by, .. } => {
            let how = match closing {
                Closing::Rejected => "rejected",
                Closing::Passed => "passed",
                Closing::Withdrawn => "withdrawn",
                Closing::Moot => "moot",
            };
            let data = json!({"request_id": request(*ordinal), "how": how, "by": by});
            Some(happened("RequestClosedEvent", published, &data))
        }
        Event::CheckpointSaved => {
            let data = json!({"checkpoint_id": run.checkpoint(published.sequence)});
            Some(happened("CheckpointSavedEvent", published, &data))
        }
        Event::Signalled { name, value, by, .. } => {
            let data = json!({"name": name, "payload": value, "by": by});
            Some(happened("SignalReceivedEvent", published, &data))
        }
        Event::StepStarted { .. }
        | Event::StepOpened { .. }
        | Event::StepOutcome { .. }
        | Event::StepClosed { .. }
        | Event::Delta { .. }
        | Event::MessageAdded { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::Asked(_)
        | Event::Noted { .. }
        | Event::Voted { .. }
        | Event::Claimed(_)
        | Event::Delegated(_)
        | Event::Reminded { .. }
        | Event::Stood { .. }
        | Event::Held { .. }
        | Event::Escalated { .. }
        | Event::Revoked { .. }
        | Event::Renewed { .. }
        | Event::Ruled(_)
        | Event::Output { .. } => None,
    }
}

fn trace(event_type: &str, data: &Value, at: Millis) -> Value {
    json!({
        "type": "response.trace.completed",
        "data": {
            "trace_type": "workflow_info",
            "event_type": event_type,
            "data": data,
            "timestamp": question_json::time(Some(at)),
        },
    })
}

fn happened(event_type: &str, published: &Published, data: &Value) -> Value {
    json!({
        "type": "response.workflow_event.completed",
        "data": {
            "event_type": event_type,
            "data": data,
            "executor_id": published.step,
            "timestamp": question_json::time(Some(published.at)),
        },
    })
}
