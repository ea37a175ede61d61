//! Work: what a run owes to the world, performed by tasks of their own and reported back.
//!
//! A task holds its cell, so a run with work under way stays in memory; when the run is over, or
//! cancelled, its tasks are stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use serde_json::Value;
use tokio::task::AbortHandle;

use crate::engine::cell::{Cell, Hot, WorkKey};
use crate::engine::drive::{DECIDE_TRIES, Extras};
use crate::engine::holder::Holder;
use crate::engine::trace::Around;
use crate::engine::{Engine, EngineError};
use crate::failpoint;
use crate::kernel::{
    AgentInput, AttemptFault, Command, Effect, Failure, Refusal, Run, RunId, Status, ToolCall,
    ToolFault, Trace, Workflow, deed, halt, plan,
};
use crate::ports::{AppendError, DeltaSink, Fault, Note, leave, trace};

/// The pause before an outcome is brought home again that the store did not take; doubles with every further one.
const BACKOFF_MS: u64 = 500;
/// The longest pause: a store that is back is noticed within a minute.
const BACKOFF_MS_MAX: u64 = 60_000;

impl Engine {
    /// Sets going what is owed and not yet under way; stops what is no longer wanted.
    pub(super) async fn set_going(
        &self,
        cell: &Arc<Cell>,
        hot: &mut Hot,
    ) -> Result<(), EngineError> {
        if hot.run.status != Status::Running {
            // Whoever appended that has given the run back with it.
            let work = std::mem::take(&mut hot.work);
            stop(&hot.run, work);
            return Ok(());
        }
        if matches!(hot.holder, Holder::Other(_)) {
            return Ok(());
        }
        let owed = plan(&hot.run);
        let wanted: Vec<_> =
            owed.into_iter().map(|effect| (key_of(&hot.run, &effect), effect)).collect();
        let is_owed = |key: &WorkKey| wanted.iter().any(|(owed, _)| owed == key);
        let unwanted: Vec<_> = hot.work.extract_if(.., |key, _| !is_owed(key)).collect();
        for (key, effect) in wanted {
            // What is stopped is owed as before; what is under way is let come home.
            if hot.work.contains_key(&key) || self.is_halted(&hot.run, &effect) {
                continue;
            }
            // Nor is a turn begun that would be cut off: whoever comes next begins it. Of a call its journal says already
            // that it is made.
            if self.is_retiring() && matches!(effect, Effect::Reply { .. }) {
                continue;
            }
            self.make_ours(cell, hot).await?;
            let task = self.spawn_work(cell, &hot.run, effect, key.clone());
            hot.work.insert(key, task);
        }
        stop(&hot.run, unwanted);
        Ok(())
    }

    /// Takes the right to drive a run, where it did not come with an append.
    async fn make_ours(&self, cell: &Arc<Cell>, hot: &mut Hot) -> Result<(), EngineError> {
        let from = match hot.holder {
            Holder::Mine(_) => return Ok(()),
            Holder::Dead(who) => Some(who),
            Holder::Nobody | Holder::Other(_) => None,
        };
        match self.inner.journal.take(&cell.id, from, hot.run.version).await {
            Ok(fence) => hot.holder = Holder::Mine(fence),
            Err(AppendError::Fault(fault)) => return Err(fault.into()),
            Err(_) => return Err(EngineError::Moved),
        }
        Ok(())
    }

    fn spawn_work(&self, cell: &Arc<Cell>, run: &Run, effect: Effect, key: WorkKey) -> AbortHandle {
        let (engine, cell) = (self.clone(), Arc::clone(cell));
        let workflow = Arc::clone(&run.workflow);
        let stop = self.inner.stop.clone();
        let (tracer, clock) = (self.inner.tracer.get(), &self.inner.clock);
        let around = Around::begins(run, &effect, tracer, clock);
        let (agent, tool) = halt::worker(run, &effect);
        let task = self.inner.tasks.spawn(async move {
            let permits = Arc::clone(&engine.inner.permits);
            let work = async {
                let Ok(_permit) = permits.acquire_owned().await else { return };
                let _under_way = UnderWay::of(&engine);
                // Whoever may be taken for dead does nothing in the world.
                engine.may_act().await;
                // It may have been stopped while it waited for its turn.
                if engine.is_stopped((&workflow.name, &agent), tool.as_deref()).await {
                    engine.not_done(&cell, &key).await;
                    return;
                }
                // Asked once more as late as can be: whoever was frozen, or waits for somebody to take the call, does not
                // know what was said meanwhile.
                let last = LastWord::default();
                let leave =
                    engine.leave((&workflow.name, &agent), tool.as_deref(), (&cell, &key), &last);
                let performed = engine.perform(&cell, &workflow, (effect, key), (around, last));
                leave::within(Some(leave), performed).await;
            };
            tokio::select! {
                biased;
                () = work => {}
                () = stop.cancelled() => {}
            }
        });
        task.abort_handle()
    }

    async fn perform(
        &self,
        cell: &Arc<Cell>,
        workflow: &Arc<Workflow>,
        (effect, key): (Effect, WorkKey),
        (around, last): (Around, LastWord),
    ) {
        failpoint::hit("engine.before_effect");
        let carried = around.carried();
        let command = match effect {
            Effect::Reply { turn, attempt, input } => {
                let sink = Sink { engine: self.clone(), cell: Arc::clone(cell), turn, attempt };
                self.perform_reply(workflow, input, sink, carried).await
            }
            Effect::CallTool { turn, call, key } => {
                self.perform_call(workflow, turn, (call, key), carried).await
            }
        };
        failpoint::hit("engine.after_effect");
        self.note_broken(cell, &command).await;
        around.ends(&command);
        if last.was_no() && is_not_done(&command) {
            self.not_done(cell, &key).await;
            return;
        }
        self.report(cell, command).await;
    }

    /// What was about to be sent and was not what had been approved stands in the store's own log (K3).
    async fn note_broken(&self, cell: &Arc<Cell>, command: &Command) {
        let Command::ToolReturned { call_id, outcome: Err(fault), .. } = command else { return };
        if fault.failure.code != deed::BROKEN {
            return;
        }
        let (what, why) = (call_id.clone(), fault.failure.message.clone());
        let request = String::new();
        self.note(Note::ConsentBroken { run: cell.id.clone(), request, what, why }).await;
    }

    async fn perform_reply(
        &self,
        workflow: &Arc<Workflow>,
        input: Box<AgentInput>,
        mut sink: Sink,
        carried: Option<Trace>,
    ) -> Command {
        let (turn, attempt, summarises) = (sink.turn, sink.attempt, input.summarises);
        let (agents, workflow) = (Arc::clone(&self.inner.agents), Arc::clone(workflow));
        // A task of its own, so that a provider's panic is an attempt's failure and no more.
        let reply = async move { agents.reply(&workflow, &input, &mut sink).await };
        let task = tokio::spawn(leave::within(leave::current(), trace::within(carried, reply)));
        let guard = AbortOnDrop(task.abort_handle());
        let outcome = task.await;
        drop(guard);
        match outcome {
            Ok(Ok(reply)) => Command::Replied { turn, attempt, reply, summarises },
            Ok(Err(fault)) => Command::AttemptFailed { turn, attempt, fault },
            Err(error) => Command::AttemptFailed { turn, attempt, fault: panicked(&error) },
        }
    }

    async fn perform_call(
        &self,
        workflow: &Arc<Workflow>,
        turn: u32,
        (call, key): (ToolCall, String),
        carried: Option<Trace>,
    ) -> Command {
        let (tools, workflow) = (Arc::clone(&self.inner.tools), Arc::clone(workflow));
        let call_id = call.id.clone();
        let called = async move { tools.call(&workflow, &call, &key).await };
        let task = tokio::spawn(leave::within(leave::current(), trace::within(carried, called)));
        let guard = AbortOnDrop(task.abort_handle());
        let outcome = task.await.unwrap_or_else(|error| {
            // Who knows how far it came.
            Err(ToolFault { failure: panicked(&error).failure, may_have_happened: true })
        });
        drop(guard);
        Command::ToolReturned { turn, call_id, outcome }
    }

    /// Brings an outcome home (E9). Where another writer came first it is decided again; where the store is away it
    /// is kept and tried again for as long as the process lives; where the run is another's now it is dropped.
    /// A store that takes no writes any more leaves the run as it was: visible, unfinished, and taken up again at
    /// the next start (E7).
    async fn report(&self, cell: &Arc<Cell>, command: Command) {
        let (mut outrun, mut pause) = (0, BACKOFF_MS);
        loop {
            let error = match self.reported(cell, &command).await {
                Ok(()) | Err(EngineError::Refused(Refusal::Stale)) => return,
                Err(EngineError::Superseded) => {
                    tracing::warn!(run.id = %cell.id, "another process drives this run: an outcome is dropped");
                    metrics::counter!("holdpoint_outcomes_superseded_total").increment(1);
                    return;
                }
                Err(error) => error,
            };
            match &error {
                EngineError::Moved if outrun < DECIDE_TRIES => {
                    outrun += 1;
                    continue;
                }
                // A piece of a text is in the whole of it.
                EngineError::Moved | EngineError::Fault(Fault::Retriable(_) | Fault::Rewound)
                    if !matches!(command, Command::Delta { .. }) => {}
                // While another server takes a database's place, two tell of one run; in a moment one does.
                EngineError::Fault(Fault::Corrupt(_))
                    if self.is_shared() && !matches!(command, Command::Delta { .. }) => {}
                error @ (EngineError::Moved
                | EngineError::Superseded
                | EngineError::Fault(_)
                | EngineError::Refused(_)
                | EngineError::Corrupt(_)
                | EngineError::Rewound
                | EngineError::Draining) => {
                    tracing::error!(run.id = %cell.id, %error, "outcome could not be recorded");
                    return;
                }
            }
            if self.is_news(&error) {
                tracing::warn!(run.id = %cell.id, %error, "an outcome was not taken; it is kept and tried again");
            }
            self.pause_for_store(pause).await;
            pause = pause.saturating_mul(2).min(BACKOFF_MS_MAX);
        }
    }

    async fn reported(&self, cell: &Arc<Cell>, command: &Command) -> Result<(), EngineError> {
        let mut state = self.home(cell).await?;
        self.command(cell, &mut state, command, Extras::default()).await.map(drop)
    }

    /// A run whose outcome was not taken moves no more by itself; where another try may help, it is
    /// taken up again from its journal after a while.
    pub(super) fn strand(&self, run: &RunId, error: EngineError) {
        let may_help = matches!(error, EngineError::Fault(ref fault) if fault.may_pass());
        if may_help && self.drives(run) && self.set_aside(run, error).is_ok() {
            self.wake_at(self.inner.clock.now());
        }
    }
}

/// Whether whoever did something was told at the last moment not to.
#[derive(Debug, Clone, Default)]
pub(super) struct LastWord(Arc<AtomicBool>);

impl LastWord {
    /// They were.
    pub(super) fn no(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn was_no(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Whether it is certain of a call, or of what was to be handed to a remote agent, that nothing was sent.
fn is_not_done(command: &Command) -> bool {
    if let Command::AttemptFailed { fault, .. } = command {
        return fault.failure.code == leave::NOT_BEGUN;
    }
    let Command::ToolReturned { outcome: Err(fault), .. } = command else { return false };
    !fault.may_have_happened
}

/// Whether something is under way for a run. What has ended and is still owed did not come home: nobody knows how far it
/// came, and the run is recovered as after a crash (E2).
pub(super) fn is_under_way(hot: &mut Hot) -> bool {
    if hot.is_unsure || hot.is_adrift {
        return false;
    }
    if hot.work.values().any(|task| !task.is_finished()) {
        return true;
    }
    let ended = std::mem::take(&mut hot.work);
    let owed = plan(&hot.run);
    hot.is_adrift = hot.run.status == Status::Running
        && owed.iter().any(|effect| ended.contains_key(&key_of(&hot.run, effect)));
    if hot.is_adrift {
        tracing::warn!(run.id = %hot.run.id, "what was done for a run did not come home: it is recovered");
    }
    false
}

/// Stops tasks that nobody waits for any more. It comes last: the task that reports may be among them,
/// and ends with what it is at.
pub(super) fn stop(run: &Run, tasks: impl IntoIterator<Item = (WorkKey, AbortHandle)>) {
    // A call whose step was stopped is let finish while the run goes on: its outcome is wanted.
    let is_loose = |key: &WorkKey| match key {
        WorkKey::Call { turn, call } => {
            run.loose.iter().any(|(of, known)| of == turn && known.id == *call)
        }
        WorkKey::Reply { .. } => false,
    };
    for (key, task) in tasks {
        if !is_loose(&key) {
            task.abort();
        }
    }
}

fn key_of(run: &Run, effect: &Effect) -> WorkKey {
    match effect {
        Effect::Reply { turn, attempt, .. } => {
            let round = run.turns.get(turn).map_or(0, |turn| turn.rounds + turn.corrections);
            WorkKey::Reply { turn: *turn, attempt: *attempt, round }
        }
        Effect::CallTool { turn, call, .. } => WorkKey::Call { turn: *turn, call: call.id.clone() },
    }
}

fn panicked(error: &tokio::task::JoinError) -> AttemptFault {
    tracing::error!(%error, "an attempt panicked");
    AttemptFault {
        failure: Failure::new("step.panicked", "an internal error; the log has it"),
        retriable: false,
    }
}

fn not_noted(error: &EngineError) -> AttemptFault {
    let failure = Failure::new("step.not_noted", format!("it cannot be kept: {error}"));
    AttemptFault { failure, retriable: true }
}

/// A deed that is being done, or about to be: counted before it is asked whether it is stopped, so that whoever
/// has halted something and counts none knows that none is left.
struct UnderWay(Engine);

impl UnderWay {
    fn of(engine: &Engine) -> Self {
        engine.inner.under_way.fetch_add(1, Ordering::SeqCst);
        Self(engine.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.inner.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Stops the inner task when the outer one is stopped.
#[derive(Debug)]
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Makes an agent's text durable piece by piece, while it is still speaking.
#[derive(Debug)]
struct Sink {
    engine: Engine,
    cell: Arc<Cell>,
    turn: u32,
    attempt: u32,
}

#[async_trait]
impl DeltaSink for Sink {
    async fn push(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        let command = Command::Delta { turn: self.turn, attempt: self.attempt, text };
        self.engine.report(&self.cell, command).await;
    }

    async fn note(&mut self, memo: Value) -> Result<(), AttemptFault> {
        let command = Command::Noted { turn: self.turn, attempt: self.attempt, memo };
        for _ in 0..DECIDE_TRIES {
            match self.engine.reported(&self.cell, &command).await {
                Ok(()) => return Ok(()),
                Err(EngineError::Moved) => {}
                Err(error) => return Err(not_noted(&error)),
            }
        }
        Err(not_noted(&EngineError::Moved))
    }
}
