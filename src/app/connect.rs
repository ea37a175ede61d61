//! Connect: how a command comes to an orchestrator: to the server that was named, to the data directory in this very
//! process, or through whoever has that open. Whatever it is, it is spoken to in the same way.

use std::sync::Arc;

use hyper_util::rt::TokioIo;
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

use crate::app::attach::{End, Followed, Way};
use crate::app::client::{self, Client};
use crate::app::config::masked;
use crate::app::{AppError, Config, store};
use crate::engine::Reach;
use crate::kernel::Principal;

/// A client, and what must be closed behind it.
#[derive(Debug)]
pub struct Connection {
    /// Speaks to the orchestrator.
    pub client: Client,
    /// Whether the orchestrator is in this process.
    pub embedded: bool,
    /// Where it looks: a server's address, or a data directory.
    pub place: String,
    way: Option<Arc<Way>>,
}

impl Connection {
    /// Whether a server is at the other end, and not this process or another terminal: it drives its runs by itself.
    pub fn is_served(&self) -> bool {
        self.way.as_ref().is_none_or(|way| way.is_served())
    }

    /// What takes runs up on this side of the connection.
    pub fn hands(&self) -> Hands {
        Hands(self.way.clone())
    }

    /// Lets go of the orchestrator; one in this process finishes what is under way first.
    pub async fn close(self) {
        drop(self.client);
        if let Some(way) = self.way {
            way.close().await;
        }
    }
}

/// Takes runs up in this process, where the orchestrator is in it; a server takes up its own.
#[derive(Debug, Clone)]
pub struct Hands(Option<Arc<Way>>);

impl Hands {
    /// Takes a run up: what was lost under way is recovered, and its clock is looked at.
    pub async fn take_up(&self, run: &str) -> Result<(), AppError> {
        let Some(engine) = self.0.as_ref().and_then(|way| way.engine()) else { return Ok(()) };
        let taken_up = engine.take_up(run, &Principal::local("cli")).await;
        taken_up.map_err(|source| AppError::Stuck { run: run.to_owned(), source })
    }
}

/// Connects to the server that was named; else opens the data directory in this process, to drive no
/// more than `reach` says; else, where a server or another terminal has the directory, or serves a database beside it,
/// talks to that. When that one goes, whoever follows a run finds the way anew, and takes up what it `followed`.
pub async fn connect(
    config: &Config,
    reach: Reach,
    followed: Followed,
) -> Result<Connection, AppError> {
    let bearer = client::Bearer::new(config.api_key.as_deref())?;
    // What is in a database is worked on by servers; the one that has this data directory is at hand.
    let at_hand = || store::at_hand(config, reach);
    if let Some(server) = config.server.clone().or_else(at_hand) {
        let client = client::dial(&server, bearer).await?;
        return Ok(Connection { client, embedded: false, place: masked(&server), way: None });
    }
    store::refuse_shared(config, reach)?;
    let way = Arc::new(Way::new(config.clone(), reach, followed));
    // Found first, so that what stands in the way is told as what it is.
    let (line, end) = way.line().await?;
    let place = match &end {
        End::Here | End::Terminal => store::place(config),
        End::Server(address) => format!("http://{address}"),
    };
    let mut first = Some(line);
    let finding = Arc::clone(&way);
    let connector = service_fn(move |_: Uri| {
        let (first, way) = (first.take(), Arc::clone(&finding));
        async move {
            if let Some(line) = first {
                return Ok(TokioIo::new(line));
            }
            // In a task of its own: whoever no longer waits for it must not cut an opening off.
            let found = tokio::spawn(async move { way.line().await }).await;
            let found = found.map_err(std::io::Error::other)?;
            found.map(|(line, _)| TokioIo::new(line)).map_err(std::io::Error::other)
        }
    });
    let endpoint = match &end {
        End::Here | End::Terminal => Endpoint::from_static("http://localhost"),
        End::Server(_) => client::endpoint(&place)?,
    };
    let channel = endpoint.connect_with_connector(connector).await.map_err(|source| {
        AppError::Unreachable { server: place.clone(), source: Box::new(source) }
    })?;
    let client = client::over(channel, bearer);
    Ok(Connection { client, embedded: end == End::Here, place, way: Some(way) })
}
