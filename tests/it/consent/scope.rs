//! Who still has a word, and by which credential they spoke (K8); and what agents that are begun by a yes are
//! given (K3): what stood when it was asked, and the note.

use std::collections::BTreeSet;
use std::fs;

use holdpoint::app::keys::{KeyKind, Keys, NewKey};
use holdpoint::kernel::Role;
use holdpoint::wire::v1::{
    AuditEntry, ClaimRequestRequest, DelegateRequestRequest, ListAuditRequest, Request,
    SendResponsesRequest, SignalRunRequest,
};
use serde_json::{Value, json};

use crate::consent::stage::{LOCAL, Stage, bills, refusal};
use crate::support::server::drained;
use crate::terminal::cli::holdpoint;

/// A draft that waits for a yes on one side, and somebody who speaks on the other.
fn beside(one: &str) -> String {
    format!(
        "
name: beside
models:
  default:
    provider: scripted
    script: [{{agent: talker, say: MEANWHILE}}, {{agent: drafter, say: A draft.}}, {{say: Done.}}]
agents:
  talker: {{human_input: false}}
  drafter: {{human_input: false}}
  sender: {{human_input: false}}
  closer: {{human_input: false}}
pattern: graph
graph:
  steps:
    - id: both
      parallel:
        one: {one}
        other: [{{id: more, human: {{kind: clarification, prompt: More?}}}}, {{id: talk, agent: talker}}]
    - {{id: close, agent: closer}}
"
    )
}

/// What an agent was given, as the recording has it.
fn given(stage: &Stage, agent: &str) -> String {
    let lines = fs::read_to_string(stage.root.path().join("inputs.jsonl")).unwrap();
    let all = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let own: Vec<_> = all.filter(|input| input["agent"] == agent).collect();
    assert_eq!(own.len(), 1, "{agent} is asked once");
    own[0].to_string()
}

async fn assert_goes_on_from_what_was_shown(one: &str, yes: Value) {
    let stage = Stage::set(&beside(one), &[], &["--record-inputs=inputs.jsonl"]).await;
    let run_id = stage.start(LOCAL, "", "THE-ORDER").await[0].run_id.clone();
    let open = stage.inbox(LOCAL).await;
    let is_more = |one: &&Request| one.source_step.ends_with("more");
    let more = open.iter().find(is_more).unwrap();
    let asked = open.iter().find(|one| !is_more(one)).unwrap();
    stage.answer(LOCAL, more, json!("IN-BETWEEN")).await.unwrap();
    stage.deeds(LOCAL, &run_id).await;
    stage.answer(LOCAL, asked, yes).await.unwrap();
    stage.deeds(LOCAL, &run_id).await;
    let told = given(&stage, "sender");
    assert!(told.contains("THE-ORDER") && told.contains("GO-AHEAD"), "{told}");
    for unseen in ["MEANWHILE", "IN-BETWEEN"] {
        assert!(!told.contains(unseen), "K3: it was said after the asking: {told}");
    }
    let last = given(&stage, "closer");
    assert!(last.contains("MEANWHILE"), "where branches meet, everything is heard: {last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_an_agent_after_an_approval_is_not_given_what_was_said_while_it_waited() {
    let one = "[{id: draft, agent: drafter}, {id: ok, human: {kind: approval, prompt: Send it?}}, \
                {id: send, agent: sender}]";
    let yes = json!({"decision": "approve", "note": "GO-AHEAD"});
    assert_goes_on_from_what_was_shown(one, yes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_an_agent_after_a_step_that_was_looked_at_is_not_given_what_was_said_meanwhile() {
    let one = "[{id: draft, agent: drafter, gate: {mode: after_step}}, \
                {id: send, agent: sender, prompt: 'Send it. ${conversation.last}'}]";
    let yes = json!({"decision": "continue", "note": "GO-AHEAD"});
    assert_goes_on_from_what_was_shown(one, yes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_an_agent_within_a_group_after_an_approval_within_another_goes_on_from_what_was_shown() {
    let one = "[{id: draft, agent: drafter}, {id: look, steps: [{id: ok, human: {kind: approval, prompt: Send it?}}]}, \
                {id: work, steps: [{id: send, agent: sender}]}]";
    let yes = json!({"decision": "approve", "note": "GO-AHEAD"});
    assert_goes_on_from_what_was_shown(one, yes).await;
}

fn voted(approvers: &str) -> String {
    bills(&format!(
        "{{id: ask, human: {{kind: approval, prompt: Pay it?, show: Bill 7, approvers: {approvers}}}}}, \
         {{id: act, tool: pay}}, \
         {{id: hold, wait: {{signal: paid, from: [desk, ann]}}}}"
    ))
}

/// Somebody votes, and their key becomes another; then the last word is said.
async fn assert_counts_no_more(role: Role, workflows: &[&str]) {
    let people = [("clerk", "user"), ("ann", "user"), ("bob", "user"), ("cfo", "user")];
    let flow = voted("{to: [ann, bob, cfo], need: 2}");
    let mut stage = Stage::with_people(&flow, &people).await;
    stage.start("clerk", "", "Bill 7.").await;
    let request = stage.inbox("ann").await.remove(0);
    stage.answer("ann", &request, json!("approve")).await.unwrap();
    let path = stage.root.path().join("keys.toml");
    Keys::remove(&path, "ann", "2026-11-16T00:00:00Z").unwrap();
    let workflows = workflows.iter().map(|name| (*name).to_owned()).collect();
    let ann = NewKey { workflows, again: true, ..NewKey::of("ann", role) };
    Keys::make(&path, &ann, &BTreeSet::new(), "").unwrap();
    stage.server.restart();
    stage.answer("bob", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.paid(), 0, "K8: the word of somebody who could not say it any more counted");
    let trail = stage.audit("clerk", &request.run_id).await;
    let void = "the word of ann no longer counts";
    assert!(trail.iter().any(|entry| entry.note == void), "{trail:?}");
    stage.answer("cfo", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_the_vote_of_somebody_whose_key_is_now_confined_to_other_workflows_counts_for_nothing() {
    assert_counts_no_more(Role::User, &["wires"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_the_vote_of_somebody_whose_key_decides_no_more_counts_for_nothing() {
    assert_counts_no_more(Role::Viewer, &[]).await;
}

/// A call that a service makes for somebody.
fn for_ann<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("x-holdpoint-on-behalf-of", "ann".parse().unwrap());
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trail_of_claims_places_signals_and_refusals_says_which_service_spoke() {
    let people = [
        ("clerk", "user"),
        ("ann", "user"),
        ("dan", "user"),
        ("desk", "--kind service"),
        ("checker", "--role auditor"),
    ];
    let stage = Stage::with_people(&voted("{to: [ann], assurance: vouched}"), &people).await;
    stage.start("clerk", "", "Bill 7.").await;
    let request = stage.inbox("ann").await.remove(0);
    let mut desk = stage.client("desk").await;
    let id = request.request_id.clone();
    let answer = |word: &str| SendResponsesRequest {
        responses: [(id.clone(), json!(word).into())].into(),
        ..SendResponsesRequest::default()
    };
    let claim = ClaimRequestRequest {
        request_id: id.clone(),
        for_ms: 60_000,
        ..ClaimRequestRequest::default()
    };
    desk.claim_request(for_ann(claim)).await.unwrap();
    let hand = DelegateRequestRequest {
        request_id: id.clone(),
        to: "dan".into(),
        for_ms: 60_000,
        ..DelegateRequestRequest::default()
    };
    desk.delegate_request(for_ann(hand)).await.unwrap();
    let back = DelegateRequestRequest {
        request_id: id.clone(),
        take_back: true,
        ..DelegateRequestRequest::default()
    };
    desk.delegate_request(for_ann(back)).await.unwrap();
    let refused = desk.send_responses(for_ann(answer("perhaps"))).await;
    assert_ne!(refusal(refused).1, "");
    let stream = desk.send_responses(for_ann(answer("approve"))).await.unwrap().into_inner();
    drained(stream).await.unwrap();
    stage.deeds("clerk", &request.run_id).await;
    let signal = SignalRunRequest {
        run_id: request.run_id.clone(),
        name: "paid".into(),
        ..SignalRunRequest::default()
    };
    desk.signal_run(for_ann(signal)).await.unwrap();

    let known = |entries: &[AuditEntry], action: &str| {
        let own: Vec<_> = entries.iter().filter(|entry| entry.action == action).collect();
        assert!(!own.is_empty(), "{action}: {entries:?}");
        for entry in own {
            let how = (entry.principal.as_str(), entry.known_by.as_str(), entry.assurance.as_str());
            assert_eq!(how, ("ann", "service desk", "vouched"), "{action}");
        }
    };
    let trail = stage.audit("clerk", &request.run_id).await;
    for action in ["claimed", "delegated", "taken_back", "answered", "signalled", "answer_refused"]
    {
        known(&trail, action);
    }
    let log = ListAuditRequest { store: true, ..ListAuditRequest::default() };
    let log = stage.client("checker").await.list_audit(log).await.unwrap().into_inner().entries;
    known(&log, "answer_refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_not_called_like_a_person_in_the_settings() {
    let settings = "[people.ada]\ngroups = [\"finance\"]\n";
    let people = [("clerk", "user")];
    let mut stage = Stage::settled(&voted("{to: [ada]}"), &people, &[], settings).await;
    let root = stage.root.path().to_path_buf();
    let words = ["keys", "add", "ada", "--kind", "service", "--keys", "keys.toml"];
    let refused = holdpoint(&root, &words, "");
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.err.contains("`ada` is a person in `[people]`"), "{refused:?}");
    // Nor does a server begin with such a key, however it came into the file.
    stage.server.kill();
    let path = root.join("keys.toml");
    let ada = NewKey { kind: KeyKind::Service, ..NewKey::of("ada", Role::User) };
    Keys::make(&path, &ada, &BTreeSet::new(), "").unwrap();
    let refused =
        holdpoint(&root, &["serve", "--listen", "127.0.0.1:0", "--keys", "keys.toml"], "");
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.err.contains("`ada` is a person in `[people]`"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_time_has_come_is_told_as_that_and_as_no_change_of_policy() {
    let settings = "[people.ada]\ngroups = [\"finance\"]\n";
    let people = [("clerk", "user"), ("ada", "user"), ("checker", "--role auditor")];
    let mut stage = Stage::settled(&voted("{to: [ada]}"), &people, &[], settings).await;
    stage.server.kill();
    // Made good until a time that has been.
    let path = stage.root.path().join("keys.toml");
    let text = fs::read_to_string(&path).unwrap();
    let ended = text.replacen(
        "name = \"ada\"\n",
        "name = \"ada\"\nexpires = \"2026-01-01T00:00:00Z\"\n",
        1,
    );
    assert_ne!(text, ended);
    fs::write(&path, ended).unwrap();
    stage.server.restart();
    let log = ListAuditRequest { store: true, ..ListAuditRequest::default() };
    let log = stage.client("checker").await.list_audit(log).await.unwrap().into_inner().entries;
    let told: Vec<_> =
        log.iter().map(|entry| (entry.action.as_str(), entry.note.as_str())).collect();
    assert!(
        told.iter()
            .any(|(action, note)| *action == "keys_changed" && note.contains("expired: ada")),
        "{told:?}"
    );
    assert!(!told.iter().any(|(action, _)| *action == "policy_changed"), "{told:?}");
}
