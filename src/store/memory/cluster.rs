//! Cluster: one state in memory, written to through several handles, each of which stands for a process of its own.
//! It is the reference for stores that several processes share, and what they are tried on before there is any; tests
//! can have a handle freeze, die, and lose what it says or is told. Nothing here outlives the process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Notify, broadcast};

use crate::kernel::evidence::Hash;
use crate::kernel::{Millis, RunId, Version};
use crate::ports::{
    Append, Clock, Fault, Fence, Guard, HeadStatus, Hint, Hold, Incarnation, Introduction, Journal,
    OutboxEntry, Replica, Replicas, Rewind, Standing,
};
use crate::store::Store;
use crate::store::memory::MemoryJournal;
use crate::store::memory::lives::TTL_MS;
use crate::store::memory::mishaps::Mishaps;
pub use crate::store::memory::mishaps::{Fate, Mishap};
use crate::store::memory::state::{Seen, State};

/// Hints that are kept for a slow process; past it, it looks everywhere.
const HINTS_KEPT: usize = 1_024;
/// How long a entry is carried before others take it for lost: longer than a listener may take.
const CARRY_MS: u64 = 60_000;

/// One state, and as many handles to it as there are processes.
#[derive(Debug, Clone)]
pub struct MemoryCluster {
    shared: Arc<Shared>,
}

/// What all handles share.
#[derive(Debug)]
struct Shared {
    state: Arc<Mutex<State>>,
    /// The store's own clock.
    clock: Arc<dyn Clock>,
    /// The last life that was given out; it goes on though the state should go back.
    last: AtomicU64,
    hints: broadcast::Sender<Hint>,
    is_mute: AtomicBool,
    written: Mutex<Vec<Written>>,
}

/// Something that was written, as whoever looks for wrongdoers wants it: by whom, and with which right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The run.
    pub run: RunId,
    /// Who wrote.
    pub by: Incarnation,
    /// The fence that they showed, where they claimed to drive it.
    pub fence: Option<Fence>,
    /// What became of the right to drive it.
    pub hold: Hold,
    /// Their fence from here on; 0 where they have none.
    pub next: Fence,
}

/// The state as it was.
#[derive(Debug)]
pub struct Picture(State);

/// A handle to a cluster, as a test has it.
#[derive(Debug, Clone)]
pub struct MemoryReplica {
    journal: Arc<MemoryJournal>,
}

/// How a handle fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Well,
    Frozen,
    Gone,
}

/// What it takes to be one of several.
#[derive(Debug)]
pub(super) struct Seat {
    shared: Arc<Shared>,
    /// Whoever waits for another one is woken in turn: what happens can be played again.
    condition: Mutex<Condition>,
    changed: Notify,
    mishaps: Mutex<Mishaps>,
    ears: tokio::sync::Mutex<broadcast::Receiver<Hint>>,
    /// How often others go first before its next beat comes to the store.
    late: AtomicU64,
    /// The last append that was acknowledged in each of its lives, by number.
    acknowledged: Mutex<BTreeMap<Incarnation, u64>>,
    who: Mutex<Introduction>,
    /// What it goes on from, run by run, as it last saw it; and where that was another than before.
    links: Mutex<Seen>,
}

impl MemoryCluster {
    /// An empty state, with a clock of its own.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let (hints, _) = broadcast::channel(HINTS_KEPT);
        let (last, is_mute) = (AtomicU64::new(0), AtomicBool::new(false));
        let (state, written) = (Arc::default(), Mutex::default());
        Self { shared: Arc::new(Shared { state, clock, last, hints, is_mute, written }) }
    }

    /// Another process comes.
    pub fn join(&self) -> MemoryReplica {
        let seat = Seat {
            shared: Arc::clone(&self.shared),
            condition: Mutex::new(Condition::Well),
            changed: Notify::new(),
            mishaps: Mutex::default(),
            ears: tokio::sync::Mutex::new(self.shared.hints.subscribe()),
            late: AtomicU64::new(0),
            acknowledged: Mutex::default(),
            who: Mutex::default(),
            links: Mutex::default(),
        };
        let me = AtomicU64::new(self.shared.born().0);
        let state = Arc::clone(&self.shared.state);
        MemoryReplica { journal: Arc::new(MemoryJournal { state, me, seat: Some(seat) }) }
    }

    /// From now on nobody is told that something was written, or everybody is again.
    pub fn mute(&self, is_mute: bool) {
        self.shared.is_mute.store(is_mute, Ordering::SeqCst);
    }

    /// Everything that was ever written, in order.
    pub fn written(&self) -> Vec<Written> {
        self.shared.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything as it is now.
    pub fn picture(&self) -> Picture {
        Picture(self.shared.lock().clone())
    }

    /// Goes back to how everything was: what a server does that has lost what it had acknowledged.
    pub fn go_back(&self, picture: &Picture) {
        *self.shared.lock() = picture.0.clone();
    }
}

impl MemoryReplica {
    /// What a process writes through.
    pub fn journal(&self) -> Arc<dyn Journal> {
        Arc::clone(&self.journal) as Arc<dyn Journal>
    }

    /// The same, as a store.
    pub fn store(&self) -> Store {
        Store { journal: self.journal(), embedded: None }
    }

    /// The life that it is in.
    pub fn incarnation(&self) -> Incarnation {
        self.journal.me()
    }

    /// Nothing it asks is answered before it thaws.
    pub fn freeze(&self) {
        self.fare(Condition::Frozen);
    }

    /// It goes on as if nothing had been.
    pub fn thaw(&self) {
        self.fare(Condition::Well);
    }

    /// It goes on, and learns late whether it still lives: others of its tasks go first, so many times.
    pub fn thaw_unaware(&self, times: u64) {
        if let Some(seat) = &self.journal.seat {
            seat.late.store(times, Ordering::SeqCst);
        }
        self.fare(Condition::Well);
    }

    /// It is gone: nothing it asks is ever done again.
    pub fn kill(&self) {
        self.fare(Condition::Gone);
    }

    /// This befalls its next append that nothing is in store for yet.
    pub fn befall(&self, mishap: Mishap) {
        if let Some(seat) = &self.journal.seat {
            seat.mishaps().add(mishap);
        }
    }

    /// From now on `fate` says what befalls each of its appends.
    pub fn leave_to(&self, fate: Fate) {
        if let Some(seat) = &self.journal.seat {
            seat.mishaps().leave_to(fate);
        }
    }

    fn fare(&self, condition: Condition) {
        if let Some(seat) = &self.journal.seat {
            seat.fare(condition);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is checked before it begins, and none of them panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A life that nobody has had.
    fn born(&self) -> Incarnation {
        let who = Incarnation(self.last.fetch_add(1, Ordering::SeqCst) + 1);
        self.lock().lives.begin(who, self.clock.now());
        who
    }
}

impl Seat {
    fn fares(&self) -> Condition {
        *self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fare(&self, condition: Condition) {
        *self.condition.lock().unwrap_or_else(PoisonError::into_inner) = condition;
        self.changed.notify_waiters();
    }

    async fn wait_for(&self, is_it: impl Fn(Condition) -> bool) -> Condition {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let fares = self.fares();
            if is_it(fares) {
                return fares;
            }
            changed.await;
        }
    }

    fn mishaps(&self) -> MutexGuard<'_, Mishaps> {
        self.mishaps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when a call comes to the store; errs if none does any more.
    pub(super) async fn enter(&self) -> Result<(), Fault> {
        match self.wait_for(|fares| fares != Condition::Frozen).await {
            Condition::Well => Ok(()),
            Condition::Frozen | Condition::Gone => {
                Err(Fault::Retriable("the store is out of reach".into()))
            }
        }
    }

    pub(super) fn is_well(&self) -> bool {
        self.fares() == Condition::Well
    }

    /// It leaves of itself.
    pub(super) fn leave(&self) {
        self.fare(Condition::Gone);
    }

    /// What befalls an append.
    pub(super) fn befalls(&self, append: &Append) -> Option<Mishap> {
        self.mishaps().of(append)
    }

    /// Keeps who wrote with which right.
    pub(super) fn witness(
        &self,
        run: &RunId,
        (by, fence): (Incarnation, Option<Fence>),
        (hold, next): (Hold, Fence),
    ) {
        let written = Written { run: run.clone(), by, fence, hold, next };
        self.shared.written.lock().unwrap_or_else(PoisonError::into_inner).push(written);
    }

    /// Sees what link a run has at a version; errs if it had another one there: the state has gone back, and has been
    /// written to since.
    pub(super) fn see(&self, run: &RunId, version: Version, link: Hash) -> Result<(), Fault> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let known = links.0.get(run);
        if known.is_none_or(|(at, known)| *at != version || *known == link) {
            links.0.insert(run.clone(), (version, link));
            return Ok(());
        }
        links.1.get_or_insert(version);
        Err(Fault::Retriable("the store tells another history of this run than it did".into()))
    }

    /// An append was acknowledged.
    pub(super) fn acknowledge(&self, who: Incarnation, mark: u64) {
        let mut known = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(who).and_modify(|had| *had = mark.max(*had)).or_insert(mark);
    }

    /// Tells the others that something was written.
    pub(super) fn cry(&self, run: RunId, after: Version) {
        if !self.shared.is_mute.load(Ordering::SeqCst) {
            // An error only means that nobody listens.
            drop(self.shared.hints.send(Hint::Run(run, after)));
        }
    }
}

impl State {
    /// Whoever held something in this life does so no more.
    pub(super) fn let_go(&mut self, who: Incarnation) {
        self.lives.end(who);
        self.carried.retain(|_, (by, _)| *by != who);
        for kept in self.runs.values_mut().filter(|kept| kept.holder == Some(who)) {
            kept.holder = None;
        }
    }
}

impl MemoryJournal {
    fn now(&self) -> Millis {
        self.seat.as_ref().map(|seat| seat.shared.clock.now()).unwrap_or_default()
    }
}

#[async_trait]
impl Replicas for MemoryJournal {
    async fn beat(&self) -> Result<Option<u64>, Fault> {
        let (me, now) = (self.me(), self.now());
        self.enter().await?;
        let late = self.seat.as_ref().map_or(0, |seat| seat.late.swap(0, Ordering::SeqCst));
        for _ in 0..late {
            tokio::task::yield_now().await;
        }
        let mut state = self.entered().await?;
        Ok(state.lives.beat(me, now.max(self.now())).then_some(TTL_MS))
    }

    async fn reborn(&self) -> Result<(), Fault> {
        self.enter().await?;
        if let Some(seat) = &self.seat {
            self.me.store(seat.shared.born().0, Ordering::SeqCst);
            let who = seat.who.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.lock().introduced.insert(self.me(), (who, false));
        }
        Ok(())
    }

    async fn look_back(&self) -> Result<Option<Rewind>, Fault> {
        let Some(seat) = &self.seat else { return Ok(None) };
        let diverged = seat.links.lock().unwrap_or_else(PoisonError::into_inner).1.take();
        if let Some(version) = diverged {
            return Ok(Some(Rewind { had: version, has: version }));
        }
        let state = self.entered().await?;
        let mut known = seat.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |who: &Incarnation| state.marks.get(who).copied().unwrap_or(0);
        let lacks = known.iter().find(|(who, had)| has(who) < **had);
        let lacks = lacks.map(|(who, had)| Rewind { had: *had, has: has(who) });
        for (who, had) in known.iter_mut() {
            *had = has(who).min(*had);
        }
        Ok(lacks)
    }

    fn unlearn(&self, run: Option<&RunId>) {
        let Some(seat) = &self.seat else { return };
        let mut links = seat.links.lock().unwrap_or_else(PoisonError::into_inner);
        match run {
            Some(run) => drop(links.0.remove(run)),
            None => *links = (BTreeMap::new(), None),
        }
    }

    async fn introduce(&self, who: Introduction) -> Result<(), Fault> {
        let Some(seat) = &self.seat else { return Ok(()) };
        seat.who.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&who);
        self.entered().await?.introduced.insert(self.me(), (who, false));
        Ok(())
    }

    async fn drain(&self) -> Result<(), Fault> {
        let mut state = self.entered().await?;
        state.introduced.entry(self.me()).or_default().1 = true;
        Ok(())
    }

    async fn listed(&self) -> Result<Vec<Replica>, Fault> {
        let state = self.entered().await?;
        let living = state.lives.all().into_iter().filter_map(|incarnation| {
            let (who, is_draining) = state.introduced.get(&incarnation)?.clone();
            let (since, beaten) = state.lives.times(incarnation);
            let held = state.runs.values().filter(|kept| kept.holder == Some(incarnation));
            let drives = held.count() as u64;
            Some(Replica { incarnation, who, since, beaten, drives, is_draining })
        });
        Ok(living.filter(|replica| !replica.who.name.is_empty()).collect())
    }

    async fn bury(&self) -> Result<usize, Fault> {
        let mut state = self.entered().await?;
        Ok(state.lives.bury(self.me(), self.now()))
    }

    async fn living(&self) -> Result<Vec<Incarnation>, Fault> {
        Ok(self.entered().await?.lives.all())
    }

    async fn standing(&self, run: &RunId) -> Result<Option<Standing>, Fault> {
        let state = self.entered().await?;
        let Some(kept) = state.runs.get(run) else { return Ok(None) };
        if let Some(seat) = &self.seat {
            seat.see(run, kept.head.version, kept.link)?;
        }
        let hooks = state.guards.get(&Guard::hooks(run)).copied().unwrap_or(0);
        let holder = kept.holder.map(|who| (who, state.lives.is_living(who)));
        Ok(Some(Standing { version: kept.head.version, holder, fence: kept.fence, hooks }))
    }

    async fn gone_on(&self, known: &[(RunId, Version)]) -> Result<Vec<RunId>, Fault> {
        let state = self.entered().await?;
        let at = |run: &RunId| state.runs.get(run).map(|kept| kept.head.version);
        let gone = known.iter().filter(|(run, version)| at(run) != Some(*version));
        Ok(gone.map(|(run, _)| run.clone()).collect())
    }

    async fn stranded(&self, limit: usize) -> Result<Vec<RunId>, Fault> {
        let state = self.entered().await?;
        let adrift = state.runs.iter().filter(|(_, kept)| {
            let is_driven = kept.holder.is_some_and(|who| state.lives.is_living(who));
            kept.head.status == HeadStatus::Running && !is_driven
        });
        Ok(adrift.take(limit).map(|(run, _)| run.clone()).collect())
    }

    async fn held(&self, limit: usize) -> Result<Vec<RunId>, Fault> {
        let state = self.entered().await?;
        let mine = state.runs.iter().filter(|(_, kept)| kept.holder == Some(self.me()));
        Ok(mine.take(limit).map(|(run, _)| run.clone()).collect())
    }

    async fn hint(&self) -> Option<Hint> {
        let seat = self.seat.as_ref()?;
        let mut ears = seat.ears.lock().await;
        let hint = tokio::select! {
            biased;
            hint = ears.recv() => hint,
            _ = seat.wait_for(|fares| fares == Condition::Gone) => return None,
        };
        seat.enter().await.ok()?;
        match hint {
            Ok(hint) => Some(hint),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Hint::Lost),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    async fn guard(&self, name: &str) -> Result<u64, Fault> {
        Ok(self.entered().await?.guards.get(name).copied().unwrap_or(0))
    }

    async fn take_outbox_entries(
        &self,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<OutboxEntry>, Fault> {
        let (mut state, me) = (self.entered().await?, self.me());
        let until = self.now().plus(CARRY_MS);
        let is_free = |place: &(RunId, String)| {
            let carried = state.carried.get(place);
            carried.is_none_or(|(_, until)| *until <= self.now())
        };
        let due = state
            .outbox_entries
            .iter()
            .filter(|(place, outbox_entry)| outbox_entry.due <= now && is_free(place));
        let mut due: Vec<_> = due.map(|(_, outbox_entry)| outbox_entry.clone()).collect();
        due.sort_by_key(|outbox_entry| outbox_entry.due);
        due.truncate(limit);
        for outbox_entry in &due {
            state
                .carried
                .insert((outbox_entry.run.clone(), outbox_entry.lane.clone()), (me, until));
        }
        Ok(due)
    }

    async fn remember_if(&self, name: &str, knew: Option<&str>, text: &str) -> Result<bool, Fault> {
        let mut state = self.entered().await?;
        let is_known = state.keepsakes.get(name).map(String::as_str) == knew;
        if is_known {
            state.keepsakes.insert(name.to_owned(), text.to_owned());
        }
        Ok(is_known)
    }
}
