//! Gates in files: judges, contradictions, and tools that are not there, each told with its line.

use crate::definition::{Problem, load_text};
use crate::kernel::workflow::{Condition, Pattern};
use crate::kernel::{Membership, Operator};

const HEAD: &str = "\
name: g
models: {m: {provider: scripted, script: [{say: x}]}}
tools:
  deploy: {provider: scripted, tags: [risky], settings: {returns: ok}}
  look: {provider: scripted, settings: {returns: ok}}
agents: {a: {tools: [deploy, look]}, officer: {}}
mcp: {time: {command: [clock]}}
pattern: sequential
steps: [{agent: a}]
gates:
";

/// No file lies beside these.
fn nowhere(_: &str) -> Result<(String, String), String> {
    Err("there is no such file".into())
}

fn problems(gates: &str) -> Vec<(&'static str, usize, usize)> {
    let place = |problem: &Problem| {
        let line = problem.line.saturating_sub(HEAD.lines().count());
        (problem.code, line, problem.column)
    };
    match load_text("g.yaml", &format!("{HEAD}{gates}"), &nowhere) {
        Ok(_) => Vec::new(),
        Err(problems) => problems
            .iter()
            .filter(|problem| problem.code != "agent.unreachable")
            .map(place)
            .collect(),
    }
}

#[test]
fn a_judge_is_an_agent_of_the_file_and_never_its_own() {
    let with =
        |judge: &str| format!("  - {{name: g, tools: [deploy], when: [{{judge: {judge}}}]}}\n");
    assert_eq!(problems(&with("officer")), []);
    assert_eq!(problems(&with("{agent: officer, within: 5s}")), []);
    assert_eq!(problems(&with("officr")), [("agent.unknown", 1, 47)]);
    assert_eq!(problems(&with("{agent: officr}")), [("agent.unknown", 1, 55)]);
    assert_eq!(problems(&with("a")), [("gate.own_judge", 1, 47)]);
    assert_eq!(problems(&with("{agent: officer, within: 0s}")), [("field.range", 1, 72)]);
}

#[test]
fn a_judge_needs_no_turn_of_its_own_and_is_compiled_with_its_time() {
    let text =
        format!("{HEAD}  - {{name: g, tags: [risky], when: [uncertain, {{judge: officer}}]}}\n");
    let loaded = load_text("g.yaml", &text, &nowhere).expect("good");
    let judge = Condition::Judge { agent: "officer".into(), within_ms: 60_000 };
    assert_eq!(loaded.workflow.gates[0].when, [Condition::Uncertain, judge]);
}

#[test]
fn two_gates_that_contradict_each_other_are_told_at_the_second() {
    let always = "  - {name: always, tools: [deploy]}\n";
    let other = "  - {name: other, tools: [look, deploy]}\n";
    let some = "  - {name: some, tools: [deploy], when: [uncertain]}\n";
    let tagged = "  - {name: tagged, tags: [risky], when: [uncertain]}\n";
    let clash = |one: &str, two: &str| problems(&format!("{one}{two}"));
    assert_eq!(clash(always, other), [("gate.contradiction", 2, 33)]);
    assert_eq!(clash(always, some), [("gate.contradiction", 2, 26)]);
    assert_eq!(clash(some, always), [("gate.contradiction", 2, 28)]);
    assert_eq!(clash(always, tagged), [], "a tag means others as well");
    let more = some.replace("some", "more");
    assert_eq!(clash(some, &more), [], "conditions add up");
    let allowed = "  - {name: always, tools: [deploy], allow_for: 1h}\n";
    assert_eq!(problems(allowed), [("gate.contradiction", 1, 48)]);
    let twice = "  - {name: always, tools: [deploy, deploy]}\n";
    assert_eq!(problems(twice), [("name.duplicate", 1, 36)]);
}

#[test]
fn a_gate_bound_to_a_tool_that_is_not_there_is_told() {
    assert_eq!(problems("  - {name: g, tools: [deplo]}\n"), [("tool.unknown", 1, 23)]);
    assert_eq!(problems("  - {name: g, tags: [riski]}\n"), [("tag.unknown", 1, 22)]);
    assert_eq!(problems("  - {name: g}\n"), [("gate.unbound", 1, 5)]);
    // Nobody may call it: there is nothing to stop.
    assert_eq!(problems("  - {name: g, tools: [time.now]}\n"), [("tool.unknown", 1, 23)]);
    assert_eq!(problems("  - {name: g, tools: ['time.*']}\n"), [("tool.unknown", 1, 23)]);
}

#[test]
fn a_gate_waits_on_terms_but_never_passes_by_silence() {
    let with = |terms: &str| problems(&format!("  - {{name: g, tools: [deploy], {terms}}}\n"));
    assert_eq!(with("deadline: 1h, on_timeout: {escalate_to: {to: [boss], within: 1h}}"), []);
    assert_eq!(with("remind: 1h, to: [ann]"), []);
    assert_eq!(with("deadline: 1h, on_timeout: continue")[0].0, "question.silence");
    assert_eq!(with("on_timeout: {escalate_to: {to: [boss]}}")[0].0, "question.deadline");
    assert_eq!(with("deadline: 0s")[0].0, "field.range");
}

#[test]
fn all_tools_of_a_server_are_gated_whoever_names_them() {
    let file = |agent: &str, gate: &str| {
        let text = HEAD.replace("[deploy, look]}, officer: {}", &format!("[{agent}]}}"));
        let text = format!("{text}  - {{name: g, tools: [{gate}]}}\n");
        load_text("g.yaml", &text, &nowhere).expect("good").workflow.gates[0].tools.clone()
    };
    assert_eq!(file("time.now", "'time.*'"), ["time__now"]);
    assert_eq!(file("'time.*'", "'time.*'"), ["time.*"], "until the server tells");
    assert_eq!(file("'time.*', time.now", "'time.*'"), ["time.*", "time__now"]);
    assert_eq!(file("'time.*'", "time.now"), ["time__now"]);
}

const PLAN: &str = "\
name: p
models: {m: {provider: scripted, script: [{say: x}]}}
agents: {p: {}, w: {}, v: {}, c: {}}
pattern: plan_execute
plan_execute:
";

fn planned(terms: &str) -> Vec<(&'static str, usize)> {
    match load_text("p.yaml", &format!("{PLAN}{terms}"), &nowhere) {
        Ok(loaded) => {
            assert!(matches!(loaded.workflow.pattern, Pattern::Graph(_)), "a graph in short");
            Vec::new()
        }
        Err(problems) => problems.iter().map(|problem| (problem.code, problem.line)).collect(),
    }
}

#[test]
fn a_plan_that_is_carried_out_is_a_graph_in_short() {
    let good = "  planner: p\n  workers: [w, v]\n  controller: c\n";
    assert_eq!(planned(good), []);
    assert_eq!(planned(&format!("{good}  review: {{mode: never}}\n  max_steps: 3\n")), []);
    for (terms, expected) in [
        ("  planner: p\n  workers: [w, v, c]\n", ("pattern.controller", 7)),
        ("  planner: p\n  workers: [w, v]\n  controller: w\n", ("name.duplicate", 7)),
        ("  planner: q\n  workers: [w, v]\n  controller: c\n", ("agent.unknown", 6)),
        (&format!("{good}  review: {{mode: after_step}}\n"), ("gate.contradiction", 9)),
        (&format!("{good}  gate: {{mode: plan_review}}\n"), ("gate.contradiction", 9)),
        (
            &format!("{good}  gate: {{mode: both, prompt: '${{nobody}}'}}\n"),
            ("variable.unknown", 9),
        ),
    ] {
        let found = planned(terms);
        assert!(found.contains(&expected), "{expected:?} in {found:?} of\n{terms}");
    }
    let shaped = PLAN.replace("p: {}", "p: {output: {type: object}}");
    let problems = load_text("p.yaml", &format!("{shaped}{good}"), &nowhere).expect_err("no steps");
    assert_eq!((problems[0].code, problems[0].line), ("pattern.planner", 3));
}

#[test]
fn a_stage_that_nobody_can_pass_is_told_with_its_line() {
    let with = |whom: &str| format!("  - {{name: g, tools: [deploy], {whom}}}\n");
    assert_eq!(problems(&with("to: [ann], not: [requester]")), []);
    let alone = problems(&with("not: [requester]"));
    assert_eq!(alone, [("approvers.impassable", 1, 32)], "the one who is asked is excluded");
    let few = problems(&with("approvers: {to: [ann, ann], need: 2}"));
    assert_eq!(few, [("approvers.impassable", 1, 66)]);
}

#[test]
fn a_group_that_nobody_is_in_is_told_with_its_line_where_the_operator_names_people() {
    let gate = "  - {name: g, tools: [deploy], approvers: {to: ['group:finance', cfo], need: 3}}\n";
    let head = HEAD.replace(", officer: {}", "").replace("mcp: {time: {command: [clock]}}\n", "\n");
    let loaded =
        load_text("g.yaml", &format!("{head}{gate}"), &nowhere).expect("it holds together");
    let member = |groups: &[&str]| Membership {
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..Membership::default()
    };
    let found = |people: &[(&str, &[&str])]| -> Vec<(&'static str, usize)> {
        let people = people.iter().map(|(name, groups)| ((*name).to_owned(), member(groups)));
        let operator = Operator { people: people.collect(), ..Operator::default() };
        let line = |problem: &Problem| problem.line - HEAD.lines().count();
        let problems = loaded.people_problems(&operator);
        problems.iter().map(|problem| (problem.code, line(problem))).collect()
    };
    assert_eq!(found(&[]), [], "nothing is known of anybody");
    let finance: &[&str] = &["finance"];
    assert_eq!(found(&[("ann", finance), ("bob", finance)]), []);
    assert_eq!(found(&[("ann", finance)]), [("approvers.impassable", 1)]);
    let nobody = [("approvers.nobody", 1), ("approvers.impassable", 1)];
    assert_eq!(found(&[("ann", &[])]), nobody);
}
