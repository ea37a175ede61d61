//! Brought: the gates that a start brings, as every door hands them over: a field of their own, or an entry of the
//! caller's metadata. What they mean is not said here.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::definition;
use crate::engine::{Engine, EngineError};
use crate::kernel::strict::{self, Misread};
use crate::kernel::workflow::Gate;
use crate::kernel::{Principal, Refusal};

/// The entry of the metadata that has gates: a JSON list, as a text where metadata are texts.
pub(super) const ENTRY: &str = "holdpoint.gates";

/// What entries of the metadata begin with that are ours to read.
const OURS: &str = "holdpoint.";

/// The gates of a start of `workflow`: those given, and those in its metadata, which are taken out of it. An entry that
/// would be ours and is none is refused: whoever misspells a gate would not be asked.
pub(super) fn gates(
    engine: &Engine,
    (workflow, who): (&str, &Principal),
    mut given: Vec<Value>,
    metadata: &mut BTreeMap<String, String>,
) -> Result<Vec<Gate>, EngineError> {
    if let Some(text) = metadata.remove(ENTRY) {
        given.extend(read(Value::String(text))?);
    }
    refuse_unknown(metadata.keys())?;
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let entry = engine.workflow(workflow, who)?;
    Ok(definition::brought(&entry.workflow, &given, &engine.operator())?)
}

/// Refuses entries of the metadata that would be ours, and are none.
pub(super) fn refuse_unknown<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), Refusal> {
    let begins = |name: &str| {
        let name = name.trim().to_lowercase();
        name.starts_with(OURS) || name.starts_with("holdpoint-") || name.starts_with("holdpoint_")
    };
    let unknown = names.into_iter().find(|name| begins(name) && *name != ENTRY);
    let Some(name) = unknown else { return Ok(()) };
    let remedy = format!(
        "there is no such entry; of those that begin with `{OURS}` a start takes `{ENTRY}`"
    );
    Err(Refusal::invalid(format!("metadata[{name}]"), remedy))
}

/// The gates of a start that is written as JSON, in a field of their own.
pub(super) fn field(body: &Value) -> Result<Vec<Value>, Refusal> {
    // Whoever misspells a gate would not be asked.
    let fields = body.as_object().into_iter().flatten();
    let near = |name: &str| {
        let letters = name.to_lowercase().replace(|c: char| !c.is_alphanumeric(), "");
        ["gate", "gates", "holdpointgate", "holdpointgates"].contains(&letters.as_str())
    };
    for (name, value) in fields {
        if name != "gates" && near(name) && !value.is_null() {
            return Err(Refusal::invalid(name.clone(), "expected `gates`, a JSON list of gates"));
        }
    }
    match body.pointer("/extra_body/gates").or_else(|| body.get("gates")) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(written) => read(written.clone()),
    }
}

/// A list of gates, or one of them, as a value or as its text.
pub(super) fn read(written: Value) -> Result<Vec<Value>, Refusal> {
    let field = "gates";
    match written {
        Value::Array(list) => Ok(list),
        one @ Value::Object(_) => Ok(vec![one]),
        Value::String(text) => match strict::read(text.as_bytes()) {
            Ok(Value::Array(list)) => Ok(list),
            Ok(one @ Value::Object(_)) => Ok(vec![one]),
            Err(twice @ Misread::Twice(_)) => Err(Refusal::invalid(field, twice.to_string())),
            Ok(_) | Err(Misread::NoJson(_)) => {
                Err(Refusal::invalid(field, "expected a JSON list of gates"))
            }
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            Err(Refusal::invalid(field, "expected a JSON list of gates"))
        }
    }
}
