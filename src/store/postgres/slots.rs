//! Slots: how many connections to one host a process has at most, those among them that it has given up. A statement that
//! takes too long is given up with its connection, and the database goes on with it: a commit that waits for a standby
//! waits for as long as that is missing. Counted until they have ended, they never take what others need to connect.
//!
//! Such a statement is not cancelled: a commit that waits for a standby is acknowledged then, and read by others, while
//! no standby has it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections to one host: those that are lent (8), one that appends, one that listens, one that looks, and some that end.
pub(super) const AT_MOST: usize = 16;
/// One of them is for asking what holds up the others.
const ASIDE: usize = 1;
/// How long is waited for one that ends.
const WAIT: Duration = Duration::from_secs(1);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Whatever is to be done.
    Work,
    /// To ask what holds that up.
    Aside,
}

/// The places of each host, in the order in which an address names them. Each has its own: what a host that hangs does not
/// answer is in nobody's way at the one that took its place.
#[derive(Debug, Clone)]
pub(super) struct Slots(Arc<[Places]>);

#[derive(Debug)]
struct Places {
    work: Arc<Semaphore>,
    aside: Arc<Semaphore>,
}

/// A place, for as long as a connection lives.
pub(super) type Slot = OwnedSemaphorePermit;

impl Slots {
    pub(super) fn of(hosts: usize) -> Self {
        let places = (0..hosts).map(|_| Places {
            work: Arc::new(Semaphore::new(AT_MOST - ASIDE)),
            aside: Arc::new(Semaphore::new(ASIDE)),
        });
        Self(places.collect())
    }

    /// A place at a host; none while all of them are taken.
    pub(super) async fn take(&self, host: usize, purpose: Purpose) -> Option<Slot> {
        self.take_within(WAIT, host, purpose).await
    }

    async fn take_within(&self, wait: Duration, host: usize, purpose: Purpose) -> Option<Slot> {
        let places = self.0.get(host)?;
        let places = match purpose {
            Purpose::Work => Arc::clone(&places.work),
            Purpose::Aside => Arc::clone(&places.aside),
        };
        tokio::time::timeout(wait, places.acquire_owned()).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_host_that_answers_nothing_gets_no_more_connections_and_another_does() {
        let slots = Slots::of(2);
        let now = async |host, purpose| slots.take_within(Duration::ZERO, host, purpose).await;
        let mut taken = Vec::new();
        for _ in 0..AT_MOST - ASIDE {
            taken.push(now(0, Purpose::Work).await.expect("there is one"));
        }
        assert!(now(0, Purpose::Work).await.is_none(), "none has ended");
        let aside = now(0, Purpose::Aside).await;
        assert!(aside.is_some(), "it can be asked why");
        assert!(now(0, Purpose::Aside).await.is_none(), "once");
        assert!(now(1, Purpose::Work).await.is_some(), "another host's");
        drop(taken.pop());
        assert!(now(0, Purpose::Work).await.is_some(), "one has ended");
        assert!(now(2, Purpose::Work).await.is_none(), "nobody named it");
    }
}
