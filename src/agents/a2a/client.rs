//! Client: one call of a remote agent, in the binding that its card names, guarded and bounded. Says
//! of every no what kind it is; what to do about it is decided elsewhere.
//!
//! What goes out and what comes in is JSON in the shape of HTTP+JSON, whatever carries it.

use std::time::Duration;

use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use sse_stream::SseByteStream;
use url::Url;

use crate::agents::a2a::call::{BODY_BYTES_MAX, Call, CallError, Events, KEY, VERSION};
use crate::agents::a2a::card::{Binding, Interface};
use crate::agents::a2a::fault::{Code, RemoteFault, words};
use crate::agents::a2a::from_a2a::bad;
use crate::agents::a2a::grpc::Wire;
use crate::agents::a2a::v03;
use crate::agents::tools::web::{Trouble, trouble};
use crate::agents::trace;

/// For a call that is answered at once: a stream, or a task that is still at work.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// What came of a call that may be a stream.
pub(super) enum Opened {
    Stream(Events),
    Whole(Value),
}

/// Calls of one remote agent.
#[derive(Debug, Clone)]
pub(super) struct A2aClient {
    pub(super) interface: Interface,
    pub(super) client: Client,
    /// How long a call may go unanswered.
    pub(super) patience: Duration,
    /// How it is reached by gRPC, where that is its binding.
    pub(super) wire: Option<Wire>,
    /// Whatever goes with every request: the key, and the file's own headers.
    pub(super) headers: HeaderMap,
}

impl A2aClient {
    /// A call that is answered whole. `key` is the same for every try of it.
    pub(super) async fn call(&self, call: Call<'_>, key: &str) -> Result<Value, CallError> {
        if let Some(wire) = &self.wire {
            let called = wire.call(call, key);
            let told = tokio::time::timeout(self.patience, called).await;
            return told.unwrap_or_else(|_| Err(CallError::Ill("it does not answer".into())));
        }
        let request = self.request(call, key)?.timeout(self.patience);
        let response = request.send().await.map_err(|error| unheard(&error))?;
        let status = response.status();
        let body = whole(response).await?;
        self.read(status, &body)
    }

    /// A call that is answered by a stream, if all is well.
    pub(super) async fn open(&self, call: Call<'_>, key: &str) -> Result<Opened, CallError> {
        if let Some(wire) = &self.wire {
            let opened = tokio::time::timeout(self.patience, wire.open(call, key)).await;
            let opened =
                opened.unwrap_or_else(|_| Err(CallError::Ill("it does not answer".into())));
            return opened.map(Opened::Stream);
        }
        let sending = self.request(call, key)?.send();
        let response = tokio::time::timeout(self.patience, sending).await;
        let response = response.map_err(|_| CallError::Ill("it does not answer".into()))?;
        let response = response.map_err(|error| unheard(&error))?;
        let kind = response.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let status = response.status();
            let body = whole(response).await?;
            return self.read(status, &body).map(Opened::Whole);
        }
        let line = self.clone();
        let events = SseByteStream::new(response.bytes_stream()).filter_map(move |event| {
            let told = match event {
                Ok(event) => event.data.map(|data| line.event(&data)),
                Err(_) => Some(Err(CallError::Ill("its stream broke".into()))),
            };
            std::future::ready(told)
        });
        Ok(Opened::Stream(Box::pin(events)))
    }

    fn event(&self, data: &str) -> Result<Value, CallError> {
        if data.len() > BODY_BYTES_MAX {
            return Err(too_large());
        }
        self.read(StatusCode::OK, data.as_bytes())
    }

    fn request(&self, call: Call<'_>, key: &str) -> Result<RequestBuilder, CallError> {
        let (method, url, body) = if self.interface.binding == Binding::Rest {
            self.path(call)?
        } else {
            let (name, params) = self.named(call);
            let body = json!({"jsonrpc": "2.0", "id": key, "method": name, "params": params});
            (Method::POST, self.interface.url.clone(), Some(body))
        };
        let accept = match call {
            Call::Stream(_) | Call::Subscribe(_) => "text/event-stream, application/json",
            Call::Send(_) | Call::Get(_) | Call::Cancel(_) => "application/json",
        };
        let version = HeaderValue::from_static(self.interface.version());
        let mut request = self
            .client
            .request(method, url)
            .headers(self.headers.clone())
            .headers(trace::headers())
            .header(VERSION, version)
            .header(header::ACCEPT, accept);
        if let Some(body) = body {
            request =
                request.header(header::CONTENT_TYPE, "application/json").body(body.to_string());
        }
        match call {
            Call::Stream(_) | Call::Send(_) => Ok(request.header(KEY, key)),
            Call::Get(_) | Call::Subscribe(_) | Call::Cancel(_) => Ok(request),
        }
    }

    fn named(&self, call: Call<'_>) -> (&'static str, Value) {
        let names = match call {
            Call::Stream(_) => ("SendStreamingMessage", "message/stream"),
            Call::Send(_) => ("SendMessage", "message/send"),
            Call::Get(_) => ("GetTask", "tasks/get"),
            Call::Subscribe(_) => ("SubscribeToTask", "tasks/resubscribe"),
            Call::Cancel(_) => ("CancelTask", "tasks/cancel"),
        };
        if self.interface.is_older {
            return (names.1, v03::params(call));
        }
        (names.0, call.params(&self.interface.tenant))
    }

    fn path(&self, call: Call<'_>) -> Result<(Method, Url, Option<Value>), CallError> {
        let of = |id: &str, verb: &str| vec!["tasks".to_owned(), format!("{id}{verb}")];
        let (method, path) = match call {
            Call::Stream(_) => (Method::POST, vec!["message:stream".to_owned()]),
            Call::Send(_) => (Method::POST, vec!["message:send".to_owned()]),
            Call::Get(id) => (Method::GET, of(id, "")),
            Call::Subscribe(id) if self.interface.is_older => (Method::GET, of(id, ":subscribe")),
            Call::Subscribe(id) => (Method::POST, of(id, ":subscribe")),
            Call::Cancel(id) => (Method::POST, of(id, ":cancel")),
        };
        let mut url = self.interface.url.clone();
        let mut segments = url
            .path_segments_mut()
            .map_err(|()| CallError::Fault(bad("its address has no path")))?;
        segments.pop_if_empty();
        if self.interface.is_older {
            segments.push("v1");
        }
        if !self.interface.tenant.is_empty() {
            segments.push(&self.interface.tenant);
        }
        segments.extend(path);
        drop(segments);
        let body = match call {
            Call::Stream(_) | Call::Send(_) if self.interface.is_older => {
                Some(v03::message_of(call))
            }
            Call::Stream(_) | Call::Send(_) => Some(call.params(&self.interface.tenant)),
            Call::Get(_) => {
                url.set_query(Some("historyLength=0"));
                None
            }
            Call::Subscribe(_) if self.interface.is_older => None,
            Call::Subscribe(_) | Call::Cancel(_) => Some(json!({})),
        };
        Ok((method, url, body))
    }

    /// What a body says: a result, or which no.
    fn read(&self, status: StatusCode, body: &[u8]) -> Result<Value, CallError> {
        let value = serde_json::from_slice::<Value>(body).ok();
        let error = value.as_ref().and_then(|value| value.get("error")).filter(|no| !no.is_null());
        if let Some(error) = error {
            return Err(refused(status, error));
        }
        if !status.is_success() {
            return Err(refused(status, &Value::Null));
        }
        let value = value.ok_or_else(|| CallError::Fault(bad("what it sent is no JSON")))?;
        match self.interface.binding {
            Binding::Rest if self.interface.is_older => Ok(v03::newer(value)),
            Binding::Rest => Ok(value),
            Binding::JsonRpc | Binding::Grpc => value.get("result").cloned().ok_or_else(|| {
                CallError::Fault(bad("its answer has neither a result nor an error"))
            }),
        }
    }
}

/// Which no an error is: by its code or its reason, and only then by the status.
fn refused(status: StatusCode, error: &Value) -> CallError {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    let details = error.get("details").or_else(|| error.get("data")).and_then(Value::as_array);
    let reason = details.into_iter().flatten().find_map(|one| one.get("reason")?.as_str());
    let said = error.get("message").and_then(Value::as_str).map(words).unwrap_or_default();
    let said = if said.is_empty() { format!("status {}", status.as_u16()) } else { said };
    match (code, reason, status.as_u16()) {
        (_, _, 401 | 403) => CallError::Fault(RemoteFault::new(Code::Unauthorized, said)),
        (-32001, ..) | (_, Some("TASK_NOT_FOUND"), _) | (_, None, 404) => CallError::NotFound,
        (-32004 | -32002, ..) | (_, Some("UNSUPPORTED_OPERATION" | "TASK_NOT_CANCELABLE"), _) => {
            CallError::Unsupported(said)
        }
        (-32603, ..) | (_, _, 408 | 425 | 429 | 500..=599) => CallError::Ill(said),
        (..) => CallError::Fault(RemoteFault::new(Code::Refused, said)),
    }
}

fn unheard(error: &reqwest::Error) -> CallError {
    match trouble(error) {
        private @ Trouble::Private(_) => {
            CallError::Fault(RemoteFault::new(Code::Private, private.to_string()))
        }
        other @ (Trouble::Unreachable(_)
        | Trouble::Lost(_)
        | Trouble::TooLarge(_)
        | Trouble::Redirect(_)) => CallError::Ill(other.to_string()),
    }
}

async fn whole(mut response: Response) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unheard(&error))? {
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn too_large() -> CallError {
    CallError::Fault(bad(&format!("what it sent has more than {BODY_BYTES_MAX} bytes")))
}

/// Reads a card from where the file says it is.
pub(super) async fn fetch_card(
    client: &Client,
    url: Url,
    headers: &HeaderMap,
) -> Result<Value, CallError> {
    let request = client.get(url).headers(headers.clone()).timeout(CALL_TIMEOUT);
    let response = request.send().await.map_err(|error| unheard(&error))?;
    let status = response.status();
    let body = whole(response).await?;
    let card = |why: String| CallError::Fault(RemoteFault::new(Code::Card, why));
    match status.as_u16() {
        200 => serde_json::from_slice(&body).map_err(|_| card("its card is no JSON".into())),
        408 | 425 | 429 | 500..=599 => Err(CallError::Ill(format!("its card: status {status}"))),
        other => Err(card(format!("there is no card at `card`: status {other}"))),
    }
}
