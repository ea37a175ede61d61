//! Copies: what of a store is on its way to another: runs and records as they are stored. Shapes with next to no behaviour.

use crate::kernel::Version;
use crate::kernel::evidence::Hash;
use crate::ports::{Head, OutboxEntry};
use crate::store::keys::Packed;

/// Where something lies in a directory's store.
pub(super) type Place = Vec<u8>;
/// What lies there.
pub(super) type Record = Vec<u8>;

/// One append, as it is stored.
#[derive(Debug)]
pub(super) struct EntryCopy {
    pub(super) first: Version,
    pub(super) last: Version,
    pub(super) record: Record,
}

/// A run, as it is stored.
#[derive(Debug)]
pub(super) struct RunCopy {
    pub(super) packed: Packed,
    pub(super) head: Head,
    pub(super) link: Hash,
    pub(super) entries: Vec<EntryCopy>,
    /// Up to which version the entries go: there may be more than are sent at once.
    pub(super) upper: Version,
    pub(super) key: Option<(Place, String, Record)>,
    pub(super) hooks: Vec<(Vec<u8>, Record)>,
    pub(super) outbox: Vec<OutboxEntry>,
}

impl RunCopy {
    /// What its journal weighs.
    pub(super) fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.record.len()).sum()
    }
}
