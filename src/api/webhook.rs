//! Webhook: what the operator's listener is told, and the signature by which it knows that we said it.
//!
//! One call for each thing that happens to a request, and one when a run is over. The id is the
//! event's own: a listener that hears it twice knows by it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::kernel::{Event, Millis, Question, Run, Version};

/// The block of SHA-256, which HMAC pads its key to.
const BLOCK: usize = 64;

/// Whether the operator's listener is told of such an event.
pub fn carries(event: &Event) -> bool {
    kind(event).is_some()
}

fn kind(event: &Event) -> Option<&'static str> {
    match event {
        Event::Asked(_) => Some("request.asked"),
        Event::Answered { .. } => Some("request.answered"),
        Event::Closed { .. } => Some("request.closed"),
        Event::Reminded { .. } => Some("request.reminded"),
        Event::Escalated { .. } => Some("request.escalated"),
        Event::Completed => Some("run.completed"),
        Event::Failed(_) => Some("run.failed"),
        Event::Cancelled { .. } => Some("run.cancelled"),
        Event::Started(_)
        | Event::StepStarted { .. }
        | Event::Delta { .. }
        | Event::Noted { .. }
        | Event::MessageAdded { .. }
        | Event::ToolCalled { .. }
        | Event::ToolReturned { .. }
        | Event::HandedOff { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::StepOpened { .. }
        | Event::Signalled { .. }
        | Event::StepClosed { .. }
        | Event::StepOutcome { .. }
        | Event::Voted { .. }
        | Event::Claimed(_)
        | Event::Delegated(_)
        | Event::Revoked { .. }
        | Event::Renewed { .. }
        | Event::Ruled(_)
        | Event::Stood { .. }
        | Event::Held { .. }
        | Event::CheckpointSaved
        | Event::Parked
        | Event::Output { .. }
        | Event::Warned(_) => None,
    }
}

/// What is told of a signed head of the log of leaves, and the id that it is told under.
pub fn head(note: &str, leaves: u64, at: Millis) -> (String, Value) {
    let id = format!("head_{leaves}");
    let body = json!({
        "id": id, "type": "evidence.head", "time": time(at), "leaves": leaves, "note": note,
    });
    (id, body)
}

/// What is told of an event. `run` has it folded in, and nothing after it.
pub fn body(run: &Run, version: Version, at: Millis, event: &Event) -> Value {
    let mut body = json!({
        "id": run.id.event(version),
        "type": kind(event).unwrap_or_default(),
        "time": time(at),
        "run_id": run.id.as_str(),
        "session_id": run.session.as_str(),
        "workflow_id": run.workflow.name,
        "owner": run.owner,
        "sequence": version,
    });
    let id = |ordinal: u32| run.request(ordinal).to_string();
    match event {
        Event::Asked(question) => {
            let kept = run.questions.get(&question.ordinal).map_or(&**question, |kept| kept);
            body["request"] = request(run, kept);
        }
        Event::Voted { ordinal, .. }
        | Event::Reminded { ordinal, .. }
        | Event::Escalated { ordinal, .. } => {
            if let Some(question) = run.questions.get(ordinal) {
                body["request"] = request(run, question);
            }
        }
        Event::Answered { ordinal, value, by, door, .. } => {
            body["request_id"] = json!(id(*ordinal));
            body["response"] = json!({"value": value, "principal": by, "door": door});
        }
        Event::Closed { ordinal, closing, by, .. } => {
            body["request_id"] = json!(id(*ordinal));
            body["closed"] = json!({"how": closing, "principal": by});
        }
        Event::Failed(failure) => {
            body["failure"] = json!({"code": failure.code, "message": failure.message});
        }
        Event::Cancelled { by, reason, .. } => {
            body["cancelled"] = json!({"principal": by, "reason": reason});
        }
        Event::Completed => body["output"] = run.output.clone().unwrap_or_default(),
        Event::Started(_)
        | Event::StepStarted { .. }
        | Event::Delta { .. }
        | Event::Noted { .. }
        | Event::MessageAdded { .. }
        | Event::ToolCalled { .. }
        | Event::ToolReturned { .. }
        | Event::HandedOff { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::StepOpened { .. }
        | Event::Signalled { .. }
        | Event::StepClosed { .. }
        | Event::StepOutcome { .. }
        | Event::Claimed(_)
        | Event::Delegated(_)
        | Event::Revoked { .. }
        | Event::Renewed { .. }
        | Event::Ruled(_)
        | Event::Stood { .. }
        | Event::Held { .. }
        | Event::CheckpointSaved
        | Event::Parked
        | Event::Output { .. }
        | Event::Warned(_) => {}
    }
    body
}

fn request(run: &Run, question: &Question) -> Value {
    let options = question.options.iter().map(|option| {
        json!({"id": option.id, "label": option.label(), "description": option.description})
    });
    json!({
        "request_id": run.request(question.ordinal).to_string(),
        "kind": question.kind.word(),
        "prompt": question.prompt,
        "context": question.context,
        "options": options.collect::<Vec<_>>(),
        "response_schema": question.response_schema(),
        "source_step": question.step,
        "awaiting_agent": question.agent,
        "to": question.to,
        "asked_at": time(question.asked_at),
        "deadline": question.deadline.and_then(time),
        "on_timeout": question.on_timeout.word(),
        "digest": question.digest,
    })
}

fn time(at: Millis) -> Option<String> {
    let ms = i64::try_from(at.0).ok()?;
    Timestamp::from_millisecond(ms).ok().map(|time| time.to_string())
}

/// The headers of a call: its id, its time in seconds, and the signature over both and the body, as
/// Standard Webhooks has it.
pub fn signed(secret: &[u8], id: &str, at: Millis, body: &[u8]) -> [(&'static str, String); 3] {
    let seconds = (at.0 / 1_000).to_string();
    let mut text = format!("{id}.{seconds}.").into_bytes();
    text.extend_from_slice(body);
    let signature = STANDARD.encode(hmac(secret, &text));
    [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", seconds),
        ("webhook-signature", format!("v1,{signature}")),
    ]
}

/// HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_rfc_4231() {
        let text = |sum: [u8; 32]| STANDARD.encode(sum);
        assert_eq!(
            text(hmac(b"Jefe", b"what do ya want for nothing?")),
            "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="
        );
        assert_eq!(
            text(hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "YOQxWR7gtn8Niiaqy/W3f44LxiE3KMUUBUYEDw7jf1Q="
        );
    }
}
