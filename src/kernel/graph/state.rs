//! State: where a program stands: one frame for every step and sequence that is begun and not over.
//!
//! Folded from events and changed nowhere else. A frame that can move is in `ready`; one that the
//! clock may move is in `clocks`; finishing a frame touches its parent and nothing beside it, so a
//! thousand branches cost a thousand times one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::failure::Failure;
use crate::kernel::graph::frozen::Frozen;
use crate::kernel::graph::outcome::Outcome;
use crate::kernel::graph::program::{Step, Steps, Task};
use crate::kernel::time::Millis;
use crate::kernel::turn::Looked;

/// Where a program stands.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// Frames that are not over, by number.
    pub(super) frames: BTreeMap<u32, Frame>,
    /// Their numbers by path.
    pub(super) paths: BTreeMap<String, u32>,
    /// Those that can move now.
    pub(super) ready: BTreeSet<u32>,
    /// Those that wait for an external event or a timer.
    pub(super) waits: BTreeSet<u32>,
    /// When the clock moves one.
    pub(super) clocks: BTreeSet<(Millis, u32)>,
    /// Frames begun so far.
    pub(super) opened: u32,
    /// External events that came before anything waited for them.
    pub(super) signals: Vec<(String, Value)>,
    /// What was said last, for conditions: `{last, author, messages}`.
    pub(super) spoken: Value,
}

/// A step or a sequence that is begun and not over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Frame {
    pub(super) path: Arc<str>,
    /// Its name in its parent: a step's id, a branch's name, an item's place.
    pub(super) label: String,
    pub(super) parent: Option<u32>,
    pub(super) children: BTreeSet<u32>,
    pub(super) is: Is,
    pub(super) phase: Phase,
    /// Times that a person had it done again.
    pub(super) redone: u32,
    /// Times that a person had it tried again after an error.
    pub(super) retried: u32,
    /// When its work has taken too long.
    pub(super) clock: Option<Millis>,
    /// Whether a start's own gate has asked within it: whoever answered there has used up its time.
    pub(super) is_held: bool,
    /// What was said while yeses were awaited by which what is in it is begun.
    pub(super) unseen: Vec<Unseen>,
}

/// What was said while a question was open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Unseen {
    /// From how many messages on, and up to how many.
    pub(super) span: (usize, usize),
    /// What had been said last before it, for conditions.
    pub(super) spoken: Value,
}

/// What a frame is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Is {
    Step(Arc<Step>),
    Sequence(Sequence),
}

/// Steps, one after the other, and what they have come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Sequence {
    pub(super) steps: Steps,
    pub(super) next: usize,
    pub(super) outputs: BTreeMap<String, Value>,
    /// Variables that are bound here: `item`, `index`, `round` …
    pub(super) variables: BTreeMap<String, Value>,
    /// Whether names end here: the program itself, or another workflow's.
    pub(super) is_scope: bool,
    pub(super) last: Value,
}

impl Sequence {
    /// The place of the agent's step whose work the next one is about: the one before it, with
    /// nothing but people's in between.
    pub(super) fn author(&self) -> Option<usize> {
        let before = self.steps.get(..self.next)?.iter().enumerate().rev();
        let mut works = before.skip_while(|(_, step)| matches!(step.task, Task::Human(_)));
        works.next().filter(|(_, step)| step.task.agent().is_some()).map(|(place, _)| place)
    }
}

/// How far a frame is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// Begun, and nothing else. A sequence: the next step is due.
    Fresh,
    /// It is ordered again, and whoever looks before it is begun looks again.
    Again,
    /// It may be begun; exactly so, where a person let it be done.
    Cleared(Option<Box<Released>>),
    /// A turn is under way.
    Working(u32),
    /// A question is open.
    Asking(u32, Asking),
    /// What is within it is under way.
    Open(Block),
    /// The clock, or an external event.
    Waiting { until: Option<Millis>, signal: Option<String> },
    /// Its work came to this, and nobody has looked yet.
    Worked(Value),
    /// Its work failed, and nobody has looked yet.
    Failed(Failure),
    /// It is decided what it came to.
    Ended(Outcome),
    /// A person ended the run here.
    Aborted(Abort),
}

/// What a person let be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Released {
    /// What they were shown: exactly this is done (K3).
    pub(super) frozen: Option<Frozen>,
    /// The rules that it has passed.
    pub(super) rules: Vec<String>,
    /// What gates that the start brought have had of it.
    pub(super) looked: Looked,
}

/// What a question of a frame is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Asking {
    Human,
    Before,
    After(Value),
    Review(Value),
    Error(Failure),
}

/// How a person ended the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Abort {
    Fail(Failure),
    Cancel { by: String },
}

/// What is under way within a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Block {
    One,
    Branches { results: BTreeMap<String, Value> },
    Items { items: Arc<Vec<Value>>, opened: usize, done: usize, results: Vec<Value> },
    Rounds { round: u32, last: Value, outputs: BTreeMap<String, Value> },
}

impl State {
    /// How many frames can be begun in all; each is an entry of the journal.
    pub(super) const OPENED_MAX: u32 = 100_000;
    /// External events that are kept for later; a flood of them is a mistake.
    pub(super) const SIGNALS_MAX: usize = 64;

    /// Whether something waits for an external event or a timer.
    pub fn waits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Whether no more external events can be kept for later.
    pub(in crate::kernel) fn is_full_of_signals(&self) -> bool {
        self.signals.len() >= Self::SIGNALS_MAX
    }

    /// Whether something is under way that a person let begin.
    pub(in crate::kernel) fn works_on_a_yes(&self) -> bool {
        self.frames.values().any(|frame| match &frame.is {
            Is::Step(step) => {
                step.gate.as_ref().is_some_and(|gate| gate.before) && frame.phase.is_at_work()
            }
            Is::Sequence(_) => false,
        })
    }

    /// When the clock moves something.
    pub(in crate::kernel) fn wake_at(&self) -> Option<Millis> {
        self.clocks.first().map(|(at, _)| *at)
    }

    /// What was said last, for conditions.
    pub(in crate::kernel) fn heard(&mut self, author: &str, text: &str, messages: usize) {
        self.spoken = serde_json::json!({"last": text, "author": author, "messages": messages});
    }

    /// Paths of the steps that wait for an external event, and its name; for a view of the run.
    pub fn signals_awaited(&self) -> Vec<(String, String)> {
        let of = |number: &u32| {
            let frame = self.frames.get(number)?;
            let Phase::Waiting { signal: Some(name), .. } = &frame.phase else { return None };
            Some((frame.path.to_string(), name.clone()))
        };
        self.waits.iter().filter_map(of).collect()
    }

    pub(super) fn number(&self, path: &str) -> Option<u32> {
        self.paths.get(path).copied()
    }

    pub(super) fn frame(&self, path: &str) -> Option<&Frame> {
        self.frames.get(&self.number(path)?)
    }

    /// The step at a path, if it is under way.
    pub(in crate::kernel) fn step(&self, path: &str) -> Option<&Arc<Step>> {
        match &self.frame(path)?.is {
            Is::Step(step) => Some(step),
            Is::Sequence(_) => None,
        }
    }

    /// The steps that a path lies in, the innermost first.
    pub(in crate::kernel) fn around(&self, path: &str) -> impl Iterator<Item = &Arc<Step>> {
        let within = |frame: &&Frame| frame.parent.and_then(|parent| self.frames.get(&parent));
        let frames = std::iter::successors(self.frame(path), within);
        frames.filter_map(|frame| match &frame.is {
            Is::Step(step) => Some(step),
            Is::Sequence(_) => None,
        })
    }

    pub(super) fn insert(&mut self, frame: Frame) -> u32 {
        let (number, parent) = (self.opened, frame.parent);
        self.opened += 1;
        self.paths.insert(frame.path.to_string(), number);
        self.frames.insert(number, frame);
        self.index(number);
        if let Some(parent) = parent {
            self.change(parent, |frame| {
                frame.children.insert(number);
            });
        }
        number
    }

    /// Puts a frame into another phase; its clock runs while it is at work.
    pub(super) fn set(&mut self, number: u32, phase: Phase, at: Millis) {
        let Some(frame) = self.frames.get_mut(&number) else { return };
        let was = (number, frame.clock, waited_until(&frame.phase));
        let limit = match &frame.is {
            Is::Step(step) if phase.is_at_work() => step.timeout_ms,
            Is::Step(_) | Is::Sequence(_) => None,
        };
        frame.clock = limit.map(|ms| frame.clock.unwrap_or_else(|| at.plus(ms)));
        frame.phase = phase;
        self.forget_clocks(was);
        self.index(number);
    }

    /// Changes a frame in its place.
    pub(super) fn change(&mut self, number: u32, of: impl FnOnce(&mut Frame)) {
        if let Some(frame) = self.frames.get_mut(&number) {
            of(frame);
            self.index(number);
        }
    }

    /// Steps at work have as much longer: the run stood still.
    pub(in crate::kernel) fn stood(&mut self, ms: u64) {
        let clocked: Vec<u32> = self.clocks.iter().map(|(_, number)| *number).collect();
        for number in clocked {
            let Some(frame) = self.frames.get_mut(&number) else { continue };
            let Some(clock) = frame.clock else { continue };
            frame.clock = Some(clock.plus(ms));
            self.clocks.remove(&(clock, number));
            self.index(number);
        }
    }

    /// A start's own gate has asked at a step: from here on it, and all that it is within, have no time that may run out
    /// unnoticed.
    pub(in crate::kernel) fn held(&mut self, path: &str) {
        let mut next = self.number(path);
        while let Some(frame) = next.and_then(|number| self.frames.get_mut(&number)) {
            frame.is_held = true;
            next = frame.parent;
        }
    }

    /// Takes a frame out with everything within it; returns all of them, itself first.
    pub(super) fn remove(&mut self, number: u32) -> Vec<Frame> {
        let mut removed = Vec::new();
        let mut left = vec![number];
        while let Some(next) = left.pop() {
            let Some(frame) = self.frames.remove(&next) else { continue };
            left.extend(frame.children.iter().copied());
            self.paths.remove(&*frame.path);
            self.ready.remove(&next);
            self.waits.remove(&next);
            self.forget_clocks((next, frame.clock, waited_until(&frame.phase)));
            removed.push(frame);
        }
        if let Some(parent) = removed.first().and_then(|frame| frame.parent) {
            self.change(parent, |frame| {
                frame.children.remove(&number);
            });
        }
        removed
    }

    /// Everything within a frame, itself not.
    pub(super) fn within(&self, number: u32) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        let mut left: Vec<u32> = self.children_of(number);
        while let Some(next) = left.pop() {
            left.extend(self.children_of(next));
            found.push(next);
        }
        found
    }

    fn children_of(&self, number: u32) -> Vec<u32> {
        self.frames
            .get(&number)
            .map(|frame| frame.children.iter().copied().collect())
            .unwrap_or_default()
    }

    fn forget_clocks(&mut self, (number, clock, until): (u32, Option<Millis>, Option<Millis>)) {
        for at in clock.into_iter().chain(until) {
            self.clocks.remove(&(at, number));
        }
    }

    fn index(&mut self, number: u32) {
        let Some(frame) = self.frames.get(&number) else { return };
        let until = waited_until(&frame.phase);
        for at in frame.clock.into_iter().chain(until) {
            self.clocks.insert((at, number));
        }
        let waits = matches!(frame.phase, Phase::Waiting { .. });
        let moves = frame.moves();
        put(&mut self.waits, number, waits);
        put(&mut self.ready, number, moves);
    }
}

fn put(set: &mut BTreeSet<u32>, number: u32, is_in: bool) {
    if is_in {
        set.insert(number);
    } else {
        set.remove(&number);
    }
}

fn waited_until(phase: &Phase) -> Option<Millis> {
    match phase {
        Phase::Waiting { until, .. } => *until,
        Phase::Fresh
        | Phase::Again
        | Phase::Cleared(_)
        | Phase::Working(_)
        | Phase::Asking(..)
        | Phase::Open(_)
        | Phase::Worked(_)
        | Phase::Failed(_)
        | Phase::Ended(_)
        | Phase::Aborted(_) => None,
    }
}

impl Phase {
    /// Whether a step's own work is under way; waiting at a gate is not.
    fn is_at_work(&self) -> bool {
        match self {
            Self::Working(_)
            | Self::Open(_)
            | Self::Waiting { .. }
            | Self::Asking(_, Asking::Human) => true,
            Self::Asking(..)
            | Self::Fresh
            | Self::Again
            | Self::Cleared(_)
            | Self::Worked(_)
            | Self::Failed(_)
            | Self::Ended(_)
            | Self::Aborted(_) => false,
        }
    }
}

/// How many items of a list are done at a time.
pub(super) fn at_once(step: &Step) -> usize {
    if let Task::ForEach { concurrency: Some(most), .. } = &step.task {
        return usize::try_from(*most).unwrap_or(usize::MAX);
    }
    usize::MAX
}

impl Frame {
    /// Whether it can move of itself.
    fn moves(&self) -> bool {
        match (&self.phase, &self.is) {
            (Phase::Fresh, Is::Sequence(_)) | (Phase::Open(Block::Rounds { .. }), _) => {
                self.children.is_empty()
            }
            (
                Phase::Fresh
                | Phase::Again
                | Phase::Cleared(_)
                | Phase::Worked(_)
                | Phase::Failed(_)
                | Phase::Ended(_)
                | Phase::Aborted(_),
                _,
            ) => true,
            (Phase::Open(Block::Items { items, opened, .. }), Is::Step(step)) => {
                *opened < items.len() && self.children.len() < at_once(step)
            }
            (Phase::Open(_) | Phase::Working(_) | Phase::Asking(..) | Phase::Waiting { .. }, _) => {
                false
            }
        }
    }
}
