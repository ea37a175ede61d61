//! From a2a: what a remote sends, in either version of the protocol, read with patience: unknown fields
//! are passed over, and what must be there and is not is said.

use serde_json::Value;

use crate::agents::a2a::fault::{Code, RemoteFault};
use crate::kernel::digest;

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Working,
    InputRequired,
    AuthRequired,
    Completed,
    Failed,
    Canceled,
    Rejected,
}

impl State {
    fn parse(word: &str) -> Option<Self> {
        let word = word.strip_prefix("TASK_STATE_").unwrap_or(word);
        match word.to_ascii_lowercase().replace('-', "_").as_str() {
            "submitted" | "working" => Some(Self::Working),
            "input_required" => Some(Self::InputRequired),
            "auth_required" => Some(Self::AuthRequired),
            "completed" => Some(Self::Completed),
            "failed" => Some(Self::Failed),
            "canceled" | "cancelled" => Some(Self::Canceled),
            "rejected" => Some(Self::Rejected),
            _ => None,
        }
    }

    /// Whether the task goes on by itself.
    pub(super) fn is_moving(self) -> bool {
        self == Self::Working
    }
}

/// A task as it stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) context: String,
    pub(super) state: State,
    /// What it says about that.
    pub(super) said: Parts,
    /// Its results.
    pub(super) results: Parts,
    /// Changes with what it says.
    pub(super) fingerprint: String,
}

/// What was said, in words and in data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Parts {
    pub(super) texts: Vec<String>,
    pub(super) data: Vec<Value>,
}

impl Parts {
    /// In words.
    pub(super) fn text(&self) -> String {
        self.texts.join("\n")
    }

    fn add(&mut self, parts: Option<&Value>) {
        for part in parts.and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| part.get(field).and_then(Value::as_str);
            let file = part.get("file").unwrap_or(part);
            let uri = file.get("uri").or_else(|| file.get("url")).and_then(Value::as_str);
            if let Some(text) = text("text") {
                self.texts.push(text.to_owned());
            } else if let Some(data) = part.get("data") {
                self.data.push(data.clone());
            } else if let Some(uri) = uri {
                self.texts.push(uri.to_owned());
            } else {
                let name = text("filename").or_else(|| file.get("name").and_then(Value::as_str));
                self.texts.push(format!("[file {}]", name.unwrap_or("without a name")));
            }
        }
    }
}

/// One thing that a remote tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// The task as it stands.
    Task(Box<Task>),
    /// It answers without a task.
    Message(Parts),
    /// The task stands elsewhere now.
    Status(State),
    /// A piece of a result.
    Artifact(String),
}

/// Reads a response to a message, or an event of a stream.
pub(super) fn told(value: &Value) -> Result<Told, RemoteFault> {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let of =
        |newer: &str, older: &str| value.get(newer).or_else(|| (kind == older).then_some(value));
    if let Some(task) = of("task", "task") {
        return Ok(Told::Task(Box::new(self::task(task)?)));
    }
    if let Some(message) = of("message", "message") {
        let mut parts = Parts::default();
        parts.add(message.get("parts"));
        return Ok(Told::Message(parts));
    }
    if let Some(update) = of("statusUpdate", "status-update") {
        return Ok(Told::Status(state(update)?));
    }
    if let Some(update) = of("artifactUpdate", "artifact-update") {
        let mut parts = Parts::default();
        parts.add(update.pointer("/artifact/parts"));
        return Ok(Told::Artifact(parts.text()));
    }
    Err(bad("what it sent is neither a task nor a message"))
}

/// Reads a task.
pub(super) fn task(value: &Value) -> Result<Task, RemoteFault> {
    let text =
        |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let id = text("id");
    if id.is_empty() {
        return Err(bad("its task has no id"));
    }
    let mut said = Parts::default();
    said.add(value.pointer("/status/message/parts"));
    let mut results = Parts::default();
    for artifact in value.get("artifacts").and_then(Value::as_array).into_iter().flatten() {
        results.add(artifact.get("parts"));
    }
    Ok(Task {
        id,
        context: text("contextId"),
        state: state(value)?,
        said,
        results,
        fingerprint: digest::of(value.get("status").unwrap_or(&Value::Null)),
    })
}

fn state(value: &Value) -> Result<State, RemoteFault> {
    let word = value.pointer("/status/state").and_then(Value::as_str).unwrap_or_default();
    State::parse(word).ok_or_else(|| bad(&format!("its task is in the unknown state `{word}`")))
}

pub(super) fn bad(why: &str) -> RemoteFault {
    RemoteFault::new(Code::BadReply, why)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_versions_say_the_same() {
        let newer = json!({"task": {"id": "t", "contextId": "c",
            "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"parts": [{"text": "Which?"}]}},
            "artifacts": [{"parts": [{"data": {"n": 1}}, {"url": "https://x/y"}]}]}});
        let older = json!({"kind": "task", "id": "t", "contextId": "c",
            "status": {"state": "input-required",
                "message": {"parts": [{"kind": "text", "text": "Which?"}]}},
            "artifacts": [{"parts": [{"kind": "data", "data": {"n": 1}},
                {"kind": "file", "file": {"uri": "https://x/y"}}]}]});
        let (Told::Task(newer), Told::Task(older)) = (told(&newer).unwrap(), told(&older).unwrap())
        else {
            panic!("both are tasks");
        };
        assert_eq!(newer.state, State::InputRequired);
        assert_eq!((&newer.said, &newer.results), (&older.said, &older.results));
        assert_eq!(newer.results.texts, ["https://x/y"]);
        assert_eq!(newer.results.data, [json!({"n": 1})]);
    }

    #[test]
    fn what_is_no_task_is_said_so() {
        for value in [
            json!(null),
            json!({}),
            json!({"task": {"status": {"state": "TASK_STATE_WORKING"}}}),
            json!({"task": {"id": "t", "status": {"state": "TASK_STATE_DREAMING"}}}),
            json!({"kind": "status-update", "status": {}}),
        ] {
            assert_eq!(told(&value).unwrap_err().code, Code::BadReply, "{value}");
        }
    }
}
