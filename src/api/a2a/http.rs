//! HTTP: what JSON-RPC, HTTP+JSON and the cards share: paths, callers, versions, bodies, streams.
//!
//! ```text
//! /.well-known/agent-card.json                 the root's card       /a2a/{workflow}/.well-known/…
//! /a2a/grpc/.well-known/agent-card.json        with gRPC in it       /a2a/{workflow}/grpc/.well-known/…
//! /a2a                                         JSON-RPC              /a2a/{workflow}
//! /a2a/message:send, /a2a/tasks, …             HTTP+JSON             /a2a/{workflow}/message:send, …
//! ```

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::any;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::Value;

use crate::api::Shown;
use crate::api::a2a::card::{Names, PROTOCOL};
use crate::api::a2a::core::{Caller, TaskStream};
use crate::api::a2a::errors::{Kind, Outcome, Problem};
use crate::api::a2a::{A2a, card, jsonrpc, rest, v03};
use crate::api::{MESSAGE_BYTES_MAX, host};
use crate::kernel::strict::{self, Misread};
use crate::wire::a2a::StreamResponse;

/// A stream that says nothing is kept open by a comment; proxies cut silence after a minute or so.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
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

/// What a call came to.
#[derive(Debug)]
pub(super) enum Answer {
    Value(Value),
    Stream(Box<TaskStream>),
}

/// An outcome as JSON.
pub(super) fn value(result: impl Serialize) -> Outcome<Answer> {
    let value = serde_json::to_value(result).map_err(|error| {
        Problem::new(Kind::Internal, "server.fault", format!("no JSON: {error}"))
    })?;
    Ok(Answer::Value(value))
}

/// A call, read as far as all HTTP bindings read it alike.
#[derive(Debug)]
pub(super) struct Call {
    /// The name that the caller called this server by.
    host: String,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    /// The workflow that the path names.
    pub(super) agent: Option<String>,
    /// The path below the agent.
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Bytes,
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

/// Where clients reach this server, as a URL without a path: as it was told, as this machine calls
/// itself, or where it listens. Never by a name of the caller's choice: a card may be signed, and whoever
/// has one that points at them could show it around (M7).
pub(super) fn base(a2a: &A2a, host: Option<&str>) -> Outcome<String> {
    if let Some(url) = &a2a.settings.public_url {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    let host = plain(host)?;
    if host::is_loopback(host) {
        return Ok(format!("http://{host}"));
    }
    match a2a.settings.listen.filter(|listen| !listen.ip().is_unspecified()) {
        Some(listen) => Ok(format!("http://{listen}")),
        None => Err(Problem::invalid(
            "host",
            "a card names this server as it was told to, not as its caller calls it; start it with \
             `--public-url`",
        )),
    }
}

/// A host's name, if it is one: it goes into cards.
fn plain(host: Option<&str>) -> Outcome<&str> {
    let is_plain = |host: &&str| {
        !host.is_empty()
            && host.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_:[]".contains(&c))
    };
    host.filter(is_plain)
        .ok_or_else(|| Problem::invalid("host", "expected a host's name, with or without a port"))
}

/// A stream as an outcome.
pub(super) fn stream(stream: TaskStream) -> Answer {
    Answer::Stream(Box::new(stream))
}

impl Call {
    /// Where the caller reaches this server.
    pub(super) fn base(&self, a2a: &A2a) -> Outcome<String> {
        base(a2a, Some(&self.host))
    }

    /// The card that only callers with a key get.
    pub(super) fn extended_card(&self, a2a: &A2a, caller: &Caller) -> Outcome<Value> {
        let tenant = Some(caller.tenant.as_str()).filter(|tenant| !tenant.is_empty());
        let path = self.agent.as_deref().or(tenant);
        let card = card::extended(a2a, &caller.agent, path, &self.base(a2a)?, Names::Http)?;
        Ok(card::json(a2a, &card))
    }

    /// Who calls which agent, in a version that is spoken here.
    pub(super) fn caller(&self, a2a: &A2a, tenant: &str) -> Outcome<Caller> {
        let who = a2a.core.admit(Shown::of(&self.headers))?;
        let agent = a2a.core.agent(self.agent.as_deref(), tenant)?;
        let key = self.header("idempotency-key").unwrap_or_default().to_owned();
        let tenant = tenant.to_owned();
        Ok(Caller { who, agent, key, tenant, is_older: false })
    }

    /// Refuses a version that is not spoken here.
    pub(super) fn check_version(&self) -> Outcome<()> {
        check_version(self.version())
    }

    /// The version that the caller names: by header, or else by query.
    pub(super) fn version(&self) -> Option<&str> {
        self.header("a2a-version").or_else(|| self.asked("A2A-Version"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A field of the query.
    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The media type of the body, without its parameters.
    pub(super) fn media_type(&self) -> &str {
        let given = self.header(header::CONTENT_TYPE.as_str()).unwrap_or_default();
        given.split(';').next().unwrap_or_default().trim()
    }

    /// The body as JSON; what says one thing twice is refused.
    pub(super) fn json(&self) -> Outcome<Value> {
        strict::read(&self.body).map_err(|why| match why {
            Misread::NoJson(error) => {
                Problem::new(Kind::Parse, "call.no_json", format!("the body is no JSON: {error}"))
            }
            Misread::Twice(place) => {
                let message = format!("{place}: it is given twice; send it once");
                Problem::new(Kind::InvalidRequest, "call.duplicate_key", message)
            }
        })
    }

    /// The last event that a client that comes back has seen.
    pub(super) fn last_event(&self) -> Option<u64> {
        self.header("last-event-id")?.trim().parse().ok()
    }
}

/// A version says `Major.Minor`; nothing said means 0.3, as the protocol has it.
pub(super) fn check_version(given: Option<&str>) -> Outcome<()> {
    let given = given.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("0.3");
    let mut numbers = given.split('.');
    if (numbers.next(), numbers.next()) == (Some("1"), Some("0")) {
        return Ok(());
    }
    Err(Problem::version(given, PROTOCOL))
}

/// A stream as server-sent events, each with its place in the journal as its id.
pub(super) fn sse(
    stream: Box<TaskStream>,
    write: impl Fn(Outcome<StreamResponse>) -> Value + Send + 'static,
) -> Response<Body> {
    let events = futures::stream::unfold((stream, write), |(mut stream, write)| async move {
        let event = match stream.next().await? {
            Ok((version, told)) => {
                Event::default().id(version.to_string()).data(write(Ok(told)).to_string())
            }
            Err(problem) => Event::default().data(write(Err(problem)).to_string()),
        };
        Some((Ok::<_, Infallible>(event), (stream, write)))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// A stream that says one thing.
pub(super) fn once(told: &Value) -> Response<Body> {
    let response = Response::builder().header(header::CONTENT_TYPE, "text/event-stream");
    response.body(Body::from(format!("data: {told}\n\n"))).unwrap_or_default()
}

/// A response with a JSON body.
pub(super) fn json(status: u16, media_type: &'static str, body: &Value) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::builder().status(status).header(header::CONTENT_TYPE, media_type);
    if status == StatusCode::UNAUTHORIZED {
        response = response.header(header::WWW_AUTHENTICATE, "Bearer");
    }
    response.body(Body::from(body.to_string())).unwrap_or_default()
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn query(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decoded(name), decoded(&value.replace('+', " ")))).collect()
}
