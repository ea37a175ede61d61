//! Renewal: what a run is in a store that was put back from a backup, or made from an export. The store has
//! a new epoch then, and nobody knows what was said and done in the time that is missing.
//!
//! - What decides and is open is asked anew, under an id, a digest and a code that nobody has seen: an
//!   answer to the question of before is told so. No vote stands. Words that were asked for still are.
//! - What was released and is not finished is asked about, unless it touches nothing (E2).
//! - What was granted is granted no more.
//!
//! By the same means a single question is asked anew that was refused in another run of the family (`family`). And by
//! an answer that tells a run of its first secret its nonces come to be drawn from what is hidden: nothing is asked
//! anew by that.
//! When a store has a new epoch, and what is done while nobody has looked, is not decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kernel::event::Event;
use crate::kernel::id::{RequestId, Tail};
use crate::kernel::question::Question;
use crate::kernel::run::{Renewal, Run, Status};
use crate::kernel::started::Started;
use crate::kernel::time::Millis;

/// The fact of a question that is asked in another store than before.
pub(super) const FACT: &str = "asked_anew";
/// What whoever decides is told then: the deed may have been done in the time that is missing.
const TOLD: &str = "the store was put back from a backup or a copy since this was asked: what was answered, \
                    and done, after that copy was made is not known here";

/// What is asked anew: exactly what was, from its first stage on, with as much time as there was at first.
pub(super) fn asked_anew(run: &Run, now: Millis) -> impl Iterator<Item = Event> {
    let open = run.questions.values().filter(|question| question.decides());
    open.map(move |question| {
        let mut question = anew(question, now);
        question.add_fact(FACT, TOLD.into());
        Event::Asked(Box::new(question))
    })
}

pub(super) fn anew(question: &Question, now: Millis) -> Question {
    let left = question.deadline.map(|deadline| deadline.since(question.asked_at));
    let (to, within_ms) = match question.stages.first() {
        Some(first) => (first.to.clone(), first.within_ms),
        None => (question.to.clone(), left),
    };
    Question {
        to,
        deadline: within_ms.map(|ms| now.plus(ms)),
        // What is set when the event is folded in is not the event's to say.
        remind_at: None,
        stood_to: Millis(0),
        asked_at: Millis(0),
        messages: 0,
        stage: 0,
        level: 0,
        votes: Vec::new(),
        participants: Vec::new(),
        reached: Vec::new(),
        asked_before: Vec::new(),
        delegations: Vec::new(),
        claim: None,
        leg: None,
        nonce: String::new(),
        digest: String::new(),
        ..question.clone()
    }
}

/// The store has a new epoch; or `only` these are asked anew.
pub(super) fn renewed(
    run: &mut Run,
    (epoch, seed): (&str, &str),
    only: &[u32],
) -> Result<(), &'static str> {
    let is_epoch = only.is_empty();
    if (run.epoch == epoch) == is_epoch || run.seed == seed {
        return Err("a run is renewed once for each epoch of its store");
    }
    let open = run.questions.values().filter(|question| question.decides());
    let open = open.map(|question| question.ordinal);
    let open = open.filter(|one| is_epoch || only.contains(one));
    let anew: BTreeMap<_, _> = open.map(|ordinal| (ordinal, run.tail(ordinal))).collect();
    run.voted.retain(|(ordinal, _)| !anew.contains_key(ordinal));
    draw_from(run, seed, anew);
    epoch.clone_into(&mut run.epoch);
    if is_epoch {
        run.grants.clear();
    }
    // A pause is told anew, with what is asked now.
    if matches!(run.status, Status::Waiting { .. }) {
        run.status = Status::Running;
    }
    Ok(())
}

/// What is asked from here on, and these, have nonces that are drawn from this.
fn draw_from(run: &mut Run, seed: &str, anew: BTreeMap<u32, Option<Tail>>) {
    seed.clone_into(&mut run.seed);
    run.renewals.push(Renewal { anew });
    run.is_seed_open = !run.hides();
}

/// Has what is asked after these answers known by a seed that is hidden, where the run knows of a secret by them and the
/// one that it has lies open in its journal. Else whoever is handed that journal without its secrets could compute the
/// nonce of a question that shows a short one, and try all there are against its digest.
pub(super) fn covered(run: &Run, mut events: Vec<Event>, seed: &str) -> Vec<Event> {
    if run.is_seed_open {
        let first = events.iter_mut().find(|event| run.knows_by(event));
        if let Some(told) = first.and_then(Event::seed_mut) {
            seed.clone_into(told);
        }
    }
    events
}

/// What an answer brings with it of that. What is open stays as it was asked: whoever was shown it may answer it.
pub(super) fn heard(run: &mut Run, event: &Event) {
    if let Event::Answered { seed, .. } | Event::Voted { seed, .. } = event
        && !seed.is_empty()
    {
        draw_from(run, seed, BTreeMap::new());
    }
}

/// Whether this question is open, and to be asked anew: not yet known by what nonces are now drawn from.
pub(super) fn is_due(run: &Run, ordinal: u32) -> bool {
    let before = run.renewals.last().and_then(|last| last.anew.get(&ordinal));
    run.questions.contains_key(&ordinal) && before.is_some_and(|tail| *tail == run.tail(ordinal))
}

/// It was asked anew.
pub(super) fn reasked(run: &mut Run, question: &Question, at: Millis) -> Result<(), &'static str> {
    let old = run.questions.get(&question.ordinal).ok_or("no such question is open")?;
    let mut question = Question {
        asked_at: at,
        remind_at: question.remind_ms.map(|ms| at.plus(ms)),
        messages: old.messages,
        leg: old.leg.clone(),
        // Nobody has less to do with it than before.
        participants: old.participants.clone(),
        ..question.clone()
    };
    question.seal(run.belongs());
    let index = usize::try_from(question.ordinal).ok().and_then(|ordinal| ordinal.checked_sub(1));
    let tail = index.and_then(|index| run.tails.get_mut(index)).ok_or("no such question")?;
    *tail = question.tail();
    run.questions.insert(question.ordinal, Arc::new(question));
    Ok(())
}

impl Question {
    /// What whoever decides is told of a store that was put back since it was asked first.
    pub fn asked_anew(&self) -> Option<&str> {
        self.context.get(FACT)?.as_str()
    }
}

impl Event {
    /// What nonces are drawn from after it, where it says so.
    pub fn seed(&self) -> Option<&str> {
        if let Self::Started(started) = self {
            return Some(started.seed.as_str()).filter(|seed| !seed.is_empty());
        }
        let (Self::Renewed { seed, .. } | Self::Answered { seed, .. } | Self::Voted { seed, .. }) =
            self
        else {
            return None;
        };
        Some(seed.as_str()).filter(|seed| !seed.is_empty())
    }

    /// The place in it where that is said.
    pub(super) fn seed_mut(&mut self) -> Option<&mut String> {
        if let Self::Started(started) = self {
            return Some(&mut started.seed);
        }
        let (Self::Renewed { seed, .. } | Self::Answered { seed, .. } | Self::Voted { seed, .. }) =
            self
        else {
            return None;
        };
        Some(seed)
    }
}

impl Started {
    /// What questions are known by after a renewal, or after an answer that told of a secret, where `event` is one.
    pub fn renew(&mut self, event: &Event) {
        if let Event::Renewed { epoch, .. } = event {
            self.epoch.clone_from(epoch);
        }
        if let Some(seed) = event.seed() {
            seed.clone_into(&mut self.seed);
        }
    }
}

impl Run {
    /// Whether this is the id under which something was asked that has been asked anew since.
    pub fn was_asked_anew(&self, id: &RequestId) -> bool {
        let mut before = self.renewals.iter().filter_map(|renewal| renewal.anew.get(&id.ordinal));
        before.any(|tail| *tail == id.tail) && id.run == self.id
    }
}
