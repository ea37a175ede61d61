//! Halts: what stands still, and that no time counts twice when it goes on.

use std::sync::Arc;

use serde_json::json;

use super::cast::{human, patience, sequence, step};
use super::stage::Stage;
use crate::kernel::halt::{NeedsRun, of_decision, of_effect, refused, shown, standing, still};
use crate::kernel::{
    Answer, Command, Decision, Declined, Effect, Event, Halt, Halts, Kind, Millis, OnTimeout,
    Operator, Origin, Principal, Question, Refusal, Role, Run, Scope, Status, Still, ToolCall,
    apply, plan,
};

fn halt(scope: Scope, at: u64) -> Halt {
    Halt {
        id: "halt_1".into(),
        scope,
        reason: "it looks wrong".into(),
        by: "op".into(),
        door: "grpc".into(),
        known: None,
        at: Millis(at),
        is_ending: false,
        ended_by: None,
        key: String::new(),
    }
}

fn under(run: &mut Run, halts: &[Halt]) {
    let operator = Operator::clone(&run.operator);
    run.operator = Arc::new(Operator { halts: Arc::new(Halts(halts.to_vec())), ..operator });
}

fn stood(run: &mut Run, halt: &Halt, at: u64) -> Vec<Event> {
    match apply(run, &Command::Stand { halt: Box::new(halt.clone()) }, Millis(at)).unwrap() {
        Decision::Events(events) => events,
        Decision::Repeat { .. } => Vec::new(),
    }
}

fn approval() -> Run {
    let terms = patience(1_000, OnTimeout::Reject);
    Stage::open(&sequence(vec![human("q", Kind::Approval, terms), step("a")]), "Hello").run
}

fn yes(run: &Run) -> Command {
    let question = &run.questions[&1];
    let answer = Answer {
        request: question.id(&run.id),
        value: json!("approve"),
        digest: Some(question.digest.clone()),
    };
    let principal = Principal::new("ann", Role::User, "test");
    let (answers, key, seed) = (vec![answer], String::new(), String::new());
    Command::Answer { answers, key, principal, seed }
}

/// A yes to what is open.
fn approves(run: &mut Run, at: u64) -> Result<Decision, Declined> {
    let yes = yes(run);
    apply(run, &yes, Millis(at))
}

fn is_halted(outcome: &Result<Decision, Declined>) -> bool {
    matches!(outcome, Err(Declined::Refused(Refusal::Halted { .. })))
}

#[test]
fn a_halted_question_takes_no_decision_and_its_clock_stands_still() {
    let mut run = approval();
    let due = run.wake_at().unwrap().0;
    let all = halt(Scope::All, due - 400);
    under(&mut run, std::slice::from_ref(&all));
    let before = run.version;
    assert!(is_halted(&approves(&mut run, due - 300)));
    assert!(is_halted(&apply(&mut run, &Command::Tick, Millis(due + 50_000))));
    assert_eq!(run.version, before, "nothing is written");
    // It had 400 ms left, and has them still.
    let end = due + 60_000;
    assert_eq!(stood(&mut run, &all, end).len(), 1);
    assert_eq!(stood(&mut run, &all, end), [], "the same again is nothing new");
    under(&mut run, &[]);
    assert_eq!(run.wake_at(), Some(Millis(end + 400)));
    approves(&mut run, end + 399).unwrap();
}

#[test]
fn a_run_that_waits_names_the_halts_that_stand_in_its_way() {
    let mut run = approval();
    let named = |run: &Run, scope: Scope| standing(&Halts(vec![halt(scope, 0)]), run).len();
    assert!(!run.questions.is_empty());
    assert_eq!(named(&run, Scope::All), 1);
    assert_eq!(named(&run, Scope::Workflow(run.workflow.name.clone())), 1);
    assert_eq!(named(&run, Scope::Workflow("other".into())), 0);
    assert_eq!(named(&run, Scope::Tool("pay".into())), 0);
    let both = Halts(vec![halt(Scope::All, 0), halt(Scope::Tool("pay".into()), 0)]);
    assert_eq!(standing(&both, &run), [&both.0[0]], "each once, and only those");
    run.status = Status::Cancelled { by: "ann".into() };
    assert_eq!(named(&run, Scope::All), 0, "what is over stands at nothing");
}

#[test]
fn a_question_that_stands_is_not_overdue_and_says_how_long_is_left() {
    let mut run = approval();
    let due = run.wake_at().unwrap().0;
    let question = |run: &Run| Arc::clone(&run.questions[&1]);
    let left = |run: &Run, halts: &[Halt]| {
        let shown = shown(&Halts(halts.to_vec()), run, question(run));
        let itself = still(&Halts(halts.to_vec()), &run.workflow.name, &question(run)).unwrap();
        assert_eq!(shown.still, itself, "a list says the same");
        assert_eq!(shown.is_overdue(Millis(due + 90_000)), itself.is_none());
        itself.and_then(|still| still.left_ms)
    };
    assert_eq!(left(&run, &[]), None);
    assert_eq!(left(&run, &[halt(Scope::Tool("pay".into()), 0)]), None, "of something else");
    let (first, second) = (halt(Scope::All, due - 400), halt(Scope::All, due - 300));
    let both = [first.clone(), second.clone()];
    assert_eq!(left(&run, &both), Some(400), "since the first of them");
    assert_eq!(of_decision(&Halts(both.to_vec()), &run, &question(&run)), Some(refused(&first)));
    stood(&mut run, &first, due + 600);
    assert_eq!(left(&run, &[second]), Some(400), "what was moved on is not left once more");
    assert_eq!(left(&run, &[]), None);
}

#[test]
fn a_question_without_a_deadline_says_what_is_halted() {
    let run = approval();
    let question = Question { deadline: None, ..(*run.questions[&1]).clone() };
    let halts = Halts(vec![halt(Scope::Tool("pay".into()), 0), halt(Scope::All, 0)]);
    let told = Some(Still { what: "everything".into(), left_ms: None });
    assert_eq!(still(&halts, &run.workflow.name, &question), Ok(told.clone()));
    assert_eq!(shown(&halts, &run, Arc::new(question)).still, told);
}

#[test]
fn a_list_asks_for_the_run_where_a_question_alone_does_not_tell_what_it_is_about() {
    let run = approval();
    let told = |scope: Scope, origin: Origin, step: &str| {
        let question = Question { step: step.into(), ..Question::bare(Kind::Approval, origin) };
        let halts = Halts(vec![halt(scope, 0)]);
        still(&halts, &run.workflow.name, &question).map(|still| still.is_some())
    };
    let pay = || Scope::Tool("pay".into());
    let other = || Scope::Workflow("other".into());
    let gate = |tool: &str| Origin::Gate(Box::new(ToolCall::new("c", tool, json!({}))));
    assert_eq!(told(pay(), gate("pay"), "q"), Ok(true));
    assert_eq!(told(pay(), gate("mail"), "q"), Ok(false));
    assert_eq!(told(pay(), Origin::ToolCall("c".into()), "q"), Err(NeedsRun));
    assert_eq!(told(other(), Origin::HumanStep, "q"), Ok(false));
    assert_eq!(told(other(), Origin::HumanStep, "sub/q"), Err(NeedsRun));
    assert_eq!(told(Scope::Agent("a".into()), Origin::HumanStep, "sub/q"), Ok(false));
    assert_eq!(told(Scope::All, Origin::ToolCall("c".into()), "sub/q"), Ok(true));
}

#[test]
fn time_under_two_halts_counts_once() {
    let mut run = approval();
    let due = run.wake_at().unwrap().0;
    let began = due - 1_000;
    let (first, second) = (halt(Scope::All, began + 100), halt(Scope::All, began + 300));
    stood(&mut run, &first, began + 500);
    stood(&mut run, &second, began + 900);
    assert_eq!(run.wake_at(), Some(Millis(due + 800)), "from 100 to 900");
}

#[test]
fn a_halt_of_something_else_changes_nothing() {
    let mut run = approval();
    let due = run.wake_at().unwrap().0;
    let others =
        [Scope::Workflow("other".into()), Scope::Tool("pay".into()), Scope::Agent("x".into())];
    for scope in others {
        let other = halt(scope, 0);
        under(&mut run, std::slice::from_ref(&other));
        assert_eq!(stood(&mut run, &other, due + 5_000), []);
        assert_eq!(run.wake_at(), Some(Millis(due)));
    }
    approves(&mut run, due - 1).unwrap();
}

#[test]
fn a_halt_by_a_clock_that_went_back_moves_nothing() {
    let mut run = approval();
    let due = run.wake_at().unwrap();
    let all = halt(Scope::All, due.0 + 9_000);
    assert_eq!(stood(&mut run, &all, due.0 - 500), []);
    assert_eq!(run.wake_at(), Some(due));
}

#[test]
fn work_that_is_halted_is_owed_as_before() {
    let run = Stage::open(&sequence(vec![step("a")]), "Hello").run;
    let owed = plan(&run);
    let [effect @ Effect::Reply { input, .. }] = owed.as_slice() else { panic!("{owed:?}") };
    for scope in [Scope::All, Scope::Workflow(run.workflow.name.clone())] {
        assert!(of_effect(&Halts(vec![halt(scope, 0)]), &run, effect).is_some());
    }
    assert!(
        of_effect(&Halts(vec![halt(Scope::Agent(input.agent.clone()), 0)]), &run, effect).is_some()
    );
    assert!(of_effect(&Halts(vec![halt(Scope::Tool("pay".into()), 0)]), &run, effect).is_none());
}
