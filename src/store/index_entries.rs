//! Index entries: in which indexes a run can be found without reading its journal (J7). Both stores keep
//! their indexes by it, and the audit recomputes them from it. Where an entry lies is said in `keys`.

use crate::kernel::{Millis, RunId};
use crate::ports::{Cursor, Head, HeadStatus, RunFilter};

/// Later than every time: the deadline of what waits for ever.
pub(super) const NEVER: Millis = Millis(u64::MAX);

/// A place in the inbox: the soonest deadline first, then the longest waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    /// The soonest deadline of its open questions, or [`NEVER`].
    pub(super) deadline: Millis,
    /// When the oldest of them was asked.
    pub(super) since: Millis,
}

/// In which indexes a run can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct IndexEntries {
    /// It has open questions.
    pub(super) waiting: Option<Waiting>,
    /// Its clock must be looked at.
    pub(super) due: Option<Millis>,
    /// It owes something to the world.
    pub(super) going: bool,
}

impl IndexEntries {
    /// The entries of a run with this head.
    pub(super) fn of(head: &Head) -> Self {
        let deadlines = head.questions.iter().filter_map(|question| question.deadline);
        let deadline = deadlines.min().unwrap_or(NEVER);
        let since = head.questions.iter().map(|question| question.asked_at).min();
        Self {
            waiting: since.map(|since| Waiting { deadline, since }),
            due: head.wake_at,
            going: head.status == HeadStatus::Running,
        }
    }
}

impl Waiting {
    /// Where a listing of the inbox goes on after `run`.
    pub(super) fn cursor(self, run: &RunId) -> Cursor {
        format!("{:016x}{:016x}{}", self.deadline.0, self.since.0, run.stem())
    }

    /// The place that a cursor stands for; none if it is not one of ours.
    pub(super) fn read_cursor(cursor: &str) -> Option<(Self, RunId)> {
        let time = |range| u64::from_str_radix(cursor.get(range)?, 16).ok().map(Millis);
        let place = Self { deadline: time(0..16)?, since: time(16..32)? };
        Some((place, RunId::parse(&format!("run_{}", cursor.get(32..)?)).ok()?))
    }
}

/// Whether a head passes a filter.
pub(super) fn matches(filter: &RunFilter, head: &Head) -> bool {
    filter.session.as_ref().is_none_or(|session| *session == head.session)
        && filter.owner.as_ref().is_none_or(|owner| *owner == head.owner)
        && filter.workflow.as_ref().is_none_or(|workflow| *workflow == head.workflow)
        && filter.status.as_ref().is_none_or(|status| status == head.status.word())
}
