//! Pages: what lists are asked for, and what they come in; what a store says of itself. How it is asked is in `journal`.

use serde::Serialize;

use crate::kernel::SessionId;

/// Where a listing goes on: opaque, from the page before. One that is none gives an empty page.
pub type Cursor = String;

/// A piece of a listing. It may be short, even empty, and still have a next one, where a filter
/// passes over many rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next page begins; none if this was the last.
    pub next: Option<Cursor>,
}

/// Which runs are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of this session.
    pub session: Option<SessionId>,
    /// Of this owner.
    pub owner: Option<String>,
    /// Of this workflow.
    pub workflow: Option<String>,
    /// With this status word (`RUNNING`, `WAITING`, …).
    pub status: Option<String>,
}

/// What a store says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StoreReport {
    /// Which adapter.
    pub kind: String,
    /// The format version of its records.
    pub format: u8,
    /// Runs in it.
    pub runs: u64,
    /// Sessions in it.
    pub sessions: u64,
    /// Events in all journals.
    pub events: u64,
    /// Open questions.
    pub open_questions: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// What a database says of its tables, one sentence each; nothing is wrong with that. Empty in a directory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<String>,
    /// A right that whoever looks lacks, and servers need, with the remedy; none of whoever may only read, who is no server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    /// What is wrong, one sentence each; empty when all is well.
    pub damage: Vec<String>,
}
