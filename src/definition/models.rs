//! Models: what answers for the agents, as it is written in YAML: the shapes alone. What the settings
//! mean is their provider's to say.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::definition::script::RuleFile;
use crate::definition::time::LengthOfTime;

/// What answers for an agent.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "settings go to their provider as they are written; here is their shape"
)]
pub(super) struct ModelFile {
    /// Which kind: `scripted` answers from a script, offline and always the same; `openai_chat`,
    /// `openai_responses` and `anthropic` ask a server; `recorded` writes exchanges to a file or
    /// plays them back; `a2a` hands the work to another agent.
    pub(super) provider: String,
    /// With `provider: scripted`: the script file, relative to this one, or its rules.
    pub(super) script: Option<ScriptSource>,
    /// What the server calls the model.
    #[schemars(length(min = 1))]
    model: Option<String>,
    /// Where the server is: `http://localhost:11434/v1`; the provider's own service unless given.
    base_url: Option<String>,
    /// With `provider: a2a`: the card of the agent, `https://host/.well-known/agent-card.json`, or
    /// the address of its server.
    #[schemars(length(min = 1))]
    card: Option<String>,
    /// With `provider: a2a`: whether it may be on this machine or network: `true`, or a list of
    /// hosts.
    allow_private: Option<Value>,
    /// The name of the environment variable that holds the key, never the key itself; `none` for a
    /// server that wants no key. It must be given where `base_url` is.
    key_env: Option<String>,
    /// How long the server is waited for.
    timeouts: Option<TimeoutsFile>,
    /// Further tries within one attempt, while the model has not begun to speak; 2 unless given.
    #[schemars(range(min = 0, max = 10))]
    retries: Option<u32>,
    /// The most tokens of a reply.
    #[schemars(range(min = 1, max = 1_000_000))]
    max_tokens: Option<u32>,
    /// How freely the model chooses its words.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    /// Texts at which the model stops: one, or up to four. Not with `openai_responses`.
    stop: Option<StopFile>,
    /// Of how much of what is likely the model chooses.
    #[schemars(range(min = 0, max = 1))]
    top_p: Option<f64>,
    /// Where the model's chance begins, so that it says the same again. With `openai_chat`.
    seed: Option<i64>,
    /// How long the model thinks, as its server calls it: `low`, `medium`, `high`. Not with `anthropic`.
    #[schemars(length(min = 1))]
    reasoning_effort: Option<String>,
    /// What the server is told beside all this, as it is written here; nothing that has a setting of its own.
    extra: Option<Map<String, Value>>,
    /// What becomes of a reply that is cut short at the most tokens it may have; its step fails unless given.
    when_cut: Option<WhenCutFile>,
    /// Headers that the server wants beside ours. No keys: they belong into the environment.
    headers: Option<BTreeMap<String, String>>,
    /// With `provider: recorded`: the file of the exchanges, relative to this one.
    #[schemars(length(min = 1))]
    pub(super) file: Option<String>,
    /// With `provider: recorded`: whether exchanges are written or played back.
    mode: Option<RecordedMode>,
    /// With `provider: recorded`: the model whose exchanges they are.
    of: Option<Box<ModelFile>>,
}

/// One text, or several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the shape alone")]
pub(super) enum StopFile {
    /// One text.
    One(String),
    /// Several.
    Many(#[schemars(length(max = 4))] Vec<String>),
}

/// What becomes of a reply that is cut short.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhenCutFile {
    /// Its step fails; what was said is kept in the trail.
    Fail,
    /// The model is asked to go on, and what it says is one reply.
    Continue,
    /// It is taken as it is, with a warning.
    Keep,
}

/// How long a model server is waited for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "settings go to their provider as they are written; here is their shape"
)]
pub(super) struct TimeoutsFile {
    /// For the connection; 10s unless given.
    connect: Option<LengthOfTime>,
    /// Until the model begins to speak; 2m unless given.
    first_token: Option<LengthOfTime>,
    /// For a whole attempt, its retries included; 10m unless given. With `provider: a2a`: how long
    /// the agent may work without coming to rest; 1h unless given.
    total: Option<LengthOfTime>,
    /// With `provider: a2a`: how long the agent may be out of reach; 5m unless given.
    contact: Option<LengthOfTime>,
}

/// Whether exchanges are written or played back.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RecordedMode {
    /// The server is asked, and what it replies is written down.
    Record,
    /// The file answers; there is no network.
    Replay,
}

/// The name of a script file, or a list of rules.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ScriptSource {
    /// A script file, relative to this one.
    File(String),
    /// The rules themselves.
    Rules(Vec<RuleFile>),
}
