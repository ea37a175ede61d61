//! Types: what is known of a value before there is one.

use std::collections::BTreeMap;

use serde_json::Value;

/// What is known of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Nothing.
    Any,
    /// It is nothing.
    Null,
    /// True or false.
    Bool,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A list of these.
    List(Box<Type>),
    /// A map with these fields, and others if it is open.
    Object {
        /// The fields that are known.
        fields: BTreeMap<String, Type>,
        /// Whether there may be others.
        open: bool,
    },
}

impl Type {
    /// A map of which nothing is known.
    pub fn any_object() -> Self {
        Self::Object { fields: BTreeMap::new(), open: true }
    }

    /// A map with exactly these fields.
    pub fn object(fields: impl IntoIterator<Item = (String, Self)>) -> Self {
        Self::Object { fields: fields.into_iter().collect(), open: false }
    }

    /// What a JSON Schema says of a value that fits it, as far as we read schemas.
    pub fn of_schema(schema: &Value) -> Self {
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => Self::Text,
            Some("integer" | "number") => Self::Number,
            Some("boolean") => Self::Bool,
            Some("null") => Self::Null,
            Some("array") => {
                let items = schema.get("items").map_or(Self::Any, Self::of_schema);
                Self::List(Box::new(items))
            }
            Some("object") => {
                let listed = schema.get("properties").and_then(Value::as_object);
                let fields = listed.into_iter().flatten();
                let fields = fields.map(|(name, field)| (name.clone(), Self::of_schema(field)));
                let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
                Self::Object { fields: fields.collect(), open: !closed }
            }
            Some(_) | None => Self::of_words(schema),
        }
    }

    fn of_words(schema: &Value) -> Self {
        let words = schema.get("enum").and_then(Value::as_array);
        match words {
            Some(words) if !words.is_empty() && words.iter().all(Value::is_string) => Self::Text,
            Some(_) | None => Self::Any,
        }
    }

    /// The type of a value that is there.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::Text,
            Value::Array(items) => {
                let one = items.first().map_or(Self::Any, Self::of);
                let all = items.iter().all(|item| Self::of(item) == one);
                Self::List(Box::new(if all { one } else { Self::Any }))
            }
            Value::Object(map) => {
                Self::object(map.iter().map(|(name, value)| (name.clone(), Self::of(value))))
            }
        }
    }

    /// What is known if it is one or the other.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        if self == *other { self } else { Self::Any }
    }

    /// In words.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Any => "anything",
            Self::Null => "nothing",
            Self::Bool => "true or false",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List(_) => "a list",
            Self::Object { .. } => "a map",
        }
    }
}

/// A value's type in words.
pub(super) fn word_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// What is known at a place of a file.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Variables by name: `input`, `item` …
    pub variables: BTreeMap<String, Type>,
    /// Steps that have come to something by then.
    pub steps: BTreeMap<String, Type>,
    /// Steps that there are, but not here: later ones, or those of another branch.
    pub elsewhere: Vec<String>,
}
