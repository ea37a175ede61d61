//! What is secret is hidden wherever it is said, and nothing else changes.

use serde_json::json;

use super::*;

fn known(values: &[Value]) -> Veil {
    let mut veil = Veil::default();
    for value in values {
        veil.learn(value);
    }
    veil
}

fn said(text: &str, data: Value) -> Event {
    let mut message = Message::said("ada", &json!(text));
    message.data = Some(data);
    Event::MessageAdded { turn: None, message, usage: crate::kernel::Usage::default() }
}

/// As a run with that veil would store them, and what stands apart.
fn hidden(veil: &Veil, events: &[Event]) -> Hidden {
    let sieve = Sieve::of(veil);
    let mut drawn = 0;
    let mut fresh = || {
        drawn += 1;
        format!("salt {drawn}")
    };
    let mut hiding =
        Hiding { sieve: &sieve, is_live: true, fresh: &mut fresh, apart: BTreeMap::new() };
    let mut events = events.to_vec();
    for event in &mut events {
        texts::of_event(event, &mut hiding);
    }
    let apart = hiding.apart.into_values().collect();
    Hidden { events, apart }
}

#[test]
fn a_secret_is_hidden_wherever_it_is_said_and_comes_back_byte_for_byte() {
    let veil =
        known(&[json!("hunter2-and-more"), json!(4711), json!("a\"b"), json!("ü/ö"), json!("x")]);
    let events = [
        said(
            "It is hunter2-and-more, PIN 4711!",
            json!({"pin": 4711, "also": ["4711", "x", "axe"]}),
        ),
        said("as JSON {\"q\":\"a\\\"b\"}, as URL %C3%BC%2F%C3%B6", json!({"other": 47110})),
        Event::Delta { turn: 1, attempt: 1, text: "hunter2-a".into() },
        Event::Answered {
            ordinal: 1,
            value: json!({"code": "x"}),
            by: "ada".into(),
            door: "grpc".into(),
            key: "key-1".into(),
            given: Some("0123".into()),
            from: None,
            shown: "digest".into(),
            known: None,
            instead_of: None,
            asks_anew: false,
        },
    ];
    let Hidden { events: stored, apart } = hidden(&veil, &events);
    let told = serde_json::to_string(&stored).unwrap();
    for gone in [
        "hunter2",
        "4711!",
        "\"4711\"",
        ":4711,",
        "a\\\\\\\"b",
        "%C3%BC",
        "0123",
        "key-1",
        ":\"x\"",
    ] {
        assert!(!told.contains(gone), "{gone}: {told}");
    }
    // What merely has the same letters is left as it is.
    assert!(told.contains("axe") && told.contains("47110") && told.contains("\"ada\""), "{told}");
    let mut back = stored;
    for event in &mut back {
        reveal(event, &apart);
    }
    assert_eq!(back, events);
    // The same secret has another hash in another append.
    assert_ne!(apart[0].hash(), Apart { salt: "another".into(), ..apart[0].clone() }.hash());
}

#[test]
fn whoever_looks_sees_masks_and_no_piece_of_a_text() {
    let veil = known(&[json!("hunter2-and-more"), json!(true), json!("")]);
    let shown =
        veil.event(said("It is hunter2-and-more.", json!({"p": "hunter2-and-more", "ok": true})));
    let Event::MessageAdded { message, .. } = shown else { panic!("another event") };
    assert_eq!(message.text, "It is •••.");
    assert_eq!(message.data, Some(json!({"p": "••• (16 characters)", "ok": true})));
    let Event::Delta { text, .. } =
        veil.event(Event::Delta { turn: 1, attempt: 1, text: "hunter2-".into() })
    else {
        panic!("another event")
    };
    assert_eq!(text, "");
    assert_eq!(format!("{veil:?}"), "Veil(1)");
}

#[test]
fn a_hash_that_somebody_pasted_stays_a_hash() {
    let veil = known(&[json!("hunter2-and-more")]);
    let Hidden { events, .. } = hidden(&veil, &[said("hunter2-and-more", json!(null))]);
    let Event::MessageAdded { message, .. } = &events[0] else { panic!("another event") };
    let pasted = said(&format!("what is {}?", message.text), json!("hunter2-and-more"));
    let mut again = hidden(&known(&[json!("hunter2-and-more")]), std::slice::from_ref(&pasted));
    for apart in &again.apart {
        assert_eq!(apart.salt, "salt 1");
    }
    // Salts are drawn anew for each append; these two are made alike to show what that is for.
    again.apart[0].salt = "another".into();
    let mut event = again.events[0].clone();
    reveal(&mut event, &again.apart);
    let told = serde_json::to_string(&event).unwrap();
    assert!(told.contains("what is ⟦sha256:"), "{told}");
}
