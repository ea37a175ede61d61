//! Time: deadlines are due at their own millisecond and never early; a retry keeps its pause.

use serde_json::json;

use super::cast::{human, patience, sequence, step, support, terms};
use super::stage::{Act, Stage, answers, play, says};
use crate::kernel::workflow::Handoff;
use crate::kernel::{Closing, Command, Decision, Event, Kind, Millis, OnTimeout, Status, decide};

fn asked(kind: Kind, on_timeout: OnTimeout) -> crate::kernel::Workflow {
    sequence(vec![human("q", kind, patience(1000, on_timeout)), step("a")])
}

#[test]
fn a_deadline_is_due_at_its_own_millisecond_and_never_early() {
    let script = [Act::Waits(999), Act::Waits(1)];
    assert_eq!(
        play(&asked(Kind::Clarification, OnTimeout::Continue), script),
        "\
waiting for #1 clarification
waits 999 -> waiting for #1 clarification
waits 1 -> a
"
    );
}

#[test]
fn at_the_deadline_itself_an_answer_is_too_late_even_before_the_clock_is_looked_at() {
    let mut stage = Stage::open(&asked(Kind::Clarification, OnTimeout::Continue), "Hello");
    stage.now = Millis(1000);
    stage.perform([answers(1, "late")]);
    assert!(stage.told.ends_with("-> refused request.closed\n"), "{}", stage.told);
    stage.now = Millis(999);
    stage.perform([answers(1, "just in time")]);
    assert!(stage.told.ends_with("-> a\n"), "{}", stage.told);
}

#[test]
fn a_default_answer_is_said_as_if_somebody_had() {
    let on_timeout = OnTimeout::DefaultAnswer(json!("2"));
    let mut stage = Stage::open(&asked(Kind::Selection, on_timeout), "Hello");
    stage.perform([Act::Waits(1000)]);
    assert_eq!(stage.given(), "user ann: Hello\nassistant : Well?\nuser timer: y\n");
    stage.perform([answers(1, "x")]);
    assert!(stage.told.ends_with("-> refused request.already_answered\n"));
}

#[test]
fn k7_a_default_that_does_not_fit_is_no_answer() {
    for on_timeout in [json!("z"), json!(null), json!({"decision": "approve"})] {
        let workflow = asked(Kind::Selection, OnTimeout::DefaultAnswer(on_timeout));
        let told = play(&workflow, [Act::Waits(1000)]);
        assert!(told.ends_with("-> failed question.expired\n"), "{told}");
    }
}

#[test]
fn k7_an_approval_is_rejected_by_silence_even_if_its_terms_were_tampered_with() {
    let mut stage = Stage::open(&asked(Kind::Approval, OnTimeout::Reject), "Hello");
    for on_timeout in [OnTimeout::Continue, OnTimeout::DefaultAnswer(json!("approve"))] {
        let asked = stage.run.questions.get_mut(&1).expect("open");
        std::sync::Arc::make_mut(asked).on_timeout = on_timeout;
        let decision = decide(&stage.run, &Command::Tick, Millis(1000)).expect("a tick");
        let closing = Closing::Rejected;
        let rejected = vec![Event::closed_by_itself(1, closing, "timer")];
        assert_eq!(decision, Decision::Events(rejected));
    }
}

#[test]
fn a_clarification_that_rejects_by_silence_ends_the_run() {
    let told = play(&asked(Kind::Clarification, OnTimeout::Reject), [Act::Waits(5000)]);
    assert!(told.ends_with("-> failed question.expired\n"), "{told}");
}

#[test]
fn the_users_turn_may_pass_or_end_by_silence() {
    let on = |on_timeout| support(Handoff { patience: patience(1000, on_timeout), ..terms() });
    let script = || [says("Hi."), Act::Waits(1000)];
    assert!(play(&on(OnTimeout::Continue), script()).ends_with("-> triage\n"));
    let ends = on(OnTimeout::DefaultAnswer(json!({"verb": "end"})));
    assert!(play(&ends, script()).ends_with("-> completed with 2 messages\n"));
    assert!(play(&on(OnTimeout::Reject), script()).ends_with("-> failed question.expired\n"));
}

#[test]
fn deadlines_that_pass_together_are_all_seen() {
    let mut workflow = sequence(vec![step("a")]);
    let input = &mut workflow.agents.get_mut("a").expect("cast").human_input;
    input.patience = patience(1000, OnTimeout::Continue);
    let ask = || json!({"prompt": "Well?"});
    let two = super::stage::calls(
        "",
        [("c1", "request_user_input", ask()), ("c2", "request_user_input", ask())],
    );
    let told = play(&workflow, [two, Act::Waits(1000)]);
    assert!(told.ends_with("waits 1000 -> a\n"), "{told}");
}

#[test]
fn a_failed_attempt_is_tried_again_after_a_growing_pause_and_then_the_run_fails() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    let mut pauses = Vec::new();
    for _ in 0..2 {
        stage.perform([Act::Fails(true)]);
        let due = stage.run.wake_at().expect("a retry");
        let pause = due.since(stage.now);
        stage.perform([says("Too soon."), Act::Waits(pause - 1)]);
        assert_eq!(stage.run.wake_at(), Some(due), "never early");
        stage.perform([Act::Waits(1)]);
        pauses.push(pause);
    }
    assert!((750..=1000).contains(&pauses[0]), "{pauses:?}");
    assert!((1500..=2000).contains(&pauses[1]), "{pauses:?}");
    stage.perform([Act::Fails(true)]);
    assert!(stage.told.contains("waits 1 -> a try 3\n"), "{}", stage.told);
    assert!(stage.told.ends_with("fails -> failed step.failed\n"), "{}", stage.told);
    assert_eq!(stage.told.matches("refused work.stale").count(), 2);
}

#[test]
fn a_pause_never_grows_beyond_its_bound() {
    let mut workflow = sequence(vec![step("a")]);
    workflow.agents.get_mut("a").expect("cast").retry.attempts = 40;
    let mut stage = Stage::open(&workflow, "Hello");
    for _ in 0..39 {
        stage.perform([Act::Fails(true)]);
        let pause = stage.run.wake_at().expect("a retry").since(stage.now);
        assert!((1..=3000).contains(&pause), "{pause}");
        stage.perform([Act::Waits(pause)]);
    }
    stage.perform([Act::Fails(true)]);
    assert!(matches!(stage.run.status, Status::Failed(_)));
}

#[test]
fn what_another_try_cannot_help_fails_at_once_and_says_why() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([Act::Fails(false)]);
    let Status::Failed(failure) = &stage.run.status else { panic!("failed") };
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("step.failed", "step `a` failed: no line")
    );
}
