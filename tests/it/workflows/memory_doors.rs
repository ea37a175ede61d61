//! A session remembers, through every door that has a name for it: a conversation or a previous
//! response, a context, the session of the command line. The server is killed in between.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::a2a::calls::{Agent, state, text};
use crate::bridge::sdk::Sdk;
use crate::support::server::Server;
use crate::terminal::cli::holdpoint;

const FRIEND: &str = "friend";
const TOLD: &str = "My name is Ada.";
const ASKED: &str = "What is my name?";
const KNOWS: &str = "Your name is Ada, as you said.";

/// An agent that knows the user's name if it was ever said before its eyes. Whatever was said before,
/// it takes its first turn.
const FILE: &str = r"
name: friend
models:
  default:
    provider: scripted
    script:
      - turn: 1
        when: { last_contains: what is my name, conversation_contains: name is ada }
        say: Your name is Ada, as you said.
      - turn: 1
        when: { last_contains: what is my name }
        say: I do not know.
      - turn: 1
        say: Noted.
agents: { host: { human_input: false } }
pattern: sequential
steps: [{ agent: host }]
";

fn stage(root: &Path) {
    let flows = root.join("flows");
    fs::create_dir_all(&flows).unwrap();
    fs::write(flows.join("friend.yaml"), FILE).unwrap();
}

fn word<'a>(told: &'a Value, field: &str) -> &'a str {
    told[field].as_str().unwrap_or_else(|| panic!("no {field}: {told}"))
}

#[test]
fn a_previous_response_or_a_conversation_is_remembered_by_openais_sdk() {
    let here = TempDir::new().unwrap();
    stage(here.path());
    let mut server = Server::start(here.path());
    let python = |server: &Server, act: &[&str]| Sdk::Python.told(server, act);
    let stranger = python(&server, &["start", FRIEND, ASKED]);
    assert_eq!(word(&stranger, "text"), "I do not know.");
    let first = python(&server, &["start", FRIEND, TOLD]);
    assert_eq!(word(&first, "text"), "Noted.");
    server.restart();
    let second = python(&server, &["go_on", FRIEND, word(&first, "id"), ASKED]);
    assert_eq!(word(&second, "text"), KNOWS);
    let conversation = word(&first, "conversation");
    assert_eq!(word(&second, "conversation"), conversation);
    server.restart();
    let third = python(&server, &["say_in", FRIEND, conversation, ASKED]);
    assert_eq!(word(&third, "text"), KNOWS);
    let items = python(&server, &["input_items", word(&third, "id")]);
    let said = items[0]["content"][0]["text"].as_str();
    assert_eq!((items.as_array().unwrap().len(), said), (1, Some(ASKED)), "its input is its own");
}

#[test]
fn a_second_task_of_a_context_remembers_the_first() {
    let here = TempDir::new().unwrap();
    stage(here.path());
    let mut server = Server::start(here.path());
    let agent = |server: &Server| Agent::new(server.address(), "/a2a/friend");
    let first = agent(&server).send(&text("m1", TOLD));
    assert_eq!(state(&first), "COMPLETED");
    server.restart();
    let mut again = text("m2", ASKED);
    again["contextId"] = first["contextId"].clone();
    let second = agent(&server).send(&again);
    assert_ne!(second["id"], first["id"], "another task");
    let result = &second["artifacts"][0]["parts"][0]["text"];
    assert_eq!((state(&second), result), ("COMPLETED", &json!(KNOWS)));
    let history = second["history"].as_array().unwrap();
    let said = history.iter().map(|message| message["parts"][0]["text"].as_str().unwrap());
    assert_eq!(said.collect::<Vec<_>>(), [ASKED, KNOWS], "its history is its own");
}

#[test]
fn the_command_line_remembers_by_itself() {
    let here = TempDir::new().unwrap();
    stage(here.path());
    let here = here.path();
    let at = ["--data", "data", "--workflows", "flows"];
    let run = |words: &str| {
        let told =
            holdpoint(here, &[&["run", FRIEND, words, "--session", "s1"], &at[..]].concat(), "");
        assert_eq!(told.code, 0, "{}\n{}", told.out, told.err);
        told.out
    };
    // Every command is a process of its own.
    assert!(run(ASKED).contains("I do not know."));
    assert!(run(TOLD).contains("Noted."));
    assert!(run(ASKED).contains(KNOWS));
    let lines = format!("{TOLD}\n{ASKED}\n");
    let told = holdpoint(here, &[&["chat", FRIEND], &at[..]].concat(), &lines);
    assert_eq!(told.code, 0, "{}\n{}", told.out, told.err);
    assert!(told.out.contains("Noted.") && told.out.contains(KNOWS), "{}", told.out);
}
