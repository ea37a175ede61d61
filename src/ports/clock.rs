//! Clock: the only door for time, and for chance (fresh ids).

use async_trait::async_trait;

use crate::kernel::Millis;

/// Time and fresh names.
#[async_trait]
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// What time it is.
    fn now(&self) -> Millis;

    /// Returns at `at` or later, never earlier.
    async fn sleep_until(&self, at: Millis);

    /// 26 lower-case letters and digits that sort by the time they were drawn and never repeat.
    fn fresh_stem(&self) -> String;
}
