//! Warm: a run taken into memory, held, and made ready for what it is wanted for: to be looked at as its journal has it,
//! or to be driven, which recovers it first where what was under way was lost. Looking never does (E8).

use std::sync::Arc;

use tokio::sync::MutexGuard;

use crate::engine::as_asked::{hold_to_journal, is_as_head};
use crate::engine::cell::{Cell, Hot, State};
use crate::engine::drive::{DECIDE_TRIES, Extras, joined};
use crate::engine::holder::Holder;
use crate::engine::outlook::Ahead;
use crate::engine::trace::SpanBuilder;
use crate::engine::{Engine, EngineError};
use crate::kernel::{
    Command, Millis, Recorded, Refusal, Replay, Run, RunId, Status, Version, Workflow,
};
use crate::ports::{Fault, Standing};

/// Events read from a journal at a time.
pub(super) const READ_EVENTS: usize = 1024;

/// What a run is held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// To be asked what never changes: whose it is, of which family. What is in memory says that as well as any.
    Know,
    Look,
    Drive,
    /// To bring home what was done for it: whoever drives it need not ask first whether others wrote.
    Report,
}

impl Aim {
    fn only_looks(self) -> bool {
        matches!(self, Self::Know | Self::Look)
    }
}

impl Engine {
    /// A run, held, to be driven: loaded if it is not in memory, and recovered if what was under way
    /// for it was lost.
    pub(super) async fn hot<'a>(
        &self,
        cell: &'a Arc<Cell>,
    ) -> Result<MutexGuard<'a, State>, EngineError> {
        self.refuse_if_looking()?;
        self.held(cell, Aim::Drive, None).await
    }

    /// The same, where it was asked already how it stands.
    pub(super) async fn hot_as<'a>(
        &self,
        cell: &'a Arc<Cell>,
        ahead: Option<&Ahead>,
    ) -> Result<MutexGuard<'a, State>, EngineError> {
        self.refuse_if_looking()?;
        self.held(cell, Aim::Drive, ahead).await
    }

    /// The same, for what was done for it.
    pub(super) async fn home<'a>(
        &self,
        cell: &'a Arc<Cell>,
    ) -> Result<MutexGuard<'a, State>, EngineError> {
        self.refuse_if_looking()?;
        self.held(cell, Aim::Report, None).await
    }

    /// A run, held, to be looked at: as its journal has it. Nothing is set going (E8).
    pub(super) async fn read<'a>(
        &self,
        cell: &'a Arc<Cell>,
    ) -> Result<MutexGuard<'a, State>, EngineError> {
        self.held(cell, Aim::Look, None).await
    }

    /// The same, for what never changes of it: whether others have written since is not asked.
    pub(super) async fn glance<'a>(
        &self,
        cell: &'a Arc<Cell>,
    ) -> Result<MutexGuard<'a, State>, EngineError> {
        self.held(cell, Aim::Know, None).await
    }

    /// The same, for whatever it is wanted for, and where it was asked already how it stands.
    pub(super) async fn held<'a>(
        &self,
        cell: &'a Arc<Cell>,
        aim: Aim,
        ahead: Option<&Ahead>,
    ) -> Result<MutexGuard<'a, State>, EngineError> {
        let (mut tries, mut seen_to) = (0, None);
        loop {
            let mut state = cell.state.lock().await;
            if let State::Hot(hot) = &mut *state
                && self.may_be_stale(hot, aim)
                && !self.refresh(cell, hot, ahead).await?
            {
                *state = State::Cold;
            }
            if let State::Hot(hot) = &mut *state
                && seen_to == Some(hot.run.version)
            {
                // It was recovered, and nothing that it owes could be begun, as where a halt stands: then it is still
                // nobody's, and a second look finds what the first did, for ever.
                hot.is_adrift = false;
            }
            match &*state {
                State::Hot(hot) if aim.only_looks() || !self.is_owed_a_look(hot) => {
                    return Ok(state);
                }
                // What was done is a fact, whatever the store has become meanwhile (E9).
                State::Hot(hot) if aim == Aim::Report && !hot.is_adrift && self.is_rewound() => {
                    return Ok(state);
                }
                State::Hot(_) | State::Cold => drop(state),
            }
            // In a task of its own: a caller that leaves must not stop it between append and telling.
            let (engine, warmed) = (self.clone(), Arc::clone(cell));
            let warming = self.inner.tasks.spawn(async move { engine.warm(&warmed, aim).await });
            match joined(warming.await) {
                // Somebody else has seen to it meanwhile.
                Err(EngineError::Moved | EngineError::Superseded) if tries < DECIDE_TRIES => {
                    tries += 1;
                }
                outcome => seen_to = outcome?,
            }
        }
    }

    /// Whether a run in memory may not be as its journal has it.
    fn may_be_stale(&self, hot: &Hot, aim: Aim) -> bool {
        let is_home = aim == Aim::Report && matches!(hot.holder, Holder::Mine(_));
        hot.is_unsure || self.is_shared() && !is_home && aim != Aim::Know
    }

    /// Whether something must be seen to before a run is driven.
    fn is_owed_a_look(&self, hot: &Hot) -> bool {
        // What is held is seen to once somebody says so.
        hot.is_adrift && !self.is_held()
            || self.is_of_before(&hot.run)
            || self.is_ruled_otherwise(&hot.run)
    }

    /// The version at which it was recovered, where that was wanted.
    async fn warm(&self, cell: &Arc<Cell>, aim: Aim) -> Result<Option<Version>, EngineError> {
        let mut state = cell.state.lock().await;
        if matches!(*state, State::Cold) {
            let Some((run, standing)) = self.load(cell).await? else {
                self.inner.cells.forget(&cell.id);
                self.note_missing(cell);
                // Whoever watches it has this cell, and nothing more would ever come of it.
                cell.lost();
                return Err(self.not_there(Refusal::UnknownRun(cell.id.to_string())));
            };
            let hooks = self.inner.journal.hooks(&cell.id).await?;
            let hooks_number = standing.map_or(0, |standing| standing.hooks);
            cell.loaded(&run);
            let holder = Holder::of(standing, self.inner.journal.incarnation());
            let is_others = matches!(holder, Holder::Other(_));
            let is_adrift = run.status == Status::Running && !is_others;
            let scribe = self.inner.tracer.get().map(|_| Box::new(SpanBuilder::takes_up(&run)));
            let hot = Hot::new(Box::new(run));
            let known = standing.and_then(|standing| standing.known());
            let hot = Hot { is_adrift, known, holder, hooks, hooks_number, scribe, ..hot };
            *state = State::Hot(Box::new(hot));
        }
        // A run that was moving when it was last written lost whatever was under way: its own
        // journal says what to do about that, before anything else is done with it.
        if let (Aim::Drive | Aim::Report, State::Hot(hot)) = (aim, &mut *state) {
            if self.is_of_before(&hot.run) {
                let was_adrift = std::mem::take(&mut hot.is_adrift);
                let renewed = self.renew(cell, &mut state).await;
                Self::unless_adrift(&mut state, renewed, was_adrift)?;
            } else if hot.is_adrift && !self.is_held() {
                hot.is_adrift = false;
                let command = &Command::Recover;
                let recovered = self.command(cell, &mut state, command, Extras::default()).await;
                Self::unless_adrift(&mut state, recovered.map(drop), true)?;
            }
            self.heed_policy(cell, &mut state).await?;
            return Ok(match &*state {
                State::Hot(hot) if !hot.is_adrift => Some(hot.run.version),
                State::Hot(_) | State::Cold => None,
            });
        }
        Ok(None)
    }

    /// A run that could not be recovered, because its store did not take that, still is to be (E2).
    fn unless_adrift(
        state: &mut State,
        outcome: Result<(), EngineError>,
        was_adrift: bool,
    ) -> Result<(), EngineError> {
        if let (Err(_), State::Hot(hot)) = (&outcome, state) {
            hot.is_adrift |= was_adrift;
        }
        outcome
    }

    /// Reads a run back from its journal.
    async fn load(&self, cell: &Cell) -> Result<Option<(Run, Option<Standing>)>, EngineError> {
        let Some(head) = self.inner.journal.head(&cell.id).await? else { return Ok(None) };
        let standing = self.standing(cell).await?;
        // Others may have written since.
        let version = standing.map_or(head.version, |standing| standing.version);
        let workflow = self.inner.library.kept(&*self.inner.journal, &head.definition).await?;
        let mut run = self.fold_all(&cell.id, Arc::clone(&workflow), version).await?;
        if !is_as_head(&head, &run) {
            // What was saved of it may be what is wrong: the journal counts.
            let anew = Replay::of(cell.id.clone(), workflow);
            run = self.fold_on(anew, &cell.id, version).await?;
        }
        hold_to_journal(&head, &run)?;
        metrics::counter!("holdpoint_runs_loaded_total").increment(1);
        Ok(Some((self.recalling(run).await?, standing)))
    }

    /// The run as it stood at `version`: from what was saved of it, if anything was, and then its journal, which is folded
    /// as it is read, a piece at a time: its events take no memory of their own.
    pub(super) async fn fold_all(
        &self,
        id: &RunId,
        workflow: Arc<Workflow>,
        version: Version,
    ) -> Result<Run, EngineError> {
        let saved = self.inner.journal.saved_fold(id, &workflow).await?;
        let saved = saved.filter(|saved| saved.version <= version);
        let replay = saved.map_or_else(|| Replay::of(id.clone(), workflow), Replay::from);
        self.fold_on(replay, id, version).await
    }

    /// The same, from where it was folded to.
    async fn fold_on(
        &self,
        mut replay: Replay,
        id: &RunId,
        version: Version,
    ) -> Result<Run, EngineError> {
        while replay.version() < version {
            let more = self.inner.journal.read(id, replay.version(), READ_EVENTS).await?;
            if more.is_empty() {
                return Err(ends_before(id, version).into());
            }
            for recorded in more.iter().take_while(|recorded| recorded.version <= version) {
                replay.fold(recorded)?;
            }
        }
        Ok(replay.ended()?)
    }

    /// The whole journal up to `version`.
    pub(super) async fn read_all(
        &self,
        run: &RunId,
        version: Version,
    ) -> Result<Vec<Recorded>, EngineError> {
        self.read_on(run, 0, version).await
    }

    /// A journal after a version, up to another.
    pub(super) async fn read_on(
        &self,
        run: &RunId,
        from: Version,
        version: Version,
    ) -> Result<Vec<Recorded>, EngineError> {
        let mut events: Vec<Recorded> = Vec::new();
        let mut after = from;
        // Others write meanwhile: what lies behind that version is not read, and never waited for.
        while after < version {
            let more = self.inner.journal.read(run, after, READ_EVENTS).await?;
            let more = more.into_iter().take_while(|recorded| recorded.version <= version);
            let read = events.len();
            events.extend(more);
            let Some(last) = events[read..].last() else { break };
            after = last.version;
        }
        if after != version {
            return Err(ends_before(run, version).into());
        }
        Ok(events)
    }

    /// What time it is for a run: where several processes write, their clocks differ, and a run's only goes on.
    pub(super) fn now_for(&self, run: &Run) -> Millis {
        let now = self.inner.clock.now();
        if self.is_shared() { now.max(run.updated_at) } else { now }
    }
}

fn ends_before(run: &RunId, version: Version) -> Fault {
    Fault::Corrupt(format!("the journal of `{run}` ends before version {version}"))
}
