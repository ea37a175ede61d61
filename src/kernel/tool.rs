//! Tool: what a file says of something that agents and steps may have called. Who is asked before it is called is the
//! gates' to say; what one call of it is, `deed`'s.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What may be done with a tool after a crash (E2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Safety {
    /// Touches nothing; may be called again.
    Pure,
    /// May be called again with the same key.
    Idempotent,
    /// May have happened: ask a person.
    #[default]
    Unsafe,
}

/// A tool that agents may be given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// What it does, for the model.
    #[serde(default)]
    pub description: String,
    /// Which kind of tool: `scripted`.
    pub provider: String,
    /// May it be called again after a crash?
    #[serde(default)]
    pub safety: Safety,
    /// What kind of thing it does, for gates: `writes`, `deploys` …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The JSON Schema of its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// What of its arguments is for those who decide alone, where its schema does not say so: `card.number`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret: Vec<String>,
    /// Settings for its provider.
    #[serde(default)]
    pub settings: Value,
}
