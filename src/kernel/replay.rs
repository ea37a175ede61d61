//! Replay: a run got back by folding its journal, whole or as it is read. It decides nothing: `evolve` says what each
//! event changes, and a journal that cannot have happened is told and not guessed about (J5).

use std::sync::Arc;

use crate::kernel::event::{Event, Recorded};
use crate::kernel::evolve::{Corruption, begin, evolve};
use crate::kernel::id::{RunId, Version};
use crate::kernel::run::Run;
use crate::kernel::workflow::Workflow;

/// A journal that is folded as it is read: of what was read only the run is kept, never the events.
#[derive(Debug)]
pub struct Replay {
    id: RunId,
    workflow: Arc<Workflow>,
    run: Option<Run>,
}

impl Replay {
    /// Of a run of which nothing was read yet.
    pub const fn of(id: RunId, workflow: Arc<Workflow>) -> Self {
        Self { id, workflow, run: None }
    }

    /// Of a run that was folded so far already.
    pub fn from(run: Run) -> Self {
        Self { id: run.id.clone(), workflow: Arc::clone(&run.workflow), run: Some(run) }
    }

    /// The version up to which it was folded.
    pub fn version(&self) -> Version {
        self.run.as_ref().map_or(0, |run| run.version)
    }

    /// Folds the next event.
    ///
    /// # Errors
    ///
    /// Fails when it cannot follow what was folded before.
    pub fn fold(&mut self, recorded: &Recorded) -> Result<(), Corruption> {
        let corruption = |why| Corruption { run: self.id.clone(), version: recorded.version, why };
        if let Some(run) = &mut self.run {
            if recorded.version != run.version + 1 {
                return Err(corruption("J5: a gap in the versions"));
            }
            return evolve(run, &recorded.event, recorded.at);
        }
        let Event::Started(started) = &recorded.event else {
            return Err(corruption("a journal begins with `started`"));
        };
        if recorded.version != 1 {
            return Err(corruption("J5: a journal begins at version 1"));
        }
        self.run = Some(begin(self.id.clone(), Arc::clone(&self.workflow), started, recorded.at));
        Ok(())
    }

    /// The run as it stands after what was folded.
    ///
    /// # Errors
    ///
    /// Fails when nothing was.
    pub fn ended(self) -> Result<Run, Corruption> {
        let why = "the journal is empty";
        self.run.ok_or(Corruption { run: self.id, version: 0, why })
    }
}

/// Folds a whole journal.
pub fn replay<'a>(
    id: &RunId,
    workflow: Arc<Workflow>,
    journal: impl IntoIterator<Item = &'a Recorded>,
) -> Result<Run, Corruption> {
    let mut replay = Replay::of(id.clone(), workflow);
    for recorded in journal {
        replay.fold(recorded)?;
    }
    replay.ended()
}
