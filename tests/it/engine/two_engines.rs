//! Two engines over one store: whatever is begun at one is watched, answered and cancelled at the other; whoever dies,
//! freezes or comes second, every answer counts once and nothing is done twice.

use holdpoint::engine::{
    Engine, EngineError, ForkRequest, InboxChange, InboxFilter, StartRequest, Until,
};
use holdpoint::kernel::workflow::{Patience, Safety};
use holdpoint::kernel::{Budget, Budgets, Event, OnExceeded, OnTimeout, Refusal, RunId, Workflow};
use holdpoint::ports::{Fault, HeadStatus, Hook};
use holdpoint::store::Mishap;
use serde_json::json;

use crate::support::pair::Pair;
use crate::support::plays::{answer, payers, slow_sender, start, writers};
use crate::support::workflows::{approval, chat, with_tool};
use crate::support::{Actors, all, name, names, request_of, someone};

async fn asked(patience: Patience, actors: impl Fn() -> Actors) -> (Pair, String, String) {
    let pair = Pair::new(&[approval(patience)], actors).await;
    let begun = pair.a.engine.start(start("approval", "", ""), &someone()).await.unwrap();
    let run = begun.run.to_string();
    let request = request_of(&all(begun.watch).await);
    (pair, run, request)
}

/// Asked, answered at A, and A is at the slow part of it.
async fn sending() -> (Pair, String) {
    let (pair, run, request) = asked(Patience::default(), slow_sender).await;
    pair.a.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    pair.a.actors.asked().await;
    pair.settle().await;
    (pair, run)
}

async fn paying(safety: Safety) -> (Pair, String) {
    let pair = Pair::new(&[with_tool(safety)], payers).await;
    let begun = pair.a.engine.start(start("with_tool", "", ""), &someone()).await.unwrap();
    pair.a.actors.asked().await;
    (pair, begun.run.to_string())
}

async fn whole(engine: &Engine, run: &str) -> Vec<&'static str> {
    names(&all(engine.watch(run, 0, Until::CurrentRest, &someone()).await.unwrap()).await)
}

async fn status(engine: &Engine, run: &str) -> HeadStatus {
    engine.head(run, &someone()).await.unwrap().status
}

#[tokio::test]
async fn d1_a_run_begun_at_one_is_watched_and_answered_at_the_other() {
    let (pair, run, request) = asked(Patience::default(), writers).await;
    let seen = whole(&pair.b.engine, &run).await;
    assert_eq!(seen, whole(&pair.a.engine, &run).await);
    let mut watch = pair.a.engine.watch(&run, 7, Until::Over, &someone()).await.unwrap();
    let begun = pair.b.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    let told = names(&all(begun.watch).await);
    assert_eq!(told.last(), Some(&"completed"));
    let mut heard = Vec::new();
    while let Some(published) = watch.next().await.unwrap() {
        heard.push(name(&published.event));
    }
    assert_eq!(heard, told, "whoever watches at the other hears the same, once");
    assert_eq!(pair.a.actors.inputs.lock().unwrap().len(), 1, "the answer was taken elsewhere");
    assert_eq!(pair.b.actors.inputs.lock().unwrap().len(), 1, "and so was what followed");
}

#[tokio::test]
async fn d1_a_run_that_moves_at_one_is_cancelled_at_the_other() {
    let (pair, run) = sending().await;
    pair.b.engine.cancel(&run, "enough", "", &someone()).await.unwrap();
    pair.a.actors.given_up().await;
    assert!(matches!(status(&pair.a.engine, &run).await, HeadStatus::Cancelled(_)));
}

#[tokio::test]
async fn e1_a_watcher_hears_without_hints_too() {
    let (pair, run, request) = asked(Patience::default(), writers).await;
    pair.cluster.mute(true);
    let mut watch = pair.b.engine.watch(&run, 7, Until::Over, &someone()).await.unwrap();
    pair.a.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    pair.pass(1_000).await;
    let mut heard = Vec::new();
    while let Some(published) = watch.next().await.unwrap() {
        heard.push(name(&published.event));
    }
    assert_eq!(heard.first(), Some(&"answered"));
    assert_eq!(heard.last(), Some(&"completed"));
}

#[tokio::test]
async fn e8_a_look_at_what_another_drives_changes_nothing() {
    let (pair, run) = sending().await;
    let (b, who) = (&pair.b.engine, someone());
    let before = b.head(&run, &who).await.unwrap();
    b.run(&run, &who).await.unwrap();
    b.journal(&run, 100, &who).await.unwrap();
    b.checkpoints(&run, &who).await.unwrap();
    b.inbox(&who, &InboxFilter::default(), None, 10).await.unwrap();
    b.recover().await.unwrap();
    pair.pass(3_000).await;
    assert_eq!(b.head(&run, &who).await.unwrap(), before);
    assert_eq!(pair.b.actors.inputs.lock().unwrap().len(), 0);
    pair.a.actors.gate("send").add_permits(1);
    let watch = b.watch(&run, 0, Until::Over, &who).await.unwrap();
    let told = names(&all(watch).await);
    assert!(!told.contains(&"step_failed"), "{told:?}");
    assert_eq!(told.last(), Some(&"completed"));
}

#[tokio::test]
async fn e3_what_the_dead_have_left_is_finished_by_another_once() {
    let (pair, run) = sending().await;
    pair.a.replica.kill();
    pair.pass(3_000).await;
    assert_eq!(pair.b.actors.inputs.lock().unwrap().len(), 0, "it may yet live");
    pair.pass(8_000).await;
    pair.b.actors.asked().await;
    pair.b.actors.gate("send").add_permits(1);
    pair.a.actors.gate("send").add_permits(1);
    let watch = pair.b.engine.watch(&run, 0, Until::Over, &someone()).await.unwrap();
    let told = all(watch).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
    let ended = told.iter().filter(|told| matches!(&*told.event, Event::StepCompleted { .. }));
    assert_eq!(ended.count(), 2, "each step once");
}

#[tokio::test]
async fn k2_an_answer_is_taken_while_whoever_drove_the_run_is_dead() {
    let (pair, run, request) = asked(Patience::default(), writers).await;
    pair.a.replica.kill();
    let begun = pair.b.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    assert_eq!(names(&all(begun.watch).await).last(), Some(&"completed"));
    assert_eq!(status(&pair.b.engine, &run).await, HeadStatus::Completed);
}

#[tokio::test]
async fn j4_whoever_was_frozen_and_wakes_is_superseded_and_does_nothing_twice() {
    let (pair, run) = paying(Safety::Unsafe).await;
    pair.a.replica.freeze();
    pair.pass(11_000).await;
    let head = pair.b.engine.head(&run, &someone()).await.unwrap();
    let request = head.questions[0].id(&head.run).to_string();
    assert_eq!(pair.calls().len(), 1, "E2: nobody knows whether it happened: a person is asked");
    // It comes home, and nobody waits for it there.
    pair.a.actors.gate("pay").add_permits(1);
    pair.settle().await;
    pair.a.replica.thaw();
    pair.pass(3_000).await;
    let now = pair.b.engine.head(&run, &someone()).await.unwrap();
    assert_eq!(now.version, head.version, "what the dead bring home is not written");
    let said = answer(&request, json!({"verb": "happened", "result": "done"}));
    let begun = pair.a.engine.answer(said, &someone()).await.unwrap();
    assert_eq!(names(&all(begun.watch).await).last(), Some(&"completed"));
    assert_eq!(pair.calls().len(), 1, "one yes, one deed");
    assert!(pair.a.replica.incarnation() > pair.b.replica.incarnation(), "it began another life");
}

#[tokio::test]
async fn e8_whoever_was_not_heard_in_time_says_of_nothing_that_it_is_not_there() {
    let (pair, ..) = asked(Patience::default(), writers).await;
    let (b, id) = (&pair.b.engine, RunId::fresh(&"7".repeat(26)).to_string());
    let unknown = b.head(&id, &someone()).await.unwrap_err();
    assert!(matches!(unknown, EngineError::Refused(Refusal::UnknownRun(_))), "{unknown:?}");
    // So much time at once that no sign of life can be in time, and nobody had a turn to give another.
    pair.clock.advance(20_000);
    let unsure = b.head(&id, &someone()).await.unwrap_err();
    assert!(matches!(unsure, EngineError::Fault(Fault::Retriable(_))), "{unsure:?}");
    pair.settle().await;
    let unknown = b.head(&id, &someone()).await.unwrap_err();
    assert!(matches!(unknown, EngineError::Refused(Refusal::UnknownRun(_))), "{unknown:?}");
}

#[tokio::test]
async fn e2_what_may_be_repeated_is_with_the_same_key() {
    let (pair, run) = paying(Safety::Idempotent).await;
    pair.a.replica.kill();
    pair.pass(11_000).await;
    pair.b.actors.asked().await;
    pair.b.actors.gate("pay").add_permits(1);
    let told = all(pair.b.engine.watch(&run, 0, Until::Over, &someone()).await.unwrap()).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
    let calls = pair.calls();
    assert_eq!((calls.len(), &calls[0]), (2, &calls[1]));
}

#[tokio::test]
async fn k2_of_two_answers_at_once_one_wins_and_the_other_is_told_who() {
    for _ in 0..20 {
        let (pair, run, request) = asked(Patience::default(), writers).await;
        let who = someone();
        let (one, other) = tokio::join!(
            pair.a.engine.answer(answer(&request, json!("approve")), &who),
            pair.b.engine.answer(answer(&request, json!("reject")), &who),
        );
        let outcomes = [one.map(drop), other.map(drop)];
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        let refused = outcomes.into_iter().find_map(Result::err).unwrap();
        let is_told = matches!(
            refused,
            EngineError::Refused(Refusal::AlreadyAnswered { .. } | Refusal::RequestClosed { .. })
        );
        assert!(is_told, "{refused:?}");
        let told = whole(&pair.a.engine, &run).await;
        let ends = |name: &&&str| ["answered", "closed"].contains(*name);
        assert_eq!(told.iter().filter(ends).count(), 1, "{told:?}");
    }
}

#[tokio::test]
async fn j8_a_hook_put_at_one_is_told_of_what_the_other_writes() {
    let (pair, run) = sending().await;
    let id = RunId::parse(&run).unwrap();
    let hook = Hook { id: "h1".into(), url: "https://example.org/".into(), ..Hook::default() };
    pair.b.engine.put_hook(&id, hook, &someone()).await.unwrap();
    pair.a.actors.gate("send").add_permits(1);
    let watch = pair.a.engine.watch(&run, 0, Until::Over, &someone()).await.unwrap();
    let last = all(watch).await.last().unwrap().sequence;
    pair.pass(3_000).await;
    assert_eq!(*pair.post.told.lock().unwrap(), [("push:h1".to_owned(), last)], "once");
}

#[tokio::test]
async fn k4_a_deadline_comes_once() {
    let patience =
        Patience { deadline_ms: Some(5_000), on_timeout: OnTimeout::Reject, ..Patience::default() };
    let (pair, run, _) = asked(patience, writers).await;
    pair.pass(9_000).await;
    let told = whole(&pair.b.engine, &run).await;
    assert_eq!(told, whole(&pair.a.engine, &run).await);
    assert_eq!(told.iter().filter(|name| **name == "closed").count(), 1, "{told:?}");
}

#[tokio::test]
async fn k11_a_no_in_a_fork_at_one_counts_at_the_other() {
    let (pair, run, request) = asked(Patience::default(), writers).await;
    let fork = ForkRequest { run: run.clone(), ..ForkRequest::default() };
    let forked = pair.b.engine.fork(fork, &someone()).await.unwrap().run.to_string();
    let head = pair.b.engine.head(&forked, &someone()).await.unwrap();
    let open = head.questions[0].id(&head.run).to_string();
    pair.b.engine.answer(answer(&open, json!("reject")), &someone()).await.unwrap();
    let outcome = pair.a.engine.answer(answer(&request, json!("approve")), &someone()).await;
    let Err(EngineError::Refused(refusal)) = outcome.map(drop) else { panic!("the no was lost") };
    assert_eq!(refusal.code(), "request.asked_anew", "{refusal}");
}

#[tokio::test]
async fn k11_of_a_yes_and_a_no_in_one_family_at_once_the_later_hears_of_the_first() {
    for _ in 0..20 {
        let (pair, run, request) = asked(Patience::default(), slow_sender).await;
        let fork = ForkRequest { run: run.clone(), ..ForkRequest::default() };
        let forked = pair.b.engine.fork(fork, &someone()).await.unwrap().run.to_string();
        let head = pair.b.engine.head(&forked, &someone()).await.unwrap();
        let open = head.questions[0].id(&head.run).to_string();
        let who = someone();
        let (yes, no) = tokio::join!(
            pair.a.engine.answer(answer(&request, json!("approve")), &who),
            pair.b.engine.answer(answer(&open, json!("reject")), &who),
        );
        no.unwrap();
        let times = pair.cluster.join().journal();
        let at = async |run: &str, wanted: &str| {
            let events = times.read(&RunId::parse(run).unwrap(), 0, 100).await.unwrap();
            events.iter().any(|recorded| name(&recorded.event) == wanted)
        };
        // A yes that was taken was first; one that came second was asked anew.
        match yes.map(drop) {
            Ok(()) => assert!(at(&run, "answered").await),
            Err(EngineError::Refused(refusal)) => {
                assert_eq!(refusal.code(), "request.asked_anew");
                assert!(!at(&run, "answered").await);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn two_starts_with_one_key_begin_one_run() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let who = someone();
    let (one, other) = tokio::join!(
        pair.a.engine.start(start("approval", "", "k"), &who),
        pair.b.engine.start(start("approval", "", "k"), &who),
    );
    assert_eq!(one.unwrap().run, other.unwrap().run);
}

fn bounded() -> [Workflow; 1] {
    let mut workflow = chat(100);
    let session = Budget { model_calls: Some(2), ..Budget::default() };
    let (run, on_exceeded) = (Budget::default(), OnExceeded::Fail);
    workflow.limits.budgets = Budgets { run, session, on_exceeded, deadline_ms: None };
    [workflow]
}

#[tokio::test]
async fn runs_of_a_session_at_both_spend_of_one_budget() {
    let actors = || Actors::default().says("host", "Well.").slowly("host");
    let pair = Pair::new(&bounded(), actors).await;
    let afresh = |engine: &Engine| {
        let request = StartRequest { afresh: true, ..start("chat", "shared", "") };
        let engine = engine.clone();
        async move { engine.start(request, &someone()).await.unwrap().run.to_string() }
    };
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    let runs: [String; 4] = tokio::join!(afresh(a), afresh(b), afresh(a), afresh(b)).into();
    pair.settle().await;
    let calls = |node: &crate::support::pair::Node| node.actors.inputs.lock().unwrap().len();
    assert_eq!(calls(&pair.a) + calls(&pair.b), 2, "no call beyond it was made");
    let mut failed = 0;
    for run in &runs {
        failed += usize::from(matches!(status(b, run).await, HeadStatus::Failed(_)));
    }
    assert_eq!(failed, 2);
}

#[tokio::test]
async fn an_inbox_at_one_shows_what_the_other_asks_and_hears_of_the_answer() {
    for is_mute in [false, true] {
        let pair = Pair::new(&[approval(Patience::default())], writers).await;
        pair.cluster.mute(is_mute);
        let mut inbox = pair.b.engine.watch_inbox(someone(), InboxFilter::default());
        assert!(matches!(inbox.next().await.unwrap(), InboxChange::CaughtUp));
        let begun = pair.a.engine.start(start("approval", "", ""), &someone()).await.unwrap();
        let request = request_of(&all(begun.watch).await);
        pair.pass(6_000).await;
        let InboxChange::Opened(opened) = inbox.next().await.unwrap() else { panic!("nothing") };
        assert_eq!(opened.id().to_string(), request);
        pair.a.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
        pair.pass(6_000).await;
        let closed = inbox.next().await.unwrap();
        let InboxChange::Closed { how, by, .. } = &closed else { panic!("{closed:?}") };
        assert_eq!((*how, by.as_str()), ("answered", "local"));
    }
}

#[tokio::test]
async fn e9_an_outcome_is_kept_while_the_store_is_away() {
    let (pair, run) = sending().await;
    for _ in 0..5 {
        pair.a.replica.befall(Mishap::Away);
    }
    pair.a.actors.gate("send").add_permits(1);
    pair.settle().await;
    assert_eq!(status(&pair.b.engine, &run).await, HeadStatus::Running);
    pair.pass(30_000).await;
    assert_eq!(status(&pair.b.engine, &run).await, HeadStatus::Completed);
    assert_eq!(pair.a.actors.inputs.lock().unwrap().len(), 2, "nobody was asked again");
}

#[tokio::test]
async fn e9_an_outcome_that_comes_second_is_decided_again() {
    let (pair, run) = sending().await;
    pair.a.replica.befall(Mishap::Moved);
    pair.a.replica.befall(Mishap::Moved);
    pair.a.actors.gate("send").add_permits(1);
    let watch = pair.b.engine.watch(&run, 0, Until::Over, &someone()).await.unwrap();
    assert_eq!(names(&all(watch).await).last(), Some(&"completed"));
    assert_eq!(pair.a.actors.inputs.lock().unwrap().len(), 2, "nobody was asked again");
}

#[tokio::test]
async fn j9_an_answer_whose_acknowledgement_is_lost_counts_once() {
    for mishap in [Mishap::Unheard, Mishap::Unsent] {
        let (pair, run, request) = asked(Patience::default(), writers).await;
        pair.b.replica.befall(mishap);
        let said = answer(&request, json!("approve"));
        let begun = pair.b.engine.answer(said, &someone()).await.unwrap();
        assert_eq!(names(&all(begun.watch).await).last(), Some(&"completed"));
        let told = whole(&pair.a.engine, &run).await;
        assert_eq!(told.iter().filter(|name| **name == "answered").count(), 1);
    }
}

#[tokio::test]
async fn j10_a_store_that_has_gone_back_is_noticed_and_never_believed() {
    let (pair, run, request) = asked(Patience::default(), slow_sender).await;
    let picture = pair.cluster.picture();
    pair.b.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    pair.settle().await;
    pair.cluster.go_back(&picture);
    let refused = pair.b.engine.head(&run, &someone()).await.unwrap_err();
    assert!(refused.to_string().contains("gone back in time"), "{refused}");
}

#[tokio::test]
async fn what_one_gives_back_when_it_leaves_another_takes_at_its_next_look() {
    let (pair, first) = sending().await;
    // So many that some were the leaver's own turn.
    let mut runs = vec![first];
    for _ in 0..7 {
        let begun = pair.a.engine.start(start("approval", "", ""), &someone()).await.unwrap();
        runs.push(begun.run.to_string());
        let request = request_of(&all(begun.watch).await);
        pair.a.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
        pair.a.actors.asked().await;
    }
    pair.a.engine.shut_down(std::time::Duration::ZERO).await;
    pair.pass(1_500).await;
    assert_eq!(pair.b.actors.inputs.lock().unwrap().len(), runs.len(), "nobody waits for it");
    pair.b.actors.gate("send").add_permits(runs.len());
    for run in runs {
        let watch = pair.b.engine.watch(&run, 0, Until::Over, &someone()).await.unwrap();
        assert_eq!(names(&all(watch).await).last(), Some(&"completed"));
    }
}

#[tokio::test]
async fn e1_whoever_watches_at_one_that_was_taken_for_dead_hears_what_was_written_meanwhile() {
    let (pair, run, request) = asked(Patience::default(), writers).await;
    let watch = pair.a.engine.watch(&run, 0, Until::Over, &someone()).await.unwrap();
    let heard = tokio::spawn(all(watch));
    pair.settle().await;
    pair.cluster.mute(true);
    pair.a.replica.freeze();
    pair.b.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    pair.pass(11_000).await;
    assert!(matches!(status(&pair.b.engine, &run).await, HeadStatus::Completed));
    pair.a.replica.thaw();
    pair.pass(5_000).await;
    assert!(heard.is_finished(), "nothing more will ever come of the run");
    assert_eq!(names(&heard.await.unwrap()), whole(&pair.b.engine, &run).await);
}

#[tokio::test]
async fn j10_a_store_that_went_back_is_held_and_whoever_saw_more_is_told() {
    let (pair, run, request) = asked(Patience::default(), writers).await;
    let picture = pair.cluster.picture();
    let begun = pair.a.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    let last = all(begun.watch).await.last().unwrap().sequence;
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    pair.cluster.go_back(&picture);
    pair.pass(5_000).await;
    assert!(a.is_rewound() && a.is_held() && b.is_rewound(), "whoever shares the store knows");
    let mut watch = a.watch(&run, last, Until::Over, &someone()).await.unwrap();
    assert!(matches!(watch.next().await, Err(EngineError::Rewound)));
    let held = b.answer(answer(&request, json!("approve")), &someone()).await.map(drop);
    assert!(matches!(held, Err(EngineError::Refused(_))), "{held:?}");
    a.release_store(false, &someone()).await.unwrap();
    pair.pass(3_000).await;
    assert!(!a.is_rewound() && !b.is_rewound());
    let head = b.head(&run, &someone()).await.unwrap();
    let anew = head.questions[0].id(&head.run).to_string();
    assert_ne!(anew, request, "it is asked anew");
    let begun = b.answer(answer(&anew, json!("approve")), &someone()).await.unwrap();
    assert_eq!(names(&all(begun.watch).await).last(), Some(&"completed"));
}

#[tokio::test]
async fn j10_whoever_knows_another_history_writes_nothing_on_top_of_this_one() {
    let (pair, run) = sending().await;
    let picture = pair.cluster.picture();
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    // What A knows is lost, and before it looks B has written as much again.
    a.cancel(&run, "enough", "", &someone()).await.unwrap();
    let had = a.head(&run, &someone()).await.unwrap().version;
    pair.cluster.go_back(&picture);
    b.cancel(&run, "too much", "", &someone()).await.unwrap();
    assert_eq!(b.head(&run, &someone()).await.unwrap().version, had);
    assert!(a.head(&run, &someone()).await.is_err(), "it is not believed");
    pair.pass(5_000).await;
    assert!(a.is_rewound() && b.is_rewound());
    assert_eq!(whole(a, &run).await, whole(b, &run).await);
    let told = a.journal(&run, 100, &someone()).await.unwrap();
    let is_theirs =
        |event: &Event| matches!(event, Event::Cancelled { reason, .. } if reason == "too much");
    assert!(told.iter().any(|recorded| is_theirs(&recorded.event)), "{told:?}");
}

#[tokio::test]
async fn e9_an_outcome_is_kept_while_two_tell_of_its_run() {
    let (pair, run) = paying(Safety::Unsafe).await;
    // Nobody hears whether it was taken; and whoever is asked next is not the one that says how far the run is.
    for _ in 0..3 {
        pair.a.replica.befall(Mishap::Unsent);
    }
    pair.a.replica.misread(1);
    pair.a.actors.gate("pay").add_permits(1);
    pair.pass(20_000).await;
    assert_eq!(status(&pair.b.engine, &run).await, HeadStatus::Completed);
    assert_eq!(pair.calls().len(), 1);
}
