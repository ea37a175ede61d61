//! Twins: the same random life in memory and in sled; whatever can be read must be equal.

use holdpoint::kernel::{Command, Millis, Principal, Status};
use holdpoint::ports::{Append, Journal, RunFilter};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::kit::{
    Bed, Play, WIDE, WORDS, all, key_row, open, run_id, session_id, wide, workflow,
};

/// One thing that happens.
#[derive(Debug, Clone)]
enum Deed {
    Begin { session: u8, owner: u8, key: Option<u8>, deadline: bool },
    Spread,
    Go { run: usize, words: usize },
    Cancel { run: usize },
    Repeat { run: usize },
    Prune { before: u64, limit: usize },
    Restart,
}

fn deed() -> impl Strategy<Value = Deed> {
    let begin = (0..4_u8, 0..2_u8, proptest::option::of(0..6_u8), any::<bool>());
    prop_oneof![
        4 => begin.prop_map(|(session, owner, key, deadline)| {
            Deed::Begin { session, owner, key, deadline }
        }),
        1 => Just(Deed::Spread),
        8 => (any::<usize>(), 0..60_usize).prop_map(|(run, words)| Deed::Go { run, words }),
        1 => any::<usize>().prop_map(|run| Deed::Cancel { run }),
        1 => any::<usize>().prop_map(|run| Deed::Repeat { run }),
        1 => (0..100_u64, 0..4_usize).prop_map(|(before, limit)| Deed::Prune { before, limit }),
        1 => Just(Deed::Restart),
    ]
}

#[test]
fn both_stores_tell_the_same_story() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut runner =
        TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    runner
        .run(&proptest::collection::vec(deed(), 1..60), |deeds| {
            runtime.block_on(live(deeds));
            Ok(())
        })
        .unwrap();
}

async fn live(deeds: Vec<Deed>) {
    let memory = Bed::memory();
    let mut sled = Bed::sled().await;
    memory.define().await;
    sled.define().await;
    let mut plays: Vec<(Play, Append)> = Vec::new();
    for (at, deed) in deeds.into_iter().enumerate() {
        let at = at as u64;
        let (left, right) = (memory.journal(), sled.journal());
        match deed {
            Deed::Begin { session, owner, key, deadline } => {
                let owner = format!("o{owner}");
                let workflow = workflow(deadline.then_some(1_000));
                let (play, mut begin) = Play::begin_with(
                    at,
                    (&format!("s{session}"), &owner),
                    at,
                    &workflow,
                    "Go.".into(),
                );
                begin.key = key.map(|key| (format!("k{key}"), key_row(&begin.run)));
                if both(&*left, &*right, begin.clone()).await {
                    plays.push((play, begin));
                }
            }
            Deed::Spread => {
                let workflow = wide(WIDE);
                let (play, begin) = Play::begin_with(at, ("s0", "o0"), at, &workflow, "Go.".into());
                if both(&*left, &*right, begin.clone()).await {
                    plays.push((play, begin));
                }
            }
            Deed::Go { run, words } => {
                let Some(index) = run.checked_rem(plays.len()) else { continue };
                let (play, last) = &mut plays[index];
                let append = match play.run.status {
                    Status::Running => play.speak(&WORDS.repeat(words + 1), at),
                    Status::Waiting { .. } => play.approve(at),
                    Status::Completed | Status::Failed(_) | Status::Cancelled { .. } => continue,
                };
                *last = append.clone();
                both(&*left, &*right, append).await;
            }
            Deed::Cancel { run } => {
                let Some(index) = run.checked_rem(plays.len()) else { continue };
                let (play, last) = &mut plays[index];
                if !play.run.status.is_over() {
                    let (reason, key) = (String::new(), String::new());
                    let principal = Principal::local("cli");
                    *last = play.take(&Command::Cancel { reason, principal, key }, at);
                    both(&*left, &*right, last.clone()).await;
                }
            }
            Deed::Repeat { run } => {
                let Some(index) = run.checked_rem(plays.len()) else { continue };
                // Once its run is pruned, a first append would begin it anew: in both.
                both(&*left, &*right, plays[index].1.clone()).await;
            }
            Deed::Prune { before, limit } => {
                let gone = left.prune(Millis(before), limit).await.unwrap();
                assert_eq!(right.prune(Millis(before), limit).await.unwrap(), gone);
            }
            Deed::Restart => {
                right.close().await;
                sled.store = open(sled.path()).await.unwrap();
            }
        }
        compare(&*memory.journal(), &*sled.journal(), at).await;
    }
}

/// Appends to both, which must say the same; whether they took it.
async fn both(left: &dyn Journal, right: &dyn Journal, append: Append) -> bool {
    let (one, other) = (left.append(append.clone()).await, right.append(append).await);
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
    one.is_ok()
}

async fn compare(left: &dyn Journal, right: &dyn Journal, runs: u64) {
    for number in 0..=runs {
        let run = run_id(number);
        let head = left.head(&run).await.unwrap();
        assert_eq!(right.head(&run).await.unwrap(), head);
        let events = left.read(&run, number % 5, 7).await.unwrap();
        assert_eq!(right.read(&run, number % 5, 7).await.unwrap(), events);
        assert_eq!(right.key_of(&run).await.unwrap(), left.key_of(&run).await.unwrap());
    }
    for number in 0..6 {
        let session = session_id(&format!("s{number}"));
        assert_eq!(right.session(&session).await.unwrap(), left.session(&session).await.unwrap());
        let (owner, key) = (format!("o{}", number % 2), format!("k{number}"));
        assert_eq!(right.key(&owner, &key).await.unwrap(), left.key(&owner, &key).await.unwrap());
        let filter = RunFilter { session: Some(session), ..RunFilter::default() };
        let heads = left.heads(&filter, None, 3).await.unwrap();
        assert_eq!(right.heads(&filter, None, 3).await.unwrap(), heads);
    }
    for limit in [1, 4] {
        let inbox = |journal| {
            all(limit, move |cursor: Option<String>, limit| async move {
                let journal: &dyn Journal = journal;
                journal.waiting(cursor.as_deref(), limit).await.unwrap()
            })
        };
        assert_eq!(inbox(right).await, inbox(left).await);
    }
    assert_eq!(right.next_due().await.unwrap(), left.next_due().await.unwrap());
    let due = left.due(Millis(1_010), 5).await.unwrap();
    assert_eq!(right.due(Millis(1_010), 5).await.unwrap(), due);
    assert_eq!(right.running(None, 3).await.unwrap(), left.running(None, 3).await.unwrap());
    let sessions = left.sessions(None, None, 2).await.unwrap();
    assert_eq!(right.sessions(None, None, 2).await.unwrap(), sessions);
    let (one, other) = (left.verify().await.unwrap(), right.verify().await.unwrap());
    assert_eq!(other.damage, one.damage);
    assert_eq!(
        (other.runs, other.sessions, other.events, other.open_questions),
        (one.runs, one.sessions, one.events, one.open_questions)
    );
}
