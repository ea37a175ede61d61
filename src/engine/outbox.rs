//! Outbox: carries what happened to listeners outside, at least once and in order, after it is
//! durable and never in its way.
//!
//! An append leaves a entry for every listener that it concerns (J8); one loop takes the due ones,
//! reads what they stand for from the journal, and hands it to the notifier. A listener that does not
//! take it is tried again, ever more rarely, and given up on some day.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::engine::cell::Hot;
use crate::engine::sharing::POLL_MS;
use crate::engine::{Engine, EngineError};
use crate::failpoint;
use crate::kernel::{Event, Millis, Refusal, Run, RunId, begin, evolve, replay};
use crate::ports::{Delivery, HookRow, OutboxEntry, Settlement, Undelivered};

/// What a run that is over owes to the agents that still work for it.
const RELEASE: &str = "release";
/// What a hook's channel begins with.
const PUSH: &str = "push:";
/// Deliveries at once: each is a connection.
const CARRY_AT_ONCE: usize = 32;
/// Entries looked at in one go: more than are carried at once, so that slow listeners do not hide
/// the others.
const LOOK_AT: usize = 1_024;
/// The pause after a store fault, so that a broken disk is not asked in a tight loop.
const FAULT_PAUSE_MS: u64 = 1_000;
/// How long a listener may take; the protocol says 10 to 30 seconds.
const CARRY_TIMEOUT: Duration = Duration::from_secs(15);
/// The pause after the first failure; doubles with every further one.
const BACKOFF_MS: u64 = 1_000;
/// The longest pause: a listener that comes back hears of it within the hour.
const BACKOFF_MS_MAX: u64 = 3_600_000;
/// Tries before a listener is given up on: three days, most of them an hour apart.
const TRIES_MAX: u32 = 84;

/// What the loop knows of the outbox.
#[derive(Debug)]
pub(super) struct Outbox {
    /// The time the loop sleeps until; an earlier entry wakes it.
    alarm: std::sync::atomic::AtomicU64,
    moved: tokio::sync::Notify,
    under_way: Mutex<HashSet<(RunId, String)>>,
    permits: Arc<Semaphore>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            alarm: u64::MAX.into(),
            moved: tokio::sync::Notify::new(),
            under_way: Mutex::default(),
            permits: Arc::new(Semaphore::new(CARRY_AT_ONCE)),
        }
    }
}

impl Outbox {
    /// Wakes the loop: something is due.
    pub(super) fn wake(&self, at: Millis) {
        if self.alarm.fetch_min(at.0, Ordering::AcqRel) > at.0 {
            self.moved.notify_one();
        }
    }

    /// Takes a entry on, unless it is being carried.
    fn take(&self, outbox_entry: &OutboxEntry) -> bool {
        let place = (outbox_entry.run.clone(), outbox_entry.channel.clone());
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).insert(place)
    }

    fn put_down(&self, outbox_entry: &OutboxEntry) {
        let place = (outbox_entry.run.clone(), outbox_entry.channel.clone());
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
    }
}

impl Engine {
    /// The listeners that a batch of events is for.
    pub(super) fn channels(&self, hot: &Hot, events: &[Arc<Event>]) -> Vec<String> {
        let notifier = &self.inner.notifier;
        let name = &hot.run.workflow.name;
        let concerns =
            |channel: &str| events.iter().any(|event| notifier.carries(channel, name, event));
        let pushed = hot.hooks.iter().map(|row| format!("{PUSH}{}", row.hook.id));
        let mut channels: Vec<_> = notifier.channels().iter().cloned().chain(pushed).collect();
        channels.retain(|channel| concerns(channel));
        if !hot.run.abandoned.is_empty() {
            channels.push(RELEASE.into());
        }
        channels
    }

    /// Carries due entries until the engine stops.
    pub async fn run_outbox(&self) {
        let stop = self.inner.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.carry_for_ever() => {}
        }
    }

    async fn carry_for_ever(&self) {
        let outbox = &self.inner.outbox;
        loop {
            // Set before looking, so that a entry that comes meanwhile is not overlooked.
            outbox.alarm.store(u64::MAX, Ordering::Release);
            match self.carry_due().await {
                Ok(next) => {
                    outbox.alarm.fetch_min(next.map_or(u64::MAX, |at| at.0), Ordering::AcqRel);
                }
                Err(error) => {
                    if self.is_news(&error) {
                        tracing::error!(%error, "what is due in the outbox could not be listed");
                    }
                    self.inner.clock.pause(FAULT_PAUSE_MS).await;
                    continue;
                }
            }
            let alarm = Millis(outbox.alarm.load(Ordering::Acquire));
            tokio::select! {
                biased;
                () = self.inner.clock.sleep_until(alarm) => {}
                // What others leave to be carried is seen, too.
                () = self.inner.clock.pause(POLL_MS), if self.is_shared() => {}
                () = outbox.moved.notified() => {}
            }
        }
    }

    /// Sets every due entry going that is not yet, and says when the next is due.
    async fn carry_due(&self) -> Result<Option<Millis>, EngineError> {
        if self.is_draining() || self.is_rewound() {
            return Ok(None);
        }
        let now = self.inner.clock.now();
        let due = match self.replicas() {
            // No more than are carried at once: what is taken and waits here could be carried by others.
            Some(replicas) => {
                let most = self.inner.outbox.permits.available_permits();
                replicas.take_outbox_entries(now, most).await?
            }
            None => self.inner.journal.outbox_entries(now, LOOK_AT).await?,
        };
        for outbox_entry in due {
            let is_ours = self.drives(&outbox_entry.run)
                && self.inner.notifier.reaches(&outbox_entry.channel);
            if !is_ours || !self.inner.outbox.take(&outbox_entry) {
                continue;
            }
            let engine = self.clone();
            self.inner.tasks.spawn(async move {
                let stop = engine.inner.stop.clone();
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = engine.carry(&outbox_entry) => {}
                }
                engine.inner.outbox.put_down(&outbox_entry);
                engine.inner.outbox.wake(Millis(0));
            });
        }
        // What is due and under way wakes the loop when it is done.
        let next = self.inner.journal.next_outbox_entry().await?;
        Ok(next.filter(|at| *at > now))
    }

    async fn carry(&self, outbox_entry: &OutboxEntry) {
        let Ok(_permit) = Arc::clone(&self.inner.outbox.permits).acquire_owned().await else {
            return;
        };
        let outcome = match self.carried(outbox_entry).await {
            Ok(outcome) => outcome,
            Err(EngineError::Refused(Refusal::UnknownRun(_))) => Settlement::Dropped,
            Err(error) => self.later(outbox_entry, outbox_entry.after, &error.to_string()),
        };
        failpoint::hit("outbox.before_settle");
        match &outcome {
            Settlement::Delivered { .. } => {
                metrics::counter!("holdpoint_deliveries_total", "outcome" => "delivered")
                    .increment(1);
            }
            Settlement::Later { problem, .. } => {
                metrics::counter!("holdpoint_deliveries_total", "outcome" => "failed").increment(1);
                tracing::debug!(run.id = %outbox_entry.run, channel = outbox_entry.channel, problem, "not delivered");
            }
            Settlement::Dropped => {
                metrics::counter!("holdpoint_deliveries_total", "outcome" => "dropped")
                    .increment(1);
                tracing::warn!(run.id = %outbox_entry.run, channel = outbox_entry.channel, tries = outbox_entry.tries, problem = outbox_entry.problem, "given up on a listener");
            }
        }
        if let Err(error) =
            self.inner.journal.settle(&outbox_entry.run, &outbox_entry.channel, outcome).await
        {
            tracing::error!(run.id = %outbox_entry.run, channel = outbox_entry.channel, %error, "a delivery could not be settled");
        }
    }

    /// Carries what a entry stands for, as far as it is taken.
    async fn carried(&self, outbox_entry: &OutboxEntry) -> Result<Settlement, EngineError> {
        // Whoever holds the cell has its append behind it: nothing is told before it is durable.
        let cell = self.inner.cells.get(&outbox_entry.run);
        drop(self.read(&cell).await?);
        if outbox_entry.channel == RELEASE {
            return self.release(outbox_entry).await;
        }
        let hook = match outbox_entry.channel.strip_prefix(PUSH) {
            None => None,
            Some(id) => {
                let hooks = self.inner.journal.hooks(&outbox_entry.run).await?;
                let Some(row) = hooks.into_iter().find(|row| row.hook.id == id) else {
                    return Ok(Settlement::Dropped);
                };
                Some(row)
            }
        };
        let events = self.read_all(&outbox_entry.run, outbox_entry.tip).await?;
        let mut run: Option<Run> = None;
        let mut after = outbox_entry.after;
        for recorded in &events {
            match (&mut run, &recorded.event) {
                (Some(run), event) => evolve(run, event, recorded.at)?,
                (none, Event::Started(started)) => {
                    let journal = &*self.inner.journal;
                    let workflow = self.inner.library.kept(journal, &started.definition).await?;
                    let mut begun = begin(outbox_entry.run.clone(), workflow, started, recorded.at);
                    let head = journal.head(&outbox_entry.run).await?;
                    if let Some(head) = head {
                        begun.veil.join(&head.veil);
                    }
                    *none = Some(begun);
                }
                (None, _) => {}
            }
            let Some(run) = &run else { continue };
            let is_wanted = self.inner.notifier.carries(
                &outbox_entry.channel,
                &run.workflow.name,
                &recorded.event,
            );
            if recorded.version <= outbox_entry.after || !is_wanted {
                continue;
            }
            match self.handed_over(outbox_entry, hook.as_ref(), run, recorded).await {
                Ok(()) => after = recorded.version,
                Err(no) if no.is_final => {
                    tracing::warn!(run.id = %outbox_entry.run, channel = outbox_entry.channel, problem = no.problem, "a listener cannot be told");
                    return Ok(Settlement::Dropped);
                }
                Err(no) => return Ok(self.later(outbox_entry, after, &no.problem)),
            }
        }
        Ok(Settlement::Delivered { up_to: outbox_entry.tip })
    }

    async fn handed_over(
        &self,
        outbox_entry: &OutboxEntry,
        hook: Option<&HookRow>,
        run: &Run,
        recorded: &crate::kernel::Recorded,
    ) -> Result<(), Undelivered> {
        // Listeners are told what onlookers are.
        let veiled = (!run.veil.is_nothing()).then(|| {
            let mut seen = run.clone();
            run.veil.over(&mut seen);
            (seen, run.veil.event(recorded.event.clone()))
        });
        let (run, event) =
            veiled.as_ref().map_or((run, &recorded.event), |(run, event)| (run, event));
        let carrying = self.inner.notifier.carry(Delivery {
            channel: &outbox_entry.channel,
            hook,
            run,
            version: recorded.version,
            at: recorded.at,
            event,
        });
        tokio::time::timeout(CARRY_TIMEOUT, carrying).await.unwrap_or_else(|_| {
            Err(Undelivered { problem: "it does not answer in time".into(), is_final: false })
        })
    }

    /// Tells the agents that still work for a run that it is over.
    async fn release(&self, outbox_entry: &OutboxEntry) -> Result<Settlement, EngineError> {
        let events = self.read_all(&outbox_entry.run, outbox_entry.tip).await?;
        let Some(Event::Started(started)) = events.first().map(|first| &first.event) else {
            return Ok(Settlement::Dropped);
        };
        let workflow = self.inner.library.kept(&*self.inner.journal, &started.definition).await?;
        let run = replay(&outbox_entry.run, workflow, &events)?;
        for (agent, memo) in &run.abandoned {
            if let Err(problem) = self.inner.agents.release(&run.workflow, agent, memo).await {
                return Ok(self.later(outbox_entry, outbox_entry.after, &problem));
            }
        }
        Ok(Settlement::Delivered { up_to: outbox_entry.tip })
    }

    /// When a delivery that failed is tried again, if it is.
    fn later(&self, outbox_entry: &OutboxEntry, after: u64, problem: &str) -> Settlement {
        let tries = if after > outbox_entry.after { 0 } else { outbox_entry.tries };
        if tries + 1 >= TRIES_MAX {
            return Settlement::Dropped;
        }
        let pause = BACKOFF_MS.saturating_mul(1 << tries.min(20)).min(BACKOFF_MS_MAX);
        let due = self.inner.clock.now().plus(pause);
        Settlement::Later { after, due, problem: problem.chars().take(200).collect() }
    }
}
