//! Numbers: what flags say as numbers: how many, for how long, from which event on. What is done with them is the commands'.

use crate::kernel::duration_ms;

/// How many are shown at most: none would look as if there were none.
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|it| *it > 0).ok_or_else(|| "expected a number from 1 on".into())
}

/// The number of an event, as a run's journal counts them.
pub(super) fn sequence(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "expected a number from 0 on, as `holdpoint journal` shows them".into())
}

pub(super) fn length(text: &str) -> Result<u64, String> {
    duration_ms(text).ok_or_else(|| "expected a length of time such as `30m`, `2h`, `1d`".into())
}
