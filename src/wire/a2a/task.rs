//! Tasks, and the events of a stream.

use serde::{Deserialize, Serialize};

use crate::wire::a2a::{Artifact, Fields, Message, is_false, nullable};

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TaskState {
    /// Nobody said.
    #[default]
    #[serde(rename = "TASK_STATE_UNSPECIFIED")]
    Unspecified,
    /// Taken on.
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    /// Under way.
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    /// Over, and did what it should.
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    /// Over, and did not.
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    /// Stopped.
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    /// Waits for an answer.
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    /// Not taken on.
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    /// Waits for a credential.
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
}

/// Where a task stands, since when, and what it says about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// Where it stands.
    pub state: TaskState,
    /// What it says about it: the question, or what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Since when, as RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
}

/// A piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id.
    pub id: String,
    /// The conversation it belongs to.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub context_id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// Its results.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// What was said.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// Anything about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Fields>,
}

/// A task stands elsewhere now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate {
    /// The task.
    pub task_id: String,
    /// Its conversation.
    pub context_id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// Anything about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Fields>,
}

/// A result, or a piece of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUpdate {
    /// The task.
    pub task_id: String,
    /// Its conversation.
    pub context_id: String,
    /// The result.
    pub artifact: Artifact,
    /// Whether its parts come after those that were sent before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub append: bool,
    /// Whether nothing more of it comes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub last_chunk: bool,
    /// Anything about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Fields>,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamResponse {
    /// The task as it stands.
    Task(Box<Task>),
    /// An utterance.
    Message(Box<Message>),
    /// The task stands elsewhere now.
    StatusUpdate(Box<StatusUpdate>),
    /// A result, or a piece of one.
    ArtifactUpdate(Box<ArtifactUpdate>),
}

/// What came of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SendMessageResponse {
    /// A task.
    Task(Box<Task>),
    /// An utterance.
    Message(Box<Message>),
}

impl SendMessageResponse {
    /// A task.
    pub fn task(task: Task) -> Self {
        Self::Task(Box::new(task))
    }
}
