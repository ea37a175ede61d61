//! Leaves: the store-wide log as it lies on disk: leaves that have their places, and the hashes over them. It
//! prepares what is to be written; that it is written is the committer's business.
//!
//! A leaf waits from the moment of its append (they are one group), and is given its place afterwards, by one
//! writer, in batches: nothing on the way of an answer waits for the log. In a batch the leaves of one run lie side
//! by side, so that one record tells where those at one place (a tile) begin. Most runs have most of their leaves in the
//! batch after they began, and ids grow: of the runs at one place that are newer than all before, one record tells.

use std::ops::Bound;

use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::kernel::evidence::tree::{Frontier, TreeHead, leaf_hash, node_hash};
use crate::kernel::evidence::{Hash, tree};
use crate::kernel::{RunId, Version};
use crate::ports::Fault;
use crate::ports::evidence::Lain;
use crate::store::codec;
use crate::store::embedded::tree::{Bytes, Row, Span};
use crate::store::embedded::view::View;
use crate::store::embedded::wal_records::Write;
use crate::store::embedded::{reader, waiting};
use crate::store::keys::{self, Packed};

/// Hashes of subtrees are kept for every so many levels: a proof hashes a few hundred leaves anew, and the log
/// costs a 256th more than its leaves.
const LEVELS: u8 = 8;

/// What one place takes of leaves, well below the most that it holds.
const TILE_BYTES: usize = 3_500;

/// Leaves that get their places.
#[derive(Debug)]
pub(super) struct Grown {
    /// How long the log was when they were counted.
    pub(super) expected: u64,
    pub(super) writes: Vec<Write>,
    pub(super) head: TreeHead,
    pub(super) added: usize,
}

impl Grown {
    /// Its weight, for the bound on a group.
    pub(super) fn bytes(&self) -> usize {
        self.writes
            .iter()
            .map(|(key, value)| key.len() + value.as_ref().map_or(0, |v| v.len()))
            .sum()
    }
}

/// The right edge of the log.
pub(super) fn frontier(record: &[u8]) -> Result<Frontier, Fault> {
    let bytes = codec::unseal(keys::TREE, record)?;
    let edge = bytes.split_first_chunk::<8>().and_then(|(size, peaks)| {
        let peaks = peaks.chunks(32).map(Hash::read).collect::<Option<_>>()?;
        Frontier::read(u64::from_be_bytes(*size), peaks)
    });
    edge.ok_or_else(|| Fault::Corrupt("the edge of the log of leaves cannot be read".into()))
}

fn sealed_frontier(frontier: &Frontier) -> Vec<u8> {
    let mut bytes = frontier.size().to_be_bytes().to_vec();
    frontier.peaks().iter().for_each(|peak| bytes.extend_from_slice(&peak.0));
    codec::seal(keys::TREE, &bytes)
}

/// The right edge of the log as it is stored.
pub(super) fn edge(view: View<'_>) -> Result<Frontier, Fault> {
    match reader::record(view, keys::TREE)? {
        Some(record) => frontier(&record),
        None => Ok(Frontier::default()),
    }
}

/// Leaves that wait, at most `limit`, as they are stored: whoever asks does not trust what is known in memory.
pub(super) fn waiting(view: View<'_>, limit: usize) -> Result<Vec<Leaf>, Fault> {
    let mut leaves = Vec::new();
    for row in reader::span(view, &[keys::PENDING], None) {
        if leaves.len() >= limit {
            break;
        }
        let (key, record) = row?;
        leaves.extend(waiting::read(&key, &record)?);
    }
    leaves.truncate(limit);
    Ok(leaves)
}

/// Whether those of appends that are known to wait are those that are stored.
pub(super) fn is_known(view: View<'_>) -> Result<bool, Fault> {
    let mut known = view.waiting().records();
    for row in reader::span(view, &[keys::PENDING], None) {
        let (key, record) = row?;
        if keys::is_pending_entries(&key) && known.next() != Some((&*key, &record)) {
            return Ok(false);
        }
    }
    Ok(known.next().is_none())
}

/// What waits, in the order in which it gets places: what was taken over, appends in the order in which they were made,
/// and what speaks of neither.
fn in_order(view: View<'_>) -> impl Iterator<Item = Row> {
    let lie = |from, to| {
        let [from, to] = [from, to].map(|tag| vec![keys::PENDING, tag]);
        view.rows((Bound::Included(from), Bound::Excluded(to)))
    };
    let known = view.waiting().records();
    let known = known.map(|(key, record)| Ok((Bytes::from(key), record.clone())));
    let before = lie(0, keys::ENTRY_LEAF).chain(known);
    before.chain(lie(keys::ENTRY_LEAF + 1, keys::GROUP)).chain(lie(keys::GROUP + 1, u8::MAX))
}

/// What must be written to give leaves that wait their places, at most `most` of them.
pub(super) fn grow(view: View<'_>, most: usize) -> Result<Grown, Fault> {
    let mut log = Growing::on(edge(view)?, NewRuns::newest(view)?);
    let mut leaves = Vec::new();
    for row in in_order(view) {
        let room = most - leaves.len();
        if room == 0 {
            break;
        }
        let (key, record) = row?;
        let mut some = waiting::read(&key, &record)?;
        let rest = (some.len() > room).then(|| waiting::rest(&key, &record, room)).transpose()?;
        some.truncate(room);
        leaves.append(&mut some);
        log.writes.push((key.to_vec(), rest));
    }
    // Those of a run side by side, in the order of its appends: one record tells where they lie.
    leaves.sort_by_cached_key(Leaf::place);
    for leaf in &leaves {
        log.push(leaf);
    }
    Ok(log.grown())
}

/// The log while leaves are put to its end.
#[derive(Debug)]
struct Growing {
    expected: u64,
    frontier: Frontier,
    writes: Vec<Write>,
    /// The leaves from `first` on, which lie at one place.
    tile: Vec<u8>,
    first: u64,
    /// Whose append the last of them speaks of.
    run: Option<RunId>,
    /// The newest run that any leaf speaks of whose place is told with those of others.
    newest: Option<Packed>,
    /// The first of those runs among the leaves at one place, and its leaf.
    new_runs: Option<(Packed, u64)>,
}

impl Growing {
    fn on(frontier: Frontier, newest: Option<Packed>) -> Self {
        let (expected, first) = (frontier.size(), frontier.size());
        let (writes, tile) = (Vec::new(), Vec::new());
        Self { expected, frontier, writes, tile, first, run: None, newest, new_runs: None }
    }

    fn push(&mut self, leaf: &Leaf) {
        let (text, index) = (leaf.text(), self.frontier.size());
        let writes = &mut self.writes;
        self.frontier.push(leaf_hash(text.as_bytes()), |level, index, hash| {
            if level.is_multiple_of(LEVELS) {
                writes.push(sealed(keys::node(level, index), &hash.0));
            }
        });
        if self.tile.len() + text.len() > TILE_BYTES {
            self.end_tile();
        }
        codec::add_leaf(&mut self.tile, &text);
        let place = leaf.place();
        let run = if let Place::Entry(run, _) = &place { Some(run) } else { None };
        if run.is_some() && run == self.run.as_ref() {
            return;
        }
        self.run = run.cloned();
        let new = run.and_then(keys::pack).filter(|run| self.newest.is_none_or(|it| it < *run));
        if let Some(run) = new {
            self.newest = Some(run);
            self.new_runs.get_or_insert((run, index));
            return;
        }
        let key = keys::leaf_place(keys::LEAF_INDEX, &place);
        self.writes.extend(key.map(|key| sealed(key, &index.to_be_bytes())));
    }

    fn end_tile(&mut self) {
        self.writes.push(sealed(keys::leaf(self.first), &std::mem::take(&mut self.tile)));
        (self.first, self.run) = (self.frontier.size() - 1, None);
        self.tell_new_runs();
    }

    fn tell_new_runs(&mut self) {
        let Some(((first, index), newest)) = self.new_runs.take().zip(self.newest) else { return };
        let told = NewRuns { index, newest };
        self.writes.push(sealed(keys::new_runs(&first), &told.bytes()));
    }

    fn grown(mut self) -> Grown {
        let head = self.frontier.head();
        if head.size > self.expected {
            self.writes.push(sealed(keys::leaf(self.first), &self.tile));
            self.tell_new_runs();
            self.writes.push((keys::TREE.to_vec(), Some(sealed_frontier(&self.frontier).into())));
        }
        let added = usize::try_from(head.size - self.expected).unwrap_or(usize::MAX);
        Grown { expected: self.expected, writes: self.writes, head, added }
    }
}

/// What is told of the runs at one place that were newer than all before them: no other such record is of a run between
/// the first of them, which is its key, and the newest.
#[derive(Debug)]
struct NewRuns {
    /// Where the leaves of the first of them begin.
    index: u64,
    newest: Packed,
}

impl NewRuns {
    fn bytes(&self) -> Vec<u8> {
        [&self.index.to_be_bytes()[..], &self.newest].concat()
    }

    /// What is told of the newest of them up to a run.
    fn up_to(view: View<'_>, run: &Packed) -> Result<Option<Self>, Fault> {
        let all = keys::new_runs(&Packed::default());
        let span = (Bound::Included(all), Bound::Included(keys::new_runs(run)));
        let Some(row) = view.rows_back(span).next() else { return Ok(None) };
        let (key, record) = row?;
        let bytes = codec::unseal(&key, &record)?;
        let told = bytes.split_first_chunk::<8>().and_then(|(index, newest)| {
            Some(Self { index: u64::from_be_bytes(*index), newest: newest.try_into().ok()? })
        });
        told.map(Some)
            .ok_or_else(|| Fault::Corrupt("where leaves of new runs lie is not said".into()))
    }

    fn newest(view: View<'_>) -> Result<Option<Packed>, Fault> {
        Ok(Self::up_to(view, &[u8::MAX; keys::RUN_BYTES])?.map(|told| told.newest))
    }
}

fn sealed(key: Vec<u8>, payload: &[u8]) -> Write {
    let record = codec::seal(&key, payload);
    (key, Some(Bytes::from(record)))
}

/// The text of a leaf that has a place.
pub(super) fn text(view: View<'_>, index: u64) -> Result<Option<String>, Fault> {
    Ok(tile(view, index)?.into_iter().next())
}

/// The texts of leaves from `from` on, at most `limit`; fewer if one is missing.
pub(super) fn texts(view: View<'_>, from: u64, limit: usize) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    while found.len() < limit {
        let some = tile(view, from + crate::store::audit::count(found.len()))?;
        if some.is_empty() {
            break;
        }
        found.extend(some);
    }
    found.truncate(limit);
    Ok(found)
}

/// The texts of the leaves that lie at one place, from `from` on; none if that is missing.
fn tile(view: View<'_>, from: u64) -> Result<Vec<String>, Fault> {
    let up_to = (Bound::Included(vec![keys::LEAF]), Bound::Included(keys::leaf(from)));
    let Some(row) = view.rows_back(up_to).next() else { return Ok(Vec::new()) };
    let (key, record) = row?;
    let skip = keys::read_leaf(&key).and_then(|first| from.checked_sub(first));
    let Some(skip) = skip.and_then(|skip| usize::try_from(skip).ok()) else {
        return Ok(Vec::new());
    };
    let mut texts = codec::read_leaves(codec::unseal(&key, &record)?)?;
    texts.drain(..skip.min(texts.len()));
    Ok(texts)
}

/// The leaf that speaks of a place.
pub(super) fn lain(view: View<'_>, place: &Place) -> Result<Option<Lain>, Fault> {
    if let Some(leaf) = waits(view, place)? {
        return Ok(Some(Lain { leaf, index: None }));
    }
    let Some(key) = keys::leaf_place(keys::LEAF_INDEX, place) else { return Ok(None) };
    if let Some((told, record)) = nearest(view, place, &key)? {
        let index = codec::unseal(&told, &record)?.try_into().map(u64::from_be_bytes);
        let index =
            index.map_err(|_| Fault::Corrupt(format!("{place}: its leaf's place is none")))?;
        // What is told to be its place is, whatever lies there; one that is not told of lies among those of its run.
        let is_it = |found: &Place| *told == *key || found == place;
        let may_follow = |found: &Place| is_same_run(found, place);
        if let Some(lain) = looked_for(view, (place, index), is_it, may_follow)? {
            return Ok(Some(lain));
        }
    }
    let Place::Entry(run, _) = place else { return Ok(None) };
    let Some(run) = keys::pack(run) else { return Ok(None) };
    match NewRuns::up_to(view, &run)? {
        Some(told) => looked_for(view, (place, told.index), |found| found == place, |_| true),
        None => Ok(None),
    }
}

/// The leaf that it is, among those at one place from the `index`-th on, for as long as it may still follow.
fn looked_for(
    view: View<'_>,
    (place, index): (&Place, u64),
    is_it: impl Fn(&Place) -> bool,
    may_follow: impl Fn(&Place) -> bool,
) -> Result<Option<Lain>, Fault> {
    let lie = tile(view, index)?;
    let is_missing = || Fault::Corrupt(format!("{place}: leaf {index} is not there"));
    if lie.is_empty() {
        return Err(is_missing());
    }
    for (index, text) in (index..).zip(&lie) {
        let leaf = Leaf::parse(text).ok_or_else(is_missing)?;
        let found = leaf.place();
        if is_it(&found) {
            return Ok(Some(Lain { leaf, index: Some(index) }));
        }
        if !may_follow(&found) {
            break;
        }
    }
    Ok(None)
}

/// The same, if it waits.
fn waits(view: View<'_>, place: &Place) -> Result<Option<Leaf>, Fault> {
    if let Place::Entry(run, first) = place {
        return Ok(view.waiting().entry(run, *first));
    }
    let Some(key) = keys::leaf_place(keys::PENDING, place) else { return Ok(None) };
    let Some(record) = view.get(&key)? else { return Ok(None) };
    Ok(waiting::read(&key, &record)?.pop())
}

/// What is told of a place, or of the nearest before it in the same run.
fn nearest(view: View<'_>, place: &Place, key: &[u8]) -> Result<Option<(Bytes, Bytes)>, Fault> {
    match place {
        Place::Entry(run, first) => match up_to(run, *first) {
            Some(span) => view.rows_back(span).next().transpose(),
            None => Ok(None),
        },
        Place::Anchor(_) | Place::Tombstone(_) | Place::Log(_) | Place::Refusals(_) => {
            Ok(view.get(key)?.map(|record| (Bytes::from(key), record)))
        }
    }
}

fn is_same_run(one: &Place, other: &Place) -> bool {
    matches!((one, other), (Place::Entry(run, _), Place::Entry(other, _)) if run == other)
}

/// Where the places are told of a run's leaves up to that of an append.
fn up_to(run: &RunId, first: Version) -> Option<Span> {
    let run = keys::pack(run)?;
    let place = [keys::leaf_places(&run), first.to_be_bytes().to_vec()].concat();
    Some((Bound::Included(keys::leaf_places(&run)), Bound::Included(place)))
}

/// The hash of a whole subtree.
pub(super) fn node(view: View<'_>, level: u8, index: u64) -> Result<Hash, Fault> {
    if level == 0 {
        let text = text(view, index)?;
        let text = text.ok_or_else(|| Fault::Corrupt(format!("leaf {index} is not there")))?;
        return Ok(leaf_hash(text.as_bytes()));
    }
    if level.is_multiple_of(LEVELS) {
        let key = keys::node(level, index);
        let record = reader::record(view, &key)?;
        let record = record.ok_or_else(|| Fault::Corrupt("a hash of the log is missing".into()))?;
        let hash = Hash::read(codec::unseal(&key, &record)?);
        return hash.ok_or_else(|| Fault::Corrupt("a hash of the log is none".into()));
    }
    Ok(node_hash(node(view, level - 1, 2 * index)?, node(view, level - 1, 2 * index + 1)?))
}

/// The proof that a leaf is in the log of `size` leaves.
pub(super) fn inclusion(view: View<'_>, index: u64, size: u64) -> Result<Option<Vec<Hash>>, Fault> {
    if index >= size || size > edge(view)?.size() {
        return Ok(None);
    }
    tree::inclusion(index, size, &|level, index| node(view, level, index)).map(Some)
}

/// The root of the log when it had `size` leaves.
pub(super) fn root(view: View<'_>, size: u64) -> Result<Option<Hash>, Fault> {
    if size > edge(view)?.size() {
        return Ok(None);
    }
    tree::root(size, &|level, index| node(view, level, index)).map(Some)
}

#[cfg(test)]
#[path = "leaves_tests.rs"]
mod tests;
