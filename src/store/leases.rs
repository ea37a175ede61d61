//! Leases: who may drive which run, for the stores that live in one process. In memory only: a
//! restart ends them all, and the epoch, which the store keeps, makes every later fence higher.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::kernel::{Millis, RunId};
use crate::ports::{Fence, Lease};

/// The leases that are held.
#[derive(Debug)]
pub(super) struct Leases {
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    last: Fence,
    /// The first fence of the next life; none of this one reaches it.
    end: Fence,
    by_run: HashMap<RunId, (String, Lease)>,
}

impl Leases {
    /// No leases; fences begin above `epoch << 32`, so that four billion claims of this life stay
    /// below the first of the next.
    pub(super) fn new(epoch: u64) -> Self {
        let (last, end) = (epoch << 32, (epoch + 1) << 32);
        Self { held: Mutex::new(Held { last, end, by_run: HashMap::new() }) }
    }

    /// Takes the right to drive a run, unless another holder's lease still holds.
    pub(super) fn claim(
        &self,
        run: &RunId,
        holder: &str,
        now: Millis,
        ttl_ms: u64,
    ) -> Option<Lease> {
        let mut held = self.lock();
        if let Some((other, lease)) = held.by_run.get(run)
            && other != holder
            && lease.until > now
        {
            return None;
        }
        held.last += 1;
        assert!(held.last < held.end, "J4: no fence of this life reaches those of the next");
        let lease = Lease { run: run.clone(), fence: held.last, until: now.plus(ttl_ms) };
        held.by_run.insert(run.clone(), (holder.to_owned(), lease.clone()));
        Some(lease)
    }

    /// Gives a lease back; one that was superseded is ignored.
    pub(super) fn release(&self, lease: &Lease) {
        let mut held = self.lock();
        if held.by_run.get(&lease.run).is_some_and(|(_, known)| known.fence == lease.fence) {
            held.by_run.remove(&lease.run);
        }
    }

    /// J4: whether a writer with this fence may write. Only the latest claim may, and only until it
    /// is given back: so nothing need be remembered of a lease that has ended.
    pub(super) fn admits(&self, run: &RunId, fence: Option<Fence>) -> bool {
        let Some(fence) = fence else { return true };
        self.lock().by_run.get(run).is_some_and(|(_, lease)| lease.fence == fence)
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
    fn j4_only_the_latest_claim_writes_and_only_until_it_is_given_back() {
        let leases = Leases::new(1);
        let run = RunId::fresh("01k9zq3v7m8n4p5r6s7t8v9w0x");
        let first = leases.claim(&run, "a", Millis(0), 10).expect("free");
        assert!(first.fence > 1 << 32);
        assert_eq!(leases.claim(&run, "b", Millis(9), 10), None);
        assert!(leases.admits(&run, Some(first.fence)));
        let second = leases.claim(&run, "b", Millis(10), 10).expect("the first has run out");
        assert!(second.fence > first.fence);
        assert!(!leases.admits(&run, Some(first.fence)));
        leases.release(&first);
        assert!(leases.admits(&run, Some(second.fence)));
        leases.release(&second);
        assert!(!leases.admits(&run, Some(first.fence)));
        assert!(!leases.admits(&run, Some(second.fence)));
        assert!(leases.admits(&run, None));
    }
}
