//! Policies, and conditions that are none: everything that is wrong is told at once, with its place and code.

use std::sync::Arc;

use crate::definition::{Problem, load_policy, load_text, shipped};
use crate::kernel::{Membership, Operator, Workflow};

fn workflows() -> Vec<Arc<Workflow>> {
    shipped().into_iter().map(|loaded| loaded.workflow).collect()
}

fn operator() -> Operator {
    let mut operator = Operator::default();
    let member = Membership { groups: vec!["finance".into()], ..Membership::default() };
    operator.people.insert("ada".into(), member);
    operator
}

fn codes(text: &str) -> Vec<&'static str> {
    match load_policy("policy.yaml", text, &workflows(), &operator()) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|problem: &Problem| problem.code).collect(),
    }
}

#[test]
fn a_policy_is_held_to_the_workflows_tools_and_people_that_there_are() {
    for (text, expected) in [
        ("rules: []", &[][..]),
        ("mode: smart", &[]),
        ("rules: [{name: a, workflows: [research_task], people: [ada], mode: autonomous}]", &[]),
        ("rules: [{name: a, people: ['group:finance'], mode: plan_only}]", &[]),
        (
            "rules: [{name: a, workflows: [research_task], people: [ada], lift: [before_file_edit]}]",
            &[],
        ),
        (
            "rules: [{name: a, workflows: [research_task], people: [ada], lift: ['step:execute']}]",
            &[],
        ),
        ("rules: [{name: a, workflows: [research_task], people: [ada], lift: [any]}]", &[]),
        ("rules: [{name: a, gates: [{name: g, tags: [edits]}]}]", &[]),
        ("rules: [{name: a, workflows: [nothing], mode: smart}]", &["workflow.unknown"]),
        ("rules: [{name: a, people: [bob], mode: smart}]", &["person.unknown"]),
        ("rules: [{name: a, people: ['group:sales'], mode: smart}]", &["group.unknown"]),
        ("rules: [{name: a, gates: [{name: g, tools: [nothing]}]}]", &["tool.unknown"]),
        ("rules: [{name: a, gates: [{name: g, tags: [nothing]}]}]", &["tag.unknown"]),
        ("rules: [{name: a, gates: [{name: g, steps: [nowhere]}]}]", &["step.unknown"]),
        ("rules: [{name: a, gates: [{name: g, replies: [nobody]}]}]", &["agent.unknown"]),
        ("rules: [{name: a, gates: [{name: g, tags: [edits], to: [bob]}]}]", &["person.unknown"]),
        ("rules: [{name: a, gates: [{name: g}]}]", &["gate.unbound"]),
        ("rules: [{name: a}]", &["policy.empty"]),
        ("rules: [{name: a, mode: mandatory}]", &[]),
        (
            "rules: [{name: a, workflows: [research_task], mode: mandatory, checkpoints: [after_planning, before_file_edit]}]",
            &[],
        ),
        (
            "rules: [{name: a, workflows: [approve_and_send], mode: mandatory, checkpoints: [after_planning, before_file_edit]}]",
            &["step.unknown", "tag.unknown"],
        ),
        ("rules: [{name: a, mode: smart}, {name: a, mode: manual}]", &["name.duplicate"]),
        ("rules: [{name: a, lift: any}]", &["policy.unnamed"]),
        ("rules: [{name: a, workflows: [research_task], lift: any}]", &["policy.unnamed"]),
        ("rules: [{name: a, mode: autonomous}]", &["policy.unnamed"]),
        ("mode: autonomous", &["policy.unnamed"]),
        (
            "rules: [{name: a, workflows: [research_task], people: [ada], lift: [nothing]}]",
            &["gate.unknown"],
        ),
        ("rules: [{name: a, mode: smart, checkpoints: [before_deploy]}]", &["gate.contradiction"]),
        ("rules: [{name: a, loosen: true, mode: smart}]", &["field.unknown"]),
        ("rules: [{name: a, mode: careless}]", &["field.value"]),
        (
            "rules: [{name: a, gates: [{name: g, tags: [edits], when: [{judge: planner}]}]}]",
            &["gate.contradiction"],
        ),
    ] {
        assert_eq!(codes(text), expected, "{text}");
    }
}

const HEAD: &str = "\
name: g
models: {m: {provider: scripted, script: [{say: x}]}}
tools:
  pay:
    provider: scripted
    parameters:
      type: object
      properties: {amount: {type: number, minimum: 1, maximum: 50}, to: {type: string}}
      required: [amount]
      additionalProperties: false
agents: {a: {tools: [pay]}}
pattern: sequential
steps: [{agent: a}]
gates: [{name: g, tools: [pay], when: [";

#[test]
fn a_condition_that_is_never_met_or_always_is_is_told_by_check() {
    let nowhere = |_: &str| Err("there is no such file".to_owned());
    for (condition, expected) in [
        ("{argument: {pointer: /amount, over: 20}}", None),
        ("{argument: {pointer: /amount, over: 50}}", Some("condition.never")),
        ("{argument: {pointer: /amount, over: 0}}", Some("condition.always")),
        ("{argument: {pointer: /to, over: 0}}", Some("condition.always")),
        ("{argument: {pointer: /other, over: 0}}", Some("condition.always")),
        ("{keywords: ['']}", Some("condition.always")),
        ("{uncertain: {confidence_under: 0}}", Some("condition.never")),
        ("{uncertain: {confidence_under: 2}}", Some("condition.always")),
        ("{uncertain: {languages: [xx]}}", Some("condition.never")),
        ("{uncertain: {languages: [de], confidence_under: 0.5}}", None),
        ("uncertain", None),
        ("{complex: {}}", Some("condition.never")),
        ("{complex: {options: 3}}", None),
        ("{failures_over: {same: tool, count: 2}}", None),
        ("{failures_over: 2}", None),
    ] {
        let text = format!("{HEAD}{condition}]}}]\n");
        let found = load_text("g.yaml", &text, &nowhere).err();
        let found = found.map(|problems| problems[0].code);
        assert_eq!(found, expected, "{condition}");
    }
}

#[test]
fn what_is_wrong_in_a_condition_is_told_of_the_condition_that_it_is() {
    for (condition, told) in [
        ("{argument: {pointer: /amount, over: 3, under: 1}}", "no field `under`"),
        ("{keywords: []}", "keywords"),
        ("{failures_over: -1}", "failures_over"),
    ] {
        let text = format!(
            "rules: [{{name: a, gates: [{{name: g, tags: [edits], when: [{condition}]}}]}}]"
        );
        let problems = load_policy("policy.yaml", &text, &workflows(), &operator()).unwrap_err();
        let words: Vec<_> = problems.iter().map(|problem| problem.message.clone()).collect();
        assert!(words.iter().any(|word| word.contains(told)), "{condition}: {words:?}");
    }
}

#[test]
fn what_a_conversation_does_after_work_is_checked_with_its_place() {
    let nowhere = |_: &str| Err("there is no such file".to_owned());
    let file = |handoff: &str| {
        format!(
            "name: h\nmodels: {{m: {{provider: scripted, script: [{{say: x}}]}}}}\nagents: {{a: {{}}, b: {{}}}}\n\
             pattern: handoff\nhandoff: {{start: a, {handoff}}}\n"
        )
    };
    for (handoff, expected) in [
        ("handoffs: {a: [b]}, after_work: {b: end}", None),
        ("after_work: {a: b}", None),
        ("after_work: {a: [{to: b, when: 'conversation.messages > 3'}, {to: user}]}", None),
        ("handoffs: {a: [{to: b, when: 'contains(conversation.last, \"x\")'}]}", None),
        ("handoffs: {a: [b]}, after_work: {b: nobody}", Some("agent.unknown")),
        ("handoffs: {a: [b]}, after_work: {c: end}", Some("agent.unknown")),
        ("handoffs: {a: [b]}, after_work: {b: b}", Some("handoff.self")),
        ("after_work: {a: [{to: b}, {to: end}]}", Some("condition.always")),
        ("handoffs: {a: [{to: b, when: 'nothing > 3'}]}", Some("variable.unknown")),
    ] {
        let found = load_text("h.yaml", &file(handoff), &nowhere).err();
        let found = found.map(|problems| problems[0].code);
        assert_eq!(found, expected, "{handoff}");
    }
}
