//! Moves: what follows of itself where a frame can move: the next step, a branch, a question at a
//! gate, the end. Expressions are evaluated here, once, and what they came to is journalled.

use serde_json::Value;

use crate::kernel::brought;
use crate::kernel::draft::{self, Draft};
use crate::kernel::event::{Closing, Event};
use crate::kernel::expression::{Expression, Wrong};
use crate::kernel::failure::Failure;
use crate::kernel::family;
use crate::kernel::graph::begin;
use crate::kernel::graph::frozen::Frozen;
use crate::kernel::graph::gates::{self, Looks, Moment};
use crate::kernel::graph::outcome::{Opening, Outcome, Point};
use crate::kernel::graph::path::{nth, under};
use crate::kernel::graph::program::{Program, Task};
use crate::kernel::graph::scope::{Place, View};
use crate::kernel::graph::state::{
    Abort, Block, Frame, Is, Phase, Released, Sequence, State, at_once,
};
use crate::kernel::question::Subject;
use crate::kernel::run::Run;
use crate::kernel::time::Millis;

/// Items of a list that are begun in one move; the rest follow in the next.
const OPENED_AT_ONCE: usize = 256;

/// What follows of itself; nothing, where no frame can move.
pub(in crate::kernel) fn next(run: &Run, program: &Program, now: Millis) -> Option<Vec<Event>> {
    let number = *run.graph.ready.first()?;
    let frame = run.graph.frames.get(&number)?;
    if run.graph.opened > State::OPENED_MAX {
        let what = format!("the run began more than {} steps", State::OPENED_MAX);
        return Some(vec![Event::Failed(Failure::new("step.cap", what))]);
    }
    Some(match &frame.is {
        Is::Sequence(sequence) => in_sequence(run, program, frame, sequence),
        Is::Step(step) => Place { run, number, frame, step, now }.moved(),
    })
}

fn in_sequence(run: &Run, program: &Program, frame: &Frame, sequence: &Sequence) -> Vec<Event> {
    let path = frame.path.to_string();
    if let Phase::Failed(failure) = &frame.phase {
        return match frame.parent {
            None => vec![Event::Failed(failure.clone())],
            Some(_) => vec![Event::StepClosed { path, outcome: Outcome::Failed(failure.clone()) }],
        };
    }
    if let Some(step) = sequence.steps.get(sequence.next) {
        let path = under(&path, &step.id);
        return vec![Event::StepOpened { path, opening: Opening::Step }];
    }
    if frame.parent.is_some() {
        let made = run.graph.frames.get(&frame.parent.unwrap_or_default());
        return match output_of(run, frame, sequence, made) {
            Ok(value) => vec![Event::StepClosed { path, outcome: Outcome::Done(value) }],
            Err(failure) => vec![Event::StepClosed { path, outcome: Outcome::Failed(failure) }],
        };
    }
    if !program.output.is_nothing() {
        return match program.output.fill(&View::of(&run.graph, 0)) {
            Ok(value) => vec![Event::Output { value }, Event::Completed],
            Err(wrong) => vec![Event::Failed(failed("output", "", &wrong))],
        };
    }
    let words = || run.last_words().map_or(Value::Null, |message| message.text.clone().into());
    let value = if sequence.last.is_null() { words() } else { sequence.last.clone() };
    vec![Event::Output { value }, Event::Completed]
}

/// What a sequence comes to: its last step's output, or what another workflow's file says.
fn output_of(
    run: &Run,
    frame: &Frame,
    sequence: &Sequence,
    holder: Option<&Frame>,
) -> Result<Value, Failure> {
    if let Some(Is::Step(step)) = holder.map(|holder| &holder.is)
        && let Task::Sub { program, .. } = &step.task
        && !program.output.is_nothing()
    {
        let number = run.graph.number(&frame.path).unwrap_or_default();
        let filled = program.output.fill(&View::of(&run.graph, number));
        return filled.map_err(|wrong| failed("output", &frame.path, &wrong));
    }
    Ok(sequence.last.clone())
}

/// An expression that came to nothing: a failure of its step, never quietly false (K7).
pub(super) fn failed(what: &str, path: &str, wrong: &Wrong) -> Failure {
    let message = format!("step `{path}`: {what}: {} [{}]", wrong.message, wrong.code);
    Failure::new("expression.failed", message)
}

impl<'a> Place<'a> {
    fn moved(&self) -> Vec<Event> {
        match &self.frame.phase {
            Phase::Fresh => self.first(),
            Phase::Again => self.looked_at(),
            Phase::Cleared(released) => self.begin(released.as_deref()),
            Phase::Open(Block::Items { items, opened, .. }) => {
                self.open_items(items.len(), *opened)
            }
            Phase::Open(Block::Rounds { round, last, .. }) => self.next_round(*round, last),
            Phase::Worked(value) => self.worked(value),
            Phase::Failed(failure) => self.failing(failure),
            Phase::Ended(outcome) => self.settle(outcome.clone()),
            Phase::Aborted(Abort::Fail(failure)) => vec![Event::Failed(failure.clone())],
            Phase::Aborted(Abort::Cancel { by }) => {
                vec![Event::cancelled_after(by.clone(), "its question was withdrawn")]
            }
            // None of these is ready.
            Phase::Open(Block::One | Block::Branches { .. })
            | Phase::Working(_)
            | Phase::Asking(..)
            | Phase::Waiting { .. } => Vec::new(),
        }
    }

    pub(super) fn path(&self) -> String {
        self.frame.path.to_string()
    }

    pub(super) fn view(&self) -> View<'a> {
        View::of(&self.run.graph, self.number)
    }

    pub(super) fn failed(&self, what: &str, wrong: &Wrong) -> Failure {
        failed(what, &self.frame.path, wrong)
    }

    fn first(&self) -> Vec<Event> {
        if let Some(condition) = &self.step.skip_if {
            match condition.holds(&self.view()) {
                Ok(true) => return self.settle(Outcome::Skipped(condition.text().to_owned())),
                Ok(false) => {}
                // Not for a gate on errors: nobody knows whether it should be done at all.
                Err(wrong) => return self.settle(Outcome::Failed(self.failed("skip_if", &wrong))),
            }
        }
        self.looked_at()
    }

    /// What is done is worked out before anybody is asked, and is what they are asked about (K3);
    /// what cannot be worked out is nothing that a person could let pass.
    fn looked_at(&self) -> Vec<Event> {
        let is_own = self.step.gate.as_ref().is_some_and(|gate| gate.before);
        if !is_own && !gates::is_looked_at(self.run, self.step) {
            return self.begin(None);
        }
        match begin::frozen(self) {
            Ok(frozen) => self.before(frozen, None),
            Err(failure) => self.came(Outcome::Failed(failure)),
        }
    }

    /// Asks whoever looks before it is begun, and begins it where nobody does, or nobody is left.
    fn before(&self, frozen: Frozen, released: Option<&Released>) -> Vec<Event> {
        let shown = serde_json::json!({"task": frozen.shown()});
        match gates::in_force(self, Moment::Before, (&shown, released)) {
            Some(looks) => {
                let subject = Some(Box::new(Subject::Task(frozen)));
                let passed = released.map(|released| released.rules.as_slice());
                self.at_gate(&looks, (shown, subject), passed)
            }
            None => self.begun(frozen),
        }
    }

    fn begin(&self, released: Option<&Released>) -> Vec<Event> {
        match released {
            // A rule that has come into force since they were asked looks at it, too.
            Some(released @ Released { frozen: Some(frozen), .. }) => {
                self.before(frozen.clone(), Some(released))
            }
            Some(Released { frozen: None, .. }) | None => match begin::frozen(self) {
                Ok(frozen) => self.begun(frozen),
                Err(failure) => self.came(Outcome::Failed(failure)),
            },
        }
    }

    fn begun(&self, frozen: Frozen) -> Vec<Event> {
        let begun = begin::begin(self, frozen);
        begun.unwrap_or_else(|failure| self.came(Outcome::Failed(failure)))
    }

    fn worked(&self, value: &Value) -> Vec<Event> {
        let facts = serde_json::json!({"output": value});
        match gates::in_force(self, Moment::Done, (&facts, None)) {
            Some(looks) if looks.point == Point::Review => {
                self.at_gate(&looks, (serde_json::json!({"plan": value}), None), None)
            }
            Some(looks) => self.at_gate(&looks, (facts, None), None),
            None => self.settle(Outcome::Done(value.clone())),
        }
    }

    fn failing(&self, failure: &Failure) -> Vec<Event> {
        if !self.frame.children.is_empty() {
            // The others of its kind are stopped: what they ask is asked in vain.
            return stopped(self.run, self.number, Outcome::Failed(failure.clone()));
        }
        let shown = serde_json::json!({"failure": failure});
        match gates::in_force(self, Moment::Failed, (&shown, None)) {
            Some(looks) => self.at_gate(&looks, (shown, None), None),
            None => self.settle(Outcome::Failed(failure.clone())),
        }
    }

    fn at_gate(
        &self,
        looks: &Looks,
        (mut shown, subject): (Value, Option<Box<Subject>>),
        passed: Option<&[String]>,
    ) -> Vec<Event> {
        let Looks { point, gate, .. } = looks;
        let prompt = match gate.prompt.as_ref().map(|prompt| prompt.fill(&self.view())) {
            Some(Ok(prompt)) => Some(prompt),
            Some(Err(wrong)) => {
                return self.settle(Outcome::Failed(self.failed("gate.prompt", &wrong)));
            }
            None => looks.prompt.clone(),
        };
        if !looks.rules.is_empty() {
            let names = looks.rules.iter().map(|(name, _)| name.as_str());
            shown["gates"] = names.collect();
            let why = looks.rules.iter().flat_map(|(_, why)| why).map(String::as_str);
            shown["reasons"] = why.collect();
        }
        // Names of a start's own gates are its writer's words, and no fact for whoever is asked next.
        let passed = passed.unwrap_or_default();
        let mut known = passed.iter().filter(|name| !brought::is_named_so(name)).peekable();
        if known.peek().is_some() {
            shown["passed"] = known.map(String::as_str).collect();
        }
        brought::tell_then(&mut shown, &looks.then);
        let step = (self.step, &*self.run.workflow);
        let is_brought = looks.rules.iter().any(|(name, _)| brought::is_named_so(name));
        let frame = (self.frame, is_brought);
        let draft = gates::question(*point, step, gate, frame, (shown, prompt));
        let mut asked = self.ask(Draft { subject, ..draft });
        if let Some(Event::Asked(question)) = asked.first_mut() {
            question.passed = passed.to_vec();
        }
        asked
    }

    pub(super) fn ask(&self, draft: Draft) -> Vec<Event> {
        vec![Event::Asked(Box::new(draft::ask(
            &self.run.workflow,
            family::with_return(self.run, draft),
            self.run.endings.len() + 1,
            self.now,
        )))]
    }

    /// Its work came to this; a gate may still have a say.
    pub(super) fn came(&self, outcome: Outcome) -> Vec<Event> {
        vec![Event::StepOutcome { path: self.path(), outcome }]
    }

    fn settle(&self, outcome: Outcome) -> Vec<Event> {
        let path = self.path();
        match outcome {
            Outcome::Failed(failure) if !self.step.critical => vec![
                Event::Warned(failure.clone()),
                Event::StepClosed { path, outcome: Outcome::Tolerated(failure) },
            ],
            outcome @ (Outcome::Failed(_)
            | Outcome::Done(_)
            | Outcome::Skipped(_)
            | Outcome::Tolerated(_)
            | Outcome::Returned(_)) => vec![Event::StepClosed { path, outcome }],
        }
    }

    fn open_items(&self, count: usize, opened: usize) -> Vec<Event> {
        let free = at_once(self.step).saturating_sub(self.frame.children.len());
        let last = count.min(opened.saturating_add(free.min(OPENED_AT_ONCE)));
        let open = |index| Event::StepOpened {
            path: nth(&self.frame.path, index),
            opening: Opening::Item,
        };
        (opened..last).map(open).collect()
    }

    /// The next round of a loop, or its end. Also its first, when none is done.
    pub(super) fn next_round(&self, done: u32, last: &Value) -> Vec<Event> {
        let Task::Loop { while_, until, max_rounds, .. } = &self.step.task else {
            return Vec::new();
        };
        let holds = |condition: &Expression, what: &str| {
            let view = View::with(&self.run.graph, self.number, "round", done.into());
            condition.holds(&view).map_err(|wrong| self.failed(what, &wrong))
        };
        let over = match (until, while_) {
            (Some(until), _) if done > 0 => holds(until, "until"),
            (Some(_) | None, _) => Ok(false),
        };
        let over = over.and_then(|over| match while_ {
            Some(condition) if !over => holds(condition, "while").map(|on| !on),
            Some(_) | None => Ok(over),
        });
        match over {
            Err(failure) => self.came(Outcome::Failed(failure)),
            Ok(true) => self.came(Outcome::Done(last.clone())),
            Ok(false) if done >= *max_rounds => {
                let path = &self.frame.path;
                let what = format!("step `{path}`: no end after {max_rounds} rounds");
                self.came(Outcome::Failed(Failure::new("loop.cap", what)))
            }
            Ok(false) => {
                let path = nth(&self.frame.path, done + 1);
                vec![Event::StepOpened { path, opening: Opening::Round }]
            }
        }
    }
}

/// A step is stopped with everything within it: open questions are closed, and nothing comes of
/// them.
fn stopped(run: &Run, number: u32, outcome: Outcome) -> Vec<Event> {
    let Some(frame) = run.graph.frames.get(&number) else { return Vec::new() };
    let mut inner = run.graph.within(number);
    inner.push(number);
    let mut moot = Vec::new();
    for frame in inner.iter().filter_map(|number| run.graph.frames.get(number)) {
        match &frame.phase {
            Phase::Asking(ordinal, _) => moot.push(*ordinal),
            Phase::Working(turn) => {
                let all = run.questions.values();
                let asked = all.filter(|question| question.turn == Some(*turn));
                moot.extend(asked.map(|question| question.ordinal));
            }
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
    moot.retain(|ordinal| run.questions.contains_key(ordinal));
    moot.sort_unstable();
    let close = |ordinal| Event::closed_by_itself(ordinal, Closing::Moot, "");
    let mut events: Vec<Event> = moot.into_iter().map(close).collect();
    events.push(Event::StepOutcome { path: frame.path.to_string(), outcome });
    events
}

/// What the clock says: waits that are over, and work that has taken too long. The outermost goes
/// first; what is within it is over with it.
pub(in crate::kernel) fn due(run: &Run, now: Millis) -> Vec<Event> {
    let mut events = Vec::new();
    let mut gone: Vec<u32> = Vec::new();
    let mut passed: Vec<u32> = Vec::new();
    for (at, number) in &run.graph.clocks {
        if *at > now {
            break;
        }
        passed.push(*number);
    }
    passed.sort_unstable();
    passed.dedup();
    for number in passed {
        let Some(frame) = run.graph.frames.get(&number) else { continue };
        if gone.contains(&number) {
            continue;
        }
        let path = frame.path.to_string();
        let is_late = frame.clock.is_some_and(|clock| clock <= now);
        if is_late && frame.is_held {
            // K12: part of the time was taken by whoever brought a gate, and what it would have been enough for is
            // not known.
            let why = format!(
                "the time of step `{path}` was up, in which a gate of the run's start had asked"
            );
            return vec![Event::Failed(Failure::new(brought::REFUSED, why))];
        }
        if is_late {
            let failure = Failure::new("step.timeout", format!("step `{path}` took too long"));
            events.extend(stopped(run, number, Outcome::Failed(failure)));
            gone.extend(run.graph.within(number));
        } else {
            let outcome = Outcome::Done(serde_json::json!({"by": "timer", "value": null}));
            events.push(Event::StepOutcome { path, outcome });
        }
    }
    events
}
