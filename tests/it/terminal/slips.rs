//! Slips at the terminal: what was lost, cut or read to its end on its way here is said, and is never taken for
//! something else.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::support::server::{Server, forget_settings, run, start_of};
use crate::terminal::cli::{holdpoint, with_env};

/// Far more than anything here takes; a bound, not a measure.
const PATIENCE: Duration = Duration::from_mins(2);

#[test]
fn words_on_standard_input_are_taken_whole_or_refused() {
    let root = TempDir::new().unwrap();
    let most = 1 << 20;
    for (words, code) in [("x".repeat(most), 4), ("x".repeat(most + 1), 2)] {
        let arguments = ["run", "approve_and_send", "-", "--no-input", "--json", "--data", "data"];
        let ended = holdpoint(root.path(), &arguments, &words);
        assert_eq!(ended.code, code, "{}", ended.err);
        let begun =
            ended.out.lines().next().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let taken = begun.map(|event| event["started"]["input"].as_str().unwrap().len());
        assert_eq!(taken, (code == 4).then_some(most));
        assert_eq!(ended.err.contains("input: standard input is too large"), code == 2);
    }
}

#[test]
fn an_environment_that_was_lost_is_refused_where_it_would_have_opened_gates() {
    let root = TempDir::new().unwrap();
    for lost in ["", " "] {
        let said = format!("--environment={lost}");
        let ended = holdpoint(root.path(), &["serve", "--data", "data", &said], "");
        assert_eq!(ended.code, 2, "{}", ended.err);
        assert!(ended.err.contains("--environment"), "{}", ended.err);
    }
    fs::write(root.path().join("holdpoint.toml"), "environment = \"\"\n").unwrap();
    let ended = holdpoint(root.path(), &["serve", "--data", "data"], "");
    assert_eq!(ended.code, 2, "{}", ended.err);
    assert!(ended.err.contains("`environment` in"), "{}", ended.err);
    assert!(!root.path().join("data").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_seen_all_of_a_run_is_told_how_it_stands() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let start = start_of("approve_and_send", "", "Hello", "");
    let events = run(&mut server.client().await, start).await;
    server.terminate();
    server.wait();
    let last = events.last().unwrap();
    for (after, code) in [(last.sequence - 1, 4), (last.sequence, 4), (last.sequence + 1, 2)] {
        let after = after.to_string();
        let arguments = ["watch", &last.run_id, "--after", &after, "--data", "data"];
        let ended = holdpoint(root.path(), &arguments, "");
        assert_eq!(ended.code, code, "{after}: {}{}", ended.out, ended.err);
        assert_eq!(ended.err.contains("has not happened"), code == 2, "{}", ended.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_says_of_keys_that_are_gone_what_serve_says() {
    let root = TempDir::new().unwrap();
    let made = holdpoint(root.path(), &["keys", "add", "ada", "--data", "data"], "");
    assert_eq!(made.code, 0, "{}", made.err);
    let mut server = Server::start(root.path());
    server.kill();
    let look = || holdpoint(root.path(), &["doctor", "--data", "data"], "");
    assert_eq!(look().code, 0);
    fs::remove_file(root.path().join("data/keys.toml")).unwrap();
    let told = look();
    assert_eq!(told.code, 1, "{}", told.out);
    assert!(told.out.contains("was served with API keys"), "{}", told.out);
}

/// A file that is emptied under a server that runs: it lets nobody in, and so does the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k7_keys_that_were_emptied_while_they_were_asked_for_let_nobody_in_later() {
    let root = TempDir::new().unwrap();
    let keys = root.path().join("data/keys.toml");
    let made = holdpoint(root.path(), &["keys", "add", "ada", "--data", "data"], "");
    assert_eq!(made.code, 0, "{}", made.err);
    let mut server = Server::start(root.path());
    fs::write(&keys, "").unwrap();
    let until = Instant::now() + PATIENCE;
    while !server.told().contains("the keys have changed") {
        assert!(Instant::now() < until, "{}", server.told());
        std::thread::yield_now();
    }
    server.terminate();
    server.wait();
    for lost in ["emptied", "gone"] {
        if lost == "gone" {
            fs::remove_file(&keys).unwrap();
        }
        let ended =
            holdpoint(root.path(), &["serve", "--data", "data", "--listen", "127.0.0.1:0"], "");
        assert_eq!(ended.code, 1, "{lost}: {}", ended.err);
        assert!(ended.err.contains("was served with API keys"), "{lost}: {}", ended.err);
    }
}

#[test]
fn a_log_that_cannot_be_written_costs_its_lines_and_nothing_else() {
    let root = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    forget_settings(&mut command);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut server = command
        .args(["serve", "--data", "data", "--listen", "127.0.0.1:0"])
        .current_dir(root.path())
        .stdout(Stdio::null())
        .stderr(full)
        .spawn()
        .unwrap();
    let until = Instant::now() + PATIENCE;
    while holdpoint(root.path(), &["health", "--data", "data"], "").code != 0 {
        assert_eq!(server.try_wait().unwrap(), None, "it goes on");
        assert!(Instant::now() < until, "it is never ready");
    }
    let arguments = ["run", "approve_and_send", "Hi", "--no-input", "--data", "data"];
    let begun = holdpoint(root.path(), &arguments, "");
    assert_eq!(begun.code, 4, "{}", begun.err);
    let ended = Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(ended.success());
    assert_eq!(server.wait().unwrap().code(), Some(0), "it drains");
}

#[test]
fn a_keys_file_that_is_none_is_told_by_its_line_and_not_by_what_stands_there() {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("data")).unwrap();
    for spoiled in ["\n\nhp_sesame\n", "\n\nkey = \"hp_sesame\"\n", "\n\n[[key]]\nhp_sesame = 1\n"]
    {
        fs::write(root.path().join("data/keys.toml"), spoiled).unwrap();
        for command in [&["serve"][..], &["keys", "list"], &["keys", "add", "bob"], &["doctor"]] {
            let ended = with_env(root.path(), &[command, &["--data", "data"]].concat(), "", &[]);
            let said = format!("{}{}", ended.out, ended.err);
            assert_ne!(ended.code, 0, "{command:?}: {said}");
            assert!(said.contains("keys.toml") && said.contains("line "), "{command:?}: {said}");
            assert!(said.contains("holdpoint keys add"), "{command:?}: {said}");
            assert!(!said.contains("sesame"), "{command:?}: {said}");
        }
    }
}

#[test]
fn a_mistyped_variable_never_opens_a_server_without_its_keys() {
    let root = TempDir::new().unwrap();
    let serve = ["serve", "--data", "data", "--listen", "127.0.0.1:0"];
    let ended = with_env(root.path(), &serve, "", &[("HOLDPOINT_KEY", "keys.toml")]);
    assert_eq!(ended.code, 2, "{}", ended.err);
    assert!(ended.err.contains("HOLDPOINT_KEYS"), "{}", ended.err);
    assert!(!root.path().join("data").exists());
}

#[test]
fn a_pipe_is_no_file_of_keys_or_rules_and_nobody_waits_for_its_other_end() {
    let root = TempDir::new().unwrap();
    let made = Command::new("mkfifo").arg(root.path().join("pipe")).status().unwrap();
    assert!(made.success());
    for setting in ["--keys", "--policy"] {
        let serve = ["serve", "--data", "data", "--listen", "127.0.0.1:0", setting, "pipe"];
        let ended = holdpoint(root.path(), &serve, "");
        assert_eq!(ended.code, 1, "{}", ended.err);
        assert!(ended.err.contains("it is no file"), "{}", ended.err);
    }
    let doctor = holdpoint(root.path(), &["doctor", "--data", "data", "--policy", "pipe"], "");
    assert!(doctor.code == 1 && doctor.out.contains("it is no file"), "{doctor:?}");
}

/// As where a secret is not mounted yet.
#[test]
fn k7_a_link_that_leads_nowhere_opens_no_server_without_keys_or_settings() {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("data")).unwrap();
    let serve = ["serve", "--data", "data", "--listen", "127.0.0.1:0"];
    for (place, code) in [("data/keys.toml", 1), ("holdpoint.toml", 2)] {
        symlink("/nowhere/at/all", root.path().join(place)).unwrap();
        let ended = holdpoint(root.path(), &serve, "");
        assert!(ended.code == code && ended.err.contains(place), "{ended:?}");
        fs::remove_file(root.path().join(place)).unwrap();
    }
    // Nor does a file that was named and has none.
    fs::write(root.path().join("empty.toml"), "").unwrap();
    let ended = holdpoint(root.path(), &[&serve[..], &["--keys", "empty.toml"]].concat(), "");
    assert!(ended.code == 1 && ended.err.contains("it has no keys"), "{ended:?}");
}

#[test]
fn k7_an_environment_that_is_lost_or_blank_passes_no_gate() {
    let root = TempDir::new().unwrap();
    let serve = ["serve", "--data", "data", "--listen", "127.0.0.1:0"];
    for lost in ["", " ", "\t\n"] {
        let ended = with_env(root.path(), &serve, "", &[("HOLDPOINT_ENVIRONMENT", lost)]);
        assert_eq!(ended.code, 2, "{lost:?}: {}", ended.err);
        assert!(ended.err.contains("HOLDPOINT_ENVIRONMENT"), "{lost:?}: {}", ended.err);
    }
}

#[test]
fn what_is_not_there_is_told_as_that() {
    let root = TempDir::new().unwrap();
    let told = holdpoint(root.path(), &["run", "approve_and_send", "Hi", "--no-input"], "");
    assert_eq!(told.code, 4, "{}", told.err);
    for (words, code, said) in [
        (&["halt", "--release", "halt_none"][..], 5, "there is no halt"),
        (&["halt", "--workflow", "aprove_and_send", "--reason", "x"], 5, "`approve_and_send`"),
        (&["inbox", "--workflow", "aprove_and_send"], 0, "did you mean `approve_and_send`"),
        (&["runs", "--workflow", "nope"], 0, "there is no workflow `nope`"),
        (&["watch", "run_x", "--after", "-1"], 2, "expected a number from 0 on"),
        (&["receipt", "run_x", "abc"], 2, "expected a number from 0 on"),
        (&["serve", "--log", "warm"], 2, "did you mean `warn`"),
        (&["inbox", "--store", "nonsense"], 2, "cannot be read"),
    ] {
        let told = holdpoint(root.path(), words, "");
        assert!(told.code == code && told.err.contains(said), "{words:?}: {told:?}");
    }
    fs::create_dir(root.path().join("mine")).unwrap();
    fs::write(root.path().join("mine/notes.txt"), "of somebody else").unwrap();
    let told = holdpoint(root.path(), &["keys", "list", "--data", "mine"], "");
    assert_eq!(told.code, 1, "{}", told.out);
}
