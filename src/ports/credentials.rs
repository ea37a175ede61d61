//! Credentials: whether what somebody was known by at a door is still good, asked again when what they say is decided on.
//! Between the two a process may have been frozen, and a key removed elsewhere.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::kernel::Principal;
use crate::ports::Fault;

/// Who knows.
#[async_trait]
pub trait Credentials: Debug + Send + Sync {
    /// Whether it is. A fault where that cannot be said: then nothing is decided (K7).
    async fn are_good(&self, who: &Principal) -> Result<bool, Fault>;
}
