//! Wal: the write-ahead log that makes a group durable with one write and one `fdatasync`. It is not
//! the store: sled is, and takes everything after the answer; only what sled has not yet been made to
//! sync lives here.
//!
//! ```text
//! record ─► fdatasync ─► shown over sled ─► answer      every group
//! sled takes it ─► syncs ─► notes the generation ─► syncs      every 128 KiB of records: it settles
//! replay what sled has not settled ─► settle             at every opening
//! ```
//!
//! The file is written from its beginning over and over: blocks that are there already are synced
//! faster than new ones. A record names its generation, which grows whenever sled has settled the one
//! before, and its place in it; what follows the last record of a generation is of an earlier one, or
//! was cut short. A record is begun only after the one before it was synced, so one that does not
//! check out *before* one that does has rotted, and the store says so instead of opening (J6).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use ::sled::IVec;

/// The file's name in the data directory.
const NAME: &str = "wal";
/// Records beyond this and sled is made to sync, so that a restart has little to replay and the file
/// stays small beside the store; a few dozen groups, so that the sync is shared by them.
const SETTLE_BYTES: u64 = 128 << 10;
/// What a record begins with.
const MAGIC: [u8; 4] = *b"HPW1";
/// Magic, check, generation, index, length.
const HEADER_BYTES: usize = 4 + 4 + 8 + 8 + 4;
/// In place of a value's length: the key is removed.
const REMOVED: u32 = u32::MAX;

/// One write: a key, and its value or nothing.
pub(super) type Write = (Vec<u8>, Option<IVec>);

/// The write-ahead log.
#[derive(Debug)]
pub(super) struct Wal {
    file: File,
    generation: u64,
    /// The place of the next record in its generation.
    index: u64,
    /// Where the next record begins.
    offset: u64,
}

/// Why the records could not be read.
#[derive(Debug)]
pub(super) enum Unread {
    /// The operating system says no.
    Io(io::Error),
    /// A record that was synced does not check out.
    Rotten(String),
}

impl Wal {
    /// Opens the log of a data directory, and makes it if it is not there. `generation` is the one
    /// that sled has not settled; its groups are returned, in order.
    pub(super) fn open(dir: &Path, generation: u64) -> Result<(Self, Vec<Vec<Write>>), Unread> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(dir.join(NAME)).map_err(Unread::Io)?;
        let length = file.metadata().map_err(Unread::Io)?.len();
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, 0).map_err(Unread::Io)?;
        let groups = read(&bytes, generation)?;
        Ok((Self { file, generation, index: 0, offset: 0 }, groups))
    }

    /// Makes a group durable (J2).
    pub(super) fn append(&mut self, writes: &[Write]) -> io::Result<()> {
        let record = record(self.generation, self.index, writes);
        self.file.write_all_at(&record, self.offset)?;
        crate::failpoint::hit("store.after_record");
        self.file.sync_data()?;
        self.index += 1;
        self.offset += u64::try_from(record.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Whether sled should be made to sync before more is written.
    pub(super) fn is_full(&self) -> bool {
        self.offset >= SETTLE_BYTES
    }

    /// Whether sled may lack something that is here.
    pub(super) fn is_needed(&self) -> bool {
        self.index > 0
    }

    /// The generation that is being written.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Begins anew: sled has settled everything that is here.
    pub(super) fn begin_anew(&mut self) -> io::Result<()> {
        if self.offset > 2 * SETTLE_BYTES {
            self.file.set_len(SETTLE_BYTES)?;
        }
        self.generation += 1;
        self.index = 0;
        self.offset = 0;
        Ok(())
    }
}

fn record(generation: u64, index: u64, writes: &[Write]) -> Vec<u8> {
    let weight = |(key, value): &Write| 8 + key.len() + value.as_ref().map_or(0, |v| v.len());
    let mut record = Vec::with_capacity(HEADER_BYTES + writes.iter().map(weight).sum::<usize>());
    record.extend_from_slice(&MAGIC);
    record.extend_from_slice(&[0; 4]);
    record.extend_from_slice(&generation.to_le_bytes());
    record.extend_from_slice(&index.to_le_bytes());
    record.extend_from_slice(&[0; 4]);
    for (key, value) in writes {
        record.extend_from_slice(&length(key.len()).to_le_bytes());
        let size = value.as_ref().map_or(REMOVED, |value| length(value.len()));
        record.extend_from_slice(&size.to_le_bytes());
        record.extend_from_slice(key);
        record.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    let payload = length(record.len() - HEADER_BYTES);
    record[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&payload.to_le_bytes());
    let check = crc32c::crc32c(&record[8..]);
    record[4..8].copy_from_slice(&check.to_le_bytes());
    record
}

/// No write weighs anything near this: a value lies in pieces of 4 KiB.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(REMOVED - 1)
}

/// The groups of `generation`, in order. What follows them was cut short or is of an earlier one.
fn read(bytes: &[u8], generation: u64) -> Result<Vec<Vec<Write>>, Unread> {
    let mut groups = Vec::new();
    let mut rest = bytes;
    while let Some((record, next)) = whole(rest) {
        let expected = u64::try_from(groups.len()).unwrap_or(u64::MAX);
        if (record.generation, record.index) != (generation, expected) {
            break;
        }
        let group = writes(record.payload);
        groups.push(group.ok_or_else(|| Unread::Rotten(format!("record {expected} is no group")))?);
        rest = next;
    }
    match later(rest, generation) {
        None => Ok(groups),
        Some(found) if found.generation == generation => Err(Unread::Rotten(format!(
            "record {} is there, and record {} before it is damaged",
            found.index,
            groups.len()
        ))),
        Some(found) => Err(Unread::Rotten(format!(
            "generation {} has begun, and the store has lost the end of {generation}",
            found.generation
        ))),
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
        writes.push((key.to_vec(), (value != REMOVED).then(|| IVec::from(bytes))));
        payload = rest;
    }
    Some(writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(number: u8) -> Vec<Write> {
        let value = vec![number; 300 * usize::from(number)];
        vec![(vec![b'k', number], Some(value.into())), (b"gone".to_vec(), None)]
    }

    fn opened(dir: &Path, generation: u64) -> (Wal, Vec<Vec<Write>>) {
        Wal::open(dir, generation).unwrap()
    }

    fn rotten(dir: &Path, generation: u64) -> String {
        match Wal::open(dir, generation) {
            Err(Unread::Rotten(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_appended_is_read_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, before) = opened(dir.path(), 1);
        assert_eq!(before, Vec::<Vec<Write>>::new());
        assert!(!wal.is_needed());
        for number in 1..4 {
            wal.append(&group(number)).unwrap();
        }
        assert!(wal.is_needed() && !wal.is_full());
        assert_eq!(opened(dir.path(), 1).1, [group(1), group(2), group(3)]);
    }

    #[test]
    fn an_earlier_generation_is_never_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = opened(dir.path(), 1);
        for number in 1..4 {
            wal.append(&group(number)).unwrap();
        }
        wal.begin_anew().unwrap();
        assert_eq!(opened(dir.path(), 2).1, Vec::<Vec<Write>>::new());
        wal.append(&group(1)).unwrap();
        assert_eq!(opened(dir.path(), 2).1, [group(1)], "the old ones behind it are of no account");
    }

    #[test]
    fn a_record_that_was_cut_short_is_as_if_it_were_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = opened(dir.path(), 1);
        wal.append(&group(1)).unwrap();
        let whole = wal.offset;
        wal.append(&group(2)).unwrap();
        for length in whole..wal.offset {
            wal.file.set_len(length).unwrap();
            assert_eq!(opened(dir.path(), 1).1, [group(1)], "{length}");
        }
    }

    #[test]
    fn j6_a_record_that_rotted_before_a_whole_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = opened(dir.path(), 1);
        wal.append(&group(1)).unwrap();
        let first = wal.offset;
        wal.append(&group(2)).unwrap();
        let mut byte = [0];
        for place in [0, 5, 30, first - 1] {
            wal.file.read_exact_at(&mut byte, place).unwrap();
            wal.file.write_all_at(&[byte[0] ^ 1], place).unwrap();
            let why = rotten(dir.path(), 1);
            assert!(why.contains("record 1 is there, and record 0"), "{place}: {why}");
            wal.file.write_all_at(&byte, place).unwrap();
        }
        assert!(rotten(dir.path(), 0).contains("generation 1 has begun"));
    }

    #[test]
    fn it_is_full_when_it_should_be_settled_and_small_again_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = opened(dir.path(), 1);
        let large = vec![(b"k".to_vec(), Some(IVec::from(vec![7; 1 << 20])))];
        wal.append(&large).unwrap();
        assert!(wal.is_full());
        wal.begin_anew().unwrap();
        assert_eq!(wal.file.metadata().unwrap().len(), SETTLE_BYTES);
        assert_eq!(opened(dir.path(), 2).1, Vec::<Vec<Write>>::new());
    }
}
