//! Golden rules: the stored form of what is in force for a run: gates of a start, of a policy, a change of it, and a
//! question at each. Like `golden`, these files are never edited.

use holdpoint::kernel::workflow::{Between, Complexity, Condition, Doubt, Gate, Patience, Same};
use holdpoint::kernel::{Event, InForce, Kind, Millis, Origin, Question, Started, ToolCall};
use holdpoint::store::codec;
use holdpoint::store::keys;
use serde_json::json;

use crate::store::golden::{golden, plain_question, run, started};

fn gate(name: &str) -> Gate {
    Gate {
        name: name.into(),
        tools: vec!["pay".into()],
        tags: vec!["edits".into()],
        handoffs: vec![Between { from: Some("clerk".into()), to: None }],
        replies: vec!["clerk".into()],
        steps: vec!["act".into()],
        when: vec![
            Condition::FailuresOf { same: Same::Tool, count: 2 },
            Condition::UncertainBy(Doubt {
                phrases: vec!["who knows".into()],
                languages: vec!["de".into()],
                confidence_under: Some(0.5),
            }),
            Condition::Complex(Complexity { options: Some(5), steps: None, amounts: Some(3) }),
        ],
        patience: Patience { to: vec!["cfo".into()], ..Patience::default() },
        ..Gate::default()
    }
}

#[test]
fn what_is_in_force_for_a_run_is_written_as_it_always_was() {
    let force = |digest: &str| InForce {
        policy: digest.into(),
        rules: vec!["careful".into()],
        gates: vec![gate("policy:careful.pay#0a1b2c3d")],
        lifts: vec!["before_pay".into(), "step:act".into()],
    };
    let asked = Question {
        origin: Origin::Gate(Box::new(ToolCall::new("c1", "pay", json!({"amount": 7})))),
        kind: Kind::ToolApproval,
        context: json!({"gates": ["start:mine"], "reasons": ["start:mine: always a person"],
            "then": [{"gate": "before_pay", "reasons": ["before_pay: always a person"]}]}),
        ..plain_question()
    };
    let events = vec![
        Event::Started(Box::new(Started {
            gates: vec![gate("start:mine")],
            policy: Some(Box::new(force("d1"))),
            ..started()
        })),
        Event::Asked(Box::new(asked)),
        Event::Ruled(Box::new(force("d2"))),
    ];
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry-rules.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
}
