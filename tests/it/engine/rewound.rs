//! A store that went back in time, and what those who live know better: which runs lack something though somebody wrote
//! over them since, and what was begun in that.

use holdpoint::engine::Engine;
use holdpoint::kernel::workflow::{Patience, Safety};
use holdpoint::ports::{Journal, Note};
use serde_json::json;

use crate::support::pair::Pair;
use crate::support::plays::{answer, payers, start, writers};
use crate::support::workflows::{approval, with_tool};
use crate::support::{all, request_of, someone};

/// What the store's own log says of runs that lack something: which, how far each was known, where it is, what was done.
async fn told(journal: &dyn Journal) -> Vec<(String, u64, u64, Vec<String>)> {
    let log = journal.notes(None, 100).await.unwrap().rows;
    let mut told: Vec<_> = log
        .into_iter()
        .filter_map(|logged| match logged.note {
            Note::Rewound { run: Some(run), had, has, deeds } => {
                Some((run.to_string(), had, has, deeds))
            }
            _ => None,
        })
        .collect();
    told.sort();
    told.dedup();
    told
}

async fn asked(pair: &Pair) -> (String, String) {
    let begun = pair.a.engine.start(start("approval", "", ""), &someone()).await.unwrap();
    let run = begun.run.to_string();
    (run, request_of(&all(begun.watch).await))
}

#[tokio::test]
async fn j10_a_run_that_was_written_over_since_is_named_in_the_log() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    let (same, first) = asked(&pair).await;
    let (beyond, second) = asked(&pair).await;
    let (untouched, _) = asked(&pair).await;
    pair.cluster.mute(true);
    let picture = pair.cluster.picture();
    let version =
        async |engine: &Engine, run: &str| engine.head(run, &someone()).await.unwrap().version;
    a.cancel(&same, "enough", "", &someone()).await.unwrap();
    a.cancel(&beyond, "enough", "", &someone()).await.unwrap();
    let had = [version(a, &same).await, version(a, &beyond).await];
    pair.cluster.go_back(&picture);
    // B has seen none of it, and could not know.
    b.cancel(&same, "too much", "", &someone()).await.unwrap();
    b.answer(answer(&second, json!("approve")), &someone()).await.unwrap();
    pair.settle().await;
    let has = [version(b, &same).await, version(b, &beyond).await];
    assert!(had[0] == has[0] && had[1] < has[1], "{had:?} {has:?}");
    pair.pass(5_000).await;
    assert!(a.is_rewound() && b.is_rewound());
    let told = told(&*pair.a.replica.journal()).await;
    let of = |run: &str| told.iter().find(|(told, ..)| told == run).cloned();
    assert_eq!(of(&same), Some((same.clone(), had[0], has[0], Vec::new())), "{told:?}");
    assert_eq!(of(&beyond), Some((beyond.clone(), had[1], has[1], Vec::new())), "{told:?}");
    assert_eq!(of(&untouched), None, "{told:?}; {first}");
    let note = Note::Rewound { run: None, had: 5, has: 9, deeds: Vec::new() };
    assert!(note.words().contains("another history up to 5 than it did, and ends at 9"));
}

#[tokio::test]
async fn j10_a_deed_that_was_begun_in_what_is_missing_is_told_though_the_run_was_written_over() {
    let pair = Pair::new(&[with_tool(Safety::Unsafe)], || payers().slowly("worker")).await;
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    let begun = a.start(start("with_tool", "", ""), &someone()).await.unwrap();
    let run = begun.run.to_string();
    pair.a.actors.asked().await;
    pair.settle().await;
    pair.cluster.mute(true);
    let picture = pair.cluster.picture();
    pair.a.actors.gate("worker").add_permits(1);
    pair.settle().await;
    assert_eq!(pair.calls().len(), 1, "it is on its way");
    let had = a.head(&run, &someone()).await.unwrap().version;
    pair.cluster.go_back(&picture);
    b.cancel(&run, "too much", "", &someone()).await.unwrap();
    pair.pass(5_000).await;
    let told = told(&*pair.a.replica.journal()).await;
    let is_it = |(of, known, _, deeds): &(String, u64, u64, Vec<String>)| {
        *of == run && *known >= had && deeds.iter().any(|deed| deed.starts_with("pay "))
    };
    assert!(told.iter().any(is_it), "{told:?}");
}
