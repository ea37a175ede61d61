//! Pulse: what a page that shows things needs of the engine: the time, a run's journal, and a hint
//! that the inbox has changed. What changed is read from the views, so a missed hint costs nothing.

use tokio::sync::broadcast;

use crate::engine::cell::State;
use crate::engine::inbox::InboxChange;
use crate::engine::{Engine, EngineError};
use crate::kernel::{Millis, Principal, Recorded};

/// Hints that something in the inbox has changed.
#[derive(Debug)]
pub struct InboxPulse {
    changes: broadcast::Receiver<InboxChange>,
    engine: Engine,
    principal: Principal,
}

impl InboxPulse {
    /// Returns when something that the principal may see has been asked or closed. One that fell
    /// behind is told so at once: it only reads the inbox again.
    pub async fn next(&mut self) -> Result<(), EngineError> {
        loop {
            let change = tokio::select! {
                change = self.changes.recv() => change,
                error = self.engine.ended() => return Err(error),
            };
            match change {
                Ok(InboxChange::Opened(request)) if self.principal.may_see(&request.owner) => {
                    return Ok(());
                }
                Ok(InboxChange::Closed { owner, .. }) if self.principal.may_see(&owner) => {
                    return Ok(());
                }
                Ok(InboxChange::Opened(_) | InboxChange::Closed { .. } | InboxChange::CaughtUp) => {
                }
                Err(broadcast::error::RecvError::Lagged(_)) => return Ok(()),
                Err(broadcast::error::RecvError::Closed) => return Err(EngineError::Draining),
            }
        }
    }
}

impl Engine {
    /// What time it is, for whoever shows deadlines and ages.
    pub fn now(&self) -> Millis {
        self.inner.clock.now()
    }

    /// A key that never repeats, for a form that must not count twice.
    pub fn fresh_key(&self) -> String {
        self.inner.clock.fresh_stem()
    }

    /// Hints of changes of the inbox, from now on.
    pub fn inbox_pulse(&self, principal: Principal) -> InboxPulse {
        InboxPulse { changes: self.inner.inbox.subscribe(), engine: self.clone(), principal }
    }

    /// A run's journal, oldest first: the newest `limit` events of it.
    pub async fn journal(
        &self,
        run: &str,
        limit: u32,
        who: &Principal,
    ) -> Result<Vec<Recorded>, EngineError> {
        let (id, cell) = self.seen_run(run, who).await?;
        let version = {
            let state = self.read(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            hot.run.version
        };
        let mut after = version.saturating_sub(limit.into());
        let mut events: Vec<Recorded> = Vec::new();
        while after < version {
            let more = self.inner.journal.read(&id, after, 1_024).await?;
            let Some(last) = more.last() else { break };
            after = last.version;
            events.extend(more.into_iter().take_while(|recorded| recorded.version <= version));
        }
        Ok(events)
    }
}
