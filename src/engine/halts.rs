//! Halts: what is stopped, as the store keeps it, durably; and as others who share the store change it. What it means is
//! `halting`'s, and the kernel's.

use std::sync::{Arc, PoisonError};

use serde::{Deserialize, Serialize};

use crate::engine::drive::DECIDE_TRIES;
use crate::engine::{Engine, EngineError, Reach};
use crate::kernel::{Halt, Halts, Operator};
use crate::ports::Fault;

/// Under which name a store keeps them.
const NAME: &str = "halts";

/// Halts as a store keeps them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    halts: Halts,
}

impl Engine {
    /// Reads what the store keeps. To be called before anything is looked at.
    pub(super) async fn read_halts(&self) -> Result<(), EngineError> {
        let Some(text) = self.inner.journal.remembered(NAME).await? else { return Ok(()) };
        let kept: Kept = serde_json::from_str(&text)
            .map_err(|error| Fault::Corrupt(format!("the store's halts: {error}")))?;
        self.set_halts(kept.halts);
        *self.inner.halting.read.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        Ok(())
    }

    /// Heeds what others have stopped, or let go on, where they share the store.
    pub(super) async fn heed_halts(&self) -> Result<(), EngineError> {
        if !self.is_shared() {
            return Ok(());
        }
        let text = self.inner.journal.remembered(NAME).await?;
        if *self.inner.halting.read.lock().unwrap_or_else(PoisonError::into_inner) == text {
            return Ok(());
        }
        let before = self.halts();
        if text.is_none() && !before.0.is_empty() && self.reach() != Reach::Nothing {
            // None where there were some: the store has gone back, and whatever was stopped stays so (K7).
            *self.inner.halting.read.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.keep_halts(&before).await?;
            return Ok(());
        }
        self.read_halts().await?;
        let now = self.halts();
        let stands = |known: &Halt| now.0.iter().any(|other| other.id == known.id);
        if !before.0.iter().all(stands) {
            let engine = self.clone();
            self.inner.tasks.spawn(async move {
                if let Err(error) = engine.go_on().await {
                    tracing::error!(%error, "what stood still does not go on");
                }
            });
        }
        Ok(())
    }

    /// Finishes what somebody who died was taking back.
    pub(super) fn finish_halts(&self) {
        if self.halts().0.iter().any(|known| known.is_ending) {
            let engine = self.clone();
            self.inner.tasks.spawn(async move {
                if let Err(error) = engine.settle_halts().await {
                    tracing::error!(%error, "a halt is not taken back yet");
                }
            });
        }
    }

    /// Keeps them with a change; where others change them meanwhile, over what they left.
    pub(super) async fn change_halts(
        &self,
        change: impl Fn(&mut Halts) + Send + Sync,
    ) -> Result<Halts, EngineError> {
        for _ in 0..DECIDE_TRIES {
            self.heed_halts().await?;
            let mut halts = Halts::clone(&self.halts());
            change(&mut halts);
            if self.keep_halts(&halts).await? {
                return Ok(halts);
            }
        }
        Err(EngineError::Moved)
    }

    /// Whether they were kept; not, where others have changed them since.
    async fn keep_halts(&self, halts: &Halts) -> Result<bool, EngineError> {
        let kept = serde_json::to_string(&Kept { halts: halts.clone() })
            .map_err(|error| Fault::Permanent(format!("the store's halts: {error}")))?;
        let Some(replicas) = self.replicas() else {
            self.inner.journal.remember(NAME, &kept).await?;
            return Ok(true);
        };
        let read = &self.inner.halting.read;
        let knew = read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_kept = replicas.remember_if(NAME, knew.as_deref(), &kept).await?;
        if is_kept {
            *read.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        }
        Ok(is_kept)
    }

    pub(super) fn set_halts(&self, halts: Halts) {
        let mut operator = self.inner.operator.write().unwrap_or_else(PoisonError::into_inner);
        let halts = Arc::new(halts);
        *operator = Arc::new(Operator { halts, ..Operator::clone(&operator) });
    }
}
