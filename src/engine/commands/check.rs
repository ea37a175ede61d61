//! Check: bounds and forms of what a caller sends, before anything is done with it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kernel::{Refusal, RequestId, RunId, SessionId, schema, steers};

/// An input's weight: it is part of every agent's conversation.
const INPUT_BYTES_MAX: usize = 1 << 20;
/// An idempotency key's length: it is a key in the store.
const KEY_BYTES_MAX: usize = 256;
/// Metadata entries, and the bytes of each: labels, not storage.
const METADATA_MAX: usize = 64;
const METADATA_BYTES_MAX: usize = 1_024;
/// What is kept of the reason of a halt: a sentence or two, on every page.
pub(in crate::engine) const REASON_CHARS_MAX: usize = 500;

pub(super) fn parse_run(text: &str) -> Result<RunId, Refusal> {
    if text.is_empty() {
        return Err(Refusal::invalid("run_id", "expected a run's id; ListRuns names them"));
    }
    RunId::parse(text).map_err(|_| Refusal::UnknownRun(shortened(text)))
}

pub(in crate::engine) fn parse_request(field: &str, text: &str) -> Result<RequestId, Refusal> {
    if text.is_empty() {
        return Err(Refusal::invalid(field, "expected a request's id; ListRequests names them"));
    }
    RequestId::parse(text).map_err(|_| Refusal::UnknownRequest(shortened(text)))
}

pub(in crate::engine) fn parse_session(text: &str) -> Result<SessionId, Refusal> {
    SessionId::parse(text).map_err(|bad| Refusal::invalid("session_id", bad.to_string()))
}

/// A caller's words in a message of ours: enough to recognise, not enough to flood a log.
pub(in crate::engine) fn shortened(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

pub(in crate::engine) fn check_key(key: &str) -> Result<(), Refusal> {
    if key.len() > KEY_BYTES_MAX {
        let remedy = format!("at most {KEY_BYTES_MAX} bytes");
        return Err(Refusal::TooLarge { field: "idempotency_key".into(), remedy });
    }
    Ok(())
}

/// Why somebody stops something, or lets it go on.
pub(in crate::engine) fn check_halt_reason(reason: &str) -> Result<(), Refusal> {
    if reason.trim().is_empty() {
        let remedy = "say why: whoever waits for it reads that, and so does the audit";
        return Err(Refusal::invalid("reason", remedy));
    }
    if reason.chars().count() > REASON_CHARS_MAX {
        let remedy = format!("at most {REASON_CHARS_MAX} characters");
        return Err(Refusal::TooLarge { field: "reason".into(), remedy });
    }
    // It is told wherever something stands still: in messages, on pages, in terminals.
    if reason.chars().any(steers) {
        return Err(Refusal::invalid("reason", "say it on one line, without control characters"));
    }
    Ok(())
}

pub(super) fn check_value(field: &str, value: &Value) -> Result<(), Refusal> {
    if schema::is_too_deep(value) {
        let remedy = format!("nest values at most {} deep", schema::DEPTH_MAX);
        return Err(Refusal::invalid(field, remedy));
    }
    let bytes = value.as_str().map_or_else(|| value.to_string().len(), str::len);
    if bytes > INPUT_BYTES_MAX {
        let remedy = format!("at most {INPUT_BYTES_MAX} bytes");
        return Err(Refusal::TooLarge { field: field.into(), remedy });
    }
    Ok(())
}

pub(super) fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let too_long = |(name, value): (&String, &String)| {
        name.len() > METADATA_BYTES_MAX || value.len() > METADATA_BYTES_MAX
    };
    if metadata.len() > METADATA_MAX || metadata.iter().any(too_long) {
        let remedy = format!("at most {METADATA_MAX} entries of {METADATA_BYTES_MAX} bytes each");
        return Err(Refusal::TooLarge { field: "metadata".into(), remedy });
    }
    Ok(())
}

pub(super) fn check_reason(reason: &str) -> Result<(), Refusal> {
    if reason.len() > METADATA_BYTES_MAX {
        let remedy = format!("at most {METADATA_BYTES_MAX} bytes");
        return Err(Refusal::TooLarge { field: "reason".into(), remedy });
    }
    Ok(())
}
