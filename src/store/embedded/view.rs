//! View: the store as whoever asks sees it: what is on disk, under what that is yet to be given. Not a
//! snapshot: whoever holds it keeps the writer waiting.

use std::cmp::Ordering;

use crate::ports::Fault;
use crate::store::embedded::disk::Disk;
use crate::store::embedded::memtable::{Entry, Memtable};
use crate::store::embedded::tree::{Bytes, Row, Span};
use crate::store::embedded::waiting::Waiting;

/// The store as it is now.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    disk: &'a Disk,
    memtable: &'a Memtable,
}

impl<'a> View<'a> {
    pub(super) fn new(disk: &'a Disk, memtable: &'a Memtable) -> Self {
        Self { disk, memtable }
    }

    /// What lies at a key.
    pub(super) fn get(self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        match self.memtable.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.disk.get(key),
        }
    }

    /// Appends' leaves that wait for their places.
    pub(super) fn waiting(self) -> &'a Waiting {
        self.memtable.waiting()
    }

    /// Whether anything lies at a key.
    pub(super) fn has(self, key: &[u8]) -> Result<bool, Fault> {
        Ok(self.get(key)?.is_some())
    }

    /// The rows of a stretch of keys, upwards.
    pub(super) fn rows(self, span: Span) -> impl Iterator<Item = Row> + use<'a> {
        let [active, immutable] = self.memtable.rows(&span);
        let below = merged(immutable, self.disk.rows(span).map(entry), Ordering::Less);
        merged(active, below, Ordering::Less).filter_map(row)
    }

    /// The same, downwards.
    pub(super) fn rows_back(self, span: Span) -> impl Iterator<Item = Row> + use<'a> {
        let [active, immutable] = self.memtable.rows(&span).map(Iterator::rev);
        let below = merged(immutable, self.disk.rows(span).rev().map(entry), Ordering::Greater);
        merged(active, below, Ordering::Greater).filter_map(row)
    }
}

fn entry(row: Row) -> Entry {
    row.map(|(key, value)| (key, Some(value)))
}

/// One that is to be emptied is gone already.
fn row(entry: Entry) -> Option<Row> {
    match entry {
        Ok((key, value)) => value.map(|value| Ok((key, value))),
        Err(fault) => Some(Err(fault)),
    }
}

/// Two runs of entries as one, the upper hiding the lower where both have a key; `first` is how the key
/// that comes first compares with the other.
fn merged(
    upper: impl Iterator<Item = Entry>,
    lower: impl Iterator<Item = Entry>,
    first: Ordering,
) -> impl Iterator<Item = Entry> {
    let (mut upper, mut lower) = (upper.peekable(), lower.peekable());
    std::iter::from_fn(move || {
        let order = match (upper.peek(), lower.peek()) {
            (Some(Ok((key, _))), Some(Ok((other, _)))) => key.cmp(other),
            // What cannot be read is told at once.
            (None, _) | (Some(Ok(_)), Some(Err(_))) => return lower.next(),
            (Some(_), None) | (Some(Err(_)), Some(_)) => return upper.next(),
        };
        if order == Ordering::Equal {
            lower.next();
            return upper.next();
        }
        if order == first { upper.next() } else { lower.next() }
    })
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use proptest::prelude::*;

    use super::*;
    use crate::store::embedded::wal_records::Table;
    use crate::store::embedded::wal_records::Write;

    type Keys = Vec<(u8, Option<u8>)>;

    fn write((key, value): (u8, Option<u8>)) -> Write {
        (vec![b'k', key], value.map(|value| Bytes::from(&[value])))
    }

    fn span(from: Option<u8>, to: Option<u8>) -> Span {
        let key = |key| vec![b'k', key];
        (
            from.map_or(Bound::Unbounded, |from| Bound::Included(key(from))),
            to.map_or(Bound::Unbounded, |to| Bound::Excluded(key(to))),
        )
    }

    fn told(rows: impl Iterator<Item = Row>) -> Vec<(Vec<u8>, u8)> {
        rows.map(|row| row.unwrap()).map(|(key, value)| (key.to_vec(), value[0])).collect()
    }

    proptest! {
        #[test]
        fn a_view_tells_what_the_tree_would_if_it_had_everything(
            flushed: Keys, immutable: Keys, active: Keys, from: Option<u8>, to: Option<u8>,
        ) {
            let table = |keys: &Keys| keys.iter().copied().map(write).collect::<Table>();
            let (under, whole) = (Disk::temporary(), Disk::temporary());
            under.flush(&table(&flushed), |_| false).unwrap();
            let mut memtable = Memtable::default();
            immutable.iter().copied().map(write).for_each(|write| memtable.insert(write));
            memtable.rotate();
            let rotated = memtable.immutable();
            active.iter().copied().map(write).for_each(|write| memtable.insert(write));
            for keys in [&flushed, &immutable, &active] {
                whole.flush(&table(keys), |_| false).unwrap();
            }

            let nothing = Memtable::default();
            let (view, plain) = (View::new(&under, &memtable), View::new(&whole, &nothing));
            prop_assert_eq!(told(view.rows(span(from, to))), told(plain.rows(span(from, to))));
            let back = told(view.rows_back(span(from, to)));
            prop_assert_eq!(&back, &told(plain.rows_back(span(from, to))));
            for key in 0..=u8::MAX {
                prop_assert_eq!(view.get(&[b'k', key]).unwrap(), plain.get(&[b'k', key]).unwrap());
            }
            under.flush(&rotated, |key| memtable.is_newer(key)).unwrap();
            let shadowed = told(View::new(&under, &memtable).rows_back(span(from, to)));
            prop_assert_eq!(&shadowed, &back, "shadowed by itself");
            memtable.forget_immutable();
            let flushed = told(View::new(&under, &memtable).rows_back(span(from, to)));
            prop_assert_eq!(flushed, back, "the tree has it");
        }
    }
}
