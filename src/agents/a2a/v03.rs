//! V03: what is said to an agent of protocol 0.3, and what it says, in the newer shapes.
//!
//! JSON-RPC has shapes of its own there, which `from_a2a` knows; HTTP+JSON and gRPC share the messages of
//! `a2a.v1`, which are turned into those of 1.0 here.

use serde_json::{Map, Value, json};

use crate::agents::a2a::call::Call;

/// A call by JSON-RPC.
pub(super) fn params(call: Call<'_>) -> Value {
    match call {
        Call::Stream(message) => json!({"message": spoken(message)}),
        Call::Send(message) => {
            json!({"message": spoken(message), "configuration": {"blocking": false}})
        }
        Call::Get(id) => json!({"id": id, "historyLength": 0}),
        Call::Subscribe(id) | Call::Cancel(id) => json!({"id": id}),
    }
}

fn spoken(message: &Value) -> Value {
    let mut older = message.clone();
    older["kind"] = json!("message");
    older["role"] = json!("user");
    for part in older["parts"].as_array_mut().into_iter().flatten() {
        let kind = if part.get("text").is_some() { "text" } else { "data" };
        part["kind"] = json!(kind);
    }
    older
}

/// A call as a message of `a2a.v1`.
pub(super) fn message_of(call: Call<'_>) -> Value {
    match call {
        Call::Stream(message) => json!({"message": written(message)}),
        Call::Send(message) => {
            json!({"message": written(message), "configuration": {"blocking": false}})
        }
        Call::Get(id) | Call::Subscribe(id) | Call::Cancel(id) => {
            json!({"name": format!("tasks/{id}")})
        }
    }
}

fn written(message: &Value) -> Value {
    let mut older = message.clone();
    let parts = older.as_object_mut().and_then(|fields| fields.shift_remove("parts"));
    let parts = parts.and_then(|parts| parts.as_array().cloned()).unwrap_or_default();
    let parts = parts.into_iter().map(|part| match (part.get("text"), part.get("data")) {
        (Some(text), _) => json!({"text": text}),
        (None, Some(data)) if data.is_object() => json!({"data": {"data": data}}),
        // Data is always an object in this version.
        (None, data) => json!({"data": {"data": {"value": data}}}),
    });
    older["content"] = parts.collect();
    older
}

/// What an agent says in messages of `a2a.v1`, in the shapes of 1.0.
pub(super) fn newer(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(newer).collect(),
        Value::Object(fields) => {
            let mut fields: Map<_, _> = fields.into_iter().map(renamed).collect();
            if let Some(file) = fields.shift_remove("file") {
                for (old, new) in
                    [("fileWithUri", "url"), ("fileWithBytes", "raw"), ("name", "filename")]
                {
                    if let Some(value) = file.get(old) {
                        fields.insert(new.to_owned(), value.clone());
                    }
                }
            }
            Value::Object(fields)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn renamed((name, value): (String, Value)) -> (String, Value) {
    match name.as_str() {
        "content" => ("parts".into(), newer(value)),
        // What is in there is the agent's own, whatever its fields are called.
        "data" => ("data".into(), value.get("data").cloned().unwrap_or(value)),
        "metadata" => (name, value),
        _ => (name, newer(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_older_protocol_are_read_as_those_of_the_newer() {
        let older = json!({"task": {"id": "t", "status": {"state": "TASK_STATE_INPUT_REQUIRED",
            "message": {"content": [{"text": "Which?"}, {"data": {"data": {"content": [1]}}}]}},
            "artifacts": [{"parts": [{"file": {"fileWithUri": "https://x/y", "name": "y"}}]}]}});
        let newer = newer(older);
        assert_eq!(newer.pointer("/task/status/message/parts/0/text"), Some(&json!("Which?")));
        assert_eq!(
            newer.pointer("/task/status/message/parts/1/data"),
            Some(&json!({"content": [1]}))
        );
        assert_eq!(
            newer.pointer("/task/artifacts/0/parts/0"),
            Some(&json!({"url": "https://x/y", "filename": "y"}))
        );
    }

    #[test]
    fn a_message_is_written_with_its_content() {
        let message = json!({"messageId": "m", "role": "ROLE_USER",
            "parts": [{"text": "Hi"}, {"data": [1]}]});
        let told = message_of(Call::Send(&message));
        assert_eq!(
            told.pointer("/message/content"),
            Some(&json!([{"text": "Hi"}, {"data": {"data": {"value": [1]}}}]))
        );
        assert_eq!(message_of(Call::Get("t")), json!({"name": "tasks/t"}));
    }
}
