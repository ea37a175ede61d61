//! What questions promise: how an answer is read, and what the digest of a question covers.

use serde_json::json;

use super::*;
use crate::kernel::id::RunId;
use crate::kernel::reading::Verdict;
use crate::kernel::sealing::Belongs;

fn question(kind: Kind) -> Question {
    let (step, prompt) = ("venue".into(), "Which?".into());
    Question { step, prompt, ..Question::bare(kind, Origin::HumanStep) }
}

fn option(id: &str, label: &str) -> Choice {
    Choice { id: id.into(), label: label.into(), description: String::new() }
}

#[test]
fn a_selection_is_read_by_id_label_or_index_and_nothing_else() {
    let mut asked = question(Kind::Selection);
    asked.options = vec![option("a", "The Foundry"), option("b", "Pier 66")];
    for text in ["b", "B", "pier 66", "2"] {
        assert_eq!(asked.read(&json!(text)), Ok(json!("b")), "{text}");
    }
    for value in [json!("c"), json!("3"), json!("0"), json!(2), json!(null), json!(["b"])] {
        let refused = asked.read(&value).expect_err("not an option");
        assert_eq!(refused.expected, "one of: a, b");
    }
}

#[test]
fn k7_what_could_mean_two_options_means_neither() {
    let mut asked = question(Kind::Selection);
    asked.options = vec![option("a", "2"), option("b", "Hall"), option("c", "hall")];
    for text in ["2", "Hall"] {
        assert!(asked.read(&json!(text)).is_err(), "{text}");
    }
    assert_eq!(asked.read(&json!("3")), Ok(json!("c")));
    assert_eq!(asked.read(&json!("b")), Ok(json!("b")), "an id is always itself");
}

#[test]
fn k7_a_schema_of_its_own_does_not_make_a_no_a_yes() {
    let mut asked = question(Kind::Approval);
    asked.schema = Some(json!({"type": "object", "properties": {
        "decision": {"enum": ["approve", "reject"]}, "limit": {"type": "integer"},
    }}));
    assert!(asked.is_verdict());
    for value in [json!({"limit": 3}), json!({"decision": "reject", "limit": 3}), json!({})] {
        assert_eq!(Question::verdict(&asked.read(&value).expect("fits")), Verdict::Rejected);
    }
    asked.schema = Some(json!({"type": "boolean"}));
    let yes = asked.read(&json!("yes")).expect("a clear yes");
    assert_eq!((Question::verdict(&yes), yes), (Verdict::Approved, json!(true)));
    assert_eq!(Question::verdict(&json!(false)), Verdict::Rejected);
}

#[test]
fn k7_only_a_clear_yes_approves() {
    let asked = question(Kind::Approval);
    for value in [json!("approve"), json!("Yes"), json!(true), json!({"decision": "approve"})] {
        let read = asked.read(&value).expect("a clear yes");
        assert_eq!(Question::verdict(&read), Verdict::Approved);
    }
    for value in [json!("sure, why not"), json!("ok?"), json!(1), json!(null), json!({}), json!("")]
    {
        assert!(asked.read(&value).is_err(), "{value}");
    }
    assert_eq!(Question::verdict(&json!({"decision": "maybe"})), Verdict::Rejected);
}

/// The digest of a question in a run of which nothing is special but its seed.
fn digest_of(shown: &Question, seed: &str) -> String {
    let run = RunId::fresh("01k9zq3v7m8n4p5r6s7t8v9w0x");
    let mut sealed = shown.clone();
    let requesters = ["ann".to_owned()];
    sealed.seal(Belongs { run: &run, definition: "d", requesters: &requesters, seed, epoch: "" });
    sealed.digest
}

#[test]
fn k3_a_question_is_sealed_by_the_digest_of_what_it_says_and_by_no_other() {
    let run = RunId::fresh("01k9zq3v7m8n4p5r6s7t8v9w0x");
    let requesters = ["ann".to_owned()];
    let of =
        |seed, epoch| Belongs { run: &run, definition: "d", requesters: &requesters, seed, epoch };
    let mut asked = question(Kind::Approval);
    asked.seal(of("seed", "epoch"));
    assert!(asked.is_sealed(of("", "epoch")), "its nonce is its own");
    assert!(!asked.is_sealed(of("seed", "")), "it was asked in an epoch");
    asked.prompt.push('!');
    assert!(!asked.is_sealed(of("seed", "epoch")));
}

#[test]
fn k3_whatever_is_shown_is_in_the_digest() {
    let shown = question(Kind::Approval);
    let changes: [&dyn Fn(&mut Question); 8] = [
        &|it| it.context = json!({"amount": 10}),
        &|it| it.prompt.push('!'),
        &|it| it.subject = Some(Box::new(Subject::Shown(json!("the draft")))),
        &|it| it.options.push(option("a", "A")),
        &|it| it.schema = Some(json!({"type": "string"})),
        &|it| it.step.push('x'),
        &|it| it.kind = Kind::PlanReview,
        &|it| it.stages.push(Stage { to: vec!["cfo".into()], ..Stage::default() }),
    ];
    let plain = digest_of(&shown, "seed");
    for (index, change) in changes.iter().enumerate() {
        let mut changed = shown.clone();
        change(&mut changed);
        assert_ne!(plain, digest_of(&changed, "seed"), "change {index}");
    }
    assert_eq!(plain, digest_of(&shown, "seed"));
    assert_ne!(plain, digest_of(&shown, "another"), "the nonce is in it");
}

#[test]
fn k3_two_drafts_that_are_approved_have_two_digests() {
    let mut one = question(Kind::Approval);
    one.subject = Some(Box::new(Subject::Shown(json!("Pay 10"))));
    let mut other = one.clone();
    other.subject = Some(Box::new(Subject::Shown(json!("Pay 10000"))));
    assert_ne!(digest_of(&one, "seed"), digest_of(&other, "seed"));
}

#[test]
fn a_typed_answer_may_come_as_plain_text() {
    let mut asked = question(Kind::Clarification);
    asked.schema = Some(json!({"type": "integer", "minimum": 1}));
    assert_eq!(asked.read(&json!("30")), Ok(json!(30)));
    assert!(asked.read(&json!("thirty")).is_err());
    assert!(asked.read(&json!("0")).is_err());
}

#[test]
fn plain_text_is_read_into_simple_schemas_before_it_is_refused() {
    let cases = [
        (json!({"type": "integer"}), "30", Some(json!(30))),
        (json!({"type": "integer"}), " -4 ", Some(json!(-4))),
        (json!({"type": "integer"}), "2.5", None),
        (json!({"type": "integer"}), "99999999999999999999", None),
        (json!({"type": "number"}), "2.5", Some(json!(2.5))),
        (json!({"type": "number", "maximum": 3}), "3.5", None),
        (json!({"type": "number"}), "NaN", None),
        (json!({"type": "number"}), "1e999", None),
        (json!({"type": "number"}), "", None),
        (json!({"type": "boolean"}), "Yes", Some(json!(true))),
        (json!({"type": "boolean"}), "false", Some(json!(false))),
        (json!({"type": "boolean"}), "perhaps", None),
        (json!({"type": "array", "items": {"type": "integer"}}), "[1, 2]", Some(json!([1, 2]))),
        (json!({"type": "object", "required": ["n"]}), "{\"n\": 1}", Some(json!({"n": 1}))),
        (json!({"type": "object", "required": ["n"]}), "{\"m\": 1}", None),
        (json!({"type": "object"}), "n: 1", None),
    ];
    for (schema, text, expected) in cases {
        let mut asked = question(Kind::Clarification);
        asked.schema = Some(schema.clone());
        assert_eq!(asked.read(&json!(text)).ok(), expected, "{text:?} into {schema}");
    }
}

#[test]
fn a_decision_with_a_note_may_be_written_out_as_text() {
    let asked = question(Kind::Approval);
    let text = "{\"decision\": \"reject\", \"note\": \"not yet\"}";
    assert_eq!(asked.read(&json!(text)), Ok(json!({"decision": "reject", "note": "not yet"})));
    for text in
        ["{\"decision\": \"sure\"}", "{\"approve\": true}", "{\"decision\": \"approve\"", "{}"]
    {
        assert!(asked.read(&json!(text)).is_err(), "{text}");
    }
}

#[test]
fn what_fits_as_it_is_stays_as_it_is() {
    let mut asked = question(Kind::Clarification);
    asked.schema = Some(json!({"type": ["string", "integer"]}));
    assert_eq!(asked.read(&json!("30")), Ok(json!("30")));
    assert_eq!(asked.read(&json!(30)), Ok(json!(30)));
    let mut asked = question(Kind::Selection);
    asked.options = vec![option("2", "Two"), option("1", "One")];
    assert_eq!(asked.read(&json!("2")), Ok(json!("2")), "an id before a place");
}

#[test]
fn the_users_turn_takes_text_an_empty_list_or_the_verb_end() {
    let mut asked = question(Kind::Clarification);
    asked.origin = Origin::UserTurn;
    for value in [json!("Thank you!"), json!([]), json!({"verb": "end"})] {
        assert_eq!(asked.read(&value), Ok(value));
    }
    for value in [json!(""), json!(["x"]), json!({"verb": "stop"}), json!(null)] {
        assert!(asked.read(&value).is_err(), "{value}");
    }
}

#[test]
fn a_version_of_a_call_that_does_not_fit_is_told_the_rule_that_it_breaks_and_not_what_it_says() {
    let (id, tool, arguments) = ("c1".into(), "pay".into(), json!({}));
    let call = ToolCall { id, tool, arguments, deed: None };
    let mut asked = Question::bare(Kind::ToolApproval, Origin::Gate(Box::new(call)));
    let card = json!({"type": "object", "properties": {"number": {"pattern": "^[0-9]{16}$"}}});
    let words = ["allow_once", "deny", "edit", "return"];
    asked.schema = Some(json!({
        "type": "object",
        "properties": {
            "decision": {"enum": words},
            "arguments": {"properties": {"card": card}},
            "note": {"type": "string"},
        },
        "allOf": [Verb::Return.note_rule()],
    }));
    let edit = json!({"decision": "edit", "arguments": {"card": {"number": "hunter2"}}});
    for given in [edit.clone(), json!(edit.to_string())] {
        let wrong = asked.read(&given).expect_err("it is no number of a card");
        assert_eq!(wrong.at, "/arguments/card/number", "{wrong:?}");
        assert!(wrong.expected.contains("^[0-9]{16}$"), "{wrong:?}");
        assert!(
            !wrong.expected.contains("hunter2") && !wrong.expected.contains("note"),
            "{wrong:?}"
        );
    }
    let bare = asked.read(&json!({"decision": "return"})).expect_err("there is no note");
    assert!(bare.expected.contains("`return` needs a note"), "{bare:?}");
}
