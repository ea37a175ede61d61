//! As asked: what is listed is what was asked. Lists are read from heads, without journals (J7); a head that says something
//! else than its journal would have a person decide on what is not done (K3). So no question is shown beside a digest that
//! is not its own, and no run is taken up whose head asks what its journal does not. What must agree is said by the port.

use crate::engine::cell::State;
use crate::engine::{Engine, EngineError};
use crate::kernel::{Corruption, Refusal, Run};
use crate::ports::{Fault, Head};

impl Engine {
    /// Heads as they may be shown. Of one whose questions are not what their digests say the journal is read, and a run
    /// that is damaged is left out: the others are listed all the same.
    pub(super) async fn as_asked(&self, heads: Vec<Head>) -> Result<Vec<Head>, EngineError> {
        let epoch = self.epoch();
        let mut shown = Vec::with_capacity(heads.len());
        for head in heads {
            if self.is_as_asked(&head, &epoch) {
                shown.push(head);
            } else {
                shown.extend(self.head_of_journal(&head).await?);
            }
        }
        Ok(shown)
    }

    /// Whether a head asks what it was asked. One hash a question, unless the run is in memory to be compared with.
    fn is_as_asked(&self, head: &Head, epoch: &str) -> bool {
        // Before stores had an epoch there was none.
        head.questions.is_empty()
            || self.asks_as_in_memory(head).unwrap_or_else(|| head.is_sealed(&[epoch, ""]))
    }

    /// The same by the run in memory; none where that is not there, is at another version, or has somebody at it.
    fn asks_as_in_memory(&self, head: &Head) -> Option<bool> {
        let cell = self.inner.cells.peek(&head.run)?;
        let state = cell.state.try_lock().ok()?;
        let State::Hot(hot) = &*state else { return None };
        let is_same = !hot.is_unsure && hot.run.version == head.version;
        is_same.then(|| head.asks_as(&hot.run))
    }

    /// The head of a run as its journal has it; none where the run is gone, or damaged.
    async fn head_of_journal(&self, head: &Head) -> Result<Option<Head>, EngineError> {
        let cell = self.inner.cells.get(&head.run);
        match self.read(&cell).await {
            Ok(state) => {
                let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
                if hot.run.version == head.version && !head.asks_as(&hot.run) {
                    tracing::error!(run.id = %head.run, version = head.version, "a run's head does not ask what its journal does: the journal is shown");
                }
                Ok(Some(Head::of(&hot.run)))
            }
            Err(error @ (EngineError::Corrupt(_) | EngineError::Fault(Fault::Corrupt(_)))) => {
                tracing::error!(run.id = %head.run, %error, "a run is left out of a list: it is damaged");
                Ok(None)
            }
            Err(EngineError::Refused(Refusal::UnknownRun(_) | Refusal::PrunedRun(_))) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a head asks what its run does, where both are of one version.
pub(super) fn is_as_head(head: &Head, run: &Run) -> bool {
    head.version != run.version || head.asks_as(run)
}

/// Holds the head that was read of a run to what its journal folds to, where both are of one version: others may have
/// written since. Where they differ the run stands still until a person has looked.
pub(super) fn hold_to_journal(head: &Head, run: &Run) -> Result<(), Corruption> {
    if is_as_head(head, run) {
        return Ok(());
    }
    tracing::error!(run.id = %run.id, version = run.version, "run stands still: its head does not ask what its journal does");
    let why = "its head does not ask what its journal does";
    Err(Corruption { run: run.id.clone(), version: run.version, why })
}
