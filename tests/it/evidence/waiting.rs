//! Waiting: leaves between their appends and their places in the log, on disk: as an earlier build left them, when the
//! power goes, and a few at a time (J13).

use std::collections::BTreeMap;
use std::path::Path;

use holdpoint::kernel::evidence::leaf::{Leaf, Place};
use holdpoint::kernel::{Millis, RunId, Version};
use holdpoint::ports::evidence::Evidence;
use holdpoint::ports::{Journal, Note, Noting};
use holdpoint::store::{codec, keys};
use tempfile::TempDir;

use crate::contract::evidence::{all_sequenced, looked_at};
use crate::store::damage::copy;
use crate::store::sled::raw;
use crate::support::kit::{Bed, Play, open, workflow};

/// What a leaf takes in the record of its group.
const LEAF_BYTES: usize = keys::RUN_BYTES + 8 + 1 + 32;

async fn parked(journal: &dyn Journal, number: u64) -> Play {
    Play::park(journal, number, "s", 10, &workflow(None)).await
}

/// Has leaves wait as an earlier build had: each in a record of its own. How many those are.
fn wait_apart(dir: &Path) -> usize {
    let db = raw(dir);
    let mut apart = 0;
    for row in db.scan_prefix([keys::PENDING, keys::GROUP]) {
        let (key, record) = row.unwrap();
        for leaf in codec::unseal(&key, &record).unwrap().chunks(LEAF_BYTES) {
            let (place, own) = leaf.split_at(keys::RUN_BYTES + 8);
            let (run, first) = place.split_at(keys::RUN_BYTES);
            let first = Version::from_be_bytes(first.try_into().unwrap());
            let key = keys::pending_entry(run.try_into().unwrap(), first);
            db.insert(&key, codec::seal(&key, own)).unwrap();
            apart += 1;
        }
        db.remove(key).unwrap();
    }
    db.flush().unwrap();
    apart
}

/// Tells the place of every leaf, as an earlier build did. How many were told before.
fn tell_each(dir: &Path, texts: &[String]) -> usize {
    let db = raw(dir);
    let told = db.scan_prefix([keys::LEAF_INDEX]).count();
    for (index, text) in (0_u64..).zip(texts) {
        let place = Leaf::parse(text).unwrap().place();
        let key = keys::leaf_place(keys::LEAF_INDEX, &place).unwrap();
        db.insert(&key, codec::seal(&key, &index.to_be_bytes())).unwrap();
    }
    db.flush().unwrap();
    told
}

/// Every leaf of the log is found by what it speaks of, once, and those of a run in the order of its appends.
async fn in_order(evidence: &dyn Evidence) -> Vec<String> {
    let texts = evidence.leaves(0, 1_000).await.unwrap();
    let mut last: BTreeMap<RunId, Version> = BTreeMap::new();
    for (index, text) in (0..).zip(&texts) {
        let leaf = Leaf::parse(text).unwrap();
        let lain = evidence.leaf(&leaf.place()).await.unwrap().unwrap();
        assert_eq!((&lain.leaf, lain.index), (&leaf, Some(index)));
        if let Place::Entry(run, version) = leaf.place() {
            let before = last.insert(run, version);
            assert!(before < Some(version), "{text} comes after {before:?}");
        }
    }
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_leaves_of_an_earlier_build_get_their_places_and_those_it_placed_are_found() {
    let bed = Bed::sled().await;
    bed.define().await;
    let journal = bed.journal();
    for number in 1..=6 {
        parked(&*journal, number).await.finish(&*journal, 20).await;
    }
    let mut between = parked(&*journal, 7).await;
    journal.append(between.approve(30)).await.unwrap();
    journal.note(Noting::once(Millis(40), Note::Restored)).await.unwrap();
    journal.close().await;
    assert_eq!(wait_apart(bed.path()), 13);

    let journal = open(bed.path()).await.unwrap().journal();
    let evidence = journal.evidence();
    let waiting = evidence.waiting_leaves(100).await.unwrap();
    assert_eq!(waiting.len(), 14);
    for leaf in &waiting {
        let lain = evidence.leaf(&leaf.place()).await.unwrap().unwrap();
        assert_eq!((&lain.leaf, lain.index), (leaf, None));
    }
    // What is appended now waits beside them, and comes after them.
    journal.append(between.speak("Booked.", 50)).await.unwrap();
    let mut placed = 0;
    while placed < 15 {
        assert_eq!(evidence.sequence(1).await.unwrap().added, 1);
        placed += 1;
        assert_eq!(evidence.waiting_leaves(100).await.unwrap().len(), 15 - placed);
    }
    assert_eq!(evidence.sequence(1).await.unwrap().added, 0);
    parked(&*journal, 8).await.finish(&*journal, 60).await;
    assert_eq!(all_sequenced(evidence).await, 17);
    let texts = in_order(evidence).await;
    assert_eq!(looked_at(&*journal).await.findings, Vec::new());
    journal.close().await;

    assert_eq!(tell_each(bed.path(), &texts), 16, "one for both of a run that are side by side");
    let journal = open(bed.path()).await.unwrap().journal();
    parked(&*journal, 9).await.finish(&*journal, 70).await;
    assert_eq!(all_sequenced(journal.evidence()).await, 19);
    assert_eq!(in_order(journal.evidence()).await[..17], texts);
    assert_eq!(looked_at(&*journal).await.findings, Vec::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_a_leaf_that_waits_when_the_power_goes_waits_afterwards_and_no_longer_than_before() {
    let bed = Bed::sled().await;
    bed.define().await;
    let journal = bed.journal();
    let scratch = TempDir::new().unwrap();
    let mut made = 0;
    // After each group, and after each step in which some get their places.
    for number in 1..=5_u64 {
        parked(&*journal, number).await.finish(&*journal, 20).await;
        made += 2;
        for most in [1, 2] {
            let cut = scratch.path().join(format!("{number}.{most}"));
            copy(bed.path(), &cut);
            let placed = journal.evidence().tree().await.unwrap().size;
            let opened = open(&cut).await.unwrap().journal();
            let evidence = opened.evidence();
            let waits = evidence.waiting_leaves(100).await.unwrap();
            assert_eq!(placed + u64::try_from(waits.len()).unwrap(), made);
            assert_eq!(looked_at(&*opened).await.findings, Vec::new());
            assert_eq!(opened.verify().await.unwrap().damage, Vec::<String>::new());
            assert_eq!(all_sequenced(evidence).await, made);
            in_order(evidence).await;
            assert_eq!(looked_at(&*opened).await.findings, Vec::new());
            opened.close().await;
            assert_eq!(journal.evidence().sequence(most).await.unwrap().added, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_of_leaves_that_wait_together_a_few_at_a_time_get_their_places_and_each_gets_one() {
    let bed = Bed::sled().await;
    bed.define().await;
    let journal = bed.journal();
    let mut plays = Vec::new();
    for number in 1..=40 {
        plays.push(parked(&*journal, number).await);
    }
    // At once, so that they become durable together.
    let mut answers = tokio::task::JoinSet::new();
    for mut play in plays {
        let journal = bed.journal();
        answers.spawn(async move { play.finish(&*journal, 20).await });
    }
    answers.join_all().await;
    let evidence = journal.evidence();
    let mut size = 0;
    for most in [1, 7, 3, 30, 2, 11, 0, 26] {
        let sequenced = evidence.sequence(most).await.unwrap();
        assert_eq!(sequenced.added, most);
        size += most;
        assert_eq!(evidence.waiting_leaves(100).await.unwrap().len(), 80 - size);
        assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
        assert_eq!(in_order(evidence).await.len(), size);
    }
    assert_eq!(size, 80);
    assert_eq!(looked_at(&*journal).await.findings, Vec::new());
}
