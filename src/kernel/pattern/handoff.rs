//! Handoff: agents pass the conversation on by tool call; a turn that ends without one is the
//! user's cue. The ending condition is checked before and after every turn.

use serde_json::Value;

use crate::kernel::draft::Draft;
use crate::kernel::failure::Failure;
use crate::kernel::pattern::{Move, expired, is_end};
use crate::kernel::question::Origin;
use crate::kernel::run::{Heard, Last, Run};
use crate::kernel::templates;
use crate::kernel::terms::Kind;
use crate::kernel::turn::Purpose;
use crate::kernel::workflow::{Destination, Handoff, ReturnTo};

pub(super) fn next(run: &Run, terms: &Handoff) -> Move {
    match &run.last {
        Last::Started => turn_unless_over(run, terms, &terms.start),
        Last::Turned { handoff: Some(to), .. } => turn_unless_over(run, terms, to),
        Last::Turned { handoff: None, agent, .. } => after_turn(run, terms, agent),
        Last::Asked { step, agent, origin, reply } => {
            let asker = agent.as_deref().unwrap_or(&terms.start);
            let to = match terms.return_to {
                ReturnTo::Previous => asker,
                ReturnTo::Start => &terms.start,
            };
            match reply {
                Heard::Answer { value, .. } if is_end(origin, value) => finish(run),
                Heard::Answer { .. } | Heard::Nothing => turn_unless_over(run, terms, to),
                Heard::Expired => expired(step),
                Heard::Withdrawn(by) => Move::Cancel { by: by.clone() },
            }
        }
    }
}

fn turn_unless_over(run: &Run, terms: &Handoff, agent: &str) -> Move {
    if is_over(run, terms) {
        return finish(run);
    }
    Move::Turn { step: agent.to_owned(), agent: agent.to_owned(), purpose: Purpose::Work }
}

fn after_turn(run: &Run, terms: &Handoff, agent: &str) -> Move {
    if is_over(run, terms) {
        return finish(run);
    }
    let autonomous = terms.autonomous.get(agent).copied().unwrap_or(0);
    if run.progress.turns() < autonomous {
        return Move::Turn { step: agent.into(), agent: agent.into(), purpose: Purpose::Work };
    }
    for rule in terms.after_work.get(agent).into_iter().flatten() {
        match rule.when.as_ref().map(|when| templates::holds(run, when)) {
            Some(Ok(false)) => continue,
            Some(Err(failure)) => {
                let message = format!("after the work of `{agent}`: {}", failure.message);
                return Move::Fail(Failure { message, ..failure });
            }
            Some(Ok(true)) | None => {}
        }
        match &rule.to {
            Destination::Agent(next) => return turn_unless_over(run, terms, next),
            Destination::End => return finish(run),
            Destination::User => break,
        }
    }
    Move::Ask(Box::new(Draft {
        step: agent.to_owned(),
        agent: Some(agent.to_owned()),
        turn: None,
        origin: Origin::UserTurn,
        kind: Kind::Clarification,
        prompt: terms.prompt.clone(),
        context: Value::Null,
        options: Vec::new(),
        schema: None,
        patience: terms.patience.clone(),
        subject: None,
        decides: false,
        returns: false,
        editable: None,
        named: None,
    }))
}

fn is_over(run: &Run, terms: &Handoff) -> bool {
    let said_enough = terms
        .ends
        .user_messages_over
        .is_some_and(|most| run.user_messages() > usize::try_from(most).unwrap_or(usize::MAX));
    let said_the_word = terms.ends.last_message_contains.as_ref().is_some_and(|word| {
        let last = run.conversation.iter().rev().find_map(|message| message.cleaned());
        last.is_some_and(|last| last.text.to_lowercase().contains(&word.to_lowercase()))
    });
    said_enough || said_the_word
}

/// The whole conversation is the result, cleaned of tool traffic.
fn finish(run: &Run) -> Move {
    let spoken = run.cleaned().into_iter().map(|message| {
        serde_json::json!({
            "role": message.role.word(),
            "author_name": message.author,
            "text": message.text,
        })
    });
    Move::Finish(Value::Array(spoken.collect()))
}
