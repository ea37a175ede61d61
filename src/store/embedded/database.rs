//! Database: what is on disk with the memtable over it. Its tree is closed and opened again now and then, under
//! its readers' feet but never in their hands. What may be written is decided elsewhere.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use crate::failpoint;
use crate::ports::Fault;
use crate::store::config::{OpenError, StoreConfig};
#[cfg(feature = "postgres")]
use crate::store::embedded::changed::Changed;
use crate::store::embedded::directory::{Directory, free_bytes};
use crate::store::embedded::disk::Disk;
use crate::store::embedded::invariants;
use crate::store::embedded::memtable::Memtable;
use crate::store::embedded::reader;
use crate::store::embedded::view::View;
use crate::store::embedded::wal_records::Write;

/// How long the tree may take to close where it is opened again: it saves its page table meanwhile.
const CLOSE_TO_GO_ON: Duration = Duration::from_mins(1);
/// How long where nothing comes after it.
const CLOSE_TO_END: Duration = Duration::from_secs(5);

/// The open database.
#[derive(Debug)]
pub(super) struct Database {
    /// None after closing. Readers hold it for the length of one query, the writer for one group.
    open: RwLock<Option<Open>>,
    config: StoreConfig,
    /// Whether the disk was nearly full when it was last looked at: the change is logged, not the state.
    is_full: AtomicBool,
    /// What was written while the store moves.
    #[cfg(feature = "postgres")]
    pub(super) changed: Changed,
    /// Last, so that the lock is the last thing to go.
    pub(super) directory: Directory,
}

/// What is on disk, and what it has not been given yet.
#[derive(Debug)]
struct Open {
    disk: Disk,
    memtable: Memtable,
}

impl Database {
    /// Opens what is in the directory.
    pub(super) fn open(config: &StoreConfig, directory: Directory) -> Result<Self, OpenError> {
        let disk = Disk::open(&directory, config.cache_bytes)?;
        let memtable = Memtable::over(&disk).map_err(|fault| {
            let dir = directory.path().to_path_buf();
            OpenError::Damaged { dir, what: fault.to_string() }
        })?;
        let open = RwLock::new(Some(Open { disk, memtable }));
        Ok(Self {
            open,
            config: config.clone(),
            is_full: AtomicBool::new(false),
            #[cfg(feature = "postgres")]
            changed: Changed::default(),
            directory,
        })
    }

    /// Asks the store something.
    pub(super) fn with<T>(
        &self,
        ask: impl FnOnce(View<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        match open.as_ref() {
            Some(open) => ask(View::new(&open.disk, &open.memtable)),
            None => Err(Fault::Retriable("the store is closed".into())),
        }
    }

    /// Shows a group to whoever asks from now on: all of it or nothing of it (J1).
    pub(super) fn write(&self, writes: Vec<Write>) -> Result<(), Fault> {
        #[cfg(feature = "postgres")]
        let changed = self.changed.of(&writes);
        self.change(|memtable| writes.into_iter().for_each(|write| memtable.insert(write)))?;
        // After it can be seen: whoever copies it earlier is told of it again.
        #[cfg(feature = "postgres")]
        self.changed.add(changed);
        Ok(())
    }

    /// Puts aside what the next checkpoint flushes; what is written from now on comes after it.
    pub(super) fn rotate(&self) -> Result<(), Fault> {
        self.change(Memtable::rotate)
    }

    fn change(&self, change: impl FnOnce(&mut Memtable)) -> Result<(), Fault> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let Open { memtable, .. } = open.as_mut().ok_or_else(closed)?;
        change(memtable);
        Ok(())
    }

    /// A checkpoint: flushes to the disk what was put aside and makes it durable, then notes up to which
    /// generation of the write-ahead log that goes. Two syncs: the note must never be ahead of what it
    /// stands for. Readers and the writer go on meanwhile: they see no difference.
    pub(super) fn checkpoint(&self, generation: u64) -> Result<(), Fault> {
        let (disk, immutable) = {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            let Open { disk, memtable } = open.as_ref().ok_or_else(closed)?;
            (disk.clone(), memtable.immutable())
        };
        // A note that went back would have the next opening replay what later generations wrote over.
        let last = self.with(reader::checkpoint)?;
        let goes_on = last < generation;
        invariants::holds(goes_on, "J2: checkpoints go on in the order of the write-ahead log");
        failpoint::hit("store.before_checkpoint");
        let is_newer = |key: &[u8]| {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            open.as_ref().is_some_and(|open| open.memtable.is_newer(key))
        };
        disk.flush(&immutable, is_newer)?;
        disk.collect()?;
        failpoint::hit("store.flushed");
        disk.sync()?;
        failpoint::hit("store.flush_synced");
        let emptied = disk.note(generation)?;
        disk.hand_over()?;
        // A handle that is left would keep the tree from closing.
        drop(disk);
        self.forget_immutable(emptied)
    }

    /// Forgets what the disk now holds durably, and what nothing there needs. Nobody reads meanwhile.
    fn forget_immutable(&self, emptied: Option<u32>) -> Result<(), Fault> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let Open { disk, memtable } = open.as_mut().ok_or_else(closed)?;
        memtable.forget_immutable();
        emptied.map_or(Ok(()), |segment| disk.remove(segment))
    }

    /// A checkpoint of nothing new, for the room that it makes; says whether there was any to make.
    pub(super) fn make_room(&self) -> Result<bool, Fault> {
        let disk = {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            let Open { disk, memtable } = open.as_ref().ok_or_else(closed)?;
            invariants::holds(memtable.immutable().is_empty(), "room is made between checkpoints");
            disk.clone()
        };
        if !disk.is_room_due() {
            return Ok(false);
        }
        let generation = self.with(reader::checkpoint)?;
        disk.collect()?;
        disk.sync()?;
        let emptied = disk.note(generation)?;
        disk.hand_over()?;
        drop(disk);
        self.forget_immutable(emptied)?;
        Ok(true)
    }

    /// About how large it is on disk; 0 where it is closed.
    pub(super) fn bytes(&self) -> u64 {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map_or(0, |open| open.disk.bytes())
    }

    /// What no checkpoint noted goes: the write-ahead log has been replayed.
    pub(super) fn tidy(&self) -> Result<(), Fault> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().ok_or_else(closed)?.disk.tidy()
    }

    /// Writes a record past the write-ahead log, durably: for what is counted before there is one.
    pub(super) fn put_at_once(&self, key: &[u8], record: Vec<u8>) -> Result<(), Fault> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().ok_or_else(closed)?.disk.put_at_once(key, record)
    }

    /// Closes and opens the tree, which makes it save its page table: a restart then reads only the log
    /// that comes after. Readers wait meanwhile.
    pub(super) fn reopen(&self) -> Result<(), Fault> {
        let mut held = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let Open { disk, memtable } = held.take().ok_or_else(closed)?;
        let disk = disk.reopened(&self.directory, (self.config.cache_bytes, CLOSE_TO_GO_ON))?;
        *held = Some(Open { disk, memtable });
        let store = File::open(self.directory.store()).and_then(|dir| dir.sync_all());
        store.map_err(|error| Fault::Permanent(format!("fsync of the store's directory: {error}")))
    }

    /// Lets go of the tree, then of the directory.
    pub(super) fn close(&self) {
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        // What is acknowledged is in the write-ahead log or in the tree: nothing hangs on how it ends.
        if let Some(Err(failure)) = open.map(|open| open.disk.close(CLOSE_TO_END)) {
            tracing::warn!(%failure, "the store was left as it is");
        }
        self.directory.release();
    }

    /// Whether anything may be written, or the reserve has been reached.
    pub(super) fn has_room(&self) -> Result<(), Fault> {
        let reserve = self.config.reserve_bytes;
        // Not being told is no reason to stop: the write itself will say.
        let Ok(free) = free_bytes(self.directory.path()) else { return Ok(()) };
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

    /// How much may be written before the page table is saved anew, also where nobody waits for it to be.
    pub(super) fn reopen_bytes(&self) -> u64 {
        self.config.refresh_bytes_max
    }
}

fn closed() -> Fault {
    Fault::Permanent("the store is closed".into())
}
