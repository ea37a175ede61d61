//! Identity: which store this is. It has an epoch, drawn by chance, that is part of what people decide on:
//! a store that was put back from a backup, or made from an export, is another one.

use serde::{Deserialize, Serialize};

use crate::ports::{Fault, Journal, Replicas};

/// Under which name a store keeps it.
const NAME: &str = "identity";

/// Which store this is.
#[expect(clippy::struct_excessive_bools, reason = "each is a word of its own in what is stored")]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// Drawn by chance; empty where none was drawn yet.
    pub epoch: String,
    /// Whether it is another than the one that its first runs began in.
    pub is_renewed: bool,
    /// Whether there may be runs that have not been told of it.
    pub is_renewing: bool,
    /// Whether nothing is done before an operator says so.
    pub is_held: bool,
    /// Whether it is being made from an export, or was when that was cut off: what is there is not all there was.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_importing: bool,
}

/// What is said of a store whose import was cut off.
pub const HALF_IMPORTED: &str = "an import into this store did not come to its end, and part of it is missing; delete its directory and import the \
     file again";

impl Identity {
    /// That of a new store.
    pub fn fresh(epoch: String) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// That of a store that was put back, or made from another.
    pub fn renewed(epoch: String) -> Self {
        Self { epoch, is_renewed: true, is_renewing: true, is_held: true, is_importing: false }
    }

    /// Refuses a store whose import was cut off: half of what people were asked and said would stand for all of it.
    pub fn refuse_half(&self) -> Result<(), Fault> {
        if self.is_importing { Err(Fault::Permanent(HALF_IMPORTED.into())) } else { Ok(()) }
    }

    /// What a store says it is.
    pub async fn of(journal: &dyn Journal) -> Result<Option<Self>, Fault> {
        let Some(text) = journal.remembered(NAME).await? else { return Ok(None) };
        let kept = serde_json::from_str(&text);
        kept.map(Some).map_err(|error| Fault::Corrupt(format!("the store's identity: {error}")))
    }

    /// Has a store that several write to keep it, if none was kept yet; whether it did.
    pub async fn keep_first(&self, replicas: &dyn Replicas) -> Result<bool, Fault> {
        let text = serde_json::to_string(self)
            .map_err(|error| Fault::Permanent(format!("the store's identity: {error}")))?;
        replicas.remember_if(NAME, None, &text).await
    }

    /// Has a store keep it, durable when this returns.
    pub async fn keep(&self, journal: &dyn Journal) -> Result<(), Fault> {
        let text = serde_json::to_string(self)
            .map_err(|error| Fault::Permanent(format!("the store's identity: {error}")))?;
        journal.remember(NAME, &text).await
    }
}
