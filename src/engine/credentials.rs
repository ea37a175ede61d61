//! Credentials: whoever speaks is asked for once more where it is decided on, as late as can be (K7). Who has which is
//! known elsewhere.

use std::sync::Arc;

use crate::engine::{Engine, EngineError};
use crate::kernel::{Principal, Refusal};
use crate::ports::Credentials;

impl Engine {
    /// Has credentials looked at again before anything is decided. To be said before anything runs; the first stays.
    pub fn know_by(&self, credentials: Arc<dyn Credentials>) {
        self.inner.credentials.get_or_init(|| credentials);
    }

    /// Refuses somebody whose credential is not good any more.
    pub(super) async fn refuse_if_unknown(&self, who: &Principal) -> Result<(), EngineError> {
        let Some(credentials) = self.inner.credentials.get() else { return Ok(()) };
        if credentials.are_good(who).await? {
            return Ok(());
        }
        Err(Refusal::Unauthenticated.into())
    }
}
