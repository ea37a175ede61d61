//! Golden, of what more than one person, and more than one run of a family, add to the stored form: claims,
//! places, votes in them, work that is given back, noes that count elsewhere. The rules are those of `golden.rs`.

use holdpoint::kernel::graph::Outcome;
use holdpoint::kernel::{
    Assurance, Claimed, Credential, Delegated, Descent, Event, Holder, Known, Millis, Question,
    Refused, Span, Started, Subject,
};
use holdpoint::store::codec;
use holdpoint::store::keys;
use serde_json::json;

use crate::store::golden::{golden, plain_question, run, started};

/// What more than one person adds: claims, places, votes in them, work that is given back.
fn crowd_events() -> Vec<Event> {
    let claimed = |span| {
        let (by, door, key) = ("ann".into(), "console".into(), String::new());
        Event::Claimed(Claimed { ordinal: 3, by, door, span, known: None, key })
    };
    let delegated = |to| {
        let (by, door, key) = ("ann".into(), "grpc".into(), "k".into());
        Event::Delegated(Delegated { ordinal: 3, by, door, to, known: None, key })
    };
    vec![
        claimed(Some(Span::ForMs(600_000))),
        claimed(None),
        delegated(Some(Holder { who: "dan".into(), span: Span::Until(Millis(9)) })),
        delegated(None),
        Event::Voted {
            ordinal: 3,
            value: json!({"decision": "approve"}),
            by: "dan".into(),
            door: "cli".into(),
            key: String::new(),
            given: "g".into(),
            known: None,
            shown: "d".into(),
            stage: 1,
            instead_of: Some("ann".into()),
            void: vec![(0, "bob".into())],
            seed: String::new(),
        },
        Event::StepClosed {
            path: "ok".into(),
            outcome: Outcome::Returned("by ann: shorter".into()),
        },
        Event::Asked(Box::new(Question { returns: true, ..plain_question() })),
    ]
}

#[test]
fn what_more_than_one_person_adds_is_written_as_it_always_was() {
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let events = crowd_events();
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry-crowd.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
}

/// What a family of forks adds: where a fork comes from, a question that was refused elsewhere, and how whoever
/// claimed or signalled was known.
fn family_events() -> Vec<Event> {
    let known = || {
        let credential = Credential::Service("desk".into());
        Some(Box::new(Known::new(Assurance::Vouched, credential)))
    };
    let descent = Some(Box::new(Descent { family: run(), copied: 7, done: Vec::new() }));
    let refused = |how: &str| Refused {
        run: run(),
        by: "cfo".into(),
        how: how.into(),
        at: Millis(1_700_000_000_000),
    };
    let mut asked = plain_question();
    asked.tell_of(vec![refused("deny"), refused("expired")]);
    vec![
        Event::Started(Box::new(Started { descent, ..started() })),
        Event::Renewed { epoch: "e".into(), seed: "5eed".into(), only: vec![3] },
        Event::Asked(Box::new(asked)),
        Event::Claimed(Claimed {
            ordinal: 3,
            by: "ann".into(),
            door: "grpc".into(),
            span: None,
            known: known(),
            key: String::new(),
        }),
        Event::Signalled {
            name: "ready".into(),
            value: json!(7),
            by: "ann".into(),
            door: "grpc".into(),
            known: known(),
            key: String::new(),
        },
    ]
}

#[test]
fn what_a_family_of_forks_adds_is_written_as_it_always_was() {
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let events = family_events();
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry-family.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
}

/// An answer of `ann`.
pub(crate) fn answered(ordinal: u32, door: &str, key: &str, from: Option<String>) -> Event {
    Event::Answered {
        ordinal,
        value: json!("a"),
        by: "ann".into(),
        door: door.into(),
        key: key.into(),
        given: None,
        from,
        shown: String::new(),
        known: None,
        instead_of: None,
        asks_anew: false,
        seed: String::new(),
    }
}

/// What a person's own version adds: an answer that decides nothing, and the question about the version.
fn edited_events() -> Vec<Event> {
    let mut answer = answered(3, "console", "k", None);
    if let Event::Answered { value, asks_anew, .. } = &mut answer {
        (*value, *asks_anew) = (json!({"decision": "edit", "subject": "Mine."}), true);
    }
    let asked = Question {
        ordinal: 4,
        subject: Some(Box::new(Subject::Shown(json!("Mine.")))),
        editable: Some(json!({"type": "string", "minLength": 1})),
        editor: "ann".into(),
        ..plain_question()
    };
    vec![answer, Event::Asked(Box::new(asked))]
}

#[test]
fn what_a_persons_own_version_adds_is_written_as_it_always_was() {
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let events = edited_events();
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry-edited.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
}
