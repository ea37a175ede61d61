//! Forged heads: a store that is held against a key or a head which is not its own. What else somebody who has the disk can
//! do is in `forged`.

use holdpoint::kernel::Millis;
use holdpoint::kernel::evidence::note::VerifyKey;
use holdpoint::ports::{Note, Noting};
use holdpoint::store::verify::{Against, verify};
use tempfile::TempDir;

use crate::contract::evidence::all_sequenced;
use crate::evidence::forged::{copy, pair, sign, store, told};
use crate::support::kit::{Bed, Play, open, workflow};

#[tokio::test(flavor = "multi_thread")]
async fn j13_a_store_without_runs_is_not_called_ok_by_a_key_that_never_signed_it() {
    let bed = Bed::sled().await;
    let journal = bed.journal();
    journal.note(Noting::once(Millis(40), Note::Restored)).await.unwrap();
    all_sequenced(journal.evidence()).await;
    let nobody = Against::default();
    let verified = verify(&*journal, &nobody, &|_| {}).await.unwrap();
    assert!(verified.findings.is_empty() && verified.leaves > 0, "{:?}", verified.findings);
    let key = pair().1;
    let against = Against { key: Some(key.clone()), ..Against::default() };
    let verified = verify(&*journal, &against, &|_| {}).await.unwrap();
    let [finding] = verified.findings.as_slice() else { panic!("{:?}", verified.findings) };
    assert!(finding.to_string().contains(&key.text()), "{finding}");
    assert_eq!((verified.runs, verified.brought), (0, Some(key)));
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_store_s_own_head_is_told_once_where_the_same_was_kept_elsewhere() {
    let (dir, head) = store("Booked.").await;
    let journal = open(dir.path()).await.unwrap().journal();
    let stranger = VerifyKey::new("holdpoint/stranger", [9; 32]);
    let against = Against { key: stranger, since: Some(head), ..Against::default() };
    let verified = verify(&*journal, &against, &|_| {}).await.unwrap();
    let [finding] = verified.findings.as_slice() else { panic!("{:?}", verified.findings) };
    assert_eq!(finding.place, "the signed head of the store");
    assert!(verified.since.is_some(), "it was held against it");
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_a_log_that_was_put_back_and_went_on_is_not_said_to_be_cut_off_at_a_leaf() {
    let (dir, early) = store("Booked.").await;
    let earlier = TempDir::new().unwrap();
    copy(dir.path(), earlier.path());
    let journal = open(dir.path()).await.unwrap().journal();
    for number in [91, 92] {
        let mut play = Play::park(&*journal, number, "s", 50, &workflow(None)).await;
        play.finish(&*journal, 60).await;
    }
    all_sequenced(journal.evidence()).await;
    let late = sign(&*journal).await;
    journal.close().await;
    // The copy goes on from the early head with something else, and is signed, too.
    let journal = open(earlier.path()).await.unwrap().journal();
    let mut play = Play::park(&*journal, 93, "s", 50, &workflow(None)).await;
    play.finish(&*journal, 60).await;
    all_sequenced(journal.evidence()).await;
    let other = sign(&*journal).await;
    journal.close().await;
    assert!(early.head.size < other.head.size && other.head.size < late.head.size);
    let found = told(earlier.path(), &late).await;
    let (signed, has) = (late.head.size, other.head.size);
    let said = format!("it holds {signed} leaves, and the log has {has}, fewer than were signed");
    assert!(found.contains(&said) && found.contains("put back and went on otherwise"), "{found}");
    assert!(!found.contains(&format!("leaf {has}")), "where it parted is not known: {found}");
}
