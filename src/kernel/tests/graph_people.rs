//! People in a graph: gates before and after a step and on error, plan review, and what a no stops.

use serde_json::{Value, json};

use super::cast::graph;
use super::stage::{Act, Stage, answers, says};
use crate::kernel::workflow::{Gate, Patience};
use crate::kernel::{Kind, Origin, Status, Workflow};

fn gated(gate: &Value) -> Workflow {
    graph(&json!([
        {"id": "work", "task": {"agent": {"agent": "a"}}, "gate": gate},
        {"id": "next", "task": {"agent": {"agent": "b"}}},
    ]))
}

fn before() -> Value {
    json!({"before": true, "redo": 2, "attempts": 3})
}

fn last(stage: &Stage) -> String {
    let line = stage.told.lines().last().unwrap_or_default();
    line.split_once(" -> ").map_or(line, |(_, state)| state).to_owned()
}

fn failure(stage: &Stage) -> String {
    let Status::Failed(failure) = &stage.run.status else {
        panic!("not failed: {:?}", stage.run.status)
    };
    failure.message.clone()
}

#[test]
fn before_a_step_a_person_may_approve_reject_or_skip_it() {
    for (says_, expected) in [
        (json!("approve"), "a"),
        (json!({"decision": "approve", "note": "go"}), "a"),
        (json!("skip"), "b"),
        (json!("reject"), "failed question.rejected"),
        (json!("no"), "failed question.rejected"),
    ] {
        let mut stage = Stage::open(&gated(&before()), "Hello");
        let asked = &stage.run.questions[&1];
        assert_eq!((asked.kind, asked.step.as_str()), (Kind::Approval, "work"));
        stage.perform([answers(1, says_.clone())]);
        assert_eq!(last(&stage), expected, "{says_}");
    }
    let mut stage = Stage::open(&gated(&before()), "Hello");
    for nonsense in [json!("sure"), json!(1), json!(null), json!("continue"), json!({})] {
        assert_eq!(stage.act(&answers(1, nonsense)), Err("answer.invalid"));
    }
    stage.perform([answers(1, json!({"decision": "reject", "note": "too early"}))]);
    assert_eq!(failure(&stage), "ann rejected step `work`: too early");
}

#[test]
fn k4_k7_nobody_answers_at_a_gate_and_the_step_is_not_begun() {
    let mut gate = before();
    gate["patience"] = json!({"deadline_ms": 1000});
    let mut stage = Stage::open(&gated(&gate), "Hello");
    stage.perform([Act::Waits(1000)]);
    assert_eq!(last(&stage), "failed question.expired");
    let mut stage = Stage::open(&gated(&before()), "Hello");
    stage.perform([Act::Withdraws(1)]);
    assert_eq!(last(&stage), "cancelled by ann");
}

#[test]
fn after_a_step_a_person_may_have_it_done_again_twice_with_their_note_in_front_of_it() {
    let gate = json!({"after": "look", "redo": 2, "attempts": 3});
    let mut stage = Stage::open(&gated(&gate), "Hello");
    stage.perform([says("one")]);
    assert_eq!(stage.run.questions[&1].context["output"], json!("one"));
    stage.perform([answers(1, json!({"decision": "redo", "note": "Shorter, please."}))]);
    assert!(stage.given().contains("user ann: Shorter, please.\n"), "{}", stage.given());
    stage.perform([says("two"), answers(2, "redo"), says("three")]);
    assert_eq!(stage.act(&answers(3, "redo")), Err("answer.invalid"), "twice is enough");
    stage.perform([answers(3, "continue")]);
    assert_eq!(last(&stage), "b");
    assert!(stage.given().contains("user ann: Shorter, please.\n"), "carried into later steps");
    let gate = json!({"after": "look", "redo": 2, "attempts": 3});
    let mut stage = Stage::open(&gated(&gate), "Hello");
    stage.perform([says("one"), answers(1, json!({"decision": "abort", "note": "enough"}))]);
    assert_eq!(failure(&stage), "ann ended the run at step `work`: enough");
}

#[test]
fn on_error_a_person_may_order_three_attempts_in_all() {
    let gate = json!({"on_error": true, "redo": 2, "attempts": 3});
    let mut stage = Stage::open(&gated(&gate), "Hello");
    stage.perform([Act::Fails(false)]);
    assert_eq!(stage.run.questions[&1].context["failure"]["code"], json!("world.fault"));
    stage.perform([answers(1, "retry"), Act::Fails(false), answers(2, "retry"), Act::Fails(false)]);
    assert_eq!(stage.act(&answers(3, "retry")), Err("answer.invalid"), "three attempts in all");
    stage.perform([answers(3, "skip")]);
    assert_eq!(last(&stage), "b");
    let mut stage = Stage::open(&gated(&gate), "Hello");
    stage.perform([Act::Fails(false), answers(1, "abort")]);
    assert_eq!(last(&stage), "failed gate.aborted");
}

fn planning() -> Workflow {
    let plan = json!({"type": "object", "required": ["steps"], "additionalProperties": false,
        "properties": {"steps": {"type": "array", "items": {"type": "string"}}}});
    graph(&json!([
        {"id": "plan", "gate": {"after": "review", "redo": 3, "attempts": 3},
         "task": {"agent": {"agent": "a", "output": plan}}},
        {"id": "do", "task": {"for_each": {"items": "steps.plan.steps", "name": "step",
         "max_items": 9, "concurrency": 1,
         "steps": [{"id": "one", "task": {"agent": {"agent": "b", "prompt": "Do ${step}."}}}]}}},
    ]))
}

fn plans(steps: &[&str]) -> Act {
    Act::Outputs(json!({"steps": steps}))
}

#[test]
fn a_plan_is_approved_with_a_note_that_every_later_prompt_has_word_for_word() {
    let mut stage = Stage::open(&planning(), "Hello");
    stage.perform([plans(&["x", "y"])]);
    let asked = &stage.run.questions[&1];
    assert_eq!((asked.kind, &asked.context["plan"]["steps"][1]), (Kind::PlanReview, &json!("y")));
    stage.perform([answers(1, json!({"decision": "approve", "note": "Mind the “gap”.\n"}))]);
    for words in ["done x", "done y"] {
        assert!(stage.given().contains("user ann: Mind the “gap”.\n"), "{}", stage.given());
        stage.perform([says(words)]);
    }
    assert_eq!(last(&stage), "completed with 2 messages");
}

#[test]
fn a_plan_is_revised_three_times_and_then_the_run_fails() {
    let mut stage = Stage::open(&planning(), "Hello");
    let revise = |ordinal| answers(ordinal, json!({"decision": "revise", "note": "no"}));
    stage.perform([plans(&["1"]), revise(1), plans(&["2"]), revise(2), plans(&["3"]), revise(3)]);
    assert_eq!(stage.act(&answers(4, "approve")), Err("request.unknown"));
    stage.perform([plans(&["4"]), revise(4)]);
    assert_eq!(last(&stage), "failed plan.rounds");
    let mut stage = Stage::open(&planning(), "Hello");
    stage.perform([plans(&["1"])]);
    assert_eq!(stage.act(&answers(1, "revise")), Err("answer.invalid"), "it needs the feedback");
    stage.perform([answers(1, json!({"decision": "reject", "note": "wrong question"}))]);
    assert_eq!(failure(&stage), "ann rejected step `plan`: wrong question");
}

#[test]
fn a_persons_plan_takes_the_agents_place_if_it_is_one() {
    let mut stage = Stage::open(&planning(), "Hello");
    stage.perform([plans(&["x"])]);
    for wrong in
        [json!({"decision": "modify"}), json!({"decision": "modify", "plan": {"steps": [1]}})]
    {
        assert_eq!(stage.act(&answers(1, wrong)), Err("answer.invalid"));
    }
    stage.perform([answers(1, json!({"decision": "modify", "plan": {"steps": ["mine"]}}))]);
    assert!(stage.given().ends_with("system play: Do mine.\n"), "{}", stage.given());
    assert!(stage.given().contains("user ann: {\"steps\":[\"mine\"]}\n"));
}

#[test]
fn k4_a_no_at_a_human_step_ends_its_sequence_and_no_other_where_the_file_says_so() {
    let approve = json!({"id": "ok", "task": {"human": {"kind": "approval", "prompt": "OK?"}}});
    let send = json!({"id": "send", "task": {"agent": {"agent": "a"}}});
    let group =
        json!({"id": "g", "critical": false, "task": {"group": {"steps": [approve, send]}}});
    let mut stage = Stage::open(&graph(&json!([approve, send])), "Hello");
    stage.perform([answers(1, "no")]);
    assert_eq!(last(&stage), "failed question.rejected");
    let next = json!({"id": "next", "task": {"agent": {"agent": "b"}}});
    let mut stage = Stage::open(&graph(&json!([group, next])), "Hello");
    stage.perform([answers(1, "no")]);
    assert_eq!(last(&stage), "b", "nothing is sent, and the rest goes on");
}

#[test]
fn gates_on_tools_hold_for_tools_own_steps_as_well() {
    let mut workflow = graph(&json!([{"id": "pay", "task": {"tool": {"tool": "charge"}}}]));
    workflow.gates.push(Gate {
        name: "before_charge".into(),
        tools: vec!["charge".into()],
        tags: Vec::new(),
        when: Vec::new(),
        prompt: None,
        patience: Patience::default(),
        allow_ms: None,
        ..Gate::default()
    });
    let mut stage = Stage::open(&workflow, "Hello");
    assert!(matches!(stage.run.questions[&1].origin, Origin::Gate(_)));
    assert_eq!(stage.run.questions[&1].prompt, "May step `pay` call `charge`?");
    stage.perform([answers(1, json!({"decision": "edit", "arguments": {"id": 2}}))]);
    assert_eq!(last(&stage), "charge(pay#1)");
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([answers(1, "deny")]);
    assert_eq!(last(&stage), "failed tool.denied", "and it is not tried again");
}

#[test]
fn what_is_returned_in_a_graph_goes_back_to_the_agents_step_before_it() {
    let flow = graph(&json!([
        {"id": "write", "task": {"agent": {"agent": "a"}}},
        {"id": "ok", "task": {"human": {"kind": "approval", "prompt": "Well?"}}},
        {"id": "end", "task": {"agent": {"agent": "b"}}},
    ]));
    let mut stage = Stage::open(&flow, "Hello");
    stage.perform([says("Draft."), answers(1, json!({"decision": "return", "note": "shorter"}))]);
    assert!(stage.given().contains("user ann: Returned: shorter\n"), "{}", stage.given());
    stage.perform([says("D.")]);
    assert_eq!(stage.run.questions[&2].context["returned"]["note"], "shorter");
    stage.perform([answers(2, "approve"), says("Sent.")]);
    assert!(last(&stage).starts_with("completed"), "{}", stage.told);
}

#[test]
fn what_is_returned_after_a_step_is_done_again_as_often_as_it_may_be_redone() {
    let flow = graph(&json!([{
        "id": "write",
        "task": {"agent": {"agent": "a"}},
        "gate": {"after": "look", "redo": 1, "attempts": 3},
    }]));
    let mut stage = Stage::open(&flow, "Hello");
    let returned = |ordinal| answers(ordinal, json!({"decision": "return", "note": "shorter"}));
    stage.perform([says("Draft."), answers(1, "return"), returned(1)]);
    assert!(stage.told.contains("refused answer.invalid"), "it needs the note: {}", stage.told);
    assert!(stage.given().contains("user ann: shorter\n"), "{}", stage.given());
    stage.perform([says("D.")]);
    assert_eq!(stage.run.questions[&2].context["returned"]["note"], "shorter");
    stage.perform([returned(2), answers(2, "continue")]);
    assert!(last(&stage).starts_with("completed"), "{}", stage.told);
}
