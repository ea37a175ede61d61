//! Waiting: leaves that have no place in the log yet, as they lie on disk and as they are known in memory. One is in
//! here from the moment that its append can be seen until its place can be. Which place it gets is not decided here.
//!
//! Those of appends that become durable together wait in one record, in the order of the appends. An earlier build
//! gave each a record of its own: what it left is read alike.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::kernel::evidence::Hash;
use crate::kernel::evidence::leaf::{Kinds, Leaf, Place};
use crate::kernel::{RunId, Version};
use crate::ports::Fault;
use crate::store::codec;
use crate::store::embedded::chunks::Sealed;
use crate::store::embedded::disk::Disk;
use crate::store::embedded::tree::Bytes;
use crate::store::embedded::wal_records::Write;
use crate::store::keys::{self, Packed, RUN_BYTES};

/// What a leaf takes in the record of its group.
const LEAF_BYTES: usize = RUN_BYTES + 8 + OWN_BYTES;
/// What it takes where its key says the rest: what it has of weight, and its link.
const OWN_BYTES: usize = 1 + 32;
/// Leaves in one record: as many as fit well into one place.
const RECORD_LEAVES: usize = 64;

/// An append's leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryLeaf {
    pub(super) run: Packed,
    pub(super) first: Version,
    pub(super) kinds: Kinds,
    pub(super) link: Hash,
}

impl EntryLeaf {
    /// That of an append, if it has anything of weight.
    pub(super) fn of(run: Packed, first: Version, kinds: Kinds, link: Hash) -> Option<Self> {
        (!kinds.is_nothing()).then_some(Self { run, first, kinds, link })
    }

    fn add_to(&self, payload: &mut Vec<u8>) {
        payload.extend_from_slice(&self.run);
        payload.extend_from_slice(&self.first.to_be_bytes());
        payload.push(self.kinds.0);
        payload.extend_from_slice(&self.link.0);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (run, rest) = bytes.split_first_chunk::<RUN_BYTES>()?;
        let (first, own) = rest.split_first_chunk::<8>()?;
        Self::read_own(*run, Version::from_be_bytes(*first), own)
    }

    fn read_own(run: Packed, first: Version, own: &[u8]) -> Option<Self> {
        let (&kinds, link) = own.split_first()?;
        Some(Self { run, first, kinds: Kinds(kinds), link: Hash::read(link)? })
    }

    fn leaf(self) -> Option<Leaf> {
        Some(Leaf::entry(keys::unpack(&self.run)?, self.first, self.kinds, self.link))
    }
}

/// The leaves of a group's appends, as they wait, in records numbered from `number` on.
pub(super) fn records(leaves: &[EntryLeaf], number: u64) -> impl Iterator<Item = Write> {
    leaves.chunks(RECORD_LEAVES).zip(number..).map(|(leaves, number)| {
        let key = keys::pending_group(number);
        let mut payload = Vec::with_capacity(leaves.len() * LEAF_BYTES);
        for leaf in leaves {
            leaf.add_to(&mut payload);
        }
        let record = codec::seal(&key, &payload);
        (key, Some(Bytes::from(record)))
    })
}

/// Any other leaf, as it waits; none if its run is no proper id.
pub(super) fn record(leaf: &Leaf) -> Option<Sealed> {
    let key = keys::leaf_place(keys::PENDING, &leaf.place())?;
    let record = codec::seal(&key, leaf.text().as_bytes());
    Some(Sealed { key, record })
}

/// The leaves of a record, in the order of their appends.
pub(super) fn read(key: &[u8], record: &[u8]) -> Result<Vec<Leaf>, Fault> {
    let leaves = match keys::read_leaf_place(key) {
        Some(Place::Anchor(_) | Place::Tombstone(_) | Place::Log(_) | Place::Refusals(_)) => {
            let text = str::from_utf8(codec::unseal(key, record)?).ok();
            text.and_then(Leaf::parse).map(|leaf| vec![leaf])
        }
        Some(Place::Entry(..)) | None => {
            read_entries(key, record)?.into_iter().map(EntryLeaf::leaf).collect()
        }
    };
    leaves.ok_or_else(unread)
}

/// The same of a record of appends' leaves; of any other, none.
fn read_entries(key: &[u8], record: &[u8]) -> Result<Vec<EntryLeaf>, Fault> {
    let payload = codec::unseal(key, record)?;
    let leaves = match keys::read_leaf_place(key) {
        Some(Place::Entry(run, first)) => keys::pack(&run)
            .and_then(|run| EntryLeaf::read_own(run, first, payload))
            .map(|leaf| vec![leaf]),
        Some(Place::Anchor(_) | Place::Tombstone(_) | Place::Log(_) | Place::Refusals(_)) => {
            Some(Vec::new())
        }
        None => keys::read_pending_group(key)
            .and_then(|_| payload.chunks(LEAF_BYTES).map(EntryLeaf::read).collect()),
    };
    leaves.ok_or_else(unread)
}

fn unread() -> Fault {
    Fault::Corrupt("a leaf that waits for its place cannot be read".into())
}

/// What is left of a group's record when the first `taken` of its leaves have their places.
pub(super) fn rest(key: &[u8], record: &[u8], taken: usize) -> Result<Bytes, Fault> {
    let left = codec::unseal(key, record)?.get(taken * LEAF_BYTES..).ok_or_else(unread)?;
    Ok(Bytes::from(codec::seal(key, left)))
}

/// The appends' leaves that wait, in memory. It is a part of the memtable, and changed where that is: nobody sees one
/// without the other. Other leaves are few at most times and very many at some (a store is taken over, or pruned):
/// they are looked for where they lie.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    records: BTreeMap<Vec<u8>, Bytes>,
}

impl Waiting {
    /// What waits on disk.
    pub(super) fn of(disk: &Disk) -> Result<Self, Fault> {
        let mut waiting = Self::default();
        for tag in [keys::ENTRY_LEAF, keys::GROUP] {
            let [from, to] = [tag, tag + 1].map(|tag| vec![keys::PENDING, tag]);
            for row in disk.rows((Bound::Included(from), Bound::Excluded(to))) {
                let (key, record) = row?;
                waiting.take(&key, Some(&record));
            }
        }
        Ok(waiting)
    }

    /// Takes on what is written at the place of a record: another, or nothing.
    pub(super) fn take(&mut self, key: &[u8], record: Option<&Bytes>) {
        match record {
            Some(record) => drop(self.records.insert(key.to_vec(), record.clone())),
            None => drop(self.records.remove(key)),
        }
    }

    /// The records, appends in the order in which they were made.
    pub(super) fn records(&self) -> impl Iterator<Item = (&[u8], &Bytes)> {
        self.records.iter().map(|(key, record)| (key.as_slice(), record))
    }

    /// Whether anything waits under a key.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.records.contains_key(key)
    }

    /// The number of the next group's record: it comes after all that wait. Where none does, it begins anew, so that
    /// places in memory and on disk are used again.
    pub(super) fn next_number(&self) -> u64 {
        let mut groups = self.records.range(vec![keys::PENDING, keys::GROUP]..).rev();
        let last = groups.find_map(|(key, _)| keys::read_pending_group(key));
        last.map_or(0, |last| last.saturating_add(1))
    }

    /// The leaf of an append, if it waits. It is asked for seldom, and those that wait are those of a moment: none of
    /// them has a place of its own here. What cannot be read is told by whoever wants to give it a place, or to verify it.
    pub(super) fn entry(&self, run: &RunId, first: Version) -> Option<Leaf> {
        let run = keys::pack(run)?;
        let read =
            |(key, record): (&Vec<u8>, &Bytes)| read_entries(key, record).unwrap_or_default();
        let mut leaves = self.records.iter().flat_map(read);
        leaves.find(|leaf| leaf.run == run && leaf.first == first)?.leaf()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::chunks;

    #[test]
    fn a_groups_leaves_are_written_as_they_always_were() {
        let run = keys::pack(&RunId::fresh("01k9zq3v7m8n4p5r6s7t8v9w0x")).unwrap();
        let leaf = |first| EntryLeaf { run, first, kinds: Kinds(9), link: Hash([7; 32]) };
        let written: Vec<_> = records(&[leaf(258), leaf(300)], 5).collect();
        let [(key, Some(record))] = &written[..] else { panic!("{written:?}") };
        assert_eq!(**key, *b"a\x04\0\0\0\0\0\0\0\x05");
        let one = |first: &[u8]| [&run[..], first, &[9], &[7; 32]].concat();
        let both = [one(b"\0\0\0\0\0\0\x01\x02"), one(b"\0\0\0\0\0\0\x01\x2c")].concat();
        assert_eq!(codec::unseal(key, record).unwrap(), both);
        assert_eq!(read_entries(key, record).unwrap(), [leaf(258), leaf(300)]);
        let left = rest(key, record, 1).unwrap();
        assert_eq!(read_entries(key, &left).unwrap(), [leaf(300)]);
        let cut = codec::seal(key, &both[1..]);
        assert!(matches!(read(key, &cut), Err(Fault::Corrupt(_))), "whole leaves or none");
    }

    #[test]
    fn the_leaves_of_the_largest_group_lie_in_places_that_hold_them() {
        let leaf = |first| EntryLeaf {
            run: [0; RUN_BYTES],
            first,
            kinds: Kinds(1),
            link: Hash::default(),
        };
        let leaves: Vec<_> = (1..=256).map(leaf).collect();
        let mut waiting = Waiting::default();
        for (key, record) in records(&leaves, waiting.next_number()) {
            assert!(record.as_ref().unwrap().len() <= chunks::CHUNK_BYTES_MAX);
            waiting.take(&key, record.as_ref());
        }
        let found = |waiting: &Waiting| {
            let run = keys::unpack(&[0; RUN_BYTES]).unwrap();
            (1..=256).filter(|first| waiting.entry(&run, *first).is_some()).count()
        };
        assert_eq!((found(&waiting), waiting.records.len()), (256, 4));
        assert_eq!(waiting.next_number(), 4, "it comes after all that wait");
        waiting.take(&keys::pending_group(0), None);
        assert_eq!((found(&waiting), waiting.next_number()), (192, 4));
        (1..4).for_each(|number| waiting.take(&keys::pending_group(number), None));
        assert_eq!((found(&waiting), waiting.next_number()), (0, 0));
    }
}
