//! App: the wiring. What the configuration says becomes a store, an engine and its doors.

pub mod client;
pub mod config;
pub mod keys;
pub mod offline;

use std::net::SocketAddr;

pub use client::Client;
pub use config::Config;

/// Why the app cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The server does not answer.
    #[error("cannot reach the server at {server}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// Why.
        source: Box<tonic::transport::Error>,
    },
    /// TLS is not built in.
    #[error("cannot speak TLS to `{0}`")]
    NoTls(String),
    /// The API key cannot be sent.
    #[error("api_key: the key has characters that no key has")]
    BadKey,
    /// The keys file cannot be used.
    #[error(transparent)]
    Keys(#[from] keys::KeysError),
    /// The room that this needs is not built.
    #[error("`{0}` is not wired yet")]
    NotWired(&'static str),
}

impl AppError {
    /// What to do about it, if it is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } => {
                Some("start one with `holdpoint serve`, or leave --server out".into())
            }
            Self::NoTls(_) => Some("use `http://`, through a proxy that ends TLS".into()),
            Self::BadKey => Some("`holdpoint keys add NAME` makes one".into()),
            Self::Keys(_) | Self::NotWired(_) => None,
        }
    }

    /// Whether it is the server that is not there, rather than something that is wrong.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// A client, and what must be closed behind it.
#[derive(Debug)]
pub struct Connection {
    /// Speaks to the orchestrator.
    pub client: Client,
    /// Whether the orchestrator is in this process.
    pub embedded: bool,
}

impl Connection {
    /// Lets go of the orchestrator.
    #[expect(clippy::unused_async, reason = "the embedded orchestrator is drained here")]
    pub async fn close(self) {}
}

/// Serves until `shutdown`; `on_ready` is told the address that was bound.
#[expect(clippy::unused_async, reason = "a stub")]
pub async fn serve(
    _config: Config,
    _on_ready: impl FnOnce(SocketAddr) + Send,
    _shutdown: impl Future<Output = ()> + Send,
) -> Result<(), AppError> {
    Err(AppError::NotWired("serve"))
}

/// Connects to the server that was named, else opens the data directory in this process.
pub async fn connect(config: &Config) -> Result<Connection, AppError> {
    let bearer = client::Bearer::new(config.api_key.as_deref())?;
    match &config.server {
        Some(server) => {
            Ok(Connection { client: client::dial(server, bearer).await?, embedded: false })
        }
        None => Err(AppError::NotWired("embedded mode")),
    }
}
