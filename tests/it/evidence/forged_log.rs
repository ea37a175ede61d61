//! Forged log: what somebody who has the disk and knows the stored form does to the store's own log, and to tombstones. It
//! goes on from `forged`, which has the journals and the log of leaves.

use std::path::Path;

use holdpoint::kernel::Millis;
use holdpoint::kernel::evidence::Hash;
use holdpoint::kernel::evidence::leaf::{Leaf, Place};
use holdpoint::kernel::evidence::note::SignedHead;
use holdpoint::ports::evidence::log_link;
use holdpoint::ports::log::{Lane, REFUSALS_MAX};
use holdpoint::ports::{Note, Noting};
use holdpoint::store::{codec, keys};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::contract::evidence::{all_sequenced, looked_at};
use crate::evidence::forged::{Forger, copy, sign, told};
use crate::store::taken_over::left;
use crate::support::kit::{Bed, Play, open, run_id, workflow};
use crate::terminal::cli::holdpoint;

/// What was refused by the time that a head was signed.
const REFUSED: u64 = 5;
/// What is said of that where the log does not have it.
const UP_TO: &str = "the store's own log (refusals) up to entry 4: ";

fn refused(number: u64) -> Note {
    let request = format!("request {number}");
    Note::answer_refused(("eve", "grpc"), &request, None, "answer.not_admitted")
}

/// A store that has refused something, and done something, closed; and the head that was published of it.
async fn store() -> (TempDir, SignedHead) {
    let bed = Bed::sled().await;
    let journal = bed.journal();
    journal.note(Noting::once(Millis(1), Note::Restored)).await.unwrap();
    for number in 1..=REFUSED {
        journal.note(Noting::once(Millis(number), refused(number))).await.unwrap();
    }
    assert_eq!(all_sequenced(journal.evidence()).await, 2, "all that was refused has one leaf");
    let head = sign(&*journal).await;
    journal.close().await;
    (bed.dir.unwrap(), head)
}

impl Forger {
    fn json(&self, key: &[u8]) -> Value {
        codec::unseal_json(key, &self.0.get(key).unwrap().unwrap()).unwrap()
    }

    fn put_json(&self, key: &[u8], value: &Value) {
        self.0.insert(key, codec::seal_json(key, value).unwrap()).unwrap();
    }

    /// Has the lane of refusals be as `change` makes it.
    fn change_lane(&self, change: impl Fn(&mut Value)) {
        let mut ends = self.json(keys::LOG_ENDS);
        change(&mut ends["refusals"]);
        self.put_json(keys::LOG_ENDS, &ends);
    }
}

/// All that was refused is gone, and the lane is as new.
fn take_all(forger: &Forger) {
    for row in forger.0.scan_prefix(keys::log_lane(Lane::Refusals)) {
        forger.0.remove(row.unwrap().0).unwrap();
    }
    forger.change_lane(|lane| {
        *lane = json!({"first": 0, "next": 0, "until": 0, "link": Hash::default()});
    });
}

/// The last two are gone, and the lane ends before them.
fn take_two(forger: &Forger) {
    let first = keys::log(Lane::Refusals, REFUSED - 2);
    let before = forger.json(&first)["prev"].clone();
    for index in REFUSED - 2..REFUSED {
        forger.0.remove(keys::log(Lane::Refusals, index)).unwrap();
    }
    forger.change_lane(|lane| {
        lane["next"] = json!(REFUSED - 2);
        lane["link"] = before.clone();
    });
}

/// Another name in the first, and all that follow hold on to that.
fn rename(forger: &Forger) {
    let mut prev = Hash::default();
    for index in 0..REFUSED {
        let key = keys::log(Lane::Refusals, index);
        let mut entry = forger.json(&key);
        entry["prev"] = json!(prev);
        if index == 0 {
            let text = entry["note"].to_string().replace("eve", "ann");
            entry["note"] = serde_json::from_str(&text).unwrap();
        }
        forger.put_json(&key, &entry);
        let note: Note = serde_json::from_value(entry["note"].clone()).unwrap();
        let first: Millis = serde_json::from_value(entry["first"].clone()).unwrap();
        let sequence = entry["sequence"].as_u64().unwrap();
        prev = log_link(prev, Lane::Refusals, index, (sequence, first, &note));
    }
    forger.change_lane(|lane| lane["link"] = json!(prev));
}

/// What is said of a copy that was forged so.
async fn forged(dir: &Path, head: &SignedHead, forge: impl Fn(&Forger)) -> String {
    let scratch = TempDir::new().unwrap();
    copy(dir, scratch.path());
    let forger = Forger::at(scratch.path());
    forge(&forger);
    forger.done();
    told(scratch.path(), head).await
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_refusals_that_were_taken_away_or_changed_behind_a_signed_head_are_found() {
    let (dir, head) = store().await;
    assert_eq!(told(dir.path(), &head).await, "", "nobody has touched it");
    for forge in [take_all, take_two, rename] {
        let found = forged(dir.path(), &head, forge).await;
        assert!(found.contains(&format!("leaf 1: {UP_TO}")), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_what_is_refused_after_the_last_leaf_of_refusals_is_no_finding() {
    let (dir, head) = store().await;
    let journal = open(dir.path()).await.unwrap().journal();
    for number in 6..=8 {
        journal.note(Noting::once(Millis(number), refused(number))).await.unwrap();
    }
    let waiting = journal.evidence().waiting_leaves(10).await.unwrap();
    assert!(matches!(waiting[..], [Leaf::Refusals { next: 8, .. }]), "{waiting:?}");
    journal.close().await;
    assert_eq!(told(dir.path(), &head).await, "", "it waits");
    // A build that knows no such leaf makes none.
    let key = keys::leaf_place(keys::PENDING, &Place::Refusals(8)).unwrap();
    let without = |forger: &Forger| drop(forger.0.remove(&key).unwrap().expect("it waits"));
    assert_eq!(forged(dir.path(), &head, without).await, "");
    // One that waits is held against its lane, too.
    let found = forged(dir.path(), &head, take_all).await;
    assert!(found.contains("a leaf that waits for its place: "), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_refusals_that_were_forgotten_because_there_were_too_many_are_no_finding() {
    let bed = Bed::memory();
    let journal = bed.journal();
    for number in 1..=3 {
        journal.note(Noting::once(Millis(number), refused(number))).await.unwrap();
    }
    all_sequenced(journal.evidence()).await;
    for number in 4..=REFUSALS_MAX + 4 {
        journal.note(Noting::once(Millis(number), refused(number))).await.unwrap();
    }
    assert_eq!(all_sequenced(journal.evidence()).await, 2);
    assert_eq!(looked_at(&*journal).await.findings, Vec::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_a_deed_that_is_said_to_have_happened_more_often_or_later_is_found() {
    let (dir, head) = store().await;
    for (member, forged_value) in [("count", 7), ("last", 9)] {
        let found = forged(dir.path(), &head, |forger| {
            let key = keys::log(Lane::Deeds, 0);
            let mut entry = forger.json(&key);
            entry[member] = json!(forged_value);
            forger.put_json(&key, &entry);
        });
        let found = found.await;
        let place = "entry 0 of the store's own log (deeds): it says that it happened";
        assert!(found.contains(place), "{member}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_a_tombstone_of_a_run_that_was_not_over_is_found() {
    let bed = Bed::sled().await;
    bed.define().await;
    let journal = bed.journal();
    let mut play = Play::park(&*journal, 1, "s", 10, &workflow(None)).await;
    let approved = play.approve(20);
    journal.append(approved).await.unwrap();
    all_sequenced(journal.evidence()).await;
    let head = sign(&*journal).await;
    let (run, link) = (run_id(1), journal.evidence().link(&run_id(1)).await.unwrap().unwrap());
    journal.close().await;
    // What an opening must find stands there, and whoever forges knows it.
    std::fs::remove_file(bed.path().join("tide")).unwrap();
    let found = forged(bed.path(), &head, |forger| {
        forger.remove_run(&run);
        let leaf = Leaf::Tombstone { run: run.clone(), version: 9, link };
        let key = keys::leaf_place(keys::PENDING, &leaf.place()).unwrap();
        forger.0.insert(&key, codec::seal(&key, leaf.text().as_bytes())).unwrap();
    });
    let found = found.await;
    let place = format!("run `{run}`, which was forgotten: its last leaf (leaf 0) is of version ");
    assert!(found.contains(&place), "{found}");
}

#[test]
fn j13_runs_of_an_earlier_build_and_of_an_import_are_forgotten_without_a_finding() {
    let (root, _) = left("stopped");
    let run = |words: &[&str]| {
        let told = holdpoint(root.path(), words, "");
        assert_eq!(told.code, 0, "{words:?}: {}{}", told.out, told.err);
        told
    };
    run(&["runs", "--data", "data"]);
    run(&["export", "all.jsonl", "--data", "data"]);
    run(&["import", "all.jsonl", "--data", "copy"]);
    for data in ["data", "copy"] {
        run(&["prune", "--older-than", "1m", "--data", data]);
        let told = run(&["verify", "--json", "--data", data]).json();
        assert!(told["forgotten"].as_u64().is_some_and(|gone| gone > 0), "{told}");
    }
}
