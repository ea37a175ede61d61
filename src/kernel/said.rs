//! Said: what people have said to a question, as it is kept: votes, and what a repeat is known by. What it adds up to is
//! judged in `approvers`.

use serde::{Deserialize, Serialize};

use crate::kernel::id::Version;
use crate::kernel::principal::{Assurance, Footing};
use crate::kernel::time::Millis;

/// Somebody's standing word on a question that needs more than theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Who.
    pub by: String,
    /// What they said.
    pub verb: String,
    /// In which stage, counted from 0.
    pub stage: u32,
    /// How well they were known. All were proven before it was written down.
    #[serde(default, skip_serializing_if = "Assurance::is_proven")]
    pub assurance: Assurance,
    /// The service that said it for them, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// In whose place, where that was handed to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// When; not known in heads from before it was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Millis>,
}

impl Vote {
    /// What it rests on.
    pub fn footing(&self) -> Footing<'_> {
        Footing { assurance: self.assurance, service: self.service.as_deref(), at: self.at }
    }
}

/// Somebody's word, as far as a repeat of it is known by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Who.
    pub by: String,
    /// The idempotency key.
    pub key: String,
    /// The digest of the value as it was given.
    pub given: String,
    /// The version of the event.
    pub version: Version,
    /// Whether it refuses what was asked.
    pub is_no: bool,
    /// How well they were known.
    pub assurance: Assurance,
    /// The service that said it for them, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// In whose place, where that was handed to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
}

impl Said {
    /// The vote that it is, in this word and in that stage.
    pub fn vote(&self, (verb, stage): (String, u32), at: Millis) -> Vote {
        Vote {
            by: self.by.clone(),
            verb,
            stage,
            assurance: self.assurance,
            service: self.service.clone(),
            instead_of: self.instead_of.clone(),
            at: Some(at),
        }
    }
}
