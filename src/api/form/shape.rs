//! Shape: which kind of field a schema asks for.

use serde_json::{Map, Value};

use crate::api::form::DEPTH_MAX;
use crate::kernel::secret;

/// Choices beyond this many are a list to open rather than buttons to press.
pub(crate) const BUTTONS_MAX: usize = 8;

/// Which kind of field a schema asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape<'a> {
    /// A text; with the input's type, or several lines of it.
    Text { input: &'static str, is_long: bool },
    /// A number, perhaps a whole one.
    Number { is_whole: bool },
    /// Yes or no.
    Boolean,
    /// One of these: the value, and what a person reads.
    Choice(Vec<(Value, String)>),
    /// Any of these.
    Many(Vec<(Value, String)>),
    /// A list of items that all have this schema.
    List(&'a Value),
    /// Members by name, each with its schema and whether it must be there.
    Object(Vec<(&'a str, &'a Value, bool)>),
    /// Always this.
    Fixed(&'a Value),
    /// Whatever it is, as JSON.
    Json,
}

/// A schema with its references followed, as far as they stay in the same document.
pub(crate) fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..DEPTH_MAX {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { break };
        let Some(found) = reference.strip_prefix('#').and_then(|at| root.pointer(at)) else {
            break;
        };
        schema = found;
    }
    schema
}

impl<'a> Shape<'a> {
    /// The kind of field for `schema`, which has its references followed.
    pub(crate) fn of(root: &'a Value, schema: &'a Value, depth: usize) -> Self {
        if let Some(fixed) = schema.get("const") {
            return Self::Fixed(fixed);
        }
        if let Some(choices) = choices(root, schema) {
            return Self::Choice(choices);
        }
        if depth >= DEPTH_MAX {
            return Self::Json;
        }
        match kind(schema) {
            Some("string") => text(schema),
            Some("number") => Self::Number { is_whole: false },
            Some("integer") => Self::Number { is_whole: true },
            Some("boolean") => Self::Boolean,
            Some("array") => list(root, schema),
            Some("object") => object(schema),
            None if schema.get("properties").is_some() => object(schema),
            Some(_) | None => Self::Json,
        }
    }
}

/// The one type that a schema names; of a type that may be null, the other one.
fn kind(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            let first = kinds.next();
            if kinds.next().is_none() { first } else { None }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// What may be chosen, where that is all that a schema says.
fn choices(root: &Value, schema: &Value) -> Option<Vec<(Value, String)>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let chosen = values.iter().filter(|value| !value.is_null());
        return Some(chosen.map(|value| (value.clone(), readable(value))).collect());
    }
    let variants = schema.get("oneOf").or_else(|| schema.get("anyOf"))?.as_array()?;
    variants
        .iter()
        .map(|variant| {
            let variant = resolved(root, variant);
            let value = variant.get("const")?;
            let title = variant.get("title").and_then(Value::as_str);
            Some((value.clone(), title.map_or_else(|| readable(value), str::to_owned)))
        })
        .collect()
}

fn readable(value: &Value) -> String {
    crate::kernel::readable(value)
}

fn text(schema: &Value) -> Shape<'_> {
    let input = match schema.get("format").and_then(Value::as_str) {
        _ if secret::is_marked(schema) => "password",
        Some("date") => "date",
        Some("time") => "time",
        Some("email") => "email",
        Some("uri" | "url") => "url",
        Some(_) | None => "text",
    };
    let most = schema.get("maxLength").and_then(Value::as_u64);
    let is_bounded = most.is_some_and(|most| most <= 200) || schema.get("pattern").is_some();
    Shape::Text { input, is_long: input == "text" && !is_bounded && schema.get("format").is_none() }
}

fn list<'a>(root: &'a Value, schema: &'a Value) -> Shape<'a> {
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
        return Shape::Json;
    };
    let is_set = schema.get("uniqueItems").and_then(Value::as_bool) == Some(true);
    match choices(root, resolved(root, items)) {
        Some(choices) if is_set || choices.len() <= BUTTONS_MAX => Shape::Many(choices),
        Some(_) | None => Shape::List(items),
    }
}

fn object(schema: &Value) -> Shape<'_> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| {
        required.is_some_and(|names| names.iter().any(|one| one.as_str() == Some(name)))
    };
    match schema.get("properties").and_then(Value::as_object) {
        Some(members) if !members.is_empty() => Shape::Object(in_order(members, is_required)),
        Some(_) | None => Shape::Json,
    }
}

fn in_order(
    members: &Map<String, Value>,
    is_required: impl Fn(&str) -> bool,
) -> Vec<(&str, &Value, bool)> {
    members.iter().map(|(name, schema)| (name.as_str(), schema, is_required(name))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shape(schema: &Value) -> String {
        format!("{:?}", Shape::of(schema, resolved(schema, schema), 0))
    }

    #[test]
    fn a_schema_becomes_the_field_that_fits() {
        for (schema, expected) in [
            (json!({"type": "string"}), "Text { input: \"text\", is_long: true }"),
            (
                json!({"type": "string", "format": "date"}),
                "Text { input: \"date\", is_long: false }",
            ),
            (
                json!({"type": "string", "secret": true}),
                "Text { input: \"password\", is_long: false }",
            ),
            (json!({"type": ["integer", "null"]}), "Number { is_whole: true }"),
            (json!({"type": "boolean"}), "Boolean"),
            (json!({"type": "object"}), "Json"),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                "List(Object {\"type\": String(\"string\")})",
            ),
            (json!(true), "Json"),
            (json!({}), "Json"),
        ] {
            assert_eq!(shape(&schema), expected, "{schema}");
        }
        let titled = json!({"oneOf": [{"const": "a", "title": "Ah"}, {"const": 2}]});
        assert_eq!(shape(&titled), "Choice([(String(\"a\"), \"Ah\"), (Number(2), \"2\")])");
        let many = json!({"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": true});
        assert!(shape(&many).starts_with("Many("), "{}", shape(&many));
    }

    #[test]
    fn references_are_followed_within_the_document_and_not_for_ever() {
        let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
        assert_eq!(shape(&schema), "Json");
        let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "boolean"}}});
        assert_eq!(shape(&schema), "Boolean");
    }
}
