//! Last head: the newest head of the log of leaves that was signed, as a store keeps it (J13).

use serde::{Deserialize, Serialize};

use crate::kernel::evidence::note::SignedHead;
use crate::ports::{Fault, Journal};

/// Under which name a store keeps the last head that was signed.
const HEAD: &str = "evidence.head";
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

    /// As it is read; what is wrong with it, if it is none.
    pub fn head(&self) -> Result<SignedHead, String> {
        SignedHead::parse(&self.note)
    }
}
