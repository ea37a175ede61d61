//! `binding: digest` (K9): a decision of it is answered only with the digest of what was shown, at every
//! door. An id or a code alone finds the question, and is told what is missing.

use holdpoint::wire::v1::{Request, SendResponsesRequest};
use serde_json::{Value, json};
use tonic::Code;

use crate::a2a::calls::text;
use crate::bridge::calls::output;
use crate::consent::stage::{LOCAL, Stage, TOOL, question, refusal};
use crate::terminal::cli::holdpoint;

/// Where the file says it, and what a yes there is.
const PLACES: [(&str, &str, &str, &str); 4] = [
    ("binding: digest", "[{name: money, tools: [pay]}]", "{id: act, tool: pay}", "allow_once"),
    ("", "[{name: money, tools: [pay], binding: digest}]", "{id: act, tool: pay}", "allow_once"),
    ("", "[]", "{id: act, tool: pay, gate: {mode: before_step, binding: digest}}", "approve"),
    (
        "",
        "[]",
        "{id: ask, human: {kind: approval, prompt: Pay it?, binding: digest}}, {id: act, tool: pay}",
        "approve",
    ),
];

fn flow((top, gates, steps, _): (&str, &str, &str, &str)) -> String {
    format!(
        "
name: bills
{top}
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates: {gates}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{steps}, {{id: end, agent: idle}}]
"
    )
}

async fn asked(place: (&str, &str, &str, &str)) -> (Stage, Request) {
    let stage = Stage::open(&flow(place)).await;
    let events = stage.start(LOCAL, "", "Bill 7.").await;
    let request = question(&events);
    (stage, request)
}

fn needed() -> (Code, String) {
    (Code::FailedPrecondition, "answer.digest_needed".into())
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_decision_bound_by_digest_takes_no_id_alone_wherever_the_file_says_so() {
    for place in PLACES {
        let (stage, request) = asked(place).await;
        assert_eq!((request.binding.as_str(), request.code.as_str()), ("digest", ""), "{place:?}");
        let message = SendResponsesRequest {
            responses: [(request.request_id.clone(), place.3.into())].into(),
            ..Default::default()
        };
        let told = refusal(stage.client(LOCAL).await.send_responses(message).await);
        assert_eq!(told, needed(), "{place:?}");
        stage.assert_untouched(LOCAL, &request, "an id alone").await;
        stage.answer(LOCAL, &request, json!(place.3)).await.unwrap();
        assert_eq!(stage.deeds(LOCAL, &request.run_id).await.len(), 1, "{place:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k9_a_decision_bound_by_digest_is_named_by_it_in_its_session() {
    let (stage, request) = asked(PLACES[0]).await;
    let message = SendResponsesRequest {
        session_id: request.session_id.clone(),
        responses: [(request.digest.clone(), "allow_once".into())].into(),
        ..Default::default()
    };
    stage.client(LOCAL).await.send_responses(message).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_decision_bound_by_digest_takes_no_id_alone_over_http() {
    let (stage, request) = asked(PLACES[0]).await;
    let id = request.request_id.as_str();
    let http = stage.http(LOCAL);
    let refused = |reply: crate::bridge::calls::Reply| {
        let (status, code, _) = reply.refusal();
        assert_eq!((status, code.as_str()), (400, "answer.digest_needed"), "{reply:?}");
    };
    let input = json!([output(id, "allow_once")]);
    refused(http.post("/v1/responses", &json!({"model": "bills", "input": input})));
    let approval = json!([{
        "type": "mcp_approval_response", "approval_request_id": id, "approve": true,
    }]);
    refused(http.post("/v1/responses", &json!({"model": "bills", "input": approval})));
    let hil = json!({"responses": {id: "allow_once"}});
    refused(http.post("/v1/workflows/bills/send_responses", &hil));
    let path = format!("/v1/workflows/bills/requests/{id}/responses");
    refused(http.post(&path, &json!({"response": "allow_once"})));
    let socket = json!({"type": "answer", "responses": {id: "allow_once"}});
    let told = stage.socket(LOCAL, &socket).await;
    assert_eq!(told["error"]["code"], "answer.digest_needed", "{told}");
    stage.assert_untouched(LOCAL, &request, "an id alone").await;
    let bound = json!({"model": "bills", "input": input, "digests": {id: request.digest}});
    http.post("/v1/responses", &bound).ok();
    assert_eq!(stage.deeds(LOCAL, &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_every_way_over_http_has_a_place_for_the_digest() {
    for way in ["item", "send_responses", "respond", "websocket"] {
        let (stage, request) = asked(PLACES[0]).await;
        let (id, digest) = (request.request_id.as_str(), request.digest.as_str());
        let http = stage.http(LOCAL);
        match way {
            "item" => {
                let item = json!({
                    "type": "mcp_approval_response", "approval_request_id": id, "approve": true,
                    "digest": digest,
                });
                http.post("/v1/responses", &json!({"model": "bills", "input": [item]})).ok();
            }
            "send_responses" => {
                let body = json!({
                    "responses": {id: "allow_once"}, "digests": {id: digest}, "stream": false,
                });
                http.post("/v1/workflows/bills/send_responses", &body).ok();
            }
            "respond" => {
                let path = format!("/v1/workflows/bills/requests/{id}/responses");
                let body = json!({"response": "allow_once", "digest": digest, "stream": false});
                http.post(&path, &body).ok();
            }
            _ => {
                let answer = json!({
                    "type": "answer", "responses": {id: "allow_once"}, "digests": {id: digest},
                });
                assert_eq!(stage.socket(LOCAL, &answer).await["type"], "ack");
            }
        }
        assert_eq!(stage.deeds(LOCAL, &request.run_id).await.len(), 1, "{way}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_decision_bound_by_digest_takes_no_id_alone_by_a2a() {
    let (stage, request) = asked(PLACES[3]).await;
    let id = request.request_id.as_str();
    let send = |message: &str, data: Value| {
        let mut message = text(message, "");
        message["taskId"] = json!(request.run_id);
        message["parts"] = json!([{"data": data}]);
        stage.agent(LOCAL).send(&message)
    };
    let task = send("m1", json!({"responses": {id: "approve"}}));
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    let told = &task["status"]["message"]["parts"];
    assert_eq!(told[1]["data"]["problem"]["code"], "answer.digest_needed", "{told}");
    assert_eq!(told[1]["data"]["requests"][0]["binding"], "digest", "{told}");
    assert!(told[0]["text"].as_str().unwrap().contains("only with the digest"), "{told}");
    stage.assert_untouched(LOCAL, &request, "an id alone").await;
    let task = send("m2", json!({"responses": {id: "approve"}, "digests": {id: request.digest}}));
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_terminal_sends_the_digest_of_what_it_shows_and_a_bare_answer_is_refused() {
    let (stage, request) = asked(PLACES[3]).await;
    let id = request.request_id.as_str();
    let bare = stage.command(LOCAL, &["respond", id, "yes"]);
    assert!(bare.code != 0 && bare.err.contains("digest"), "{bare:?}");
    stage.assert_untouched(LOCAL, &request, "respond without a digest").await;
    let bound = stage.command(LOCAL, &["respond", id, "yes", "--digest", &request.digest]);
    assert_eq!(bound.code, 0, "{bound:?}");
    let url = stage.server.url();
    let talk = ["--server", &url, "run", "bills", "Bill 8.", "-i"];
    let talked = holdpoint(stage.root.path(), &talk, "y\n");
    assert_eq!(talked.code, 0, "a person types y: {talked:?}");
    assert_eq!(stage.paid(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_the_form_of_the_console_carries_the_digest_by_itself() {
    let (stage, request) = asked(PLACES[3]).await;
    let path = format!("/console/requests/{}", request.request_id);
    let page = stage.console(LOCAL).get(&path);
    assert!(page.body.contains(&format!("name=\"digest\" value=\"{}\"", request.digest)));
    stage.form(LOCAL, &request, &[("decision", "approve")]);
    assert_eq!(stage.deeds(LOCAL, &request.run_id).await.len(), 1);
}
