//! Inbox by owner: who is asked what, in memory: a principal's inbox costs what lies on the desks that are its
//! own (of the runs it began, of its name, of its groups), however much lies on others'.
//!
//! An admin's inbox is read from the store, which has everything in order. A user's would read past
//! everybody else's requests, so the first user that asks has the desks laid out, once, from the store;
//! from then on every durable batch keeps them right. They hold places and ids alone, a few
//! hundred bytes a run; a server whose callers are all admins never has any. They are this process's own: of a
//! store that several processes write to they would know a part, and are not used. Such a store keeps them itself.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use crate::engine::{Engine, EngineError};
use crate::kernel::{Millis, Question, Run, RunId};
use crate::ports::{Desk, Head, Journal, Page};

/// Heads read at a time while the desks are laid out.
const PAGE: usize = 512;

/// A place on a desk: the soonest deadline first, then the longest waiting, then the oldest run; as the
/// store orders them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    deadline: Millis,
    since: Millis,
    run: RunId,
}

impl Place {
    fn of<'a>(
        run: &RunId,
        questions: impl Iterator<Item = &'a Arc<Question>> + Clone,
    ) -> Option<Self> {
        let since = questions.clone().map(|question| question.asked_at).min()?;
        let deadline = questions.filter_map(|question| question.deadline).min();
        Some(Self { deadline: deadline.unwrap_or(Millis(u64::MAX)), since, run: run.clone() })
    }

    /// The token of a listing that goes on after this place: the store's own form of it.
    fn token(&self) -> String {
        format!("{:016x}{:016x}{}", self.deadline.0, self.since.0, self.run.stem())
    }

    fn parse(token: &str) -> Option<Self> {
        let time = |range| u64::from_str_radix(token.get(range)?, 16).ok().map(Millis);
        let run = RunId::parse(&format!("run_{}", token.get(32..)?)).ok()?;
        Some(Self { deadline: time(0..16)?, since: time(16..32)?, run })
    }
}

/// All desks.
#[derive(Debug, Default)]
pub(super) struct InboxByOwner {
    /// Whether anybody has asked for one: until then nothing is kept.
    is_kept: AtomicBool,
    laid_out: OnceCell<()>,
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    desks: HashMap<Arc<str>, BTreeSet<Place>>,
    /// On which desks each run lies, and where on each.
    places: HashMap<RunId, (Vec<Arc<str>>, Millis, Millis)>,
    /// Runs that changed while the desks were being laid out: what was read of them may be old.
    changed: HashSet<RunId>,
    is_whole: bool,
}

impl Index {
    fn put(&mut self, run: &RunId, desks: BTreeSet<Desk>, place: Option<Place>) {
        if let Some((names, deadline, since)) = self.places.remove(run) {
            let place = Place { deadline, since, run: run.clone() };
            for name in names {
                let Some(desk) = self.desks.get_mut(&name) else { continue };
                desk.remove(&place);
                if desk.is_empty() {
                    self.desks.remove(&name);
                }
            }
        }
        let Some(place) = place else { return };
        let mut names = Vec::with_capacity(desks.len());
        for desk in desks {
            let known = self.desks.get_key_value(desk.name()).map(|(name, _)| Arc::clone(name));
            let name = known.unwrap_or_else(|| desk.name().into());
            self.desks.entry(Arc::clone(&name)).or_default().insert(place.clone());
            names.push(name);
        }
        self.places.insert(run.clone(), (names, place.deadline, place.since));
    }
}

impl InboxByOwner {
    fn index(&self) -> MutexGuard<'_, Index> {
        // Nothing in here panics half-way through a change.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A durable batch has left the run like this.
    pub(super) fn keep(&self, run: &Run) {
        if !self.is_kept.load(Ordering::Acquire) {
            return;
        }
        let place = Place::of(&run.id, run.questions.values());
        let mut index = self.index();
        if !index.is_whole {
            index.changed.insert(run.id.clone());
        }
        index.put(&run.id, Desk::of(&run.owner, run.questions.values()), place);
    }

    /// Lays the desks out, unless they are.
    async fn lay_out(&self, journal: &dyn Journal) -> Result<(), EngineError> {
        let laying = || async {
            // From here on changes are kept, so that none falls between them and what is read.
            self.is_kept.store(true, Ordering::Release);
            let mut cursor: Option<String> = None;
            loop {
                let page = journal.waiting(cursor.as_deref(), PAGE).await?;
                let mut index = self.index();
                for head in page.rows {
                    if !index.changed.contains(&head.run) {
                        let place = Place::of(&head.run, head.questions.iter());
                        index.put(&head.run, Desk::of(&head.owner, head.questions.iter()), place);
                    }
                }
                cursor = page.next;
                if cursor.is_none() {
                    index.is_whole = true;
                    index.changed = HashSet::new();
                    return Ok(());
                }
            }
        };
        self.laid_out.get_or_try_init(laying).await.copied()
    }

    /// Runs on any of these desks after a place, at most `limit`, and whether there are more.
    fn after(&self, names: &[Desk], token: Option<&Place>, limit: usize) -> (Vec<Place>, bool) {
        let index = self.index();
        let from = token.map_or(Bound::Unbounded, Bound::Excluded);
        let mut found = BTreeSet::new();
        for desk in names.iter().filter_map(|name| index.desks.get(name.name())) {
            // One more than is wanted of each: by it is seen that there are more.
            let rest = desk.range((from, Bound::Unbounded)).take(limit.saturating_add(1));
            found.extend(rest.cloned());
        }
        let has_more = found.len() > limit;
        (found.into_iter().take(limit).collect(), has_more)
    }
}

impl Engine {
    /// Heads of runs that ask something of a principal, or that it began, as [`Journal::waiting`] has
    /// them of everybody's.
    pub(super) async fn waiting_of(
        &self,
        who: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, EngineError> {
        let (desks, journal) = (&self.inner.desks, &self.inner.journal);
        let names = Desk::own(who, &self.operator());
        if self.is_shared() {
            return Ok(journal.waiting_on(&names, cursor, limit).await?);
        }
        desks.lay_out(&**journal).await?;
        let place = cursor.map(Place::parse);
        if place == Some(None) {
            return Ok(Page { rows: Vec::new(), next: None });
        }
        let (places, has_more) = desks.after(&names, place.flatten().as_ref(), limit.max(1));
        let next = places.last().filter(|_| has_more).map(Place::token);
        let mut rows = Vec::with_capacity(places.len());
        for place in places {
            let head = journal.head(&place.run).await?;
            // It may have been answered since; then it comes up no more, or at another place.
            rows.extend(head.filter(|head| {
                Place::of(&head.run, head.questions.iter()).as_ref() == Some(&place)
            }));
        }
        Ok(Page { rows, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(deadline: u64, since: u64, stem: &str) -> Place {
        Place { deadline: Millis(deadline), since: Millis(since), run: RunId::fresh(stem) }
    }

    #[test]
    fn a_desk_is_in_order_and_can_be_read_on_from_any_place() {
        let stems = ["01k9zq3v7m8n4p5r6s7t8v9w01", "01k9zq3v7m8n4p5r6s7t8v9w02"];
        let [one, two] = [place(u64::MAX, 5, stems[0]), place(7, 9, stems[1])];
        let desks = InboxByOwner::default();
        let (anns, ann) = (
            BTreeSet::from([Desk::began("ann"), Desk::asked("ann")]),
            [Desk::began("ann"), Desk::asked("ann")],
        );
        desks.index().put(&one.run, anns.clone(), Some(one.clone()));
        desks.index().put(&two.run, anns.clone(), Some(two.clone()));
        assert_eq!(desks.after(&ann, None, 9), (vec![two.clone(), one.clone()], false));
        assert_eq!(desks.after(&ann, None, 1), (vec![two.clone()], true));
        let token = Place::parse(&two.token());
        assert_eq!(token.as_ref(), Some(&two));
        assert_eq!(desks.after(&ann, token.as_ref(), 1), (vec![one.clone()], false));
        assert_eq!(desks.after(&[Desk::began("ben")], None, 9), (Vec::new(), false));
        assert_eq!(Place::parse("nothing"), None);

        desks.index().put(&two.run, anns.clone(), Some(place(u64::MAX, 9, stems[1])));
        assert_eq!(desks.after(&ann, None, 1).0.first(), Some(&one), "its deadline is gone");
        desks.index().put(&one.run, anns.clone(), None);
        desks.index().put(&two.run, anns.clone(), None);
        assert!(desks.index().desks.is_empty() && desks.index().places.is_empty());
    }
}
