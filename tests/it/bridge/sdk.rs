//! OpenAI's SDKs, unmodified, for Python and JavaScript: a process for every act, and a server that
//! is killed in between.
//!
//! `tests/clients/install.sh` fetches them into `target/clients`; without them these tests fail.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::python;
use crate::support::server::{Server, forget_settings};

const PARTY: &str = "Plan a party for 30 people";
const WORKFLOW: &str = "event_planning";

/// Whose SDK.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sdk {
    Python,
    JavaScript,
}

const BOTH: [Sdk; 2] = [Sdk::Python, Sdk::JavaScript];

impl Sdk {
    /// One act of a client, in a process of its own: every line that it told.
    pub(crate) fn act(self, server: &Server, arguments: &[&str]) -> Vec<Value> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = root.join("target/clients/openai");
        assert!(folder.exists(), "run tests/clients/install.sh first");
        let mut command = match self {
            Self::Python => python::act("openai/venv", "openai_client.py"),
            Self::JavaScript => {
                let mut command = Command::new("node");
                command.arg(root.join("tests/clients/openai_client.mjs")).arg(folder);
                command
            }
        };
        forget_settings(&mut command);
        for name in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"] {
            command.env_remove(name);
        }
        let ran = command.arg(server.url()).args(arguments).output().unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{self:?} {arguments:?}: {out}\n{err}");
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// An act that tells one thing.
    pub(crate) fn told(self, server: &Server, arguments: &[&str]) -> Value {
        self.act(server, arguments).pop().unwrap()
    }
}

fn text<'a>(told: &'a Value, field: &str) -> &'a str {
    told[field].as_str().unwrap_or_else(|| panic!("no {field}: {told}"))
}

/// What it asks: the id, and the prompt as the arguments of the call have it.
fn asked(told: &Value) -> (String, String) {
    assert_eq!(told["status"], "completed", "{told}");
    let calls = told["calls"].as_array().unwrap();
    assert_eq!((calls.len(), &calls[0]["name"]), (1, &json!("request_info")), "{told}");
    let (id, arguments) = (text(&calls[0], "call_id"), &calls[0]["arguments"]);
    assert_eq!(arguments["request_id"], id);
    (id.to_owned(), text(&arguments["request"], "prompt").to_owned())
}

#[test]
fn a_pause_is_a_function_call_and_its_output_is_the_answer() {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    for sdk in BOTH {
        let first = sdk.told(&server, &["start", WORKFLOW, PARTY]);
        let (venue, prompt) = asked(&first);
        assert_eq!(prompt, "Which venue do you prefer?", "{sdk:?}");
        let second =
            sdk.told(&server, &["answer", WORKFLOW, text(&first, "id"), &venue, "Pier 66"]);
        let (budget, prompt) = asked(&second);
        assert_eq!(prompt, "What is the total budget?", "{sdk:?}");
        assert_eq!(second["conversation"], first["conversation"]);
        let last = sdk.told(&server, &["answer", WORKFLOW, text(&second, "id"), &budget, "$2000"]);
        assert_eq!((&last["status"], &last["calls"]), (&json!("completed"), &json!([])));
        for part in [PARTY, "Pier 66", "$2000"] {
            assert!(text(&last, "text").contains(part), "{sdk:?}: {last}");
        }
        for told in [first, second, last] {
            assert_eq!(sdk.told(&server, &["get", text(&told, "id")]), told, "{sdk:?}");
        }
    }
}

#[test]
fn every_act_goes_on_after_the_server_was_killed() {
    let here = TempDir::new().unwrap();
    let mut server = Server::start(here.path());
    for sdk in BOTH {
        let first = sdk.told(&server, &["start", WORKFLOW, PARTY]);
        server.restart();
        assert_eq!(sdk.told(&server, &["get", text(&first, "id")]), first, "{sdk:?}");
        let (venue, _) = asked(&first);
        let answer = ["stream_answer", WORKFLOW, text(&first, "id"), &venue, "Pier 66"];
        let second = sdk.told(&server, &answer);
        server.restart();
        let (budget, prompt) = asked(&second);
        assert_eq!(prompt, "What is the total budget?", "{sdk:?}");
        let last = sdk.told(&server, &["answer", WORKFLOW, text(&second, "id"), &budget, "$2000"]);
        server.restart();
        assert_eq!(sdk.told(&server, &["get", text(&last, "id")]), last, "{sdk:?}");
        assert!(text(&last, "text").contains("$2000"), "{sdk:?}: {last}");
    }
}

/// What a stream tells of one message and one question.
const STREAMED: [&str; 13] = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.done",
    "response.completed",
];

#[test]
fn a_stream_is_gathered_by_the_sdk_and_taken_up_again_after_a_kill() {
    let here = TempDir::new().unwrap();
    let mut server = Server::start(here.path());
    for sdk in BOTH {
        let mut told = sdk.act(&server, &["stream", "approve_and_send", "Tell Ada."]);
        let first = told.pop().unwrap();
        let names: Vec<_> = told.iter().map(|event| text(event, "event")).collect();
        assert_eq!(names, STREAMED, "{sdk:?}");
        assert_eq!(text(&first, "text"), "Tell Ada.");
        assert_eq!(sdk.told(&server, &["get", text(&first, "id")]), first, "{sdk:?}");

        server.restart();
        let rest = sdk.act(&server, &["resume_stream", text(&first, "id"), "7"]);
        assert_eq!(rest, told[8..], "{sdk:?}: nothing missing, nothing twice");

        let (id, _) = asked(&first);
        let answer = ["stream_answer", "approve_and_send", text(&first, "id"), &id, "approve"];
        let last = sdk.told(&server, &answer);
        assert_eq!(text(&last, "text"), "Sent: Tell Ada.", "{sdk:?}");
        assert_eq!(sdk.told(&server, &["get", text(&last, "id")]), last, "{sdk:?}");
    }
}

#[test]
fn a_second_answer_is_told_that_it_is_the_second() {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    for sdk in BOTH {
        let first = sdk.told(&server, &["start", "approve_and_send", "Tell Ada."]);
        let (id, _) = asked(&first);
        let previous = text(&first, "id");
        sdk.told(&server, &["answer", "approve_and_send", previous, &id, "approve"]);
        let refused = sdk.told(&server, &["answer", "approve_and_send", previous, &id, "reject"]);
        assert_eq!(refused["status"], 409, "{sdk:?}: {refused}");
        assert_eq!(refused["refused"], "request.already_answered");
        let wrong = sdk.told(&server, &["answer", "approve_and_send", "resp_x", &id, "approve"]);
        assert_eq!(
            (&wrong["status"], &wrong["refused"]),
            (&json!(404), &json!("response.unknown"))
        );
    }
}

#[test]
fn a_user_that_sends_the_whole_history_every_time_is_understood() {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    let told = Sdk::Python.act(&server, &["whole_history", WORKFLOW, PARTY, "Pier 66", "$2000"]);
    assert_eq!(told.len(), 3);
    assert_eq!(asked(&told[1]).1, "What is the total budget?");
    assert!(text(&told[2], "text").contains("$2000"), "{:?}", told[2]);
    assert_eq!(told[2]["conversation"], told[0]["conversation"], "one run, not three");
}

#[test]
fn the_sdk_names_workflows_cancels_and_reads_what_was_put_in() {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    let models = Sdk::Python.told(&server, &["models"]);
    assert!(models.as_array().unwrap().contains(&json!(WORKFLOW)), "{models}");
    let first = Sdk::Python.told(&server, &["start", "approve_and_send", "Tell Ada."]);
    let id = text(&first, "id");
    let items = Sdk::Python.told(&server, &["input_items", id]);
    assert_eq!(items[0]["content"][0]["text"], "Tell Ada.");
    let cancelled = Sdk::Python.told(&server, &["cancel", id]);
    assert_eq!(
        (&cancelled["status"], &cancelled["whole"]["workflow_waiting"]),
        (&json!("cancelled"), &Value::Null)
    );
    // What cancelling did is told with it, and not kept.
    let mut kept = cancelled.clone();
    let did = kept["whole"].as_object_mut().unwrap().remove("cancel").unwrap();
    assert_eq!(did["cancel"], "run");
    assert_eq!(Sdk::Python.told(&server, &["get", id]), kept);
    let (request, _) = asked(&first);
    let conversation = text(&first, "conversation");
    let refused = Sdk::Python
        .told(&server, &["in_conversation", "approve_and_send", conversation, &request, "yes"]);
    assert_eq!(refused["status"], 409, "{refused}");
}
