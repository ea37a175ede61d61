//! What callers ask, and the answers that are neither tasks nor messages.

use serde::{Deserialize, Serialize};

use crate::wire::a2a::{Fields, Message, Task, TaskState, nullable};

/// How a message is to be taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendConfiguration {
    /// What the caller can read; advice.
    #[serde(alias = "accepted_output_modes", default, deserialize_with = "nullable")]
    pub accepted_output_modes: Vec<String>,
    /// Where to tell what happens.
    #[serde(alias = "task_push_notification_config", default)]
    pub task_push_notification_config: Option<PushConfig>,
    /// How much of the history comes back.
    #[serde(alias = "history_length", default)]
    pub history_length: Option<i32>,
    /// Whether to come back before the task rests.
    #[serde(alias = "return_immediately", default, deserialize_with = "nullable")]
    pub return_immediately: bool,
}

/// Sends a message: new work, or an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendMessage {
    /// The workflow.
    #[serde(default, deserialize_with = "nullable")]
    pub tenant: String,
    /// What is said.
    pub message: Message,
    /// How it is to be taken.
    #[serde(default, deserialize_with = "nullable")]
    pub configuration: SendConfiguration,
    /// Anything about it.
    #[serde(default)]
    pub metadata: Option<Fields>,
}

/// Asks for a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetTask {
    /// The workflow.
    #[serde(default, deserialize_with = "nullable")]
    pub tenant: String,
    /// The task.
    pub id: String,
    /// How much of the history comes back.
    #[serde(alias = "history_length", default)]
    pub history_length: Option<i32>,
}

/// Asks for tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListTasks {
    /// The workflow.
    #[serde(deserialize_with = "nullable")]
    pub tenant: String,
    /// Only of this conversation.
    #[serde(alias = "context_id", deserialize_with = "nullable")]
    pub context_id: String,
    /// Only with this state.
    #[serde(deserialize_with = "nullable")]
    pub status: TaskState,
    /// How many.
    #[serde(alias = "page_size")]
    pub page_size: Option<i32>,
    /// Where the page begins.
    #[serde(alias = "page_token", deserialize_with = "nullable")]
    pub page_token: String,
    /// How much of the history comes back.
    #[serde(alias = "history_length")]
    pub history_length: Option<i32>,
    /// Only those whose status is from then or later, as RFC 3339.
    #[serde(alias = "status_timestamp_after")]
    pub status_timestamp_after: Option<String>,
    /// Whether the results come with them.
    #[serde(alias = "include_artifacts")]
    pub include_artifacts: Option<bool>,
}

/// Some tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListTasksResponse {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Where the next page begins; empty after the last.
    #[serde(alias = "next_page_token")]
    pub next_page_token: String,
    /// How many a page has at most.
    #[serde(alias = "page_size")]
    pub page_size: i32,
    /// How many there are in all.
    #[serde(alias = "total_size")]
    pub total_size: i32,
}

/// Stops a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelTask {
    /// The workflow.
    #[serde(default, deserialize_with = "nullable")]
    pub tenant: String,
    /// The task.
    pub id: String,
    /// Anything about it.
    #[serde(default)]
    pub metadata: Option<Fields>,
}

/// Follows a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscribeToTask {
    /// The workflow.
    #[serde(default, deserialize_with = "nullable")]
    pub tenant: String,
    /// The task.
    pub id: String,
}

/// How to prove to a webhook who calls it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushAuthentication {
    /// The scheme.
    pub scheme: String,
    /// The credentials.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub credentials: String,
}

/// Where to tell what happens to a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushConfig {
    /// The workflow.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// Its id.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The task.
    #[serde(
        alias = "task_id",
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "String::is_empty"
    )]
    pub task_id: String,
    /// The webhook.
    pub url: String,
    /// A token that comes with every notification.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// How to prove who calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<PushAuthentication>,
}

/// Asks for one webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetPushConfig {
    /// The workflow.
    #[serde(default, deserialize_with = "nullable")]
    pub tenant: String,
    /// The task.
    #[serde(alias = "task_id")]
    pub task_id: String,
    /// The webhook's id.
    pub id: String,
}

/// Takes a webhook away.
pub type DeletePushConfig = GetPushConfig;

/// Asks for the webhooks of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPushConfigs {
    /// The workflow.
    #[serde(default, deserialize_with = "nullable")]
    pub tenant: String,
    /// The task.
    #[serde(alias = "task_id")]
    pub task_id: String,
    /// How many.
    #[serde(alias = "page_size", default, deserialize_with = "nullable")]
    pub page_size: i32,
    /// Where the page begins.
    #[serde(alias = "page_token", default, deserialize_with = "nullable")]
    pub page_token: String,
}

/// The webhooks of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPushConfigsResponse {
    /// The webhooks.
    pub configs: Vec<PushConfig>,
    /// Where the next page begins; empty after the last.
    #[serde(alias = "next_page_token", default)]
    pub next_page_token: String,
}

/// Asks for the card that only known callers get.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GetExtendedCard {
    /// The workflow.
    #[serde(deserialize_with = "nullable")]
    pub tenant: String,
}
