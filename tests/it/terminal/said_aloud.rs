//! Said aloud: what was once passed over in silence, and what whoever tries it is told now: a key that is named late, a
//! start that takes its time, a setting that lost its value, the receipt of a decision.

use std::fs;
use std::path::Path;
use std::process::Command;

use holdpoint::kernel::evidence::note::VerifyKey;
use serde_json::Value;
use tempfile::TempDir;

use crate::consent::stage::{LOCAL, Stage, question};
use crate::support::screen::Screen;
use crate::support::server::Setup;
use crate::terminal::cli::{holdpoint, with_env};

const DECISION: &str = "
name: letters
models: {default: {provider: scripted, script: [{say: Dear team}]}}
agents: {draft: {human_input: false}}
pattern: sequential
steps:
  - {agent: draft}
  - {id: decide, human: {kind: approval, prompt: Send it?}}
";

/// A folder with one workflow of its own.
fn place(flow: &str) -> TempDir {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("workflows")).unwrap();
    fs::write(root.path().join("workflows/own.yaml"), flow).unwrap();
    root
}

/// Decides something in a store, so that a head of its log is signed.
fn decides(root: &Path) {
    let begun = holdpoint(root, &["run", "letters", "Go.", "-i", "--data", "data"], "y\n");
    assert_eq!(begun.code, 0, "{begun:?}");
}

/// What a server says that is started with this, and stopped again.
fn starts(root: &Path, setup: &Setup) -> String {
    drop(fs::remove_file(root.join("server.log")));
    let mut server = setup.start();
    server.terminate();
    server.wait();
    setup.told()
}

#[test]
fn j13_a_key_before_that_is_named_late_mends_the_chain_and_one_of_no_use_is_told() {
    let root = place(DECISION);
    let here = root.path();
    let data = here.join("data");
    decides(here);
    let first = here.join("first.pub");
    fs::copy(data.join("audit.pub"), &first).unwrap();
    let checked = || {
        let words = ["verify", "--data", "data", "--key", first.to_str().unwrap(), "--json"];
        holdpoint(here, &words, "")
    };
    let setup = Setup::new(here);
    let before = data.join("audit.key");
    let before = setup.clone().arg(&format!("--audit-key-before={}", before.display()));
    // Nothing came before the first key.
    let told = starts(here, &before);
    assert!(told.contains("`audit_key_before` is not used"), "{told}");
    assert!(told.contains("never signed with another key"), "{told}");

    // Changed without a word of the one before: whoever has the first key cannot go on from it.
    let (before, next, other) = (here.join("one.pem"), here.join("two.pem"), place(DECISION));
    fs::rename(data.join("audit.key"), &before).unwrap();
    decides(other.path());
    fs::copy(other.path().join("data/audit.key"), &next).unwrap();
    let setup = setup.arg(&format!("--audit-key={}", next.display()));
    let with = |key: &Path| setup.clone().arg(&format!("--audit-key-before={}", key.display()));
    starts(here, &setup);
    assert!(checked().out.contains("the chain of keys is broken"), "{:?}", checked());
    // One that is not the key before says nothing, and that is said.
    let told = starts(here, &with(&next));
    assert!(told.contains("it is not the key that heads were signed with before"), "{told}");
    assert_eq!(checked().code, 1);
    // Late is as good as in time.
    let told = starts(here, &with(&before));
    assert!(told.contains("the chain of keys is whole"), "{told}");
    assert_eq!(checked().code, 0, "{:?}", checked());
    let told = starts(here, &with(&before));
    assert!(told.contains("`audit_key_before` is needed no more"), "{told}");
    assert_eq!(checked().code, 0, "{:?}", checked());
}

#[test]
fn j13_a_key_that_has_given_way_and_still_lies_with_the_data_is_told_to_be_taken_away() {
    let root = place(DECISION);
    let here = root.path();
    decides(here);
    let (old, next) = (here.join("data/audit.key"), here.join("next.pem"));
    let destroy = "signs no more: take it from here";
    let setup = Setup::new(here).arg(&format!("--audit-key={}", next.display()));
    // As long as a setting names it, it is in use.
    let told = starts(here, &setup.clone().arg(&format!("--audit-key-before={}", old.display())));
    assert!(!told.contains(destroy), "{told}");
    let told = starts(here, &setup);
    let line = told.lines().find(|line| line.contains(destroy)).unwrap_or_default();
    assert!(line.contains("data/audit.key"), "{told}");
    // Under another name it is the same key.
    fs::rename(&old, here.join("data/old.pem")).unwrap();
    let told = starts(here, &setup);
    assert!(told.contains(destroy) && told.contains("data/old.pem"), "{told}");
    fs::remove_file(here.join("data/old.pem")).unwrap();
    let told = starts(here, &setup);
    assert!(!told.contains(destroy), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_after_an_import_says_what_it_does_before_it_listens() {
    let mut stage = Stage::open(DECISION).await;
    for number in 0..3 {
        stage.start(LOCAL, &format!("s{number}"), "Go.").await;
    }
    stage.server.kill();
    let here = stage.root.path().to_path_buf();
    assert_eq!(holdpoint(&here, &["export", "all.jsonl", "--data", "data"], "").code, 0);
    fs::rename(here.join("data"), here.join("old")).unwrap();
    let imported = holdpoint(&here, &["import", "all.jsonl", "--data", "data"], "");
    assert!(imported.err.contains("tells every run"), "{imported:?}");
    stage.server.restart();
    let told = stage.server.told();
    let begins = told.find("the server listens when that is done").unwrap();
    let ends = told.find("every run was told that its store is another").unwrap();
    let listens = told.rfind("serving").unwrap();
    assert!(begins < ends && ends < listens, "{told}");
}

#[test]
fn k7_a_store_or_a_policy_whose_name_was_lost_is_refused_before_anything_is_opened() {
    let root = place(DECISION);
    for name in ["HOLDPOINT_STORE", "HOLDPOINT_POLICY"] {
        for words in [&["serve", "--listen", "127.0.0.1:0"][..], &["run", "letters", "Go."]] {
            let told = with_env(root.path(), words, "", &[(name, "")]);
            assert_eq!(told.code, 2, "{told:?}");
            assert!(told.err.contains(&format!("{name}: `` is not ")), "{told:?}");
            assert!(told.err.contains("unset it"), "{told:?}");
        }
    }
    let told = holdpoint(root.path(), &["serve", "--listen", "127.0.0.1:0", "--store", ""], "");
    assert_eq!(told.code, 2, "{told:?}");
    assert!(told.err.contains("--store: `` is not the address of a database"), "{told:?}");
    assert!(!root.path().join("holdpoint-data").exists(), "nothing was made");
}

/// The command that a line of `respond` says has the receipt.
fn fetches(told: &str) -> Vec<String> {
    let line = told.lines().find(|line| line.contains("holdpoint receipt ")).unwrap();
    let (_, words) = line.split_once("holdpoint ").unwrap();
    let (words, file) = words.split_once(" > ").unwrap();
    assert_eq!(file, "receipt.json");
    words.split(' ').map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_whoever_answers_at_a_terminal_is_told_how_to_have_the_receipt() {
    let root = place(DECISION);
    let here = root.path();
    assert_eq!(holdpoint(here, &["run", "letters", "Go."], "").code, 4);
    holdpoint(here, &["inbox"], "");
    let answered = holdpoint(here, &["respond", "1", "approve"], "");
    assert_eq!(answered.code, 0, "{answered:?}");
    let words = fetches(&answered.err);
    let got = holdpoint(here, &words.iter().map(String::as_str).collect::<Vec<_>>(), "");
    assert_eq!(got.code, 0, "{got:?}");
    let receipt: Value = got.json();
    assert_eq!(receipt["run_id"], words[1]);
    let brief = answered.err.split_once("receipt ").unwrap().1.split_once('…').unwrap().0;
    assert!(receipt["leaf_hash"].as_str().unwrap().starts_with(brief), "{receipt}");
    fs::write(here.join("receipt.json"), &got.out).unwrap();
    let checked =
        holdpoint(here, &["verify", "receipt.json", "--key", "holdpoint-data/audit.pub"], "");
    assert_eq!(checked.code, 0, "{checked:?}");
    // Words that decide nothing have none, and one of nowhere is refused by its field.
    let none = holdpoint(here, &["receipt", &words[1], "1"], "");
    assert!(none.code != 0 && none.err.contains("sequence"), "{none:?}");

    // Through a server, for whoever does not see the run, and for programs.
    let stage = Stage::open(DECISION).await;
    let asked = question(&stage.start(LOCAL, "s", "Go.").await);
    let url = stage.server.url();
    let words = ["respond", &asked.request_id, "approve", "--server", &url, "--json"];
    let answered = holdpoint(stage.root.path(), &words, "");
    let told: Value = serde_json::from_str(answered.err.lines().next().unwrap()).unwrap();
    assert_eq!(told["receipt"]["run_id"], asked.run_id.as_str(), "{answered:?}");
    let (sequence, hash) = (&told["receipt"]["sequence"], &told["receipt"]["leaf_hash"]);
    let sequence = sequence.to_string();
    let words = ["receipt", &asked.run_id, &sequence, "--server", &url];
    assert_eq!(holdpoint(stage.root.path(), &words, "").json()["leaf_hash"], *hash);
}

#[test]
fn the_script_that_checks_says_in_one_line_what_is_wrong_with_what_it_is_given() {
    let root = TempDir::new().unwrap();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = checkout.join("examples/verify.py");
    let key = VerifyKey::new("holdpoint/stranger", [7; 32]).unwrap().text();
    let says = |bundle: &str, key: &str| {
        fs::write(root.path().join("run.json"), bundle).unwrap();
        fs::write(root.path().join("audit.pub"), key).unwrap();
        let mut command = Command::new(checkout.join("target/clients/venv/bin/python"));
        command.arg(&script).args(["run.json", "audit.pub"]).current_dir(root.path());
        let ended = command.output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success() && told.lines().count() == 1, "{bundle}: {told}");
        told
    };
    let deep = "[".repeat(100_000);
    let (odd_leaf, half) = (r#"{"leaf": 3, "leaf_hash": ""}"#, r#"{"run": "run_1", "entries": ["#);
    for wrong in ["", "[]", "7", "{}", odd_leaf, half, r#"{"run": null, "entries": [{}]}"#, &deep] {
        let told = says(wrong, &key);
        assert!(told.starts_with("wrong: run.json is no bundle and no receipt"), "{told}");
    }
    for wrong in ["", "no key", "a+b+c"] {
        let told = says("{}", wrong);
        assert!(told.contains("is no public key: expected `name+id+key`"), "{told}");
    }
}

/// A form with a field before and a field after one that nobody is to read.
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
          required: [zone, number, code]
          properties:
            zone: {type: string, minLength: 2}
            number: {type: string, minLength: 4}
            code: {type: string, secret: true}
  output: '${steps.ask.zone} ${steps.ask.number}'
";

#[test]
fn in_a_terminal_a_form_goes_back_and_no_secret_is_taken_from_a_line_that_is_seen() {
    let root = place(CARD);
    let binary = env!("CARGO_BIN_EXE_holdpoint");
    let shell = format!("{binary} run card Go.; {binary} run card Go.; cat");
    let screen = Screen::open(root.path(), "form", (110, 60), &shell);
    screen.sees(&["zone  a text", "{ alone takes all of it as JSON, not shown"]);
    screen.types("EU");
    screen.sees(&["number  a text", "< goes back"]);
    screen.types("<");
    screen.sees(&["Enter keeps EU"]);
    screen.types("E");
    screen.types("42");
    screen.sees(&["code  secret, not shown as you type"]);
    screen.types("7531");
    // What is wrong comes in the order of the file.
    let shown = screen.sees(&["zone: At least 2", "number: At least 4"]);
    assert!(shown.find("zone: At least").unwrap() < shown.find("number: At least").unwrap());
    screen.types("US");
    screen.types("4242");
    screen.sees(&["1. zone  US", "2. number  4242", "3. code  (not shown)", "Enter sends this"]);
    screen.types("<");
    screen.sees(&["Enter keeps (not shown)"]);
    screen.types("");
    screen.types("");
    screen.sees(&["US 4242"]);
    // The whole of it, unseen.
    screen.types(r#"{"zone": "AU", "number": "1111"}"#);
    screen.sees(&["not taken: a field of it is secret"]);
    screen.types("{");
    screen.sees(&["the whole answer  JSON in one line"]);
    screen.types(r#"{"zone": "NZ", "number": "2222", "code": "7531"}"#);
    let shown = screen.sees(&["NZ 2222"]);
    assert!(!shown.contains("7531"), "{shown}");
}
