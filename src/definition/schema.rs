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

fn schema_of<T: JsonSchema>(title: &str) -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    schema["title"] = title.into();
    schema
}
