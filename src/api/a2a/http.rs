//! HTTP: the paths of JSON-RPC, HTTP+JSON and the cards, and who answers at each. What a call says and what comes
//! of it is not known here.
//!
//! ```text
//! /.well-known/agent-card.json                 the root's card       /a2a/{workflow}/.well-known/…
//! /a2a/grpc/.well-known/agent-card.json        with gRPC in it       /a2a/{workflow}/grpc/.well-known/…
//! /a2a                                         JSON-RPC              /a2a/{workflow}
//! /a2a/message:send, /a2a/tasks, …             HTTP+JSON             /a2a/{workflow}/message:send, …
//! ```

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response};
use axum::routing::any;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::api::a2a::answer::json;
use crate::api::a2a::call::Call;
use crate::api::a2a::card::Names;
use crate::api::a2a::errors::Problem;
use crate::api::a2a::{A2a, card, jsonrpc, rest, v03};
use crate::api::{MESSAGE_BYTES_MAX, host};

/// What HTTP+JSON's own paths begin with; a workflow is never called so, but for `tasks`.
const REST_ROOTS: [&str; 4] = ["message:send", "message:stream", "tasks", "extendedAgentCard"];
const CARD: [&str; 2] = [".well-known", "agent-card.json"];
/// What comes before the path of the card that names gRPC as well; a workflow of that name is reached as
/// any other.
const BY_GRPC: &str = "grpc";
/// As cards say it: [`card::KEYS_PATH`].
const KEYS: [&str; 2] = [".well-known", "jwks.json"];

pub(super) fn router(a2a: A2a) -> Router {
    Router::new()
        .route("/.well-known/agent-card.json", any(handle))
        .route("/a2a", any(handle))
        .route("/a2a/", any(handle))
        .route("/a2a/{*rest}", any(handle))
        .with_state(a2a)
}

async fn handle(State(a2a): State<A2a>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let mut segments: Vec<_> = path.split('/').map(decoded).collect();
    segments.retain(|segment| !segment.is_empty());
    if segments.first().is_some_and(|first| first == "a2a") {
        segments.remove(0);
    }
    let is_older = |first: &str| a2a.settings.v03 && first == v03::PREFIX;
    let is_root = segments.is_empty()
        || segments == CARD
        || segments == KEYS
        || segments.first().is_some_and(|first| REST_ROOTS.contains(&&**first) || is_older(first));
    let mut agent = (!is_root).then(|| segments.remove(0));
    let names = names(&a2a, &mut agent, &mut segments);
    let is_card = segments == CARD && parts.method.is_safe();
    let is_rpc = segments.is_empty();
    let is_older = segments.first().is_some_and(|first| is_older(first));
    let Ok(body) = axum::body::to_bytes(body, MESSAGE_BYTES_MAX).await else {
        return too_large(is_rpc);
    };
    let host = host::called(&parts.uri, &parts.headers).to_owned();
    let call = Call {
        host,
        method: parts.method,
        headers: parts.headers,
        agent,
        path: segments,
        query: query(parts.uri.query().unwrap_or_default()),
        body,
    };
    if is_card {
        return card_page(&a2a, &call, names);
    }
    if let (true, Some(signer)) = (call.path == KEYS, &a2a.settings.signer) {
        return json(200, "application/jwk-set+json", &signer.keys());
    }
    // On the heap: there are many of these at once, and most of them do little.
    if is_rpc {
        Box::pin(jsonrpc::answer(&a2a, call)).await
    } else if is_older {
        Box::pin(v03::answer_rest(&a2a, call)).await
    } else {
        Box::pin(rest::answer(&a2a, call)).await
    }
}

/// Which card a path is of; what says so is taken out of it.
fn names(a2a: &A2a, agent: &mut Option<String>, path: &mut Vec<String>) -> Names {
    let is_by_grpc = |first: Option<&String>| first.is_some_and(|first| first == BY_GRPC);
    if is_by_grpc(path.first()) && path.get(1..).is_some_and(|rest| rest == CARD) {
        path.remove(0);
        return Names::All;
    }
    let is_root = is_by_grpc(agent.as_ref()) && a2a.core.engine.library().get(BY_GRPC).is_none();
    if is_root && *path == CARD {
        *agent = None;
        return Names::All;
    }
    Names::Http
}

fn too_large(is_rpc: bool) -> Response<Body> {
    let remedy = format!("a call has at most {MESSAGE_BYTES_MAX} bytes");
    let problem = Problem::invalid("body", remedy);
    if is_rpc { jsonrpc::refused(&Value::Null, &problem) } else { rest::refused(&problem) }
}

/// The card of an agent as a page.
fn card_page(a2a: &A2a, call: &Call, names: Names) -> Response<Body> {
    let page = || {
        let entry = a2a.core.agent(call.agent.as_deref(), "")?;
        let card = card::card(a2a, &entry, call.agent.as_deref(), &call.base(a2a)?, names);
        Ok::<_, Problem>(card::page(a2a, &card, &call.headers))
    };
    page().unwrap_or_else(|problem| rest::refused(&problem))
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn query(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decoded(name), decoded(&value.replace('+', " ")))).collect()
}
