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
//! - Where anything is secret its conditions are not looked at, and it asks: that it asks, or does not, tells nobody what
//!   they may not see.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::kernel::event::Event;
use crate::kernel::failure::Failure;
use crate::kernel::question::{Closed, Ending, Origin, Question};
use crate::kernel::refusal::Refusal;
use crate::kernel::run::Run;
use crate::kernel::turn::{Looked, Owed};
use crate::kernel::workflow::{Condition, Gate, Pattern};

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

/// Whether a gate looks into what is said or sent: that it asks tells whoever wrote it something of that, in words or in
/// figures, though they may not see it.
fn looks_into_words(gate: &Gate) -> bool {
    gate.when.iter().any(|condition| match condition {
        Condition::Keywords(_)
        | Condition::Uncertain
        | Condition::UncertainBy(_)
        | Condition::Complex(_)
        | Condition::Argument { .. }
        | Condition::Judge { .. } => true,
        Condition::Environment(_) | Condition::FailuresOver(_) | Condition::FailuresOf { .. } => {
            false
        }
    })
}

/// Whether a start's own gate would tell by when it asks what is secret in the run. A start is refused where that is known
/// by then; but an agent may ask for a secret in a workflow that marks nothing, and a fork goes on with what its original
/// brought. It is the run that is looked at and not the act: an agent says what it will send in a marked place before that
/// place is come to.
pub(super) fn would_tell(gate: &Gate, run: &Run) -> bool {
    let is_secret = run.workflow.secretive || !run.veil.is_nothing();
    is_named_so(&gate.name) && is_secret && looks_into_words(gate)
}

/// Refuses gates of a start that would tell what is in a secret that somebody else gave.
pub fn refuse_telling(gates: &[Gate]) -> Result<(), Refusal> {
    let Some(index) = gates.iter().position(looks_into_words) else { return Ok(()) };
    let remedy = "something here is marked as secret, or was in this session, and that a condition looking into words or \
                  figures asks would tell what it is; take `when` out, and it always asks, or leave it to the file";
    let field = format!("gates[{index}].when");
    Err(Refusal::BadGate { field, code: "gate.invalid", remedy: remedy.into() })
}

/// Whether a start's own gate asks.
pub(super) fn is_brought(question: &Question) -> bool {
    let is_gates = matches!(question.origin, Origin::Gate(_) | Origin::Phase(_));
    is_gates && is_told_so(&question.context)
}

/// Whether the facts of a gate's question say that a start's own asks.
pub(super) fn is_told_so(context: &Value) -> bool {
    gates_of(context).any(is_named_so)
}

impl Question {
    /// Whether a gate that the run's start brought asks: a yes goes on to all others, and anything else ends the run.
    pub fn is_starts_own(&self) -> bool {
        is_brought(self)
    }
}

fn gates_of(context: &Value) -> impl Iterator<Item = &str> {
    let named = context.get("gates").and_then(Value::as_array).into_iter().flatten();
    named.filter_map(Value::as_str)
}

/// A rule that asks, and why.
pub(super) type Asks = (String, Vec<String>);

impl Looked {
    /// Folds in a yes to a question at a gate; `owed` is what was kept when it was asked.
    pub(super) fn pass(&mut self, question: &Question, owed: Owed) {
        let names =
            gates_of(&question.context).map(str::to_owned).chain(question.passed.iter().cloned());
        for name in names {
            if !self.has_passed(&name) {
                self.passed.push(name);
            }
        }
        for (gate, why) in owed {
            if self.owes(&gate.name).is_none() {
                self.owed.push((gate, why));
            }
        }
    }

    /// Whether a gate has let it pass.
    pub(super) fn has_passed(&self, gate: &str) -> bool {
        self.passed.iter().any(|passed| passed == gate)
    }

    /// Whether one of the file's or the operator's has.
    pub(super) fn has_passed_another(&self) -> bool {
        self.passed.iter().any(|passed| !is_named_so(passed))
    }

    /// Why a rule would have asked, if it would have.
    pub(super) fn owes(&self, gate: &str) -> Option<&Vec<String>> {
        self.owed.iter().find_map(|(known, why)| (known.name == gate).then_some(why))
    }

    /// Rules that would have asked, and are in force no more.
    pub(super) fn gone<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = &'a Gate> + Clone {
        let is_gone = |gate: &&Gate| run.gates().all(|known| known.name != gate.name);
        self.owed.iter().map(|(gate, _)| gate).filter(is_gone)
    }
}

/// Folds in that a start's own gate asks.
pub(super) fn asked(run: &mut Run, question: &Question) {
    if !is_brought(question) {
        return;
    }
    run.graph.held(&question.step);
    run.held_back = true;
    let owed = owed(run, question);
    run.owed.insert(question.ordinal, owed);
}

/// The rules that a question of a start's own gate says would ask after it, as they are in force when it is asked.
fn owed(run: &Run, question: &Question) -> Owed {
    let then = question.context.get(THEN).and_then(Value::as_array).into_iter().flatten();
    let each = then.map(|rule| {
        let name = rule["gate"].as_str().unwrap_or_default();
        let why = rule["reasons"].as_array().into_iter().flatten();
        let why = why.filter_map(|why| Some(why.as_str()?.to_owned())).collect();
        let known = run.gates().find(|gate| gate.name == name).cloned();
        // A step's own gate is no rule, and is known by its name.
        (known.unwrap_or_else(|| Gate { name: name.to_owned(), ..Gate::default() }), why)
    });
    each.collect()
}

/// Who looks after a start's own gate has been passed, as its question says it.
pub(super) fn tell_then(context: &mut Value, then: &[Asks]) {
    if !then.is_empty() {
        context[THEN] =
            then.iter().map(|(gate, why)| json!({"gate": gate, "reasons": why})).collect();
    }
}

/// Whether parts of the run that go on side by side may be later than they would have been: what one of them has come
/// to may not be known yet where another is looked at. Rules that look at the whole run then ask (K12).
pub(super) fn is_drawn_out(run: &Run) -> bool {
    let is_concurrent = || match &run.workflow.pattern {
        Pattern::Graph(program) => program.is_concurrent(),
        Pattern::Sequential { .. } | Pattern::Coordinator { .. } | Pattern::Handoff(_) => false,
    };
    run.held_back && is_concurrent()
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
