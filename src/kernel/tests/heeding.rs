//! Heeding: whoever answers a question knows what it showed them. Their words are looked through for that, and for nothing
//! that was a mask to them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::brought::{by, chiefs, mine, open, to};
use super::cast::{sequence, step};
use super::stage::{Stage, answers, calls};
use crate::kernel::workflow::{Gate, Workflow};
use crate::kernel::{Event, secret};

const PIN: &str = "zebra-8812-quux";

/// An agent asks ann for a PIN, and wants to send these; whoever the gates name is asked whether it may.
fn asked(workflow: &Workflow, brought: Vec<Gate>, (pin, arguments): (&str, Value)) -> Stage {
    let mut stage = open(workflow, brought);
    let schema =
        json!({"type": "object", "properties": {"pin": {"type": "string", "secret": true}}});
    let asks = json!({"prompt": "Your PIN?", "response_schema": schema});
    let asks = calls("", [("c0", "request_user_input", asks)]);
    stage.perform([asks, answers(1, json!({"pin": pin}))]);
    stage.perform([calls("", [("c1", "charge", arguments)])]);
    assert_eq!(stage.run.questions.len(), 1, "{}", stage.told);
    stage
}

/// The chief is asked before `charge`, and its arguments are marked so.
fn gated(marked: Option<&Value>) -> Workflow {
    let mut workflow = Workflow { gates: vec![chiefs(vec![])], ..sequence(vec![step("a")]) };
    if let Some(pin) = marked {
        let charge = workflow.tools.get_mut("charge").expect("a tool");
        charge.parameters = Some(json!({"type": "object", "properties": {"pin": pin}}));
    }
    secret::noticed(workflow)
}

fn say(stage: &mut Stage, who: &str, value: Value) {
    let ordinal = *stage.run.questions.keys().next().expect("it asks");
    let said = by(who, stage, ordinal, value);
    assert_eq!(stage.command_by(&said), Ok(None), "{}", stage.told);
}

/// What the last answer says, as onlookers are told it and as it is stored.
fn told(stage: &Stage) -> [String; 2] {
    let mut events = stage.journal.iter().rev().map(|it| &it.event);
    let answered = events.find(|event| matches!(event, Event::Answered { .. })).expect("one");
    let shown = stage.run.veil.event(answered.clone());
    let hidden = stage.run.hidden(&[Arc::new(answered.clone())], &mut || "salt".into());
    let stored = hidden.map_or_else(|| vec![answered.clone()], |hidden| hidden.events);
    [shown, stored[0].clone()].map(|event| {
        let Event::Answered { value, .. } = event else { panic!("another event") };
        value.to_string()
    })
}

#[test]
fn what_was_confided_and_a_gate_showed_stands_in_clear_in_no_answer_to_it() {
    for pin in ["47zq", PIN] {
        let within = format!("pay with {pin} now");
        let edit = |pin: &str| json!({"decision": "edit", "arguments": {"pin": pin, "u": "b"}});
        for (sent, said) in [
            (pin, edit(pin)),
            (within.as_str(), edit(&within)),
            (within.as_str(), edit(&format!("{pin}, later"))),
            (pin, json!({"decision": "deny", "note": format!("not with {pin}")})),
        ] {
            let arguments = json!({"pin": sent, "u": "a"});
            let mut stage = asked(&gated(None), Vec::new(), (pin, arguments));
            assert_eq!(stage.run.veil.words("bob", pin), pin, "nobody has told them yet");
            say(&mut stage, "bob", said.clone());
            for told in told(&stage) {
                assert!(!told.contains(pin), "{said}: {told}");
            }
            assert_eq!(stage.run.veil.words("cyd", pin), pin, "cyd was shown nothing");
        }
    }
}

#[test]
fn what_an_edit_puts_in_the_place_of_what_was_confided_is_as_secret() {
    let arguments = json!({"pin": PIN, "all": [4711], "u": "a"});
    let mut stage = asked(&gated(None), Vec::new(), (PIN, arguments));
    let others = json!({"pin": "ocelot-9917", "all": [5822], "u": "plain"});
    say(&mut stage, "bob", json!({"decision": "edit", "arguments": others}));
    for told in told(&stage) {
        assert!(!told.contains("ocelot-9917"), "{told}");
        assert!(told.contains("5822") && told.contains("plain"), "{told}");
    }
    assert_eq!(stage.run.veil.text("by ocelot-9917"), "by •••");
}

#[test]
fn whoever_was_shown_a_mask_is_not_told_by_another_that_they_guessed_it() {
    // What is nobody's to read is a mask to whoever decides over its call.
    let unread = gated(Some(&json!({"type": "string", "writeOnly": true})));
    let mut stage = asked(&unread, Vec::new(), (PIN, json!({"pin": PIN})));
    say(&mut stage, "bob", json!({"decision": "deny", "note": format!("is it {PIN}?")}));
    assert!(told(&stage).iter().all(|told| told.contains(PIN)), "{:?}", told(&stage));
    // And so is everything at a gate that the start brought.
    let marked = gated(Some(&json!({"type": "string", "secret": true})));
    let brought = Gate { patience: to("eve"), ..mine(&[], &["charge"]) };
    let mut stage = asked(&marked, vec![brought], (PIN, json!({"pin": PIN})));
    say(&mut stage, "eve", json!("allow_once"));
    assert_eq!(stage.run.veil.words("eve", PIN), PIN);
    say(&mut stage, "bob", json!("deny"));
    assert_eq!(stage.run.veil.words("bob", PIN), "•••");
}
