//! Budgets in the engine: a restart refills nothing, a session's runs share what it has, time runs
//! out while a model thinks, and a person may give more.

use std::time::Duration;

use holdpoint::engine::{AnswerRequest, Engine, StartRequest, Until};
use holdpoint::kernel::workflow::{Safety, Workflow};
use holdpoint::kernel::{AgentInput, Budget, Budgets, Event, OnExceeded, Reply, Usage};
use holdpoint::ports::HeadStatus;
use serde_json::json;

use crate::support::plays::{payers, start};
use crate::support::workflows::{chat, with_tool};
use crate::support::{Actors, Ground, all, names, request_of, someone};

/// A bound on what is waited for here.
const PATIENCE: Duration = Duration::from_mins(1);

fn say(session: &str) -> StartRequest {
    StartRequest {
        workflow: "chat".into(),
        session: session.into(),
        input: json!("Go on."),
        ..StartRequest::default()
    }
}

/// Says the same, for ten tokens each time.
fn host(_: &AgentInput) -> Reply {
    let usage = Usage { input_tokens: 9, output_tokens: 1 };
    Reply { text: "Well.".into(), usage, ..Reply::default() }
}

fn bounded(run: Budget, session: Budget, on_exceeded: OnExceeded) -> [Workflow; 1] {
    let mut workflow = chat(100);
    workflow.limits.budgets = Budgets { run, session, on_exceeded, deadline_ms: None };
    [workflow]
}

async fn failure(engine: &Engine, run: &str) -> String {
    let status = engine.head(run, &someone()).await.unwrap().status;
    let HeadStatus::Failed(failure) = status else { panic!("{status:?}") };
    format!("{}: {}", failure.code, failure.message)
}

#[tokio::test]
async fn a_restart_refills_nothing() {
    let ground = Ground::new(Actors::default().plays("host", host));
    let budget = Budget { tokens: Some(25), ..Budget::default() };
    let workflows = bounded(budget, Budget::default(), OnExceeded::Fail);
    let engine = ground.boot(&workflows).await;
    let begun = engine.start(say("s"), &someone()).await.unwrap();
    let run = begun.run.to_string();
    assert_eq!(names(&all(begun.watch).await).last(), Some(&"parked"));
    for last in ["parked", "parked", "failed"] {
        let engine = ground.boot(&workflows).await;
        let begun = engine.start(say("s"), &someone()).await.unwrap();
        assert_eq!(begun.run.to_string(), run, "the same run, after another restart");
        assert_eq!(names(&all(begun.watch).await).last(), Some(&last));
    }
    let engine = ground.boot(&workflows).await;
    let told = failure(&engine, &run).await;
    assert_eq!(told, "budget.exceeded: the budget `run.tokens` of 25 tokens is spent");
    assert_eq!(ground.actors.inputs.lock().unwrap().len(), 3, "no call beyond it was made");
}

#[tokio::test]
async fn the_runs_of_a_session_share_what_it_has() {
    let ground = Ground::new(Actors::default().plays("host", host));
    let session = Budget { model_calls: Some(3), ..Budget::default() };
    let workflows = bounded(Budget::default(), session, OnExceeded::Fail);
    let engine = ground.boot(&workflows).await;
    for _ in 0..3 {
        let begun = engine.start(say("shared"), &someone()).await.unwrap();
        let run = begun.run.to_string();
        all(begun.watch).await;
        engine.cancel(&run, "", "", &someone()).await.unwrap();
    }
    let engine = ground.boot(&workflows).await;
    let begun = engine.start(say("shared"), &someone()).await.unwrap();
    let run = begun.run.to_string();
    assert_eq!(names(&all(begun.watch).await), ["started", "invoked", "failed"]);
    let told = failure(&engine, &run).await;
    assert!(told.contains("`session.model_calls` of 3 model calls is spent"), "{told}");
    // Another session has its own.
    let begun = engine.start(say("other"), &someone()).await.unwrap();
    assert_eq!(names(&all(begun.watch).await).last(), Some(&"parked"));
}

#[tokio::test]
async fn runs_of_a_session_that_go_on_at_once_spend_of_one_budget() {
    let ground = Ground::new(Actors::default().plays("host", host).slowly("host"));
    let session = Budget { model_calls: Some(2), ..Budget::default() };
    let workflows = bounded(Budget::default(), session, OnExceeded::Fail);
    let engine = ground.boot(&workflows).await;
    let afresh = |engine: Engine| async move {
        let request = StartRequest { afresh: true, ..say("shared") };
        engine.start(request, &someone()).await.unwrap()
    };
    // Two calls are under way, one of each: a third run begins, and there is nothing left for it.
    let both = [afresh(engine.clone()).await, afresh(engine.clone()).await];
    ground.actors.asked().await;
    ground.actors.asked().await;
    let third = afresh(engine.clone()).await;
    let run = third.run.to_string();
    assert_eq!(names(&all(third.watch).await).last(), Some(&"failed"));
    assert!(failure(&engine, &run).await.contains("`session.model_calls` of 2"));
    // Each says something more, and neither has a call left, also after a restart.
    ground.actors.gate("host").add_permits(9);
    let mut runs = Vec::new();
    for begun in both {
        runs.push(begun.run.to_string());
        assert_eq!(names(&all(begun.watch).await).last(), Some(&"parked"));
    }
    let engine = ground.boot(&workflows).await;
    for run in runs {
        let open = engine.head(&run, &someone()).await.unwrap();
        let id = open.questions[0].id(&open.run).to_string();
        let answers = vec![(id, json!("Go on."), None)];
        let request = AnswerRequest { answers, ..AnswerRequest::default() };
        let begun = engine.answer(request, &someone()).await.unwrap();
        assert_eq!(names(&all(begun.watch).await).last(), Some(&"failed"));
        assert!(failure(&engine, &run).await.contains("`session.model_calls` of 2"));
    }
    assert_eq!(ground.actors.inputs.lock().unwrap().len(), 2, "no call beyond it was made");
}

#[tokio::test]
async fn what_a_person_gives_to_one_run_counts_what_the_others_spent() {
    let ground = Ground::new(Actors::default().plays("host", host));
    let session = Budget { tokens: Some(15), ..Budget::default() };
    let workflows = bounded(Budget::default(), session, OnExceeded::Ask);
    let engine = ground.boot(&workflows).await;
    let begun = |engine: Engine| async move {
        let request = StartRequest { afresh: true, ..say("shared") };
        let begun = engine.start(request, &someone()).await.unwrap();
        let run = begun.run.to_string();
        (run, all(begun.watch).await)
    };
    let (first, _) = begun(engine.clone()).await;
    let (_, told) = begun(engine.clone()).await;
    assert_eq!(
        names(&told).last(),
        Some(&"parked"),
        "twenty are spent, and nobody asks for more yet"
    );
    let answer = |engine: Engine, run: String, word: &'static str| async move {
        let open = engine.head(&run, &someone()).await.unwrap();
        let id = open.questions[0].id(&open.run).to_string();
        let answers = vec![(id, json!(word), None)];
        let request = AnswerRequest { answers, ..AnswerRequest::default() };
        all(engine.answer(request, &someone()).await.unwrap().watch).await
    };
    let told = answer(engine.clone(), first.clone(), "Go on.").await;
    let open = engine.head(&first, &someone()).await.unwrap();
    let context = &open.questions[0].context;
    assert_eq!(
        (&context["budget"], &context["beside"]["tokens"]),
        (&json!("session.tokens"), &json!(10)),
        "{told:?}"
    );
    // As much again, over what all of them spent; the same after the journal is read back.
    let engine = ground.boot(&workflows).await;
    let told = answer(engine.clone(), first.clone(), "approve").await;
    assert_eq!(names(&told).last(), Some(&"parked"));
    let told = answer(engine.clone(), first.clone(), "Go on.").await;
    assert_eq!(names(&told).last(), Some(&"parked"));
    let engine = ground.boot(&workflows).await;
    assert!(engine.head(&first, &someone()).await.is_ok(), "its journal folds to the same");
}

#[tokio::test]
async fn time_runs_out_while_a_model_thinks() {
    let ground = Ground::new(Actors::default().plays("host", host).slowly("host"));
    let budget = Budget { wall_ms: Some(60_000), ..Budget::default() };
    let engine = ground.boot(&bounded(budget, Budget::default(), OnExceeded::Fail)).await;
    let begun = engine.start(say("s"), &someone()).await.unwrap();
    let run = begun.run.to_string();
    ground.actors.asked().await;
    ground.clock.sleeper_until(1_060_000).await;
    ground.clock.advance(60_000);
    let told = all(engine.watch(&run, 0, Until::Over, &someone()).await.unwrap()).await;
    assert_eq!(names(&told).last(), Some(&"failed"));
    assert!(failure(&engine, &run).await.contains("`run.wall_time` of 60000 ms"));
}

#[tokio::test]
async fn a_person_gives_more_and_the_cut_off_call_is_made_again() {
    let ground = Ground::new(Actors::default().plays("host", host).slowly("host"));
    let budget = Budget { wall_ms: Some(60_000), ..Budget::default() };
    let engine = ground.boot(&bounded(budget, Budget::default(), OnExceeded::Ask)).await;
    let begun = engine.start(say("s"), &someone()).await.unwrap();
    let run = begun.run.to_string();
    ground.actors.asked().await;
    ground.clock.sleeper_until(1_060_000).await;
    ground.clock.advance(60_000);
    let told = all(begun.watch).await;
    assert_eq!(names(&told[told.len() - 3..]), ["asked", "checkpoint", "parked"]);
    let answers = vec![(request_of(&told), json!("approve"), None)];
    let request = AnswerRequest { answers, ..AnswerRequest::default() };
    let begun = engine.answer(request, &someone()).await.unwrap();
    ground.actors.asked().await;
    ground.actors.gate("host").add_permits(1);
    let told = all(begun.watch).await;
    assert_eq!(begun.run.to_string(), run);
    assert!(names(&told).contains(&"message"), "{:?}", names(&told));
    assert_eq!(names(&told).last(), Some(&"parked"), "it goes on: the user's turn");
}

/// Pays once; the session has five calls of tools.
fn five_calls() -> [Workflow; 1] {
    let mut workflow = with_tool(Safety::Unsafe);
    let session = Budget { tool_calls: Some(5), ..Budget::default() };
    workflow.limits.budgets = Budgets { session, ..Budgets::default() };
    [workflow]
}

#[tokio::test(flavor = "multi_thread")]
async fn e6_the_same_start_twice_at_once_holds_up_nobody() {
    for _ in 0..30 {
        let ground = Ground::new(payers());
        ground.actors.gate("pay").add_permits(9);
        let engine = ground.boot(&five_calls()).await;
        let same = || {
            let engine = engine.clone();
            tokio::spawn(async move {
                let begun = engine.start(start("with_tool", "s", "k"), &someone()).await.unwrap();
                (begun.run.to_string(), names(&all(begun.watch).await).last().copied())
            })
        };
        let both = futures::future::join_all([same(), same(), same()]);
        let both = tokio::time::timeout(PATIENCE, both).await.expect("nobody waits for another");
        let runs: Vec<_> = both.into_iter().map(Result::unwrap).collect();
        assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
        assert_eq!(runs[0].1, Some("completed"));
        assert_eq!(ground.actors.calls.lock().unwrap().len(), 1, "one key, one deed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_within_the_budget_is_not_failed_for_what_others_tried_in_vain() {
    let ground = Ground::new(payers());
    let engine = ground.boot(&five_calls()).await;
    let mut begun = Vec::new();
    for _ in 0..12 {
        let afresh = StartRequest { afresh: true, ..start("with_tool", "s", "") };
        begun.push(engine.start(afresh, &someone()).await.unwrap());
    }
    // The first five are at their deeds while the others come to know that there is nothing left.
    for _ in 0..5 {
        ground.actors.asked().await;
    }
    ground.actors.gate("pay").add_permits(12);
    let mut ends = Vec::new();
    for begun in begun {
        let told = all(begun.watch).await;
        let in_vain = told.iter().filter(
            |told| matches!(&*told.event, Event::Warned(failure) if failure.code == "tool.cut_off"),
        );
        assert_eq!(in_vain.count(), 0, "what was never called has not happened");
        ends.push(*names(&told).last().unwrap());
    }
    ends.sort_unstable();
    assert_eq!(ends, [["completed"; 5].as_slice(), &["failed"; 7]].concat());
    assert_eq!(ground.actors.calls.lock().unwrap().len(), 5);
}
