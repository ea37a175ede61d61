//! Scope: which values an expression sees from where a step stands.
//!
//! Names are looked up from the inside out: the steps before it, the item or round it is in, and so
//! on up to the program's own input. What other branches do is not seen from here.

use serde_json::Value;

use crate::kernel::expression::Scope;
use crate::kernel::graph::program::Step;
use crate::kernel::graph::state::{Block, Frame, Is, Phase, State};
use crate::kernel::run::Run;
use crate::kernel::time::Millis;

/// A step that is asked to move, and all that is around it.
pub(super) struct Place<'a> {
    pub(super) run: &'a Run,
    pub(super) number: u32,
    pub(super) frame: &'a Frame,
    pub(super) step: &'a Step,
    pub(super) now: Millis,
}

/// What is seen from a frame.
pub(super) struct View<'a> {
    state: &'a State,
    from: u32,
    /// Bound for this one expression only.
    extra: Option<(&'static str, Value)>,
}

impl<'a> View<'a> {
    pub(super) fn of(state: &'a State, from: u32) -> Self {
        Self { state, from, extra: None }
    }

    pub(super) fn with(state: &'a State, from: u32, name: &'static str, value: Value) -> Self {
        Self { state, from, extra: Some((name, value)) }
    }

    /// The first that is found, going outwards to the end of the names.
    fn outwards<T>(&self, find: impl Fn(&'a Frame) -> Option<T>) -> Option<T> {
        let mut next = Some(self.from);
        while let Some(frame) = next.and_then(|number| self.state.frames.get(&number)) {
            let found = find(frame);
            let is_end = matches!(&frame.is, Is::Sequence(sequence) if sequence.is_scope);
            if found.is_some() || is_end {
                return found;
            }
            next = frame.parent;
        }
        None
    }
}

impl Scope for View<'_> {
    fn variable(&self, name: &str) -> Option<&Value> {
        if let Some((bound, value)) = &self.extra
            && *bound == name
        {
            return Some(value);
        }
        if name == "conversation" {
            return Some(self.state.spoken_to(self.from));
        }
        self.outwards(|frame| match &frame.is {
            Is::Sequence(sequence) => sequence.variables.get(name),
            Is::Step(_) => None,
        })
    }

    fn step(&self, id: &str) -> Option<&Value> {
        self.outwards(|frame| match (&frame.is, &frame.phase) {
            (Is::Sequence(sequence), _) => sequence.outputs.get(id),
            // The steps of a loop's last round, for its own condition.
            (Is::Step(_), Phase::Open(Block::Rounds { outputs, .. })) => outputs.get(id),
            (Is::Step(_), _) => None,
        })
    }
}
