//! Tests of what checkpoints are given to: whatever is written, and wherever a process ends, what was noted is there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::store::embedded::memtable::Memtable;
use crate::store::keys::RUN_BYTES;

/// The steps of a checkpoint, after each of which a process may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Step {
    Laid,
    Flushed,
    Copied,
    Synced,
    Noted,
    HandedOver,
    Removed,
}

/// A store that is written to by checkpoints alone, and what must be in it.
struct Bench {
    tree: Tree,
    dir: PathBuf,
    disk: Disk,
    lies: BTreeMap<Vec<u8>, Vec<u8>>,
    generation: u64,
    removed: usize,
}

impl Bench {
    fn new() -> Self {
        let (tree, path) = Tree::temporary();
        let dir = path.join("values");
        let disk = Disk::with(tree.clone(), ValueLog::open(dir.clone(), &[]).unwrap());
        Self { tree, dir, disk, lies: BTreeMap::new(), generation: 0, removed: 0 }
    }

    /// A checkpoint up to a step.
    fn checkpoint(&mut self, table: &Table, last: Step) {
        if last == Step::Laid {
            let written: Vec<_> = table.iter().collect();
            drop(self.disk.lay_beside(&written).unwrap());
            return;
        }
        self.disk.flush(table, |_| false).unwrap();
        if last >= Step::Copied {
            self.disk.collect().unwrap();
        }
        if last >= Step::Synced {
            self.disk.sync().unwrap();
        }
        if last < Step::Noted {
            return;
        }
        let emptied = self.disk.note(self.generation + 1).unwrap();
        self.generation += 1;
        if last >= Step::HandedOver {
            self.disk.hand_over().unwrap();
        }
        if let Some(segment) = emptied.filter(|_| last >= Step::Removed) {
            self.disk.remove(segment).unwrap();
            self.removed += 1;
        }
    }

    /// Begins another life, in which the write-ahead log is replayed if the last checkpoint was not noted.
    fn open(&mut self, table: &Table, last: Step) {
        let (generation, noted) = note(&self.tree).unwrap();
        assert_eq!(generation, self.generation);
        let values = ValueLog::open(self.dir.clone(), &noted).unwrap();
        self.disk = Disk::with(self.tree.clone(), values);
        if last < Step::Noted {
            self.checkpoint(table, Step::Removed);
        }
        self.disk.tidy().unwrap();
    }

    fn check(&self) {
        for (key, value) in &self.lies {
            let found = self.disk.get(key).unwrap().expect("it is there");
            assert_eq!(&*found, &value[..], "{key:?}");
        }
        let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let rows = self.disk.rows(everything).map(Result::unwrap);
        let rows = rows.filter(|(key, _)| &**key != keys::CHECKPOINT).count();
        assert_eq!(rows, self.lies.len(), "nothing else is there");
    }
}

fn key(number: u8) -> Vec<u8> {
    let prefix = [keys::HEAD, keys::ENTRY, keys::SESSION, keys::GOING][usize::from(number % 4)];
    [&[prefix][..], &[number / 4; RUN_BYTES]].concat()
}

/// What is written at some keys: so many bytes, which hardly pack, or nothing. In the tree itself there is no room for many.
fn table(writes: &[(u8, Option<u16>)]) -> Table {
    let value = |key: &[u8], at: usize, bytes: u16| {
        let most = if keys::may_lie_beside(key) { u16::MAX } else { 2_000 };
        let seed = u32::try_from(at).unwrap_or_default().wrapping_mul(40_503);
        let words =
            (1..=u32::from(bytes.min(most) / 4)).map(|word| word.wrapping_mul(2_654_435_761));
        let bytes: Vec<u8> = words.flat_map(|word| (word ^ seed).to_le_bytes()).collect();
        Bytes::from([&[codec::FORMAT][..], &bytes].concat())
    };
    let writes = writes.iter().enumerate().map(|(at, (number, bytes))| {
        let key = key(*number);
        let value = bytes.map(|bytes| value(&key, at, bytes));
        (key, value)
    });
    writes.collect()
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Laid),
        1 => Just(Step::Flushed),
        1 => Just(Step::Copied),
        1 => Just(Step::Synced),
        1 => Just(Step::Noted),
        1 => Just(Step::HandedOver),
        6 => Just(Step::Removed),
    ]
}

type Writes = Vec<(u8, Option<u16>)>;

fn writes() -> impl Strategy<Value = Writes> {
    let length = prop_oneof![3 => 0_u16..200, 1 => 200_u16..3_000, 1 => 3_000_u16..30_000];
    prop::collection::vec((0_u8..80, prop::option::weighted(0.8, length)), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn wherever_a_checkpoint_ends_what_was_noted_or_is_replayed_is_there(
        lives in prop::collection::vec((writes(), steps()), 1..40),
    ) {
        let mut bench = Bench::new();
        for (writes, last) in lives {
            let table = table(&writes);
            bench.checkpoint(&table, last);
            for (key, value) in &table {
                match value {
                    Some(value) => drop(bench.lies.insert(key.clone(), value.to_vec())),
                    None => drop(bench.lies.remove(key)),
                }
            }
            if last < Step::Removed {
                bench.open(&table, last);
            }
            bench.check();
        }
    }
}

#[test]
fn what_is_written_over_and_over_takes_no_more_room_in_the_end() {
    let mut bench = Bench::new();
    let kept: Vec<_> = (0..80).filter(|number| number % 4 == 0).collect();
    for turn in 0..200_u16 {
        // Few of them are written anew in each turn: what is still needed lies among what is not.
        let writes: Writes = (0..8)
            .map(|at| (kept[usize::from(turn * 3 + at) % kept.len()], Some(2_000 + turn)))
            .collect();
        let table = table(&writes);
        bench.checkpoint(&table, Step::Removed);
        bench.lies.extend(table.into_iter().map(|(key, value)| (key, value.unwrap().to_vec())));
        bench.check();
    }
    assert!(bench.removed > 10, "{} segments went", bench.removed);
    let files =
        std::fs::read_dir(&bench.dir).unwrap().map(|file| file.unwrap().metadata().unwrap());
    let bytes: u64 = files.map(|file| file.len()).sum();
    let needed: usize = bench.lies.values().map(Vec::len).sum();
    assert!(bytes < 8 * u64::try_from(needed).unwrap(), "{bytes} for {needed}");
}

#[test]
fn what_was_written_again_meanwhile_is_left_to_the_next_checkpoint() {
    let disk = Disk::temporary();
    let mut memtable = Memtable::default();
    let pending = vec![keys::PENDING, 1];
    for key in [b"head".to_vec(), b"kept".to_vec(), b"gone".to_vec(), pending.clone()] {
        memtable.insert((key, Some(Bytes::from(b"1"))));
    }
    memtable.rotate();
    memtable.insert((b"head".to_vec(), Some(Bytes::from(b"2"))));
    memtable.insert((b"gone".to_vec(), None));
    let flushed = |memtable: &mut Memtable| {
        disk.flush(&memtable.immutable(), |key| memtable.is_newer(key)).unwrap();
        memtable.forget_immutable();
        [b"head".as_slice(), b"kept", b"gone", &pending]
            .map(|key| disk.get(key).unwrap().map(|value| value.to_vec()))
    };
    let one = Some(b"1".to_vec());
    assert_eq!(flushed(&mut memtable), [None, one.clone(), None, one.clone()]);
    memtable.rotate();
    assert_eq!(flushed(&mut memtable), [Some(b"2".to_vec()), one.clone(), None, one]);
}

#[test]
fn j6_a_value_that_rotted_is_a_record_that_does_not_check_out_and_the_others_are_there() {
    let bench = Bench::new();
    let table = table(&[(0, Some(3_000)), (4, Some(3_000)), (8, Some(60_000))]);
    bench.disk.flush(&table, |_| false).unwrap();
    let file = std::fs::read_dir(&bench.dir).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let found = [0, 4, 8].map(|number| bench.disk.get(&key(number)).unwrap().unwrap());
    let whole = [0, 4, 8].map(|number| table[&key(number)].clone().unwrap());
    assert_eq!((&found[0], &found[1]), (&whole[0], &whole[1]));
    assert!(codec::unseal(&key(8), &found[2]).is_err());
}

#[test]
fn j6_a_segment_that_is_gone_or_cut_short_keeps_the_store_shut() {
    let mut bench = Bench::new();
    bench.checkpoint(&table(&[(0, Some(3_000))]), Step::Removed);
    let (_, noted) = note(&bench.tree).unwrap();
    let open = || ValueLog::open(bench.dir.clone(), &noted);
    assert!(open().is_ok());
    let file = bench.dir.join("1");
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(10).unwrap();
    assert!(
        matches!(open(), Err(ValueLogError::Lost(what)) if what == "`values/1` has lost its end")
    );
    std::fs::remove_file(file).unwrap();
    assert!(matches!(open(), Err(ValueLogError::Lost(what)) if what == "`values/1` is missing"));
    std::fs::create_dir(bench.dir.join("1")).unwrap();
    assert!(
        matches!(open(), Err(ValueLogError::Lost(what)) if what == "`values/1` is a directory")
    );
}

#[test]
fn what_lies_among_the_segments_and_is_none_of_them_is_named() {
    let mut bench = Bench::new();
    bench.checkpoint(&table(&[(0, Some(3_000))]), Step::Removed);
    for name in ["77", "lost+found"] {
        std::fs::create_dir(bench.dir.join(name)).unwrap();
    }
    let told = bench.disk.tidy().unwrap_err().to_string();
    assert!(told.contains("`77` is nothing of the store's: move it away"), "{told}");
    std::fs::remove_dir(bench.dir.join("77")).unwrap();
    bench.disk.tidy().unwrap();
    assert!(bench.dir.join("lost+found").exists());
}

#[test]
fn of_a_value_that_lies_beside_only_its_place_counts_for_the_tree() {
    let session = [&[keys::SESSION][..], b"ada"].concat();
    let long = vec![7; 80_000];
    assert_eq!(in_tree(&session, Some(&long)), PLACE_BYTES);
    assert_eq!(in_tree(&session, Some(&long[..BESIDE_BYTES - 1])), BESIDE_BYTES - 1);
    assert_eq!(in_tree(keys::CHECKPOINT, Some(&long)), long.len(), "it never lies beside");
    assert_eq!(in_tree(&session, None), 0);
}
