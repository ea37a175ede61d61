//! Ports: what we need of the world, as traits. Their docs are contracts, clause by clause.

mod agent;
pub mod brake;
mod clock;
mod courier;
pub mod evidence;
pub mod identity;
mod journal;
mod last_head;
pub mod log;
mod outbox;
pub mod trace;

pub use agent::{Agents, DeltaSink, Tools};
pub use clock::Clock;
pub use courier::{Consignment, Courier, NoCourier, Undelivered};
pub use journal::{
    Append, AppendError, Cursor, Fence, Head, HeadStatus, Journal, KeyRow, Lease, Page, RunFilter,
    SessionRow, StoreReport,
};
pub use last_head::LastHead;
pub use log::{Logged, Note, Noting};
pub use outbox::{HOOKS_MAX, Hook, HookRow, Parcel, Settlement};

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
}
