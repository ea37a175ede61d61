//! A2A's SDKs: the Python client that others use, on all three bindings, and the JavaScript one; a
//! process for every act, and a server that is killed in between.
//!
//! `tests/clients/install.sh` fetches it into `target/clients`; without it these tests fail.

use crate::a2a::calls::coded;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::python;
use crate::support::server::{Server, Setup};

/// The binding is left to the other SDK, which takes the first of the card.
pub(crate) const JAVASCRIPT: &str = "JavaScript";

/// One act of the client, at the agent `approve_and_send`.
fn act(server: &Server, binding: &str, rest: &[&str]) -> Child {
    act_at(server, "approve_and_send", binding, rest)
}

/// One act of the client, at any agent.
pub(crate) fn act_at(server: &Server, agent: &str, binding: &str, rest: &[&str]) -> Child {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let base = format!("{}/a2a/{agent}", server.url());
    if binding == JAVASCRIPT {
        let sdk = root.join("target/clients/a2a-js");
        assert!(sdk.exists(), "run tests/clients/install.sh first");
        let mut node = Command::new("node");
        node.arg(root.join("tests/clients/a2a_client.mjs")).arg(sdk).arg(base).args(rest);
        return node.stdout(Stdio::piped()).spawn().unwrap();
    }
    // Whoever speaks gRPC reads the card that names it.
    let base = if binding == "GRPC" { format!("{base}/grpc") } else { base };
    python::act("venv", "a2a_client.py")
        .args([&base, binding])
        .args(rest)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(crate) fn line(text: &str) -> (String, String, String) {
    let told: Value = serde_json::from_str(text).unwrap();
    let field = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    let state = field("state").replace("TASK_STATE_", "");
    let word = if state.is_empty() { field("kind") } else { state };
    (word, field("words"), field("task"))
}

/// What an act told, to its end.
pub(crate) fn told(mut act: Child) -> Vec<(String, String, String)> {
    let lines = BufReader::new(act.stdout.take().unwrap()).lines();
    let told = lines.map(|text| line(&text.unwrap())).collect();
    assert!(act.wait().unwrap().success());
    told
}

fn a_pause_is_taken_up_by_other_processes_after_kills(binding: &str) {
    let here = TempDir::new().unwrap();
    let mut server = Server::start(here.path());
    let asked = told(act(&server, binding, &["send", "Tell Ada."]));
    let (state, words, task) = asked.last().unwrap();
    assert_eq!(state, "INPUT_REQUIRED", "{asked:?}");
    assert!(words.starts_with("Send this message?"), "{words}");

    server.restart();
    let mut watch = act(&server, binding, &["watch", task]);
    let mut seen =
        BufReader::new(watch.stdout.take().unwrap()).lines().map(|text| line(&text.unwrap()));
    assert_eq!(seen.next().unwrap().0, "INPUT_REQUIRED", "the snapshot of a paused task");
    let refused = told(act(&server, binding, &["answer", task, "perhaps"]));
    assert_eq!(refused.last().unwrap().0, "INPUT_REQUIRED", "{refused:?}");
    let done = told(act(&server, binding, &["answer", task, &coded(words, "approve")]));
    assert_eq!(done.last().unwrap().0, "COMPLETED", "{done:?}");
    let rest: Vec<_> = seen.map(|(word, ..)| word).collect();
    assert_eq!(rest, ["WORKING", "artifact_update", "COMPLETED"], "another's resume is seen");
    assert!(watch.wait().unwrap().success());

    server.restart();
    let kept = told(act(&server, binding, &["get", task]));
    let kept: Vec<_> =
        kept.iter().map(|(word, words, _)| (word.as_str(), words.as_str())).collect();
    assert_eq!(kept, [("COMPLETED", ""), ("artifact", "Sent: Tell Ada.")]);
}

#[test]
fn googles_agent_development_kit_takes_the_card_asks_and_answers() {
    let here = TempDir::new().unwrap();
    for older in ["false", "true"] {
        let server = Setup::new(here.path()).arg("--a2a-v03").arg(older).start();
        let card = format!("{}/a2a/approve_and_send/.well-known/agent-card.json", server.url());
        let ended = python::act("adk", "adk_client.py")
            .args([card.as_str(), "Tell Ada.", "approve"])
            .output()
            .unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let told = String::from_utf8(ended.stdout).unwrap();
        let turns: Vec<Value> =
            told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(turns[0]["asked"].as_str().unwrap().starts_with("Send this message?"), "{told}");
        assert_eq!(turns[1]["told"], json!(["Sent: Tell Ada."]), "{told}");
    }
}

#[test]
fn the_sdk_resumes_a_pause_after_kills_by_json_rpc() {
    a_pause_is_taken_up_by_other_processes_after_kills("JSONRPC");
}

#[test]
fn the_sdk_resumes_a_pause_after_kills_by_http() {
    a_pause_is_taken_up_by_other_processes_after_kills("HTTP+JSON");
}

#[test]
fn the_sdk_resumes_a_pause_after_kills_by_grpc() {
    a_pause_is_taken_up_by_other_processes_after_kills("GRPC");
}

#[test]
fn the_javascript_sdk_resumes_a_pause_after_kills() {
    a_pause_is_taken_up_by_other_processes_after_kills(JAVASCRIPT);
}

#[test]
fn a_context_alone_resumes_step_after_step_from_other_processes_after_kills() {
    let here = TempDir::new().unwrap();
    let mut server = Server::start(here.path());
    let say = |server: &Server, context: &str, text: &str| {
        told(act_at(server, "choice", "JSONRPC", &["say", context, text]))
    };
    let first = say(&server, "ctx-1", "Two nights.");
    let (state, words, task) = first.last().unwrap().clone();
    assert_eq!(state, "INPUT_REQUIRED", "{first:?}");
    assert!(words.contains("1. sea") && words.contains("2. hills"), "{words}");
    server.restart();
    let elsewhere = say(&server, "ctx-2", "hills");
    assert_ne!(elsewhere.last().unwrap().2, task, "another context never consumes it");
    let second = say(&server, "ctx-1", "hills");
    let (state, words, same) = second.last().unwrap();
    assert_eq!((state.as_str(), same), ("INPUT_REQUIRED", &task), "{second:?}");
    assert!(words.contains("How many?"), "{words}");
    server.restart();
    let done = say(&server, "ctx-1", "7");
    assert_eq!(done.last().unwrap().0, "COMPLETED", "{done:?}");
    assert!(done.iter().all(|(.., of)| of.is_empty() || *of == task), "one task all the way");
}

/// Says one, two, asks, and says three, four.
const COUNTING: &str = "
name: counting
models:
  default:
    provider: scripted
    script:
      - {agent: first, say: one}
      - {agent: second, delay: 500ms, say: two}
      - {agent: third, say: three}
      - {agent: fourth, say: four}
agents:
  first: {human_input: false}
  second: {human_input: false}
  third: {human_input: false}
  fourth: {human_input: false}
pattern: sequential
steps:
  - {agent: first}
  - {agent: second}
  - id: go_on
    human: {kind: approval, prompt: Go on?}
  - {agent: third}
  - {agent: fourth}
";

/// A stream whose reader dies while the task is at work, and whose server dies after it: whoever
/// subscribes then is told everything once, and sees the end that another brings about.
fn a_dropped_stream_is_taken_up_without_loss(binding: &str) {
    let here = TempDir::new().unwrap();
    let flows = here.path().join("flows");
    std::fs::create_dir_all(&flows).unwrap();
    std::fs::write(flows.join("counting.yaml"), COUNTING).unwrap();
    let mut server = Server::start(here.path());
    let mut stream = act_at(&server, "counting", binding, &["send", "Count."]);
    let mut lines = BufReader::new(stream.stdout.take().unwrap()).lines();
    let (.., task) = lines
        .by_ref()
        .map(|text| line(&text.unwrap()))
        .find(|(_, words, _)| words == "one")
        .unwrap();
    stream.kill().unwrap();
    stream.wait().unwrap();
    server.restart();

    let mut follow = act_at(&server, "counting", binding, &["follow", &task]);
    let mut told = Vec::new();
    let seen = BufReader::new(follow.stdout.take().unwrap()).lines();
    for (word, words, _) in seen.map(|text| line(&text.unwrap())) {
        if word == "INPUT_REQUIRED" {
            act_at(&server, "counting", binding, &["answer", &task, &coded(&words, "approve")])
                .wait()
                .unwrap();
        }
        told.push(if words.is_empty() || word == "INPUT_REQUIRED" { word } else { words });
    }
    assert!(follow.wait().unwrap().success());
    // The question is in the history as well, as what was said.
    told.retain(|word| word != "WORKING" && word != "Go on?");
    // The result is told as it is spoken, and once more whole.
    told.dedup();
    assert_eq!(told, ["one", "two", "INPUT_REQUIRED", "three", "four", "COMPLETED"], "{binding}");
}

#[test]
fn a_dropped_stream_is_taken_up_without_loss_by_json_rpc() {
    a_dropped_stream_is_taken_up_without_loss("JSONRPC");
}

#[test]
fn a_dropped_stream_is_taken_up_without_loss_by_http() {
    a_dropped_stream_is_taken_up_without_loss("HTTP+JSON");
}

#[test]
fn a_dropped_stream_is_taken_up_without_loss_by_grpc() {
    a_dropped_stream_is_taken_up_without_loss("GRPC");
}

#[test]
fn a_dropped_stream_is_taken_up_without_loss_by_javascript() {
    a_dropped_stream_is_taken_up_without_loss(JAVASCRIPT);
}
