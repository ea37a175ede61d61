//! Brought, drawn: whatever whoever started a run does at gates of their own, wherever these stand in whatever workflow,
//! nothing is done that would not have been done without them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::brought::{by, charges, chiefs, failure, mine, open};
use super::cast::graph;
use super::stage::{Act, Stage, returns, says};
use crate::kernel::brought::is_brought;
use crate::kernel::workflow::{Condition, Gate, Workflow};
use crate::kernel::{Command, Effect, Millis, Principal, Role, Verb, plan};

/// A journal in short.
fn tale(stage: &Stage) -> Vec<String> {
    let short = |it: &crate::kernel::Recorded| {
        format!("{} {}", it.at, format!("{:?}", it.event).chars().take(150).collect::<String>())
    };
    stage.journal.iter().map(short).collect()
}

/// What stands before the charge in a drawn workflow.
#[derive(Debug, Clone)]
enum Piece {
    /// The chief looks.
    Check,
    /// Somebody works, and says that.
    Work(&'static str),
    /// Somebody works, and fails.
    Fail,
    /// Steps together, with a time, that may be critical.
    Block(Vec<Piece>, Option<u64>, bool),
    /// Branches.
    Both(Vec<Piece>, Vec<Piece>, bool),
}

fn any_piece() -> impl Strategy<Value = Piece> {
    let leaf = prop_oneof![
        Just(Piece::Check),
        Just(Piece::Work("danger")),
        Just(Piece::Work("fine")),
        Just(Piece::Fail),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let some = prop::collection::vec(inner, 1..3);
        prop_oneof![
            (some.clone(), prop::option::of(Just(1000_u64)), any::<bool>())
                .prop_map(|(pieces, time, critical)| Piece::Block(pieces, time, critical)),
            (some.clone(), some, any::<bool>())
                .prop_map(|(left, right, critical)| Piece::Both(left, right, critical)),
        ]
    })
}

/// The steps of these pieces, each with an id of its own; what each of their agents does, by id.
fn steps_of(pieces: &[Piece], ids: &mut Vec<(String, Option<&'static str>)>) -> Value {
    let mut one = |piece: &Piece| {
        let id = format!("s{}", ids.len());
        ids.push((
            id.clone(),
            match piece {
                Piece::Work(words) => Some(*words),
                Piece::Check | Piece::Fail | Piece::Block(..) | Piece::Both(..) => None,
            },
        ));
        match piece {
            Piece::Check => json!({"id": id, "critical": false, "task": {"human":
                {"kind": "approval", "prompt": "Well?", "patience": {"to": ["bob"]}}}}),
            Piece::Work(_) | Piece::Fail => json!({"id": id, "task": {"agent": {"agent": "a"}},
                "retry": {"attempts": 1, "backoff_ms": 1, "backoff_ms_max": 1}}),
            Piece::Block(inner, time, critical) => {
                let inner = steps_of(inner, ids);
                let mut step = json!({"id": id, "critical": critical,
                    "task": {"group": {"steps": inner}}});
                if let Some(ms) = time {
                    step["timeout_ms"] = json!(ms);
                }
                step
            }
            Piece::Both(left, right, critical) => {
                let (left, right) = (steps_of(left, ids), steps_of(right, ids));
                json!({"id": id, "critical": critical, "task": {"parallel": {"branches": [
                    {"name": "l", "steps": left}, {"name": "r", "steps": right}]}}})
            }
        }
    };
    pieces.iter().map(&mut one).collect()
}

/// What whoever started the run does at a gate of their own, and how long they take.
#[derive(Debug, Clone, Copy)]
enum Does {
    Yes,
    Note,
    No,
    Withdraw,
    Nothing,
}

fn any_does() -> impl Strategy<Value = (Does, u64)> {
    let does = prop_oneof![
        4 => Just(Does::Yes),
        1 => Just(Does::Note),
        1 => Just(Does::No),
        1 => Just(Does::Withdraw),
        1 => Just(Does::Nothing),
    ];
    (does, prop_oneof![Just(0_u64), Just(300), Just(900), Just(2000)])
}

/// What somebody says to a question; words at a gate of their own are refused first.
fn said(stage: &mut Stage, ordinal: u32, does: Does) -> Command {
    let question = &stage.run.questions[&ordinal];
    let who = if is_brought(question) { "ann" } else { "bob" };
    let is_call = question.verbs().contains(&Verb::Deny);
    let (yes, no) = if is_call { ("allow_once", "deny") } else { ("approve", "reject") };
    match does {
        Does::Yes => by(who, stage, ordinal, yes),
        Does::Note => {
            let noted = by(who, stage, ordinal, json!({"decision": yes, "note": "hello"}));
            assert_eq!(stage.command_by(&noted), Err("answer.invalid"));
            by(who, stage, ordinal, yes)
        }
        Does::No | Does::Nothing => by(who, stage, ordinal, no),
        Does::Withdraw => Command::Withdraw {
            request: stage.request(ordinal),
            principal: Principal::new(who, Role::User, "grpc"),
            key: String::new(),
        },
    }
}

/// Plays a run to its rest: agents do as drawn, the chief says no to everything in `chief_ms`, and whoever started
/// it does as drawn at gates of their own.
fn played(
    workflow: &Workflow,
    ids: &[(String, Option<&'static str>)],
    brought: Vec<Gate>,
    (chief_ms, does): (Option<u64>, &[(Does, u64)]),
) -> Stage {
    let mut stage = open(workflow, brought);
    let mut drawn = does.iter().copied().cycle();
    let mut plans: BTreeMap<u32, (Does, u64)> = BTreeMap::new();
    for _ in 0..400 {
        if stage.run.status.is_over() {
            break;
        }
        let effect = plan(&stage.run).into_iter().next();
        if let Some(Effect::Reply { turn, .. }) = &effect {
            let path = stage.run.turns[turn].step.clone();
            let id = path.rsplit('/').next().unwrap_or_default();
            let does = ids.iter().find(|(known, _)| known == id).and_then(|(_, does)| *does);
            let act = does.map_or(Act::Fails(false), says);
            stage.act(&act).expect("taken");
            continue;
        }
        if let Some(Effect::CallTool { call, .. }) = &effect {
            let id = call.id.clone();
            stage.act(&returns(&id, json!("ok"))).expect("taken");
            continue;
        }
        // The next thing that anybody does, or the clock: whichever is first.
        let now = stage.now;
        let mut next: Option<(Millis, u32, Does)> = None;
        for question in stage.run.questions.values() {
            let is_mine = is_brought(question);
            let (does, ms) = if is_mine {
                *plans
                    .entry(question.ordinal)
                    .or_insert_with(|| drawn.next().unwrap_or((Does::Yes, 0)))
            } else {
                let Some(ms) = chief_ms else { continue };
                (Does::No, ms)
            };
            if matches!(does, Does::Nothing) {
                continue;
            }
            let at = question.asked_at.plus(ms);
            if next.is_none_or(|(first, _, _)| at < first) {
                next = Some((at, question.ordinal, does));
            }
        }
        let clock = stage.run.wake_at();
        match (next, clock) {
            (Some((at, ordinal, does)), clock) if clock.is_none_or(|clock| at <= clock) => {
                stage.now = stage.now.max(at);
                let command = said(&mut stage, ordinal, does);
                stage.command_by(&command).expect("taken");
            }
            (_, Some(clock)) => {
                let ms = clock.since(now).max(1);
                stage.act(&Act::Waits(ms)).expect("taken");
            }
            (Some(_) | None, None) => break,
        }
    }
    stage
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Whatever whoever started a run does at gates of their own (yes, no, words, a withdrawal, silence, delay), and
    /// wherever these stand: nothing is done that would not have been done without them.
    #[test]
    fn k12_nothing_is_done_by_a_starts_own_gates_that_is_not_done_without(
        pieces in prop::collection::vec(any_piece(), 1..4),
        when in prop_oneof![
            Just(Vec::new()),
            Just(vec![Condition::Keywords(vec!["danger".into()])]),
            Just(vec![Condition::FailuresOver(0)]),
        ],
        is_beside in any::<bool>(),
        chief_ms in prop_oneof![Just(None), Just(Some(100_u64)), Just(Some(700)), Just(Some(1500))],
        places in prop::collection::btree_set(0..12_usize, 1..4),
        at_tool in any::<bool>(),
        any_step in any::<bool>(),
        does in prop::collection::vec(any_does(), 1..5),
    ) {
        let mut ids = Vec::new();
        let mut steps = steps_of(&pieces, &mut ids);
        let pay = json!({"id": "pay", "task": {"tool": {"tool": "charge", "arguments": {"id": 7}}}});
        // What nobody is asked about is not held: beside it, only what a rule looks at is compared.
        let is_beside = is_beside && !when.is_empty();
        if is_beside {
            steps = json!([{"id": "beside", "task": {"parallel": {"branches": [
                {"name": "l", "steps": steps},
                {"name": "r", "steps": [
                    {"id": "later", "task": {"wait": {"timer": "500ms"}}}, pay]}]}}}]);
        } else {
            steps.as_array_mut().expect("steps").push(pay);
        }
        let own = Gate { steps: vec!["pay".into()], tools: Vec::new(), ..chiefs(when) };
        let gates = if own.when.is_empty() { Vec::new() } else { vec![own] };
        let workflow = Workflow { gates, ..graph(&steps) };
        let named: Vec<String> = places.iter().filter_map(|place| Some(ids.get(*place)?.0.clone())).collect();
        let mut brought = Gate { steps: if any_step { vec!["*".into()] } else { named }, ..mine(&[], &[]) };
        if at_tool {
            brought.tools.push("charge".into());
        }
        let without = played(&workflow, &ids, Vec::new(), (chief_ms, &does));
        let with = played(&workflow, &ids, vec![brought], (chief_ms, &does));
        prop_assert!(charges(&with) <= charges(&without), "{:#?}\n{:#?}", tale(&without), tale(&with));
        let refused = with.run.status.is_over() && failure(&with) == "gate.refused";
        // Beside it, it may have been done before.
        if refused && !is_beside {
            prop_assert_eq!(charges(&with), 0);
        }
    }
}
