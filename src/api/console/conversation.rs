//! Conversation: what was said and done in a run, in order: words with their authors, tool calls
//! folded, questions and answers in their places.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::whereabouts::Whereabouts;
use crate::api::console::{markdown, text, tree, value};
use crate::kernel::{
    Audience, Closing, Event, Message, Millis, Recorded, Run, Speaker, Version, secret,
};

/// One message, as a bubble.
pub(super) fn bubble(message: &Message) -> Markup {
    placed_bubble(message, None)
}

fn placed_bubble(message: &Message, at: Option<&str>) -> Markup {
    let side = if message.role == Speaker::User { "theirs" } else { "agents" };
    html! {
        div class={ "bubble " (side) } {
            p.who { (who(message)) (label_of(at)) }
            @match &message.data {
                Some(data) => { (value::value(data)) }
                None => { (markdown::text(&message.text)) }
            }
        }
    }
}

fn who(message: &Message) -> Markup {
    let role = match message.role {
        Speaker::User => "person or caller",
        Speaker::Assistant if message.author.is_empty() => "the workflow",
        Speaker::Assistant => "agent",
        Speaker::Tool => "tool",
        Speaker::System => "the workflow",
    };
    html! {
        @if !message.author.is_empty() { strong { (text::shown(&message.author)) } " " }
        span.quiet { (role) }
    }
}

/// The whole feed: what is long past is folded, the newest stands open, and where the run is now has a name.
pub(super) fn feed(run: &Run, journal: &[Recorded]) -> Markup {
    let place =
        Place { run, journal, returned: returned(journal), at: Whereabouts::of(run, journal) };
    let items: Vec<_> = journal
        .iter()
        .map(|recorded| (recorded, item(&place, recorded)))
        .filter(|(_, item)| !item.0.is_empty())
        .collect();
    let past = items.len().saturating_sub(OPEN_MIN) / FOLDED * FOLDED;
    let (past, now) = items.split_at(past);
    html! {
        @for stretch in past.chunks(FOLDED) {
            @let (from, to) = (stretch.first(), stretch.last());
            details.stretch id={ "from-" (from.map_or(0, |(recorded, _)| recorded.version)) } {
                summary { (text::counted(stretch.len(), "entry").replace("entrys", "entries"))
                    @if let (Some((from, _)), Some((to, _))) = (from, to) { " · " (text::time(from.at)) " to " (text::time(to.at)) }
                    @if let Some(failed) = failures(stretch) { " · " span.bad { (failed) } }
                }
                ol.feed { @for (_, item) in stretch { li { (item) } } }
            }
        }
        ol.feed data-long[!past.is_empty()] {
            @for (_, item) in now { li { (item) } }
            (speaking(run, journal))
            li #now .now tabindex="-1" aria-label="Now" {}
        }
    }
}

/// Entries that are folded together.
const FOLDED: usize = 40;
/// The newest entries, which are never folded.
const OPEN_MIN: usize = 40;

/// What is said of everything in a feed.
struct Place<'a> {
    run: &'a Run,
    journal: &'a [Recorded],
    returned: Returned<'a>,
    at: Whereabouts<'a>,
}

impl Place<'_> {
    /// Whether a call was not made, since a halt stands.
    fn is_held(&self, call: &str) -> bool {
        self.run.held.iter().any(|(_, held)| held == call)
    }

    /// Where in the workflow a turn was taken, where that is one of many.
    fn of_turn(&self, turn: u32) -> Option<String> {
        self.at.words(self.at.step(turn)?)
    }
}

/// How much went wrong in a stretch that is folded.
fn failures(stretch: &[(&Recorded, Markup)]) -> Option<String> {
    let failed = stretch.iter().filter(|(recorded, _)| is_failure(&recorded.event)).count();
    (failed > 0).then(|| text::counted(failed, "failure"))
}

fn is_failure(event: &Event) -> bool {
    matches!(event, Event::StepFailed { .. } | Event::ToolReturned { failed: true, .. })
}

/// A label of where in the workflow something was, where that is one of many.
fn label_of(at: Option<&str>) -> Markup {
    html! { @if let Some(at) = at { " " span.at { (text::shown(at)) } } }
}

type Returned<'a> = BTreeMap<&'a str, (&'a Value, bool, Millis)>;

fn returned(journal: &[Recorded]) -> Returned<'_> {
    let returns = journal.iter().filter_map(|recorded| {
        let Event::ToolReturned { call_id, value, failed, .. } = &recorded.event else {
            return None;
        };
        Some((call_id.as_str(), (value, *failed, recorded.at)))
    });
    returns.collect()
}

fn item(place: &Place<'_>, recorded: &Recorded) -> Markup {
    let (run, event) = (place.run, &recorded.event);
    if let Event::Started(started) = event {
        return html! { (bubble(&Message::said(started.owner.clone(), &started.input))) };
    }
    if let Event::MessageAdded { message, turn, .. } = event {
        let at = turn.and_then(|turn| place.of_turn(turn));
        return said(message, recorded.version, at.as_deref());
    }
    if let Event::ToolCalled { call, turn, .. } = event {
        return tool(place, call, recorded, place.of_turn(*turn).as_deref());
    }
    if let Event::HandedOff { from, to, .. } = event {
        return html! { p.turning { strong { (from) } " handed the conversation to " strong { (to) } } };
    }
    if let Event::Asked(question) = event {
        let id = run.request(question.ordinal);
        let is_open = run.questions.contains_key(&question.ordinal);
        return html! {
            div.asked {
                p.who { strong { (question.agent.as_deref().unwrap_or("The workflow")) } " asked a person · " (text::words(question.kind.word())) (label_of(place.at.words(&question.step).as_deref())) }
                p.prose { a href={ "/console/requests/" (id) } { (text::ticked(&question.prompt)) } }
                @if is_open { a.button.primary href={ "/console/requests/" (id) } { "Answer it" } }
            }
        };
    }
    ending(place, event)
}

/// What an option that was chosen is called, where its id is another word.
fn label<'a>(journal: &'a [Recorded], ordinal: u32, value: &Value) -> Option<&'a str> {
    let options = journal.iter().find_map(|recorded| {
        let Event::Asked(question) = &recorded.event else { return None };
        (question.ordinal == ordinal).then_some(&question.options)
    })?;
    let chosen = options.iter().find(|option| value.as_str() == Some(option.id.as_str()))?;
    Some(chosen.label()).filter(|label| *label != chosen.id)
}

fn ending(place: &Place<'_>, event: &Event) -> Markup {
    let journal = place.journal;
    if let Event::Answered { by, door, value, ordinal, .. } = event {
        return html! {
            div.answered { p.who { strong { (by) } " answered · " (door) }
                @match label(journal, *ordinal, value) {
                    Some(label) => { (text::shown(label)) " " span.quiet.mono { (text::shown(&crate::kernel::readable(value))) } }
                    None => { (value::answer(value)) }
                }
            }
        };
    }
    if let Event::Closed { closing, by, .. } = event {
        let words = match closing {
            Closing::Rejected => "Nobody answered in time, which is a no".to_owned(),
            Closing::Passed => "Nobody answered in time; the run went on".to_owned(),
            Closing::Withdrawn => format!("{by} took the question back"),
            Closing::Moot => "The step that asked was stopped".to_owned(),
        };
        return html! { p.turning { (words) } };
    }
    if let Event::Escalated { to, deadline, .. } = event {
        return html! {
            p.turning {
                "Nobody answered in time; now asked of " (text::shown(&to.join(", ")))
                @if let Some(at) = deadline { " until " (text::time(*at)) }
            }
        };
    }
    if let Event::StepFailed { attempt, failure, turn, retry_at, .. } = event {
        let step = place.at.step(*turn).unwrap_or_default();
        let at = place.at.words(step);
        return html! {
            div.failed {
                p.who { strong { (text::shown(step)) } " failed · attempt " (attempt) @if retry_at.is_some() { ", and is tried again" } (label_of(at.as_deref())) }
                p.prose { (text::shown(&failure.message)) }
            }
        };
    }
    if let Event::Revoked { tool, by, .. } = event {
        return html! { p.turning { (by) " no longer allows " code { (text::shown(tool)) } } };
    }
    if let Event::Signalled { name, value, by, .. } = event {
        return html! {
            div.answered {
                p.who { strong { (by) } " sent the event " code { (text::shown(name)) } }
                @if !value.is_null() { (value::value(value)) }
            }
        };
    }
    if let Event::Warned(failure) = event {
        return html! { p.turning.bad { "Warning: " (text::shown(&failure.message)) } };
    }
    html! {}
}

/// What is folded has an id, so that it stays open when the page is brought up to date.
fn said(message: &Message, version: Version, at: Option<&str>) -> Markup {
    let is_private = matches!(message.audience, Audience::Only(_));
    if message.role == Speaker::Tool || message.text.is_empty() {
        return html! {};
    }
    if message.role == Speaker::System || (is_private && message.role == Speaker::User) {
        return html! {
            details.aside id={ "said-" (version) } {
                summary { "The workflow told " @match &message.audience { Audience::Only(agent) => { (agent) } Audience::All | Audience::Except(_) => { "everybody" } } }
                (markdown::text(&message.text))
            }
        };
    }
    placed_bubble(message, at)
}

fn tool(
    place: &Place<'_>,
    call: &crate::kernel::ToolCall,
    called: &Recorded,
    label: Option<&str>,
) -> Markup {
    let (at, returned) = (called.at, place.returned.get(call.id.as_str()));
    let failed = returned.is_some_and(|(_, failed, _)| *failed);
    // What nobody is to read is read by nobody here either.
    let arguments = secret::masked(&place.run.workflow, &call.tool, &call.arguments);
    html! {
        details.tool.failed[failed] id={ "call-" (called.version) } {
            summary {
                "Tool " code { (text::shown(&call.tool)) }
                @match returned {
                    Some((_, true, back)) => { " · " span.bad { "failed" } " after " (text::length(back.since(at))) }
                    Some((_, false, back)) => { " · " (text::length(back.since(at))) }
                    None if place.is_held(&call.id) => { " · not made: a halt stands" }
                    None => { " · under way" }
                }
                (label_of(label))
            }
            p.heading { "Arguments" } (tree::tree(&arguments))
            @if let Some((value, ..)) = returned { p.heading { "What came back" } (tree::tree(value)) }
        }
    }
}

/// Whether a result is nothing but messages, which stand in the conversation already.
pub(super) fn is_said(output: &Value) -> bool {
    let is_message = |item: &Value| item["role"].is_string() && item["text"].is_string();
    output.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(is_message))
}

/// What an agent is saying right now.
fn speaking(run: &Run, journal: &[Recorded]) -> Markup {
    html! {
        @for turn in run.turns.values().filter(|turn| turn.owes_reply()) {
            @let words = spoken(journal, turn.number, turn.attempt);
            @if !words.is_empty() {
                li { div.bubble.agents { p.who { strong { (turn.agent) } " " span.quiet { "is speaking" } } div.prose { (text::shown(&words)) } } }
            }
        }
    }
}

/// The pieces of a text since the turn's last whole reply.
fn spoken(journal: &[Recorded], number: u32, tried: u32) -> String {
    let mut words = String::new();
    for recorded in journal {
        if let Event::Delta { turn, attempt, text } = &recorded.event
            && (*turn, *attempt) == (number, tried)
        {
            words.push_str(text);
        }
        if let Event::MessageAdded { turn: Some(turn), .. } = &recorded.event
            && *turn == number
        {
            words.clear();
        }
    }
    words
}
