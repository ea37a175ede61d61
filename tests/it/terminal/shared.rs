//! Two terminals on one data directory, without a server: the second works through the first while that one asks, and
//! nothing is lost when the first is killed.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::screen::Screen;
use crate::terminal::cli::{Ended, holdpoint};

/// Two decisions, and what was decided.
const TWICE: &str = "
name: letter
pattern: graph
graph:
  steps:
    - {id: first, human: {kind: approval, prompt: Send the first?}}
    - {id: second, human: {kind: approval, prompt: Send the second?}}
    - {id: end, extract: {said: '${steps.first.decision}, ${steps.second.decision}'}}
  output: '${steps.end.said}'
";

const PLACE: [&str; 4] = ["--data", "data", "--workflows", "flows"];

fn place() -> TempDir {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("flows")).unwrap();
    fs::write(root.path().join("flows/letter.yaml"), TWICE).unwrap();
    root
}

/// A terminal in which a command runs on the place's data.
fn terminal(root: &Path, name: &str, words: &str) -> Screen {
    let (binary, place) = (env!("CARGO_BIN_EXE_holdpoint"), PLACE.join(" "));
    let shell = format!("{binary} {words} {place}; echo ended $?; cat");
    Screen::open(root, name, (110, 32), &shell)
}

/// A command in another terminal, where nobody types.
fn other(root: &Path, words: &[&str]) -> Ended {
    holdpoint(root, &[words, &PLACE].concat(), "")
}

fn open(root: &Path) -> Value {
    other(root, &["inbox", "--json"]).json()["requests"][0].clone()
}

/// Kills whoever has the data directory, as a crash would.
fn kill_holder(root: &Path) {
    let pid = fs::read_to_string(root.join("data/lock")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_second_terminal_sees_and_decides_what_the_first_one_asks() {
    let root = place();
    let here = root.path();
    let first = terminal(here, "one", "run letter Go.");
    first.sees(&["Send the first?", "y or n"]);
    let socket = fs::metadata(here.join("data/terminal.sock")).unwrap();
    assert!(socket.file_type().is_socket());
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    let asked = open(here);
    let run = asked["run_id"].as_str().unwrap().to_owned();
    // E8: whoever looks, looks.
    let before = other(here, &["journal", &run, "--json"]).out;
    for words in [&["inbox"][..], &["runs"], &["runs", &run], &["sessions"], &["watch", &run]] {
        let ended = other(here, words);
        assert!([0, 4].contains(&ended.code), "{words:?}: {ended:?}");
    }
    assert_eq!(other(here, &["journal", &run, "--json"]).out, before);
    let ended = other(here, &["respond", "1", "yes"]);
    assert_eq!(ended.code, 4, "the run asks again: {ended:?}");
    // The first one is told, and what is typed there next answers nothing that it has not shown.
    first.sees(&["local has answered this through", "Enter goes on"]);
    first.types("y");
    first.sees(&["Send the second?"]);
    assert_eq!(open(here)["prompt"], "Send the second?");
    first.types("y");
    first.sees(&["completed", "ended 0"]);
    assert!(!here.join("data/terminal.sock").exists(), "nobody is there any more");
    let told = other(here, &["runs", &run, "--json"]).json();
    assert_eq!(told["output"], "approve, approve");
}

#[test]
fn the_second_goes_on_when_the_first_is_killed_and_nothing_is_lost() {
    let root = place();
    let here = root.path();
    let first = terminal(here, "one", "run letter Go.");
    first.sees(&["Send the first?", "y or n"]);
    let run = open(here)["run_id"].as_str().unwrap().to_owned();
    let second = terminal(here, "two", &format!("resume {run}"));
    second.sees(&["Send the first?", "y or n"]);
    kill_holder(here);
    first.sees(&["ended 137"]);
    assert!(here.join("data/terminal.sock").exists(), "a killed process leaves its socket behind");
    // The answer was typed before a word that another process must take it.
    second.types("y");
    second.sees(&["Send the second?", "y or n"]);
    // And now the second has the directory, and a third works through it.
    let ended = other(here, &["respond", open(here)["request_id"].as_str().unwrap(), "no"]);
    assert_eq!(ended.code, 3, "a no fails this run: {ended:?}");
    second.sees(&["local has answered this through"]);
    second.presses("Enter");
    second.sees(&["rejected step", "ended 3"]);
    let audit = other(here, &["journal", &run, "--json"]);
    let answers = audit.lines().iter().filter(|it| it["type"] == "response_received").count();
    assert_eq!(answers, 2, "each was taken once: {}", audit.out);
}

#[test]
fn a_socket_that_was_left_behind_stops_nobody() {
    let root = place();
    let here = root.path();
    let first = terminal(here, "one", "run letter Go.");
    first.sees(&["Send the first?", "y or n"]);
    kill_holder(here);
    first.sees(&["ended 137"]);
    let ended = other(here, &["runs"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let ended = other(here, &["resume"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.out.contains("Send the first?"), "{ended:?}");
}

#[test]
fn nobody_is_told_to_stop_a_server_that_does_not_exist() {
    let root = place();
    let here = root.path();
    let first = terminal(here, "one", "run letter Go.");
    first.sees(&["Send the first?", "y or n"]);
    for words in [&["export", "-"][..], &["prune", "--older-than", "1d"]] {
        let ended = other(here, words);
        assert_ne!(ended.code, 0, "{ended:?}");
        assert!(!ended.err.contains("server"), "{ended:?}");
        assert!(ended.err.contains("another command at this machine"), "{ended:?}");
        assert!(ended.err.contains("it is free when that command ends"), "{ended:?}");
    }
}

#[test]
fn a_directory_of_a_long_name_is_shared_too() {
    let root = place();
    let deep = root.path().join("d".repeat(90)).join("e".repeat(60));
    fs::create_dir_all(deep.join("flows")).unwrap();
    fs::copy(root.path().join("flows/letter.yaml"), deep.join("flows/letter.yaml")).unwrap();
    let (binary, data) = (env!("CARGO_BIN_EXE_holdpoint"), deep.join("data"));
    let flows = deep.join("flows");
    let (data, flows) = (data.display().to_string(), flows.display().to_string());
    let shell = format!("{binary} run letter Go. --data {data} --workflows {flows}; cat");
    let first = Screen::open(root.path(), "one", (110, 32), &shell);
    first.sees(&["Send the first?", "y or n"]);
    let words = ["inbox", "--data", &data, "--workflows", &flows];
    let ended = holdpoint(root.path(), &words, "");
    assert!(ended.out.contains("Send the first?"), "{ended:?}");
}
