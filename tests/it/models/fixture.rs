//! A model server that says exactly what a test tells it to, byte for byte.

use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt as _;
use http::HeaderMap;
use serde_json::Value;
use tokio::sync::Semaphore;

/// A request, as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// A part of a reply.
#[derive(Debug, Clone)]
pub(crate) enum Bit {
    /// These bytes, in a chunk of their own.
    Bytes(Bytes),
    /// Nothing until the gate opens.
    Gate(Arc<Semaphore>),
    /// The connection breaks.
    Cut,
    /// Nothing, ever.
    Never,
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    bits: Vec<Bit>,
    never: bool,
}

impl Answer {
    /// A stream of events.
    pub(crate) fn stream(text: impl AsRef<[u8]>) -> Self {
        Self::bits(vec![Bit::Bytes(Bytes::copy_from_slice(text.as_ref()))])
    }

    /// A stream in parts.
    pub(crate) fn bits(bits: Vec<Bit>) -> Self {
        let headers = vec![("content-type", "text/event-stream; charset=utf-8".to_owned())];
        Self { status: 200, headers, bits, never: false }
    }

    /// A stream that comes a few bytes at a time.
    pub(crate) fn dripping(text: &str, bytes: usize) -> Self {
        let chunks = text.as_bytes().chunks(bytes);
        Self::bits(chunks.map(|chunk| Bit::Bytes(Bytes::copy_from_slice(chunk))).collect())
    }

    /// A body at once.
    pub(crate) fn body(status: u16, kind: &str, text: impl Into<String>) -> Self {
        let headers = vec![("content-type", kind.to_owned())];
        let bits = vec![Bit::Bytes(Bytes::from(text.into()))];
        Self { status, headers, bits, never: false }
    }

    /// JSON at once.
    pub(crate) fn json(status: u16, value: &Value) -> Self {
        Self::body(status, "application/json", value.to_string())
    }

    /// Nothing at all, not even a status.
    pub(crate) fn never() -> Self {
        Self { never: true, ..Self::bits(Vec::new()) }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// Counts replies that nobody wanted to the end.
struct Unheard {
    left: Arc<Semaphore>,
    is_done: bool,
}

impl Drop for Unheard {
    fn drop(&mut self) {
        if !self.is_done {
            self.left.add_permits(1);
        }
    }
}

/// The server.
pub(crate) struct Fixture {
    pub(crate) base_url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    asked: Arc<Semaphore>,
    left: Arc<Semaphore>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fixture {
    /// Answers the request of each number, counted from 0.
    pub(crate) async fn start(
        answer: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (asked, left) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let answer = Arc::new(answer);
        let shared = (Arc::clone(&seen), Arc::clone(&asked), Arc::clone(&left));
        let handler = move |request: Request| {
            let (answer, (seen, asked, left)) = (Arc::clone(&answer), shared.clone());
            async move {
                let one = read(request).await;
                let number = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(one.clone());
                    seen.len() - 1
                };
                asked.add_permits(1);
                reply(answer(number, &one), Unheard { left, is_done: false }).await
            }
        };
        let router = Router::new().fallback(handler);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base_url, seen, asked, left, task }
    }

    /// Gives the same answer to every request.
    pub(crate) async fn always(answer: Answer) -> Self {
        Self::start(move |_, _| answer.clone()).await
    }

    /// Every request so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns when one more request has come.
    pub(crate) async fn asked(&self) {
        self.asked.acquire().await.unwrap().forget();
    }

    /// Returns when one more reply was left before its end.
    pub(crate) async fn left(&self) {
        self.left.acquire().await.unwrap().forget();
    }
}

async fn read(request: Request) -> Seen {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 << 20).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Seen { path: parts.uri.path().to_owned(), headers: parts.headers, body }
}

async fn reply(answer: Answer, unheard: Unheard) -> Response {
    if answer.never {
        std::future::pending::<()>().await;
    }
    let bits = futures::stream::iter(answer.bits);
    let bits = bits.filter_map(async |bit| match bit {
        Bit::Bytes(bytes) => {
            // Let what was sent before go out on its own.
            tokio::task::yield_now().await;
            Some(Ok(bytes))
        }
        Bit::Gate(gate) => {
            gate.acquire().await.unwrap().forget();
            None
        }
        Bit::Cut => {
            tokio::task::yield_now().await;
            Some(Err(io::Error::other("cut")))
        }
        Bit::Never => std::future::pending().await,
    });
    let end = futures::stream::once(async move {
        let mut unheard = unheard;
        unheard.is_done = true;
        Ok::<_, io::Error>(Bytes::new())
    });
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(Body::from_stream(bits.chain(end))).unwrap()
}
