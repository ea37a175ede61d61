//! A2A: a remote agent does an agent's work, however long it takes and whoever restarts meanwhile.
//!
//! ```text
//! input ─► card ─► send ─► note the task's id ─► follow: stream, else poll ─► at rest
//!                                                                               │
//!          reply ◄── results ◄────────────────────────────────────── completed ─┤
//!          request_user_input ◄── its question ◄───────────────── input required ┘
//! ```
//!
//! The id of the task is durable before it is waited for, so another try of the same turn follows
//! the same task. What the remote asks becomes our question; the next reply of the turn carries the
//! answer to it. A remote that lies, hangs or forgets is a fault, never a wait without end.

mod call;
mod card;
mod client;
mod fault;
mod follow;
mod from_a2a;
mod grpc;
mod memo;
mod settings;
mod to_a2a;
mod v03;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, header};
use serde_json::Value;

use crate::agents::models::Environment;
use crate::agents::tools::guard::Place;
use crate::agents::tools::web::Web;
use crate::kernel::workflow::Model;
use crate::kernel::{AgentInput, AttemptFault, Millis, Reply};
use crate::ports::{Clock, DeltaSink};

use call::{Call, CallError};
use card::Interface;
use client::{A2aClient, CALL_TIMEOUT};
use fault::{Code, RemoteFault};
use follow::Following;
use grpc::Wire;
use memo::Memo;
use settings::Settings;

/// The provider's name in files.
pub(super) const PROVIDER: &str = "a2a";
/// A card is looked at again after this long; a server that moved is found then.
const CARD_MS: u64 = 300_000;
/// Cards that are kept; a server's workflows name a few.
const CARDS_MAX: usize = 256;

/// All remote agents.
#[derive(Debug)]
pub(super) struct Remotes {
    clock: Arc<dyn Clock>,
    web: Result<Web, String>,
    cards: Mutex<HashMap<String, (Interface, Millis)>>,
}

impl Remotes {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, web: Web::shared(), cards: Mutex::default() }
    }

    /// What is wrong with a model's settings: where in them, and the remedy.
    pub(super) fn check(
        model: &Model,
        environment: Option<&Environment>,
    ) -> Result<(), (String, String)> {
        let settings = Settings::read(&model.settings)?;
        match (&settings.key_env, environment) {
            (Some(name), Some(environment)) if environment.key(name).is_none() => {
                Err(("/key_env".into(), key_missing(name)))
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Where a model's card is, if its settings say it.
    pub(super) fn place(name: &str, model: &Model) -> Option<Place> {
        let Settings { card, allow, .. } = Settings::read(&model.settings).ok()?;
        Some(Place { at: format!("/models/{name}/card"), url: card, allow })
    }

    /// One attempt of a reply.
    pub(super) async fn reply(
        &self,
        model: &Model,
        environment: &Environment,
        input: &AgentInput,
        notes: &mut dyn DeltaSink,
    ) -> Result<Reply, AttemptFault> {
        let of = |fault: RemoteFault| fault.of_model(&input.model);
        let settings = Settings::of(&model.settings).map_err(of)?;
        let mut following = Following {
            clock: &*self.clock,
            settings: &settings,
            input,
            notes,
            memo: Memo::read(input.memo.as_ref()),
        };
        let out_of_reach = self.clock.now().plus(settings.contact_ms);
        let line = loop {
            match self.line(&settings, environment).await {
                Ok(line) => break line,
                Err(CallError::Ill(why)) if self.clock.now() < out_of_reach => {
                    tracing::debug!(%why, "the card of an agent cannot be read");
                    following.pause(follow::PAUSE_MS_MAX).await;
                }
                Err(no) => return Err(of(no.into_fault())),
            }
        };
        following.reply(&line).await
    }

    /// Stops the task that a memo tells of. A task that is over, or unknown, is as good as stopped.
    pub(super) async fn release(
        &self,
        model: &Model,
        environment: &Environment,
        memo: &Value,
    ) -> Result<(), String> {
        let Some(memo) = Memo::read(Some(memo)) else { return Ok(()) };
        let settings = Settings::of(&model.settings).map_err(|fault| fault.message)?;
        let line = self.line(&settings, environment).await;
        let line = line.map_err(|no| no.into_fault().message)?;
        match line.call(Call::Cancel(&memo.task), &memo.task).await {
            Ok(_) | Err(CallError::NotFound | CallError::Unsupported(_)) => Ok(()),
            Err(no @ (CallError::Ill(_) | CallError::Fault(_))) => Err(no.into_fault().message),
        }
    }

    /// The line to a remote agent, by its card.
    async fn line(
        &self,
        settings: &Settings,
        environment: &Environment,
    ) -> Result<A2aClient, CallError> {
        let web = self.web.as_ref().map_err(|error| {
            CallError::Fault(RemoteFault::new(
                Code::Settings,
                format!("TLS cannot be set up: {error}"),
            ))
        })?;
        let private = |trouble: crate::agents::tools::web::Trouble| {
            CallError::Fault(RemoteFault::new(Code::Private, trouble.to_string()))
        };
        let headers = headers(settings, environment).map_err(CallError::Fault)?;
        let interface = if let Some(interface) = self.known(settings) {
            interface
        } else {
            let client = web.client(&settings.card, &settings.allow).map_err(private)?;
            let card = client::fetch_card(client, settings.card.clone(), &headers).await?;
            let interface = card::read(&card, &settings.card).map_err(CallError::Fault)?;
            self.keep(settings, &interface);
            interface
        };
        // The key is for the server that the file names, not for wherever its card points.
        let is_same = interface.url.origin() == settings.card.origin();
        let headers = if is_same { headers } else { HeaderMap::new() };
        let client = web.client(&interface.url, &settings.allow).map_err(private)?.clone();
        let wire = Wire::to(&interface, &headers, &settings.allow);
        let patience = Duration::from_millis(settings.contact_ms).min(CALL_TIMEOUT);
        Ok(A2aClient { interface, client, patience, wire, headers })
    }

    fn known(&self, settings: &Settings) -> Option<Interface> {
        let cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        let (interface, at) = cards.get(settings.card.as_str())?;
        (self.clock.now() < at.plus(CARD_MS)).then(|| interface.clone())
    }

    fn keep(&self, settings: &Settings, interface: &Interface) {
        let mut cards = self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        if cards.len() >= CARDS_MAX {
            cards.clear();
        }
        cards.insert(settings.card.to_string(), (interface.clone(), self.clock.now()));
    }
}

fn headers(settings: &Settings, environment: &Environment) -> Result<HeaderMap, RemoteFault> {
    let mut headers: HeaderMap = settings.headers.iter().cloned().collect();
    if let Some(name) = &settings.key_env {
        let missing = || RemoteFault::new(Code::KeyMissing, key_missing(name));
        let key = environment.key(name).ok_or_else(missing)?;
        let value = key.header("Bearer ").ok_or_else(missing)?;
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

fn key_missing(name: &str) -> String {
    format!("the environment variable `{name}` is not set; set it to the agent's key")
}
