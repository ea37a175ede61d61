//! Disk: what a checkpoint gives its writes to: the tree, and the values that lie beside it. Records lie packed there, and only
//! there: the write-ahead log and the memtable have them as they are. It makes no group durable, and knows nothing of
//! what is stored but where it lies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::failpoint;
use crate::ports::Fault;
use crate::store::config::OpenError;
use crate::store::embedded::chunks::CHUNK_BYTES_MAX;
use crate::store::embedded::directory::Directory;
use crate::store::embedded::invariants;
use crate::store::embedded::tree::{Bytes, Row, Span, Tree};
use crate::store::embedded::value_blocks::{Place, Value};
use crate::store::embedded::value_collector::Collector;
use crate::store::embedded::value_log::{ValueLog, ValueLogError};
use crate::store::embedded::wal_records::Table;
use crate::store::{codec, keys, packing};

/// Shorter values lie in the tree itself: a place in the log takes a dozen bytes.
const BESIDE_BYTES: usize = 48;
/// What a place in the log takes in the tree, about.
const PLACE_BYTES: usize = 12;
/// What the tree may log before that is made durable: half of one of its segments.
const UNSYNCED_BYTES_MAX: usize = 256 << 10;
/// What it logs for a write beside key and value, on average: now and then a whole page.
const WRITE_BYTES: usize = 512;
/// The bytes of a note of a checkpoint that are its generation. What follows is how far the value log goes.
const GENERATION_BYTES: usize = 8;

/// How much of a value lies in the tree.
pub(super) fn in_tree(key: &[u8], value: Option<&[u8]>) -> usize {
    let bytes = value.map_or(0, <[u8]>::len);
    if lies_beside(key, bytes) { PLACE_BYTES } else { bytes }
}

fn lies_beside(key: &[u8], bytes: usize) -> bool {
    bytes >= BESIDE_BYTES && keys::may_lie_beside(key)
}

/// The open store, below its memtable. A clone is a handle of the same one, and keeps it open.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    tree: Tree,
    values: Arc<ValueLog>,
    collector: Arc<Mutex<Collector>>,
    /// Whether records are packed here from now on. Those that were are unpacked in any case.
    packs: bool,
    /// Whether values lie beside the tree from now on. Those that do are read in any case.
    lays_beside: bool,
}

impl Disk {
    /// Opens what is in the directory, and makes it if it is not there.
    pub(super) fn open(directory: &Directory, cache_bytes: u64) -> Result<Self, OpenError> {
        let tree = Tree::open(directory, cache_bytes)?;
        let dir = || directory.path().to_path_buf();
        let damaged = |what: String| OpenError::Damaged { dir: dir(), what };
        let note = note(&tree).map_err(|fault| damaged(fault.to_string()))?;
        let place = directory.values();
        let values = ValueLog::open(place.clone(), &note.1).map_err(|error| match error {
            ValueLogError::Io(source) => OpenError::of(&place, source),
            ValueLogError::Lost(what) => damaged(what),
        })?;
        Ok(Self {
            tree,
            values: Arc::new(values),
            collector: Arc::default(),
            packs: directory.packs(),
            lays_beside: directory.lays_beside(),
        })
    }

    /// The same with its tree closed and opened again, which makes that save its page table.
    pub(super) fn reopened(
        self,
        directory: &Directory,
        (cache_bytes, patience): (u64, Duration),
    ) -> Result<Self, Fault> {
        let Self { tree, values, collector, packs, lays_beside } = self;
        tree.close(patience)?;
        let tree = Tree::open(directory, cache_bytes);
        let tree = tree.map_err(|error| Fault::Permanent(error.to_string()))?;
        Ok(Self { tree, values, collector, packs, lays_beside })
    }

    /// About how large it is.
    pub(super) fn bytes(&self) -> u64 {
        self.tree.bytes().saturating_add(self.values.bytes())
    }

    /// Lets go of it.
    pub(super) fn close(self, patience: Duration) -> Result<(), Fault> {
        self.tree.close(patience)
    }

    /// The write-ahead log goes on from what is here: whatever else lies in the directory of the value log is of a
    /// checkpoint that never was.
    pub(super) fn tidy(&self) -> Result<(), Fault> {
        self.values.remove_others().map_err(|error| Fault::Permanent(format!("`values/`: {error}")))
    }

    /// What lies at a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        self.tree.get(key)?.map(|lies| self.whole(key, lies)).transpose()
    }

    /// The rows of a stretch of keys, from either end.
    pub(super) fn rows(&self, span: Span) -> impl DoubleEndedIterator<Item = Row> + use<'_> {
        self.tree.rows(span).map(|row| {
            let (key, lies) = row?;
            let value = self.whole(&key, lies)?;
            Ok((key, value))
        })
    }

    /// The value of what lies in the tree. One that rotted becomes one whose checksum does not fit: whoever reads it
    /// knows whose it is, and says so as of any other (J6).
    fn whole(&self, key: &[u8], lies: Bytes) -> Result<Bytes, Fault> {
        let rotten = || Bytes::from(&[codec::FORMAT]);
        if keys::is_chunk(key) {
            return Ok(lies);
        }
        if packing::is_packed(&lies) {
            return Ok(packing::unpack(&lies).map_or_else(rotten, Bytes::from));
        }
        match Place::read(&lies).filter(|_| keys::may_lie_beside(key)) {
            None => Ok(lies),
            Some(place) => match self.values.read(key, place) {
                Ok(value) => Ok(value.unwrap_or_else(rotten)),
                Err(error) => Err(Fault::Permanent(format!("`values/{}`: {error}", place.segment))),
            },
        }
    }

    /// Gives it a table, in the order of its keys. Single writes, not one batch of the tree's: that rolls its log twice
    /// and wakes all its threads, and should we die in between, the write-ahead log has everything. Readers see no
    /// difference.
    ///
    /// What the tree writes over is safe only while what it was replaced by is durable, and the tree takes its own
    /// `sync_file_range` for that. It goes on for a segment before it uses a freed one again: so it is made durable
    /// several times within each.
    ///
    /// What was written again meanwhile (`is_newer`) is left out: the later write is in the write-ahead log, lies over
    /// the tree, and is flushed in its turn. Leaves that wait for their places come last: most of them have one by then.
    pub(super) fn flush(
        &self,
        table: &Table,
        is_newer: impl Fn(&[u8]) -> bool,
    ) -> Result<(), Fault> {
        let is_passing = |key: &[u8]| key.first() == Some(&keys::PENDING);
        let lasting = table.iter().filter(|(key, _)| !is_passing(key) && !is_newer(key));
        let lasting: Vec<_> = lasting.collect();
        let places = self.lay_beside(&lasting)?;
        let passing = table.range(vec![keys::PENDING]..vec![keys::PENDING + 1]);
        let passing = passing.filter(|(key, _)| !is_newer(key));
        let mut unsynced = 0;
        for (key, value) in lasting.into_iter().chain(passing) {
            let lies = match places.get(key) {
                Some(place) => Some(place.written()),
                None => value.as_ref().map(|value| self.packed(key, value)),
            };
            // What came and went between two checkpoints (a run's place in the inbox while it waited) was never
            // there; the tree would note down that it is not.
            if lies.is_none() && self.tree.get(key)?.is_none() {
                continue;
            }
            invariants::holds(
                lies.as_ref().is_none_or(|lies| lies.len() <= CHUNK_BYTES_MAX),
                "no place in the tree holds more than 4 KiB",
            );
            let gone = self.tree.set(key, lies.as_ref())?;
            let gone = gone.filter(|_| keys::may_lie_beside(key));
            if let Some(place) = gone.and_then(|gone| Place::read(&gone)) {
                self.values.give_up(place);
            }
            unsynced += WRITE_BYTES + key.len() + lies.map_or(0, |lies| lies.len());
            if unsynced >= UNSYNCED_BYTES_MAX {
                self.tree.sync()?;
                unsynced = 0;
            }
        }
        Ok(())
    }

    /// Writes to the value log what is too large for the tree, and tells where it lies.
    fn lay_beside(
        &self,
        table: &[(&Vec<u8>, &Option<Bytes>)],
    ) -> Result<HashMap<Vec<u8>, Place>, Fault> {
        if !self.lays_beside {
            return Ok(HashMap::new());
        }
        let values = table.iter().filter_map(|(key, value)| Some((*key, value.as_ref()?)));
        let large = values.filter(|(key, value)| lies_beside(key, value.len()));
        let large: Vec<Value> = large.map(|(key, value)| (key.clone(), value.clone())).collect();
        let placed = self.values.append(large);
        placed
            .map(HashMap::from_iter)
            .map_err(|error| Fault::Permanent(format!("`values/`: {error}")))
    }

    /// A record as it lies in the tree. Chunks of large values were packed before they were cut (`chunks`), and may
    /// begin with any byte.
    fn packed(&self, key: &[u8], value: &Bytes) -> Bytes {
        let packed = (self.packs && !keys::is_chunk(key)).then(|| packing::pack(value)).flatten();
        packed.map_or_else(|| value.clone(), Bytes::from)
    }

    /// Makes room by and by: copies a little of what is still needed out of what mostly is not.
    pub(super) fn collect(&self) -> Result<(), Fault> {
        if self.lays_beside { self.collector().copy(&self.tree, &self.values) } else { Ok(()) }
    }

    /// Whether there is room to be made.
    pub(super) fn is_room_due(&self) -> bool {
        self.lays_beside && self.collector().is_due(&self.values)
    }

    /// Makes everything that it was given durable.
    pub(super) fn sync(&self) -> Result<(), Fault> {
        self.tree.sync()
    }

    /// Notes, durably, that it has everything up to a generation of the write-ahead log: after a sync, for the note must
    /// never be ahead of what it stands for. Says which segment of the value log nothing needs from then on.
    pub(super) fn note(&self, generation: u64) -> Result<Option<u32>, Fault> {
        let emptied = self.collector().emptied();
        let note = [&generation.to_be_bytes()[..], &self.values.note(emptied)].concat();
        self.tree.set(keys::CHECKPOINT, Some(&codec::seal(keys::CHECKPOINT, &note).into()))?;
        self.tree.sync()?;
        failpoint::hit("store.after_checkpoint");
        Ok(emptied)
    }

    /// The tree has what was copied at its new place from now on.
    pub(super) fn hand_over(&self) -> Result<(), Fault> {
        self.collector().hand_over(&self.tree, &self.values)
    }

    /// Removes a segment that nothing needs. Nobody may be reading: a place in it may still be in somebody's hands.
    pub(super) fn remove(&self, segment: u32) -> Result<(), Fault> {
        let removed = self.values.remove(segment);
        removed.map_err(|error| Fault::Permanent(format!("`values/{segment}`: {error}")))?;
        self.collector().removed();
        Ok(())
    }

    /// Writes a record past the write-ahead log, durably: for what is counted before there is one.
    pub(super) fn put_at_once(&self, key: &[u8], record: Vec<u8>) -> Result<(), Fault> {
        self.tree.set(key, Some(&record.into()))?;
        self.tree.sync()
    }

    /// One of its own for a test.
    #[cfg(test)]
    pub(super) fn temporary() -> Self {
        let (tree, dir) = Tree::temporary();
        Self::with(tree, ValueLog::open(dir.join("values"), &[]).unwrap())
    }

    #[cfg(test)]
    pub(super) fn with(tree: Tree, values: ValueLog) -> Self {
        let (values, collector) = (Arc::new(values), Arc::default());
        Self { tree, values, collector, packs: true, lays_beside: true }
    }

    fn collector(&self) -> MutexGuard<'_, Collector> {
        self.collector.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The generation of the write-ahead log that was flushed last, and how far the value log went then.
fn note(tree: &Tree) -> Result<(u64, Vec<u8>), Fault> {
    let Some(lies) = tree.get(keys::CHECKPOINT)? else { return Ok((0, Vec::new())) };
    let record = if packing::is_packed(&lies) {
        packing::unpack(&lies).unwrap_or_default().into()
    } else {
        lies
    };
    read_note(codec::unseal(keys::CHECKPOINT, &record)?)
}

/// The same of a note that was read.
pub(super) fn read_note(note: &[u8]) -> Result<(u64, Vec<u8>), Fault> {
    let (generation, values) = note
        .split_first_chunk::<GENERATION_BYTES>()
        .ok_or_else(|| Fault::Corrupt("no generation".into()))?;
    Ok((u64::from_be_bytes(*generation), values.to_vec()))
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
