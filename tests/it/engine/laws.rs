//! The engine's laws, on the reference store, with a clock that the tests move.

use std::collections::HashSet;
use std::time::Duration;

use holdpoint::engine::{
    AnswerRequest, Engine, EngineError, ForkRequest, InboxFilter, Published, StartRequest, Until,
};
use holdpoint::kernel::workflow::{Patience, Safety, Workflow};
use holdpoint::kernel::{Event, OnTimeout, Principal, Refusal, Reply, ToolCall};
use holdpoint::ports::HeadStatus;
use serde_json::{Value, json};

use crate::support::held::Held;
use crate::support::workflows::{approval, chat, with_tool};
use crate::support::{Actors, Ground, all, name, names, request_of, someone};

fn start(workflow: &str, session: &str, key: &str) -> StartRequest {
    StartRequest {
        workflow: workflow.into(),
        session: session.into(),
        input: json!("Tell the team."),
        key: key.into(),
        ..StartRequest::default()
    }
}

fn answer(request: &str, value: Value, key: &str) -> AnswerRequest {
    let answers = vec![(request.to_owned(), value, None)];
    AnswerRequest { answers, key: key.into(), ..AnswerRequest::default() }
}

fn writers() -> Actors {
    Actors::default().says("draft", "Dear team").says("send", "Sent.")
}

async fn paused(engine: &Engine, key: &str) -> (String, String) {
    let begun = engine.start(start("approval", "", key), &someone()).await.unwrap();
    let run = begun.run.to_string();
    (run, request_of(&all(begun.watch).await))
}

#[tokio::test]
async fn a_run_pauses_survives_a_restart_and_finishes_after_the_answer() {
    let ground = Ground::new(writers());
    let workflows = [approval(Patience::default())];
    let engine = ground.boot(&workflows).await;
    let begun = engine.start(start("approval", "", ""), &someone()).await.unwrap();
    let told = all(begun.watch).await;
    assert_eq!(
        names(&told),
        ["started", "invoked", "message", "step_completed", "asked", "checkpoint", "parked"]
    );
    drop(engine);
    let engine = ground.boot(&workflows).await;
    let request = answer(&request_of(&told), json!("approve"), "");
    let begun = engine.answer(request, &someone()).await.unwrap();
    let told = all(begun.watch).await;
    assert_eq!(
        names(&told),
        ["answered", "invoked", "message", "step_completed", "output", "completed"]
    );
    assert_eq!(told.last().unwrap().sequence, 13);
    assert_eq!(ground.actors.inputs.lock().unwrap().len(), 2, "E3: each step once");
}

#[tokio::test]
async fn e1_a_watcher_that_reads_the_journal_sees_nothing_before_it_is_durable() {
    let held = Held::new();
    let actors = Actors::default().says("draft", "Dear team").says("send", "Sent.").slowly("send");
    let ground = Ground { journal: held.clone(), ..Ground::new(actors) };
    let workflows = [approval(Patience::default())];
    let (run, request) = paused(&ground.boot(&workflows).await, "").await;
    // A new process has no tail of what came before: a watcher from the beginning reads the journal.
    let engine = ground.boot(&workflows).await;
    let mut watch = engine.watch(&run, 0, Until::Over, &someone()).await.unwrap();
    engine.answer(answer(&request, json!("approve"), ""), &someone()).await.unwrap();
    held.written.acquire().await.unwrap().forget();
    let mut told = Vec::new();
    while told.last() != Some(&"invoked") || told.len() < 9 {
        told.push(name(&watch.next().await.unwrap().unwrap().event));
    }
    assert!(!told.contains(&"delta"));
    {
        let next = std::pin::pin!(watch.next());
        assert!(futures::poll!(next).is_pending(), "it is written, and nobody was told that it is");
    }
    held.durable.add_permits(1);
    assert_eq!(name(&watch.next().await.unwrap().unwrap().event), "delta");
}

#[tokio::test]
async fn e1_a_stream_can_be_taken_up_after_any_sequence_number() {
    let ground = Ground::new(writers());
    let workflows = [approval(Patience::default())];
    let engine = ground.boot(&workflows).await;
    let (run, request) = paused(&engine, "").await;
    let begun = engine.answer(answer(&request, json!("approve"), ""), &someone()).await.unwrap();
    all(begun.watch).await;
    let whole = all(engine.watch(&run, 0, Until::CurrentRest, &someone()).await.unwrap()).await;
    // Once from the tail in memory, once from the journal after a restart.
    for engine in [engine, ground.boot(&workflows).await] {
        for after in 0..=whole.len() {
            let from = u64::try_from(after).unwrap();
            let watch = engine.watch(&run, from, Until::CurrentRest, &someone()).await.unwrap();
            assert_eq!(all(watch).await, whole[after..], "after {after}");
        }
    }
}

#[tokio::test]
async fn the_same_start_again_is_the_same_run_and_the_same_events() {
    let ground = Ground::new(writers());
    let engine = ground.boot(&[approval(Patience::default())]).await;
    let first = engine.start(start("approval", "", "k1"), &someone()).await.unwrap();
    let run = first.run.clone();
    let first = all(first.watch).await;
    let request = answer(&request_of(&first), json!("approve"), "k2");
    let answered = all(engine.answer(request.clone(), &someone()).await.unwrap().watch).await;

    let again = engine.start(start("approval", "", "k1"), &someone()).await.unwrap();
    assert_eq!(again.run, run);
    assert_eq!(all(again.watch).await, first);
    let again = engine.answer(request, &someone()).await.unwrap();
    assert_eq!(all(again.watch).await, answered, "K2: the first outcome");

    let mut other = start("approval", "", "k1");
    other.input = json!("Something else.");
    let refused = engine.start(other, &someone()).await.unwrap_err();
    assert!(matches!(refused, EngineError::Refused(Refusal::KeyReused(_))), "{refused}");
}

#[tokio::test]
async fn the_same_start_sent_many_times_at_once_begins_one_run() {
    let ground = Ground::new(writers());
    let engine = ground.boot(&[approval(Patience::default())]).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let engine = engine.clone();
        calls.spawn(async move {
            engine.start(start("approval", "", "same"), &someone()).await.unwrap().run.to_string()
        });
    }
    let runs: HashSet<_> = calls.join_all().await.into_iter().collect();
    assert_eq!(runs.len(), 1);
}

#[tokio::test]
async fn k2_of_many_answers_at_once_one_wins_and_the_others_are_told_who() {
    let ground = Ground::new(writers());
    let engine = ground.boot(&[approval(Patience::default())]).await;
    let (run, request) = paused(&engine, "").await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (engine, request) = (engine.clone(), request.clone());
        calls.spawn(async move {
            engine.answer(answer(&request, json!("approve"), ""), &someone()).await.map(|_| ())
        });
    }
    let outcomes = calls.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    for refused in outcomes.into_iter().filter_map(Result::err) {
        let EngineError::Refused(Refusal::AlreadyAnswered { by, .. }) = refused else {
            panic!("{refused}")
        };
        assert_eq!(by, "local");
    }
    let whole = all(engine.watch(&run, 0, Until::Over, &someone()).await.unwrap()).await;
    let sent = whole
        .iter()
        .filter(|told| matches!(&*told.event, Event::StepStarted { step, .. } if step == "send"));
    assert_eq!(sent.count(), 1);
}

/// One says yes and the other no, at the same moment, on two threads: whoever wins, the other is told,
/// and what is done is what the winner said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k2_two_people_answer_at_the_same_moment_ten_thousand_times_and_one_wins() {
    let ground = Ground::new(writers());
    let to = vec!["ann".into(), "bob".into()];
    let engine = ground.boot(&[approval(Patience { to, ..Patience::default() })]).await;
    let mut won = [0_u32; 2];
    for _ in 0..10_000 {
        let (run, request) = paused(&engine, "").await;
        let says = |id: &str, verb: &'static str| {
            let (engine, request) = (engine.clone(), request.clone());
            let who = Principal { id: id.into(), ..someone() };
            tokio::spawn(async move {
                let begun = engine.answer(answer(&request, json!(verb), ""), &who).await?;
                Ok::<_, EngineError>(all(begun.watch).await)
            })
        };
        let (yes, no) = (says("ann", "approve"), says("bob", "reject"));
        let outcomes = [yes.await.unwrap(), no.await.unwrap()];
        let winner = usize::from(outcomes[0].is_err());
        won[winner] += 1;
        let [first, second] = outcomes;
        let (told, refused) = if winner == 0 { (first, second) } else { (second, first) };
        let Err(EngineError::Refused(Refusal::AlreadyAnswered { by, .. })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(by, ["ann", "bob"][winner]);
        let end = names(&told.unwrap()).last().copied();
        assert_eq!(end, Some(["completed", "failed"][winner]));
        let whole = all(engine.watch(&run, 0, Until::Over, &someone()).await.unwrap()).await;
        let begun = |told: &&Published| matches!(&*told.event, Event::StepStarted { step, .. } if step == "send");
        assert_eq!(
            whole.iter().filter(begun).count(),
            [1, 0][winner],
            "never twice, never against a no"
        );
    }
    println!("the yes won {} times, the no {}", won[0], won[1]);
    assert!(won.iter().all(|times| *times > 0), "{won:?}: they really met");
}

#[tokio::test]
async fn a_message_on_a_waiting_session_answers_instead_of_starting() {
    let ground = Ground::new(Actors::default().says("host", "Go on."));
    let engine = ground.boot(&[chat(2)]).await;
    let say = |text: &str, key: &str| StartRequest {
        input: json!(text),
        ..start("chat", "my-session", key)
    };
    let first = engine.start(say("Hello", ""), &someone()).await.unwrap();
    let run = first.run.clone();
    all(first.watch).await;
    let second = engine.start(say("More", "m2"), &someone()).await.unwrap();
    assert_eq!(second.run, run, "the run is resumed, not started anew");
    let told = all(second.watch).await;
    assert_eq!(names(&told)[0], "answered");
    // The same message again must not answer the next question.
    let again = engine.start(say("More", "m2"), &someone()).await.unwrap();
    assert_eq!(all(again.watch).await, told);
    let third = engine.start(say("Bye", ""), &someone()).await.unwrap();
    assert_eq!(names(&all(third.watch).await), ["answered", "output", "completed"]);
    let view = engine.session("my-session", &someone()).await.unwrap();
    assert_eq!(view.runs.len(), 1);
    assert_eq!(view.runs[0].status, HeadStatus::Completed);
}

/// Runs `first` on a runtime of its own and then pulls the plug: every task is gone.
fn until_the_plug_is_pulled<T: Send + 'static>(
    first: impl Future<Output = T> + Send + 'static,
) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(first);
    // Waits until the workers have let go: a task that still wrote would be a second server.
    runtime.shutdown_timeout(Duration::from_secs(10));
    outcome
}

#[test]
fn a_deadline_fires_after_a_restart_and_never_early() {
    let ground = Ground::new(writers());
    let patience = Patience {
        deadline_ms: Some(60_000),
        on_timeout: OnTimeout::Reject,
        ..Patience::default()
    };
    let workflows = [approval(patience)];
    let before = (ground.clone(), workflows.clone());
    let run = until_the_plug_is_pulled(async move {
        let (ground, workflows) = before;
        let engine = ground.boot(&workflows).await;
        paused(&engine, "").await.0
    });
    until_the_plug_is_pulled(async move {
        let engine = ground.boot(&workflows).await;
        ground.clock.sleeper_until(1_060_000).await;
        ground.clock.advance(59_999);
        let head = engine.head(&run, &someone()).await.unwrap();
        assert!(matches!(head.status, HeadStatus::Waiting(_)), "not a millisecond early");
        ground.clock.advance(1);
        let whole = all(engine.watch(&run, 0, Until::Over, &someone()).await.unwrap()).await;
        assert_eq!(names(&whole[7..]), ["closed", "failed"]);
        let status = engine.head(&run, &someone()).await.unwrap().status;
        let HeadStatus::Failed(failure) = status else { panic!("{status:?}") };
        assert_eq!(failure.code, "question.expired");
    });
}

#[test]
fn e3_a_run_that_was_moving_is_taken_up_without_repeating_a_completed_step() {
    let ground = Ground::new(writers().slowly("send"));
    let workflows = [approval(Patience::default())];
    let before = (ground.clone(), workflows.clone());
    let run = until_the_plug_is_pulled(async move {
        let (ground, workflows) = before;
        let engine = ground.boot(&workflows).await;
        let (run, request) = paused(&engine, "").await;
        engine.answer(answer(&request, json!("approve"), ""), &someone()).await.unwrap();
        ground.actors.asked().await;
        run
    });
    until_the_plug_is_pulled(async move {
        let engine = ground.boot(&workflows).await;
        ground.actors.asked().await;
        ground.actors.gate("send").add_permits(1);
        let whole = all(engine.watch(&run, 0, Until::Over, &someone()).await.unwrap()).await;
        assert_eq!(names(&whole).last(), Some(&"completed"));
        let inputs = ground.actors.inputs.lock().unwrap();
        let drafts = inputs.iter().filter(|input| input.agent == "draft").count();
        let sends = inputs.iter().filter(|input| input.agent == "send").count();
        assert_eq!((drafts, sends), (1, 2), "only the attempt that was cut off is made again");
    });
}

/// An agent that calls `pay` once and then reports.
fn payer(input: &holdpoint::kernel::AgentInput) -> Reply {
    let has_paid = input.messages.iter().any(|message| message.call_id.is_some());
    if has_paid {
        return Reply { text: "Paid.".into(), ..Reply::default() };
    }
    let call = ToolCall::new("pay-1", "pay", json!({}));
    Reply { calls: vec![call], ..Reply::default() }
}

/// Starts the payment, pulls the plug while it is under way, and starts again.
fn cut_off_while_paying(safety: Safety) -> (Ground, [Workflow; 1], String) {
    let ground = Ground::new(Actors::default().plays("worker", payer).tool("pay"));
    let workflows = [with_tool(safety)];
    let before = (ground.clone(), workflows.clone());
    let run = until_the_plug_is_pulled(async move {
        let (ground, workflows) = before;
        let engine = ground.boot(&workflows).await;
        let begun = engine.start(start("with_tool", "", ""), &someone()).await.unwrap();
        ground.actors.asked().await;
        begun.run.to_string()
    });
    (ground, workflows, run)
}

#[test]
fn e2_an_idempotent_tool_is_called_again_with_the_same_key() {
    let (ground, workflows, run) = cut_off_while_paying(Safety::Idempotent);
    until_the_plug_is_pulled(async move {
        let engine = ground.boot(&workflows).await;
        ground.actors.asked().await;
        ground.actors.gate("pay").add_permits(1);
        let whole = all(engine.watch(&run, 0, Until::Over, &someone()).await.unwrap()).await;
        assert_eq!(names(&whole).last(), Some(&"completed"));
        let calls = ground.actors.calls.lock().unwrap();
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0], calls[1], "the same key");
    });
}

#[test]
fn e2_an_unsafe_tool_is_never_called_again_without_a_persons_word() {
    let (ground, workflows, run) = cut_off_while_paying(Safety::Unsafe);
    until_the_plug_is_pulled(async move {
        let engine = ground.boot(&workflows).await;
        let told = all(engine.watch(&run, 0, Until::CurrentRest, &someone()).await.unwrap()).await;
        assert_eq!(names(&told).last(), Some(&"parked"));
        let request = request_of(&told);
        let happened = json!({"verb": "happened", "result": "receipt 7"});
        let begun = engine.answer(answer(&request, happened, ""), &someone()).await.unwrap();
        let told = all(begun.watch).await;
        assert_eq!(names(&told).last(), Some(&"completed"));
        assert_eq!(ground.actors.calls.lock().unwrap().len(), 1, "never a second call");
    });
}

#[tokio::test]
async fn text_arrives_while_the_agent_is_still_speaking() {
    let ground = Ground::new(
        Actors::default().says("draft", "Dear team").says("send", "Sent.").slowly("draft"),
    );
    let engine = ground.boot(&[approval(Patience::default())]).await;
    let mut begun = engine.start(start("approval", "", ""), &someone()).await.unwrap();
    loop {
        let told = begun.watch.next().await.unwrap().unwrap();
        if let Event::Delta { text, .. } = &*told.event {
            assert_eq!(text, "Dear");
            break;
        }
    }
    // The agent has not finished: it still waits at its gate.
    ground.actors.gate("draft").add_permits(1);
    assert_eq!(names(&all(begun.watch).await).last(), Some(&"parked"));
}

#[tokio::test]
async fn a_cancelled_run_stops_its_work_and_takes_no_answers() {
    let ground = Ground::new(writers().slowly("send"));
    let engine = ground.boot(&[approval(Patience::default())]).await;
    let (run, request) = paused(&engine, "").await;
    engine.answer(answer(&request, json!("approve"), ""), &someone()).await.unwrap();
    ground.actors.asked().await;
    engine.cancel(&run, "changed my mind", "", &someone()).await.unwrap();
    let whole = all(engine.watch(&run, 0, Until::Over, &someone()).await.unwrap()).await;
    assert_eq!(names(&whole).last(), Some(&"cancelled"));
    let refused = engine.cancel(&run, "", "", &someone()).await.unwrap_err();
    assert!(matches!(refused, EngineError::Refused(Refusal::RunOver { .. })), "{refused}");
}

/// Until no more tasks are alive than there were; one too many for ever ends the test's patience instead.
async fn at_rest(tasks: usize) {
    let metrics = tokio::runtime::Handle::current().metrics();
    let rest = async {
        while metrics.num_alive_tasks() > tasks {
            tokio::task::yield_now().await;
        }
    };
    let rested = tokio::time::timeout(Duration::from_mins(1), rest).await;
    rested.unwrap_or_else(|_| panic!("{} tasks for {tasks}", metrics.num_alive_tasks()));
}

#[tokio::test]
async fn e4_a_parked_run_has_no_task() {
    let ground = Ground::new(writers());
    let engine = ground.boot(&[approval(Patience::default())]).await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let idle = tokio::spawn(std::future::pending::<()>());
    assert!(alive() > before, "a task that only waits is counted");
    idle.abort();
    for number in 0..50 {
        paused(&engine, &format!("parked-{number}")).await;
    }
    at_rest(before).await;
    let page = engine.inbox_page(&someone(), &InboxFilter::default(), "", 100).await.unwrap();
    assert_eq!(page.rows.len(), 50, "they wait");
}

#[tokio::test]
async fn e5_a_watcher_of_a_waiting_run_sees_anothers_answer() {
    let ground = Ground::new(writers());
    let engine = ground.boot(&[approval(Patience::default())]).await;
    let (run, request) = paused(&engine, "").await;
    let watch = engine.watch(&run, 7, Until::Over, &someone()).await.unwrap();
    let watcher = tokio::spawn(all(watch));
    // The caller leaves at once: the run does not mind.
    drop(engine.answer(answer(&request, json!("approve"), ""), &someone()).await.unwrap());
    let told = watcher.await.unwrap();
    assert_eq!(names(&told)[0], "answered");
    assert_eq!(names(&told).last(), Some(&"completed"));
}

#[tokio::test]
async fn a_fork_repeats_nothing_and_goes_its_own_way() {
    let ground = Ground::new(writers());
    let engine = ground.boot(&[approval(Patience::default())]).await;
    let (run, request) = paused(&engine, "").await;
    all(engine.answer(answer(&request, json!("approve"), ""), &someone()).await.unwrap().watch)
        .await;
    let fork = ForkRequest { run: run.clone(), ..ForkRequest::default() };
    let begun = engine.fork(fork, &someone()).await.unwrap();
    assert_ne!(begun.run.as_str(), run);
    let told = all(begun.watch).await;
    assert_eq!(names(&told).last(), Some(&"parked"));
    let refused = answer(&request_of(&told), json!("reject"), "");
    let told = all(engine.answer(refused, &someone()).await.unwrap().watch).await;
    assert_eq!(names(&told), ["answered", "failed"]);
    let first = engine.head(&run, &someone()).await.unwrap();
    assert_eq!(first.status, HeadStatus::Completed, "the old run is as it was");
    let inputs = ground.actors.inputs.lock().unwrap();
    assert_eq!(inputs.iter().filter(|input| input.agent == "draft").count(), 1);
}

#[tokio::test]
async fn d2_anothers_run_is_unknown() {
    let ground = Ground::new(writers());
    let engine = ground.boot(&[approval(Patience::default())]).await;
    let roles = holdpoint::kernel::Role::User.into();
    let mine = Principal { id: "ann".into(), roles, ..Principal::local("grpc") };
    let yours = Principal { id: "ben".into(), ..mine.clone() };
    let begun = engine.start(start("approval", "shared", ""), &mine).await.unwrap();
    let run = begun.run.to_string();
    let request = request_of(&all(begun.watch).await);
    let never = "run_00000000000000000000009999";
    let unknown = engine.head(never, &yours).await.unwrap_err().to_string();
    let foreign = engine.head(&run, &yours).await.unwrap_err().to_string();
    assert_eq!(foreign.replace(&run, never), unknown);
    let refusals = [
        engine.answer(answer(&request, json!("approve"), ""), &yours).await.unwrap_err(),
        engine.withdraw(&request, "", &yours).await.unwrap_err(),
        engine.cancel(&run, "", "", &yours).await.unwrap_err(),
        engine.session("shared", &yours).await.unwrap_err(),
    ];
    for refusal in refusals {
        let EngineError::Refused(refusal) = refusal else { panic!("{refusal}") };
        assert!(refusal.code().ends_with(".unknown"), "{refusal}");
    }
    let page = engine.inbox_page(&yours, &InboxFilter::default(), "", 0).await.unwrap();
    assert!(page.rows.is_empty());
    // The same word is a session of their own.
    let own = engine.start(start("approval", "shared", ""), &yours).await.unwrap();
    assert_ne!(own.run.to_string(), run);
}
