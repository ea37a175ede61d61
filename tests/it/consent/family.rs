//! A no counts in the whole family of forks (K11): what was refused in one run of it is not let pass in
//! another by a yes that did not know of it. Whoever is admitted may take it up again, and the trail says so.

use holdpoint::wire::v1::{
    AuditEntry, CancelRequestRequest, ForkRunRequest, Request, SendResponsesRequest,
};
use serde_json::{Value, json};

use crate::consent::stage::{LOCAL, Stage, TOOL, facts, question, refusal};
use crate::support::server::drained;

const PEOPLE: [(&str, &str); 3] = [("clerk", "user"), ("cfo", "user"), ("chief", "user")];

/// A payment that one of two may allow, or whoever owns the run.
fn paying(to: &str) -> String {
    format!(
        "
name: paying
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates: [{{name: money, tools: [pay]{to}}}]
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{{id: act, tool: pay, arguments: {{amount: 10}}}}, {{id: end, agent: idle}}]
"
    )
}

const BOTH: &str = ", to: [cfo, chief]";

async fn fork(stage: &Stage, who: &str, run_id: &str) -> String {
    let request = ForkRunRequest { run_id: run_id.into(), ..Default::default() };
    let stream = stage.client(who).await.fork_run(request).await.unwrap().into_inner();
    drained(stream).await.unwrap()[0].run_id.clone()
}

/// A run of the clerk's, and forks of it: two, and one of the second.
async fn family(stage: &Stage, who: &str) -> Vec<String> {
    let first = stage.start(who, "", "Bill 7.").await[0].run_id.clone();
    let one = fork(stage, who, &first).await;
    let two = fork(stage, who, &first).await;
    let third = fork(stage, who, &two).await;
    vec![first, one, two, third]
}

/// What a run asks, as somebody has it in their inbox.
async fn open(stage: &Stage, who: &str, run_id: &str) -> Request {
    let inbox = stage.inbox(who).await;
    inbox.into_iter().find(|one| one.run_id == run_id).expect("the run asks")
}

async fn taken_up(stage: &Stage, who: &str, run_id: &str) -> Vec<AuditEntry> {
    let mut trail = stage.audit(who, run_id).await;
    trail.retain(|entry| entry.note.contains("took up again"));
    trail
}

/// When somebody answered in a run.
async fn said_at(stage: &Stage, run_id: &str, who: &str) -> (i64, i32) {
    let trail = stage.audit("clerk", run_id).await;
    let said = trail.iter().find(|entry| entry.action == "answered" && entry.principal == who);
    let at = said.unwrap().time.unwrap();
    (at.seconds, at.nanos)
}

/// Whoever says no in one of the runs says it in all of them.
async fn assert_counts_everywhere(no: Value, place: usize) {
    let stage = Stage::with_people(&paying(BOTH), &PEOPLE).await;
    let runs = family(&stage, "clerk").await;
    let mut shown = Vec::new();
    for run in &runs {
        shown.push(open(&stage, "chief", run).await);
    }
    stage.answer("cfo", &shown[place], no).await.unwrap();
    for (number, (run, before)) in runs.iter().zip(&shown).enumerate() {
        if number == place {
            continue;
        }
        let late = stage.answer("chief", before, json!("allow_once")).await;
        assert_eq!(refusal(late).1, "request.asked_anew", "K11: no in {place}, yes in {number}");
        // The same again is told the same, and decides nothing.
        let late = stage.answer("chief", before, json!("allow_once")).await;
        assert_eq!(refusal(late).1, "request.asked_anew");
        let now = open(&stage, "chief", run).await;
        assert_ne!(now.request_id, before.request_id);
        assert_ne!(now.digest, before.digest);
        let told = facts(&now);
        assert!(told.contains("cfo refused it (deny)"), "who refused it: {told}");
        assert!(told.contains(&runs[place]), "and where: {told}");
        assert_eq!(stage.paid(), 0);
    }
    // The yes of somebody who knows takes it up again, in that run alone.
    let other = (place + 1) % runs.len();
    let now = open(&stage, "chief", &runs[other]).await;
    stage.answer("chief", &now, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &runs[other]).await.len(), 1);
    let told = taken_up(&stage, "clerk", &runs[other]).await;
    assert_eq!(told.len(), 1, "the trail says that it was taken up again");
    assert_eq!((told[0].action.as_str(), told[0].principal.as_str()), ("answered", "chief"));
    assert!(told[0].note.contains("cfo refused it (deny)"), "{}", told[0].note);
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k11_a_no_in_a_fork_counts_in_the_run_that_was_forked_and_in_its_other_forks() {
    assert_counts_everywhere(json!({"decision": "deny", "note": "No."}), 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_no_in_the_run_that_was_forked_counts_in_forks_and_in_their_forks() {
    assert_counts_everywhere(json!("deny"), 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_no_in_the_fork_of_a_fork_counts_in_all_the_others() {
    assert_counts_everywhere(json!("deny"), 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_what_was_taken_back_in_a_fork_is_not_passed_in_another() {
    let stage = Stage::with_people(&paying(BOTH), &PEOPLE).await;
    let runs = family(&stage, "clerk").await;
    let there = open(&stage, "cfo", &runs[2]).await;
    let here = open(&stage, "clerk", &runs[1]).await;
    let request =
        CancelRequestRequest { request_id: here.request_id, ..CancelRequestRequest::default() };
    stage.client("clerk").await.cancel_request(request).await.unwrap();
    let late = stage.answer("cfo", &there, json!("allow_once")).await;
    assert_eq!(refusal(late).1, "request.asked_anew");
    let now = open(&stage, "cfo", &runs[2]).await;
    assert!(facts(&now).contains("clerk took it back"), "{}", facts(&now));
    assert_eq!(stage.paid(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_no_survives_the_server_that_took_it() {
    // It dies between the no and whatever would tell the others: once the no is durable, once it is told.
    for point in ["engine.after_append", "engine.after_publish", "engine.before_recall"] {
        let mut stage = Stage::with_people(&paying(BOTH), &PEOPLE).await;
        let runs = family(&stage, "clerk").await;
        let (here, there) =
            (open(&stage, "cfo", &runs[1]).await, open(&stage, "chief", &runs[2]).await);
        stage.server.restart_at(point);
        // Whether the answer gets through or is lost with the server, it was taken.
        drop(stage.answer("cfo", &here, json!("deny")).await);
        stage.server.ended().await;
        stage.server.restart();
        let late = stage.answer("chief", &there, json!("allow_once")).await;
        assert_eq!(refusal(late).1, "request.asked_anew", "killed at {point}");
        assert_eq!(stage.paid(), 0);
        let now = open(&stage, "chief", &runs[2]).await;
        assert!(facts(&now).contains("cfo refused it"), "{}", facts(&now));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_yes_that_came_before_the_no_stands_and_can_be_repeated() {
    let stage = Stage::with_people(&paying(BOTH), &PEOPLE).await;
    let runs = family(&stage, "clerk").await;
    let (here, there) =
        (open(&stage, "cfo", &runs[1]).await, open(&stage, "chief", &runs[2]).await);
    let id = there.request_id.clone();
    let yes = SendResponsesRequest {
        responses: [(id, json!("allow_once").into())].into(),
        idempotency_key: "once".into(),
        ..SendResponsesRequest::default()
    };
    let mut chief = stage.client("chief").await;
    drained(chief.send_responses(yes.clone()).await.unwrap().into_inner()).await.unwrap();
    assert_eq!(stage.deeds("clerk", &runs[2]).await.len(), 1);
    stage.answer("cfo", &here, json!("deny")).await.unwrap();
    drained(chief.send_responses(yes).await.unwrap().into_inner()).await.unwrap();
    assert_eq!(stage.deeds("clerk", &runs[2]).await.len(), 1, "one yes, one deed");
    assert!(taken_up(&stage, "clerk", &runs[2]).await.is_empty(), "nothing had been refused");
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k11_of_a_no_and_a_yes_at_once_one_comes_first() {
    let stage = Stage::with_people(&paying(BOTH), &PEOPLE).await;
    let mut paid = 0;
    for _ in 0..20 {
        let runs = family(&stage, "clerk").await;
        let (here, there) =
            (open(&stage, "cfo", &runs[1]).await, open(&stage, "chief", &runs[2]).await);
        let (no, yes) = tokio::join!(
            stage.answer("cfo", &here, json!("deny")),
            stage.answer("chief", &there, json!("allow_once"))
        );
        no.unwrap();
        let (_, code) = refusal(yes);
        assert!(code.is_empty() || code == "request.asked_anew", "{code}");
        paid += usize::from(code.is_empty());
        if code.is_empty() {
            let (yes, no) =
                (said_at(&stage, &runs[2], "chief").await, said_at(&stage, &runs[1], "cfo").await);
            assert!(yes <= no, "a yes that was taken came before the no: {yes:?} {no:?}");
        }
        assert_eq!(stage.deeds("clerk", &runs[2]).await.len(), paid, "what was taken was done");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_whoever_owns_a_run_that_asks_nobody_else_may_take_up_their_own_no() {
    let stage = Stage::open(&paying("")).await;
    let runs = family(&stage, LOCAL).await;
    let (here, there) = (open(&stage, LOCAL, &runs[1]).await, open(&stage, LOCAL, &runs[2]).await);
    stage.answer(LOCAL, &here, json!("deny")).await.unwrap();
    let late = stage.answer(LOCAL, &there, json!("allow_once")).await;
    assert_eq!(refusal(late).1, "request.asked_anew");
    let now = open(&stage, LOCAL, &runs[2]).await;
    stage.answer(LOCAL, &now, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &runs[2]).await.len(), 1);
    assert_eq!(taken_up(&stage, LOCAL, &runs[2]).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_fork_of_what_was_refused_tells_of_it_and_its_yes_takes_it_up_again() {
    let stage = Stage::open(&paying("")).await;
    let first = question(&stage.start(LOCAL, "", "Bill 7.").await);
    stage.answer(LOCAL, &first, json!("deny")).await.unwrap();
    let again = fork(&stage, LOCAL, &first.run_id).await;
    let now = open(&stage, LOCAL, &again).await;
    assert!(facts(&now).contains(&first.run_id), "{}", facts(&now));
    stage.answer(LOCAL, &now, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &again).await.len(), 1);
    assert_eq!(taken_up(&stage, LOCAL, &again).await.len(), 1, "the trail says so");
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_whoever_is_not_admitted_does_not_fork_what_was_refused_in_another_fork() {
    let stage = Stage::with_people(&paying(BOTH), &PEOPLE).await;
    let runs = family(&stage, "clerk").await;
    let here = open(&stage, "cfo", &runs[1]).await;
    stage.answer("cfo", &here, json!("deny")).await.unwrap();
    let request = ForkRunRequest { run_id: runs[2].clone(), ..Default::default() };
    let refused = stage.client("clerk").await.fork_run(request).await;
    assert_eq!(refusal(refused).1, "answer.not_admitted");
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_whoever_edits_a_call_into_what_was_refused_in_a_fork_is_asked_about_it() {
    let stage = Stage::with_people(&paying(BOTH), &PEOPLE).await;
    let runs = family(&stage, "clerk").await;
    let edit = |amount: u64| json!({"decision": "edit", "arguments": {"amount": amount}});
    let refused = open(&stage, "cfo", &runs[1]).await;
    stage.answer("cfo", &refused, json!("deny")).await.unwrap();
    // Whoever answers is asked anew first, and told of the no.
    let before = open(&stage, "chief", &runs[2]).await;
    let late = stage.answer("chief", &before, edit(10)).await;
    assert!(["", "request.asked_anew"].contains(&refusal(late).1.as_str()));
    let told = open(&stage, "chief", &runs[2]).await;
    assert!(facts(&told).contains("cfo refused it (deny)"), "{}", facts(&told));
    // Their own version is exactly what was refused: it is asked, and tells of that.
    stage.answer("chief", &told, edit(10)).await.unwrap();
    assert_eq!(stage.deeds("clerk", &runs[2]).await, Vec::<Value>::new(), "K11: it passed unasked");
    let again = open(&stage, "chief", &runs[2]).await;
    assert!(facts(&again).contains("cfo refused it (deny)"), "{}", facts(&again));
    stage.answer("chief", &again, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &runs[2]).await, [json!({"amount": 10})], "taken up knowingly");
    // Another amount was refused by nobody.
    let other = open(&stage, "chief", &runs[3]).await;
    stage.answer("chief", &other, edit(11)).await.unwrap();
    let paid = [json!({"amount": 10}), json!({"amount": 11})];
    assert_eq!(stage.deeds("clerk", &runs[3]).await, paid);
}
