//! Records of the write-ahead log: how a group of writes lies in it, and how what is there is read back and
//! judged. Knows bytes, not files.

use std::collections::BTreeMap;

use crate::store::embedded::invariants;
use crate::store::embedded::tree::Bytes;

/// What a record begins with.
const MAGIC: [u8; 4] = *b"HPW1";
/// Magic, check, generation, index, length.
const HEADER_BYTES: usize = 4 + 4 + 8 + 8 + 4;
/// In place of a value's length: the key is removed.
const REMOVED: u32 = u32::MAX;
/// No key is empty: in the first record of a generation, this one says how many records the one
/// before it has.
const BEFORE: &[u8] = &[];

/// One write: a key, and its value or nothing.
pub(super) type Write = (Vec<u8>, Option<Bytes>);
/// The last write of each key: a head that is written in every turn of a conversation reaches the tree
/// once a checkpoint.
pub(super) type Table = BTreeMap<Vec<u8>, Option<Bytes>>;

/// Why the records could not be read.
#[derive(Debug)]
pub(super) enum WalError {
    /// The operating system says no.
    Io(std::io::Error),
    /// A record that was synced does not check out.
    Rotten(String),
}

/// A group as it lies in the log.
pub(super) fn record(
    generation: u64,
    index: u64,
    before: Option<u64>,
    writes: &[Write],
) -> Vec<u8> {
    let weight = |(key, value): &Write| 8 + key.len() + value.as_ref().map_or(0, |v| v.len());
    let weight = writes.iter().map(weight).sum::<usize>();
    let mut record = Vec::with_capacity(HEADER_BYTES + weight + 16);
    record.extend_from_slice(&MAGIC);
    record.extend_from_slice(&[0; 4]);
    record.extend_from_slice(&generation.to_le_bytes());
    record.extend_from_slice(&index.to_le_bytes());
    record.extend_from_slice(&[0; 4]);
    for (key, value) in writes {
        add(&mut record, key, value.as_deref());
    }
    if let Some(before) = before {
        add(&mut record, BEFORE, Some(&before.to_le_bytes()));
    }
    let payload = length(record.len() - HEADER_BYTES);
    record[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&payload.to_le_bytes());
    let check = crc32c::crc32c(&record[8..]);
    record[4..8].copy_from_slice(&check.to_le_bytes());
    invariants::holds(
        whole(&record).is_some_and(|(_, rest)| rest.is_empty()),
        "J6: a record of the write-ahead log can be read back before it is written",
    );
    record
}

fn add(record: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    record.extend_from_slice(&length(key.len()).to_le_bytes());
    let size = value.map_or(REMOVED, |value| length(value.len()));
    record.extend_from_slice(&size.to_le_bytes());
    record.extend_from_slice(key);
    record.extend_from_slice(value.unwrap_or_default());
}

/// No write weighs anything near this: a value has at most 128 MiB.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(REMOVED - 1)
}

/// The groups that no checkpoint has flushed, in order, and the generation that comes after them.
pub(super) fn to_replay(
    files: &[Vec<u8>; 2],
    flushed: u64,
) -> Result<(u64, Vec<Vec<Write>>), WalError> {
    let (first, second) = (flushed + 1, flushed + 2);
    let [one, other] = files.each_ref().map(|bytes| Scan::read(bytes));
    let (one, other) = (one?, other?);
    one.check(first)?;
    other.check(first)?;
    let (older, newer) =
        if one.generation <= other.generation { (one, other) } else { (other, one) };
    let lost = |found: u64| {
        let what = "has begun, and the store has lost the end of";
        WalError::Rotten(format!("generation {found} {what} {first}"))
    };
    let mut groups = if older.generation == Some(first) { older.groups } else { Vec::new() };
    match newer.generation {
        Some(found) if found > second => Err(lost(found)),
        Some(found) if found == second => {
            if newer.before != u64::try_from(groups.len()).ok() {
                return Err(lost(second));
            }
            groups.extend(newer.groups);
            Ok((second + 1, groups))
        }
        Some(found) if found == first && groups.is_empty() => Ok((second, newer.groups)),
        Some(found) if found == first => Err(lost(found)),
        Some(_) | None => Ok((first, groups)),
    }
}

/// What a file begins with: the records of one generation, and what follows them.
struct Scan<'a> {
    generation: Option<u64>,
    groups: Vec<Vec<Write>>,
    /// How many records the generation before has, if that is said.
    before: Option<u64>,
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, WalError> {
        let mut read = Self { generation: None, groups: Vec::new(), before: None, rest: bytes };
        while let Some((record, next)) = whole(read.rest) {
            let index = u64::try_from(read.groups.len()).unwrap_or(u64::MAX);
            let is_next = read.generation.is_none_or(|known| known == record.generation);
            if !is_next || record.index != index {
                break;
            }
            let mut group = writes(record.payload)
                .ok_or_else(|| WalError::Rotten(format!("record {index} is no group")))?;
            if let Some((_, said)) = group.pop_if(|(key, _)| key.as_slice() == BEFORE) {
                let said = said.as_deref().and_then(|bytes| bytes.try_into().ok());
                read.before = said.map(u64::from_le_bytes);
            }
            read.generation = Some(record.generation);
            read.groups.push(group);
            read.rest = next;
        }
        Ok(read)
    }

    /// What follows was cut short or is of an earlier generation than `first`, or something rotted.
    fn check(&self, first: u64) -> Result<(), WalError> {
        match later(self.rest, first) {
            None => Ok(()),
            Some(found) => Err(WalError::Rotten(format!(
                "record {} of generation {} is there, and record {} before it is damaged",
                found.index,
                found.generation,
                self.groups.len()
            ))),
        }
    }
}

/// A record that checks out.
#[derive(Debug, Clone, Copy)]
struct Record<'a> {
    generation: u64,
    index: u64,
    payload: &'a [u8],
}

/// The record that `bytes` begin with, and what follows it; none if it does not check out.
fn whole(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    if header[..4] != MAGIC {
        return None;
    }
    let word = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?));
    let (check, length) = (word(4)?, usize::try_from(word(HEADER_BYTES - 4)?).ok()?);
    let (payload, next) = rest.split_at_checked(length)?;
    if crc32c::crc32c(bytes.get(8..HEADER_BYTES + length)?) != check {
        return None;
    }
    Some((Record { generation: long(8)?, index: long(16)?, payload }, next))
}

/// A record of this generation or a later one, anywhere in `bytes`.
fn later(bytes: &[u8], generation: u64) -> Option<Record<'_>> {
    let begins = bytes.windows(MAGIC.len()).enumerate().filter(|(_, four)| *four == MAGIC);
    let records = begins.filter_map(|(at, _)| whole(bytes.get(at..)?).map(|(record, _)| record));
    records.into_iter().find(|record| record.generation >= generation)
}

/// The writes of a record; none if its lengths do not add up.
fn writes(mut payload: &[u8]) -> Option<Vec<Write>> {
    let mut writes = Vec::new();
    while !payload.is_empty() {
        let (key, rest) = payload.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_first_chunk::<4>()?;
        let (key, value) = (u32::from_le_bytes(*key), u32::from_le_bytes(*value));
        let (key, rest) = rest.split_at_checked(usize::try_from(key).ok()?)?;
        let length = if value == REMOVED { 0 } else { usize::try_from(value).ok()? };
        let (bytes, rest) = rest.split_at_checked(length)?;
        writes.push((key.to_vec(), (value != REMOVED).then(|| Bytes::from(bytes))));
        payload = rest;
    }
    Some(writes)
}
