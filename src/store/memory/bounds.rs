//! Bounds: where listings of maps begin and end, and how a row comes into an index or leaves it.

use std::collections::BTreeSet;
use std::ops::Bound;

/// Puts a row into an index, or takes it out.
pub(super) fn set<T: Ord>(index: &mut BTreeSet<T>, place: T, present: bool) {
    if present {
        index.insert(place);
    } else {
        index.remove(&place);
    }
}

/// Everything before the cursor's row in a listing that goes downwards.
pub(super) fn below<T: Ord>(cursor: Option<T>) -> (Bound<T>, Bound<T>) {
    (Bound::Unbounded, cursor.map_or(Bound::Unbounded, Bound::Excluded))
}

/// Everything after it in one that goes upwards.
pub(super) fn above<T: Ord>(cursor: Option<T>) -> (Bound<T>, Bound<T>) {
    (cursor.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}
