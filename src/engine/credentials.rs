//! Credentials: whoever speaks is asked for once more where it is decided on, as late as can be (K7). Who has which is
//! known elsewhere.

use std::sync::Arc;

use crate::engine::{Engine, EngineError};
use crate::kernel::{Principal, Refusal};
use crate::ports::{Credentials, Guard, Vouched};

impl Engine {
    /// Has credentials looked at again before anything is decided. To be said before anything runs; the first stays.
    pub fn know_by(&self, credentials: Arc<dyn Credentials>) {
        self.inner.credentials.get_or_init(|| credentials);
    }

    /// Refuses somebody whose credential is not good any more. What must not have changed by the time that their word is
    /// written: a process may be frozen, or its line slow, at any moment before that.
    pub(super) async fn refuse_if_unknown(
        &self,
        who: &Principal,
    ) -> Result<Option<Guard>, EngineError> {
        let Some(credentials) = self.inner.credentials.get() else { return Ok(None) };
        match credentials.vouch(who).await? {
            Vouched::Good(guard) => Ok(guard.filter(|_| self.is_shared())),
            // One was shown, and was good a moment ago: that none was is not what they are told.
            Vouched::Unknown => Err(Refusal::UnknownKey.into()),
        }
    }

    /// That something has changed which was written down as unchanged.
    pub(super) fn doubt(&self, guard: &str) {
        if let Some(credentials) = self.inner.credentials.get().filter(|_| Guard::is_of_kept(guard))
        {
            credentials.doubt();
        }
    }
}
