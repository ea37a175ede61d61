//! Unheard: how often words alone were said in a pause in which they decide nothing. A person reads the
//! question that comes back, and its code; a program that does not would go round for ever.
//!
//! It is kept in memory and not in the journal: what is refused changes no run (K1). After a restart the
//! count begins anew, so that a loop is told a few times more and ends again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::engine::Engine;
use crate::kernel::{Principal, Refusal, RequestId, RunId};

/// Times that the question is told again in one pause, to one caller.
const TOLD_MAX: u32 = 3;
/// Pauses that are counted at once. The oldest run's goes first: whoever still talks to it is told anew.
const PAUSES_MAX: usize = 10_000;

/// The counts: by run and caller, with the pause they are of: the last question that it asks.
#[derive(Debug, Default)]
pub(super) struct Unheard(Mutex<BTreeMap<(RunId, String), (u32, u32)>>);

impl Engine {
    /// A refusal as its caller is told it: words alone bring the question again, with its code; a caller that
    /// does not read it is told no after a few times (K9).
    pub fn once_more(&self, refusal: Refusal, who: &Principal) -> Refusal {
        let Refusal::Unbound { open } = refusal else { return refusal };
        let asked = open.iter().filter_map(|one| RequestId::parse(&one.request).ok());
        let last = asked.max_by_key(|id| id.ordinal);
        match last {
            Some(last) if !self.is_told_again(&last.run, last.ordinal, who) => {
                Refusal::StillUnbound { open }
            }
            Some(_) | None => Refusal::Unbound { open },
        }
    }

    /// Notes words alone in the pause whose last question is `asked`; whether it is to be told once more.
    fn is_told_again(&self, run: &RunId, asked: u32, who: &Principal) -> bool {
        let mut counts = self.inner.unheard.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= PAUSES_MAX {
            counts.pop_first();
        }
        let count = counts.entry((run.clone(), who.id.clone())).or_insert((asked, 0));
        if count.0 != asked {
            *count = (asked, 0);
        }
        count.1 = count.1.saturating_add(1);
        count.1 <= TOLD_MAX
    }
}
