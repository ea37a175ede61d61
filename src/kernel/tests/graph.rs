//! The free graph: steps of every kind, many of them at the same time, and what happens to their
//! values.

use serde_json::{Value, json};

use super::cast::graph;
use super::stage::{Act, Stage, answers, calls, play, returns, says};
use crate::kernel::{Event, Status, Workflow};

fn agent(id: &str, prompt: &str) -> Value {
    json!({"id": id, "task": {"agent": {"agent": "a", "prompt": prompt}}})
}

fn extract(id: &str, values: &Value) -> Value {
    json!({"id": id, "task": {"extract": {"values": values}}})
}

fn human(id: &str, kind: &str) -> Value {
    json!({"id": id, "task": {"human": {"kind": kind, "prompt": "Well, ${input}?"}}})
}

/// How the run ended: its output, or the code of its failure.
fn end(stage: &Stage) -> Value {
    match &stage.run.status {
        Status::Completed => stage.run.output.clone().unwrap_or_default(),
        Status::Failed(failure) => json!(failure.code),
        other @ (Status::Running | Status::Waiting { .. } | Status::Cancelled { .. }) => {
            panic!("not over: {other:?}")
        }
    }
}

fn settled(stage: &Stage) -> Vec<String> {
    let path = |recorded: &'_ crate::kernel::Recorded| {
        let Event::StepClosed { path, .. } = &recorded.event else { return None };
        Some(path.clone())
    };
    stage.journal.iter().filter_map(path).collect()
}

#[test]
fn values_go_from_step_to_step() {
    let workflow = graph(&json!([
        agent("look", "Look at ${input}."),
        extract("taken", &json!({"said": "${steps.look}", "size": "${size(steps.look)}"})),
        agent("tell", "You said ${steps.taken.said}, ${steps.taken.size} letters."),
    ]));
    let mut stage = Stage::open(&workflow, "Hello");
    assert!(stage.given().ends_with("system play: Look at Hello.\n"), "{}", stage.given());
    stage.perform([says("four")]);
    assert!(stage.given().ends_with("system play: You said four, 4 letters.\n"));
    stage.perform([says("done")]);
    assert_eq!(end(&stage), json!("done"));
}

#[test]
fn a_condition_and_a_switch_take_one_way() {
    let branch = |words: &str| json!([extract(words, &json!({"way": words}))]);
    let workflow = |input: &str| {
        let mut workflow = graph(&json!([
            {"id": "c", "task": {"if": {
                "when": "size(input) > 3", "then": branch("long"), "otherwise": branch("short")}}},
            {"id": "s", "task": {"switch": {
                "on": "steps.c.way",
                "cases": [{"is": "long", "steps": [extract("x", &json!("L"))]}],
                "otherwise": [extract("y", &json!("S"))]}}},
        ]));
        workflow.name = input.into();
        workflow
    };
    for (input, expected) in [("Hello", "L"), ("Hi", "S")] {
        assert_eq!(end(&Stage::open(&workflow(input), input)), json!(expected));
    }
    let unmatched = graph(&json!([{"id": "s", "task": {"switch": {"on": "input", "cases": []}}}]));
    assert_eq!(end(&Stage::open(&unmatched, "x")), json!("switch.unmatched"));
}

#[test]
fn k7_an_expression_that_comes_to_nothing_fails_its_step_and_is_never_false() {
    for (when, code) in [
        ("input.nothing", "expression.failed"),
        ("input > 3", "expression.failed"),
        ("1 / 0 > 1", "expression.failed"),
        ("input", "expression.failed"),
    ] {
        let then = json!([extract("x", &json!(1))]);
        let workflow = graph(&json!([{"id": "c", "task": {"if": {"when": when, "then": then}}}]));
        assert_eq!(end(&Stage::open(&workflow, "Hello")), json!(code), "{when}");
        let skipped = json!({"id": "a", "task": {"agent": {"agent": "a"}}, "skip_if": when});
        assert_eq!(end(&Stage::open(&graph(&json!([skipped])), "Hello")), json!(code), "{when}");
    }
}

fn two_branches() -> Workflow {
    graph(&json!([
        {"id": "both", "task": {"parallel": {"branches": [
            {"name": "one", "steps": [human("h1", "clarification"), agent("a1", "${steps.h1}")]},
            {"name": "two", "steps": [human("h2", "clarification")]},
        ]}}},
        extract("end", &json!(["${steps.both.one}", "${steps.both.two}"])),
    ]))
}

#[test]
fn branches_wait_for_different_people_at_the_same_time_and_go_on_one_by_one() {
    let told = play(&two_branches(), [answers(2, "B"), answers(1, "A"), says("done A")]);
    assert_eq!(
        told,
        "waiting for #1 clarification, #2 clarification\n\
         answers #2 \"B\" -> waiting for #1 clarification\n\
         answers #1 \"A\" -> a\n\
         says \"done A\" -> completed with 2 messages\n"
    );
}

#[test]
fn e3_a_crash_repeats_no_branch_that_finished() {
    let workflow = graph(&json!([{"id": "all", "task": {"for_each": {
        "items": "[1, 2, 3]", "name": "n", "max_items": 10,
        "steps": [agent("say", "Say ${n}.")]}}}]));
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([says("one"), Act::Recovers, says("two"), Act::Recovers, says("three")]);
    assert_eq!(end(&stage), json!(["one", "two", "three"]));
    let started = |recorded: &&crate::kernel::Recorded| matches!(&recorded.event, Event::StepStarted { step, .. } if step == "all[0]/say");
    assert_eq!(stage.journal.iter().filter(started).count(), 1);
    assert_eq!(settled(&stage).iter().filter(|path| *path == "all[0]/say").count(), 1);
}

#[test]
fn a_list_is_gone_through_so_many_at_a_time_and_is_capped() {
    let each = |extra: &Value| {
        let mut task = json!({
            "items": "[1, 2, 3]", "name": "n", "max_items": 3,
            "steps": [human("ask", "clarification")],
        });
        for (name, value) in extra.as_object().expect("an object") {
            task[name] = value.clone();
        }
        graph(&json!([{"id": "all", "task": {"for_each": task}}]))
    };
    let two = each(&json!({"concurrency": 2}));
    let mut stage = Stage::open(&two, "Hello");
    assert_eq!(stage.run.questions.len(), 2, "two at a time");
    stage.perform([answers(2, "b")]);
    assert_eq!(stage.run.questions.keys().copied().collect::<Vec<_>>(), [1, 3]);
    stage.perform([answers(3, "c"), answers(1, "a")]);
    assert_eq!(end(&stage), json!(["a", "b", "c"]), "in the order of the items");
    assert_eq!(end(&Stage::open(&each(&json!({"max_items": 2})), "x")), json!("for_each.cap"));
    assert_eq!(end(&Stage::open(&each(&json!({"items": "input"})), "x")), json!("for_each.items"));
    assert_eq!(end(&Stage::open(&each(&json!({"items": "[]"})), "x")), json!([]));
}

#[test]
fn a_loop_goes_on_until_its_end_or_its_cap() {
    let looped = |until: &str| {
        graph(&json!([{"id": "l", "task": {"loop": {
            "until": until, "max_rounds": 3,
            "steps": [agent("try", "Round ${round}; before: ${previous ?? 'nothing'}.")]}}}]))
    };
    let mut stage = Stage::open(&looped("contains(steps.try, 'good')"), "Hello");
    assert!(stage.given().ends_with("Round 1; before: nothing.\n"));
    stage.perform([says("bad")]);
    assert!(stage.given().ends_with("Round 2; before: bad.\n"));
    stage.perform([says("good")]);
    assert_eq!(end(&stage), json!("good"));
    let mut stage = Stage::open(&looped("round > 9"), "Hello");
    stage.perform([says("1"), says("2"), says("3")]);
    assert_eq!(end(&stage), json!("loop.cap"));
}

#[test]
fn a_wait_ends_by_its_event_or_its_timer_whichever_is_first() {
    let workflow = graph(&json!([
        {"id": "w", "task": {"wait": {"timer": "2s", "signal": "ready"}}},
        extract("how", &json!("${steps.w.by}")),
    ]));
    let told = play(
        &workflow,
        [
            Act::Signals("other", json!(null)),
            Act::Waits(1999),
            Act::Recovers,
            Act::Signals("ready", json!({"n": 1})),
        ],
    );
    assert_eq!(
        told,
        "waiting for what may come until 2000 ms\n\
         signals other null -> refused run.not_listening\n\
         waits 1999 -> waiting for what may come until 2000 ms\n\
         recovers -> waiting for what may come until 2000 ms\n\
         signals ready {\"n\":1} -> completed with \"signal\"\n"
    );
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([Act::Waits(2000)]);
    assert_eq!(end(&stage), json!("timer"));
    assert_eq!(stage.act(&Act::Signals("ready", json!(1))), Err("run.over"));
}

#[test]
fn an_event_that_comes_too_early_is_kept_for_whoever_waits_for_it_first() {
    let workflow = graph(&json!([
        human("h", "clarification"),
        {"id": "w", "task": {"wait": {"signal": "ready"}}},
    ]));
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([Act::Signals("ready", json!(7)), answers(1, "go")]);
    assert_eq!(end(&stage), json!({"by": "signal", "value": 7}));
    let mut stage = Stage::open(&workflow, "Hello");
    for _ in 0..64 {
        assert_eq!(stage.act(&Act::Signals("ready", json!(null))), Ok(None));
    }
    assert_eq!(stage.act(&Act::Signals("ready", json!(null))), Err("field.too_large"));
}

#[test]
fn e2_a_tools_own_step_is_journalled_before_the_deed_and_asked_about_after_a_crash() {
    let workflow = graph(&json!([
        {"id": "pay", "task": {"tool": {"tool": "charge", "arguments": {"id": "${size(input)}"}}}},
    ]));
    let mut stage = Stage::open(&workflow, "Hello");
    let intent = |event: &Event| matches!(event, Event::ToolCalled { call, .. } if call.arguments == json!({"id": 5}));
    assert!(stage.journal.iter().any(|recorded| intent(&recorded.event)));
    stage.perform([Act::Recovers]);
    assert_eq!(stage.told.lines().last(), Some("recovers -> waiting for #1 outcome_check"));
    stage.perform([answers(1, json!({"verb": "happened", "result": "paid"}))]);
    assert_eq!(end(&stage), json!("paid"));
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([returns("pay#1", json!({"receipt": 1}))]);
    assert_eq!(end(&stage), json!({"receipt": 1}));
}

#[test]
fn a_tools_step_that_fails_is_tried_again_and_then_fails() {
    let fails = |id: &str| Act::Returns(id.into(), Err("broken".into()));
    let mut step = json!({"id": "get", "task": {"tool": {"tool": "lookup"}},
        "retry": {"attempts": 2, "backoff_ms": 1000, "backoff_ms_max": 1000}});
    let mut stage = Stage::open(&graph(&json!([step])), "Hello");
    stage.perform([fails("get#1"), Act::Waits(1000)]);
    assert_eq!(stage.told.lines().last(), Some("waits 1000 -> lookup(get#1)"));
    stage.perform([fails("get#1")]);
    assert_eq!(end(&stage), json!("tool.failed"));
    assert_eq!(stage.run.spent.model_calls, 0, "no model was asked");
    step["critical"] = json!(false);
    let workflow = graph(&json!([step, extract("on", &json!("${steps.get == null}"))]));
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([fails("get#1"), Act::Waits(1000), fails("get#1")]);
    assert_eq!(end(&stage), json!(true), "its failure stops nothing");
    let warned = stage.journal.iter().any(|recorded| matches!(recorded.event, Event::Warned(_)));
    assert!(warned, "and is told");
}

#[test]
fn a_failure_in_one_branch_stops_the_others_and_their_questions() {
    let fails = json!({"id": "f", "task": {"agent": {"agent": "a"}}});
    let branches = json!([
        {"name": "one", "steps": [human("h1", "clarification")]},
        {"name": "two", "steps": [fails]},
    ]);
    let mut both = json!({"id": "both", "task": {"parallel": {"branches": branches}}});
    let mut stage = Stage::open(&graph(&json!([both])), "Hello");
    stage.perform([Act::Fails(false)]);
    assert_eq!(end(&stage), json!("world.fault"));
    both["critical"] = json!(false);
    let workflow = graph(&json!([both, human("after", "clarification")]));
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([Act::Fails(false)]);
    assert_eq!(stage.told.lines().last(), Some("fails for good -> waiting for #2 clarification"));
    assert_eq!(stage.act(&answers(1, "late")), Err("request.closed"), "its step is over");
}

#[test]
fn work_that_takes_too_long_is_stopped_and_its_turn_with_it() {
    let mut slow = agent("slow", "");
    slow["timeout_ms"] = json!(500);
    let mut stage = Stage::open(&graph(&json!([slow])), "Hello");
    stage.perform([Act::Waits(499)]);
    assert_eq!(stage.told.lines().last(), Some("waits 499 -> a, clock at 500 ms"));
    stage.perform([Act::Waits(1)]);
    assert_eq!(end(&stage), json!("step.timeout"));
}

#[test]
fn another_workflows_steps_have_variables_of_their_own() {
    let program = json!({
        "steps": [extract("inner", &json!("${input.n + 1}"))],
        "output": {"made": "${steps.inner}"},
    });
    let sub = |input: Value| {
        graph(&json!([
            extract("outer", &json!(41)),
            {"id": "s", "task": {"sub": {"workflow": "other", "input": input, "program": program,
                "input_schema": {"type": "object", "required": ["n"]}}}},
        ]))
    };
    let stage = Stage::open(&sub(json!({"n": "${steps.outer}"})), "Hello");
    assert_eq!(end(&stage), json!({"made": 42}));
    assert!(settled(&stage).iter().any(|path| path == "s/other/inner"));
    assert_eq!(end(&Stage::open(&sub(json!({})), "Hello")), json!("input.invalid"));
}

#[test]
fn an_agent_in_a_branch_may_ask_and_call_as_everywhere() {
    let mut stage = Stage::open(&graph(&json!([agent("one", "")])), "Hello");
    stage.perform([
        calls("", [("c1", "request_user_input", json!({"prompt": "Which?"}))]),
        answers(1, "this"),
        calls("", [("c2", "lookup", json!({"id": 1}))]),
        returns("c2", json!("found")),
        says("done"),
    ]);
    assert_eq!(end(&stage), json!("done"));
}

#[test]
fn a_thousand_branches_cost_a_thousand_times_one() {
    let items: Vec<u32> = (0..1000).collect();
    let text = serde_json::to_string(&items).expect("a list");
    let workflow = |text: &str| {
        graph(&json!([{"id": "all", "task": {"for_each": {
            "items": text, "name": "n", "max_items": 1000,
            "steps": [human("ask", "clarification")]}}}]))
    };
    let short = text.chars().take(4000).collect::<String>();
    let list = short.rsplit_once(',').expect("a list").0.to_owned() + "]";
    let count = list.split(',').count();
    let mut stage = Stage::unjudged(&workflow(&list), "Hello");
    assert_eq!(stage.run.questions.len(), count);
    let opened = stage.journal.len();
    for ordinal in (1..=count).rev() {
        let ordinal = u32::try_from(ordinal).expect("small");
        stage.act_unjudged(&answers(ordinal, "yes"));
    }
    assert_eq!(stage.run.status, Status::Completed);
    let each = (stage.journal.len() - opened) / count;
    assert!(each <= 5, "{each} events for each answer, however many there are");
    super::judge::judge(&stage);
}
