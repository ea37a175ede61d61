//! Asking: `request_user_input` by tool call, and what each agent sees of it.

use serde_json::json;

use super::cast::{patience, sequence, step};
use super::stage::{Act, Stage, answers, calls, play, returns, says};
use crate::kernel::{Kind, OnTimeout};

fn asks(arguments: serde_json::Value) -> Act {
    calls("Hm.", [("c1", "request_user_input", arguments)])
}

#[test]
fn k5_the_asker_sees_the_outcome_and_others_the_question_and_the_answer() {
    let mut stage = Stage::open(&sequence(vec![step("a"), step("b")]), "Hello");
    stage.perform([asks(json!({"prompt": "How many?"})), answers(1, "thirty")]);
    assert_eq!(
        stage.given(),
        "\
user ann: Hello
assistant a: Hm. [\"request_user_input\"]
tool : thirty
"
    );
    stage.perform([says("Thirty it is.")]);
    assert_eq!(
        stage.given(),
        "\
user ann: Hello
assistant a: Hm.
assistant a: How many?
user ann: thirty
assistant a: Thirty it is.
"
    );
}

#[test]
fn a_question_carries_what_the_agent_said_about_it() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    let options = json!(["x", {"id": "y", "label": "Why", "description": "the other"}]);
    stage.perform([asks(json!({
        "prompt": "Which?", "request_type": "selection", "options": options,
        "context": {"price": 0.1},
    }))]);
    let asked = &stage.run.questions[&1];
    assert_eq!(
        (asked.kind, asked.agent.as_deref(), asked.turn),
        (Kind::Selection, Some("a"), Some(1))
    );
    assert_eq!((asked.options[0].label(), asked.options[1].label()), ("x", "Why"));
    assert_eq!(asked.context, json!({"price": 0.1}));
    stage.perform([answers(1, "z"), answers(1, "why")]);
    assert!(stage.told.contains("answers #1 \"z\" -> refused answer.invalid"));
    assert!(stage.given().ends_with("tool : y\n"));
}

#[test]
fn a_call_that_asks_nothing_sensible_is_told_so() {
    for arguments in [
        json!(null),
        json!({}),
        json!({"prompt": ""}),
        json!({"prompt": "Which?", "request_type": "selection"}),
        json!({"prompt": "Which?", "request_type": "selection", "options": ["x", "x"]}),
        json!({"prompt": "Which?", "request_type": "outcome_check"}),
    ] {
        let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
        stage.perform([asks(arguments.clone())]);
        assert!(stage.given().contains("tool : error: "), "{arguments}: {}", stage.told);
        assert!(stage.run.endings.is_empty(), "{arguments}");
    }
}

#[test]
fn a_mark_of_secrecy_that_is_neither_yes_nor_no_is_told_to_the_agent_and_nobody_is_asked() {
    let asked = |schema: serde_json::Value| {
        let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
        stage.perform([asks(json!({"prompt": "Your PIN?", "response_schema": schema}))]);
        stage
    };
    let pin = |secret: serde_json::Value| json!({"type": "object", "properties": {"pin": {"type": "string", "secret": secret}}});
    for secret in [json!("true"), json!(1), json!("yes"), json!(null), json!([true]), json!({})] {
        let stage = asked(pin(secret.clone()));
        let told = "tool : error: `response_schema`: `secret` marks what is for those who decide";
        assert!(stage.given().contains(told), "{secret}: {}", stage.given());
        assert!(stage.run.questions.is_empty(), "{secret}");
    }
    for secret in [true, false] {
        assert_eq!(asked(pin(json!(secret))).run.questions.len(), 1, "{secret}");
    }
}

#[test]
fn an_agent_whose_human_input_is_off_is_not_offered_the_tool() {
    let mut workflow = sequence(vec![step("a")]);
    workflow.agents.get_mut("a").expect("cast").human_input.enabled = false;
    let mut stage = Stage::open(&workflow, "Hello");
    let turn = stage.run.turns.values().next().expect("a turn");
    let input = crate::kernel::input_of(&stage.run, turn).expect("cast");
    assert!(input.tools.iter().all(|tool| tool.name != "request_user_input"));
    stage.perform([asks(json!({"prompt": "How many?"}))]);
    assert!(stage.given().ends_with("tool : error: there is no tool `request_user_input`\n"));
}

#[test]
fn k7_a_rejected_expired_or_withdrawn_approval_is_told_to_the_agent_as_a_no() {
    let mut workflow = sequence(vec![step("a")]);
    let input = &mut workflow.agents.get_mut("a").expect("cast").human_input;
    input.patience = patience(500, OnTimeout::Continue);
    let outcome_of = |act: Act| {
        let mut stage = Stage::open(&workflow, "Hello");
        stage.perform([asks(json!({"prompt": "May I?", "request_type": "approval"})), act]);
        stage.given().lines().last().expect("an outcome").to_owned()
    };
    assert_eq!(outcome_of(answers(1, "no")), "tool : {\"decision\":\"reject\"}");
    let expired = "tool : Rejected: nobody answered before the deadline. Do not go ahead.";
    assert_eq!(outcome_of(Act::Waits(500)), expired);
    let withdrawn = "tool : The question was withdrawn. Do not go ahead.";
    assert_eq!(outcome_of(Act::Withdraws(1)), withdrawn);
}

#[test]
fn a_question_and_a_tool_may_be_under_way_at_once() {
    let script = [
        calls(
            "",
            [
                ("c1", "request_user_input", json!({"prompt": "How many?"})),
                ("c2", "lookup", json!({"id": 3})),
            ],
        ),
        answers(1, "thirty"),
        returns("c2", json!("found")),
        says("Done."),
    ];
    assert_eq!(
        play(&sequence(vec![step("a")]), script),
        "\
a
calls request_user_input, lookup -> lookup(c2)
answers #1 \"thirty\" -> lookup(c2)
c2 returns \"found\" -> a
says \"Done.\" -> completed with \"Done.\"
"
    );
}

#[test]
fn calls_that_share_an_id_are_told_apart() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    let ask = || json!({"prompt": "How many?"});
    stage.perform([
        calls(
            "",
            [
                ("c", "request_user_input", ask()),
                ("c", "request_user_input", ask()),
                ("", "lookup", json!({})),
            ],
        ),
        answers(1, "one"),
        returns("call-2", json!(3)),
        answers(2, "two"),
        calls("", [("c", "lookup", json!({}))]),
    ]);
    assert_eq!(
        stage.told,
        "\
a
calls request_user_input, request_user_input, lookup -> lookup(call-2)
answers #1 \"one\" -> lookup(call-2)
call-2 returns 3 -> waiting for #2 clarification
answers #2 \"two\" -> a
calls lookup -> lookup(c-3)
"
    );
}

#[test]
fn an_unknown_tool_and_wrong_arguments_are_told_to_the_agent() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([calls(
        "",
        [("c1", "teleport", json!({})), ("c2", "lookup", json!({"id": "three"}))],
    )]);
    let given = stage.given();
    assert!(given.contains("tool : error: there is no tool `teleport`"), "{given}");
    assert!(given.contains("tool : error: arguments: expected"), "{given}");
}

#[test]
fn k5_a_broken_tool_is_told_to_its_caller_alone() {
    let mut stage = Stage::open(&sequence(vec![step("a"), step("b")]), "Hello");
    stage.perform([
        calls("", [("c1", "charge", json!({}))]),
        Act::Returns("c1".into(), Err("card declined".into())),
    ]);
    assert!(stage.given().ends_with("tool : error: card declined [world.fault]\n"));
    stage.perform([says("It did not work.")]);
    assert_eq!(stage.given(), "user ann: Hello\nassistant a: It did not work.\n");
}
