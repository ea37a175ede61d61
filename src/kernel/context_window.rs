//! Context window: how much of the conversation an agent is given, and what happens when it is more: the step
//! is refused, or a named agent sums up the older part. Never is anything left out silently.
//!
//! A summary is one more message, for the one agent whose view had grown too large. The conversation
//! itself only grows: a journal has every word, and every other agent sees what it saw before.

use std::sync::Arc;

use crate::kernel::command::{AttemptFault, Reply};
use crate::kernel::event::Event;
use crate::kernel::failure::Failure;
use crate::kernel::limits::WhenFull;
use crate::kernel::message::{Audience, Message, Speaker};
use crate::kernel::offer::AgentInput;
use crate::kernel::run::Run;
use crate::kernel::templates;
use crate::kernel::turn::Turn;

/// What a summarising agent is told where its file tells it nothing.
const INSTRUCTIONS: &str = "You sum up conversations. Keep every fact, number, name, decision and \
                            open question; leave out what was only polite.";
/// What a summary begins with, so that nobody takes it for somebody's words.
const HEADING: &str = "Summary of what was said before:";

/// What follows for a turn whose agent would be given too much.
pub(super) enum Due {
    /// Its step fails.
    Refusal(Failure),
    /// Everything before this place of what was said is summed up first.
    Summary(usize),
}

/// A message as an agent sees it.
struct Seen {
    /// Its place in all that was said, before the run and in it; a summary has the first.
    place: usize,
    /// Whether it is never summed up: the run's first message, and a summary.
    stays: bool,
    message: Arc<Message>,
}

/// What the agent of `turn` sees: what was said in the session before the run, and the run's conversation. The
/// run's first message is always among it (K5); a summary stands in the place of what it sums up.
fn seen(run: &Run, turn: &Turn) -> Vec<Seen> {
    let (agent, unseen) = (turn.agent.as_str(), turn.unseen.as_slice());
    // Pieces of a reply are its agent's to go on from, and gone once it is whole.
    let pieces = turn.unfinished.as_ref().map_or(usize::MAX, |before| before.from);
    let begins = run.begins();
    let summary = run.conversation.iter().rev().find_map(|message| {
        let is_own = message.audience == Audience::Only(agent.to_owned());
        message.replaces.filter(|_| is_own).map(|place| (place, message))
    });
    let earlier = run.earlier.messages();
    let mut view = Vec::with_capacity(earlier.len() + run.conversation.len());
    let mut add = |place: usize, stays: bool, message: &Arc<Message>| {
        if message.audience.is_all() && message.calls.is_empty() {
            // A message that an agent sees unchanged is shared, not copied.
            view.push(Seen { place, stays, message: Arc::clone(message) });
        } else if let Some(message) = message.seen_by(agent) {
            view.push(Seen { place, stays, message: Arc::new(message) });
        }
    };
    let from = summary.map_or(0, |(place, _)| place);
    if from > begins
        && let Some(first) = run.conversation.first()
    {
        add(begins, true, first);
    }
    if let Some((_, summary)) = summary {
        add(0, true, summary);
    }
    let whole = earlier.iter().chain(&run.conversation);
    // Where the oldest runs were pruned, the first places are nobody's.
    for (place, message) in (begins.saturating_sub(earlier.len())..).zip(whole) {
        // What a person let be done goes on from what they had before their eyes (K3).
        let mut spans = unseen.iter();
        let is_unseen = spans.any(|(first, last)| (begins + first..begins + last).contains(&place));
        let is_piece = message.cut && !message.audience.is_all();
        let is_gone = is_piece && place.saturating_sub(begins) < pieces;
        if place >= from && message.replaces.is_none() && !is_unseen && !is_gone {
            add(place, place == begins, message);
        }
    }
    view
}

/// What the agent of `turn` sees, and where in it the run's own conversation begins.
pub(super) fn view(run: &Run, turn: &Turn) -> (Vec<Arc<Message>>, usize) {
    let (view, begins) = (seen(run, turn), run.begins());
    let first = view.iter().position(|seen| seen.stays && seen.place == begins);
    (view.into_iter().map(|seen| seen.message).collect(), first.unwrap_or(0))
}

/// What follows before the agent of `turn` is asked, if it would be given too much.
pub(super) fn due(run: &Run, turn: &Turn) -> Option<Due> {
    let bound = run.workflow.limits.conversation.as_ref()?;
    // What one agent sees is never more than the whole.
    if !turn.owes_reply() || run.bytes_in_all() <= bound.bytes {
        return None;
    }
    let view = seen(run, turn);
    let total: usize = view.iter().map(|seen| seen.message.bytes()).sum();
    if total <= bound.bytes {
        return None;
    }
    let (step, agent, most) = (&turn.step, &turn.agent, bound.bytes);
    let refusal = |why: &str| {
        let what = format!(
            "step `{step}`: what `{agent}` would be given has {total} bytes, and may have {most}{why}"
        );
        Some(Due::Refusal(Failure::new("conversation.full", what)))
    };
    match (&bound.when_full, place_to_cut(run, &view, bound.bytes)) {
        (WhenFull::Refuse, _) => refusal(""),
        (WhenFull::Summarise(_), None) => refusal(", and nothing is left to sum up"),
        (WhenFull::Summarise(name), Some(place)) => {
            let agent = run.workflow.agents.get(name);
            match agent.map(|agent| templates::filled(run, &agent.instructions)) {
                Some(Ok(_)) => Some(Due::Summary(place)),
                Some(Err(failure)) => Some(Due::Refusal(failure)),
                None => refusal(", and nobody is there to sum it up"),
            }
        }
    }
}

/// Where the part ends that is summed up: as much of the newest as fits into a quarter of the bound
/// stays word for word, and no tool's outcome stays without its call.
fn place_to_cut(run: &Run, view: &[Seen], bytes: usize) -> Option<usize> {
    let older: Vec<&Seen> = view.iter().filter(|seen| !seen.stays).collect();
    let (mut place, mut kept) = (None, 0);
    for Seen { place: index, message, .. } in older.iter().rev() {
        kept += message.bytes();
        if kept > bytes / 4 {
            break;
        }
        if message.role != Speaker::Tool {
            place = Some(*index);
        }
    }
    let place = place.unwrap_or(run.begins() + run.conversation.len());
    older.first().filter(|first| first.place < place).map(|_| place)
}

/// What the summarising agent is given: the older part, as it would be read aloud.
pub(super) fn input(run: &Run, turn: &Turn, place: usize) -> Option<AgentInput> {
    let bound = run.workflow.limits.conversation.as_ref()?;
    let WhenFull::Summarise(name) = &bound.when_full else { return None };
    let agent = run.workflow.agents.get(name)?;
    let view = seen(run, turn);
    let older = view.iter().filter(|seen| seen.place < place);
    let lines: Vec<String> = older.map(|seen| aloud(&seen.message)).collect();
    let asked = format!(
        "Sum up for `{}`, in at most {} bytes, what was said:",
        turn.agent,
        bound.bytes / 4
    );
    let text = format!("{asked}\n\n{}", lines.join("\n\n"));
    let told = templates::filled(run, &agent.instructions).ok()?;
    Some(AgentInput {
        agent: name.clone(),
        model: agent.model.clone(),
        instructions: if told.trim().is_empty() { INSTRUCTIONS.into() } else { told.into_owned() },
        messages: vec![Arc::new(Message::text(Speaker::User, run.owner.clone(), text))],
        begins: 0,
        tools: Vec::new(),
        output: None,
        failures: turn.failures,
        key: format!("{}/{}/{}", run.id, turn.number, turn.rounds + turn.corrections),
        memo: None,
        summarises: Some(place),
    })
}

fn aloud(message: &Message) -> String {
    let author = if message.author.is_empty() { message.role.word() } else { &message.author };
    let mut lines = Vec::new();
    if !message.text.is_empty() {
        lines.push(format!("{author}: {}", message.text));
    }
    for call in &message.calls {
        lines.push(format!("{author} called `{}` with {}", call.tool, call.arguments));
    }
    lines.join("\n")
}

/// The facts that a summary makes; or why what came back is none.
pub(super) fn summarised(
    run: &Run,
    turn: &Turn,
    place: usize,
    reply: &Reply,
) -> Result<Vec<Event>, AttemptFault> {
    let unusable = |what: String| AttemptFault {
        failure: Failure::new("conversation.no_summary", format!("step `{}`: {what}", turn.step)),
        retriable: true,
    };
    let bound = run.workflow.limits.conversation.as_ref();
    let (most, name) = match bound.map(|bound| (bound.bytes / 2, &bound.when_full)) {
        Some((most, WhenFull::Summarise(name))) => (most, name.clone()),
        Some((_, WhenFull::Refuse)) | None => {
            return Err(unusable("nobody asked for a summary".into()));
        }
    };
    let said = reply.text.trim();
    if reply.cut.is_some() {
        return Err(unusable(format!("the summary by `{name}` was cut short")));
    }
    if said.is_empty() {
        return Err(unusable(format!("the summary by `{name}` is empty")));
    }
    if said.len() > most {
        let what = format!("the summary by `{name}` has {} bytes, and may have {most}", said.len());
        return Err(unusable(what));
    }
    let only = Audience::Only(turn.agent.clone());
    let message = Message::text(Speaker::Assistant, name.clone(), format!("{HEADING}\n{said}"));
    let message = Message { replaces: Some(place), ..message.to(only) };
    let told = format!(
        "`{}` is given a summary by `{name}` in place of what was said before; the journal has all of it",
        turn.agent
    );
    Ok(vec![
        Event::MessageAdded { turn: Some(turn.number), message, usage: reply.usage },
        Event::Warned(Failure::new("conversation.summarised", told)),
    ])
}
