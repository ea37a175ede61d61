//! Purse: the budget of a session, of which its runs spend at the same time. Whoever decides what a run
//! does next holds it meanwhile, and tells the run what the others have spent and are about to; what that
//! means is the kernel's to say.
//!
//! Nothing of it is stored: what was spent is in the runs' heads, written with every append. So after a
//! crash it is as full as the journals have it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

use crate::engine::{Engine, EngineError};
use crate::kernel::{Command, Run, RunId, SessionId, Spent, Workflow};
use crate::ports::{Guard, Head, RunFilter};

/// Purses that nobody holds are cleared away when there are so many.
const PURSES_KEPT: usize = 256;

/// The purses that are held just now.
#[derive(Debug, Default)]
pub(super) struct Purses(Mutex<HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>>);

/// A purse in somebody's hand.
#[derive(Debug)]
pub(super) struct Held {
    _turn: OwnedMutexGuard<()>,
    /// Where several processes have a hand in it: what must not have changed when something is spent.
    pub(super) guard: Option<Guard>,
}

impl Purses {
    fn of(&self, session: &SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut purses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(purse) = purses.get(session).and_then(Weak::upgrade) {
            return purse;
        }
        if purses.len() >= PURSES_KEPT {
            purses.retain(|_, purse| purse.strong_count() > 0);
        }
        let purse = Arc::default();
        purses.insert(session.clone(), Arc::downgrade(&purse));
        purse
    }
}

impl Engine {
    /// Takes the purse of a session into the hand, if what its workflow's runs spend is bounded.
    /// Nothing, where it is not.
    pub(super) async fn purse(
        &self,
        session: &SessionId,
        workflow: &Workflow,
    ) -> Result<Option<Held>, EngineError> {
        if workflow.limits.budgets.session.is_nothing() {
            return Ok(None);
        }
        let turn = self.inner.purses.of(session).lock_owned().await;
        let guard = match self.replicas() {
            Some(replicas) => {
                let name = Guard::purse(session);
                let number = replicas.guard(&name).await?;
                Some(Guard { name, number, raises: true })
            }
            None => None,
        };
        Ok(Some(Held { _turn: turn, guard }))
    }

    /// The same for a run that is about to be told something, which learns what the others have spent.
    pub(super) async fn purse_for(
        &self,
        run: &mut Run,
        command: &Command,
    ) -> Result<Option<Held>, EngineError> {
        // Nothing new is begun by these, and they come often.
        if matches!(command, Command::Delta { .. } | Command::Noted { .. }) {
            return Ok(None);
        }
        let held = self.purse(&run.session, &run.workflow).await?;
        if held.is_some() {
            run.spent_beside = self.spent_by_others(&run.session, &run.id).await?;
        }
        Ok(held)
    }

    async fn spent_by_others(
        &self,
        session: &SessionId,
        run: &RunId,
    ) -> Result<Spent, EngineError> {
        let filter = RunFilter { session: Some(session.clone()), ..RunFilter::default() };
        let heads = self.all_heads(&filter).await?;
        let others = heads.iter().filter(|head| head.run != *run);
        Ok(others.fold(Spent::default(), |sum, head| sum.plus(committed(head))))
    }

    /// What the session's runs have spent before one that begins now.
    pub(super) async fn spent_before(&self, session: &SessionId) -> Result<Spent, EngineError> {
        let filter = RunFilter { session: Some(session.clone()), ..RunFilter::default() };
        let heads = self.all_heads(&filter).await?;
        let sum = heads.iter().fold(Spent::default(), |sum, head| sum.plus(committed(head)));
        // Runs that were pruned since are known to those that came after them.
        let carried = heads.iter().map(|head| head.spent.plus(head.spent_before));
        Ok(carried.fold(sum, Spent::max))
    }
}

/// What a run has spent, with the model calls that it is at.
fn committed(head: &Head) -> Spent {
    let model_calls = head.spent.model_calls.saturating_add(head.owed);
    Spent { model_calls, ..head.spent }
}
