//! Protobuf's JSON: protobuf messages ↔ JSON, as protobuf itself maps one to the other, by descriptor.
//!
//! For where an interface of others is the JSON of its messages. Unknown fields are passed over, as
//! the mapping wants it; whole numbers are written as such.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde_json::Value;

use crate::wire::DESCRIPTORS;

/// Whole numbers up to here are exact in a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

static POOL: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).ok());

/// What is wrong with a JSON that should be a message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoMessage(String);

/// The message of that full name that a JSON stands for.
pub fn read<M: Message + Default>(name: &str, json: Value) -> Result<M, NoMessage> {
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let message = DynamicMessage::deserialize_with_options(descriptor(name)?, json, &options)
        .map_err(|error| NoMessage(error.to_string()))?;
    message.transcode_to().map_err(|error| NoMessage(error.to_string()))
}

/// A message of that full name as JSON.
pub fn write<M: Message>(name: &str, message: &M) -> Result<Value, NoMessage> {
    let dynamic = dynamic(name, message)?;
    let json = serde_json::to_value(&dynamic).map_err(|error| NoMessage(error.to_string()))?;
    Ok(whole_numbers(json))
}

/// A message of that full name, to be looked at field by field.
pub fn dynamic<M: Message>(name: &str, message: &M) -> Result<DynamicMessage, NoMessage> {
    let mut dynamic = DynamicMessage::new(descriptor(name)?);
    dynamic.transcode_from(message).map_err(|error| NoMessage(error.to_string()))?;
    Ok(dynamic)
}

fn descriptor(name: &str) -> Result<MessageDescriptor, NoMessage> {
    let found = POOL.as_ref().and_then(|pool| pool.get_message_by_name(name));
    found.ok_or_else(|| NoMessage(format!("there is no message `{name}`")))
}

/// Doubles that are whole numbers, as those.
fn whole_numbers(json: Value) -> Value {
    match json {
        Value::Number(number) => match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and exact")]
            Some(double) if double.fract() == 0.0 && double.abs() <= EXACT_MAX => {
                Value::from(double as i64)
            }
            Some(_) | None => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, whole_numbers(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => json,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::lf::Task;

    const TASK: &str = "lf.a2a.v1.Task";

    #[test]
    fn a_message_comes_back_as_it_went() {
        let task = json!({"id": "t", "status": {"state": "TASK_STATE_WORKING",
            "timestamp": "2026-01-31T12:00:00.250Z"},
            "artifacts": [{"artifactId": "a", "parts": [{"data": {"n": 1, "x": 0.5}}]}]});
        let message: Task = read(TASK, task.clone()).unwrap();
        assert_eq!(message.artifacts[0].artifact_id, "a");
        assert_eq!(write(TASK, &message).unwrap(), task);
    }

    #[test]
    fn what_is_no_such_message_is_said_so_and_what_is_unknown_is_passed_over() {
        assert!(read::<Task>(TASK, json!({"id": 7})).is_err());
        assert!(read::<Task>(TASK, json!([])).is_err());
        assert!(read::<Task>("a2a.Nothing", json!({})).is_err());
        assert_eq!(read::<Task>(TASK, json!({"id": "t", "other": 1})).unwrap().id, "t");
    }
}
