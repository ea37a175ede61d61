//! Budgets: what a run and its session may spend, counted from the journal, so that nothing is
//! refilled by dying.

use serde_json::json;

use super::cast::{sequence, step};
use super::stage::{Act, Stage, answers, calls, play, returns, says};
use crate::kernel::{
    Budget, Budgets, Command, Effect, Event, OnExceeded, Reply, Spent, Usage, Workflow, plan,
};

fn bounded(run: Budget, on_exceeded: OnExceeded) -> Workflow {
    let mut workflow = sequence(vec![step("a"), step("b")]);
    workflow.limits.budgets = Budgets { run, on_exceeded, ..Budgets::default() };
    workflow
}

fn looks(id: &str) -> Act {
    calls("", [(id, "lookup", json!({}))])
}

/// What `b` says, for so many tokens.
fn costly(stage: &Stage, tokens: u64) -> Command {
    let turn = stage.run.turns.values().next().expect("a turn");
    let usage = Usage { input_tokens: tokens - 1, output_tokens: 1 };
    let reply = Reply { text: "Well.".into(), usage, ..Reply::default() };
    Command::Replied { turn: turn.number, attempt: turn.attempt, reply, summarises: None }
}

fn failed_with(stage: &Stage, text: &str) {
    let told = format!("{:?}", stage.run.status);
    assert!(told.contains("budget.exceeded") && told.contains(text), "{told}");
}

#[test]
fn no_step_too_many_is_performed() {
    let budget = Budget { steps: Some(1), ..Budget::default() };
    let told = play(&bounded(budget, OnExceeded::Fail), [says("One.")]);
    assert!(told.ends_with("says \"One.\" -> failed budget.exceeded\n"), "{told}");
}

#[test]
fn no_model_call_too_many_is_made_and_failed_ones_count() {
    let budget = Budget { model_calls: Some(3), ..Budget::default() };
    let workflow = bounded(budget, OnExceeded::Fail);
    let script = [looks("c"), Act::Recovers, returns("c", json!(1)), says("One."), says("Two.")];
    let told = play(&workflow, script);
    assert!(told.ends_with("says \"Two.\" -> completed with \"Two.\"\n"), "{told}");
    // The attempt that was cut off was a model call, too: dying refills nothing.
    let script = [looks("c"), returns("c", json!(1)), Act::Recovers, says("One.")];
    let told = play(&workflow, script);
    assert!(told.ends_with("says \"One.\" -> failed budget.exceeded\n"), "{told}");
}

#[test]
fn no_tool_call_too_many_is_made() {
    let budget = Budget { tool_calls: Some(1), ..Budget::default() };
    let mut stage = Stage::open(&bounded(budget, OnExceeded::Fail), "Hello");
    stage.perform([looks("c"), returns("c", json!(1)), looks("d")]);
    failed_with(&stage, "`run.tool_calls` of 1 tool call");
    let script = [calls("", [("c", "lookup", json!({})), ("d", "charge", json!({}))])];
    let told = play(&bounded(budget, OnExceeded::Fail), script);
    assert!(told.ends_with("-> failed budget.exceeded\n"), "none of them is performed: {told}");
}

#[test]
fn tokens_are_counted_and_the_call_that_passes_the_bound_is_the_last() {
    let budget = Budget { tokens: Some(100), ..Budget::default() };
    let mut stage = Stage::open(&bounded(budget, OnExceeded::Fail), "Hello");
    let first = costly(&stage, 250);
    assert_eq!(stage.command_by(&first), Ok(None));
    failed_with(&stage, "`run.tokens` of 100 tokens");
    // What comes to its end with the bound passed has come to its end.
    let mut workflow = bounded(budget, OnExceeded::Fail);
    workflow.limits.budgets.run.tokens = Some(300);
    let mut stage = Stage::open(&workflow, "Hello");
    for tokens in [200, 200] {
        let next = costly(&stage, tokens);
        assert_eq!(stage.command_by(&next), Ok(None));
    }
    assert_eq!(stage.run.status, crate::kernel::Status::Completed);
    assert_eq!(stage.run.spent.tokens, 400);
}

#[test]
fn time_is_up_at_its_millisecond_and_waiting_for_people_costs_none() {
    let budget = Budget { wall_ms: Some(1_000), ..Budget::default() };
    let workflow = bounded(budget, OnExceeded::Fail);
    let told = play(&workflow, [Act::Waits(999), Act::Waits(1)]);
    assert!(told.contains("waits 999 -> a, clock at "), "{told}");
    assert!(told.ends_with("waits 1 -> failed budget.exceeded\n"), "{told}");
    let ask = calls("", [("c", "request_user_input", json!({"prompt": "Well?"}))]);
    let script = [Act::Waits(600), ask, Act::Waits(90_000), answers(1, "x"), Act::Waits(399)];
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform(script);
    assert_eq!(stage.run.status, crate::kernel::Status::Running, "{}", stage.told);
    stage.perform([Act::Recovers, Act::Waits(1)]);
    failed_with(&stage, "`run.wall_time` of 1000 ms");
}

#[test]
fn a_person_may_extend_a_budget_by_as_much_again_and_again() {
    let budget = Budget { tool_calls: Some(1), ..Budget::default() };
    let mut stage = Stage::open(&bounded(budget, OnExceeded::Ask), "Hello");
    stage.perform([looks("c"), returns("c", json!(1)), looks("d")]);
    assert!(stage.told.ends_with("-> waiting for #1 approval\n"), "{}", stage.told);
    let asked = &stage.run.questions[&1];
    assert!(asked.prompt.contains("spent its budget of 1 tool call."), "{}", asked.prompt);
    assert_eq!(asked.context["budget"], "run.tool_calls");
    stage.perform([Act::Recovers, answers(1, "yes")]);
    assert!(stage.told.ends_with("answers #1 \"yes\" -> lookup(d)\n"), "{}", stage.told);
    stage.perform([returns("d", json!(2)), looks("e"), answers(2, "yes")]);
    assert!(stage.told.ends_with("-> lookup(e)\n"), "{}", stage.told);
    let given = stage.run.conversation.iter().filter(|said| said.text.contains("budget"));
    assert_eq!(given.count(), 0, "agents do not hear of it");
}

#[test]
fn k7_no_silence_and_withdrawal_end_the_run() {
    let budget = Budget { steps: Some(1), ..Budget::default() };
    let mut workflow = bounded(budget, OnExceeded::Ask);
    workflow.limits.budgets.deadline_ms = Some(500);
    for last in [answers(1, "no"), Act::Waits(500), Act::Withdraws(1)] {
        let told = play(&workflow, [says("One."), last]);
        assert!(told.ends_with("-> failed budget.exceeded\n"), "{told}");
    }
    let told = play(&workflow, [says("One."), answers(1, "yes"), says("Two.")]);
    assert!(told.ends_with("-> completed with \"Two.\"\n"), "{told}");
}

#[test]
fn time_is_not_asked_for_while_a_tool_may_be_at_its_deed() {
    let budget = Budget { wall_ms: Some(1_000), ..Budget::default() };
    let mut stage = Stage::open(&bounded(budget, OnExceeded::Ask), "Hello");
    stage.perform([calls("", [("c", "charge", json!({}))]), Act::Waits(5_000)]);
    assert!(stage.told.ends_with("waits 5000 -> charge(c)\n"), "{}", stage.told);
    stage.perform([returns("c", json!("paid"))]);
    assert!(stage.told.ends_with("-> waiting for #1 approval\n"), "{}", stage.told);
    stage.perform([answers(1, "yes")]);
    assert!(stage.told.ends_with("answers #1 \"yes\" -> a, clock at 6000 ms\n"), "{}", stage.told);
}

#[test]
fn a_session_counts_what_its_earlier_runs_spent() {
    let mut workflow = sequence(vec![step("a"), step("b")]);
    workflow.limits.budgets.session = Budget { steps: Some(3), ..Budget::default() };
    let before = Spent { steps: 2, ..Spent::default() };
    let mut stage = Stage::open_after(&workflow, "Hello", before);
    assert_eq!(plan(&stage.run).len(), 1, "there is one step left");
    stage.perform([says("One.")]);
    failed_with(&stage, "`session.steps` of 3 steps");
    let begun =
        |recorded: &&crate::kernel::Recorded| matches!(recorded.event, Event::StepStarted { .. });
    assert_eq!(stage.journal.iter().filter(begun).count(), 2, "the intent of one too many");
    let spent = Spent { steps: 3, ..Spent::default() };
    let stage = Stage::open_after(&workflow, "Hello", spent);
    failed_with(&stage, "`session.steps`");
    assert!(!plan(&stage.run).iter().any(|owed| matches!(owed, Effect::Reply { .. })));
}
