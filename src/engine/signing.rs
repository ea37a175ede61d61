//! Signing: whose key signs the heads of a store's log, what that log is called, and how one key hands on to the next. It
//! signs no head (`attest`), and reads no key from anywhere (`app`).

use crate::engine::Engine;
use crate::kernel::evidence::handover::Handover;
use crate::kernel::evidence::note::VerifyKey;
use crate::ports::evidence::{ORIGIN, Signs};
use crate::ports::{Fault, LastHead};

/// Under which name a store that several processes share keeps which key signs for all of them.
const SIGNER: &str = "evidence.signer";

/// Whose key signs the heads of a store's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signing {
    /// This process's.
    Ours(VerifyKey),
    /// Another's, of those who share the store: this process signs nothing.
    Theirs(VerifyKey),
}

impl Engine {
    /// What a store's log is called: drawn once.
    pub(super) async fn origin(&self) -> Result<String, Fault> {
        let journal = &self.inner.journal;
        if let Some(origin) = journal.remembered(ORIGIN).await? {
            return Ok(origin);
        }
        let origin = format!("holdpoint/{}", self.inner.clock.fresh_secret());
        let Some(replicas) = self.replicas() else {
            journal.remember(ORIGIN, &origin).await?;
            return Ok(origin);
        };
        if replicas.remember_if(ORIGIN, None, &origin).await? {
            return Ok(origin);
        }
        // Somebody else was first.
        Ok(journal.remembered(ORIGIN).await?.unwrap_or(origin))
    }

    /// Whose key signs a log that several processes share, where it is not `ours`. It is that of the first of them, until
    /// it hands over to another: heads signed now by one and now by another could be checked with neither.
    pub(super) async fn signs(
        &self,
        last: Option<&LastHead>,
        (origin, ours): (&str, &str),
        before: Option<&dyn Signs>,
    ) -> Result<Option<VerifyKey>, Fault> {
        let Some(replicas) = self.replicas() else { return Ok(None) };
        let journal = &self.inner.journal;
        let mut kept = journal.remembered(SIGNER).await?;
        if kept.is_none() {
            let first = last.map_or(ours, |last| last.key.as_str());
            replicas.remember_if(SIGNER, None, first).await?;
            kept = journal.remembered(SIGNER).await?;
        }
        let theirs = kept.unwrap_or_default();
        let hands_over = match before {
            Some(before) if theirs != ours => {
                let said = before.sign(&Handover::text(origin, &theirs, ours)).await.ok();
                !Handover::new(origin, (&theirs, ours), said.as_deref()).signature.is_empty()
            }
            Some(_) | None => false,
        };
        if theirs == ours
            || (hands_over && replicas.remember_if(SIGNER, Some(&theirs), ours).await?)
        {
            return Ok(None);
        }
        let theirs = VerifyKey::parse(&theirs);
        theirs.map(Some).ok_or_else(|| Fault::Corrupt("the key that signs the log is none".into()))
    }

    /// Whether the key that this process signs with is still the one.
    pub(super) async fn still_signs(&self, key: &VerifyKey) -> Result<bool, Fault> {
        if !self.is_shared() {
            return Ok(true);
        }
        let kept = self.inner.journal.remembered(SIGNER).await?;
        Ok(kept.is_none_or(|kept| kept == key.text()))
    }

    /// Has the key before say which one came after it, where that was not said when the key was changed: its word is
    /// as good later. Where there is nothing to say, that is said: a setting is never passed over in silence.
    pub(super) async fn hand_on_late(
        &self,
        origin: &str,
        key: &str,
        before: &dyn Signs,
    ) -> Result<(), Fault> {
        let journal = &*self.inner.journal;
        let handed = LastHead::handed(journal).await?;
        let Some(change) = handed.last().filter(|change| change.key == key) else {
            tracing::warn!(
                "`audit_key_before` is not used: heads of this log were never signed with another key"
            );
            return Ok(());
        };
        if !change.signature.is_empty() {
            tracing::info!(
                "`audit_key_before` is needed no more: the key before has signed which came after it. Take it out of the \
                 settings, and keep that key away from everything for as long as there are backups from before the change; where \
                 servers share a database, passes of the console that were made with it are good for as long as it is named"
            );
            return Ok(());
        }
        let said = before.sign(&Handover::text(origin, &change.before, key)).await.ok();
        let late = Handover::new(origin, (&change.before, key), said.as_deref());
        if late.signature.is_empty() {
            tracing::warn!(
                "`audit_key_before` is not used: it is not the key that heads were signed with before this one"
            );
            return Ok(());
        }
        tracing::info!(
            "the key before has signed, late, which came after it: the chain of keys is whole"
        );
        LastHead::mend(journal, late).await
    }
}
