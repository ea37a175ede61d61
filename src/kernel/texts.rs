//! Texts: the places of events and questions where somebody's words or values stand, and not what we know them
//! by. Whoever changes what is said (`veil`) goes through here, so that an event stays an event whatever stands
//! in it. Nothing is changed here.

use serde_json::Value;

use crate::kernel::choice::Choice;
use crate::kernel::deed::Deed;
use crate::kernel::event::Event;
use crate::kernel::failure::Failure;
use crate::kernel::graph::{Frozen, Opening, Outcome};
use crate::kernel::message::{Message, ToolCall};
use crate::kernel::question::{Origin, Question, Subject};

/// Whoever goes through them.
pub(super) trait Visitor {
    /// A text that is read as it is.
    fn text(&mut self, text: &mut String);

    /// A value, and whatever is in it.
    fn value(&mut self, value: &mut Value);

    /// A text of our own that tells of what was said without saying it: a digest, or what others are drawn from.
    fn token(&mut self, token: &mut String);

    /// A piece of a text that goes on in the next event.
    fn piece(&mut self, piece: &mut String);

    /// What may be chosen, each by a text of its own.
    fn choice(&mut self, options: &mut [Choice]);
}

/// Whose own words an event has, where they are somebody's: what they sent, and nothing that was put beside it.
pub(super) fn speaker(event: &Event) -> Option<&str> {
    if let Event::MessageAdded { message, .. } = event {
        return message.speaks();
    }
    if let Event::Started(started) = event {
        return Some(&started.owner);
    }
    if let Event::Signalled { by, .. }
    | Event::Answered { by, .. }
    | Event::Voted { by, .. }
    | Event::Cancelled { by, .. } = event
    {
        return Some(by);
    }
    None
}

/// Goes through an event.
pub(super) fn of_event(event: &mut Event, visitor: &mut dyn Visitor) {
    match event {
        Event::Started(started) => {
            visitor.value(&mut started.input);
            for value in started.metadata.values_mut() {
                visitor.text(value);
            }
            for done in started.descent.iter_mut().flat_map(|descent| &mut descent.done) {
                visitor.text(&mut done.arguments);
            }
            visitor.token(&mut started.seed);
            for hidden in &mut started.hides {
                visitor.token(hidden);
            }
        }
        Event::Renewed { seed, .. } => visitor.token(seed),
        Event::StepStarted { prompt, judges, .. } => {
            if let Some(prompt) = prompt {
                visitor.text(prompt);
            }
            if let Some(judging) = judges {
                of_call(&mut judging.call, visitor);
            }
        }
        Event::Delta { text, .. } => visitor.piece(text),
        Event::Noted { memo, .. } => visitor.value(memo),
        Event::MessageAdded { message, .. } => of_message(message, visitor),
        Event::ToolCalled { call, .. } => of_call(call, visitor),
        Event::ToolReturned { value, .. }
        | Event::StepCompleted { output: value, .. }
        | Event::Signalled { value, .. }
        | Event::Output { value } => visitor.value(value),
        Event::StepFailed { failure, .. } | Event::Warned(failure) | Event::Failed(failure) => {
            of_failure(failure, visitor);
        }
        Event::Asked(question) => of_question(question, visitor),
        // A key may be made of what was said.
        Event::Answered { value, given, key, seed, .. } => {
            visitor.value(value);
            visitor.token(seed);
            if let Some(given) = given {
                visitor.token(given);
            }
            visitor.token(key);
        }
        Event::Voted { value, given, key, seed, .. } => {
            visitor.value(value);
            visitor.token(seed);
            visitor.token(given);
            visitor.token(key);
        }
        Event::StepOpened { opening, .. } => of_opening(opening, visitor),
        Event::StepOutcome { outcome, .. } | Event::StepClosed { outcome, .. } => {
            of_outcome(outcome, visitor);
        }
        Event::Cancelled { reason, .. } => visitor.text(reason),
        Event::HandedOff { .. }
        | Event::Claimed(_)
        | Event::Delegated(_)
        | Event::Closed { .. }
        | Event::Reminded { .. }
        | Event::Escalated { .. }
        | Event::Stood { .. }
        | Event::Held { .. }
        | Event::Ruled(_)
        | Event::Revoked { .. }
        | Event::CheckpointSaved
        | Event::Parked
        | Event::Completed => {}
    }
}

fn of_opening(opening: &mut Opening, visitor: &mut dyn Visitor) {
    match opening {
        Opening::Scope(value) => visitor.value(value),
        Opening::Items(items) => items.iter_mut().for_each(|item| visitor.value(item)),
        Opening::Step | Opening::Branch | Opening::Item | Opening::Round | Opening::Wait { .. } => {
        }
    }
}

fn of_outcome(outcome: &mut Outcome, visitor: &mut dyn Visitor) {
    match outcome {
        Outcome::Done(value) => visitor.value(value),
        Outcome::Skipped(why) | Outcome::Returned(why) => visitor.text(why),
        Outcome::Failed(failure) | Outcome::Tolerated(failure) => of_failure(failure, visitor),
    }
}

/// Goes through a question.
pub(super) fn of_question(question: &mut Question, visitor: &mut dyn Visitor) {
    visitor.text(&mut question.prompt);
    visitor.value(&mut question.context);
    visitor.choice(&mut question.options);
    // The name of a member may be somebody's.
    for pointer in question.secrets.iter_mut().chain(&mut question.confided) {
        visitor.text(pointer);
    }
    for schema in question.schema.iter_mut().chain(&mut question.editable) {
        visitor.value(schema);
    }
    if let Origin::Gate(call) = &mut question.origin {
        of_call(call, visitor);
    }
    match question.subject.as_deref_mut() {
        Some(Subject::Shown(value)) => visitor.value(value),
        Some(Subject::Task(frozen)) => of_frozen(frozen, visitor),
        None => {}
    }
}

/// Goes through the addresses that a question says something goes to.
pub(super) fn of_destinations(question: &mut Question, visitor: &mut dyn Visitor) {
    if let Some(told) = question.context.get_mut("destination") {
        visitor.value(told);
    }
    if let Origin::Gate(call) = &mut question.origin
        && let Some(deed) = &mut call.deed
    {
        visitor.text(&mut deed.destination);
    }
    if let Some(Subject::Task(Frozen::Tool { deed: Some(deed), .. })) =
        question.subject.as_deref_mut()
    {
        visitor.text(&mut deed.destination);
    }
}

/// Goes through what a step will do.
fn of_frozen(frozen: &mut Frozen, visitor: &mut dyn Visitor) {
    match frozen {
        Frozen::Agent { prompt, .. } => prompt.iter_mut().for_each(|it| visitor.text(it)),
        Frozen::Tool { arguments, deed, .. } => {
            visitor.value(arguments);
            if let Some(deed) = deed {
                of_deed(deed, visitor);
            }
        }
        Frozen::Sub { input, .. } => visitor.value(input),
        Frozen::Items { items, .. } => items.iter_mut().for_each(|item| visitor.value(item)),
        Frozen::Values(values) => visitor.value(values),
        Frozen::Branch { .. } | Frozen::Wait { .. } | Frozen::Steps(_) => {}
    }
}

/// Goes through a message.
pub(super) fn of_message(message: &mut Message, visitor: &mut dyn Visitor) {
    visitor.text(&mut message.text);
    if let Some(data) = &mut message.data {
        visitor.value(data);
    }
    for call in &mut message.calls {
        of_call(call, visitor);
    }
}

/// Goes through a call.
pub(super) fn of_call(call: &mut ToolCall, visitor: &mut dyn Visitor) {
    visitor.value(&mut call.arguments);
    if let Some(deed) = &mut call.deed {
        of_deed(deed, visitor);
    }
}

fn of_deed(deed: &mut Deed, visitor: &mut dyn Visitor) {
    visitor.text(&mut deed.destination);
    visitor.token(&mut deed.digest);
}

/// Goes through why something went wrong.
pub(super) fn of_failure(failure: &mut Failure, visitor: &mut dyn Visitor) {
    visitor.text(&mut failure.message);
}
