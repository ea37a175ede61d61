//! Holder: whose a run is to drive, as far as is known here, and what an append does about it. It asks nobody.

use crate::ports::{Fence, Hold, Incarnation, Standing};

/// Whose a run is to drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// It rests, or whoever drove it gave it back.
    Nobody,
    /// It is driven here.
    Mine(Fence),
    /// Somebody else, who lives, drives it: what is decided here is written, and done there.
    Other(Incarnation),
    /// Whoever drove it is dead.
    Dead(Incarnation),
}

impl Holder {
    /// As the store has it.
    pub(super) fn of(standing: Option<Standing>, me: Incarnation) -> Self {
        match standing.and_then(|standing| Some((standing.holder?, standing.fence))) {
            None => Self::Nobody,
            Some(((who, _), fence)) if who == me => Self::Mine(fence),
            Some(((who, true), _)) => Self::Other(who),
            Some(((who, false), _)) => Self::Dead(who),
        }
    }

    /// What an append does with the right to drive a run that then moves, or rests; and the writer's fence.
    pub(super) fn hold(self, moves: bool) -> (Hold, Option<Fence>) {
        match (self, moves) {
            (Self::Mine(fence), true) => (Hold::Keep, Some(fence)),
            (Self::Mine(fence), false) => (Hold::Leave, Some(fence)),
            (Self::Other(_), true) | (Self::Nobody, false) => (Hold::Keep, None),
            (Self::Other(_) | Self::Dead(_), false) => (Hold::Leave, None),
            (Self::Nobody, true) => (Hold::Take { from: None }, None),
            (Self::Dead(who), true) => (Hold::Take { from: Some(who) }, None),
        }
    }

    /// The same after that was done.
    pub(super) fn after(self, hold: Hold, fence: Fence) -> Self {
        match hold {
            Hold::Keep => self,
            Hold::Take { .. } => Self::Mine(fence),
            Hold::Leave => Self::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j12_a_run_is_taken_from_nobody_but_whom_it_is_known_to_be_of() {
        let (me, other) = (Incarnation(1), Incarnation(2));
        let standing =
            |holder| Some(Standing { version: 3, holder, fence: 7, hooks: 0, link: None });
        let of = |holder| Holder::of(standing(holder), me);
        assert_eq!(of(None).hold(true), (Hold::Take { from: None }, None));
        assert_eq!(of(Some((me, true))).hold(true), (Hold::Keep, Some(7)));
        assert_eq!(of(Some((me, true))).hold(false), (Hold::Leave, Some(7)));
        assert_eq!(of(Some((other, true))).hold(true), (Hold::Keep, None));
        assert_eq!(of(Some((other, false))).hold(true), (Hold::Take { from: Some(other) }, None));
        assert_eq!(of(None).after(Hold::Take { from: None }, 9), Holder::Mine(9));
        assert_eq!(of(Some((me, true))).after(Hold::Leave, 0), Holder::Nobody);
    }
}
