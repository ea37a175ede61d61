//! Holding: which of the processes that write to one store drives a run. The right to it is taken and left with the
//! append that makes it needed or not, so that it costs no write of its own; and a run that waits is nobody's. It is
//! no lock: whoever has an answer to a run appends it, whoever drives it.

use crate::kernel::evidence::Hash;
use crate::kernel::{RunId, SessionId, Version};

/// A number that grows with every claim of a run; an older one can write nothing (J4).
pub type Fence = u64;

/// One life of one process over a store; never given out twice. A process that was taken for dead begins another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

/// By which an append that is submitted again is known (J9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Whose it is.
    pub by: Incarnation,
    /// Which of theirs.
    pub number: u64,
}

/// What becomes of the right to drive a run, with an append to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It stays whose it is.
    Keep,
    /// It becomes the writer's.
    Take {
        /// Whose it is: nobody else's may be taken (J12).
        from: Option<Incarnation>,
    },
    /// It is nobody's any more: the run waits, or is over.
    Leave,
}

/// What an append came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The journal's length.
    pub version: Version,
    /// The writer's fence, where it has the right to drive the run; 0 where it has not.
    pub fence: Fence,
    /// Its link (J13); none where the store does not know it without looking.
    pub link: Option<Hash>,
}

/// What the name of a guard begins with that is about what is kept under a name.
const KEPT: &str = "kept ";

/// Something beside the run that a decision was made on, and that must not have changed when it is written: a
/// number that a store keeps under a name, 0 where nobody has raised it yet. Only stores that several processes
/// write to compare it; in one process the engine's own locks hold it still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The name.
    pub name: String,
    /// The number as the writer knows it.
    pub number: u64,
    /// Whether the append raises it by one.
    pub raises: bool,
}

impl Guard {
    /// The name for who listens to a run: raised whenever a hook of it is put or taken away.
    pub fn hooks(run: &RunId) -> String {
        format!("hooks {run}")
    }

    /// The name for what is decided in a family of runs.
    pub fn family(family: &RunId) -> String {
        format!("family {family}")
    }

    /// That what the store keeps under a name is still this: no number that anybody raises, but one of the text itself.
    pub fn kept(name: &str, text: Option<&str>) -> Self {
        Self { name: format!("{KEPT}{name}"), number: Self::number_of(text), raises: false }
    }

    /// The number of a text that is kept; 0 where there is none.
    pub fn number_of(text: Option<&str>) -> u64 {
        let Some(text) = text else { return 0 };
        let Hash(hash) = Hash::of(&[text.as_bytes()]);
        hash.iter().take(7).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// The name of what is kept that this is about, if it is about such.
    pub fn of_kept(&self) -> Option<&str> {
        self.name.strip_prefix(KEPT)
    }

    /// Whether a guard of that name is about such.
    pub fn is_of_kept(name: &str) -> bool {
        name.starts_with(KEPT)
    }

    /// The name for what a session spends.
    pub fn purse(session: &SessionId) -> String {
        format!("purse {session}")
    }
}
