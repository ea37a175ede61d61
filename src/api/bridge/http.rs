//! HTTP: what all calls of the bridge share: who calls, bodies and queries, JSON and SSE answers.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, Method, Response, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response as Answered};
use serde_json::Value;

use crate::api::bridge::Bridge;
use crate::api::bridge::errors::{Outcome, Problem};
use crate::api::bridge::id::Dialect;
use crate::api::bridge::json_body::json;
use crate::api::bridge::stream::{Line, Lines};
use crate::api::{MESSAGE_BYTES_MAX, Shown};
use crate::kernel::{Principal, strict};

/// A stream that says nothing is kept open by a comment; proxies cut silence after a minute or so.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A call from somebody who was admitted.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) who: Principal,
    pub(super) headers: HeaderMap,
    query: Vec<(String, String)>,
    body: Bytes,
}

impl FromRequest<Bridge> for Call {
    type Rejection = Problem;

    async fn from_request(request: Request, bridge: &Bridge) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let who = admit(bridge, &parts.headers)?;
        let Ok(body) = axum::body::to_bytes(body, MESSAGE_BYTES_MAX).await else {
            let remedy = format!("a call has at most {MESSAGE_BYTES_MAX} bytes");
            let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "field.too_large", remedy);
            return Err(problem.at("body"));
        };
        let query = parts.uri.query().unwrap_or_default();
        let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let call = Self { who, headers: parts.headers, query, body };
        // A page of somebody else's can have a browser send anything but JSON without asking.
        if parts.method != Method::GET && !call.body.is_empty() && !call.is_json() {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content_type.unsupported",
                "content-type: expected `application/json`",
            )
            .at("content-type"));
        }
        Ok(call)
    }
}

/// The caller, by the key that it shows.
pub(super) fn admit(bridge: &Bridge, headers: &HeaderMap) -> Outcome<Principal> {
    Ok(bridge.doorkeeper.admit(Shown::of(headers), "http")?)
}

impl Call {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A field of the query.
    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A number of the query.
    pub(super) fn number(&self, name: &str) -> Outcome<Option<u64>> {
        let given = self.asked(name).filter(|text| !text.is_empty()).map(str::parse).transpose();
        given.map_err(|_| Problem::invalid(name, "expected a whole number, 0 or more"))
    }

    /// The body as JSON; an empty one is an empty object.
    pub(super) fn json(&self) -> Outcome<Value> {
        if self.body.is_empty() {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        let body = strict::read(&self.body).map_err(|why| Problem::misread("body", why))?;
        if body.is_object() {
            Ok(body)
        } else {
            Err(Problem::invalid("body", "expected an object"))
        }
    }

    /// Whether the caller wants events: it says so in its `Accept`.
    pub(super) fn accepts_events(&self) -> bool {
        self.header("accept").is_some_and(|accept| accept.contains("text/event-stream"))
    }

    /// The dialect that a caller is told its run in. It may say so; else DevUI's clients name an
    /// entity, and OpenAI's SDKs name themselves; qlaw-cli is known by asking for events by header.
    pub(super) fn dialect(&self, names_entity: bool) -> Outcome<Dialect> {
        if let Some(word) = self.asked("dialect") {
            let remedy = "expected `openai`, `live`, `devui` or `qlaw`";
            return Dialect::parse(word).ok_or_else(|| Problem::invalid("dialect", remedy));
        }
        Ok(if names_entity {
            Dialect::DevUi
        } else if self.accepts_events() && self.header("x-stainless-lang").is_none() {
            Dialect::Qlaw
        } else {
            Dialect::OpenAi
        })
    }

    /// Makes the call safe to repeat; empty for none.
    pub(super) fn key(&self) -> String {
        self.header("idempotency-key").unwrap_or_default().to_owned()
    }

    /// Whether the client says that it sends this again: OpenAI's count their retries.
    pub(super) fn is_retry(&self) -> bool {
        let count = self.header("x-stainless-retry-count").and_then(|count| count.parse().ok());
        count.is_some_and(|count: u32| count > 0)
    }

    fn is_json(&self) -> bool {
        let given = self.header(header::CONTENT_TYPE.as_str()).unwrap_or_default();
        given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    }
}

/// What a call came to.
#[derive(Debug)]
pub(super) enum Reply {
    Json(Value),
    Events(Box<Lines>),
}

impl IntoResponse for Reply {
    fn into_response(self) -> Answered {
        match self {
            Self::Json(body) => json(StatusCode::OK, &body),
            Self::Events(lines) => sse(lines),
        }
    }
}

/// Server-sent events. They are made as the caller reads them and buffered nowhere: one that stops
/// reading holds up nobody, and the connection's own patience ends it.
fn sse(lines: Box<Lines>) -> Response<Body> {
    let events = futures::stream::unfold(lines, |mut lines| async {
        let event = match lines.next().await? {
            Line::Event { name, sequence, body } => {
                // The name goes first: readers by hand know what the data is when they see it.
                let event = Event::default();
                let event = if let Some(name) = name { event.event(name) } else { event };
                event.data(body).id(sequence.to_string())
            }
            Line::Done => Event::default().data("[DONE]"),
        };
        Some((Ok::<_, Infallible>(event), lines))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
