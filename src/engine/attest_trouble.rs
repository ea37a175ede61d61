//! Attest trouble: what is wrong with the signing of heads, for whoever asks how the server is. What is signed is
//! `attest`'s.

use std::sync::PoisonError;

use crate::engine::Engine;
use crate::ports::{Fault, LastHead};

/// What is wrong with the signing of heads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttestTrouble {
    /// They are not signed: proofs wait.
    Unsigned(String),
    /// They are signed, and could not be kept beside the key, where a store that is put back in silence is found out.
    NotBeside(String),
}

/// That of a head that is signed, and lies nowhere else.
pub(super) fn not_beside(fault: &Fault) -> AttestTrouble {
    tracing::error!(
        %fault,
        "the log's head is signed, and not kept beside the key: a store that is put back in silence would not be found out"
    );
    AttestTrouble::NotBeside(fault.to_string())
}

impl Engine {
    /// Says what is wrong from now on, or that nothing is.
    pub(super) fn trouble(&self, trouble: Option<AttestTrouble>) {
        *self.inner.attesting.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// What is wrong with the signing of heads, if anything is.
    pub fn attest_trouble(&self) -> Option<AttestTrouble> {
        self.inner.attesting.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Somebody else has signed what could not be signed here. That ends what is wrong only where the log holds what lies
    /// beside the key here, too: a head that it lacks is given up at each server that keeps one.
    pub(super) async fn look_at_trouble(&self) {
        if self.attest_trouble().is_none() {
            return;
        }
        let Some((_, _, key)) = self.inner.attesting.signer.get() else { return };
        match LastHead::of(&*self.inner.journal).await {
            Ok(last) => {
                let ours = last.filter(|last| last.key == key.text());
                let trouble = self.foreseen(ours.as_ref()).await;
                self.trouble(trouble);
            }
            Err(fault) => tracing::debug!(%fault, "what others have signed could not be read"),
        }
    }

    /// What kept heads from being signed was given up: that is told no more from now on, and not only from when the next one
    /// is due.
    pub(super) async fn end_trouble(&self) {
        // Whoever is about to sign still goes by what lay there, and would say so afterwards.
        let _writing = self.inner.attesting.writing.lock().await;
        self.look_at_trouble().await;
    }

    /// Heads are not signed here, for a reason that is told where they are asked for.
    pub fn leave_unsigned(&self, why: &str) {
        self.trouble(Some(AttestTrouble::Unsigned(why.to_owned())));
    }
}
