//! Properties: whatever the workflow and whatever is done to it, in whatever order, the judge finds
//! nothing. What the agents, the people and the world do is drawn by chance, sense and nonsense.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::cast::{coordination, graph, human, sequence, step, support, terms};
use super::stage::{Act, Stage, directs};
use crate::kernel::workflow::{
    Between, Condition, Ends, Gate, Handoff, Patience, Pattern, ReturnTo, Step, Work,
};
use crate::kernel::{Budget, Budgets, Event, Kind, OnExceeded, OnTimeout, ToolCall, Workflow};

/// What is done next. Whoever or whatever it is done to is picked when the time comes.
#[derive(Debug, Clone)]
enum Whim {
    Act(Act),
    Return(usize, Result<Value, String>),
    Answer(Vec<(usize, Value)>, &'static str),
    Withdraw(usize),
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("yes")),
        Just(json!("no")),
        Just(json!("x")),
        Just(json!("2")),
        Just(json!("")),
        Just(json!([])),
        Just(json!(null)),
        Just(json!({"verb": "end"})),
        Just(json!({"verb": "redo"})),
        Just(json!({"verb": "abort"})),
        Just(json!({"verb": "happened", "result": 1.1})),
        Just(json!({"decision": "approve", "note": "fine"})),
        prop_oneof![
            Just(json!("skip")),
            Just(json!("continue")),
            Just(json!({"decision": "redo", "note": "again"})),
            Just(json!("retry")),
            Just(json!("abort")),
            Just(json!("allow_once")),
            Just(json!({"decision": "deny"})),
        ],
        Just(json!({"decision": "reject"})),
        ".{1,12}".prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(|number| json!([{"n": number}])),
    ]
}

fn call() -> impl Strategy<Value = ToolCall> {
    let id = prop_oneof![Just(""), Just("c"), Just("d")];
    let tool = prop_oneof![
        3 => Just("lookup"),
        3 => Just("charge"),
        6 => Just("request_user_input"),
        1 => Just("handoff_to_repair"),
        1 => Just("handoff_to_billing"),
        1 => Just("teleport"),
    ];
    let arguments = prop_oneof![
        Just(json!({"prompt": "Well?"})),
        Just(json!({"prompt": "Well?", "request_type": "approval"})),
        Just(json!({"prompt": "Well?", "request_type": "selection", "options": ["x", "y"]})),
        Just(json!({"id": 1})),
        Just(json!({"id": "one"})),
        Just(json!(null)),
    ];
    (id, tool, arguments).prop_map(|(id, tool, arguments)| ToolCall::new(id, tool, arguments))
}

fn whim() -> impl Strategy<Value = Whim> {
    let agent = || prop::option::of(prop_oneof![Just("venue"), Just("budget"), Just("nobody")]);
    let directive = ("[a-z]{0,5}", agent(), prop::option::weighted(0.3, Just("Which?")))
        .prop_map(|(summary, next, ask)| Whim::Act(directs(&summary, next, ask)));
    let text = prop_oneof![3 => "[a-z ]{1,9}", 1 => Just(String::new())];
    let calls = ("[a-z]{0,5}", prop::collection::vec(call(), 1..4))
        .prop_map(|(text, calls)| Whim::Act(Act::Calls(text, calls)));
    let verdict = (any::<bool>(), "[a-z]{0,3}")
        .prop_map(|(ask, reason)| Whim::Act(Act::Outputs(json!({"ask": ask, "reason": reason}))));
    let key = prop_oneof![Just(""), Just("k1"), Just("k2")];
    let outcome = prop_oneof![4 => value().prop_map(Ok), 1 => Just(Err("broken".to_owned())), 1 => Just(Err("lost".to_owned()))];
    prop_oneof![
        6 => text.prop_map(|text| Whim::Act(Act::Says(text))),
        6 => directive,
        6 => calls,
        4 => verdict,
        2 => any::<bool>().prop_map(|retriable| Whim::Act(Act::Fails(retriable))),
        6 => (any::<usize>(), outcome).prop_map(|(pick, outcome)| Whim::Return(pick, outcome)),
        9 => (prop::collection::vec((any::<usize>(), value()), 0..3), key)
            .prop_map(|(answers, key)| Whim::Answer(answers, key)),
        1 => any::<usize>().prop_map(Whim::Withdraw),
        4 => (0..1500_u64).prop_map(|ms| Whim::Act(Act::Waits(ms))),
        3 => Just(Whim::Act(Act::Recovers)),
        2 => value().prop_map(|value| Whim::Act(Act::Signals("go", value))),
    ]
}

fn terms_of_waiting() -> impl Strategy<Value = Patience> {
    let on_timeout = prop_oneof![
        Just(OnTimeout::Reject),
        Just(OnTimeout::Continue),
        value().prop_map(OnTimeout::DefaultAnswer),
    ];
    let deadline = prop::option::of(500..2000_u64);
    (deadline, on_timeout).prop_map(|(deadline_ms, on_timeout)| Patience {
        deadline_ms,
        on_timeout,
        ..Patience::default()
    })
}

fn one_step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        Just(Kind::Approval),
        Just(Kind::PlanReview),
        Just(Kind::Clarification),
        Just(Kind::Selection),
    ];
    prop_oneof![
        Just(step("a")),
        Just(Step {
            id: "told".into(),
            work: Work::Agent { agent: "b".into(), prompt: Some("Do it.".into()) },
        }),
        (kind, terms_of_waiting()).prop_map(|(kind, patience)| human("h", kind, patience)),
    ]
}

fn handoff_terms() -> impl Strategy<Value = Handoff> {
    let ends = prop_oneof![
        Just(Ends::default()),
        Just(Ends { user_messages_over: Some(2), last_message_contains: None }),
        Just(Ends { user_messages_over: None, last_message_contains: Some("q".into()) }),
    ];
    let return_to = prop_oneof![Just(ReturnTo::Previous), Just(ReturnTo::Start)];
    (ends, return_to, 0..3_u32, terms_of_waiting()).prop_map(|(ends, return_to, free, patience)| {
        let autonomous = std::iter::once(("repair".to_owned(), free)).collect();
        Handoff { return_to, ends, autonomous, patience, ..terms() }
    })
}

fn budgets() -> impl Strategy<Value = Budgets> {
    let some = |most: u64| prop::option::weighted(0.2, 1..most);
    let budget = (some(8), some(12), some(6), some(4000)).prop_map(
        |(steps, model_calls, tool_calls, wall_ms)| Budget {
            steps,
            model_calls,
            tokens: None,
            tool_calls,
            wall_ms,
        },
    );
    let on_exceeded = prop_oneof![Just(OnExceeded::Fail), Just(OnExceeded::Ask)];
    (budget, on_exceeded, prop::option::of(500..2000_u64)).prop_map(
        |(run, on_exceeded, deadline_ms)| Budgets {
            run,
            session: Budget::default(),
            on_exceeded,
            deadline_ms,
        },
    )
}

/// A step without an id; those are given when all of them are there.
fn any_task() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        3 => Just(json!({"agent": {"agent": "a", "prompt": "Do ${input}."}})),
        1 => Just(json!({"tool": {"tool": "lookup", "arguments": {"id": 1}}})),
        2 => Just(json!({"tool": {"tool": "charge", "arguments": {"id": 1}}})),
        1 => Just(json!({"wait": {"timer": "1s", "signal": "go"}})),
        1 => Just(json!({"wait": {"signal": "go"}})),
        1 => Just(json!({"extract": {"values": {"n": "${conversation.messages}"}}})),
        1 => Just(json!({"extract": {"values": {"n": "${input.nothing}"}}})),
        2 => asked_of_people(),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let steps = || prop::collection::vec(with_terms(inner.clone()), 0..3);
        prop_oneof![
            (steps(), steps()).prop_map(|(one, other)| json!({"parallel": {"branches": [
                {"name": "one", "steps": one}, {"name": "two", "steps": other}]}})),
            (steps(), prop::option::of(1..3_u32)).prop_map(|(steps, most)| json!({"for_each": {
                "items": "['x', 'y', 'z']", "name": "n", "max_items": 3, "concurrency": most,
                "steps": steps}})),
            steps().prop_map(|steps| json!({"loop": {
                "until": "round > 1", "max_rounds": 3, "steps": steps}})),
            (steps(), steps()).prop_map(|(then, otherwise)| json!({"if": {
                "when": "conversation.messages > 3", "then": then, "otherwise": otherwise}})),
            steps().prop_map(|steps| json!({"group": {"steps": steps}})),
        ]
    })
}

fn asked_of_people() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![Just("approval"), Just("clarification"), Just("selection")];
    (kind, prop::option::of(500..2000_u64)).prop_map(|(kind, deadline)| {
        json!({"human": {"kind": kind, "prompt": "Well?", "patience": {"deadline_ms": deadline},
            "options": if kind == "selection" { json!([{"id": "x"}, {"id": "y"}]) } else { json!([]) }}})
    })
}

/// A step with what may go with any: a gate, a timeout, tolerance of its failure.
fn with_terms(task: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let after = prop_oneof![3 => Just("nothing"), 1 => Just("look"), 1 => Just("review")];
    let deadline = prop::option::of(500..2000_u64);
    let gate = (any::<bool>(), after, any::<bool>(), deadline).prop_map(
        |(before, after, on_error, deadline)| {
            json!({"before": before, "after": after, "on_error": on_error, "redo": 1, "attempts": 2,
                "patience": {"deadline_ms": deadline}})
        },
    );
    let gate = prop::option::weighted(0.4, gate);
    let timeout = prop::option::weighted(0.2, 500..2000_u64);
    (task, gate, timeout, prop::bool::weighted(0.7)).prop_map(|(task, gate, timeout, critical)| {
        json!({"id": "", "task": task, "gate": gate, "timeout_ms": timeout, "critical": critical})
    })
}

/// Gives every step an id of its own.
fn numbered(value: &mut Value, count: &mut u32) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| numbered(item, count)),
        Value::Object(map) => {
            if map.contains_key("task") {
                *count += 1;
                map.insert("id".into(), format!("s{count}").into());
            }
            map.values_mut().for_each(|item| numbered(item, count));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A graph of any shape.
fn any_graph() -> impl Strategy<Value = Workflow> {
    prop::collection::vec(with_terms(any_task()), 1..4).prop_map(|steps| {
        let mut steps = Value::Array(steps);
        numbered(&mut steps, &mut 0);
        graph(&steps)
    })
}

/// Sometimes a gate at the dangerous tool: always, by a rule, by a judge.
fn any_gates() -> impl Strategy<Value = Vec<Gate>> {
    let judge = |agent: &str| Condition::Judge { agent: agent.into(), within_ms: 900 };
    let when = prop_oneof![
        Just(Vec::new()),
        Just(vec![Condition::FailuresOver(1)]),
        Just(vec![judge("judge")]),
        Just(vec![Condition::FailuresOver(0), judge("judge"), judge("a")]),
    ];
    let gate = |(index, when)| Gate {
        name: format!("gate{index}"),
        tools: vec!["charge".into()],
        tags: Vec::new(),
        when,
        prompt: None,
        patience: Patience::default(),
        allow_ms: None,
        ..Gate::default()
    };
    let elsewhere = (any::<bool>(), any::<bool>());
    (prop::collection::vec(when, 0..3), elsewhere).prop_map(move |(gates, (replies, handoffs))| {
        let mut gates: Vec<Gate> = gates.into_iter().enumerate().map(gate).collect();
        if let Some(first) = gates.first_mut() {
            first.replies = if replies { vec!["*".into()] } else { Vec::new() };
            first.handoffs = if handoffs { vec![Between::default()] } else { Vec::new() };
        }
        gates
    })
}

fn workflow() -> impl Strategy<Value = Workflow> {
    let pattern = prop_oneof![
        prop::collection::vec(one_step(), 1..5).prop_map(sequence),
        Just(coordination()),
        handoff_terms().prop_map(support),
        any_graph(),
    ];
    let limits = (1..12_u32, 1..6_u32, 1..4_u32, budgets());
    (pattern, limits, terms_of_waiting(), any::<bool>(), any_gates()).prop_map(
        |(mut workflow, (steps, rounds, attempts, budgets), patience, may_ask, gates)| {
            if let Some(agent) = workflow.agents.values().next().cloned() {
                workflow.agents.insert("judge".into(), agent);
            }
            workflow.gates = gates;
            workflow.limits.budgets = budgets;
            (workflow.limits.steps, workflow.limits.rounds) = (steps, rounds);
            for agent in workflow.agents.values_mut() {
                agent.retry.attempts = attempts;
                agent.human_input.patience = patience.clone();
            }
            if let Some(agent) = workflow.agents.values_mut().next() {
                agent.human_input.enabled = may_ask;
            }
            workflow
        },
    )
}

impl Whim {
    fn act(self, stage: &Stage) -> Act {
        let asked = stage.run.endings.len();
        // Now and then somebody answers what was never asked.
        let ordinal = |pick: usize| u32::try_from(pick % (asked + 1) + 1).expect("small");
        match self {
            Self::Act(act) => act,
            Self::Return(pick, outcome) => {
                let open = stage.run.turns.values().flat_map(|turn| &turn.calls);
                let ids: Vec<_> = open.map(|open| open.call.id.clone()).collect();
                let id = ids.get(pick % ids.len().max(1)).cloned().unwrap_or_default();
                Act::Returns(id, outcome)
            }
            Self::Answer(answers, key) => {
                let answers = answers.into_iter().map(|(pick, value)| (ordinal(pick), value));
                Act::Answers(answers.collect(), key)
            }
            Self::Withdraw(pick) => Act::Withdraws(ordinal(pick)),
        }
    }
}

fn is_of_pattern(whim: &Whim, pattern: &Pattern) -> bool {
    let is_coordinator = matches!(pattern, Pattern::Coordinator { .. });
    match whim {
        Whim::Act(Act::Outputs(value)) => is_coordinator || value.get("ask").is_some(),
        Whim::Act(_) | Whim::Return(..) | Whim::Answer(..) | Whim::Withdraw(_) => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// The judge looks after every act; here only what it cannot see is asserted.
    #[test]
    fn the_laws_hold_whatever_happens(
        workflow in workflow(),
        whims in prop::collection::vec(whim(), 1..40),
    ) {
        let mut stage = Stage::open(&workflow, "Hello");
        for whim in whims.into_iter().filter(|whim| is_of_pattern(whim, &workflow.pattern)) {
            let version = stage.run.version;
            let act = whim.act(&stage);
            let first = stage.act(&act);
            if let (Ok(None), Act::Answers(_, key)) = (&first, &act) && !key.is_empty() {
                let again = stage.act(&act);
                prop_assert_eq!(again, Ok(Some(version)), "K2: the same again");
            }
            if stage.run.status.is_over() {
                let acts = [Act::Recovers, Act::Waits(5000), Act::Cancels, Act::Says("more".into())];
                let (version, _) = (stage.run.version, acts.map(|act| stage.act(&act)));
                prop_assert_eq!(stage.run.version, version, "K6: over is over");
                break;
            }
        }
    }

    /// A stored event is read back as it was written, whatever number or text is in it.
    #[test]
    fn a_value_survives_the_journal(value in value()) {
        let event = Event::Output { value };
        let text = serde_json::to_string(&event).expect("written");
        prop_assert_eq!(serde_json::from_str::<Event>(&text).expect("read"), event);
    }
}
