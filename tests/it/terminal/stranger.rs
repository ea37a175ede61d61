//! Stranger: what somebody who tries it trips over at the terminal: silence that looks like work, a question that
//! nobody can answer, a type without its title, a note that has no place, a setting that stands in the way.

use std::fs;
use std::path::Path;

use tempfile::tempdir;

use crate::support::listener::Listener;
use crate::support::server::Setup;
use crate::terminal::cli::holdpoint;

const FLOW: &str = "
name: shipping
models: {default: {provider: scripted, script: [{say: Thank you.}]}}
request_types:
  address:
    title: Where shall it go?
    schema: {type: object, properties: {city: {type: string}}, required: [city]}
agents: {clerk: {}}
pattern: sequential
steps:
  - {id: where, human: {kind: clarification, type: address, prompt: 'The city, please.'}}
  - {id: how, agent: clerk}
";

/// A folder with that workflow, and a run of it that waits.
fn waiting(here: &Path) -> String {
    fs::create_dir(here.join("workflows")).unwrap();
    fs::write(here.join("workflows/shipping.yaml"), FLOW).unwrap();
    let begun = holdpoint(here, &["run", "shipping", "A parcel.", "--json"], "");
    assert_eq!(begun.code, 4, "{begun:?}");
    begun.lines().last().unwrap()["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_type_is_told_by_its_title_and_the_inbox_is_narrowed_to_it() {
    let root = tempdir().unwrap();
    let here = root.path();
    waiting(here);
    let listed = holdpoint(here, &["inbox", "--type", "address"], "");
    assert!(listed.out.contains("Where shall it go?: The city, please."), "{listed:?}");
    let shown = holdpoint(here, &["inbox", "1"], "");
    assert!(shown.out.contains("where asks: Where shall it go? (clarification)"), "{shown:?}");
    let other = holdpoint(here, &["inbox", "--type", "speed"], "");
    assert!(other.out.contains("nothing of that kind waits"), "{other:?}");
}

#[test]
fn whoever_follows_a_run_that_nobody_drives_is_told_so_and_does_not_hang() {
    let root = tempdir().unwrap();
    let run = waiting(root.path());
    let watched = holdpoint(root.path(), &["watch", "--follow", &run], "");
    assert_eq!(watched.code, 4, "{watched:?}");
    assert!(watched.out.contains("The city, please."), "{watched:?}");
    assert!(watched.err.contains("no server works here"), "{watched:?}");
}

#[test]
fn a_decider_whom_nobody_can_be_is_named_with_the_remedy() {
    let root = tempdir().unwrap();
    let here = root.path();
    let made = holdpoint(here, &["new", "letter", "--to", "ada"], "");
    assert_eq!(made.code, 0, "{made:?}");
    assert!(made.err.contains("`ada` is asked") && made.err.contains("keys add ada"), "{made:?}");
    let checked = holdpoint(here, &["check"], "");
    assert!(checked.code == 0 && checked.err.contains("keys add ada"), "{checked:?}");
    assert_eq!(holdpoint(here, &["keys", "add", "ada"], "").code, 0);
    let checked = holdpoint(here, &["check"], "");
    assert!(checked.code == 0 && !checked.err.contains("`ada`"), "{checked:?}");
    // Whoever is always there needs no key.
    assert!(!holdpoint(here, &["new", "memo", "--to", "local"], "").err.contains("nobody can be"));
}

#[test]
fn check_reads_the_operators_policy_against_the_workflows() {
    let root = tempdir().unwrap();
    let here = root.path();
    fs::write(here.join("right.yaml"), "mode: smart\n").unwrap();
    fs::write(here.join("wrong.yaml"), "rules: [{name: a, workflows: [nowhere], mode: manual}]\n")
        .unwrap();
    fs::create_dir(here.join("workflows")).unwrap();
    let right = holdpoint(here, &["check", "--policy", "right.yaml"], "");
    assert!(right.code == 0 && right.out.contains("right.yaml"), "{right:?}");
    let wrong = holdpoint(here, &["check", "--policy", "wrong.yaml"], "");
    assert!(wrong.code == 1 && wrong.out.contains("nowhere"), "{wrong:?}");
    let gone = holdpoint(here, &["check", "--policy", "gone.yaml"], "");
    assert!(gone.code == 1 && gone.out.contains("cannot be read"), "{gone:?}");
}

#[test]
fn what_nobody_has_said_is_late_is_asked_of_the_next_before_a_word_about_it_is_taken() {
    let root = tempdir().unwrap();
    let here = root.path();
    fs::create_dir(here.join("workflows")).unwrap();
    let flow = "
name: letters
models: {default: {provider: scripted, script: [{say: Sent.}]}}
agents: {sender: {human_input: false}}
pattern: sequential
steps:
  - id: ok
    human: {kind: approval, prompt: Send it?, deadline: 1s, on_timeout: {escalate_to: {to: [bob], within: 1h}}}
  - {id: send, agent: sender}
";
    fs::write(here.join("workflows/letters.yaml"), flow).unwrap();
    let begun = holdpoint(here, &["run", "letters", "A letter.", "--json"], "");
    assert_eq!(begun.code, 4, "{begun:?}");
    let asked = holdpoint(here, &["inbox", "--json"], "").lines().remove(0);
    let asked = &asked["requests"][0];
    let until = asked["deadline"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    while jiff::Timestamp::now() <= until {
        std::thread::yield_now();
    }
    // No server was there to see its time go by.
    let id = asked["request_id"].as_str().unwrap();
    let ended = holdpoint(here, &["respond", id, "approve"], "");
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("Sent."), "{ended:?}");
}

#[test]
fn requests_of_one_workflow_are_told_apart_by_what_is_decided() {
    let root = tempdir().unwrap();
    let here = root.path();
    for text in ["Dear Ada", "Dear Bob"] {
        let begun = holdpoint(here, &["run", "approve_and_send", text, "--json"], "");
        assert_eq!(begun.code, 4, "{begun:?}");
    }
    let listed = holdpoint(here, &["inbox"], "");
    assert!(listed.out.contains("Send this message? · \"Dear Ada\""), "{listed:?}");
    assert!(listed.out.contains("Send this message? · \"Dear Bob\""), "{listed:?}");
}

#[test]
fn where_nobody_sits_and_no_editor_is_named_none_is_started() {
    let root = tempdir().unwrap();
    let here = root.path();
    fs::create_dir(here.join("workflows")).unwrap();
    let flow = "
name: letters
models: {default: {provider: scripted, script: [{say: Dear Ada}]}}
agents: {writer: {human_input: false}}
pattern: sequential
steps:
  - {agent: writer}
  - {id: ok, human: {kind: approval, prompt: Send it?, editable: true}}
";
    fs::write(here.join("workflows/letters.yaml"), flow).unwrap();
    let begun = holdpoint(here, &["run", "letters", "A letter.", "--json"], "");
    assert_eq!(begun.code, 4, "{begun:?}");
    holdpoint(here, &["inbox"], "");
    let ended = holdpoint(here, &["respond", "1", "edit"], "");
    assert!(ended.err.contains("set VISUAL or EDITOR"), "{ended:?}");
    assert!(holdpoint(here, &["inbox"], "").out.contains("Dear Ada"), "it still waits");
}

#[test]
fn m8_a_webhook_whose_secret_is_elsewhere_stops_no_command_and_is_told_by_the_server_later() {
    let listener = Listener::start(|_| (200, "{}".into()));
    let root = tempdir().unwrap();
    let here = root.path();
    let settings = format!("data = \"data\"\nwebhook_url = \"{}/hook\"\n", listener.url());
    fs::write(here.join("holdpoint.toml"), settings).unwrap();
    let begun = holdpoint(here, &["run", "approve_and_send", "Dear Ada", "--json"], "");
    assert_eq!(begun.code, 4, "{begun:?}");
    let works = || {
        for words in [
            &["halt", "--all", "--reason", "test"][..],
            &["inbox"],
            &["runs"],
            &["audit"],
            &["halt", "--release", "all"],
        ] {
            let ended = holdpoint(here, words, "");
            assert_eq!(ended.code, 0, "{words:?}: {ended:?}");
        }
    };
    works();
    assert!(listener.heard().is_none(), "nothing is told without a signature");
    let refused = holdpoint(here, &["serve", "--listen", "127.0.0.1:0"], "");
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.err.contains("webhook_secret: "), "{refused:?}");
    // What was owed meanwhile is told by whoever can sign it.
    let _server = Setup::new(here).env("HOLDPOINT_WEBHOOK_SECRET", "s3cret").start();
    let mut told = std::iter::repeat_with(|| listener.next());
    let asked = told.find(|heard| heard.json()["type"] == "request.asked").unwrap();
    assert!(asked.headers["webhook-signature"].starts_with("v1,"), "{asked:?}");
    works();
}

const PAYOUT: &str = "
name: payout
input: {type: object, required: [iban], properties: {iban: {type: string}}}
pattern: graph
graph:
  steps:
    - {id: paid, extract: {text: 'paid to ${input.iban}'}}
  output: '${steps.paid.text}'
";

#[test]
fn json_that_is_given_as_a_text_is_told_how_and_from_stdin_it_stands_in_no_list_of_processes() {
    let root = tempdir().unwrap();
    let here = root.path();
    fs::create_dir(here.join("workflows")).unwrap();
    fs::write(here.join("workflows/payout.yaml"), PAYOUT).unwrap();
    let input = "{\"iban\": \"DE1\"}";
    let refused = holdpoint(here, &["run", "payout", input], "");
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.err.contains("--input-json") && !refused.err.contains("DE1"), "{refused:?}");
    let refused = holdpoint(here, &["run", "payout", "Pay Ada."], "");
    assert!(refused.code == 6 && !refused.err.contains("given as a text"), "{refused:?}");
    let paid = holdpoint(here, &["run", "payout", "--input-json", "-"], &format!("{input}\n"));
    assert_eq!(paid.code, 0, "{paid:?}");
    assert!(paid.out.contains("paid to DE1"), "{paid:?}");
    let empty = holdpoint(here, &["run", "payout", "--input-json", "-"], "");
    assert!(empty.code == 2 && empty.err.contains("--input-json: this is not JSON"), "{empty:?}");
}

#[test]
fn a_run_that_is_left_standing_where_no_server_works_is_taken_up_again_by_resume() {
    let root = tempdir().unwrap();
    let here = root.path();
    let run = waiting(here);
    let halted = holdpoint(here, &["halt", "--agent", "clerk", "--reason", "test"], "");
    assert_eq!(halted.code, 0, "{halted:?}");
    holdpoint(here, &["inbox"], "");
    let answered = holdpoint(here, &["respond", "1", "--json-value", "{\"city\": \"Berlin\"}"], "");
    assert_eq!(answered.code, 4, "{answered:?}");
    let told = format!("take it up again with: holdpoint resume {run}");
    assert!(answered.err.contains(&told), "{answered:?}");
    assert_eq!(holdpoint(here, &["halt", "--release", "all"], "").code, 0);
    let resumed = holdpoint(here, &["resume", &run], "");
    assert!(resumed.code == 0 && resumed.out.contains("Thank you."), "{resumed:?}");
}

#[test]
fn an_option_that_a_script_has_lost_widens_nothing_and_a_number_that_shows_nothing_is_none() {
    let root = tempdir().unwrap();
    let here = root.path();
    let run = waiting(here);
    for words in [
        &["inbox", "--to", ""][..],
        &["inbox", "--session="],
        &["inbox", "--type", ""],
        &["audit", "--run", ""],
        &["audit", "--principal", ""],
        &["fork", &run, "--checkpoint", ""],
        &["run", "shipping", "A parcel.", "--key", ""],
        &["inbox", "--data", ""],
        &["runs", "--workflows", ""],
        &["inbox", "--limit", "0"],
        &["runs", "--limit", "-1"],
        &["receipt", &run, "1", "--leaf", "zz"],
    ] {
        let told = holdpoint(here, words, "");
        let flag = words.iter().find(|word| word.starts_with("--")).unwrap().trim_end_matches('=');
        assert!(told.code == 2 && told.err.contains(flag), "{words:?}: {told:?}");
        assert!(!told.err.contains("-- -"), "{words:?}: {told:?}");
    }
    let narrowed = holdpoint(here, &["inbox", "--workflow", "nope"], "");
    assert!(narrowed.out.contains("nothing of that kind waits"), "{narrowed:?}");
    assert_eq!(holdpoint(here, &["graph", "nope"], "").code, 5);
    assert_eq!(holdpoint(here, &["export", "q", "--run", "nope"], "").code, 5);
}

#[test]
fn what_is_not_understood_is_told_as_json_where_that_is_wanted() {
    let root = tempdir().unwrap();
    for words in [
        &["inbox", "--bogus", "--json"][..],
        &["--json", "bogus"],
        &["runs", "--limit", "x", "--json"],
    ] {
        let told = holdpoint(root.path(), words, "");
        let error = serde_json::from_str::<serde_json::Value>(told.err.trim());
        let error = error.unwrap_or_else(|error| panic!("{words:?}: {error}: {told:?}"));
        assert_eq!((told.code, error["error"]["exit_code"].as_i64()), (2, Some(2)), "{words:?}");
    }
    let text = holdpoint(root.path(), &["run", "approve_and_send", "--", "--json", "--bogus"], "");
    assert!(text.err.starts_with("error:"), "words behind `--` are words: {text:?}");
}

#[test]
fn a_setting_of_the_wrong_kind_is_named() {
    let root = tempdir().unwrap();
    for (line, says) in [
        ("drain_seconds = -1", "`drain_seconds`"),
        ("drain_seconds = 1.5", "`drain_seconds`"),
        ("drain_seconds = []", "`drain_seconds`"),
        ("listen = 5", "`listen`"),
    ] {
        fs::write(root.path().join("holdpoint.toml"), format!("# mine\n{line}\n")).unwrap();
        let told = holdpoint(root.path(), &["inbox"], "");
        assert!(told.code == 2 && told.err.contains(says), "{line}: {told:?}");
    }
}

#[test]
fn a_server_that_is_frozen_is_told_as_one_that_does_not_answer() {
    let root = tempdir().unwrap();
    let server = Setup::new(root.path()).start();
    server.freeze();
    let told = holdpoint(root.path(), &["inbox", "--server", &server.url()], "");
    server.thaw();
    let says = format!("the server at {} did not answer", server.url());
    assert!(told.code == 7 && told.err.contains(&says), "{told:?}");
    assert!(told.err.contains("holdpoint health"), "{told:?}");
}

#[test]
fn json_that_says_one_thing_twice_begins_nothing() {
    let root = tempdir().unwrap();
    let twice = ["run", "approve_and_send", "--input-json", r#"{"a": 1, "a": 2}"#];
    let told = holdpoint(root.path(), &twice, "");
    assert!(told.code == 2 && told.err.contains("twice"), "{told:?}");
    assert!(!root.path().join("holdpoint-data").exists());
}

#[test]
fn no_address_is_told_with_its_password_wherever_it_was_said() {
    let root = tempdir().unwrap();
    let here = root.path();
    for line in [
        "server = 'http://u:hunter2@127.0.0.1:9/'",
        "server = 'http://u:hunter2@[::bad'",
        "server = 'ftp://u:hunter2@h'",
        "server = 'u:hunter2@127.0.0.1:9'",
        "server = 'https://u:hunter2@127.0.0.1:9'",
        "webhook_url = 'u:hunter2@h'",
        "public_url = 'postgres://u:hunter2@h/x'",
        "public_url = 'http://u:hunter2@h/x?token=hunter2'",
        "audit_signer = 'https://u:hunter2@h/x?token=hunter2'",
    ] {
        fs::write(here.join("holdpoint.toml"), format!("{line}\n")).unwrap();
        for words in [&["runs"][..], &["--dump-config"]] {
            let told = holdpoint(here, words, "");
            assert!(!format!("{told:?}").contains("hunter2"), "{line} {words:?}: {told:?}");
        }
    }
}
