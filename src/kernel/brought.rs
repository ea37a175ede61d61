//! Brought: how gates that a run's start brought with it stay apart from all others. Whoever starts a run writes them,
//! and may be the one who is asked there; so nothing that is said, left unsaid or drawn out at one of them changes
//! what anybody else is asked (K12). What such a gate may say is read in `definition::brought`.
//!
//! - Its question is asked alone, and first. It takes a yes or a no, and no words: a note would be a person's in the
//!   conversation, which rules look back to.
//! - After a yes, what waited is looked at again as if nothing had been brought: by every rule that is in force then,
//!   and by each that would have asked when it was first looked at.
//! - Whatever else ends it (a no, silence, a withdrawal, a branch that failed beside it) ends the run, and so does the
//!   time of a step or a block in which it has asked. So nothing is passed over, whether it stopped it or outlasted it.
//! - Whoever answers takes no part in the run by that, and releases nothing.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::kernel::ending::{Closed, Ending};
use crate::kernel::event::{Event, Failure};
use crate::kernel::question::{Origin, Question};
use crate::kernel::run::Run;

/// What a name of a gate begins with that a start has brought.
pub const BROUGHT: &str = "start:";
/// How a run ends in which a start's own gate was not passed.
pub(in crate::kernel) const REFUSED: &str = "gate.refused";
/// Where such a question says who looks after it.
const THEN: &str = "then";

/// Whether a gate of that name was brought by a start.
pub(super) fn is_named_so(gate: &str) -> bool {
    gate.starts_with(BROUGHT)
}

/// Whether a start's own gate asks.
pub(super) fn is_brought(question: &Question) -> bool {
    let is_gates = matches!(question.origin, Origin::Gate(_) | Origin::Phase(_));
    is_gates && gates_of(question).any(is_named_so)
}

fn gates_of(question: &Question) -> impl Iterator<Item = &str> {
    let named = question.context.get("gates").and_then(Value::as_array).into_iter().flatten();
    named.filter_map(Value::as_str)
}

/// A rule that asks, and why.
pub(super) type Asks = (String, Vec<String>);

/// What gates that the start brought have had of something that waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Looked {
    /// Those that it has passed.
    pub(super) passed: Vec<String>,
    /// The other rules that would have asked when it was first looked at: they ask, whatever has happened since.
    owed: Vec<Asks>,
}

impl Looked {
    /// Folds in a yes to such a question.
    pub(super) fn pass(&mut self, question: &Question) {
        self.passed.extend(gates_of(question).map(str::to_owned));
        let then = question.context.get(THEN).and_then(Value::as_array).into_iter().flatten();
        for rule in then {
            let name = rule["gate"].as_str().unwrap_or_default();
            let why = rule["reasons"].as_array().into_iter().flatten();
            let why = why.filter_map(|why| Some(why.as_str()?.to_owned())).collect();
            if self.owes(name).is_none() {
                self.owed.push((name.to_owned(), why));
            }
        }
    }

    /// The same, of a question that has just been answered.
    pub(super) fn after(question: &Question) -> Self {
        let mut looked = Self::default();
        if is_brought(question) {
            looked.pass(question);
        }
        looked
    }

    /// Whether a gate has let it pass.
    pub(super) fn has_passed(&self, gate: &str) -> bool {
        self.passed.iter().any(|passed| passed == gate)
    }

    /// Why a rule would have asked, if it would have.
    pub(super) fn owes(&self, gate: &str) -> Option<&Vec<String>> {
        self.owed.iter().find_map(|(name, why)| (name == gate).then_some(why))
    }
}

/// Who looks after a start's own gate has been passed, as its question says it.
pub(super) fn tell_then(context: &mut Value, then: &[Asks]) {
    if !then.is_empty() {
        context[THEN] =
            then.iter().map(|(gate, why)| json!({"gate": gate, "reasons": why})).collect();
    }
}

/// The questions of a start's own gates that are open.
pub(super) fn open(run: &Run) -> Vec<Arc<Question>> {
    if run.brought.is_empty() {
        return Vec::new();
    }
    run.questions.values().filter(|question| is_brought(question)).cloned().collect()
}

/// The end of a run in which one of these is open no more, and nobody has said yes to it.
pub(super) fn lost(run: &Run, open: &[Arc<Question>]) -> Option<Event> {
    if run.status.is_over() {
        return None;
    }
    let why = open.iter().find_map(|question| {
        if run.questions.contains_key(&question.ordinal) {
            return None;
        }
        let place = usize::try_from(question.ordinal).ok()?.checked_sub(1)?;
        // One that is to be asked anew has not ended.
        let how = match run.endings.get(place)?.as_ref()? {
            Ending::Answered(said) if !said.is_no => return None,
            Ending::Answered(said) => format!("{} said no", said.by),
            Ending::Closed(Closed::Expired) => "nobody answered in time".to_owned(),
            Ending::Closed(Closed::Withdrawn) => "the question was withdrawn".to_owned(),
            Ending::Closed(Closed::StepOver | Closed::RunOver | Closed::Changed) => {
                "it was stopped while the question was open".to_owned()
            }
        };
        let step = &question.step;
        Some(format!("{how}, at step `{step}`, where the run's start had asked for a look"))
    })?;
    Some(Event::Failed(Failure::new(REFUSED, why)))
}
