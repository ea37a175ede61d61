//! Drive: one command, all the way: load, apply, append, publish, and set the owed work going.
//!
//! Replies that can be had at once and touch nothing are folded in before the append, so a
//! command costs one durable write; an attempt that touches the world is begun only after its
//! intent is durable (E2).

use std::sync::{Arc, LazyLock};

use tokio::sync::MutexGuard;

use crate::engine::cell::{Cell, Hot, State};
use crate::engine::rests;
use crate::engine::steadfast::{Steadfast, panicked};
use crate::engine::trace::{Scribe, at_once};
use crate::engine::{Engine, EngineError, Published};
use crate::failpoint;
use crate::kernel::{
    Command, Decision, Event, Millis, Recorded, Refusal, Run, RunId, Status, Version, apply,
    first_reply, halt, replay,
};
use crate::ports::{Append, AppendError, Fault, Head, HookRow, KeyRow, SessionRow, trace};

/// Events read from a journal at a time.
const READ_EVENTS: usize = 1024;
/// Events gathered before an append; a workflow that never waits is made durable in pieces.
const GATHER_EVENTS: usize = 256;

/// Counted with every append, and looked up once.
static EVENTS: LazyLock<metrics::Counter> =
    LazyLock::new(|| metrics::counter!("holdpoint_events_total"));

/// What goes with an append beside the events.
#[derive(Debug, Default)]
pub(super) struct Extras {
    pub(super) session: Option<SessionRow>,
    pub(super) key: Option<(String, KeyRow)>,
    pub(super) hooks: Vec<HookRow>,
}

/// Events on their way into the journal.
#[derive(Debug)]
pub(super) struct Batch {
    /// The version they follow.
    pub(super) expected: Version,
    pub(super) events: Vec<Event>,
    /// One time for all of them: a replay folds them with the record's own.
    pub(super) now: Millis,
    pub(super) extras: Extras,
}

/// What came of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    /// The command's own events begin after this version.
    pub(super) after: Version,
}

/// What a run is held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    Look,
    Drive,
}

impl Engine {
    /// A run, held, to be driven: loaded if it is not in memory, and recovered if what was under way
    /// for it was lost.
    pub(super) async fn hot<'a>(
        &self,
        cell: &'a Arc<Cell>,
    ) -> Result<MutexGuard<'a, State>, EngineError> {
        self.refuse_if_looking()?;
        self.held(cell, Aim::Drive).await
    }

    /// A run, held, to be looked at: as its journal has it. Nothing is set going (E8).
    pub(super) async fn read<'a>(
        &self,
        cell: &'a Arc<Cell>,
    ) -> Result<MutexGuard<'a, State>, EngineError> {
        self.held(cell, Aim::Look).await
    }

    async fn held<'a>(
        &self,
        cell: &'a Arc<Cell>,
        aim: Aim,
    ) -> Result<MutexGuard<'a, State>, EngineError> {
        loop {
            let state = cell.state.lock().await;
            match &*state {
                State::Hot(hot) if aim == Aim::Look || !self.is_owed_a_look(hot) => {
                    return Ok(state);
                }
                State::Hot(_) | State::Cold => drop(state),
            }
            // In a task of its own: a caller that leaves must not stop it between append and telling.
            let (engine, cell) = (self.clone(), Arc::clone(cell));
            joined(self.inner.tasks.spawn(async move { engine.warm(&cell, aim).await }).await)?;
        }
    }

    /// Whether something must be seen to before a run is driven.
    fn is_owed_a_look(&self, hot: &Hot) -> bool {
        // What is held is seen to once somebody says so.
        hot.is_adrift && !self.is_held()
            || self.is_of_before(&hot.run)
            || self.is_ruled_otherwise(&hot.run)
    }

    async fn warm(&self, cell: &Arc<Cell>, aim: Aim) -> Result<(), EngineError> {
        let mut state = cell.state.lock().await;
        if matches!(*state, State::Cold) {
            let Some(run) = self.load(cell).await? else {
                self.inner.cells.forget(&cell.id);
                return Err(Refusal::UnknownRun(cell.id.to_string()).into());
            };
            cell.loaded(&run);
            let is_adrift = run.status == Status::Running;
            let hooks = self.inner.journal.hooks(&cell.id).await?;
            let scribe = self.inner.tracer.get().map(|_| Box::new(Scribe::takes_up(&run)));
            *state =
                State::Hot(Box::new(Hot { is_adrift, hooks, scribe, ..Hot::new(Box::new(run)) }));
        }
        // A run that was moving when it was last written lost whatever was under way: its own
        // journal says what to do about that, before anything else is done with it.
        if let (Aim::Drive, State::Hot(hot)) = (aim, &mut *state) {
            if self.is_of_before(&hot.run) {
                hot.is_adrift = false;
                self.renew(cell, &mut state).await?;
            } else if hot.is_adrift && !self.is_held() {
                hot.is_adrift = false;
                self.command(cell, &mut state, &Command::Recover, Extras::default()).await?;
            }
            self.heed_policy(cell, &mut state).await?;
        }
        Ok(())
    }

    /// Reads a run back from its journal.
    async fn load(&self, cell: &Cell) -> Result<Option<Run>, EngineError> {
        let Some(head) = self.inner.journal.head(&cell.id).await? else { return Ok(None) };
        let workflow = self.inner.library.kept(&*self.inner.journal, &head.definition).await?;
        let events = self.read_all(&cell.id, head.version).await?;
        let run = replay(&cell.id, workflow, &events)?;
        metrics::counter!("holdpoint_runs_loaded_total").increment(1);
        Ok(Some(self.recalling(run).await?))
    }

    /// The whole journal up to `version`.
    pub(super) async fn read_all(
        &self,
        run: &RunId,
        version: Version,
    ) -> Result<Vec<Recorded>, EngineError> {
        let mut events: Vec<Recorded> = Vec::new();
        loop {
            let after = events.last().map_or(0, |last| last.version);
            let more = self.inner.journal.read(run, after, READ_EVENTS).await?;
            let is_last = more.is_empty();
            events.extend(more.into_iter().take_while(|recorded| recorded.version <= version));
            if is_last || events.last().is_some_and(|last| last.version >= version) {
                break;
            }
        }
        if events.last().map_or(0, |last| last.version) != version {
            let why = format!("the journal of `{run}` ends before version {version}");
            return Err(Fault::Corrupt(why).into());
        }
        Ok(events)
    }

    /// Takes a command to a run all the way: a caller that leaves changes nothing (E5).
    pub(super) async fn submit(
        &self,
        cell: &Arc<Cell>,
        command: Command,
        extras: Extras,
    ) -> Result<Done, EngineError> {
        self.refuse_if_draining()?;
        self.refuse_if_held(Some(&command))?;
        let (engine, cell) = (self.clone(), Arc::clone(cell));
        let work = async move {
            engine.heed_pulled().await?;
            let deciding = engine.deciding(&cell, &command).await?;
            let mut state = engine.hot(&cell).await?;
            engine.heed_family(&cell, &mut state, &command).await?;
            let done = engine.command(&cell, &mut state, &command, extras).await?;
            if let Some(deciding) = &deciding {
                engine.pass_on(deciding, &state);
            }
            engine.owns(&cell.id);
            Ok(done)
        };
        Steadfast::new(&self.inner.tasks, trace::within(trace::current(), work)).await
    }

    /// Applies a command to a run that is held, and makes it durable.
    pub(super) async fn command(
        &self,
        cell: &Arc<Cell>,
        state: &mut MutexGuard<'_, State>,
        command: &Command,
        extras: Extras,
    ) -> Result<Done, EngineError> {
        let State::Hot(hot) = &mut **state else { return Err(EngineError::Draining) };
        hot.run.operator = self.operator();
        self.heed_noes(hot, command).await?;
        // Held until what is decided is durable: another run of the session then sees it.
        let _purse = self.purse_for(&mut hot.run, command).await?;
        let (expected, now) = (hot.run.version, self.inner.clock.now());
        match apply(&mut hot.run, command, now) {
            Ok(Decision::Repeat { after }) => Ok(Done { after }),
            Ok(Decision::Events(events)) => {
                self.commit(cell, state, Batch { expected, events, now, extras }).await?;
                Ok(Done { after: expected })
            }
            Err(declined) => {
                let error = EngineError::from(declined);
                if matches!(error, EngineError::Corrupt(_)) {
                    tracing::error!(run.id = %cell.id, %error, "run stands still: its journal does not fold");
                    **state = State::Cold;
                }
                Err(error)
            }
        }
    }

    /// Folds in what can be had at once, appends, publishes, and sets the rest going.
    pub(super) async fn commit(
        &self,
        cell: &Arc<Cell>,
        state: &mut MutexGuard<'_, State>,
        mut batch: Batch,
    ) -> Result<(), EngineError> {
        loop {
            let State::Hot(hot) = &mut **state else { return Err(EngineError::Draining) };
            // Where nobody has looked yet, nothing is done.
            let is_held = self.is_held();
            let gathered =
                if is_held { Ok(false) } else { self.reply_at_once(&mut hot.run, &mut batch) };
            let gathered = match gathered {
                Ok(more) if !is_held => self.note_holds(hot, &mut batch).map(|()| more),
                gathered => gathered,
            };
            let outcome = match gathered {
                Ok(more) if batch.events.is_empty() => Ok(more),
                Ok(more) => self.append(cell, hot, &mut batch).await.map(|()| more),
                Err(error) => Err(error),
            };
            match outcome {
                Ok(true) => batch.now = self.inner.clock.now(),
                Ok(false) if is_held => return Ok(()),
                Ok(false) => return self.set_going(cell, hot).await,
                Err(error) => {
                    // What is in memory is ahead of what is durable: forget it, and load again.
                    **state = State::Cold;
                    return Err(error);
                }
            }
        }
    }

    /// Whether there is more to gather; stops at what takes time, or when enough is gathered.
    fn reply_at_once(&self, run: &mut Run, batch: &mut Batch) -> Result<bool, EngineError> {
        loop {
            if batch.events.len() >= GATHER_EVENTS {
                return Ok(true);
            }
            let Some((turn, attempt, input)) = first_reply(run) else { return Ok(false) };
            if halt::of_work(&run.operator.halts, run, &input.agent, None).is_some() {
                return Ok(false);
            }
            let Some(outcome) = self.inner.agents.reply_at_once(&run.workflow, &input) else {
                return Ok(false);
            };
            if let Some(tracer) = self.inner.tracer.get() {
                at_once(run, (turn, attempt, &input), &outcome, batch.now, &**tracer);
            }
            let command = match outcome {
                Ok(reply) => {
                    Command::Replied { turn, attempt, reply, summarises: input.summarises }
                }
                Err(fault) => Command::AttemptFailed { turn, attempt, fault },
            };
            match apply(run, &command, batch.now)? {
                Decision::Events(more) => batch.events.extend(more),
                Decision::Repeat { .. } => return Ok(false),
            }
        }
    }

    async fn append(
        &self,
        cell: &Cell,
        hot: &mut Hot,
        batch: &mut Batch,
    ) -> Result<(), EngineError> {
        let events: Vec<_> = batch.events.drain(..).map(Arc::new).collect();
        let extras = std::mem::take(&mut batch.extras);
        let mut sequence = batch.expected;
        let told: Vec<_> = events
            .iter()
            .map(|event| {
                sequence += 1;
                Arc::new(hot.narrator.tell(&hot.run, sequence, batch.now, Arc::clone(event)))
            })
            .collect();
        let lanes = self.lanes(hot, &events);
        let hidden = hot.run.hidden(&events, &mut || self.inner.clock.fresh_secret());
        let is_owed = !lanes.is_empty();
        let append = Append {
            run: cell.id.clone(),
            expected: batch.expected,
            fence: hot.lease.as_ref().map(|lease| lease.fence),
            at: batch.now,
            events,
            hidden: hidden.map(Box::new),
            head: Head::of(&hot.run),
            session: extras.session,
            key: extras.key,
            lanes,
            hooks: extras.hooks,
        };
        failpoint::hit("engine.before_append");
        if let Err(error) = self.inner.journal.append(append).await {
            if matches!(error, AppendError::Fault(Fault::Permanent(_))) {
                self.inner.broken.cancel();
            }
            return Err(refused(error));
        }
        failpoint::hit("engine.after_append");
        batch.expected = sequence;
        if is_owed {
            self.inner.outbox.wake(batch.now);
        }
        if let (Some(tracer), Some(scribe)) = (self.inner.tracer.get(), &mut hot.scribe) {
            scribe.take(&hot.run, &told, trace::current().as_ref(), &**tracer);
        }
        hot.narrator.rested = rests::told(&hot.run, &told, hot.narrator.rested);
        self.told(cell, hot, told);
        failpoint::hit("engine.after_publish");
        Ok(())
    }

    /// Everybody who listens hears of it now that it is durable (E1).
    fn told(&self, cell: &Cell, hot: &Hot, batch: Vec<Arc<Published>>) {
        EVENTS.increment(batch.len() as u64);
        self.tell_inbox(&hot.run, &batch);
        cell.publish(&hot.run, batch);
        self.inner.cells.weigh(&cell.id, hot.run.bytes_in_all(), hot.run.status.is_over());
        if let Some(at) = hot.run.wake_at() {
            self.wake_at(at);
        }
        match &hot.run.status {
            Status::Running | Status::Waiting { .. } => {}
            over @ (Status::Completed | Status::Failed(_) | Status::Cancelled { .. }) => {
                metrics::counter!("holdpoint_runs_over_total", "status" => over.word())
                    .increment(1);
                tracing::debug!(run.id = %cell.id, version = hot.run.version, status = over.word(), "run over");
            }
        }
    }
}

/// A race that another writer won is the world's no: the caller may try again.
fn refused(error: AppendError) -> EngineError {
    match error {
        AppendError::Moved { .. } | AppendError::Superseded => {
            Fault::Retriable("another server has moved this run on; try again".into()).into()
        }
        AppendError::SessionMoved => {
            Fault::Retriable("the session was changed meanwhile; try again".into()).into()
        }
        AppendError::SessionTaken => Refusal::UnknownSession("session_id".into()).into(),
        AppendError::KeyTaken(_) => Refusal::KeyReused("idempotency_key".into()).into(),
        AppendError::Fault(fault) => fault.into(),
    }
}

/// A task's outcome; a panic in it is our bug, and ends one command, not the process.
pub(super) fn joined<T>(
    outcome: Result<Result<T, EngineError>, tokio::task::JoinError>,
) -> Result<T, EngineError> {
    outcome.unwrap_or_else(|error| Err(panicked(&error.to_string())))
}
