//! Messages, their parts, and artifacts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::a2a::{Fields, nullable};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Nobody said.
    #[serde(rename = "ROLE_UNSPECIFIED")]
    Unspecified,
    /// The client.
    #[serde(rename = "ROLE_USER")]
    User,
    /// The agent.
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

/// What a part holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Content {
    /// A text.
    Text(String),
    /// Bytes, in base64.
    Raw(String),
    /// Where the bytes are.
    Url(String),
    /// Anything.
    Data(Value),
}

/// A piece of a message or of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// What it holds.
    #[serde(flatten)]
    pub content: Content,
    /// Anything about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Fields>,
    /// A file's name.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub filename: String,
    /// Its media type.
    #[serde(
        alias = "media_type",
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "String::is_empty"
    )]
    pub media_type: String,
}

impl Part {
    /// A part that is nothing but its content.
    pub fn of(content: Content) -> Self {
        Self { content, metadata: None, filename: String::new(), media_type: String::new() }
    }
}

/// One utterance.
#[expect(clippy::struct_field_names, reason = "the protocol's own names")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The sender's name for it.
    #[serde(alias = "message_id")]
    pub message_id: String,
    /// The conversation.
    #[serde(
        alias = "context_id",
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "String::is_empty"
    )]
    pub context_id: String,
    /// The task.
    #[serde(
        alias = "task_id",
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "String::is_empty"
    )]
    pub task_id: String,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// Anything about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Fields>,
    /// The extensions that were used for it.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Tasks it refers to.
    #[serde(
        alias = "reference_task_ids",
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub reference_task_ids: Vec<String>,
}

/// A result.
#[expect(clippy::struct_field_names, reason = "the protocol's own names")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its id, unique in its task.
    #[serde(alias = "artifact_id")]
    pub artifact_id: String,
    /// Its name.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What it is.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What it holds.
    pub parts: Vec<Part>,
    /// Anything about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Fields>,
    /// The extensions that were used for it.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
}
