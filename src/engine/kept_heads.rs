//! Kept heads: what lies beside the key and is not in the log, so that nothing is signed; and how somebody gives it up. It is
//! the only proof that a store was put back in silence, or written anew: it is given up by whoever says so, and by name.

use crate::engine::{Engine, EngineError};
use crate::kernel::evidence::note::SignedHead;
use crate::kernel::evidence::tree::TreeHead;
use crate::kernel::{Millis, Principal};
use crate::ports::evidence::Signer;
use crate::ports::identity::Identity;
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
            // Given up all the same: nobody knows what it was.
            Err(fault) => {
                tracing::warn!(%fault, "what is kept beside the key cannot be read, and is forgotten");
                let Some((_, origin, _)) = self.inner.attesting.signer.get() else {
                    return Err(fault);
                };
                vec![KeptHead { origin: origin.clone(), leaves: 0, root: "none".into() }]
            }
            Ok(heads) => heads,
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

    /// Holds a store whose log lacks what lies beside this process's key: it was put back, or written anew, while nobody
    /// served it, and nobody has said so. What was decided since is not in it, and would be decided and done once more; so
    /// nothing is before an operator has looked, as where it goes back under those who serve it (J10). Whoever let it go on
    /// since that was signed has looked. To be called before anything runs.
    pub(super) async fn hold_if_put_back(
        &self,
        (signer, origin): (&dyn Signer, &str),
    ) -> Result<(), EngineError> {
        let identity = self.inner.standing.get();
        if identity.is_held {
            return Ok(());
        }
        let had = match Self::kept_beside((signer, origin), identity.released_at) {
            Ok(heads) => self.lacks(&heads).await?,
            // Among several, whoever cannot read what it has signed does not serve, and is no reason to stop the others.
            Err(fault) if self.is_shared() => {
                let why = format!(
                    "{fault}; give it the owner and the mode of the key, or copy it from a server with the same key that serves"
                );
                return Err(Fault::Permanent(why).into());
            }
            // What cannot be read may be anything: it is not taken for nothing.
            Err(fault) => {
                tracing::error!(%fault, "whether the log holds what was signed cannot be told");
                Some(0)
            }
        };
        let Some(had) = had else { return Ok(()) };
        let has = self.inner.journal.evidence().tree().await?.size;
        let (epoch, now) = (self.inner.clock.fresh_secret(), self.inner.clock.now());
        if let Some(replicas) = self.replicas() {
            let hold =
                |known: &Identity| (!known.is_held).then(|| known.rewound(epoch.clone()).at(now));
            Identity::change((&*self.inner.journal, replicas), hold).await?;
        } else {
            identity.rewound(epoch.clone()).at(now).keep(&*self.inner.journal).await?;
        }
        self.inner.sharing.suspicion.count_rewound(&epoch);
        tracing::error!(
            had,
            has,
            "the store was put back, or written anew: its log lacks leaves that this server's key has signed; nothing is done \
             until `holdpoint release`"
        );
        self.note(Note::Rewound { run: None, had, has, deeds: Vec::new() }).await;
        self.settle_in().await
    }

    /// The heads beside a key that were kept since somebody has last looked. A key that has signed another log alone says
    /// nothing of this one.
    fn kept_beside(
        (signer, origin): (&dyn Signer, &str),
        seen: Option<Millis>,
    ) -> Result<Vec<TreeHead>, Fault> {
        if signer.other(origin)?.is_some() {
            return Ok(Vec::new());
        }
        // By which key is not asked: the one before may have signed it.
        let read = |note: &String| Ok(SignedHead::parse(note).map_err(Fault::Corrupt)?.head);
        signer.kept_since(origin, seen)?.iter().map(read).collect()
    }

    /// How many leaves the largest of these heads holds which the log does not.
    async fn lacks(&self, heads: &[TreeHead]) -> Result<Option<u64>, Fault> {
        let mut lacks = None;
        for head in heads {
            let root = self.inner.journal.evidence().root(head.size).await?;
            if root != Some(head.root) {
                lacks = lacks.max(Some(head.size));
            }
        }
        Ok(lacks)
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
