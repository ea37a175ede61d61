//! The terminal as people use it: forms field by field, numbers instead of ids, names that were nearly right, an
//! editor at a gate. The real binary, and where it is about looking, a real terminal.

pub(crate) mod chat;
pub(crate) mod cli;
pub(crate) mod cli_talk;
pub(crate) mod examples;
pub(crate) mod first_minutes;
pub(crate) mod inbox;
pub(crate) mod looking;
pub(crate) mod said_aloud;
pub(crate) mod shared;
pub(crate) mod slips;
pub(crate) mod stranger;
pub(crate) mod walkthroughs;
pub(crate) mod words;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::consent::stage::{LOCAL, Stage, TOOL, bills, question};
use crate::support::screen::Screen;
use crate::terminal::cli::{Ended, holdpoint, with_env};

/// A workflow that asks for fields.
const TRIP: &str = "
name: trip
pattern: graph
graph:
  steps:
    - id: ask
      human:
        kind: clarification
        prompt: What shall we book?
        response_schema:
          type: object
          required: [guests, day]
          additionalProperties: false
          properties:
            guests: {type: integer, minimum: 1, maximum: 60, description: How many come}
            day: {type: string, format: date}
            vegan: {type: boolean, default: false}
            how: {enum: [bus, train]}
  output: '${steps.ask}'
";

/// Two decisions, one after the other.
const TWICE: &str = "{id: first, human: {kind: approval, prompt: Pay Ada 10?}}, \
                     {id: second, human: {kind: approval, prompt: Pay Bob 9000?}}";

/// A folder with one workflow of its own.
fn place(flow: &str) -> TempDir {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("workflows")).unwrap();
    fs::write(root.path().join("workflows/own.yaml"), flow).unwrap();
    root
}

fn types(root: &Path, words: &[&str], lines: &str) -> Ended {
    holdpoint(root, words, lines)
}

fn output(root: &Path) -> Value {
    let runs = holdpoint(root, &["runs", "--json"], "").json();
    let id = runs["runs"][0]["run_id"].as_str().unwrap().to_owned();
    holdpoint(root, &["runs", &id, "--json"], "").json()["output"].clone()
}

#[test]
fn a_form_is_asked_field_by_field_and_all_that_is_wrong_is_told_at_once() {
    let root = place(TRIP);
    // Fields come in the order of the file: guests, day, vegan, how; and so do those that are asked again.
    let lines = "many\n\n\n3\n30\n2026-03-31\ntrain\n\n";
    let ended = types(root.path(), &["run", "trip", "Go.", "-i"], lines);
    assert_eq!(ended.code, 0, "{ended:?}");
    for part in
        ["guests  a whole number, at least 1, at most 60 · How many come", "Enter takes false"]
    {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
    for part in ["day: This is needed.", "guests: Expected a whole number.", "how: Choose one"] {
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
    }
    assert!(ended.out.contains("1. guests  30"), "what will be sent is shown: {}", ended.out);
    let said = json!({"day": "2026-03-31", "guests": 30, "how": "train", "vegan": false});
    assert_eq!(output(root.path()), said);
}

#[test]
fn a_form_can_be_left_changed_and_given_whole() {
    let root = place(TRIP);
    let left = types(root.path(), &["run", "trip", "Go.", "-i"], "30\nexit\n");
    assert_eq!(left.code, 4, "{left:?}");
    assert!(left.err.contains("left waiting"), "{left:?}");
    // Changed before it is sent, by its number.
    let lines = "30\n2026-03-31\nyes\n\n1\n31\n\n";
    let ended = types(root.path(), &["resume", "-i"], lines);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(output(root.path()), json!({"day": "2026-03-31", "guests": 31, "vegan": true}));
    let whole = "{\"guests\": 2, \"day\": \"2026-04-01\"}\n";
    let ended = types(root.path(), &["run", "trip", "Again.", "-i"], whole);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(output(root.path()), json!({"day": "2026-04-01", "guests": 2}));
    // Where nobody sits, the fields are named.
    let told = types(root.path(), &["run", "trip", "Once more."], "");
    assert!(told.err.contains("JSON with guests, day, vegan?, how?"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_number_decides_what_that_inbox_showed_and_nothing_else() {
    let stage = Stage::open(&bills(TWICE)).await;
    let first = question(&stage.start(LOCAL, "s", "Pay.").await);
    let early = stage.command(LOCAL, &["respond", "1", "yes"]);
    assert_eq!(early.code, 5, "{early:?}");
    assert!(early.err.contains("showed nothing"), "{early:?}");
    let inbox = stage.command(LOCAL, &["inbox"]);
    assert!(inbox.out.lines().nth(1).unwrap().starts_with("1  "), "{inbox:?}");
    // Somebody else was quicker: the run asks something new, and the number stays with what it was shown for.
    stage.answer(LOCAL, &first, json!({"decision": "approve"})).await.unwrap();
    let second = stage.inbox(LOCAL).await.remove(0);
    assert_ne!(second.request_id, first.request_id);
    let late = stage.command(LOCAL, &["respond", "1", "yes"]);
    assert_eq!(late.code, 6, "{late:?}");
    stage.assert_untouched(LOCAL, &second, "a late number").await;
    let beyond = stage.command(LOCAL, &["respond", "2", "yes"]);
    assert!(beyond.err.contains("the last inbox showed 1 request"), "{beyond:?}");
    stage.command(LOCAL, &["inbox"]);
    let ended = stage.command(LOCAL, &["respond", "1", "approve"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    // An empty inbox leaves no number behind.
    assert!(stage.command(LOCAL, &["inbox"]).out.contains("nothing waits"));
    assert_eq!(stage.command(LOCAL, &["respond", "1", "yes"]).code, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_a_number_is_bound_to_the_digest_that_was_shown() {
    let stage = Stage::open(&bills(TWICE)).await;
    let first = question(&stage.start(LOCAL, "s", "Pay.").await);
    stage.command(LOCAL, &["inbox"]);
    let folder = stage.root.path().join("state/holdpoint");
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = fs::read_to_string(&file).unwrap();
    assert!(kept.contains(&first.digest), "{kept}");
    fs::write(&file, kept.replace(&first.digest, &"0".repeat(first.digest.len()))).unwrap();
    let ended = stage.command(LOCAL, &["respond", "1", "yes"]);
    assert_eq!(ended.code, 6, "{ended:?}");
    stage.assert_untouched(LOCAL, &first, "another digest").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_taken_up_by_its_id_or_its_number() {
    let stage = Stage::open(&bills(TWICE)).await;
    let first = question(&stage.start(LOCAL, "s", "Pay.").await);
    let url = stage.server.url();
    stage.command(LOCAL, &["inbox"]);
    let words = |id: &str| {
        let words = ["--server", &url, "resume", id, "-i"];
        with_env(stage.root.path(), &words, "exit\n", &[])
    };
    for id in [first.request_id.as_str(), "1"] {
        let ended = words(id);
        assert_eq!(ended.code, 4, "{ended:?}");
        assert!(ended.out.contains("Pay Ada 10?"), "{ended:?}");
    }
    stage.answer(LOCAL, &first, json!({"decision": "approve"})).await.unwrap();
    let ended = words("1");
    assert_eq!(ended.code, 5, "another question is not put in its place: {ended:?}");
    assert_eq!(words("req_nonsense").code, 2);
}

#[test]
fn a_name_that_is_nearly_right_is_answered_with_the_one_that_was_meant() {
    let root = place(TRIP);
    let here = root.path();
    for (words, meant) in [
        (&["run", "aprove_and_send", "x"][..], "did you mean `approve_and_send`?"),
        (&["run", "tripp", "x"], "did you mean `trip`?"),
        (&["workflows", "event_planing"], "did you mean `event_planning`?"),
    ] {
        let ended = holdpoint(here, words, "");
        assert_eq!(ended.code, 5, "{ended:?}");
        assert!(ended.err.contains(meant), "{ended:?}");
    }
    holdpoint(here, &["run", "trip", "Go."], "");
    let runs = holdpoint(here, &["runs", "--json"], "").json();
    let id = runs["runs"][0]["run_id"].as_str().unwrap().to_owned();
    for command in ["runs", "watch", "journal", "resume"] {
        let ended = holdpoint(here, &[command, id.get(..16).unwrap()], "");
        assert_ne!(ended.code, 0, "{command}: {ended:?}");
        assert!(ended.err.contains(&format!("did you mean `{id}`?")), "{command}: {ended:?}");
    }
    let asked = holdpoint(here, &["inbox", "--json"], "").json();
    let asked = asked["requests"][0]["request_id"].as_str().unwrap();
    assert!(asked.starts_with("req_"));
    assert!(holdpoint(here, &["runs", "--status", "failed"], "").out.contains("holdpoint-data"));
}

#[test]
fn where_people_have_keys_an_inbox_without_a_server_says_whose_it_is() {
    let root = place(TRIP);
    let here = root.path();
    assert!(!holdpoint(here, &["inbox"], "").err.contains("you are `local`"));
    holdpoint(here, &["run", "trip", "Go."], "");
    assert!(
        !holdpoint(here, &["inbox"], "").err.contains("you are `local`"),
        "nobody else is there"
    );
    assert_eq!(holdpoint(here, &["keys", "add", "ada"], "").code, 0);
    let told = holdpoint(here, &["inbox"], "");
    assert!(told.out.contains("What shall we book?"), "{told:?}");
    assert!(told.err.contains("you are `local`"), "{told:?}");
}

/// A payment that waits at a gate.
fn gated() -> String {
    format!(
        "
name: bills
models:
  default: {{provider: scripted, script: [{{when: {{tool_result_contains: paid}}, say: Paid.}}, {{say: I pay., call: [{{tool: pay, arguments: {{amount: 10, to: Ada}}}}]}}]}}
tools:{TOOL}
agents:
  clerk: {{human_input: false, tools: [pay]}}
gates: [{{name: money, tools: [pay]}}]
pattern: sequential
steps: [{{agent: clerk}}]
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_gate_edit_opens_the_arguments_in_an_editor() {
    let stage = Stage::open(&gated()).await;
    let asked = question(&stage.start(LOCAL, "s", "Pay.").await);
    let path = stage.root.path().join("ed");
    fs::write(&path, "#!/bin/sh\nsed -i 's/10/12/' \"$1\"\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let editor = path.display().to_string();
    let url = stage.server.url();
    let words = ["--server", &url, "respond", &asked.request_id, "edit"];
    let ended = with_env(stage.root.path(), &words, "", &[("EDITOR", &editor)]);
    assert!(ended.out.contains("[-10-]{+12+}"), "{ended:?}");
    assert_eq!(ended.code, 0, "whoever may decide it may decide their own version: {ended:?}");
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await, [json!({"amount": 12, "to": "Ada"})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_eighty_columns_nothing_wraps_and_a_number_shows_what_it_decides() {
    let stage = Stage::open(&bills(TWICE)).await;
    let first = question(&stage.start(LOCAL, "s", "Pay.").await);
    let binary = env!("CARGO_BIN_EXE_holdpoint");
    let url = stage.server.url();
    let shell =
        format!("export HOLDPOINT_SERVER={url}; export PATH={}:$PATH; exec sh", bin(binary));
    let screen = Screen::open(stage.root.path(), "one", (80, 24), &shell);
    screen.types("holdpoint inbox; holdpoint runs; holdpoint workflows");
    let shown = screen.sees(&["Pay Ada 10?", "WAITING", "event_planning", "RUN  "]);
    for line in shown.lines().filter(|line| !line.contains('$')) {
        assert!(line.chars().count() <= 80, "{line}\n{shown}");
    }
    screen.types("clear; holdpoint respond 1 approve");
    screen.sees(&["Pay Ada 10?", "Enter or y says approve to this"]);
    screen.types("no");
    screen.sees(&["nothing was sent"]);
    stage.assert_untouched(LOCAL, &first, "anything but Enter").await;
    screen.types("clear; holdpoint respond 1 approve");
    screen.sees(&["Enter or y says approve to this"]);
    screen.presses("Enter");
    screen.sees(&["Pay Bob 9000?"]);
    screen.types("clear; holdpoint inbox; holdpoint respond 1 approve; echo over $((40 + 2))");
    screen.sees(&["Pay Bob 9000?", "Enter or y says approve to this"]);
    screen.types("Yes");
    screen.sees(&["over 42"]);
    assert!(stage.inbox(LOCAL).await.is_empty(), "an impatient yes counts as Enter does");
}

/// The folder that a program is in.
fn bin(binary: &str) -> String {
    Path::new(binary).parent().unwrap().display().to_string()
}
