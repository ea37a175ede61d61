//! Engine: the imperative shell around the kernel. Accept, journal, then act.
//!
//! A command goes one way: load the run, `apply` it, append what comes back, and only then tell
//! anyone. Whatever the run then owes to the world is performed by tasks of its own, so a caller
//! that leaves changes nothing (E5).
//!
//! Its laws are E1–E9 of `docs/laws.md`. In short: durable before told (E1), intent before deed (E2), nothing
//! done twice (E3), nothing spent on what waits (E4), a bound on everything (E6), no going on without the disk
//! (E7), looking performs nothing (E8), and what was done is not thrown away (E9).

mod as_asked;
mod aside;
mod attest;
mod attest_trouble;
mod audit;
mod audit_entry;
mod cell;
mod commands;
mod credentials;
mod detach_on_drop;
mod drive;
mod family;
mod halt_scope;
mod halting;
mod halts;
mod holder;
mod holding;
mod inbox;
mod inbox_by_owner;
mod kept_heads;
mod ledger;
mod library;
mod narrate;
mod news;
mod onlooker;
mod outbox;
mod outlook;
mod oversight;
mod policy;
mod purse;
mod reach;
mod receipt;
mod recovery;
mod renewal;
mod replicas;
mod rests;
mod rewind;
mod session_memory;
mod sharing;
mod shown_journal;
mod signing;
mod stilled;
mod timers;
mod trace;
mod trail;
mod unheard;
mod views;
mod warm;
mod watch;
mod whose;
mod work;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kernel::{Corruption, Declined, Millis, Operator, Refusal, seed};
use crate::ports::trace::Tracer;
use crate::ports::{Agents, Clock, Credentials, Fault, Journal, NoNotifier, Notifier, Tools};

pub use attest_trouble::AttestTrouble;
pub use audit::{AuditEntry, AuditFilter};
pub use commands::{AnswerRequest, Begun, ForkRequest, Speech, StartRequest, Taken, Words};
pub use halting::HaltRequest;
pub use halts::halts_kept;
pub use inbox::{InboxChange, InboxHints, InboxWatch};
pub use kept_heads::{KeptHead, ReleasedStore};
pub use library::{Broken, Edition, Entry, Library, Prepare};
pub use narrate::{Asked, Published, Waiting};
pub use onlooker::Onlooker;
pub use oversight::Overseen;
pub use reach::Reach;
pub use receipt::Receipt;
pub use recovery::Recovered;
pub use signing::Signing;
pub use views::{CheckpointView, InboxFilter, OpenRequest, RunView, SessionView};
pub use watch::{Until, Watch};

use cell::Cells;
use outbox::Outbox;

/// Attempts under way at once; past it they queue. Each is a task with its input in memory.
const WORK_AT_ONCE: usize = 4096;
/// Changes of the inbox kept for a slow watcher before it must begin anew.
const INBOX_BACKLOG: usize = 4096;

/// Why a command came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The caller's no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The world's no.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Our own bug, or wrong bytes: the run stands still until a person has looked.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// Other writers came first, again and again.
    #[error("another server has moved this run on; try again")]
    Moved,
    /// Another process drives the run now.
    #[error("another server drives this run; try again")]
    Superseded,
    /// Whoever asks knows more than the store has: it has gone back in time (J10).
    #[error(
        "the store has gone back in time: it lacks what you have seen, or tells it otherwise; look again from the beginning"
    )]
    Rewound,
    /// The server is going down; another one will take the call.
    #[error("the server is shutting down; try again in a moment")]
    Draining,
}

impl From<Declined> for EngineError {
    fn from(declined: Declined) -> Self {
        match declined {
            Declined::Refused(refusal) => Self::Refused(refusal),
            Declined::Corrupt(corruption) => Self::Corrupt(corruption),
        }
    }
}

/// A cheap handle to everything that runs.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    journal: Arc<dyn Journal>,
    clock: Arc<dyn Clock>,
    agents: Arc<dyn Agents>,
    tools: Arc<dyn Tools>,
    notifier: Arc<dyn Notifier>,
    /// Who is told of work that is over, if somebody is.
    tracer: OnceLock<Arc<dyn Tracer>>,
    outbox: Outbox,
    /// What is on its way into the store's own log.
    ledger: ledger::Ledger,
    /// The log of leaves, and who signs its heads.
    attesting: attest::Attesting,
    /// How often words alone were said where they decide nothing.
    unheard: unheard::Unheard,
    /// Which store this is.
    standing: renewal::Standing,
    /// Families in which somebody decides.
    families: family::Families,
    /// What is stopped is changed here.
    halting: halting::Halting,
    /// Who knows whether somebody's credential is still good, where that is asked.
    credentials: OnceLock<Arc<dyn Credentials>>,
    /// Those who write to the same store.
    sharing: sharing::Sharing,
    /// What was told of a store that is away.
    news: news::News,
    /// Which runs are driven here.
    domain: reach::Domain,
    library: Library,
    cells: Cells,
    inbox: broadcast::Sender<InboxChange>,
    desks: inbox_by_owner::InboxByOwner,
    /// Budgets that several runs spend of.
    purses: purse::Purses,
    /// What the operator says now.
    operator: RwLock<Arc<Operator>>,
    /// What is wrong with the operator's rules, if anything is.
    rulebook: policy::Rulebook,
    /// The time the timer loop sleeps until; an earlier deadline wakes it.
    alarm: AtomicU64,
    alarm_moved: Notify,
    /// Runs that could not be moved on when it was their time.
    aside: aside::Aside,
    permits: Arc<Semaphore>,
    /// Deeds that are being done.
    under_way: AtomicUsize,
    tasks: TaskTracker,
    /// Set first: nothing new is taken on.
    draining: AtomicBool,
    /// Whether another process goes on with everything in a moment.
    retiring: AtomicBool,
    /// Set when the store has failed for good: nothing will move any more, and watchers are told.
    broken: CancellationToken,
    /// Set last: whatever still runs is cut off, and taken up again at the next start.
    stop: CancellationToken,
}

impl Engine {
    /// An engine over its world. Nothing runs before [`Engine::recover`] and [`Engine::run_timers`].
    pub fn new(
        journal: Arc<dyn Journal>,
        clock: Arc<dyn Clock>,
        agents: Arc<dyn Agents>,
        tools: Arc<dyn Tools>,
        library: Library,
    ) -> Self {
        Self::with_notifier(journal, clock, (agents, tools), library, Arc::new(NoNotifier))
    }

    /// The same, with listeners outside. Nothing is carried to them before [`Engine::run_outbox`].
    pub fn with_notifier(
        journal: Arc<dyn Journal>,
        clock: Arc<dyn Clock>,
        (agents, tools): (Arc<dyn Agents>, Arc<dyn Tools>),
        library: Library,
        notifier: Arc<dyn Notifier>,
    ) -> Self {
        let inner = Inner {
            sharing: sharing::Sharing::new(&*journal),
            journal,
            clock,
            agents,
            tools,
            notifier,
            tracer: OnceLock::new(),
            outbox: Outbox::default(),
            ledger: ledger::Ledger::default(),
            attesting: attest::Attesting::default(),
            unheard: unheard::Unheard::default(),
            standing: renewal::Standing::default(),
            families: family::Families::default(),
            halting: halting::Halting::default(),
            credentials: OnceLock::new(),
            news: news::News::default(),
            domain: reach::Domain::default(),
            library,
            cells: Cells::default(),
            inbox: broadcast::channel(INBOX_BACKLOG).0,
            desks: inbox_by_owner::InboxByOwner::default(),
            purses: purse::Purses::default(),
            operator: RwLock::default(),
            rulebook: policy::Rulebook::default(),
            alarm: AtomicU64::new(u64::MAX),
            alarm_moved: Notify::new(),
            aside: aside::Aside::default(),
            permits: Arc::new(Semaphore::new(WORK_AT_ONCE)),
            under_way: AtomicUsize::new(0),
            tasks: TaskTracker::new(),
            draining: AtomicBool::new(false),
            retiring: AtomicBool::new(false),
            broken: CancellationToken::new(),
            stop: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Tells `tracer` of all work from now on. To be said before anything runs; the first one stays.
    pub fn trace_with(&self, tracer: Arc<dyn Tracer>) {
        self.inner.tracer.get_or_init(|| tracer);
    }

    /// Goes by what the operator says from now on, in runs under way as in new ones (K12). The policy is said
    /// apart, by [`Engine::rule`].
    pub fn operate(&self, operator: Operator) {
        let mut held = self.inner.operator.write().unwrap_or_else(PoisonError::into_inner);
        // What is stopped stays so, whatever else is said.
        let (policy, halts) = (Arc::clone(&held.policy), Arc::clone(&held.halts));
        *held = Arc::new(Operator { policy, halts, ..operator });
    }

    /// What the operator says now.
    pub fn operator(&self) -> Arc<Operator> {
        Arc::clone(&self.inner.operator.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The workflows that can be started.
    pub fn library(&self) -> &Library {
        &self.inner.library
    }

    /// Whether the store still takes writes.
    pub fn is_healthy(&self) -> bool {
        self.inner.journal.is_healthy()
    }

    /// Whether the store has room for more; without it nothing new is taken until there is some.
    pub fn has_room(&self) -> bool {
        self.inner.journal.has_room()
    }

    /// Why the store is out of reach now, where it is.
    pub fn away(&self) -> Option<String> {
        self.inner.journal.away().or_else(|| self.is_unheard())
    }

    /// By how many milliseconds this machine's clock is ahead of the time that is kept.
    pub fn clock_astray(&self) -> i64 {
        self.inner.clock.astray()
    }

    /// How many deeds are being done: of agents, and of tools.
    pub fn under_way(&self) -> usize {
        self.inner.under_way.load(Ordering::SeqCst)
    }

    /// Whether a shutdown has begun.
    pub fn is_draining(&self) -> bool {
        self.inner.draining.load(Ordering::Acquire)
    }

    /// Whether no turn is begun any more, since another process goes on in a moment.
    fn is_retiring(&self) -> bool {
        self.inner.retiring.load(Ordering::Acquire)
    }

    /// Waits until nothing more can come of waiting: the server stops, or its store has failed.
    async fn ended(&self) -> EngineError {
        tokio::select! {
            biased;
            () = self.inner.stop.cancelled() => EngineError::Draining,
            () = self.inner.broken.cancelled() => {
                Fault::Permanent("the store takes no writes".into()).into()
            }
        }
    }

    /// What time it is, for whoever shows deadlines and ages.
    pub fn now(&self) -> Millis {
        self.inner.clock.now()
    }

    /// A key that never repeats, for a form that must not count twice.
    pub fn fresh_key(&self) -> String {
        self.inner.clock.fresh_stem()
    }

    /// What a run's nonces are drawn from, if it needs any.
    fn fresh_seed(&self) -> String {
        seed(&self.inner.clock.fresh_secret())
    }

    /// The no of a server that takes on nothing new: it drains, or does not know yet what time it is in its store.
    fn refuse_unless_ready(&self) -> Result<(), EngineError> {
        if self.is_draining() {
            return Err(EngineError::Draining);
        }
        // By which time? Nothing is decided before that is known.
        if !self.inner.clock.is_set() {
            let why = "the time of the store is not known yet; try again in a moment";
            return Err(Fault::Retriable(why.into()).into());
        }
        Ok(())
    }

    /// Takes on nothing new, drives what is under way on for as long as `patience`, then closes
    /// the store. What is cut off is taken up again at the next start.
    pub async fn shut_down(&self, patience: Duration) {
        self.drain(patience).await;
        self.inner.journal.close().await;
    }

    /// Lets what is being done come home, and leaves the store open: for whoever takes it elsewhere. They begin what comes
    /// next.
    pub async fn retire(&self, patience: Duration) {
        self.inner.retiring.store(true, Ordering::Release);
        self.drain(patience).await;
    }

    /// Takes on nothing new and drives on what is under way, and leaves the store open.
    pub async fn drain(&self, patience: Duration) {
        self.inner.draining.store(true, Ordering::Release);
        self.say_draining().await;
        self.inner.tasks.close();
        let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        tokio::select! {
            biased;
            () = self.inner.tasks.wait() => {}
            () = self.inner.clock.pause(patience) => {}
        }
        self.inner.stop.cancel();
        self.inner.tasks.wait().await;
        self.write_all().await;
        self.attest_last().await;
    }
}
