//! Links: what is remembered of runs so that an append need not ask first: the link that the next one goes on from, and
//! leaves that were written just now. It may be forgotten at any time, and is never believed: the database compares.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::kernel::Version;
use crate::kernel::evidence::Hash;
use crate::kernel::evidence::leaf::Leaf;
use crate::store::keys::Packed;

/// Runs that are remembered at most: a few megabytes.
const RUNS_MAX: usize = 16_384;
/// Leaves that are.
const LEAVES_MAX: usize = 1_024;

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Links {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    runs: HashMap<Packed, (Version, Hash)>,
    leaves: VecDeque<(Vec<u8>, Leaf)>,
    /// A version at which the database had another link than it had before, until somebody has been told.
    diverged: Option<Version>,
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

    /// Forgets a run.
    pub(super) fn forget(&self, run: &Packed) {
        self.lock().runs.remove(run);
    }

    /// Forgets everything.
    pub(super) fn forget_all(&self) {
        let mut inner = self.lock();
        inner.runs.clear();
        inner.leaves.clear();
        inner.diverged = None;
    }

    /// Remembers a leaf, by its place.
    pub(super) fn put_leaf(&self, place: Vec<u8>, leaf: Leaf) {
        let mut inner = self.lock();
        if inner.leaves.len() >= LEAVES_MAX {
            inner.leaves.pop_front();
        }
        inner.leaves.push_back((place, leaf));
    }

    /// The leaf of a place, if it is remembered.
    pub(super) fn leaf(&self, place: &[u8]) -> Option<Leaf> {
        let inner = self.lock();
        let found = inner.leaves.iter().rev().find(|(at, _)| at == place);
        found.map(|(_, leaf)| leaf.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
