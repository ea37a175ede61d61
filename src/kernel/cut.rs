//! Cut: what becomes of a reply that was cut short at the most tokens it may have. What was said is kept and
//! what it cost is counted, whatever the file says; no call of such a reply is ever made, for nobody knows
//! whether it was whole.

use crate::kernel::attempt;
use crate::kernel::command::{AttemptFault, Reply};
use crate::kernel::event::Event;
use crate::kernel::failure::Failure;
use crate::kernel::judging;
use crate::kernel::limits::WhenCut;
use crate::kernel::message::{Audience, Message, Speaker};
use crate::kernel::run::Run;
use crate::kernel::spending::Usage;
use crate::kernel::time::Millis;
use crate::kernel::turn::Turn;

/// Pieces of one reply: a model that never ends is stopped.
const PIECES_MAX: u32 = 8;
/// What a model is told that goes on with a reply.
const GO_ON: &str = "Your reply was cut short. Go on exactly where it stops, and repeat nothing.";

/// The reply with the pieces before it, where there are any.
pub(super) fn joined(turn: &Turn, reply: &Reply) -> Option<Reply> {
    let before = turn.unfinished.as_ref()?;
    Some(Reply { text: format!("{}{}", before.text, reply.text), ..reply.clone() })
}

/// The facts of a reply that was cut short and is not taken as it is.
pub(super) fn events(
    run: &Run,
    turn: &Turn,
    (reply, when): (&Reply, WhenCut),
    now: Millis,
) -> Vec<Event> {
    let said = Message::text(Speaker::Assistant, turn.agent.clone(), reply.text.clone());
    let said = Message { cut: true, ..said };
    let only = || Audience::Only(turn.agent.clone());
    let added = |message, usage| Event::MessageAdded { turn: Some(turn.number), message, usage };
    if turn.is_judges() {
        let why = Failure::new("judge.nonsense", "no verdict: the reply was cut short");
        return vec![added(said.to(only()), reply.usage), judging::fails(turn, why)];
    }
    let pieces = turn.unfinished.as_ref().map_or(0, |before| before.pieces);
    let goes_on = when == WhenCut::Continue && pieces + 1 < PIECES_MAX && reply.calls.is_empty();
    if goes_on {
        let told = Message::text(Speaker::System, "holdpoint", GO_ON);
        let told = Message { cut: true, ..told };
        return vec![added(said.to(only()), reply.usage), added(told.to(only()), Usage::default())];
    }
    let mut events = vec![added(said, reply.usage)];
    events.extend(attempt::failed(run, turn, &fault(run, turn, reply), now));
    events
}

/// That a reply was taken although it was cut short.
pub(super) fn warning(turn: &Turn) -> Event {
    let what = format!("step `{}`: the reply was cut short, and is kept as it is", turn.step);
    Event::Warned(Failure::new("model.cut_short", what))
}

fn fault(run: &Run, turn: &Turn, reply: &Reply) -> AttemptFault {
    let model = run.workflow.agents.get(&turn.agent).map(|agent| agent.model.as_str());
    let model = model.unwrap_or_default();
    let call = reply.calls.first().map(|call| format!(" within a call of `{}`", call.tool));
    let message = format!(
        "model `{model}`: the reply was cut short at the most tokens it may have{}; raise \
         `max_tokens`, or say with `when_cut` what then",
        call.unwrap_or_default()
    );
    AttemptFault { failure: Failure::new("model.cut_short", message), retriable: false }
}
