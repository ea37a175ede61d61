//! Retry: where a run that failed can be taken up again. It is found in the journal when somebody
//! asks for it; nothing is written for it while the run goes on.
//!
//! A failed run's journal ends in what followed from the failure of a step. Without that ending the
//! step is still under way, with all that it had come to: its next try is one attempt more, and
//! nothing that was finished is done again (E3). What the step had called, and what is not known to
//! touch nothing, is asked about first (`Command::Retry`, E2).

use std::sync::Arc;

use crate::kernel::advance::apply;
use crate::kernel::brought::REFUSED;
use crate::kernel::command::Command;
use crate::kernel::event::{Closing, Event, Recorded};
use crate::kernel::graph::Outcome;
use crate::kernel::id::{RunId, Version};
use crate::kernel::replay::replay;
use crate::kernel::run::Status;
use crate::kernel::time::Millis;
use crate::kernel::workflow::Workflow;

/// How much of the journal of a failed run a fork takes over in order to try the failed step again.
/// None, where the run did not fail, where it would fail again at once whatever anybody did (a no, a
/// bound, an expression), or where it failed out of a pause, which is a checkpoint of its own.
pub fn retry_point(
    id: &RunId,
    workflow: Arc<Workflow>,
    journal: &[Recorded],
    now: Millis,
) -> Option<Version> {
    let kept = before_failing(journal)?;
    let mut run = replay(id, workflow, kept).ok()?;
    if run.status != Status::Running {
        return None;
    }
    // A person's yes to a step is a yes to one doing of it: a fork cannot spend it again (K11).
    if run.graph.works_on_a_yes() {
        return None;
    }
    let version = run.version;
    apply(&mut run, &Command::Retry, now).ok()?;
    (!run.status.is_over()).then_some(version)
}

/// A failed run's journal without what followed from the failure.
fn before_failing(journal: &[Recorded]) -> Option<&[Recorded]> {
    let (last, mut kept) = journal.split_last()?;
    let Event::Failed(failure) = &last.event else { return None };
    // What a start's own gate stopped is not taken up behind it (K12).
    if failure.code == REFUSED {
        return None;
    }
    let mut first = last;
    while let Some((one, rest)) = kept.split_last()
        && follows(&one.event)
    {
        (first, kept) = (one, rest);
    }
    // The failure of a tool's own step is the failure of its call.
    let Event::StepFailed { turn, .. } = &first.event else { return Some(kept) };
    let is_call = |event: &Event| matches!(event, Event::ToolReturned { turn: of, failed: true, .. } if of == turn);
    match kept.split_last() {
        Some((one, rest)) if is_call(&one.event) && is_tools(rest, *turn) => Some(rest),
        Some(_) | None => Some(kept),
    }
}

/// Whether an event at the end of a failed run says no more than that something failed with it.
fn follows(event: &Event) -> bool {
    match event {
        Event::StepFailed { retry_at: None, .. }
        | Event::StepOutcome { outcome: Outcome::Failed(_), .. }
        | Event::StepClosed { outcome: Outcome::Failed(_), .. }
        | Event::Closed { closing: Closing::Moot, .. }
        | Event::Warned(_) => true,
        Event::Started(_)
        | Event::StepStarted { .. }
        | Event::Delta { .. }
        | Event::Noted { .. }
        | Event::MessageAdded { .. }
        | Event::ToolCalled { .. }
        | Event::ToolReturned { .. }
        | Event::HandedOff { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::Asked(_)
        | Event::Answered { .. }
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
        | Event::StepClosed { .. }
        | Event::Signalled { .. }
        | Event::CheckpointSaved
        | Event::Parked
        | Event::Output { .. }
        | Event::Completed
        | Event::Failed(_)
        | Event::Cancelled { .. } => false,
    }
}

/// Whether a turn is a tool's and not an agent's.
fn is_tools(journal: &[Recorded], number: u32) -> bool {
    journal.iter().rev().any(|recorded| {
        matches!(&recorded.event, Event::StepStarted { turn, agent, .. } if *turn == number && agent.is_empty())
    })
}
