//! Loose ends: what is said of a call that was under way when its step was stopped.

use serde_json::json;

use super::cast::{graph, sequence, step};
use super::stage::{Act, Stage, calls, returns};
use crate::kernel::Event;

fn pays(id: &str) -> serde_json::Value {
    json!({"id": id, "task": {"tool": {"tool": "charge", "arguments": {"id": 7}}}})
}

fn warnings(stage: &Stage) -> Vec<String> {
    let of = |event: &Event| {
        let Event::Warned(failure) = event else { return None };
        (failure.code == "tool.cut_off").then(|| failure.message.clone())
    };
    stage.journal.iter().filter_map(|recorded| of(&recorded.event)).collect()
}

/// A payment, and beside it an agent who fails; the whole may fail without ending the run.
fn beside(critical: bool) -> crate::kernel::Workflow {
    graph(&json!([
        {"id": "all", "critical": critical, "task": {"parallel": {"branches": [
            {"name": "pay", "steps": [pays("charge")]},
            {"name": "talk", "steps": [{"id": "say", "task": {"agent": {"agent": "a"}}}]},
        ]}}},
        {"id": "end", "task": {"agent": {"agent": "b"}}},
    ]))
}

#[test]
fn e2_a_run_that_fails_beside_a_call_says_that_it_may_have_happened() {
    let mut stage = Stage::open(&beside(true), "Hello");
    stage.perform([Act::Fails(false)]);
    assert!(stage.run.status.is_over(), "{}", stage.told);
    let told = warnings(&stage);
    assert_eq!(told.len(), 1, "{told:?}");
    for part in ["`all/pay/charge`", "`charge`", "{\"id\":7}", "may have happened"] {
        assert!(told[0].contains(part), "{part} in {}", told[0]);
    }
}

#[test]
fn e2_while_the_run_goes_on_the_outcome_is_taken_down_when_it_comes() {
    let mut stage = Stage::open(&beside(false), "Hello");
    stage.perform([Act::Fails(false)]);
    assert_eq!(warnings(&stage).len(), 1);
    let (turn, call) = stage.run.loose[0].clone();
    let before = stage.run.conversation.len();
    let late = crate::kernel::Command::ToolReturned {
        turn,
        call_id: call.id.clone(),
        outcome: Ok(json!("receipt 7")),
    };
    assert_eq!(stage.command_by(&late), Ok(None));
    assert!(stage.run.loose.is_empty());
    assert_eq!(stage.run.conversation.len(), before, "nothing follows from it");
    let last = &stage.journal.last().expect("an event").event;
    assert!(matches!(last, Event::ToolReturned { value, .. } if value == "receipt 7"), "{last:?}");
    assert_eq!(stage.command_by(&late), Err("work.stale"), "and only once");
}

#[test]
fn e2_a_cancelled_run_says_what_was_under_way_and_a_look_leaves_nothing() {
    let both = calls("", [("c1", "charge", json!({"id": 7})), ("c2", "lookup", json!({"id": 1}))]);
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([both, Act::Cancels]);
    assert_eq!(warnings(&stage).len(), 1, "{:?}", warnings(&stage));

    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    let one = calls("", [("c1", "charge", json!({"id": 7}))]);
    stage.perform([one, returns("c1", json!("ok")), Act::Cancels]);
    assert!(warnings(&stage).is_empty(), "what came back is no loose end");
}

#[test]
fn e2_a_step_that_took_too_long_leaves_its_call_behind() {
    let mut slow = pays("charge");
    slow["timeout_ms"] = json!(1000);
    let mut stage = Stage::open(&graph(&json!([slow])), "Hello");
    stage.perform([Act::Waits(1000)]);
    assert_eq!(warnings(&stage).len(), 1, "{}", stage.told);
}
