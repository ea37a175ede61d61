//! What a note keeps, and what it is called.

use serde_json::json;

use super::*;
use crate::kernel::{Assurance, Credential};

#[test]
fn what_a_later_build_notes_is_read_as_unknown() {
    let note: Note = serde_json::from_str(r#"{"action":"from_the_future","x":1}"#).unwrap();
    assert_eq!(note, Note::Unknown);
    let started = Note::ServerStopped { address: String::new() };
    let json = serde_json::to_string(&started).unwrap();
    assert_eq!(json, r#"{"action":"server_stopped"}"#);
    assert_eq!(serde_json::from_str::<Note>(&json).unwrap(), started);
}

fn forgotten() -> Note {
    Note::HeadForgotten {
        who: "ann".into(),
        door: "grpc".into(),
        origin: "holdpoint/1".into(),
        leaves: 24,
        root: "a7".into(),
        known: None,
    }
}

#[test]
fn a_head_that_was_forgotten_is_named_with_who_had_it_forgotten() {
    let note = forgotten();
    assert_eq!((note.who(), note.lane()), (("ann", "grpc"), Lane::Deeds));
    assert!(note.words().starts_with("the head of 24 leaves of holdpoint/1, root a7"));
}

#[test]
fn the_word_of_a_note_is_the_one_it_is_stored_under() {
    let run = RunId::fresh(&"0".repeat(26));
    for note in [
        Note::answer_refused(("ann", "grpc"), "req_1", Some(run.clone()), "answer.invalid"),
        Note::KeyRefused { peer: "::1".into(), door: "grpc".into() },
        Note::Crowded,
        Note::Imported { runs: 1, events: 2 },
        Note::Forked {
            who: "ann".into(),
            door: "grpc".into(),
            from: run.clone(),
            version: 3,
            run,
            known: None,
        },
        Note::Lost,
        Note::Released { who: "ann".into(), door: "grpc".into(), known: None },
        forgotten(),
        Note::HaltRefused {
            who: "ann".into(),
            door: "grpc".into(),
            what: "everything".into(),
            code: "auth.forbidden".into(),
            known: None,
        },
        Note::ReleaseRefused {
            who: "ann".into(),
            door: "grpc".into(),
            halt: String::new(),
            code: "auth.forbidden".into(),
            known: None,
        },
    ] {
        let stored = serde_json::to_value(&note).unwrap();
        assert_eq!(stored["action"], note.action());
    }
    let old = r#"{"action":"released","who":"ann","door":"grpc"}"#;
    let read: Note = serde_json::from_str(old).unwrap();
    assert_eq!(read.action(), "store_released", "as an earlier build wrote it");
}

#[test]
fn whoever_a_service_spoke_for_is_noted_with_the_service() {
    let known = Known::new(Assurance::Vouched, Credential::Service("desk".into()));
    let [who, door, halt, what] = ["ada", "grpc", "halt_1", "everything"].map(str::to_owned);
    let known = Some(Box::new(known));
    let reason = String::new();
    let note = Note::HaltReleased { who, door, halt, what, known, reason };
    let stored = serde_json::to_value(&note).unwrap();
    assert_eq!(stored["known"], json!({"assurance": "vouched", "credential": {"service": "desk"}}));
    let read: Note = serde_json::from_value(stored).unwrap();
    assert_eq!(read.known().map(|known| known.credential.to_string()), Some("service desk".into()));
    let old = r#"{"action":"halt_released","who":"ada","door":"grpc","halt":"halt_1","what":"x"}"#;
    let read: Note = serde_json::from_str(old).unwrap();
    assert_eq!((read.who(), read.known()), (("ada", "grpc"), None), "as an earlier build wrote it");
    assert_eq!(serde_json::to_string(&read).unwrap(), old, "and as it stays");
}

#[test]
fn whoever_lets_something_go_on_is_noted_with_why_where_they_said_so() {
    let released = |reason: &str| {
        let [who, door, halt, what] = ["ada", "grpc", "halt_1", "everything"].map(str::to_owned);
        let reason = reason.to_owned();
        Note::HaltReleased { who, door, halt, what, known: None, reason }.bounded()
    };
    assert_eq!(released("").words(), "halt_1: everything");
    assert_eq!(serde_json::to_value(released("")).unwrap().get("reason"), None);
    assert_eq!(released("the bank says so").words(), "halt_1: everything: the bank says so");
    let stored = serde_json::to_value(released("the bank says so")).unwrap();
    let read: Note = serde_json::from_value(stored).unwrap();
    assert_eq!(read.words(), "halt_1: everything: the bank says so");
    let long = serde_json::to_value(released(&"x".repeat(500))).unwrap();
    assert_eq!(long["reason"].as_str().map(str::len), Some(CHARS_MAX));
}

#[test]
fn an_entry_keeps_little_of_what_others_wrote() {
    let long = "x".repeat(5_000) + "\n\u{1b}[31m";
    let Note::AnswerRefused { request, .. } = Note::answer_refused(("a", "grpc"), &long, None, "c")
    else {
        panic!("another note");
    };
    assert_eq!(request.len(), CHARS_MAX);
    let came: Vec<_> = (0..1_000).map(|number| format!("name-{number}")).collect();
    let (went, changed, ended) = (Vec::new(), Vec::new(), Vec::new());
    let note = Note::KeysChanged { came, went, changed, ended }.bounded();
    assert!(note.words().ends_with("and 950 more"), "{}", note.words());
}
