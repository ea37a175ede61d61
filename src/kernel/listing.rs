//! Listing: whether a pause tells of everything that is open, or of the first of it. Views of a run are
//! always whole; this is about the stream alone.
//!
//! A run that asks a thousand people pauses after each of their answers. If every pause told of all
//! that is left, their answers would cost by the square. So beyond a few, a pause tells of
//! everything only where at least half of it is new: what that costs, the asking has paid for.

use serde::{Deserialize, Serialize};

/// Open questions that every pause tells of.
pub const LISTED_MAX: usize = 100;

/// What the last pause told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Listing {
    /// Questions that had been asked when everything was last told of.
    told: usize,
    is_whole: bool,
}

impl Listing {
    /// That of a pause with so many open, of so many that were ever asked.
    pub(super) fn at_pause(self, open: usize, asked: usize) -> Self {
        let new = asked.saturating_sub(self.told);
        let is_whole = open <= LISTED_MAX || new >= open.div_ceil(2);
        Self { told: if is_whole { asked } else { self.told }, is_whole }
    }

    /// How many questions the pause tells of, the oldest first.
    pub fn most(self) -> usize {
        if self.is_whole { usize::MAX } else { LISTED_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_answers_tell_of_no_more_than_a_hundred_each() {
        let mut listing = Listing::default().at_pause(1_000, 1_000);
        assert_eq!(listing.most(), usize::MAX, "all are new");
        for open in (1..1_000).rev() {
            listing = listing.at_pause(open, 1_000);
            assert_eq!(listing.most() == usize::MAX, open <= LISTED_MAX, "{open} are open");
        }
    }

    #[test]
    fn what_is_told_is_paid_for_by_what_was_asked() {
        // Every answer leads to another question.
        let (mut listing, mut told) = (Listing::default(), 0);
        for asked in 1_000..11_000 {
            listing = listing.at_pause(1_000, asked);
            told += listing.most().min(1_000);
        }
        assert!(told <= 10_000 * LISTED_MAX + 11_000 * 2, "{told}");
    }
}
