//! Ports: what we need of the world, as traits. Their docs are contracts, clause by clause.

mod agent;
mod asked;
pub mod brake;
mod clock;
mod credentials;
mod desks;
pub mod evidence;
mod holding;
pub mod identity;
mod journal;
mod last_head;
pub mod leave;
pub mod log;
mod notifier;
mod outbox;
mod pages;
mod replicas;
pub mod trace;

pub use agent::{Agents, DeltaSink, Tools};
pub use clock::{Clock, keep_time};
pub use credentials::{Credentials, Vouched};
pub use desks::Desk;
pub use holding::{Appended, Fence, Guard, Hold, Incarnation, Token};
pub use journal::{Append, AppendError, Head, HeadStatus, Journal, KeyRow, SessionRow};
pub use last_head::LastHead;
pub use log::{Logged, Note, Noting};
pub use notifier::{Delivery, NoNotifier, Notifier, Undelivered};
pub use outbox::{HOOKS_MAX, Hook, HookRow, OutboxEntry, Settlement};
pub use pages::{Cursor, Page, RunFilter, StoreReport};
pub use replicas::{Hint, Introduction, LostRun, Outlook, Replica, Replicas, Rewind, Standing};

/// The world's no: a store, a network or a disk that did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// Another try may help.
    #[error("{0}")]
    Retriable(String),
    /// Another try will not help; a person must look.
    #[error("{0}")]
    Permanent(String),
    /// Stored bytes do not check out, and are not interpreted (J6).
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// What is stored tells another history than it did (J10). When it is seen that it does, it is held and let go again.
    #[error(
        "the database has gone back in time, and tells another history of this run than it did"
    )]
    Rewound,
}

impl Fault {
    /// Whether it may be otherwise when the same is tried again.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Retriable(_) | Self::Rewound)
    }
}
