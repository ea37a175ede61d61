//! Outlook: what must be known of a shared store before a command is decided on, asked in one question: what is stopped,
//! the number of the run's family, and how the run stands.
//!
//! It spares only what would be answered the same: whoever finds that something is known otherwise by then asks the store
//! anew. What it says is no older than the command, and what is decided on it is held to it by the append (J9, K7).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::cell::{Cell, Hot, State};
use crate::engine::halts::NAME;
use crate::engine::holder::Holder;
use crate::engine::{Engine, EngineError};
use crate::kernel::RunId;
use crate::ports::{Guard, Outlook, Standing};

/// An outlook, and of what.
#[derive(Debug)]
pub(super) struct Ahead {
    family: RunId,
    /// When it was asked, by this process's ticks.
    asked: u64,
    seen: Outlook,
}

impl Ahead {
    /// The number of a family, where that was asked.
    pub(super) fn number(&self, family: &RunId) -> Option<u64> {
        (self.family == *family).then_some(self.seen.guard)
    }
}

impl Engine {
    /// What is there before a run that is in memory is decided on; nothing where nobody else writes.
    pub(super) async fn look_ahead(&self, cell: &Arc<Cell>) -> Result<Option<Ahead>, EngineError> {
        let Some(replicas) = self.replicas() else { return Ok(None) };
        let family = match &*cell.state.lock().await {
            State::Hot(hot) => hot.run.family.clone().unwrap_or_else(|| hot.run.id.clone()),
            // It is read altogether.
            State::Cold => return Ok(None),
        };
        let asked = self.inner.clock.ticks();
        let seen = replicas.outlook(&cell.id, &Guard::family(&family), NAME).await?;
        Ok(Some(Ahead { family, asked, seen }))
    }

    /// Whether what is stopped is what is known here.
    pub(super) fn halts_are_as(&self, ahead: &Ahead) -> bool {
        let is_known = *self.read_of_halts() == ahead.seen.kept;
        if is_known {
            self.inner.halting.asked.fetch_max(ahead.asked, Ordering::AcqRel);
        }
        is_known
    }

    /// How a run stands, where it stands as it is known here.
    pub(super) fn stands_as(&self, hot: &Hot, ahead: &Ahead) -> Option<Standing> {
        let me = self.inner.journal.incarnation();
        ahead.seen.standing.filter(|standing| {
            !hot.is_unsure
                && standing.version == hot.run.version
                && standing.known() == hot.known
                && standing.hooks == hot.hooks_number
                && Holder::of(Some(*standing), me) == hot.holder
        })
    }
}
