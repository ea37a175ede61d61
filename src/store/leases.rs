//! Leases: who may drive which run, for a store that one process writes to. In memory only: a restart ends them
//! all, and the epoch, which the store keeps, makes every later fence higher.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::kernel::RunId;
use crate::ports::{AppendError, Fence, Hold, Incarnation};

/// The runs that are held.
#[derive(Debug)]
pub(super) struct Leases {
    me: Incarnation,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    last: Fence,
    /// The first fence of the next life; none of this one reaches it.
    end: Fence,
    by_run: HashMap<RunId, Fence>,
}

impl Leases {
    /// Nothing is held; fences begin above `epoch << 32`, so that four billion claims of this life stay
    /// below the first of the next.
    pub(super) fn new(epoch: u64) -> Self {
        let (last, end) = (epoch << 32, (epoch + 1) << 32);
        let held = Mutex::new(Held { last, end, by_run: HashMap::new() });
        Self { me: Incarnation(epoch), held }
    }

    /// The life in which this process writes.
    pub(super) fn me(&self) -> Incarnation {
        self.me
    }

    /// The fence of a run that is held; 0 where it is not.
    pub(super) fn fence_of(&self, run: &RunId) -> Fence {
        self.lock().by_run.get(run).copied().unwrap_or(0)
    }

    /// J4, J12: whether a writer with this fence may write, and have done with the right to drive the run what it
    /// wants. Only the latest claim may, and only until it is left: so nothing need be remembered of one that ended.
    pub(super) fn admits(
        &self,
        run: &RunId,
        fence: Option<Fence>,
        hold: Hold,
    ) -> Result<(), AppendError> {
        let from = match (fence, hold) {
            (None, Hold::Keep | Hold::Leave) => return Ok(()),
            (Some(_), Hold::Keep | Hold::Leave) => None,
            (_, Hold::Take { from }) => from,
        };
        let known = self.lock().by_run.get(run).copied();
        if fence.is_some() && fence != known {
            return Err(AppendError::Superseded);
        }
        // Nobody displaces itself; and there is nobody else here.
        let by = known.map(|_| self.me);
        if from.is_some() && from != by {
            return Err(AppendError::Held { by });
        }
        Ok(())
    }

    /// Does with the right to drive a run what was admitted; the new fence, where it was taken.
    pub(super) fn change(&self, run: &RunId, hold: Hold) -> Option<Fence> {
        match hold {
            Hold::Keep => None,
            Hold::Take { .. } => {
                let mut held = self.lock();
                held.last += 1;
                assert!(
                    held.last < held.end,
                    "J4: no fence of this life reaches those of the next"
                );
                let fence = held.last;
                held.by_run.insert(run.clone(), fence);
                Some(fence)
            }
            Hold::Leave => {
                self.lock().by_run.remove(run);
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // Nothing in here panics half-way through a change.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j4_only_the_latest_claim_writes_and_only_until_it_is_left() {
        let leases = Leases::new(1);
        let run = RunId::fresh("01k9zq3v7m8n4p5r6s7t8v9w0x");
        let admits = |fence, hold| leases.admits(&run, fence, hold).is_ok();
        let take = Hold::Take { from: None };
        let first = leases.change(&run, take).expect("free");
        assert!(first > 1 << 32);
        assert!(admits(Some(first), Hold::Keep) && admits(None, Hold::Keep));
        let second = leases.change(&run, take).expect("its own");
        assert!(second > first);
        assert!(!admits(Some(first), Hold::Keep) && admits(Some(second), Hold::Leave));
        leases.change(&run, Hold::Leave);
        assert!(!admits(Some(first), Hold::Keep) && !admits(Some(second), Hold::Keep));
        assert!(admits(None, Hold::Keep) && leases.fence_of(&run) == 0);
    }

    #[test]
    fn j12_whoever_takes_a_run_from_somebody_names_them() {
        let leases = Leases::new(3);
        let run = RunId::fresh("01k9zq3v7m8n4p5r6s7t8v9w0x");
        let from =
            |life: u64| leases.admits(&run, None, Hold::Take { from: Some(Incarnation(life)) });
        assert!(matches!(from(2), Err(AppendError::Held { by: None })));
        leases.change(&run, Hold::Take { from: None });
        assert!(matches!(from(2), Err(AppendError::Held { by: Some(Incarnation(3)) })));
        assert!(from(3).is_ok());
    }
}
