//! Golden, of what more than one person adds to the stored form: claims, places, votes in them, and work
//! that is given back. The rules are those of `golden.rs`.

use holdpoint::kernel::graph::Outcome;
use holdpoint::kernel::{Claimed, Delegated, Event, Holder, Millis, Question, Span};
use holdpoint::store::codec;
use holdpoint::store::keys;
use serde_json::json;

use crate::golden::{golden, plain_question, run};

/// What more than one person adds: claims, places, votes in them, work that is given back.
fn crowd_events() -> Vec<Event> {
    let claimed = |span| {
        let (by, door, key) = ("ann".into(), "console".into(), String::new());
        Event::Claimed(Claimed { ordinal: 3, by, door, span, key })
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
        },
        Event::Settled { path: "ok".into(), outcome: Outcome::Returned("by ann: shorter".into()) },
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
