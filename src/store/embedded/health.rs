//! Health: whether the store takes writes, and why not, for all who must know. What fails stays failed:
//! only a restart reads back what is there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::ports::Fault;

/// Whether the store still takes writes, for all to see.
#[derive(Debug, Default)]
pub(super) struct Health {
    failure: OnceLock<String>,
    is_closed: AtomicBool,
    /// Whether writes are refused for the moment that a move takes.
    is_sealed: AtomicBool,
}

impl Health {
    /// Why the store takes no more writes, if it does not.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.check_failure()?;
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Fault::Retriable("the store is closed".into()));
        }
        if self.is_sealed.load(Ordering::Acquire) {
            return Err(Fault::Retriable("the store is being moved; try again".into()));
        }
        Ok(())
    }

    /// Why the store has failed, if it has.
    pub(super) fn check_failure(&self) -> Result<(), Fault> {
        match self.failure.get() {
            Some(why) => Err(Fault::Permanent(format!("the store has failed: {why}"))),
            None => Ok(()),
        }
    }

    /// No more writes are taken.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// No writes are taken for now, or they are again.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "a store moves into a database alone")
    )]
    pub(super) fn seal(&self, is_sealed: bool) {
        self.is_sealed.store(is_sealed, Ordering::Release);
    }

    /// No more writes are taken, for this reason; the first one counts.
    pub(super) fn fail(&self, why: &str) {
        if self.failure.set(why.to_owned()).is_ok() {
            tracing::error!(
                why,
                "the store has failed and takes no more writes; nothing acknowledged is lost: \
                 see to the disk, then restart"
            );
        }
    }
}

/// Fails the store should a thread of its own panic, so that nobody takes silence for health.
#[derive(Debug)]
pub(super) struct Watch {
    health: Arc<Health>,
    failure: &'static str,
    is_done: bool,
}

impl Watch {
    pub(super) fn new(health: &Arc<Health>, failure: &'static str) -> Self {
        Self { health: Arc::clone(health), failure, is_done: false }
    }

    /// The thread ends as it should.
    pub(super) fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.is_done {
            self.health.fail(self.failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_fails_the_store_and_one_that_ends_does_not() {
        let health = Arc::new(Health::default());
        let watch = Watch::new(&health, "a thread panicked");
        std::thread::spawn(move || watch.done()).join().unwrap();
        assert!(health.check().is_ok());
        let watch = Watch::new(&health, "a thread panicked");
        let ended = std::thread::spawn(move || {
            let _watch = watch;
            panic!("sled gave up");
        });
        assert!(ended.join().is_err());
        let why = health.check().unwrap_err().to_string();
        assert!(why.contains("a thread panicked"), "{why}");
    }
}
