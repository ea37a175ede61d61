//! Reach: which runs this process drives: all of them, those that it was asked about, or none. What is
//! out of reach can be looked at, and looking sets nothing going (E8).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::engine::cell::{Cell, State};
use crate::engine::drive::Extras;
use crate::engine::{Engine, EngineError};
use crate::kernel::{Command, Millis, Principal, RunId};
use crate::ports::Fault;

/// Which runs a process drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// Every run there is, those that were moving when the last process ended among them: a server.
    #[default]
    Everything,
    /// The runs that commands were given to here, and no other: a command that works on one.
    Own,
    /// None: whoever only looks.
    Nothing,
}

/// What is known of one's reach.
#[derive(Debug, Default)]
pub(super) struct Domain {
    reach: OnceLock<Reach>,
    /// The runs that commands were given to; kept where only they are driven.
    own: Mutex<HashSet<RunId>>,
}

impl Domain {
    /// The runs that commands were given to.
    pub(super) fn own(&self) -> Vec<RunId> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Engine {
    /// Drives no more than `reach` says. To be said before anything runs; the first word stays.
    pub fn keep_to(&self, reach: Reach) {
        self.inner.domain.reach.get_or_init(|| reach);
    }

    /// Which runs are driven.
    pub fn reach(&self) -> Reach {
        self.inner.domain.reach.get().copied().unwrap_or_default()
    }

    /// Takes a run up, as whoever goes on with it does: what was lost under way is recovered, and its
    /// clock is looked at.
    pub async fn take_up(&self, run: &str, who: &Principal) -> Result<(), EngineError> {
        let (_, cell) = self.seen_run(run, who).await?;
        self.taken_up(&cell).await
    }

    /// The same, for a run that was found.
    pub(super) async fn taken_up(&self, cell: &Arc<Cell>) -> Result<(), EngineError> {
        let wake_at = match &*self.hot(cell).await? {
            State::Hot(hot) => hot.run.wake_at(),
            State::Cold => None,
        };
        self.owns(&cell.id);
        if wake_at.is_some_and(|at| at <= self.inner.clock.now()) {
            self.submit(cell, Command::Tick, Extras::default()).await?;
        }
        Ok(())
    }

    /// A command was given to this run here: from now on its clock is looked at and its listeners are told.
    pub(super) fn owns(&self, run: &RunId) {
        match self.reach() {
            Reach::Everything | Reach::Nothing => {}
            Reach::Own => {
                let mut own = self.inner.domain.own.lock().unwrap_or_else(PoisonError::into_inner);
                let is_new = own.insert(run.clone());
                drop(own);
                if is_new {
                    self.wake_at(Millis(0));
                    self.inner.outbox.wake(Millis(0));
                }
            }
        }
    }

    /// Whether this run is driven here.
    pub(super) fn drives(&self, run: &RunId) -> bool {
        let own = &self.inner.domain.own;
        match self.reach() {
            Reach::Everything => true,
            Reach::Own => own.lock().unwrap_or_else(PoisonError::into_inner).contains(run),
            Reach::Nothing => false,
        }
    }

    /// The no of a process that only looks: no door leads here from one.
    pub(super) fn refuse_if_looking(&self) -> Result<(), EngineError> {
        match self.reach() {
            Reach::Everything | Reach::Own => Ok(()),
            Reach::Nothing => {
                let why = "this process only looks, and drives no run; a server does";
                Err(Fault::Permanent(why.into()).into())
            }
        }
    }
}
