//! Invariants: what must hold of our own state where it crosses a boundary, in release too. A broken one is a bug
//! of ours, and ends the thread before anything wrong is written, which fails the store (E7). Never for what a
//! disk says: that is told as damage, and is no panic (J6).

/// Panics unless the law holds.
#[track_caller]
pub(super) fn holds(is_so: bool, law: &str) {
    assert!(is_so, "{law}");
}
