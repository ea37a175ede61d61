//! Spoken: what a message and a call's outcome change in a run: the conversation that grows, the turn that has
//! spoken, the failures that are counted. A part of `evolve`, and nothing beside it.

use std::sync::Arc;

use serde_json::Value;

use crate::kernel::failure::{Failure, NotDone, Undone};
use crate::kernel::message::{Audience, Message, Speaker, readable};
use crate::kernel::run::Run;
use crate::kernel::spending::Usage;
use crate::kernel::turn::Unfinished;
use crate::kernel::workflow::Pattern;

pub(super) fn message_added(
    run: &mut Run,
    turn: Option<u32>,
    message: &Message,
    usage: Usage,
) -> Result<(), &'static str> {
    if let Some(number) = turn {
        let place = run.conversation.len();
        let turn = run.turn_mut(number)?;
        match message.role {
            Speaker::Assistant if message.replaces.is_some() => turn.rounds += 1,
            Speaker::Assistant if message.cut => {
                turn.rounds += 1;
                let (from, text, pieces) = (place, String::new(), 0);
                let unfinished = turn.unfinished.get_or_insert(Unfinished { from, text, pieces });
                unfinished.text.push_str(&message.text);
                unfinished.pieces += 1;
            }
            Speaker::Assistant => {
                turn.rounds += 1;
                turn.said.clone_from(&message.text);
                turn.unfinished = None;
            }
            Speaker::System if message.cut => {}
            Speaker::System | Speaker::User | Speaker::Tool => turn.corrections += 1,
        }
    }
    run.usage.input_tokens += usage.input_tokens;
    run.usage.output_tokens += usage.output_tokens;
    say(run, message.clone());
    Ok(())
}

pub(super) fn say(run: &mut Run, message: Message) {
    run.conversation_bytes += message.bytes();
    if matches!(run.workflow.pattern, Pattern::Graph(_))
        && let Some(said) = message.cleaned()
    {
        run.graph.heard(&said.author, &said.text, run.conversation.len() + 1);
    }
    run.conversation.push(Arc::new(message));
}

/// Counts a call that came back with an error, by its tool and its step.
pub(super) fn count_failure(run: &mut Run, turn: u32, call_id: &str) {
    let Some(turn) = run.turns.get(&turn) else { return };
    let open = turn.calls.iter().map(|open| &open.call).chain(turn.made());
    let said = run.conversation.iter().rev().flat_map(|message| &message.calls);
    let call = open.chain(said).find(|call| call.id == call_id);
    if let Some(tool) = call.map(|call| call.tool.clone()) {
        let step = turn.step.clone();
        run.failures.call(&tool, &step);
    }
}

/// In which way a call that came back with an error was not done.
pub(super) fn not_done(value: &Value) -> NotDone {
    let broken = format!("[{}]", NotDone::Broken.code());
    let is_broken = value.as_str().is_some_and(|told| told.ends_with(&broken));
    if is_broken { NotDone::Broken } else { NotDone::Failed }
}

/// A call has come to its end. An agent is told what came of it; a tool's own step keeps it, and
/// `wrong` says in which way it was not done.
pub(super) fn tool_returned(
    run: &mut Run,
    number: u32,
    call_id: &str,
    value: &Value,
    wrong: Option<NotDone>,
) -> Result<(), &'static str> {
    let turn = run.turn_mut(number)?;
    turn.calls.retain(|open| open.call.id != call_id);
    if let Some(step) = turn.tool_step_mut() {
        step.returned = Some(match wrong {
            None => Ok(value.clone()),
            Some(why) => {
                let text = readable(value);
                let text = text.strip_prefix("error: ").unwrap_or(&text);
                Err(Undone { why, failure: Failure::new(why.code(), text) })
            }
        });
        return Ok(());
    }
    let agent = turn.agent.clone();
    say(run, tool_outcome(agent, call_id, value));
    Ok(())
}

pub(super) fn tool_outcome(agent: String, call_id: &str, value: &Value) -> Message {
    Message {
        call_id: Some(call_id.to_owned()),
        ..Message::text(Speaker::Tool, "", readable(value)).to(Audience::Only(agent))
    }
}
