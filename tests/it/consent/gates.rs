//! Rules look at what the requester cannot choose (K12), a yes is for what was asked (K10): gates on
//! tools against metadata, standing grants and edits.

use std::collections::HashMap;

use holdpoint::wire::v1::{Request, RunStatus, RunWorkflowRequest};
use serde_json::{Value, json};

use crate::a2a::calls::text;
use crate::bridge::calls::output;
use crate::consent::stage::{LOCAL, Stage, TOOL, question, refusal};
use crate::support::server::{asked, run, start_of};

/// One call of the tool after the other, and what stops it.
fn flow(gates: &str, amounts: &[u64]) -> String {
    let step =
        |(number, amount)| format!("{{id: s{number}, tool: pay, arguments: {{amount: {amount}}}}}");
    let steps: Vec<_> = (1_u32..).zip(amounts).map(step).collect();
    format!(
        "
name: refunds
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates: {gates}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{}, {{id: end, agent: idle}}]
",
        steps.join(", ")
    )
}

const PRODUCTION: &str = "[{name: live, tools: [pay], when: [{environment: [production]}]}]";

/// What a requester may say about where a run is, to get around the question.
fn claims() -> Vec<HashMap<String, String>> {
    let one = |name: &str, value: &str| HashMap::from([(name.to_owned(), value.to_owned())]);
    vec![
        HashMap::new(),
        one("environment", "production "),
        one("Environment", "production"),
        one("environment", "prod"),
        one("environment", ""),
        one("environment", "development"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k12_the_requesters_metadata_does_not_choose_the_environment() {
    let stage = Stage::with_people(&flow(PRODUCTION, &[10]), &[("ann", "user")]).await;
    let mut wrong = Vec::new();
    for metadata in claims() {
        let paid_before = stage.paid();
        let start = start_of("refunds", "", "Order 7.", "");
        let start = RunWorkflowRequest { metadata: metadata.clone(), ..start };
        let events = run(&mut stage.client("ann").await, start).await;
        if asked(&events).is_none() || stage.paid() > paid_before {
            wrong.push(metadata);
        }
    }
    assert_eq!(wrong, [], "K12: nobody was asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn k12_the_requesters_metadata_over_http_does_not_choose_the_environment() {
    let stage = Stage::with_people(&flow(PRODUCTION, &[10]), &[("ann", "user")]).await;
    let mut wrong = Vec::new();
    for metadata in claims() {
        let paid_before = stage.paid();
        let body = json!({"model": "refunds", "input": "Order 7.", "metadata": metadata});
        let told = stage.http("ann").post("/v1/responses", &body).ok();
        if told["workflow_waiting"].is_null() || stage.paid() > paid_before {
            wrong.push(metadata);
        }
    }
    assert_eq!(wrong, [], "K12: nobody was asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn k12_a_message_by_a2a_does_not_choose_the_environment() {
    let stage = Stage::with_people(&flow(PRODUCTION, &[10]), &[("ann", "user")]).await;
    let task = stage.agent("ann").send(&text("m1", "Order 7."));
    let deeds = stage.deeds("ann", task["id"].as_str().unwrap()).await;
    assert_eq!(deeds, Vec::<Value>::new(), "K12: nobody was asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn k12_metadata_may_add_a_question() {
    let stage = Stage::open(&flow(PRODUCTION, &[10])).await;
    let metadata = HashMap::from([("environment".to_owned(), "production".to_owned())]);
    let start = RunWorkflowRequest { metadata, ..start_of("refunds", "", "Order 7.", "") };
    let events = run(&mut stage.client(LOCAL).await, start).await;
    assert!(asked(&events).is_some(), "it is asked where the caller says so");
    assert_eq!(stage.deeds(LOCAL, &events[0].run_id).await, Vec::<Value>::new());
}

/// One gate for small amounts, one for big ones.
const TWO_GATES: &str = "[
  {name: small, tools: [pay], allow_for: 1h, when: [{argument: {pointer: /amount, over: 5}}]},
  {name: big, tools: [pay], allow_for: 1h, when: [{argument: {pointer: /amount, over: 1000}}]},
]";

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k10_what_was_allowed_for_the_run_at_one_gate_does_not_pass_another() {
    let stage = Stage::open(&flow(TWO_GATES, &[10, 1_000_000])).await;
    let small = question(&stage.start(LOCAL, "", "Orders.").await);
    stage.answer(LOCAL, &small, json!("allow_for_run")).await.unwrap();
    let deeds = stage.deeds(LOCAL, &small.run_id).await;
    assert_eq!(deeds, [json!({"amount": 10})], "K10: the big one passed with the small one's yes");
    let open = stage.inbox(LOCAL).await;
    assert_eq!(open.len(), 1, "the big one is asked");
    assert!(format!("{:?}", open[0]).contains("1000000"), "{:?}", open[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_what_was_allowed_for_the_run_holds_at_its_own_gate() {
    let stage = Stage::open(&flow(TWO_GATES, &[10, 10])).await;
    let small = question(&stage.start(LOCAL, "", "Orders.").await);
    stage.answer(LOCAL, &small, json!("allow_for_run")).await.unwrap();
    let deeds = stage.deeds(LOCAL, &small.run_id).await;
    assert_eq!(deeds, [json!({"amount": 10}), json!({"amount": 10})], "within what was allowed");
    // Each call stands in the trail beside the yes that it was made by.
    let trail = stage.audit(LOCAL, &small.run_id).await;
    let notes: Vec<_> =
        trail.iter().filter(|it| it.action == "called").map(|it| it.note.as_str()).collect();
    let by_request = format!("pay, allowed by {}", small.request_id);
    assert_eq!(notes, [by_request.as_str(), "pay; at gate small allowed for the run by local"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_arguments_beside_another_word_than_edit_are_refused() {
    let stage = Stage::open(&flow(TWO_GATES, &[10])).await;
    let asked = question(&stage.start(LOCAL, "", "Orders.").await);
    for word in ["allow_once", "allow_for_run", "deny"] {
        let both = json!({"decision": word, "arguments": {"amount": 1}});
        let (_, code) = refusal(stage.answer(LOCAL, &asked, both).await);
        assert_eq!(code, "answer.invalid", "{word}");
    }
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await, Vec::<Value>::new());
}

/// What a small refund is asked for, and a big one by somebody else.
const BOUNDED: &str = "[
  {name: any, tools: [pay], when: [{argument: {pointer: /amount, over: 5}}]},
  {name: big, tools: [pay], to: [cfo], when: [{argument: {pointer: /amount, over: 1000}}]},
]";
/// The same for one person alone.
const ALONE: &str = "[
  {name: any, tools: [pay], when: [{argument: {pointer: /amount, over: 5}}]},
  {name: big, tools: [pay], when: [{argument: {pointer: /amount, over: 1000}}]},
]";

fn raised() -> Value {
    json!({"decision": "edit", "arguments": {"amount": 5_000_000}})
}

/// A refund of ten that the clerk may allow.
async fn ten() -> (Stage, Request) {
    let people = [("clerk", "user"), ("cfo", "user")];
    let stage = Stage::with_people(&flow(BOUNDED, &[10]), &people).await;
    let request = question(&stage.start("clerk", "", "Order 7.").await);
    (stage, request)
}

/// The edited call was not made: it waits, as something new.
async fn assert_asked_again(stage: &Stage, who: &str, request: &Request, how: &str) {
    let deeds = stage.deeds(who, &request.run_id).await;
    assert_eq!(deeds, Vec::<Value>::new(), "K10: {how}: an edit went past the gate for big ones");
    let run = stage.runs(who).await.remove(0);
    assert_eq!(run.status(), RunStatus::Waiting, "{how}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_an_edited_call_is_asked_again_by_grpc() {
    let (stage, request) = ten().await;
    stage.answer("clerk", &request, raised()).await.unwrap();
    assert_asked_again(&stage, "clerk", &request, "gRPC").await;
    let open = stage.inbox("cfo").await;
    assert_eq!(open.len(), 1, "the one who is asked for big ones is asked");
    assert_ne!(open[0].request_id, request.request_id);
    assert_ne!(open[0].digest, request.digest);
    assert!(format!("{:?}", open[0]).contains("5000000"), "{:?}", open[0]);
    let old = stage.answer("clerk", &request, json!("allow_once")).await;
    assert!(old.is_err(), "the first question is over");
    stage.answer("cfo", &open[0], json!("allow_once")).await.unwrap();
    let deeds = stage.deeds("clerk", &request.run_id).await;
    assert_eq!(deeds, [json!({"amount": 5_000_000})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_an_edited_call_is_asked_again_where_one_person_edits_and_allows() {
    let stage = Stage::open(&flow(ALONE, &[10])).await;
    let request = question(&stage.start(LOCAL, "", "Order 7.").await);
    stage.answer(LOCAL, &request, raised()).await.unwrap();
    assert_asked_again(&stage, LOCAL, &request, "one person").await;
    let open = stage.inbox(LOCAL).await.remove(0);
    assert_ne!((&open.request_id, &open.digest), (&request.request_id, &request.digest));
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_an_edited_call_is_asked_again_over_http() {
    let (stage, request) = ten().await;
    let answer = output(&request.request_id, &raised().to_string());
    let body = json!({"model": "refunds", "input": [answer]});
    stage.http("clerk").post("/v1/responses", &body).ok();
    assert_asked_again(&stage, "clerk", &request, "/v1/responses").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_an_edited_call_is_asked_again_by_a2a() {
    let (stage, request) = ten().await;
    let message = json!({
        "messageId": "m1", "role": "ROLE_USER", "taskId": request.run_id,
        "parts": [{"data": {"responses": {&request.request_id: raised()}}}],
    });
    stage.agent("clerk").rpc("SendMessage", &json!({"message": message}));
    assert_asked_again(&stage, "clerk", &request, "A2A").await;
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k10_an_edited_call_is_asked_again_by_websocket() {
    let (stage, request) = ten().await;
    let answer = json!({"type": "answer", "responses": {&request.request_id: raised()}});
    let told = stage.socket("clerk", &answer).await;
    assert_eq!(told["type"], "ack", "{told}");
    assert_asked_again(&stage, "clerk", &request, "WebSocket").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_an_edited_call_is_asked_again_at_the_console() {
    let (stage, request) = ten().await;
    let fields = [
        ("decision", "edit"),
        ("reviewed/arguments", "{\"amount\": 5000000}"),
        ("confirmed", "yes"),
    ];
    let reply = stage.form("clerk", &request, &fields);
    assert_eq!(reply.status, 303, "{reply:?}");
    assert_asked_again(&stage, "clerk", &request, "console").await;
}
