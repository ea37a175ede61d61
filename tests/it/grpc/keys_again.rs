//! A key that is removed, and one that is made under its name: what the former began is nobody else's.

use std::path::Path;

use holdpoint::wire::v1::{CancelRunRequest, GetRunRequest, WatchRunRequest};
use serde_json::json;
use tempfile::TempDir;
use tonic::Code;

use crate::bridge::calls::{Caller, call_id, output};
use crate::bridge::key_of;
use crate::support::server::{Server, Setup};
use crate::terminal::cli::holdpoint;

fn caller(server: &Server, key: &str) -> Caller {
    Caller::new(server.address()).with(&format!("Authorization: Bearer {key}"))
}

fn keys(here: &Path, arguments: &[&str]) -> (i32, String) {
    let told = holdpoint(here, &[&["keys"], arguments, &["--keys", "keys.toml"]].concat(), "");
    (told.code, format!("{}{}", told.out, told.err))
}

#[test]
fn d2_who_gets_a_name_that_was_anothers_sees_nothing_of_theirs_unless_it_is_said_to_be_them() {
    let here = TempDir::new().unwrap();
    let (ada, _) = (key_of(here.path(), "ada"), key_of(here.path(), "root"));
    let mut server = Setup::new(here.path()).arg("--keys").arg("keys.toml").start();
    let body = json!({"model": "approve_and_send", "input": "Tell Ada.", "conversation": "party"});
    let asked = caller(&server, &ada).post("/v1/responses", &body).ok();
    let (id, run) = (call_id(&asked), asked["run_id"].as_str().unwrap());
    assert_eq!(keys(here.path(), &["remove", "ada"]).0, 0);

    // Without a word about who it is, the name is not given away.
    let (code, told) = keys(here.path(), &["add", "ada"]);
    assert_ne!(code, 0, "{told}");
    assert!(told.contains("--again"), "{told}");
    // Somebody else, whose key has the name.
    let (code, told) = keys(here.path(), &["add", "ada", "--person", "adam"]);
    assert_eq!(code, 0, "{told}");
    let adam = told.lines().find(|line| line.starts_with("hp_")).unwrap().to_owned();
    server.restart();
    let other = caller(&server, &adam);
    assert_eq!(other.get(&format!("/v1/runs/{run}/status")).status, 404);
    assert_eq!(other.get("/v1/conversations/party").status, 404);
    let yes = json!({"model": "approve_and_send", "input": [output(&id, "approve")]});
    assert_eq!(other.post("/v1/responses", &yes).status, 404);
    assert_eq!(caller(&server, &ada).get("/v1/models").status, 401, "the old key is no key");

    // And Ada herself, with another key.
    assert_eq!(keys(here.path(), &["remove", "ada"]).0, 0);
    let (code, told) = keys(here.path(), &["add", "ada", "--again"]);
    assert_eq!(code, 0, "{told}");
    let ada = told.lines().find(|line| line.starts_with("hp_")).unwrap().to_owned();
    server.restart();
    let done = caller(&server, &ada).post("/v1/responses", &yes).ok();
    assert_eq!(done["run_id"], run);
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_another_callers_run_that_is_not_in_memory_is_not_read_to_refuse_it() {
    let here = TempDir::new().unwrap();
    let (ada, bob) = (key_of(here.path(), "ada"), key_of(here.path(), "bob"));
    let mut server = Setup::new(here.path()).arg("--keys").arg("keys.toml").start();
    let asked = caller(&server, &ada).start("approve_and_send", "Tell Ada.");
    let (id, run) = (asked["id"].as_str().unwrap(), asked["run_id"].as_str().unwrap());
    server.restart();
    let loaded = |server: &Server| {
        let metrics = caller(server, &ada).get("/metrics").body;
        let line =
            metrics.lines().find_map(|line| line.strip_prefix("holdpoint_runs_loaded_total "));
        line.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    let other = caller(&server, &bob);
    for path in [format!("/v1/runs/{run}/status"), format!("/v1/responses/{id}")] {
        assert_eq!(other.get(&path).status, 404, "{path}");
    }
    let cancelled = other.post(&format!("/v1/responses/{id}/cancel"), &json!({}));
    assert_eq!(cancelled.status, 404);
    let mut client = server.client_with(&bob).await;
    let theirs = GetRunRequest { run_id: run.into(), ..Default::default() };
    let refused = client.get_run(theirs).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let theirs = WatchRunRequest { run_id: run.into(), ..Default::default() };
    let refused = client.watch_run(theirs).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let theirs = CancelRunRequest { run_id: run.into(), ..Default::default() };
    let refused = client.cancel_run(theirs).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(loaded(&server), 0, "it was refused unread");
    assert_eq!(caller(&server, &ada).get(&format!("/v1/responses/{id}")).ok(), asked);
    assert_eq!(loaded(&server), 1);
}
