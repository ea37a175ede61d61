//! Memtable: writes that are durable in the write-ahead log and not yet in the tree on disk, in memory and
//! in the order of their keys. It makes nothing durable; what it holds would be replayed from the log.

use std::ops::Bound;
use std::sync::Arc;

use crate::ports::Fault;
use crate::store::embedded::disk::Disk;
use crate::store::embedded::invariants;
use crate::store::embedded::tree::{Bytes, Span};
use crate::store::embedded::waiting::Waiting;
use crate::store::embedded::wal_records::{Table, Write};
use crate::store::keys;

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
    /// An empty one over what is on disk.
    pub(super) fn over(disk: &Disk) -> Result<Self, Fault> {
        Ok(Self { waiting: Waiting::of(disk)?, ..Self::default() })
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
}
