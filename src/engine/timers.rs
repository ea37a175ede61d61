//! Timers: one loop that wakes runs whose clock is due. The store knows the times; memory only
//! knows the soonest.

use std::sync::atomic::Ordering;

use crate::engine::drive::Extras;
use crate::engine::{Engine, EngineError, Reach};
use crate::kernel::{Command, Millis, Refusal, RunId};

/// Runs woken at a time, so that a thousand deadlines at once do not become a thousand loads.
const WAKE_AT_ONCE: usize = 64;
/// The pause after a store fault, so that a broken disk is not asked in a tight loop.
const FAULT_PAUSE_MS: u64 = 1_000;

impl Engine {
    /// Makes sure that the loop wakes no later than `at`.
    pub(super) fn wake_at(&self, at: Millis) {
        if self.inner.alarm.fetch_min(at.0, Ordering::AcqRel) > at.0 {
            self.inner.alarm_moved.notify_one();
        }
    }

    /// Wakes due runs until the engine stops.
    pub async fn run_timers(&self) {
        let stop = self.inner.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.wake_for_ever() => {}
        }
    }

    async fn wake_for_ever(&self) {
        loop {
            // Set before looking, so that a deadline that comes meanwhile is not overlooked.
            self.inner.alarm.store(u64::MAX, Ordering::Release);
            match self.wake_due().await {
                Ok(next) => {
                    let next = next.map_or(u64::MAX, |at| at.0);
                    self.inner.alarm.fetch_min(next, Ordering::AcqRel);
                }
                Err(error) => {
                    tracing::error!(%error, "due runs could not be listed");
                    let now = self.inner.clock.now();
                    self.inner.clock.sleep_until(now.plus(FAULT_PAUSE_MS)).await;
                    continue;
                }
            }
            let alarm = Millis(self.inner.alarm.load(Ordering::Acquire));
            tokio::select! {
                () = self.inner.clock.sleep_until(alarm) => {}
                () = self.inner.alarm_moved.notified() => {}
            }
        }
    }

    /// Wakes everything that is due, and says when the next is.
    async fn wake_due(&self) -> Result<Option<Millis>, EngineError> {
        loop {
            let (due, next) = match self.reach() {
                Reach::Everything => self.due().await?,
                Reach::Own | Reach::Nothing => self.own_due().await?,
            };
            if due.is_empty() {
                return Ok(next);
            }
            let woken = due.iter().map(|run| self.wake(run));
            for outcome in futures::future::join_all(woken).await {
                outcome?;
            }
        }
    }

    /// The runs that are due, soonest first; where none is, when the next will be.
    async fn due(&self) -> Result<(Vec<RunId>, Option<Millis>), EngineError> {
        let due = self.inner.journal.due(self.inner.clock.now(), WAKE_AT_ONCE).await?;
        if due.is_empty() {
            return Ok((Vec::new(), self.inner.journal.next_due().await?));
        }
        Ok((due.into_iter().map(|(_, run)| run).collect(), None))
    }

    /// The same, of the runs that commands were given to here: they are few, and the store's list may
    /// begin with any number of others.
    async fn own_due(&self) -> Result<(Vec<RunId>, Option<Millis>), EngineError> {
        let (now, mut due, mut next) = (self.inner.clock.now(), Vec::new(), None);
        for run in self.inner.domain.own() {
            let head = self.inner.journal.head(&run).await?;
            match head.and_then(|head| head.wake_at) {
                Some(at) if at <= now => due.push(run),
                Some(at) => next = Some(next.map_or(at, |soonest: Millis| soonest.min(at))),
                None => {}
            }
        }
        Ok((due, next))
    }

    async fn wake(&self, run: &RunId) -> Result<(), EngineError> {
        let cell = self.inner.cells.get(run);
        match self.submit(&cell, Command::Tick, Extras::default()).await {
            // Unknown: pruned meanwhile, so nothing is due any more.
            Ok(_) | Err(EngineError::Refused(Refusal::UnknownRun(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
