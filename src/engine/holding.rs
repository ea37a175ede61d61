//! Holding: how what others have written to a run is taken in, and whose it is to drive found out. Where one process has
//! the store alone nothing of this is asked.

use std::sync::Arc;

use crate::engine::as_asked::hold_to_journal;
use crate::engine::cell::{Cell, Hot};
use crate::engine::holder::Holder;
use crate::engine::narrate::Narrator;
use crate::engine::outlook::Ahead;
use crate::engine::trace::SpanBuilder;
use crate::engine::warm::READ_EVENTS;
use crate::engine::work::stop;
use crate::engine::{Engine, EngineError};
use crate::kernel::evidence::Hash;
use crate::kernel::{Recorded, Status, Version, evolve};
use crate::ports::Standing;

impl Engine {
    /// How a run stands in a store that others write to; none where nobody else does, or the run is gone.
    pub(super) async fn standing(&self, cell: &Cell) -> Result<Option<Standing>, EngineError> {
        match self.replicas() {
            Some(replicas) => Ok(replicas.standing(&cell.id).await?),
            None => Ok(None),
        }
    }

    /// Takes in what others have written to a run in memory, or what became of an append that was not
    /// acknowledged; whether the run is still there. Work under way stays, unless it is somebody else's now.
    pub(super) async fn refresh(
        &self,
        cell: &Arc<Cell>,
        hot: &mut Hot,
        ahead: Option<&Ahead>,
    ) -> Result<bool, EngineError> {
        let standing = match ahead.and_then(|ahead| self.stands_as(hot, ahead)) {
            None => self.standing(cell).await?,
            known => known,
        };
        let head = match standing {
            None if !self.is_shared() => self.inner.journal.head(&cell.id).await?,
            Some(_) | None => None,
        };
        let version = standing.map(|standing| standing.version);
        let version = version.or_else(|| head.as_ref().map(|head| head.version));
        let Some(version) = version else { return Ok(false) };
        let known = if hot.is_unsure { cell.published() } else { hot.run.version };
        let is_another = standing.is_some_and(|standing| tells_another(&standing, hot.known));
        if version < known || is_another {
            return Err(self.gone_back(cell, (known, version)));
        }
        if let Some(standing) = standing.filter(|standing| standing.hooks != hot.hooks_number) {
            hot.hooks = self.inner.journal.hooks(&cell.id).await?;
            hot.hooks_number = standing.hooks;
        }
        let tail = if hot.is_unsure {
            Box::pin(self.fold_anew(cell, hot, version)).await?
        } else if version > known {
            self.read_known(cell, hot.known, (known, version)).await?
        } else {
            Vec::new()
        };
        let has_news = !tail.is_empty();
        self.fold_in(cell, hot, tail)?;
        if let Some(head) = &head {
            // It is read again before anything is done with it, until they agree.
            hold_to_journal(head, &hot.run).inspect_err(|_| hot.is_unsure = true)?;
        }
        if self.is_shared() {
            self.settle_holder(hot, standing);
            hot.known = standing.and_then(|standing| standing.known());
            if has_news && matches!(hot.holder, Holder::Mine(_)) {
                // What is owed now is not a look's to set going.
                self.look_after(cell);
            }
        }
        Ok(true)
    }

    /// What is in memory may be ahead of what is durable: it is folded again up to what was told. What lies
    /// behind that is returned.
    async fn fold_anew(
        &self,
        cell: &Arc<Cell>,
        hot: &mut Hot,
        version: u64,
    ) -> Result<Vec<Recorded>, EngineError> {
        let told = cell.published().min(version);
        let run = self.fold_all(&cell.id, Arc::clone(&hot.run.workflow), told).await?;
        let tail = self.read_known(cell, hot.known, (told, version)).await?;
        let run = self.recalling(run).await?;
        hot.narrator = Narrator::at(&run);
        hot.scribe = self.inner.tracer.get().map(|_| Box::new(SpanBuilder::takes_up(&run)));
        *hot.run = run;
        hot.is_unsure = false;
        Ok(tail)
    }

    /// Whether the store tells another history of a run than what is known of it here.
    pub(super) async fn is_another(
        &self,
        cell: &Cell,
        hot: &Hot,
        standing: Option<Standing>,
    ) -> Result<bool, EngineError> {
        let (Some(replicas), Some(known)) = (self.replicas(), hot.known) else { return Ok(false) };
        if standing.is_some_and(|standing| tells_another(&standing, Some(known))) {
            return Ok(true);
        }
        Ok(replicas.read_on_from(&cell.id, known, 1).await?.is_none())
    }

    /// What others have written since: it goes on from where the run was known to stand, or the store has gone back and was
    /// written to since, and none of it is laid over what was there before (J10).
    async fn read_known(
        &self,
        cell: &Cell,
        known: Option<(Version, Hash)>,
        (from, version): (Version, Version),
    ) -> Result<Vec<Recorded>, EngineError> {
        let known = known.filter(|(at, _)| *at == from && from < version);
        let (Some(replicas), Some(known)) = (self.replicas(), known) else {
            return self.read_on(&cell.id, from, version).await;
        };
        let Some(mut events) = replicas.read_on_from(&cell.id, known, READ_EVENTS).await? else {
            return Err(self.gone_back(cell, (from, version)));
        };
        events.retain(|recorded| recorded.version <= version);
        let after = events.last().map_or(from, |last| last.version);
        events.extend(self.read_on(&cell.id, after, version).await?);
        Ok(events)
    }

    fn fold_in(
        &self,
        cell: &Arc<Cell>,
        hot: &mut Hot,
        tail: Vec<Recorded>,
    ) -> Result<(), EngineError> {
        if tail.is_empty() {
            return Ok(());
        }
        // Until all of it is: what does not fold is folded by nobody.
        hot.is_unsure = true;
        let mut told = Vec::with_capacity(tail.len());
        for Recorded { version, at, event } in tail {
            evolve(&mut hot.run, &event, at)?;
            told.push(Arc::new(hot.narrator.tell(&hot.run, version, at, Arc::new(event))));
        }
        hot.is_unsure = false;
        hot.narrator.rested = matches!(hot.run.status, Status::Waiting { .. });
        hot.scribe = self.inner.tracer.get().map(|_| Box::new(SpanBuilder::takes_up(&hot.run)));
        self.heard(cell, hot, told);
        Ok(())
    }

    /// Knows whose the run is now. What was under way for it here is stopped where it is somebody else's.
    fn settle_holder(&self, hot: &mut Hot, standing: Option<Standing>) {
        hot.holder = Holder::of(standing, self.inner.journal.incarnation());
        match hot.holder {
            Holder::Mine(_) => {}
            Holder::Other(_) => {
                hot.is_adrift = false;
                hot.stop_all();
            }
            Holder::Nobody | Holder::Dead(_) => {
                hot.is_adrift = hot.run.status == Status::Running;
                let work = std::mem::take(&mut hot.work);
                stop(&hot.run, work);
            }
        }
    }

    /// Has a run go on, in a task of its own: something has changed that it may owe something for.
    pub(super) fn look_after(&self, cell: &Arc<Cell>) {
        let (engine, cell) = (self.clone(), Arc::clone(cell));
        self.inner.tasks.spawn(async move {
            if let Err(error) = engine.nudged(&cell).await {
                tracing::debug!(run.id = %cell.id, %error, "run was not looked after");
            }
        });
    }
}

/// Whether a run has another link than it is known to have had at that version.
fn tells_another(standing: &Standing, known: Option<(Version, Hash)>) -> bool {
    let at_once = known.zip(standing.known());
    at_once.is_some_and(|((at, had), (version, has))| at == version && had != has)
}
