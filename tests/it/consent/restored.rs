//! What was put back from a backup, or imported, is another store: what is open there is asked anew, what was
//! under way is asked about, and nothing is done before an operator says so; whatever kills it meanwhile.

use std::collections::BTreeSet;

use holdpoint::wire::v1::{
    AuditEntry, CancelRunRequest, ListAuditRequest, ReleaseStoreRequest, Request, RequestKind,
    SendResponsesRequest,
};
use serde_json::json;
use tonic::Code;

use crate::consent::stage::{LOCAL, Stage, TOOL, question, refusal};
use crate::support::server::Setup;
use crate::terminal::cli::holdpoint;

/// A payment behind a gate.
fn bills(safety: &str) -> String {
    let tool = TOOL.replace("provider: http\n", &format!("provider: http\n    safety: {safety}\n"));
    format!(
        "
name: bills
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{tool}
gates: [{{name: money, tools: [pay]}}]
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{{id: act, tool: pay}}, {{id: end, agent: idle}}]
"
    )
}

/// Says that the directory was put back, while no server runs.
fn restored(stage: &mut Stage) {
    stage.server.kill();
    let told = holdpoint(stage.root.path(), &["restored", "--data", "data", "--json"], "");
    assert_eq!(told.code, 0, "{told:?}");
}

/// The answer that was meant for `request`, without more.
async fn sends(stage: &Stage, request: &Request) -> (Code, String) {
    let message = SendResponsesRequest {
        responses: [(request.request_id.clone(), "allow_once".into())].into(),
        ..Default::default()
    };
    refusal(stage.client(LOCAL).await.send_responses(message).await)
}

async fn release(stage: &Stage) -> bool {
    let request = ReleaseStoreRequest::default();
    stage.client(LOCAL).await.release_store(request).await.unwrap().into_inner().was_held
}

fn held() -> (Code, String) {
    (Code::FailedPrecondition, "store.held".into())
}

fn asked_anew() -> (Code, String) {
    (Code::FailedPrecondition, "request.asked_anew".into())
}

async fn log(stage: &Stage) -> Vec<AuditEntry> {
    let request = ListAuditRequest { store: true, ..Default::default() };
    stage.client(LOCAL).await.list_audit(request).await.unwrap().into_inner().entries
}

/// What is open now, instead of `old`, is another question; and the old one's answer is for nothing.
async fn is_asked_anew(stage: &Stage, old: &Request) -> Request {
    let open = stage.inbox(LOCAL).await;
    let [now] = open.as_slice() else { panic!("{open:?}") };
    assert_eq!((&now.prompt, &now.run_id), (&old.prompt, &old.run_id));
    assert_ne!(now.request_id, old.request_id, "another id");
    assert_ne!(now.digest, old.digest, "another digest");
    assert_ne!(now.code, old.code, "another code");
    now.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_in_a_restored_store_is_asked_anew_and_waits_for_the_operator() {
    let mut stage = Stage::open(&bills("unsafe")).await;
    let old = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    restored(&mut stage);
    // Whoever looks is told, at each of the places where one looks first.
    for look in ["inbox", "runs", "doctor"] {
        let told = holdpoint(stage.root.path(), &[look, "--data", "data"], "");
        assert!(format!("{told:?}").contains("holdpoint release"), "{look}: {told:?}");
    }
    stage.server.restart();
    assert!(stage.server.page("/console/inbox").1.contains("Held."));
    let now = is_asked_anew(&stage, &old).await;
    // Nothing is done, and it is said why and what to do.
    assert_eq!(stage.server.page("/readyz").0, 200);
    assert!(stage.server.page("/readyz").1.contains("holdpoint release"));
    for request in [&old, &now] {
        assert_eq!(sends(&stage, request).await, held());
    }
    assert_eq!(refusal(stage.say(LOCAL, "other", "Bill 8.").await), held(), "nothing is begun");
    stage.server.restart();
    assert_eq!(sends(&stage, &now).await, held(), "a restart releases nothing");
    assert!(release(&stage).await);
    assert!(!release(&stage).await, "once");
    assert_eq!(sends(&stage, &old).await, asked_anew(), "what was meant for the one before");
    assert_eq!(stage.deeds(LOCAL, &now.run_id).await.len(), 0);
    stage.answer(LOCAL, &now, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &now.run_id).await.len(), 1, "one yes, one deed");
    stage.server.restart();
    assert_eq!(stage.server.page("/readyz").1, "ready\n");
    let trail = stage.audit(LOCAL, &now.run_id).await;
    assert_eq!(trail.iter().filter(|entry| entry.action == "renewed").count(), 1);
    let answered = trail.iter().find(|entry| entry.action == "answered").unwrap();
    assert_eq!(answered.request.as_ref().unwrap().request_id, now.request_id, "{answered:?}");
    let told: Vec<_> = log(&stage).await.into_iter().map(|entry| entry.action).collect();
    for action in ["restored", "renewed", "store_released"] {
        assert_eq!(told.iter().filter(|one| *one == action).count(), 1, "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_in_an_imported_store_is_asked_anew_too() {
    let mut stage = Stage::open(&bills("unsafe")).await;
    let old = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    stage.server.kill();
    let root = stage.root.path().to_path_buf();
    assert_eq!(holdpoint(&root, &["export", "out.jsonl", "--data", "data"], "").code, 0);
    std::fs::rename(root.join("data"), root.join("old")).unwrap();
    assert_eq!(holdpoint(&root, &["import", "out.jsonl", "--data", "data"], "").code, 0);
    stage.server.restart();
    let now = is_asked_anew(&stage, &old).await;
    assert_eq!(sends(&stage, &now).await, held());
    // What stops a run is taken before anything is done.
    let cancel = CancelRunRequest { run_id: now.run_id.clone(), ..Default::default() };
    stage.client(LOCAL).await.cancel_run(cancel).await.unwrap();
    let url = stage.server.url();
    let told = holdpoint(&root, &["release", "--server", &url, "--json"], "");
    assert_eq!(told.json()["was_held"], true, "{told:?}");
    assert_eq!(sends(&stage, &old).await.1, "request.asked_anew");
    assert_eq!(stage.paid(), 0);
    // The one that it was made from is what it was.
    stage.server.kill();
    std::fs::rename(root.join("data"), root.join("new")).unwrap();
    std::fs::rename(root.join("old"), root.join("data")).unwrap();
    stage.server.restart();
    assert_eq!(stage.inbox(LOCAL).await[0].request_id, old.request_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_in_which_everything_is_over_is_not_held() {
    let mut stage = Stage::open(&bills("unsafe")).await;
    let old = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    stage.answer(LOCAL, &old, json!("allow_once")).await.unwrap();
    restored(&mut stage);
    stage.server.restart();
    assert_eq!(stage.server.page("/readyz").1, "ready\n");
    stage.start(LOCAL, "s2", "Bill 8.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_in_which_everything_is_over_is_not_held_and_not_said_to_be() {
    let mut stage = Stage::open(&bills("unsafe")).await;
    let old = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    stage.answer(LOCAL, &old, json!("allow_once")).await.unwrap();
    stage.server.kill();
    let root = stage.root.path().to_path_buf();
    assert_eq!(holdpoint(&root, &["export", "out.jsonl", "--data", "data"], "").code, 0);
    std::fs::rename(root.join("data"), root.join("old")).unwrap();
    let told = holdpoint(&root, &["import", "out.jsonl", "--data", "data"], "");
    assert!(told.code == 0 && told.err.contains("nothing is held"), "{told:?}");
    stage.server.restart();
    assert_eq!(stage.server.page("/readyz").1, "ready\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deed_that_was_released_and_not_finished_is_asked_about_and_not_done() {
    for safety in ["unsafe", "idempotent"] {
        let mut stage = Stage::open(&bills(safety)).await;
        let old = question(&stage.start(LOCAL, "s", "Bill 7.").await);
        // The yes is in the journal, with the intent; the server dies before the deed.
        stage.server.restart_at("engine.before_effect");
        let cut = stage.answer(LOCAL, &old, json!("allow_once")).await;
        assert!(cut.is_err(), "{cut:?}");
        restored(&mut stage);
        stage.server.restart();
        let open = stage.inbox(LOCAL).await;
        assert_eq!(open.len(), 1, "{safety}: {open:?}");
        assert_eq!(open[0].kind(), RequestKind::OutcomeCheck, "{safety}");
        assert!(release(&stage).await);
        assert_eq!(stage.deeds(LOCAL, &old.run_id).await.len(), 0, "{safety}: nobody knows");
        stage.answer(LOCAL, &open[0], json!({"verb": "redo"})).await.unwrap();
        assert_eq!(stage.deeds(LOCAL, &old.run_id).await.len(), 1, "{safety}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_its_runs_are_told_a_restored_store_tells_each_of_them_once() {
    let mut stage = Stage::open(&bills("unsafe")).await;
    let mut old = BTreeSet::new();
    let mut runs = Vec::new();
    for number in 0..5 {
        let asked = question(&stage.start(LOCAL, &format!("s{number}"), "Bill.").await);
        runs.push(asked.run_id);
        old.insert(asked.request_id);
    }
    restored(&mut stage);
    let root = stage.root.path().to_path_buf();
    for (point, passage) in
        [("engine.before_renewal", 1), ("engine.before_renewal", 3), ("engine.after_renewal", 1)]
    {
        let died = Setup::new(&root).failpoint(point, passage).try_start();
        assert!(died.is_err(), "{point}: it serves before its runs are told");
    }
    stage.server.restart();
    let open: BTreeSet<_> =
        stage.inbox(LOCAL).await.into_iter().map(|request| request.request_id).collect();
    assert_eq!((open.len(), open.intersection(&old).count()), (5, 0));
    for run in &runs {
        let trail = stage.audit(LOCAL, run).await;
        assert_eq!(trail.iter().filter(|entry| entry.action == "renewed").count(), 1, "{trail:?}");
        assert_eq!(trail.iter().filter(|entry| entry.action == "asked").count(), 2);
    }
    assert!(release(&stage).await);
    assert_eq!(stage.paid(), 0);
}
