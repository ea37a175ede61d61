//! Answer: what a call came to, and how HTTP carries it: as JSON, or as a stream of events. What it says is the
//! core's, and its shape the binding's.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use serde::Serialize;
use serde_json::Value;

use crate::api::a2a::core::TaskStream;
use crate::api::a2a::errors::{Kind, Outcome, Problem};
use crate::wire::a2a::StreamResponse;

/// A stream that says nothing is kept open by a comment; proxies cut silence after a minute or so.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

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

/// A stream as an outcome.
pub(super) fn stream(stream: TaskStream) -> Answer {
    Answer::Stream(Box::new(stream))
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
