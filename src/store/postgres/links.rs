//! Links: what is remembered of runs so that an append need not ask first: the link that the next one goes on from. It may be forgotten at any time, and is never believed: the database compares.
//!
//! And how far each run was known to be, by version and link: by that is found what a database lacks that has gone back.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::kernel::Version;
use crate::kernel::evidence::Hash;
use crate::store::keys::Packed;

/// Runs that are remembered at most: a few megabytes.
const RUNS_MAX: usize = 16_384;
/// What was seen since the database was last found whole, at most: more than is written in a few seconds.
const RECENT_MAX: usize = 16_384;

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Links {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    runs: HashMap<Packed, (Version, Hash)>,
    known: Known,
    /// What was seen since: of a database that went back some of it may be what was written over the rest, so none of it
    /// takes the place of what was known before.
    recent: Vec<Witness>,
    /// A version at which the database had another link than it had before, until somebody has been told.
    diverged: Option<Version>,
}

/// That a run had that link at that version.
pub(super) type Witness = (Packed, Version, Hash);

/// The furthest that runs were known. The older half is forgotten when the newer one is full.
#[derive(Debug, Default)]
struct Known {
    newer: HashMap<Packed, (Version, Hash)>,
    older: HashMap<Packed, (Version, Hash)>,
}

impl Known {
    fn add(&mut self, (run, version, link): Witness) {
        let before = self.newer.get(&run).or_else(|| self.older.get(&run));
        if before.is_some_and(|(known, _)| *known >= version) {
            return;
        }
        if self.newer.len() >= RUNS_MAX && !self.newer.contains_key(&run) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(run, (version, link));
    }

    fn all(&self) -> impl Iterator<Item = Witness> {
        let older = self.older.iter().filter(|(run, _)| !self.newer.contains_key(*run));
        self.newer.iter().chain(older).map(|(run, (version, link))| (*run, *version, *link))
    }
}

impl Links {
    /// The link of a run at that version, if it is remembered.
    pub(super) fn at(&self, run: &Packed, version: Version) -> Option<Hash> {
        let inner = self.lock();
        inner.runs.get(run).filter(|(at, _)| *at == version).map(|(_, link)| *link)
    }

    /// Remembers a run's link.
    pub(super) fn put(&self, run: Packed, version: Version, link: Hash) {
        let mut inner = self.lock();
        if inner.runs.len() >= RUNS_MAX && !inner.runs.contains_key(&run) {
            inner.runs.clear();
        }
        inner.runs.insert(run, (version, link));
        inner.witness((run, version, link));
    }

    /// The database was found to have everything that was seen up to `count`.
    pub(super) fn found_whole(&self, count: usize) {
        let mut inner = self.lock();
        let count = count.min(inner.recent.len());
        let seen: Vec<_> = inner.recent.drain(..count).collect();
        for witness in seen {
            inner.known.add(witness);
        }
    }

    /// How much was seen since that was last found.
    pub(super) fn seen(&self) -> usize {
        self.lock().recent.len()
    }

    /// Everything that runs are known by, the furthest of each and whatever was seen lately.
    pub(super) fn witnesses(&self) -> Vec<Witness> {
        let inner = self.lock();
        inner.known.all().chain(inner.recent.iter().copied()).collect()
    }

    /// Remembers the link that the database has at a version; whether it is the one that it had there before. What is
    /// written is never changed: another one means that the database went back, and has been written to since.
    pub(super) fn see(&self, run: Packed, version: Version, link: Hash) -> bool {
        let agrees = self.at(&run, version).is_none_or(|known| known == link);
        if agrees {
            self.put(run, version, link);
        } else {
            self.diverge(version);
        }
        agrees
    }

    /// The database tells another history up to that version than it did.
    pub(super) fn diverge(&self, version: Version) {
        self.lock().diverged.get_or_insert(version);
    }

    /// Where it did, since this was last asked.
    pub(super) fn took_divergence(&self) -> Option<Version> {
        self.lock().diverged.take()
    }

    /// Forgets what the next append of a run goes on from.
    pub(super) fn forget(&self, run: &Packed) {
        self.lock().runs.remove(run);
    }

    /// What was just seen of a run may not be on the standby: it is remembered as nothing that the database has.
    pub(super) fn doubt(&self, run: &Packed) {
        let mut inner = self.lock();
        inner.runs.remove(run);
        inner.recent.retain(|(seen, _, _)| seen != run);
    }

    /// Forgets everything.
    pub(super) fn forget_all(&self) {
        let mut inner = self.lock();
        inner.runs.clear();
        (inner.known, inner.recent) = (Known::default(), Vec::new());
        inner.diverged = None;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn witness(&mut self, witness: Witness) {
        if self.recent.last() == Some(&witness) {
            return;
        }
        if self.recent.len() >= RECENT_MAX {
            // Nobody has looked for long: the first of them is what was known.
            let first: Vec<_> = self.recent.drain(..RECENT_MAX / 2).collect();
            for witness in first {
                self.known.add(witness);
            }
        }
        self.recent.push(witness);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_known_stays_known_whatever_is_seen_before_somebody_has_looked() {
        let links = Links::default();
        let (run, hash) = ([1; 18], |byte| Hash([byte; 32]));
        links.put(run, 5, hash(5));
        links.found_whole(links.seen());
        links.put(run, 3, hash(3));
        links.put(run, 7, hash(9));
        assert_eq!(links.at(&run, 7), Some(hash(9)), "what is appended next goes on from there");
        let mut known = links.witnesses();
        known.sort_unstable_by_key(|(_, version, _)| *version);
        assert_eq!(known, [(run, 3, hash(3)), (run, 5, hash(5)), (run, 7, hash(9))]);
        links.doubt(&run);
        assert_eq!(links.witnesses(), [(run, 5, hash(5))], "what a standby may lack is none");
        links.put(run, 7, hash(7));
        links.found_whole(links.seen());
        assert_eq!(links.witnesses(), [(run, 7, hash(7))]);
        links.forget_all();
        assert_eq!(links.witnesses(), []);
    }

    #[test]
    fn of_many_runs_the_newest_are_known() {
        let links = Links::default();
        for number in 0..u32::try_from(3 * RUNS_MAX).unwrap() {
            let mut run = [0; 18];
            run[..4].copy_from_slice(&number.to_be_bytes());
            links.put(run, 1, Hash::default());
            if number % 1_000 == 0 {
                links.found_whole(links.seen());
            }
        }
        links.found_whole(links.seen());
        let known = links.witnesses().len();
        assert!((RUNS_MAX..=2 * RUNS_MAX).contains(&known), "{known}");
    }
}
