//! Renewal: a store that was put back from a backup, or made from an export, is another one. Every run that
//! is not over is told so once, whatever happens meanwhile; and nothing is done before an operator has
//! looked and says so. What a run makes of it is the kernel's.

use std::sync::{Arc, PoisonError, RwLock};

use tokio_util::sync::CancellationToken;

use crate::engine::cell::{Cell, State};
use crate::engine::drive::Extras;
use crate::engine::kept_heads::ReleasedStore;
use crate::engine::{Engine, EngineError, Reach};
use crate::failpoint;
use crate::kernel::{Command, Principal, Refusal, Run, Status, release};
use crate::ports::identity::Identity;
use crate::ports::{Fault, Note, RunFilter, keep_time};

/// Runs listed at a time.
const PAGE: usize = 256;
/// How often it is said how far the telling is: every few seconds on a disk that is slow.
const TOLD_EVERY: u64 = 1_000;

/// Which store this is, as the engine goes by it.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Looked at with every command, and replaced next to never.
    identity: RwLock<Arc<Identity>>,
    released: CancellationToken,
    /// Held from the reading of what the store says until it is gone by: what was read before somebody changed it must
    /// not come after.
    pub(super) changing: tokio::sync::Mutex<()>,
}

impl Standing {
    fn set(&self, identity: Identity) {
        *self.identity.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(identity);
    }

    pub(super) fn get(&self) -> Arc<Identity> {
        Arc::clone(&self.identity.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Engine {
    /// Finds out which store this is, and has every run told that does not know. To be called before
    /// anything runs; where it was cut off it goes on.
    pub async fn settle_in(&self) -> Result<(), EngineError> {
        if let Some(replicas) = self.replicas() {
            keep_time(&*self.inner.clock, replicas).await?;
        }
        self.read_halts().await?;
        let journal = &*self.inner.journal;
        let known = Identity::of(journal).await?;
        known.as_ref().map_or(Ok(()), Identity::refuse_half)?;
        if self.reach() == Reach::Nothing {
            self.inner.standing.set(known.unwrap_or_default());
            return Ok(());
        }
        let mut identity = if let Some(known) = known {
            known
        } else {
            let fresh = Identity::fresh(self.inner.clock.fresh_secret());
            match self.kept_first(&fresh).await {
                Ok(kept) => kept,
                // A store that takes no writes can still be looked at; it begins nothing either.
                Err(fault) => {
                    tracing::warn!(%fault, "the store has no epoch yet, and could not be given one");
                    Identity::default()
                }
            }
        };
        self.inner.standing.set(identity.clone());
        if !identity.is_renewing {
            return Ok(());
        }
        tracing::warn!(
            "this store was put back from a backup, or imported: every run that is not over is told so before anything \
             is served; the server listens when that is done"
        );
        let runs = self.renew_all().await?;
        tracing::info!(runs, "every run was told that its store is another");
        identity.is_renewing = false;
        // Where nothing was open there is nothing that could be set going.
        identity.is_held &= runs > 0 || identity.is_rewound;
        // First: better twice in the log than not at all.
        self.note(Note::Renewed { epoch: identity.epoch.clone(), runs }).await;
        failpoint::hit("engine.after_renewal");
        identity.keep(journal).await?;
        self.inner.standing.set(identity);
        Ok(())
    }

    /// Keeps what a new store is; where somebody else was first, what they said it is.
    async fn kept_first(&self, fresh: &Identity) -> Result<Identity, Fault> {
        let journal = &*self.inner.journal;
        match self.replicas() {
            Some(replicas) if !fresh.keep_first(replicas).await? => {
                Ok(Identity::of(journal).await?.unwrap_or_default())
            }
            Some(_) => Ok(fresh.clone()),
            None => fresh.keep(journal).await.map(|()| fresh.clone()),
        }
    }

    /// Heeds that somebody else who shares the store has let it go on, or has found that it went back.
    pub(super) async fn heed_standing(&self) -> Result<(), EngineError> {
        let _changing = self.inner.standing.changing.lock().await;
        let Some(known) = Identity::of(&*self.inner.journal).await? else { return Ok(()) };
        if let Some(why) = known.why_doubled().filter(|_| !self.is_rewound()) {
            tracing::error!("{why}; nothing is done until `holdpoint release`");
        } else if known.is_rewound && !self.is_rewound() {
            // Every server that stops says so: whoever looks at one of them need not know which one found it.
            self.inner.sharing.suspicion.count_rewound(&known.epoch);
            tracing::error!(
                "the store has gone back in time, as another server found: it lacks what it had acknowledged; nothing is done \
                 until `holdpoint release`"
            );
        }
        self.stand(known);
        Ok(())
    }

    /// Goes by what the store says it is.
    pub(super) fn stand(&self, known: Identity) {
        if known == *self.inner.standing.get() {
            return;
        }
        let is_held = known.is_held;
        if self.is_held() && !is_held {
            tracing::info!("the store was released: what waits goes on");
        }
        self.inner.standing.set(known);
        if !is_held {
            self.inner.standing.released.cancel();
        }
    }

    /// Whether the store was found to lack what it had acknowledged, and nobody has looked yet.
    pub fn is_rewound(&self) -> bool {
        self.inner.standing.get().is_rewound
    }

    /// That two databases with the store's history took writes, where that is why it is held.
    pub fn why_doubled(&self) -> Option<String> {
        self.inner.standing.get().why_doubled()
    }

    /// The store's epoch; none while it is held because it went back.
    pub fn epoch_in_force(&self) -> Option<String> {
        let identity = self.inner.standing.get();
        (!identity.is_rewound).then(|| identity.epoch.clone())
    }

    /// Tells every run that is not over; how many there are.
    pub(super) async fn renew_all(&self) -> Result<u64, EngineError> {
        let (mut runs, mut cursor) = (0, None);
        loop {
            let journal = &self.inner.journal;
            let page = journal.heads(&RunFilter::default(), cursor.as_deref(), PAGE).await?;
            for head in page.rows.iter().filter(|head| !head.status.is_over()) {
                failpoint::hit("engine.before_renewal");
                let cell = self.inner.cells.get(&head.run);
                // One that cannot be read stands still, and is told when it can be.
                if let Err(error) = self.hot(&cell).await.map(drop) {
                    tracing::error!(run.id = %head.run, %error, "run could not be told of the new epoch");
                }
                runs += 1;
                if runs % TOLD_EVERY == 0 {
                    tracing::info!(runs, "runs are told that their store is another");
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(runs);
            }
        }
    }

    /// Whether a run began, or was last told, in another epoch of the store.
    pub(super) fn is_of_before(&self, run: &Run) -> bool {
        let identity = self.inner.standing.get();
        identity.is_renewed && run.epoch != identity.epoch && !run.status.is_over()
    }

    /// Tells a run that is held of the store's epoch, before anything else is done with it.
    pub(super) async fn renew(
        &self,
        cell: &Arc<Cell>,
        state: &mut tokio::sync::MutexGuard<'_, State>,
    ) -> Result<(), EngineError> {
        let (epoch, seed) = (self.epoch(), self.fresh_seed());
        self.command(cell, state, &Command::Renew { epoch, seed }, Extras::default()).await?;
        if let State::Hot(hot) = &mut **state
            && self.is_held()
        {
            // What it owes is set going once somebody says so, as after a restart.
            hot.is_adrift = hot.run.status == Status::Running;
        }
        Ok(())
    }

    /// The store's epoch; empty before it is known.
    pub(super) fn epoch(&self) -> String {
        self.inner.standing.get().epoch.clone()
    }

    /// Whether nothing is done before an operator says so.
    pub fn is_held(&self) -> bool {
        self.inner.standing.get().is_held
    }

    /// The no of a store that waits for its operator. What stops a run is always taken.
    pub(super) fn refuse_if_held(&self, command: Option<&Command>) -> Result<(), EngineError> {
        if !self.is_held() || matches!(command, Some(Command::Cancel { .. })) {
            return Ok(());
        }
        Err(self.held_why().into())
    }

    /// Why it is held: a store that went back under those who served is told from one that was put back.
    /// Why it waits for its operator, in words; nothing where it does not.
    pub fn why_held(&self) -> Option<String> {
        self.is_held().then(|| self.held_why().to_string())
    }

    fn held_why(&self) -> Refusal {
        if self.is_rewound() { Refusal::Rewound } else { Refusal::Held }
    }

    /// Returns when the store is held no more.
    pub async fn released(&self) {
        if self.is_held() {
            self.inner.standing.released.cancelled().await;
        }
    }

    /// Lets what waits go on. Heads beside the key that the log does not hold stay, unless `forgets` gives them up.
    pub async fn release_store(
        &self,
        forgets: bool,
        who: &Principal,
    ) -> Result<ReleasedStore, EngineError> {
        let refused = |code: &'static str| {
            let (who, door, known) = who.recorded();
            Note::ReleaseRefused { who, door, halt: String::new(), code: code.into(), known }
        };
        self.or_noted(self.release_store_as(forgets, who).await, refused).await
    }

    /// Heeds that somebody else has let the store go on a moment ago: whoever comes second releases nothing. What others
    /// have found since is not taken in here: nobody has looked at it.
    async fn heed_release(&self) -> Result<(), EngineError> {
        if self.is_shared()
            && let Some(known) = Identity::of(&*self.inner.journal).await?
            && !known.is_held
        {
            self.stand(known);
        }
        Ok(())
    }

    async fn release_store_as(
        &self,
        forgets: bool,
        who: &Principal,
    ) -> Result<ReleasedStore, EngineError> {
        if !who.operates_all() {
            let why = "a store that is held is released by whoever operates it: use a key with the role \
                       `operator` or `admin`";
            return Err(Refusal::Forbidden(why).into());
        }
        self.refuse_unless_ready()?;
        self.refuse_if_looking()?;
        self.refuse_if_unknown(who).await?;
        release::refuse_store(who, &self.operator())?;
        // What others have taken back since is told as it is now.
        self.heed_halts().await?;
        let _changing = self.inner.standing.changing.lock().await;
        self.heed_release().await?;
        let seen = self.inner.standing.get();
        let heads = self.settle_heads(forgets, who).await?;
        let are_forgotten = forgets && !heads.is_empty();
        if are_forgotten {
            self.end_trouble().await;
        }
        let done = ReleasedStore { was_held: seen.is_held, heads, are_forgotten };
        if !seen.is_held {
            return Ok(done);
        }
        // Said before it is so: whoever lets it go on stands in the log.
        let (name, door, known) = who.recorded();
        self.note(Note::Released { who: name, door, known }).await;
        let now = self.inner.clock.now();
        let identity = if let Some(replicas) = self.replicas() {
            // What was found out since is for somebody to look at, too.
            let change = |known: &Identity| {
                (known.is_held && known.epoch == seen.epoch).then(|| known.released(now))
            };
            Identity::change((&*self.inner.journal, replicas), change).await?
        } else {
            let identity = seen.released(now);
            identity.keep(&*self.inner.journal).await?;
            identity
        };
        let is_held = identity.is_held;
        self.stand(identity);
        if is_held {
            return Err(self.held_why().into());
        }
        if seen.twins.is_some() && seen.is_renewing {
            // While there were two nothing could be written, and no run was told.
            self.renew_aside();
        }
        Ok(done)
    }
}
