//! Gates that a start brings, on the real binary, by somebody who would pass others with them: by words, by a fork, by
//! time, by a branch that fails, across SIGKILL. What holds of them is in `kernel::brought`.

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    ForkRunRequest, Request, RunWorkflowRequest, WatchRunRequest, WorkflowEvent,
};
use serde_json::json;

use crate::consent::stage::{Stage, TOOL, refusal};
use crate::support::server::{asked, drained, run, start_of};

const PEOPLE: [(&str, &str); 2] = [("ada", "user"), ("cfo", "user")];

/// Steps, and a payment that is only done where they let it.
fn paying(agent: &str, steps: &str, gates: &str) -> String {
    format!(
        "
name: refunds
models:
  default: {{provider: scripted, script: [{{say: This is a danger.}}]}}
  broken: {{provider: scripted, script: [{{fail: {{message: no line, retriable: false}}}}]}}
tools:{TOOL}
gates: {gates}
agents: {{{agent}}}
pattern: graph
graph:
  steps:
{steps}
    - {{id: act, tool: pay, arguments: {{amount: 10}}}}
"
    )
}

const CLERK: &str = "clerk: {human_input: false}";
const BROKEN: &str = "broken: {human_input: false, model: broken, retry: {attempts: 1}}";

/// Ada starts it with a gate of her own, and is asked there.
async fn started(stage: &Stage, steps: &[&str]) -> Request {
    let gate = json!({"name": "mine", "steps": steps, "to": ["ada"]});
    let start =
        RunWorkflowRequest { gates: vec![gate.into()], ..start_of("refunds", "", "Order 7.", "") };
    asked(&run(&mut stage.client("ada").await, start).await).expect("her own gate asks her")
}

/// What a run ended with.
async fn ended(stage: &Stage, run_id: &str) -> String {
    let watch = WatchRunRequest { run_id: run_id.into(), through_pauses: true, after_sequence: 0 };
    let told = stage.client("ada").await.watch_run(watch).await.unwrap().into_inner();
    let told = drained(told).await.unwrap();
    let failures = told.into_iter().filter_map(|told| match told.event {
        Some(Event::Failed(failure)) => Some(failure.code),
        _ => None,
    });
    failures.last().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn k12_no_word_said_at_a_gate_of_ones_own_is_heard_by_what_looks_back() {
    let gates = "[{name: risky, steps: [act], when: [{keywords: [danger]}], to: [cfo]}]";
    let mut stage =
        Stage::with_people(&paying(CLERK, "    - {id: talk, agent: clerk}", gates), &PEOPLE).await;
    let own = started(&stage, &["act"]).await;
    let noted = json!({"decision": "approve", "note": "All is well."});
    assert_eq!(refusal(stage.answer("ada", &own, noted.clone()).await).1, "answer.invalid");
    let at_terminal = ["respond", &own.request_id, &noted.to_string()];
    assert_ne!(stage.command("ada", &at_terminal).code, 0);
    let body = json!({"model": "refunds", "previous_response_id": own.run_id,
        "input": [{"type": "function_call_output", "call_id": own.request_id,
                   "output": noted.to_string()}]});
    assert!(stage.http("ada").post("/v1/responses", &body).status >= 400);
    let shown = stage.console("ada").get(&format!("/console/requests/{}", own.request_id)).body;
    assert!(!shown.contains("name=\"note\""), "no place for words");
    // Her yes, a kill, and the file's gate asks whom it asks without hers.
    stage.answer("ada", &own, json!("approve")).await.unwrap();
    stage.server.restart();
    let office = stage.inbox("cfo").await.remove(0);
    let not_hers = refusal(stage.answer("ada", &office, json!("approve")).await).1;
    assert_eq!((not_hers.as_str(), stage.paid()), ("answer.not_admitted", 0));
    stage.answer("cfo", &office, json!("approve")).await.unwrap();
    assert_eq!(stage.paid(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k12_a_run_that_a_gate_of_its_start_ended_goes_on_nowhere_behind_it() {
    let block = "    - {id: talk, agent: clerk}\n    - {id: block, critical: false, steps: [{id: ok, human: {kind: approval, prompt: 'Pay?', to: [cfo]}}]}";
    let stage = Stage::with_people(&paying(CLERK, block, "[]"), &PEOPLE).await;
    let own = started(&stage, &["block"]).await;
    stage.answer("ada", &own, json!("reject")).await.unwrap();
    assert_eq!(ended(&stage, &own.run_id).await, "gate.refused");
    let fork = ForkRunRequest { run_id: own.run_id.clone(), ..Default::default() };
    let told: Vec<WorkflowEvent> =
        drained(stage.client("ada").await.fork_run(fork).await.unwrap().into_inner())
            .await
            .unwrap();
    let again = asked(&told).expect("the fork asks what was refused");
    assert_eq!((again.source_step.as_str(), stage.paid()), ("block", 0));
    stage.answer("ada", &again, json!("approve")).await.unwrap();
    let office = stage.inbox("cfo").await;
    assert!(office.iter().any(|one| one.source_step.ends_with("ok")), "{office:?}");
    assert_eq!(stage.paid(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn k12_neither_time_nor_a_failing_branch_carries_a_run_past_a_gate_of_its_start() {
    let timed = "    - {id: talk, agent: clerk}\n    - {id: block, critical: false, timeout: 300ms, steps: [{id: ok, human: {kind: approval, prompt: 'Pay?', to: [cfo]}}]}";
    let both = "    - {id: both, critical: false, parallel: {a: [{id: ok, human: {kind: approval, prompt: 'Pay?', to: [cfo]}}], b: [{id: slow, wait: {for: 300ms}}, {id: bad, agent: broken}]}}";
    for (agent, steps) in [(CLERK, timed), (BROKEN, both)] {
        let stage = Stage::with_people(&paying(agent, steps, "[]"), &PEOPLE).await;
        let own = started(&stage, &["ok"]).await;
        assert_eq!(ended(&stage, &own.run_id).await, "gate.refused", "{steps}");
        assert_eq!(stage.paid(), 0, "{steps}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k12_a_gate_that_is_misspelled_misplaced_or_passed_by_nobody_is_refused() {
    let talk = "    - {id: talk, agent: clerk}";
    let stage = Stage::with_people(&paying(CLERK, talk, "[]"), &PEOPLE).await;
    let gate = json!({"name": "mine", "tools": ["pay"]});
    // Where clients put it otherwise it counts too: a field of the body, and the metadata of an A2A call.
    let body = json!({"model": "refunds", "input": "Order 8.", "gates": [gate]});
    let told = stage.http("ada").post("/v1/responses", &body).ok();
    assert!(told["workflow_waiting"].is_object(), "{told}");
    let body = json!({"model": "refunds", "input": "Order 8.",
        "metadata": {"holdpoint.gate": json!([gate]).to_string()}});
    let told = stage.http("ada").post("/v1/responses", &body);
    assert_eq!(told.status, 400, "{}", told.body);
    for hopeless in [
        json!({"name": "mine", "tools": ["pay"], "not": ["requester"]}),
        json!({"name": "mine", "tools": ["pay"], "approvers": [{"to": ["ada"], "need": 2}]}),
    ] {
        let start = RunWorkflowRequest {
            gates: vec![hopeless.clone().into()],
            ..start_of("refunds", "", "Order 7.", "")
        };
        let refused = stage.client("ada").await.run_workflow(start).await.map(drop);
        assert_eq!(refusal(refused).1, "gate.invalid", "{hopeless}");
    }
    assert_eq!(stage.paid(), 0);
}
