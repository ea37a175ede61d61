//! Contract: who drives a run, J4 and J9 to J12, one body each, on every store. A store that one process writes to is
//! a cluster of one; what takes two is tried on the reference below.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint::kernel::Millis;
use holdpoint::ports::{
    Append, AppendError, Appended, Guard, Hold, Incarnation, Journal, RunFilter, Token,
};
use holdpoint::store::{MemoryCluster, Mishap};

use crate::support::SimClock;
use crate::support::kit::{Bed, Play, WORDS, laws, moved_to, run_id, workflow};

laws! {
    j4_a_superseded_writer_writes_nothing_ever_again,
    j4_a_run_that_was_left_is_written_to_by_nobody_who_drove_it,
    j9_an_append_submitted_again_with_its_token_is_recorded_once,
    j9_the_same_words_with_another_token_are_another_append,
    j10_what_is_acknowledged_is_there_from_then_on,
    j11_whoever_reads_changes_nothing,
    j12_a_run_is_taken_only_from_whom_is_named,
}

const TAKE: Hold = Hold::Take { from: None };

async fn j4_a_superseded_writer_writes_nothing_ever_again(bed: Bed) {
    let journal = bed.journal();
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let run = play.run.id.clone();
    let first = journal.append(Append { hold: TAKE, ..begin }).await.unwrap();
    let second = journal.take(&run, Some(journal.incarnation()), play.run.version).await.unwrap();
    assert!(second > first.fence && first.fence > 0);

    let stale = Append { fence: Some(first.fence), ..play.clone().speak("from the past", 20) };
    let refused = journal.append(stale).await;
    assert!(matches!(refused, Err(AppendError::Superseded)), "{refused:?}");
    let spoken = Append { fence: Some(second), hold: Hold::Leave, ..play.speak(WORDS, 20) };
    assert_eq!(journal.append(spoken).await.unwrap().fence, 0, "it waits, and is nobody's");

    let late = play.approve(30);
    for fence in [first.fence, second] {
        let refused = journal.append(Append { fence: Some(fence), ..late.clone() }).await;
        assert!(matches!(refused, Err(AppendError::Superseded)), "{refused:?}");
    }
    journal.append(late).await.unwrap();
}

async fn j4_a_run_that_was_left_is_written_to_by_nobody_who_drove_it(bed: Bed) {
    let journal = bed.journal();
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let held = journal.append(Append { hold: TAKE, ..begin }).await.unwrap();
    // Whoever decides something drives nothing by that.
    let parked = Append { hold: Hold::Leave, ..play.speak(WORDS, 20) };
    journal.append(parked).await.unwrap();
    let approved = Append { hold: TAKE, ..play.approve(30) };
    let again = journal.append(approved).await.unwrap();
    assert!(again.fence > held.fence);
    let spoken = Append { fence: Some(held.fence), ..play.clone().speak("late", 40) };
    let refused = journal.append(spoken.clone()).await;
    assert!(matches!(refused, Err(AppendError::Superseded)), "{refused:?}");
    let kept = journal.append(Append { fence: Some(again.fence), ..spoken }).await.unwrap();
    assert_eq!(kept.fence, again.fence);
}

/// What was said the first time; but for the link, which a store may have to look for.
fn is_told_again(again: Appended, first: Appended) {
    assert_eq!((again.version, again.fence), (first.version, first.fence));
    assert!(again.link.is_none_or(|link| Some(link) == first.link), "{again:?} {first:?}");
}

async fn j9_an_append_submitted_again_with_its_token_is_recorded_once(bed: Bed) {
    let journal = bed.journal();
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let token = |number| Some(Token { by: journal.incarnation(), number });
    let begin = Append { token: token(1), hold: TAKE, channels: vec!["webhook".into()], ..begin };
    let first = journal.append(begin.clone()).await.unwrap();
    is_told_again(journal.append(begin).await.unwrap(), first);
    let spoken = play.speak(WORDS, 20);
    let (fence, hold) = (Some(first.fence), Hold::Leave);
    let spoken = Append { token: token(2), fence, hold, ..spoken };
    let second = journal.append(spoken.clone()).await.unwrap();
    // Though it was left with it.
    is_told_again(journal.append(spoken).await.unwrap(), second);
    let next = Append { hold: TAKE, ..play.approve(30) };
    journal.append(next).await.expect("whatever comes after it goes on from it");
    let read = journal.read(&play.run.id, 0, 1_000).await.unwrap();
    assert_eq!(read.len() as u64, play.run.version);
    assert_eq!(journal.outbox_entries(Millis(1_000), 10).await.unwrap().len(), 1);
}

async fn j9_the_same_words_with_another_token_are_another_append(bed: Bed) {
    let journal = bed.journal();
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    journal.append(begin).await.unwrap();
    let token = |number| Some(Token { by: journal.incarnation(), number });
    let spoken = play.speak(WORDS, 20);
    journal.append(Append { token: token(1), ..spoken.clone() }).await.unwrap();
    for token in [token(2), None] {
        let again = journal.append(Append { token, ..spoken.clone() }).await;
        assert_eq!(moved_to(again), play.run.version);
    }
}

async fn j10_what_is_acknowledged_is_there_from_then_on(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    for number in 0..8 {
        let mut play = Play::park(&*journal, number, "s", 10, &workflow(None)).await;
        let approved = play.approve(20);
        let appended = journal.append(approved).await.unwrap();
        assert_eq!(appended.version, play.run.version);
        let read = journal.read(&play.run.id, 0, 1_000).await.unwrap();
        assert_eq!(read.last().unwrap().version, appended.version);
        assert_eq!(journal.head(&play.run.id).await.unwrap().unwrap().version, appended.version);
    }
}

async fn j11_whoever_reads_changes_nothing(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let channels = vec!["webhook".into()];
    let held = journal.append(Append { hold: TAKE, channels, ..begin }).await.unwrap();
    Play::park(&*journal, 2, "s", 10, &workflow(Some(1_000))).await;
    let before = picture(&*journal).await;
    let run = &play.run.id;
    journal.session(&play.run.session).await.unwrap();
    journal.due(Millis(9_999), 10).await.unwrap();
    journal.next_due().await.unwrap();
    journal.outbox_entries(Millis(9_999), 10).await.unwrap();
    journal.next_outbox_entry().await.unwrap();
    journal.hooks(run).await.unwrap();
    journal.forks(run).await.unwrap();
    journal.notes(None, 10).await.unwrap();
    journal.verify().await.unwrap();
    journal.evidence().tree().await.unwrap();
    journal.evidence().entries(run, 0, 10).await.unwrap();
    if let Some(replicas) = journal.replicas() {
        replicas.living().await.unwrap();
        replicas.stranded(10).await.unwrap();
        replicas.standing(run).await.unwrap();
        replicas.gone_on(&[(run.clone(), 0)]).await.unwrap();
        replicas.guard(&Guard::hooks(run)).await.unwrap();
    }
    assert_eq!(picture(&*journal).await, before);
    let spoken = Append { fence: Some(held.fence), ..play.speak(WORDS, 20) };
    journal.append(spoken).await.expect("whoever drives it still does");
}

async fn picture(journal: &dyn Journal) -> BTreeMap<String, String> {
    let mut picture = BTreeMap::new();
    for head in journal.heads(&RunFilter::default(), None, 100).await.unwrap().rows {
        let events = journal.read(&head.run, 0, 1_000).await.unwrap();
        picture.insert(head.run.to_string(), format!("{head:?}\n{events:?}"));
    }
    let outbox_entries = journal.outbox_entries(Millis(u64::MAX), 100).await.unwrap();
    picture.insert("outbox".into(), format!("{outbox_entries:?}"));
    let waiting = journal.evidence().waiting_leaves(100).await.unwrap();
    picture.insert("leaves".into(), format!("{waiting:?}"));
    picture
}

async fn j12_a_run_is_taken_only_from_whom_is_named(bed: Bed) {
    let journal = bed.journal();
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let run = play.run.id.clone();
    let stranger = Some(Incarnation(u64::MAX));
    journal.append(begin).await.unwrap();
    let spoken = play.speak(WORDS, 20);
    let taken = Append { hold: Hold::Take { from: stranger }, ..spoken.clone() };
    let refused = journal.append(taken).await;
    assert!(matches!(refused, Err(AppendError::Held { by: None })), "{refused:?}");
    journal.append(Append { hold: TAKE, ..spoken }).await.unwrap();
    let by = Some(journal.incarnation());
    let refused = journal.take(&run, stranger, play.run.version).await;
    assert!(matches!(&refused, Err(AppendError::Held { by: held }) if *held == by), "{refused:?}");
    journal.take(&run, by, play.run.version).await.unwrap();
}

fn pair() -> (Arc<SimClock>, MemoryCluster, [holdpoint::store::MemoryReplica; 2]) {
    let clock = Arc::new(SimClock::default());
    let cluster = MemoryCluster::new(clock.clone());
    let both = [cluster.join(), cluster.join()];
    (clock, cluster, both)
}

#[tokio::test]
async fn j12_the_living_are_displaced_by_nobody_who_does_not_name_them() {
    let (clock, _, [a, b]) = pair();
    let (journal, other) = (a.journal(), b.journal());
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let run = play.run.id.clone();
    let held = journal.append(Append { hold: TAKE, ..begin }).await.unwrap();
    let refused = other.take(&run, None, play.run.version).await;
    let by = Some(a.incarnation());
    assert!(matches!(&refused, Err(AppendError::Held { by: held }) if *held == by), "{refused:?}");
    let replicas = other.replicas().unwrap();
    assert_eq!(replicas.stranded(10).await.unwrap(), []);
    let standing = replicas.standing(&run).await.unwrap().unwrap();
    assert_eq!(standing.holder, Some((a.incarnation(), true)));

    clock.advance(7_000);
    replicas.beat().await.unwrap();
    assert_eq!(replicas.bury().await.unwrap().len(), 1);
    assert_eq!(replicas.stranded(10).await.unwrap(), std::slice::from_ref(&run));
    let taken = Append { hold: Hold::Take { from: by }, ..play.clone().speak("by another", 20) };
    other.append(taken).await.unwrap();
    let zombie = Append { fence: Some(held.fence), ..play.speak("by the dead", 20) };
    let refused = journal.append(zombie).await;
    assert!(matches!(refused, Err(AppendError::Superseded)), "J4 comes before J3: {refused:?}");
    assert_eq!(journal.replicas().unwrap().beat().await.unwrap(), None, "death is for good");
    journal.replicas().unwrap().reborn().await.unwrap();
    assert!(a.incarnation() > b.incarnation(), "a life is never given twice");
}

#[tokio::test]
async fn j9_an_answer_that_was_lost_is_found_out_by_asking_again() {
    let (_, _, [a, _]) = pair();
    let journal = a.journal();
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let token = |number| Some(Token { by: journal.incarnation(), number });
    for (number, mishap) in [(1, Mishap::Unheard), (2, Mishap::Unsent)] {
        let append = if number == 1 { begin.clone() } else { play.speak(WORDS, 20) };
        let append = Append { token: token(number), ..append };
        a.befall(mishap);
        let unknown = journal.append(append.clone()).await;
        assert!(matches!(unknown, Err(AppendError::Unknown(_))), "{unknown:?}");
        let appended = journal.append(append).await.unwrap();
        assert_eq!(appended.version, play.run.version);
    }
    let read = journal.read(&play.run.id, 0, 1_000).await.unwrap();
    assert_eq!(read.len() as u64, play.run.version);
}

#[tokio::test]
async fn j10_a_store_that_has_gone_back_has_less_than_it_acknowledged() {
    let (_, cluster, [a, b]) = pair();
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    a.journal().append(begin).await.unwrap();
    let picture = cluster.picture();
    let spoken = play.speak(WORDS, 20);
    a.journal().append(spoken).await.unwrap();
    let (journal, known) = (b.journal(), [(play.run.id.clone(), play.run.version)]);
    let replicas = journal.replicas().unwrap();
    assert_eq!(replicas.gone_on(&known).await.unwrap(), []);
    cluster.go_back(&picture);
    assert_eq!(replicas.gone_on(&known).await.unwrap(), [play.run.id.clone()], "it says so");
    assert!(cluster.join().incarnation() > b.incarnation());
}

#[tokio::test]
async fn what_was_decided_on_must_not_have_changed_when_it_is_written() {
    let (_, _, [a, b]) = pair();
    let (_, one) = Play::begin(1, "s", "ann", 10);
    let (_, two) = Play::begin(2, "s", "ann", 10);
    let guard = |raises| vec![Guard { name: "purse s".into(), number: 0, raises }];
    a.journal().append(Append { guards: guard(true), ..one }).await.unwrap();
    let refused = b.journal().append(Append { guards: guard(false), ..two.clone() }).await;
    assert!(matches!(refused, Err(AppendError::GuardMoved(_))), "{refused:?}");
    assert_eq!(b.journal().head(&run_id(2)).await.unwrap(), None);
    let journal = b.journal();
    let number = journal.replicas().unwrap().guard("purse s").await.unwrap();
    let guards = vec![Guard { name: "purse s".into(), number, raises: false }];
    journal.append(Append { guards, ..two }).await.unwrap();
}

#[tokio::test]
async fn k7_what_rests_on_what_is_kept_is_not_written_once_that_is_another() {
    let (_, _, [a, b]) = pair();
    rests_on_what_is_kept([&*a.journal(), &*b.journal()]).await;
}

/// An append that rests on what is kept under a name is written while that is so, and not afterwards.
pub(crate) async fn rests_on_what_is_kept([a, b]: [&dyn Journal; 2]) {
    let begins = |number| Play::begin(number, &format!("s{number}"), "ann", 10).1;
    let resting =
        |number, text| Append { guards: vec![Guard::kept("keys", text)], ..begins(number) };
    a.append(resting(1, None)).await.unwrap();
    for text in ["one", "two"] {
        let knew = (text == "two").then_some("one");
        assert!(b.replicas().unwrap().remember_if("keys", knew, text).await.unwrap());
        let refused = a.append(resting(2, knew)).await;
        assert!(matches!(&refused, Err(AppendError::GuardMoved(_))), "{refused:?}");
        assert_eq!(a.head(&run_id(2)).await.unwrap(), None);
    }
    a.append(resting(2, Some("two"))).await.unwrap();
    // The same of what is kept beside it.
    let keeps = async |text: &str| {
        let guard = Guard::kept("keys", Some(text));
        a.replicas().unwrap().remember_resting("halts", (None, "all"), Some(&guard)).await.unwrap()
    };
    assert!(!keeps("one").await && a.remembered("halts").await.unwrap().is_none());
    assert!(keeps("two").await && !keeps("two").await, "whoever knew of none comes once");
    // Many rest on it at once, and on nothing else.
    b.append(resting(3, Some("two"))).await.unwrap();
}

#[tokio::test]
async fn an_entry_is_carried_by_one_of_them_and_by_another_when_that_takes_too_long() {
    let (clock, _, [a, b]) = pair();
    let (play, begin) = Play::begin(1, "s", "ann", 10);
    a.journal().append(Append { channels: vec!["webhook".into()], ..begin }).await.unwrap();
    let (one, two) = (a.journal(), b.journal());
    let take = async |journal: &Arc<dyn Journal>| {
        journal.replicas().unwrap().take_outbox_entries(Millis(1_000), 10).await.unwrap()
    };
    assert_eq!(take(&one).await.len(), 1);
    assert_eq!(take(&two).await.len(), 0);
    clock.advance(60_000);
    assert_eq!(take(&two).await.len(), 1, "whoever had it is taken for lost");
    let tip = play.run.version;
    let late = holdpoint::ports::Settlement::Dropped;
    one.settle(&play.run.id, "webhook", late).await.unwrap();
    let left = two.outbox_entries(Millis(1_000), 10).await.unwrap();
    assert_eq!(left.len(), 1, "what becomes of it is theirs to say");
    assert_eq!(left[0].tip, tip);
}
