//! Evidence of a store in memory: what the contract of the log of leaves means, with nothing but maps (J13).

use async_trait::async_trait;

use crate::kernel::evidence::Hash;
use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::kernel::evidence::tree::{self, TreeHead};
use crate::kernel::evidence::walk::Entry;
use crate::kernel::{RunId, Version};
use crate::ports::Fault;
use crate::ports::evidence::{Evidence, Lain, LogEntry, Sequenced};
use crate::ports::log::Lane;
use crate::store::audit::count;
use crate::store::codec;
use crate::store::keys;
use crate::store::log::ChainedNote;
use crate::store::memory::MemoryJournal;
use crate::store::memory::state::Kept;

impl Kept {
    /// Its appends, as they were hashed.
    fn entries(&self) -> Result<Vec<Entry>, Fault> {
        let ends = self.links.iter().skip(1).map(|(first, _)| *first).chain([Version::MAX]);
        let spans = self.links.iter().zip(ends);
        let entries = spans.map(|((first, prev), end)| {
            let events = self.journal.iter().filter(|one| (*first..end).contains(&one.version));
            let at = events.clone().next().map(|one| one.at).unwrap_or_default();
            let events: Vec<_> = events.map(|one| &one.event).collect();
            let hidden = self.hidden.get(first);
            let payload = match hidden {
                Some(hidden) => codec::hidden_json(at, hidden)?,
                None => codec::events_json(at, &events)?,
            };
            let payload = String::from_utf8_lossy(&payload).into_owned();
            let secrets = hidden.map(|hidden| hidden.apart.clone()).unwrap_or_default();
            Ok(Entry { version: *first, prev: Some(*prev), payload, secrets })
        });
        entries.collect()
    }
}

#[async_trait]
impl Evidence for MemoryJournal {
    async fn entries(
        &self,
        run: &RunId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let state = self.entered().await?;
        let Some(kept) = state.runs.get(run) else { return Ok(Vec::new()) };
        let entries = kept.entries()?.into_iter().filter(|entry| entry.version > after);
        Ok(entries.take(limit).collect())
    }

    async fn first_of(&self, run: &RunId, version: Version) -> Result<Option<Version>, Fault> {
        let state = self.entered().await?;
        let kept = state.runs.get(run).filter(|kept| version <= kept.head.version);
        let first = kept.and_then(|kept| kept.links.iter().rfind(|(first, _)| *first <= version));
        Ok(first.map(|(first, _)| *first))
    }

    async fn link(&self, run: &RunId) -> Result<Option<Hash>, Fault> {
        Ok(self.entered().await?.runs.get(run).map(|kept| kept.link))
    }

    async fn sequence(&self, most: usize) -> Result<Sequenced, Fault> {
        let mut state = self.entered().await?;
        let mut added = 0;
        while added < most
            && let Some((place, leaf)) = state.leaves.waiting.pop_first()
        {
            let index = count(state.leaves.texts.len());
            state.leaves.texts.push(leaf.text());
            state.leaves.places.insert(place, index);
            added += 1;
        }
        Ok(Sequenced { head: state.leaves.head(), added })
    }

    async fn tree(&self) -> Result<TreeHead, Fault> {
        Ok(self.entered().await?.leaves.head())
    }

    async fn root(&self, size: u64) -> Result<Option<Hash>, Fault> {
        let state = self.entered().await?;
        if size > count(state.leaves.texts.len()) {
            return Ok(None);
        }
        tree::root(size, &|level, index| state.leaves.node(level, index)).map(Some)
    }

    async fn leaf(&self, place: &Place) -> Result<Option<Lain>, Fault> {
        Ok(self.entered().await?.leaves.lain(place))
    }

    async fn leaves(&self, from: u64, limit: usize) -> Result<Vec<String>, Fault> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        Ok(self.entered().await?.leaves.texts.iter().skip(from).take(limit).cloned().collect())
    }

    async fn waiting_leaves(&self, limit: usize) -> Result<Vec<Leaf>, Fault> {
        Ok(self.entered().await?.leaves.waiting.values().take(limit).cloned().collect())
    }

    async fn inclusion(&self, index: u64, size: u64) -> Result<Option<Vec<Hash>>, Fault> {
        let state = self.entered().await?;
        if index >= size || size > count(state.leaves.texts.len()) {
            return Ok(None);
        }
        tree::inclusion(index, size, &|level, index| state.leaves.node(level, index)).map(Some)
    }

    async fn log(
        &self,
        lane: Lane,
        from: u64,
        limit: usize,
    ) -> Result<(Vec<LogEntry>, Hash), Fault> {
        let state = self.entered().await?;
        let end = state.log_ends.of(lane);
        let places = from.max(end.first)..end.next;
        let entries = places.take(limit).filter_map(|index| {
            let ChainedNote { entry, prev } = state.log.get(&keys::log(lane, index))?.clone();
            Some(LogEntry { index, prev, entry })
        });
        Ok((entries.collect(), end.link))
    }
}
