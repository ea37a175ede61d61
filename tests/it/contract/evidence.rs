//! Contract: what strangers can check of a store (J13), on every store.

use holdpoint::kernel::evidence::chain::GENESIS;
use holdpoint::kernel::evidence::leaf::{Leaf, Place};
use holdpoint::kernel::evidence::tree::{leaf_hash, led_to};
use holdpoint::kernel::evidence::walk::Walk;
use holdpoint::kernel::{Millis, RunId};
use holdpoint::ports::evidence::Evidence;
use holdpoint::ports::{Journal, Note, Noting};
use holdpoint::store::verify::{Against, Verified, verify};

use crate::support::kit::{Bed, Play, laws, run_id, workflow};

laws! {
    j13_every_append_holds_on_to_the_one_before_it,
    j13_leaves_get_their_places_once_and_are_proven_by_the_root,
    j13_a_run_that_is_forgotten_leaves_a_tombstone,
    j13_what_the_store_itself_notes_is_chained_and_has_its_leaf,
}

/// Leaves that are given their places at a time: fewer than there are.
const AT_ONCE: usize = 100;

pub(crate) async fn looked_at(journal: &dyn Journal) -> Verified {
    verify(journal, &Against::default(), &|_| {}).await.unwrap()
}

pub(crate) async fn all_sequenced(evidence: &dyn Evidence) -> u64 {
    while evidence.sequence(AT_ONCE).await.unwrap().added > 0 {}
    evidence.tree().await.unwrap().size
}

async fn walked(evidence: &dyn Evidence, run: &RunId) -> Vec<Leaf> {
    let mut walk = Walk::new(run);
    let mut leaves = Vec::new();
    for entry in evidence.entries(run, 0, 1_000).await.unwrap() {
        assert_eq!(entry.prev, Some(walk.link()), "it goes on from the one before it");
        let step = walk.take(&entry).unwrap();
        if !step.kinds.is_nothing() {
            leaves.push(Leaf::entry(run.clone(), step.version, step.kinds, step.link));
        }
    }
    assert_eq!(evidence.link(run).await.unwrap(), Some(walk.link()), "the head has the last");
    leaves
}

async fn j13_every_append_holds_on_to_the_one_before_it(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    let evidence = journal.evidence();
    let mut play = Play::park(&*journal, 1, "s", 10, &workflow(None)).await;
    let run = play.run.id.clone();
    let first = evidence.entries(&run, 0, 1).await.unwrap();
    assert_eq!(first[0].prev, Some(GENESIS));
    assert_eq!(walked(evidence, &run).await, Vec::new(), "nobody has decided anything");
    let told = play.finish(&*journal, 50).await;
    let leaves = walked(evidence, &run).await;
    let [decided, ended] = &leaves[..] else { panic!("a decision and an end: {leaves:?}") };
    for (leaf, told) in [decided, ended].into_iter().zip(told) {
        assert_eq!(told.link, Some(leaf.link()), "whoever wrote it can tell of it without a look");
        let lain = evidence.leaf(&leaf.place()).await.unwrap().unwrap();
        assert_eq!((&lain.leaf, lain.index), (leaf, None), "it waits for its place");
    }
    assert!(decided.text().contains(r#""kinds":["decision"]"#), "{}", decided.text());
    assert!(ended.text().contains(r#""kinds":["end"]"#), "{}", ended.text());
    assert_eq!(evidence.link(&run_id(2)).await.unwrap(), None);
    assert_eq!(evidence.entries(&run_id(2), 0, 9).await.unwrap(), Vec::new());
    assert_eq!(looked_at(&*journal).await.findings, Vec::new());
}

async fn j13_leaves_get_their_places_once_and_are_proven_by_the_root(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    let evidence = journal.evidence();
    // More than the lowest hashes that are kept stand for.
    for number in 1..=150 {
        let mut play = Play::park(&*journal, number, "s", 10, &workflow(None)).await;
        play.finish(&*journal, 20).await;
        if number == 40 {
            assert_eq!(all_sequenced(evidence).await, 80);
        }
    }
    let size = all_sequenced(evidence).await;
    assert_eq!(size, 300);
    assert_eq!(evidence.sequence(AT_ONCE).await.unwrap().added, 0);
    let texts = evidence.leaves(0, 1_000).await.unwrap();
    assert_eq!(texts.len(), 300);
    assert_eq!(evidence.leaves(299, 10).await.unwrap(), texts[299..]);
    let now = evidence.tree().await.unwrap();
    assert_eq!(evidence.root(size).await.unwrap(), Some(now.root));
    assert_eq!(evidence.root(size + 1).await.unwrap(), None);
    for (index, text) in (0..).zip(&texts) {
        let leaf = Leaf::parse(text).unwrap();
        let lain = evidence.leaf(&leaf.place()).await.unwrap().unwrap();
        assert_eq!((lain.leaf, lain.index), (leaf, Some(index)));
        for size in [size, index + 1, 257] {
            let Some(proof) = evidence.inclusion(index, size).await.unwrap() else {
                assert!(index >= size);
                continue;
            };
            let root = evidence.root(size).await.unwrap();
            assert_eq!(led_to(leaf_hash(text.as_bytes()), index, size, &proof), root);
        }
    }
    assert_eq!(evidence.inclusion(size, size).await.unwrap(), None);
    assert_eq!(evidence.inclusion(0, size + 1).await.unwrap(), None);
    let verified = looked_at(&*journal).await;
    assert_eq!(verified.findings, Vec::new());
    assert_eq!((verified.leaves, verified.waiting, verified.runs), (300, 0, 150));
}

async fn j13_a_run_that_is_forgotten_leaves_a_tombstone(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    let evidence = journal.evidence();
    for number in 1..=3 {
        let mut play =
            Play::park(&*journal, number, &format!("s{number}"), 10, &workflow(None)).await;
        play.finish(&*journal, 20 * number).await;
    }
    all_sequenced(evidence).await;
    let link = evidence.link(&run_id(1)).await.unwrap().unwrap();
    assert_eq!(journal.prune(Millis(50), 100).await.unwrap(), 2);
    let waits = looked_at(&*journal).await;
    assert_eq!((waits.findings.as_slice(), waits.forgotten), (&[][..], 2));
    all_sequenced(evidence).await;
    let lain = evidence.leaf(&Place::Tombstone(run_id(1))).await.unwrap().unwrap();
    assert_eq!((lain.leaf.link(), lain.index), (link, Some(6)));
    let lies = looked_at(&*journal).await;
    assert_eq!((lies.findings.as_slice(), lies.forgotten, lies.leaves), (&[][..], 2, 8));
}

async fn j13_what_the_store_itself_notes_is_chained_and_has_its_leaf(bed: Bed) {
    let journal = bed.journal();
    let evidence = journal.evidence();
    for at in 1..=3 {
        journal.note(Noting::once(Millis(at), Note::Restored)).await.unwrap();
        journal.note(Noting::once(Millis(at), Note::Crowded)).await.unwrap();
    }
    let again = Noting { place: Some(2), count: 7, ..Noting::once(Millis(9), Note::Crowded) };
    assert_eq!(journal.note(again).await.unwrap(), 2);
    assert_eq!(all_sequenced(evidence).await, 4, "all that was refused has one leaf");
    let text = &evidence.leaves(0, 1).await.unwrap()[0];
    assert!(text.contains(r#""leaf":"log","index":0,"action":"restored""#), "{text}");
    let text = &evidence.leaves(3, 1).await.unwrap()[0];
    assert!(text.starts_with(r#"{"leaf":"refusals","next":3,"link":""#), "{text}");
    assert_eq!(looked_at(&*journal).await.findings, Vec::new());
    // What was done again is another entry, whatever place it names.
    let again = Noting { place: Some(2), ..Noting::once(Millis(10), Note::Restored) };
    assert_eq!(journal.note(again).await.unwrap(), 3);
    for at in 11..=13 {
        journal.note(Noting::once(Millis(at), Note::Crowded)).await.unwrap();
    }
    assert_eq!(evidence.waiting_leaves(10).await.unwrap().len(), 2, "one outdoes the other");
    assert_eq!(all_sequenced(evidence).await, 6);
    assert_eq!(looked_at(&*journal).await.findings, Vec::new());
}
