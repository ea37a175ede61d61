//! Transfer: a whole store as one file of JSON lines, out and in again. The way from one format, or
//! one kind of store, to the next, and the backup. Knows the port and no adapter.
//!
//! ```text
//! {"header":{"format":"holdpoint-export","version":2}}
//! {"definition":{"digest":"…","json":"…"}}                          every definition in use
//! {"run":{"run":"run_…","session":{…},"key":["…","…"],              newest first; who listens to it, and
//!         "hooks":[…],"owed":{"push:…":12}}}                        what they have been told up to
//! {"append":{"at":…,"events":[…]}}                                  its journal, in order
//! {"session":{…}}                                                   sessions without runs
//! {"end":{"definitions":…,"runs":…,"events":…,"sha256":"…"}}        of all bytes before this line
//! ```
//!
//! Version 1 had neither listeners nor sessions without runs; it is read as well.

mod export;
mod import;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kernel::{Event, Millis, RunId, Version};
use crate::ports::{AppendError, Fault, Hook, SessionRow};

pub use export::export;
pub use import::{Checked, check, import};

const FORMAT: &str = "holdpoint-export";
const VERSION: u32 = 2;
/// The oldest that is read.
const OLDEST: u32 = 1;

/// How much has been moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Definitions.
    pub definitions: u64,
    /// Runs.
    pub runs: u64,
    /// Events.
    pub events: u64,
    /// Listeners of runs.
    #[serde(default)]
    pub hooks: u64,
    /// Sessions without runs.
    #[serde(default)]
    pub sessions: u64,
}

/// Why a store was not moved.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// There is something in the target.
    #[error(
        "the store is not empty; import into a new data directory, or into a database of its own"
    )]
    NotEmpty,
    /// What is in the target is part of another file.
    #[error(
        "part of an import of another file is there; import that file again, or into an empty store"
    )]
    OtherHalf,
    /// The file is something else.
    #[error("line 1: this is not a Holdpoint export; `holdpoint export` writes one")]
    Foreign,
    /// The file is of another version.
    #[error("line 1: an export of version {found}, this program reads {OLDEST} to {VERSION}")]
    WrongVersion {
        /// What is there.
        found: u32,
    },
    /// The file ends too early.
    #[error(
        "the file ends after line {line} without its last line: it was cut; nothing was imported"
    )]
    Cut {
        /// The last line there is.
        line: u64,
    },
    /// A line is wrong.
    #[error("line {line}: {what}; nothing was imported")]
    Damaged {
        /// Which.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The file cannot be read or written.
    #[error("the file cannot be read or written")]
    Io(#[from] std::io::Error),
    /// Something in the store does not check out.
    #[error(
        "run `{run}` cannot be exported: {what}; `holdpoint doctor` names everything that is damaged, and a backup of before has it"
    )]
    Run {
        /// Which run.
        run: RunId,
        /// What is wrong with it.
        what: String,
    },
    /// The store said no.
    #[error("the store failed; if this was an import, the same command again goes on with it")]
    Store(#[from] Fault),
    /// The store said no to an append.
    #[error("the store took no more; the same command again goes on with it")]
    Append(#[from] AppendError),
}

/// One line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Header { format: String, version: u32 },
    Definition { digest: String, json: String },
    Run(RunLine),
    Append { at: Millis, events: Vec<Event> },
    Session(SessionRow),
    End(End),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct RunLine {
    run: RunId,
    session: SessionRow,
    /// The idempotency key, and the digest of what was asked with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<(String, String)>,
    /// Who listens, credentials and all: a store that is put back tells them as before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hooks: Vec<Hook>,
    /// Who is owed something, by channel, and up to which version they were told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    owed: BTreeMap<String, Version>,
}

#[derive(Debug, Serialize, Deserialize)]
struct End {
    #[serde(flatten)]
    counts: Counts,
    sha256: String,
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}
