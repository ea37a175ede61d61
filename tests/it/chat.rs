//! `holdpoint chat`, driven in tmux as a person would, and in a pipe.
//!
//! `tests/clients/install.sh` sees to tmux; without it these tests fail.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::cli::holdpoint;
use crate::server::{Server, flows, forget_settings};

/// How often a screen is looked at before what was to come has not come: half a minute in all.
const LOOKS_MAX: u32 = 300;

/// A terminal with a chat in it. It is closed when it goes out of scope.
struct Screen {
    socket: String,
}

impl Screen {
    /// Begins a chat in a terminal of its own.
    fn open(here: &Path, name: &str, arguments: &str) -> Self {
        let socket = here.join(name).display().to_string();
        let screen = Self { socket };
        let binary = env!("CARGO_BIN_EXE_holdpoint");
        let flows = flows();
        let mut command = Command::new("tmux");
        forget_settings(&mut command);
        // What it says when it has left stays on the screen.
        let shell = format!(
            "{binary} chat {arguments} --workflows {}; echo ended $?; cat",
            flows.display()
        );
        command
            .args(["-S", &screen.socket, "-f", "/dev/null"])
            .args(["new-session", "-d", "-x", "110", "-y", "32", &shell])
            .env("TERM", "xterm-256color")
            .current_dir(here);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "tmux is not there or refused: {ran:?}");
        screen
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let ran = Command::new("tmux").args(["-S", &self.socket]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    fn shown(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Looks until all of it is on the screen; returns the screen.
    fn sees(&self, parts: &[&str]) -> String {
        self.looks(&format!("{parts:?}"), |shown| parts.iter().all(|part| shown.contains(part)))
    }

    /// Looks until it is gone from the screen.
    fn loses(&self, part: &str) -> String {
        self.looks(&format!("no {part}"), |shown| !shown.contains(part))
    }

    fn looks(&self, wanted: &str, is_there: impl Fn(&str) -> bool) -> String {
        let mut shown = String::new();
        for _ in 0..LOOKS_MAX {
            shown = self.shown();
            if is_there(&shown) {
                return shown;
            }
            // A screen tells nobody when it changes.
            self.tmux(&[
                "run-shell",
                &format!("sleep {}", Duration::from_millis(100).as_secs_f64()),
            ]);
        }
        panic!("wanted {wanted}, and saw:\n{shown}")
    }

    fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.tmux(&["send-keys", "Enter"]);
    }

    fn presses(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

const OVERLAY: &str = "Workflow requests your input";

#[test]
fn a_person_starts_answers_hides_cancels_leaves_and_comes_back() {
    let here = TempDir::new().unwrap();
    let mut server = Server::start(here.path());
    let at = format!("multi_tier_support --session s1 --server {}", server.url());
    let screen = Screen::open(here.path(), "one", &at);
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
    screen.sees(&["is waiting after", "with 1 open requests; session s1"]);
    screen.types("/graph");
    screen.sees(&["billing"]);
    screen.presses("C-c");
    let how = "take it up again with: holdpoint chat multi_tier_support --session s1";
    screen.sees(&[how, "ended 4"]);

    // The server dies while nobody looks; the conversation is there all the same.
    server.restart();
    let at = format!("--session s1 --server {}", server.url());
    let screen = Screen::open(here.path(), "two", &at);
    screen.sees(&["multi_tier_support", "Your package leaves our warehouse tomorrow", OVERLAY]);
    screen.types("/sessions");
    screen.sees(&["s1  waits: multi_tier_support"]);
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
    let screen = Screen::open(here.path(), "one", "choice --data data");
    screen.sees(&["choice", "Say what you want"]);
    screen.types("a room");
    screen.sees(&[OVERLAY, "Where?", "1. sea", "2. hills"]);
    screen.types("3");
    screen.sees(&["expected one of: sea, hills"]);
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
    let screen = Screen::open(here.path(), "one", &at);
    screen.sees(&["A new session"]);
    screen.types("Tell Ada.");
    screen.sees(&[OVERLAY, "Send this message?"]);
    let respond = holdpoint(
        here.path(),
        &["run", "approve_and_send", "approve", "--session", "s1", "--server", &server.url()],
        "",
    );
    assert_eq!(respond.code, 0, "{}", respond.err);
    screen.sees(&["sender: Sent: Tell Ada.", "The run is completed."]);
    screen.loses(OVERLAY);
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
