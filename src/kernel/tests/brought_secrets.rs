//! Brought, where something is secret: a start's own gates do not look at it. What they would find is told by nothing, neither
//! by whether they ask nor by why.

use serde_json::{Value, json};

use super::brought::{charges, chiefs, mine, open};
use super::cast::{graph, sequence, step};
use super::stage::{Act, Stage, answers, calls, says};
use crate::kernel::secret;
use crate::kernel::workflow::{Complexity, Condition, Doubt, Gate, Workflow};

const PIN: &str = "4406";

/// Why a start's own gate asks that does not look.
const UNLOOKED: &str =
    "start:mine: something is secret here, and a start's conditions do not look at it";

/// An agent asks for a PIN, in a workflow that marks nothing, and is told it.
fn confides(stage: &mut Stage) {
    assert!(!stage.run.workflow.secretive, "nobody knew of it at the start");
    let schema =
        json!({"type": "object", "properties": {"pin": {"type": "string", "secret": true}}});
    let asks = json!({"prompt": "Your PIN?", "response_schema": schema});
    let asks = calls("", [("c0", "request_user_input", asks)]);
    stage.perform([asks, answers(1, json!({"pin": PIN}))]);
}

fn charge() -> Act {
    calls("It is 4406.", [("c1", "charge", json!({"id": 4406}))])
}

/// Conditions that hold, and the same ones where they do not.
fn conditions() -> Vec<Condition> {
    let keywords = |word: &str| Condition::Keywords(vec![word.into()]);
    let over = |over: f64| Condition::Argument { pointer: "/id".into(), over };
    let says = |word: &str| {
        Condition::UncertainBy(Doubt { phrases: vec![word.into()], ..Doubt::default() })
    };
    let amounts =
        |most: u32| Condition::Complex(Complexity { amounts: Some(most), ..Complexity::default() });
    vec![
        keywords("440"),
        keywords("441"),
        over(4405.0),
        over(4406.0),
        says("4406"),
        says("4407"),
        Condition::Uncertain,
        amounts(0),
        amounts(99),
    ]
}

/// The gates that ask, and why.
fn told(stage: &Stage) -> (Value, Value) {
    assert_eq!(stage.run.questions.len(), 1, "{}", stage.told);
    let context = &stage.run.questions.values().next().expect("one").context;
    (context["gates"].clone(), context["reasons"].clone())
}

#[test]
fn k12_once_something_was_confided_a_starts_own_gate_asks_whatever_it_would_have_looked_for() {
    let pays = graph(&json!([{"id": "talk", "task": {"agent": {"agent": "a"}}},
        {"id": "pay", "task": {"tool": {"tool": "charge", "arguments": {"id": 4406}}}}]));
    let talks = sequence(vec![step("a")]);
    let replies = Gate { replies: vec!["*".into()], ..mine(&[], &[]) };
    let says_it = || says("It is 4406.");
    let places = [
        (&talks, mine(&[], &["charge"]), true),
        (&talks, replies, false),
        (&pays, mine(&["pay"], &[]), false),
        (&pays, mine(&[], &["charge"]), false),
    ];
    for (workflow, gate, calls_it) in places {
        for when in conditions() {
            let mut stage = open(workflow, vec![Gate { when: vec![when.clone()], ..gate.clone() }]);
            confides(&mut stage);
            stage.perform([if calls_it { charge() } else { says_it() }]);
            let expected = (json!(["start:mine"]), json!([UNLOOKED]));
            assert_eq!(told(&stage), expected, "{gate:?} {when:?}");
            assert_eq!(charges(&stage), 0);
        }
    }
}

#[test]
fn what_tells_nothing_is_looked_at_though_something_was_confided_and_so_are_the_files_conditions() {
    let talks = sequence(vec![step("a")]);
    let failures = Gate { when: vec![Condition::FailuresOver(3)], ..mine(&[], &["charge"]) };
    let mut stage = open(&talks, vec![failures]);
    confides(&mut stage);
    stage.perform([charge()]);
    assert_eq!((stage.run.questions.len(), charges(&stage)), (0, 1));
    for (word, asks) in [("440", true), ("441", false)] {
        let when = vec![Condition::Keywords(vec![word.into()])];
        let file = Workflow { gates: vec![chiefs(when.clone())], ..talks.clone() };
        let mut stage = open(&file, Vec::new());
        confides(&mut stage);
        stage.perform([charge()]);
        assert_eq!((stage.run.questions.len() == 1, charges(&stage) == 0), (asks, asks), "{word}");
        // Nobody has confided anything: the start's own are looked at as well.
        let mut stage = open(&talks, vec![Gate { when, ..mine(&[], &["charge"]) }]);
        stage.perform([charge()]);
        assert_eq!((stage.run.questions.len() == 1, charges(&stage) == 0), (asks, asks), "{word}");
    }
}

#[test]
fn k12_what_a_tools_server_marks_is_looked_at_nowhere_by_a_starts_own_gate() {
    let mut workflow = sequence(vec![step("a")]);
    let lookup = workflow.tools.get_mut("lookup").expect("a tool");
    let pin = json!({"type": "string", "writeOnly": true});
    lookup.parameters = Some(json!({"type": "object", "properties": {"pin": pin}}));
    let workflow = secret::noticed(workflow);
    let when = vec![Condition::Keywords(vec!["441".into()])];
    let mut stage = open(&workflow, vec![Gate { when, ..mine(&[], &["charge"]) }]);
    // In the same reply, before the place that is marked.
    let both = [("c1", "charge", json!({"id": 4406})), ("c2", "lookup", json!({"pin": PIN}))];
    stage.perform([calls("", both)]);
    assert_eq!(told(&stage), (json!(["start:mine"]), json!([UNLOOKED])));
}
