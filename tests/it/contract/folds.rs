//! Folds that are saved beside journals: each is the run or is not there, goes with its run, and is never believed over
//! the journal. A store need not keep any.

use std::sync::Arc;

use holdpoint::engine::Until;
use holdpoint::kernel::evidence::Hash;
use holdpoint::kernel::workflow::Patience;
use holdpoint::kernel::{Millis, Run, RunId, saved};
use holdpoint::ports::Journal;
use holdpoint::store::StoreConfig;
use serde_json::json;

use crate::store::sled::flip;
use crate::support::kit::{Bed, Play, WORDS, config, laws, open, open_with, workflow};
use crate::support::plays::{answer, start, writers};
use crate::support::workflows::approval;
use crate::support::{Ground, all, names, request_of, someone};

laws! {
    a_saved_fold_is_the_run_as_it_was_saved_and_goes_with_it,
    a_fold_of_another_history_is_as_if_it_were_not_there,
}

/// A run that waits, its definition kept, and the link of its last append.
async fn waiting(bed: &Bed) -> (Play, Hash) {
    bed.define().await;
    let journal = bed.journal();
    let play = Play::park(&*journal, 1, "s", 10, &workflow(None)).await;
    let link = journal.evidence().link(&play.run.id).await.unwrap().unwrap();
    (play, link)
}

async fn saved_of(journal: &dyn Journal, run: &Run) -> Option<Run> {
    journal.saved_fold(&run.id, &run.workflow).await.unwrap()
}

async fn a_saved_fold_is_the_run_as_it_was_saved_and_goes_with_it(bed: Bed) {
    let journal = bed.journal();
    let (mut play, link) = waiting(&bed).await;
    assert_eq!(saved_of(&*journal, &play.run).await, None);
    let then = play.run.clone();
    journal.save_fold(Box::new(then.clone()), link).await.unwrap();
    let kept = journal.folds_every().map(|_| saved::folded(then));
    assert_eq!(saved_of(&*journal, &play.run).await, kept);

    play.finish(&*journal, 20).await;
    assert_eq!(saved_of(&*journal, &play.run).await, kept, "it is of an earlier version, and true");
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
    assert_eq!(journal.prune(Millis(100), 10).await.unwrap(), 1);
    assert_eq!(saved_of(&*journal, &play.run).await, None);
    let late = journal.save_fold(Box::new(play.run.clone()), link).await;
    assert!(late.is_ok(), "{late:?}");
    assert_eq!(saved_of(&*journal, &play.run).await, None, "nothing is kept of what is not there");
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

async fn a_fold_of_another_history_is_as_if_it_were_not_there(bed: Bed) {
    let journal = bed.journal();
    let (play, _) = waiting(&bed).await;
    journal.save_fold(Box::new(play.run.clone()), Hash([7; 32])).await.unwrap();
    assert_eq!(saved_of(&*journal, &play.run).await, None);
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_holds_every_saved_fold_against_its_journal() {
    let bed = Bed::sled().await;
    let (play, link) = waiting(&bed).await;
    let mut lie = play.run.clone();
    lie.owner = "mallory".into();
    bed.journal().save_fold(Box::new(lie), link).await.unwrap();
    let damage = bed.journal().verify().await.unwrap().damage;
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!(damage[0].contains("its saved fold is not what its journal folds to"), "{damage:?}");
    assert!(damage[0].contains("holdpoint import"), "{damage:?}");
}

#[test]
fn k3_a_fold_that_asks_something_else_beside_the_digest_of_what_was_asked_is_not_read() {
    let (mut play, _) = Play::begin(1, "s", "ann", 10);
    play.speak(WORDS, 20);
    let text = saved::save(&play.run).unwrap();
    assert!(text.contains("Shall we book it?") && saved::read(&text, &play.run.workflow).is_some());
    let other = text.replace("Shall we book it?", "Shall we sell it?");
    assert_eq!(saved::read(&other, &play.run.workflow), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_fold_that_rotted_is_not_used_and_is_told() {
    let bed = Bed::sled().await;
    let (play, link) = waiting(&bed).await;
    bed.journal().save_fold(Box::new(play.run.clone()), link).await.unwrap();
    bed.journal().close().await;
    let path = bed.path().to_path_buf();
    // Opened and closed once more: then it lies in the tree, and not in the log.
    open(&path).await.unwrap().journal().close().await;
    flip(&path, holdpoint::store::keys::FOLD);
    let bed = bed.reopened(open(&path).await.unwrap());
    assert_eq!(saved_of(&*bed.journal(), &play.run).await, None);
    let damage = bed.journal().verify().await.unwrap().damage;
    assert!(damage.iter().any(|what| what.contains("its saved fold cannot be read")), "{damage:?}");
}

/// Waits until something of a run is saved; it is saved beside everything else.
async fn until_saved(journal: &dyn Journal, run: &RunId) -> Run {
    let head = journal.head(run).await.unwrap().unwrap();
    let json = journal.definition(&head.definition).await.unwrap().unwrap();
    let workflow = Arc::new(serde_json::from_str(&json).unwrap());
    for _ in 0..100_000 {
        if let Some(saved) = journal.saved_fold(run, &workflow).await.unwrap() {
            return saved;
        }
        tokio::task::yield_now().await;
    }
    panic!("nothing was saved of `{run}`");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_taken_up_from_its_fold_ends_as_it_would_have_and_once() {
    let dir = tempfile::TempDir::new().unwrap();
    let config = StoreConfig { fold_events: 2, ..config(dir.path()) };
    let flows = [approval(Patience::default())];
    let store = open_with(&config).await.unwrap();
    let ground = Ground { journal: store.journal(), ..Ground::new(writers()) };
    let engine = ground.boot(&flows).await;
    let begun = engine.start(start("approval", "", ""), &someone()).await.unwrap();
    let run = begun.run.clone();
    let request = request_of(&all(begun.watch).await);
    let saved = until_saved(&*ground.journal, &run).await;
    assert!(saved.version > 2, "{}", saved.version);
    engine.drain(std::time::Duration::ZERO).await;
    store.journal().close().await;
    drop((engine, ground, store));

    let store = open_with(&config).await.unwrap();
    let ground = Ground { journal: store.journal(), ..Ground::new(writers()) };
    let engine = ground.boot(&flows).await;
    let taken = engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    let told = names(&all(taken.watch).await);
    assert_eq!(told.last(), Some(&"completed"), "{told:?}");
    let whole = engine.watch(run.as_str(), 0, Until::Over, &someone()).await.unwrap();
    let said = names(&all(whole).await).into_iter().filter(|name| *name == "step_completed");
    assert_eq!(said.count(), 2, "each agent spoke once");
    assert_eq!(store.journal().verify().await.unwrap().damage, Vec::<String>::new());
}
