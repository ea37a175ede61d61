//! More than one person (K8): who is excluded where, claims that are advice, and places that are handed
//! over for a while: at every door, and across kills.

use holdpoint::app::keys::Keys;
use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    ClaimRequestRequest, DelegateRequestRequest, DelegateRequestResponse, ForkRunRequest, Request,
};
use serde_json::json;
use tonic::{Code, Status};

use crate::consent::stage::{Stage, TOOL, form_of, refusal};
use crate::support::server::{drained, journal};

const PEOPLE: [(&str, &str); 7] = [
    ("clerk", "user"),
    ("ann", "user"),
    ("bob", "user"),
    ("cfo", "user"),
    ("dan", "user"),
    ("eve", "user"),
    ("ops", "admin"),
];
const HOUR: u64 = 60 * 60 * 1_000;

/// A run of the clerk's that waits for these approvers, and what is asked of the first of them.
async fn asked(approvers: &str, first: &str) -> (Stage, Request) {
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
    - {{id: ask, human: {{kind: approval, prompt: Pay it?, show: Bill 7, approvers: {approvers}}}}}
    - {{id: act, tool: pay}}
    - {{id: end, agent: idle}}
"
    );
    let stage = Stage::with_people(&flow, &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let request = stage.inbox(first).await.remove(0);
    (stage, request)
}

const TWO: &str = "[{to: [ann, bob], need: 2, not: [requester]}]";

async fn hands(
    stage: &Stage,
    (who, to): (&str, &str),
    request: &Request,
    key: &str,
) -> Result<DelegateRequestResponse, Status> {
    let request = DelegateRequestRequest {
        request_id: request.request_id.clone(),
        to: to.into(),
        for_ms: HOUR,
        idempotency_key: key.into(),
        ..Default::default()
    };
    Ok(stage.client(who).await.delegate_request(request).await?.into_inner())
}

async fn takes_back(stage: &Stage, who: &str, request: &Request) -> Result<(), Status> {
    let request_id = request.request_id.clone();
    let request = DelegateRequestRequest { request_id, take_back: true, ..Default::default() };
    stage.client(who).await.delegate_request(request).await.map(|_| ())
}

async fn claims(stage: &Stage, who: &str, wish: ClaimRequestRequest) -> Result<(), Status> {
    stage.client(who).await.claim_request(wish).await.map(|_| ())
}

async fn yes(stage: &Stage, who: &str, request: &Request) -> (Code, String) {
    refusal(stage.answer(who, request, json!("approve")).await)
}

fn done() -> (Code, String) {
    (Code::Ok, String::new())
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whom_one_stage_excludes_passes_the_stage_that_needs_them() {
    let (stage, request) = asked("[{to: [ann], not: [requester]}, {to: [clerk]}]", "ann").await;
    let early = yes(&stage, "clerk", &request).await;
    assert_eq!(early, (Code::PermissionDenied, "answer.not_admitted".into()));
    assert_eq!(yes(&stage, "ann", &request).await, done());
    assert_eq!(stage.paid(), 0);
    assert_eq!(yes(&stage, "clerk", &request).await, done(), "the second stage excludes nobody");
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_voter_who_is_gone_at_the_last_word_counts_for_nothing_also_after_a_kill() {
    let (mut stage, request) = asked("[{to: [ann, bob]}, {to: [cfo]}]", "ann").await;
    assert_eq!(yes(&stage, "ann", &request).await, done());
    Keys::remove(&stage.root.path().join("keys.toml"), "ann", "2026-11-16T00:00:00Z").unwrap();
    stage.server.restart();
    assert_eq!(yes(&stage, "cfo", &request).await, done());
    assert_eq!(stage.paid(), 0, "nobody who is anybody has looked in the first stage");
    stage.server.restart();
    let open = stage.inbox("bob").await.remove(0);
    assert_eq!((open.stage, &open.digest), (0, &request.digest), "it is back there");
    assert_eq!((open.stages[0].missing, open.stages[1].missing), (1, 0), "ann's word is void");
    let trail = stage.audit("clerk", &request.run_id).await;
    let void = "the word of ann no longer counts";
    assert!(trail.iter().any(|entry| entry.note == void), "{trail:?}");
    assert_eq!(yes(&stage, "bob", &request).await, done());
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1, "the CFO's word stands");
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k8_a_place_is_handed_over_counts_once_and_is_taken_back_across_kills() {
    let (mut stage, request) = asked(TWO, "ann").await;
    assert!(stage.inbox("dan").await.is_empty());
    hands(&stage, ("ann", "dan"), &request, "k").await.unwrap();
    stage.server.restart();
    let again = hands(&stage, ("ann", "dan"), &request, "k").await.unwrap();
    assert_eq!(again.request.unwrap().delegations.len(), 1, "the same key changes nothing");
    let reused = refusal(hands(&stage, ("ann", "eve"), &request, "k").await);
    assert_eq!(reused, (Code::AlreadyExists, "idempotency_key.reused".into()));
    let shown = stage.inbox("dan").await.remove(0);
    assert_eq!((shown.delegations[0].principal.as_str(), &shown.digest), ("ann", &request.digest));

    let own = yes(&stage, "ann", &request).await;
    assert_eq!(own, (Code::FailedPrecondition, "answer.handed_over".into()));
    assert_eq!(yes(&stage, "dan", &request).await, done());
    let told = stage.inbox("bob").await.remove(0);
    assert_eq!(
        (told.votes[0].principal.as_str(), told.votes[0].instead_of.as_str()),
        ("dan", "ann")
    );
    assert_eq!((told.stages[0].missing, told.stages[0].silent.clone()), (1, vec!["bob".into()]));
    takes_back(&stage, "ann", &request).await.unwrap();
    stage.server.restart();
    assert!(stage.inbox("dan").await.is_empty(), "it is ann's again");
    assert_eq!(yes(&stage, "bob", &request).await, done());
    assert_eq!(stage.paid(), 0, "what dan said in ann's place counts for nothing");
    assert_eq!(yes(&stage, "ann", &request).await, done());
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);

    let told = journal(&mut stage.client("clerk").await, &request.run_id).await;
    let handed = told.iter().filter(|told| matches!(told.event, Some(Event::RequestDelegated(_))));
    assert_eq!(handed.count(), 2, "handed over and taken back, once each");
    let trail = stage.audit("clerk", &request.run_id).await;
    let acts: Vec<_> = trail.iter().map(|entry| entry.action.as_str()).collect();
    assert!(acts.contains(&"delegated") && acts.contains(&"taken_back"), "{acts:?}");
    assert!(trail.iter().any(|entry| entry.note == "in the place of ann"), "{trail:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_place_goes_to_nobody_who_is_excluded_asked_unknown_or_at_the_end_of_a_chain() {
    let (stage, request) = asked(TWO, "ann").await;
    let refused = (Code::FailedPrecondition, "delegation.refused".to_owned());
    let invalid = (Code::InvalidArgument, "field.invalid".to_owned());
    for (to, expected) in [
        ("clerk", &refused),
        ("bob", &refused),
        ("nobody", &refused),
        ("ann", &invalid),
        ("", &invalid),
        ("group:finance", &invalid),
    ] {
        let told = refusal(hands(&stage, ("ann", to), &request, "").await);
        assert_eq!(told, *expected, "to `{to}`");
    }
    let foreign = refusal(hands(&stage, ("clerk", "eve"), &request, "").await);
    assert_eq!(foreign, (Code::PermissionDenied, "answer.not_admitted".into()));
    let unknown = refusal(hands(&stage, ("eve", "dan"), &request, "").await);
    assert_eq!(unknown, (Code::NotFound, "request.unknown".into()), "D2");
    hands(&stage, ("ann", "dan"), &request, "").await.unwrap();
    assert_eq!(refusal(hands(&stage, ("dan", "eve"), &request, "").await), refused, "no chains");
    assert_eq!(refusal(takes_back(&stage, "bob", &request).await).1, "delegation.unknown");
    stage.assert_untouched("clerk", &request, "nobody has decided").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_handed_over_no_longer_than_its_question_waits_and_malformed_wishes_are_refused()
{
    let (stage, request) = asked("[{to: [ann], within: 30m}]", "ann").await;
    let id = request.request_id.clone();
    let wish = |change: &dyn Fn(&mut DelegateRequestRequest)| {
        let mut wish = DelegateRequestRequest {
            request_id: id.clone(),
            to: "dan".into(),
            for_ms: 60_000,
            ..Default::default()
        };
        change(&mut wish);
        wish
    };
    let mut client = stage.client("ann").await;
    let past = prost_types::Timestamp { seconds: 5, nanos: 0 };
    for (wish, code) in [
        (wish(&|it| it.for_ms = HOUR), "field.invalid"),
        (wish(&|it| it.for_ms = 0), "field.invalid"),
        (wish(&|it| it.until = Some(past)), "field.invalid"),
        (wish(&|it| (it.until, it.for_ms) = (Some(past), 0)), "field.invalid"),
        (wish(&|it| it.for_ms = u64::MAX), "field.too_large"),
        (wish(&|it| it.take_back = true), "field.invalid"),
        (wish(&|it| it.request_id = "req".into()), "request.unknown"),
    ] {
        let told = refusal(client.delegate_request(wish.clone()).await);
        assert_eq!(told.1, code, "{wish:?}");
    }
    client.delegate_request(wish(&|_| ())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_fork_inherits_no_place() {
    let (stage, request) = asked("[{to: [ann]}]", "ann").await;
    hands(&stage, ("ann", "dan"), &request, "").await.unwrap();
    let fork = ForkRunRequest { run_id: request.run_id.clone(), ..Default::default() };
    let stream = stage.client("clerk").await.fork_run(fork).await.unwrap().into_inner();
    let forked = drained(stream).await.unwrap();
    let of_fork = |open: Vec<Request>| open.into_iter().find(|one| one.run_id == forked[0].run_id);
    assert!(of_fork(stage.inbox("dan").await).is_none(), "nothing was handed to dan there");
    assert!(of_fork(stage.inbox("ann").await).unwrap().delegations.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_seen_by_all_refuses_nobody_and_ends_when_it_is_let_go() {
    let (mut stage, request) = asked(TWO, "ann").await;
    let claim = |for_ms: u64, release: bool, key: &str| ClaimRequestRequest {
        request_id: request.request_id.clone(),
        for_ms,
        release,
        idempotency_key: key.into(),
    };
    let unknown = refusal(claims(&stage, "eve", claim(0, false, "")).await);
    assert_eq!(unknown, (Code::NotFound, "request.unknown".into()), "D2");
    let own = refusal(claims(&stage, "clerk", claim(0, false, "")).await);
    assert_eq!(own, (Code::PermissionDenied, "answer.not_admitted".into()));
    let long = refusal(claims(&stage, "ann", claim(25 * HOUR, false, "")).await);
    assert_eq!(long, (Code::InvalidArgument, "field.too_large".into()));
    assert_eq!(refusal(claims(&stage, "ann", claim(0, true, "")).await).1, "claim.unknown");
    assert_eq!(refusal(claims(&stage, "ann", claim(5, true, "")).await).1, "field.invalid");

    claims(&stage, "ann", claim(HOUR, false, "k")).await.unwrap();
    stage.server.restart();
    claims(&stage, "ann", claim(HOUR, false, "k")).await.unwrap();
    let seen = stage.inbox("bob").await.remove(0);
    assert_eq!(seen.claimed_by, "ann");
    assert!(seen.claimed_until.is_some());
    let page =
        stage.console("bob").raw("GET", &format!("/console/requests/{}", seen.request_id), "");
    assert!(page.body.contains("Claimed by <strong>ann</strong>"), "{}", page.body);
    assert_eq!(yes(&stage, "bob", &request).await, done(), "a claim refuses nobody");
    claims(&stage, "ann", claim(0, true, "")).await.unwrap();
    assert_eq!(stage.inbox("ann").await[0].claimed_by, "");
    let told = journal(&mut stage.client("clerk").await, &request.run_id).await;
    let claimed = told.iter().filter(|told| matches!(told.event, Some(Event::RequestClaimed(_))));
    assert_eq!(claimed.count(), 2, "claimed once, let go once");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_and_places_at_the_terminal_in_words() {
    let (stage, request) = asked(TWO, "ann").await;
    let id = request.request_id.as_str();
    let told = stage.command("ann", &["claim", id, "--for", "1h"]);
    assert!(told.code == 0 && told.out.contains("claimed by ann until"), "{told:?}");
    let inbox = stage.command("bob", &["inbox"]);
    assert!(inbox.out.contains("claimed by ann until"), "{inbox:?}");
    assert!(inbox.out.contains("2 more of ann, bob must say the same"), "{inbox:?}");
    assert_eq!(stage.command("ann", &["claim", id, "--release"]).code, 0);
    let told = stage.command("ann", &["delegate", id, "--to", "dan", "--for", "2h"]);
    assert!(told.out.contains("dan speaks in the place of ann until"), "{told:?}");
    let told = stage.command("ann", &["respond", id, "approve"]);
    assert!(told.code != 0 && told.err.contains("take it back"), "{told:?}");
    assert_eq!(stage.command("ann", &["delegate", id, "--take-back"]).code, 0);
    let told = stage.command("ann", &["delegate", id, "--to", "clerk", "--for", "2h"]);
    assert!(told.code != 0 && told.err.contains("excludes `clerk`"), "{told:?}");
    let told = stage.command("ann", &["delegate", id, "--to", "dan"]);
    assert_eq!(told.code, 2, "how long is missing: {told:?}");
}

#[test]
fn a_group_that_nobody_is_in_is_found_by_check_with_the_settings() {
    let here = tempfile::TempDir::new().unwrap();
    let flow = "
name: bills
models: {default: {provider: scripted, script: [{say: Done.}]}}
agents: {idle: {human_input: false}}
pattern: sequential
steps:
  - {agent: idle}
  - id: ask
    human: {kind: approval, prompt: Pay?, approvers: {to: ['group:finance'], need: 2}}
";
    std::fs::write(here.path().join("bills.yaml"), flow).unwrap();
    let settings = |groups: &str| {
        let text = format!("[people.ann]\ngroups = [{groups}]\n");
        std::fs::write(here.path().join("holdpoint.toml"), text).unwrap();
        crate::terminal::cli::holdpoint(here.path(), &["check", "bills.yaml", "--json"], "")
    };
    let codes = |told: &crate::terminal::cli::Ended| -> Vec<(String, u64)> {
        let problems = told.json()["files"][0]["problems"].clone();
        let one = |it: &serde_json::Value| {
            (it["code"].as_str().unwrap().to_owned(), it["line"].as_u64().unwrap())
        };
        problems.as_array().unwrap().iter().map(one).collect()
    };
    let (nobody, impassable) = ("approvers.nobody".to_owned(), "approvers.impassable".to_owned());
    assert_eq!(codes(&settings("\"sales\"")), [(nobody, 9), (impassable.clone(), 9)]);
    assert_eq!(codes(&settings("\"finance\"")), [(impassable, 9)], "one is not two");
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_and_places_in_the_browser() {
    let (stage, request) = asked(TWO, "ann").await;
    let path = format!("/console/requests/{}", request.request_id);
    let post = |who: &str, deed: &str, fields: &[(&str, &str)]| {
        stage.console(who).raw("POST", &format!("{path}/{deed}"), &form_of(fields))
    };
    assert_eq!(post("ann", "claim", &[]).status, 303);
    assert_eq!(stage.inbox("bob").await[0].claimed_by, "ann");
    assert!(stage.console("bob").raw("GET", "/console/inbox", "").body.contains("claimed by ann"));
    let refused = post("ann", "delegate", &[("to", "clerk"), ("for", "1d")]);
    assert!(refused.status == 422 && refused.body.contains("excludes"), "{}", refused.body);
    assert_eq!(post("ann", "delegate", &[("to", "dan"), ("for", "soon")]).status, 422);
    assert_eq!(post("ann", "delegate", &[("to", "dan"), ("for", "1d")]).status, 303);
    let page = stage.console("ann").raw("GET", &path, "").body;
    assert!(page.contains("holds your place") && !page.contains("name=\"decision\""), "{page}");
    assert_eq!(stage.form("dan", &request, &[("decision", "approve")]).status, 303);
    let page = stage.console("bob").raw("GET", &path, "").body;
    assert!(page.contains("dan said approve in the place of ann"), "{page}");
    assert_eq!(stage.form("bob", &request, &[("decision", "approve")]).status, 303);
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}
