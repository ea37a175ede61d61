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
use crate::store::{self, PostgresConfig, PostgresError, Store};

/// Between attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Why it is not ready.
type Reason = Arc<RwLock<String>>;

/// Opens the store in a database; waits for as long as that is out of reach.
pub(super) async fn open(config: &PostgresConfig, listen: SocketAddr) -> Result<Store, AppError> {
    let mut said: Option<(Reason, Standing)> = None;
    let config = &config.of_one_server();
    loop {
        let why = match store::open_postgres(config).await {
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
        if let Some((reason, _)) = &said {
            told(reason, &why);
        } else {
            tracing::warn!(%why, "waiting for the database");
            let reason = Reason::default();
            told(&reason, &why);
            said = Some((Arc::clone(&reason), Standing::at(listen, reason).await?));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn told(reason: &Reason, why: &PostgresError) {
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
