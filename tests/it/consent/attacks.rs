//! Ways around a person that were tried from outside and once led through: each is closed, at the real
//! server, with what was really done counted on the other side.

use std::collections::BTreeSet;

use holdpoint::app::keys::{Keys, NewKey};
use holdpoint::kernel::Role;
use holdpoint::wire::v1::{DelegateRequestRequest, Request};
use serde_json::json;
use tonic::{Code, Status};

use crate::consent::stage::{Stage, TOOL, refusal};

const PEOPLE: [(&str, &str); 5] =
    [("clerk", "user"), ("ann", "user"), ("bob", "user"), ("cfo", "user"), ("mal", "user")];

/// A workflow that pays in its second step; `first` and what is said of the second are a test's.
fn paying(place: &str, first: &str, terms: &str) -> String {
    let tool = TOOL.replace("/pay'", &format!("/{place}'"));
    format!(
        "
name: paying
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{tool}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps:
{first}
    - {{id: act, tool: pay, arguments: {{amount: 10}}{terms}}}
    - {{id: end, agent: idle}}
"
    )
}

async fn hands(stage: &Stage, from: &str, to: &str, request: &Request) -> Result<(), Status> {
    let request = DelegateRequestRequest {
        request_id: request.request_id.clone(),
        to: to.into(),
        for_ms: 3_600_000,
        ..Default::default()
    };
    stage.client(from).await.delegate_request(request).await.map(|_| ())
}

fn not_admitted() -> (Code, String) {
    (Code::PermissionDenied, "answer.not_admitted".into())
}

/// Whoever is asked about a lost deed: the approver, and not the requester whom the rule excludes.
async fn assert_asked_of_the_approver(flow: &str) {
    let stage = Stage::with_people(flow, &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let request = stage.inbox("ann").await.remove(0);
    stage.answer("ann", &request, json!("approve")).await.unwrap();
    let run = request.run_id.clone();
    let check = stage.until("clerk", &run, |one| one.request_id != request.request_id).await;
    assert_eq!(stage.paid(), 1);
    for verb in ["redo", "happened", "abort"] {
        let outcome = stage.answer("clerk", &check, json!({"verb": verb})).await;
        assert_eq!(refusal(outcome), not_admitted(), "{verb}");
    }
    assert_eq!(stage.paid(), 1, "one yes, one deed");
    let check = stage.inbox("ann").await.remove(0);
    stage.answer("ann", &check, json!({"verb": "redo"})).await.unwrap();
    let trail = stage.audit("clerk", &run).await;
    assert!(trail.iter().any(|one| one.note.contains("the call is made again")), "{trail:?}");
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k8_a_lost_deed_behind_a_steps_gate_is_asked_of_those_who_released_it() {
    let gate = ", gate: {mode: before_step, to: [ann], not: [requester]}";
    assert_asked_of_the_approver(&paying("torn", "", gate)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_lost_deed_after_an_approval_is_asked_of_those_who_approved() {
    let approval =
        "    - {id: ok, human: {kind: approval, prompt: Pay?, to: [ann], not: [requester]}}";
    assert_asked_of_the_approver(&paying("torn", approval, "")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_what_may_not_be_done_twice_is_not_tried_again_by_itself() {
    let approval = "    - {id: ok, human: {kind: approval, prompt: Pay?, to: [ann]}}";
    let stage = Stage::with_people(&paying("broken", approval, ""), &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let request = stage.inbox("ann").await.remove(0);
    stage.answer("ann", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1, "one yes, one call");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_one_word_never_stands_for_two_lists_by_way_of_a_place() {
    let approval = "    - {id: ok, human: {kind: approval, prompt: Pay?, approvers: [{to: [ann]}, {to: [cfo]}]}}";
    let stage = Stage::with_people(&paying("pay", approval, ""), &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let request = stage.inbox("ann").await.remove(0);
    let refused = refusal(hands(&stage, "ann", "cfo", &request).await);
    assert_eq!(refused, (Code::FailedPrecondition, "delegation.refused".into()));
    assert_eq!(stage.paid(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_whoever_has_another_edit_for_them_is_the_editor_too() {
    let flow = format!(
        "
name: editing
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates: [{{name: money, tools: [pay], to: [ann, bob], not: [requester, editor]}}]
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{{id: act, tool: pay, arguments: {{amount: 10}}}}, {{id: end, agent: idle}}]
"
    );
    let stage = Stage::with_people(&flow, &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let request = stage.inbox("ann").await.remove(0);
    hands(&stage, "ann", "mal", &request).await.unwrap();
    let edit = json!({"decision": "edit", "arguments": {"amount": 666}});
    stage.answer("mal", &request, edit).await.unwrap();
    let edited = stage.inbox("bob").await.remove(0);
    let outcome = stage.answer("ann", &edited, json!("allow_once")).await;
    assert_eq!(refusal(outcome), not_admitted());
    assert_eq!(stage.paid(), 0);
    stage.answer("bob", &edited, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_the_word_of_somebody_whose_keys_only_look_counts_no_more() {
    let approval = "    - {id: ok, human: {kind: approval, prompt: Pay?, approvers: [{to: [ann, bob]}, {to: [cfo]}]}}";
    let mut stage = Stage::with_people(&paying("pay", approval, ""), &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let request = stage.inbox("ann").await.remove(0);
    stage.answer("ann", &request, json!("approve")).await.unwrap();
    let path = stage.root.path().join("keys.toml");
    Keys::remove(&path, "ann", "2026-11-16T00:00:00Z").unwrap();
    let looks = NewKey { again: true, ..NewKey::of("ann", Role::Viewer) };
    Keys::make(&path, &looks, &BTreeSet::new(), "").unwrap();
    stage.server.restart();
    stage.answer("cfo", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.paid(), 0, "nobody who decides has looked in the first stage");
    let open = stage.inbox("bob").await.remove(0);
    stage.answer("bob", &open, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_a_whole_number_is_shown_as_it_will_be_sent_however_long() {
    const ACCOUNT: &str = "9007199254740993";
    let gate = ", gate: {mode: before_step}";
    let flow = paying("pay", "", gate).replace("amount: 10", &format!("amount: {ACCOUNT}"));
    let stage = Stage::open(&flow).await;
    let events = stage.start("", "", "Bill 7.").await;
    let request = crate::consent::stage::question(&events);
    let subject = format!("{:?}", request.subject);
    assert!(subject.contains(ACCOUNT), "{subject}");
    stage.answer("", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("", &request.run_id).await.len(), 1);
}
