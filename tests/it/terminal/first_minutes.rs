//! The first five minutes: a workflow of one's own, a server that takes it as it changes, and a way in.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use crate::support::screen::Screen;
use crate::support::server::{Setup, forget_settings};
use crate::terminal::cli::holdpoint;

/// A `dev` that listens. It is killed when it goes out of scope.
struct Dev {
    child: Child,
    out: BufReader<ChildStdout>,
    address: String,
}

impl Dev {
    fn start(root: &Path, more: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
        forget_settings(&mut command);
        let mut child = command
            .args(["dev", "--listen", "127.0.0.1:0", "--color", "never"])
            .args(more)
            .envs(env.iter().copied())
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        let address = first.trim().rsplit("http://").next().unwrap().to_owned();
        Self { child, out, address }
    }

    /// Reads on until a line has this in it.
    fn tells(&mut self, part: &str) -> String {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it ended without {part}");
        }
        line
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_new_workflow_passes_check_and_runs() {
    let root = TempDir::new().unwrap();
    let here = root.path();
    for words in [
        &["new", "letter"][..],
        &["new", "invoice", "--about", "Says \"hello\": # and more", "--to", "ada, group:finance"],
        &["new", "memo", "--editable"],
    ] {
        let ended = holdpoint(here, words, "");
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.out.contains(&format!("workflows/{}.script.yaml", words[1])), "{ended:?}");
    }
    let settings = "[people.fay]\ngroups = [\"finance\"]\n";
    fs::write(here.join("holdpoint.toml"), settings).unwrap();
    let checked = holdpoint(here, &["check"], "");
    assert_eq!(checked.code, 0, "{checked:?}");
    let ended = holdpoint(here, &["run", "memo", "the order has shipped.", "-i"], "y\n");
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("Sent: Dear customer, the order has shipped."), "{ended:?}");
    let told = holdpoint(here, &["workflows", "invoice", "--json"], "").json();
    assert_eq!(told["workflow"]["description"], "Says \"hello\": # and more");
}

#[test]
fn a_new_workflow_writes_over_nothing_and_takes_no_bad_name() {
    let root = TempDir::new().unwrap();
    let here = root.path();
    assert_eq!(holdpoint(here, &["new", "letter"], "").code, 0);
    let before = fs::read(here.join("workflows/letter.yaml")).unwrap();
    let again = holdpoint(here, &["new", "letter", "--about", "Another."], "");
    assert_eq!(again.code, 6, "{again:?}");
    assert_eq!(fs::read(here.join("workflows/letter.yaml")).unwrap(), before);
    for name in ["../up", "Letter", "a b", "", "1st", "a/b"] {
        let ended = holdpoint(here, &["new", name], "");
        assert_eq!(ended.code, 2, "{name}: {ended:?}");
    }
    let ended = holdpoint(here, &["new", "other", "--to", "ada, ${input}"], "");
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(!here.join("workflows/other.yaml").exists());
    // A script that lies there already is somebody's.
    fs::write(here.join("workflows/third.script.yaml"), "rules: []\n").unwrap();
    assert_eq!(holdpoint(here, &["new", "third"], "").code, 6);
    assert!(!here.join("workflows/third.yaml").exists());
}

#[test]
fn at_a_terminal_three_things_are_asked() {
    let root = TempDir::new().unwrap();
    let shell = format!("{} new letter; echo ended $?; cat", env!("CARGO_BIN_EXE_holdpoint"));
    let screen = Screen::open(root.path(), "one", (100, 24), &shell);
    screen.sees(&["What does it do"]);
    screen.types("Writes a letter.");
    screen.sees(&["Who decides?"]);
    screen.types("");
    screen.sees(&["May they change the text first?"]);
    screen.types("nein");
    screen.sees(&["nein", "May they change the text first?"]);
    screen.types("y");
    screen.sees(&["workflows/letter.yaml", "ended 0"]);
    let text = fs::read_to_string(root.path().join("workflows/letter.yaml")).unwrap();
    assert!(text.contains("description: \"Writes a letter.\""), "{text}");
    assert!(text.contains("        editable: true"), "{text}");
}

#[test]
fn dev_opens_the_console_plays_scripts_and_tells_what_happens() {
    let root = TempDir::new().unwrap();
    let here = root.path();
    assert_eq!(holdpoint(here, &["new", "letter"], "").code, 0);
    // A real model, whose key is not set: it is played from the script beside it.
    let path = here.join("workflows/letter.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let real = "  default: {provider: openai_responses, model: gpt-5-mini}";
    let text = text.replace("  default: {provider: scripted, script: letter.script.yaml}", real);
    assert!(text.contains(real), "{text}");
    fs::write(&path, text).unwrap();
    let browser = here.join("browser");
    fs::write(&browser, "#!/bin/sh\necho \"$1\" > opened\n").unwrap();
    fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let browser = browser.display().to_string();
    let mut dev = Dev::start(here, &[], &[("BROWSER", &browser), ("OPENAI_API_KEY", "")]);
    let server = format!("http://{}", dev.address);
    let ended = holdpoint(here, &["run", "letter", "it has shipped.", "--server", &server], "");
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.out.contains("Dear customer, it has shipped."), "{ended:?}");
    let told = dev.tells("request_info");
    assert!(told.contains("letter …") && told.contains("Send this message?"), "{told}");
    let opened = fs::read_to_string(here.join("opened")).unwrap();
    assert_eq!(opened.trim(), format!("{server}/console"));
    // A file that comes is there a moment later: no second start.
    assert_eq!(holdpoint(here, &["new", "memo"], "").code, 0);
    let is_there = || holdpoint(here, &["workflows", "memo", "--server", &server], "").code == 0;
    assert!((0..200).any(|_| is_there()), "the new file was never taken");
    drop(dev);
    let mut quiet = Dev::start(here, &["--no-open", "--json"], &[("BROWSER", &browser)]);
    fs::remove_file(here.join("opened")).unwrap();
    drop(quiet.child.kill());
    let mut rest = String::new();
    drop(quiet.out.read_to_string(&mut rest));
    assert!(!here.join("opened").exists());
}

#[test]
fn the_root_leads_to_the_console_and_an_empty_one_offers_an_example() {
    let root = TempDir::new().unwrap();
    let server = Setup::new(root.path()).start();
    let (code, _) = server.page("/");
    assert_eq!(code, 303);
    for page in ["inbox", "runs", "sessions"] {
        let (_, text) = server.page(&format!("/console/{page}"));
        assert!(text.contains("/console/workflows/approve_and_send"), "{page}: {text}");
    }
}

#[test]
fn health_asks_the_server_that_has_the_data_directory() {
    let root = TempDir::new().unwrap();
    let server = Setup::new(root.path()).start();
    // At a port that no setting names.
    let told = holdpoint(root.path(), &["health", "--data", "data", "--json"], "");
    assert!(told.code == 0 && told.out.contains(server.address()), "{told:?}");
    let words = ["health", "--data", "data", "--listen", "127.0.0.1:9"];
    assert_eq!(holdpoint(root.path(), &words, "").code, 7, "whoever names an address means it");
}

#[test]
fn health_without_a_server_says_where_it_asked_and_what_to_do() {
    let root = TempDir::new().unwrap();
    // Port 9 discards, and nothing here does.
    let own = holdpoint(root.path(), &["health", "--listen", "0.0.0.0:9"], "");
    assert_eq!(own.code, 7, "{own:?}");
    assert!(own.err.contains("127.0.0.1:9") && own.err.contains("holdpoint serve"), "{own:?}");
    assert!(!own.err.contains("check the address"), "{own:?}");
    let named = holdpoint(root.path(), &["health", "--server", "http://127.0.0.1:9"], "");
    assert!(named.code == 7 && named.err.contains("address that it listens on"), "{named:?}");
}

#[test]
fn a_command_about_what_is_there_makes_no_store_where_there_is_none() {
    let root = TempDir::new().unwrap();
    for words in [
        &["halt", "--all", "--reason", "x"][..],
        &["halt", "--release", "all"],
        &["release"],
        &["respond", "req_01m7rvc8tze89b11yrxszjdaee-0001-x61n5tn9", "approve"],
        &["cancel", "run_01m7rvc8tze89b11yrxszjdaee"],
        &["resume", "run_01m7rvc8tze89b11yrxszjdaee"],
    ] {
        let told = holdpoint(root.path(), words, "");
        assert!(told.code != 0 && told.err.contains("there is no data in"), "{words:?}: {told:?}");
        assert!(told.err.contains("--server"), "{words:?}: {told:?}");
        assert!(!root.path().join("holdpoint-data").exists(), "{words:?}");
    }
}

#[test]
fn a_halt_where_nobody_serves_says_what_it_stops() {
    let root = TempDir::new().unwrap();
    let begun = holdpoint(root.path(), &["run", "approve_and_send", "Tell Ada."], "");
    assert!(root.path().join("holdpoint-data").exists(), "{begun:?}");
    let told = holdpoint(root.path(), &["halt", "--all", "--reason", "x"], "");
    assert!(told.code == 0 && told.err.contains("and nothing else"), "{told:?}");
}
