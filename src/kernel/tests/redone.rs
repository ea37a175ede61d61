//! Redone: a fork tells what was done before it wherever it has people decide, until the same was done anew (K11).

use std::sync::Arc;

use serde_json::{Value, json};

use super::brought::{by, chiefs, mine};
use super::cast::{graph, sequence, step};
use super::stage::{Act, Stage, answers, calls, returns};
use crate::kernel::workflow::Workflow;
use crate::kernel::{Descent, Done, Effect, Event, Kind, Question, carried_out, plan, replay};

const NOTHING: [u32; 0] = [];

/// A word, an approval, and two charges that bob lets pass one by one.
fn twice() -> Workflow {
    let charge = |id: &str, number: u32| {
        let call = json!({"tool": "charge", "arguments": {"id": number}});
        json!({"id": id, "task": {"tool": call}})
    };
    let word = json!({"kind": "clarification", "prompt": "What for?"});
    let go = json!({"kind": "approval", "prompt": "Go?", "patience": {"to": ["ann"]}});
    let steps = json!([
        {"id": "word", "task": {"human": word}},
        {"id": "go", "task": {"human": go}},
        charge("b", 1),
        charge("b2", 2),
    ]);
    Workflow { gates: vec![chiefs(vec![])], ..graph(&steps) }
}

/// An agent, whose charges bob lets pass one by one.
fn charging() -> Workflow {
    Workflow { gates: vec![chiefs(vec![])], ..sequence(vec![step("a")]) }
}

fn charge(call: &str) -> Act {
    calls("", [(call, "charge", json!({"id": 1}))])
}

fn asked(stage: &Stage) -> &Question {
    assert_eq!(stage.run.questions.len(), 1, "{}", stage.told);
    stage.run.questions.values().next().expect("one")
}

/// The numbers of the charges that the open question tells of.
fn told(stage: &Stage) -> Vec<u32> {
    let number = |words: &str| {
        let (_, arguments) = words.split_once(" with ").expect("with what");
        let arguments: Value = serde_json::from_str(arguments).expect("arguments");
        arguments["id"].as_u64().and_then(|id| u32::try_from(id).ok()).expect("a number")
    };
    asked(stage).already_done().into_iter().map(number).collect()
}

fn says(who: &str, stage: &mut Stage, value: impl Into<Value>) {
    let said = by(who, stage, asked(stage).ordinal, value);
    assert_eq!(stage.command_by(&said), Ok(None), "{}", stage.told);
}

/// Bob lets the call pass that waits, and it is made.
fn passes(stage: &mut Stage) {
    says("bob", stage, "allow_once");
    let Some(Effect::CallTool { call, .. }) = plan(&stage.run).into_iter().next() else {
        panic!("nothing is called: {}", stage.told)
    };
    stage.perform([returns(&call.id, json!("paid"))]);
}

fn done_in(stage: &Stage, version: u64) -> Vec<Done> {
    carried_out(&stage.run, &stage.journal, version).done
}

/// What was done in a run of [`twice`] from its beginning to its end.
fn done_twice() -> Vec<Done> {
    let mut stage = Stage::open(&twice(), "Hello");
    stage.perform([answers(1, "Rent."), answers(2, "approve")]);
    assert_eq!(told(&stage), NOTHING, "nothing was done before");
    passes(&mut stage);
    passes(&mut stage);
    done_in(&stage, 0)
}

/// The first of it.
fn done_once() -> Vec<Done> {
    done_twice().into_iter().take(1).collect()
}

#[test]
fn k11_every_question_of_a_fork_that_decides_tells_what_was_done_and_of_the_same_call_first() {
    let mut done = done_twice();
    done.reverse();
    let mut fork = Stage::open_forked(&twice(), vec![], done);
    assert_eq!(told(&fork), NOTHING, "a word decides nothing");
    fork.perform([answers(1, "Rent.")]);
    assert_eq!(told(&fork), [2, 1], "at an approval, as they are kept");
    fork.perform([answers(2, "approve")]);
    assert_eq!(told(&fork), [1, 2], "the call that is asked about comes first");
    passes(&mut fork);
    assert_eq!(told(&fork), [2], "the other was let be done anew, and was");
    passes(&mut fork);
    assert!(fork.run.done.is_empty(), "{:?}", fork.run.done);
}

#[test]
fn k11_what_was_done_is_told_until_a_yes_to_the_same_was_carried_out() {
    let mut fork = Stage::open_forked(&charging(), vec![], done_once());
    fork.perform([charge("c1")]);
    assert_eq!(told(&fork), [1]);
    says("bob", &mut fork, json!({"decision": "deny", "note": "Not now."}));
    fork.perform([charge("c2")]);
    assert_eq!(told(&fork), [1], "a no does nothing anew");
    says("bob", &mut fork, "allow_once");
    fork.perform([Act::Returns("c2".into(), Err("no line".into())), charge("c3")]);
    assert_eq!(told(&fork), [1], "nor does a call that failed");
    passes(&mut fork);
    fork.perform([charge("c4")]);
    assert_eq!(told(&fork), NOTHING, "it was done anew, and this would be another");
}

#[test]
fn k11_a_yes_at_one_gate_keeps_it_from_nobody_at_the_next() {
    let mut fork = Stage::open_forked(&charging(), vec![mine(&[], &["charge"])], done_once());
    fork.perform([charge("c1")]);
    assert_eq!(told(&fork), [1], "whoever the start chose");
    fork.perform([answers(1, "allow_once")]);
    assert_eq!(told(&fork), [1], "and whoever decides");
    passes(&mut fork);
    assert!(fork.run.done.is_empty(), "{:?}", fork.run.done);
}

#[test]
fn what_came_of_a_call_is_asked_without_what_was_done_before_the_fork() {
    let mut fork = Stage::open_forked(&charging(), vec![], done_twice());
    fork.perform([charge("c1")]);
    says("bob", &mut fork, "allow_once");
    fork.perform([Act::Returns("c1".into(), Err("lost on the way".into()))]);
    assert_eq!(asked(&fork).kind, Kind::OutcomeCheck);
    assert!(asked(&fork).already_done().is_empty(), "{:?}", asked(&fork).context);
}

#[test]
fn k11_a_fork_of_a_fork_is_told_of_both_but_for_what_it_has_copied() {
    let mut fork = Stage::open_forked(&twice(), vec![], done_twice());
    fork.perform([answers(1, "Rent."), answers(2, "approve")]);
    passes(&mut fork);
    let between = fork.run.version;
    passes(&mut fork);
    let numbers = |version| {
        let done = done_in(&fork, version);
        done.into_iter().map(|done| done.arguments).collect::<Vec<_>>()
    };
    let (one, two) = (r#"{"id":1}"#, r#"{"id":2}"#);
    assert_eq!(numbers(1), [one, two, one, two], "its own first");
    assert_eq!(numbers(between), [two, two], "the first charge is history there");
}

#[test]
fn k11_what_a_fork_has_copied_takes_nothing_from_what_was_done_after_it() {
    let mut stage = Stage::open(&charging(), "Hello");
    stage.perform([charge("c1")]);
    passes(&mut stage);
    stage.perform([charge("c2")]);
    let copied = stage.run.version;
    passes(&mut stage);
    let done = done_in(&stage, copied);
    assert_eq!(done.len(), 1);
    let mut journal = stage.journal.clone();
    journal.truncate(usize::try_from(copied).expect("small"));
    let Event::Started(started) = &mut journal[0].event else { panic!("it begins") };
    let family = stage.run.id.clone();
    started.descent = Some(Box::new(Descent { family, copied, done }));
    let fork = replay(&stage.run.id, Arc::clone(&stage.run.workflow), &journal).expect("a run");
    assert_eq!(fork.done.len(), 1, "the charge of before was another one");
}
