//! Reminders, escalation and memos: what time and crashes do to a question, and to work under way.

use serde_json::json;

use super::cast::{human, patience, sequence, step};
use super::stage::Stage;
use crate::kernel::workflow::Patience;
use crate::kernel::{Command, Decision, Event, Kind, Millis, OnTimeout, Refusal, Run, apply, plan};

fn asked(kind: Kind, terms: Patience) -> Run {
    Stage::open(&sequence(vec![human("q", kind, terms), step("a")]), "Hello").run
}

fn tick(run: &mut Run, at: u64) -> Vec<Event> {
    match apply(run, &Command::Tick, Millis(at)).unwrap() {
        Decision::Events(events) => events,
        Decision::Repeat { .. } => panic!("time does not repeat itself"),
    }
}

#[test]
fn a_reminder_comes_again_and_again_and_changes_nothing_else() {
    let terms = Patience { remind_ms: Some(1_000), ..Patience::default() };
    let mut run = asked(Kind::Approval, terms);
    let since = run.updated_at.0;
    assert_eq!(run.wake_at(), Some(Millis(since + 1_000)));
    assert_eq!(tick(&mut run, since + 999), [], "never early");
    for round in 1..=3 {
        let now = since + 1_000 * round;
        let next = Some(Millis(now + 1_000));
        assert_eq!(tick(&mut run, now), [Event::Reminded { ordinal: 1, next }]);
        assert_eq!((run.questions.len(), run.wake_at()), (1, next));
    }
}

#[test]
fn k7_an_escalated_approval_waits_for_somebody_else_and_then_is_a_no() {
    let to = vec!["boss".to_owned()];
    let silence = OnTimeout::EscalateTo { to: to.clone(), within_ms: Some(500) };
    let mut run = asked(Kind::Approval, patience(1_000, silence));
    let due = run.wake_at().unwrap().0;
    let deadline = Some(Millis(due + 500));
    // Whoever was asked still is.
    let to = vec!["ann".to_owned(), "boss".to_owned()];
    assert_eq!(tick(&mut run, due), [Event::Escalated { ordinal: 1, to: to.clone(), deadline }]);
    assert_eq!((&run.questions[&1].to, run.questions[&1].deadline), (&to, deadline));
    let end = tick(&mut run, due + 500);
    assert!(matches!(end[0], Event::Closed { ordinal: 1, .. }), "{end:?}");
    assert!(run.status.is_over(), "silence is a no after that, too");
}

#[test]
fn a_memo_is_found_by_the_next_try_and_left_behind_when_the_run_is_stopped() {
    let mut run = Stage::open(&sequence(vec![step("a")]), "Hello").run;
    let (turn, attempt) = (1, 1);
    let memo = json!({"task": "t1"});
    let stale = Command::Noted { turn, attempt: 7, memo: memo.clone() };
    let refused = apply(&mut run, &stale, Millis(2_000));
    assert!(matches!(refused, Err(crate::kernel::Declined::Refused(Refusal::Stale))));
    let noted = Command::Noted { turn, attempt, memo: memo.clone() };
    apply(&mut run, &noted, Millis(2_000)).unwrap();
    apply(&mut run, &Command::Recover, Millis(3_000)).unwrap();
    let effects = plan(&run);
    let [crate::kernel::Effect::Reply { attempt: 2, input, .. }] = effects.as_slice() else {
        panic!("a second try: {effects:?}");
    };
    assert_eq!(input.memo, Some(memo.clone()));
    let key = input.key.clone();
    assert!(key.starts_with(run.id.as_str()) && key.ends_with("/1/0"), "{key}");
    let principal = crate::kernel::Principal::local("grpc");
    let cancel = Command::Cancel { reason: String::new(), principal, key: String::new() };
    apply(&mut run, &cancel, Millis(4_000)).unwrap();
    assert_eq!(run.abandoned.len(), 1);
    assert_eq!(run.abandoned[0].1, memo);
}
