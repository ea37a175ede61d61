//! Desk marks: what stands for a desk in a database, and where a run's row says on which it lies. It reads and writes
//! nothing.

use sha2::{Digest as _, Sha256};

use crate::ports::{Desk, Head};

/// How much of a name's hash stands for a desk: of two that share it each is shown the other's, and admitted to none of it.
const MARK_BYTES: usize = 16;

/// What stands for a desk. No name is too long for an index, and none has a byte that a column refuses.
pub(super) fn mark(desk: &Desk) -> [u8; MARK_BYTES] {
    let hash: [u8; 32] = Sha256::digest(desk.name().as_bytes()).into();
    let mut mark = [0; MARK_BYTES];
    mark.copy_from_slice(&hash[..MARK_BYTES]);
    mark
}

/// The desks on which a run with this head lies, as its row has them: one mark after the other. None where it asks
/// nothing.
pub(super) fn of(head: &Head) -> Option<Vec<u8>> {
    let mut marks: Vec<_> = head.desks().iter().map(mark).collect();
    marks.sort_unstable();
    marks.dedup();
    (!marks.is_empty()).then(|| marks.concat())
}

/// What the rows of runs say that lies on desks.
pub(super) const SAID: &str =
    "select substr(r.desks, 1 + 16 * k.at, 16), r.deadline, r.since, r.run
    from holdpoint.runs r cross join lateral generate_series(0, length(r.desks) / 16 - 1) as k (at)
    where r.desks is not null";

/// Puts all of that where there is none of it yet.
pub(super) fn laying_out() -> String {
    format!("insert into holdpoint.desks (desk, deadline, since, run) {SAID}")
}

/// The same for some runs.
pub(super) fn laying_some_out() -> String {
    format!("{} and r.run = any($1)", laying_out())
}
