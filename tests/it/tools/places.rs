//! Places: a file that leads where the guard lets nobody is told so before anybody approves a call.

use std::fs;
use std::sync::Arc;

use holdpoint::agents::Registry;
use holdpoint::app::SystemClock;
use holdpoint::definition::load_text;
use holdpoint::kernel::Workflow;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::terminal::cli::holdpoint;

/// Where the places of `leading` are written.
const ALL: [&str; 3] = ["/mcp/s/url", "/models/m/card", "/tools/t/settings/url"];

/// A workflow that leads to this URL by a tool, by an MCP server and by a remote agent.
fn leading(url: &str, allow: &Value) -> Arc<Workflow> {
    let place = json!({"url": url, "allow_private": allow});
    let file = json!({
        "name": "w",
        "models": {
            "m": {"provider": "a2a", "card": url, "allow_private": allow},
            "n": {"provider": "scripted", "script": [{"say": "hm"}]},
        },
        "mcp": {"s": place},
        "tools": {"t": {"provider": "http", "parameters": {"type": "object"}, "settings": place}},
        "agents": {"a": {"model": "m"}, "b": {"model": "n", "tools": ["t", "s.one", "s.two"]}},
        "pattern": "sequential",
        "steps": [{"agent": "a"}, {"agent": "b"}],
    });
    load_text("w.yaml", &file.to_string(), &|_| Err(String::new())).unwrap().workflow
}

/// What is wrong with it, and what is only doubted.
fn told(url: &str, allow: &Value) -> (Vec<String>, Vec<String>) {
    let workflow = leading(url, allow);
    let places = |told: Vec<(String, String)>| told.into_iter().map(|(at, _)| at).collect();
    let registry = Registry::new(Arc::new(SystemClock));
    (places(registry.problems(&workflow)), places(Registry::doubts(&workflow)))
}

#[test]
fn a_written_address_that_the_guard_refuses_is_wrong_at_every_place_once() {
    for (url, allow) in [
        ("http://127.0.0.1:9/wire", json!(false)),
        ("https://10.1.2.3/", json!(false)),
        ("http://[::1]/", json!(false)),
        ("http://127.1/", json!(false)),
        ("http://127.0.0.1/", json!(["localhost"])),
    ] {
        let (wrong, doubted) = told(url, &allow);
        assert_eq!((wrong, doubted.len()), (ALL.map(str::to_owned).to_vec(), 0), "{url}");
    }
}

#[test]
fn a_place_that_the_file_allows_or_that_only_resolving_can_tell_is_left_alone() {
    for (url, allow) in [
        ("http://127.0.0.1:9/", json!(true)),
        ("http://127.1/", json!(["127.0.0.1"])),
        ("http://[::1]/", json!(["[::1]"])),
        ("https://1.1.1.1/", json!(false)),
        ("https://intranet.example/", json!(false)),
        ("http://localhost:9/", json!(["LOCALHOST"])),
    ] {
        assert_eq!(told(url, &allow), (Vec::new(), Vec::new()), "{url}");
    }
}

#[test]
fn a_name_of_this_machine_is_doubted_and_not_refused() {
    for url in ["http://localhost:9/wire", "http://shop.LocalHost/"] {
        let (wrong, doubted) = told(url, &json!(false));
        assert_eq!((wrong.len(), doubted), (0, ALL.map(str::to_owned).to_vec()), "{url}");
    }
}

#[test]
fn check_tells_of_a_tool_that_can_never_be_called() {
    let root = TempDir::new().unwrap();
    let file = |host: &str| {
        format!(
            "name: wire
models:
  default: {{provider: scripted, script: [{{say: hello}}]}}
tools:
  pay:
    provider: http
    parameters: {{type: object}}
    settings: {{method: POST, url: 'http://{host}:46802/wire'}}
gates: [{{name: money, tools: [pay]}}]
agents:
  clerk: {{tools: [pay]}}
pattern: sequential
steps: [{{agent: clerk}}]
"
        )
    };
    let check = |host: &str| {
        fs::write(root.path().join("wire.yaml"), file(host)).unwrap();
        holdpoint(root.path(), &["check", "wire.yaml"], "")
    };
    let refused = check("127.0.0.1");
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.out.contains("wire.yaml:8:"), "{}", refused.out);
    assert!(refused.out.contains("[provider.invalid] `127.0.0.1`"), "{}", refused.out);
    assert!(refused.out.contains("`allow_private: true`"), "{}", refused.out);
    let doubted = check("localhost");
    assert_eq!(doubted.code, 0, "{}", doubted.out);
    assert!(doubted.err.contains("[provider.private]"), "{}", doubted.err);
}
