//! One yes, one deed, at `POST /v1/responses`: what a client sends again by itself, because a reply was
//! lost or because it knows no keys, does not decide anything twice, nor anything else.

use holdpoint::wire::v1::RequestKind;
use serde_json::{Value, json};

use crate::bridge::calls::{call_id, output};
use crate::consent::stage::{LOCAL, Stage, TOOL};

/// Questions one after the other, and then a deed.
fn flow(questions: &str, gates: &str) -> String {
    format!(
        "
name: steps
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates: {gates}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps:
{questions}
    - {{id: pay, tool: pay, arguments: {{amount: 7}}}}
    - {{id: end, agent: idle}}
"
    )
}

const APPROVAL: &str = "    - {id: one, human: {kind: approval, prompt: The first?}}";
const TWO_APPROVALS: &str = "    - {id: one, human: {kind: approval, prompt: The first?}}
    - {id: two, human: {kind: approval, prompt: The second?}}";
const WORDS: &str = "    - {id: one, human: {kind: clarification, prompt: Which form?}}";

/// The checkpoint of a pause, as DevUI finds it.
fn checkpoint(stage: &Stage, response: &Value) -> String {
    let session = response["conversation"]["id"].as_str().unwrap();
    let items = stage.http(LOCAL).get(&format!("/v1/conversations/{session}/items")).ok();
    let saved = items["data"].as_array().unwrap().iter().find(|item| item["type"] == "checkpoint");
    saved.unwrap()["id"].as_str().unwrap().to_owned()
}

/// Answers the open pause by its checkpoint, three times, without a key.
async fn thrice_by_checkpoint(answer: impl Fn(&str) -> Value, how: &str) {
    let stage = Stage::open(&flow(APPROVAL, "[]")).await;
    let first = stage.http(LOCAL).start("steps", "Go.");
    let run_id = first["run_id"].as_str().unwrap();
    let body = json!({
        "model": "steps",
        "conversation": first["conversation"],
        "input": answer(&call_id(&first)),
        "checkpoint_id": checkpoint(&stage, &first),
    });
    let replies: Vec<_> = (0..3).map(|_| stage.http(LOCAL).post("/v1/responses", &body)).collect();
    let deeds = stage.deeds(LOCAL, run_id).await;
    assert_eq!(deeds.len(), 1, "K10: {how}: one yes, one deed");
    assert_eq!(stage.runs(LOCAL).await.len(), 1, "{how}: no fork while the question was open");
    assert_eq!(stage.inbox(LOCAL).await, [], "{how}: what was shown was answered");
    let answered = stage.answers(LOCAL, run_id).await;
    assert_eq!(answered.len(), 1, "{how}: {answered:?}");
    assert_eq!(replies[0].ok()["run_id"], run_id, "{how}");
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k10_an_answer_by_checkpoint_sent_three_times_is_one_deed() {
    thrice_by_checkpoint(|id| json!([output(id, "approve")]), "function_call_output").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_devuis_answer_by_checkpoint_sent_three_times_is_one_deed() {
    let answer = |id: &str| {
        json!([{"type": "message", "role": "user", "content": [
            {"type": "workflow_hil_response", "responses": {id: {"response": "approve"}}},
        ]}])
    };
    thrice_by_checkpoint(answer, "workflow_hil_response").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_checkpoint_whose_pause_is_over_is_forked_and_carries_no_answer() {
    let stage = Stage::open(&flow(APPROVAL, "[]")).await;
    let first = stage.http(LOCAL).start("steps", "Go.");
    let (run_id, request) = (first["run_id"].as_str().unwrap(), call_id(&first));
    let saved = checkpoint(&stage, &first);
    let body = json!({"model": "steps", "input": [output(&request, "approve")]});
    stage.http(LOCAL).post("/v1/responses", &body).ok();
    assert_eq!(stage.deeds(LOCAL, run_id).await.len(), 1);
    let again = json!({
        "model": "steps",
        "conversation": first["conversation"],
        "input": [output(&request, "approve")],
        "checkpoint_id": saved,
    });
    let reply = stage.http(LOCAL).post("/v1/responses", &again);
    for run in stage.runs(LOCAL).await {
        assert_eq!(stage.deeds(LOCAL, &run.run_id).await.len(), 1, "K11: a second deed: {reply:?}");
    }
}

/// What the SDK sends when a reply was lost: the same, with how often it has tried.
fn retries(stage: &Stage, body: &Value) -> Vec<crate::bridge::calls::Reply> {
    let tries = (0..3).map(|count| {
        let caller = stage.http(LOCAL).with(&format!("x-stainless-retry-count: {count}"));
        caller.post("/v1/responses", body)
    });
    tries.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_an_approve_that_the_sdk_repeats_by_itself_does_not_pass_the_next_gate() {
    approved_thrice(|stage, body| drop(retries(stage, body))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_an_approve_that_is_sent_again_does_not_pass_the_next_gate() {
    let plain = |stage: &Stage, body: &Value| {
        (0..3).for_each(|_| drop(stage.http(LOCAL).post("/v1/responses", body)));
    };
    approved_thrice(plain).await;
}

/// One yes to the first of two gates, sent three times.
async fn approved_thrice(send: impl Fn(&Stage, &Value)) {
    let stage = Stage::open(&flow(TWO_APPROVALS, "[]")).await;
    let first = stage.http(LOCAL).start("steps", "Go.");
    let run_id = first["run_id"].as_str().unwrap();
    let body = json!({"model": "steps", "previous_response_id": first["id"], "input": "approve"});
    send(&stage, &body);
    let deeds = stage.deeds(LOCAL, run_id).await;
    assert_eq!(deeds, Vec::<Value>::new(), "K10: one yes passed two gates");
    let answers = stage.answers(LOCAL, run_id).await;
    assert!(answers.len() <= 1, "K9: one yes was taken for two: {answers:?}");
    assert_eq!(stage.inbox(LOCAL).await.len(), 1, "one of the gates is still open");
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_an_approve_after_an_answer_by_id_does_not_pass_the_next_gate() {
    let stage = Stage::open(&flow(TWO_APPROVALS, "[]")).await;
    let first = stage.http(LOCAL).start("steps", "Go.");
    let run_id = first["run_id"].as_str().unwrap();
    let by_id = json!({
        "model": "steps", "previous_response_id": first["id"],
        "input": [output(&call_id(&first), "approve")],
    });
    let second = stage.http(LOCAL).post("/v1/responses", &by_id).ok();
    let open = call_id(&second);
    assert_ne!(open, call_id(&first));
    let words = json!({"model": "steps", "previous_response_id": first["id"], "input": "approve"});
    let reply = stage.http(LOCAL).post("/v1/responses", &words);
    assert_eq!(stage.deeds(LOCAL, run_id).await, Vec::<Value>::new(), "K9: it was stale");
    assert_eq!(reply.status, 400, "{reply:?}");
    assert_eq!(stage.inbox(LOCAL).await[0].request_id, open, "still open");
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_words_that_the_sdk_repeats_by_itself_return_the_first_outcome() {
    let gates = "[{name: money, tools: [pay]}]";
    let stage = Stage::open(&flow(WORDS, gates)).await;
    let first = stage.http(LOCAL).start("steps", "Go.");
    let run_id = first["run_id"].as_str().unwrap();
    // An answer to a question for words, which would also be a yes to the gate behind it.
    let body = json!({"model": "steps", "previous_response_id": first["id"], "input": "approve"});
    let replies = retries(&stage, &body);
    assert_eq!(stage.deeds(LOCAL, run_id).await, Vec::<Value>::new(), "K9: it passed the gate");
    let open = stage.inbox(LOCAL).await;
    assert_eq!((open.len(), open[0].kind()), (1, RequestKind::ToolApproval));
    let ids: Vec<_> = replies.iter().map(|reply| reply.ok()["id"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "a repeat is the first outcome: {ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k9_words_repeated_after_a_kill_return_the_first_outcome() {
    let gates = "[{name: money, tools: [pay]}]";
    let mut stage = Stage::open(&flow(WORDS, gates)).await;
    let first = stage.http(LOCAL).start("steps", "Go.");
    let run_id = first["run_id"].as_str().unwrap();
    let body = json!({"model": "steps", "previous_response_id": first["id"], "input": "approve"});
    let one = stage.http(LOCAL).post("/v1/responses", &body).ok();
    stage.server.restart();
    let other = stage.http(LOCAL).post("/v1/responses", &body);
    assert_eq!(stage.deeds(LOCAL, run_id).await, Vec::<Value>::new(), "K9: it passed the gate");
    assert_eq!(other.ok()["id"], one["id"], "a repeat is the first outcome");
}
