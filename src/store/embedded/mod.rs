//! The embedded store: a write-ahead log and a memtable over an ordered tree on disk, with large values beside that. One committer thread
//! owns all writes; reads go to blocking threads. It decides on no run: that is the kernel's.
//!
//! ```text
//! prepared ─► committer ─► group ─► wal (fdatasync) ─► memtable ─► checkpointer ─► disk: tree (sled), value_log
//!                                                          └──── view ◄──── reader ───┘
//! ```
//!
//! `tree` is the only file that names sled, and has the rules by which it is used safely.

mod audit;
#[cfg(feature = "postgres")]
mod changed;
mod checkpointer;
mod chunks;
mod committer;
mod counts;
mod database;
mod directory;
mod disk;
mod evidence;
mod folds;
mod group;
mod head_cache;
mod health;
mod high_water_mark;
mod invariants;
mod leaves;
mod lull;
mod memtable;
#[cfg(feature = "postgres")]
mod moving;
mod outbox_changes;
mod overflow_questions;
mod panic_hook;
mod prepared;
mod prune_scan;
mod reader;
mod repeats;
mod takeover;
mod tree;
mod value_blocks;
mod value_collector;
mod value_log;
mod varints;
mod view;
mod waiting;
mod wal;
mod wal_records;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

use crate::failpoint;
use crate::kernel::evidence::Hash;
use crate::kernel::{Millis, Recorded, Run, RunId, SessionId, Version, Workflow};
use crate::ports::evidence::Evidence;
use crate::ports::{
    Append, AppendError, Appended, Fault, Fence, Head, Hold, HookRow, Incarnation, Journal, KeyRow,
    Logged, Noting, OutboxEntry, Page, RunFilter, SessionRow, Settlement, StoreReport,
};
use crate::store::codec;
use crate::store::config::{OpenError, StoreConfig};
use crate::store::embedded::checkpointer::Checkpointer;
use crate::store::embedded::chunks::Sealed;
use crate::store::embedded::committer::{Committer, Job, QUEUE_MAX, Work};
use crate::store::embedded::counts::Counts;
use crate::store::embedded::database::Database;
use crate::store::embedded::directory::Directory;
#[cfg(feature = "postgres")]
pub(super) use crate::store::embedded::directory::{is_held, moved_to};
pub(super) use crate::store::embedded::directory::{
    is_older, is_there, is_whole, lies_beside, refuse_foreign,
};
use crate::store::embedded::group::Written;
use crate::store::embedded::head_cache::HeadCache;
use crate::store::embedded::health::Health;
use crate::store::embedded::high_water_mark::HighWaterMark;
use crate::store::embedded::lull::Lull;
#[cfg(feature = "postgres")]
pub(super) use crate::store::embedded::moving::run_of;
use crate::store::embedded::prepared::{Change, OutboxChange, Prepared, SessionChange};
pub(super) use crate::store::embedded::value_log::peek;
use crate::store::embedded::view::View;
use crate::store::embedded::wal::Wal;
use crate::store::embedded::wal_records::WalError;
use crate::store::keys;
use crate::store::leases::Leases;

/// Journals in a directory.
#[derive(Debug)]
pub(super) struct EmbeddedJournal {
    queue: mpsc::Sender<Job>,
    database: Arc<Database>,
    leases: Arc<Leases>,
    health: Arc<Health>,
    /// After how many more events a run is saved folded.
    fold_events: u64,
}

impl EmbeddedJournal {
    /// Opens the store in a directory. Blocks: a large log takes a second to read.
    pub(super) fn open(config: &StoreConfig) -> Result<Self, OpenError> {
        let directory = Directory::take(config)?;
        let database = Database::open(config, directory)?;
        let failed = |source| OpenError::of(&config.dir, source);
        let mut wal = replayed(config, &database)?;
        database.tidy().map_err(|fault| damaged(&database, &fault))?;
        if database.directory.is_older() {
            takeover::take_over(&database, &mut wal).map_err(|fault| damaged(&database, &fault))?;
        }
        let mark = HighWaterMark::open(&config.dir).map_err(failed)?;
        let lost = database.with(|view| Ok(mark.lost(view)));
        if let Some(what) = lost.map_err(|fault| damaged(&database, &fault))? {
            return Err(OpenError::Lost { dir: config.dir.clone(), what });
        }
        let epoch = next_epoch(&database)?;
        let counts = database.with(Counts::read).map_err(|fault| damaged(&database, &fault))?;
        database.directory.finish().map_err(failed)?;
        let database = Arc::new(database);
        let leases = Arc::new(Leases::new(epoch));
        let health = Arc::new(Health::default());
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let checkpointer = Checkpointer::start(Arc::clone(&database), Arc::clone(&health));
        let checkpointer = checkpointer.map_err(failed)?;
        let lull = Lull::watch(queue.downgrade(), config.refresh_bytes, || Job::Lull);
        let lull = lull.map_err(failed)?;
        let committer = Committer {
            database: Arc::clone(&database),
            leases: Arc::clone(&leases),
            health: Arc::clone(&health),
            mark,
            counts: counts.unwrap_or_default(),
            cache: HeadCache::default(),
            wal,
            checkpointer,
            lull,
            wants_room: false,
        };
        std::thread::Builder::new()
            .name("holdpoint-committer".into())
            .spawn(move || committer.work(jobs))
            .map_err(|source| OpenError::of(&config.dir, source))?;
        let fold_events = config.fold_events.max(1);
        Ok(Self { queue, database, leases, health, fold_events })
    }

    /// Tells other processes where this one can be talked to.
    pub(super) fn announce(&self, address: &str) -> std::io::Result<()> {
        self.database.directory.announce(address)
    }

    /// Asks the database something, on a thread that may block. Not after a failed write:
    /// whoever saw what could not be made durable would take it for a fact (J2).
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(View<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.health.check_failure()?;
        let database = Arc::clone(&self.database);
        let asked = spawn_blocking(move || database.with(question)).await;
        self.health.check_failure()?;
        match asked {
            Ok(answer) => answer,
            Err(error) => Err(Fault::Corrupt(format!("sled gave up reading: {error}"))),
        }
    }

    /// Hands the committer a job, and waits for its answer.
    async fn order<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, Fault> {
        self.health.check()?;
        let (reply, answer) = oneshot::channel();
        let gone = || match self.health.check() {
            Err(fault) => fault,
            Ok(()) => Fault::Retriable("the store is closed".into()),
        };
        self.queue.send(job(reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }

    /// Has the committer write something, durable when it returns.
    async fn write(&self, work: Work) -> Result<Written, AppendError> {
        self.order(|reply| Job::Write(work, reply)).await?
    }

    /// A change beside the journals, durable when it returns.
    async fn change(&self, change: Change) -> Result<u64, Fault> {
        self.write(Work::Change(change)).await.map(|written| written.at).map_err(plain)
    }
}

/// A no to something that is no append.
fn plain(error: AppendError) -> Fault {
    match error {
        AppendError::Fault(fault) => fault,
        other @ (AppendError::Moved { .. }
        | AppendError::Superseded
        | AppendError::Held { .. }
        | AppendError::GuardMoved(_)
        | AppendError::Unknown(_)
        | AppendError::SessionMoved
        | AppendError::SessionTaken
        | AppendError::KeyTaken(_)) => Fault::Permanent(other.to_string()),
    }
}

/// Opens the write-ahead log, and replays what no checkpoint had flushed before the last process ended.
fn replayed(config: &StoreConfig, database: &Database) -> Result<Wal, OpenError> {
    let flushed = database.with(reader::checkpoint).map_err(|fault| damaged(database, &fault))?;
    // A guess is enough, and a file that goes away while it is looked at is no reason not to open.
    let store_bytes = directory::bytes_below(&config.dir).unwrap_or_default();
    let (wal, groups) =
        Wal::open(&config.dir, flushed, store_bytes).map_err(|unread| match unread {
            WalError::Io(source) => OpenError::of(&config.dir, source),
            WalError::Rotten(what) => {
                let what = format!("its write-ahead log: {what}");
                OpenError::Damaged { dir: config.dir.clone(), what }
            }
        })?;
    if groups.is_empty() {
        return Ok(wal);
    }
    tracing::debug!(groups = groups.len(), "what no checkpoint had flushed is replayed");
    failpoint::hit("store.before_replay");
    let written = groups.into_iter().try_for_each(|group| database.write(group));
    let rotated = written.and_then(|()| database.rotate());
    let flushed = rotated.and_then(|()| database.checkpoint(wal.generation_before()));
    flushed.map_err(|fault| damaged(database, &fault))?;
    Ok(wal)
}

/// Counts this opening, durably, so that its fences are above those of every earlier one (J4).
fn next_epoch(database: &Database) -> Result<u64, OpenError> {
    let last = database.with(|view| match reader::record(view, keys::EPOCH)? {
        Some(record) => Ok(codec::unseal_json::<u64>(keys::EPOCH, &record)?),
        None if database.directory.is_new() => Ok(0),
        None => Err(Fault::Corrupt("the count of its openings is missing".into())),
    });
    let counted = last.and_then(|last| {
        let record = codec::seal_json(keys::EPOCH, &(last + 1))?;
        failpoint::hit("store.before_epoch");
        database.put_at_once(keys::EPOCH, record)?;
        failpoint::hit("store.after_epoch");
        Ok(last + 1)
    });
    counted.map_err(|fault| damaged(database, &fault))
}

fn damaged(database: &Database, fault: &Fault) -> OpenError {
    let dir = database.directory.path().to_path_buf();
    OpenError::Damaged { dir, what: fault.to_string() }
}

#[async_trait]
impl Journal for EmbeddedJournal {
    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        let taken = matches!(append.hold, Hold::Take { .. }).then(|| append.run.clone());
        let fence = append.fence.filter(|_| append.hold == Hold::Keep);
        let prepared = Box::new(Prepared::new(append)?);
        let Written { at: version, link } = self.write(Work::Append(prepared)).await?;
        let taken = taken.map(|run| self.leases.fence_of(&run));
        Ok(Appended { version, fence: taken.or(fence).unwrap_or(0), link })
    }

    async fn read(
        &self,
        run: &RunId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, Fault> {
        let run = run.clone();
        self.ask(move |view| reader::events(view, &run, after, limit)).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, Fault> {
        let run = run.clone();
        self.ask(move |view| reader::head(view, &run)).await
    }

    async fn heads(
        &self,
        filter: &RunFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, Fault> {
        let (filter, cursor) = (filter.clone(), cursor.map(str::to_owned));
        self.ask(move |view| reader::heads(view, &filter, cursor.as_deref(), limit)).await
    }

    async fn session(&self, session: &SessionId) -> Result<Option<SessionRow>, Fault> {
        let session = session.clone();
        self.ask(move |view| reader::session(view, &session)).await
    }

    async fn sessions(
        &self,
        owner: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SessionRow>, Fault> {
        let (owner, cursor) = (owner.map(str::to_owned), cursor.map(str::to_owned));
        self.ask(move |view| reader::sessions(view, owner.as_deref(), cursor.as_deref(), limit))
            .await
    }

    async fn put_session(
        &self,
        knew: Option<SessionRow>,
        row: SessionRow,
    ) -> Result<(), AppendError> {
        let key = keys::session(&row.session);
        let record = codec::seal_session(&key, &row, None).map_err(Fault::from)?;
        chunks::check(record.len())?;
        let change = SessionChange { knew, row, sealed: Sealed { key, record } };
        let change = Change::PutSession(Box::new(change));
        self.write(Work::Change(change)).await.map(drop)
    }

    async fn key(&self, owner: &str, key: &str) -> Result<Option<KeyRow>, Fault> {
        let (owner, key) = (owner.to_owned(), key.to_owned());
        self.ask(move |view| reader::key(view, &owner, &key)).await
    }

    async fn key_of(&self, run: &RunId) -> Result<Option<(String, KeyRow)>, Fault> {
        let run = run.clone();
        self.ask(move |view| reader::key_of(view, &run)).await
    }

    async fn waiting(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Head>, Fault> {
        let cursor = cursor.map(str::to_owned);
        self.ask(move |view| reader::waiting(view, cursor.as_deref(), limit)).await
    }

    async fn due(&self, now: Millis, limit: usize) -> Result<Vec<(Millis, RunId)>, Fault> {
        self.ask(move |view| reader::due(view, now, limit)).await
    }

    async fn next_due(&self) -> Result<Option<Millis>, Fault> {
        let soonest = self.ask(|view| reader::due(view, Millis(u64::MAX), 1)).await?;
        Ok(soonest.first().map(|(at, _)| *at))
    }

    async fn running(&self, cursor: Option<&str>, limit: usize) -> Result<Page<RunId>, Fault> {
        let cursor = cursor.map(str::to_owned);
        self.ask(move |view| reader::running(view, cursor.as_deref(), limit)).await
    }

    async fn forks(&self, family: &RunId) -> Result<Vec<RunId>, Fault> {
        let family = family.clone();
        self.ask(move |view| reader::forks(view, &family)).await
    }

    fn incarnation(&self) -> Incarnation {
        self.leases.me()
    }

    async fn take(
        &self,
        run: &RunId,
        from: Option<Incarnation>,
        _expected: Version,
    ) -> Result<Fence, AppendError> {
        // Whoever has the run in hand knows where it is: nobody else writes here.
        let hold = Hold::Take { from };
        self.leases.admits(run, None, hold)?;
        Ok(self.leases.change(run, hold).unwrap_or(0))
    }

    async fn put_definition(&self, digest: &str, json: &str) -> Result<(), Fault> {
        chunks::check(json.len())?;
        let key = keys::definition(digest);
        let record = codec::seal(&key, json.as_bytes());
        self.change(Change::PutDefinition(Sealed { key, record })).await.map(drop)
    }

    async fn definition(&self, digest: &str) -> Result<Option<String>, Fault> {
        let digest = digest.to_owned();
        self.ask(move |view| reader::definition(view, &digest)).await
    }

    async fn outbox_entries(&self, now: Millis, limit: usize) -> Result<Vec<OutboxEntry>, Fault> {
        self.ask(move |view| reader::outbox_entries(view, now, limit)).await
    }

    async fn next_outbox_entry(&self) -> Result<Option<Millis>, Fault> {
        let soonest = self.ask(|view| reader::outbox_entries(view, Millis(u64::MAX), 1)).await?;
        Ok(soonest.first().map(|outbox_entry| outbox_entry.due))
    }

    async fn settle(&self, run: &RunId, channel: &str, outcome: Settlement) -> Result<(), Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(()) };
        let change = OutboxChange::Settle { packed, channel: channel.to_owned(), outcome };
        self.change(Change::Outbox(change)).await.map(drop)
    }

    async fn put_hook(&self, hook: &HookRow) -> Result<(), Fault> {
        let change = OutboxChange::PutHook(prepared::sealed_hook(hook)?);
        self.change(Change::Outbox(change)).await.map(drop)
    }

    async fn hooks(&self, run: &RunId) -> Result<Vec<HookRow>, Fault> {
        let run = run.clone();
        self.ask(move |view| reader::hooks(view, &run)).await
    }

    async fn remove_hook(&self, run: &RunId, id: &str) -> Result<(), Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(()) };
        let change = OutboxChange::RemoveHook { packed, id: id.to_owned() };
        self.change(Change::Outbox(change)).await.map(drop)
    }

    async fn prune(&self, before: Millis, limit: usize) -> Result<usize, Fault> {
        self.order(|reply| Job::Prune { before, limit, reply }).await?
    }

    async fn note(&self, noting: Noting) -> Result<u64, Fault> {
        self.change(Change::Note(Box::new(noting))).await
    }

    async fn notes(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Logged>, Fault> {
        let cursor = cursor.map(str::to_owned);
        self.ask(move |view| reader::notes(view, cursor.as_deref(), limit)).await
    }

    async fn remember(&self, name: &str, text: &str) -> Result<(), Fault> {
        chunks::check(text.len())?;
        let key = keys::keepsake(name);
        let record = codec::seal(&key, text.as_bytes());
        self.change(Change::PutText(Sealed { key, record })).await.map(drop)
    }

    async fn remembered(&self, name: &str) -> Result<Option<String>, Fault> {
        let key = keys::keepsake(name);
        self.ask(move |view| reader::text(view, &key)).await
    }

    fn folds_every(&self) -> Option<Version> {
        Some(self.fold_events)
    }

    async fn save_fold(&self, run: Box<Run>, link: Hash) -> Result<(), Fault> {
        let sealed = spawn_blocking(move || folds::record(&run, link)).await;
        match sealed.map_err(|panic| Fault::Retriable(panic.to_string()))? {
            Some((packed, sealed)) => self.change(Change::SaveFold(packed, sealed)).await.map(drop),
            None => Ok(()),
        }
    }

    async fn saved_fold(
        &self,
        run: &RunId,
        workflow: &Arc<Workflow>,
    ) -> Result<Option<Run>, Fault> {
        let (run, workflow) = (run.clone(), Arc::clone(workflow));
        self.ask(move |view| folds::read(view, &run, &workflow)).await
    }

    async fn verify(&self) -> Result<StoreReport, Fault> {
        let dirs = self.database.directory.stored();
        let format = self.database.directory.format();
        self.ask(move |view| audit::verify(view, (&dirs, format))).await
    }

    fn evidence(&self) -> &dyn Evidence {
        self
    }

    fn is_healthy(&self) -> bool {
        self.health.check().is_ok() && !self.queue.is_closed()
    }

    fn has_room(&self) -> bool {
        self.database.has_room().is_ok()
    }

    async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        // Whoever cannot be told, or does not answer, has closed already.
        if self.queue.send(Job::Close(reply)).await.is_ok() {
            drop(answer.await);
        }
        self.database.close();
    }
}
