//! Clients: what others have made speaks to the real server: buf, and Python from the proto files.
//!
//! `tests/clients/install.sh` fetches them into `target/clients`; without them these tests fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::server::{Server, Setup, forget_settings};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SERVICE: &str = "holdpoint.v1.Orchestrator";

/// A tool of the clients' folder.
fn tool(name: &str) -> PathBuf {
    let path = Path::new(ROOT).join("target/clients").join(name);
    assert!(path.exists(), "`{}` is not there: run tests/clients/install.sh", path.display());
    path
}

/// Runs a tool in the project's root; returns what it wrote.
fn ran(command: &mut Command) -> String {
    forget_settings(command);
    let output = command.current_dir(ROOT).output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

fn buf(arguments: &[&str]) -> String {
    ran(Command::new(tool("node_modules/.bin/buf")).args(arguments))
}

fn curl(server: &Server, arguments: &[&str], method: &str) -> String {
    let url = format!("{}{method}", server.url());
    let plain = ["curl", "--protocol", "grpc", "--http2-prior-knowledge"];
    buf(&[&plain, arguments, &[&url]].concat())
}

/// A stream of JSON documents.
fn documents(text: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(text).into_iter().map(Result::unwrap).collect()
}

#[test]
fn buf_finds_nothing_to_say_about_the_proto_files() {
    assert_eq!(buf(&["lint"]), "");
}

#[test]
fn buf_lists_describes_runs_and_answers() {
    let root = TempDir::new().unwrap();
    let server = Server::start(root.path());
    let services = curl(&server, &["--list-services"], "");
    assert!(services.lines().any(|line| line == SERVICE), "{services}");
    let methods = curl(&server, &["--list-methods"], "");
    for method in ["RunWorkflow", "SendResponses", "WatchRequests", "ForkRun"] {
        assert!(methods.lines().any(|line| line == format!("{SERVICE}/{method}")), "{methods}");
    }

    let start = json!({"workflowId": "approve_and_send", "input": "Tell Ada."}).to_string();
    let events = documents(&curl(&server, &["-d", &start], &format!("/{SERVICE}/RunWorkflow")));
    let asked = events.iter().find_map(|event| event.get("requestInfo")).unwrap();
    assert_eq!(asked["prompt"], "Send this message?");
    let waiting = &events.last().unwrap()["status"];
    assert_eq!(waiting["status"], "RUN_STATUS_WAITING");
    let id = asked["requestId"].as_str().unwrap();
    assert_eq!(waiting["workflowWaiting"]["requests"][0]["requestId"], id);

    let answer =
        json!({"responses": {id: "approve"}, "digests": {id: asked["digest"]}}).to_string();
    let events = documents(&curl(&server, &["-d", &answer], &format!("/{SERVICE}/SendResponses")));
    assert!(events.last().unwrap().get("completed").is_some(), "{events:?}");
}

/// Python with the code that its own tools made from the proto files.
struct Python {
    made: TempDir,
}

impl Python {
    fn new() -> Self {
        let made = TempDir::new().unwrap();
        let out = made.path().display();
        let protos = fs::read_dir(Path::new(ROOT).join("proto/holdpoint/v1")).unwrap();
        // protoc wants them named from the same root as their imports.
        let protos =
            protos.map(|entry| Path::new("proto/holdpoint/v1").join(entry.unwrap().file_name()));
        ran(Command::new(tool("venv/bin/python"))
            .args(["-m", "grpc_tools.protoc", "-Iproto"])
            .arg(format!("--python_out={out}"))
            .arg(format!("--grpc_python_out={out}"))
            .args(protos));
        Self { made }
    }

    /// One command of the client, in a process of its own.
    fn client(&self, server: &Server, arguments: &[&str]) -> Value {
        let text = ran(Command::new(tool("venv/bin/python"))
            .env("PYTHONPATH", self.made.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .args(["tests/clients/client.py", server.address()])
            .args(arguments));
        serde_json::from_str(&text).unwrap()
    }
}

#[test]
fn python_starts_a_run_and_another_process_answers_it_after_the_server_was_killed() {
    let root = TempDir::new().unwrap();
    let python = Python::new();
    let mut server = Server::start(root.path());
    let paused = python.client(&server, &["run", "event_planning", "Plan a party for 30 people"]);
    assert_eq!(paused["last"], "status");
    assert_eq!(paused["request"]["prompt"], "Which venue do you prefer?");
    let options = json!(["The Foundry", "Pier 66", "Garden House"]);
    assert_eq!(paused["request"]["options"], options);

    server.restart();
    let id = paused["request"]["id"].as_str().unwrap();
    let paused = python.client(&server, &["answer", id, "Pier 66"]);
    assert_eq!(paused["request"]["prompt"], "What is the total budget?");
    server.restart();
    let id = paused["request"]["id"].as_str().unwrap();
    let ended = python.client(&server, &["answer", id, "$2000"]);
    assert_eq!((&ended["last"], &ended["request"]), (&json!("completed"), &Value::Null));

    let refused = python.client(&server, &["answer", id, "$3000"]);
    assert_eq!(refused["refused"], "request.already_answered");
    assert_eq!(refused["status"], "ALREADY_EXISTS");
}

#[test]
fn python_asks_reflection_and_health() {
    let root = TempDir::new().unwrap();
    let python = Python::new();
    let server = Server::start(root.path());
    let seen = python.client(&server, &["reflect"]);
    assert_eq!(seen["methods"], 27, "the whole service is described: {seen}");
    let health = python.client(&server, &["health"]);
    assert_eq!(health, json!({"": "SERVING", SERVICE: "SERVING"}));
}

#[test]
fn reflection_lists_what_is_served_and_nothing_that_is_off() {
    let root = TempDir::new().unwrap();
    let python = Python::new();
    let own = ["grpc.health.v1.Health", SERVICE, "lf.a2a.v1.A2AService"];
    let reflection =
        ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];
    for (older, more) in [("false", &[][..]), ("true", &["a2a.v1.A2AService"])] {
        let server = Setup::new(root.path()).arg("--a2a-v03").arg(older).start();
        let seen = python.client(&server, &["reflect"]);
        let mut services: Vec<_> = seen["services"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        // Which of its own two it names is the library's business.
        services.retain(|name| !reflection.contains(name));
        services.sort_unstable();
        let mut served = [&own, more].concat();
        served.sort_unstable();
        assert_eq!(services, served, "--a2a-v03 {older}");
    }
}
