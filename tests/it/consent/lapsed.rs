//! What let a call pass must still let it pass when it is made: a grant that was revoked while another gate
//! waited, a grant in a fork of what was refused, a place that was handed over to get around a rule.

use holdpoint::wire::v1::{DelegateRequestRequest, ForkRunRequest, Request, RevokeGrantRequest};
use serde_json::json;

use crate::consent::stage::{Stage, TOOL, facts, refusal};
use crate::support::server::drained;

const PEOPLE: [(&str, &str); 4] =
    [("clerk", "user"), ("cfo", "user"), ("chief", "user"), ("deputy", "user")];

/// Payments behind two gates of two people; words of the clerk's decide whether the second looks.
fn paying(steps: &str) -> String {
    format!(
        "
name: paying
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates:
  - {{name: large, tools: [pay], to: [cfo], when: [{{argument: {{pointer: /amount, over: 100}}}}]}}
  - {{name: word, tools: [pay], to: [chief], when: [{{keywords: [careful]}}]}}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{steps}, {{id: end, agent: idle}}]
"
    )
}

async fn open(stage: &Stage, who: &str, run: &str) -> Option<Request> {
    stage.inbox(who).await.into_iter().find(|one| one.run_id == run)
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k10_a_grant_that_is_revoked_while_another_gate_waits_lets_nothing_pass() {
    let steps = "{id: a, tool: pay, arguments: {amount: 150}}, \
                 {id: b, tool: pay, arguments: {amount: 110, memo: careful}}";
    let stage = Stage::with_people(&paying(steps), &PEOPLE).await;
    let run = stage.start("clerk", "", "Go.").await[0].run_id.clone();
    let first = open(&stage, "cfo", &run).await.unwrap();
    stage.answer("cfo", &first, json!("allow_for_run")).await.unwrap();
    assert_eq!(stage.paid(), 1);
    let second = open(&stage, "chief", &run).await.expect("the other gate asks");
    let request =
        RevokeGrantRequest { run_id: run.clone(), tool: "pay".into(), ..Default::default() };
    stage.client("clerk").await.revoke_grant(request).await.unwrap();
    stage.answer("chief", &second, json!("allow_once")).await.unwrap();
    assert_eq!(stage.paid(), 1, "K10: what was granted is granted no more");
    let again = open(&stage, "cfo", &run).await.expect("so the first gate asks in its turn");
    stage.answer("cfo", &again, json!("allow_once")).await.unwrap();
    assert_eq!(
        stage.deeds("clerk", &run).await.len(),
        2,
        "both have said yes, and it is done once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_what_was_refused_in_the_family_passes_by_no_grant_of_a_fork() {
    let steps = "{id: hold, human: {kind: clarification, prompt: Ready?}}, \
                 {id: a, tool: pay, arguments: {amount: 150}}, \
                 {id: b, tool: pay, arguments: {amount: 120}}";
    let stage = Stage::with_people(&paying(steps), &PEOPLE).await;
    let run = stage.start("clerk", "", "Go.").await[0].run_id.clone();
    let fork = ForkRunRequest { run_id: run.clone(), ..Default::default() };
    let fork = stage.client("clerk").await.fork_run(fork).await.unwrap().into_inner();
    let fork = drained(fork).await.unwrap()[0].run_id.clone();
    for one in [&run, &fork] {
        let ready = open(&stage, "clerk", one).await.unwrap();
        stage.answer("clerk", &ready, json!("Yes.")).await.unwrap();
    }
    let first = open(&stage, "cfo", &run).await.unwrap();
    stage.answer("cfo", &first, json!("allow_once")).await.unwrap();
    let refused = open(&stage, "cfo", &run).await.unwrap();
    stage.answer("cfo", &refused, json!({"decision": "deny", "note": "Never."})).await.unwrap();
    let first = open(&stage, "cfo", &fork).await.unwrap();
    stage.answer("cfo", &first, json!("allow_for_run")).await.unwrap();
    assert_eq!(stage.paid(), 2, "the first payment, in each of them");
    let second = open(&stage, "cfo", &fork).await.expect("K11: the no counts, grant or not");
    assert_eq!(second.source_step, "b");
    let told = facts(&second);
    assert!(told.contains("cfo refused it (deny)"), "whoever decides is told of the no: {told}");
    stage.answer("cfo", &second, json!("allow_once")).await.unwrap();
    assert_eq!(stage.paid(), 2, "every gate that the call concerns asks");
    let other = open(&stage, "chief", &fork).await.expect("the other gate's people are asked, too");
    stage.answer("chief", &other, json!("allow_once")).await.unwrap();
    let paid = stage.deeds("clerk", &fork).await.len();
    assert_eq!(paid, 3, "whoever knows of it may take it up again");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whoever_hands_their_place_over_has_taken_part_by_what_is_said_in_it() {
    let steps = "{id: one, human: {kind: approval, prompt: One?, to: [cfo]}}, \
                 {id: two, human: {kind: approval, prompt: Two?, \
                  approvers: [{to: [cfo, chief], not: [participant]}]}}, \
                 {id: act, tool: pay, arguments: {amount: 1}}";
    let stage = Stage::with_people(&paying(steps), &PEOPLE).await;
    let run = stage.start("clerk", "", "Go.").await[0].run_id.clone();
    let one = open(&stage, "cfo", &run).await.unwrap();
    let handed = DelegateRequestRequest {
        request_id: one.request_id.clone(),
        to: "deputy".into(),
        for_ms: 600_000,
        ..Default::default()
    };
    stage.client("cfo").await.delegate_request(handed).await.unwrap();
    let theirs = open(&stage, "deputy", &run).await.unwrap();
    stage.answer("deputy", &theirs, json!("approve")).await.unwrap();
    let two = open(&stage, "chief", &run).await.unwrap();
    let own = stage.answer("cfo", &two, json!("approve")).await;
    assert_eq!(refusal(own).1, "answer.not_admitted", "K8: their place has spoken already");
    assert_eq!(stage.paid(), 0);
    stage.answer("chief", &two, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &run).await.len(), 1);
}
