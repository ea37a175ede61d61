//! Aside: runs that could not be moved on when it was their time: damaged ones, and those whose outcome a
//! full disk did not take. Each is tried again, ever more rarely, and in nobody else's way.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::kernel::{Millis, RunId};

/// The pause after the first failure; doubles with every further one.
const BACKOFF_MS: u64 = 1_000;
/// The longest pause: a disk that has room again is noticed within a minute.
const BACKOFF_MS_MAX: u64 = 60_000;
/// How often somebody is told that a run does not move: it is one problem, not one a try.
const TOLD_EVERY_MS: u64 = 3_600_000;
/// Runs set aside at most: each is looked past whenever the due ones are listed.
const ASIDE_MAX: usize = 16_384;

/// The runs that are set aside.
#[derive(Debug, Default)]
pub(super) struct Aside {
    runs: Mutex<HashMap<RunId, Setback>>,
}

#[derive(Debug)]
struct Setback {
    /// When it is tried again.
    until: Millis,
    tries: u32,
    /// When somebody was last told.
    told: Millis,
}

/// What became of a run that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It is set aside, and this is the first that is heard of it in an hour.
    Tell,
    /// It is set aside, as somebody knows.
    Known,
    /// There are too many.
    Full,
}

impl Aside {
    /// Forgets all of them: each may be tried at once.
    pub(super) fn clear(&self) {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sets a run aside that failed at `now`.
    pub(super) fn put(&self, run: &RunId, now: Millis) -> Put {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = runs.get_mut(run) {
            let pause = BACKOFF_MS.saturating_mul(1 << known.tries.min(20)).min(BACKOFF_MS_MAX);
            known.until = now.plus(pause);
            known.tries = known.tries.saturating_add(1);
            if now.0.saturating_sub(known.told.0) < TOLD_EVERY_MS {
                return Put::Known;
            }
            known.told = now;
            return Put::Tell;
        }
        if runs.len() >= ASIDE_MAX {
            return Put::Full;
        }
        let until = now.plus(BACKOFF_MS);
        runs.insert(run.clone(), Setback { until, tries: 1, told: now });
        Put::Tell
    }

    /// Forgets a run that moved on.
    pub(super) fn take_back(&self, run: &RunId) {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
    }

    /// Those that are still to wait at `now`, those that are to be tried again, and when the next is.
    pub(super) fn look(&self, now: Millis) -> (HashSet<RunId>, Vec<RunId>, Option<Millis>) {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut held, mut ripe, mut next) = (HashSet::new(), Vec::new(), None);
        for (run, setback) in &*runs {
            if setback.until <= now {
                ripe.push(run.clone());
            } else {
                held.insert(run.clone());
                next =
                    Some(next.map_or(setback.until, |soonest: Millis| soonest.min(setback.until)));
            }
        }
        (held, ripe, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_run_that_fails_again_and_again_one_error_an_hour_is_told() {
        let (aside, run) = (Aside::default(), RunId::fresh("01k9zq3v7m8n4p5r6s7t8v9w0x"));
        let mut now = Millis(1);
        let mut told = 0;
        let mut tries = 0;
        while now.0 < 2 * TOLD_EVERY_MS {
            told += usize::from(aside.put(&run, now) == Put::Tell);
            tries += 1;
            let (held, ripe, next) = aside.look(now);
            assert!(held.contains(&run) && ripe.is_empty());
            now = next.unwrap();
            assert_eq!(aside.look(now).1, std::slice::from_ref(&run));
        }
        assert_eq!(told, 2);
        assert!(tries > 100, "it is tried all the same: {tries}");
        aside.take_back(&run);
        assert_eq!(aside.put(&run, now), Put::Tell, "one that moved and fails anew is news");
    }
}
