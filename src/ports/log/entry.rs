//! Entry: how something that is noted lies in the log, and how a listing of it goes on. What is noted is `Note`.

use serde::{Deserialize, Serialize};

use crate::kernel::Millis;
use crate::ports::log::Note;

/// An entry on its way into the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noting {
    /// The place of the entry that this is more of (L3); none for a new one. Where that is forgotten,
    /// this is a new one.
    pub place: Option<u64>,
    /// When it first happened.
    pub first: Millis,
    /// When it last did.
    pub last: Millis,
    /// How often.
    pub count: u64,
    /// What.
    pub note: Note,
}

impl Noting {
    /// Something that happened once.
    pub fn once(at: Millis, note: Note) -> Self {
        Self { place: None, first: at, last: at, count: 1, note: note.bounded() }
    }
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logged {
    /// Its number; none has it twice.
    pub sequence: u64,
    /// When it first happened.
    pub first: Millis,
    /// When it last did.
    pub last: Millis,
    /// How often.
    pub count: u64,
    /// What.
    pub note: Note,
}

/// Where a listing of the log goes on, lane by lane; none if the text is no cursor of one.
pub fn read_cursor(text: &str) -> Option<[u64; 2]> {
    let (refusals, deeds) = text.split_once('.')?;
    Some([refusals.parse().ok()?, deeds.parse().ok()?])
}
