//! Request types: questions that a file gives names to, as they are written in YAML, and what that means.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::kernel::{Kind, RequestType};

/// A question that steps and agents may ask by name.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestTypeFile {
    /// What kind of question it is; `clarification` unless given.
    #[serde(default)]
    pub(super) kind: TypeKindFile,
    /// What a person reads above it.
    #[schemars(length(min = 1))]
    pub(super) title: String,
    /// The JSON Schema of the answer, where the kind's own is not enough; not with an approval.
    pub(super) schema: Option<Value>,
    /// How it is shown, where a door can.
    pub(super) show: Option<ShowFile>,
}

/// What kind of question a type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TypeKindFile {
    /// Something that must be known to go on.
    #[default]
    Clarification,
    /// One of several options.
    Selection,
    /// A yes or a no.
    Approval,
}

/// How a question is shown.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ShowFile {
    /// As a form with a field for each property.
    Form,
    /// As one field of text.
    Text,
    /// As a list to choose from.
    List,
}

impl RequestTypeFile {
    pub(super) fn kind(&self) -> Kind {
        match self.kind {
            TypeKindFile::Clarification => Kind::Clarification,
            TypeKindFile::Selection => Kind::Selection,
            TypeKindFile::Approval => Kind::Approval,
        }
    }

    pub(super) fn compile(&self) -> RequestType {
        let show = match self.show {
            Some(ShowFile::Form) => "form",
            Some(ShowFile::Text) => "text",
            Some(ShowFile::List) => "list",
            None => "",
        };
        RequestType {
            kind: self.kind(),
            title: self.title.trim().to_owned(),
            schema: self.schema.clone(),
            show: show.to_owned(),
        }
    }

    /// Whether its schema refuses every answer.
    pub(super) fn is_unanswerable(&self) -> bool {
        self.schema.as_ref().is_some_and(refuses_all)
    }
}

/// Whether a schema takes nothing at all, as far as that can be seen.
fn refuses_all(schema: &Value) -> bool {
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    let is_crossed = |least: &str, most: &str| match (number(least), number(most)) {
        (Some(least), Some(most)) => least > most,
        (Some(_) | None, _) => false,
    };
    let all = |name: &str| schema.get(name).and_then(Value::as_array);
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_refused = |name: &Value| {
        let wanted = name.as_str().and_then(|name| properties?.get(name));
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        wanted.map_or(is_closed && properties.is_some(), refuses_all)
    };
    *schema == Value::Bool(false)
        || schema
            .get("not")
            .is_some_and(|not| *not == Value::Bool(true) || *not == serde_json::json!({}))
        || all("enum").is_some_and(Vec::is_empty)
        || ["anyOf", "oneOf"]
            .iter()
            .any(|name| all(name).is_some_and(|all| all.iter().all(refuses_all)))
        || all("allOf").is_some_and(|all| all.iter().any(refuses_all))
        || [("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")]
            .iter()
            .any(|(least, most)| is_crossed(least, most))
        || all("required").is_some_and(|all| all.iter().any(is_refused))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_that_takes_nothing_is_seen() {
        for schema in [
            json!(false),
            json!({"enum": []}),
            json!({"not": {}}),
            json!({"type": "number", "minimum": 3, "maximum": 2}),
            json!({"type": "object", "properties": {"a": false}, "required": ["a"]}),
            json!({"type": "object", "properties": {}, "required": ["a"], "additionalProperties": false}),
            json!({"anyOf": [{"enum": []}, false]}),
        ] {
            assert!(refuses_all(&schema), "{schema}");
        }
        for schema in [
            json!(true),
            json!({"type": "string"}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            json!({"anyOf": [{"type": "string"}, false]}),
        ] {
            assert!(!refuses_all(&schema), "{schema}");
        }
    }
}
