//! View: the store as whoever asks sees it: what sled holds, under what it is yet to be given. Not a
//! snapshot: whoever holds it keeps the writer waiting.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use ::sled::{Db, IVec};

use crate::ports::Fault;
use crate::store::sled::records::Write;
use crate::store::sled::shelf::fault;

/// A stretch of keys.
pub(super) type Span = (Bound<Vec<u8>>, Bound<Vec<u8>>);
/// A key and what lies there.
pub(super) type Row = Result<(IVec, IVec), Fault>;

/// Writes that are durable in the write-ahead log and not yet in sled. The last one of a key counts: a
/// head that is written in every turn of a conversation reaches sled once a settlement.
pub(super) type Layer = BTreeMap<Vec<u8>, Option<IVec>>;

/// What sled has not been given yet, or is being given.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    young: Layer,
    /// What sled is being given: it lies under what is young, and over sled.
    aged: Arc<Layer>,
}

impl Fresh {
    /// Takes on a write.
    pub(super) fn add(&mut self, (key, value): Write) {
        self.young.insert(key, value);
    }

    /// What is young is to be given to sled now, and is not added to any more.
    pub(super) fn age(&mut self) {
        debug_assert!(self.aged.is_empty(), "one generation is settled at a time");
        self.aged = Arc::new(std::mem::take(&mut self.young));
    }

    /// What sled is being given.
    pub(super) fn aged(&self) -> Arc<Layer> {
        Arc::clone(&self.aged)
    }

    /// Forgets what sled now holds durably.
    pub(super) fn forget_aged(&mut self) {
        self.aged = Arc::default();
    }

    fn get(&self, key: &[u8]) -> Option<&Option<IVec>> {
        self.young.get(key).or_else(|| self.aged.get(key))
    }
}

/// Gives sled a layer, in the order of its keys. Single writes, not one batch of sled's: that rolls its
/// log twice and wakes all its threads, and should we die in between, the write-ahead log has
/// everything. Readers see no difference.
pub(super) fn pour(layer: &Layer, db: &Db) -> Result<(), Fault> {
    for (key, value) in layer {
        let outcome = match value {
            Some(value) => db.insert(key, value),
            None => db.remove(key),
        };
        outcome.map_err(|error| fault(&error))?;
    }
    Ok(())
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
        match self.fresh.get(key) {
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
        let (young, aged) = (over(&self.fresh.young, &span), over(&self.fresh.aged, &span));
        let fresh = layered(young, aged, Ordering::Less);
        merged(fresh, self.db.range(span), Ordering::Less)
    }

    /// The same, downwards.
    pub(super) fn rows_back(self, span: Span) -> impl Iterator<Item = Row> + use<'a> {
        let (young, aged) = (over(&self.fresh.young, &span), over(&self.fresh.aged, &span));
        let fresh = layered(young.rev(), aged.rev(), Ordering::Greater);
        merged(fresh, self.db.range(span).rev(), Ordering::Greater)
    }
}

type FreshRow<'a> = (&'a Vec<u8>, &'a Option<IVec>);

/// What a layer has there; nothing where the stretch ends before it begins, which a map takes ill.
fn over<'a>(
    layer: &'a Layer,
    span: &Span,
) -> impl DoubleEndedIterator<Item = FreshRow<'a>> + use<'a> {
    let is_empty = match (&span.0, &span.1) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    };
    let rows = (!is_empty).then(|| layer.range((span.0.clone(), span.1.clone())));
    rows.into_iter().flatten()
}

/// Two layers as one, the first over the second; `first` is how the key that comes first compares.
fn layered<'a>(
    young: impl Iterator<Item = FreshRow<'a>>,
    aged: impl Iterator<Item = FreshRow<'a>>,
    first: Ordering,
) -> impl Iterator<Item = FreshRow<'a>> {
    let (mut young, mut aged) = (young.peekable(), aged.peekable());
    std::iter::from_fn(move || {
        let (Some((key, _)), Some((other, _))) = (young.peek(), aged.peek()) else {
            return young.next().or_else(|| aged.next());
        };
        match key.cmp(other) {
            Ordering::Equal => {
                aged.next();
                young.next()
            }
            order if order == first => young.next(),
            Ordering::Less | Ordering::Greater => aged.next(),
        }
    })
}

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
            settled: Keys, aged: Keys, young: Keys, from: Option<u8>, to: Option<u8>,
        ) {
            let new = || ::sled::Config::new().temporary(true).open().unwrap();
            let layer = |keys: &Keys| keys.iter().copied().map(write).collect::<Layer>();
            let (under, whole) = (new(), new());
            pour(&layer(&settled), &under).unwrap();
            let mut fresh = Fresh::default();
            aged.iter().copied().map(write).for_each(|write| fresh.add(write));
            fresh.age();
            let poured = fresh.aged();
            young.iter().copied().map(write).for_each(|write| fresh.add(write));
            for keys in [&settled, &aged, &young] {
                pour(&layer(keys), &whole).unwrap();
            }

            let nothing = Fresh::default();
            let (view, plain) = (View::new(&under, &fresh), View::new(&whole, &nothing));
            prop_assert_eq!(told(view.rows(span(from, to))), told(plain.rows(span(from, to))));
            let back = told(view.rows_back(span(from, to)));
            prop_assert_eq!(&back, &told(plain.rows_back(span(from, to))));
            for key in 0..=u8::MAX {
                prop_assert_eq!(view.get(&[b'k', key]).unwrap(), plain.get(&[b'k', key]).unwrap());
            }
            pour(&poured, &under).unwrap();
            let shadowed = told(View::new(&under, &fresh).rows_back(span(from, to)));
            prop_assert_eq!(&shadowed, &back, "shadowed by itself");
            fresh.forget_aged();
            let settled = told(View::new(&under, &fresh).rows_back(span(from, to)));
            prop_assert_eq!(settled, back, "sled has it");
        }
    }
}
