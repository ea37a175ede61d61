//! `holdpoint chat`, driven in tmux as a person would, and in a pipe.

use std::fs;

use tempfile::TempDir;

use crate::support::screen::Screen;
use crate::support::server::Server;
use crate::terminal::cli::holdpoint;

const OVERLAY: &str = "Workflow requests your input";

#[test]
fn a_person_starts_answers_hides_cancels_leaves_and_comes_back() {
    let here = TempDir::new().unwrap();
    let mut server = Server::start(here.path());
    let at = format!("multi_tier_support --session s1 --server {}", server.url());
    let screen = Screen::chat(here.path(), "one", &at);
    screen.sees(&["multi_tier_support", "A new session"]);
    screen.types("I need help with order 12345. I want a replacement.");
    let shown = screen.sees(&[OVERLAY, "What would you like to tell us?", "Enter answers"]);
    assert!(shown.contains("replacement: I can arrange a replacement."), "{shown}");

    screen.presses("Escape");
    screen.sees(&["1 request waits"]);
    screen.loses(OVERLAY);
    screen.presses("Escape");
    screen.sees(&[OVERLAY]);
    screen.types("The item arrived damaged. Same address please.");
    screen.sees(&["delivery: Your package leaves our warehouse tomorrow", OVERLAY]);
    screen.types("/status");
    screen.sees(&["is waiting after", "with 1 open request; session s1"]);
    screen.types("/graph");
    screen.sees(&["billing"]);
    screen.presses("C-c");
    let how = "take it up again with: holdpoint chat multi_tier_support --session s1";
    screen.sees(&[how, "ended 4"]);

    // The server dies while nobody looks; the conversation is there all the same.
    server.restart();
    let at = format!("--session s1 --server {}", server.url());
    let screen = Screen::chat(here.path(), "two", &at);
    screen.sees(&["multi_tier_support", "Your package leaves our warehouse tomorrow", OVERLAY]);
    screen.types("/sessions");
    screen.sees(&["s1  waits: multi_tier_support"]);
    screen.types("/handoff-cancel");
    screen.sees(&["taken back"]);
    screen.types("/handoff-cancel");
    screen.sees(&["the request was withdrawn by local"]);
    screen.loses(OVERLAY);
    screen.types("/quit");
    screen.sees(&["ended 0"]);
}

#[test]
fn choices_by_key_and_wrong_answers_say_why() {
    let here = TempDir::new().unwrap();
    // No server: the orchestrator is in the same process.
    let screen = Screen::chat(here.path(), "one", "choice --data data");
    screen.sees(&["choice", "Say what you want"]);
    screen.types("a room");
    screen.sees(&[OVERLAY, "Where?", "1. sea", "2. hills"]);
    screen.types("3");
    screen.sees(&["there is no 3: choose from 1 to 2"]);
    screen.types("2");
    screen.sees(&["How many?", "local: hills"]);
    screen.types("none");
    screen.sees(&["a value of type integer"]);
    screen.types("3");
    screen.sees(&["booker: Booked: a room", "The run is completed."]);
    screen.types("/help");
    screen.sees(&["/handoff-cancel"]);
    screen.presses("C-c");
    screen.sees(&["ended 0"]);
}

#[test]
fn another_persons_answer_closes_the_overlay() {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    let at = format!("approve_and_send --session s1 --server {}", server.url());
    let screen = Screen::chat(here.path(), "one", &at);
    screen.sees(&["A new session"]);
    screen.types("Tell Ada.");
    screen.sees(&[OVERLAY, "Send this message?"]);
    let inbox = holdpoint(here.path(), &["inbox", "--json", "--server", &server.url()], "").json();
    let id = inbox["requests"][0]["request_id"].as_str().unwrap();
    let respond =
        holdpoint(here.path(), &["respond", id, "approve", "--server", &server.url()], "");
    assert_eq!(respond.code, 0, "{}", respond.err);
    screen.sees(&["Sent: Tell Ada.", "The run is completed."]);
    screen.loses(OVERLAY);
}

#[test]
fn a_chat_outlives_its_server() {
    let here = TempDir::new().unwrap();
    let mut server = Server::start(here.path());
    let at = format!("choice --session s1 --server {}", server.url());
    let screen = Screen::chat(here.path(), "one", &at);
    screen.sees(&["A new session"]);
    screen.types("a room");
    screen.sees(&[OVERLAY, "Where?"]);

    server.kill();
    screen.sees(&["server away", OVERLAY]);
    // An answer that nobody heard is not lost, and nor is the question.
    screen.types("2");
    screen.sees(&["the server does not answer", "> 2", OVERLAY, "Where?"]);
    server.restart_here();
    screen.loses("server away");
    screen.sees(&[OVERLAY, "Where?", "> 2"]);
    screen.presses("Enter");
    screen.sees(&["How many?", "local: hills"]);

    // Asked and answered by others while the chat could not look.
    server.restart_here();
    let respond = holdpoint(
        here.path(),
        &["run", "choice", "3", "--session", "s1", "--server", &server.url()],
        "",
    );
    assert_eq!(respond.code, 0, "{}", respond.err);
    screen.sees(&["The server is back.", "booker: Booked: a room", "The run is completed."]);
    screen.loses(OVERLAY);
    screen.types("/quit");
    screen.sees(&["ended 0"]);
}

/// Two people's questions at once.
const PAIR: &str = r#"
name: pair
description: Asks two things at the same time.
agents: {}
pattern: graph
graph:
  steps:
    - id: both
      parallel:
        left: [{id: colour, human: {kind: selection, prompt: "Which colour?", options: [red, blue]}}]
        right: [{id: size, human: {kind: selection, prompt: "Which size?", options: [small, large]}}]
  output: ["${steps.both.left}", "${steps.both.right}"]
"#;

#[test]
fn several_requests_queue_and_each_is_answered_for_itself() {
    let here = TempDir::new().unwrap();
    let flows = here.path().join("flows");
    fs::create_dir(&flows).unwrap();
    fs::write(flows.join("pair.yaml"), PAIR).unwrap();
    let screen = Screen::chat_with(here.path(), "one", "pair --data data", &flows);
    screen.sees(&["Asks two things"]);
    screen.types("a shirt");
    screen.sees(&[OVERLAY, "1 of 2", "Which colour?", "1. red", "2. blue", "Tab shows the next"]);
    screen.presses("Tab");
    screen.sees(&["Which size?", "2. large"]);
    screen.presses("Escape");
    screen.sees(&["2 requests wait"]);
    screen.loses(OVERLAY);
    screen.types("/help");
    screen.sees(&["/status", "/sessions", "/handoff-cancel", "/graph", "/quit", "Tab shows"]);
    screen.presses("Escape");
    screen.sees(&["Which size?"]);
    screen.types("2");
    let shown = screen.sees(&["Which colour?", "local: large"]);
    assert!(!shown.contains("1 of 2"), "{shown}");
    screen.types("/status");
    screen.sees(&["with 1 open request"]);
    screen.presses("Escape");
    screen.sees(&[OVERLAY]);
    screen.types("1");
    screen.sees(&["local: red", "The run is completed."]);
    screen.types("/nonsense");
    screen.sees(&["there is no /nonsense; /help lists the commands"]);
    screen.presses("C-c");
    screen.sees(&["ended 0"]);
}

#[test]
fn in_a_pipe_every_line_is_said_or_answers() {
    let here = TempDir::new().unwrap();
    let lines = "Tell Ada.\napprove\nTell Bob.\ny\n";
    let told = holdpoint(here.path(), &["chat", "approve_and_send", "--data", "data"], lines);
    assert_eq!(told.code, 0, "{}\n{}", told.out, told.err);
    for part in ["Send this message?", "Sent: Tell Ada.", "Sent: Tell Bob."] {
        assert!(told.out.contains(part), "{part}: {}", told.out);
    }
    let told = holdpoint(here.path(), &["chat", "--data", "data"], "");
    assert_eq!(told.code, 2, "{}", told.err);
}

/// A question with fields, whose order is not that of their names.
const CARD: &str = "
name: card
pattern: graph
graph:
  steps:
    - id: ask
      human:
        kind: clarification
        prompt: Which card?
        response_schema:
          type: object
          required: [number, expiry, code]
          properties:
            number: {type: string, minLength: 4, description: On the front}
            expiry: {type: string}
            code: {type: string, writeOnly: true}
            remember: {type: boolean, default: false}
  output: '${steps.ask.number} ${steps.ask.expiry} ${steps.ask.remember}'
";

#[test]
fn a_form_is_asked_field_by_field_in_the_order_of_the_file() {
    let here = TempDir::new().unwrap();
    let flows = here.path().join("flows");
    fs::create_dir(&flows).unwrap();
    fs::write(flows.join("card.yaml"), CARD).unwrap();
    let screen = Screen::chat_with(here.path(), "one", "card --data data", &flows);
    screen.sees(&["Say what you want"]);
    screen.types("pay");
    screen.sees(&[OVERLAY, "Which card?", "number: a text", "On the front", "needed"]);
    screen.types("42");
    screen.sees(&["expiry: a text", "< goes back"]);
    screen.types("<");
    screen.sees(&["number: a text", "Enter keeps 42"]);
    screen.presses("Enter");
    screen.sees(&["expiry: a text"]);
    screen.types("12/30");
    screen.sees(&["code: secret, not shown as you type"]);
    screen.types("999");
    let shown = screen.sees(&["remember: yes or no", "Enter takes false", "3. code  (not shown)"]);
    assert!(!shown.contains("999"), "{shown}");
    screen.presses("Enter");
    screen.sees(&["number: ", "number: a text"]);
    screen.types("4242");
    screen.sees(&["1. number  4242", "2. expiry  12/30", "4. remember  no", "Enter sends this"]);
    screen.presses("Enter");
    screen.sees(&["4242 12/30 false", "The run is completed."]);
    screen.types("/quit");
    screen.sees(&["ended 0"]);
}
