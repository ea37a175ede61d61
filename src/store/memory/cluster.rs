//! Cluster: one state in memory, written to through several handles, each of which stands for a process of its own.
//! It is the reference for stores that several processes share, and what they are tried on before there is any; tests
//! can have a handle freeze, die, and lose what it says or is told. Nothing here outlives the process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, broadcast};

use crate::kernel::evidence::Hash;
use crate::kernel::{RunId, Version};
use crate::ports::{Append, Clock, Fault, Fence, Hint, Hold, Incarnation, Introduction, Journal};
use crate::store::Store;
use crate::store::memory::MemoryJournal;
use crate::store::memory::mishaps::Mishaps;
pub use crate::store::memory::mishaps::{Delay, Fate, Mishap};
use crate::store::memory::state::{Seen, State};

/// Hints that are kept for a slow process; past it, it looks everywhere.
const HINTS_KEPT: usize = 1_024;

/// One state, and as many handles to it as there are processes.
#[derive(Debug, Clone)]
pub struct MemoryCluster {
    shared: Arc<Shared>,
}

/// What all handles share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Arc<Mutex<State>>,
    /// The store's own clock.
    pub(super) clock: Arc<dyn Clock>,
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
    pub(super) journal: Arc<MemoryJournal>,
}

/// How a handle fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Well,
    Frozen,
    Gone,
}

/// What it takes to be one of several.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) shared: Arc<Shared>,
    /// Whoever waits for another one is woken in turn: what happens can be played again.
    condition: Mutex<Condition>,
    changed: Notify,
    mishaps: Mutex<Mishaps>,
    pub(super) ears: tokio::sync::Mutex<broadcast::Receiver<Hint>>,
    /// How often others go first before its next beat comes to the store.
    pub(super) late: AtomicU64,
    /// The last append that was acknowledged in each of its lives, by number.
    pub(super) acknowledged: Mutex<BTreeMap<Incarnation, u64>>,
    pub(super) who: Mutex<Introduction>,
    /// What it goes on from, run by run, as it last saw it; and where that was another than before.
    pub(super) links: Mutex<Seen>,
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

    /// From now on `delay` says how many turns others have before each of its calls comes to the store: as with a
    /// database, what one call has told may be old when the next is answered.
    pub fn delay_by(&self, delay: Delay) {
        if let Some(seat) = &self.journal.seat {
            seat.mishaps().delay_by(delay);
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
    pub(super) fn born(&self) -> Incarnation {
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

    pub(super) async fn wait_for(&self, is_it: impl Fn(Condition) -> bool) -> Condition {
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

    pub(super) fn mishaps(&self) -> MutexGuard<'_, Mishaps> {
        self.mishaps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when a call comes to the store; errs if none does any more.
    pub(super) async fn enter(&self) -> Result<(), Fault> {
        let delay = self.mishaps().delay();
        for _ in 0..delay {
            tokio::task::yield_now().await;
        }
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
        let known = links.last.get(run);
        if known.is_none_or(|(at, known)| *at != version || *known == link) {
            links.last.insert(run.clone(), (version, link));
            links.ever.insert((run.clone(), version, link));
            return Ok(());
        }
        links.diverged.get_or_insert(version);
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
