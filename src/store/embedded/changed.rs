//! Changed: which places of a store were written to, while somebody who copies it wants to know. What lies there is not
//! looked at here.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::embedded::wal_records::Write;
use crate::store::keys;

/// Which places were written to, while somebody wants to know.
#[derive(Debug, Default)]
pub(super) struct Changed {
    is_wanted: AtomicBool,
    places: Mutex<BTreeSet<Vec<u8>>>,
}

impl Changed {
    /// Remembers them from now on, or no more.
    pub(super) fn want(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Ordering::Release);
        self.lock().clear();
    }

    /// Those since this was last asked.
    pub(super) fn take(&self) -> BTreeSet<Vec<u8>> {
        std::mem::take(&mut *self.lock())
    }

    /// The places of these writes; none where nobody wants to know.
    pub(super) fn of(&self, writes: &[Write]) -> Vec<Vec<u8>> {
        if !self.is_wanted.load(Ordering::Acquire) {
            return Vec::new();
        }
        let told = writes.iter().filter(|(key, _)| is_told(key));
        told.map(|(key, _)| key.clone()).collect()
    }

    /// These can be seen now.
    pub(super) fn add(&self, places: Vec<Vec<u8>>) {
        if !places.is_empty() {
            self.lock().extend(places);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Vec<u8>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a place says something that others do not: indexes follow from heads, folds from journals, and chunks from what they are of.
fn is_told(key: &[u8]) -> bool {
    !matches!(
        key.first(),
        None | Some(
            &(keys::CHUNK
                | keys::FOLD
                | keys::WAITING
                | keys::DUE
                | keys::GOING
                | keys::FORK
                | keys::SESSION_RUN
                | keys::PARCEL_DUE)
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::RunId;

    #[test]
    fn what_follows_from_other_places_is_not_told() {
        let run = keys::pack(&RunId::fresh("01k9zq3v7m8n4p5r6s7t8v9w0x")).expect("an id");
        for place in [keys::head(&run), keys::entry(&run, 7), keys::TREE.to_vec()] {
            assert!(is_told(&place), "{place:?}");
        }
        assert!(!is_told(&keys::chunk(&keys::head(&run), 1)), "it is a part of what is told");
        assert!(!is_told(&keys::going(&run)), "it follows from the head");
    }
}
