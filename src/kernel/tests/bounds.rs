//! Bounds: a run that will not end, an agent that will not stop and a conversation that grows too
//! large end clearly (E6).

use serde_json::{Value, json};

use super::cast::{coordination, sequence, step, support, terms};
use super::stage::{Act, Stage, answers, calls, directs, hands_to, play, returns, says};
use crate::kernel::{
    CONVERSATION_BYTES_MAX, Command, Corruption, Event, Millis, REPLY_BYTES_MAX, Recorded, replay,
};

fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(1), |value, _| json!([value]))
}

#[test]
fn a_loop_meets_the_step_cap() {
    let mut workflow = coordination();
    workflow.limits.steps = 3;
    let on = || directs("On.", Some("chief"), None);
    let told = play(&workflow, [on(), on(), on()]);
    assert!(told.ends_with("-> chief\ndirects \"On.\" -> failed step.cap\n"), "{told}");
}

#[test]
fn a_circle_of_handoffs_meets_the_step_cap() {
    let mut terms = terms();
    terms.handoffs.insert("repair".into(), vec!["triage".into()]);
    let mut workflow = support(terms);
    workflow.limits.steps = 4;
    let script = ["repair", "triage", "repair", "triage"].map(hands_to);
    let told = play(&workflow, script);
    assert!(told.ends_with("-> repair\ncalls handoff_to_triage -> failed step.cap\n"), "{told}");
}

#[test]
fn a_tool_that_does_not_exist_is_told_until_the_cap() {
    let mut workflow = sequence(vec![step("a")]);
    workflow.limits.rounds = 3;
    let call = || calls("", [("c", "teleport", json!({}))]);
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([call(), call()]);
    assert!(stage.given().ends_with("tool : error: there is no tool `teleport`\n"));
    stage.perform([call()]);
    assert!(stage.told.ends_with("calls teleport -> failed step.rounds\n"), "{}", stage.told);
}

#[test]
fn an_agent_is_called_as_often_as_the_cap_says_and_no_more() {
    let mut workflow = sequence(vec![step("a")]);
    workflow.limits.rounds = 2;
    let look = || calls("", [("c", "lookup", json!({}))]);
    let script = [look(), returns("c", json!(1)), look(), returns("c-2", json!(2))];
    let told = play(&workflow, script);
    assert!(told.ends_with("c-2 returns 2 -> failed step.rounds\n"), "{told}");
    let told = play(&workflow, [look(), returns("c", json!(1)), says("Done.")]);
    assert!(told.ends_with("-> completed with \"Done.\"\n"), "{told}");
}

#[test]
fn a_reply_that_says_nothing_is_corrected_and_then_fails() {
    let told = play(&sequence(vec![step("a")]), [says(""), says(""), says("")]);
    assert!(told.ends_with("-> failed reply.invalid\n"), "{told}");
}

#[test]
fn a_reply_too_large_or_with_too_many_calls_fails() {
    let fails_with = |act: Act, code: &str| {
        let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
        stage.act(&act).expect("taken");
        let told = format!("{:?}", stage.run.status);
        assert!(told.contains(code), "{told}");
    };
    fails_with(says(&"x".repeat(REPLY_BYTES_MAX + 1)), "reply.too_large");
    let arguments = json!({"note": "x".repeat(REPLY_BYTES_MAX)});
    fails_with(calls("", [("c", "lookup", arguments)]), "reply.too_large");
    fails_with(Act::Outputs(json!("x".repeat(REPLY_BYTES_MAX))), "reply.too_large");
    let many = std::array::from_fn::<_, 65, _>(|_| ("c", "lookup", json!({})));
    fails_with(calls("", many), "reply.too_many_calls");
}

#[test]
fn what_nests_too_deep_is_never_journalled() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([calls("", [("c1", "lookup", json!({"x": deep(100)}))])]);
    assert!(stage.given().contains("the arguments of `lookup` nest deeper than 64"));
    stage.perform([
        calls("", [("c2", "lookup", json!({}))]),
        returns("c2", deep(100)),
        calls("", [("c3", "request_user_input", json!({"prompt": "Well?"}))]),
    ]);
    assert!(stage.told.contains("-> waiting for #1"), "{}", stage.told);
    stage.perform([answers(1, deep(100))]);
    assert!(stage.told.ends_with("-> refused field.too_large\n"));
    let text = serde_json::to_string(&stage.journal.iter().map(|r| &r.event).collect::<Vec<_>>());
    assert!(!text.expect("written").contains("[[[["));
}

#[test]
fn a_tool_outcome_too_large_is_told_instead() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([calls("", [("c1", "lookup", json!({}))])]);
    stage.act(&returns("c1", json!("x".repeat(REPLY_BYTES_MAX + 1)))).expect("taken");
    assert!(
        stage
            .given()
            .ends_with("tool : error: the outcome has more than 1048576 bytes [tool.too_large]\n")
    );
}

#[test]
fn a_conversation_too_large_ends_the_run() {
    let nearly = "x".repeat(CONVERSATION_BYTES_MAX - 100);
    let mut stage = Stage::open(&sequence(vec![step("a"), step("b")]), nearly);
    stage.act(&says(&"x".repeat(200))).expect("taken");
    assert!(format!("{:?}", stage.run.status).contains("conversation.too_large"));
}

#[test]
fn an_answer_that_would_make_it_too_large_is_refused_and_may_be_shorter() {
    let ask = calls("", [("c1", "request_user_input", json!({"prompt": "Well?"}))]);
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([ask]);
    let too_much = answers(1, "x".repeat(CONVERSATION_BYTES_MAX));
    assert_eq!(stage.act(&too_much), Err("field.too_large"));
    assert_eq!(stage.act(&answers(1, "short")), Ok(None));
}

#[test]
fn text_while_the_agent_speaks_belongs_to_its_attempt() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    let delta = |attempt| Command::Delta { turn: 1, attempt, text: "Wel".into() };
    assert_eq!(stage.command_by(&delta(1)), Ok(None));
    assert_eq!(stage.command_by(&delta(2)), Err("work.stale"));
    stage.perform([says("Well.")]);
    assert_eq!(stage.command_by(&delta(1)), Err("work.stale"));
}

#[test]
fn a_journal_that_cannot_have_happened_is_corruption() {
    let mut stage = Stage::open(&sequence(vec![step("a"), step("b")]), "Hello");
    stage.perform([says("One."), says("Two.")]);
    let fold = |journal: &[Recorded]| {
        replay(&stage.run.id, std::sync::Arc::clone(&stage.run.workflow), journal)
            .map_err(|Corruption { version, why, .. }| (version, why))
    };
    assert_eq!(fold(&stage.journal), Ok(stage.run.clone()));
    assert_eq!(fold(&[]), Err((0, "the journal is empty")));
    assert_eq!(fold(&stage.journal[1..]), Err((2, "a journal begins with `started`")));
    let gap: Vec<_> = stage.journal.iter().filter(|entry| entry.version != 3).cloned().collect();
    assert_eq!(fold(&gap), Err((4, "J5: a gap in the versions")));
    let mut longer = stage.journal.clone();
    let version = stage.run.version + 1;
    longer.push(Recorded { version, at: Millis(0), event: Event::Completed });
    assert_eq!(fold(&longer), Err((version, "K6: the run is over")));
}
