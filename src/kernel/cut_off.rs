//! Cut off: calls that are under way when their step, or their run, is stopped.
//!
//! The intent is in the journal, and its step will never hear of the outcome (E2). So the stop itself
//! says that the deed may have been done; and while the run goes on, the outcome is taken down when
//! it comes, though nothing follows from it.

use crate::kernel::event::Event;
use crate::kernel::failure::Failure;
use crate::kernel::message::readable;
use crate::kernel::run::Run;
use crate::kernel::tool::Safety;
use crate::kernel::turn::{CallWaits, OpenCall, Turn};

/// What is to be said before `event` is folded in: one warning for each call that it cuts off. A call that was `decided`
/// on in the same breath was never made.
pub(super) fn before(run: &Run, event: &Event, decided: &[Event]) -> Vec<Event> {
    let cut_off = |turn: &&Turn| match event {
        Event::Failed(_) | Event::Cancelled { .. } => true,
        Event::StepOutcome { path, .. } | Event::StepClosed { path, .. } => {
            is_within(&turn.step, path)
        }
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
        | Event::Closed { .. }
        | Event::Voted { .. }
        | Event::Claimed(_)
        | Event::Delegated(_)
        | Event::Reminded { .. }
        | Event::Stood { .. }
        | Event::Held { .. }
        | Event::Escalated { .. }
        | Event::Revoked { .. }
        | Event::Renewed { .. }
        | Event::Ruled(_)
        | Event::StepOpened { .. }
        | Event::Signalled { .. }
        | Event::CheckpointSaved
        | Event::Parked
        | Event::Output { .. }
        | Event::Warned(_)
        | Event::Completed => false,
    };
    let turns = run.turns.values().filter(cut_off);
    let of = |turn: &'_ Turn| -> Vec<Event> {
        let is_new = |open: &OpenCall| decided.iter().any(|event| opens(event, turn, open));
        let made = under_way(turn).filter(|open| !is_new(open));
        made.map(|open| warning(turn, open)).collect()
    };
    turns.flat_map(of).collect()
}

/// Whether an event is the intent of that call.
fn opens(event: &Event, of: &Turn, open: &OpenCall) -> bool {
    let Event::ToolCalled { turn, call, .. } = event else { return false };
    *turn == of.number && call.id == open.call.id
}

/// Calls of a turn that may be at their deed. One that touches nothing leaves nothing behind.
pub(super) fn under_way(turn: &Turn) -> impl Iterator<Item = &OpenCall> {
    turn.calls.iter().filter(|open| match open.waits {
        CallWaits::Tool(Safety::Idempotent | Safety::Unsafe) => true,
        CallWaits::Tool(Safety::Pure)
        | CallWaits::Person(_)
        | CallWaits::Judge(_)
        | CallWaits::Nobody => false,
    })
}

fn warning(turn: &Turn, open: &OpenCall) -> Event {
    let (step, tool) = (&turn.step, &open.call.tool);
    let arguments = readable(&open.call.arguments);
    let what = format!(
        "step `{step}` was stopped while `{tool}` was being called with {arguments}: it may have \
         happened"
    );
    Event::Warned(Failure::new("tool.cut_off", what))
}

fn is_within(step: &str, path: &str) -> bool {
    let rest = step.strip_prefix(path);
    rest.is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with(['/', '[']))
}
