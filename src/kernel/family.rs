//! Family: a run and everything that was forked from it. What was refused in one of them is refused in all:
//! whoever is asked the same in another is told, and their yes to that is the taking up again.
//!
//! Which runs are of a family, and how their journals are read, is not decided here; nor whom a question
//! admits.
//!
//! - **K11** A no, an expiry or a withdrawal of the same question in any run of the family counts, and in its own
//!   run one to the same call in any step: a yes that was given to a question which does not tell of it is a yes
//!   to something else.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::kernel::canonical;
use crate::kernel::command::{Answer, Decision};
use crate::kernel::digest;
use crate::kernel::done::Done;
use crate::kernel::draft::Draft;
use crate::kernel::event::{Closing, Event, Recorded};
use crate::kernel::graph::Point;
use crate::kernel::id::RunId;
use crate::kernel::question::{Origin, Question};
use crate::kernel::refused::{No, Refused};
use crate::kernel::renewal;
use crate::kernel::run::Run;
use crate::kernel::time::Millis;
use crate::kernel::verb::Verb;

/// Runs of one family: all of them are looked at before a yes is taken in one.
pub const FAMILY_RUNS_MAX: usize = 1_000;
/// The fact of a question that tells of earlier noes.
const FACT: &str = "refused";
/// The fact of a question that tells what was done already where it was forked from.
const DONE: &str = "already_done";
/// Deeds that a question tells of; a person reads all of them.
const DONE_MAX: usize = 20;
/// The fact of a question that tells with which words the work was given back that it asks about again.
const RETURNED: &str = "returned";
/// What the facts of a question call whoever changed what it asks about.
pub(super) const EDITED_BY: &str = "edited_by";
/// What they call the words that came with the change.
pub(super) const EDITOR_NOTE: &str = "editor_note";
/// The facts that are added when a question is asked anew, and are no part of what it is.
const ADDED: [&str; 6] = [FACT, DONE, RETURNED, renewal::FACT, EDITED_BY, EDITOR_NOTE];
/// Where facts lie that were no object, once another is beside them.
const OTHER: &str = "context";

impl No {
    fn to(question: &Question, refused: Refused) -> Self {
        Self { question: question.likeness(), call: call_of(&question.origin), refused }
    }

    /// Whether it is one to that question, or to that call in whichever step.
    fn is_to(&self, likeness: &str, call: Option<&str>) -> bool {
        self.question == likeness || call.is_some() && self.call.as_deref() == call
    }
}

/// By what a gate's call is known again, whoever makes it.
fn call_of(origin: &Origin) -> Option<String> {
    let Origin::Gate(call) = origin else { return None };
    Some(call_key(&call.tool, &call.arguments))
}

fn call_key(tool: &str, arguments: &Value) -> String {
    let mut out = Vec::with_capacity(256);
    canonical::write(&json!([tool, arguments]), &mut out);
    digest::of_bytes(&out)
}

/// Keeps what a run is told no to: the same again in it is asked about, and tells of that. A yes that knew of
/// it takes it up again.
pub(super) fn heard(run: &mut Run, event: &Event, at: Millis) {
    let no = no_of(event);
    if no.is_none() && run.refusals.is_empty() {
        return;
    }
    let Some(ordinal) = no.map(|(ordinal, ..)| ordinal).or_else(|| passed_by(event)) else {
        return;
    };
    let Some(question) = run.questions.get(&ordinal).filter(|question| question.decides()) else {
        return;
    };
    if let Some((_, by, how)) = no {
        let (by, how) = (by.to_owned(), how.to_owned());
        let no = No::to(question, Refused { run: run.id.clone(), by, how, at });
        run.refusals.push(no);
    } else {
        let (likeness, call) = (question.likeness(), call_of(&question.origin));
        run.refusals.retain(|no| !no.is_to(&likeness, call.as_deref()));
    }
}

/// The question that an event lets pass.
fn passed_by(event: &Event) -> Option<u32> {
    let Event::Answered { ordinal, value, .. } = event else { return None };
    Verb::of(value).is_some_and(Verb::lets_pass).then_some(*ordinal)
}

/// Whether a call was refused in this run, at any gate and in any step.
pub(super) fn is_call_refused(run: &Run, tool: &str, arguments: &Value) -> bool {
    !run.refusals.is_empty() && {
        let call = Some(call_key(tool, arguments));
        run.refusals.iter().any(|no| no.call == call)
    }
}

/// Everything that was refused in a run itself, by its journal. What it copied was refused elsewhere.
pub fn noes(run: &RunId, journal: &[Recorded]) -> Vec<No> {
    let mut copied = 0;
    let mut asked: BTreeMap<u32, &Question> = BTreeMap::new();
    let mut noes = Vec::new();
    for recorded in journal {
        if let Event::Started(started) = &recorded.event {
            copied = started.descent.as_ref().map_or(0, |descent| descent.copied);
        } else if let Event::Asked(question) = &recorded.event {
            asked.insert(question.ordinal, question);
        } else if let Some((ordinal, by, how)) = no_of(&recorded.event)
            && recorded.version > copied
            && let Some(question) = asked.get(&ordinal).filter(|question| question.decides())
        {
            let (by, how) = (by.to_owned(), how.to_owned());
            let refused = Refused { run: run.clone(), by, how, at: recorded.at };
            noes.push(No::to(question, refused));
        }
    }
    noes
}

/// Which question an event says no to, who does, and how.
fn no_of(event: &Event) -> Option<(u32, &str, &'static str)> {
    if let Event::Answered { ordinal, value, by, .. } = event {
        let verb = Verb::of(value).filter(|verb| verb.is_no())?;
        return Some((*ordinal, by, verb.word()));
    }
    let Event::Closed { ordinal, closing, by, .. } = event else { return None };
    match closing {
        Closing::Rejected => Some((*ordinal, by, "expired")),
        Closing::Withdrawn => Some((*ordinal, by, "withdrawn")),
        Closing::Passed | Closing::Moot => None,
    }
}

/// The facts of a question without what was added to them when it was asked anew.
pub(super) fn untold(context: &Value) -> Value {
    let Value::Object(facts) = context else { return context.clone() };
    if !ADDED.iter().any(|name| facts.contains_key(*name)) {
        return context.clone();
    }
    let kept = facts.iter().filter(|(name, _)| !ADDED.contains(&name.as_str()));
    let mut kept: serde_json::Map<_, _> =
        kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    if kept.is_empty() {
        return Value::Null;
    }
    let is_wrapped = kept.len() == 1 && kept.get(OTHER).is_some_and(|other| !other.is_object());
    if is_wrapped { kept.remove(OTHER).unwrap_or_default() } else { Value::Object(kept) }
}

/// Puts a fact beside the others.
fn add(context: &mut Value, name: &str, told: Value) {
    match context {
        Value::Object(facts) => drop(facts.insert(name.into(), told)),
        Value::Null => *context = json!({name: told}),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            *other = json!({OTHER: other.take(), name: told});
        }
    }
}

/// The same question, with the words by which the work that it is about was given back, where it was.
pub(super) fn with_return(run: &Run, mut draft: Draft) -> Draft {
    if let Some(told) = run.returned.get(&draft.step) {
        add(&mut draft.context, RETURNED, told.clone());
    }
    draft
}

impl Question {
    /// By what the same question is known in another run of the family: where it is asked, and what is
    /// decided. Its words may be the requester's, and are looked at only where nothing else is.
    pub fn likeness(&self) -> String {
        let bare = Self { context: untold(&self.context), ..self.clone() };
        let shown = bare.shown();
        let prompt = if shown.is_null() { self.prompt.as_str() } else { "" };
        let place = match &self.origin {
            Origin::Phase(Point::Before) => "before",
            Origin::Phase(Point::After) => "after",
            Origin::Phase(Point::Review) => "review",
            Origin::Phase(Point::Error) => "error",
            Origin::Gate(_) => "gate",
            Origin::LostOutcome(_) => "outcome",
            Origin::Budget(budget) => budget,
            Origin::UserTurn | Origin::Directive | Origin::ToolCall(_) | Origin::HumanStep => "",
        };
        let mut out = Vec::with_capacity(256);
        canonical::write(&json!([self.kind.word(), self.step, place, shown, prompt]), &mut out);
        digest::of_bytes(&out)
    }

    /// Of these noes, those to this very question.
    pub fn refused_by(&self, noes: &[No]) -> Vec<Refused> {
        if !self.decides() || noes.is_empty() {
            return Vec::new();
        }
        let likeness = self.likeness();
        let own = noes.iter().filter(|no| no.question == likeness);
        own.map(|no| no.refused.clone()).collect()
    }

    /// Where the same was refused before: in other runs of the family, and in its own, by whichever step.
    pub(super) fn refused_before(&self, run: &Run) -> Vec<Refused> {
        let mut refused = self.refused_by(&run.noes);
        if self.decides() && !run.refusals.is_empty() {
            let (likeness, call) = (self.likeness(), call_of(&self.origin));
            let is_same = |no: &&No| no.is_to(&likeness, call.as_deref());
            refused.extend(run.refusals.iter().filter(is_same).map(|no| no.refused.clone()));
        }
        refused
    }

    /// Has it tell of what was refused before: that is among the facts that people decide by, and so in
    /// its digest.
    pub fn tell_of(&mut self, more: Vec<Refused>) {
        let known = std::mem::take(&mut self.refused);
        let more = more.into_iter().filter(|one| !known.contains(one)).collect::<Vec<_>>();
        let refused = [known, more].concat();
        if refused.is_empty() {
            return;
        }
        self.add_fact(FACT, refused.iter().map(Refused::words).collect());
        self.refused = refused;
    }

    /// Has it tell of what was done already where its run comes from, where it decides anything: of the `same` call, if it is
    /// about one (its tool and its arguments in short), before all others.
    pub(super) fn tell_done<'a>(
        &mut self,
        done: impl Iterator<Item = &'a Done>,
        same: Option<&(String, String)>,
    ) {
        let is_same = |it: &&Done| same.is_some_and(|(tool, arguments)| it.is(tool, arguments));
        let (mut told, others): (Vec<&Done>, Vec<&Done>) = done.partition(is_same);
        told.extend(others);
        told.truncate(DONE_MAX);
        if !told.is_empty() && self.decides() {
            self.add_fact(DONE, told.into_iter().map(Done::words).collect());
        }
    }

    /// What was done already where it was forked from, in words.
    pub fn already_done(&self) -> Vec<&str> {
        let told = self.context.get(DONE).and_then(Value::as_array).into_iter().flatten();
        told.filter_map(Value::as_str).collect()
    }

    /// Adds to what people decide by, beside whatever the workflow or an agent has put there.
    pub(super) fn add_fact(&mut self, name: &str, told: Value) {
        add(&mut self.context, name, told);
    }

    /// What whoever says yes to it takes up again, in words.
    pub fn taken_up(&self) -> Option<String> {
        let told: Vec<_> = self.refused.iter().map(Refused::words).collect();
        (!told.is_empty()).then(|| format!("took up again: {}", told.join("; ")))
    }
}

/// Whether one of these answers may let something pass: then what was refused elsewhere is looked at.
pub fn may_pass(run: &Run, answers: &[Answer]) -> bool {
    answers.iter().any(|answer| {
        let question = run.questions.get(&answer.request.ordinal);
        let question = question.filter(|question| question.id(&run.id) == answer.request);
        let Some(question) = question.filter(|question| question.decides()) else { return false };
        match question.read(&answer.value) {
            Ok(value) => !Verb::of(&value).is_some_and(Verb::is_no),
            Err(_) => false,
        }
    })
}

/// What is open, was refused elsewhere, and does not say so, is asked anew.
pub(super) fn recall(run: &Run, noes: &[No], seed: &str, now: Millis) -> Decision {
    let unheard = run.questions.values().filter_map(|question| {
        let refused = question.refused_by(noes);
        let is_told = refused.iter().all(|one| question.refused.contains(one));
        (!is_told).then_some((question, refused))
    });
    let anew: Vec<_> = unheard
        .map(|(question, refused)| {
            let mut fresh = renewal::anew(question, now);
            // A no elsewhere gives nobody more time here.
            let deadlines = [question.deadline, fresh.deadline];
            fresh.deadline = deadlines.into_iter().flatten().min();
            fresh.tell_of(refused);
            fresh
        })
        .collect();
    if anew.is_empty() {
        return Decision::Repeat { after: run.version };
    }
    let only = anew.iter().map(|question| question.ordinal).collect();
    let (epoch, seed) = (run.epoch.clone(), seed.to_owned());
    let asked = anew.into_iter().map(|question| Event::Asked(Box::new(question)));
    Decision::Events([Event::Renewed { epoch, seed, only }].into_iter().chain(asked).collect())
}
