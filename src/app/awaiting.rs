//! Awaiting: what a server says while the database that has its store is out of reach. It listens where it will serve,
//! says that it lives and why it is not ready, and nothing else; it tries until somebody stops it.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::AppError;
use crate::store::{self, PostgresConfig, Store};

/// Between attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// How long an attempt may take before it is said that it goes on: one waits for as long as commits wait for a standby, or a
/// host says nothing.
const PROMPT: Duration = Duration::from_secs(1);

/// Why it is not ready.
type Reason = Arc<RwLock<String>>;

/// Opens the store in a database; waits for as long as that is out of reach.
pub(super) async fn open(config: &PostgresConfig, listen: SocketAddr) -> Result<Store, AppError> {
    let mut said: Option<(Reason, Standing)> = None;
    let mut is_warned = false;
    let config = &config.of_one_server();
    loop {
        let mut opening = Box::pin(store::open_postgres(config));
        let opened = if let Ok(opened) = tokio::time::timeout(PROMPT, &mut opening).await {
            opened
        } else {
            if said.is_none() {
                said = Some(stand(listen, NO_ANSWER).await?);
            }
            opening.await
        };
        let why = match opened {
            Ok(store) => {
                if let Some((_, standing)) = said {
                    standing.leave().await;
                    tracing::info!("the database is there");
                }
                return Ok(store);
            }
            Err(error) if error.may_pass() => error,
            Err(error) => return Err(error.into()),
        };
        if !is_warned {
            tracing::warn!(%why, "waiting for the database");
            is_warned = true;
        }
        match &said {
            Some((reason, _)) => told(reason, &why.to_string()),
            None => said = Some(stand(listen, &why.to_string()).await?),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What is said before anything is known.
const NO_ANSWER: &str = "the database has not answered yet";

/// Listens, and says why there is no more to be had.
async fn stand(listen: SocketAddr, why: &str) -> Result<(Reason, Standing), AppError> {
    let reason = Reason::default();
    told(&reason, why);
    Ok((Arc::clone(&reason), Standing::at(listen, reason).await?))
}

fn told(reason: &Reason, why: &str) {
    *reason.write().unwrap_or_else(PoisonError::into_inner) = format!("waiting: {why}\n");
}

/// The little that is served meanwhile.
struct Standing {
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Standing {
    async fn at(listen: SocketAddr, reason: Reason) -> Result<Self, AppError> {
        let listener = TcpListener::bind(listen).await;
        let listener = listener.map_err(|source| AppError::Bind { listen, source })?;
        let not_ready = |State(reason): State<Reason>, headers: HeaderMap| async move {
            let why = reason.read().unwrap_or_else(PoisonError::into_inner).clone();
            let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            if kind.is_some_and(|kind| kind.starts_with("application/grpc")) {
                // In its own words: what is read as a reply would be none.
                return tonic::Status::unavailable(why.trim_end()).into_http();
            }
            (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        };
        let router = Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .fallback(not_ready)
            .with_state(reason);
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let serving = tokio::spawn(async move {
            let served = axum::serve(listener, router).with_graceful_shutdown(stopped).await;
            if let Err(error) = served {
                tracing::warn!(%error, "nobody could be told that the database is away");
            }
        });
        Ok(Self { stop, serving })
    }

    /// Frees the address. Whoever still holds a connection open is not waited for.
    async fn leave(self) {
        self.stop.cancel();
        let mut serving = self.serving;
        if tokio::time::timeout(PAUSE, &mut serving).await.is_err() {
            serving.abort();
        }
    }
}
