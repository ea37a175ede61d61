//! Brought: gates that a start brought add looks, and change nothing else: not what is said, who has a part, what time
//! is left, what others are asked, or what a run goes past.

use std::sync::Arc;

use serde_json::{Value, json};

use super::cast::{graph, sequence, step};
use super::stage::{Act, Stage, answers, calls, says};
use crate::kernel::terms::{Excluded, Stage as Approvers};
use crate::kernel::workflow::{Condition, Gate, Patience, Workflow};
use crate::kernel::{
    Answer, Command, Effect, Event, Millis, Operator, Policy, Principal, Question, Role, Rule,
    Status, Verb, plan, retry_point,
};

pub(super) fn to(who: &str) -> Patience {
    Patience { to: vec![who.into()], ..Patience::default() }
}

/// A gate of the file's before `charge`, which the chief passes.
pub(super) fn chiefs(when: Vec<Condition>) -> Gate {
    Gate {
        name: "own".into(),
        tools: vec!["charge".into()],
        when,
        patience: to("bob"),
        ..Gate::default()
    }
}

/// A gate that the start brings, and that whoever started it passes.
pub(super) fn mine(steps: &[&str], tools: &[&str]) -> Gate {
    let words = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
    Gate {
        name: "start:mine".into(),
        steps: words(steps),
        tools: words(tools),
        patience: to("ann"),
        ..Gate::default()
    }
}

pub(super) fn open(workflow: &Workflow, brought: Vec<Gate>) -> Stage {
    Stage::open_under(workflow, brought, Operator::default())
}

pub(super) fn by(who: &str, stage: &Stage, ordinal: u32, value: impl Into<Value>) -> Command {
    Command::Answer {
        answers: vec![Answer {
            request: stage.request(ordinal),
            value: value.into(),
            digest: None,
        }],
        key: String::new(),
        principal: Principal::new(who, Role::User, "grpc"),
        seed: String::new(),
    }
}

fn only(stage: &Stage) -> &Question {
    assert_eq!(stage.run.questions.len(), 1, "{:?}", stage.run.status);
    stage.run.questions.values().next().expect("one")
}

fn gates_of(question: &Question) -> Vec<&str> {
    let named = question.context["gates"].as_array().into_iter().flatten();
    named.filter_map(Value::as_str).collect()
}

pub(super) fn failure(stage: &Stage) -> &str {
    match &stage.run.status {
        Status::Failed(failure) => &failure.code,
        Status::Running | Status::Waiting { .. } | Status::Completed | Status::Cancelled { .. } => {
            ""
        }
    }
}

pub(super) fn charges(stage: &Stage) -> usize {
    let is_charge =
        |event: &Event| matches!(event, Event::ToolCalled { call, .. } if call.tool == "charge");
    stage.journal.iter().filter(|it| is_charge(&it.event)).count()
}

fn charge() -> Act {
    calls("", [("c1", "charge", json!({"id": 7}))])
}

/// A step that charges, behind a block that may be passed over when its time is up.
fn behind_a_block(block: &Value) -> Workflow {
    let mut check = json!({"id": "check", "critical": false,
        "task": {"group": {"steps": [{"id": "look", "task": {"agent": {"agent": "a"}}}]}}});
    if let (Value::Object(check), Value::Object(more)) = (&mut check, block) {
        check.extend(more.clone());
    }
    graph(&json!([check,
        {"id": "pay", "task": {"tool": {"tool": "charge", "arguments": {"id": 7}}}}]))
}

#[test]
fn k12_a_starts_own_gate_asks_alone_and_first_and_takes_no_words() {
    let workflow = Workflow { gates: vec![chiefs(vec![])], ..sequence(vec![step("a")]) };
    let mut stage = open(&workflow, vec![mine(&[], &["charge"])]);
    stage.perform([charge()]);
    assert_eq!(gates_of(only(&stage)), ["start:mine"]);
    assert_eq!(only(&stage).context["then"][0]["gate"], "own");
    assert_eq!(only(&stage).verbs(), [Verb::AllowOnce, Verb::Deny]);
    for words in [
        json!({"decision": "allow_once", "note": "all is well"}),
        json!({"decision": "edit", "arguments": {"id": 8}}),
        json!("allow_for_run"),
    ] {
        assert_eq!(stage.act(&answers(1, words)), Err("answer.invalid"));
    }
    let said = stage.run.conversation.len();
    stage.perform([answers(1, "allow_once")]);
    assert_eq!(stage.run.conversation.len(), said, "nothing was said");
    assert_eq!((gates_of(only(&stage)), charges(&stage)), (vec!["own"], 0));
    assert_eq!(stage.act(&answers(2, "allow_once")), Err("answer.not_admitted"));
    let yes = by("bob", &stage, 2, "allow_once");
    assert_eq!(stage.command_by(&yes), Ok(None));
    assert_eq!(charges(&stage), 1);
}

#[test]
fn k12_at_a_step_a_starts_own_gate_asks_before_the_steps_own() {
    let workflow = graph(&json!([{"id": "work", "task": {"agent": {"agent": "a"}},
        "gate": {"before": true, "redo": 2, "attempts": 3, "patience": {"to": ["bob"]}}}]));
    let mut stage = open(&workflow, vec![mine(&["work"], &[])]);
    assert_eq!(gates_of(only(&stage)), ["start:mine"]);
    assert_eq!(
        stage.act(&answers(1, json!({"decision": "approve", "note": "go"}))),
        Err("answer.invalid")
    );
    assert_eq!(stage.act(&answers(1, "skip")), Err("answer.invalid"));
    stage.perform([answers(1, "approve")]);
    assert_eq!(only(&stage).verbs(), [Verb::Approve, Verb::Reject, Verb::Skip], "as without it");
    assert_eq!(stage.act(&answers(2, "approve")), Err("answer.not_admitted"));
    let yes = by("bob", &stage, 2, "approve");
    assert_eq!(stage.command_by(&yes), Ok(None));
    assert!(stage.run.questions.is_empty(), "each has been asked once");
    assert_eq!(plan(&stage.run).len(), 1);
}

#[test]
fn k12_where_time_runs_out_at_a_starts_own_gate_the_run_ends() {
    let workflow = behind_a_block(&json!({"timeout_ms": 1000}));
    for gate in [mine(&["look"], &[]), mine(&["check"], &[])] {
        let deadline_ms = Some(1000);
        let patience = Patience { deadline_ms, ..gate.patience.clone() };
        let mut stage = open(&workflow, vec![Gate { patience, ..gate }]);
        stage.perform([Act::Waits(1000), Act::Waits(1)]);
        assert_eq!((failure(&stage), charges(&stage)), ("gate.refused", 0));
    }
    let mut stage = open(&workflow, vec![mine(&["look"], &[])]);
    stage.perform([Act::Waits(1000)]);
    assert_eq!((failure(&stage), charges(&stage)), ("gate.refused", 0), "the block's time");
}

#[test]
fn k12_no_time_runs_out_in_which_a_starts_own_gate_has_asked() {
    let workflow = behind_a_block(&json!({"timeout_ms": 1000}));
    let mut stage = open(&workflow, vec![mine(&["look"], &[])]);
    stage.perform([Act::Waits(900), answers(1, "approve"), Act::Waits(100)]);
    assert_eq!((failure(&stage), charges(&stage)), ("gate.refused", 0), "and is not passed over");
}

#[test]
fn k12_a_branch_that_fails_beside_a_starts_own_gate_ends_the_run() {
    let workflow = graph(&json!([
        {"id": "both", "critical": false, "task": {"parallel": {"branches": [
            {"name": "left", "steps": [{"id": "look", "task": {"agent": {"agent": "a"}}}]},
            {"name": "right", "steps": [{"id": "other", "task": {"agent": {"agent": "b"}}}]}]}}},
        {"id": "pay", "task": {"tool": {"tool": "charge", "arguments": {"id": 7}}}}]));
    let mut stage = open(&workflow, vec![mine(&["look"], &[])]);
    stage.perform([Act::Fails(false)]);
    assert_eq!((failure(&stage), charges(&stage)), ("gate.refused", 0));
}

#[test]
fn k12_a_run_that_a_starts_own_gate_ended_is_not_taken_up_behind_it() {
    let workflow = behind_a_block(&json!({}));
    for no in [answers(1, "reject"), Act::Withdraws(1)] {
        let mut stage = open(&workflow, vec![mine(&["check"], &[])]);
        stage.perform([no]);
        assert_eq!(failure(&stage), "gate.refused");
        let workflow = Arc::clone(&stage.run.workflow);
        assert_eq!(retry_point(&stage.run.id, workflow, &stage.journal, Millis(9)), None);
    }
}

#[test]
fn k12_what_would_have_asked_at_first_asks_whatever_was_said_since() {
    let danger = vec![Condition::Keywords(vec!["danger".into()])];
    let gate = Gate {
        name: "own".into(),
        steps: vec!["pay".into()],
        when: danger,
        patience: to("bob"),
        ..Gate::default()
    };
    let pay = json!({"id": "pay", "task": {"tool": {"tool": "charge", "arguments": {"id": 7}}}});
    let workflow = graph(&json!([
        {"id": "warn", "task": {"agent": {"agent": "a"}}},
        {"id": "both", "task": {"parallel": {"branches": [
            {"name": "left", "steps": [pay]},
            {"name": "right", "steps": [{"id": "chat", "task": {"human":
                {"kind": "clarification", "prompt": "Well?", "patience": {"to": ["ann"]}}}}]}]}}}]));
    let workflow = Workflow { gates: vec![gate], ..workflow };
    let mut stage = open(&workflow, vec![mine(&["pay"], &[])]);
    stage.perform([says("This is danger.")]);
    let chat = stage.run.questions.values().find(|it| it.kind != crate::kernel::Kind::Approval);
    let chat = chat.expect("asked").ordinal;
    let look = stage.run.questions.keys().find(|one| **one != chat).copied().expect("asked");
    stage.perform([answers(chat, "Never mind."), answers(look, "approve")]);
    assert_eq!((gates_of(only(&stage)), charges(&stage)), (vec!["own"], 0));
}

#[test]
fn k12_whoever_answers_a_starts_own_gate_has_no_part_in_the_run_by_that() {
    let four = Approvers {
        to: vec!["bob".into(), "cat".into()],
        not: vec![Excluded::Participant],
        need: 1,
        ..Approvers::default()
    };
    let own = Gate {
        patience: Patience { approvers: vec![four], ..Patience::default() },
        ..chiefs(vec![])
    };
    let workflow = Workflow { gates: vec![own], ..sequence(vec![step("a")]) };
    let brought = Gate { patience: to("bob"), ..mine(&[], &["charge"]) };
    let mut stage = open(&workflow, vec![brought]);
    stage.perform([charge()]);
    let yes = by("bob", &stage, 1, "allow_once");
    assert_eq!(stage.command_by(&yes), Ok(None));
    assert!(stage.run.participants.is_empty() && stage.run.let_on_by.is_empty());
    let yes = by("bob", &stage, 2, "allow_once");
    assert_eq!(stage.command_by(&yes), Ok(None), "the strict one can still say it, or no");
}

#[test]
fn k12_after_a_starts_own_gate_a_judge_is_asked_as_without_it() {
    let judge = Condition::Judge { agent: "b".into(), within_ms: 1000 };
    let workflow = Workflow { gates: vec![chiefs(vec![judge])], ..sequence(vec![step("a")]) };
    let mut stage = open(&workflow, vec![mine(&[], &["charge"])]);
    stage.perform([charge(), answers(1, "allow_once")]);
    let judges =
        |effect: &Effect| matches!(effect, Effect::Reply { input, .. } if input.agent == "b");
    assert!(plan(&stage.run).iter().any(judges), "{}", stage.told);
    stage.perform([Act::Outputs(json!({"ask": true, "reason": "odd"}))]);
    assert_eq!((gates_of(only(&stage)), charges(&stage)), (vec!["own"], 0));
}

#[test]
fn k12_what_was_refused_before_is_asked_about_after_a_starts_own_gate_too() {
    let over = Condition::Argument { pointer: "/id".into(), over: 3.0 };
    let file = Workflow { gates: vec![chiefs(vec![over])], ..sequence(vec![step("a")]) };
    let mut stage = open(&file, vec![mine(&[], &["charge"])]);
    stage.perform([charge(), answers(1, "allow_once")]);
    let no = by("bob", &stage, 2, "deny");
    assert_eq!(stage.command_by(&no), Ok(None));
    stage.perform([calls("", [("c2", "charge", json!({"id": 7}))]), answers(3, "allow_once")]);
    assert_eq!((gates_of(only(&stage)), charges(&stage)), (vec!["own"], 0));
}

#[test]
fn k8_what_became_of_a_deed_is_not_asked_of_those_whom_its_start_named() {
    let workflow = sequence(vec![step("a")]);
    let brought = Gate { patience: to("eve"), ..mine(&[], &["charge"]) };
    let mut stage = open(&workflow, vec![brought]);
    stage.perform([charge()]);
    let yes = by("eve", &stage, 1, "allow_once");
    assert_eq!(stage.command_by(&yes), Ok(None));
    stage.perform([Act::Recovers]);
    assert_eq!(only(&stage).stages.len(), 0, "as if it had not been brought");
}

#[test]
fn k12_what_looks_at_the_whole_run_asks_where_a_starts_own_gate_holds_a_branch_back() {
    let failures = Gate { when: vec![Condition::FailuresOver(0)], ..chiefs(vec![]) };
    let workflow = graph(&json!([{"id": "both", "task": {"parallel": {"branches": [
        {"name": "one", "steps": [{"id": "look", "critical": false, "task": {"agent": {"agent": "a"}}}]},
        {"name": "two", "steps": [{"id": "pay", "task":
            {"tool": {"tool": "charge", "arguments": {"id": 7}}}}]}]}}}]));
    let workflow = Workflow { gates: vec![failures], ..workflow };
    assert_eq!(charges(&open(&workflow, Vec::new())), 1, "nothing has failed");
    let stage = open(&workflow, vec![mine(&["look"], &[])]);
    assert_eq!(charges(&stage), 0, "and nobody knows what would have");
    let asked = stage.run.questions.values().any(|question| gates_of(question) == ["own"]);
    assert!(asked, "{:?}", stage.run.questions);
}

#[test]
fn k7_what_would_have_asked_at_first_asks_though_it_be_lifted_since() {
    let rule = |gates, lifts: &[&str]| Rule {
        name: "r".into(),
        workflows: vec!["play".into()],
        people: vec!["ann".into()],
        gates,
        lifts: lifts.iter().map(|one| (*one).to_owned()).collect(),
    };
    let operator = |rules| Operator {
        policy: Arc::new(Policy { digest: "d".into(), rules }),
        ..Operator::default()
    };
    let added = Gate { name: "p".into(), ..chiefs(vec![]) };
    let file = Workflow { gates: vec![chiefs(vec![])], ..sequence(vec![step("a")]) };
    let under = operator(vec![rule(vec![added], &[])]);
    let mut stage = Stage::open_under(&file, vec![mine(&[], &["charge"])], under);
    stage.perform([charge()]);
    stage.ruled(operator(vec![rule(Vec::new(), &["*"])]));
    stage.perform([answers(1, "allow_once")]);
    let asks = gates_of(only(&stage));
    assert!(
        asks.contains(&"own") && asks.iter().any(|name| name.starts_with("policy:r.p#")),
        "{asks:?}"
    );
    assert_eq!((only(&stage).to.join(" "), charges(&stage)), ("bob".into(), 0));

    let own = graph(&json!([{"id": "work", "task": {"agent": {"agent": "a"}},
        "gate": {"before": true, "redo": 2, "attempts": 3, "patience": {"to": ["bob"]}}}]));
    let mut stage = Stage::open_under(&own, vec![mine(&["work"], &[])], operator(Vec::new()));
    assert_eq!(only(&stage).context["then"][0]["gate"], "step:work");
    stage.ruled(operator(vec![rule(Vec::new(), &["*"])]));
    stage.perform([answers(1, "approve")]);
    assert_eq!(only(&stage).to, ["bob"]);
    let facts = only(&stage).context.to_string();
    assert!(!facts.contains("start:mine"), "words of whoever started it: {facts}");
}

#[test]
fn k10_a_call_that_is_ordered_again_is_looked_at_by_rules_that_it_has_not_passed() {
    let operator = |gates| Operator {
        policy: Arc::new(Policy {
            digest: "d".into(),
            rules: vec![Rule { name: "r".into(), gates, ..Rule::default() }],
        }),
        ..Operator::default()
    };
    let file = sequence(vec![step("a")]);
    let mut stage = Stage::open_under(&file, Vec::new(), operator(Vec::new()));
    stage.perform([charge(), Act::Recovers]);
    stage.ruled(operator(vec![chiefs(vec![])]));
    stage.perform([answers(1, json!({"verb": "redo"}))]);
    assert!(gates_of(only(&stage))[0].starts_with("policy:r.own#"), "{}", stage.told);
    assert_eq!(plan(&stage.run).len(), 0, "nothing is made again yet");
    let yes = by("bob", &stage, 2, "allow_once");
    assert_eq!(stage.command_by(&yes), Ok(None));
    assert_eq!(plan(&stage.run).len(), 1, "once");
    // What it has passed is not asked again of those who order it again.
    let file = Workflow { gates: vec![chiefs(vec![])], ..sequence(vec![step("a")]) };
    let mut stage = open(&file, Vec::new());
    stage.perform([charge()]);
    let yes = by("bob", &stage, 1, "allow_once");
    assert_eq!(stage.command_by(&yes), Ok(None));
    stage.perform([Act::Recovers]);
    let redo = by("bob", &stage, 2, json!({"verb": "redo"}));
    assert_eq!(stage.command_by(&redo), Ok(None));
    assert!(stage.run.questions.is_empty() && plan(&stage.run).len() == 1, "{}", stage.told);
}
