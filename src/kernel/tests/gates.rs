//! Gates: calls that wait for a person, what may be said to one, and what follows.

use serde_json::{Value, json};

use super::cast::{sequence, step};
use super::stage::{Act, Stage, answers, calls, play, returns};
use crate::kernel::workflow::{Condition, Gate, Patience, Workflow};
use crate::kernel::{
    Command, Effect, Environment, Kind, Millis, OnTimeout, Operator, Principal, plan,
};

fn gate(name: &str, when: Vec<Condition>) -> Gate {
    Gate {
        name: name.into(),
        tools: vec!["charge".into()],
        tags: Vec::new(),
        when,
        prompt: None,
        patience: Patience::default(),
        allow_ms: None,
        ..Gate::default()
    }
}

fn gated(gates: Vec<Gate>) -> Workflow {
    Workflow { gates, ..sequence(vec![step("a")]) }
}

fn charges(id: &str, text: &str, amount: i64) -> Act {
    calls(text, [(id, "charge", json!({"id": amount}))])
}

fn owed(stage: &Stage) -> Vec<Value> {
    let called = |effect| match effect {
        Effect::CallTool { call, .. } => Some(call.arguments),
        Effect::Reply { .. } => None,
    };
    plan(&stage.run).into_iter().filter_map(called).collect()
}

#[test]
fn k4_a_call_at_a_gate_is_made_only_after_a_yes() {
    let workflow = gated(vec![gate("before_charge", Vec::new())]);
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([charges("c1", "", 7)]);
    let asked = &stage.run.questions[&1];
    assert_eq!(asked.kind, Kind::ToolApproval);
    assert_eq!(asked.context["arguments"], json!({"id": 7}), "what exactly will happen");
    assert!(owed(&stage).is_empty());
    for vague in [json!("ok"), json!(1), json!({"decision": "edit"}), json!({"decision": "sure"})] {
        assert_eq!(stage.act(&answers(1, vague)), Err("answer.invalid"));
    }
    stage.perform([answers(1, "yes")]);
    assert_eq!(owed(&stage), [json!({"id": 7})]);
    stage.perform([returns("c1", json!("paid"))]);
    assert!(stage.given().ends_with("tool : paid\n"));
}

#[test]
fn k4_a_denied_call_is_never_made_and_the_agent_is_told_why() {
    let workflow = gated(vec![gate("before_charge", Vec::new())]);
    for (says, told) in [
        (json!({"decision": "deny", "note": "too much"}), "Denied by ann: too much. Do not do it."),
        (json!("no"), "Denied by ann. Do not do it."),
        (json!(false), "Denied by ann. Do not do it."),
    ] {
        let mut stage = Stage::open(&workflow, "Hello");
        stage.perform([charges("c1", "", 7), answers(1, says)]);
        assert!(owed(&stage).is_empty());
        assert!(stage.given().ends_with(&format!("tool : {told}\n")), "{}", stage.given());
    }
}

#[test]
fn k4_silence_and_withdrawal_are_a_no() {
    let mut waits = gate("before_charge", Vec::new());
    waits.patience.deadline_ms = Some(1000);
    let workflow = gated(vec![waits]);
    for end in [Act::Waits(1000), Act::Withdraws(1)] {
        let mut stage = Stage::open(&workflow, "Hello");
        stage.perform([charges("c1", "", 7), end]);
        assert!(owed(&stage).is_empty());
        assert!(stage.given().contains("Do not go ahead."), "{}", stage.given());
    }
}

#[test]
fn what_is_edited_is_what_runs_and_it_is_typed() {
    let workflow = gated(vec![gate("before_charge", Vec::new())]);
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([charges("c1", "", 7)]);
    let edit = |id: Value| answers(1, json!({"decision": "edit", "arguments": {"id": id}}));
    assert_eq!(stage.act(&edit(json!("eight"))), Err("answer.invalid"));
    stage.perform([edit(json!(8))]);
    assert_eq!(owed(&stage), [json!({"id": 8})]);
}

#[test]
fn a_condition_that_holds_asks_and_one_that_does_not_lets_through() {
    let conditions = [
        (Condition::Keywords(vec!["Delete".into()]), "I will delete it.", true),
        (Condition::Keywords(vec!["deploy".into()]), "I will look.", false),
        // As a person reads it.
        (Condition::Keywords(vec!["delete".into()]), "I will dele\u{200b}te it.", true),
        (Condition::Keywords(vec!["delete".into()]), "I will d\u{435}lete it.", true),
        (Condition::Uncertain, "I am not sure, but", true),
        (Condition::Uncertain, "Certainly:", false),
        (Condition::Argument { pointer: "/id".into(), over: 6.0 }, "", true),
        (Condition::Argument { pointer: "/id".into(), over: 7.0 }, "", false),
        (Condition::Argument { pointer: "/nothing".into(), over: 7.0 }, "", true),
        (Condition::FailuresOver(0), "", false),
        // Nobody has said where this is.
        (Condition::Environment(vec!["production".into()]), "", true),
    ];
    for (condition, text, asks) in conditions {
        let workflow = gated(vec![gate("risky", vec![condition.clone()])]);
        let mut stage = Stage::open(&workflow, "Hello");
        stage.perform([charges("c1", text, 7)]);
        assert_eq!(!stage.run.questions.is_empty(), asks, "{condition:?} {text}");
    }
}

#[test]
fn repeated_failures_are_a_reason_to_ask() {
    let workflow = gated(vec![gate("risky", vec![Condition::FailuresOver(1)])]);
    let mut stage = Stage::open(&workflow, "Hello");
    for id in ["c1", "c2"] {
        stage.perform([charges(id, "", 7), Act::Returns(id.into(), Err("no line".into()))]);
    }
    stage.perform([charges("c3", "", 7)]);
    assert_eq!(stage.run.questions.len(), 1);
}

#[test]
fn allowed_for_the_run_means_this_tool_until_it_expires_or_is_revoked() {
    let mut risky = gate("risky", vec![Condition::Keywords(vec!["charge".into()])]);
    risky.allow_ms = Some(5000);
    let workflow = gated(vec![risky]);
    let mut stage = Stage::open(&workflow, "Hello");
    let allow = answers(1, json!({"decision": "allow_for_run"}));
    stage.perform([charges("c1", "", 1), allow, returns("c1", json!("ok"))]);
    stage.perform([charges("c2", "", 2), returns("c2", json!("ok"))]);
    assert_eq!(stage.run.endings.len(), 1, "not asked again");
    assert_eq!(
        (stage.run.grants[0].tool.as_str(), stage.run.grants[0].by.as_str()),
        ("charge", "ann")
    );
    stage.perform([Act::Waits(5000), charges("c3", "", 3)]);
    assert_eq!(stage.run.endings.len(), 2, "the grant has expired");
    stage.perform([answers(2, "allow_for_run"), returns("c3", json!("ok"))]);
    let revoke = Command::Revoke {
        tool: "charge".into(),
        principal: Principal::local("cli"),
        key: String::new(),
    };
    assert_eq!(stage.command_by(&revoke), Ok(None));
    assert_eq!(stage.command_by(&revoke), Err("grant.unknown"));
    stage.perform([charges("c4", "", 4)]);
    assert_eq!(stage.run.endings.len(), 3, "asked again once it is revoked");
}

#[test]
fn a_gate_that_always_asks_cannot_be_passed_for_the_rest_of_the_run() {
    let workflow = gated(vec![
        gate("before_charge", Vec::new()),
        gate("risky", vec![Condition::Keywords(vec!["charge".into()])]),
    ]);
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([charges("c1", "", 1)]);
    assert_eq!(stage.act(&answers(1, "allow_for_run")), Err("answer.invalid"));
    assert_eq!(stage.run.questions[&1].context["gates"], json!(["before_charge", "risky"]));
}

#[test]
fn a_restart_at_a_gate_changes_nothing() {
    let workflow = gated(vec![gate("before_charge", Vec::new())]);
    let told =
        play(&workflow, [charges("c1", "", 7), Act::Recovers, answers(1, "yes"), Act::Recovers]);
    let last = told.lines().last().expect("an act");
    assert!(last.contains("recovers"), "{told}");
    assert!(!told.contains("refused"), "{told}");
}

#[test]
fn the_terms_of_several_gates_are_the_strictest_of_them() {
    let escalate = OnTimeout::EscalateTo { to: vec!["boss".into()], within_ms: None };
    let mut first = gate("first", Vec::new());
    first.patience = Patience {
        deadline_ms: Some(9000),
        remind_ms: Some(4000),
        to: vec!["ann".into()],
        ..Patience::default()
    };
    let mut second = gate("second", Vec::new());
    second.patience = Patience {
        deadline_ms: Some(5000),
        on_timeout: escalate.clone(),
        to: vec!["ann".into(), "bob".into()],
        ..Patience::default()
    };
    let mut stage = Stage::open(&gated(vec![first, second]), "Hello");
    stage.perform([charges("c1", "", 7)]);
    let asked = &stage.run.questions[&1];
    assert_eq!((asked.deadline, &asked.on_timeout), (Some(Millis(5000)), &escalate));
    assert_eq!((asked.remind_ms, asked.to.join(" ")), (Some(4000), "ann".into()));
    assert_eq!(asked.stages.len(), 2, "K8: two rules that want other people are two stages");
    stage.perform([Act::Waits(5000)]);
    assert_eq!(stage.run.questions[&1].to, ["ann", "boss"], "asked as well, and a no by silence");
    assert!(owed(&stage).is_empty());
}

#[test]
fn k12_only_the_operator_says_where_the_server_works() {
    let rule = || Condition::Environment(vec!["production".into()]);
    let workflow = gated(vec![gate("risky", vec![rule()])]);
    let environments = [
        (Environment::Unsaid, true),
        (Environment::Named("staging".into()), false),
        (Environment::Named("Production".into()), true),
    ];
    for (environment, asks) in environments {
        let mut stage = Stage::open(&workflow, "Hello");
        let operator = Operator { environment: environment.clone(), ..Operator::default() };
        stage.run.operator = operator.into();
        stage.perform([charges("c1", "", 7)]);
        assert_eq!(!stage.run.questions.is_empty(), asks, "{environment:?}");
    }
}
