//! Models: who speaks for an agent. One provider a file, one door to all of them.
//!
//! ```text
//! input ─► prompt ─► openai_chat │ openai_responses │ anthropic ─► http ─► the server
//!                         reply ◄── reader ◄── ear ◄── pieces ◄──────┘ │
//!                                              └─► deltas    recorded ◄┘
//! ```
//!
//! A provider is told everything by its input and looks nothing up (K5), but for the key, which is
//! in the environment and nowhere else.

mod anthropic;
mod backoff;
mod body;
mod breaker;
mod dialect;
mod errors;
mod fault;
mod formats;
mod http;
mod names;
mod openai_chat;
mod openai_responses;
mod prompt;
mod reader;
mod recorded;
mod reply_accumulator;
mod reply_schema;
mod reply_stream;
mod script;
pub(super) mod scripted;
mod secret;
mod settings;

use std::sync::Arc;

use serde_json::Value;

use crate::kernel::workflow::Model;
use crate::kernel::{AgentInput, AttemptFault, Reply, Workflow};
use crate::ports::{Clock, DeltaSink};

use dialect::Dialect;
use fault::{Code, ModelFault};
use http::{Asking, Http};
use recorded::{Mode, Recorded, Recordings};
use reply_stream::Ear;
pub(super) use secret::{Environment, Secret};
use settings::{Settings, Wrong};

/// Providers of models, as files name them.
pub const MODEL_PROVIDERS: [&str; 6] =
    ["scripted", "openai_chat", "openai_responses", "anthropic", "recorded", "a2a"];

/// Who answers for a model.
enum Provider {
    Scripted,
    Live(Dialect),
    Recorded,
}

impl Provider {
    fn of(name: &str) -> Option<Self> {
        match name {
            "scripted" => Some(Self::Scripted),
            "recorded" => Some(Self::Recorded),
            other => Dialect::of_provider(other).map(Self::Live),
        }
    }
}

/// All providers of models.
#[derive(Debug)]
pub(super) struct Models {
    clock: Arc<dyn Clock>,
    environment: Environment,
    /// Whether a key must be there when a workflow is checked.
    pub(super) wants_keys: bool,
    http: Http,
    recordings: Recordings,
}

impl Models {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            http: Http::new(Arc::clone(&clock)),
            clock,
            environment: Environment::default(),
            wants_keys: true,
            recordings: Recordings::default(),
        }
    }

    /// Looks keys up elsewhere.
    pub(super) fn set_environment(&mut self, environment: Environment) {
        self.environment = environment;
    }

    /// Where keys are looked up.
    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The same, where a workflow is checked and keys must be there.
    pub(super) fn keys(&self) -> Option<&Environment> {
        self.wants_keys.then_some(&self.environment)
    }

    /// Whether there is a provider of that name.
    pub(super) fn has(name: &str) -> bool {
        MODEL_PROVIDERS.contains(&name)
    }

    /// What is wrong with a model's settings, all of it: where in them, and the remedy.
    pub(super) fn check(&self, model: &Model) -> Vec<Wrong> {
        let found = match Provider::of(&model.provider) {
            Some(Provider::Scripted) => return scripted::check(&model.settings),
            Some(Provider::Live(dialect)) => match Settings::look(dialect, &model.settings) {
                Ok(settings) => self.check_key(&settings),
                Err(all) => return all,
            },
            Some(Provider::Recorded) => self.check_recorded(&model.settings),
            None => Ok(()),
        };
        found.err().into_iter().collect()
    }

    fn check_recorded(&self, settings: &Value) -> Result<(), Wrong> {
        let recorded = Recorded::read(settings)?;
        let inner = |(at, remedy): Wrong| (format!("/of{at}"), remedy);
        let file = |fault: ModelFault| ("/file".to_owned(), fault.message);
        match recorded.mode {
            Mode::Record => self.check_key(&recorded.settings).map_err(inner),
            Mode::Replay => self.recordings.check(&recorded.file).map_err(file),
        }
    }

    fn check_key(&self, settings: &Settings) -> Result<(), Wrong> {
        match &settings.key_env {
            Some(name) if self.wants_keys && self.environment.key(name).is_none() => {
                Err(("/key_env".to_owned(), key_missing(name)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The reply, if it can be had without waiting.
    pub(super) fn reply_at_once(
        workflow: &Workflow,
        input: &AgentInput,
    ) -> Option<Result<Reply, AttemptFault>> {
        let model = workflow.models.get(&input.model)?;
        match Provider::of(&model.provider)? {
            Provider::Scripted => scripted::reply_at_once(workflow, input),
            Provider::Live(_) | Provider::Recorded => None,
        }
    }

    /// One attempt of a reply; none if there is no such provider.
    pub(super) async fn reply(
        &self,
        workflow: &Workflow,
        input: &AgentInput,
        deltas: &mut dyn DeltaSink,
    ) -> Option<Result<Reply, AttemptFault>> {
        let model = workflow.models.get(&input.model)?;
        let outcome = match Provider::of(&model.provider)? {
            Provider::Scripted => {
                return Some(scripted::reply(workflow, input, &*self.clock, deltas).await);
            }
            Provider::Live(dialect) => self.live(dialect, &model.settings, input, deltas).await,
            Provider::Recorded => self.recorded(&model.settings, input, deltas).await,
        };
        Some(outcome.map_err(|fault| fault.of_model(&input.model)))
    }

    async fn live(
        &self,
        dialect: Dialect,
        settings: &Value,
        input: &AgentInput,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Reply, ModelFault> {
        let settings = Settings::read(dialect, settings).map_err(unusable)?;
        let key = self.key(&settings)?;
        let request = dialect.request(&settings, input).to_string().into();
        let asking = Asking { dialect, settings: &settings, key: key.as_ref(), input, request };
        let reply = self.http.reply(&asking, &mut Ear::new(input, deltas)).await?;
        Ok(settings.when_cut(reply))
    }

    async fn recorded(
        &self,
        settings: &Value,
        input: &AgentInput,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Reply, ModelFault> {
        let recorded = Recorded::read(settings).map_err(unusable)?;
        let (dialect, settings) = (recorded.dialect, &recorded.settings);
        let request = dialect.request(settings, input);
        let digest = recorded::digest_of(dialect, &request);
        match recorded.mode {
            Mode::Replay => {
                let tape = self.recordings.find(&recorded.file, &digest, input)?;
                let reply = Ear::new(input, deltas).play(dialect.reader(input), &tape).await?;
                Ok(settings.when_cut(reply))
            }
            Mode::Record => {
                let key = self.key(settings)?;
                let request = request.to_string().into();
                let asking = Asking { dialect, settings, key: key.as_ref(), input, request };
                let mut ear = Ear::new(input, deltas).taping();
                let reply = self.http.reply(&asking, &mut ear).await?;
                let tape = ear.into_tape();
                self.recordings.write(&recorded, digest, input, (&reply, &tape))?;
                Ok(settings.when_cut(reply))
            }
        }
    }

    /// The key that the settings name.
    fn key(&self, settings: &Settings) -> Result<Option<Secret>, ModelFault> {
        let Some(name) = &settings.key_env else { return Ok(None) };
        let missing = || ModelFault::new(Code::KeyMissing, key_missing(name));
        self.environment.key(name).ok_or_else(missing).map(Some)
    }
}

fn key_missing(name: &str) -> String {
    format!(
        "the environment variable `{name}` is not set; set it to the key, name another in \
         `key_env`, or write `key_env: none` for a server that wants none"
    )
}

fn unusable((at, remedy): Wrong) -> ModelFault {
    ModelFault::new(Code::Settings, format!("its settings at `{at}`: {remedy}"))
}
