//! Log: what a store notes beside the journals: whatever belongs to no run, or changes none. Refused
//! answers and keys, changes of keys and policy, forks, exports, servers that came and went.
//!
//! It is evidence, and nothing is decided by it: no run is folded from it. It has two lanes, so that
//! whoever knocks a million times pushes nothing out but other knocks.
//!
//! Its laws are L1–L3 of `docs/laws.md`. In short: durable and numbered (L1), bounded and saying so (L2), never
//! rewritten (L3).

mod entry;
mod who;
mod words;

use serde::{Deserialize, Serialize};

pub use self::entry::{Logged, Noting, read_cursor};
use crate::kernel::{Known, Millis, RunId, Version};

/// Entries kept of what was refused: some weeks of mistakes, or the last hours of an attack.
pub const REFUSALS_MAX: u64 = 10_000;
/// Entries kept of everything else: years of starts, exports and changed keys.
pub const DEEDS_MAX: u64 = 10_000;
/// What an entry keeps of a text that others chose.
const CHARS_MAX: usize = 120;
/// Names that one entry lists; of more, the rest is counted.
const NAMES_MAX: usize = 50;

/// What is noted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Note {
    /// An answer was not taken.
    AnswerRefused {
        /// Who gave it.
        who: String,
        /// Where.
        door: String,
        /// What it named: a request, a digest, a code, or nothing.
        request: String,
        /// The run of what it named, where that can be told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        /// Why not: the stable code.
        code: String,
        /// How they were known; absent before it was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
    },
    /// Somebody showed a key that is none. The key itself is noted nowhere.
    KeyRefused {
        /// From which address.
        peer: String,
        /// At which door.
        door: String,
    },
    /// A wish to stop something was not taken.
    HaltRefused {
        /// Whose.
        who: String,
        /// Where.
        door: String,
        /// What was to be stopped, in words.
        what: String,
        /// Why not: the stable code.
        code: String,
        /// How they were known; absent before it was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
    },
    /// A wish to let something go on was not taken.
    ReleaseRefused {
        /// Whose.
        who: String,
        /// Where.
        door: String,
        /// Which halt; empty where it was the store.
        halt: String,
        /// Why not: the stable code.
        code: String,
        /// How they were known; absent before it was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
    },
    /// More refusals at once than are told apart.
    Crowded,
    /// The keys are others.
    KeysChanged {
        /// Names that were not there.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        came: Vec<String>,
        /// Names that are there no more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        went: Vec<String>,
        /// Names whose key or rights are others.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<String>,
        /// Names of keys whose time has come.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ended: Vec<String>,
    },
    /// What the operator says is something else.
    PolicyChanged {
        /// What is, setting by setting, in words.
        what: Vec<String>,
    },
    /// A run was forked.
    Forked {
        /// By whom.
        who: String,
        /// Where.
        door: String,
        /// Which run.
        from: RunId,
        /// Up to which version.
        version: Version,
        /// The new run.
        run: RunId,
        /// How they were known; absent before it was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
    },
    /// Somebody began to export the store, or one run: noted before the first byte is out.
    Exported {
        /// Which run; none where it was everything, and where an earlier build noted it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        /// Whether what is secret is in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secrets: Option<bool>,
    },
    /// The store was made from an export.
    Imported {
        /// Runs that were read.
        runs: u64,
        /// Events that were read.
        events: u64,
    },
    /// Runs were forgotten.
    Pruned {
        /// How many.
        runs: u64,
        /// They were over before this.
        before: Millis,
    },
    /// What was about to be done was not what had been approved, and was not done (K3).
    ConsentBroken {
        /// The run.
        run: RunId,
        /// The request that released it; empty where none is known.
        request: String,
        /// The tool, or the step.
        what: String,
        /// The difference, in words.
        why: String,
    },
    /// The store was put back from a backup, or made from an export, and its runs were told.
    Renewed {
        /// The store's epoch from now on.
        epoch: String,
        /// Runs that were not over.
        runs: u64,
    },
    /// The store was found to lack what it had acknowledged (J10): as a whole, or of one run.
    Rewound {
        /// The run; none for the store as a whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        /// How far it is known to have been.
        had: u64,
        /// How far it is.
        has: u64,
        /// Deeds that were begun in what is missing, as far as they are known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deeds: Vec<String>,
    },
    /// Somebody let the store go on after that. Earlier builds kept it under the word for a claim that is
    /// given back.
    #[serde(rename = "store_released", alias = "released")]
    Released {
        /// Who.
        who: String,
        /// Where.
        door: String,
        /// How they were known; absent before it was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
    },
    /// Somebody had a head forgotten that was kept beside the key and that the log does not hold: it is signed from
    /// whatever it holds.
    HeadForgotten {
        /// Who.
        who: String,
        /// Where.
        door: String,
        /// Of which log the head was: another's where the key had signed that one and never this.
        origin: String,
        /// How many leaves it held.
        leaves: u64,
        /// Their root; `none` where no head could be read.
        root: String,
        /// How they were known; absent before it was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
    },
    /// Somebody stopped something.
    Halted {
        /// Who; `file` where a file in the data directory says so.
        who: String,
        /// Where.
        door: String,
        /// By what it is taken back.
        halt: String,
        /// What is stopped, in words.
        what: String,
        /// Why.
        reason: String,
        /// How they were known; absent before it was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
    },
    /// Somebody let it go on.
    HaltReleased {
        /// Who.
        who: String,
        /// Where.
        door: String,
        /// Which halt.
        halt: String,
        /// What had been stopped, in words.
        what: String,
        /// How they were known; absent before it was written down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Box<Known>>,
        /// Why, where they said so.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// Somebody said that the data directory was put back from a backup.
    Restored,
    /// A server began to serve.
    ServerStarted {
        /// Where.
        address: String,
        /// Which build.
        version: String,
        /// The environment; none where nobody said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<String>,
        /// Whether nobody decides what they asked for themselves.
        four_eyes: bool,
        /// Keys in force.
        keys: u64,
    },
    /// A server stopped, in good order.
    ServerStopped {
        /// Which, by where it served; empty where an earlier build noted it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        address: String,
    },
    /// Entries that were to be noted while the store took none.
    Lost,
    /// Older entries, which are kept no more (L2). Stored nowhere: told behind the oldest.
    Forgotten,
    /// Something that a later build notes.
    #[serde(other)]
    Unknown,
}

/// The lane an entry is kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// What was refused.
    Refusals,
    /// Everything else.
    Deeds,
}

impl Lane {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Refusals, Self::Deeds];

    /// What it is called.
    pub fn word(self) -> &'static str {
        match self {
            Self::Refusals => "refusals",
            Self::Deeds => "deeds",
        }
    }

    /// Entries that it keeps.
    pub fn most(self) -> u64 {
        match self {
            Self::Refusals => REFUSALS_MAX,
            Self::Deeds => DEEDS_MAX,
        }
    }
}

impl Note {
    /// An answer that was not taken. What it named is the caller's own text, and is cut.
    pub fn answer_refused(
        (who, door): (&str, &str),
        named: &str,
        run: Option<RunId>,
        code: &str,
    ) -> Self {
        let (who, request) = (cut(who), cut(named));
        Self::AnswerRefused { who, door: door.into(), request, run, code: code.into(), known: None }
    }

    /// The same with no more names and words than an entry is made for.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        match &mut self {
            Self::KeysChanged { came, went, changed, ended } => {
                [came, went, changed, ended].into_iter().for_each(few);
            }
            Self::PolicyChanged { what } => few(what),
            Self::Halted { what, reason, .. } => {
                for text in [what, reason] {
                    *text = cut(text);
                }
            }
            Self::HaltReleased { reason, .. } => *reason = cut(reason),
            Self::HaltRefused { what, .. } => *what = cut(what),
            Self::ReleaseRefused { halt, .. } => *halt = cut(halt),
            Self::HeadForgotten { origin, .. } => *origin = cut(origin),
            Self::Rewound { deeds, .. } => few(deeds),
            Self::ConsentBroken { request, what, why, .. } => {
                for text in [request, what, why] {
                    *text = cut(text);
                }
            }
            Self::AnswerRefused { .. }
            | Self::KeyRefused { .. }
            | Self::Crowded
            | Self::Forked { .. }
            | Self::Exported { .. }
            | Self::Imported { .. }
            | Self::Pruned { .. }
            | Self::Renewed { .. }
            | Self::Released { .. }
            | Self::Restored
            | Self::ServerStarted { .. }
            | Self::ServerStopped { .. }
            | Self::Lost
            | Self::Forgotten
            | Self::Unknown => {}
        }
        self
    }

    /// Where it is kept.
    pub fn lane(&self) -> Lane {
        match self {
            Self::AnswerRefused { .. }
            | Self::KeyRefused { .. }
            | Self::HaltRefused { .. }
            | Self::ReleaseRefused { .. }
            | Self::Crowded => Lane::Refusals,
            Self::KeysChanged { .. }
            | Self::PolicyChanged { .. }
            | Self::Forked { .. }
            | Self::Exported { .. }
            | Self::Imported { .. }
            | Self::Pruned { .. }
            | Self::ConsentBroken { .. }
            | Self::Renewed { .. }
            | Self::Rewound { .. }
            | Self::Released { .. }
            | Self::HeadForgotten { .. }
            | Self::Halted { .. }
            | Self::HaltReleased { .. }
            | Self::Restored
            | Self::ServerStarted { .. }
            | Self::ServerStopped { .. }
            | Self::Lost
            | Self::Forgotten
            | Self::Unknown => Lane::Deeds,
        }
    }

    /// What happened, in one word.
    pub fn action(&self) -> &'static str {
        match self {
            Self::AnswerRefused { .. } => "answer_refused",
            Self::KeyRefused { .. } => "key_refused",
            Self::HaltRefused { .. } => "halt_refused",
            Self::ReleaseRefused { .. } => "release_refused",
            Self::Crowded => "crowded",
            Self::KeysChanged { .. } => "keys_changed",
            Self::PolicyChanged { .. } => "policy_changed",
            Self::Forked { .. } => "forked",
            Self::Exported { .. } => "exported",
            Self::Imported { .. } => "imported",
            Self::Pruned { .. } => "pruned",
            Self::ConsentBroken { .. } => "consent_broken",
            Self::Renewed { .. } => "renewed",
            Self::Rewound { .. } => "rewound",
            Self::Released { .. } => "store_released",
            Self::HeadForgotten { .. } => "head_forgotten",
            Self::Halted { .. } => "halted",
            Self::HaltReleased { .. } => "halt_released",
            Self::Restored => "restored",
            Self::ServerStarted { .. } => "server_started",
            Self::ServerStopped { .. } => "server_stopped",
            Self::Lost => "lost",
            Self::Forgotten => "forgotten",
            Self::Unknown => "unknown",
        }
    }

    /// The runs that it is about: their trails tell of it, too.
    pub fn runs(&self) -> impl Iterator<Item = &RunId> {
        let (one, other) = match self {
            Self::AnswerRefused { run, .. }
            | Self::Rewound { run, .. }
            | Self::Exported { run, .. } => (run.as_ref(), None),
            Self::Forked { from, run, .. } => (Some(from), Some(run)),
            Self::ConsentBroken { run, .. } => (Some(run), None),
            Self::KeyRefused { .. }
            | Self::HaltRefused { .. }
            | Self::ReleaseRefused { .. }
            | Self::Crowded
            | Self::KeysChanged { .. }
            | Self::PolicyChanged { .. }
            | Self::Imported { .. }
            | Self::Pruned { .. }
            | Self::Renewed { .. }
            | Self::Released { .. }
            | Self::HeadForgotten { .. }
            | Self::Halted { .. }
            | Self::HaltReleased { .. }
            | Self::Restored
            | Self::ServerStarted { .. }
            | Self::ServerStopped { .. }
            | Self::Lost
            | Self::Forgotten
            | Self::Unknown => (None, None),
        };
        one.into_iter().chain(other)
    }
}

fn cut(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(CHARS_MAX).collect()
}

fn few(names: &mut Vec<String>) {
    let more = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    for name in names.iter_mut() {
        *name = cut(name);
    }
    if more > 0 {
        names.push(format!("and {more} more"));
    }
}

#[cfg(test)]
mod tests;
