//! What is secret is hidden wherever it is said, and nothing else changes.

use serde_json::json;

use super::*;
use crate::kernel::choice::Choice;
use crate::kernel::deed::Deed;
use crate::kernel::grant::Grant;
use crate::kernel::terms::Kind;

fn known(values: &[Value]) -> Veil {
    let mut veil = Veil::default();
    for value in values {
        veil.learn(value, &BTreeSet::new());
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
            seed: "what nonces are drawn from".into(),
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
        "what nonces are drawn from",
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

/// What is left of a text for whoever looks; what is stored of it tells no more, and comes back byte for byte.
fn looked_at(veil: &Veil, text: &str) -> String {
    let event = said("x", json!(text));
    let Hidden { events, apart } = hidden(veil, std::slice::from_ref(&event));
    let Event::MessageAdded { message, .. } = &events[0] else { panic!("another event") };
    assert_eq!(message.data != Some(json!(text)), veil.text(text) != text, "{text}");
    let mut back = events[0].clone();
    reveal(&mut back, &apart);
    assert_eq!(back, event);
    veil.text(text).into_owned()
}

#[test]
fn a_secret_is_hidden_however_it_is_spelled() {
    let veil = known(&[json!("correct horse/battery"), json!("say \"Zoë\" & <go>, it's")]);
    for spelled in [
        r"correct horse\/battery",
        "correct%20horse/battery",
        "correct%20horse%2Fbattery",
        "correct%20horse%2fbattery",
        "correct+horse%2Fbattery",
        "correct%2520horse%252Fbattery",
        r#"say \"Zoë\" & <go>, it's"#,
        r#"say \"Zo\u00eb\" & <go>, it's"#,
        r#"say \"Zo\u00EB\" \u0026 \u003cgo\u003e, it's"#,
        r#"say \\\"Zo\\u00eb\\\" & <go>, it's"#,
        r#"say \\\\\\\"Zo\\\\u00eb\\\\\\\" & <go>, it's"#,
        "say%20%22Zo%C3%AB%22%20&%20%3Cgo%3E,%20it's",
        "say+%22Zo%c3%ab%22+%26+%3cgo%3e%2c+it%27s",
        "say &quot;Zoë&quot; &amp; &lt;go&gt;, it&#39;s",
        "say &#34;Zo&#235;&#34; &amp; &lt;go&gt;, it&#x27;s",
        "say &amp;quot;Zoë&amp;quot; &amp;amp; &amp;lt;go&amp;gt;, it&amp;apos;s",
    ] {
        assert_eq!(looked_at(&veil, &format!("<{spelled}>")), "<•••>", "{spelled}");
    }
    for kept in
        ["correct horse battery", "correct+horse+battery", "say Zoë & go", r"a\nb %20 &amp; c"]
    {
        assert_eq!(looked_at(&veil, kept), kept);
    }
}

#[test]
fn what_a_cut_has_left_of_a_secret_is_hidden_wherever_the_cut_falls() {
    let veil = known(&[json!("canary horse/battery Zoë 9"), json!("4711")]);
    let filler = "it went wrong. ".repeat(8);
    for spelled in [
        "canary horse/battery Zoë 9",
        r"canary horse\/battery Zo\u00eb 9",
        "canary+horse%2fbattery+Zo%c3%ab+9",
        "canary horse&#x2F;battery Zo&#235; 9",
    ] {
        for count in 1..spelled.chars().count() {
            let left: String = spelled.chars().take(count).collect();
            for mark in ["…", "…`; try again", "...", "\u{fffd}", ""] {
                let told = looked_at(&veil, &format!("{filler}{left}{mark}"));
                assert!(!told.contains("canary horse") && !told.contains("canary+hor"), "{told}");
            }
            let rest: String = spelled.chars().skip(count).collect();
            let told = looked_at(&veil, &format!("… / …{rest} / {filler}"));
            assert!(!told.contains("battery"), "{told}");
        }
    }
}

#[test]
fn a_beginning_that_could_be_tried_is_not_told_apart_from_others() {
    let veil = known(&[json!("canary-horse-battery-9"), json!("4711"), json!("seven-7")]);
    for kept in
        ["can…", "canary-…", "canary-...", "PIN 471… or 47…", "…11, …711", "seven-…", "…ery-9"]
    {
        assert_eq!(looked_at(&veil, kept), kept, "too little of it to be one of few");
    }
    assert_eq!(looked_at(&veil, "canary-h…"), "•••…");
    let long = known(&[json!("k".repeat(40))]);
    assert_eq!(looked_at(&long, "kkkkkkkkkkkkk…"), "kkkkkkkkkkkkk…", "less than a third of it");
    assert_eq!(looked_at(&long, "kkkkkkkkkkkkkk…"), "•••…");
}

#[test]
fn a_list_of_guesses_is_hidden_whole_or_not_at_all() {
    let veil = known(&[json!("4711"), json!("a-secret-nobody-guesses")]);
    let guesses: Vec<_> = (4000..5000).map(|guess| guess.to_string()).collect();
    for between in [" ", ",", "/"] {
        assert_eq!(looked_at(&veil, &guesses.join(between)), "•••");
    }
    let none: Vec<_> = guesses.iter().filter(|guess| *guess != "4711").cloned().collect();
    assert_eq!(looked_at(&veil, &none.join(" ")), none.join(" "));
    let begun: Vec<_> = ('a'..='z').map(|next| format!("a-secret-nobody-{next}…")).collect();
    assert_eq!(looked_at(&veil, &begun.join(" and ")), "•••", "nor which letter is the next");
    // What nobody guesses is hidden alone, and so is anything among few words.
    let told = format!("{} a-secret-nobody-guesses", none.join(" "));
    assert!(looked_at(&veil, &told).ends_with("4999 •••"));
    assert_eq!(looked_at(&veil, "the PIN is 4711, she said"), "the PIN is •••, she said");
    // Nor is it told by where a mask stands in a list.
    let shown = veil.value(json!({"by": "signal", "value": guesses}));
    let told = shown["••• 2"].as_array().unwrap();
    assert!(told.iter().all(|it| *it == "••• (4 characters)"), "{shown}");
    let numbers: Vec<_> = (4000..5000).collect();
    assert!(!veil.value(json!(numbers)).to_string().contains("4710"));
    assert_eq!(veil.value(json!(none)), json!(none));
}

fn signalled(by: &str, value: Value) -> Event {
    let (door, key) = ("grpc".into(), String::new());
    Event::Signalled { name: "go".into(), value, by: by.into(), door, known: None, key }
}

#[test]
fn whoever_does_not_know_a_secret_is_not_told_by_a_mask_that_they_have_guessed_it() {
    let mut veil = Veil::default();
    veil.heed(known(&[json!("4711"), json!(97531), json!("4929-canary-7731")]), &["ada"]);
    let guesses = json!([["4710", "4711"], 97531, 97531.0, "4929-canary-77…", {"4711": "is 4711"}]);
    assert_eq!(veil.event(signalled("bob", guesses.clone())), signalled("bob", guesses.clone()));
    let input = Message::said("bob", &guesses);
    let mut messages = [Arc::new(input.clone())];
    veil.messages(&mut messages);
    assert_eq!(*messages[0], input);
    assert_eq!(veil.said("bob", guesses.clone()), guesses);
    // Whoever gave it may say it anywhere.
    for gone in ["4711", "97531"] {
        let told = veil.said("ada", guesses.clone()).to_string();
        assert!(!told.contains(gone), "{gone} in {told}");
    }
    assert_eq!(veil.words("ada", "it is 4929-canary-7731"), "it is •••");
    assert_eq!(veil.words("bob", "it is 4929-canary-7731"), "it is 4929-canary-7731");
    assert_eq!(veil.text("it is 4929-canary-7731"), "it is •••");
    // An agent's words are nobody's.
    assert_eq!(veil.text("the PIN is 4711"), "the PIN is •••");
    // A later run of the session, and a build that finds the same in a journal, know as much.
    let mut later = Veil::default();
    later.knows(&veil.clone().told());
    assert_eq!(later, veil);
}

#[test]
fn whoever_has_decided_over_a_secret_knows_it_and_what_an_agent_brought_is_looked_for_everywhere() {
    let mut veil = Veil::default();
    veil.heed(known(&[json!("4711")]), &["ada"]);
    veil.heed(known(&[json!("7q")]), &[]);
    veil.heed(known(&[json!("4711"), json!("7q")]), &["boss"]);
    let said = |who: &str| veil.words(who, "4711 and 7q").into_owned();
    assert_eq!(said("boss"), "••• and •••");
    assert_eq!(said("ada"), "••• and •••");
    assert_eq!(said("bob"), "4711 and •••", "bob may have told the agent");
}

#[test]
fn a_number_is_the_same_secret_however_it_is_written() {
    let veil = known(&[json!(31_415_926), json!("27182818"), json!("0042")]);
    let value = json!({"a": 31_415_926.0, "b": "31415926.0", "c": "3.1415926e7", "d": "+31415926",
        "e": 27_182_818.0, "f": 27_182_818, "g": 42, "h": 31_415_927.0});
    let shown = veil.value(value);
    for name in ["a", "b", "c", "d", "e", "f"] {
        assert!(shown[name].as_str().is_some_and(|it| it.starts_with("•••")), "{name}: {shown}");
    }
    assert_eq!((&shown["g"], &shown["h"]), (&json!(42), &json!(31_415_927.0)));
    assert_eq!(looked_at(&veil, "paid 3.1415926e7, from 31415926.0."), "paid •••, from •••.");
    let events = [said("x", json!({"a": 31_415_926.0, "b": "3.1415926e7"}))];
    let Hidden { events: mut back, apart } = hidden(&veil, &events);
    assert!(!serde_json::to_string(&back).unwrap().contains("1415926"));
    for event in &mut back {
        reveal(event, &apart);
    }
    assert_eq!(back, events);
}

#[test]
fn a_secret_is_hidden_without_the_blanks_around_it() {
    let veil = known(&[json!(" canary-horse-9\n"), json!("7q ")]);
    assert_eq!(looked_at(&veil, "it is canary-horse-9."), "it is •••.");
    assert_eq!(looked_at(&veil, "pin=7q;"), "pin=•••;");
    assert_eq!(veil.value(json!(["canary-horse-9", "7q"])).to_string().matches("•••").count(), 2);
}

#[test]
fn what_merely_begins_or_ends_as_a_secret_does_is_left_as_it_is() {
    let veil = known(&[json!("canary horse/battery"), json!(12_000), json!("7q")]);
    let long = "a text that is long enough to have been cut by whoever sent it, and canary h";
    for kept in [
        "canary",
        "the canary horse",
        "canary birds…",
        "1200",
        "it costs 1200",
        "12 of 12…!",
        "my battery",
        "wait...battery",
        &format!("{long}en"),
        &format!("{long}-bird"),
    ] {
        assert_eq!(looked_at(&veil, kept), kept);
    }
    assert!(looked_at(&veil, long).ends_with("and •••"));
}

#[test]
fn a_short_secret_is_a_word_of_its_own_after_an_escape_too() {
    let veil = known(&[json!("7q")]);
    assert_eq!(veil.text(r"pin:\n7q\n, ?pin=%207q%20&x"), r"pin:\n•••\n, ?pin=%20•••%20&x");
    assert_eq!(veil.text(r"n7q, \\u00617q"), r"n7q, \\u00617q");
}

#[test]
fn a_text_that_takes_too_long_to_look_through_is_hidden_as_a_whole() {
    let veil = known(&[json!(format!("{}b", "a".repeat(3_000)))]);
    assert_eq!(looked_at(&veil, &"a".repeat(5_000)), "•••");
    assert_eq!(veil.text(&"c".repeat(50_000)), "c".repeat(50_000));
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

/// A question over a call whose arguments are marked, in a run that knows other secrets, too.
fn gated() -> Question {
    let arguments = json!({"card": {"number": "4929-canary", "pin": "7q"}, "to": "Ann 73"});
    let call = ToolCall::new("c1", "pay", arguments.clone());
    let mut asked = Question::bare(Kind::ToolApproval, Origin::Gate(Box::new(call)));
    asked.prompt = "Pay by 4929-canary for hunter2-hunter2?".into();
    asked.context =
        json!({"arguments": arguments, "reasons": ["`/to` is Ann 73", "word is hunter2-hunter2"]});
    asked.secrets = vec!["/card/pin".into()];
    asked.confided = vec!["/card/number".into()];
    asked
}

#[test]
fn whoever_decides_sees_the_call_and_of_all_else_nothing_that_was_not_marked_for_them() {
    let veil = known(&[
        json!("4929-canary"),
        json!("7q"),
        json!(73),
        json!("hunter2-hunter2"),
        json!("card"),
    ]);
    let masked = veil.question(Arc::new(gated()));
    assert!(masked.is_veiled && !format!("{masked:?}").contains("4929"), "{masked:?}");
    assert!(!serde_json::to_string(&masked).unwrap().contains("hunter2"));
    let decided = masked.as_decided();
    let shown = decided.shown();
    assert_eq!(shown["arguments"]["card"]["number"], "4929-canary");
    assert_eq!(shown["arguments"]["card"]["pin"], "••• (2 characters)", "that is nobody's");
    assert_eq!(shown["arguments"]["to"], "Ann 73", "what is done is shown letter for letter");
    assert_eq!(decided.prompt, "Pay by 4929-canary for •••?");
    assert_eq!(decided.context["reasons"][1], "word is •••");
    assert!(decided.is_veiled);
    let alone = Veil::default().question(Arc::new(gated())).as_decided();
    assert!(!alone.is_veiled && alone.is_masked(), "what nobody is to read is a mask to them, too");
}

#[test]
fn an_address_that_is_made_of_what_nobody_is_to_read_does_not_tell_it() {
    let mut asked = gated();
    let Origin::Gate(call) = &mut asked.origin else { panic!("{asked:?}") };
    let destination = "POST https://bank.example/cards/7q/4929-canary";
    call.deed = Some(Box::new(Deed { destination: destination.into(), digest: "0123".into() }));
    asked.context["destination"] = destination.into();
    let veil = known(&[json!("4929-canary"), json!("7q")]);
    let decided = veil.question(Arc::new(asked)).as_decided();
    let Origin::Gate(call) = &decided.origin else { panic!("{decided:?}") };
    let told = "POST https://bank.example/cards/•••/4929-canary";
    assert_eq!(call.deed.as_ref().map(|deed| deed.destination.as_str()), Some(told));
    assert_eq!(decided.context["destination"], told);
}

#[test]
fn the_bound_of_a_grant_does_not_tell_a_number_that_is_secret() {
    let mut grant = Grant {
        gate: "large".into(),
        tool: "pay".into(),
        bounds: vec![("/amount".into(), 73.0), ("/days".into(), 14.0)],
        hidden: BTreeSet::new(),
        by: "ada".into(),
        rests_on: Vec::new(),
        at: crate::kernel::Millis(1),
        until: None,
    };
    let veil = known(&[json!(73)]);
    let is_secret = |number: f64| veil.0.contains(&Value::from(number.to_string()).to_string());
    grant.hide(is_secret);
    let told = "`pay` at gate `large` with `/amount` up to ••• with `/days` up to 14";
    assert_eq!(grant.words(), told);
    let small = json!({"amount": 1, "days": 1});
    assert!(
        !grant.covers("large", "pay", &small, crate::kernel::Millis(2)),
        "a view lets nothing through"
    );
}

#[test]
fn options_made_of_a_secret_are_named_by_their_place_and_chosen_by_that() {
    let veil = known(&[json!("AMEX-canary-1"), json!("7q")]);
    let choice = |id: &str, label: &str| Choice {
        id: id.into(),
        label: label.into(),
        description: String::new(),
    };
    let mut asked = Question::bare(Kind::Selection, Origin::HumanStep);
    asked.options =
        vec![choice("AMEX-canary-1", ""), choice("option-3", "7q"), choice("7q", "the blue one")];
    let shown = veil.question(Arc::new(asked.clone())).as_decided();
    let told: Vec<_> = shown.options.iter().map(|it| (it.id.as_str(), it.label())).collect();
    assert_eq!(told, [("option-1", "•••"), ("option-3", "•••"), ("option-3-", "the blue one")]);
    assert_eq!(asked.read(&json!("option-1")), Ok(json!("AMEX-canary-1")));
    assert_eq!(asked.read(&json!("option-3")), Ok(json!("option-3")));
    assert_eq!(asked.read(&json!("option-3-")), Ok(json!("7q")));
    assert!(asked.read(&json!("option-4")).is_err());
}

#[test]
fn short_secrets_names_of_members_and_masks_are_told_apart() {
    let veil = known(&[json!("7q"), json!(16), json!({"key-of-mine": true})]);
    assert_eq!(veil.text("`/pin` is 7q, over 16; 7qq, 160"), "`/pin` is •••, over •••; 7qq, 160");
    let masked =
        veil.value(json!({"7q": 1, "key-of-mine": {"a": "••• (16 characters)"}, "n": "16"}));
    assert_eq!(
        masked,
        json!({"•••": 1, "••• 2": {"a": "••• (16 characters)"}, "n": "••• (2 characters)"})
    );
    let events = [said("x", json!({"7q": {"key-of-mine": "7q"}, "n": 16.0, "m": 16}))];
    let Hidden { events: stored, apart } = hidden(&veil, &events);
    let told = serde_json::to_string(&stored).unwrap();
    assert!(
        !told.contains("7q") && !told.contains("key-of-mine") && !told.contains(":16}"),
        "{told}"
    );
    let mut back = stored;
    for event in &mut back {
        reveal(event, &apart);
    }
    assert_eq!(back, events);
}

#[test]
fn what_a_version_puts_in_the_place_of_a_secret_is_secret_and_what_stands_elsewhere_is_not() {
    let mut veil = known(&[json!("4929-0001"), json!("4929-0002"), json!(7301)]);
    let shown = json!({
        "card": "4929-0001", "pin": 7301, "to": "Acme", "text": "by card 4929-0001",
        "others": [{"card": "4929-0002", "name": "Bo"}],
    });
    let version = json!({
        "card": "5100-0009", "pin": {"new": 8812}, "to": "Acme Ltd", "text": "by card",
        "others": [{"card": "4929-0002", "name": "Cy"}, {"card": "5100-0010", "name": "Di"}],
    });
    veil.join(&veil.heed_version(&shown, &version));
    let told = veil.value(version).to_string();
    for gone in ["5100-0009", "8812", "5100-0010", "4929-0002"] {
        assert!(!told.contains(gone), "{gone} in {told}");
    }
    for kept in ["Acme Ltd", "by card", "Cy", "Di"] {
        assert!(told.contains(kept), "{kept} in {told}");
    }
}

#[test]
fn what_a_question_shows_is_what_stands_in_it_whole_and_unmasked() {
    let veil = known(&[json!("4929-canary"), json!("7q"), json!(73), json!("hunter2-hunter2")]);
    assert_eq!(veil.shown_in(&gated()), known(&[json!("4929-canary"), json!(73)]));
    let mut asked = Question::bare(Kind::Approval, Origin::HumanStep);
    let shown = json!({"card": "4929-canary", "pin": "7q", "word": "hunter2-hunter2"});
    asked.subject = Some(Box::new(Subject::Shown(shown)));
    assert!(veil.shown_in(&asked).is_nothing(), "nothing in it is marked for them");
    let marks = json!({"card": {"secret": true}, "pin": {"writeOnly": true}});
    asked.editable = Some(json!({"properties": marks}));
    assert_eq!(veil.shown_in(&asked), known(&[json!("4929-canary")]));
    let mut cut = gated();
    cut.origin = Origin::Gate(Box::new(ToolCall::new("c1", "pay", json!("by 4929-can…"))));
    assert!(veil.shown_in(&cut).is_nothing(), "of what was cut nobody reads the rest");
}
