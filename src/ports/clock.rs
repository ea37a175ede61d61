//! Clock: the only door for time, and for chance (fresh ids).
//!
//! Where several processes share a store they go by its time, not by their machines': a clock that follows is told what
//! the store's showed, and when that was asked. Fresh ids stay with the machine.

use async_trait::async_trait;

use crate::kernel::{Millis, digest};
use crate::ports::{Fault, Replicas};

/// Time and fresh names.
#[async_trait]
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// What time it is.
    fn now(&self) -> Millis;

    /// Returns at `at` or later, never earlier.
    async fn sleep_until(&self, at: Millis);

    /// Milliseconds that only go on, whatever the time is set to, also while the machine sleeps. They tell how long
    /// something took, and not when it was.
    fn ticks(&self) -> u64 {
        self.now().0
    }

    /// Returns after so many milliseconds, whatever the time is set to meanwhile.
    async fn pause(&self, ms: u64) {
        self.sleep_until(self.now().plus(ms)).await;
    }

    /// The store's clock showed `time` at some moment between the tick `asked` and now. A clock that follows nobody does
    /// nothing about it.
    fn follow(&self, asked: u64, time: Millis) {
        let _ = (asked, time);
    }

    /// Whether it knows the time: one that follows does not before it was first told.
    fn is_set(&self) -> bool {
        true
    }

    /// By how many milliseconds the machine's own clock is ahead of the time that is kept; 0 where that is kept.
    fn astray(&self) -> i64 {
        0
    }

    /// 26 lower-case letters and digits that sort by the time they were drawn and never repeat.
    fn fresh_stem(&self) -> String;

    /// What nobody guesses: 32 hexadecimal digits. A clock of tests draws it from its names.
    fn fresh_secret(&self) -> String {
        let mut secret = digest::of_bytes(self.fresh_stem().as_bytes());
        secret.truncate(32);
        secret
    }
}

/// Has a clock follow the store's.
pub async fn keep_time(clock: &dyn Clock, replicas: &dyn Replicas) -> Result<(), Fault> {
    // From before it is asked: an answer may be on its way for long.
    let asked = clock.ticks();
    let time = replicas.time().await?;
    clock.follow(asked, time);
    Ok(())
}
