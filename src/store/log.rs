//! Log: what the lanes of a store's own log are, whatever stores them: where they begin and end, and
//! how their entries are listed. Getting at the entries is each store's business.

use serde::{Deserialize, Serialize};

use crate::kernel::Millis;
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
}

/// What an entry comes to.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) lane: Lane,
    /// Its place in the lane.
    pub(super) index: u64,
    pub(super) entry: Logged,
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
        read: impl Fn(Lane, u64) -> Result<Option<Logged>, Fault>,
    ) -> Result<Placed, Fault> {
        let Noting { place, first, last, count, note } = noting;
        let lane = note.lane();
        if let Some(index) = place
            && let Some(known) = read(lane, index)?
            && known.note == note
        {
            // Two writers at once may come in another order than they counted in.
            let (last, count) = (known.last.max(last), known.count.max(count));
            let entry = Logged { last, count, ..known };
            return Ok(Placed { lane, index, entry, gone: None });
        }
        let end = self.of(lane);
        let is_full = end.next - end.first >= lane.most();
        let gone = is_full.then_some(end.first);
        let until = match gone {
            Some(index) => read(lane, index)?.map_or(end.until, |known| known.last),
            None => end.until,
        };
        let first_kept = end.first + u64::from(is_full);
        *self.of_mut(lane) = End { first: first_kept, next: end.next + 1, until };
        self.sequence += 1;
        let entry = Logged { sequence: self.sequence, first, last, count, note };
        Ok(Placed { lane, index: end.next, entry, gone })
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
