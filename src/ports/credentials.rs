//! Credentials: whether what somebody was known by at a door is still good, asked again when what they say is decided on.
//! Between the two a process may have been frozen, and a key removed elsewhere.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::kernel::Principal;
use crate::ports::{Fault, Guard};

/// What is known of a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vouched {
    /// It is not good any more.
    Unknown,
    /// It is, for as long as that has not changed: to be written with what is decided, where others may change it.
    Good(Option<Guard>),
}

/// Who knows.
#[async_trait]
pub trait Credentials: Debug + Send + Sync {
    /// Whether it is. A fault where that cannot be said: then nothing is decided (K7).
    async fn vouch(&self, who: &Principal) -> Result<Vouched, Fault>;

    /// What was known has changed: it is asked for again.
    fn doubt(&self) {}
}
