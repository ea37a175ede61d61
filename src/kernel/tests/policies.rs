//! Policies: what a start brings only adds, what an operator says is in force and changes by an event, and nobody who
//! starts a run can loosen anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::cast::{graph, sequence, step};
use super::stage::{Act, Stage, answers, calls};
use crate::kernel::brought::is_brought;
use crate::kernel::workflow::{Condition, Gate, Patience, Workflow};
use crate::kernel::{
    Command, Event, Membership, Operator, Policy, Principal, Question, Role, Rule, Turn, Verb,
    replay,
};

fn gate(name: &str, when: Vec<Condition>) -> Gate {
    Gate { name: name.into(), tools: vec!["charge".into()], when, ..Gate::default() }
}

fn file(gates: Vec<Gate>) -> Workflow {
    Workflow { gates, ..sequence(vec![step("a")]) }
}

fn charge() -> Act {
    calls("", [("c1", "charge", json!({"id": 7}))])
}

/// An operator whose policy is these rules.
fn operator(rules: Vec<Rule>) -> Operator {
    let mut operator = Operator::default();
    for name in ["ann", "bob"] {
        operator.people.insert(name.into(), Membership::default());
    }
    operator.policy = Arc::new(Policy { digest: format!("d{}", rules.len()), rules });
    operator
}

fn rule(gates: Vec<Gate>, lifts: &[&str], people: &[&str]) -> Rule {
    let words = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    Rule {
        name: "r".into(),
        workflows: vec!["play".into()],
        people: words(people),
        gates,
        lifts: words(lifts),
    }
}

fn asked(stage: &Stage) -> Option<&Question> {
    stage.run.questions.values().next().map(AsRef::as_ref)
}

fn rules_of(stage: &Stage) -> BTreeSet<String> {
    asked(stage)
        .map(|question| question.rules().into_iter().map(str::to_owned).collect())
        .unwrap_or_default()
}

#[test]
fn a_rule_adds_a_gate_and_its_terms_are_in_the_name_that_it_has_in_force() {
    let mut stage = Stage::open_under(
        &file(Vec::new()),
        Vec::new(),
        operator(vec![rule(vec![gate("x", vec![])], &[], &[])]),
    );
    stage.perform([charge()]);
    let rules = rules_of(&stage);
    assert!(rules.iter().all(|name| name.starts_with("policy:r.x#")), "{rules:?}");
    assert_eq!(rules.len(), 1);
    let other = Gate {
        patience: Patience { to: vec!["bob".into()], ..Patience::default() },
        ..gate("x", vec![])
    };
    let now = operator(vec![rule(vec![other], &[], &[])]);
    let force = now.policy.for_run("play", &["ann".into()], &now);
    assert!(!rules.contains(&force.gates[0].name), "of other terms it is another gate");
}

#[test]
fn k12_only_a_rule_that_names_the_workflow_and_every_requester_lifts_a_gate() {
    let own = || file(vec![gate("own", vec![])]);
    for (people, is_lifted) in [(&["ann"][..], true), (&["bob"], false), (&[], false)] {
        let mut stage =
            Stage::open_under(&own(), Vec::new(), operator(vec![rule(vec![], &["own"], people)]));
        stage.perform([charge()]);
        assert_eq!(asked(&stage).is_none(), is_lifted, "{people:?}");
    }
    let mut everywhere = rule(vec![], &["own"], &["ann"]);
    everywhere.workflows.clear();
    let mut stage = Stage::open_under(&own(), Vec::new(), operator(vec![everywhere]));
    stage.perform([charge()]);
    assert!(asked(&stage).is_some(), "a rule for all workflows lifts nothing");
    let brought = vec![gate("start:mine", vec![])];
    let mut stage =
        Stage::open_under(&own(), brought, operator(vec![rule(vec![], &["*"], &["ann"])]));
    stage.perform([charge()]);
    assert_eq!(rules_of(&stage), BTreeSet::from(["start:mine".to_owned()]), "nothing lifts that");
}

#[test]
fn k7_a_question_that_is_open_stays_open_when_its_gate_is_lifted() {
    let mut stage =
        Stage::open_under(&file(vec![gate("own", vec![])]), Vec::new(), operator(Vec::new()));
    stage.perform([charge()]);
    stage.ruled(operator(vec![rule(vec![], &["*"], &["ann"])]));
    assert!(asked(&stage).is_some(), "a loosening answers nothing");
    assert!(stage.run.turns.values().all(Turn::rests_on_people));
    stage.perform([answers(1, "yes")]);
    assert!(asked(&stage).is_none());
}

#[test]
fn a_question_that_is_open_becomes_stricter_when_a_gate_is_added() {
    let mut stage =
        Stage::open_under(&file(vec![gate("own", vec![])]), Vec::new(), operator(Vec::new()));
    stage.perform([charge()]);
    stage.ruled(operator(vec![rule(vec![gate("more", vec![])], &[], &[])]));
    stage.perform([answers(1, "yes")]);
    let rules = rules_of(&stage);
    assert!(rules.iter().any(|name| name.starts_with("policy:r.more#")), "{rules:?}");
    stage.perform([answers(2, "yes")]);
    assert!(asked(&stage).is_none());
}

#[test]
fn a_step_that_waits_is_looked_at_by_a_rule_that_came_meanwhile() {
    let mut workflow = graph(&json!([
        {"id": "work", "task": {"agent": {"agent": "a"}},
         "gate": {"before": true, "redo": 2, "attempts": 3}},
    ]));
    workflow.gates = Vec::new();
    let mut stage = Stage::open_under(&workflow, Vec::new(), operator(Vec::new()));
    let more = Gate { name: "more".into(), steps: vec!["work".into()], ..Gate::default() };
    stage.ruled(operator(vec![rule(vec![more], &[], &[])]));
    stage.perform([answers(1, "approve")]);
    let asked = asked(&stage).expect("asked again");
    assert!(asked.context["gates"][0].as_str().is_some_and(|name| name.contains("more")));
    stage.perform([answers(2, "approve")]);
    assert!(stage.told.ends_with("-> a\n"), "{}", stage.told);
}

#[test]
fn a_change_is_an_event_and_a_replay_looks_at_no_policy() {
    let mut stage = Stage::open_under(&file(Vec::new()), Vec::new(), operator(Vec::new()));
    stage.ruled(operator(vec![rule(vec![gate("x", vec![])], &[], &[])]));
    stage.ruled(operator(vec![rule(vec![gate("x", vec![])], &[], &[])]));
    let told = stage.journal.iter().filter(|it| matches!(it.event, Event::Ruled(_))).count();
    assert_eq!(told, 1, "the same again is no event");
    let again =
        replay(&stage.run.id, Arc::clone(&stage.run.workflow), &stage.journal).expect("folds");
    assert_eq!(again.policy, stage.run.policy);
    assert_eq!(again.gates().count(), 1);
}

fn any_when() -> impl Strategy<Value = Vec<Condition>> {
    prop_oneof![
        Just(Vec::new()),
        Just(vec![Condition::FailuresOver(0)]),
        Just(vec![Condition::Argument { pointer: "/id".into(), over: 3.0 }]),
        Just(vec![Condition::Argument { pointer: "/id".into(), over: 9.0 }]),
        Just(vec![Condition::Environment(vec!["production".into()])]),
    ]
}

fn any_gate(prefix: &'static str) -> impl Strategy<Value = Gate> {
    let to = prop_oneof![Just(vec![]), Just(vec!["ann".to_owned()]), Just(vec!["bob".to_owned()])];
    (0..9_u8, any_when(), to, prop::option::of(1..9_u64)).prop_map(
        move |(number, when, to, deadline_ms)| Gate {
            patience: Patience { deadline_ms, to, ..Patience::default() },
            ..gate(&format!("{prefix}{number}"), when)
        },
    )
}

fn any_gates(prefix: &'static str) -> impl Strategy<Value = Vec<Gate>> {
    prop::collection::vec(any_gate(prefix), 0..4).prop_map(|gates| {
        let mut names = BTreeSet::new();
        gates.into_iter().filter(|gate| names.insert(gate.name.clone())).collect()
    })
}

/// A rule that loosens only for somebody else.
fn any_rule() -> impl Strategy<Value = Rule> {
    (any_gates("p"), any::<bool>()).prop_map(|(gates, lifts)| {
        rule(gates, if lifts { &["*"] } else { &[] }, if lifts { &["bob"] } else { &[] })
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Whatever a start brings: once its own gates have been passed, what is asked is what would have been asked without
    /// them, of the same people, in the same words, with as long to answer.
    #[test]
    fn nobody_who_starts_a_run_can_loosen_anything(
        own in any_gates("f"),
        brought in any_gates("start:"),
        rules in prop::collection::vec(any_rule(), 0..3),
    ) {
        let workflow = file(own);
        let mut without = Stage::open_under(&workflow, Vec::new(), operator(rules.clone()));
        without.perform([charge()]);
        let mut with = Stage::open_under(&workflow, brought, operator(rules));
        with.perform([charge()]);
        while let Some(mine) = asked(&with).filter(|question| is_brought(question)) {
            prop_assert_eq!(mine.verbs(), [Verb::AllowOnce, Verb::Deny]);
            let ordinal = mine.ordinal;
            let who = mine.to.first().cloned().unwrap_or_else(|| "ann".into());
            let yes = with.answer(&[(ordinal, json!("allow_once"))], "");
            let Command::Answer { answers, key, .. } = yes else { unreachable!("an answer") };
            let principal = Principal::new(who, Role::User, "grpc");
            let answer = Command::Answer { answers, key, principal, seed: String::new() };
            prop_assert_eq!(with.command_by(&answer), Ok(None));
        }
        let (Some(least), Some(most)) = (asked(&without), asked(&with)) else {
            prop_assert_eq!(asked(&without).is_some(), asked(&with).is_some());
            return Ok(());
        };
        prop_assert_eq!(&least.context, &most.context);
        prop_assert_eq!(&least.stages, &most.stages);
        prop_assert_eq!(least.verbs(), most.verbs());
        prop_assert_eq!((least.deadline, &least.on_timeout), (most.deadline, &most.on_timeout));
    }
}
