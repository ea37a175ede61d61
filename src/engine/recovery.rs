//! Recovery: at boot, every run that was moving is taken up again, without repeating a completed
//! step (E3). Waiting runs are not even looked at: a million of them cost nothing here.

use std::collections::HashMap;

use crate::engine::{Engine, EngineError};

/// Runs listed at a time.
const PAGE: usize = 256;

/// What a recovery did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Runs taken up again.
    pub runs: usize,
    /// Runs that could not be, and stand still until a person has looked.
    pub damaged: usize,
}

impl Engine {
    /// Takes up every run that was moving when the process ended. A command to such a run recovers it
    /// too, so one that comes first has done the work already; those who look do not (E8).
    pub async fn recover(&self) -> Result<Recovered, EngineError> {
        let mut recovered = Recovered::default();
        if self.is_shared() {
            // What others drive is theirs; what nobody does is taken over by whoever has the first turn at it.
            self.beat().await?;
            recovered.runs = self.take_over(&mut HashMap::new()).await?;
            return Ok(recovered);
        }
        let mut cursor = None;
        loop {
            let page = self.inner.journal.running(cursor.as_deref(), PAGE).await?;
            for run in &page.rows {
                let cell = self.inner.cells.get(run);
                let outcome = self.hot(&cell).await.map(drop);
                match outcome {
                    Ok(()) => recovered.runs += 1,
                    Err(error) => {
                        recovered.damaged += 1;
                        tracing::error!(run.id = %run, %error, "run could not be taken up again");
                    }
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        if recovered != Recovered::default() {
            tracing::info!(recovered.runs, recovered.damaged, "runs taken up again");
        }
        Ok(recovered)
    }
}
