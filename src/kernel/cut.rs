//! Cut: what becomes of a reply that was cut short at the most tokens it may have. What was said is kept and
//! what it cost is counted, whatever the file says; no call of such a reply is ever made, for nobody knows
//! whether it was whole.

use serde::{Deserialize, Serialize};

use crate::kernel::command::{AttemptFault, Reply};
use crate::kernel::decide;
use crate::kernel::event::{Event, Failure, Usage};
use crate::kernel::judging;
use crate::kernel::message::{Audience, Message, Speaker};
use crate::kernel::run::{Run, Turn};
use crate::kernel::time::Millis;

/// Pieces of one reply: a model that never ends is stopped.
const PIECES_MAX: u32 = 8;
/// What a model is told that goes on with a reply.
const GO_ON: &str = "Your reply was cut short. Go on exactly where it stops, and repeat nothing.";

/// What becomes of a reply that was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenCut {
    /// Its step fails.
    #[default]
    Fail,
    /// The agent is asked to go on, and what it says is one reply.
    Continue,
    /// It is taken as it is.
    Keep,
}

/// A reply of which pieces were said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// Where in the conversation its first piece is.
    pub from: usize,
    /// What was said so far.
    pub text: String,
    /// In how many pieces.
    pub pieces: u32,
}

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
    if turn.judges.is_some() {
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
    events.extend(decide::attempt_failed(run, turn, &fault(run, turn, reply), now));
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
