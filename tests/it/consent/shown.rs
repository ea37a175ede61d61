//! What was shown is what happens (K3), at the gate of a step, through every door that answers it: the
//! conversation may change between the asking and the yes, what is done may not.

use holdpoint::wire::v1::Request;
use serde_json::{Value, json};

use crate::bridge::calls::output;
use crate::consent::stage::{LOCAL, Stage, TOOL, question};

/// A payment whose payee is whatever was said last, and somebody who can say something meanwhile.
fn wired(meanwhile: &str) -> String {
    format!(
        "
name: wired
models:
  default: {{provider: scripted, script: [{{agent: talker, say: ACCOUNT-2}}]}}
tools:{TOOL}
agents:
  talker: {{human_input: false}}
pattern: graph
graph:
  steps:
    - id: both
      parallel:
        one:
          - id: wire
            tool: pay
            arguments: {{to: '${{conversation.last}}'}}
            gate: {{mode: before_step}}
        other: {meanwhile}
"
    )
}

/// Nobody says anything meanwhile.
const SILENT: &str =
    "[{id: idle, extract: {nothing: '1'}}, {id: say, if: 1 == 2, then: [{agent: talker}]}]";
/// An agent speaks, as soon as somebody has said that it may.
const TALKING: &str =
    "[{id: more, human: {kind: clarification, prompt: Anything else?}}, {id: talk, agent: talker}]";

/// A run that has shown a payment to ACCOUNT-1.
async fn shown() -> (Stage, Request) {
    let stage = Stage::open(&wired(SILENT)).await;
    let request = question(&stage.start(LOCAL, "", "ACCOUNT-1").await);
    assert_shows(&request, "ACCOUNT-1");
    (stage, request)
}

#[track_caller]
fn assert_shows(request: &Request, payee: &str) {
    let told = format!("{request:?}");
    assert!(told.contains(payee) && !told.contains("ACCOUNT-2"), "{told}");
}

/// A yes whose note changes what was said last.
fn noted() -> Value {
    json!({"decision": "approve", "note": "ACCOUNT-2"})
}

async fn assert_done_as_shown(stage: &Stage, request: &Request, how: &str) {
    let deeds = stage.deeds(LOCAL, &request.run_id).await;
    assert_eq!(deeds, [json!({"to": "ACCOUNT-1"})], "K3: {how}: something else was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_what_a_parallel_agent_says_meanwhile_does_not_change_what_was_shown() {
    let stage = Stage::open(&wired(TALKING)).await;
    let run_id = stage.start(LOCAL, "", "ACCOUNT-1").await[0].run_id.clone();
    let open = stage.inbox(LOCAL).await;
    let by_step = |step: &str| open.iter().find(|one| one.source_step.contains(step)).unwrap();
    let (wire, more) = (by_step("wire"), by_step("more"));
    assert_shows(wire, "ACCOUNT-1");
    stage.answer(LOCAL, more, json!("Nothing.")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &run_id).await, Vec::<Value>::new());
    let still = stage.inbox(LOCAL).await;
    assert_eq!((still.len(), &still[0].digest), (1, &wire.digest), "the same is still asked");
    stage.answer(LOCAL, wire, json!("approve")).await.unwrap();
    assert_done_as_shown(&stage, wire, "an agent spoke meanwhile").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_the_approvers_note_by_grpc_does_not_change_what_was_shown() {
    let (stage, request) = shown().await;
    stage.answer(LOCAL, &request, noted()).await.unwrap();
    assert_done_as_shown(&stage, &request, "gRPC").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_the_approvers_note_by_responses_does_not_change_what_was_shown() {
    let (stage, request) = shown().await;
    let answer = output(&request.request_id, &noted().to_string());
    let body = json!({"model": "wired", "conversation": request.session_id, "input": [answer]});
    stage.http(LOCAL).post("/v1/responses", &body).ok();
    assert_done_as_shown(&stage, &request, "/v1/responses").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_the_approvers_note_by_devui_does_not_change_what_was_shown() {
    let (stage, request) = shown().await;
    let responses = json!({&request.request_id: {"response": noted()}});
    let body = json!({
        "metadata": {"entity_id": "wired"},
        "conversation": request.session_id,
        "input": [{"type": "message", "role": "user", "content": [
            {"type": "workflow_hil_response", "responses": responses},
        ]}],
    });
    stage.http(LOCAL).post("/v1/responses", &body).ok();
    assert_done_as_shown(&stage, &request, "DevUI").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_the_approvers_note_by_qlaw_does_not_change_what_was_shown() {
    let (stage, request) = shown().await;
    let path = format!("/v1/workflows/wired/requests/{}/responses", request.request_id);
    let reply = stage.http(LOCAL).post(&path, &json!({"response": noted()}));
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_done_as_shown(&stage, &request, "qlaw").await;
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k3_the_approvers_note_by_a2a_does_not_change_what_was_shown() {
    let (stage, request) = shown().await;
    let data = json!({
        "responses": {&request.request_id: noted()},
        "digests": {&request.request_id: request.digest},
    });
    let message = json!({
        "messageId": "m1", "role": "ROLE_USER", "taskId": request.run_id, "parts": [{"data": data}],
    });
    stage.agent(LOCAL).send(&message);
    assert_done_as_shown(&stage, &request, "A2A").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_the_approvers_note_by_websocket_does_not_change_what_was_shown() {
    let (stage, request) = shown().await;
    let answer = json!({
        "type": "answer",
        "responses": {&request.request_id: noted()},
        "digests": {&request.request_id: request.digest},
    });
    let told = stage.socket(LOCAL, &answer).await;
    assert_eq!(told["type"], "ack", "{told}");
    assert_done_as_shown(&stage, &request, "WebSocket").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_the_approvers_note_at_the_console_does_not_change_what_was_shown() {
    let (stage, request) = shown().await;
    let fields = [("decision", "approve"), ("answer/note", "ACCOUNT-2")];
    let reply = stage.form(LOCAL, &request, &fields);
    assert_eq!(reply.status, 303, "{reply:?}");
    assert_done_as_shown(&stage, &request, "console").await;
}

/// One step at a gate, and a workflow that it may be.
fn gated(step: &str) -> String {
    format!(
        "
name: outer
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
agents:
  talker: {{human_input: false}}
pattern: graph
graph:
  steps:
    - {{id: act, {step}, gate: {{mode: before_step}}}}
    - {{id: end, agent: talker, prompt: That is all.}}
=== inner
name: inner
tools:{TOOL}
pattern: graph
graph:
  steps: [{{id: wire, tool: pay, arguments: {{to: '${{input}}'}}}}]
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_the_input_of_a_workflow_at_a_gate_is_what_was_shown() {
    let flow = gated("workflow: {file: inner.yaml, input: '${conversation.last}'}");
    let stage = Stage::open(&flow).await;
    let request = question(&stage.start(LOCAL, "", "ACCOUNT-1").await);
    assert_shows(&request, "ACCOUNT-1");
    stage.answer(LOCAL, &request, noted()).await.unwrap();
    assert_done_as_shown(&stage, &request, "a workflow's input").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_the_prompt_of_an_agent_at_a_gate_is_what_was_shown() {
    let flow = gated("agent: talker, prompt: 'Pay ${conversation.last}.'");
    let stage = Stage::set(&flow, &[], &["--record-inputs=inputs.jsonl"]).await;
    let request = question(&stage.start(LOCAL, "", "ACCOUNT-1").await);
    assert_shows(&request, "Pay ACCOUNT-1.");
    stage.answer(LOCAL, &request, noted()).await.unwrap();
    stage.deeds(LOCAL, &request.run_id).await;
    let given = std::fs::read_to_string(stage.root.path().join("inputs.jsonl")).unwrap();
    assert!(given.contains("Pay ACCOUNT-1."), "K3: the agent was told something else: {given}");
    assert!(!given.contains("Pay ACCOUNT-2."), "K3: the agent was told something else: {given}");
}
