//! Model: a server that speaks Chat Completions and takes its time: it answers nobody until it is
//! told to, and then everybody.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use futures::stream;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::bench::BenchError;

/// A model that thinks for as long as it is let.
#[derive(Debug)]
pub(super) struct SlowModel {
    /// Where its API begins.
    pub(super) base_url: String,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    /// How many ask at this moment.
    asking: watch::Sender<u32>,
    /// How often it has thought long enough.
    answers: watch::Sender<bool>,
}

impl SlowModel {
    /// Listens on the loopback.
    pub(super) async fn start() -> Result<Self, BenchError> {
        let fail = || BenchError::io("listen on the loopback");
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(fail())?;
        let base_url = format!("http://{}/v1", listener.local_addr().map_err(fail())?);
        let shared =
            Arc::new(Shared { asking: watch::Sender::new(0), answers: watch::Sender::new(true) });
        let router = Router::new()
            .route("/v1/chat/completions", post(answer))
            .with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { base_url, shared, task })
    }

    /// Answers nobody from now on.
    pub(super) fn think(&self) {
        self.shared.answers.send_replace(false);
    }

    /// Answers everybody who asks.
    pub(super) fn answer(&self) {
        self.shared.answers.send_replace(true);
    }

    /// Returns when so many ask at the same time.
    pub(super) async fn asked_by(&self, count: u32) -> Result<(), BenchError> {
        let mut asking = self.shared.asking.subscribe();
        let came = asking.wait_for(|asking| *asking >= count).await;
        came.map(drop).map_err(|_| BenchError::Unexpected("ask the model"))
    }
}

impl Drop for SlowModel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Counts one who asks, for as long as they do.
struct Asking(Arc<Shared>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.send_modify(|asking| *asking -= 1);
    }
}

async fn answer(State(shared): State<Arc<Shared>>, _request: Bytes) -> Response {
    shared.asking.send_modify(|asking| *asking += 1);
    let asking = Asking(Arc::clone(&shared));
    let mut answers = shared.answers.subscribe();
    drop(answers.wait_for(|answers| *answers).await);
    drop(asking);
    let chunk = |delta: serde_json::Value, reason: Option<&str>| {
        json!({
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_741_569_952,
            "model": "slow",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        })
    };
    let usage = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_741_569_952,
        "model": "slow", "choices": [],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    });
    let said = [
        chunk(json!({"role": "assistant", "content": ""}), None),
        chunk(json!({"content": "That took a while."}), None),
        chunk(json!({}), Some("stop")),
        usage,
    ];
    let lines = said.into_iter().map(|event| format!("data: {event}\n\n"));
    let lines = lines.chain(["data: [DONE]\n\n".to_owned()]);
    let pieces: Vec<_> = lines.map(|line| Ok::<_, Infallible>(Bytes::from(line))).collect();
    let mut response = Response::new(Body::from_stream(stream::iter(pieces)));
    let kind = http::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}
