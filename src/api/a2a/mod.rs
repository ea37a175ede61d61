//! A2A: every workflow as an agent that other agents give work to, on three bindings.
//!
//! One core, and thin bindings around it: JSON-RPC, HTTP+JSON, gRPC. Protocol 1.0, and 0.3 behind a
//! switch. The core speaks `wire::a2a`; a binding reads a call into it and writes its outcome, and decides nothing.

mod answer;
mod call;
mod card;
mod core;
pub(in crate::api) mod errors;
mod grpc;
mod http;
mod jsonrpc;
pub(in crate::api) mod kind;
mod mapping;
pub mod notify;
mod proto;
mod reading;
mod rest;
mod signature;
mod v03;
mod version;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;

use crate::api::Doorkeeper;
use crate::engine::Engine;
use crate::kernel::Millis;
use crate::wire::lf::a2a_service_server::A2aServiceServer;
use crate::wire::older::a2a_service_server::A2aServiceServer as OlderServiceServer;

use self::core::Core;

pub use grpc::A2aService;
pub use signature::{NoKey, Signer};
pub use v03::OlderService;

/// How the door is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The workflow that is the root's agent; the first by name if none was chosen.
    pub root: Option<String>,
    /// Where clients reach this server, as a URL, if it was told.
    pub public_url: Option<String>,
    /// Where it listens, if it does.
    pub listen: Option<SocketAddr>,
    /// Whether protocol 0.3 is spoken as well.
    pub v03: bool,
    /// Whether tasks may have webhooks.
    pub push: bool,
    /// Workflows whose waiting tasks are not answered by a message that names only their context.
    pub no_resume: Vec<String>,
    /// Signs cards, if there is a key for that.
    pub signer: Option<Arc<Signer>>,
    /// When the cards were last changed: workflows are read at the start.
    pub changed: Millis,
}

/// The door over an engine.
#[derive(Debug, Clone)]
pub struct A2a {
    core: Core,
    settings: Arc<Settings>,
}

impl A2a {
    /// The door over an engine, for the callers that the doorkeeper admits.
    pub fn new(engine: Engine, doorkeeper: Arc<dyn Doorkeeper>, settings: Settings) -> Self {
        let core = Core {
            engine,
            doorkeeper,
            root: settings.root.clone(),
            push: settings.push,
            no_resume: settings.no_resume.clone(),
        };
        Self { core, settings: Arc::new(settings) }
    }

    /// The routes of cards, JSON-RPC and HTTP+JSON.
    pub fn router(self) -> Router {
        http::router(self)
    }

    /// The gRPC service.
    pub fn service(&self) -> A2aServiceServer<A2aService> {
        A2aServiceServer::new(A2aService::new(self.clone()))
    }

    /// The gRPC service of protocol 0.3, where it is spoken.
    pub fn older_service(&self) -> Option<OlderServiceServer<OlderService>> {
        let service = || OlderServiceServer::new(OlderService::new(self.clone()));
        self.settings.v03.then(service)
    }
}
