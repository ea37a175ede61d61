//! Run: `serve` until told to stop.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::api::a2a::Signer;
use crate::api::console::Console;
use crate::api::on_cancel::OnCancel;
use crate::api::{Doorkeeper, a2a, bridge};
use crate::app::auth::Keyed;
use crate::app::keys::Keys;
use crate::app::posture::Posture;
use crate::app::server::{self, Bounds};
use crate::app::supervisor::Supervisor;
use crate::app::watchman::Watchman;
use crate::app::wiring::{Wiring, render};
use crate::app::{AppError, Config, SystemClock, people, policy, reload, store};
use crate::definition::draw;
use crate::engine::{Engine, Reach};
use crate::ports::{Clock as _, Note};

/// Serves until `shutdown`; `on_ready` is told the address that was bound.
pub async fn serve(
    config: Config,
    on_ready: impl FnOnce(SocketAddr) + Send,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), AppError> {
    let keys = Keys::for_server(&config)?.filter(|keys| !keys.list().is_empty());
    if keys.is_none() && !config.listen.ip().is_loopback() {
        return Err(AppError::NoKeys { listen: config.listen });
    }
    people::refuse_confusion(&config, keys.as_ref())?;
    people::warn(&config, keys.as_ref());
    let render = render();
    let mut shutdown = std::pin::pin!(shutdown);
    let Some(mut world) = opened(&config, shutdown.as_mut()).await? else { return Ok(()) };
    let named = config.people.keys().cloned().collect();
    let posture = Posture::of(&config, &world.engine.operator(), keys.as_ref());
    let summary = posture.summary();
    // Before anybody looks at the keys again: what is in force now is kept first.
    keep(posture, &world.engine).await;
    let keyed = Keyed::open(keys, named, &config.data)
        .map(Arc::new)
        .map_err(|source| AppError::Passes { data: config.data.clone(), source })?;
    let (engine, settings) = (world.engine.clone(), config.clone());
    // Who there is follows the keys: somebody whose key is gone is nobody (K8).
    let heed = move |keys: Option<&Keys>| {
        people::warn(&settings, keys);
        let operator = people::operator(&settings, keys);
        let posture = Posture::of(&settings, &operator, keys);
        engine.operate(operator);
        let engine = engine.clone();
        async move { keep(posture, &engine).await }
    };
    let watching = reload::watch(Arc::clone(&keyed), config.keys_path(), heed);
    let _watching = AbortOnDropHandle::new(tokio::spawn(watching));
    let _ruling = ruling(&config, &world.engine);
    let doorkeeper: Arc<dyn Doorkeeper> = Arc::new(Watchman::beside(keyed, world.engine.clone()));
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
    world
        .store
        .announce(&address.to_string())
        .map_err(|source| AppError::Bind { listen: address, source })?;
    let a2a = agents(&config, &world, Some(address))?;
    let _folder = world.watch_folder();
    let console = Console::new(world.engine.clone(), Arc::clone(&doorkeeper));
    let silence = Duration::from_secs(config.silence_seconds);
    let bounds = Bounds { silence, share: config.connections_per_address };
    let doors = (a2a, bridged(&config, bounds.silence));
    let front = server::doors(&world.engine, doorkeeper, draw::mermaid, render, doors).await?;
    let front = front.and(console.router());
    begins(&world.engine, address, summary).await;
    tracing::info!(%address, data = %config.data.display(), "serving");
    let (supervisor, _reassuring) = Supervisor::beside(&world.engine);
    on_ready(address);
    supervisor.ready(address);
    let patience = Duration::from_secs(config.drain_seconds);
    let drain = async {
        tracing::info!("draining");
        supervisor.stopping();
        world.engine.note(Note::ServerStopped).await;
        world.shut_down(patience).await;
    };
    server::serve(listener, front, shutdown, drain, (patience, bounds)).await;
    tracing::info!("stopped");
    Ok(())
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
    store::share_secret(config, &*world.store.journal()).await?;
    Ok(Some(world))
}

/// How the HTTP door is set up.
fn bridged(config: &Config, silence: Duration) -> bridge::Settings {
    let on_cancel = config.on_cancel.unwrap_or(OnCancel::Run);
    bridge::Settings { sticky: config.http_sticky, silence, on_cancel }
}

/// Looks at the policy file, where there is one, until it is dropped.
fn ruling(config: &Config, engine: &Engine) -> Option<AbortOnDropHandle<()>> {
    let path = config.policy.clone()?;
    Some(AbortOnDropHandle::new(tokio::spawn(policy::watch(engine.clone(), path))))
}

/// Notes that a server begins to serve, and says so if its store waits for somebody.
async fn begins(
    engine: &Engine,
    address: SocketAddr,
    (keys, environment, four_eyes): (u64, Option<String>, bool),
) {
    let (address, version) = (address.to_string(), env!("CARGO_PKG_VERSION").to_owned());
    engine.note(Note::ServerStarted { address, version, environment, four_eyes, keys }).await;
    if engine.is_held() {
        tracing::warn!(
            "the store was put back from a backup, or imported: nothing is done until `holdpoint release`"
        );
    }
}

/// Notes what the operator has changed. A store that cannot keep it has said so elsewhere.
async fn keep(posture: Posture, engine: &Engine) {
    if let Err(error) = posture.keep(engine).await {
        tracing::warn!(%error, "what the operator changed could not be noted");
    }
}

/// How the A2A door is set up; the agent that was chosen for its root must be there.
pub(super) fn agents(
    config: &Config,
    world: &Wiring,
    listen: Option<SocketAddr>,
) -> Result<a2a::Settings, AppError> {
    if let Some(root) = &config.a2a_root
        && world.engine.library().get(root).is_none()
    {
        return Err(AppError::UnknownWorkflow(root.clone()));
    }
    Ok(a2a::Settings {
        root: config.a2a_root.clone(),
        public_url: config.public_url.clone(),
        listen,
        v03: config.a2a_v03,
        push: config.a2a_push,
        no_resume: config.a2a_no_resume.clone(),
        signer: config.a2a_card_key.as_deref().map(signer).transpose()?,
        changed: SystemClock.now(),
    })
}

/// Who signs agent cards.
fn signer(path: &Path) -> Result<Arc<Signer>, AppError> {
    let wrong = |source: Box<dyn std::error::Error + Send + Sync>| AppError::CardKey {
        path: path.to_path_buf(),
        source,
    };
    let pem = std::fs::read(path).map_err(|error| wrong(error.into()))?;
    let signer = Signer::read(&pem).map_err(|error| wrong(error.into()))?;
    Ok(Arc::new(signer))
}
