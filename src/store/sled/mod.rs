//! The embedded store: sled, used by the rules that keep it safe. One committer thread owns all
//! writes; reads go to blocking threads. Everything sled-shaped stays in this folder.

mod apart;
mod audit;
mod bygone;
mod committer;
mod directory;
mod group;
mod health;
mod hush;
mod prepared;
mod reader;
mod recent;
mod records;
mod settler;
mod shelf;
mod tally;
mod tide;
mod values;
mod view;
mod wal;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

use crate::failpoint;
use crate::kernel::{Millis, Recorded, RunId, SessionId, Version};
use crate::ports::{
    Append, AppendError, Fault, Head, HookRow, Journal, KeyRow, Lease, Logged, Noting, Page,
    Parcel, RunFilter, SessionRow, Settlement, StoreReport,
};
use crate::store::codec;
use crate::store::config::{OpenError, StoreConfig};
use crate::store::keys;
use crate::store::leases::Leases;
use crate::store::sled::committer::{Committer, Job, QUEUE_MAX};
use crate::store::sled::directory::Directory;
pub(super) use crate::store::sled::directory::is_there;
use crate::store::sled::group::Errand;
use crate::store::sled::health::Health;
use crate::store::sled::prepared::{Prepared, Sealed, Seat};
use crate::store::sled::recent::Recent;
use crate::store::sled::records::Unread;
use crate::store::sled::settler::Settler;
use crate::store::sled::shelf::Shelf;
use crate::store::sled::tally::Tally;
use crate::store::sled::tide::Tide;
use crate::store::sled::view::View;
use crate::store::sled::wal::Wal;

/// Journals in a directory.
#[derive(Debug)]
pub(super) struct SledJournal {
    queue: mpsc::Sender<Job>,
    shelf: Arc<Shelf>,
    leases: Arc<Leases>,
    health: Arc<Health>,
}

impl SledJournal {
    /// Opens the store in a directory. Blocks: a large log takes a second to read.
    pub(super) fn open(config: &StoreConfig) -> Result<Self, OpenError> {
        let directory = Directory::take(&config.dir, config.reserve_bytes)?;
        let shelf = Shelf::open(config, directory)?;
        let failed = |source| OpenError::of(&config.dir, source);
        let wal = replayed(config, &shelf)?;
        let tide = Tide::open(&config.dir).map_err(failed)?;
        shelf.check(|view| tide.check(&config.dir, view))?;
        let epoch = next_epoch(&shelf)?;
        let tally = shelf.with(Tally::read).map_err(|fault| damaged(&shelf, &fault))?;
        let finished = shelf.directory.finish();
        finished.map_err(|source| OpenError::of(&config.dir, source))?;
        let shelf = Arc::new(shelf);
        let leases = Arc::new(Leases::new(epoch));
        let health = Arc::new(Health::default());
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let settler = Settler::start(Arc::clone(&shelf), Arc::clone(&health)).map_err(failed)?;
        let committer = Committer {
            shelf: Arc::clone(&shelf),
            leases: Arc::clone(&leases),
            health: Arc::clone(&health),
            tide,
            tally: tally.unwrap_or_default(),
            recent: Recent::default(),
            wal,
            settler,
            written: 0,
        };
        std::thread::Builder::new()
            .name("holdpoint-committer".into())
            .spawn(move || committer.work(jobs))
            .map_err(|source| OpenError::of(&config.dir, source))?;
        Ok(Self { queue, shelf, leases, health })
    }

    /// Tells other processes where this one can be talked to.
    pub(super) fn announce(&self, address: &str) -> std::io::Result<()> {
        self.shelf.directory.announce(address)
    }

    /// Asks the database something, on a thread that may block. Not after a failed write: sled shows
    /// what it could not make durable, and whoever saw it would take it for a fact (J2).
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(View<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.health.check_failure()?;
        let shelf = Arc::clone(&self.shelf);
        let asked = spawn_blocking(move || shelf.with(question)).await;
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

    /// A change beside the journals, durable when it returns.
    async fn errand(&self, errand: Errand) -> Result<u64, Fault> {
        self.order(|reply| Job::Errand(errand, reply)).await?.map_err(plain)
    }
}

/// A no to something that is no append.
fn plain(error: AppendError) -> Fault {
    match error {
        AppendError::Fault(fault) => fault,
        other @ (AppendError::Moved { .. }
        | AppendError::Superseded
        | AppendError::SessionMoved
        | AppendError::SessionTaken
        | AppendError::KeyTaken(_)) => Fault::Permanent(other.to_string()),
    }
}

/// Gives sled what it was not made to sync before the last process ended.
fn replayed(config: &StoreConfig, shelf: &Shelf) -> Result<Wal, OpenError> {
    let settled = shelf.with(|view| match reader::record(view, keys::SETTLED)? {
        None => Ok(0),
        Some(record) => {
            let bytes = codec::unseal(keys::SETTLED, &record)?;
            let bytes = bytes.try_into().map_err(|_| Fault::Corrupt("no generation".into()))?;
            Ok(u64::from_be_bytes(bytes))
        }
    });
    let settled = settled.map_err(|fault| damaged(shelf, &fault))?;
    let (wal, groups) = Wal::open(&config.dir, settled).map_err(|unread| match unread {
        Unread::Io(source) => OpenError::of(&config.dir, source),
        Unread::Rotten(what) => {
            let what = format!("its write-ahead log: {what}");
            OpenError::Damaged { dir: config.dir.clone(), what }
        }
    })?;
    if groups.is_empty() {
        return Ok(wal);
    }
    tracing::debug!(groups = groups.len(), "what was not settled is written again");
    failpoint::hit("store.before_replay");
    let written = groups.into_iter().try_for_each(|group| shelf.write(group));
    let settled =
        written.and_then(|()| shelf.age()).and_then(|()| shelf.settle(wal.generation_before()));
    settled.map_err(|fault| damaged(shelf, &fault))?;
    Ok(wal)
}

/// Counts this opening, durably, so that its fences are above those of every earlier one (J4).
fn next_epoch(shelf: &Shelf) -> Result<u64, OpenError> {
    let counted = shelf.with(|view| {
        let epoch: u64 = match reader::record(view, keys::EPOCH)? {
            Some(record) => codec::unseal_json(keys::EPOCH, &record)?,
            None if shelf.directory.is_new() => 0,
            None => return Err(Fault::Corrupt("the count of its openings is missing".into())),
        };
        let record = codec::seal_json(keys::EPOCH, &(epoch + 1))?;
        failpoint::hit("store.before_epoch");
        view.db().insert(keys::EPOCH, record).map_err(|error| shelf::fault(&error))?;
        view.db().flush().map_err(|error| shelf::fault(&error))?;
        shelf.sync()?;
        failpoint::hit("store.after_epoch");
        Ok(epoch + 1)
    });
    counted.map_err(|fault| damaged(shelf, &fault))
}

fn damaged(shelf: &Shelf, fault: &Fault) -> OpenError {
    let dir = shelf.directory.path().to_path_buf();
    OpenError::Damaged { dir, what: fault.to_string() }
}

#[async_trait]
impl Journal for SledJournal {
    async fn append(&self, append: Append) -> Result<Version, AppendError> {
        let prepared = Box::new(Prepared::new(append)?);
        self.order(|reply| Job::Append(prepared, reply)).await?
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
        values::check(record.len())?;
        let seat = Box::new(Seat { knew, row, sealed: Sealed { key, record } });
        self.order(|reply| Job::Seat(seat, reply)).await?
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

    async fn claim(
        &self,
        run: &RunId,
        holder: &str,
        now: Millis,
        ttl_ms: u64,
    ) -> Result<Option<Lease>, Fault> {
        Ok(self.leases.claim(run, holder, now, ttl_ms))
    }

    async fn release(&self, lease: &Lease) -> Result<(), Fault> {
        self.leases.release(lease);
        Ok(())
    }

    async fn put_definition(&self, digest: &str, json: &str) -> Result<(), Fault> {
        values::check(json.len())?;
        let key = keys::definition(digest);
        let record = codec::seal(&key, json.as_bytes());
        let defined = self.order(|reply| Job::Define(Sealed { key, record }, reply)).await?;
        defined.map_err(plain)
    }

    async fn definition(&self, digest: &str) -> Result<Option<String>, Fault> {
        let digest = digest.to_owned();
        self.ask(move |view| reader::definition(view, &digest)).await
    }

    async fn parcels(&self, now: Millis, limit: usize) -> Result<Vec<Parcel>, Fault> {
        self.ask(move |view| reader::parcels(view, now, limit)).await
    }

    async fn next_parcel(&self) -> Result<Option<Millis>, Fault> {
        let soonest = self.ask(|view| reader::parcels(view, Millis(u64::MAX), 1)).await?;
        Ok(soonest.first().map(|parcel| parcel.due))
    }

    async fn settle(&self, run: &RunId, lane: &str, outcome: Settlement) -> Result<(), Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(()) };
        self.errand(Errand::Settle { packed, lane: lane.to_owned(), outcome }).await.map(drop)
    }

    async fn put_hook(&self, hook: &HookRow) -> Result<(), Fault> {
        self.errand(Errand::PutHook(prepared::sealed_hook(hook)?)).await.map(drop)
    }

    async fn hooks(&self, run: &RunId) -> Result<Vec<HookRow>, Fault> {
        let run = run.clone();
        self.ask(move |view| reader::hooks(view, &run)).await
    }

    async fn remove_hook(&self, run: &RunId, id: &str) -> Result<(), Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(()) };
        self.errand(Errand::RemoveHook { packed, id: id.to_owned() }).await.map(drop)
    }

    async fn prune(&self, before: Millis, limit: usize) -> Result<usize, Fault> {
        self.order(|reply| Job::Prune { before, limit, reply }).await?
    }

    async fn note(&self, noting: Noting) -> Result<u64, Fault> {
        self.errand(Errand::Note(Box::new(noting))).await
    }

    async fn notes(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Logged>, Fault> {
        let cursor = cursor.map(str::to_owned);
        self.ask(move |view| reader::notes(view, cursor.as_deref(), limit)).await
    }

    async fn remember(&self, name: &str, text: &str) -> Result<(), Fault> {
        values::check(text.len())?;
        let key = keys::keepsake(name);
        let record = codec::seal(&key, text.as_bytes());
        self.errand(Errand::Keep(Sealed { key, record })).await.map(drop)
    }

    async fn remembered(&self, name: &str) -> Result<Option<String>, Fault> {
        let key = keys::keepsake(name);
        self.ask(move |view| reader::text(view, &key)).await
    }

    async fn verify(&self) -> Result<StoreReport, Fault> {
        let store = self.shelf.directory.store();
        self.ask(move |view| audit::verify(view, &store)).await
    }

    fn is_healthy(&self) -> bool {
        self.health.check().is_ok() && !self.queue.is_closed()
    }

    fn has_room(&self) -> bool {
        self.shelf.has_room().is_ok()
    }

    async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        // Whoever cannot be told, or does not answer, has closed already.
        if self.queue.send(Job::Close(reply)).await.is_ok() {
            drop(answer.await);
        }
        self.shelf.close();
    }
}
