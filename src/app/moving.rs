//! Moving: a store goes from the data directory into a database, in one command or in the server that serves it. It is
//! asked for by a file in the data directory, as a halt can be: whoever may do so can read the store anyway, and a
//! password goes through no door. What a move is, and when which store is in charge, is said in `store::moving`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex as Slot, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::app::gate::Gate;
use crate::app::house::House;
pub use crate::app::stranded::Stranded;
use crate::app::{AppError, Config};

/// How far a move is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Stage {
    /// It was not begun yet.
    Asked,
    /// The store is copied while it is served.
    Copying {
        /// Runs that are there.
        runs: u64,
    },
    /// Nothing is taken on; the rest is copied.
    Switching,
    /// The database is in charge.
    Done {
        /// Where it is, without a password.
        place: String,
        /// Runs.
        runs: u64,
        /// Events.
        events: u64,
        /// For how long callers waited; none where nobody served it.
        #[serde(default)]
        gap_ms: Option<u64>,
        /// What nobody can answer any more where servers ask for keys.
        #[serde(default)]
        stranded: Stranded,
    },
    /// The data directory is in charge, as before.
    Failed {
        /// Why.
        why: String,
    },
}

impl Stage {
    /// The end of a move that came to it before: what there was is not counted again.
    #[cfg(feature = "postgres")]
    fn before(place: String) -> Self {
        Self::Done { place, runs: 0, events: 0, gap_ms: None, stranded: Stranded::default() }
    }
}

/// A server's readiness to take its store elsewhere.
#[derive(Debug)]
pub(super) struct Moving {
    stop: CancellationToken,
    lost: CancellationToken,
    why: Arc<Slot<Option<AppError>>>,
}

impl Moving {
    /// Looks for whoever asks, for as long as the server runs.
    pub(super) fn beside(
        config: &Config,
        address: SocketAddr,
        (house, gate): (&Arc<Mutex<House>>, &Arc<Gate>),
    ) -> Self {
        let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
        let why = Arc::<Slot<_>>::default();
        let moving = Self { stop: stop.clone(), lost: lost.clone(), why: Arc::clone(&why) };
        if config.store.is_none() {
            let mover = Mover {
                config: config.clone(),
                address,
                house: Arc::clone(house),
                gate: Arc::clone(gate),
                stop,
            };
            tokio::spawn(async move {
                if let Err(error) = mover.work().await {
                    *why.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    lost.cancel();
                }
            });
        }
        moving
    }

    /// No move is begun any more; one that only copies is given up.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Returns if the store has moved and the server could not follow it.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Why the server ended, if a move is the reason.
    pub(super) fn ended(&self) -> Result<(), AppError> {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner).take();
        why.map_or(Ok(()), Err)
    }
}

/// What a server needs to take its store elsewhere.
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "there is nowhere to go"))]
struct Mover {
    config: Config,
    address: SocketAddr,
    house: Arc<Mutex<House>>,
    gate: Arc<Gate>,
    stop: CancellationToken,
}

#[cfg(not(feature = "postgres"))]
impl Mover {
    #[expect(clippy::unused_async, reason = "as it is with the feature")]
    async fn work(self) -> Result<(), AppError> {
        Ok(())
    }
}

/// Takes the store in the data directory into a database, in the server that has it, or here.
#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "as it is with the feature")]
pub async fn carry(
    _config: &Config,
    _to: &str,
    _progress: &(dyn Fn(&Stage) + Send + Sync),
) -> Result<Stage, AppError> {
    Err(AppError::NoPostgres)
}

#[cfg(feature = "postgres")]
pub use here::carry;

#[cfg(feature = "postgres")]
mod here {
    use std::fs::{self, File};
    use std::io;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{AppError, Config, Deserialize, House, Mover, Serialize, Stage, Stranded};
    use crate::app::auth;
    use crate::app::clock::SystemClock;
    use crate::app::keyring;
    use crate::app::keys::{Keys, KeysError, lock as keys_lock, shared as keys_shared};
    use crate::app::offline::note;
    use crate::app::reread;
    use crate::app::store as shared;
    use crate::app::wiring::Wiring;
    use crate::ports::{Clock as _, Note};
    use crate::store::moving::{Move, MoveError, Moved, is_moved, take_up};
    use crate::store::{self, OpenError, PostgresConfig, Store, StoreConfig};

    /// The file that asks a server for it.
    const WISH: &str = "move.json";
    /// The file that says how far it is.
    const STATE: &str = "move.state.json";
    /// How often either is looked at.
    const EVERY: Duration = Duration::from_millis(200);
    /// After how many looks without news is asked whether the server is still there.
    const SILENT_LOOKS: u32 = 25;
    /// How long attempts under way may take before they are cut off, while callers wait.
    const ATTEMPTS: Duration = Duration::from_secs(10);
    /// How long the database may be out of reach once it is in charge, before the server gives up.
    const FOLLOW: Duration = Duration::from_mins(1);

    #[derive(Serialize, Deserialize)]
    struct Wish {
        to: String,
    }

    /// Takes the store in the data directory into a database, in the server that has it, or here.
    pub async fn carry(
        config: &Config,
        to: &str,
        progress: &(dyn Fn(&Stage) + Send + Sync),
    ) -> Result<Stage, AppError> {
        let named = PostgresConfig::new(to)?;
        let dir = &config.data;
        if let Some(place) = is_moved(dir) {
            let is_named = named.is_at(&place);
            // Under another name it is known by the mark that the move has left; in another database nothing is made.
            let is_there = is_named || has_store(&named).await;
            if !is_there || !take_up(dir, &named).await? && !is_named {
                return Err(MoveError::Elsewhere { place }.into());
            }
            return Ok(Stage::before(place));
        }
        if !store::is_there(dir) {
            return Err(AppError::NoData(dir.clone()));
        }
        match store::open(&StoreConfig::new(dir)).await {
            Ok(open) => {
                let stranded = stranded(&open).await;
                let moved = alone(config, &open, &named, progress).await;
                open.journal().close().await;
                let Moved { place, runs, events } = moved?;
                Ok(Stage::Done { place, runs, events, gap_ms: None, stranded })
            }
            Err(OpenError::Held { server: Some(_), .. }) => {
                ask(dir, &Wish { to: to.into() })?;
                let moved = wait(dir, &named, progress).await;
                // Whoever asked has heard it, and nobody else looks.
                drop(fs::remove_file(dir.join(STATE)));
                moved
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether there is a store in a database.
    async fn has_store(named: &PostgresConfig) -> bool {
        let Ok(looked) = store::look_at_postgres(named).await else { return false };
        looked.journal().close().await;
        true
    }

    /// Moves a store that nobody serves.
    async fn alone(
        config: &Config,
        open: &Store,
        to: &PostgresConfig,
        progress: &(dyn Fn(&Stage) + Send + Sync),
    ) -> Result<Moved, AppError> {
        let mut moving = Move::begin(open, to, SystemClock.fresh_secret()).await?;
        told(open, to).await;
        let copied = async {
            moving.copy(&|runs| progress(&Stage::Copying { runs })).await?;
            with_keys(config, &moving).await
        };
        match copied.await {
            Ok(_unchanged) => Ok(moving.finish().await?),
            Err(error) => {
                moving.give_up();
                Err(error)
            }
        }
    }

    /// The keys of the data directory go along before the store is in charge there: whoever was asked for one is never
    /// let in without (K7). While what is returned is had nobody changes them here: a key that was removed would be good
    /// there. What the console's passes were made with stays beside them: whoever has signed in stays so.
    async fn with_keys(config: &Config, moving: &Move) -> Result<Option<File>, AppError> {
        let unkept = |source| AppError::Passes { data: config.data.clone(), source };
        auth::keep_secret(&config.data).map_err(unkept)?;
        let path = config.keys_path();
        if config.keys.is_some() || !reread::lies(&path) {
            return Ok(None);
        }
        let failed = |source| KeysError::Io { deed: "lock", path: path.clone(), source };
        let lock = keys_lock(&path).map_err(failed)?;
        let (name, text) = keys_shared::record(&Keys::load(&path)?)?;
        moving.keep(name, &text).await?;
        Ok(Some(lock))
    }

    /// What waits for `local` there. A move does not fail for it.
    async fn stranded(open: &Store) -> Stranded {
        Stranded::of(&*open.journal()).await.unwrap_or_else(|fault| {
            tracing::warn!(%fault, "what waits for `local` could not be counted");
            Stranded::default()
        })
    }

    /// The store's own log says where it goes, and takes that along.
    async fn told(open: &Store, to: &PostgresConfig) {
        let what = vec![format!("store: to the database at {}", to.place())];
        note(&*open.journal(), Note::PolicyChanged { what }).await;
    }

    fn ask(dir: &Path, wish: &Wish) -> Result<(), AppError> {
        let path = dir.join(WISH);
        if path.exists() {
            return Err(AppError::MoveAsked(path));
        }
        drop(fs::remove_file(dir.join(STATE)));
        replace(&path, wish).map_err(|source| unwritten(path, source))
    }

    fn unwritten(path: PathBuf, source: io::Error) -> AppError {
        AppError::Store(OpenError::Io { path, source })
    }

    /// Writes a small file, whole or not at all.
    fn replace(path: &Path, what: &impl Serialize) -> io::Result<()> {
        let fresh = path.with_added_extension("new");
        fs::write(&fresh, serde_json::to_vec(what)?)?;
        fs::rename(&fresh, path)
    }

    fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Option<T> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Follows what the server says, until it is over.
    async fn wait(
        dir: &Path,
        to: &PostgresConfig,
        progress: &(dyn Fn(&Stage) + Send + Sync),
    ) -> Result<Stage, AppError> {
        let (mut known, mut silent) = (Stage::Asked, 0);
        loop {
            tokio::time::sleep(EVERY).await;
            let now = read::<Stage>(&dir.join(STATE)).unwrap_or(Stage::Asked);
            match now {
                Stage::Done { .. } => return Ok(now),
                Stage::Failed { why } => return Err(AppError::MoveFailed(why)),
                Stage::Asked | Stage::Copying { .. } | Stage::Switching => {}
            }
            silent = if now == known { silent + 1 } else { 0 };
            if now != known {
                progress(&now);
                known = now;
            }
            if silent < SILENT_LOOKS || store::is_held(dir) {
                continue;
            }
            // Whoever was asked is gone. Which store is in charge is said in the directory.
            drop(fs::remove_file(dir.join(WISH)));
            let Some(place) = is_moved(dir) else { return Err(AppError::MoveCut) };
            take_up(dir, to).await?;
            return Ok(Stage::before(place));
        }
    }

    impl Mover {
        /// Heeds whoever asks, until the store has moved. An error means that it has, and that the server could not
        /// follow.
        pub(super) async fn work(self) -> Result<(), AppError> {
            let (wish, dir) = (self.config.data.join(WISH), &self.config.data);
            loop {
                tokio::select! {
                    () = tokio::time::sleep(EVERY) => {}
                    () = self.stop.cancelled() => return Ok(()),
                }
                if !wish.exists() {
                    continue;
                }
                let asked = read::<Wish>(&wish);
                drop(fs::remove_file(&wish));
                let Some(asked) = asked else {
                    self.say(&Stage::Failed { why: format!("`{WISH}` cannot be read") });
                    continue;
                };
                self.say(&Stage::Copying { runs: 0 });
                match self.carry(&asked.to).await {
                    Ok(done) => {
                        self.say(&done);
                        tracing::warn!(
                            data = %dir.display(),
                            "the store has moved: start this server with --store or HOLDPOINT_STORE from now on"
                        );
                        return Ok(());
                    }
                    Err(Unmoved::Here(error)) => {
                        tracing::error!(%error, "the store was not moved");
                        self.say(&Stage::Failed { why: error.to_string() });
                    }
                    Err(Unmoved::There(error)) => {
                        tracing::error!(%error, "the store has moved, and cannot be served from there");
                        return Err(error);
                    }
                }
            }
        }

        fn say(&self, stage: &Stage) {
            if let Err(error) = replace(&self.config.data.join(STATE), stage) {
                tracing::warn!(%error, "how far the move is could not be told");
            }
        }

        async fn carry(&self, to: &str) -> Result<Stage, Unmoved> {
            let named = PostgresConfig::new(to).map_err(AppError::from)?;
            let open = self.house.lock().await.world.store.clone();
            let mut moving = Move::begin(&open, &named, SystemClock.fresh_secret()).await?;
            tracing::info!(to = named.place(), "the store is copied");
            told(&open, &named).await;
            let copied = async {
                moving.copy(&|runs| self.say(&Stage::Copying { runs })).await?;
                moving.catch_up().await
            };
            let copied = tokio::select! {
                copied = copied => copied,
                () = self.stop.cancelled() => Err(MoveError::Stopped),
            };
            if let Err(error) = copied {
                moving.give_up();
                return Err(error.into());
            }
            let mut house = self.house.lock().await;
            if self.stop.is_cancelled() {
                moving.give_up();
                return Err(MoveError::Stopped.into());
            }
            self.say(&Stage::Switching);
            let since = Instant::now();
            self.gate.close();
            let drain = Duration::from_secs(self.config.drain_seconds);
            house.world.retire(drain.min(ATTEMPTS)).await;
            crate::failpoint::hit("move.retired");
            let finished = match with_keys(&self.config, &moving).await {
                Ok(_unchanged) => moving.finish().await.map_err(AppError::from),
                Err(error) => {
                    moving.give_up();
                    Err(error)
                }
            };
            let (config, next) = match &finished {
                Ok(_) => {
                    open.journal().close().await;
                    let mut config = self.config.clone();
                    config.store = Some(to.to_owned());
                    let next = follow(&config, &named).await.map_err(Unmoved::There)?;
                    (config, next)
                }
                Err(_) => (self.config.clone(), open),
            };
            *house = self.furnished(&config, next).await.map_err(Unmoved::There)?;
            self.gate.open(house.front.clone());
            let gap = since.elapsed();
            let Moved { place, runs, events } = finished?;
            let gap_ms = u64::try_from(gap.as_millis()).ok();
            tracing::info!(place, runs, events, gap_ms, "the store has moved");
            // Nobody waits for this any more.
            let stranded = stranded(&house.world.store).await;
            Ok(Stage::Done { place, runs, events, gap_ms, stranded })
        }

        /// A house over a store, at the address where there was one before.
        async fn furnished(&self, config: &Config, open: Store) -> Result<House, AppError> {
            let world = Wiring::over(config, open).await?;
            shared::share_secret(config, &*world.store.journal()).await?;
            let keys = keyring::in_force(config, &*world.store.journal()).await?;
            House::furnish(config, world, keys, self.address).await
        }
    }

    /// The store in the database that is in charge now; it may be out of reach for a moment.
    async fn follow(config: &Config, named: &PostgresConfig) -> Result<Store, AppError> {
        let until = Instant::now() + FOLLOW;
        loop {
            let opened = async {
                shared::taken_up(config, named).await?;
                Ok::<_, AppError>(store::open_postgres(named).await?)
            };
            match opened.await {
                Ok(open) => return Ok(open),
                Err(error) if Instant::now() >= until => return Err(error),
                Err(error) => tracing::warn!(%error, "the database is waited for"),
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Why a move came to nothing, and which store is in charge.
    enum Unmoved {
        /// The data directory's.
        Here(AppError),
        /// Whichever the directory says; nobody serves it.
        There(AppError),
    }

    impl From<AppError> for Unmoved {
        fn from(error: AppError) -> Self {
            Self::Here(error)
        }
    }

    impl From<MoveError> for Unmoved {
        fn from(error: MoveError) -> Self {
            Self::Here(error.into())
        }
    }
}
