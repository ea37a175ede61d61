//! A2A 0.3: the older protocol by JSON-RPC, behind its switch.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::a2a_calls::Agent;
use crate::server::Setup;

fn message(id: &str, text: &str, task: &Value) -> Value {
    json!({"message": {
        "kind": "message", "messageId": id, "role": "user", "taskId": task,
        "parts": [{"kind": "text", "text": text}],
    }})
}

#[test]
fn an_older_client_pauses_and_resumes_across_a_kill() {
    let here = TempDir::new().unwrap();
    let mut server = Setup::new(here.path()).arg("--a2a-v03").arg("true").start();
    let agent = |address: &str| Agent {
        headers: Vec::new(),
        ..Agent::new(address, "/a2a/approve_and_send")
    };
    let card = agent(server.address());
    let card = card.http("GET", "/a2a/approve_and_send/.well-known/agent-card.json", "").json();
    assert_eq!(
        (&card["protocolVersion"], &card["preferredTransport"]),
        (&json!("0.3.0"), &json!("JSONRPC"))
    );
    assert_eq!(card["url"], format!("{}/a2a/approve_and_send", server.url()));

    let asked =
        agent(server.address()).call("message/send", &message("m1", "Tell Ada.", &Value::Null));
    assert_eq!(
        (&asked["kind"], &asked["status"]["state"]),
        (&json!("task"), &json!("input-required"))
    );
    let parts = &asked["status"]["message"]["parts"];
    assert_eq!((&parts[0]["kind"], &parts[1]["kind"]), (&json!("text"), &json!("data")));

    server.restart();
    let answer = message("m2", "approve", &asked["id"]);
    let told: Vec<_> =
        agent(server.address()).stream("message/stream", &answer).map(|it| it.1).collect();
    let kinds: Vec<_> = told.iter().map(|told| told["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["task", "artifact-update", "status-update"]);
    assert_eq!(
        (&told[2]["status"]["state"], &told[2]["final"]),
        (&json!("completed"), &json!(true))
    );

    let id = json!({"id": asked["id"]});
    let mut again = agent(server.address()).stream("tasks/resubscribe", &id);
    assert_eq!(
        again.next().unwrap().1["status"]["state"],
        "completed",
        "one that is over is told once"
    );
    assert_eq!(again.next(), None);
    let gone = agent(server.address()).rpc("tasks/get", &json!({"id": "x"}));
    assert_eq!(gone["error"]["code"], -32001);
    let newer = Agent::new(server.address(), "/a2a/approve_and_send").call("GetTask", &id);
    assert_eq!(
        newer["status"]["state"], "TASK_STATE_COMPLETED",
        "either version sees the same task"
    );
}
