//! Schemas: whether a JSON value fits a JSON Schema, and what plain text means under one.
//!
//! Pure: no reference is ever resolved over a network or from a file.

use serde_json::Value;

/// Values nest at most this deep: deeper ones are nobody's answer, and recursion costs stack.
pub const DEPTH_MAX: usize = 64;

/// Where a value does not fit, and what was expected there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct Mismatch {
    /// JSON pointer into the value; empty for the value itself.
    pub at: String,
    /// What was expected, in words.
    pub expected: String,
}

/// Checks that `schema` is a JSON Schema at all.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    jsonschema::validator_for(schema).map(|_| ()).map_err(|error| error.to_string())
}

/// Checks `value` against `schema`. A schema that is none refuses everything (K7).
pub fn check(schema: &Value, value: &Value) -> Result<(), Mismatch> {
    let validator = jsonschema::validator_for(schema).map_err(|error| Mismatch {
        at: String::new(),
        expected: format!("a valid schema: {error}"),
    })?;
    match validator.iter_errors(value).next() {
        None => Ok(()),
        Some(error) => Err(Mismatch {
            at: error.instance_path().to_string(),
            expected: describe(schema, &error.to_string()),
        }),
    }
}

/// What a plain text means under a simple schema: a number or a truth value, if it can be one.
pub fn read_plain(schema: &Value, text: &str) -> Option<Value> {
    match schema.get("type").and_then(Value::as_str)? {
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" => {
            let number = text.parse::<f64>().ok()?;
            serde_json::Number::from_f64(number).map(Value::Number)
        }
        "boolean" => match text.to_lowercase().as_str() {
            "true" | "yes" => Some(Value::Bool(true)),
            "false" | "no" => Some(Value::Bool(false)),
            &_ => None,
        },
        "object" | "array" => serde_json::from_str(text).ok(),
        &_ => None,
    }
}

/// How deep a value nests; stops counting once past the bound.
pub fn is_too_deep(value: &Value) -> bool {
    fn deeper(value: &Value, left: usize) -> bool {
        if left == 0 {
            return true;
        }
        match value {
            Value::Array(items) => items.iter().any(|item| deeper(item, left - 1)),
            Value::Object(map) => map.values().any(|item| deeper(item, left - 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    deeper(value, DEPTH_MAX)
}

fn describe(schema: &Value, complaint: &str) -> String {
    match schema.get("type").and_then(Value::as_str) {
        Some(kind) => format!("a value of type {kind} that fits the response schema ({complaint})"),
        None => format!("a value that fits the response schema ({complaint})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mismatch_says_where() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let mismatch = check(&schema, &json!({"n": "x"})).expect_err("not an integer");
        assert_eq!(mismatch.at, "/n");
        assert_eq!(check(&schema, &json!({"n": 3})), Ok(()));
    }

    #[test]
    fn a_broken_schema_accepts_nothing() {
        assert!(check(&json!({"type": "nonsense"}), &json!(1)).is_err());
    }

    #[test]
    fn depth_is_bounded() {
        let mut value = json!(1);
        for _ in 0..DEPTH_MAX - 1 {
            value = json!([value]);
        }
        assert!(!is_too_deep(&value));
        assert!(is_too_deep(&json!([value])));
    }
}
