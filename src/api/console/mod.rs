//! Console: the door for people with a browser, at `/console`.
//!
//! Every page is rendered here, whole, from what is stored; forms are plain HTML and work with
//! scripts off. One small module of our own asks for the page again when something has changed and
//! puts the changed parts in place. Nothing is fetched from anywhere else, and what models, tools
//! and callers wrote is text, never markup.
//!
//! - What a person approves is drawn from the stored action, and the form carries its digest (K3).
//! - A form that changes something is taken only from our own pages (`request_context`).

mod audit;
mod consequences;
mod conversation;
mod fields;
mod flow;
mod forks;
mod form;
mod graph;
mod inbox;
mod listing;
mod live;
mod log;
mod markdown;
mod memory;
mod oversight;
mod page;
mod replicas;
mod request;
mod request_context;
mod run;
mod runs;
mod sessions;
mod sign_in;
mod text;
mod timeline;
mod together;
mod tree;
mod value;
mod visit;
mod welcome;
mod whereabouts;
mod workflows;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response};
use axum::routing::any;

use crate::api::Doorkeeper;
use crate::engine::Engine;
use page::Trouble;
pub use sign_in::{PASS_SECONDS, pass};
use visit::Visit;

/// The console over an engine.
#[derive(Debug, Clone)]
pub struct Console {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    doorkeeper: Arc<dyn Doorkeeper>,
}

impl Console {
    /// The console over an engine, for the people that the doorkeeper admits.
    pub fn new(engine: Engine, doorkeeper: Arc<dyn Doorkeeper>) -> Self {
        Self { inner: Arc::new(Inner { engine, doorkeeper }) }
    }

    /// Everything below `/console`.
    pub fn router(self) -> Router {
        Router::new()
            .route("/console", any(handle))
            .route("/console/", any(handle))
            .route("/console/{*rest}", any(handle))
            .with_state(self)
    }
}

async fn handle(State(console): State<Console>, request: Request<Body>) -> Response<Body> {
    let response = match request_context::read(&console, request).await {
        Err(response) => *response,
        Ok(visit) => match answer(&visit).await {
            Ok(response) => response,
            Err(trouble) => page::trouble(&visit, &trouble).await,
        },
    };
    page::guarded(response)
}

async fn answer(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let path: Vec<&str> = visit.path.iter().map(String::as_str).collect();
    if visit.is_post {
        return match path.as_slice() {
            ["requests", id] => request::answer(visit, id).await,
            ["requests", id, "withdraw"] => request::withdraw(visit, id).await,
            ["requests", id, "claim"] => request::claim(visit, id).await,
            ["requests", id, "delegate"] => request::delegate(visit, id).await,
            ["requests", id, "later"] => request::later(visit, id).await,
            ["inbox", "together"] => together::answer(visit).await,
            ["workflows", name] => workflows::start(visit, name).await,
            ["runs", id, "cancel"] => run::cancel(visit, id).await,
            ["runs", id, "fork"] => forks::fork(visit, id).await,
            ["runs", id, "revoke"] => run::revoke(visit, id).await,
            ["runs", id, "signal"] => run::signal(visit, id).await,
            ["sign-out"] => Ok(sign_in::sign_out(visit)),
            _ => Err(Trouble::Nothing),
        };
    }
    match path.as_slice() {
        // What was chosen together is in no address: whoever comes back to it begins with the list.
        [] | ["inbox", "together"] => Ok(page::redirect("/console/inbox")),
        ["inbox"] => inbox::page(visit).await,
        ["requests", id] => request::page(visit, id).await,
        ["requests", id, "receipt"] => request::receipt(visit, id).await,
        ["runs"] => runs::page(visit).await,
        ["runs", id] => run::page(visit, id).await,
        ["runs", id, "live"] => live::run(visit, id).await,
        ["runs", id, "receipts", sequence] => audit::receipt(visit, id, sequence).await,
        ["sessions"] => sessions::list(visit).await,
        ["sessions", id] => sessions::one(visit, id).await,
        ["workflows"] => workflows::list(visit).await,
        ["workflows", name] => workflows::one(visit, name).await,
        ["audit"] => audit::page(visit).await,
        ["audit", "store"] => log::page(visit).await,
        ["oversight"] => oversight::page(visit).await,
        ["replicas"] => replicas::page(visit).await,
        ["live"] => Ok(live::inbox(visit)),
        ["live", "workflows"] => Ok(live::workflows(visit)),
        _ => Err(Trouble::Nothing),
    }
}
