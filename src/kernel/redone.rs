//! Redone: what a fork may do once more. It is found in the journal of the run that it is forked from, kept in the fork's
//! beginning, and told in whatever the fork asks people to decide, until the same was decided on and done anew there:
//! whoever lets a payment be made is not to learn afterwards that it was the second one (K11).
//!
//! Whether somebody may fork at all, and where, is not decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::kernel::apart::Veil;
use crate::kernel::done::Done;
use crate::kernel::event::{Event, Recorded};
use crate::kernel::heed::decided_over;
use crate::kernel::id::Version;
use crate::kernel::message::{ToolCall, readable};
use crate::kernel::question::Question;
use crate::kernel::replay::replay;
use crate::kernel::run::Run;
use crate::kernel::secret;
use crate::kernel::short::shortened;
use crate::kernel::terms::Kind;
use crate::kernel::tool::Safety;
use crate::kernel::verb::Verb;
use crate::kernel::workflow::Workflow;

/// Deeds that a fork keeps. More than a question tells of: whoever is asked about one of the later ones is told of that.
const KEPT_MAX: usize = 100;
/// Characters of a deed's arguments: enough to know it again.
const DONE_CHARS_MAX: usize = 200;

/// What was done already where a fork begins, and by what a call is known to be one of these.
#[derive(Debug, Clone)]
pub struct Past {
    /// The deeds: those of the run that is forked, and then those that it was itself told of.
    pub done: Vec<Done>,
    workflow: Arc<Workflow>,
    veil: Veil,
}

impl Past {
    /// Has a question tell of it that the fork begins with.
    pub fn tell(&self, question: &mut Question) {
        let same = same(&self.workflow, &self.veil, question);
        question.tell_done(self.done.iter(), same.as_ref());
    }
}

/// What was done in the world after the first `version` events of a run's journal, and what that run knew then to have been
/// done in those that it was forked from: a fork from there may do it once more. The run is as that journal has it, or later.
pub fn carried_out(run: &Run, journal: &[Recorded], version: Version) -> Past {
    let mut calls: BTreeMap<&str, &ToolCall> = BTreeMap::new();
    let mut done = Vec::new();
    for recorded in journal {
        if let Event::ToolCalled { call, .. } = &recorded.event {
            calls.insert(&call.id, call);
        } else if let Event::ToolReturned { call_id, failed: false, .. } = &recorded.event
            && recorded.version > version
            && let Some(call) = calls.get(call_id.as_str())
            && run.workflow.tools.get(&call.tool).is_none_or(|tool| tool.safety != Safety::Pure)
        {
            let arguments = brief(&run.workflow, &run.veil, &call.tool, &call.arguments);
            let (run, tool) = (run.id.clone(), call.tool.clone());
            done.push(Done { run, tool, arguments, at: recorded.at });
        }
    }
    done.extend(known_at(run, journal, version));
    done.truncate(KEPT_MAX);
    Past { done, workflow: Arc::clone(&run.workflow), veil: run.veil.clone() }
}

/// What a run that is a fork itself knew to have been done before it, at that version: what it has done anew by then is
/// history of whoever is forked from there, and what it did after that is told as its own.
fn known_at(run: &Run, journal: &[Recorded], version: Version) -> Vec<Done> {
    let Some(Event::Started(started)) = journal.first().map(|first| &first.event) else {
        return Vec::new();
    };
    let Some(descent) = started.descent.as_ref().filter(|descent| !descent.done.is_empty()) else {
        return Vec::new();
    };
    let end = usize::try_from(version).unwrap_or(usize::MAX).min(journal.len());
    let until = journal.get(..end).unwrap_or_default();
    match replay(&run.id, Arc::clone(&run.workflow), until) {
        Ok(then) => then.done.into_iter().map(|(done, _)| done).collect(),
        // Better too much is told than too little.
        Err(_) => descent.done.clone(),
    }
}

/// The arguments of a call, in short. Whoever is asked about something else was shown neither what is marked in them nor
/// what was confided to the run that made it, and the run that asks may know of neither: it begins before that was said. So
/// both are masks in what is told, and that run has nothing to hide. A part of a secret that was cut would not be known again.
fn brief(workflow: &Workflow, veil: &Veil, tool: &str, arguments: &Value) -> String {
    let marked = secret::all_of_call(workflow, tool, arguments);
    let marked: Vec<_> = marked.into_iter().map(|(at, _)| at).collect();
    let masked = veil.value(secret::hidden(arguments, &marked));
    shortened(&readable(&masked), DONE_CHARS_MAX)
}

/// The call that a question decides over, as it would be told of; nothing, where it decides over none.
fn same(workflow: &Workflow, veil: &Veil, question: &Question) -> Option<(String, String)> {
    let (tool, arguments) = decided_over(question).next()?;
    Some((tool.to_owned(), brief(workflow, veil, tool, arguments)))
}

impl Run {
    /// Has a question that it asks tell of what was done before it. What came of its own call is asked without that: nobody
    /// knows better by it whether that was made.
    pub(super) fn tell_done(&self, question: &mut Question) {
        if self.done.is_empty() || question.kind == Kind::OutcomeCheck {
            return;
        }
        let same = same(&self.workflow, &self.veil, question);
        question.tell_done(self.done.iter().map(|(done, _)| done), same.as_ref());
    }

    /// Learns what was let be done anew, and forgets what was done by that: it is this run's own deed from there on. A yes alone
    /// is not enough, for another rule may ask about the same call, and a call that failed is asked about again. What was
    /// copied was said and done in another run. Before the event is folded in: by then what it ends is gone.
    pub(super) fn heed_done(&mut self, event: &Event) {
        if self.done.is_empty() || self.version < self.copied {
            return;
        }
        if let Event::Answered { ordinal, value, asks_anew: false, .. } = event {
            let asked = self.questions.get(ordinal).map(Arc::clone);
            let is_yes = Verb::of(value).is_some_and(Verb::lets_pass);
            let asked = asked.filter(|_| is_yes);
            let Some(it) = asked.and_then(|it| same(&self.workflow, &self.veil, &it)) else {
                return;
            };
            let mut left = self.done.iter_mut().filter(|(_, is_allowed)| !is_allowed);
            if let Some((_, is_allowed)) = left.find(|(done, _)| done.is(&it.0, &it.1)) {
                *is_allowed = true;
            }
        }
        if let Event::ToolReturned { turn, call_id, failed: false, .. } = event {
            let Some(ToolCall { tool, arguments, .. }) = self.call_of(*turn, call_id) else {
                return;
            };
            let arguments = brief(&self.workflow, &self.veil, tool, arguments);
            let is_it =
                |(done, is_allowed): &(Done, bool)| *is_allowed && done.is(tool, &arguments);
            if let Some(place) = self.done.iter().position(is_it) {
                self.done.remove(place);
            }
        }
    }

    /// A call that is being made, also where its step was stopped meanwhile.
    fn call_of(&self, number: u32, id: &str) -> Option<&ToolCall> {
        let turn = self.turns.get(&number).into_iter();
        let open = turn.flat_map(|turn| &turn.calls).map(|open| &open.call);
        let loose = self.loose.iter().filter(|(of, _)| *of == number).map(|(_, call)| call);
        open.chain(loose).find(|call| call.id == id)
    }
}
