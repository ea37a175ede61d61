//! More than one person (K8): votes that add up, stages that follow one another, and a server that is
//! killed between any two of them.

use holdpoint::wire::v1::{ForkRunRequest, Request, SendResponsesRequest};
use serde_json::json;
use tonic::Code;

use crate::consent::stage::{Stage, TOOL, refusal};
use crate::support::server::{drained, names};

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
pub(crate) async fn k8_two_people_and_then_a_third_are_needed_across_kills_and_each_is_asked_in_turn()
 {
    let (mut stage, request) = staged().await;
    assert_eq!(request.stages.len(), 2);
    assert!(stage.inbox("cfo").await.is_empty(), "the CFO is not asked yet");
    stage.answer("ann", &request, json!("approve")).await.unwrap();
    let twice = refusal(stage.answer("ann", &request, json!({"decision": "approve"})).await);
    assert_eq!(twice, (Code::AlreadyExists, "answer.counted".into()));
    let told = stage.command("ann", &["respond", &request.request_id, "approve"]);
    assert!(told.err.contains("is counted already: 1 more must say so"), "{told:?}");
    let noted = json!({"decision": "approve", "note": "as agreed by mail"});
    stage.answer("ann", &request, noted).await.unwrap();
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

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k11_a_fork_carries_no_vote_and_nobody_elses_yes_is_spent_twice() {
    let (stage, request) = staged().await;
    stage.answer("ann", &request, json!("approve")).await.unwrap();
    let fork = |who: &'static str| {
        let (stage, run_id) = (&stage, request.run_id.clone());
        async move {
            let request = ForkRunRequest { run_id, ..ForkRunRequest::default() };
            drained(stage.client(who).await.fork_run(request).await?.into_inner()).await
        }
    };
    let forked = fork("clerk").await.unwrap();
    let asked = stage.inbox("bob").await;
    let anew = asked.iter().find(|one| one.run_id == forked[0].run_id).unwrap();
    assert!(anew.votes.is_empty(), "nobody has said anything to this question: {anew:?}");
    assert_ne!(anew.digest, request.digest);
    // Where it was refused, whoever it excludes cannot take it up again.
    stage.answer("bob", &request, json!("reject")).await.unwrap();
    let refused = refusal(fork("clerk").await);
    assert_eq!(refused, (Code::PermissionDenied, "answer.not_admitted".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_an_edit_in_an_earlier_stage_is_another_action_and_no_yes_to_this_one() {
    let over = |name: &str, who: &str, most: u32| {
        format!(
            "{{name: {name}, tools: [pay], to: [{who}], when: [{{argument: {{pointer: /amount, over: {most}}}}}]}}"
        )
    };
    let flow = format!(
        "
name: bills
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates: [{}, {}]
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps:
    - {{id: act, tool: pay, arguments: {{amount: 2000}}}}
    - {{id: end, agent: idle}}
",
        over("small", "ann", 10),
        over("big", "cfo", 1000)
    );
    let stage = Stage::with_people(&flow, &PEOPLE).await;
    let run_id = stage.start("clerk", "", "Bill 7.").await[0].run_id.clone();
    let asked = stage.inbox("ann").await.remove(0);
    let less = json!({"decision": "edit", "arguments": {"amount": 20}});
    stage.answer("ann", &asked, less).await.unwrap();
    let deeds = stage.deeds("clerk", &run_id).await;
    assert_eq!(deeds.len(), 1, "{deeds:?}");
    assert!(
        deeds[0].to_string().contains("20") && !deeds[0].to_string().contains("2000"),
        "{deeds:?}"
    );
    assert!(stage.inbox("cfo").await.is_empty(), "nothing is left that needs the CFO");
}
