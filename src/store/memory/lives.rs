//! Lives: which processes live that write to one state, by their beats. It has no clock: whoever asks says what time
//! it is.

use std::collections::BTreeMap;

use crate::kernel::Millis;
use crate::ports::Incarnation;

/// How long a life lasts after a beat: a few beats may be lost, and a dead one holds nobody up for long.
pub(super) const TTL_MS: u64 = 6_000;
/// How much longer others wait: a beat that is on its way comes to count.
const GRACE_MS: u64 = 500;

/// Those who live, and until when; none of those who died comes back.
#[derive(Debug, Clone, Default)]
pub(super) struct Lives {
    until: BTreeMap<Incarnation, Millis>,
    since: BTreeMap<Incarnation, Millis>,
}

impl Lives {
    /// A life begins.
    pub(super) fn begin(&mut self, who: Incarnation, now: Millis) {
        self.until.insert(who, now.plus(TTL_MS));
        self.since.insert(who, now);
    }

    /// When a life began, and when it last showed itself.
    pub(super) fn times(&self, who: Incarnation) -> (Millis, Millis) {
        let until = self.until.get(&who).copied().unwrap_or_default();
        let since = self.since.get(&who).copied().unwrap_or_default();
        (since, Millis(until.0.saturating_sub(TTL_MS)))
    }

    /// Shows that somebody lives; whether that is so.
    pub(super) fn beat(&mut self, who: Incarnation, now: Millis) -> bool {
        let until = self.until.get_mut(&who);
        until.map(|until| *until = now.plus(TTL_MS)).is_some()
    }

    /// Declares dead whoever has missed its beats; who they were. Whoever asks lives.
    pub(super) fn bury(&mut self, me: Incarnation, now: Millis) -> Vec<Incarnation> {
        let is_late = |until: &Millis| until.plus(GRACE_MS) <= now;
        let dead = self.until.extract_if(.., |who, until| *who != me && is_late(until));
        dead.map(|(who, _)| who).collect()
    }

    /// A life ends of itself.
    pub(super) fn end(&mut self, who: Incarnation) {
        self.until.remove(&who);
    }

    /// Whether somebody lives.
    pub(super) fn is_living(&self, who: Incarnation) -> bool {
        self.until.contains_key(&who)
    }

    /// Those who live.
    pub(super) fn all(&self) -> Vec<Incarnation> {
        self.until.keys().copied().collect()
    }
}
