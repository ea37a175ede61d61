//! Mishaps: what befalls an append on its way to a store that is elsewhere, as tests want it: each of them has been
//! seen of a real one.

use std::collections::VecDeque;

use crate::ports::{Append, AppendError, Fault};

/// What befalls an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// The store is away: nothing is written, and the writer knows it.
    Away,
    /// The store is reached, and its answer lost: it is written, and the writer does not know.
    Unheard,
    /// The store is not reached, and the writer does not know.
    Unsent,
    /// Somebody else was first, it is said: nothing is written.
    Moved,
    /// Somebody else drives the run, it is said: nothing is written.
    Superseded,
    /// Nothing is written, and the writer is told that it was: what no store may do (J10). By it is seen whether
    /// whoever checks sees anything.
    Swallowed,
}

impl Mishap {
    /// What the writer is told instead of anything being written.
    pub(super) fn before(self) -> Option<AppendError> {
        match self {
            Self::Away => Some(Fault::Retriable("the store is away".into()).into()),
            Self::Unsent => Some(AppendError::Unknown("the connection was lost".into())),
            Self::Moved => Some(AppendError::Moved { at: 0 }),
            Self::Superseded => Some(AppendError::Superseded),
            Self::Unheard | Self::Swallowed => None,
        }
    }

    /// What the writer is told though it was written.
    pub(super) fn after(self) -> Option<AppendError> {
        match self {
            Self::Unheard => Some(AppendError::Unknown("the answer was lost".into())),
            Self::Away | Self::Unsent | Self::Moved | Self::Superseded | Self::Swallowed => None,
        }
    }
}

/// Says what befalls an append, if anything does.
pub type Fate = Box<dyn FnMut(&Append) -> Option<Mishap> + Send>;

/// Says how many turns others have before a call comes to the store: none, for the most part.
pub type Delay = Box<dyn FnMut() -> u32 + Send>;

/// What is to come.
#[derive(Default)]
pub(super) struct Mishaps {
    next: VecDeque<Mishap>,
    /// Reads of journals that find nothing.
    misreads: u32,
    fate: Option<Fate>,
    delay: Option<Delay>,
}

impl std::fmt::Debug for Mishaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mishaps({:?})", self.next)
    }
}

impl Mishaps {
    /// This befalls the next append that nothing is in store for yet.
    pub(super) fn add(&mut self, mishap: Mishap) {
        self.next.push_back(mishap);
    }

    /// From now on that says what befalls each.
    pub(super) fn leave_to(&mut self, fate: Fate) {
        self.fate = Some(fate);
    }

    /// From now on that says how long each call takes.
    pub(super) fn delay_by(&mut self, delay: Delay) {
        self.delay = Some(delay);
    }

    /// How many turns others have before the next call.
    pub(super) fn delay(&mut self) -> u32 {
        self.delay.as_mut().map_or(0, |delay| delay())
    }

    /// So many reads of journals find nothing.
    pub(super) fn misread(&mut self, times: u32) {
        self.misreads = times;
    }

    /// Whether the next read finds nothing.
    pub(super) fn misreads(&mut self) -> bool {
        let is_so = self.misreads > 0;
        self.misreads = self.misreads.saturating_sub(1);
        is_so
    }

    /// What befalls this one.
    pub(super) fn of(&mut self, append: &Append) -> Option<Mishap> {
        self.next.pop_front().or_else(|| self.fate.as_mut().and_then(|fate| fate(append)))
    }
}
