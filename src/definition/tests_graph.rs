//! Graphs in files: what is refused when a file is loaded, with its line and column, and what a
//! file means.

use crate::definition::load::{Loaded, load_text};
use crate::definition::problem::Problem;
use crate::kernel::Assurance;
use crate::kernel::graph::Task;
use crate::kernel::workflow::Pattern;

const HEAD: &str = "\
name: g
input: {type: object, properties: {n: {type: integer}, who: {type: string}, all: {type: array}}, additionalProperties: false}
models: {m: {provider: scripted, script: [{say: x}]}}
tools: {get: {provider: scripted, settings: {returns: 1}}}
agents: {a: {}}
pattern: graph
graph:
  steps:
    - {id: a, agent: a}
";

fn load(steps: &str) -> Result<Loaded, Vec<Problem>> {
    let text = format!("{HEAD}{steps}");
    load_text("g.yaml", &text, &|name| match name {
        "g.yaml" => Ok(("g.yaml".into(), text.clone())),
        "seq.yaml" => Ok(("seq.yaml".into(), SEQUENCE.into())),
        "chat.yaml" => Ok(("chat.yaml".into(), CHAT.into())),
        "deep.yaml" => Ok((format!("deep{}.yaml", name.len()), text.clone())),
        _ => Err("there is no such file".into()),
    })
}

const SEQUENCE: &str = "\
name: seq
models: {m: {provider: scripted, script: [{agent: w, say: 'as {{said.w}} said'}]}}
agents: {w: {tools: [put]}}
tools: {put: {provider: scripted, tags: [writes], settings: {returns: 1}}}
gates: [{name: before_write, tags: [writes]}]
pattern: sequential
steps: [{id: one, agent: w, prompt: 'costs ${5}'}, {id: two, human: {kind: approval, prompt: ok}}]
";
const CHAT: &str = "\
name: chat
models: {m: {provider: scripted, script: [{say: x}]}}
agents: {a: {}}
pattern: handoff
handoff: {start: a}
";

/// The first problem: its code, its line below the head, its column.
fn problem(steps: &str) -> (&'static str, usize, usize) {
    let problems = load(steps).expect_err(steps);
    let first = &problems[0];
    (first.code, first.line - HEAD.lines().count(), first.column)
}

#[test]
fn expressions_that_cannot_be_right_are_told_at_their_character() {
    for (steps, expected) in [
        ("    - {id: x, if: inptu.n > 1, then: []}\n", ("variable.unknown", 1, 19)),
        ("    - {id: x, if: 'input.n / 0 > 1', then: []}\n", ("expression.zero", 1, 30)),
        ("    - {id: x, if: \"input.n == 'much'\", then: []}\n", ("expression.type", 1, 28)),
        ("    - {id: x, if: input.n, then: []}\n", ("expression.type", 1, 19)),
        (
            "    - {id: x, if: steps.later == 1, then: []}\n    - {id: later, tool: get}\n",
            ("variable.unknown", 1, 25),
        ),
        ("    - {id: x, if: input.nn > 1, then: []}\n", ("field.unknown", 1, 25)),
        ("    - {id: x, if: 1 +, then: []}\n", ("expression.syntax", 1, 22)),
        ("    - {id: x, agent: a, prompt: 'Dear ${input.whom}'}\n", ("field.unknown", 1, 47)),
        (
            "    - id: x\n      tool: get\n      arguments: {to: ['${steps.no}']}\n",
            ("variable.unknown", 3, 33),
        ),
        (
            "    - {id: x, for_each: input.n, steps: [{id: y, tool: get}]}\n",
            ("expression.type", 1, 25),
        ),
        ("    - {id: x, extract: {v: '${item}'}}\n", ("variable.unknown", 1, 31)),
        ("    - {id: x, tool: get, skip_if: steps.x == 1}\n", ("variable.unknown", 1, 41)),
    ] {
        assert_eq!(problem(steps), expected, "{steps}");
    }
}

#[test]
fn steps_that_do_not_hold_together_are_refused() {
    for (steps, code) in [
        ("    - {id: x}\n", "step.work"),
        ("    - {id: x, agent: a, tool: get}\n", "step.work"),
        ("    - {tool: get, prompt: hi}\n", "step.field"),
        ("    - {extract: {v: 1}}\n", "field.missing"),
        ("    - {id: a, tool: get}\n", "name.duplicate"),
        ("    - {id: x, agent: b}\n", "agent.unknown"),
        ("    - {id: x, tool: set}\n", "tool.unknown"),
        ("    - {id: x, for_each: '[1]', steps: []}\n", "steps.empty"),
        (
            "    - {id: x, for_each: '[1]', as: input, steps: [{id: y, tool: get}]}\n",
            "name.duplicate",
        ),
        (
            "    - {id: x, for_each: '[1]', max_items: 1000000, steps: [{id: y, tool: get}]}\n",
            "field.range",
        ),
        ("    - {id: x, loop: {max_rounds: 3}, steps: [{id: y, tool: get}]}\n", "loop.end"),
        ("    - {id: x, loop: {until: 'true'}, steps: [{id: y, tool: get}]}\n", "field.missing"),
        ("    - {id: x, wait: {}}\n", "step.work"),
        ("    - {id: x, wait: {for: soon}}\n", "field.value"),
        ("    - {id: x, switch: input.n, cases: [{is: two, steps: []}]}\n", "switch.unreachable"),
        (
            "    - {id: x, switch: input.n, cases: [{is: 1, steps: []}, {is: 1, steps: []}]}\n",
            "switch.unreachable",
        ),
        ("    - {id: x, human: {kind: selection, prompt: which}}\n", "question.options"),
        (
            "    - {id: x, critical: false, human: {kind: approval, prompt: ok}}\n",
            "question.critical",
        ),
        (
            "    - {id: x, human: {kind: approval, prompt: ok, deadline: 1h, on_timeout: continue}}\n",
            "question.silence",
        ),
        ("    - {id: x, tool: get, gate: {mode: [never, both]}}\n", "gate.contradiction"),
        (
            "    - {id: x, tool: get, gate: {mode: [plan_review, after_step]}}\n",
            "gate.contradiction",
        ),
        (
            "    - {id: x, tool: get, gate: {mode: before_step, attempts: 2}}\n",
            "gate.contradiction",
        ),
        ("    - {id: x, tool: get, gate: {mode: sometimes}}\n", "field.value"),
        ("    - {id: x, workflow: {file: g.yaml}}\n", "workflow.recursion"),
        ("    - {id: x, workflow: {file: nowhere.yaml}}\n", "workflow.unreadable"),
        ("    - {id: x, workflow: {file: chat.yaml}}\n", "workflow.pattern"),
    ] {
        let (found, line, _) = problem(steps);
        assert_eq!((found, line), (code, 1), "{steps}");
    }
}

#[test]
fn workflows_are_steps_of_one_another_only_so_deep() {
    let text = |inner: usize| format!("{HEAD}    - {{id: x, workflow: {{file: w{inner}.yaml}}}}\n");
    let resolve = |name: &str| {
        let number: usize = name.trim_start_matches('w').trim_end_matches(".yaml").parse().unwrap();
        Ok((name.to_owned(), text(number + 1)))
    };
    let problems = load_text("w0.yaml", &text(1), &resolve).expect_err("too deep");
    assert_eq!(problems[0].code, "workflow.depth");
}

#[test]
fn another_workflow_comes_along_whole_under_its_own_name() {
    let loaded =
        load("    - {id: x, workflow: {file: seq.yaml, input: '${input.who}'}}\n").unwrap();
    let workflow = &loaded.workflow;
    assert!(workflow.agents.contains_key("seq__w"));
    assert_eq!(workflow.agents["seq__w"].tools, ["seq__put"]);
    assert_eq!(workflow.agents["seq__w"].model, "seq__m");
    assert_eq!(workflow.gates[0].tools, ["seq__put"], "and its gates hold for its tools alone");
    let rule = &workflow.models["seq__m"].settings["script"]["rules"][0];
    assert_eq!(
        (&rule["agent"], &rule["say"]),
        (&"seq__w".into(), &"as {{said.seq__w}} said".into())
    );
    let Pattern::Graph(program) = &workflow.pattern else { panic!("a graph") };
    let Task::Sub { program, .. } = &program.steps[1].task else { panic!("a workflow") };
    let Task::Agent { agent, prompt, .. } = &program.steps[0].task else { panic!("an agent") };
    assert_eq!((agent.as_str(), prompt.as_ref().unwrap().text()), ("seq__w", "costs ${5}"));
}

#[test]
fn a_definition_is_read_back_as_it_was_stored() {
    let loaded = load(
        "    - {id: p, parallel: {one: [{id: y, tool: get}], two: [{id: w, wait: {for: 2h, signal: s}}]}}
    - {id: f, for_each: input.all, as: one, concurrency: 2, steps: [{id: h, human: {kind: approval, prompt: '${one}?'}}]}
    - {id: l, loop: {until: round > 1, max_rounds: 2}, steps: [{id: e, extract: {v: '${index ?? 0}'}}], critical: false}\n",
    );
    // `index` is not known in a loop.
    assert_eq!(loaded.expect_err("index")[0].code, "variable.unknown");
    let loaded = load(
        "    - {id: p, parallel: {one: [{id: y, tool: get}], two: [{id: w, wait: {for: 2h, signal: s}}]}}
    - {id: f, for_each: input.all, as: one, concurrency: 2, steps: [{id: h, human: {kind: approval, prompt: '${one}?'}}]}
    - {id: l, loop: {until: round > 1, max_rounds: 2}, steps: [{id: e, extract: {v: '${round}'}}], critical: false, timeout: 3s}\n",
    )
    .unwrap();
    let stored = serde_json::to_string(&*loaded.workflow).unwrap();
    let read: crate::kernel::Workflow = serde_json::from_str(&stored).unwrap();
    assert_eq!(read, *loaded.workflow);
}

const CREW: &str = "\
name: crew
models: {m: {provider: scripted, script: [{say: x}]}}
agents: {a: {}, b: {}, c: {}}
";

fn crew(rest: &str) -> Result<Loaded, Vec<Problem>> {
    load_text("crew.yaml", &format!("{CREW}{rest}"), &|_| Err("none".into()))
}

#[test]
fn agents_at_the_same_time_and_in_a_chat_are_graphs_in_short() {
    for (rest, ids) in [
        (
            "pattern: concurrent\nconcurrent: {agents: [a, b], aggregator: c}\n",
            vec!["all", "a", "b", "c"],
        ),
        (
            "pattern: group_chat\ngroup_chat: {agents: [a, b, c], rounds: 4, ends: 'I \"agree\"'}\n",
            vec!["chat", "speak", "a", "b", "c"],
        ),
        (
            "pattern: group_chat\ngroup_chat: {agents: [a, b], selector: c, rounds: 4}\n",
            vec!["chat", "select", "speak", "a", "b"],
        ),
    ] {
        let loaded = crew(rest).unwrap_or_else(|problems| panic!("{rest}: {problems:?}"));
        let Pattern::Graph(program) = &loaded.workflow.pattern else { panic!("a graph") };
        let found: Vec<_> = program.all().iter().map(|step| step.id.as_str()).collect();
        assert_eq!(found, ids, "{rest}");
    }
    for (rest, code) in [
        ("pattern: concurrent\nconcurrent: {agents: [a, b]}\n", "agent.unreachable"),
        ("pattern: concurrent\nconcurrent: {agents: [a, b, c, a]}\n", "name.duplicate"),
        ("pattern: concurrent\nconcurrent: {agents: [a, b, d]}\n", "agent.unknown"),
        (
            "pattern: group_chat\ngroup_chat: {agents: [a, b, c], selector: a, rounds: 2}\n",
            "name.duplicate",
        ),
        ("pattern: group_chat\ngroup_chat: {agents: [a, b, c]}\n", "field.missing"),
        ("pattern: group_chat\n", "pattern.block"),
    ] {
        let problems = crew(rest).expect_err(rest);
        assert!(problems.iter().any(|problem| problem.code == code), "{rest}: {problems:?}");
    }
}

#[test]
fn a_wait_says_who_sends_its_signal_and_a_gate_how_well_they_are_known() {
    let code = |steps: &str| load(steps).expect_err(steps)[0].code;
    assert_eq!(code("    - {id: w, wait: {for: 2h, from: [bank]}}\n"), "step.work");
    assert_eq!(
        code("    - {id: w, wait: {signal: s, from: ['${input.who}']}}\n"),
        "approvers.name"
    );
    let model = "    - {id: h, human: {kind: approval, prompt: ok, assurance: model}}\n";
    assert!(load(model).is_err(), "a model never decides");
    let loaded = load(
        "    - {id: w, wait: {signal: s, from: [bank, 'group:treasury']}}
    - {id: h, human: {kind: approval, prompt: ok, assurance: vouched, approvers: [{to: [b]}, {to: [c], assurance: proven}]}}\n",
    )
    .unwrap();
    let Pattern::Graph(program) = &loaded.workflow.pattern else { panic!("a graph") };
    assert_eq!(program.senders("s"), [["bank", "group:treasury"]]);
    assert_eq!(program.senders("t"), Vec::<&[String]>::new());
    let steps = program.all();
    let Task::Human(ask) = &steps.last().unwrap().task else { panic!("a person") };
    let said: Vec<_> = ask.patience.approvers.iter().map(|stage| stage.assurance).collect();
    assert_eq!(said, [Some(Assurance::Vouched), Some(Assurance::Proven)]);
}
