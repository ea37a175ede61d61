//! Counters: decisions as they become durable, for `/metrics`. What is made of them is `oversight`'s.

use crate::kernel::{Closing, Event, Verb};

/// Counts a decision for `/metrics`, once it is durable.
pub(super) fn count(event: &Event) {
    let (word, name) = match event {
        Event::Answered { value, .. } => (Verb::of(value), "holdpoint_decisions_total"),
        Event::Voted { value, .. } => (Verb::of(value), "holdpoint_votes_total"),
        Event::Closed { closing: Closing::Rejected, .. } => {
            metrics::counter!("holdpoint_requests_expired_total").increment(1);
            return;
        }
        _ => return,
    };
    if let Some(word) = word {
        metrics::counter!(name, "decision" => word.word()).increment(1);
    }
}
