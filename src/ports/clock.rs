//! Clock: the only door for time, and for chance (fresh ids).

use async_trait::async_trait;

use crate::kernel::{Millis, digest};

/// Time and fresh names.
#[async_trait]
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// What time it is.
    fn now(&self) -> Millis;

    /// Returns at `at` or later, never earlier.
    async fn sleep_until(&self, at: Millis);

    /// 26 lower-case letters and digits that sort by the time they were drawn and never repeat.
    fn fresh_stem(&self) -> String;

    /// What nobody guesses: 32 hexadecimal digits. A clock of tests draws it from its names.
    fn fresh_secret(&self) -> String {
        let mut secret = digest::of_bytes(self.fresh_stem().as_bytes());
        secret.truncate(32);
        secret
    }
}
