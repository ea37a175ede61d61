//! Sequential: agents speak one after the other, people decide, and a no is the end of the road.

use serde_json::json;

use super::cast::{forever, human, patience, sequence, step};
use super::stage::{Act, Stage, answers, play, says};
use crate::kernel::workflow::{Work, Workflow};
use crate::kernel::{Kind, OnTimeout, Status};

fn approved_draft() -> Workflow {
    sequence(vec![step("a"), human("ok", Kind::Approval, forever()), step("b")])
}

#[test]
fn steps_follow_one_another_and_the_last_words_are_the_output() {
    let told = play(&sequence(vec![step("a"), step("b")]), [says("One."), says("Two.")]);
    assert_eq!(
        told,
        "\
a
says \"One.\" -> b
says \"Two.\" -> completed with \"Two.\"
"
    );
}

#[test]
fn an_approved_step_lets_the_next_one_begin() {
    let told = play(&approved_draft(), [says("Draft."), answers(1, "yes"), says("Sent.")]);
    assert_eq!(
        told,
        "\
a
says \"Draft.\" -> waiting for #1 approval
answers #1 \"yes\" -> b
says \"Sent.\" -> completed with \"Sent.\"
"
    );
}

#[test]
fn what_is_returned_is_done_again_with_the_note_and_asked_again() {
    let mut stage = Stage::open(&approved_draft(), "Hello");
    let returned = |ordinal| answers(ordinal, json!({"decision": "return", "note": "shorter"}));
    stage.perform([says("Draft."), answers(1, "return"), returned(1)]);
    assert!(stage.given().contains("user ann: Returned: shorter\n"), "{}", stage.given());
    stage.perform([says("Dft.")]);
    let told = &stage.run.questions[&2].context["returned"];
    assert_eq!(
        *told,
        json!({"by": "ann", "note": "shorter"}),
        "whoever is asked again is told why"
    );
    stage.perform([returned(2), says("D."), answers(3, "yes"), says("Sent.")]);
    assert_eq!(
        stage.told,
        "\
a
says \"Draft.\" -> waiting for #1 approval
answers #1 \"return\" -> refused answer.invalid
answers #1 {\"decision\":\"return\",\"note\":\"shorter\"} -> a
says \"Dft.\" -> waiting for #2 approval
answers #2 {\"decision\":\"return\",\"note\":\"shorter\"} -> a
says \"D.\" -> waiting for #3 approval
answers #3 \"yes\" -> b
says \"Sent.\" -> completed with \"Sent.\"
"
    );
}

#[test]
fn nothing_is_returned_where_no_agent_made_it() {
    let asks = sequence(vec![human("ok", Kind::Approval, forever()), step("b")]);
    let mut stage = Stage::open(&asks, "Hello");
    stage.perform([answers(1, json!({"decision": "return", "note": "shorter"}))]);
    assert!(stage.told.contains("refused answer.invalid"), "{}", stage.told);
}

#[test]
fn k4_a_rejected_step_ends_the_run_and_says_who_and_why() {
    let mut stage = Stage::open(&approved_draft(), "Hello");
    stage.perform([
        says("Draft."),
        answers(1, json!({"decision": "reject", "note": "too long"})),
        says("Sent."),
        answers(1, "yes"),
    ]);
    assert_eq!(
        stage.told,
        "\
a
says \"Draft.\" -> waiting for #1 approval
answers #1 {\"decision\":\"reject\",\"note\":\"too long\"} -> failed question.rejected
says \"Sent.\" -> refused work.stale
answers #1 \"yes\" -> refused request.already_answered
"
    );
    let Status::Failed(failure) = &stage.run.status else { panic!("failed") };
    assert_eq!(failure.message, "ann rejected step `ok`: too long");
}

#[test]
fn k4_a_rejected_plan_review_ends_the_run_too() {
    let workflow = sequence(vec![human("plan", Kind::PlanReview, forever()), step("a")]);
    let told = play(&workflow, [answers(1, "no")]);
    assert_eq!(told, "waiting for #1 plan_review\nanswers #1 \"no\" -> failed question.rejected\n");
}

#[test]
fn k4_a_no_under_a_schema_of_the_files_own_is_a_no() {
    let mut workflow = approved_draft();
    let crate::kernel::workflow::Pattern::Sequential { steps } = &mut workflow.pattern else {
        panic!("sequential")
    };
    let Work::Human(asked) = &mut steps[1].work else { panic!("human") };
    asked.response_schema = Some(json!({"type": "object", "properties": {
        "decision": {"enum": ["approve", "reject"]}, "limit": {"type": "integer"},
    }, "required": ["decision"]}));
    let no = json!({"decision": "reject", "limit": 3});
    let told = play(&workflow, [says("Draft."), answers(1, no)]);
    assert!(told.ends_with("-> failed question.rejected\n"), "{told}");
    let yes = json!({"decision": "approve", "limit": 3});
    let told = play(&workflow, [says("Draft."), answers(1, yes)]);
    assert!(told.ends_with("-> b\n"), "{told}");
}

#[test]
fn k4_an_expired_approval_ends_the_run() {
    let workflow =
        sequence(vec![human("ok", Kind::Approval, patience(500, OnTimeout::Reject)), step("b")]);
    let told = play(&workflow, [Act::Waits(499), Act::Waits(1), answers(1, "yes")]);
    assert_eq!(
        told,
        "\
waiting for #1 approval
waits 499 -> waiting for #1 approval
waits 1 -> failed question.expired
answers #1 \"yes\" -> refused request.closed
"
    );
}

#[test]
fn k4_a_withdrawn_approval_cancels_the_run() {
    let script = [says("Draft."), Act::Withdraws(1), Act::Withdraws(1), answers(1, "yes")];
    assert_eq!(
        play(&approved_draft(), script),
        "\
a
says \"Draft.\" -> waiting for #1 approval
withdraws #1 -> cancelled by ann
withdraws #1 -> refused request.closed
answers #1 \"yes\" -> refused request.closed
"
    );
}

#[test]
fn k7_silence_never_approves_whatever_the_file_says() {
    for on_timeout in [OnTimeout::Continue, OnTimeout::DefaultAnswer(json!("approve"))] {
        let asked = human("ok", Kind::Approval, patience(500, on_timeout));
        let told = play(&sequence(vec![asked, step("b")]), [Act::Waits(500)]);
        assert!(told.ends_with("-> failed question.expired\n"), "{told}");
    }
}

#[test]
fn k7_what_is_not_clearly_a_yes_is_refused_and_the_question_stays_open() {
    let script = [
        says("Draft."),
        answers(1, "sure, why not"),
        answers(1, json!(null)),
        answers(1, json!({"decision": "approve", "also": 1})),
        answers(1, "approve"),
    ];
    assert_eq!(
        play(&approved_draft(), script),
        "\
a
says \"Draft.\" -> waiting for #1 approval
answers #1 \"sure, why not\" -> refused answer.invalid
answers #1 null -> refused answer.invalid
answers #1 {\"decision\":\"approve\",\"also\":1} -> refused answer.invalid
answers #1 \"approve\" -> b
"
    );
}

#[test]
fn a_run_that_ends_with_a_person_keeps_the_agents_words_as_its_output() {
    let workflow = sequence(vec![step("a"), human("ok", Kind::Approval, forever())]);
    let told = play(&workflow, [says("Draft."), answers(1, "yes")]);
    assert!(told.ends_with("completed with \"Draft.\"\n"), "{told}");
    let workflow = sequence(vec![human("pick", Kind::Selection, forever())]);
    let told = play(&workflow, [answers(1, "2")]);
    assert!(told.ends_with("completed with \"y\"\n"), "{told}");
}

#[test]
fn k5_the_next_agent_reads_what_the_person_was_asked_and_said() {
    let mut stage = Stage::open(&approved_draft(), "Hello");
    stage.perform([says("Draft."), answers(1, json!({"decision": "approve", "note": "nice"}))]);
    assert_eq!(
        stage.given(),
        "\
user ann: Hello
assistant a: Draft.
assistant : Well?
user ann: {\"decision\":\"approve\",\"note\":\"nice\"}
"
    );
}

#[test]
fn a_structured_output_is_the_runs_output() {
    let mut workflow = sequence(vec![step("a")]);
    let schema = json!({"type": "object", "required": ["n"]});
    workflow.agents.get_mut("a").expect("cast").output = Some(schema);
    let script = [says("not json"), Act::Outputs(json!({})), says("{\"n\": 1.5}")];
    assert_eq!(
        play(&workflow, script),
        "\
a
says \"not json\" -> a
outputs {} -> a
says \"{\\\"n\\\": 1.5}\" -> completed with {\"n\":1.5}
"
    );
}

#[test]
fn an_input_that_does_not_fit_starts_nothing() {
    use crate::kernel::{RunId, start};
    let mut workflow = sequence(vec![step("a")]);
    let try_with = |workflow: &Workflow, input: serde_json::Value| {
        let started = super::stage::started(input);
        let id = RunId::fresh(super::stage::STEM);
        let (nothing, now) = (crate::kernel::Earlier::default(), crate::kernel::Millis(0));
        let refused =
            start(id, workflow.clone().into(), started, (nothing, std::sync::Arc::default()), now);
        refused.map(|_| ()).map_err(|declined| declined.to_string())
    };
    for input in [json!(""), json!("  "), json!(null), json!(3), json!([])] {
        assert!(try_with(&workflow, input.clone()).is_err(), "{input}");
    }
    let mut deep = json!(1);
    for _ in 0..1000 {
        deep = json!([deep]);
    }
    let told = try_with(&workflow, json!({"deep": deep})).expect_err("too deep");
    assert_eq!(told, "input is too large: it may nest 64 deep");
    assert!(try_with(&workflow, json!("x".repeat(17 << 20))).is_err());
    workflow.input = Some(json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
    let told = try_with(&workflow, json!({"n": "x"})).expect_err("not an integer");
    assert!(told.starts_with("input/n: expected"), "{told}");
    assert_eq!(try_with(&workflow, json!({"n": 1})), Ok(()));
}
