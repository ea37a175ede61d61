//! Nothing silent: what was refused, and what was changed beside the runs, stands in the store's own log and,
//! where it is about a run, in that run's trail; at every door, and after a kill.

use std::collections::BTreeSet;
use std::fs;

use holdpoint::app::keys::{Keys, NewKey};
use holdpoint::kernel::Role;
use holdpoint::wire::v1::{
    AuditEntry, ForkRunRequest, ListAuditRequest, ListRunsRequest, Request, SendResponsesRequest,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Duration, Instant};
use tonic::Code;

use crate::a2a::calls::{Agent, text};
use crate::bridge::calls::{Caller, output};
use crate::consent::stage::{Stage, TOOL, refusal};
use crate::support::server::{Client, Setup, drained};
use crate::terminal::cli::holdpoint;

const PEOPLE: [(&str, &str); 4] =
    [("clerk", "user"), ("cfo", "user"), ("eve", "user"), ("ops", "admin")];

/// A run of the clerk's that waits for the CFO, and what it asks.
async fn asked() -> (Stage, Request) {
    let flow = format!(
        "
name: bills
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates: [{{name: money, tools: [pay], to: [cfo]}}]
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{{id: act, tool: pay}}, {{id: end, agent: idle}}]
"
    );
    let stage = Stage::with_people(&flow, &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let request = stage.inbox("cfo").await.remove(0);
    (stage, request)
}

/// The same answer at gRPC, HTTP and A2A.
async fn answers(stage: &Stage, who: &str, request: &Request) {
    let id = &request.request_id;
    let message = SendResponsesRequest {
        responses: [(id.clone(), "allow_once".into())].into(),
        ..Default::default()
    };
    let sent = stage.client(who).await.send_responses(message).await;
    assert_ne!(refusal(sent).0, Code::Ok);
    let body = json!({"model": "bills", "input": [output(id, "allow_once")]});
    assert_ne!(stage.http(who).post("/v1/responses", &body).status, 200);
    let mut message = text("m1", "");
    message["taskId"] = json!(request.run_id);
    message["parts"] = json!([{"data": {"responses": {id: "allow_once"}}}]);
    stage.agent(who).rpc("SendMessage", &json!({"message": message}));
}

async fn log(client: &mut Client) -> Vec<AuditEntry> {
    let request = ListAuditRequest { store: true, ..Default::default() };
    client.list_audit(request).await.unwrap().into_inner().entries
}

/// Who was refused where, why, and how often, as some entries have it.
fn refused(entries: &[AuditEntry]) -> Vec<(String, String, String, u64)> {
    let refused = entries.iter().filter(|entry| entry.action == "answer_refused");
    let told = refused.map(|entry| {
        let code = entry.note.rsplit(": ").next().unwrap_or_default().to_owned();
        (entry.principal.clone(), entry.door.clone(), code, entry.count)
    });
    let mut told: Vec<_> = told.collect();
    told.sort();
    told
}

fn row(who: &str, door: &str, code: &str, count: u64) -> (String, String, String, u64) {
    (who.into(), door.into(), code.into(), count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_answer_stands_in_the_trail() {
    let (mut stage, request) = asked().await;
    // Each server counts for itself, and writes a part of its counts when it is asked for them.
    stage.server.stay();
    for _ in 0..3 {
        answers(&stage, "clerk", &request).await;
    }
    let wanted = ["a2a", "grpc", "http"].map(|door| row("clerk", door, "answer.not_admitted", 3));
    let trail = stage.audit("clerk", &request.run_id).await;
    assert_eq!(refused(&trail), wanted, "who, where, why and how often: {trail:?}");
    let of_log = log(&mut stage.client("ops").await).await;
    assert_eq!(refused(&of_log), wanted);
    assert!(of_log.iter().all(|entry| !format!("{entry:?}").contains("allow_once")), "never what");
    stage.server.restart();
    assert_eq!(refused(&stage.audit("clerk", &request.run_id).await), wanted, "after a kill");
    // What was refused changed nothing: the right person can still answer it, once.
    stage.answer("cfo", &request, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
    // Beside the yes stands what it released, and what came of that.
    let trail = stage.audit("clerk", &request.run_id).await;
    let told: Vec<_> = trail.iter().map(|entry| entry.action.as_str()).collect();
    let place = told.iter().position(|action| *action == "answered").unwrap();
    assert_eq!(told[place + 1..place + 3], ["called", "returned"], "{told:?}");
    assert!(trail[place + 1].note.contains(&request.request_id), "{:?}", trail[place + 1]);
    assert!(format!("{:?}", trail[place + 2].value).contains("paid"), "{:?}", trail[place + 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_right_after_the_first_refusal_loses_no_entry() {
    let (mut stage, request) = asked().await;
    let sent = stage.answer("clerk", &request, json!("allow_once")).await;
    assert_ne!(refusal(sent).0, Code::Ok);
    stage.server.restart();
    let trail = stage.audit("clerk", &request.run_id).await;
    assert_eq!(refused(&trail), [row("clerk", "grpc", "answer.not_admitted", 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_by_somebody_who_was_not_asked_stands_in_the_trail() {
    let (mut stage, request) = asked().await;
    answers(&stage, "eve", &request).await;
    stage.form("eve", &request, &[("decision", "allow_once")]);
    stage.server.restart();
    let trail = refused(&stage.audit("clerk", &request.run_id).await);
    let told: Vec<_> =
        trail.iter().map(|(who, door, _, count)| (who.as_str(), door.as_str(), *count)).collect();
    let wanted = ["a2a", "console", "grpc", "http"].map(|door| ("eve", door, 1));
    assert_eq!(told, wanted, "whoever tried, though to them there is nothing: {trail:?}");
    assert_eq!((stage.inbox("cfo").await.len(), stage.paid()), (1, 0), "it changed nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_stands_in_the_trail() {
    let (mut stage, _) = asked().await;
    stage.server.stay();
    let (address, wrong) = (stage.server.address().to_owned(), "hp_nobodys_0123456789");
    for _ in 0..2 {
        let mut nobody = stage.server.client_with(wrong).await;
        let call = nobody.list_runs(ListRunsRequest::default()).await;
        assert_eq!(refusal(call).0, Code::Unauthenticated);
    }
    let bearer = format!("Authorization: Bearer {wrong}");
    let body = json!({"model": "bills", "input": "Hello."});
    let http = Caller::new(&address).with(&bearer).post("/v1/responses", &body);
    assert_eq!(http.status, 401);
    let agent = Agent::new(&address, "/a2a/bills").with(&bearer);
    agent.rpc("SendMessage", &json!({"message": text("m1", "Hello.")}));
    let form = "Content-Type: application/x-www-form-urlencoded";
    let signed = Caller::new(&address).with(form);
    assert_eq!(signed.raw("POST", "/console/sign-in", &format!("key={wrong}")).status, 401);
    // Nothing was shown: nothing was wrong.
    let none = stage.server.client().await.list_runs(ListRunsRequest::default()).await;
    assert_eq!(refusal(none).0, Code::Unauthenticated);
    stage.server.restart();
    let entries = log(&mut stage.client("ops").await).await;
    let keys = entries.iter().filter(|entry| entry.action == "key_refused");
    let mut told: Vec<_> =
        keys.map(|entry| (entry.door.as_str(), entry.note.as_str(), entry.count)).collect();
    told.sort_unstable();
    let from = "from 127.0.0.1";
    assert_eq!(
        told,
        [("a2a", from, 1), ("console", from, 1), ("grpc", from, 2), ("http", from, 1)]
    );
    assert!(!format!("{entries:?}").contains("hp_nobodys"), "the key is noted nowhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stores_own_log_is_for_whoever_sees_everything() {
    let (stage, _) = asked().await;
    let request = || ListAuditRequest { store: true, ..Default::default() };
    let refused = stage.client("clerk").await.list_audit(request()).await;
    assert_eq!(refusal(refused), (Code::PermissionDenied, "auth.forbidden".into()));
    assert_ne!(stage.console("clerk").get("/console/audit/store").status, 200);
    let page = stage.console("ops").get("/console/audit/store");
    assert!(page.status == 200 && page.body.contains("server_started"), "{page:?}");
    let of_run = ListAuditRequest { run_id: "run_x".into(), ..request() };
    let wrong = stage.client("ops").await.list_audit(of_run).await;
    assert_eq!(refusal(wrong), (Code::InvalidArgument, "field.invalid".into()));
    let token = ListAuditRequest { page_token: "x".into(), ..request() };
    let wrong = stage.client("ops").await.list_audit(token).await;
    assert_eq!(refusal(wrong), (Code::InvalidArgument, "field.invalid".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_keys_and_settings_stand_in_the_log_whether_the_server_ran_or_not() {
    let root = TempDir::new().unwrap();
    let path = root.path().join("keys.toml");
    let ops = Keys::add(&path, "ops", Role::Admin, "").unwrap();
    Keys::add(&path, "bob", Role::User, "").unwrap();
    let mut server = Setup::new(root.path()).arg("--keys=keys.toml").start();
    Keys::remove(&path, "bob", "2026-11-16T00:00:00Z").unwrap();
    Keys::add(&path, "eve", Role::User, "").unwrap();
    let changes = async |server: &crate::support::server::Server| {
        let entries = log(&mut server.client_with(&ops).await).await;
        let of = |entry: &&AuditEntry| entry.action.ends_with("_changed");
        entries.iter().rev().filter(of).map(|it| it.note.clone()).collect::<Vec<_>>()
    };
    // The file is looked at now and then, and may be seen between the two changes.
    let until = Instant::now() + Duration::from_secs(10);
    while !changes(&server).await.join("; ").contains("came: eve") {
        assert!(Instant::now() < until, "{:?}", changes(&server).await);
        tokio::task::yield_now().await;
    }
    assert!(changes(&server).await.join("; ").contains("went: bob"));
    let seen = changes(&server).await.len();
    server.kill();
    let again = NewKey { again: true, ..NewKey::of("bob", Role::User) };
    Keys::make(&path, &again, &BTreeSet::new(), "").unwrap();
    fs::write(
        root.path().join("holdpoint.toml"),
        "four_eyes = true\nenvironment = \"production\"\n[people.bob]\ngroups = [\"finance\"]\n",
    )
    .unwrap();
    let server = Setup::new(root.path()).arg("--keys=keys.toml").start();
    let told = changes(&server).await;
    let policy = "environment: not said -> production; four_eyes: false -> true; \
                  people.bob: group:finance";
    assert_eq!(told[seen..], ["came: bob".to_owned(), policy.to_owned()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_keys_say_what_they_mean_for_gates_and_do_not_read_as_a_changed_setting() {
    let root = TempDir::new().unwrap();
    let mut server = Setup::new(root.path()).start();
    server.kill();
    let ops = Keys::add(&root.path().join("data/keys.toml"), "ops", Role::Admin, "").unwrap();
    let server = Setup::new(root.path()).start();
    let entries = log(&mut server.client_with(&ops).await).await;
    let told = entries.iter().rev().filter(|entry| entry.action.ends_with("_changed"));
    let told: Vec<_> = told.map(|entry| (entry.action.as_str(), entry.note.as_str())).collect();
    let means = "environment: not said, as before; with keys it is taken for none, and gates that look at it ask";
    assert_eq!(told, [("keys_changed", "came: ops"), ("policy_changed", means)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_exports_prunes_starts_and_stops_stand_in_the_log() {
    let (mut stage, request) = asked().await;
    let fork = ForkRunRequest { run_id: request.run_id.clone(), ..Default::default() };
    let stream = stage.client("clerk").await.fork_run(fork).await.unwrap().into_inner();
    let forked = drained(stream).await.unwrap()[0].run_id.clone();
    for run in [&request.run_id, &forked] {
        let trail = stage.audit("clerk", run).await;
        let fork: Vec<_> = trail.iter().filter(|entry| entry.action == "forked").collect();
        assert_eq!(fork.len(), 1, "{trail:?}");
        assert_eq!((fork[0].principal.as_str(), fork[0].door.as_str()), ("clerk", "grpc"));
        assert!(fork[0].note.contains(&request.run_id) && fork[0].note.contains(&forked));
    }
    stage.server.terminate();
    stage.server.wait();
    let (root, file) = (stage.root.path(), stage.root.path().join("out.jsonl"));
    holdpoint(root, &["export", "out.jsonl", "--data", "data"], "");
    assert!(file.exists());
    holdpoint(root, &["prune", "--older-than", "1w", "--data", "data"], "");
    let lines = holdpoint(root, &["audit", "--store", "--json", "--data", "data"], "").out;
    let actions = |lines: &str| {
        let told = lines.lines().rev().map(|line| {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            entry["action"].as_str().unwrap().to_owned()
        });
        told.collect::<Vec<_>>()
    };
    let told = ["keys_changed", "server_started", "forked", "server_stopped", "exported", "pruned"];
    assert_eq!(actions(&lines), told, "{lines}");
    holdpoint(root, &["import", "out.jsonl", "--data", "again"], "");
    let lines = holdpoint(root, &["audit", "--store", "--json", "--data", "again"], "").out;
    assert_eq!(actions(&lines)[..1], ["imported"], "{lines}");
    let words = holdpoint(root, &["audit", "--store", "--data", "data"], "").out;
    assert!(words.contains("clerk by grpc [proven, key clerk] forked"), "{words}");
    // An address that is given as if it were the setting of that name is not understood, and its password not repeated.
    let said = holdpoint(root, &["audit", "--store", "postgres://me:SECRET@db/h"], "");
    assert!(said.code == 2 && said.err.contains("********@db/h"), "{}", said.err);
    assert!(!said.err.contains("SECRET"), "{}", said.err);
    let address = "postgres://me:SECRET@db/h";
    for words in
        [["inbox", "--server", address], ["keys", "add", address], ["serve", "--listen", address]]
    {
        let said = holdpoint(root, &words, "");
        assert!(said.code != 0 && !said.err.contains("SECRET"), "{words:?}: {}", said.err);
    }
}
