//! House: everything that serves one store: an engine, its doors, and what keeps watch beside them. A server has one at a
//! time; where its store moves, another takes its place behind the same address. When it does is said elsewhere.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::api::a2a::Signer;
use crate::api::console::Console;
use crate::api::on_cancel::OnCancel;
use crate::api::{Doorkeeper, a2a, bridge};
use crate::app::auth::Keyed;
use crate::app::brake::machine;
use crate::app::credentials::SharedKeys;
use crate::app::dispatch::Front;
use crate::app::keys::Keys;
use crate::app::posture::{self, Posture};
use crate::app::reload::{Heed, Lookout};
use crate::app::server;
use crate::app::supervisor::Supervisor;
use crate::app::watchman::Watchman;
use crate::app::wiring::{Wiring, render};
use crate::app::{AppError, Config, people, policy, reload, store};
use crate::definition::draw;
use crate::engine::Engine;
use crate::ports::{Introduction, Note};

/// What serves one store.
#[derive(Debug)]
pub(super) struct House {
    pub(super) world: Wiring,
    pub(super) front: Front,
    pub(super) supervisor: Arc<Supervisor>,
    address: SocketAddr,
    /// Ends with the house.
    _beside: Vec<AbortOnDropHandle<()>>,
}

/// What is put around a world: the doors, who tells a supervisor of it, and what ends with it.
type Furniture = (Front, Arc<Supervisor>, Vec<AbortOnDropHandle<()>>);

impl House {
    /// Puts everything around a world that stands. `keys` are those that are in force. Where that is refused the world is
    /// shut down first: others who share the store would take it for a server that lives.
    pub(super) async fn furnish(
        config: &Config,
        mut world: Wiring,
        keys: Option<Keys>,
        address: SocketAddr,
    ) -> Result<Self, AppError> {
        match Self::around(config, &mut world, keys, address).await {
            Ok((front, supervisor, beside)) => {
                Ok(Self { world, front, supervisor, address, _beside: beside })
            }
            Err(error) => {
                world.shut_down(Duration::ZERO).await;
                Err(error)
            }
        }
    }

    async fn around(
        config: &Config,
        world: &mut Wiring,
        keys: Option<Keys>,
        address: SocketAddr,
    ) -> Result<Furniture, AppError> {
        let named = config.people.keys().cloned().collect();
        let posture =
            Posture::of(config, &world.engine.operator(), keys.as_ref(), world.clock.now());
        let summary = posture.summary();
        // Before anybody looks at the keys again: what is in force now is kept first.
        posture::told(posture.clone().keep_first(&world.engine).await);
        let journal = world.store.journal();
        posture::told(policy::keep_first(config, &world.engine, &*journal).await);
        let (see, seen) = watch::channel(posture);
        let keyed = Keyed::open(keys, named, &config.data, Arc::clone(&world.clock))
            .map(Arc::new)
            .map_err(|source| AppError::Passes { data: config.data.clone(), source })?;
        keyed.take_also(store::secret_before(config, &*world.store.journal()).await?);
        let (engine, settings, clock) =
            (world.engine.clone(), config.clone(), Arc::clone(&world.clock));
        // Who there is follows the keys: somebody whose key is gone is nobody (K8).
        let heed = move |keys: Option<&Keys>| {
            people::warn(&settings, keys);
            let now = clock.now();
            people::warn_early(keys, now);
            let operator = people::operator(&settings, keys, now);
            let posture = Posture::of(&settings, &operator, keys, now);
            engine.operate(operator);
            see.send_replace(posture);
        };
        let keeping = posture::keeping(world.engine.clone(), seen);
        let mut beside = vec![
            watching_keys(config, world, &keyed, Box::new(heed)),
            AbortOnDropHandle::new(tokio::spawn(keeping)),
        ];
        if let Some(path) = config.policy.clone() {
            let ruling = policy::watch(world.engine.clone(), path);
            beside.push(AbortOnDropHandle::new(tokio::spawn(ruling)));
        }
        let doorkeeper: Arc<dyn Doorkeeper> =
            Arc::new(Watchman::beside(keyed, world.engine.clone()));
        world
            .store
            .announce(&address.to_string())
            .map_err(|source| AppError::Bind { listen: address, source })?;
        let a2a = agents(config, world, Some(address))?;
        beside.extend(store::announce(config, address));
        beside.extend(world.watch_folder());
        let console = Console::new(world.engine.clone(), Arc::clone(&doorkeeper));
        let doors = (a2a, bridged(config, Duration::from_secs(config.silence_seconds)));
        let front =
            server::doors(&world.engine, doorkeeper, draw::mermaid, render(), doors).await?;
        let front = front.and(console.router());
        world.engine.introduce(introduction(address)).await;
        begins(&world.engine, address, summary).await;
        let (supervisor, reassuring) = Supervisor::beside(&world.engine);
        beside.push(reassuring);
        Ok((front, supervisor, beside))
    }

    /// Lets what is under way finish for as long as there is patience, and closes the store.
    pub(super) async fn close(&self, patience: Duration) {
        tracing::info!("draining");
        self.supervisor.stopping();
        let address = self.address.to_string();
        self.world.engine.note(Note::ServerStopped { address }).await;
        self.world.shut_down(patience).await;
    }
}

/// Looks at the keys while the server runs, where they are.
fn watching_keys(
    config: &Config,
    world: &Wiring,
    keyed: &Arc<Keyed>,
    heed: Heed,
) -> AbortOnDropHandle<()> {
    let door = Arc::clone(keyed);
    if !config.shares_keys() {
        let watching = reload::watch(door, config.keys_path(), heed);
        return AbortOnDropHandle::new(tokio::spawn(watching));
    }
    let (journal, engine) = (world.store.journal(), world.engine.clone());
    let epoch = move || engine.epoch_in_force();
    let lookout = Lookout::new(Arc::clone(&door), Arc::clone(&journal), epoch, heed);
    let lookout = Arc::new(lookout);
    let shared = SharedKeys::new(door, journal, Arc::clone(&lookout));
    world.engine.know_by(Arc::new(shared));
    AbortOnDropHandle::new(tokio::spawn(lookout.watch()))
}

/// How the HTTP door is set up.
fn bridged(config: &Config, silence: Duration) -> bridge::Settings {
    let on_cancel = config.on_cancel.unwrap_or(OnCancel::Run);
    bridge::Settings { sticky: config.http_sticky, silence, on_cancel }
}

/// What a server says of itself to those it shares a store with.
fn introduction(address: SocketAddr) -> Introduction {
    let machine = machine();
    let name = if machine.is_empty() { "a server".into() } else { machine };
    let program = env!("CARGO_PKG_VERSION").to_owned();
    Introduction { name, address: address.to_string(), program }
}

/// Notes that a server begins to serve, and says so if its store waits for somebody.
async fn begins(
    engine: &Engine,
    address: SocketAddr,
    (keys, environment, four_eyes): (u64, Option<String>, bool),
) {
    let (address, version) = (address.to_string(), env!("CARGO_PKG_VERSION").to_owned());
    engine.note(Note::ServerStarted { address, version, environment, four_eyes, keys }).await;
    if let Some(why) = engine.why_doubled() {
        tracing::warn!("{why}, and nobody has looked: nothing is done until `holdpoint release`");
    } else if engine.is_rewound() {
        tracing::warn!(
            "the store has gone back in time, and nobody has looked: nothing is done until `holdpoint release`"
        );
    } else if engine.is_held() {
        tracing::warn!(
            "the store was put back from a backup, or imported: nothing is done until `holdpoint release`"
        );
    }
}

/// How the A2A door is set up; the agent that was chosen for its root must be there.
pub(super) fn agents(
    config: &Config,
    world: &Wiring,
    listen: Option<SocketAddr>,
) -> Result<a2a::Settings, AppError> {
    let is_unknown = |name: &&String| world.engine.library().get(name).is_none();
    if let Some(root) = config.a2a_root.as_ref().filter(is_unknown) {
        return Err(AppError::UnknownWorkflow(root.clone()));
    }
    // Its file may be broken today and mended tomorrow: the others are served meanwhile.
    for name in config.a2a_no_resume.iter().filter(is_unknown) {
        tracing::warn!(workflow = name, "`a2a_no_resume` names a workflow that is not here");
    }
    Ok(a2a::Settings {
        root: config.a2a_root.clone(),
        public_url: config.public_url.clone(),
        listen,
        v03: config.a2a_v03,
        push: config.a2a_push,
        no_resume: config.a2a_no_resume.clone(),
        signer: config.a2a_card_key.as_deref().map(signer).transpose()?,
        changed: world.clock.now(),
    })
}

/// Refuses a key for agent cards that is none, before a store is opened for it.
pub(super) fn refuse_card_key(config: &Config) -> Result<(), AppError> {
    config.a2a_card_key.as_deref().map_or(Ok(()), |path| signer(path).map(drop))
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
