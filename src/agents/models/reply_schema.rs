//! Reply schema: how a server of OpenAI's formats is told what a reply must look like. What fits the schema is
//! looked at elsewhere.

use serde_json::{Value, json};

/// The name that a schema has on the wire.
const SCHEMA_NAME: &str = "reply";

/// A schema as both of OpenAI's formats take it.
pub(super) fn named_schema(schema: &Value) -> Value {
    json!({"name": SCHEMA_NAME, "schema": schema, "strict": is_strict(schema)})
}

/// Whether a schema can be held to strictly: in every object all properties are required and no
/// others are allowed. A server refuses to be strict about any other.
pub(super) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let properties = map.get("properties").and_then(Value::as_object);
            let required = map.get("required").and_then(Value::as_array);
            let is_required = |name: &String| {
                required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)))
            };
            let is_object = properties.is_some()
                || map.get("type").is_some_and(|kind| kind.as_str() == Some("object"));
            let is_closed = map.get("additionalProperties") == Some(&Value::Bool(false))
                && properties.is_some_and(|all| all.keys().all(is_required));
            (!is_object || is_closed) && map.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_schema_is_held_to_strictly() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}},
            "required": ["a"], "additionalProperties": false});
        assert!(is_strict(&closed));
        assert!(is_strict(&json!({"type": "array", "items": closed})));
        for (field, value) in [
            ("required", json!([])),
            ("additionalProperties", json!(true)),
            ("properties", json!({"a": {"type": "object"}})),
        ] {
            let mut open = closed.clone();
            open[field] = value;
            assert!(!is_strict(&open), "{open}");
        }
    }
}
