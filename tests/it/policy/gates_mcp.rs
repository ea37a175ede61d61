//! Gates on tools of MCP servers, on the real binary: a gate on all of a server's tools stops each of
//! them, and one on a tool that the server does not have is told before anything begins, with its line. A server
//! is asked when a workflow of its is first started, and not before.

use std::fs;
use std::path::Path;

use holdpoint::wire::v1::{ListWorkflowsRequest, RequestKind, RunWorkflowRequest};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::server::{Setup, answer_to, asked, names, run, send, start_of};

/// A workflow whose agent may use all tools of a server, with a gate on `gated`.
fn stage(gated: &str) -> (TempDir, Setup) {
    stage_of("good", gated)
}

/// The same, of a server that is as it is told.
fn stage_of(mode: &str, gated: &str) -> (TempDir, Setup) {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("flows")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/bad_mcp.py");
    let command = json!(["python3", script, mode, root.path().join("calls")]);
    let rule = |turn: u32, rest: Value| {
        let mut rule = json!({"agent": "a", "turn": turn});
        rule.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        rule
    };
    let flow = json!({
        "name": "guarded",
        "models": {"m": {"provider": "scripted", "script": [
            rule(1, json!({"call": [{"tool": "s__act", "arguments": {"n": 1}}]})),
            rule(2, json!({"say": "Done: {{last}}"})),
        ]}},
        "mcp": {"s": {"command": command, "timeout": "20s"}},
        "agents": {"a": {"tools": ["s.*"]}},
        "pattern": "sequential",
        "steps": [{"agent": "a"}],
        "gates": [{"name": "all", "tools": [gated]}],
    });
    let text = serde_json::to_string_pretty(&flow).unwrap();
    fs::write(root.path().join("flows/guarded.yaml"), text).unwrap();
    let setup = Setup::new(root.path());
    (root, setup)
}

fn calls(root: &TempDir) -> usize {
    fs::read_to_string(root.path().join("calls")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn k7_a_gate_on_all_tools_of_a_server_stops_each_of_them() {
    for gated in ["s.*", "s.act"] {
        let (root, setup) = stage(gated);
        let server = setup.start();
        let mut client = server.client().await;
        let events = run(&mut client, start_of("guarded", "", "Go.", "k0")).await;
        let request = asked(&events).unwrap();
        assert_eq!((request.kind(), calls(&root)), (RequestKind::ToolApproval, 0), "{gated}");
        let events = send(&mut client, answer_to(&request.request_id, "allow_once", "k1")).await;
        assert_eq!(names(&events).last(), Some(&"completed"), "{gated}");
        assert_eq!(calls(&root), 1, "{gated}");
    }
}

#[tokio::test]
async fn k7_a_gate_on_a_tool_that_the_server_does_not_have_is_told_and_nothing_begins() {
    let (root, setup) = stage("s.akt");
    let server = setup.start();
    let mut client = server.client().await;
    let refused = client.run_workflow(start_of("guarded", "", "Go.", "k0")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused}");
    assert_eq!(calls(&root), 0);
    let told = refused.message();
    for part in ["tool.unknown", "s__akt", "guarded.yaml:", "there is: s__act"] {
        assert!(told.contains(part), "{part} in {told}");
    }
}

#[tokio::test]
async fn a_tool_server_starts_when_it_is_first_needed_and_its_name_is_logged_without_structures() {
    let (_root, setup) = stage("s.act");
    let server = setup.start();
    let mut client = server.client().await;
    client.list_workflows(ListWorkflowsRequest {}).await.unwrap();
    assert!(!server.told().contains("name=\"bad\""), "nobody has needed it: {}", server.told());
    run(&mut client, start_of("guarded", "", "Go.", "k0")).await;
    let told = server.told();
    assert!(told.contains("name=\"bad\"") && told.contains("version=\"1\""), "{told}");
    assert!(!told.contains("peer_info") && !told.contains("capabilities"), "{told}");
}

#[tokio::test]
async fn k12_a_start_does_not_look_for_words_where_a_server_marks_what_its_tool_is_given() {
    for mode in ["marks", "misspells"] {
        let (root, setup) = stage_of(mode, "s.act");
        let server = setup.start();
        let mut client = server.client().await;
        let gate = json!({"name": "m", "tools": ["*"], "when": [{"keywords": ["1"]}]});
        // The first start is the one that asks the server what it has; the second knows.
        for key in ["k0", "k1"] {
            let start = RunWorkflowRequest {
                gates: vec![gate.clone().into()],
                ..start_of("guarded", "", "Go.", key)
            };
            let refused = client.run_workflow(start).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{mode}: {refused}");
            assert!(refused.message().contains("marked as secret"), "{mode}: {refused}");
        }
        assert_eq!(calls(&root), 0, "{mode}");
    }
}
