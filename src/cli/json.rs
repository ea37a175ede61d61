//! Json: the wire's shapes as JSON, for `--json`, by their descriptors: a field that is added to the proto is
//! told without a word here. The names are the proto's own, statuses and kinds are words, times are
//! RFC 3339, and what is absent is null. It is not protobuf's own JSON, which leaves defaults out.

use prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage as _};
use prost_types::Timestamp;
use serde_json::{Map, Value};

use crate::api::form::ordered;
use crate::wire::json::Json;
use crate::wire::proto_json;
use crate::wire::v1;
use crate::wire::v1::{RequestKind, RunStatus, WorkflowEvent};

/// A message of ours that commands print.
pub(super) trait Named: Message {
    /// Its name in the proto.
    const NAME: &'static str;
}

macro_rules! named {
    ($($message:ident),* $(,)?) => {
        $(impl Named for v1::$message {
            const NAME: &'static str = concat!("holdpoint.v1.", stringify!($message));
        })*
    };
}

named!(
    AuditEntry,
    BrokenFile,
    Checkpoint,
    Grant,
    Halt,
    KeptHead,
    Message,
    Request,
    RequestClosed,
    RuleInForce,
    Run,
    Session,
    Workflow,
    WorkflowEvent,
    WorkflowWaiting,
);

/// A message, whole.
pub(super) fn of<M: Named>(message: &M) -> Value {
    // Ours are all in the descriptors that were compiled with them.
    proto_json::dynamic(M::NAME, message).map_or(Value::Null, |message| object(&message))
}

/// Messages, each whole.
pub(super) fn all<M: Named>(messages: &[M]) -> Vec<Value> {
    messages.iter().map(of).collect()
}

/// An event: who, when, its `type`, and under that name what happened.
pub(super) fn event(event: &WorkflowEvent) -> Value {
    let (name, body) = body(event);
    let bare = WorkflowEvent { event: None, ..event.clone() };
    let mut json = of(&bare);
    json["type"] = name.as_str().into();
    json[name] = body;
    json
}

/// The name of an event, and what it says.
pub(super) fn body(event: &WorkflowEvent) -> (String, Value) {
    let of_event = WorkflowEvent { event: event.event.clone(), ..WorkflowEvent::default() };
    let told = proto_json::dynamic(WorkflowEvent::NAME, &of_event).ok();
    let one = told.as_ref().and_then(|told| {
        let mut fields = told.fields();
        fields.find(|(field, _)| field.containing_oneof().is_some())
    });
    match one {
        Some((field, value)) => (field.name().to_owned(), single(&field.kind(), value)),
        None => ("unknown".to_owned(), Value::Null),
    }
}

/// A value that may be absent.
pub(super) fn optional(wire: Option<&Json>) -> Value {
    wire.map_or(Value::Null, |it| Value::clone(it))
}

/// A point in time, as RFC 3339.
pub(super) fn time(wire: Option<&Timestamp>) -> Value {
    wire.and_then(timestamp).map_or(Value::Null, |at| Value::String(at.to_string()))
}

/// A point in time that can be shown.
pub(super) fn timestamp(wire: &Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::new(wire.seconds, wire.nanos).ok()
}

/// A status's word: `WAITING`.
pub(super) fn status(status: i32) -> String {
    word(RunStatus::try_from(status).unwrap_or_default().as_str_name(), "RUN_STATUS_")
}

/// A kind's word: `tool_approval`.
pub(super) fn kind(kind: i32) -> String {
    let name = RequestKind::try_from(kind).unwrap_or_default().as_str_name();
    word(name, "REQUEST_KIND_").to_lowercase()
}

fn word(name: &str, prefix: &str) -> String {
    match name.strip_prefix(prefix).unwrap_or(name) {
        "UNSPECIFIED" => "UNKNOWN".to_owned(),
        word => word.to_owned(),
    }
}

/// Every field of a message, in the proto's order.
fn object(message: &DynamicMessage) -> Value {
    let descriptor = message.descriptor();
    let told = descriptor.fields().filter_map(|field| {
        let is_there = message.has_field(&field);
        // Of alternatives, only the one that is meant.
        let is_alternative = field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic());
        if is_alternative && !is_there {
            return None;
        }
        let is_absent = field.supports_presence() && !is_there;
        let value = if is_absent { Value::Null } else { value(&field, &message.get_field(&field)) };
        Some((field.name().to_owned(), value))
    });
    let mut told = Value::Object(told.collect());
    if descriptor.full_name() == v1::Request::NAME {
        let order = told["field_order"].as_array().into_iter().flatten();
        let order: Vec<_> = order.filter_map(Value::as_str).map(str::to_owned).collect();
        ordered(&mut told["response_schema"], &order);
    }
    told
}

fn value(field: &FieldDescriptor, wire: &prost_reflect::Value) -> Value {
    if let Some(items) = wire.as_list() {
        return items.iter().map(|item| single(&field.kind(), item)).collect();
    }
    let Some(entries) = wire.as_map() else { return single(&field.kind(), wire) };
    let Kind::Message(entry) = field.kind() else { return Value::Null };
    let kind = entry.map_entry_value_field().kind();
    let mut told: Vec<_> =
        entries.iter().map(|(key, item)| (name(key), single(&kind, item))).collect();
    told.sort_by(|(one, _), (other, _)| one.cmp(other));
    Value::Object(Map::from_iter(told))
}

fn name(key: &MapKey) -> String {
    match key {
        MapKey::String(text) => text.clone(),
        MapKey::Bool(is) => is.to_string(),
        MapKey::I32(number) => number.to_string(),
        MapKey::I64(number) => number.to_string(),
        MapKey::U32(number) => number.to_string(),
        MapKey::U64(number) => number.to_string(),
    }
}

fn single(kind: &Kind, wire: &prost_reflect::Value) -> Value {
    match wire {
        prost_reflect::Value::Bool(is) => (*is).into(),
        prost_reflect::Value::I32(number) => (*number).into(),
        prost_reflect::Value::I64(number) => (*number).into(),
        prost_reflect::Value::U32(number) => (*number).into(),
        prost_reflect::Value::U64(number) => (*number).into(),
        prost_reflect::Value::F32(number) => (*number).into(),
        prost_reflect::Value::F64(number) => (*number).into(),
        prost_reflect::Value::String(text) => text.as_str().into(),
        prost_reflect::Value::EnumNumber(number) => {
            let is_status = kind.as_enum().is_some_and(|of| of.name() == "RunStatus");
            if is_status { status(*number).into() } else { self::kind(*number).into() }
        }
        prost_reflect::Value::Message(message) => match message.descriptor().full_name() {
            "google.protobuf.Timestamp" => time(message.transcode_to().ok().as_ref()),
            // A map by its names: what a descriptor reads has no order of its own.
            "google.protobuf.Value" => {
                message.transcode_to().ok().map_or(Value::Null, Json::into_value)
            }
            _ => object(message),
        },
        // No field of ours holds any of these.
        prost_reflect::Value::Bytes(_)
        | prost_reflect::Value::List(_)
        | prost_reflect::Value::Map(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::v1::workflow_event::Event;
    use crate::wire::v1::{Completed, Delta, Request, Run};

    #[test]
    fn an_event_names_its_type_and_what_is_absent_is_null() {
        let mut told = WorkflowEvent { run_id: "run_1".into(), sequence: 7, ..Default::default() };
        told.event = Some(Event::Completed(Completed {}));
        let written = event(&told);
        assert_eq!(written["type"], "completed");
        assert_eq!(written["completed"], json!({}));
        assert_eq!((&written["sequence"], &written["time"]), (&json!(7), &Value::Null));
        assert_eq!(written.get("delta"), None, "what happened, and nothing that did not");
        told.event = Some(Event::Delta(Delta { text: "hi".into(), ..Default::default() }));
        assert_eq!(event(&told)["delta"]["text"], "hi");
        assert_eq!(of(&Run::default())["workflow_waiting"], Value::Null);
        assert_eq!(of(&Run::default())["status"], "UNKNOWN");
    }

    #[test]
    fn values_times_and_maps_are_told_as_they_are() {
        let subject = json!({"amount": 9_007_199_254_740_991_i64, "to": ["a", null], "rate": 0.1});
        let request = Request {
            kind: RequestKind::ToolApproval.into(),
            subject: Some(subject.clone().into()),
            asked_at: Some(Timestamp { seconds: 0, nanos: 250_000_000 }),
            admits_you: Some(false),
            ..Request::default()
        };
        let told = of(&request);
        assert_eq!(told["subject"], subject);
        assert_eq!(told["asked_at"], "1970-01-01T00:00:00.25Z");
        assert_eq!((&told["kind"], &told["admits_you"]), (&json!("tool_approval"), &json!(false)));
        assert_eq!(of(&Request::default())["admits_you"], Value::Null);
        let mut run = Run::default();
        run.metadata.insert("team".into(), "events".into());
        assert_eq!(of(&run)["metadata"], json!({"team": "events"}));
    }
}
