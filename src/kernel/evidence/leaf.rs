//! Leaf: what is put into the store-wide log: that something of weight lies in a journal, or in the store's own
//! log, and under which link. A leaf says nothing that the journal does not say; it fixes it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::evidence::Hash;
use crate::kernel::{Event, RunId, Version};

/// That a run was forgotten. Told to those alone who are shown what belongs to no run: whose it was is not known any
/// more (D2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// The run.
    pub run: RunId,
    /// Where its tombstone lies in the log; none as long as it waits for its place.
    pub leaf: Option<u64>,
}

impl fmt::Display for Pruned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no run `{}` any more: it was pruned, and its tombstone ", self.run)?;
        match self.leaf {
            Some(leaf) => write!(f, "is leaf {leaf} of the log")?,
            None => f.write_str("waits for its place in the log")?,
        }
        f.write_str("; the store's own log says when runs were")
    }
}

/// One kind of what weighs enough for a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weighty {
    /// Somebody decided.
    Decision,
    /// Somebody said their word on what needs more than theirs.
    Vote,
    /// A question ended without an answer.
    Closed,
    /// What was allowed is so no longer.
    Revoked,
    /// The store was put back, or made from another.
    Renewed,
    /// The run was begun as a fork.
    Fork,
    /// The run is over.
    End,
    /// Other rules of the operator's are in force.
    Ruled,
}

impl Weighty {
    /// All of them, in the order in which they are told.
    const ALL: [Self; 8] = [
        Self::Decision,
        Self::Vote,
        Self::Closed,
        Self::Revoked,
        Self::Renewed,
        Self::Fork,
        Self::End,
        Self::Ruled,
    ];

    fn bit(self) -> u8 {
        1 << (self as u8)
    }

    fn of(event: &Event) -> Option<Self> {
        match event {
            // Of a conversation, too: nobody who changes a journal chooses what needs no leaf.
            Event::Answered { .. } => Some(Self::Decision),
            Event::Voted { .. } => Some(Self::Vote),
            Event::Closed { .. } => Some(Self::Closed),
            Event::Revoked { .. } => Some(Self::Revoked),
            Event::Renewed { .. } => Some(Self::Renewed),
            Event::Ruled(_) => Some(Self::Ruled),
            Event::Started(started) => started.forked_from.is_some().then_some(Self::Fork),
            Event::Completed | Event::Failed(_) | Event::Cancelled { .. } => Some(Self::End),
            Event::StepStarted { .. }
            | Event::Delta { .. }
            | Event::Noted { .. }
            | Event::MessageAdded { .. }
            | Event::ToolCalled { .. }
            | Event::ToolReturned { .. }
            | Event::HandedOff { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::Asked(_)
            | Event::Claimed(_)
            | Event::Delegated(_)
            | Event::Reminded { .. }
            | Event::Stood { .. }
            | Event::Held { .. }
            | Event::Escalated { .. }
            | Event::StepOpened { .. }
            | Event::StepOutcome { .. }
            | Event::StepClosed { .. }
            | Event::Signalled { .. }
            | Event::CheckpointSaved
            | Event::Parked
            | Event::Output { .. }
            | Event::Warned(_) => None,
        }
    }

    /// The same of an event that this build cannot read, by its name and what it says.
    fn named(name: &str, body: &Value) -> Option<Self> {
        match name {
            "answered" => Some(Self::Decision),
            "voted" => Some(Self::Vote),
            "closed" => Some(Self::Closed),
            "revoked" => Some(Self::Revoked),
            "renewed" => Some(Self::Renewed),
            "ruled" => Some(Self::Ruled),
            "started" => {
                body.get("forked_from").is_some_and(|from| !from.is_null()).then_some(Self::Fork)
            }
            "completed" | "failed" | "cancelled" => Some(Self::End),
            &_ => None,
        }
    }
}

/// What an append has of that; as one byte, since it is stored with every one that has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds(pub u8);

impl Kinds {
    /// What these events have.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let kinds = events.into_iter().filter_map(Weighty::of);
        Self(kinds.fold(0, |all, kind| all | kind.bit()))
    }

    /// What events have that this build cannot read, each by its name and what it says.
    pub(super) fn named<'a>(events: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Self {
        let kinds = events.into_iter().filter_map(|(name, body)| Weighty::named(name, body));
        Self(kinds.fold(0, |all, kind| all | kind.bit()))
    }

    /// Whether there is nothing of weight.
    pub fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// Whether somebody decided something.
    pub fn decides(self) -> bool {
        self.0 & (Weighty::Decision.bit() | Weighty::Vote.bit()) != 0
    }

    /// Whether a run ends here.
    pub fn has_end(self) -> bool {
        self.0 & Weighty::End.bit() != 0
    }

    fn list(self) -> Vec<Weighty> {
        Weighty::ALL.into_iter().filter(|kind| self.0 & kind.bit() != 0).collect()
    }
}

/// A leaf of the store-wide log. Its text, byte by byte, is what is hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "leaf", rename_all = "snake_case")]
pub enum Leaf {
    /// An append of a run has something of weight.
    Entry {
        /// The run.
        run: RunId,
        /// The version of the append's first event.
        version: Version,
        /// What it has.
        kinds: Vec<Weighty>,
        /// Its link.
        link: Hash,
    },
    /// A journal that an earlier build wrote was taken over: what it held then.
    Anchor {
        /// The run.
        run: RunId,
        /// Its version then.
        version: Version,
        /// The link over all of it.
        link: Hash,
        /// The whole digest of its definition; empty where that could not be read.
        definition: String,
    },
    /// A run was forgotten, as it should be.
    Tombstone {
        /// The run.
        run: RunId,
        /// Its last version.
        version: Version,
        /// Its last link.
        link: Hash,
    },
    /// The store's own log says something.
    Log {
        /// The place in its lane.
        index: u64,
        /// What, in one word.
        action: String,
        /// Its link.
        link: Hash,
    },
    /// So much was refused by then, as the store's own log has it. One for all that came since the last: whoever knocks
    /// a million times does not fill the log of leaves with it.
    Refusals {
        /// Where the lane of what was refused ends: the place of the next.
        next: u64,
        /// The link of the one before that, which holds on to all before it.
        link: Hash,
    },
}

/// Where what a leaf speaks of lies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A journal that was taken over.
    Anchor(RunId),
    /// An append, by the version of its first event.
    Entry(RunId, Version),
    /// A run that is gone.
    Tombstone(RunId),
    /// An entry of the store's own log, in the lane of what was done.
    Log(u64),
    /// The lane of what was refused, up to before this place.
    Refusals(u64),
}

impl Leaf {
    /// The leaf of an append.
    pub fn entry(run: RunId, version: Version, kinds: Kinds, link: Hash) -> Self {
        Self::Entry { run, version, kinds: kinds.list(), link }
    }

    /// What is hashed.
    pub fn text(&self) -> String {
        // Ids, numbers and hashes: writing them to memory does not fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// A leaf from its text: that and no other must come out again.
    pub fn parse(text: &str) -> Option<Self> {
        let leaf: Self = serde_json::from_str(text).ok()?;
        (leaf.text() == text).then_some(leaf)
    }

    /// Where what it speaks of lies.
    pub fn place(&self) -> Place {
        match self {
            Self::Entry { run, version, .. } => Place::Entry(run.clone(), *version),
            Self::Anchor { run, .. } => Place::Anchor(run.clone()),
            Self::Tombstone { run, .. } => Place::Tombstone(run.clone()),
            Self::Log { index, .. } => Place::Log(*index),
            Self::Refusals { next, .. } => Place::Refusals(*next),
        }
    }

    /// The run and the version that it speaks of; none of the store's own log.
    pub fn version(&self) -> Option<(&RunId, Version)> {
        match self {
            Self::Entry { run, version, .. }
            | Self::Anchor { run, version, .. }
            | Self::Tombstone { run, version, .. } => Some((run, *version)),
            Self::Log { .. } | Self::Refusals { .. } => None,
        }
    }

    /// Whether it says that a run is over.
    pub fn ends(&self) -> bool {
        match self {
            Self::Entry { kinds, .. } => kinds.contains(&Weighty::End),
            Self::Anchor { .. }
            | Self::Tombstone { .. }
            | Self::Log { .. }
            | Self::Refusals { .. } => false,
        }
    }

    /// Whether it speaks of what somebody decided.
    pub fn decides(&self) -> bool {
        match self {
            Self::Entry { kinds, .. } => {
                kinds.iter().any(|kind| matches!(kind, Weighty::Decision | Weighty::Vote))
            }
            Self::Anchor { .. }
            | Self::Tombstone { .. }
            | Self::Log { .. }
            | Self::Refusals { .. } => false,
        }
    }

    /// The link that it fixes.
    pub fn link(&self) -> Hash {
        match self {
            Self::Entry { link, .. }
            | Self::Anchor { link, .. }
            | Self::Tombstone { link, .. }
            | Self::Log { link, .. }
            | Self::Refusals { link, .. } => *link,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anchor(run) => write!(f, "run `{run}` as it was taken over"),
            Self::Entry(run, version) => write!(f, "run `{run}` at version {version}"),
            Self::Tombstone(run) => write!(f, "run `{run}`, which was forgotten"),
            Self::Log(index) => write!(f, "entry {index} of the store's own log"),
            Self::Refusals(next) => {
                write!(f, "the store's own log (refusals) up to entry {}", next.saturating_sub(1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::evidence::chain::GENESIS;

    #[test]
    fn a_leaf_is_read_back_from_its_text_and_from_no_other() {
        let run = RunId::parse("run_01k9zq3v7m8n4p5r6s7t8v9w0x").unwrap();
        let kinds = Kinds::of(&[Event::Completed, Event::Parked]);
        let leaf = Leaf::entry(run, 7, kinds, GENESIS);
        let text = leaf.text();
        assert_eq!(
            text,
            format!(
                r#"{{"leaf":"entry","run":"run_01k9zq3v7m8n4p5r6s7t8v9w0x","version":7,"kinds":["end"],"link":"{GENESIS}"}}"#
            )
        );
        assert_eq!(Leaf::parse(&text), Some(leaf));
        assert_eq!(Leaf::parse(&text.replace(':', ": ")), None);
        assert_eq!(Leaf::parse(&text.replace("\"end\"", "\"win\"")), None);
        assert!(Kinds::of(&[Event::Parked]).is_nothing());
        let refused = Leaf::Refusals { next: 13, link: GENESIS };
        let text = refused.text();
        assert_eq!(text, format!(r#"{{"leaf":"refusals","next":13,"link":"{GENESIS}"}}"#));
        assert_eq!(Leaf::parse(&text), Some(refused));
    }

    #[test]
    fn whoever_asks_for_a_run_that_was_pruned_is_told_where_its_tombstone_lies() {
        let run = RunId::parse("run_01k9zq3v7m8n4p5r6s7t8v9w0x").unwrap();
        let told = Pruned { run: run.clone(), leaf: Some(7) }.to_string();
        assert!(told.contains("pruned, and its tombstone is leaf 7 of the log"), "{told}");
        let told = Pruned { run, leaf: None }.to_string();
        assert!(told.contains("its tombstone waits for its place"), "{told}");
    }
}
