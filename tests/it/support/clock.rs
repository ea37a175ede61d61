//! A clock that stands still until a test moves it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use holdpoint::kernel::Millis;
use holdpoint::ports::Clock;
use tokio::sync::{Notify, oneshot};

#[derive(Debug)]
pub(crate) struct SimClock {
    now: AtomicU64,
    drawn: AtomicU64,
    /// Until when each sleeps, in the order in which they lay down, and are woken: a simulation can be played again.
    /// Only those whose time has come are woken.
    sleepers: Mutex<Vec<(u64, oneshot::Sender<()>)>>,
    /// Somebody lay down: a test waits for a sleeper instead of sleeping itself.
    laid: Notify,
}

impl Default for SimClock {
    fn default() -> Self {
        Self {
            now: AtomicU64::new(1_000_000),
            drawn: AtomicU64::new(0),
            sleepers: Mutex::default(),
            laid: Notify::new(),
        }
    }
}

impl SimClock {
    /// Moves the time on.
    pub(crate) fn advance(&self, ms: u64) {
        let now = self.now.fetch_add(ms, Ordering::SeqCst) + ms;
        let mut due = Vec::new();
        let mut sleepers = self.sleepers.lock().unwrap();
        for (at, sleeper) in std::mem::take(&mut *sleepers) {
            match at <= now {
                true => due.push(sleeper),
                false if sleeper.is_closed() => {}
                false => sleepers.push((at, sleeper)),
            }
        }
        drop(sleepers);
        for sleeper in due {
            sleeper.send(()).unwrap_or_default();
        }
    }

    /// Returns when somebody sleeps until exactly `at`.
    pub(crate) async fn sleeper_until(&self, at: u64) {
        loop {
            let mut laid = std::pin::pin!(self.laid.notified());
            laid.as_mut().enable();
            if self.sleepers.lock().unwrap().iter().any(|(until, _)| *until == at) {
                return;
            }
            laid.await;
        }
    }
}

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Millis {
        Millis(self.now.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, at: Millis) {
        let woken = {
            let mut sleepers = self.sleepers.lock().unwrap();
            if self.now() >= at {
                return;
            }
            let (sleeper, woken) = oneshot::channel();
            sleepers.push((at.0, sleeper));
            woken
        };
        self.laid.notify_waiters();
        drop(woken.await);
    }

    fn fresh_stem(&self) -> String {
        format!("{:026}", self.drawn.fetch_add(1, Ordering::SeqCst))
    }
}
