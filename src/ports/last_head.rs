//! Last head: the newest head of the log of leaves that was signed, as a store keeps it (J13).

use serde::{Deserialize, Serialize};

use crate::kernel::evidence::handover::Handover;
use crate::kernel::evidence::note::SignedHead;
use crate::ports::{Fault, Journal};

/// Under which name a store keeps the last head that was signed.
const HEAD: &str = "evidence.head";
/// Under which name it keeps which keys have signed before.
const KEYS: &str = "evidence.keys";
/// The last head that was signed, with the key that it was signed with: together, since a key may be
/// changed, and a store be cut off in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastHead {
    /// The public key.
    pub key: String,
    /// The note.
    pub note: String,
}

impl LastHead {
    /// That of a store; none if nothing was signed yet.
    pub async fn of(journal: &dyn Journal) -> Result<Option<Self>, Fault> {
        let Some(text) = journal.remembered(HEAD).await? else { return Ok(None) };
        let kept = serde_json::from_str(&text);
        kept.map(Some).map_err(|error| Fault::Corrupt(format!("the last signed head: {error}")))
    }

    /// Has a store keep it.
    pub async fn keep(&self, journal: &dyn Journal) -> Result<(), Fault> {
        let text = serde_json::to_string(self)
            .map_err(|error| Fault::Permanent(format!("the last signed head: {error}")))?;
        journal.remember(HEAD, &text).await
    }

    /// The keys that have signed heads of a store's log, each but the last with its word on the next; the first first.
    pub async fn handed(journal: &dyn Journal) -> Result<Vec<Handover>, Fault> {
        let Some(text) = journal.remembered(KEYS).await? else { return Ok(Vec::new()) };
        let kept = serde_json::from_str(&text);
        kept.map_err(|error| Fault::Corrupt(format!("the keys that have signed heads: {error}")))
    }

    /// Has a store keep that another key signs from now on; once.
    pub async fn hand_on(journal: &dyn Journal, change: Handover) -> Result<(), Fault> {
        let mut handed = Self::handed(journal).await?;
        if handed.last() == Some(&change) {
            return Ok(());
        }
        handed.push(change);
        Self::keep_handed(journal, &handed).await
    }

    async fn keep_handed(journal: &dyn Journal, handed: &[Handover]) -> Result<(), Fault> {
        let text = serde_json::to_string(handed)
            .map_err(|error| Fault::Permanent(format!("the keys that sign heads: {error}")))?;
        journal.remember(KEYS, &text).await
    }

    /// Has a store keep what the key before has said late, in the place of the last change, which it speaks of.
    pub async fn mend(journal: &dyn Journal, late: Handover) -> Result<(), Fault> {
        let mut handed = Self::handed(journal).await?;
        handed.pop();
        handed.push(late);
        Self::keep_handed(journal, &handed).await
    }

    /// As it is read; what is wrong with it, if it is none.
    pub fn head(&self) -> Result<SignedHead, String> {
        SignedHead::parse(&self.note)
    }
}
