//! What somebody says in one message and in two ways is not for us to choose (K7): an answer beside a no, an
//! answer beside words, a digest of something else. Nothing of it is taken, and nothing is passed over.

use holdpoint::wire::v1::{Request, SendResponsesRequest};
use serde_json::{Value, json};

use crate::a2a::calls::to;
use crate::bridge::calls::output;
use crate::consent::stage::{LOCAL, Stage, bills, refusal};

/// Two approvals at once, and a payment behind each.
fn flow() -> String {
    bills(
        "{id: both, parallel: {\
           left: [{id: l, human: {kind: approval, prompt: Left?}}, {id: pl, tool: pay}], \
           right: [{id: r, human: {kind: approval, prompt: Right?}}, {id: pr, tool: pay}]}}",
    )
}

async fn asked() -> (Stage, Request, Request) {
    let stage = Stage::open(&flow()).await;
    stage.start(LOCAL, "one", "Go.").await;
    let open = stage.inbox(LOCAL).await;
    let find = |prompt: &str| open.iter().find(|one| one.prompt == prompt).unwrap().clone();
    let (left, right) = (find("Left?"), find("Right?"));
    (stage, left, right)
}

async fn assert_untouched(stage: &Stage, left: &Request, how: &str) {
    stage.assert_untouched(LOCAL, left, how).await;
    assert_eq!(stage.inbox(LOCAL).await.len(), 2, "{how}: both are still open");
}

fn data(value: &Value) -> Value {
    json!({"data": value})
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_an_a2a_message_that_answers_in_two_ways_answers_nothing() {
    let (stage, left, right) = asked().await;
    let (l, r, stale) = (&left.request_id, &right.request_id, "0".repeat(64));
    let yes = data(&json!({"responses": {l: "approve"}}));
    let twice = data(&json!({"responses": {l: "reject"}}));
    let words = json!({"text": format!("reject {}: do not", left.code)});
    let shown = data(&json!({"digests": {l: stale}}));
    let other = data(&json!({"digests": {r: stale}}));
    let ways = [
        ("the same request twice", vec![yes.clone(), twice]),
        ("words after it", vec![yes.clone(), words.clone()]),
        ("words before it", vec![words, yes.clone()]),
        ("a stale digest in another part", vec![yes.clone(), shown]),
        ("a digest of what is not answered", vec![yes.clone(), other]),
    ];
    for (index, (how, parts)) in ways.into_iter().enumerate() {
        let message =
            json!({"messageId": format!("m{index}"), "role": "ROLE_USER", "parts": parts});
        let task = json!({"id": left.run_id});
        stage.agent(LOCAL).rpc("SendMessage", &json!({"message": to(&task, message)}));
        assert_untouched(&stage, &left, how).await;
    }
    // Answers to two questions in two parts are two answers, and the no of one of them counts.
    let parts = [yes, data(&json!({"responses": {r: "reject"}}))];
    let message = json!({"messageId": "last", "role": "ROLE_USER", "parts": parts});
    stage
        .agent(LOCAL)
        .rpc("SendMessage", &json!({"message": to(&json!({"id": left.run_id}), message)}));
    let answers = stage.answers(LOCAL, &left.run_id).await;
    assert_eq!(answers.len(), 2, "no part of it is lost: {answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_a_response_that_answers_in_two_ways_answers_nothing() {
    let (stage, left, right) = asked().await;
    let (l, stale) = (left.request_id.as_str(), "0".repeat(64));
    let yes = output(l, "approve");
    let words = |code: &str| json!({"role": "user", "content": format!("reject {code}")});
    let digested = json!({"type": "function_call_output", "call_id": l, "output": "approve",
                          "digest": left.digest});
    let said =
        json!({"role": "user", "content": format!("approve {}", left.code), "digest": stale});
    let bodies = [
        ("words about another after it", json!({"input": [yes, words(&right.code)]})),
        ("words about the same before it", json!({"input": [words(&left.code), yes]})),
        (
            "a digest beside a code",
            json!({"input": format!("approve {}", left.code), "digests": {l: stale}}),
        ),
        ("a digest in a message", json!({"input": [said]})),
        ("two digests", json!({"input": [digested], "digests": {l: stale}})),
        (
            "a digest of another",
            json!({"input": [yes], "digests": {right.request_id.as_str(): stale}}),
        ),
    ];
    for (how, mut body) in bodies {
        body["model"] = json!("bills");
        body["conversation"] = json!({"id": left.session_id});
        let reply = stage.http(LOCAL).post("/v1/responses", &body);
        assert_eq!(reply.refusal().0, 400, "{how}");
        assert_untouched(&stage, &left, how).await;
    }
    let both = json!({"responses": {l: "approve"}, "input": format!("reject {}", left.code)});
    let reply = stage.http(LOCAL).post("/v1/workflows/bills/send_responses", &both);
    assert_eq!(reply.refusal().0, 400, "answers and words");
    let path = format!("/v1/workflows/bills/requests/{l}/responses");
    let reply =
        stage.http(LOCAL).post(&path, &json!({"response": "approve", "digests": {l: stale}}));
    assert_ne!(reply.status, 200, "a stale digest by its other name");
    assert_untouched(&stage, &left, "at the workflow's own routes").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_a_digest_that_belongs_to_no_answer_is_not_passed_over_at_grpc() {
    let (stage, left, _) = asked().await;
    let message = SendResponsesRequest {
        run_id: left.run_id.clone(),
        responses: [(left.digest.clone(), "approve".into())].into(),
        digests: [(left.request_id.clone(), "0".repeat(64))].into(),
        ..Default::default()
    };
    let sent = stage.client(LOCAL).await.send_responses(message).await;
    assert_eq!(refusal(sent).1, "field.invalid");
    assert_untouched(&stage, &left, "a digest under another name").await;
}
