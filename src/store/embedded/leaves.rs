//! Leaves: the store-wide log as it lies on disk: leaves that wait for their place, leaves that have one, and
//! the hashes over them. It prepares what is to be written; that it is written is the committer's business.
//!
//! A leaf waits from the moment of its append (they are one group), and is given its place afterwards, by one
//! writer, in batches: nothing on the way of an answer waits for the log.

use std::ops::Bound;

use crate::kernel::Version;
use crate::kernel::evidence::leaf::{Kinds, Leaf, Place};
use crate::kernel::evidence::tree::{Frontier, TreeHead, leaf_hash, node_hash};
use crate::kernel::evidence::{Hash, tree};
use crate::ports::Fault;
use crate::ports::evidence::Lain;
use crate::store::codec;
use crate::store::embedded::chunks::Sealed;
use crate::store::embedded::reader;
use crate::store::embedded::tree::Bytes;
use crate::store::embedded::view::View;
use crate::store::embedded::wal_records::Write;
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

/// An append's leaf, as it waits: what it has of weight, and its link. The rest is in its key.
pub(super) fn waiting_entry(run: &Packed, first: Version, kinds: Kinds, link: Hash) -> Sealed {
    let key = keys::pending_entry(run, first);
    let mut payload = [0; 33];
    payload[0] = kinds.0;
    payload[1..].copy_from_slice(&link.0);
    let record = codec::seal(&key, &payload);
    Sealed { key, record }
}

/// Any other leaf, as it waits; none if its run is no proper id.
pub(super) fn waiting(leaf: &Leaf) -> Option<Sealed> {
    let key = keys::leaf_place(keys::PENDING, &leaf.place())?;
    let record = codec::seal(&key, leaf.text().as_bytes());
    Some(Sealed { key, record })
}

/// A leaf that waits.
pub(super) fn read_waiting(key: &[u8], record: &[u8]) -> Result<Leaf, Fault> {
    let payload = codec::unseal(key, record)?;
    let leaf = match keys::read_leaf_place(key) {
        Some(Place::Entry(run, first)) => payload.split_first().and_then(|(&kinds, link)| {
            Some(Leaf::entry(run, first, Kinds(kinds), Hash::read(link)?))
        }),
        Some(Place::Anchor(_) | Place::Tombstone(_) | Place::Log(_)) => {
            str::from_utf8(payload).ok().and_then(Leaf::parse)
        }
        None => None,
    };
    leaf.ok_or_else(|| Fault::Corrupt("a leaf that waits for its place cannot be read".into()))
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

/// What must be written to give leaves that wait their places, at most `most` of them.
pub(super) fn grow(view: View<'_>, most: usize) -> Result<Grown, Fault> {
    let mut frontier = edge(view)?;
    let expected = frontier.size();
    let mut writes: Vec<Write> = Vec::new();
    let (mut added, mut tile, mut first) = (0, Vec::new(), expected);
    let sealed = |key: Vec<u8>, payload: &[u8]| {
        let record = codec::seal(&key, payload);
        (key, Some(Bytes::from(record)))
    };
    for row in reader::span(view, &[keys::PENDING], None).take(most) {
        let (key, record) = row?;
        let text = read_waiting(&key, &record)?.text();
        let index = frontier.size();
        frontier.push(leaf_hash(text.as_bytes()), |level, index, hash| {
            if level.is_multiple_of(LEVELS) {
                writes.push(sealed(keys::node(level, index), &hash.0));
            }
        });
        if tile.len() + text.len() > TILE_BYTES {
            writes.push(sealed(keys::leaf(first), &std::mem::take(&mut tile)));
            first = index;
        }
        codec::add_leaf(&mut tile, &text);
        writes.push(sealed(keys::with_place(&key), &index.to_be_bytes()));
        writes.push((key.to_vec(), None));
        added += 1;
    }
    if added > 0 {
        writes.push(sealed(keys::leaf(first), &tile));
        writes.push((keys::TREE.to_vec(), Some(Bytes::from(sealed_frontier(&frontier)))));
    }
    Ok(Grown { expected, writes, head: frontier.head(), added })
}

/// The text of a leaf that has a place.
pub(super) fn text(view: View<'_>, index: u64) -> Result<Option<String>, Fault> {
    Ok(texts(view, index, 1)?.pop())
}

/// The texts of leaves from `from` on, at most `limit`; fewer if one is missing.
pub(super) fn texts(view: View<'_>, from: u64, limit: usize) -> Result<Vec<String>, Fault> {
    let up_to = (Bound::Included(vec![keys::LEAF]), Bound::Included(keys::leaf(from)));
    let begin = match view.rows_back(up_to).next() {
        Some(row) => row?.0.to_vec(),
        None => return Ok(Vec::new()),
    };
    let (mut next, mut found) = (from, Vec::new());
    let all = (Bound::Included(begin), Bound::Included(keys::leaf(u64::MAX)));
    for row in view.rows(all) {
        if found.len() >= limit {
            break;
        }
        let (key, record) = row?;
        let first = keys::read_leaf(&key).filter(|first| *first <= next);
        let Some(skip) = first.and_then(|first| usize::try_from(next - first).ok()) else { break };
        let texts = codec::read_leaves(codec::unseal(&key, &record)?)?;
        found.extend(texts.into_iter().skip(skip));
        next = from + crate::store::audit::count(found.len());
    }
    found.truncate(limit);
    Ok(found)
}

/// The leaf that speaks of a place.
pub(super) fn lain(view: View<'_>, place: &Place) -> Result<Option<Lain>, Fault> {
    let Some(key) = keys::leaf_place(keys::PENDING, place) else { return Ok(None) };
    if let Some(record) = reader::record(view, &key)? {
        return Ok(Some(Lain { leaf: read_waiting(&key, &record)?, index: None }));
    }
    let key = keys::with_place(&key);
    let Some(record) = reader::record(view, &key)? else { return Ok(None) };
    let index = codec::unseal(&key, &record)?.try_into().map(u64::from_be_bytes);
    let index = index.map_err(|_| Fault::Corrupt(format!("{place}: its leaf's place is none")))?;
    let leaf = text(view, index)?.as_deref().and_then(Leaf::parse);
    let leaf = leaf.ok_or_else(|| Fault::Corrupt(format!("{place}: leaf {index} is not there")))?;
    Ok(Some(Lain { leaf, index: Some(index) }))
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
