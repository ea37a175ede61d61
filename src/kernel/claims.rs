//! Claims: what is kept of somebody's claim to a question, and of a place in it that was handed over. Who may do either
//! is decided in `places`, what a place is worth in `approvers`.

use serde::{Deserialize, Serialize};

use crate::kernel::principal::{Assurance, Footing, Known};
use crate::kernel::time::Millis;

/// How long something holds, as it was asked for: so a repeat is known, whenever it comes (K2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// Until then.
    Until(Millis),
    /// For so many milliseconds.
    ForMs(u64),
}

impl Span {
    /// Its end, where it begins at `at`.
    pub fn end(self, at: Millis) -> Millis {
        match self {
            Self::Until(end) => end,
            Self::ForMs(ms) => at.plus(ms),
        }
    }
}

/// Somebody says that they are looking at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Who.
    pub by: String,
    /// Until when.
    pub until: Millis,
}

impl Claim {
    /// Whether it still stands at `now`.
    pub fn stands(&self, now: Millis) -> bool {
        now < self.until
    }
}

/// A place that was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// Whose place it is.
    pub by: String,
    /// Who holds it.
    pub to: String,
    /// Until when.
    pub until: Millis,
    /// How well it was known who handed it over: what is said in it is worth no more.
    #[serde(default, skip_serializing_if = "Assurance::is_proven")]
    pub assurance: Assurance,
    /// The service that handed it over for them, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// When; not known in heads from before it was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Millis>,
}

impl Delegation {
    /// What it rests on.
    pub fn footing(&self) -> Footing<'_> {
        Footing { assurance: self.assurance, service: self.service.as_deref(), at: self.at }
    }

    /// Whether it still stands at `now`.
    pub fn stands(&self, now: Millis) -> bool {
        now < self.until
    }
}

/// Somebody claimed a question, or let it go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// Which question.
    pub ordinal: u32,
    /// Who.
    pub by: String,
    /// Through which door.
    pub door: String,
    /// For how long; let go, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// How they were known; absent before it was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Box<Known>>,
    /// The caller's idempotency key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
}

/// Somebody handed their place over, or took it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegated {
    /// Which question.
    pub ordinal: u32,
    /// Whose place.
    pub by: String,
    /// Through which door.
    pub door: String,
    /// To whom, and for how long; taken back, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Holder>,
    /// How they were known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Box<Known>>,
    /// The caller's idempotency key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
}

/// Who is to hold a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Who.
    pub who: String,
    /// For how long.
    pub span: Span,
}
