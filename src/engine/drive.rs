//! Drive: one command, all the way: apply, append, publish, and set the owed work going. How its run came into
//! memory is another file's (`warm`).
//!
//! Replies that can be had at once and touch nothing are folded in before the append, so a
//! command costs one durable write; an attempt that touches the world is begun only after its
//! intent is durable (E2).

use std::sync::{Arc, LazyLock};

use tokio::sync::MutexGuard;

use crate::engine::cell::{Cell, Hot, State};
use crate::engine::detach_on_drop::{DetachOnDrop, panicked};
use crate::engine::holder::Holder;
use crate::engine::rests;
use crate::engine::trace::at_once;
use crate::engine::{Engine, EngineError, Published};
use crate::failpoint;
use crate::kernel::evidence::Hash;
use crate::kernel::evidence::leaf::{Kinds, Leaf};
use crate::kernel::{
    Closed, Command, Decision, Event, Millis, Refusal, Run, Status, Version, apply, first_reply,
    halt,
};
use crate::ports::{
    Append, AppendError, Appended, Fault, Guard, Head, Hold, HookRow, KeyRow, SessionRow, trace,
};

/// Events gathered before an append; a workflow that never waits is made durable in pieces.
const GATHER_EVENTS: usize = 256;

/// How often the same is decided anew because another writer came first; each time somebody got on.
pub(super) const DECIDE_TRIES: usize = 8;
/// How often an append is submitted again of which nobody knows whether it was written.
const SUBMIT_TRIES: usize = 3;

/// Counted with every append, and looked up once.
static EVENTS: LazyLock<metrics::Counter> =
    LazyLock::new(|| metrics::counter!("holdpoint_events_total"));

/// What goes with an append beside the events.
#[derive(Debug, Clone, Default)]
pub(super) struct Extras {
    pub(super) session: Option<SessionRow>,
    pub(super) key: Option<(String, KeyRow)>,
    pub(super) hooks: Vec<HookRow>,
    pub(super) guards: Vec<Guard>,
}

/// Events on their way into the journal.
#[derive(Debug)]
pub(super) struct Batch {
    /// The version that the first of them followed, and that those follow which are not written yet.
    pub(super) after: Version,
    pub(super) expected: Version,
    pub(super) events: Vec<Event>,
    /// One time for all of them: a replay folds them with the record's own.
    pub(super) now: Millis,
    pub(super) extras: Extras,
    /// The leaf of the first append that was made of it, where it decided something (J13).
    pub(super) decided: Option<Leaf>,
}

impl Batch {
    pub(super) fn new(expected: Version, events: Vec<Event>, now: Millis, extras: Extras) -> Self {
        Self { after: expected, expected, events, now, extras, decided: None }
    }
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Done {
    /// The command's own events begin after this version.
    pub(super) after: Version,
    /// The leaf of their append, where it decided something just now and the store said its link.
    pub(super) decided: Option<Leaf>,
}

impl Engine {
    /// Takes a command to a run all the way: a caller that leaves changes nothing (E5).
    pub(super) async fn submit(
        &self,
        cell: &Arc<Cell>,
        command: Command,
        extras: Extras,
    ) -> Result<Done, EngineError> {
        self.refuse_unless_ready()?;
        self.refuse_if_held(Some(&command))?;
        let (engine, cell) = (self.clone(), Arc::clone(cell));
        let work = async move {
            let (mut tries, mut was_due) = (1, false);
            loop {
                let outcome = engine.decided(&cell, &command, extras.clone()).await;
                match outcome {
                    // Its time is up, and nobody has said so yet: others may be asked now, and it may still be open.
                    Err(EngineError::Refused(Refusal::RequestClosed {
                        how: Closed::Expired,
                        ..
                    })) if !was_due && engine.is_time_heeded() => {
                        was_due = true;
                        engine.decided(&cell, &Command::Tick, Extras::default()).await?;
                    }
                    // On what is now true, the same is decided again.
                    Err(EngineError::Moved | EngineError::Superseded) if tries < DECIDE_TRIES => {
                        tries += 1;
                    }
                    Err(EngineError::Refused(unknown @ Refusal::UnknownRequest(_))) => {
                        return Err(engine.not_there(unknown));
                    }
                    outcome => return outcome,
                }
            }
        };
        DetachOnDrop::new(&self.inner.tasks, trace::within(trace::current(), work)).await
    }

    /// Decides on a command once, on what is true now.
    async fn decided(
        &self,
        cell: &Arc<Cell>,
        command: &Command,
        mut extras: Extras,
    ) -> Result<Done, EngineError> {
        if let Some(who) = command.speaker() {
            extras.guards.extend(self.refuse_if_unknown(who).await?);
        }
        // How long something stood still is said by whoever changes the halts, whatever else stands.
        let ahead = Box::pin(self.look_ahead(cell)).await?;
        if !matches!(command, Command::Stand { .. }) {
            self.heed_pulled(ahead.as_ref()).await?;
            extras.guards.extend(self.guard_of_halts());
        }
        let mut deciding = self.deciding(cell, command, ahead.as_ref()).await?;
        let mut state = self.hot_as(cell, ahead.as_ref()).await?;
        if let Some(deciding) = &mut deciding {
            deciding.note_open(&state);
        }
        self.heed_family_number(&mut state, deciding.as_ref()).await?;
        self.heed_family(cell, &mut state, command).await?;
        extras.guards.extend(deciding.as_ref().and_then(|deciding| deciding.guard(&state)));
        let done = self.command(cell, &mut state, command, extras).await?;
        if let Some(deciding) = &deciding {
            self.pass_on(deciding, &state);
        }
        self.owns(&cell.id);
        Ok(done)
    }

    /// Applies a command to a run that is held, and makes it durable.
    pub(super) async fn command(
        &self,
        cell: &Arc<Cell>,
        state: &mut MutexGuard<'_, State>,
        command: &Command,
        mut extras: Extras,
    ) -> Result<Done, EngineError> {
        let State::Hot(hot) = &mut **state else { return Err(EngineError::Draining) };
        hot.run.operator = self.operator();
        self.heed_noes(hot, command).await?;
        // Held until what is decided is durable: another run of the session then sees it.
        let purse = self.purse_for(&mut hot.run, command).await?;
        extras.guards.extend(purse.as_ref().and_then(|purse| purse.guard.clone()));
        let (expected, now) = (hot.run.version, self.now_for(&hot.run));
        match apply(&mut hot.run, command, now) {
            Ok(Decision::Repeat { after }) => Ok(Done { after, decided: None }),
            Ok(Decision::Events(events)) => {
                let mut batch = Batch::new(expected, events, now, extras);
                self.commit(cell, state, &mut batch).await?;
                Ok(Done { after: expected, decided: batch.decided })
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
        batch: &mut Batch,
    ) -> Result<(), EngineError> {
        let begins = batch.expected == 0;
        let mut is_written = false;
        loop {
            let State::Hot(hot) = &mut **state else { return Err(EngineError::Draining) };
            // Where nobody has looked yet, nothing is done; what another process drives is done there.
            let is_held = self.is_held() || matches!(hot.holder, Holder::Other(_));
            let gathered =
                if is_held { Ok(false) } else { self.reply_at_once(&mut hot.run, batch) };
            let gathered = match gathered {
                Ok(more) if !is_held => self.note_holds(hot, batch).map(|()| more),
                gathered => gathered,
            };
            let outcome = match gathered {
                Ok(more) if batch.events.is_empty() => Ok(more),
                Ok(more) => self.append(cell, hot, batch).await.map(|()| more),
                Err(error) => Err(error),
            };
            match outcome {
                Ok(true) => {
                    batch.now = self.now_for(&hot.run);
                    is_written = true;
                }
                Ok(false) if is_held => return Ok(()),
                Ok(false) => {
                    return match self.set_going(cell, hot).await {
                        Err(EngineError::Moved | EngineError::Superseded) => {
                            // What was decided is durable; who drives it is found out anew.
                            hot.is_unsure = true;
                            self.look_after(cell);
                            Ok(())
                        }
                        outcome => outcome,
                    };
                }
                Err(error) => return self.undone(cell, state, (error, begins, is_written)),
            }
        }
    }

    /// What is in memory is ahead of what is durable: it is folded again, or forgotten.
    fn undone(
        &self,
        cell: &Arc<Cell>,
        state: &mut State,
        (error, begins, is_written): (EngineError, bool, bool),
    ) -> Result<(), EngineError> {
        let is_outrun = matches!(error, EngineError::Moved | EngineError::Superseded);
        let may_pass = matches!(error, EngineError::Moved)
            || matches!(&error, EngineError::Fault(fault) if fault.may_pass());
        match state {
            // What is under way for it comes home all the same (E9).
            State::Hot(hot) if may_pass && (is_written || !begins) => hot.is_unsure = true,
            State::Hot(hot) => {
                if is_outrun {
                    hot.stop_all();
                }
                *state = State::Cold;
            }
            State::Cold => {}
        }
        if is_written && !is_outrun {
            self.strand(&cell.id, error.clone());
        }
        if is_written && is_outrun {
            // The command itself is durable: what follows of it is another's to do, or done anew.
            self.look_after(cell);
            return Ok(());
        }
        Err(error)
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
        let channels = self.channels(hot, &events);
        let kinds = Kinds::of(events.iter().map(|event| &**event));
        let hidden = hot.run.hidden(&events, &mut || self.inner.clock.fresh_secret());
        let is_owed = !channels.is_empty();
        let (hold, fence) = hot.holder.hold(hot.run.status == Status::Running);
        let mut guards = extras.guards;
        if self.is_shared() && batch.expected > 0 {
            let (name, number) = (Guard::hooks(&cell.id), hot.hooks_number);
            guards.push(Guard { name, number, raises: false });
        }
        let append = Append {
            run: cell.id.clone(),
            expected: batch.expected,
            token: Some(self.token()),
            fence,
            hold,
            guards,
            at: batch.now,
            events,
            hidden: hidden.map(Box::new),
            head: Head::of(&hot.run),
            session: extras.session,
            key: extras.key,
            channels,
            hooks: extras.hooks,
        };
        failpoint::hit("engine.before_append");
        match self.submitted(append).await {
            Ok(appended) => {
                self.acknowledged(hot, hold, &appended);
                if batch.expected == batch.after && kinds.decides() {
                    let leaf = |link| Leaf::entry(cell.id.clone(), batch.after + 1, kinds, link);
                    batch.decided = appended.link.map(leaf);
                }
            }
            Err(error) => {
                if matches!(error, AppendError::Fault(Fault::Permanent(_))) {
                    self.inner.broken.cancel();
                }
                if let AppendError::GuardMoved(guard) = &error {
                    self.doubt(guard);
                }
                return Err(refused(error));
            }
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

    /// What is known of a run once its store has said that it was written to.
    fn acknowledged(&self, hot: &mut Hot, hold: Hold, appended: &Appended) {
        hot.holder = hot.holder.after(hold, appended.fence);
        hot.known = appended.link.map(|link| (appended.version, link));
        self.save_fold(hot, appended.link);
    }

    /// Saves a run folded, beside everything else, where enough has come to it since that was last done: at the ends of
    /// equal stretches, whoever had it in memory at their beginnings.
    fn save_fold(&self, hot: &mut Hot, link: Option<Hash>) {
        let (Some(every), Some(link)) = (self.inner.journal.folds_every(), link) else { return };
        if hot.run.version / every == hot.saved / every {
            return;
        }
        hot.saved = hot.run.version;
        let (journal, run) = (Arc::clone(&self.inner.journal), hot.run.clone());
        self.inner.tasks.spawn(async move {
            let id = run.id.clone();
            if let Err(fault) = journal.save_fold(run, link).await {
                tracing::debug!(run.id = %id, %fault, "not saved folded");
            }
        });
    }

    /// Submits an append; again, with its token, while nobody knows whether it was written (J9).
    async fn submitted(&self, append: Append) -> Result<Appended, AppendError> {
        if !self.is_shared() {
            return self.inner.journal.append(append).await;
        }
        let mut tries = 1;
        loop {
            match self.inner.journal.append(append.clone()).await {
                Err(AppendError::Unknown(_)) if tries < SUBMIT_TRIES => tries += 1,
                outcome => return outcome,
            }
        }
    }

    /// Everybody who listens hears of durable events, whoever wrote them (E1).
    pub(super) fn heard(&self, cell: &Cell, hot: &Hot, batch: Vec<Arc<Published>>) {
        self.tell_inbox(&hot.run, &batch);
        cell.publish(&hot.run, batch);
        self.inner.cells.weigh(&cell.id, hot.run.weight(), hot.run.status.is_over());
        if let Some(at) = hot.run.wake_at() {
            self.wake_at(at);
        }
    }

    /// The same of what was written here.
    fn told(&self, cell: &Cell, hot: &Hot, batch: Vec<Arc<Published>>) {
        EVENTS.increment(batch.len() as u64);
        Self::count_decisions(&batch);
        self.heard(cell, hot, batch);
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

/// A race that another writer won is decided anew; what cannot be is the world's no.
fn refused(error: AppendError) -> EngineError {
    match error {
        AppendError::Moved { .. } | AppendError::Held { .. } | AppendError::GuardMoved(_) => {
            EngineError::Moved
        }
        AppendError::Superseded => EngineError::Superseded,
        AppendError::Unknown(why) => {
            let told = "it is not known whether this was written, look before you repeat it";
            Fault::Retriable(format!("{told}: {why}")).into()
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
