//! A clock that stands still until a test moves it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use holdpoint::kernel::Millis;
use holdpoint::ports::Clock;
use tokio::sync::{Notify, watch};

#[derive(Debug)]
pub(crate) struct SimClock {
    now: AtomicU64,
    /// Sleepers are woken in the order in which they lay down: a simulation can be played again.
    moved: Notify,
    drawn: AtomicU64,
    /// Times that somebody sleeps until: a test waits for a sleeper instead of sleeping itself.
    sleepers: Mutex<watch::Sender<Vec<u64>>>,
}

impl Default for SimClock {
    fn default() -> Self {
        Self {
            now: AtomicU64::new(1_000_000),
            moved: Notify::new(),
            drawn: AtomicU64::new(0),
            sleepers: Mutex::new(watch::channel(Vec::new()).0),
        }
    }
}

impl SimClock {
    /// Moves the time on.
    pub(crate) fn advance(&self, ms: u64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
        self.moved.notify_waiters();
    }

    /// Returns when somebody sleeps until exactly `at`.
    pub(crate) async fn sleeper_until(&self, at: u64) {
        let mut sleepers = self.sleepers.lock().unwrap().subscribe();
        sleepers.wait_for(|known| known.contains(&at)).await.unwrap();
    }
}

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Millis {
        Millis(self.now.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, at: Millis) {
        self.sleepers.lock().unwrap().send_modify(|known| known.push(at.0));
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            moved.as_mut().enable();
            if self.now() >= at {
                return;
            }
            moved.await;
        }
    }

    fn fresh_stem(&self) -> String {
        format!("{:026}", self.drawn.fetch_add(1, Ordering::SeqCst))
    }
}
