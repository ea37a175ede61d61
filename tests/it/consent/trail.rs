//! Nothing silent: the trail has the door as the server knows it and the answers that were refused; and
//! a person who approves something is shown what it is, with the question.

use holdpoint::wire::v1::SendResponsesRequest;
use serde_json::Value;
use tonic::Request;

use crate::consent::stage::{LOCAL, Stage, TOOL, question};
use crate::support::server::{drained, start_of};

/// Drafts something, and has a person approve it.
fn drafting(rest: &str) -> String {
    format!(
        "
name: drafting
models:
  default: {{provider: scripted, script: [{{agent: writer, say: 'Draft: {{{{first_user}}}}'}}]}}
tools:{TOOL}
agents:
  writer: {{human_input: false}}
pattern: sequential
steps:
  - {{id: draft, agent: writer}}
  - {{id: approve, human: {{kind: approval, prompt: Send this?{rest}}}}}
  - {{id: send, agent: writer}}
"
    )
}

fn said_to_be_cli<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("x-holdpoint-door", "cli".parse().unwrap());
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn the_door_in_the_trail_is_not_the_callers_to_choose() {
    let stage = Stage::with_people(&drafting(""), &[("ann", "user")]).await;
    let mut client = stage.client("ann").await;
    let start = said_to_be_cli(start_of("drafting", "", "Hello.", ""));
    let events = drained(client.run_workflow(start).await.unwrap().into_inner()).await.unwrap();
    let open = question(&events);
    let answer = SendResponsesRequest {
        responses: [(open.request_id.clone(), "approve".into())].into(),
        ..Default::default()
    };
    client.send_responses(said_to_be_cli(answer)).await.unwrap();
    let trail = stage.audit("ann", &open.run_id).await;
    let doors: Vec<_> = trail
        .iter()
        .filter(|entry| entry.action == "started" || entry.action == "answered")
        .map(|entry| (entry.action.as_str(), entry.door.as_str()))
        .collect();
    assert_eq!(doors, [("started", "grpc"), ("answered", "grpc")], "a foreign client is no `cli`");
}

/// What a response waits for: the draft that it is about, and the digest of it.
fn shown(response: &Value) -> (Value, Value) {
    let request = &response["workflow_waiting"]["requests"][0];
    assert!(request["digest"].is_string(), "{response}");
    (request["subject"].clone(), request["digest"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_an_approval_carries_the_draft_that_it_is_about() {
    let stage = Stage::open(&drafting("")).await;
    let mut digests = Vec::new();
    for words in ["Hello, Ada.", "Goodbye, Ada."] {
        let response = stage.http(LOCAL).start("drafting", words);
        let (subject, digest) = shown(&response);
        assert!(subject.to_string().contains(&format!("Draft: {words}")), "K3: subject: {subject}");
        let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
        let again = shown(&stage.http(LOCAL).get(&path).ok());
        assert_eq!(again, (subject, digest.clone()), "it stays what it is");
        digests.push(digest);
    }
    assert_ne!(digests[0], digests[1]);
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k3_the_draft_that_was_shown_survives_a_kill() {
    let mut stage = Stage::open(&drafting("")).await;
    let response = stage.http(LOCAL).start("drafting", "Hello, Ada.");
    let before = shown(&response);
    assert!(before.0.to_string().contains("Draft: Hello, Ada."), "K3: subject: {}", before.0);
    stage.server.restart();
    let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
    assert_eq!(shown(&stage.http(LOCAL).get(&path).ok()), before);
}
