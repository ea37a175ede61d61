//! A2A: the shapes of protocol 1.0 as its JSON bindings write them; no behaviour.
//!
//! Field names are the protocol's. What a caller sends may leave out or null whatever is not
//! required, and may write `historyLength` or `history_length`; unknown fields are ignored. All of
//! that is how the protocol reads JSON.

mod calls;
mod card;
mod message;
mod task;

use serde::{Deserialize, Deserializer};

pub use calls::{
    CancelTask, DeletePushConfig, GetExtendedCard, GetPushConfig, GetTask, ListPushConfigs,
    ListPushConfigsResponse, ListTasks, ListTasksResponse, PushAuthentication, PushConfig,
    SendConfiguration, SendMessage, SubscribeToTask,
};
pub use card::{
    AgentCard, AgentProvider, Capabilities, CardSignature, Extension, HttpAuthScheme, Interface,
    SecurityRequirement, SecurityScheme, Skill, StringList,
};
pub use message::{Artifact, Content, Message, Part, Role};
pub use task::{
    ArtifactUpdate, SendMessageResponse, StatusUpdate, StreamResponse, Task, TaskState, TaskStatus,
};

/// Free-form fields.
pub type Fields = serde_json::Map<String, serde_json::Value>;

/// A field that is null stands for one that is not there.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}
