//! Evidence of an embedded store: its appends as they were hashed, and its log of leaves, for whoever checks
//! them (J13). It reads; what is found is not judged here.

use std::ops::Bound;

use async_trait::async_trait;

use crate::kernel::evidence::Hash;
use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::kernel::evidence::tree::TreeHead;
use crate::kernel::evidence::walk::Entry;
use crate::kernel::{RunId, Version};
use crate::ports::Fault;
use crate::ports::evidence::{Evidence, Lain, LogEntry, Sequenced};
use crate::ports::log::Lane;
use crate::store::audit::count;
use crate::store::codec;
use crate::store::embedded::chunks;
use crate::store::embedded::prepared::Change;
use crate::store::embedded::tree::Bytes;
use crate::store::embedded::view::View;
use crate::store::embedded::{EmbeddedJournal, leaves, reader};
use crate::store::keys;
use crate::store::log::ChainedNote;

/// The appends of a run after a version.
pub(super) fn entries(
    view: View<'_>,
    run: &RunId,
    after: Version,
    limit: usize,
) -> Result<Vec<Entry>, Fault> {
    let Some(packed) = keys::pack(run) else { return Ok(Vec::new()) };
    let from = Bound::Included(keys::entry(&packed, after.saturating_add(1)));
    let to = Bound::Included(keys::entry(&packed, Version::MAX));
    let mut entries = Vec::new();
    for row in view.rows((from, to)).take(limit) {
        let (key, place) = row?;
        entries.push(entry(view, &key, place)?);
    }
    Ok(entries)
}

fn entry(view: View<'_>, key: &[u8], place: Bytes) -> Result<Entry, Fault> {
    let Some((run, version)) = keys::read_entry(key) else {
        return Err(Fault::Corrupt("an entry lies under a key that is none".into()));
    };
    let bad = |what: String| Fault::Corrupt(format!("run `{run}` at version {version}: {what}"));
    let record = chunks::join(key, place, |chunk| view.get(chunk))?;
    let (prev, payload, secrets) =
        codec::unseal_apart(key, &record).map_err(|unread| bad(unread.to_string()))?;
    let payload = String::from_utf8(payload.to_vec()).map_err(|_| bad("it is not text".into()))?;
    Ok(Entry { version, prev, payload, secrets })
}

fn log(
    view: View<'_>,
    lane: Lane,
    from: u64,
    limit: usize,
) -> Result<(Vec<LogEntry>, Hash), Fault> {
    let end = reader::log_ends(view)?.of(lane);
    let mut entries = Vec::new();
    let last = end.next.min(from.max(end.first).saturating_add(count(limit)));
    for index in from.max(end.first)..last {
        let key = keys::log(lane, index);
        let Some(record) = reader::record(view, &key)? else {
            let word = lane.word();
            return Err(Fault::Corrupt(format!(
                "entry {index} of the store's own log ({word}) is missing"
            )));
        };
        let ChainedNote { entry, prev } = codec::unseal_json(&key, &record)?;
        entries.push(LogEntry { index, prev, entry });
    }
    Ok((entries, end.link))
}

#[async_trait]
impl Evidence for EmbeddedJournal {
    async fn entries(
        &self,
        run: &RunId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let run = run.clone();
        self.ask(move |view| entries(view, &run, after, limit)).await
    }

    async fn first_of(&self, run: &RunId, version: Version) -> Result<Option<Version>, Fault> {
        let run = run.clone();
        self.ask(move |view| {
            let Some(packed) = keys::pack(&run) else { return Ok(None) };
            let is_there = reader::head(view, &run)?.is_some_and(|head| version <= head.version);
            let from = Bound::Included(keys::entries(&packed));
            let to = Bound::Included(keys::entry(&packed, version));
            let row = view.rows_back((from, to)).next().filter(|_| is_there).transpose()?;
            Ok(row.and_then(|(key, _)| keys::read_entry(&key)).map(|(_, first)| first))
        })
        .await
    }

    async fn link(&self, run: &RunId) -> Result<Option<Hash>, Fault> {
        let run = run.clone();
        self.ask(move |view| Ok(reader::stored_head(view, &run)?.and_then(|head| head.link))).await
    }

    async fn sequence(&self, most: usize) -> Result<Sequenced, Fault> {
        let grown = self.ask(move |view| leaves::grow(view, most)).await?;
        let (head, added) = (grown.head, grown.added);
        if added > 0 {
            self.change(Change::Sequence(Box::new(grown))).await?;
        }
        Ok(Sequenced { head, added })
    }

    async fn tree(&self) -> Result<TreeHead, Fault> {
        self.ask(|view| Ok(leaves::edge(view)?.head())).await
    }

    async fn root(&self, size: u64) -> Result<Option<Hash>, Fault> {
        self.ask(move |view| leaves::root(view, size)).await
    }

    async fn leaf(&self, place: &Place) -> Result<Option<Lain>, Fault> {
        let place = place.clone();
        self.ask(move |view| leaves::lain(view, &place)).await
    }

    async fn leaves(&self, from: u64, limit: usize) -> Result<Vec<String>, Fault> {
        self.ask(move |view| {
            let left = leaves::edge(view)?.size().saturating_sub(from);
            let wanted = limit.min(usize::try_from(left).unwrap_or(limit));
            let texts = leaves::texts(view, from, wanted)?;
            if texts.len() < wanted {
                let missing = from + count(texts.len());
                return Err(Fault::Corrupt(format!("leaf {missing} of the log is missing")));
            }
            Ok(texts)
        })
        .await
    }

    async fn waiting_leaves(&self, limit: usize) -> Result<Vec<Leaf>, Fault> {
        self.ask(move |view| leaves::waiting(view, limit)).await
    }

    async fn inclusion(&self, index: u64, size: u64) -> Result<Option<Vec<Hash>>, Fault> {
        self.ask(move |view| leaves::inclusion(view, index, size)).await
    }

    async fn log(
        &self,
        lane: Lane,
        from: u64,
        limit: usize,
    ) -> Result<(Vec<LogEntry>, Hash), Fault> {
        self.ask(move |view| log(view, lane, from, limit)).await
    }
}
