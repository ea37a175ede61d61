//! Memtable: writes that are durable in the write-ahead log and not yet in the tree on disk, in memory and
//! in the order of their keys. It makes nothing durable; what it holds would be replayed from the log.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::ports::Fault;
use crate::store::embedded::invariants;
use crate::store::embedded::tree::{Bytes, Span, Tree};
use crate::store::embedded::waiting::Waiting;
use crate::store::embedded::wal_records::Write;
use crate::store::keys;

/// What the tree may log before that is made durable: half of one of its segments.
const UNSYNCED_BYTES_MAX: usize = 256 << 10;
/// What it logs for a write beside key and value, on average: now and then a whole page.
const WRITE_BYTES: usize = 512;

/// The last write of each key: a head that is written in every turn of a conversation reaches the tree
/// once a checkpoint.
pub(super) type Table = BTreeMap<Vec<u8>, Option<Bytes>>;
/// A key and what was last written there: nothing where it was emptied.
pub(super) type Entry = Result<(Bytes, Option<Bytes>), Fault>;

/// What the tree has not been given yet, or is being given.
#[derive(Debug, Default)]
pub(super) struct Memtable {
    /// What is written to.
    active: Table,
    /// What is being flushed to the tree: it lies under what is active, and over the tree.
    immutable: Arc<Table>,
    /// Appends' leaves that wait for their places, here and in the tree.
    waiting: Waiting,
}

impl Memtable {
    /// An empty one over a tree.
    pub(super) fn over(tree: &Tree) -> Result<Self, Fault> {
        Ok(Self { waiting: Waiting::of(tree)?, ..Self::default() })
    }

    /// Takes on a write.
    pub(super) fn insert(&mut self, (key, value): Write) {
        if keys::is_pending_entries(&key) {
            self.waiting.take(&key, value.as_ref());
        }
        self.active.insert(key, value);
    }

    /// Appends' leaves that wait for their places.
    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// What was active is to be flushed now, and is not written to any more.
    pub(super) fn rotate(&mut self) {
        invariants::holds(
            self.immutable.is_empty(),
            "one generation is flushed at a time: a second would hide what the tree lacks of the first",
        );
        self.immutable = Arc::new(std::mem::take(&mut self.active));
    }

    /// What is being flushed.
    pub(super) fn immutable(&self) -> Arc<Table> {
        Arc::clone(&self.immutable)
    }

    /// Whether it was written at a key since what is being flushed was put aside.
    pub(super) fn is_newer(&self, key: &[u8]) -> bool {
        self.active.contains_key(key)
    }

    /// Forgets what the tree now holds durably.
    pub(super) fn forget_immutable(&mut self) {
        self.immutable = Arc::default();
    }

    /// What was last written at a key, if anything was.
    pub(super) fn get(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        self.active.get(key).or_else(|| self.immutable.get(key))
    }

    /// The entries of a stretch of keys: of what is active, and of what lies under it.
    pub(super) fn rows<'a>(
        &'a self,
        span: &Span,
    ) -> [impl DoubleEndedIterator<Item = Entry> + use<'a>; 2] {
        [&self.active, &*self.immutable].map(|table| rows(table, span))
    }
}

/// Gives the tree a table, in the order of its keys. Single writes, not one batch of the tree's: that rolls
/// its log twice and wakes all its threads, and should we die in between, the write-ahead log has
/// everything. Readers see no difference.
///
/// What the tree writes over is safe only while what it was replaced by is durable, and the tree takes its own
/// `sync_file_range` for that. It goes on for a segment before it uses a freed one again: so it is made durable
/// several times within each.
///
/// What was written again meanwhile (`is_newer`) is left out: the later write is in the write-ahead log, lies over the
/// tree, and is flushed in its turn. Leaves that wait for their places come last: most of them have one by then.
pub(super) fn flush(
    table: &Table,
    tree: &Tree,
    is_newer: impl Fn(&[u8]) -> bool,
) -> Result<(), Fault> {
    let mut unsynced = 0;
    let is_passing = |key: &[u8]| key.first() == Some(&keys::PENDING);
    let lasting = table.iter().filter(|(key, _)| !is_passing(key));
    let passing = table.range(vec![keys::PENDING]..vec![keys::PENDING + 1]);
    for (key, value) in lasting.chain(passing) {
        if is_newer(key) {
            continue;
        }
        // What came and went between two checkpoints (a run's place in the inbox while it waited) was never
        // there; the tree would note down that it is not.
        if value.is_none() && tree.get(key)?.is_none() {
            continue;
        }
        tree.set(key, value.as_ref())?;
        unsynced += WRITE_BYTES + key.len() + value.as_ref().map_or(0, |value| value.len());
        if unsynced >= UNSYNCED_BYTES_MAX {
            tree.sync()?;
            unsynced = 0;
        }
    }
    Ok(())
}

/// What a table has there; nothing where the stretch ends before it begins, which a map takes ill.
fn rows<'a>(table: &'a Table, span: &Span) -> impl DoubleEndedIterator<Item = Entry> + use<'a> {
    let is_empty = match (&span.0, &span.1) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    };
    let rows = (!is_empty).then(|| table.range((span.0.clone(), span.1.clone())));
    rows.into_iter().flatten().map(|(key, value)| Ok((Bytes::from(key.as_slice()), value.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic = "one generation is flushed at a time"]
    fn what_is_being_flushed_is_never_covered_by_another_generation() {
        let mut memtable = Memtable::default();
        memtable.insert((b"k".to_vec(), None));
        memtable.rotate();
        memtable.rotate();
    }

    #[test]
    fn what_was_written_again_meanwhile_is_left_to_the_next_checkpoint() {
        let tree = Tree::temporary();
        let mut memtable = Memtable::default();
        let pending = vec![keys::PENDING, 1];
        for key in [b"head".to_vec(), b"kept".to_vec(), b"gone".to_vec(), pending.clone()] {
            memtable.insert((key, Some(Bytes::from(b"1"))));
        }
        memtable.rotate();
        memtable.insert((b"head".to_vec(), Some(Bytes::from(b"2"))));
        memtable.insert((b"gone".to_vec(), None));
        let flushed = |memtable: &mut Memtable| {
            flush(&memtable.immutable(), &tree, |key| memtable.is_newer(key)).unwrap();
            memtable.forget_immutable();
            [b"head".as_slice(), b"kept", b"gone", &pending]
                .map(|key| tree.get(key).unwrap().map(|value| value.to_vec()))
        };
        let one = Some(b"1".to_vec());
        assert_eq!(flushed(&mut memtable), [None, one.clone(), None, one.clone()]);
        memtable.rotate();
        assert_eq!(flushed(&mut memtable), [Some(b"2".to_vec()), one.clone(), None, one]);
    }
}
