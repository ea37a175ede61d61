//! A store that went back in time, and what those who live know better: which runs lack something though somebody wrote
//! over them since, what was begun in that, and what was stopped.

use holdpoint::engine::{Engine, EngineError, Until};
use holdpoint::kernel::workflow::{Patience, Pattern, Safety, Step};
use holdpoint::kernel::{Refusal, Scope, Span};
use holdpoint::ports::{Introduction, Journal, Note};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;

use crate::support::log::Log;
use crate::support::pair::{Pair, node};
use crate::support::plays::{answer, payers, start, writers};
use crate::support::workflows::{approval, with_tool};
use crate::support::{all, request_of, someone};

/// What the store's own log says of runs that lack something: which, how far each was known, where it is, what was done.
async fn told(journal: &dyn Journal) -> Vec<(String, u64, u64, Vec<String>)> {
    let log = journal.notes(None, 100).await.unwrap().rows;
    let mut told: Vec<_> = log
        .into_iter()
        .filter_map(|logged| {
            let Note::Rewound { run: Some(run), had, has, deeds } = logged.note else {
                return None;
            };
            Some((run.to_string(), had, has, deeds))
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
async fn j10_what_was_written_over_is_not_taken_in_on_top_of_what_was_known() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    let (run, request) = asked(&pair).await;
    pair.cluster.mute(true);
    let picture = pair.cluster.picture();
    a.cancel(&run, "enough", "", &someone()).await.unwrap();
    let had = a.head(&run, &someone()).await.unwrap().version;
    pair.cluster.go_back(&picture);
    b.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    pair.settle().await;
    let has = b.head(&run, &someone()).await.unwrap().version;
    assert!(had < has, "what A knows lies within what there is: {had} {has}");
    // No beat has been missed yet, and nobody has looked back.
    assert!(!a.is_rewound());
    let refused = a.cancel(&run, "enough", "", &someone()).await.map(drop).unwrap_err();
    assert!(refused.to_string().contains("gone back in time"), "{refused}");
    pair.settle().await;
    assert!(a.is_rewound(), "it looked at once");
    // What was written since is whole, and A reads it as it is.
    let read = a.head(&run, &someone()).await.unwrap();
    let whole = b.head(&run, &someone()).await.unwrap();
    assert_eq!((read.version, &read.status), (whole.version, &whole.status));
    let told = told(&*pair.a.replica.journal()).await;
    assert!(told.iter().any(|(of, known, ..)| *of == run && *known == had), "{told:?}");
}

#[tokio::test]
async fn j10_whoever_watches_a_run_that_is_missing_whole_is_told_whoever_finds_that_first() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let a = &pair.a.engine;
    let picture = pair.cluster.picture();
    let (run, _) = asked(&pair).await;
    let mut watch = a.watch(&run, 0, Until::Over, &someone()).await.unwrap();
    while watch.after() < a.head(&run, &someone()).await.unwrap().version {
        watch.next().await.unwrap();
    }
    let mut waiting = Box::pin(watch.next());
    assert!(futures::poll!(&mut waiting).is_pending(), "nothing more comes yet");
    pair.cluster.go_back(&picture);
    // Found by a look, before the next heartbeat looks back.
    assert!(a.head(&run, &someone()).await.is_err() && !a.is_rewound());
    pair.settle().await;
    let std::task::Poll::Ready(told) = futures::poll!(&mut waiting) else { panic!("silence") };
    assert!(matches!(told, Err(EngineError::Rewound)), "{told:?}");
}

#[tokio::test]
async fn j10_a_stream_that_told_one_history_does_not_go_on_with_another() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    let (run, request) = asked(&pair).await;
    pair.cluster.mute(true);
    let picture = pair.cluster.picture();
    let version = async |engine: &Engine| engine.head(&run, &someone()).await.unwrap().version;
    a.claim(&request, Some(Span::ForMs(3_600_000)), "", &someone()).await.unwrap();
    let had = version(a).await;
    // Each stands where it has been told everything: one from the beginning on, one from there.
    let mut whole = a.watch(&run, 0, Until::Over, &someone()).await.unwrap();
    while whole.after() < had {
        whole.next().await.unwrap();
    }
    let mut tail = a.watch(&run, had, Until::Over, &someone()).await.unwrap();
    pair.cluster.go_back(&picture);
    b.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    pair.settle().await;
    assert!(had < version(b).await);
    pair.pass(5_000).await;
    assert!(a.is_rewound());
    for watch in [&mut whole, &mut tail] {
        let told = watch.next().await;
        assert!(matches!(told, Err(EngineError::Rewound)), "{told:?}");
    }
    // Whoever begins anew is told what there is.
    let mut anew = a.watch(&run, 0, Until::CurrentRest, &someone()).await.unwrap();
    while anew.next().await.unwrap().is_some() {}
    assert!(anew.after() > had);
}

/// The request that a run asks now.
async fn open_at(engine: &Engine, run: &str) -> String {
    let watch = engine.watch(run, 0, Until::CurrentRest, &someone()).await.unwrap();
    request_of(&all(watch).await)
}

#[tokio::test]
async fn k9_what_is_asked_in_the_place_of_what_was_lost_is_not_answered_by_the_id_of_that() {
    let mut twice = approval(Patience::default());
    let Pattern::Sequential { steps } = &mut twice.pattern else { panic!("{twice:?}") };
    let again = Step { id: "again".into(), ..steps[1].clone() };
    steps.insert(2, again);
    let pair = Pair::new(&[twice], writers).await;
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    let (run, first) = asked(&pair).await;
    pair.cluster.mute(true);
    let picture = pair.cluster.picture();
    a.answer(answer(&first, json!("approve")), &someone()).await.unwrap();
    pair.settle().await;
    let lost = open_at(a, &run).await;
    pair.cluster.go_back(&picture);
    pair.clock.advance(1);
    // B has seen none of it, and could not know.
    b.answer(answer(&first, json!("approve")), &someone()).await.unwrap();
    pair.settle().await;
    let since = open_at(b, &run).await;
    let late = b.answer(answer(&lost, json!("approve")), &someone()).await;
    assert!(lost != since && lost.len() == since.len(), "{lost} {since}");
    let Err(EngineError::Refused(Refusal::UnknownRequest(_))) = late else { panic!("{late:?}") };
    assert_eq!(open_at(b, &run).await, since);
    b.answer(answer(&since, json!("approve")), &someone()).await.unwrap();
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

#[tokio::test]
async fn j10_a_deed_in_a_run_that_is_missing_whole_is_told_though_a_look_found_that_first() {
    let pair = Pair::new(&[with_tool(Safety::Unsafe)], payers).await;
    let a = &pair.a.engine;
    pair.cluster.mute(true);
    let picture = pair.cluster.picture();
    let begun = a.start(start("with_tool", "", ""), &someone()).await.unwrap();
    let run = begun.run.to_string();
    pair.settle().await;
    assert_eq!(pair.calls().len(), 1, "it was done");
    pair.cluster.go_back(&picture);
    assert!(a.head(&run, &someone()).await.is_err() && !a.is_rewound(), "found by a look");
    pair.pass(5_000).await;
    let told = told(&*pair.a.replica.journal()).await;
    let is_it = |(of, _, has, deeds): &(String, u64, u64, Vec<String>)| {
        *of == run && *has == 0 && deeds.iter().any(|deed| deed.starts_with("pay "))
    };
    assert!(told.iter().any(is_it), "{told:?}");
}

fn standing(engine: &Engine) -> Vec<String> {
    let mut standing: Vec<_> = engine.halts().0.iter().map(|halt| halt.id.clone()).collect();
    standing.sort();
    standing
}

#[tokio::test]
async fn k7_a_halt_that_the_living_know_stands_though_the_store_has_an_older_list() {
    let workflows = [approval(Patience::default())];
    let pair = Pair::new(&workflows, writers).await;
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    let first = pair.halt(a, Scope::Workflow("approval".into())).await;
    pair.pass(2_000).await;
    let picture = pair.cluster.picture();
    let second = pair.halt(a, Scope::All).await;
    pair.pass(2_000).await;
    let mut both = vec![first.id.clone(), second.id.clone()];
    both.sort();
    assert_eq!((standing(a), standing(b)), (both.clone(), both.clone()));
    pair.cluster.go_back(&picture);
    let refused = b.start(start("approval", "", ""), &someone()).await.map(drop);
    assert!(refused.is_err(), "nothing is begun before anybody has looked");
    assert_eq!(standing(b), both, "it stands at once");
    pair.pass(5_000).await;
    assert_eq!((standing(a), standing(b)), (both.clone(), both.clone()));
    // Whoever comes knows of it, too: it is kept.
    let c = node(&pair.cluster, &pair.clock, &pair.post, (&workflows, writers())).await;
    assert_eq!(standing(&c.engine), both);
    // Taken back it is over, at all of them and for good.
    a.release_store(false, &someone()).await.unwrap();
    b.release_halt(&second.id, &someone()).await.unwrap();
    pair.pass(3_000).await;
    for engine in [a, b, &c.engine] {
        assert_eq!(standing(engine), std::slice::from_ref(&first.id));
    }
    a.release_halt(&first.id, &someone()).await.unwrap();
    pair.pass(3_000).await;
    assert_eq!(standing(&c.engine), [""; 0]);
}

#[tokio::test]
async fn k7_a_halt_that_the_living_know_stands_though_others_wrote_another_list_since() {
    let workflows = [approval(Patience::default())];
    let pair = Pair::new(&workflows, writers).await;
    let a = &pair.a.engine;
    pair.b.replica.kill();
    let picture = pair.cluster.picture();
    let known = pair.halt(a, Scope::All).await;
    pair.a.replica.freeze();
    pair.cluster.go_back(&picture);
    // Started since, it could not know.
    let c = node(&pair.cluster, &pair.clock, &pair.post, (&workflows, writers())).await;
    assert_eq!(standing(&c.engine), [""; 0]);
    for _ in 0..3 {
        let other = pair.halt(&c.engine, Scope::Workflow("approval".into())).await;
        c.engine.release_halt(&other.id, &someone()).await.unwrap();
    }
    let other = pair.halt(&c.engine, Scope::Workflow("approval".into())).await;
    pair.a.replica.thaw();
    pair.pass(5_000).await;
    let mut both = vec![known.id, other.id];
    both.sort();
    assert_eq!((standing(a), standing(&c.engine)), (both.clone(), both));
}

#[tokio::test]
async fn j10_whoever_stops_because_another_found_it_says_so_counts_it_and_says_when_it_ends() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _heard = tracing::subscriber::set_default(subscriber);
    let recorder = PrometheusBuilder::new().build_recorder();
    let figures = recorder.handle();
    let _counted = metrics::set_default_local_recorder(&recorder);
    let picture = pair.cluster.picture();
    // Only A has written what is lost then: B lacks nothing.
    asked(&pair).await;
    pair.cluster.go_back(&picture);
    pair.pass(5_000).await;
    assert!(pair.a.engine.is_rewound() && pair.b.engine.is_rewound());
    let told = log.told();
    assert_eq!(told.matches("as another server found").count(), 1, "{told}");
    let figures = figures.render();
    assert!(figures.contains("\nholdpoint_store_rewound_total 2\n"), "one each: {figures}");
    pair.a.engine.release_store(false, &someone()).await.unwrap();
    pair.pass(3_000).await;
    let told = log.told();
    assert_eq!(told.matches("the store was released").count(), 2, "{told}");
}

#[tokio::test]
async fn j10_a_backup_of_an_earlier_epoch_is_held_though_that_epoch_had_begun_by_another_one() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    let release = async || {
        pair.pass(5_000).await;
        assert!(a.is_rewound() && b.is_rewound());
        a.release_store(false, &someone()).await.unwrap();
        pair.pass(5_000).await;
        assert!(!a.is_held() && !b.is_held());
    };
    let first = pair.cluster.picture();
    asked(&pair).await;
    pair.cluster.go_back(&first);
    release().await;
    let second = pair.cluster.picture();
    for _ in 0..2 {
        asked(&pair).await;
        pair.cluster.go_back(&second);
        release().await;
    }
}

#[tokio::test]
async fn whoever_releases_a_store_that_another_has_just_released_is_told_that_it_was_not_held() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    let picture = pair.cluster.picture();
    asked(&pair).await;
    let halt = pair.halt(a, Scope::All).await;
    pair.pass(2_000).await;
    pair.cluster.go_back(&picture);
    pair.pass(5_000).await;
    assert!(b.is_held() && standing(b) == [halt.id.clone()]);
    assert!(a.release_store(false, &someone()).await.unwrap().was_held);
    a.release_halt(&halt.id, &someone()).await.unwrap();
    // Before B has heard of either.
    assert!(b.is_held());
    let second = b.release_store(true, &someone()).await.unwrap();
    assert!(!second.was_held && !b.is_held());
    assert_eq!(standing(b), [""; 0], "nor does it say that a halt stands");
    let log = pair.a.replica.journal().notes(None, 100).await.unwrap().rows;
    let released = log.iter().filter(|logged| matches!(logged.note, Note::Released { .. }));
    assert_eq!(released.count(), 1);
}

#[tokio::test]
async fn a_server_that_was_taken_for_dead_begins_one_life_though_two_of_its_tasks_find_out() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let journal = pair.a.replica.journal();
    let replicas = journal.replicas().unwrap();
    let who = Introduction { name: "attic".into(), ..Introduction::default() };
    pair.a.engine.introduce(who).await;
    assert_eq!(pair.a.engine.replicas_known(), 1, "the other has not said who it is");
    pair.a.replica.freeze();
    pair.pass(11_000).await;
    // B has buried it, and dies: whoever wakes finds that, too, at the same time.
    pair.b.replica.kill();
    pair.pass(11_000).await;
    pair.a.replica.thaw();
    pair.settle().await;
    assert_eq!(replicas.living().await.unwrap(), [pair.a.replica.incarnation()]);
    pair.pass(2_000).await;
    assert_eq!((pair.a.engine.replicas_known(), replicas.listed().await.unwrap().len()), (1, 1));
}
