//! Stranger: what somebody who tries it trips over at the terminal: silence that looks like work, a question that
//! nobody can answer, a type without its title, a note that has no place.

use std::fs;
use std::path::Path;

use tempfile::tempdir;

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
    assert!(other.out.contains("nothing waits"), "{other:?}");
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
