//! A tool's other side: an HTTP server that counts what it is asked and answers as a test says.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// What was asked, once.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn key(&self) -> &str {
        self.header("idempotency-key")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// How a path is answered.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Json(Value),
    Raw(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// What was sent in the header of that name.
    Echo(&'static str),
    /// A body that never ends.
    Endless,
    /// This status the first time, and the value from then on.
    Mended(u16, Value),
    /// Once a permit is there, this.
    Gated(Value),
    /// Once a permit is there, elsewhere on the same server, with the same method.
    GatedTo(&'static str),
}

#[derive(Debug)]
struct Inner {
    answers: HashMap<String, Answer>,
    seen: Mutex<Vec<Seen>>,
    asked: Semaphore,
    gate: Semaphore,
}

/// The server. It lives as long as its runtime.
#[derive(Debug, Clone)]
pub(crate) struct ToolServer {
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
}

impl ToolServer {
    pub(crate) async fn start(answers: impl IntoIterator<Item = (&'static str, Answer)>) -> Self {
        let answers = answers.into_iter().map(|(path, answer)| (path.to_owned(), answer)).collect();
        let inner = Arc::new(Inner {
            answers,
            seen: Mutex::default(),
            asked: Semaphore::new(0),
            gate: Semaphore::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, inner }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns when it has been asked once more.
    pub(crate) async fn asked(&self) {
        self.inner.asked.acquire().await.unwrap().forget();
    }

    /// Returns when it has been asked there.
    pub(crate) async fn asked_at(&self, path: &str) {
        while self.seen().iter().all(|seen| seen.path != path) {
            self.asked().await;
        }
    }

    /// Lets gated answers go, from now on. Not just one: a handler whose caller was killed may not
    /// have noticed yet, and would take the one permit with it.
    pub(crate) fn open_gate(&self) {
        self.inner.gate.add_permits(1 << 10);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.inner.seen.lock().unwrap().clone()
    }
}

async fn answer(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let seen = Seen {
        method: parts.method.to_string(),
        path: parts.uri.path_and_query().unwrap().to_string(),
        headers: parts.headers.clone(),
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    let is_first = {
        let mut all = inner.seen.lock().unwrap();
        let is_first = all.iter().all(|before| before.path != seen.path);
        all.push(seen);
        is_first
    };
    inner.asked.add_permits(1);
    let json =
        |value: &Value| ([("content-type", "application/json")], value.to_string()).into_response();
    match inner.answers.get(parts.uri.path()) {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(Answer::Mended(status, _)) if is_first => {
            StatusCode::from_u16(*status).unwrap().into_response()
        }
        Some(Answer::Json(value) | Answer::Mended(_, value)) => json(value),
        Some(Answer::Echo(name)) => {
            let sent = parts.headers.get(*name).map_or("", |value| value.to_str().unwrap());
            format!("you sent {sent}").into_response()
        }
        Some(Answer::Raw(status, headers, body)) => {
            let mut response = Response::builder().status(*status);
            for (name, value) in headers {
                response = response.header(*name, value);
            }
            response.body(Body::from(body.clone())).unwrap()
        }
        Some(Answer::Endless) => {
            let piece = Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1 << 16]));
            let pieces = std::iter::repeat_with(move || Ok(piece.as_ref().unwrap().clone()));
            let pieces = pieces.map(|piece: Result<Bytes, std::io::Error>| piece);
            Body::from_stream(futures::stream::iter(pieces)).into_response()
        }
        Some(Answer::Gated(value)) => {
            inner.gate.acquire().await.unwrap().forget();
            json(value)
        }
        Some(Answer::GatedTo(path)) => {
            inner.gate.acquire().await.unwrap().forget();
            (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, *path)]).into_response()
        }
    }
}
