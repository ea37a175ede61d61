//! Places: under which headings a run can be found without reading its journal (J7). Both stores
//! keep their indexes by it, and the audit recomputes them from it.

use crate::kernel::{Millis, RunId};
use crate::ports::{Cursor, Fault, Head, HeadStatus, Page, RunFilter};

/// Rows looked at for one page: a filter that matches little must not hold a reader for seconds.
pub(super) const VISITS_MAX: usize = 10_000;

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

/// Under which headings a run can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Places {
    /// It has open questions.
    pub(super) waiting: Option<Waiting>,
    /// Its clock must be looked at.
    pub(super) due: Option<Millis>,
    /// It owes something to the world.
    pub(super) going: bool,
}

impl Places {
    /// The places of a run with this head.
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

/// Collects a page of at most `limit` rows from `rows`: pairs of the cursor after a row and the row,
/// or nothing where the row does not match. Looks at no more than [`VISITS_MAX`] of them, so a page
/// may be short and still have a next one.
pub(super) fn page<T>(
    rows: impl Iterator<Item = Result<(Cursor, Option<T>), Fault>>,
    limit: usize,
) -> Result<Page<T>, Fault> {
    let limit = limit.max(1);
    let mut page = Page { rows: Vec::new(), next: None };
    let mut last = None;
    for (visits, row) in rows.enumerate() {
        let (cursor, row) = row?;
        if page.rows.len() == limit && row.is_some() {
            page.next = last;
            return Ok(page);
        }
        if visits >= VISITS_MAX {
            page.next = Some(cursor);
            page.rows.extend(row);
            return Ok(page);
        }
        if page.rows.len() < limit {
            page.rows.extend(row);
            last = Some(cursor);
        }
    }
    Ok(page)
}

/// The page for a cursor that is none of ours.
pub(super) fn nothing<T>() -> Page<T> {
    Page { rows: Vec::new(), next: None }
}

/// Reads a cursor that may be absent; none if it is there and is none of ours.
#[expect(clippy::option_option, reason = "absent and unreadable are two things")]
pub(super) fn optional<T>(
    cursor: Option<&str>,
    read: impl FnOnce(&str) -> Option<T>,
) -> Option<Option<T>> {
    match cursor {
        None => Some(None),
        Some(cursor) => read(cursor).map(Some),
    }
}

/// Whether a head passes a filter.
pub(super) fn matches(filter: &RunFilter, head: &Head) -> bool {
    filter.session.as_ref().is_none_or(|session| *session == head.session)
        && filter.owner.as_ref().is_none_or(|owner| *owner == head.owner)
        && filter.workflow.as_ref().is_none_or(|workflow| *workflow == head.workflow)
        && filter.status.as_ref().is_none_or(|status| status == head.status.word())
}
