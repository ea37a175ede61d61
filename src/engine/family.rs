//! Family: a run and everything that was forked from it, as the store has them. Before a yes is taken in one
//! of them, what was refused in the others is looked up in their journals: nothing of it is kept in memory, so
//! that no restart loses it. Whether something is the same, and what follows, is the kernel's (K11).

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{MutexGuard, OwnedMutexGuard};

use crate::engine::cell::{Cell, Hot, State};
use crate::engine::drive::Extras;
use crate::engine::outlook::Ahead;
use crate::engine::{Engine, EngineError, Reach};
use crate::failpoint;
use crate::kernel::{Command, FAMILY_RUNS_MAX, No, Refusal, Run, RunId, may_pass, noes};
use crate::ports::Guard;

/// Families that are kept in mind before those in which nobody decides any more are let go of.
const FAMILIES_KEPT: usize = 1_024;

/// The families in which somebody is deciding: one decides at a time, so that of a no and a yes in two runs
/// of it one comes first.
#[derive(Debug, Default)]
pub(super) struct Families(Mutex<HashMap<RunId, Weak<tokio::sync::Mutex<()>>>>);

impl Families {
    fn of(&self, family: &RunId) -> Arc<tokio::sync::Mutex<()>> {
        let mut families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = families.get(family).and_then(Weak::upgrade) {
            return known;
        }
        if families.len() >= FAMILIES_KEPT {
            families.retain(|_, known| known.strong_count() > 0);
        }
        let fresh = Arc::default();
        families.insert(family.clone(), Arc::downgrade(&fresh));
        fresh
    }
}

/// By what a run's family is found.
#[derive(Debug, Clone)]
pub(super) struct Kinship {
    run: RunId,
    family: Option<RunId>,
    original: Option<RunId>,
}

impl Kinship {
    /// That of a run.
    pub(super) fn of(run: &Run) -> Self {
        let original = run.forked_from.as_ref().map(|(original, _)| original.clone());
        Self { run: run.id.clone(), family: run.family.clone(), original }
    }
}

/// A run that is held while somebody may say no in it.
#[derive(Debug)]
pub(super) struct Deciding {
    _turn: OwnedMutexGuard<()>,
    /// What was open before.
    open: Vec<u32>,
    family: RunId,
    /// The store's number for the family, where others may decide in it too.
    number: Option<u64>,
}

impl Deciding {
    /// Remembers what is open before anything is decided.
    pub(super) fn note_open(&mut self, state: &State) {
        let State::Hot(hot) = state else { return };
        let open = hot.run.questions.values().filter(|question| question.decides());
        self.open = open.map(|question| question.ordinal).collect();
    }

    /// What must not have changed when it is written, and what others see by it: where several processes write,
    /// of a no and a yes in two runs of a family one comes first by that.
    pub(super) fn guard(&self, state: &State) -> Option<Guard> {
        let State::Hot(hot) = state else { return None };
        let (name, raises) = (Guard::family(&self.family), hot.has_kin != Some(false));
        Some(Guard { name, number: self.number?, raises })
    }
}

impl Engine {
    /// Waits for one's turn in the family, where a command may decide something.
    pub(super) async fn deciding(
        &self,
        cell: &Arc<Cell>,
        command: &Command,
        ahead: Option<&Ahead>,
    ) -> Result<Option<Deciding>, EngineError> {
        match command {
            Command::Answer { .. } | Command::Withdraw { .. } | Command::Tick => {}
            Command::Claim { .. }
            | Command::Delegate { .. }
            | Command::Revoke { .. }
            | Command::Cancel { .. }
            | Command::Signal { .. }
            | Command::Delta { .. }
            | Command::Noted { .. }
            | Command::Replied { .. }
            | Command::AttemptFailed { .. }
            | Command::ToolReturned { .. }
            | Command::Recover
            | Command::Retry
            | Command::Rule
            | Command::Renew { .. }
            | Command::Stand { .. }
            | Command::Hold { .. }
            | Command::Recall { .. } => return Ok(None),
        }
        let (family, is_alone) = {
            let state = self.glance(cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            let is_alone = hot.has_kin == Some(false);
            if is_alone && !self.is_shared() {
                return Ok(None);
            }
            (hot.run.family.clone().unwrap_or_else(|| hot.run.id.clone()), is_alone)
        };
        let turn = self.inner.families.of(&family).lock_owned().await;
        // Who waited for their turn may have waited for one that changed it.
        let ahead = ahead.filter(|_| is_alone).and_then(|ahead| ahead.number(&family));
        let number = match ahead {
            None => self.family_number(&family).await?,
            known => known,
        };
        Ok(Some(Deciding { _turn: turn, open: Vec::new(), family, number }))
    }

    /// The store's number for a family; none where this process alone decides.
    pub(super) async fn family_number(&self, family: &RunId) -> Result<Option<u64>, EngineError> {
        match self.replicas() {
            Some(replicas) => Ok(Some(replicas.guard(&Guard::family(family)).await?)),
            None => Ok(None),
        }
    }

    /// Where others may have forked a run since it was looked at, it is looked at again.
    pub(super) async fn heed_family_number(
        &self,
        state: &mut MutexGuard<'_, State>,
        deciding: Option<&Deciding>,
    ) -> Result<(), EngineError> {
        let Some(number) = deciding.and_then(|deciding| deciding.number) else { return Ok(()) };
        let State::Hot(hot) = &mut **state else { return Err(EngineError::Draining) };
        if hot.has_kin != Some(true) && hot.family_number != Some(number) {
            let (_, kin) = self.kin(&Kinship::of(&hot.run)).await?;
            hot.has_kin = Some(!kin.is_empty());
            hot.family_number = Some(number);
        }
        Ok(())
    }

    /// Before a yes: what is asked, and was refused in another run of the family without saying so, is asked
    /// anew. The yes that was on its way is then one to something else.
    pub(super) async fn heed_family(
        &self,
        cell: &Arc<Cell>,
        state: &mut MutexGuard<'_, State>,
        command: &Command,
    ) -> Result<(), EngineError> {
        let Command::Answer { answers, .. } = command else { return Ok(()) };
        let State::Hot(hot) = &mut **state else { return Err(EngineError::Draining) };
        // Where there is no other run nothing was refused in one, and the answer need not be read here, too.
        if hot.has_kin == Some(false) || !may_pass(&hot.run, answers) {
            return Ok(());
        }
        let noes = self.noes_of_kin(hot).await?;
        hot.run.noes = Arc::new(noes.clone());
        self.recall(cell, state, noes).await
    }

    /// Tells a run what was refused in its family, where that may matter to what becomes of a call: in a fork,
    /// and where something was granted.
    pub(super) async fn heed_noes(
        &self,
        hot: &mut Hot,
        command: &Command,
    ) -> Result<(), EngineError> {
        let may_call = match command {
            Command::Answer { .. }
            | Command::Withdraw { .. }
            | Command::Tick
            | Command::Signal { .. }
            | Command::Replied { .. }
            | Command::AttemptFailed { .. }
            | Command::ToolReturned { .. }
            | Command::Recover
            | Command::Retry => true,
            Command::Claim { .. }
            | Command::Delegate { .. }
            | Command::Revoke { .. }
            | Command::Cancel { .. }
            | Command::Delta { .. }
            | Command::Noted { .. }
            | Command::Rule
            | Command::Renew { .. }
            | Command::Stand { .. }
            | Command::Hold { .. }
            | Command::Recall { .. } => false,
        };
        let is_fork = hot.run.forked_from.is_some();
        let may_matter = is_fork || !hot.run.grants.is_empty();
        // Before a yes they were read a moment ago, and nobody else decides in the family meanwhile.
        let is_heeded =
            || matches!(command, Command::Answer { answers, .. } if may_pass(&hot.run, answers));
        if may_call && may_matter && hot.run.gates().next().is_some() && !is_heeded() {
            hot.run.noes = Arc::new(self.noes_of_kin(hot).await?);
        }
        Ok(())
    }

    /// What was refused in the other runs of a run's family. That it has none is looked up once: whoever
    /// forks it here says so.
    async fn noes_of_kin(&self, hot: &mut Hot) -> Result<Vec<No>, EngineError> {
        if hot.has_kin == Some(false) {
            return Ok(Vec::new());
        }
        let (_, kin) = self.kin(&Kinship::of(&hot.run)).await?;
        // Once true it stays so: a fork that is being made is not in the index yet.
        hot.has_kin = Some(hot.has_kin == Some(true) || !kin.is_empty());
        self.noes(&kin).await
    }

    /// Notes that a run is being forked, or was.
    pub(super) async fn has_kin_now(&self, cell: &Arc<Cell>) -> Result<(), EngineError> {
        let mut state = self.read(cell).await?;
        if let State::Hot(hot) = &mut *state {
            hot.has_kin = Some(true);
        }
        Ok(())
    }

    async fn recall(
        &self,
        cell: &Arc<Cell>,
        state: &mut MutexGuard<'_, State>,
        noes: Vec<No>,
    ) -> Result<(), EngineError> {
        if noes.is_empty() {
            return Ok(());
        }
        let command = Command::Recall { noes, seed: self.fresh_seed() };
        self.command(cell, state, &command, Extras::default()).await.map(drop)
    }

    /// After a no: whoever is asked the same elsewhere is told now, and not only when they answer.
    pub(super) fn pass_on(&self, deciding: &Deciding, state: &State) {
        let State::Hot(hot) = state else { return };
        let is_no = deciding.open.iter().any(|ordinal| hot.run.was_refused(*ordinal));
        if !is_no || self.reach() != Reach::Everything {
            return;
        }
        let (engine, kinship) = (self.clone(), Kinship::of(&hot.run));
        self.inner.tasks.spawn(async move {
            if let Err(error) = engine.tell_kin(&kinship).await {
                // Whoever answers there is told.
                tracing::warn!(run.id = %kinship.run, %error, "a no could not be told to the run's family");
            }
        });
    }

    async fn tell_kin(&self, kinship: &Kinship) -> Result<(), EngineError> {
        let (_, kin) = self.kin(kinship).await?;
        if kin.is_empty() {
            return Ok(());
        }
        let noes = self.noes(&BTreeSet::from([kinship.run.clone()])).await?;
        for run in kin {
            let head = self.inner.journal.head(&run).await?;
            if head.is_none_or(|head| head.questions.is_empty()) {
                continue;
            }
            failpoint::hit("engine.before_recall");
            let cell = self.inner.cells.get(&run);
            let mut state = self.hot(&cell).await?;
            self.recall(&cell, &mut state, noes.clone()).await?;
        }
        Ok(())
    }

    /// The first run of a family, and all of its runs but the one that is asked about.
    pub(super) async fn kin(
        &self,
        kinship: &Kinship,
    ) -> Result<(RunId, BTreeSet<RunId>), EngineError> {
        let Kinship { run, mut family, mut original } = kinship.clone();
        let mut kin = BTreeSet::new();
        // What an earlier build forked knows its original alone.
        while family.is_none()
            && let Some(above) = original.take()
        {
            let head = self.inner.journal.head(&above).await?;
            kin.insert(above.clone());
            original = head.as_ref().and_then(|head| Some(head.forked_from.clone()?.0));
            family = head.and_then(|head| head.family);
            if original.is_none() {
                family = family.or(Some(above));
            }
        }
        let family = family.unwrap_or_else(|| run.clone());
        kin.extend(self.inner.journal.forks(&family).await?);
        kin.insert(family.clone());
        kin.remove(&run);
        Ok((family, kin))
    }

    /// What was refused in these runs.
    pub(super) async fn noes(&self, runs: &BTreeSet<RunId>) -> Result<Vec<No>, EngineError> {
        let mut all = Vec::new();
        for run in runs {
            // One that was forgotten has nothing to say.
            let Some(head) = self.inner.journal.head(run).await? else { continue };
            all.extend(noes(run, &self.read_all(run, head.version).await?));
        }
        Ok(all)
    }
}

/// A family grows no further than can be looked through before a yes (E6).
pub(super) fn refuse_if_large(kin: &BTreeSet<RunId>) -> Result<(), Refusal> {
    if kin.len() < FAMILY_RUNS_MAX {
        return Ok(());
    }
    let remedy = format!(
        "a run and its forks are at most {FAMILY_RUNS_MAX}; start the workflow again instead of forking"
    );
    Err(Refusal::TooLarge { field: "run_id".into(), remedy })
}
