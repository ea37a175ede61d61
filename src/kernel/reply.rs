//! Reply: what an agent's reply means: words, calls, a handoff, a question, or a correction.
//!
//! A reply that does not fit is not an error yet: the agent is told what was wrong, a bounded
//! number of times, and only then does the run fail.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kernel::act;
use crate::kernel::asking;
use crate::kernel::command::Reply;
use crate::kernel::cut;
use crate::kernel::draft::{Next, ask};
use crate::kernel::event::Event;
use crate::kernel::failure::Failure;
use crate::kernel::gate;
use crate::kernel::judging;
use crate::kernel::limits::WhenCut;
use crate::kernel::message::{Audience, Message, Speaker, ToolCall};
use crate::kernel::offer::{ASK_TOOL, HANDOFF_PREFIX};
use crate::kernel::pattern;
use crate::kernel::run::Run;
use crate::kernel::schema;
use crate::kernel::time::Millis;
use crate::kernel::turn::{Turn, Wish};
use crate::kernel::workflow::Pattern;

/// How often an agent is told that its reply does not fit before the run fails.
const CORRECTIONS_MAX: u32 = 2;
/// What an agent may say in one reply; a conversation is carried whole, so one reply may not fill it.
pub const REPLY_BYTES_MAX: usize = 1 << 20;
/// Calls in one reply; each is a journal entry and may be a question.
const CALLS_MAX: usize = 64;

/// The facts that a reply makes.
pub(super) fn events(run: &Run, turn: &Turn, reply: &Reply, now: Millis) -> Vec<Event> {
    let whole = cut::joined(turn, reply);
    match (reply.cut, excess(turn, reply)) {
        (Some(WhenCut::Keep), None) if reply.calls.is_empty() && !turn.is_judges() => {
            let mut events = vec![cut::warning(turn)];
            events.extend(taken(run, turn, whole.as_ref().unwrap_or(reply), now));
            events
        }
        (Some(when), None) => cut::events(run, turn, (reply, when), now),
        (Some(_) | None, _) => taken(run, turn, whole.as_ref().unwrap_or(reply), now),
    }
}

/// The facts of a reply that is whole, or taken for it.
fn taken(run: &Run, turn: &Turn, reply: &Reply, now: Millis) -> Vec<Event> {
    if turn.is_judges() && excess(turn, reply).is_none() {
        return judging::replied(turn, reply);
    }
    if let Some(failure) = excess(turn, reply) {
        return vec![fails(run, turn, failure)];
    }
    if reply.calls.is_empty() {
        return final_words(run, turn, reply, now);
    }
    let mut message = Message::text(Speaker::Assistant, turn.agent.clone(), reply.text.clone());
    if let Some(call) = reply.calls.iter().find(|call| schema::is_too_deep(&call.arguments)) {
        let most = schema::DEPTH_MAX;
        let wrong = format!("the arguments of `{}` nest deeper than {most}", call.tool);
        return correction((run, turn), message, reply, &wrong);
    }
    let calls = named(run, &reply.calls);
    message.calls.clone_from(&calls);
    let mut events =
        vec![Event::MessageAdded { turn: Some(turn.number), message, usage: reply.usage }];
    let mut next = Next::of(run);
    let mut hands_off = false;
    for call in &calls {
        let target = call.tool.strip_prefix(HANDOFF_PREFIX);
        let more = match target {
            Some(target) => {
                if let Some(told) = refused_handoff(run, turn, (call, target), hands_off) {
                    vec![told]
                } else {
                    hands_off = true;
                    let said = &reply.text;
                    let wish = Wish { turn, call, said, judged: &[], looked: None, is_step: false };
                    gate::passed(run, wish, next, now)
                }
            }
            None => called(run, turn, call, (next, &reply.text), now),
        };
        next = more.iter().fold(next, Next::after);
        events.extend(more);
    }
    events
}

/// The calls, each with an id that is its own in the run: an open call, a question and an
/// idempotency key are known by it (E2), and not every model takes care.
fn named(run: &Run, calls: &[ToolCall]) -> Vec<ToolCall> {
    let known = run.conversation.iter().flat_map(|message| &message.calls);
    let mut used: BTreeSet<String> = known.map(|call| call.id.clone()).collect();
    let mut named = calls.to_vec();
    for call in &mut named {
        let stem = if call.id.is_empty() { "call".to_owned() } else { call.id.clone() };
        let mut count = 1;
        while call.id.is_empty() || used.contains(&call.id) {
            count += 1;
            call.id = format!("{stem}-{count}");
        }
        used.insert(call.id.clone());
    }
    named
}

fn excess(turn: &Turn, reply: &Reply) -> Option<Failure> {
    let failure =
        |code, what: String| Some(Failure::new(code, format!("step `{}`: {what}", turn.step)));
    let weigh = |value: &Value| value.to_string().len();
    let calls =
        reply.calls.iter().map(|call| call.id.len() + call.tool.len() + weigh(&call.arguments));
    let output = reply.output.as_ref().map_or(0, weigh);
    if reply.text.len() + calls.sum::<usize>() + output > REPLY_BYTES_MAX {
        return failure("reply.too_large", format!("a reply has at most {REPLY_BYTES_MAX} bytes"));
    }
    if reply.calls.len() > CALLS_MAX {
        return failure("reply.too_many_calls", format!("a reply has at most {CALLS_MAX} calls"));
    }
    None
}

fn final_words(run: &Run, turn: &Turn, reply: &Reply, now: Millis) -> Vec<Event> {
    let schema = pattern::output_schema(run, turn);
    let mut message = Message::text(Speaker::Assistant, turn.agent.clone(), reply.text.clone());
    let mut output = Value::Null;
    if let Some(schema) = schema {
        let agreed = reply.structured(&schema).and_then(|value| {
            match pattern::objection(&run.workflow, turn, &value) {
                Some(objection) => Err(objection),
                None => Ok(value),
            }
        });
        match agreed {
            Ok(value) => {
                let words = pattern::words_of(&run.workflow, turn.purpose, &value);
                message.text = words.unwrap_or_else(|| value.to_string());
                output = value;
            }
            Err(wrong) => {
                if let Some(output) = reply.output.as_ref().filter(|_| reply.text.is_empty()) {
                    message.text = output.to_string();
                }
                return correction((run, turn), message, reply, &wrong);
            }
        }
    } else if reply.text.is_empty() {
        return correction((run, turn), message, reply, "the reply is empty");
    }
    if act::holds_replies(run, turn) {
        return held(run, turn, (message, output, reply), now);
    }
    vec![
        Event::MessageAdded { turn: Some(turn.number), message, usage: reply.usage },
        Event::StepCompleted { turn: turn.number, output },
    ]
}

/// A reply that a gate may stop before it becomes final: until then it is its agent's alone.
fn held(
    run: &Run,
    turn: &Turn,
    (message, output, reply): (Message, Value, &Reply),
    now: Millis,
) -> Vec<Event> {
    let call = act::reply(turn, &message.text, &output);
    let said = message.text.clone();
    // As it is once the message is folded in.
    let spoken = Turn { said: said.clone(), ..turn.clone() };
    let wish =
        Wish { turn: &spoken, call: &call, said: &said, judged: &[], looked: None, is_step: false };
    let message = message.to(Audience::Only(turn.agent.clone()));
    let mut events =
        vec![Event::MessageAdded { turn: Some(turn.number), message, usage: reply.usage }];
    events.extend(gate::passed(run, wish, Next::of(run), now));
    events
}

/// A turn that cannot come to a good end: in a graph its step fails, elsewhere the run does. A
/// judge's is its own affair.
pub(super) fn fails(run: &Run, turn: &Turn, failure: Failure) -> Event {
    if turn.is_judges() {
        return judging::fails(turn, failure);
    }
    match run.workflow.pattern {
        Pattern::Graph(_) => Event::StepFailed {
            turn: turn.number,
            attempt: turn.attempt,
            failure,
            retry_at: None,
            interrupted: false,
        },
        Pattern::Sequential { .. } | Pattern::Coordinator { .. } | Pattern::Handoff(_) => {
            Event::Failed(failure)
        }
    }
}

fn correction((run, turn): (&Run, &Turn), said: Message, reply: &Reply, wrong: &str) -> Vec<Event> {
    let only = Audience::Only(turn.agent.clone());
    if turn.corrections >= CORRECTIONS_MAX {
        let what = format!(
            "step `{}`: the reply does not fit after {CORRECTIONS_MAX} corrections: {wrong}",
            turn.step
        );
        return vec![fails(run, turn, Failure::new("reply.invalid", what))];
    }
    let told = Message::text(
        Speaker::System,
        "holdpoint",
        format!("Your reply was not accepted: {wrong}. Reply again."),
    );
    vec![
        Event::MessageAdded {
            turn: Some(turn.number),
            message: said.to(only.clone()),
            usage: reply.usage,
        },
        Event::MessageAdded {
            turn: Some(turn.number),
            message: told.to(only),
            usage: crate::kernel::spending::Usage::default(),
        },
    ]
}

fn told(turn: &Turn, call: &ToolCall, wrong: &str) -> Event {
    Event::ToolReturned {
        turn: turn.number,
        call_id: call.id.clone(),
        value: Value::String(format!("error: {wrong}")),
        failed: true,
    }
}

/// Why a handoff is none, where it is; told to its agent.
fn refused_handoff(
    run: &Run,
    turn: &Turn,
    (call, target): (&ToolCall, &str),
    before: bool,
) -> Option<Event> {
    if before {
        return Some(told(turn, call, "the conversation was already handed off"));
    }
    let targets = pattern::handoff_targets(run, &turn.agent);
    if targets.contains(&target) {
        return None;
    }
    let (from, known) = (&turn.agent, targets.join(", "));
    let wrong = format!("`{from}` cannot hand off to `{target}`; it may hand off to: {known}");
    Some(told(turn, call, &wrong))
}

fn called(
    run: &Run,
    turn: &Turn,
    call: &ToolCall,
    (next, said): (Next, &str),
    now: Millis,
) -> Vec<Event> {
    let agent = run.workflow.agents.get(&turn.agent);
    if call.tool == ASK_TOOL && agent.is_some_and(|agent| agent.human_input.enabled) {
        let patience = agent.map(|agent| agent.human_input.patience.clone()).unwrap_or_default();
        return vec![match asking::by_call(run, turn, call, patience) {
            Ok(draft) => Event::Asked(Box::new(ask(&run.workflow, draft, next.question, now))),
            Err(wrong) => told(turn, call, &wrong),
        }];
    }
    let known = agent.is_some_and(|agent| agent.tools.contains(&call.tool));
    let Some(tool) = run.workflow.tools.get(&call.tool).filter(|_| known) else {
        return vec![told(turn, call, &format!("there is no tool `{}`", call.tool))];
    };
    let schema = tool.parameters.as_ref();
    if let Err(mismatch) = schema.map_or(Ok(()), |schema| schema::check(schema, &call.arguments)) {
        return vec![told(turn, call, &format!("arguments: {mismatch}"))];
    }
    let wish = Wish { turn, call, said, judged: &[], looked: None, is_step: false };
    gate::passed(run, wish, next, now)
}
