//! Repeats: signals, cancels, withdrawals and revocations that are sent twice with one idempotency
//! key, on the real server, with a kill in between. The first counts, the second is told of it.

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    CancelRequestRequest, CancelRunRequest, RevokeGrantRequest, RunStatus, SignalRunRequest,
};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::a2a::calls::Agent;
use crate::bridge::calls::Caller;
use crate::support::server::{Server, answer_to, asked, journal, run, send, start_of};
use crate::terminal::cli::holdpoint;

/// Two waits for one event, and a grant that is kept while the run waits.
const FLOWS: [(&str, &str); 2] = [
    (
        "twice.yaml",
        "name: twice
description: Waits twice for the same event.
pattern: graph
graph:
  steps:
    - {id: first, wait: {signal: go, for: 7d}}
    - {id: second, wait: {signal: go, for: 7d}}
",
    ),
    (
        "granted.yaml",
        "name: granted
description: Ships once it is allowed to, and waits.
tools:
  ship: {description: Ships., provider: scripted, settings: {returns: shipped}}
gates:
  - {name: before_ship, tools: [ship], when: [{keywords: [ship]}]}
pattern: graph
graph:
  steps:
    - {id: ship, tool: ship, arguments: {}}
    - {id: rest, wait: {signal: go, for: 7d}}
",
    ),
];

fn stage() -> (tempfile::TempDir, Server) {
    let root = tempfile::tempdir().unwrap();
    let flows = root.path().join("flows");
    std::fs::create_dir(&flows).unwrap();
    for (name, text) in FLOWS {
        std::fs::write(flows.join(name), text).unwrap();
    }
    std::fs::copy(crate::support::server::flows().join("choice.yaml"), flows.join("choice.yaml"))
        .unwrap();
    let server = Server::start(root.path());
    (root, server)
}

/// A run of `workflow` that waits.
async fn waiting(server: &Server, workflow: &str) -> String {
    let events = run(&mut server.client().await, start_of(workflow, "", "Go", "")).await;
    events.last().unwrap().run_id.clone()
}

async fn count(server: &Server, run_id: &str, is_it: fn(&Event) -> bool) -> usize {
    let events = journal(&mut server.client().await, run_id).await;
    events.iter().filter(|event| event.event.as_ref().is_some_and(is_it)).count()
}

#[track_caller]
fn is_reused<T: std::fmt::Debug>(answered: Result<T, Status>) {
    let status = answered.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    assert!(status.message().contains("idempotency key"), "{status:?}");
}

#[tokio::test]
async fn k2_a_signal_sent_twice_with_one_key_ends_one_wait() {
    let (_root, mut server) = stage();
    let run_id = waiting(&server, "twice").await;
    let signal = |payload: Value| SignalRunRequest {
        run_id: run_id.clone(),
        name: "go".into(),
        payload: Some(payload.into()),
        idempotency_key: "s1".into(),
    };
    server.client().await.signal_run(signal(json!(1))).await.unwrap();
    for is_killed in [false, true] {
        if is_killed {
            server.restart();
        }
        let again = server.client().await.signal_run(signal(json!(1))).await.unwrap();
        let told = again.into_inner().run.unwrap();
        assert_eq!(told.status(), RunStatus::Waiting, "the second wait goes on");
        is_reused(server.client().await.signal_run(signal(json!(2))).await);
    }
    let came = count(&server, &run_id, |it| matches!(it, Event::SignalReceived(_))).await;
    assert_eq!(came, 1);
    let other = SignalRunRequest { idempotency_key: "s2".into(), ..signal(json!(1)) };
    let ended = server.client().await.signal_run(other).await.unwrap();
    assert_eq!(ended.into_inner().run.unwrap().status(), RunStatus::Completed);
    // Over by now, and still the first call's outcome.
    let again = server.client().await.signal_run(signal(json!(1))).await.unwrap();
    assert_eq!(again.into_inner().run.unwrap().status(), RunStatus::Completed);
}

#[tokio::test]
async fn k2_a_run_that_is_cancelled_again_with_one_key_is_shown_and_not_refused() {
    let (_root, mut server) = stage();
    let run_id = waiting(&server, "twice").await;
    let cancel = |reason: &str, key: &str| CancelRunRequest {
        run_id: run_id.clone(),
        reason: reason.into(),
        idempotency_key: key.into(),
    };
    server.client().await.cancel_run(cancel("enough", "c1")).await.unwrap();
    for is_killed in [false, true] {
        if is_killed {
            server.restart();
        }
        let again = server.client().await.cancel_run(cancel("enough", "c1")).await.unwrap();
        assert_eq!(again.into_inner().run.unwrap().status(), RunStatus::Cancelled);
        is_reused(server.client().await.cancel_run(cancel("too much", "c1")).await);
        let other = server.client().await.cancel_run(cancel("enough", "c2")).await.unwrap_err();
        assert_eq!(other.code(), Code::FailedPrecondition, "{other:?}");
    }
    assert_eq!(count(&server, &run_id, |it| matches!(it, Event::Cancelled(_))).await, 1);
}

#[tokio::test]
async fn k2_a_question_that_is_withdrawn_again_with_one_key_is_withdrawn_once() {
    let (_root, mut server) = stage();
    let events = run(&mut server.client().await, start_of("choice", "", "Go", "")).await;
    let (request_id, run_id) =
        (asked(&events).unwrap().request_id, events.last().unwrap().run_id.clone());
    let withdraw = |request_id: &str, key: &str| CancelRequestRequest {
        request_id: request_id.into(),
        idempotency_key: key.into(),
    };
    server.client().await.cancel_request(withdraw(&request_id, "w1")).await.unwrap();
    for is_killed in [false, true] {
        if is_killed {
            server.restart();
        }
        server.client().await.cancel_request(withdraw(&request_id, "w1")).await.unwrap();
        let other = server.client().await.cancel_request(withdraw(&request_id, "w2")).await;
        assert_eq!(other.unwrap_err().code(), Code::FailedPrecondition);
    }
    // The key is the run's: another deed does not get it.
    let cancel = CancelRunRequest {
        run_id: run_id.clone(),
        idempotency_key: "w1".into(),
        ..Default::default()
    };
    is_reused(server.client().await.cancel_run(cancel).await);
    assert_eq!(count(&server, &run_id, |it| matches!(it, Event::RequestClosed(_))).await, 1);
}

#[tokio::test]
async fn k2_a_grant_that_is_revoked_again_with_one_key_is_revoked_once() {
    let (_root, mut server) = stage();
    let events = run(&mut server.client().await, start_of("granted", "", "Go", "")).await;
    let (request, run_id) = (asked(&events).unwrap(), events.last().unwrap().run_id.clone());
    let answer = answer_to(&request.request_id, "allow_for_run", "a1");
    send(&mut server.client().await, answer).await;
    let revoke = |tool: &str, key: &str| RevokeGrantRequest {
        run_id: run_id.clone(),
        tool: tool.into(),
        idempotency_key: key.into(),
    };
    is_reused(server.client().await.revoke_grant(revoke("ship", "a1")).await);
    server.client().await.revoke_grant(revoke("ship", "r1")).await.unwrap();
    for is_killed in [false, true] {
        if is_killed {
            server.restart();
        }
        server.client().await.revoke_grant(revoke("ship", "r1")).await.unwrap();
        is_reused(server.client().await.revoke_grant(revoke("load", "r1")).await);
        let other = server.client().await.revoke_grant(revoke("ship", "r2")).await.unwrap_err();
        assert_eq!(other.code(), Code::NotFound, "{other:?}");
    }
    assert_eq!(count(&server, &run_id, |it| matches!(it, Event::GrantRevoked(_))).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_a_cancel_with_a_key_is_safe_to_repeat_at_every_door() {
    let (root, server) = stage();
    let run_id = waiting(&server, "twice").await;
    let agent = Agent::new(server.address(), "/a2a/twice");
    let keyed = agent.clone().with("Idempotency-Key: a");
    for _ in 0..2 {
        let task = keyed.call("CancelTask", &json!({"id": run_id}));
        assert_eq!(task["status"]["state"], "TASK_STATE_CANCELED", "{task}");
    }
    let refused = agent.rpc("CancelTask", &json!({"id": run_id}));
    assert_eq!(
        refused["error"]["code"], -32002,
        "without its key it is a cancel too many: {refused}"
    );

    let caller = Caller::new(server.address());
    let id = caller.start("twice", "Go")["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/responses/{id}/cancel");
    for _ in 0..2 {
        caller.clone().with("Idempotency-Key: h").post(&path, &json!({})).ok();
    }
    assert_ne!(caller.post(&path, &json!({})).status, 200);

    let run_id = waiting(&server, "twice").await;
    let url = server.url();
    let tell = |arguments: &[&str]| {
        let all = [arguments, &["--key", "c", "--server", &url]].concat();
        holdpoint(root.path(), &all, "").code
    };
    for arguments in [["signal", &run_id, "go"], ["signal", &run_id, "go"]] {
        assert_eq!(tell(&arguments), 0);
    }
    let came = count(&server, &run_id, |it| matches!(it, Event::SignalReceived(_))).await;
    assert_eq!(came, 1);
    assert_ne!(tell(&["cancel", &run_id]), 0, "the key was the signal's");
}
