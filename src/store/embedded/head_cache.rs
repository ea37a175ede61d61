//! Head cache: how the runs stand that were last written. A memory of what is stored, never ahead of it: it
//! can be forgotten at any time, and is read back from the heads.

use std::collections::HashMap;
use std::sync::Arc;

use crate::kernel::Version;
use crate::kernel::evidence::Hash;
use crate::ports::Token;
use crate::store::embedded::invariants;
use crate::store::index_entries::IndexEntries;
use crate::store::keys::Packed;

/// Runs that are remembered: more than are written to within a few seconds.
const CACHED_MAX: usize = 4_096;

/// What an append is checked against. Kept for the runs that were last written: reading it back from
/// their heads was half of what deciding on a group took.
#[derive(Debug, Clone)]
pub(super) struct CachedHead {
    pub(super) version: Version,
    pub(super) fence: u64,
    pub(super) key: Option<String>,
    pub(super) entries: IndexEntries,
    /// In how many chunks the head lies.
    pub(super) chunks: u16,
    /// Which open questions lie beside it, in order.
    pub(super) overflow: Arc<[u32]>,
    /// The link of the last entry: what the next one goes on from (J13).
    pub(super) link: Hash,
    /// The last append, by where it began and its token (J9); none where it was read back from disk: whoever wrote
    /// it in another life submits nothing again.
    pub(super) written: Option<(Version, Token)>,
}

/// How the runs stand that were last written.
#[derive(Debug, Default)]
pub(super) struct HeadCache {
    heads: HashMap<Packed, CachedHead>,
}

impl HeadCache {
    pub(super) fn get(&self, run: &Packed) -> Option<&CachedHead> {
        self.heads.get(run)
    }

    pub(super) fn add(&mut self, run: Packed, head: CachedHead) {
        self.heads.insert(run, head);
    }

    /// What a group is about to write goes on from what was written last; if not, nothing is written.
    pub(super) fn assert_goes_on(&self, changed: &Self) {
        for (run, new) in &changed.heads {
            let Some(old) = self.heads.get(run) else { continue };
            invariants::holds(old.version < new.version, "J5: a run's version only grows");
            invariants::holds(
                old.fence <= new.fence,
                "J4: no run is written to under an older fence",
            );
        }
    }

    /// Takes on what a group has changed, now that it is durable.
    pub(super) fn take(&mut self, changed: Self) {
        if self.heads.len() + changed.heads.len() > CACHED_MAX {
            self.clear();
        }
        self.heads.extend(changed.heads);
    }

    /// Forgets everything: runs are about to go.
    pub(super) fn clear(&mut self) {
        self.heads.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Packed = [7; crate::store::keys::RUN_BYTES];

    fn cache(version: Version, fence: u64) -> HeadCache {
        let entries = IndexEntries::default();
        let (overflow, link) = ([].into(), Hash::default());
        let (key, chunks, written) = (None, 0, None);
        let head = CachedHead { version, fence, key, entries, chunks, overflow, link, written };
        let mut cache = HeadCache::default();
        cache.add(RUN, head);
        cache
    }

    #[test]
    fn a_group_takes_a_run_on() {
        let mut known = cache(3, 8);
        known.assert_goes_on(&cache(4, 8));
        known.take(cache(4, 8));
        assert_eq!(known.get(&RUN).map(|head| head.version), Some(4));
    }

    #[test]
    #[should_panic = "J5: a run's version only grows"]
    fn j5_a_group_that_would_take_a_run_back_is_never_written() {
        cache(3, 8).assert_goes_on(&cache(3, 8));
    }

    #[test]
    #[should_panic = "J4: no run is written to under an older fence"]
    fn j4_a_group_under_an_older_fence_is_never_written() {
        cache(3, 8).assert_goes_on(&cache(4, 7));
    }
}
