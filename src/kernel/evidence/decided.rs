//! Decided: who decided what, as a run's journal says it: every answer, every vote and every question that ended without
//! one, beside what was asked. It reads what a walk has found to be chained; whether a signed head holds it is the
//! bundle's to say.
//!
//! What is secret stands here as it does in the payload: as a hash. Where it is beside it, it is used for two things:
//! to compute again the digest of what was shown (K3), and to say whether some of that was masked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::kernel::Closing;
use crate::kernel::Event;
use crate::kernel::Kind;
use crate::kernel::Known;
use crate::kernel::Millis;
use crate::kernel::Question;
use crate::kernel::RequestId;
use crate::kernel::RunId;
use crate::kernel::Started;
use crate::kernel::Version;
use crate::kernel::apart::Veil;
use crate::kernel::evidence::walk::{Entry, Step};
use crate::kernel::sieve::mark;
use crate::kernel::veil::reveal;

/// The door of an answer that nobody gave: what silence means.
const TIMER: &str = "timer";

/// How a question was spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Somebody answered it.
    Answered,
    /// Somebody said their word on what needs more than theirs.
    Voted,
    /// It ended without an answer.
    Closed(Closing),
}

impl Act {
    /// The word that the trail has for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Voted => "voted",
            Self::Closed(Closing::Rejected) => "expired",
            Self::Closed(Closing::Passed) => "passed",
            Self::Closed(Closing::Withdrawn) => "withdrawn",
            Self::Closed(Closing::Moot) => "moot",
        }
    }
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What kind of question.
    pub kind: Kind,
    /// What stood above it, where its file gives it a title.
    pub title: Option<String>,
    /// What was asked.
    pub prompt: String,
    /// Whether it lets something happen, or not: an answer to any other is no decision.
    pub decides: bool,
    /// Its id; none where what that is drawn from is left out.
    pub request: Option<RequestId>,
    /// Whether something of it was masked to whoever was asked.
    pub is_veiled: bool,
    /// The digest of all that was shown, computed again; none where something that it is made of is left out.
    pub digest: Option<String>,
}

/// One thing that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The version of its event.
    pub version: Version,
    /// The version of the append that it is in.
    pub append: Version,
    /// When it was written.
    pub at: Millis,
    /// How.
    pub act: Act,
    /// Which of the run's questions.
    pub ordinal: u32,
    /// What was asked; none where the journal does not have it.
    pub asked: Option<Asked>,
    /// What was said; none where nobody answered.
    pub value: Option<Value>,
    /// Who.
    pub by: String,
    /// In whose place, where that was handed to them.
    pub instead_of: Option<String>,
    /// Through which door.
    pub door: String,
    /// How they were known.
    pub known: Option<Known>,
    /// The digest of what was shown, as it stands beside the answer; empty where nothing was decided by it.
    pub shown: String,
    /// Whether that is the digest of the question in the journal; none where it cannot be computed from it.
    pub is_as_asked: Option<bool>,
    /// Whether a fork has it from the run that it was forked from.
    pub is_copied: bool,
    /// The version that its leaf names, and the place of that in the log; none where it has no leaf.
    pub leaf: Option<(Version, Option<u64>)>,
    /// Whether a signed head holds it.
    pub is_proven: bool,
}

/// Who cancelled a run: nobody had asked them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancelled {
    /// The version of its event.
    pub version: Version,
    /// The version of the append that it is in.
    pub append: Version,
    /// When it was written.
    pub at: Millis,
    /// Who.
    pub by: String,
    /// Why; empty where they did not say.
    pub reason: String,
    /// Through which door; empty where it was no person.
    pub door: String,
    /// How they were known.
    pub known: Option<Known>,
    /// The version that its leaf names, and the place of that in the log; none where it has no leaf.
    pub leaf: Option<(Version, Option<u64>)>,
    /// Whether a signed head holds it.
    pub is_proven: bool,
}

impl Decided {
    /// Whether somebody decided something by it. Silence did not, and words to a question that decides nothing are an
    /// answer; where the journal does not have the question it is taken for one that does.
    pub fn is_decision(&self) -> bool {
        match self.act {
            Act::Answered | Act::Voted => self.asked.as_ref().is_none_or(|asked| asked.decides),
            Act::Closed(_) => false,
        }
    }

    /// Whether what was shown could be computed again with what is left out, and cannot be without. Of what a fork has
    /// copied it never can: that was shown in another run.
    pub fn lacks_secrets(&self) -> bool {
        let is_left_out = self.asked.as_ref().is_some_and(|asked| asked.digest.is_none());
        is_left_out && !self.shown.is_empty() && !self.is_copied
    }

    /// Whether whoever decided was shown a mask in the place of something.
    pub fn was_masked(&self) -> bool {
        let is_spoken = match self.act {
            Act::Answered | Act::Voted => self.door != TIMER,
            Act::Closed(_) => false,
        };
        is_spoken && self.asked.as_ref().is_some_and(|asked| asked.is_veiled)
    }

    /// Somebody's word on a question, of which nothing else is known yet.
    fn bare(act: Act, ordinal: u32, by: &str, door: &str) -> Self {
        Self {
            version: 0,
            append: 0,
            at: Millis(0),
            act,
            ordinal,
            asked: None,
            value: None,
            by: by.to_owned(),
            instead_of: None,
            door: door.to_owned(),
            known: None,
            shown: String::new(),
            is_as_asked: None,
            is_copied: false,
            leaf: None,
            is_proven: false,
        }
    }
}

/// A look through a run for what was decided in it.
#[derive(Debug)]
pub(super) struct Trail<'a> {
    run: &'a RunId,
    /// How the run came to be, as it was renewed since.
    started: Option<Started>,
    /// Whether what nonces are drawn from is there.
    has_seed: bool,
    /// Up to which version a fork has copied.
    copied: Version,
    asked: BTreeMap<u32, Asked>,
    decided: Vec<Decided>,
    cancelled: Option<Cancelled>,
}

impl<'a> Trail<'a> {
    /// At the beginning of a run.
    pub(super) fn new(run: &'a RunId) -> Self {
        let (asked, decided) = (BTreeMap::new(), Vec::new());
        Self { run, started: None, has_seed: false, copied: 0, asked, decided, cancelled: None }
    }

    /// What was decided, the first first; and who cancelled the run, if somebody did.
    pub(super) fn ended(self) -> (Vec<Decided>, Option<Cancelled>) {
        (self.decided, self.cancelled)
    }

    /// The next append, and what was found at it.
    pub(super) fn take(&mut self, entry: &Entry, step: &Step) {
        let is_whole = step.left_out == 0;
        for (version, event) in (step.version..).zip(&step.events) {
            let mut revealed = event.clone();
            reveal(&mut revealed, &entry.secrets);
            match (event, &revealed) {
                (_, Event::Started(started)) => self.start(started, step, is_whole),
                (Event::Asked(_), Event::Asked(_)) => {
                    self.ask((event, &revealed), entry, step);
                }
                (_, _) => {
                    let found = read(event).map(|found| self.placed(found, version, step));
                    self.decided.extend(found);
                    let stopped = || stopped(event, version, step);
                    self.cancelled = self.cancelled.take().or_else(stopped);
                    self.renew(&revealed, is_whole);
                }
            }
        }
    }

    fn start(&mut self, started: &Started, step: &Step, is_whole: bool) {
        // What earlier builds forked does not say how much it copied: it did so in the first append.
        let first = u64::try_from(step.events.len()).unwrap_or(u64::MAX);
        let told = started.descent.as_ref().map(|descent| descent.copied);
        self.copied = started.forked_from.as_ref().map_or(0, |_| told.unwrap_or(first));
        (self.started, self.has_seed) = (Some(started.clone()), is_whole);
    }

    /// What follows is known by another seed, where an event says so.
    fn renew(&mut self, revealed: &Event, is_whole: bool) {
        if let Some(started) = self.started.as_mut().filter(|_| revealed.seed().is_some()) {
            started.renew(revealed);
            self.has_seed = is_whole;
        }
    }

    fn ask(&mut self, (event, revealed): (&Event, &Event), entry: &Entry, step: &Step) {
        let (Event::Asked(question), Event::Asked(whole)) = (event, revealed) else { return };
        let is_whole = step.left_out == 0;
        let started = self.started.as_ref().filter(|_| self.has_seed);
        let sealed = started.map(|started| started.sealed(self.run, whole, step.at));
        let asked = Asked {
            kind: question.kind,
            title: question.named.as_ref().map(|named| named.title.clone()),
            prompt: question.prompt.clone(),
            decides: question.decides(),
            request: sealed.as_ref().map(|sealed| sealed.id(self.run)),
            is_veiled: is_veiled((question, whole), entry, step),
            digest: sealed.filter(|_| is_whole).map(|sealed| sealed.digest),
        };
        self.asked.insert(question.ordinal, asked);
    }

    /// With what was asked, and where it stands.
    fn placed(&self, found: Decided, version: Version, step: &Step) -> Decided {
        let is_copied = version <= self.copied;
        let mut asked = self.asked.get(&found.ordinal).cloned();
        // Whoever answered it was asked in another run, under another id.
        if let Some(asked) = asked.as_mut().filter(|_| is_copied) {
            (asked.request, asked.digest) = (None, None);
        }
        let digest = asked.as_ref().and_then(|asked| asked.digest.as_ref());
        let is_as_asked =
            digest.filter(|_| !found.shown.is_empty()).map(|digest| *digest == found.shown);
        let append = step.version;
        Decided { version, append, at: step.at, asked, is_as_asked, is_copied, ..found }
    }
}

/// Whether something of a question was masked to those who were asked, as its append tells it: what is secret in it goes
/// through the veil that the doors have. Where the secrets are left out their hashes stand for them, each in its places.
fn is_veiled((hidden, whole): (&Question, &Question), entry: &Entry, step: &Step) -> bool {
    let is_whole = step.left_out == 0;
    let told = serde_json::to_string(hidden).unwrap_or_default();
    let mut veil = Veil::default();
    for (at, hash) in step.secrets.iter().enumerate() {
        let mark = mark(*hash);
        if told.contains(&mark) {
            let apart = entry.secrets.get(at).filter(|_| is_whole);
            let secret = apart.and_then(|apart| serde_json::from_str(&apart.json).ok());
            veil.learn(&secret.unwrap_or(Value::from(mark)), &BTreeSet::new());
        }
    }
    let question = if is_whole { whole } else { hidden };
    veil.question(Arc::new(question.clone())).as_decided().is_masked()
}

/// Who cancelled a run, where an event says that.
fn stopped(event: &Event, version: Version, step: &Step) -> Option<Cancelled> {
    let Event::Cancelled { by, reason, door, known, .. } = event else { return None };
    Some(Cancelled {
        version,
        append: step.version,
        at: step.at,
        by: by.clone(),
        reason: reason.clone(),
        door: door.clone(),
        known: known.as_deref().cloned(),
        leaf: None,
        is_proven: false,
    })
}

/// What an event says that somebody decided.
fn read(event: &Event) -> Option<Decided> {
    match event {
        Event::Answered { ordinal, value, by, door, shown, known, instead_of, .. } => {
            Some(Decided {
                value: Some(value.clone()),
                shown: shown.clone(),
                known: known.as_deref().cloned(),
                instead_of: instead_of.clone(),
                ..Decided::bare(Act::Answered, *ordinal, by, door)
            })
        }
        Event::Voted { ordinal, value, by, door, shown, known, instead_of, .. } => Some(Decided {
            value: Some(value.clone()),
            shown: shown.clone(),
            known: known.as_deref().cloned(),
            instead_of: instead_of.clone(),
            ..Decided::bare(Act::Voted, *ordinal, by, door)
        }),
        Event::Closed { ordinal, closing, by, door, known, .. } => Some(Decided {
            known: known.as_deref().cloned(),
            ..Decided::bare(Act::Closed(*closing), *ordinal, by, door)
        }),
        Event::Started(_)
        | Event::StepStarted { .. }
        | Event::Delta { .. }
        | Event::Noted { .. }
        | Event::MessageAdded { .. }
        | Event::ToolCalled { .. }
        | Event::ToolReturned { .. }
        | Event::HandedOff { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::Asked(_)
        | Event::Claimed(_)
        | Event::Delegated(_)
        | Event::Reminded { .. }
        | Event::Escalated { .. }
        | Event::Stood { .. }
        | Event::Held { .. }
        | Event::Renewed { .. }
        | Event::Ruled(_)
        | Event::Revoked { .. }
        | Event::StepOpened { .. }
        | Event::StepOutcome { .. }
        | Event::StepClosed { .. }
        | Event::Signalled { .. }
        | Event::CheckpointSaved
        | Event::Parked
        | Event::Output { .. }
        | Event::Warned(_)
        | Event::Completed
        | Event::Failed(_)
        | Event::Cancelled { .. } => None,
    }
}

#[cfg(test)]
#[path = "decided_tests.rs"]
mod tests;
