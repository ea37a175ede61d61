//! What the log of leaves promises: each has one place, and is found.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::kernel::evidence::leaf::Kinds;
use crate::store::embedded::disk::Disk;
use crate::store::embedded::memtable::Memtable;
use crate::store::embedded::waiting::EntryLeaf;

/// What happens to a log: a group of appends to runs, leaves get places, the memtable is flushed, or all that
/// was in memory is lost but what the disk has.
#[derive(Debug, Clone)]
enum Turn {
    Group(Vec<u64>),
    Sequence(usize),
    Flush,
    Open,
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => proptest::collection::vec(0_u64..60, 1..90).prop_map(Turn::Group),
        4 => (1_usize..120).prop_map(Turn::Sequence),
        1 => Just(Turn::Flush),
        1 => Just(Turn::Open),
    ]
}

fn run(number: u64) -> RunId {
    RunId::fresh(&format!("{number:026}"))
}

struct Bench {
    disk: Disk,
    memtable: Memtable,
    versions: BTreeMap<u64, Version>,
    made: usize,
}

impl Bench {
    fn view(&self) -> View<'_> {
        View::new(&self.disk, &self.memtable)
    }

    fn write(&mut self, writes: Vec<Write>) {
        for write in writes {
            self.memtable.insert(write);
        }
    }

    fn flush(&mut self) {
        self.memtable.rotate();
        self.disk.flush(&self.memtable.immutable(), |_| false).unwrap();
        self.memtable.forget_immutable();
    }

    fn take(&mut self, turn: Turn) {
        match turn {
            Turn::Group(runs) => {
                let leaves = runs.into_iter().map(|number| {
                    let version = self.versions.entry(number).or_default();
                    *version += 1;
                    self.made += 1;
                    let packed = keys::pack(&run(number)).unwrap();
                    let link = Hash::of(&[&version.to_be_bytes()]);
                    EntryLeaf { run: packed, first: *version, kinds: Kinds(1), link }
                });
                let leaves: Vec<_> = leaves.collect();
                let number = self.view().waiting().next_number();
                self.write(waiting::records(&leaves, number).collect());
            }
            Turn::Sequence(most) => {
                let waited = waiting(self.view(), usize::MAX).unwrap().len();
                let grown = grow(self.view(), most).unwrap();
                assert_eq!(grown.added, most.min(waited));
                self.write(grown.writes);
                let left = waiting(self.view(), usize::MAX).unwrap().len();
                assert_eq!(left, waited - grown.added);
            }
            Turn::Flush => self.flush(),
            Turn::Open => {
                self.flush();
                self.memtable = Memtable::over(&self.disk).unwrap();
            }
        }
        assert!(is_known(self.view()).unwrap());
    }

    /// Every leaf is found by what it speaks of, whether it waits or has its place.
    fn check(&self) {
        let view = self.view();
        let texts = texts(view, 0, usize::MAX).unwrap();
        assert_eq!(u64::try_from(texts.len()).unwrap(), edge(view).unwrap().size());
        let mut last = BTreeMap::new();
        for (index, text) in (0..).zip(&texts) {
            let leaf = Leaf::parse(text).unwrap();
            let found = lain(view, &leaf.place()).unwrap().unwrap();
            assert_eq!((&found.leaf, found.index), (&leaf, Some(index)));
            let Place::Entry(run, version) = leaf.place() else { panic!("{text}") };
            let before = last.insert(run, version).unwrap_or(0);
            assert_eq!(version, before + 1, "each once, in the order of the appends");
        }
        let waits = waiting(view, usize::MAX).unwrap();
        assert_eq!(texts.len() + waits.len(), self.made, "none is lost, none is doubled");
        for leaf in waits {
            let found = lain(view, &leaf.place()).unwrap().unwrap();
            assert_eq!((&found.leaf, found.index), (&leaf, None));
        }
        for (number, version) in &self.versions {
            let beyond = Place::Entry(run(*number), version + 1);
            assert_eq!(lain(view, &beyond).unwrap(), None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn j13_each_leaf_gets_one_place_in_the_order_of_its_run_and_is_found(
        turns in proptest::collection::vec(turn(), 1..24),
    ) {
        let (disk, memtable) = (Disk::temporary(), Memtable::default());
        let mut bench = Bench { disk, memtable, versions: BTreeMap::new(), made: 0 };
        for turn in turns {
            bench.take(turn);
        }
        bench.check();
        bench.take(Turn::Sequence(usize::MAX));
        bench.check();
    }
}
