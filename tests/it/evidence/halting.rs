//! A hand on the brake: what is halted is neither done nor decided, by nobody and through no door, until it is
//! taken back; and then all of it goes on, once. Whatever kills the server meanwhile.

use std::collections::BTreeMap;
use std::{fs, slice};

use holdpoint::wire::v1::halt_request::Scope;
use holdpoint::wire::v1::{
    Halt, HaltRequest, ListAuditRequest, ListHaltsRequest, ReleaseHaltRequest, RunStatus,
    WorkflowEvent,
};
use serde_json::json;
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use crate::consent::stage::{LOCAL, Stage, TOOL, bills, question, refusal};
use crate::support::server::{drained, journal, names, start_of};
use crate::terminal::cli::holdpoint;

/// A payment that a gate asks about.
pub(crate) fn gated() -> String {
    bills("{id: act, tool: pay}")
        .replace("agents:", "gates: [{name: money, tools: [pay]}]\nagents:")
}

pub(crate) async fn halt(stage: &Stage, who: &str, scope: Scope) -> Result<Halt, Status> {
    let request =
        HaltRequest { scope: Some(scope), reason: "it looks wrong".into(), ..Default::default() };
    let told = stage.client(who).await.halt(request).await?;
    Ok(told.into_inner().halt.unwrap())
}

pub(crate) async fn release(stage: &Stage, who: &str, halt: &Halt) -> Result<Halt, Status> {
    let request = ReleaseHaltRequest { halt_id: halt.halt_id.clone(), reason: String::new() };
    Ok(stage.client(who).await.release_halt(request).await?.into_inner().halt.unwrap())
}

pub(crate) async fn halts(stage: &Stage) -> Vec<Halt> {
    stage.client(LOCAL).await.list_halts(ListHaltsRequest {}).await.unwrap().into_inner().halts
}

pub(crate) async fn log(stage: &Stage, action: &str) -> usize {
    let request = ListAuditRequest { store: true, ..Default::default() };
    let told = stage.client(LOCAL).await.list_audit(request).await.unwrap().into_inner();
    told.entries.iter().filter(|entry| entry.action == action).count()
}

pub(crate) fn halted() -> (Code, String) {
    (Code::FailedPrecondition, "halted".into())
}

/// Returns when a page says so, or not any more.
pub(crate) async fn until(stage: &Stage, words: &str, says: bool) {
    while stage.server.page("/readyz").1.contains(words) != says {
        tokio::task::yield_now().await;
    }
}

/// How many deeds are under way.
fn under_way(stage: &Stage) -> usize {
    let page = stage.server.page("/metrics").1;
    let line = page.lines().find_map(|line| line.strip_prefix("holdpoint_deeds_under_way "));
    line.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_halted_is_neither_begun_nor_decided_through_any_door_until_it_is_released() {
    let mut stage = Stage::open(&gated()).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    let all = halt(&stage, LOCAL, Scope::All(true)).await.unwrap();
    stage.server.restart();
    assert_eq!(halts(&stage).await, slice::from_ref(&all), "a restart releases nothing");
    let answered = stage.answer(LOCAL, &asked, json!("allow_once")).await;
    let told = answered.as_ref().unwrap_err().message().to_owned();
    assert_eq!(refusal(answered), halted());
    assert!(told.contains("it looks wrong") && told.contains("local"), "{told}");
    assert_eq!(refusal(stage.say(LOCAL, "other", "Bill 8.").await), halted(), "nothing is begun");
    // HTTP, A2A, the console, the terminal.
    let said = json!({"model": "bills", "input": format!("allow_once {}", asked.code), "conversation": "s"});
    let told = stage.http(LOCAL).post("/v1/responses", &said);
    assert!(told.body.contains("halted"), "{told:?}");
    let form = stage.form(LOCAL, &asked, &[("decision", "allow_once")]);
    assert!(form.body.contains("halted"), "{form:?}");
    let told = stage.command(LOCAL, &["respond", &asked.request_id, "allow_once"]);
    assert_eq!(told.code, 6, "{told:?}");
    stage.assert_untouched(LOCAL, &asked, "halted").await;
    // It is said wherever somebody looks.
    assert!(stage.server.page("/readyz").1.contains("halted: everything"));
    let page = stage.console(LOCAL).raw("GET", "/console/inbox", "");
    assert!(page.body.contains("it looks wrong"), "{}", page.body);
    let listed = stage.command(LOCAL, &["halt"]);
    assert!(listed.out.contains(&all.halt_id), "{listed:?}");
    // And then it goes on.
    let told = stage.command(LOCAL, &["halt", "--release", &all.halt_id]);
    assert_eq!(told.code, 0, "{told:?}");
    stage.answer(LOCAL, &asked, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await.len(), 1);
    assert_eq!((log(&stage, "halted").await, log(&stage, "halt_released").await), (1, 1));
    assert_eq!(stage.server.page("/readyz").1, "ready\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_stands_still_is_told_so_at_every_door_and_nothing_is_offered() {
    let flow = gated().replace("tools: [pay]}", "tools: [pay], deadline: 1h}");
    let mut stage = Stage::open(&flow).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    assert_eq!(asked.stands_with_ms_left, None);
    let offers = |page: &str| page.contains("name=\"decision\"");
    let path = format!("/console/requests/{}", asked.request_id);
    let page = |stage: &Stage, path: &str| stage.console(LOCAL).raw("GET", path, "").body;
    assert!(offers(&page(&stage, &path)), "{}", page(&stage, &path));
    let all = halt(&stage, LOCAL, Scope::All(true)).await.unwrap();
    let left = stage.inbox(LOCAL).await.remove(0).stands_with_ms_left;
    assert!(left.is_some_and(|ms| (1..=3_600_000).contains(&ms)), "{left:?}");
    let stands = "stands still while halted";
    let inbox = stage.command(LOCAL, &["inbox"]);
    assert!(inbox.out.contains("halted, "), "{inbox:?}");
    let whole = stage.command(LOCAL, &["inbox", &asked.request_id]);
    assert!(whole.out.contains(stands) && !whole.out.contains("  until "), "{whole:?}");
    let shown = page(&stage, &path);
    assert!(shown.contains(stands) && shown.contains("it looks wrong"), "{shown}");
    assert!(!offers(&shown) && !shown.contains("If nobody answers by <time"), "{shown}");
    assert!(page(&stage, "/console/inbox").contains(stands));
    assert!(stage.server.page("/metrics").1.contains("holdpoint_requests_overdue 0"));
    // Whoever takes the run up is told why no answer is taken.
    let resumed = stage.command(LOCAL, &["resume", &asked.run_id, "--no-input"]);
    assert!(resumed.out.contains(stands), "{resumed:?}");
    assert!(resumed.err.contains("a halt stands: "), "{resumed:?}");
    // So is whoever looks whether all is well.
    stage.server.kill();
    let looked = holdpoint(stage.root.path(), &["doctor", "--data", "data"], "");
    assert!(looked.out.contains("halts: everything, by local: it looks wrong"), "{looked:?}");
    stage.server.restart();
    release(&stage, LOCAL, &all).await.unwrap();
    assert_eq!(stage.inbox(LOCAL).await.remove(0).stands_with_ms_left, None);
    assert!(offers(&page(&stage, &path)));
    let looked = stage.command(LOCAL, &["inbox", &asked.request_id]);
    assert!(looked.out.contains("  until "), "{looked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_halt_and_admins_release_and_under_four_eyes_not_their_own() {
    let people = [("ann", "starter"), ("op", "operator"), ("root", "admin"), ("boss", "admin")];
    let stage = Stage::set(&gated(), &people, &["--four-eyes=true"]).await;
    assert_eq!(refusal(halt(&stage, "ann", Scope::All(true)).await).0, Code::PermissionDenied);
    let first = halt(&stage, "op", Scope::All(true)).await.unwrap();
    assert_eq!(refusal(release(&stage, "op", &first).await).0, Code::PermissionDenied);
    let second = halt(&stage, "root", Scope::WorkflowId("bills".into())).await.unwrap();
    assert_eq!(refusal(release(&stage, "root", &second).await).0, Code::PermissionDenied);
    release(&stage, "root", &first).await.unwrap();
    assert_eq!(refusal(stage.say("ann", "s", "Bill.").await), halted(), "one still stands");
    release(&stage, "boss", &second).await.unwrap();
    stage.say("ann", "s", "Bill.").await.unwrap();
    let again = refusal(release(&stage, "boss", &second).await);
    assert_eq!(again, (Code::NotFound, "halt.unknown".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_tool_is_not_called_and_everything_else_goes_on() {
    let flow = format!(
        "{}\n=== talks
name: talks
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{{id: ask, human: {{kind: approval, prompt: Go on?}}}}, {{id: end, agent: idle}}]
",
        gated()
    );
    let stage = Stage::open(&flow).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    let pay = halt(&stage, LOCAL, Scope::Tool("pay".into())).await.unwrap();
    assert_eq!(refusal(stage.answer(LOCAL, &asked, json!("allow_once")).await), halted());
    // Another workflow, and a start of the same, are not touched.
    let mut client = stage.client(LOCAL).await;
    let begun = client.run_workflow(start_of("talks", "t", "Hello.", "")).await.unwrap();
    let other = question(&drained(begun.into_inner()).await.unwrap());
    stage.answer(LOCAL, &other, json!("approve")).await.unwrap();
    question(&stage.start(LOCAL, "s2", "Bill 8.").await);
    assert_eq!(stage.paid(), 0);
    release(&stage, LOCAL, &pay).await.unwrap();
    stage.answer(LOCAL, &asked, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_a_call_that_a_halt_stopped_is_not_asked_about_after_a_kill_and_is_made_once_after_it() {
    let mut stage = Stage::open(&bills("{id: act, tool: pay}")).await;
    let stopped = halt(&stage, LOCAL, Scope::Tool("pay".into())).await.unwrap();
    let mut client = stage.client(LOCAL).await;
    let mut told = client.run_workflow(start_of("bills", "", "go", "")).await.unwrap().into_inner();
    // The intent is durable, and so is that nothing was done.
    let run = loop {
        let event = told.message().await.unwrap().expect("the run waits for the halt");
        if format!("{event:?}").contains("call.held") {
            break event.run_id;
        }
    };
    for _ in 0..2 {
        stage.server.kill();
        stage.server.restart();
        let open = stage.inbox(LOCAL).await;
        assert!(open.is_empty(), "nobody needs to be asked whether it happened: {open:?}");
        assert_eq!(stage.paid(), 0);
    }
    // Whoever looks is told why nothing comes, and the trail does not say that it was made.
    let stands = stage.command(LOCAL, &["runs", &run]);
    assert!(stands.out.contains("a halt stands") && stands.out.contains("tool pay"), "{stands:?}");
    let trail = trail(&stage, &run).await;
    assert_eq!(trail.last().map(String::as_str), Some("held"), "{trail:?}");
    release(&stage, LOCAL, &stopped).await.unwrap();
    let told = journal(&mut stage.client(LOCAL).await, &run).await;
    assert_eq!(names(&told).last(), Some(&"completed"), "{told:?}");
    assert_eq!(stage.paid(), 1, "it is made, once");
    let trail = self::trail(&stage, &run).await;
    let made = trail.iter().position(|action| action == "made").unwrap();
    assert!(trail[made..].contains(&"returned".to_owned()), "{trail:?}");
}

/// What the trail of a run says was done, in order.
async fn trail(stage: &Stage, run: &str) -> Vec<String> {
    let request = ListAuditRequest { run_id: run.into(), ..Default::default() };
    let told = stage.client(LOCAL).await.list_audit(request).await.unwrap().into_inner();
    let mut entries = told.entries;
    entries.sort_by_key(|entry| entry.sequence);
    entries.into_iter().map(|entry| entry.action).collect()
}

/// A run whose call was taken by a place that sends it on to another, and has not done so yet; and what follows it.
async fn on_its_way() -> (Stage, JoinHandle<Result<Vec<WorkflowEvent>, Status>>) {
    let flow = bills("{id: act, tool: pay}").replace("TOOLS/pay", "TOOLS/moved");
    let stage = Stage::open(&flow).await;
    let mut client = stage.client(LOCAL).await;
    let told = client.run_workflow(start_of("bills", "", "go", "")).await.unwrap();
    let follows = tokio::spawn(async move { drained(told.into_inner()).await });
    stage.tools.asked_at("/moved").await;
    (stage, follows)
}

/// Has it sent on, waits until nothing is under way, and says how many came where the deed is done.
async fn sent_on(stage: &Stage) -> usize {
    stage.tools.open_gate();
    while under_way(stage) > 0 {
        tokio::task::yield_now().await;
    }
    stage.tools.seen().iter().filter(|seen| seen.path == "/pay").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_about_to_be_sent_on_when_the_halt_came_goes_no_further_and_is_asked_about()
{
    let (stage, follows) = on_its_way().await;
    let stopped = halt(&stage, LOCAL, Scope::All(true)).await.unwrap();
    assert_eq!(sent_on(&stage).await, 0);
    release(&stage, LOCAL, &stopped).await.unwrap();
    // Whoever was to send it on has read all of it.
    let asked = question(&follows.await.unwrap().unwrap());
    assert!(asked.prompt.contains("sent on by a redirect"), "{}", asked.prompt);
    assert_eq!(sent_on(&stage).await, 0, "nothing is sent before somebody has said what happened");
    let told = stage.answer(LOCAL, &asked, json!({"verb": "redo"})).await.unwrap();
    assert_eq!(names(&told).last(), Some(&"completed"), "{told:?}");
    assert_eq!(sent_on(&stage).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_is_halted_by_the_names_that_it_began_with_though_its_file_has_others() {
    let (stage, follows) = on_its_way().await;
    fs::remove_file(stage.root.path().join("flows/bills.yaml")).unwrap();
    while stage.command(LOCAL, &["workflows"]).out.contains("bills") {
        tokio::task::yield_now().await;
    }
    let stopped = halt(&stage, LOCAL, Scope::Tool("pay".into())).await.unwrap();
    halt(&stage, LOCAL, Scope::WorkflowId("bills".into())).await.unwrap();
    assert_eq!(sent_on(&stage).await, 0);
    assert_eq!(stopped.principal, "local");
    follows.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_halt_stops_everything_and_its_absence_lets_it_go_on() {
    let mut stage = Stage::open(&gated()).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    let file = stage.root.path().join("data/HALT");
    fs::write(&file, "call the office\n").unwrap();
    until(&stage, "call the office", true).await;
    let answered = stage.answer(LOCAL, &asked, json!("allow_once")).await;
    assert_eq!(refusal(answered), halted());
    let standing = halts(&stage).await;
    assert_eq!(standing[0].principal, "file");
    let refused = refusal(release(&stage, LOCAL, &standing[0]).await);
    assert_eq!(refused.0, Code::InvalidArgument, "whoever made the file removes it");
    stage.server.restart();
    assert!(stage.server.page("/readyz").1.contains("call the office"));
    // Removed while nobody serves, it is over as well.
    stage.server.kill();
    fs::remove_file(&file).unwrap();
    stage.server.restart();
    assert_eq!(stage.server.page("/readyz").1, "ready\n");
    stage.answer(LOCAL, &asked, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halt_is_taken_back_while_the_file_stands_and_nobody_waits_for_anybody() {
    let timed =
        gated().replace("{name: money, tools: [pay]}", "{name: money, tools: [pay], deadline: 1h}");
    let stage = Stage::open(&timed).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    let all = halt(&stage, LOCAL, Scope::All(true)).await.unwrap();
    let file = stage.root.path().join("data/HALT");
    fs::write(&file, "call the office\n").unwrap();
    // Whoever has a clock is told how long it stood, though something else stops it still; and before the file was
    // ever heeded, too.
    let patience = std::time::Duration::from_mins(2);
    let released = tokio::time::timeout(patience, release(&stage, LOCAL, &all)).await;
    released.expect("it is taken back").unwrap();
    until(&stage, "call the office", true).await;
    let again = halt(&stage, LOCAL, Scope::Tool("pay".into()));
    let again = tokio::time::timeout(patience, again).await.expect("another can be made").unwrap();
    tokio::time::timeout(patience, release(&stage, LOCAL, &again)).await.unwrap().unwrap();
    assert_eq!(refusal(stage.answer(LOCAL, &asked, json!("allow_once")).await), halted());
    fs::remove_file(&file).unwrap();
    until(&stage, "call the office", false).await;
    stage.answer(LOCAL, &asked, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_it_is_halted_and_released_a_server_finishes_what_was_begun() {
    for point in ["engine.halt_kept", "engine.halt_ending", "engine.halt_told", "engine.halt_ended"]
    {
        let mut stage = Stage::open(&gated()).await;
        let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
        stage.server.restart_at(point);
        match halt(&stage, LOCAL, Scope::All(true)).await {
            // It died after it was durable: halted it is.
            Err(_) => {
                stage.server.restart();
                assert_eq!(halts(&stage).await.len(), 1, "{point}");
                let all = halts(&stage).await.remove(0);
                release(&stage, LOCAL, &all).await.unwrap();
            }
            Ok(all) => {
                let cut = release(&stage, LOCAL, &all).await;
                assert!(cut.is_err(), "{point}: {cut:?}");
                stage.server.restart();
                assert_eq!(halts(&stage).await, [], "{point}: what was begun is finished");
            }
        }
        stage.answer(LOCAL, &asked, json!("allow_once")).await.unwrap();
        assert_eq!(stage.deeds(LOCAL, &asked.run_id).await.len(), 1, "{point}");
    }
}

#[expect(clippy::too_many_lines, reason = "one play, in the order in which it happens")]
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_runs_that_move_stop_at_a_halt_and_go_on_after_it_each_once() {
    const RUNS: usize = 1_000;
    const WRITERS: usize = 16;
    let flow = format!(
        "
name: bills
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{{id: first, tool: pay}}, {{id: second, tool: pay}}, {{id: end, agent: idle}}]
"
    );
    let stage = Stage::open(&flow).await;
    let (goes_on, _) = tokio::sync::watch::channel(0);
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let mut client = stage.client(LOCAL).await;
        let mut released = goes_on.subscribe();
        writers.push(tokio::spawn(async move {
            for number in (writer..RUNS).step_by(WRITERS) {
                let start = start_of("bills", &format!("s{number}"), "Bill.", "");
                loop {
                    released.borrow_and_update();
                    match client.run_workflow(start.clone()).await {
                        Ok(begun) => {
                            drained(begun.into_inner()).await.unwrap();
                            break;
                        }
                        // Nothing was begun: it is tried again once that is possible.
                        Err(no) if no.message().contains("halted") => {
                            released.changed().await.unwrap();
                        }
                        Err(no) => panic!("{no:?}"),
                    }
                }
            }
        }));
    }
    for round in 1..=3 {
        while stage.paid() < round * RUNS / 2 {
            tokio::task::yield_now().await;
        }
        let all = halt(&stage, LOCAL, Scope::All(true)).await.unwrap();
        // What is under way comes home, and from then on nothing arrives.
        while under_way(&stage) > 0 {
            tokio::task::yield_now().await;
        }
        let arrived = stage.paid();
        for _ in 0..100 {
            assert_eq!(halts(&stage).await.len(), 1);
        }
        // What was planned before it, and had its turn only now, was counted and not done.
        while under_way(&stage) > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(stage.paid(), arrived);
        release(&stage, LOCAL, &all).await.unwrap();
        goes_on.send_replace(round);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(stage.paid(), 2 * RUNS);
    let mut by: BTreeMap<_, usize> = BTreeMap::new();
    let mut token = String::new();
    loop {
        let request =
            holdpoint::wire::v1::ListRunsRequest { page_token: token, ..Default::default() };
        let page = stage.client(LOCAL).await.list_runs(request).await.unwrap().into_inner();
        for run in page.runs {
            *by.entry(run.status().as_str_name()).or_default() += 1;
        }
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(by, BTreeMap::from([(RunStatus::Completed.as_str_name(), RUNS)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halt_reaches_into_a_workflow_that_is_a_step_of_another() {
    let flow = format!(
        "name: outer
pattern: graph
graph:
  steps: [{{id: inner, workflow: {{file: bills.yaml}}}}]
\n=== bills{}",
        bills("{id: act, tool: pay}")
    );
    let stage = Stage::open(&flow).await;
    for scope in [Scope::Tool("pay".into()), Scope::WorkflowId("bills".into())] {
        let before = stage.paid();
        let stopped = halt(&stage, LOCAL, scope).await.unwrap();
        let mut client = stage.client(LOCAL).await;
        let begun = client.run_workflow(start_of("outer", "", "Bill.", "")).await.unwrap();
        let follows = tokio::spawn(async move { drained(begun.into_inner()).await });
        for _ in 0..50 {
            assert_eq!(halts(&stage).await.len(), 1);
        }
        assert_eq!(stage.paid(), before, "it is not called");
        release(&stage, LOCAL, &stopped).await.unwrap();
        follows.await.unwrap().unwrap();
        assert_eq!(stage.paid(), before + 1, "and then it is, once");
    }
}

/// A workflow that asks, as a step of another.
pub(crate) const NESTED: &str = "name: outer
pattern: graph
graph:
  steps: [{id: first, workflow: {file: inner.yaml}}]

=== inner
name: inner
pattern: graph
graph:
  steps: [{id: ask, human: {kind: approval, prompt: Go on?}}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_halted_workflow_asks_as_a_step_of_another_takes_no_decision() {
    let stage = Stage::open(NESTED).await;
    let asked = question(&stage.start(LOCAL, "s", "Hello.").await);
    let stopped = halt(&stage, LOCAL, Scope::WorkflowId("inner".into())).await.unwrap();
    assert_eq!(refusal(stage.answer(LOCAL, &asked, json!("approve")).await), halted());
    release(&stage, LOCAL, &stopped).await.unwrap();
    stage.answer(LOCAL, &asked, json!("approve")).await.unwrap();
}
