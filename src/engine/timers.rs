//! Timers: one loop that wakes runs whose clock is due. The store knows the times; memory only
//! knows the soonest.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use crate::engine::aside::Put;
use crate::engine::drive::Extras;
use crate::engine::sharing::POLL_MS;
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
            biased;
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
                    if self.is_news(&error) {
                        tracing::error!(%error, "due runs could not be listed");
                    }
                    self.inner.clock.pause(FAULT_PAUSE_MS).await;
                    continue;
                }
            }
            let alarm = Millis(self.inner.alarm.load(Ordering::Acquire));
            tokio::select! {
                biased;
                () = self.inner.clock.sleep_until(alarm) => {}
                // Others set clocks, too.
                () = self.inner.clock.pause(POLL_MS), if self.is_shared() => {}
                () = self.inner.alarm_moved.notified() => {}
            }
        }
    }

    /// Whether clocks are heeded: they stand still while everything is halted, and what may be another's past waits.
    pub(super) fn is_time_heeded(&self) -> bool {
        let knows_time = self.inner.clock.is_set();
        knows_time && !self.is_draining() && !self.is_rewound() && self.halts().of_all().is_none()
    }

    /// Wakes everything that is due, and says when the next is. A run that fails is set aside: it must
    /// not stop the others.
    async fn wake_due(&self) -> Result<Option<Millis>, EngineError> {
        loop {
            if !self.is_time_heeded() {
                return Ok(None);
            }
            let (held, ripe, again) = self.inner.aside.look(self.inner.clock.now());
            let (mut due, next) = match self.reach() {
                Reach::Everything => self.due(&held).await?,
                Reach::Own | Reach::Nothing => self.own_due(&held).await?,
            };
            due.extend(ripe.into_iter().take(WAKE_AT_ONCE));
            if due.is_empty() {
                return Ok(next.into_iter().chain(again).min());
            }
            due.sort_unstable();
            due.dedup();
            let woken = due.iter().map(|run| self.wake(run));
            for (run, outcome) in due.iter().zip(futures::future::join_all(woken).await) {
                match outcome {
                    Ok(()) => self.inner.aside.take_back(run),
                    Err(EngineError::Draining) => return Ok(None),
                    // It is looked at again once that is taken back.
                    Err(EngineError::Refused(Refusal::Halted { .. })) => {
                        self.inner.aside.put(run, self.inner.clock.now());
                    }
                    Err(error) => self.set_aside(run, error)?,
                }
            }
        }
    }

    /// Lets a run that failed wait a while; somebody is told once an hour.
    pub(super) fn set_aside(&self, run: &RunId, error: EngineError) -> Result<(), EngineError> {
        match self.inner.aside.put(run, self.inner.clock.now()) {
            Put::Tell => {
                tracing::error!(run.id = %run, %error, "run does not move; it is tried again");
            }
            Put::Known => tracing::debug!(run.id = %run, %error, "run still does not move"),
            Put::Full => return Err(error),
        }
        Ok(())
    }

    /// The runs that are due and not set aside, soonest first; where none is, when the next will be.
    async fn due(
        &self,
        held: &HashSet<RunId>,
    ) -> Result<(Vec<RunId>, Option<Millis>), EngineError> {
        let (journal, now) = (&self.inner.journal, self.inner.clock.now());
        if self.is_shared() {
            // What is another's to wake is left to it for a while.
            let most = held.len() + WAKE_AT_ONCE;
            let mut due = journal.due(now, most).await?;
            due.retain(|(at, run)| !held.contains(run) && self.is_ours(run.as_str(), *at));
            return Ok((due.into_iter().map(|(_, run)| run).collect(), None));
        }
        if held.is_empty() {
            let due = journal.due(now, WAKE_AT_ONCE).await?;
            let next = if due.is_empty() { journal.next_due().await? } else { None };
            return Ok((due.into_iter().map(|(_, run)| run).collect(), next));
        }
        // Those that are set aside may be first in the store's list: it is read past them.
        let most = held.len() + WAKE_AT_ONCE;
        let mut rows = journal.due(Millis(u64::MAX), most).await?;
        rows.retain(|(_, run)| !held.contains(run));
        let next = rows.iter().map(|(at, _)| *at).find(|at| *at > now);
        let due = rows.into_iter().filter(|(at, _)| *at <= now).map(|(_, run)| run);
        Ok((due.collect(), next))
    }

    /// The same, of the runs that commands were given to here: they are few, and the store's list may
    /// begin with any number of others.
    async fn own_due(
        &self,
        held: &HashSet<RunId>,
    ) -> Result<(Vec<RunId>, Option<Millis>), EngineError> {
        let (now, mut due, mut next) = (self.inner.clock.now(), Vec::new(), None);
        let own = self.inner.domain.own();
        for run in own.into_iter().filter(|run| !held.contains(run)) {
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
