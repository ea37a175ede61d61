//! Log: what the lanes of a store's own log are, whatever stores them: where they begin and end, and
//! how their entries are listed. Getting at the entries is each store's business.

use serde::{Deserialize, Serialize};

use crate::kernel::Millis;
use crate::kernel::evidence::Hash;
use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::ports::evidence::log_link;
use crate::ports::log::{Lane, read_cursor};
use crate::ports::{Fault, Logged, Note, Noting, Page};

/// Where the lanes begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Ends {
    /// The number of the newest entry.
    sequence: u64,
    refusals: End,
    deeds: End,
}

/// Where one lane begins and ends; its entries lie at `first`, `first + 1`, … up to before `next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) first: u64,
    pub(super) next: u64,
    /// When the newest of those that were forgotten last happened.
    #[serde(default)]
    until: Millis,
    /// The link of the newest: what the next one goes on from (J13).
    #[serde(default)]
    pub(super) link: Hash,
}

/// An entry as it is stored, with the link of the one before it in its lane; none where an earlier build
/// wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChainedNote {
    #[serde(flatten)]
    pub(super) entry: Logged,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prev: Option<Hash>,
}

/// What an entry comes to.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) lane: Lane,
    /// Its place in the lane.
    pub(super) index: u64,
    pub(super) entry: ChainedNote,
    /// What is put into the store-wide log of it.
    pub(super) leaf: Option<Leaf>,
    /// Whose leaf says less than that one, and needs no place of its own if it has none yet.
    pub(super) outdone: Option<Place>,
    /// The place that becomes empty for it.
    pub(super) gone: Option<u64>,
}

impl Ends {
    /// One lane's.
    pub(super) fn of(&self, lane: Lane) -> End {
        match lane {
            Lane::Refusals => self.refusals,
            Lane::Deeds => self.deeds,
        }
    }

    fn of_mut(&mut self, lane: Lane) -> &mut End {
        match lane {
            Lane::Refusals => &mut self.refusals,
            Lane::Deeds => &mut self.deeds,
        }
    }

    /// Finds the place of an entry. `read` gives the one at a place: more of the same goes there (L3).
    pub(super) fn place(
        &mut self,
        noting: Noting,
        read: impl Fn(Lane, u64) -> Result<Option<ChainedNote>, Fault>,
    ) -> Result<Placed, Fault> {
        let Noting { place, first, last, count, note } = noting;
        let lane = note.lane();
        // What was done is never the same as what was done before: each time is an entry.
        if lane == Lane::Refusals
            && let Some(index) = place
            && let Some(known) = read(lane, index)?
            && known.entry.note == note
        {
            // Two writers at once may come in another order than they counted in.
            let ChainedNote { entry: known, prev } = known;
            let (last, count) = (known.last.max(last), known.count.max(count));
            let entry = ChainedNote { entry: Logged { last, count, ..known }, prev };
            return Ok(Placed { lane, index, entry, leaf: None, outdone: None, gone: None });
        }
        let end = self.of(lane);
        let is_full = end.next - end.first >= lane.most();
        let gone = is_full.then_some(end.first);
        let until = match gone {
            Some(index) => read(lane, index)?.map_or(end.until, |known| known.entry.last),
            None => end.until,
        };
        let first_kept = end.first + u64::from(is_full);
        self.sequence += 1;
        let (index, sequence) = (end.next, self.sequence);
        let link = log_link(end.link, lane, index, (sequence, first, &note));
        *self.of_mut(lane) = End { first: first_kept, next: index + 1, until, link };
        let (leaf, outdone) = match lane {
            Lane::Deeds => (Leaf::Log { index, action: note.action().to_owned(), link }, None),
            // Whoever knocks a million times fills no log with it: all that is refused until leaves get their places has
            // one, which is there from the first moment and makes way for the next.
            Lane::Refusals => {
                (Leaf::Refusals { next: index + 1, link }, Some(Place::Refusals(index)))
            }
        };
        let leaf = Some(leaf);
        let entry = Logged { sequence, first, last, count, note };
        let entry = ChainedNote { entry, prev: Some(end.link) };
        Ok(Placed { lane, index, entry, leaf, outdone, gone })
    }

    /// How many entries were forgotten, as an entry.
    fn forgotten(&self) -> Option<Logged> {
        let count = self.refusals.first + self.deeds.first;
        let until = self.refusals.until.max(self.deeds.until);
        let told = Logged { sequence: 0, first: until, last: until, count, note: Note::Forgotten };
        (count > 0).then_some(told)
    }

    /// A page of the log, newest first. `read` gives the entry at a place.
    pub(super) fn page(
        &self,
        cursor: Option<&str>,
        limit: usize,
        read: impl Fn(Lane, u64) -> Result<Option<Logged>, Fault>,
    ) -> Result<Page<Logged>, Fault> {
        // Where each lane is read on, downwards.
        let mut next = match cursor.map(read_cursor) {
            None => Lane::ALL.map(|lane| self.of(lane).next),
            Some(Some(next)) => [next[0].min(self.refusals.next), next[1].min(self.deeds.next)],
            Some(None) => return Ok(Page { rows: Vec::new(), next: None }),
        };
        let newest = |lane: Lane, next: u64| match next.checked_sub(1) {
            Some(index) if index >= self.of(lane).first => read(lane, index),
            Some(_) | None => Ok(None),
        };
        let mut heads = [newest(Lane::Refusals, next[0])?, newest(Lane::Deeds, next[1])?];
        let mut rows = Vec::new();
        while rows.len() < limit {
            let newer = |entry: &Option<Logged>| entry.as_ref().map_or(0, |entry| entry.sequence);
            let lane = usize::from(newer(&heads[1]) > newer(&heads[0]));
            let Some(entry) = heads[lane].take() else {
                rows.extend(self.forgotten());
                return Ok(Page { rows, next: None });
            };
            rows.push(entry);
            next[lane] -= 1;
            heads[lane] = newest(Lane::ALL[lane], next[lane])?;
        }
        Ok(Page { rows, next: Some(format!("{}.{}", next[0], next[1])) })
    }
}
