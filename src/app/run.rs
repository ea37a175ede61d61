//! Run: `serve` until told to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::app::gate::Gate;
use crate::app::house::{self, House};
use crate::app::keys::Keys;
use crate::app::moving::Moving;
use crate::app::server::{self, Bounds};
use crate::app::wiring::{Wiring, render};
use crate::app::{AppError, Config, keyring, people, store};
use crate::engine::Reach;

/// Before a start that the database left is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves until `shutdown`; `on_ready` is told the address that was bound.
pub async fn serve(
    config: Config,
    on_ready: impl FnOnce(SocketAddr) + Send,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), AppError> {
    if !config.shares_keys() {
        // What a file says is known before anything is opened.
        let keys = Keys::for_server(&config)?.filter(|keys| !keys.list().is_empty());
        keyring::admits(&config, keys.as_ref())?;
    }
    house::refuse_card_key(&config)?;
    // What is counted is counted from the first on.
    drop(render());
    let mut shutdown = std::pin::pin!(shutdown);
    let mut told = String::new();
    let (listener, address, house) = loop {
        let why = match begun(&config, shutdown.as_mut()).await {
            Ok(Some(begun)) => break begun,
            Ok(None) => return Ok(()),
            Err(error) if config.store.is_some() && error.may_pass() => error.to_string(),
            Err(error) => return Err(error),
        };
        // It waits as it does for one that is away from the first on.
        if why != told {
            tracing::warn!(why, "the database went away while the server began; it begins again");
        }
        told = why;
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = shutdown.as_mut() => return Ok(()),
        }
    };
    // Which database, where it is one: the address of another looks the same from here on.
    let over = config.store.as_ref().map(|_| store::place(&config));
    tracing::info!(%address, data = %config.data.display(), store = over, "serving");
    on_ready(address);
    house.supervisor.ready(address);
    let silence = Duration::from_secs(config.silence_seconds);
    let bounds = Bounds { silence, share: config.connections_per_address };
    let patience = Duration::from_secs(config.drain_seconds);
    let gate = Gate::new(house.front.clone());
    let house = Arc::new(Mutex::new(house));
    let moving = Moving::beside(&config, address, (&house, &gate));
    let drain = async {
        moving.stop();
        // Whoever is at changing the house is at the end of it soon.
        house.lock().await.close(patience).await;
    };
    let stopped = async {
        tokio::select! {
            () = shutdown => {}
            () = moving.lost() => {}
        }
    };
    server::serve(listener, &gate, stopped, drain, (patience, bounds)).await;
    tracing::info!("stopped");
    moving.ended()
}

/// Opens everything, listens, and puts what serves around it; nothing where somebody says meanwhile that it is not to be
/// served.
async fn begun(
    config: &Config,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Option<(TcpListener, SocketAddr, House)>, AppError> {
    let Some(world) = opened(config, shutdown).await? else { return Ok(None) };
    // Once more: what the file says may be something else by now.
    let keys = match keyring::admitting(config, &*world.store.journal()).await {
        Ok(keys) => keys,
        Err(error) => {
            world.shut_down(Duration::ZERO).await;
            return Err(error);
        }
    };
    people::warn(config, keys.as_ref());
    people::warn_early(keys.as_ref(), world.clock.now());
    let bound = async {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    let (listener, address) = match bound.await {
        Ok(bound) => bound,
        Err(source) => {
            world.shut_down(Duration::ZERO).await;
            return Err(AppError::Bind { listen: config.listen, source });
        }
    };
    let house = House::furnish(config, world, keys, address).await?;
    Ok(Some((listener, address, house)))
}

/// Opens everything; nothing where somebody says meanwhile that it is not to be served.
async fn opened(
    config: &Config,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Option<Wiring>, AppError> {
    let opening = Wiring::open(config, Reach::Everything);
    if config.store.is_none() {
        return opening.await.map(Some);
    }
    // A database may be waited for, and whoever is told to stop meanwhile has nothing to finish.
    let world = tokio::select! {
        opened = opening => opened?,
        () = shutdown => return Ok(None),
    };
    if let Err(error) = store::share_secret(config, &*world.store.journal()).await {
        world.shut_down(Duration::ZERO).await;
        return Err(error);
    }
    Ok(Some(world))
}
