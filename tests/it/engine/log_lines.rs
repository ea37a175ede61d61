//! What the log tells of pauses and resumptions: ids alone, once it is durable, across a SIGKILL.

use serde_json::Value;
use tempfile::TempDir;

use crate::bridge::calls::Caller;
use crate::support::server::{Setup, answer_to, asked, run, send, start_of};

/// The lines of one kind, as objects.
fn lines(log: &str, message: &str) -> Vec<Value> {
    let all = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|line| line["message"] == message).collect()
}

#[tokio::test]
async fn a_pause_and_a_resumption_are_a_line_each_with_ids_alone() {
    let here = TempDir::new().unwrap();
    let setup = Setup::new(here.path()).arg("--log-format").arg("json");
    let mut server = setup.start();
    let mut client = server.client().await;
    let start = start_of("approve_and_send", "s1", "Tell Ada the secret.", "");
    let request = asked(&run(&mut client, start).await).unwrap();
    let waiting = lines(&server.told(), "workflow_waiting_persisted");
    assert_eq!(waiting.len(), 1, "{}", server.told());
    assert_eq!(waiting[0]["level"], "INFO");
    assert_eq!(waiting[0]["session.id"], "s1");
    assert_eq!(waiting[0]["workflow"], "approve_and_send");
    assert_eq!(waiting[0]["requests"], request.request_id.as_str());
    assert!(waiting[0]["run.id"].as_str().unwrap().starts_with("run_"));
    assert!(waiting[0]["version"].as_u64().unwrap() > 1);
    assert!(lines(&server.told(), "workflow_resumed").is_empty(), "nothing was resumed yet");

    server.restart();
    let mut client = server.client().await;
    send(&mut client, answer_to(&request.request_id, "approve", "")).await;
    let resumed = lines(&server.told(), "workflow_resumed");
    assert_eq!(resumed.len(), 1, "{}", server.told());
    assert_eq!(resumed[0]["requests"], request.request_id.as_str());
    assert_eq!(resumed[0]["run.id"], waiting[0]["run.id"]);
    assert_eq!(lines(&server.told(), "workflow_waiting_persisted").len(), 1, "it is over");
    assert!(!server.told().contains("the secret"), "no word of it is logged");

    // The same through another door.
    Caller::new(server.address()).start("approve_and_send", "Tell Bob.");
    assert_eq!(lines(&server.told(), "workflow_waiting_persisted").len(), 2);
}
