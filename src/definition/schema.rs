//! Schema: the JSON Schemas of our files, for editors, and for checking a file's shape.

use std::sync::LazyLock;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

use crate::definition::file::WorkflowFile;
use crate::definition::script::ScriptFile;

/// The JSON Schema of a workflow file.
pub fn workflow_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> =
        LazyLock::new(|| schema_of::<WorkflowFile>("Holdpoint workflow"));
    &SCHEMA
}

/// The JSON Schema of a script file.
pub fn script_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| schema_of::<ScriptFile>("Holdpoint script"));
    &SCHEMA
}

pub(super) fn schema_of<T: JsonSchema>(title: &str) -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    schema["title"] = title.into();
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field in a schema that has no description.
    fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
        let Some(map) = schema.as_object() else { return };
        for (name, field) in map.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            if field.is_object() && field.get("description").is_none() {
                found.push(format!("{path}/{name}"));
            }
        }
        for (name, inner) in map {
            undescribed(inner, &format!("{path}/{name}"), found);
        }
    }

    #[test]
    fn an_editor_can_explain_every_field() {
        for schema in [workflow_schema(), script_schema(), crate::definition::policy_schema()] {
            let mut found = Vec::new();
            undescribed(schema, "", &mut found);
            assert_eq!(found, Vec::<String>::new());
            assert!(schema["$schema"].as_str().is_some_and(|draft| draft.contains("2020-12")));
        }
    }
}
