//! Unseen: what was said while a question was open, and was not before the eyes of whoever said yes to it.
//! Agents that are begun by the yes are not given it: they go on from what was shown, and from the note.
//!
//! It belongs to a place of the program: the step that waited at its gate, or the sequence in which the step
//! stands whose work was approved. What other branches do afterwards, and what comes when branches meet again,
//! sees everything.
//!
//! - **K3** Agents begun by a yes see the conversation up to the asking, plus the note.

use serde_json::{Value, json};

use crate::kernel::graph::state::{Block, Frame, Is, Phase, State, Unseen};
use crate::kernel::message::Message;
use crate::kernel::question::Question;
use crate::kernel::run::Run;

/// Whatever is begun from here on in a frame is not given what was said from the asking until there were
/// `until` messages.
pub(super) fn hide(run: &mut Run, number: u32, question: &Question, until: usize) {
    let from = question.messages;
    if from >= until {
        return;
    }
    let before = run.conversation.get(..from).unwrap_or_default();
    let last = before.iter().rev().find_map(|message| message.cleaned());
    let spoken = last.map_or(
        Value::Null,
        |Message { author, text, .. }| json!({"last": text, "author": author, "messages": from}),
    );
    let unseen = Unseen { span: (from, until), spoken };
    run.graph.change(number, |frame| frame.unseen.push(unseen));
}

/// What was not seen within a block is not seen by what follows it either, where the block is all that was
/// going on: where branches or items meet, each of them has a say.
pub(super) fn hand_up(state: &mut State, block: u32, within: &Frame) {
    let Some(holder) = state.frames.get(&block) else { return };
    let is_one = matches!(holder.phase, Phase::Open(Block::One | Block::Rounds { .. }));
    let Some(above) = holder.parent.filter(|_| is_one) else { return };
    if matches!(within.is, Is::Sequence(_)) && !within.unseen.is_empty() {
        let unseen = within.unseen.clone();
        state.change(above, |frame| frame.unseen.extend(unseen));
    }
}

impl State {
    /// What the agent of a step is not given: what was said between questions and the yeses by which it is
    /// begun.
    pub(in crate::kernel) fn unseen(&self, path: &str) -> Vec<(usize, usize)> {
        let mut spans = Vec::new();
        let mut next = self.number(path);
        while let Some(frame) = next.and_then(|number| self.frames.get(&number)) {
            spans.extend(frame.unseen.iter().map(|unseen| unseen.span));
            next = frame.parent;
        }
        spans
    }

    /// What was said last, as conditions and texts see it from a frame.
    pub(super) fn spoken_to(&self, from: u32) -> &Value {
        let messages =
            self.spoken["messages"].as_u64().and_then(|count| usize::try_from(count).ok());
        let is_hidden = |unseen: &&Unseen| {
            messages.is_some_and(|count| (unseen.span.0 + 1..=unseen.span.1).contains(&count))
        };
        let mut next = Some(from);
        while let Some(frame) = next.and_then(|number| self.frames.get(&number)) {
            if let Some(unseen) = frame.unseen.iter().rev().find(is_hidden) {
                return &unseen.spoken;
            }
            next = frame.parent;
        }
        &self.spoken
    }
}
