//! More than one person (K8): votes that add up, stages that follow one another, and a server that is
//! killed between any two of them.

use holdpoint::wire::v1::{Request, SendResponsesRequest};
use serde_json::json;
use tonic::Code;

use crate::consent_stage::{Stage, TOOL, refusal};
use crate::server::{drained, names};

const PEOPLE: [(&str, &str); 5] =
    [("clerk", "user"), ("ann", "user"), ("bob", "user"), ("cfo", "user"), ("eve", "user")];

/// Two of finance, and then the CFO.
async fn staged() -> (Stage, Request) {
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
  steps:
    - id: ask
      human:
        kind: approval
        prompt: Pay it?
        show: Bill 7, of 100
        approvers:
          - {{to: [ann, bob, clerk], need: 2, not: [requester]}}
          - {{to: [cfo]}}
    - {{id: act, tool: pay}}
    - {{id: end, agent: idle}}
"
    );
    let stage = Stage::with_people(&flow, &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let request = stage.inbox("ann").await.remove(0);
    (stage, request)
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_two_people_and_then_a_third_are_needed_across_kills_and_each_is_asked_in_turn() {
    let (mut stage, request) = staged().await;
    assert_eq!(request.stages.len(), 2);
    assert!(stage.inbox("cfo").await.is_empty(), "the CFO is not asked yet");
    stage.answer("ann", &request, json!("approve")).await.unwrap();
    stage.answer("ann", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.paid(), 0, "the same person twice is one vote");
    let own = refusal(stage.answer("clerk", &request, json!("approve")).await);
    assert_eq!(own, (Code::PermissionDenied, "answer.not_admitted".into()), "four eyes");

    stage.server.restart();
    let votes = &stage.inbox("bob").await[0].votes;
    assert_eq!((votes.len(), votes[0].principal.as_str()), (1, "ann"), "a vote is not lost");
    stage.answer("bob", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.paid(), 0, "the CFO has not looked");
    assert!(stage.inbox("ann").await.is_empty() && stage.inbox("bob").await.is_empty());

    stage.server.restart();
    let asked = stage.inbox("cfo").await.remove(0);
    assert_eq!((asked.stage, &asked.digest), (1, &request.digest), "the same question");
    stage.answer("cfo", &asked, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1, "one deed");
    let late = refusal(stage.answer("bob", &request, json!("reject")).await);
    assert_eq!(late, (Code::AlreadyExists, "request.already_answered".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_one_no_stops_it_and_takes_ones_own_yes_back() {
    let (stage, request) = staged().await;
    stage.answer("ann", &request, json!("approve")).await.unwrap();
    stage.answer("ann", &request, json!("reject")).await.unwrap();
    let late = refusal(stage.answer("bob", &request, json!("approve")).await);
    assert_eq!(late, (Code::AlreadyExists, "request.already_answered".into()));
    assert_eq!(stage.paid(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whoever_is_asked_is_told_of_their_answer_and_of_nothing_else() {
    let (stage, request) = staged().await;
    let say = |who: &'static str| {
        let (stage, id) = (&stage, request.request_id.clone());
        async move {
            let responses = [(id, json!("approve").into())].into();
            let request = SendResponsesRequest { responses, ..SendResponsesRequest::default() };
            let told = stage.client(who).await.send_responses(request).await.unwrap();
            drained(told.into_inner()).await.unwrap()
        }
    };
    assert_eq!(names(&say("ann").await), ["vote_received"]);
    assert_eq!(names(&say("bob").await), ["vote_received"]);
    assert_eq!(names(&say("cfo").await), ["response_received"]);
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}
