//! What an answer that is typed promises: it is read as what was asked, or refused with what would do.

use super::*;
use crate::kernel::{Kind, Origin, Question, ToolCall};
use crate::wire::v1::Option as Choice;

/// A request with the schema that the kernel really checks against.
fn asked(kind: Kind, origin: Origin) -> Request {
    let question = Question::bare(kind, origin);
    let schema = question.response_schema().into();
    Request { response_schema: Some(schema), ..Default::default() }
}

#[test]
fn a_note_after_a_colon_goes_with_every_word_that_decides() {
    let noted = |kind, text: &str| read(&asked(kind, Origin::HumanStep), text);
    for (text, word) in [("y: mind the price", "approve"), ("No: mind the price", "reject")] {
        let meant = json!({"decision": word, "note": "mind the price"});
        assert_eq!(noted(Kind::Approval, text), Meaning::Value(meant), "{text}");
    }
    for (text, word) in [("y: once", "allow_once"), ("n: once", "deny")] {
        let meant = json!({"decision": word, "note": "once"});
        assert_eq!(ruling(text, &json!({})), Meaning::Value(meant), "{text}");
    }
    assert!(is_bare(&approve("")) && !is_bare(&approve("once")) && !is_bare(&json!("y")));
    // What is no word that decides stays none, whatever follows it (K7).
    for text in ["maybe: y", ": y", "y\u{ff1a} no", "edit: y"] {
        assert!(matches!(noted(Kind::Approval, text), Meaning::Unclear(_)), "{text}");
    }
}

#[test]
fn a_word_that_was_given_before_the_question_was_seen_stands_by_enter_a_yes_or_the_same_word() {
    for typed in ["", "  ", "y", "Y", " yes ", "YES", "approve"] {
        assert!(stands(typed, "approve"), "{typed}");
    }
    for typed in ["n", "no", "reject", "ye", "yes, but", "allow_once"] {
        assert!(!stands(typed, "approve"), "{typed}");
    }
    assert!(stands("y", "deny") && stands("no", "no"));
}

#[test]
fn a_word_with_the_code_of_its_question_is_taken_as_at_other_doors() {
    let request = Request { code: "KWQFM".into(), ..asked(Kind::Approval, Origin::HumanStep) };
    for text in ["approve KWQFM", " yes  kwqfm "] {
        assert_eq!(read(&request, text), Meaning::Value(approve("")), "{text}");
    }
    assert_eq!(read(&request, "approve KWQFM: but hurry"), Meaning::Value(approve("but hurry")));
    assert_eq!(read(&request, "reject KWQFM"), Meaning::Reject);
    for text in ["approve XXQFM", "approve KWQFM now", "KWQFM", "KWQFM approve", "ok KWQFM"] {
        assert!(matches!(read(&request, text), Meaning::Unclear(_)), "{text}");
    }
    let chosen = Request {
        code: "KWQFM".into(),
        options: ["a", "b"].map(|id| Choice { id: id.into(), ..Default::default() }).into(),
        ..asked(Kind::Selection, Origin::HumanStep)
    };
    assert_eq!(read(&chosen, "2 KWQFM"), Meaning::Value(json!("b")));
    let without = asked(Kind::Approval, Origin::HumanStep);
    assert!(matches!(read(&without, "approve KWQFM"), Meaning::Unclear(_)));
}

#[test]
fn whatever_word_the_server_takes_for_a_decision_is_taken_here() {
    let verbs = json!({"enum": ["allow_once", "deny"]});
    let fields = json!({"decision": verbs, "note": {"type": "string"}});
    let schema = json!({"type": "object", "properties": fields, "required": ["decision"]});
    let call = Origin::Gate(Box::new(ToolCall::new("c", "pay", json!({}))));
    let gate = Question { schema: Some(schema), ..Question::bare(Kind::ToolApproval, call) };
    let approval = Question::bare(Kind::Approval, Origin::HumanStep);
    let words = ["approve", "Approved", "allow", "yes", "y", "reject", "rejected", "deny"];
    for (question, yes, no) in
        [(&gate, "allow_once", Meaning::Deny), (&approval, "approve", Meaning::Reject)]
    {
        let schema = question.response_schema().into();
        let request = Request { response_schema: Some(schema), ..Default::default() };
        for word in words.into_iter().chain(["denied", "no", "n", yes]) {
            let taken = question.read(&json!(word)).unwrap();
            let meant = read(&request, word);
            let is_yes = taken["decision"] == yes;
            let same = if is_yes { meant == Meaning::Value(taken) } else { meant == no };
            assert!(same, "{word}: {meant:?}");
        }
        for word in ["ok", "maybe", "approve it", "sure"] {
            assert!(question.read(&json!(word)).is_err(), "{word}");
            assert!(matches!(read(&request, word), Meaning::Unclear(_)), "{word}");
        }
    }
}

#[test]
fn k7_only_a_clear_yes_approves() {
    for kind in [Kind::Approval, Kind::PlanReview, Kind::ToolApproval] {
        let request = asked(kind, Origin::HumanStep);
        for typed in ["y", "YES", " approve "] {
            let yes = Meaning::Value(json!({"decision": "approve"}));
            assert_eq!(read(&request, typed), yes, "{typed}");
        }
        assert_eq!(read(&request, "n"), Meaning::Reject);
        for typed in ["", "ok", "yes, but cheaper", "1", "true", "yy"] {
            assert!(matches!(read(&request, typed), Meaning::Unclear(_)), "{typed}");
        }
    }
    assert_eq!(reject(" too dear "), json!({"decision": "reject", "note": "too dear"}));
}

#[test]
fn k7_what_is_typed_twice_is_not_typed() {
    let twice = r#"{"decision": "reject", "decision": "approve"}"#;
    for kind in [Kind::Approval, Kind::PlanReview, Kind::ToolApproval] {
        let request = asked(kind, Origin::HumanStep);
        let once = r#"{"decision": "approve"}"#;
        assert_eq!(read(&request, once), Meaning::Value(json!({"decision": "approve"})));
        assert!(matches!(read(&request, twice), Meaning::Unclear(_)), "{kind:?}");
    }
    let schema = json!({"type": "object"}).into();
    let request = Request { response_schema: Some(schema), ..Default::default() };
    let why = "this question takes JSON: `decision` is given twice; say it once";
    assert_eq!(read(&request, twice), Meaning::Unclear(why.into()));
}

#[test]
fn an_option_is_chosen_by_number_unless_one_has_that_name() {
    let choice = |id: &str| Choice { id: id.into(), ..Default::default() };
    let mut request = asked(Kind::Selection, Origin::HumanStep);
    request.options = vec![choice("pier"), choice("foundry")];
    assert_eq!(read(&request, "2"), Meaning::Value(json!("foundry")));
    let why = "there is no 3: choose from 1 to 2";
    assert_eq!(read(&request, "3"), Meaning::Unclear(why.into()));
    request.options.push(choice("1"));
    assert_eq!(read(&request, "1"), Meaning::Value(json!("1")));
}

#[test]
fn a_gate_takes_the_words_that_it_offers_and_what_a_person_adds() {
    let choice = |id: &str| Choice { id: id.into(), ..Default::default() };
    let words = ["approve", "reject", "revise", "modify"];
    let schema = json!({"anyOf": [
        {"type": "object", "properties": {"decision": {"enum": words}}}, {"enum": words}]});
    let request = Request {
        response_schema: Some(schema.into()),
        options: words.map(choice).to_vec(),
        ..Default::default()
    };
    let value = |typed: &str| {
        let meant = read(&request, typed);
        let Meaning::Value(value) = meant else { panic!("{typed}: {meant:?}") };
        value
    };
    assert_eq!(value("1"), json!({"decision": "approve"}));
    assert_eq!(
        value(" Approve: keep it short"),
        json!({"decision": "approve", "note": "keep it short"})
    );
    assert_eq!(
        value("3: one step: no more"),
        json!({"decision": "revise", "note": "one step: no more"})
    );
    let own = json!({"decision": "modify", "plan": {"steps": []}});
    assert_eq!(value(&own.to_string()), own);
    assert_eq!(read(&request, "revise"), Meaning::Reasoned("revise".into()));
    assert_eq!(value("y"), value("approve"), "as at other doors");
    for typed in ["yy", "approve it", "5", "modify", "{", ": approve", ""] {
        assert!(matches!(read(&request, typed), Meaning::Unclear(_)), "{typed}");
    }
}

#[test]
fn a_conversation_can_be_ended_where_the_question_allows_it() {
    let turn = asked(Kind::Clarification, Origin::UserTurn);
    assert_eq!(read(&turn, END), Meaning::Value(json!({"verb": "end"})));
    assert_eq!(read(&turn, "Thank you!"), Meaning::Value(json!("Thank you!")));
    let plain = asked(Kind::Clarification, Origin::HumanStep);
    assert_eq!(read(&plain, END), Meaning::Value(json!(END)));
}

#[test]
fn a_lost_outcome_is_answered_by_verb() {
    let request = asked(Kind::OutcomeCheck, Origin::LostOutcome("c1".into()));
    assert_eq!(read(&request, "redo"), Meaning::Value(json!({"verb": "redo"})));
    assert_eq!(read(&request, "h"), Meaning::Happened);
    let came = json!({"verb": "happened", "result": {"id": 1}});
    assert_eq!(read(&request, "happened: {\"id\": 1}"), Meaning::Value(came));
    assert!(matches!(read(&request, "redo: {\"id\": 1}"), Meaning::Unclear(_)));
    assert!(takes(&request).contains("happened: what came of it"), "{}", takes(&request));
    assert!(matches!(read(&request, "maybe"), Meaning::Unclear(_)));
    assert_eq!(happened("{\"id\": 1}"), json!({"verb": "happened", "result": {"id": 1}}));
    assert_eq!(happened("sent"), json!({"verb": "happened", "result": "sent"}));
}
