//! Shelf: the open database with what it is yet to be given, and the handle by which it is made
//! durable. It is closed and opened again now and then, under its readers' feet but never in their hands.

use std::fs::{File, OpenOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use ::sled::Db;

use crate::failpoint;
use crate::ports::Fault;
use crate::store::codec;
use crate::store::config::{OpenError, StoreConfig};
use crate::store::keys;
use crate::store::sled::directory::Directory;
use crate::store::sled::hush;
use crate::store::sled::records::Write;
use crate::store::sled::view::{self, Fresh, View};

/// sled lets go of its file a moment after it is dropped; this is how long we wait for it.
const LET_GO_TRIES: u32 = 500;
const LET_GO_PAUSE: Duration = Duration::from_millis(10);
/// How long sled may take to let go where it is opened again: it saves its page table meanwhile.
const LET_GO_TO_GO_ON: Duration = Duration::from_mins(1);
/// How long where nothing comes after it.
const LET_GO_TO_END: Duration = Duration::from_secs(5);
/// How often sled's own thread rolls its log and cleans up behind us; durability does not hang on it.
const HOUSEKEEPING_MS: u64 = 500;

/// The open database.
#[derive(Debug)]
pub(super) struct Shelf {
    /// None after closing. Readers hold it for the length of one query, the writer for one group.
    open: RwLock<Option<Open>>,
    /// Our own handle of sled's log: `flush` writes it but does not make it durable.
    log: File,
    config: StoreConfig,
    /// Whether the disk was nearly full when it was last looked at: the change is logged, not the state.
    is_full: AtomicBool,
    /// Last, so that the lock is the last thing to go.
    pub(super) directory: Directory,
}

/// What sled holds, and what it has not been given yet.
#[derive(Debug)]
struct Open {
    db: Db,
    fresh: Fresh,
}

impl Shelf {
    /// Opens what is in the directory.
    pub(super) fn open(config: &StoreConfig, directory: Directory) -> Result<Self, OpenError> {
        let db = open(&directory, config)?;
        let path = directory.store().join("db");
        let log = OpenOptions::new().write(true).open(&path);
        let log = log.map_err(|source| OpenError::of(&path, source))?;
        let open = Open { db, fresh: Fresh::default() };
        let (open, is_full) = (RwLock::new(Some(open)), AtomicBool::new(false));
        Ok(Self { open, log, config: config.clone(), is_full, directory })
    }

    /// Asks the store something.
    pub(super) fn with<T>(
        &self,
        ask: impl FnOnce(View<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        match open.as_ref() {
            Some(open) => ask(View::new(&open.db, &open.fresh)),
            None => Err(Fault::Retriable("the store is closed".into())),
        }
    }

    /// Shows a group to whoever asks from now on: all of it or nothing of it (J1).
    pub(super) fn write(&self, writes: Vec<Write>) -> Result<(), Fault> {
        self.change(|fresh| writes.into_iter().for_each(|write| fresh.add(write)))
    }

    /// Puts aside what is to be settled next; what is written from now on comes after it.
    pub(super) fn age(&self) -> Result<(), Fault> {
        self.change(Fresh::age)
    }

    fn change(&self, change: impl FnOnce(&mut Fresh)) -> Result<(), Fault> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let Some(Open { fresh, .. }) = open.as_mut() else {
            return Err(Fault::Permanent("the store is closed".into()));
        };
        change(fresh);
        Ok(())
    }

    /// Looks at the store before anything is done with it.
    pub(super) fn check(
        &self,
        look: impl FnOnce(View<'_>) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map_or(Ok(()), |open| look(View::new(&open.db, &open.fresh)))
    }

    /// Gives sled what was put aside and makes it durable, then notes which generation of the
    /// write-ahead log that settles. Two syncs: the note must never be ahead of what it stands for.
    /// Readers and the writer go on meanwhile: they see no difference.
    pub(super) fn settle(&self, generation: u64) -> Result<(), Fault> {
        let record = codec::seal(keys::SETTLED, &generation.to_be_bytes());
        let (db, aged) = {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            let Some(Open { db, fresh }) = open.as_ref() else {
                return Err(Fault::Permanent("the store is closed".into()));
            };
            (db.clone(), fresh.aged())
        };
        failpoint::hit("store.before_settle");
        view::pour(&aged, &db)?;
        failpoint::hit("store.poured");
        db.flush().map_err(|error| fault(&error))?;
        self.sync()?;
        failpoint::hit("store.settled");
        db.insert(keys::SETTLED, record).map_err(|error| fault(&error))?;
        db.flush().map_err(|error| fault(&error))?;
        self.sync()?;
        failpoint::hit("store.after_settle");
        drop(db);
        self.change(Fresh::forget_aged)
    }

    /// Makes everything that sled has written durable. An error is final: what the kernel could not
    /// write it may have dropped, and a second try would succeed without it.
    pub(super) fn sync(&self) -> Result<(), Fault> {
        self.log.sync_data().map_err(|error| Fault::Permanent(format!("fdatasync: {error}")))
    }

    /// Closes and opens the database, which makes sled save its page table: a restart then reads
    /// only the log that comes after. Readers wait meanwhile.
    pub(super) fn refresh(&self) -> Result<(), Fault> {
        let mut held = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let Some(Open { db, fresh }) = held.take() else {
            return Err(Fault::Permanent("the store is closed".into()));
        };
        let_go(db, LET_GO_TO_GO_ON)?;
        let db = open(&self.directory, &self.config);
        let db = db.map_err(|error| Fault::Permanent(error.to_string()))?;
        *held = Some(Open { db, fresh });
        let store = File::open(self.directory.store()).and_then(|dir| dir.sync_all());
        store.map_err(|error| Fault::Permanent(format!("fsync of the store's directory: {error}")))
    }

    /// Lets go of the database, then of the directory.
    pub(super) fn close(&self) {
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        // What is acknowledged is settled: nothing hangs on how it ends.
        if let Some(Err(failure)) = open.map(|open| let_go(open.db, LET_GO_TO_END)) {
            tracing::warn!(%failure, "the store was left as it is");
        }
        self.directory.release();
    }

    /// Whether anything may be written, or the reserve has been reached.
    pub(super) fn has_room(&self) -> Result<(), Fault> {
        let reserve = self.config.reserve_bytes;
        let path = self.directory.path();
        let free = super::directory::free_bytes(path);
        // Not being told is no reason to stop: the write itself will say.
        let Ok(free) = free else { return Ok(()) };
        let is_full = free < reserve;
        let was_full = self.is_full.swap(is_full, Ordering::AcqRel);
        let (free_mib, reserve_mib) = (free >> 20, reserve >> 20);
        match (was_full, is_full) {
            (false, true) => tracing::error!(
                free_mib,
                reserve_mib,
                "the disk is nearly full: nothing new is taken; free some space, and it goes on by itself"
            ),
            (true, false) => tracing::info!(free_mib, "there is room on the disk again"),
            (true, true) | (false, false) => {}
        }
        if !is_full {
            return Ok(());
        }
        Err(Fault::Retriable(format!(
            "the disk is nearly full: {free_mib} MiB left, {reserve_mib} MiB kept in reserve; free some space"
        )))
    }

    /// How much may be written before the page table is saved anew.
    pub(super) fn refresh_bytes(&self) -> u64 {
        self.config.refresh_bytes
    }
}

/// What sled's no means for us.
pub(super) fn fault(error: &::sled::Error) -> Fault {
    match error {
        ::sled::Error::Corruption { .. } => Fault::Corrupt("sled finds its pages damaged".into()),
        ::sled::Error::Io(_)
        | ::sled::Error::CollectionNotFound(_)
        | ::sled::Error::Unsupported(_)
        | ::sled::Error::ReportableBug(_) => Fault::Permanent(format!("sled: {error}")),
    }
}

/// Lets go of a database, for as long as `patience`. On a thread of its own: where sled's housekeeping
/// has panicked over damage, sled waits for it for ever.
fn let_go(db: Db, patience: Duration) -> Result<(), Fault> {
    let (told, done) = mpsc::channel();
    let closing = std::thread::Builder::new().name("holdpoint-closing".into());
    let closing = closing.spawn(move || {
        drop(db);
        told.send(()).unwrap_or_default();
    });
    if closing.is_err() {
        // Not even a thread is to be had; then it was let go of here and now.
        return Ok(());
    }
    match done.recv_timeout(patience) {
        Ok(()) | Err(RecvTimeoutError::Disconnected) => Ok(()),
        Err(RecvTimeoutError::Timeout) => Err(Fault::Permanent(
            "sled does not let go of its file; `holdpoint doctor` says what is damaged".into(),
        )),
    }
}

fn open(directory: &Directory, config: &StoreConfig) -> Result<Db, OpenError> {
    let path = directory.store();
    // sled panics on some damage; that is an answer too, and told in our words.
    let hushed = hush::while_opening();
    let opened = catch_unwind(AssertUnwindSafe(|| open_patiently(&path, config.cache_bytes)));
    drop(hushed);
    let damaged = |what: String| OpenError::Damaged { dir: directory.path().to_path_buf(), what };
    match opened {
        Ok(Ok(db)) => Ok(db),
        Ok(Err(::sled::Error::Io(source))) => Err(OpenError::of(&path, source)),
        Ok(Err(::sled::Error::Unsupported(found))) => Err(OpenError::WrongFormat {
            dir: directory.path().to_path_buf(),
            found,
            expected: "sled 0.34 with 512 KiB segments, not compressed".into(),
        }),
        Ok(Err(error)) => Err(damaged(error.to_string())),
        Err(_) => Err(damaged("sled gave up reading it; the log has its last words".into())),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a blocking thread waits for sled's threads, which no clock of ours knows"
)]
fn open_patiently(path: &Path, cache_bytes: u64) -> ::sled::Result<Db> {
    let config = ::sled::Config::new()
        .path(path)
        .cache_capacity(cache_bytes)
        .flush_every_ms(Some(HOUSEKEEPING_MS));
    for _ in 0..LET_GO_TRIES {
        match config.open() {
            Err(::sled::Error::Io(error)) if error.to_string().contains("acquire lock") => {
                std::thread::sleep(LET_GO_PAUSE);
            }
            other => return other,
        }
    }
    config.open()
}
