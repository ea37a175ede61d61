//! A session remembers: what the agents of a run are given of the runs before it, word for word, on
//! the reference store, with restarts in between.

use std::sync::atomic::Ordering;

use holdpoint::engine::{
    AnswerRequest, Begun, Engine, EngineError, ForkRequest, Published, StartRequest,
};
use holdpoint::kernel::workflow::{Patience, Pattern, Step, Work, Workflow};
use holdpoint::kernel::{
    CONVERSATION_BYTES_MAX, Event, Millis, Principal, Refusal, Remembers, Reply,
};
use serde_json::json;

use crate::support::held::Held;
use crate::support::workflows::{approval, chat};
use crate::support::{Actors, Ground, all, names, request_of, someone};

const SESSION: &str = "our-talk";

fn start(workflow: &str, input: &str) -> StartRequest {
    StartRequest {
        workflow: workflow.into(),
        session: SESSION.into(),
        input: json!(input),
        ..StartRequest::default()
    }
}

/// Everybody answers by counting what they were given.
fn counting() -> Actors {
    let say = |input: &holdpoint::kernel::AgentInput| Reply {
        text: format!("{} heard {}.", input.agent, input.messages.len()),
        ..Reply::default()
    };
    Actors::default().plays("host", say).plays("draft", say).plays("send", say)
}

/// One word of the user, one of the host.
fn brief() -> Workflow {
    let work = Work::Agent { agent: "host".into(), prompt: None };
    let steps = vec![Step { id: "host".into(), work }];
    Workflow { pattern: Pattern::Sequential { steps }, ..chat(0) }
}

fn alone() -> Workflow {
    let mut flow = Workflow { name: "alone".into(), ..brief() };
    flow.limits.remembers = Remembers::Run;
    flow
}

async fn said(engine: &Engine, workflow: &str, input: &str) -> Vec<Published> {
    let told = told(engine.start(start(workflow, input), &someone()).await).await;
    assert_eq!(names(&told).last(), Some(&"completed"), "{told:?}");
    told
}

async fn told(begun: Result<Begun, EngineError>) -> Vec<Published> {
    all(begun.unwrap().watch).await
}

async fn answered(engine: &Engine, asked: &[Published], value: &str) -> Vec<Published> {
    let answers = vec![(request_of(asked), json!(value), None)];
    let request = AnswerRequest { answers, ..AnswerRequest::default() };
    told(engine.answer(request, &someone()).await).await
}

/// What the last agent that was asked was given, one line a message.
fn given(ground: &Ground) -> Vec<String> {
    let inputs = ground.actors.inputs.lock().unwrap();
    let messages = &inputs.last().unwrap().messages;
    messages.iter().map(|message| format!("{}: {}", message.author, message.text)).collect()
}

#[tokio::test]
async fn k5_a_run_is_given_what_was_said_in_its_session_before_word_for_word() {
    let ground = Ground::new(counting());
    let flows = [brief(), approval(Patience::default())];
    let engine = ground.boot(&flows).await;
    said(&engine, "chat", "I am Ada.").await;
    assert_eq!(given(&ground), ["local: I am Ada."]);
    // From memory, and after a restart from the journals.
    said(&engine, "chat", "I like blue.").await;
    let before = ["local: I am Ada.", "host: host heard 1.", "local: I like blue."];
    assert_eq!(given(&ground), before);
    let engine = ground.boot(&flows).await;
    let asked = told(engine.start(start("approval", "Who am I?"), &someone()).await).await;
    let mut whole: Vec<&str> = before.into();
    whole.extend(["host: host heard 3.", "local: Who am I?"]);
    assert_eq!(given(&ground), whole);
    let engine = ground.boot(&flows).await;
    let done = answered(&engine, &asked, "approve").await;
    assert_eq!(names(&done).last(), Some(&"completed"));
    let after: Vec<String> = given(&ground).split_off(whole.len());
    let decision = "local: {\"decision\":\"approve\"}";
    assert_eq!(after, ["draft: draft heard 5.", ": Send it?", decision]);
    let elsewhere = StartRequest { session: String::new(), ..start("chat", "Who am I?") };
    told(engine.start(elsewhere, &someone()).await).await;
    assert_eq!(given(&ground), ["local: Who am I?"], "another session has heard nothing");
}

#[tokio::test]
async fn a_run_that_does_not_look_back_is_remembered_by_those_after_it() {
    let ground = Ground::new(counting());
    let flows = [brief(), alone()];
    let engine = ground.boot(&flows).await;
    said(&engine, "chat", "I am Ada.").await;
    said(&engine, "alone", "What do you know?").await;
    assert_eq!(given(&ground), ["local: What do you know?"]);
    for engine in [engine, ground.boot(&flows).await] {
        said(&engine, "chat", "And now?").await;
        let start = ["local: I am Ada.", "host: host heard 1.", "local: What do you know?"];
        assert_eq!(given(&ground)[..3], start);
    }
}

#[tokio::test]
async fn a_run_that_is_not_over_is_not_followed_and_is_remembered_once_it_is() {
    let ground = Ground::new(counting());
    let flows = [brief(), approval(Patience::default())];
    let engine = ground.boot(&flows).await;
    said(&engine, "chat", "I am Ada.").await;
    let asked = told(engine.start(start("approval", "Tell the team."), &someone()).await).await;
    said(&engine, "chat", "Meanwhile?").await;
    let before = ["local: I am Ada.", "host: host heard 1.", "local: Meanwhile?"];
    assert_eq!(given(&ground), before);
    answered(&engine, &asked, "approve").await;
    assert_eq!(given(&ground)[..2], before[..2], "nor does it hear what began after it");
    assert_eq!(given(&ground).len(), 6);
    // Whoever begins now hears of both, from memory and from the journals; and so does the next.
    for boot in [false, true] {
        let engine = if boot { ground.boot(&flows).await } else { engine.clone() };
        said(&engine, "chat", "All of it?").await;
        let heard = given(&ground);
        assert_eq!(heard[..3], before);
        let rest = ["local: Tell the team.", "draft: draft heard 3.", ": Send it?"];
        assert_eq!(heard[4..7], rest);
        let all_of_it = |line: &&String| *line == "local: All of it?";
        assert_eq!(heard.iter().filter(all_of_it).count(), if boot { 2 } else { 1 });
        let meanwhile = |line: &&String| *line == "local: Meanwhile?";
        assert_eq!(heard.iter().filter(meanwhile).count(), 1, "nothing is heard twice: {heard:?}");
    }
}

#[tokio::test]
async fn a_fork_goes_on_from_what_its_original_went_on_from() {
    let ground = Ground::new(counting());
    let flows = [brief(), approval(Patience::default())];
    let engine = ground.boot(&flows).await;
    said(&engine, "chat", "I am Ada.").await;
    let begun = engine.start(start("approval", "Tell the team."), &someone()).await.unwrap();
    let run = begun.run.to_string();
    let asked = all(begun.watch).await;
    answered(&engine, &asked, "approve").await;
    let first = given(&ground);
    assert_eq!(first[0], "local: I am Ada.");
    for session in ["", "elsewhere"] {
        let engine = ground.boot(&flows).await;
        let fork = ForkRequest { run: run.clone(), session: session.into(), ..Default::default() };
        let forked = told(engine.fork(fork, &someone()).await).await;
        let engine = ground.boot(&flows).await;
        answered(&engine, &forked, "approve").await;
        assert_eq!(given(&ground), first);
    }
}

#[tokio::test]
async fn what_was_pruned_is_forgotten_and_what_came_after_is_not() {
    let ground = Ground::new(counting());
    let flows = [brief()];
    let engine = ground.boot(&flows).await;
    said(&engine, "chat", "I am Ada.").await;
    ground.clock.advance(1_000);
    said(&engine, "chat", "I like blue.").await;
    assert_eq!(ground.journal.prune(Millis(1_000_001), 10).await.unwrap(), 1);
    let engine = ground.boot(&flows).await;
    said(&engine, "chat", "Who am I?").await;
    assert_eq!(given(&ground), ["local: I like blue.", "host: host heard 3.", "local: Who am I?"]);
}

#[tokio::test]
async fn a_fork_of_a_run_that_outlived_what_it_followed_is_no_error() {
    let ground = Ground::new(counting());
    let flows = [brief(), approval(Patience::default())];
    let engine = ground.boot(&flows).await;
    said(&engine, "chat", "I am Ada.").await;
    ground.clock.advance(1_000);
    let begun = engine.start(start("approval", "Tell the team."), &someone()).await.unwrap();
    let run = begun.run.to_string();
    let asked = all(begun.watch).await;
    assert_eq!(ground.journal.prune(Millis(1_000_001), 10).await.unwrap(), 0, "it is remembered");
    answered(&engine, &asked, "approve").await;
    assert_eq!(ground.journal.prune(Millis(1_000_001), 10).await.unwrap(), 1);
    let engine = ground.boot(&flows).await;
    let fork = ForkRequest { run, ..ForkRequest::default() };
    let forked = told(engine.fork(fork, &someone()).await).await;
    answered(&engine, &forked, "approve").await;
    assert_eq!(given(&ground)[..2], ["local: Tell the team.", "draft: draft heard 3."]);
}

#[tokio::test]
async fn nothing_that_was_said_before_is_written_again() {
    let ground = Ground::new(
        Actors::default().plays("host", |_| Reply { text: "x".repeat(10_000), ..Reply::default() }),
    );
    let engine = ground.boot(&[brief()]).await;
    let mut sizes = Vec::new();
    for _ in 0..8 {
        let told = said(&engine, "chat", "Go on.").await;
        let size = |event: &Event| serde_json::to_string(event).unwrap().len();
        sizes.push(told.iter().map(|published| size(&published.event)).sum::<usize>());
    }
    let own = |size: &usize| size.abs_diff(sizes[1]) < 10;
    assert!(sizes[1..].iter().all(own), "a journal has its own words alone: {sizes:?}");
}

#[tokio::test]
async fn a_session_that_is_full_is_refused_by_name_and_a_run_that_does_not_look_back_is_not() {
    let ground = Ground::new(counting());
    let engine = ground.boot(&[brief(), alone()]).await;
    let large = "x".repeat(1 << 20);
    for _ in 0..CONVERSATION_BYTES_MAX / large.len() {
        let begun = engine.start(start("chat", &large), &someone()).await;
        let Ok(begun) = begun else { break };
        all(begun.watch).await;
    }
    let refused = engine.start(start("chat", &large), &someone()).await;
    let Err(EngineError::Refused(refusal @ Refusal::SessionFull { .. })) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((refusal.code(), refusal.field()), ("session.full", Some("session_id".into())));
    assert!(refusal.to_string().contains("begin a new session, or say `remembers: run`"));
    said(&engine, "alone", &large).await;
}

#[tokio::test]
async fn the_session_of_another_is_remembered_by_nobody() {
    let ground = Ground::new(counting());
    let engine = ground.boot(&[brief()]).await;
    said(&engine, "chat", "I am Ada.").await;
    let asked = ground.actors.inputs.lock().unwrap().len();
    let bob =
        Principal { id: "bob".into(), roles: holdpoint::kernel::Role::User.into(), ..someone() };
    // A session of that name is his own, and begins with what he says.
    told(engine.start(start("chat", "Who is Ada?"), &bob).await).await;
    let inputs = ground.actors.inputs.lock().unwrap();
    let heard = format!("{:?}", &inputs[asked..]);
    assert!(heard.contains("Who is Ada?") && !heard.contains("I am Ada."), "{heard}");
}

#[tokio::test]
async fn two_that_go_on_at_once_are_both_remembered() {
    let ground = Ground::new(counting());
    let engine = ground.boot(&[brief()]).await;
    said(&engine, "chat", "I am Ada.").await;
    let both = [start("chat", "One."), start("chat", "Two.")]
        .map(|request| async { told(engine.start(request, &someone()).await).await });
    for told in futures::future::join_all(both).await {
        let Event::Started(started) = &*told[0].event else { panic!("it begins") };
        assert!(started.follows.is_some());
    }
    said(&engine, "chat", "Three.").await;
    let heard = given(&ground);
    let heard: Vec<_> = heard.iter().filter_map(|line| line.strip_prefix("local: ")).collect();
    assert_eq!(heard.len(), 4, "{heard:?}");
    assert!(heard.contains(&"One.") && heard.contains(&"Two."), "{heard:?}");
}

#[tokio::test]
async fn a_start_without_a_session_looks_at_no_other_run() {
    let held = Held::new();
    let ground = Ground { journal: held.clone(), ..Ground::new(counting()) };
    let engine = ground.boot(&[brief()]).await;
    let before = held.listed.load(Ordering::SeqCst);
    let request = StartRequest { session: String::new(), ..start("chat", "I am Ada.") };
    let told = told(engine.start(request, &someone()).await).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
    assert_eq!(held.listed.load(Ordering::SeqCst), before);
    said(&engine, "chat", "I am Ada.").await;
    assert!(held.listed.load(Ordering::SeqCst) > before, "one with a session does");
}
