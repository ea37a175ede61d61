//! Wal: the write-ahead log (WAL) that makes a group durable with one write and one `fdatasync`. It is not
//! the store: the tree is, and takes everything by and by; only what no checkpoint has flushed yet lives
//! here.
//!
//! ```text
//! record ─► fdatasync ─► memtable ─► answer                      every group
//! flush ─► fdatasync ─► note the generation ─► fdatasync          every so many records: a checkpoint
//! replay what no checkpoint has flushed ─► checkpoint             at every opening
//! ```
//!
//! There are two files, written in turn: while the generation in one is flushed, the next is written to
//! the other. A file is written from its beginning over and over: blocks that are there already are
//! synced faster than new ones. A record names its generation and its place in it; what follows the
//! last record of a generation is of an earlier one, or was cut short. A record is begun only after the
//! one before it was synced, so one that does not check out *before* one that does has rotted, and the
//! store says so instead of opening (J6). For the same reason the first record of a generation says how
//! many the one before it has.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::store::embedded::wal_records::{self, WalError, Write};

/// The files' names in the data directory.
const NAMES: [&str; 2] = ["wal", "wal2"];
/// Records beyond this and a checkpoint of a small store is begun, so that the files stay small beside it.
const CHECKPOINT_BYTES: u64 = 256 << 10;
/// The same of a large one: some hundreds of runs, so that what is asked and soon answered is given to the tree once,
/// as it ended, and a restart still has little to replay.
const CHECKPOINT_BYTES_LARGE: u64 = 2 << 20;
/// A store this many times as large as a window of the log is large enough for it.
const STORE_PER_CHECKPOINT: u64 = 16;
/// Records beyond this wait for the checkpoint of those before them: a disk that is slow for the tree
/// must not make a restart long.
const CHECKPOINT_BYTES_MAX: u64 = 8 << 20;

/// The write-ahead log.
#[derive(Debug)]
pub(super) struct Wal {
    files: [File; 2],
    /// The file that is being written.
    which: usize,
    generation: u64,
    /// The place of the next record in its generation.
    index: u64,
    /// Where the next record begins.
    offset: u64,
    /// How many records the generation before has, if it may not be flushed yet.
    records_before: u64,
    /// How large the store was when this generation was begun.
    store_bytes: u64,
}

impl Wal {
    /// Opens the log of a data directory, and makes it if it is not there. `flushed` is the last
    /// generation that the tree holds durably; the groups after it are returned, in order. `store_bytes` is about how
    /// large the store is.
    pub(super) fn open(
        dir: &Path,
        flushed: u64,
        store_bytes: u64,
    ) -> Result<(Self, Vec<Vec<Write>>), WalError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let [one, other] = NAMES.map(|name| options.open(dir.join(name)));
        let files = [one.map_err(WalError::Io)?, other.map_err(WalError::Io)?];
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(WalError::Io)?;
        let [one, other] = files.each_ref().map(contents);
        let (generation, groups) = wal_records::to_replay(&[one?, other?], flushed)?;
        let (which, index, offset, records_before) = (0, 0, 0, 0);
        Ok((Self { files, which, generation, index, offset, records_before, store_bytes }, groups))
    }

    /// The generation before the one that is being written.
    pub(super) fn generation_before(&self) -> u64 {
        self.generation - 1
    }

    /// Makes a group durable (J2).
    pub(super) fn append(&mut self, writes: &[Write]) -> io::Result<()> {
        let before = (self.index == 0).then_some(self.records_before);
        let record = wal_records::record(self.generation, self.index, before, writes);
        let file = &self.files[self.which];
        file.write_all_at(&record, self.offset)?;
        crate::failpoint::hit("store.after_record");
        file.sync_data()?;
        self.index += 1;
        self.offset += u64::try_from(record.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Whether a checkpoint should be begun.
    pub(super) fn is_full(&self) -> bool {
        self.offset >= self.window()
    }

    /// What is logged between two checkpoints.
    fn window(&self) -> u64 {
        let share = self.store_bytes / STORE_PER_CHECKPOINT;
        share.clamp(CHECKPOINT_BYTES, CHECKPOINT_BYTES_LARGE)
    }

    /// Whether it must be before more is written.
    pub(super) fn is_brimming(&self) -> bool {
        self.offset >= CHECKPOINT_BYTES_MAX
    }

    /// Whether the tree may lack something that is in the generation that is being written.
    pub(super) fn is_needed(&self) -> bool {
        self.index > 0
    }

    /// Goes on in the other file, whose generation is flushed. The one that was written until
    /// now comes back. `store_bytes` is about how large the store is now.
    pub(super) fn turn(&mut self, store_bytes: u64) -> io::Result<u64> {
        let written = self.generation;
        self.records_before = self.index;
        self.which = 1 - self.which;
        self.generation += 1;
        self.index = 0;
        self.offset = 0;
        self.store_bytes = store_bytes;
        let (file, window) = (&self.files[self.which], self.window());
        if file.metadata()?.len() > 2 * window {
            file.set_len(window)?;
        }
        Ok(written)
    }
}

fn contents(file: &File) -> Result<Vec<u8>, WalError> {
    let length = file.metadata().map_err(WalError::Io)?.len();
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, 0).map_err(WalError::Io)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::tree::Bytes;

    fn group(number: u8) -> Vec<Write> {
        let value = vec![number; 300 * usize::from(number)];
        vec![(vec![b'k', number], Some(value.into())), (b"gone".to_vec(), None)]
    }

    fn opened(dir: &Path, flushed: u64) -> (Wal, Vec<Vec<Write>>) {
        Wal::open(dir, flushed, 0).unwrap()
    }

    fn rotten(dir: &Path, flushed: u64) -> String {
        match Wal::open(dir, flushed, 0) {
            Err(WalError::Rotten(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    /// A log with these numbers of records in its generations, from the first on.
    fn written(dir: &Path, generations: &[u8]) -> Wal {
        let (mut wal, before) = opened(dir, 0);
        assert_eq!(before, Vec::<Vec<Write>>::new());
        for (at, &count) in generations.iter().enumerate() {
            if at > 0 {
                wal.turn(0).unwrap();
            }
            for number in 1..=count {
                wal.append(&group(number)).unwrap();
            }
        }
        wal
    }

    /// Turns one bit over.
    fn spoil(file: &File, place: u64) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, place).unwrap();
        file.write_all_at(&[byte[0] ^ 1], place).unwrap();
    }

    #[test]
    fn what_was_appended_is_read_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let wal = written(dir.path(), &[3]);
        assert!(wal.is_needed() && !wal.is_full());
        let (next, groups) = opened(dir.path(), 0);
        assert_eq!(groups, [group(1), group(2), group(3)]);
        assert_eq!((next.generation, next.is_needed()), (2, false));
    }

    #[test]
    fn two_generations_are_read_back_one_after_the_other_until_they_are_flushed() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), &[2, 1]);
        let (next, groups) = opened(dir.path(), 0);
        assert_eq!(groups, [group(1), group(2), group(1)]);
        assert_eq!(next.generation, 3);
        assert_eq!(opened(dir.path(), 1).1, [group(1)]);
        let (next, groups) = opened(dir.path(), 2);
        assert_eq!((next.generation, groups.len()), (3, 0));
    }

    #[test]
    fn an_earlier_generation_is_never_read_again() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), &[3, 2, 1]);
        assert_eq!(opened(dir.path(), 2).1, [group(1)], "the old ones behind it are of no account");
        assert_eq!(opened(dir.path(), 1).1, [group(1), group(2), group(1)]);
        assert_eq!(opened(dir.path(), 3).1, Vec::<Vec<Write>>::new());
    }

    #[test]
    fn a_record_that_was_cut_short_is_as_if_it_were_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let mut wal = written(dir.path(), &[1, 1]);
        let whole = wal.offset;
        wal.append(&group(2)).unwrap();
        for length in whole..wal.offset {
            wal.files[1].set_len(length).unwrap();
            assert_eq!(opened(dir.path(), 0).1, [group(1), group(1)], "{length}");
        }
        for length in 0..whole {
            wal.files[1].set_len(length).unwrap();
            assert_eq!(opened(dir.path(), 0).1, [group(1)], "{length}");
        }
    }

    #[test]
    fn j6_a_record_that_rotted_before_a_whole_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut wal = written(dir.path(), &[1]);
        let first = wal.offset;
        wal.append(&group(2)).unwrap();
        for place in [0, 5, 30, first - 1] {
            spoil(&wal.files[0], place);
            let why = rotten(dir.path(), 0);
            assert!(why.contains("record 1 of generation 1 is there, and record 0"), "{why}");
            spoil(&wal.files[0], place);
        }
    }

    #[test]
    fn j6_a_generation_that_lost_its_end_before_the_next_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut wal = written(dir.path(), &[2]);
        let end = wal.offset;
        wal.turn(0).unwrap();
        wal.append(&group(1)).unwrap();
        spoil(&wal.files[0], end - 1);
        assert!(rotten(dir.path(), 0).contains("generation 2 has begun"));
        assert_eq!(opened(dir.path(), 1).1, [group(1)], "flushed, it is of no account");
        wal.turn(0).unwrap();
        wal.append(&group(1)).unwrap();
        assert!(rotten(dir.path(), 0).contains("generation 3 has begun"));
    }

    #[test]
    fn it_is_full_when_it_should_be_flushed_and_small_again_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = opened(dir.path(), 0);
        let large = vec![(b"k".to_vec(), Some(Bytes::from(vec![7; 1 << 20])))];
        wal.append(&large).unwrap();
        assert!(wal.is_full() && !wal.is_brimming());
        assert_eq!(wal.turn(0).unwrap(), 1);
        assert_eq!(wal.turn(0).unwrap(), 2);
        assert_eq!(wal.files[0].metadata().unwrap().len(), CHECKPOINT_BYTES);
        assert_eq!(opened(dir.path(), 2).1, Vec::<Vec<Write>>::new());
    }

    #[test]
    fn the_larger_the_store_the_more_is_logged_between_two_checkpoints_up_to_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        for (store_bytes, full_at) in [(0, 256 << 10), (16 << 20, 1 << 20), (u64::MAX, 2 << 20)] {
            let (mut wal, _) = Wal::open(dir.path(), 0, store_bytes).unwrap();
            wal.offset = full_at - 1;
            assert!(!wal.is_full(), "{store_bytes}");
            wal.offset = full_at;
            assert!(wal.is_full(), "{store_bytes}");
        }
    }

    #[test]
    fn how_much_is_logged_goes_by_how_large_the_store_has_become() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = opened(dir.path(), 0);
        wal.turn(8 << 20).unwrap();
        wal.offset = 512 << 10;
        assert!(wal.is_full());
        wal.offset -= 1;
        assert!(!wal.is_full());
    }
}
