//! News: whether something is worth a line in the log. While a store is away everything that asks it again and again fails
//! for one reason: that is told once, and then every ten seconds.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use crate::engine::Engine;

/// How often one reason is told.
const EVERY_MS: u64 = 10_000;
/// Reasons that are remembered; past it they are told anew.
const REASONS_MAX: usize = 64;

/// When each reason was last told, by what the machine counts.
#[derive(Debug, Default)]
pub(super) struct News(Mutex<HashMap<String, u64>>);

impl News {
    /// Whether a reason is to be told now.
    fn is_due(&self, why: String, now_ms: u64) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(&why).is_some_and(|told| now_ms.saturating_sub(*told) < EVERY_MS) {
            return false;
        }
        if told.len() >= REASONS_MAX {
            told.clear();
        }
        told.insert(why, now_ms);
        true
    }

    /// From here on every reason is new.
    fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Engine {
    /// Whether why something failed, which is tried again and again, is to be told now.
    pub fn is_news(&self, why: &impl Display) -> bool {
        self.inner.news.is_due(why.to_string(), self.inner.clock.ticks())
    }

    /// Tells that the store is there again, after signs of life had failed.
    pub(super) fn tell_back(&self) {
        self.inner.news.forget();
        tracing::info!("the store answers again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once_in_ten_seconds_and_another_one_at_once() {
        let news = News::default();
        let due = |why: &str, now| news.is_due(why.to_owned(), now);
        assert!(due("nobody listens", 0));
        assert!((1..EVERY_MS).step_by(500).all(|now| !due("nobody listens", now)));
        assert!(due("no room", 300) && !due("no room", 400), "another reason");
        assert!(due("nobody listens", EVERY_MS) && !due("nobody listens", EVERY_MS + 1));
        news.forget();
        assert!(due("nobody listens", EVERY_MS + 2), "it went again");
        assert!((0..1_000).all(|number| due(&format!("run {number}"), EVERY_MS)), "each is new");
    }
}
