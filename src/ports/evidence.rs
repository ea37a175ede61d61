//! Evidence: what we need of a store so that strangers can check it (J13): its appends as they were hashed, and
//! one log of leaves for all of it. And of whoever signs the log's heads. What is proven by it is the kernel's.

use async_trait::async_trait;

use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::kernel::evidence::note::VerifyKey;
use crate::kernel::evidence::tree::TreeHead;
use crate::kernel::evidence::walk::Entry;
use crate::kernel::evidence::{Hash, chain};
use crate::kernel::{Millis, RunId, Version};
use crate::ports::log::Lane;
use crate::ports::{Fault, Logged, Note};

/// Under which name a store keeps which log this is.
pub const ORIGIN: &str = "evidence.origin";

/// A leaf, and where it lies in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lain {
    /// The leaf.
    pub leaf: Leaf,
    /// Its place; none as long as it waits for one.
    pub index: Option<u64>,
}

/// What giving leaves their places came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequenced {
    /// The log afterwards.
    pub head: TreeHead,
    /// How many got a place.
    pub added: usize,
}

/// An entry of the store's own log, with what it goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Its place in its lane.
    pub index: u64,
    /// The link of the entry before it; none where an earlier build wrote it.
    pub prev: Option<Hash>,
    /// The entry.
    pub entry: Logged,
}

impl LogEntry {
    /// Its link. What it says is bound, not how often it was said since (L3).
    pub fn link(&self, lane: Lane) -> Hash {
        let Logged { sequence, first, note, .. } = &self.entry;
        log_link(self.prev.unwrap_or(chain::GENESIS), lane, self.index, (*sequence, *first, note))
    }
}

/// The link of an entry of the store's own log.
pub fn log_link(
    prev: Hash,
    lane: Lane,
    index: u64,
    (sequence, first, note): (u64, Millis, &Note),
) -> Hash {
    let said = serde_json::json!({"sequence": sequence, "first": first, "note": note});
    chain::log_link(prev, lane.word(), index, said.to_string().as_bytes())
}

/// The evidence of a store.
#[async_trait]
pub trait Evidence: Send + Sync + std::fmt::Debug {
    /// The appends of a run whose first event lies after `after`, in order, at most `limit`.
    async fn entries(&self, run: &RunId, after: Version, limit: usize)
    -> Result<Vec<Entry>, Fault>;

    /// The version of the first event of the append that has this one; none if there is no such event.
    async fn first_of(&self, run: &RunId, version: Version) -> Result<Option<Version>, Fault>;

    /// The link that a run's head holds; none if there is no such run.
    async fn link(&self, run: &RunId) -> Result<Option<Hash>, Fault>;

    /// Gives leaves that wait their places in the log, at most `most`, durable when it returns. One at a
    /// time: of two at once, one is told to try again.
    async fn sequence(&self, most: usize) -> Result<Sequenced, Fault>;

    /// The log as it is.
    async fn tree(&self) -> Result<TreeHead, Fault>;

    /// The root of the log when it had `size` leaves; none if it has fewer.
    async fn root(&self, size: u64) -> Result<Option<Hash>, Fault>;

    /// The leaf that speaks of a place.
    async fn leaf(&self, place: &Place) -> Result<Option<Lain>, Fault>;

    /// The texts of leaves from `from` on, at most `limit`.
    async fn leaves(&self, from: u64, limit: usize) -> Result<Vec<String>, Fault>;

    /// Leaves that wait for a place, at most `limit`.
    async fn waiting_leaves(&self, limit: usize) -> Result<Vec<Leaf>, Fault>;

    /// The proof that the leaf at `index` is in the log of `size` leaves; none if it is not.
    async fn inclusion(&self, index: u64, size: u64) -> Result<Option<Vec<Hash>>, Fault>;

    /// Entries of a lane of the store's own log from `from` on, at most `limit`; and the link that the lane
    /// ends with.
    async fn log(
        &self,
        lane: Lane,
        from: u64,
        limit: usize,
    ) -> Result<(Vec<LogEntry>, Hash), Fault>;
}

/// Whoever signs.
#[async_trait]
pub trait Signs: Send + Sync + std::fmt::Debug {
    /// Signs a text. It may take long, fail or lie: whoever asks checks what comes.
    async fn sign(&self, text: &str) -> Result<Vec<u8>, Fault>;
}

/// Whoever signs the heads of the log.
pub trait Signer: Signs {
    /// The key that its signatures are checked with, for a log of this origin.
    fn key(&self, origin: &str) -> VerifyKey;

    /// The last heads of a log of this origin that are kept beside the key and the one before it, away from the store:
    /// whoever can write there cannot write here. An error where the key may not sign such a log.
    fn last(&self, origin: &str) -> Result<Vec<String>, Fault>;

    /// The same, less what was last kept before `seen`, by the file that it lies in; all of them where that is not known.
    fn kept_since(&self, origin: &str, seen: Option<Millis>) -> Result<Vec<String>, Fault>;

    /// Another log that the key has signed, and its last head, where that keeps it from signing one of this origin.
    fn other(&self, origin: &str) -> Result<Option<(String, String)>, Fault>;

    /// Keeps another one in its place.
    fn keep_last(&self, origin: &str, note: &str) -> Result<(), Fault>;

    /// Has the key sign this log from whatever it holds now.
    fn forget_last(&self, origin: &str) -> Result<(), Fault>;
}
