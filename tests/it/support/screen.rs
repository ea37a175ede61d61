//! Screen: a terminal in tmux, for tests that type into it and look at it.
//!
//! `tests/clients/install.sh` sees to tmux; without it these tests fail.

use std::path::Path;
use std::process::Command;

use crate::support::server::{flows, forget_settings};

/// How often a screen is looked at before what was to come has not come: half a minute in all.
const LOOKS_MAX: u32 = 300;
/// How long tmux rests between two looks, in seconds. A screen tells nobody when it changes.
const REST: &str = "sleep 0.1";

/// A terminal. It is closed when it goes out of scope.
pub(crate) struct Screen {
    socket: String,
}

impl Screen {
    /// Begins a chat in a terminal of its own.
    pub(crate) fn chat(here: &Path, name: &str, arguments: &str) -> Self {
        let flows = flows();
        Self::chat_with(here, name, arguments, &flows)
    }

    /// The same, with these workflows.
    pub(crate) fn chat_with(here: &Path, name: &str, arguments: &str, flows: &Path) -> Self {
        let binary = env!("CARGO_BIN_EXE_holdpoint");
        // What it says when it has left stays on the screen.
        let flows = flows.display();
        let command = format!("{binary} chat {arguments} --workflows {flows}; echo ended $?; cat");
        Self::open(here, name, (110, 32), &command)
    }

    /// A terminal of that many columns and rows with a command in it.
    pub(crate) fn open(here: &Path, name: &str, (wide, high): (u16, u16), shell: &str) -> Self {
        let screen = Self { socket: here.join(name).display().to_string() };
        let mut command = Command::new("tmux");
        forget_settings(&mut command);
        command
            .args(["-S", &screen.socket, "-f", "/dev/null", "-u"])
            .args(["new-session", "-d", "-x", &wide.to_string(), "-y", &high.to_string(), shell])
            .env("TERM", "xterm-256color")
            .env("XDG_STATE_HOME", here.join("state"))
            .current_dir(here);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "tmux is not there or refused: {ran:?}");
        screen
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let ran = Command::new("tmux").args(["-S", &self.socket]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    /// What is on the screen, with lines that were too long for it made whole.
    pub(crate) fn shown(&self) -> String {
        let shown = self.tmux(&["capture-pane", "-p", "-J"]);
        let lines: Vec<_> = shown.lines().map(str::trim_end).collect();
        format!("{}\n", lines.join("\n").trim_end())
    }

    /// Looks until all of it is on the screen; returns the screen.
    pub(crate) fn sees(&self, parts: &[&str]) -> String {
        self.looks(&format!("{parts:?}"), |shown| parts.iter().all(|part| shown.contains(part)))
    }

    /// Looks until it is gone from the screen.
    pub(crate) fn loses(&self, part: &str) -> String {
        self.looks(&format!("no {part}"), |shown| !shown.contains(part))
    }

    pub(crate) fn looks(&self, wanted: &str, is_there: impl Fn(&str) -> bool) -> String {
        let mut shown = String::new();
        for _ in 0..LOOKS_MAX {
            shown = self.shown();
            if is_there(&shown) {
                return shown;
            }
            self.tmux(&["run-shell", REST]);
        }
        panic!("wanted {wanted}, and saw:\n{shown}")
    }

    pub(crate) fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.tmux(&["send-keys", "Enter"]);
    }

    pub(crate) fn presses(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
