//! Kept heads: what lies beside the key and is not in the log, so that nothing is signed; and how somebody gives it up. It is
//! the only proof that a store was put back in silence, or written anew: it is given up by whoever says so, and by name.

use crate::engine::Engine;
use crate::kernel::Principal;
use crate::kernel::evidence::note::SignedHead;
use crate::ports::{Fault, Note};

/// A head that is kept beside the key, and whose leaves the log does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptHead {
    /// Of which log it is: another where the key has signed that one and never this.
    pub origin: String,
    /// How many leaves it holds.
    pub leaves: u64,
    /// Their root; `none` where no head can be read.
    pub root: String,
}

/// What came of letting a store go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleasedStore {
    /// Whether it was held.
    pub was_held: bool,
    /// Heads beside the key that the log does not hold.
    pub heads: Vec<KeptHead>,
    /// Whether they were forgotten.
    pub are_forgotten: bool,
}

impl KeptHead {
    fn read(origin: String, note: &str) -> Self {
        match SignedHead::parse(note) {
            Ok(signed) => {
                Self { origin, leaves: signed.head.size, root: signed.head.root.to_string() }
            }
            Err(_) => Self { origin, leaves: 0, root: "none".into() },
        }
    }
}

impl Engine {
    /// The heads beside the key that the log does not hold. Where `forgets` says so they count no more, and the log is
    /// signed from whatever it holds.
    pub(super) async fn settle_heads(
        &self,
        forgets: bool,
        who: &Principal,
    ) -> Result<Vec<KeptHead>, Fault> {
        let heads = match self.missing_heads().await {
            Err(fault) if !forgets => {
                tracing::warn!(%fault, "whether the log holds what was signed could not be told");
                return Ok(Vec::new());
            }
            read => read?,
        };
        let Some((signer, origin, _)) = self.inner.attesting.signer.get() else { return Ok(heads) };
        if !forgets || heads.is_empty() {
            return Ok(heads);
        }
        for head in heads.clone() {
            let KeptHead { origin, leaves, root } = head;
            tracing::warn!(
                principal.id = %who.id,
                door = %who.door,
                log = origin,
                leaves,
                root,
                "a head that was kept beside the key is forgotten: the log is signed from what it holds"
            );
            let (who, door, known) = who.recorded();
            // Said before it is so, as with everything that cannot be taken back.
            self.note(Note::HeadForgotten { who, door, origin, leaves, root, known }).await;
        }
        signer.forget_last(origin)?;
        Ok(heads)
    }

    async fn missing_heads(&self) -> Result<Vec<KeptHead>, Fault> {
        let Some((signer, origin, _)) = self.inner.attesting.signer.get() else {
            return Ok(Vec::new());
        };
        if let Some((other, note)) = signer.other(origin)? {
            return Ok(vec![KeptHead::read(other, &note)]);
        }
        let mut missing: Vec<KeptHead> = Vec::new();
        for note in signer.last(origin)? {
            let head = KeptHead::read(origin.clone(), &note);
            let root = self.inner.journal.evidence().root(head.leaves).await?;
            let is_held = root.is_some_and(|root| root.to_string() == head.root);
            // The key before may have the same one beside it.
            if !is_held && !missing.contains(&head) {
                missing.push(head);
            }
        }
        Ok(missing)
    }
}
