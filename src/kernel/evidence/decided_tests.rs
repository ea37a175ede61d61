//! What a leaf says of a decision, and what of it can be checked.

use serde_json::json;

use super::*;
use crate::kernel::Apart;
use crate::kernel::evidence::chain::GENESIS;
use crate::kernel::evidence::walk::Walk;

/// What is found in one append in which a run was begun, asked and was answered.
fn found(started: &Value, shown: &str, apart: &[Apart], secrets: Vec<Apart>) -> Decided {
    let run = RunId::parse("run_01k9zq3v7m8n4p5r6s7t8v9w0x").unwrap();
    let mut told = json!({"at": 10, "events": [
        {"started": {"session": "ses_01k9zq3v7m8n4p5r6s7t8v9w0x", "workflow": "pay", "definition": "d",
            "owner": "ann", "door": "cli", "input": "Go.", "seed": "5eed"}},
        {"asked": {"ordinal": 1, "step": "ask", "origin": "human_step", "kind": "approval", "prompt": "Pay?"}},
        {"answered": {"ordinal": 1, "value": {"decision": "approve"}, "by": "bob", "door": "http",
            "shown": shown, "known": {"assurance": "proven", "credential": {"key": "bob-1"}}}},
    ]});
    for (name, value) in started.as_object().unwrap() {
        told["events"][0]["started"][name] = value.clone();
    }
    if !apart.is_empty() {
        told["secrets"] = apart.iter().map(|one| one.hash().to_string()).collect();
    }
    let entry = Entry { version: 1, prev: Some(GENESIS), payload: told.to_string(), secrets };
    let (mut walk, mut trail) = (Walk::new(&run), Trail::new(&run));
    let step = walk.take(&entry).unwrap();
    trail.take(&entry, &step);
    trail.ended().0.pop().unwrap()
}

/// The digest of what is asked there.
fn digest() -> String {
    found(&json!({}), "x", &[], Vec::new()).asked.unwrap().digest.unwrap()
}

#[test]
fn k3_what_stands_beside_an_answer_is_held_against_the_question_that_was_asked() {
    let right = found(&json!({}), &digest(), &[], Vec::new());
    assert_eq!((right.is_as_asked, right.is_copied, right.version), (Some(true), false, 3));
    assert_eq!(right.known.unwrap().credential.to_string(), "key bob-1");
    let request = right.asked.unwrap().request.unwrap();
    assert_eq!(request.ordinal, 1);
    assert_eq!(found(&json!({}), "0", &[], Vec::new()).is_as_asked, Some(false));
    assert_eq!(found(&json!({}), "", &[], Vec::new()).is_as_asked, None, "words decide nothing");
    assert_eq!(
        found(&json!({"owner": "eve"}), &digest(), &[], Vec::new()).is_as_asked,
        Some(false)
    );
}

#[test]
fn k3_what_was_shown_is_not_computed_from_what_is_left_out_and_is_from_what_is_there() {
    let seed = Apart { salt: "salt".into(), json: "\"5eed\"".into() };
    let hidden = json!({"seed": format!("⟦sha256:{}⟧", seed.hash())});
    let all = [seed];
    let told = found(&hidden, &digest(), &all, Vec::new());
    assert_eq!((told.is_as_asked, told.asked.unwrap().request), (None, None));
    assert_eq!(found(&hidden, &digest(), &all, all.to_vec()).is_as_asked, Some(true));
}

#[test]
fn what_a_fork_has_copied_is_told_to_be_copied_and_was_shown_in_another_run() {
    let from = json!(["run_01k9zq3v7m8n4p5r6s7t8v9w0y", 3]);
    let told = found(&json!({"forked_from": from}), &digest(), &[], Vec::new());
    assert_eq!((told.is_copied, told.is_as_asked), (true, None));
    assert_eq!(told.asked.unwrap().request, None);
}

#[test]
fn k3_what_cannot_be_computed_for_want_of_secrets_is_told_apart_from_what_never_can() {
    let seed = Apart { salt: "salt".into(), json: "\"5eed\"".into() };
    let hidden = json!({"seed": format!("⟦sha256:{}⟧", seed.hash())});
    let all = [seed];
    assert!(found(&hidden, &digest(), &all, Vec::new()).lacks_secrets());
    assert!(!found(&hidden, &digest(), &all, all.to_vec()).lacks_secrets(), "they are there");
    assert!(!found(&hidden, "", &all, Vec::new()).lacks_secrets(), "words decide nothing");
    let from = json!(["run_01k9zq3v7m8n4p5r6s7t8v9w0y", 3]);
    let copied = found(&json!({"forked_from": from}), &digest(), &[], Vec::new());
    assert!(!copied.lacks_secrets(), "it was shown in another run");
}

/// Whether whoever was asked this was shown masks, as a bundle with its secrets says, and as one without.
fn masked(secret: &Value, asked: &Value) -> [bool; 2] {
    let apart = Apart { salt: "salt".into(), json: secret.to_string() };
    let mark = mark(apart.hash());
    let asked = asked.to_string().replace("CARD", &mark);
    let asked: Value = serde_json::from_str(&asked).unwrap();
    let run = RunId::parse("run_01k9zq3v7m8n4p5r6s7t8v9w0x").unwrap();
    let told = json!({"at": 10, "secrets": [apart.hash()], "events": [
        {"started": {"session": "ses_01k9zq3v7m8n4p5r6s7t8v9w0x", "workflow": "pay", "definition": "d",
            "owner": "ann", "door": "cli", "input": mark, "seed": "5eed"}},
        {"asked": asked},
        {"answered": {"ordinal": 1, "value": {"decision": "approve"}, "by": "bob", "door": "http"}},
    ]});
    [vec![apart], Vec::new()].map(|secrets| {
        let (prev, payload) = (Some(GENESIS), told.to_string());
        let entry = Entry { version: 1, prev, payload, secrets };
        let (mut walk, mut trail) = (Walk::new(&run), Trail::new(&run));
        let step = walk.take(&entry).unwrap();
        trail.take(&entry, &step);
        trail.ended().0.pop().unwrap().was_masked()
    })
}

#[test]
fn k3_whoever_was_shown_masks_is_told_to_have_been_with_the_secrets_and_without() {
    let asked = |more: Value| {
        let mut asked = json!({"ordinal": 1, "step": "ask", "origin": "human_step", "kind": "approval",
            "prompt": "Pay?"});
        for (name, value) in more.as_object().unwrap() {
            asked[name] = value.clone();
        }
        asked
    };
    let call = json!({"gate": {"id": "c1", "tool": "pay", "arguments": {"card": "CARD"}}});
    for secret in [json!("4929 1111 2222"), json!(31_415_926)] {
        let masked = |more: Value| masked(&secret, &asked(more));
        assert_eq!(masked(json!({})), [false; 2], "it stands elsewhere in the append");
        assert_eq!(masked(json!({"subject": {"shown": {"card": "CARD"}}})), [true; 2]);
        assert_eq!(masked(json!({"context": {"card": "CARD"}})), [true; 2]);
        let gate = json!({"origin": call, "kind": "tool_approval"});
        assert_eq!(masked(gate), [false; 2], "whoever decides over a call sees the call");
        let unread = json!({"origin": call, "kind": "tool_approval", "secrets": ["/card"]});
        assert_eq!(masked(unread), [true; 2], "but for what nobody is to read");
    }
    let prompt = json!({"prompt": "Pay with CARD?"});
    assert_eq!(masked(&json!("4929 1111 2222"), &asked(prompt)), [true; 2]);
    let marks =
        json!({"type": "object", "properties": {"card": {"type": "string", "secret": true}}});
    let own = json!({"subject": {"shown": {"card": "CARD"}}, "editable": marks});
    assert_eq!(masked(&json!("4929 1111 2222"), &asked(own)), [false; 2], "it marks it itself");
}

#[test]
fn words_to_a_question_that_decides_nothing_are_an_answer_and_no_decision() {
    let told = found(&json!({}), "", &[], Vec::new());
    assert!(told.is_decision(), "an approval");
    let mut words = told.clone();
    words.asked.as_mut().unwrap().decides = false;
    assert!(!words.is_decision());
    assert!(Decided { asked: None, ..told.clone() }.is_decision(), "nobody knows better");
    assert!(!Decided { act: Act::Closed(Closing::Rejected), ..told }.is_decision());
}

#[test]
fn silence_was_shown_nothing() {
    let mut told = found(&json!({}), "", &[], Vec::new());
    told.asked.as_mut().unwrap().is_veiled = true;
    assert!(told.was_masked());
    assert!(!Decided { door: TIMER.into(), ..told.clone() }.was_masked());
    assert!(!Decided { act: Act::Closed(Closing::Rejected), ..told }.was_masked());
}
