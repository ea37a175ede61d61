//! Bridge: workflows over plain HTTP, in three dialects that existing clients speak unchanged:
//! OpenAI Responses, Agent Framework's DevUI, and qlaw-cli.
//!
//! A *response* is one leg of a run: from a start or an answer to the next pause or the end. Its id
//! says which run, from where, and in which dialect, so that whatever was streamed can be told again
//! from the journal, word for word, and nothing about it is kept anywhere else (E1).

mod apology;
mod cancel;
mod conversations;
mod devui;
mod devui_schema;
mod entities;
mod errors;
mod executors;
mod heartbeat;
mod http;
mod id;
mod item;
mod json_body;
mod live;
mod object;
mod openapi;
mod qlaw;
mod question_json;
mod reading;
mod remembered;
mod response_stream;
mod responses;
mod routes;
mod stream;
mod word;
mod workflows;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;

use crate::api::Doorkeeper;
use crate::api::grpc::Draw;
use crate::api::on_cancel::OnCancel;
use crate::engine::Engine;

/// How the door is set up.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Whether a plain message without a conversation answers its caller's single waiting run, for
    /// clients such as qlaw-cli that know no conversations.
    pub sticky: bool,
    /// How long a peer may be silent that owes something.
    pub silence: Duration,
    /// What cancelling a response that waits does, where the caller does not say.
    pub on_cancel: OnCancel,
}

/// The door over an engine.
#[derive(Debug, Clone)]
pub struct Bridge {
    engine: Engine,
    doorkeeper: Arc<dyn Doorkeeper>,
    draw: Draw,
    settings: Settings,
}

impl Bridge {
    /// The door over an engine, for the callers that the doorkeeper admits.
    pub fn new(
        engine: Engine,
        doorkeeper: Arc<dyn Doorkeeper>,
        draw: Draw,
        settings: Settings,
    ) -> Self {
        Self { engine, doorkeeper, draw, settings }
    }

    /// Its routes.
    pub fn router(self) -> Router {
        routes::router(self)
    }
}
