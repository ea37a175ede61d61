//! Acts: gates at handoffs, at replies and before the steps of a graph; conditions, and in which words or figures they
//! were met; and where a conversation goes when an agent is done.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cast::{graph, sequence, step, support, terms};
use super::stage::{Act, Stage, answers, calls, hands_to, play, says};
use crate::kernel::expression::Expression;
use crate::kernel::graph::Point;
use crate::kernel::workflow::{
    AfterWork, Between, Complexity, Condition, Destination, Doubt, Gate, Handoff, Same, Workflow,
};
use crate::kernel::{Origin, REPLY};

fn gate(name: &str) -> Gate {
    Gate { name: name.into(), ..Gate::default() }
}

fn last(stage: &Stage) -> String {
    let line = stage.told.lines().last().unwrap_or_default();
    line.split_once(" -> ").map_or(line, |(_, state)| state).to_owned()
}

fn reasons(stage: &Stage) -> Vec<String> {
    let question = stage.run.questions.values().next().expect("asked");
    serde_json::from_value(question.context["reasons"].clone()).expect("reasons")
}

fn handed(between: Between, when: Vec<Condition>) -> Workflow {
    let gate = Gate { handoffs: vec![between], when, ..gate("before_handoff") };
    Workflow { gates: vec![gate], ..support(terms()) }
}

#[test]
fn k4_a_handoff_at_a_gate_happens_only_after_a_yes_and_a_no_is_told_to_the_agent() {
    let workflow = handed(Between::default(), Vec::new());
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([hands_to("repair")]);
    let asked = &stage.run.questions[&1];
    assert_eq!(asked.prompt, "May triage hand the conversation over to repair?");
    assert!(stage.run.turns.values().all(|turn| turn.handoff.is_none()));
    stage.perform([answers(1, "yes")]);
    assert_eq!(last(&stage), "repair");

    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([hands_to("repair"), answers(1, json!({"decision": "deny", "note": "not yet"}))]);
    assert_eq!(last(&stage), "triage", "it has the word again");
    assert!(stage.given().contains("Denied by ann: not yet."), "{}", stage.given());
}

#[test]
fn a_gate_at_a_handoff_looks_at_who_hands_over_to_whom_and_at_the_conversation() {
    let only = Between { from: Some("triage".into()), to: Some("billing".into()) };
    let mut stage = Stage::open(&handed(only.clone(), Vec::new()), "Hello");
    stage.perform([hands_to("repair"), hands_to("billing")]);
    assert_eq!(last(&stage), "billing", "repair to billing is another handoff");
    let mut stage = Stage::open(&handed(only, Vec::new()), "Hello");
    stage.perform([hands_to("billing")]);
    assert_eq!(last(&stage), "waiting for #1 tool_approval");

    let risky = vec![Condition::Keywords(vec!["delete".into()])];
    let mut stage = Stage::open(&handed(Between::default(), risky.clone()), "Hello");
    stage.perform([hands_to("repair")]);
    assert_eq!(last(&stage), "repair", "nothing was said that is risky");
    let mut stage = Stage::open(&handed(Between::default(), risky), "Please DELETE my account");
    stage.perform([hands_to("repair")]);
    assert_eq!(reasons(&stage), ["high-risk word `delete`"], "the caller said it");
}

fn replying(when: Vec<Condition>) -> Workflow {
    let gate = Gate { replies: vec!["a".into()], when, ..gate("final_words") };
    Workflow { gates: vec![gate], ..sequence(vec![step("a"), step("b")]) }
}

#[test]
fn k4_a_reply_at_a_gate_becomes_final_only_after_a_yes_and_nobody_hears_it_before() {
    let mut stage = Stage::open(&replying(Vec::new()), "Hello");
    stage.perform([says("The answer is 7.")]);
    let asked = &stage.run.questions[&1];
    let Origin::Gate(call) = &asked.origin else { panic!("{:?}", asked.origin) };
    assert_eq!(
        (call.tool.as_str(), &call.arguments),
        (REPLY, &json!({"text": "The answer is 7."}))
    );
    assert!(stage.run.last_words().is_none(), "nobody has heard it");
    stage.perform([answers(1, "yes")]);
    assert_eq!(last(&stage), "b");
    let seen = stage.given();
    assert_eq!(seen.matches("The answer is 7.").count(), 1, "{seen}");
}

#[test]
fn a_reply_that_is_refused_is_said_anew_and_one_that_is_edited_is_what_is_said() {
    let mut stage = Stage::open(&replying(Vec::new()), "Hello");
    stage.perform([says("Seven?"), answers(1, json!({"decision": "deny", "note": "be sure"}))]);
    assert_eq!(last(&stage), "a", "it replies again");
    assert!(stage.given().contains("Your reply was not passed on. Denied by ann: be sure."));
    stage.perform([says("Seven.")]);
    let edit = json!({"decision": "edit", "arguments": {"text": "It is seven."}});
    stage.perform([answers(2, edit)]);
    assert_eq!(last(&stage), "b");
    assert!(stage.given().contains("It is seven."), "{}", stage.given());
    assert!(!stage.given().contains("Seven?"), "{}", stage.given());
}

#[test]
fn a_reply_passes_a_gate_whose_conditions_are_not_met() {
    let when = vec![Condition::Uncertain];
    assert_eq!(
        play(&replying(when.clone()), [says("Seven."), says("Done.")]),
        "a\nsays \"Seven.\" -> b\nsays \"Done.\" -> completed with \"Done.\"\n"
    );
    let mut stage = Stage::open(&replying(when), "Hello");
    stage.perform([says("I am not sure.")]);
    assert!(reasons(&stage)[0].starts_with("the agent says `not sure`"), "{:?}", reasons(&stage));
}

#[test]
fn what_is_said_around_a_doubt_is_told_as_it_was_said() {
    let mut stage = Stage::open(&replying(vec![Condition::Uncertain]), "Hello");
    stage.perform([says("İn Izmir, with Hunter2-Canary, I am NOT sure at all.")]);
    let reasons = reasons(&stage);
    assert!(reasons[0].contains("with Hunter2-Canary, I am NOT sure at all."), "{reasons:?}");
}

#[test]
fn a_rule_before_a_step_of_a_graph_asks_as_the_step_s_own_gate_would() {
    let rule = Gate { steps: vec!["work".into()], ..gate("rule") };
    let mut workflow = graph(&json!([
        {"id": "work", "task": {"agent": {"agent": "a"}}},
        {"id": "next", "task": {"agent": {"agent": "b"}}},
    ]));
    workflow.gates = vec![rule.clone()];
    let mut stage = Stage::open(&workflow, "Hello");
    let asked = &stage.run.questions[&1];
    assert_eq!((&asked.origin, asked.step.as_str()), (&Origin::Phase(Point::Before), "work"));
    assert_eq!(asked.context["gates"], json!(["rule"]));
    stage.perform([answers(1, "approve")]);
    assert_eq!(last(&stage), "a");
    stage.perform([says("done")]);
    assert_eq!(last(&stage), "b");

    workflow.gates = vec![Gate { at: vec![Point::After], ..rule }];
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([
        says("one"),
        answers(1, "redo"),
        says("two"),
        answers(2, "redo"),
        says("three"),
    ]);
    assert_eq!(stage.act(&answers(3, "redo")), Err("answer.invalid"), "twice is enough");
    stage.perform([answers(3, "continue")]);
    assert_eq!(last(&stage), "b");
}

fn at_charge(condition: Condition) -> Workflow {
    let gate = Gate { tools: vec!["charge".into()], when: vec![condition], ..gate("g") };
    Workflow { gates: vec![gate], ..sequence(vec![step("a")]) }
}

fn charge(id: &str, text: &str, arguments: Value) -> Act {
    calls(text, [(id, "charge", arguments)])
}

#[test]
fn doubt_is_heard_in_the_file_s_words_and_languages_and_by_the_agent_s_own_figure() {
    let doubt = |phrases: &[&str], languages: &[&str], confidence_under| {
        let words = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        let (phrases, languages) = (words(phrases), words(languages));
        Condition::UncertainBy(Doubt { phrases, languages, confidence_under })
    };
    for (condition, text, arguments, met) in [
        (doubt(&["hand aufs herz"], &[], None), "Hand aufs Herz, es geht.", json!({}), true),
        (doubt(&[], &["de"], None), "Das ist vielleicht richtig.", json!({}), true),
        (doubt(&[], &["de"], None), "Perhaps.", json!({}), false),
        (doubt(&[], &[], None), "Perhaps.", json!({}), true),
        (doubt(&[], &[], Some(0.7)), "Perhaps.", json!({"confidence": 0.9}), false),
        (doubt(&[], &[], Some(0.7)), "", json!({"confidence": 0.6}), true),
        (doubt(&[], &[], Some(0.7)), "", json!({"confidence": "high"}), true),
    ] {
        let mut stage = Stage::open(&at_charge(condition.clone()), "Hello");
        stage.perform([charge("c1", text, arguments)]);
        assert_eq!(!stage.run.questions.is_empty(), met, "{condition:?} {text}");
    }
    let mut stage = Stage::open(&at_charge(doubt(&[], &[], Some(0.7))), "Hello");
    stage.perform([charge("c1", "", json!({"confidence": 0.6}))]);
    assert_eq!(reasons(&stage), ["the agent's confidence is 0.6, under 0.7"]);
}

#[test]
fn failures_are_counted_of_one_tool_or_in_one_step_where_the_file_says_so() {
    for same in [Same::Tool, Same::Step] {
        let mut stage = Stage::open(&at_charge(Condition::FailuresOf { same, count: 1 }), "Hello");
        let fails = |id: &str| Act::Returns(id.into(), Err("no".into()));
        stage.perform([
            calls("", [("l1", "lookup", json!({}))]),
            fails("l1"),
            charge("c1", "", json!({})),
        ]);
        assert!(stage.run.questions.is_empty(), "another tool failed once: {same:?}");
        stage.perform([fails("c1")]);
        stage.perform([charge("c2", "", json!({}))]);
        let is_asked = !stage.run.questions.is_empty();
        assert_eq!(is_asked, same == Same::Step, "{same:?}");
        if is_asked {
            assert_eq!(reasons(&stage), ["step `a` has failed 2 times, over 1"]);
            continue;
        }
        stage.perform([fails("c2"), charge("c3", "", json!({}))]);
        assert_eq!(reasons(&stage), ["`charge` has failed 2 times, over 1"]);
    }
}

#[test]
fn what_is_complex_is_counted_without_a_judge_and_said_in_figures() {
    let most = Complexity { options: Some(2), steps: Some(3), amounts: Some(2) };
    for (text, arguments, why) in [
        ("", json!({"options": ["a", "b"]}), None),
        ("", json!({"options": ["a", "b", "c"]}), Some("3 options, over 2")),
        ("Either\n- sea\n- hills\n- town", json!({}), Some("3 options, over 2")),
        ("Pay 10, 20 and 30.", json!({}), Some("3 amounts, over 2")),
    ] {
        let mut stage = Stage::open(&at_charge(Condition::Complex(most)), "Hello");
        stage.perform([charge("c1", text, arguments)]);
        let found = (!stage.run.questions.is_empty()).then(|| reasons(&stage).join("; "));
        assert_eq!(found.as_deref(), why, "{text}");
    }
}

#[test]
fn after_its_work_an_agent_s_conversation_goes_where_the_file_says() {
    let when = |text: &str| Some(Expression::parse(text).expect("an expression"));
    let to = |to: Destination, when: Option<Expression>| AfterWork { to, when };
    let after = |rules: Vec<AfterWork>| {
        let after_work = BTreeMap::from([("triage".to_owned(), rules)]);
        support(Handoff { after_work, ..terms() })
    };
    let billing = || Destination::Agent("billing".into());
    assert!(play(&after(vec![to(billing(), None)]), [says("Done.")]).ends_with("-> billing\n"));
    let ended = play(&after(vec![to(Destination::End, None)]), [says("Done.")]);
    assert!(ended.ends_with("-> completed with 2 messages\n"), "{ended}");
    let asked = play(&after(vec![to(Destination::User, None)]), [says("Done.")]);
    assert!(asked.ends_with("-> waiting for #1 clarification\n"), "{asked}");
    let rules = || {
        let condition = when("contains(conversation.last, \"invoice\")");
        vec![to(billing(), condition), to(Destination::End, None)]
    };
    assert!(play(&after(rules()), [says("Send the invoice.")]).ends_with("-> billing\n"));
    assert!(play(&after(rules()), [says("Fine.")]).contains("completed"));
}

#[test]
fn a_handoff_with_a_condition_is_offered_only_while_it_holds() {
    let condition = Expression::parse("contains(conversation.last, \"money\")").expect("one");
    let when = BTreeMap::from([(
        "triage".to_owned(),
        BTreeMap::from([("billing".to_owned(), condition)]),
    )]);
    let workflow = support(Handoff { when, ..terms() });
    let mut stage = Stage::open(&workflow, "It is broken");
    stage.perform([hands_to("billing")]);
    assert!(stage.given().contains("it may hand off to: repair"), "{}", stage.given());
    let mut stage = Stage::open(&workflow, "I want my money");
    stage.perform([hands_to("billing")]);
    assert_eq!(last(&stage), "billing");
}
