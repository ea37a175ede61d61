//! Fold: what events change in where a program stands. Nothing is evaluated here: a value that an
//! expression came to is in its event, so a replay never asks again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::kernel::brought;
use crate::kernel::cut_off;
use crate::kernel::failure::Failure;
use crate::kernel::graph::outcome::{Opening, Outcome, Point};
use crate::kernel::graph::path::split;
use crate::kernel::graph::program::{Program, Step, Steps, Task};
use crate::kernel::graph::state::{Asking, Block, Frame, Is, Phase, Released, Sequence, State};
use crate::kernel::graph::{gates, unseen};
use crate::kernel::message::{Message, Speaker};
use crate::kernel::question::{Closed, Ending, Question, Subject};
use crate::kernel::run::{Heard, Run, Status};
use crate::kernel::spoken;
use crate::kernel::time::Millis;
use crate::kernel::turn::Looked;

type Folded = Result<(), &'static str>;

/// Where a program stands when its run begins.
pub(in crate::kernel) fn begin(program: &Program, input: &Value, metadata: Value) -> State {
    let mut state = State::default();
    let variables =
        BTreeMap::from([("input".into(), input.clone()), ("metadata".into(), metadata)]);
    state.insert(sequence(("", ""), None, &program.steps, variables, true));
    state
}

fn sequence(
    (path, label): (&str, &str),
    parent: Option<u32>,
    steps: &Steps,
    variables: BTreeMap<String, Value>,
    is_scope: bool,
) -> Frame {
    let is = Is::Sequence(Sequence {
        steps: Arc::clone(steps),
        next: 0,
        outputs: BTreeMap::new(),
        variables,
        is_scope,
        last: Value::Null,
    });
    frame(path, label, parent, is)
}

fn frame(path: &str, label: &str, parent: Option<u32>, is: Is) -> Frame {
    Frame {
        path: path.into(),
        label: label.to_owned(),
        parent,
        children: std::collections::BTreeSet::new(),
        is,
        phase: Phase::Fresh,
        redone: 0,
        retried: 0,
        clock: None,
        is_held: false,
        unseen: Vec::new(),
    }
}

/// Something was begun.
pub(in crate::kernel) fn opened(
    run: &mut Run,
    path: &str,
    opening: &Opening,
    at: Millis,
) -> Folded {
    let state = &mut run.graph;
    match opening {
        Opening::Items(items) => {
            let number = state.number(path).ok_or("no such step is under way")?;
            let (items, results) = (Arc::new(items.clone()), vec![Value::Null; items.len()]);
            let phase = if items.is_empty() {
                Phase::Worked(json!([]))
            } else {
                Phase::Open(Block::Items { items, opened: 0, done: 0, results })
            };
            state.set(number, phase, at);
        }
        Opening::Wait { until, signal } => {
            let number = state.number(path).ok_or("no such step is under way")?;
            let kept = state.signals.iter().position(|(name, _)| Some(name) == signal.as_ref());
            let phase = match kept {
                Some(index) => Phase::Worked(signalled(&state.signals.remove(index).1)),
                None => Phase::Waiting { until: *until, signal: signal.clone() },
            };
            state.set(number, phase, at);
        }
        Opening::Step => {
            let (above, label) = split(path);
            let parent = state.number(above).ok_or("no such sequence is under way")?;
            let step = next_step(state, parent, label)?;
            state.insert(frame(path, label, Some(parent), Is::Step(step)));
        }
        Opening::Branch | Opening::Item | Opening::Round | Opening::Scope(_) => {
            within(state, path, opening, at)?;
        }
    }
    Ok(())
}

fn next_step(state: &State, parent: u32, label: &str) -> Result<Arc<Step>, &'static str> {
    let Some(Is::Sequence(sequence)) = state.frames.get(&parent).map(|frame| &frame.is) else {
        return Err("a step is begun in a sequence");
    };
    let step = sequence.steps.get(sequence.next).filter(|step| step.id == label);
    step.cloned().ok_or("E3: a step is begun in its turn")
}

/// A sequence within a step: a branch, an item's, a round's, another workflow's.
fn within(state: &mut State, path: &str, opening: &Opening, at: Millis) -> Folded {
    let (above, label) = split(path);
    let parent = state.number(above).ok_or("no such step is under way")?;
    let holder = state.frames.get(&parent).ok_or("no such step is under way")?;
    let Is::Step(step) = &holder.is else { return Err("a branch is begun in a step") };
    let step = Arc::clone(step);
    let place = label.parse::<usize>().unwrap_or(usize::MAX);
    let mut variables = BTreeMap::new();
    let block = match (opening, &step.task, &holder.phase) {
        (Opening::Scope(input), _, _) => {
            let outer = state.frames.get(&0).map(|root| &root.is);
            if let Some(Is::Sequence(root)) = outer {
                let metadata = root.variables.get("metadata").cloned().unwrap_or_default();
                variables.insert("metadata".to_owned(), metadata);
            }
            variables.insert("input".to_owned(), input.clone());
            Some(Block::One)
        }
        (Opening::Item, Task::ForEach { name, .. }, Phase::Open(Block::Items { items, .. })) => {
            let item = items.get(place).cloned().ok_or("no such item")?;
            variables.insert(name.clone(), item);
            variables.insert("index".to_owned(), place.into());
            None
        }
        (Opening::Round, Task::Loop { .. }, phase) => {
            let previous = if let Phase::Open(Block::Rounds { last, .. }) = phase {
                last.clone()
            } else {
                Value::Null
            };
            variables.insert("round".to_owned(), place.into());
            variables.insert("previous".to_owned(), previous.clone());
            let round = u32::try_from(place).map_err(|_| "no such round")?;
            Some(Block::Rounds { round, last: previous, outputs: BTreeMap::new() })
        }
        (Opening::Branch, Task::Parallel { .. }, Phase::Open(_)) => None,
        (Opening::Branch, Task::Parallel { .. }, _) => {
            Some(Block::Branches { results: BTreeMap::new() })
        }
        (Opening::Branch, _, _) => Some(Block::One),
        (
            Opening::Item
            | Opening::Round
            | Opening::Step
            | Opening::Items(_)
            | Opening::Wait { .. },
            _,
            _,
        ) => {
            return Err("this step has nothing of the kind");
        }
    };
    let steps = steps_of(&step.task, label).ok_or("this step has no such branch")?;
    let is_scope = matches!(opening, Opening::Scope(_));
    match block {
        Some(block) => state.set(parent, Phase::Open(block), at),
        None => state.change(parent, |frame| {
            if let Phase::Open(Block::Items { opened, .. }) = &mut frame.phase {
                *opened += 1;
            }
        }),
    }
    state.insert(sequence((path, label), Some(parent), steps, variables, is_scope));
    Ok(())
}

/// The steps of a branch, by its name.
fn steps_of<'a>(task: &'a Task, label: &str) -> Option<&'a Steps> {
    match task {
        Task::If { then, otherwise, .. } => Some(if label == "then" { then } else { otherwise }),
        Task::Switch { cases, otherwise, .. } => match label.strip_prefix("case") {
            Some(index) => cases.get(index.parse::<usize>().ok()?).map(|case| &case.steps),
            None => otherwise.as_ref(),
        },
        Task::Parallel { branches } => {
            branches.iter().find(|branch| branch.name == label).map(|branch| &branch.steps)
        }
        Task::ForEach { steps, .. } | Task::Loop { steps, .. } | Task::Group { steps } => {
            Some(steps)
        }
        Task::Sub { program, .. } => Some(&program.steps),
        Task::Agent { .. }
        | Task::Tool { .. }
        | Task::Wait { .. }
        | Task::Human(_)
        | Task::Extract { .. } => None,
    }
}

/// A step's turn is under way.
pub(in crate::kernel) fn working(run: &mut Run, path: &str, turn: u32, at: Millis) -> Folded {
    let number = run.graph.number(path).ok_or("no such step is under way")?;
    run.graph.set(number, Phase::Working(turn), at);
    Ok(())
}

/// A step's turn came to an end.
pub(in crate::kernel) fn turned(
    run: &mut Run,
    path: &str,
    outcome: Result<Value, Failure>,
    at: Millis,
) -> Folded {
    let number = run.graph.number(path).ok_or("no such step is under way")?;
    let phase = outcome.map_or_else(Phase::Failed, Phase::Worked);
    run.graph.set(number, phase, at);
    Ok(())
}

/// A question of a step was asked: its own, or at its gate.
pub(in crate::kernel) fn asked(
    run: &mut Run,
    path: &str,
    ordinal: u32,
    point: Option<Point>,
    at: Millis,
) -> Folded {
    let number = run.graph.number(path).ok_or("no such step is under way")?;
    let phase = run.graph.frames.get(&number).map(|frame| frame.phase.clone());
    let asking = match (point, phase) {
        (None, _) => Asking::Human,
        (Some(Point::Before), _) => Asking::Before,
        (Some(Point::After), Some(Phase::Worked(value))) => Asking::After(value),
        (Some(Point::Review), Some(Phase::Worked(value))) => Asking::Review(value),
        (Some(Point::Error), Some(Phase::Failed(failure))) => Asking::Error(failure),
        (Some(Point::After | Point::Review | Point::Error), _) => {
            return Err("a gate stands where there is something to look at");
        }
    };
    run.graph.set(number, Phase::Asking(ordinal, asking), at);
    Ok(())
}

/// What came of a step's question.
pub(in crate::kernel) fn heard(
    run: &mut Run,
    question: &Question,
    reply: &Heard,
    at: Millis,
) -> Folded {
    let path = question.step.as_str();
    let number = run.graph.number(path).ok_or("no such step is under way")?;
    let frame = run.graph.frames.get(&number).ok_or("no such step is under way")?;
    let (Phase::Asking(_, asking), Is::Step(step)) = (&frame.phase, &frame.is) else {
        return Err("this step has not asked");
    };
    let parent = frame.parent;
    if *asking == Asking::Human {
        let phase = gates::decided(path, question, reply);
        let is_yes = question.decides() && matches!(phase, Phase::Worked(_));
        run.graph.set(number, phase, at);
        if let Some(sequence) = parent.filter(|_| is_yes) {
            // The answer itself has been said already, and is for everybody.
            unseen::hide(run, sequence, question, run.conversation.len().saturating_sub(1));
        }
        return Ok(());
    }
    let mut looked = Looked::default();
    if brought::is_brought(question) {
        looked.pass(question, run.owed.get(&question.ordinal).cloned().unwrap_or_default());
    }
    let released = Released {
        frozen: match question.subject.as_deref() {
            Some(Subject::Task(frozen)) => Some(frozen.clone()),
            Some(Subject::Shown(_)) | None => None,
        },
        rules: gates::passed(question, &step.id),
        looked,
    };
    let is_brought = brought::is_brought(question);
    let ruled = gates::ruling(step, frame, (asking.clone(), released), reply);
    let hidden_from = match &ruled.phase {
        // Of a block that a start's own gate looked at, what is within sees all that it would have seen (K12).
        Phase::Cleared(Some(_)) if is_brought && !step.task.blocks().is_empty() => None,
        Phase::Cleared(Some(_)) => Some(number),
        Phase::Ended(Outcome::Done(_)) => parent,
        Phase::Fresh
        | Phase::Again
        | Phase::Cleared(None)
        | Phase::Working(_)
        | Phase::Asking(..)
        | Phase::Open(_)
        | Phase::Waiting { .. }
        | Phase::Worked(_)
        | Phase::Failed(_)
        | Phase::Ended(_)
        | Phase::Aborted(_) => None,
    };
    if let Some(frame) = hidden_from {
        unseen::hide(run, frame, question, run.conversation.len());
    }
    for (by, value) in ruled.said {
        let said = match &value {
            Value::String(note) => Message::text(Speaker::User, by, note.clone()),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Message::said(by, &value),
        };
        spoken::say(run, said);
    }
    run.graph.change(number, |frame| {
        frame.redone += u32::from(ruled.redone);
        frame.retried += u32::from(ruled.retried);
    });
    run.graph.set(number, ruled.phase, at);
    Ok(())
}

/// A step's work came to something of itself: a value, a timer, a failure of what is within it.
pub(in crate::kernel) fn came(run: &mut Run, path: &str, outcome: &Outcome, at: Millis) -> Folded {
    let number = run.graph.number(path).ok_or("no such step is under way")?;
    for inner in run.graph.within(number) {
        let removed = run.graph.remove(inner);
        release(run, &removed);
    }
    let own: Vec<Frame> = run.graph.frames.get(&number).cloned().into_iter().collect();
    release(run, &own);
    let phase = match outcome {
        Outcome::Done(value) => Phase::Worked(value.clone()),
        Outcome::Failed(failure) => Phase::Failed(failure.clone()),
        Outcome::Skipped(_) | Outcome::Tolerated(_) | Outcome::Returned(_) => {
            Phase::Ended(outcome.clone())
        }
    };
    run.graph.set(number, phase, at);
    run.status = Status::Running;
    Ok(())
}

/// A step, or a sequence, is over. Its parent is told, and nobody else.
pub(in crate::kernel) fn settled(
    run: &mut Run,
    path: &str,
    outcome: &Outcome,
    at: Millis,
) -> Folded {
    let number = run.graph.number(path).ok_or("E3: no such step is under way")?;
    let removed = run.graph.remove(number);
    release(run, &removed);
    let child = removed.into_iter().next().ok_or("no such step is under way")?;
    let parent = child.parent.ok_or("the program itself is over with its run")?;
    unseen::hand_up(&mut run.graph, parent, &child);
    let value = match outcome {
        Outcome::Failed(failure) => {
            run.graph.set(parent, Phase::Failed(failure.clone()), at);
            return Ok(());
        }
        Outcome::Returned(_) => {
            run.graph.change(parent, go_back);
            return Ok(());
        }
        Outcome::Done(value) => Some(value),
        Outcome::Skipped(_) | Outcome::Tolerated(_) => None,
    };
    let mut worked = None;
    run.graph.change(parent, |frame| worked = tell(frame, child, value));
    if let Some(value) = worked {
        run.graph.set(parent, Phase::Worked(value), at);
    }
    Ok(())
}

/// A sequence whose step was given back is at its author's step again.
fn go_back(sequence: &mut Frame) {
    if let Is::Sequence(sequence) = &mut sequence.is {
        sequence.next = sequence.author().unwrap_or(sequence.next + 1);
    }
}

/// Tells a frame what one within it came to; what it came to itself, if that was the last.
fn tell(parent: &mut Frame, child: Frame, value: Option<&Value>) -> Option<Value> {
    let came = value.cloned().unwrap_or_default();
    match (&mut parent.is, &mut parent.phase) {
        (Is::Sequence(sequence), _) => {
            sequence.outputs.insert(child.label, came.clone());
            if value.is_some() {
                sequence.last = came;
            }
            sequence.next += 1;
            None
        }
        (Is::Step(_), Phase::Open(Block::One)) => Some(came),
        (Is::Step(step), Phase::Open(Block::Branches { results })) => {
            results.insert(child.label, came);
            let Task::Parallel { branches } = &step.task else { return None };
            let all = || {
                branches.iter().map(|branch| {
                    let result = results.get(&branch.name).cloned().unwrap_or_default();
                    (branch.name.clone(), result)
                })
            };
            (results.len() == branches.len()).then(|| Value::Object(all().collect()))
        }
        (Is::Step(_), Phase::Open(Block::Items { items, done, results, .. })) => {
            let place = child.label.parse::<usize>().ok();
            if let Some(result) = place.and_then(|place| results.get_mut(place)) {
                *result = came;
            }
            *done += 1;
            (*done == items.len()).then(|| Value::Array(std::mem::take(results)))
        }
        (Is::Step(_), Phase::Open(Block::Rounds { last, outputs, .. })) => {
            *last = came;
            if let Is::Sequence(sequence) = child.is {
                *outputs = sequence.outputs;
            }
            None
        }
        (Is::Step(_), _) => None,
    }
}

/// An external event came: whatever waits for it goes on; if nothing does, it is kept.
pub(in crate::kernel) fn signal(run: &mut Run, name: &str, value: &Value, at: Millis) {
    let state = &mut run.graph;
    let waits = |number: &&u32| {
        let phase = state.frames.get(number).map(|frame| &frame.phase);
        matches!(phase, Some(Phase::Waiting { signal: Some(known), .. }) if known == name)
    };
    let waiting: Vec<u32> = state.waits.iter().filter(waits).copied().collect();
    if waiting.is_empty() {
        state.signals.push((name.to_owned(), value.clone()));
    }
    for number in waiting {
        state.set(number, Phase::Worked(signalled(value)), at);
    }
    run.status = Status::Running;
}

fn signalled(value: &Value) -> Value {
    json!({"by": "signal", "value": value})
}

/// Frames are gone: so are their turns and their questions.
fn release(run: &mut Run, frames: &[Frame]) {
    for frame in frames {
        match &frame.phase {
            Phase::Working(turn) => {
                if let Some(gone) = run.turns.remove(turn) {
                    let loose = cut_off::under_way(&gone).map(|open| (*turn, open.call.clone()));
                    run.loose.extend(loose);
                }
                let is_left = |_: &u32, other: &mut crate::kernel::turn::Turn| {
                    other.judging().is_none_or(|judging| judging.turn != *turn)
                };
                run.turns.retain(is_left);
                let all = run.questions.values();
                let of_turn = all.filter(|question| question.turn == Some(*turn));
                let asked: Vec<u32> = of_turn.map(|question| question.ordinal).collect();
                for ordinal in asked {
                    drop_question(run, ordinal);
                }
            }
            Phase::Asking(ordinal, _) => drop_question(run, *ordinal),
            Phase::Fresh
            | Phase::Again
            | Phase::Cleared(_)
            | Phase::Open(_)
            | Phase::Waiting { .. }
            | Phase::Worked(_)
            | Phase::Failed(_)
            | Phase::Ended(_)
            | Phase::Aborted(_) => {}
        }
    }
}

fn drop_question(run: &mut Run, ordinal: u32) {
    if run.questions.remove(&ordinal).is_some() {
        let index = usize::try_from(ordinal).unwrap_or(usize::MAX).wrapping_sub(1);
        if let Some(ending) = run.endings.get_mut(index) {
            *ending = Some(Ending::Closed(Closed::StepOver));
        }
    }
}
