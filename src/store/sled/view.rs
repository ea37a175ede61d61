//! View: the store as whoever asks sees it: what sled holds, under what it is yet to be given. Not a
//! snapshot: whoever holds it keeps the writer waiting.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;

use ::sled::{Db, IVec};

use crate::ports::Fault;
use crate::store::sled::shelf::fault;
use crate::store::sled::wal::Write;

/// A stretch of keys.
pub(super) type Span = (Bound<Vec<u8>>, Bound<Vec<u8>>);
/// A key and what lies there.
pub(super) type Row = Result<(IVec, IVec), Fault>;

/// Writes that are durable in the write-ahead log and not yet given to sled. The last one of a key
/// counts: a head that is written in every turn of a conversation reaches sled once a settlement.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    writes: BTreeMap<Vec<u8>, Option<IVec>>,
}

impl Fresh {
    /// Takes on a write.
    pub(super) fn add(&mut self, (key, value): Write) {
        self.writes.insert(key, value);
    }

    /// Gives everything to sled, in the order of its keys. Nobody sees a difference.
    pub(super) fn pour(&self, db: &Db) -> Result<(), Fault> {
        self.writes.iter().try_for_each(|(key, value)| give(db, key, value.as_ref()))
    }

    /// Forgets a write that sled has.
    pub(super) fn forget(&mut self, key: &[u8]) {
        self.writes.remove(key);
    }

    /// Forgets what sled now holds durably.
    pub(super) fn clear(&mut self) {
        self.writes.clear();
    }
}

/// Gives sled one write.
pub(super) fn give(db: &Db, key: &[u8], value: Option<&IVec>) -> Result<(), Fault> {
    let outcome = match value {
        Some(value) => db.insert(key, value),
        None => db.remove(key),
    };
    outcome.map(|_| ()).map_err(|error| fault(&error))
}

/// The store as it is now.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    db: &'a Db,
    fresh: &'a Fresh,
}

impl<'a> View<'a> {
    pub(super) fn new(db: &'a Db, fresh: &'a Fresh) -> Self {
        Self { db, fresh }
    }

    /// What sled itself holds, for the few keys that never go through the write-ahead log.
    pub(super) fn db(self) -> &'a Db {
        self.db
    }

    /// What lies at a key.
    pub(super) fn get(self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        match self.fresh.writes.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.db.get(key).map_err(|error| fault(&error)),
        }
    }

    /// Whether anything lies at a key.
    pub(super) fn has(self, key: &[u8]) -> Result<bool, Fault> {
        Ok(self.get(key)?.is_some())
    }

    /// The rows of a stretch of keys, upwards.
    pub(super) fn rows(self, span: Span) -> impl Iterator<Item = Row> + use<'a> {
        let fresh = self.over(&span).into_iter().flatten();
        merged(fresh, self.db.range(span), Ordering::Less)
    }

    /// The same, downwards.
    pub(super) fn rows_back(self, span: Span) -> impl Iterator<Item = Row> + use<'a> {
        let fresh = self.over(&span).into_iter().flat_map(Iterator::rev);
        merged(fresh, self.db.range(span).rev(), Ordering::Greater)
    }

    /// What is fresh there; nothing where the stretch ends before it begins, which a map takes ill.
    fn over(self, span: &Span) -> Option<impl DoubleEndedIterator<Item = FreshRow<'a>> + use<'a>> {
        let is_empty = match (&span.0, &span.1) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
            | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        };
        (!is_empty).then(|| self.fresh.writes.range((span.0.clone(), span.1.clone())))
    }
}

type FreshRow<'a> = (&'a Vec<u8>, &'a Option<IVec>);

/// Two runs of rows as one; `first` is how the key that comes first compares with the other.
fn merged<'a>(
    fresh: impl Iterator<Item = FreshRow<'a>>,
    settled: impl Iterator<Item = ::sled::Result<(IVec, IVec)>>,
    first: Ordering,
) -> impl Iterator<Item = Row> {
    let (mut fresh, mut settled) = (fresh.peekable(), settled.peekable());
    std::iter::from_fn(move || {
        loop {
            match turn(&mut fresh, &mut settled, first) {
                Turn::Settled => return settled.next().map(|row| row.map_err(|e| fault(&e))),
                Turn::Fresh { hides } => {
                    if hides {
                        settled.next();
                    }
                    let (key, value) = fresh.next()?;
                    // One that is to be removed is gone already.
                    if let Some(value) = value {
                        return Some(Ok((IVec::from(key.as_slice()), value.clone())));
                    }
                }
            }
        }
    })
}

/// Whose row comes next.
enum Turn {
    Settled,
    /// And whether sled's next row is of the same key, and of no account.
    Fresh {
        hides: bool,
    },
}

fn turn<'a>(
    fresh: &mut Peekable<impl Iterator<Item = FreshRow<'a>>>,
    settled: &mut Peekable<impl Iterator<Item = ::sled::Result<(IVec, IVec)>>>,
    first: Ordering,
) -> Turn {
    match (fresh.peek(), settled.peek()) {
        (None, _) | (Some(_), Some(Err(_))) => Turn::Settled,
        (Some(_), None) => Turn::Fresh { hides: false },
        (Some((key, _)), Some(Ok((other, _)))) => match key.as_slice().cmp(other) {
            Ordering::Equal => Turn::Fresh { hides: true },
            order if order == first => Turn::Fresh { hides: false },
            Ordering::Less | Ordering::Greater => Turn::Settled,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Keys = Vec<(u8, Option<u8>)>;

    fn write((key, value): (u8, Option<u8>)) -> Write {
        (vec![b'k', key], value.map(|value| IVec::from(&[value])))
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
        fn a_view_tells_what_sled_would_if_it_had_everything(
            settled: Keys, later: Keys, from: Option<u8>, to: Option<u8>,
        ) {
            let new = || ::sled::Config::new().temporary(true).open().unwrap();
            let (under, whole) = (new(), new());
            let (mut fresh, mut all, nothing) = Default::default();
            settled.into_iter().map(write).for_each(|write| Fresh::add(&mut all, write));
            all.pour(&under).unwrap();
            for later in later.into_iter().map(write) {
                Fresh::add(&mut fresh, later.clone());
                all.add(later);
            }
            all.pour(&whole).unwrap();

            let (view, plain) = (View::new(&under, &fresh), View::new(&whole, &nothing));
            prop_assert_eq!(told(view.rows(span(from, to))), told(plain.rows(span(from, to))));
            let back = told(view.rows_back(span(from, to)));
            prop_assert_eq!(&back, &told(plain.rows_back(span(from, to))));
            for key in 0..=u8::MAX {
                prop_assert_eq!(view.get(&[b'k', key]).unwrap(), plain.get(&[b'k', key]).unwrap());
            }
            fresh.pour(&under).unwrap();
            let poured = View::new(&under, &fresh);
            prop_assert_eq!(told(poured.rows_back(span(from, to))), back, "shadowed by itself");
        }
    }
}
