//! Pagination: how a listing is cut into pages, whatever is listed and whatever stores it.

use crate::ports::{Cursor, Fault, Page};

/// Rows looked at for one page: a filter that matches little must not hold a reader for seconds.
pub(super) const VISITS_MAX: usize = 10_000;

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
pub(super) fn cursor<T>(
    cursor: Option<&str>,
    read: impl FnOnce(&str) -> Option<T>,
) -> Option<Option<T>> {
    match cursor {
        None => Some(None),
        Some(cursor) => read(cursor).map(Some),
    }
}
