//! Shape: what 0.3 writes on the JSON-RPC binding: `kind`, lower-case words, files a level deeper.
//! Turned into 1.0's shapes and back; decides nothing.

use serde_json::{Value, json};

use crate::api::a2a::errors::{Outcome, Problem};
use crate::api::a2a::v03::{DEFAULT_PUSH, is_last, typed};
use crate::wire::a2a::{
    Artifact, Content, GetPushConfig, Message, Part, PushAuthentication, PushConfig, Role,
    SendMessage, StreamResponse, Task, TaskState, TaskStatus,
};

/// An event of a stream. `stays` if the stream does not end with a pause.
pub(in crate::api::a2a) fn event(told: StreamResponse, stays: bool) -> Value {
    match told {
        StreamResponse::Task(task) => task_out(*task),
        StreamResponse::Message(message) => message_out(*message),
        StreamResponse::StatusUpdate(update) => {
            json!({
                "kind": "status-update",
                "taskId": update.task_id,
                "contextId": update.context_id,
                "final": is_last(update.status.state, stays),
                "status": status_out(update.status),
            })
        }
        StreamResponse::ArtifactUpdate(update) => json!({
            "kind": "artifact-update",
            "taskId": update.task_id,
            "contextId": update.context_id,
            "artifact": artifact_out(update.artifact),
            "append": update.append,
            "lastChunk": update.last_chunk,
        }),
    }
}

pub(super) fn send_message(mut params: Value) -> Outcome<SendMessage> {
    let message = params.get_mut("message").map(Value::take).unwrap_or_default();
    params["message"] = message_in(message)?;
    if let Some(configuration) = params.get_mut("configuration").and_then(Value::as_object_mut) {
        let blocking = configuration.get("blocking").and_then(Value::as_bool).unwrap_or(true);
        configuration.insert("returnImmediately".into(), json!(!blocking));
        if let Some(push) = configuration.remove("pushNotificationConfig") {
            configuration.insert("taskPushNotificationConfig".into(), json!(config_in(&push)?));
        }
    }
    typed(params)
}

/// A webhook of a task, as this version sends it.
pub(super) fn push_in(params: &Value) -> Outcome<PushConfig> {
    let config = config_in(params.get("pushNotificationConfig").unwrap_or(&Value::Null))?;
    let task_id = params.get("taskId").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(PushConfig { task_id, ..config })
}

/// A webhook: here it may name several schemes, of which the first is meant.
fn config_in(config: &Value) -> Outcome<PushConfig> {
    let text =
        |field: &str| config.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    if !config.is_object() {
        return Err(Problem::invalid("pushNotificationConfig", "expected a webhook"));
    }
    let authentication = config.get("authentication").filter(|proof| proof.is_object());
    let id = text("id");
    Ok(PushConfig {
        id: if id.is_empty() { DEFAULT_PUSH.to_owned() } else { id },
        url: text("url"),
        token: text("token"),
        authentication: authentication.map(|proof| PushAuthentication {
            scheme: proof.pointer("/schemes/0").and_then(Value::as_str).unwrap_or("Bearer").into(),
            credentials: proof
                .get("credentials")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .into(),
        }),
        ..PushConfig::default()
    })
}

/// Which webhook of which task is meant.
pub(super) fn push_named(params: &Value) -> GetPushConfig {
    let text =
        |field: &str| params.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (task_id, id) = (text("id"), text("pushNotificationConfigId"));
    let id = if id.is_empty() { DEFAULT_PUSH.to_owned() } else { id };
    GetPushConfig { task_id, id, ..GetPushConfig::default() }
}

pub(super) fn push_out(config: PushConfig) -> Value {
    let mut out = json!({"id": config.id, "url": config.url});
    if !config.token.is_empty() {
        out["token"] = json!(config.token);
    }
    if let Some(proof) = config.authentication {
        out["authentication"] =
            json!({"schemes": [proof.scheme], "credentials": proof.credentials});
    }
    json!({"taskId": config.task_id, "pushNotificationConfig": out})
}

fn message_in(mut message: Value) -> Outcome<Value> {
    let fields = message
        .as_object_mut()
        .ok_or_else(|| Problem::invalid("params.message", "expected a message"))?;
    let role = match fields.get("role").and_then(Value::as_str) {
        Some("user") => "ROLE_USER",
        Some("agent") => "ROLE_AGENT",
        Some(_) | None => "ROLE_UNSPECIFIED",
    };
    fields.insert("role".into(), json!(role));
    let parts = fields.get_mut("parts").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten() {
        part_in(part);
    }
    Ok(message)
}

/// A file's fields lie a level deeper in this version; texts and data are alike but for `kind`.
fn part_in(part: &mut Value) {
    let Some(file) = part.get_mut("file").map(Value::take) else { return };
    let fields =
        [("bytes", "raw"), ("uri", "url"), ("name", "filename"), ("mimeType", "mediaType")];
    for (old, new) in fields {
        if let Some(value) = file.get(old).filter(|value| !value.is_null()) {
            part[new] = value.clone();
        }
    }
}

pub(super) fn task_out(task: Task) -> Value {
    let mut out = json!({
        "kind": "task",
        "id": task.id,
        "contextId": task.context_id,
        "status": status_out(task.status),
        "artifacts": task.artifacts.into_iter().map(artifact_out).collect::<Vec<_>>(),
        "history": task.history.into_iter().map(message_out).collect::<Vec<_>>(),
    });
    if let Some(metadata) = task.metadata {
        out["metadata"] = Value::Object(metadata);
    }
    out
}

fn status_out(status: TaskStatus) -> Value {
    let mut out = json!({"state": word(status.state)});
    if let Some(message) = status.message {
        out["message"] = message_out(message);
    }
    if let Some(timestamp) = status.timestamp {
        out["timestamp"] = json!(timestamp);
    }
    out
}

fn word(state: TaskState) -> &'static str {
    match state {
        TaskState::Unspecified => "unknown",
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::InputRequired => "input-required",
        TaskState::Rejected => "rejected",
        TaskState::AuthRequired => "auth-required",
    }
}

pub(super) fn message_out(message: Message) -> Value {
    let mut out = json!({
        "kind": "message",
        "messageId": message.message_id,
        "contextId": message.context_id,
        "taskId": message.task_id,
        "role": if message.role == Role::User { "user" } else { "agent" },
        "parts": message.parts.into_iter().map(part_out).collect::<Vec<_>>(),
    });
    if let Some(metadata) = message.metadata {
        out["metadata"] = Value::Object(metadata);
    }
    if !message.extensions.is_empty() {
        out["extensions"] = json!(message.extensions);
    }
    out
}

fn artifact_out(artifact: Artifact) -> Value {
    let parts: Vec<_> = artifact.parts.into_iter().map(part_out).collect();
    json!({"artifactId": artifact.artifact_id, "name": artifact.name, "parts": parts})
}

fn part_out(part: Part) -> Value {
    let file = |field: &str, value: String| {
        let mut file = json!({field: value});
        if !part.filename.is_empty() {
            file["name"] = json!(part.filename);
        }
        if !part.media_type.is_empty() {
            file["mimeType"] = json!(part.media_type);
        }
        json!({"kind": "file", "file": file})
    };
    let mut out = match part.content {
        Content::Text(text) => json!({"kind": "text", "text": text}),
        Content::Raw(bytes) => file("bytes", bytes),
        Content::Url(url) => file("uri", url),
        Content::Data(data) if data.is_object() => json!({"kind": "data", "data": data}),
        // Data is always an object in this version.
        Content::Data(data) => json!({"kind": "data", "data": {"value": data}}),
    };
    if let Some(metadata) = part.metadata {
        out["metadata"] = Value::Object(metadata);
    }
    out
}
