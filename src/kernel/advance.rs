//! Advance: what follows of itself once a fact is folded in: the next turn, the next question, the
//! next try, the pause, the end. And `apply`, which takes a command all the way to rest.

use std::sync::Arc;

use crate::kernel::attempt;
use crate::kernel::brought;
use crate::kernel::budget::{self, Stop};
use crate::kernel::command::{Command, Decision};
use crate::kernel::context_window::{self, Due};
use crate::kernel::cut_off;
use crate::kernel::decide::decide;
use crate::kernel::draft::{self, Next};
use crate::kernel::event::Event;
use crate::kernel::evolve::{Corruption, begin, evolve};
use crate::kernel::failure::Failure;
use crate::kernel::family;
use crate::kernel::gate;
use crate::kernel::graph;
use crate::kernel::id::RunId;
use crate::kernel::limits::{CONVERSATION_BYTES_MAX, QUESTIONS_MAX};
use crate::kernel::message::{ToolCall, readable};
use crate::kernel::operator::Operator;
use crate::kernel::pattern::{self, Move};
use crate::kernel::plan;
use crate::kernel::refusal::Refusal;
use crate::kernel::reply;
use crate::kernel::run::{Run, Status};
use crate::kernel::schema;
use crate::kernel::session_memory::Earlier;
use crate::kernel::started::Started;
use crate::kernel::time::Millis;
use crate::kernel::turn::{CallWaits, Judgement, Looked, Turn, Wish};
use crate::kernel::workflow::{Pattern, Workflow};

/// Why a command came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Declined {
    /// The caller's no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Our own bug, or wrong bytes.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
}

/// Begins a run, after what was said before it: its first events, all the way to rest.
pub fn start(
    id: RunId,
    workflow: Arc<Workflow>,
    mut started: Started,
    (earlier, operator): (Earlier, Arc<Operator>),
    now: Millis,
) -> Result<(Box<Run>, Vec<Event>), Declined> {
    let too_large = |remedy| Refusal::TooLarge { field: "input".into(), remedy };
    if schema::is_too_deep(&started.input) {
        return Err(too_large(format!("it may nest {} deep", schema::DEPTH_MAX)).into());
    }
    if readable(&started.input).len() > CONVERSATION_BYTES_MAX {
        return Err(too_large(format!("it may have {CONVERSATION_BYTES_MAX} bytes")).into());
    }
    if let Some(schema) = &workflow.input {
        schema::check_input(schema, &started.input).map_err(|mismatch| {
            Refusal::invalid(format!("input{}", mismatch.at), mismatch.to_string())
        })?;
    } else if !started.input.is_string() && !started.input.is_object() {
        return Err(Refusal::invalid("input", "expected a text, or an object").into());
    } else if started.input.as_str().is_some_and(|text| text.trim().is_empty()) {
        return Err(Refusal::invalid("input", "expected a text that is not empty").into());
    }
    if let Some(refusal) = earlier.refusal(readable(&started.input).len()) {
        return Err(refusal.into());
    }
    let force = operator.policy.for_run(&workflow.name, &started.requesters(), &operator);
    started.policy = (!force.is_nothing()).then(|| Box::new(force));
    let mut run = Box::new(begin(id, workflow, &started, now).remembering(earlier));
    run.operator = operator;
    let mut events = vec![Event::Started(Box::new(started))];
    settle(&mut run, now, &mut events)?;
    Ok((run, events))
}

/// Takes a command all the way to rest. A refused one leaves the run as it was (K1).
pub fn apply(run: &mut Run, command: &Command, now: Millis) -> Result<Decision, Declined> {
    let decided = match decide(run, command, now)? {
        Decision::Events(events) => events,
        repeat @ Decision::Repeat { .. } => return Ok(repeat),
    };
    let mut events = Vec::with_capacity(decided.len());
    fold(run, decided, now, &mut events)?;
    settle(run, now, &mut events)?;
    Ok(Decision::Events(events))
}

fn settle(run: &mut Run, now: Millis, events: &mut Vec<Event>) -> Result<(), Corruption> {
    loop {
        let calls = events.iter().any(|event| matches!(event, Event::ToolCalled { .. }));
        let more = advance(run, now, calls);
        if more.is_empty() {
            return Ok(());
        }
        fold(run, more, now, events)?;
    }
}

/// Folds events in, each after what must be said before it; and the end of the run, where a start's own gate was
/// not passed by a yes, whatever it was that ended its question (K12). All of them are folded first, so that what
/// others have answered with it is kept.
fn fold(
    run: &mut Run,
    mut more: Vec<Event>,
    now: Millis,
    events: &mut Vec<Event>,
) -> Result<(), Corruption> {
    let looks = brought::open(run);
    fold_each(run, more.drain(..), now, events)?;
    fold_each(run, brought::lost(run, &looks).into_iter(), now, events)
}

fn fold_each(
    run: &mut Run,
    more: impl Iterator<Item = Event>,
    now: Millis,
    events: &mut Vec<Event>,
) -> Result<(), Corruption> {
    for mut event in more {
        // What was refused in this run before, or done already where it comes from, is among the facts (K11).
        if let Event::Asked(question) = &mut event {
            let refused = question.refused_before(run);
            question.tell_of(refused);
            run.tell_done(question);
        }
        for warning in cut_off::before(run, &event, events) {
            evolve(run, &warning, now)?;
            events.push(warning);
        }
        evolve(run, &event, now)?;
        events.push(event);
    }
    Ok(())
}

/// What follows of itself, one step of it; nothing, when the run is at rest.
fn advance(run: &Run, now: Millis, calls: bool) -> Vec<Event> {
    if run.status != Status::Running {
        return Vec::new();
    }
    if let Some(failure) = over_bounds(run) {
        return vec![Event::Failed(failure)];
    }
    match budget::stop(run, now, calls) {
        Some(Stop::Fail(failure)) => return vec![Event::Failed(failure)],
        Some(Stop::Ask(draft)) => {
            return vec![Event::Asked(Box::new(draft::ask(
                &run.workflow,
                *draft,
                run.endings.len() + 1,
                now,
            )))];
        }
        Some(Stop::Rest) => return vec![Event::CheckpointSaved, Event::Parked],
        None => {}
    }
    for turn in run.turns.values() {
        let most = run.workflow.limits.rounds;
        if turn.owes_reply() && turn.rounds >= most {
            let what = format!("step `{}`: no end after {most} model calls in one turn", turn.step);
            return vec![reply::fails(run, turn, Failure::new("step.rounds", what))];
        }
        if let Some(failure) = plan::unfilled(run, turn) {
            return vec![reply::fails(run, turn, failure)];
        }
        if let Some(Due::Refusal(failure)) = context_window::due(run, turn) {
            return vec![reply::fails(run, turn, failure)];
        }
        if let Some(open) = turn.calls.iter().find(|open| open.waits == CallWaits::Nobody) {
            return called(run, turn, (&open.call, &open.judged, Some(&open.looked)), now);
        }
        if let Some(events) = of_tool(run, turn, now) {
            return events;
        }
        if turn.calls.is_empty() && turn.handoff.is_some() {
            let output = serde_json::Value::Null;
            return vec![Event::StepCompleted { turn: turn.number, output }];
        }
        if turn.retry_at.is_some_and(|at| at <= now) {
            return vec![Event::StepStarted {
                turn: turn.number,
                step: turn.step.clone(),
                agent: turn.agent.clone(),
                attempt: turn.attempt + 1,
                purpose: turn.purpose,
                prompt: turn.prompt.clone(),
                judges: None,
            }];
        }
    }
    if let Pattern::Graph(program) = &run.workflow.pattern {
        if let Some(events) = graph::next(run, program, now) {
            return events;
        }
    } else if run.turns.is_empty() && run.questions.is_empty() {
        return moved(run, now);
    }
    let rests = run.turns.values().all(Turn::rests_on_people);
    if rests && (!run.questions.is_empty() || run.graph.waits()) {
        return vec![Event::CheckpointSaved, Event::Parked];
    }
    Vec::new()
}

/// What follows in a tool's own step: its end, its failure, or another try.
fn of_tool(run: &Run, turn: &Turn, now: Millis) -> Option<Vec<Event>> {
    let step = turn.tool_step()?;
    match (&step.returned, &step.made) {
        (Some(Ok(value)), _) => Some(match tools_output(run, turn, value) {
            Ok(()) => vec![Event::StepCompleted { turn: turn.number, output: value.clone() }],
            Err(failure) => vec![reply::fails(run, turn, failure)],
        }),
        (Some(Err(failure)), _) => Some(attempt::tool_failed(run, turn, failure, now)),
        (None, Some(call)) if turn.calls.is_empty() && turn.retry_at.is_none() => {
            Some(called(run, turn, (call, &[], None), now))
        }
        (None, Some(_) | None) => None,
    }
}

/// What becomes of a call that is looked at once more: a judge has spoken, a start's own gate was passed, or it is
/// tried again.
fn called(
    run: &Run,
    turn: &Turn,
    (call, judged, looked): (&ToolCall, &[Judgement], Option<&Looked>),
    now: Millis,
) -> Vec<Event> {
    let wish = Wish { turn, call, said: &turn.said, judged, looked, is_step: false };
    gate::passed(run, wish, Next::of(run), now)
}

fn tools_output(run: &Run, turn: &Turn, value: &serde_json::Value) -> Result<(), Failure> {
    let Some(wanted) = pattern::output_schema(run, turn) else { return Ok(()) };
    schema::check(&wanted, value).map_err(|mismatch| {
        let what = format!("step `{}`: the outcome{}: {mismatch}", turn.step, mismatch.at);
        Failure::new("tool.output", what)
    })
}

fn moved(run: &Run, now: Millis) -> Vec<Event> {
    match pattern::next(run) {
        Move::Turn { step, agent, purpose } => {
            if run.steps_taken() >= run.workflow.limits.steps {
                return vec![Event::Failed(Failure::new(
                    "step.cap",
                    format!(
                        "the run took its {} steps without coming to an end",
                        run.workflow.limits.steps
                    ),
                ))];
            }
            let (turn, prompt) = (run.turns_taken + 1, None);
            let judges = None;
            vec![Event::StepStarted { turn, step, agent, attempt: 1, purpose, prompt, judges }]
        }
        Move::Ask(draft) => {
            vec![Event::Asked(Box::new(draft::ask(
                &run.workflow,
                family::with_return(run, *draft),
                run.endings.len() + 1,
                now,
            )))]
        }
        Move::Finish(value) => vec![Event::Output { value }, Event::Completed],
        Move::Fail(failure) => vec![Event::Failed(failure)],
        Move::Cancel { by } => {
            vec![Event::cancelled_after(by, "its question was withdrawn")]
        }
    }
}

fn over_bounds(run: &Run) -> Option<Failure> {
    if run.bytes_in_all() > CONVERSATION_BYTES_MAX {
        return Some(Failure::new(
            "conversation.too_large",
            format!("the conversation has more than {CONVERSATION_BYTES_MAX} bytes"),
        ));
    }
    if run.endings.len() > QUESTIONS_MAX {
        return Some(Failure::new(
            "questions.too_many",
            format!("the run asked more than {QUESTIONS_MAX} questions"),
        ));
    }
    None
}
