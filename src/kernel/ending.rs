//! Ending: what can be told of a run from how its questions ended: who said what, whether a pause is over, what was
//! refused. How one can end is said in `question`.

use crate::kernel::approvers::Admission;
use crate::kernel::event::{Closing, Event};
use crate::kernel::id::Version;
use crate::kernel::operator::Operator;
use crate::kernel::question::{Closed, Ending};
use crate::kernel::run::{Run, Status};
use crate::kernel::said::Said;

impl Run {
    /// Everything that `who` has answered, or voted, in the order of the questions.
    pub fn said_by(&self, who: &str) -> impl Iterator<Item = &Said> {
        let ended = self.endings.iter().filter_map(|ending| match ending {
            Some(Ending::Answered(said)) => Some(said),
            Some(Ending::Closed(_)) | None => None,
        });
        let who = who.to_owned();
        ended.chain(self.voted.iter().map(|(_, said)| said)).filter(move |said| said.by == who)
    }

    /// The same, less the votes that no longer count: who says one of them again is heard.
    pub fn still_said_by<'a>(
        &'a self,
        who: &str,
        admission: Admission<'a>,
    ) -> impl Iterator<Item = (u32, &'a Said)> {
        let ended = (1..).zip(&self.endings).filter_map(|(ordinal, ending)| match ending {
            Some(Ending::Answered(said)) => Some((ordinal, said)),
            Some(Ending::Closed(_)) | None => None,
        });
        let counts = move |(ordinal, said): &(u32, &Said)| {
            let Some(question) = self.questions.get(ordinal) else { return true };
            let mut own = question.votes.iter().filter(|vote| vote.by == said.by);
            own.any(|vote| admission.counts(question, vote))
        };
        let voted = self.voted.iter().map(|(ordinal, said)| (*ordinal, said)).filter(counts);
        let who = who.to_owned();
        ended.chain(voted).filter(move |(_, said)| said.by == who)
    }

    /// Whether its `ordinal`-th question was ever asked of `who`, or `who` said something to it: they
    /// may know how it ended (K8).
    pub fn concerned(&self, ordinal: u32, who: &str, operator: &Operator) -> bool {
        let index = usize::try_from(ordinal).ok().and_then(|ordinal| ordinal.checked_sub(1));
        let Some(index) = index else { return false };
        let asked = self.asked_of.get(index).into_iter().flatten();
        let answered = match self.endings.get(index) {
            Some(Some(Ending::Answered(said))) => said.by == who,
            Some(Some(Ending::Closed(_)) | None) | None => false,
        };
        let voted = self.voted.iter().any(|(one, said)| *one == ordinal && said.by == who);
        answered || voted || asked.into_iter().any(|named| operator.means(named, who))
    }

    /// Whether somebody said no to its `ordinal`-th question, or nobody said yes while they could.
    pub fn was_refused(&self, ordinal: u32) -> bool {
        let index = usize::try_from(ordinal).ok().and_then(|ordinal| ordinal.checked_sub(1));
        match index.and_then(|index| self.endings.get(index)?.as_ref()) {
            Some(Ending::Answered(said)) => said.is_no,
            Some(Ending::Closed(Closed::Expired | Closed::Withdrawn)) => true,
            Some(Ending::Closed(Closed::StepOver | Closed::RunOver | Closed::Changed)) | None => {
                false
            }
        }
    }

    /// The version before its last leg: before it was answered last, or before it began.
    pub fn last_leg(&self) -> Version {
        let answered = self.endings.iter().flatten().filter_map(|ending| match ending {
            Ending::Answered(said) => Some(said.version - 1),
            Ending::Closed(_) => None,
        });
        answered.max().unwrap_or(0)
    }

    /// Whether it waits at the pause that the checkpoint at `version` was saved for.
    pub fn is_at(&self, version: Version) -> bool {
        let last = self.checkpoints.last().map(|(saved, _)| *saved);
        matches!(self.status, Status::Waiting { .. }) && last == Some(version)
    }

    /// Whether the pause that the leg after `version` ended in is over: somebody has answered since,
    /// or what it asked was closed.
    pub fn has_gone_on_since(&self, version: Version) -> bool {
        let answered = self.endings.iter().flatten().any(|ending| match ending {
            Ending::Answered(said) => said.version > version + 1,
            Ending::Closed(_) => false,
        });
        let pauses = self.checkpoints.iter().zip(&self.pauses);
        let mut since = pauses.filter(|((saved, _), _)| *saved > version).map(|(_, asks)| *asks);
        let (shown, is_later) = (since.next(), since.next().is_some());
        answered || (shown == Some(true) && (is_later || self.status.is_over()))
    }
}

impl Event {
    /// A question is closed by no person's word: by the clock, or since nothing hangs on it any more.
    pub fn closed_by_itself(ordinal: u32, closing: Closing, by: &str) -> Self {
        let (by, door, known, key) = (by.to_owned(), String::new(), None, String::new());
        Self::Closed { ordinal, closing, by, door, known, key }
    }

    /// The run is stopped by what somebody has said elsewhere: that event says how they were known.
    pub fn cancelled_after(by: String, reason: &str) -> Self {
        let (reason, door, known, key) = (reason.to_owned(), String::new(), None, String::new());
        Self::Cancelled { by, reason, door, known, key }
    }
}
