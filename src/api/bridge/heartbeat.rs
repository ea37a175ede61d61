//! Heartbeat: that somebody is still speaking, for clients that are told a message only when it is whole.
//!
//! `LangChain`'s asynchronous client gives a stream up after two minutes without an event, and to it a comment is
//! none. So while words come that are not told, the response is said to be in progress, now and then. It
//! follows from the journal's times, as everything that a response tells: told again, it is the same.

use crate::kernel::Millis;

/// Not so often that it weighs anything, and often enough for the least patient client there is.
const EVERY_MS: u64 = 15_000;

/// When something was told last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Heartbeat(Millis);

impl Heartbeat {
    /// Something was told.
    pub(super) fn told(&mut self, at: Millis) {
        self.0 = at;
    }

    /// Whether it is time to say that it goes on.
    pub(super) fn is_due(self, at: Millis) -> bool {
        at >= self.0.plus(EVERY_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speaker_who_is_not_told_is_heard_of_every_fifteen_seconds() {
        let mut heartbeat = Heartbeat::default();
        heartbeat.told(Millis(1_000));
        let mut heard = Vec::new();
        for at in (1_000..=61_000).step_by(500).map(Millis) {
            if heartbeat.is_due(at) {
                heartbeat.told(at);
                heard.push(at.0);
            }
        }
        assert_eq!(heard, [16_000, 31_000, 46_000, 61_000]);
    }
}
