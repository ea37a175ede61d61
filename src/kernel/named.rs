//! Named: request types that a file gives names to: a kind of question with a title, a schema of the answer and how it
//! is shown. A type decides nothing: who is asked, and whether silence passes, is said where it is used.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::terms::Kind;

/// A request type of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestType {
    /// What kind of question it is.
    pub kind: Kind,
    /// What a person reads above it.
    pub title: String,
    /// The JSON Schema of the answer, where the kind's own is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// How it is shown, for doors that can: `form`, `text`, `list`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub show: String,
}

/// The type that a question has: as it was when it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name in the file.
    pub name: String,
    /// What a person reads above it.
    pub title: String,
    /// How it is shown, for doors that can.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub show: String,
}
