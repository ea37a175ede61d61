//! Spent: which yeses of a history have not been carried out yet. A fork that took one of them over would
//! carry it out once more; it begins where that is asked (K10, K11). Whether somebody may fork at all is
//! not decided here.

use std::collections::BTreeMap;

use crate::kernel::act;
use crate::kernel::event::{Event, Recorded};
use crate::kernel::graph::Point;
use crate::kernel::message::ToolCall;
use crate::kernel::question::{Origin, Question};
use crate::kernel::tool::Safety;
use crate::kernel::verb::Verb;
use crate::kernel::workflow::Workflow;

/// What a yes is carried out by.
#[derive(Debug)]
enum Deed {
    /// The outcome of this call.
    Call(String),
    /// The end of this step.
    Step(String),
    /// Whatever is done in the world after it: what people approved, an agent or a later step goes on with.
    Any,
}

/// The first question of a journal that was answered with a yes which is not carried out by its end.
pub fn unspent(workflow: &Workflow, journal: &[Recorded]) -> Option<u32> {
    let lifted = journal.iter().any(|recorded| lifts(&recorded.event));
    let mut asked: BTreeMap<u32, &Question> = BTreeMap::new();
    let mut calls: BTreeMap<&str, &ToolCall> = BTreeMap::new();
    let mut due: Vec<(u32, Deed)> = Vec::new();
    for recorded in journal {
        match &recorded.event {
            Event::Asked(question) => drop(asked.insert(question.ordinal, question)),
            // What they changed and others are asked about lets nothing happen yet.
            Event::Answered { ordinal, value, asks_anew: false, .. } => {
                let question = asked.get(ordinal).filter(|question| question.decides());
                let verb = Verb::of(value);
                let passes = !verb.is_some_and(|verb| verb.is_no() || lets_nothing_happen(verb));
                due.extend(
                    question.filter(|_| passes).and_then(|question| {
                        Some((*ordinal, deed_of(workflow, question, lifted)?))
                    }),
                );
            }
            Event::ToolCalled { call, .. } => drop(calls.insert(&call.id, call)),
            Event::ToolReturned { call_id, .. } => {
                let tool =
                    calls.get(call_id.as_str()).and_then(|call| workflow.tools.get(&call.tool));
                let is_deed = tool.is_none_or(|tool| tool.safety != Safety::Pure);
                due.retain(|(_, deed)| match deed {
                    Deed::Call(id) => id != call_id,
                    Deed::Step(_) => true,
                    Deed::Any => !is_deed,
                });
            }
            Event::StepClosed { path, .. } => {
                due.retain(|(_, deed)| !matches!(deed, Deed::Step(step) if step == path));
            }
            Event::Started(_)
            | Event::Answered { .. }
            | Event::StepStarted { .. }
            | Event::Delta { .. }
            | Event::Noted { .. }
            | Event::MessageAdded { .. }
            | Event::HandedOff { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::Voted { .. }
            | Event::Claimed(_)
            | Event::Delegated(_)
            | Event::Closed { .. }
            | Event::Reminded { .. }
            | Event::Stood { .. }
            | Event::Held { .. }
            | Event::Escalated { .. }
            | Event::Revoked { .. }
            | Event::Renewed { .. }
            | Event::Ruled(_)
            | Event::StepOpened { .. }
            | Event::StepOutcome { .. }
            | Event::Signalled { .. }
            | Event::CheckpointSaved
            | Event::Parked
            | Event::Output { .. }
            | Event::Warned(_)
            | Event::Completed
            | Event::Failed(_)
            | Event::Cancelled { .. } => {}
        }
    }
    due.first().map(|(ordinal, _)| *ordinal)
}

/// Whether a word is no no, and releases nothing either.
fn lets_nothing_happen(verb: Verb) -> bool {
    matches!(verb, Verb::Skip | Verb::Happened)
}

/// What a yes to a question is carried out by; nothing, where it lets nothing happen in the world.
fn deed_of(workflow: &Workflow, question: &Question, lifted: bool) -> Option<Deed> {
    match &question.origin {
        // A handoff or a reply that was let through is what an agent goes on with.
        Origin::Gate(call) if !workflow.tools.contains_key(&call.tool) => {
            may_be_done_unasked(workflow, lifted).then_some(Deed::Any)
        }
        Origin::Gate(call) => Some(Deed::Call(call.id.clone())),
        Origin::LostOutcome(call) => Some(Deed::Call(call.clone())),
        Origin::Phase(Point::Before) => Some(Deed::Step(question.step.clone())),
        Origin::Budget(_) => None,
        Origin::Phase(Point::After | Point::Review | Point::Error)
        | Origin::UserTurn
        | Origin::Directive
        | Origin::ToolCall(_)
        | Origin::HumanStep => may_be_done_unasked(workflow, lifted).then_some(Deed::Any),
    }
}

/// Whether the operator's policy lifts gates from here on.
fn lifts(event: &Event) -> bool {
    if let Event::Started(started) = event {
        return started.policy.as_ref().is_some_and(|force| !force.lifts.is_empty());
    }
    matches!(event, Event::Ruled(force) if !force.lifts.is_empty())
}

/// Whether anything can be done in the world that no gate of the file asks about each time.
fn may_be_done_unasked(workflow: &Workflow, lifted: bool) -> bool {
    workflow.tools.iter().any(|(name, tool)| {
        let mut gates = workflow.gates.iter();
        let always = gates.any(|gate| act::concerns(gate, name, tool) && gate.when.is_empty());
        tool.safety != Safety::Pure && (lifted || !always)
    })
}
