//! Counts: how many runs and events the store must hold, written with every group that changes it.
//!
//! sled passes over a stretch of its log that rotted, and goes on with what was there before: the
//! rest is whole and nothing points at the gap. Whoever reads everything (`holdpoint doctor`) counts,
//! and holds the count against this one (J6). It does not say what is missing, only that something is.

use crate::ports::Fault;
use crate::store::codec;
use crate::store::embedded::reader;
use crate::store::embedded::view::View;
use crate::store::keys;

/// Runs and events, counted since the store was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) runs: u64,
    pub(super) events: u64,
}

impl Counts {
    /// What was last written; none in a store that nobody has written to.
    pub(super) fn read(view: View<'_>) -> Result<Option<Self>, Fault> {
        let Some(record) = reader::record(view, keys::COUNTS)? else { return Ok(None) };
        let bytes = codec::unseal(keys::COUNTS, &record)?;
        let numbers = bytes.split_first_chunk::<8>().and_then(|(runs, events)| {
            let events = events.try_into().ok()?;
            Some(Self { runs: u64::from_be_bytes(*runs), events: u64::from_be_bytes(events) })
        });
        numbers.map(Some).ok_or_else(|| Fault::Corrupt("the tally is no two numbers".into()))
    }

    /// As it is stored.
    pub(super) fn record(self) -> Vec<u8> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.runs.to_be_bytes());
        bytes[8..].copy_from_slice(&self.events.to_be_bytes());
        codec::seal(keys::COUNTS, &bytes)
    }

    /// With an append of so many events counted in.
    pub(super) fn added(self, is_new_run: bool, events: u64) -> Self {
        Self { runs: self.runs + u64::from(is_new_run), events: self.events + events }
    }

    /// With a run of so many events taken out.
    pub(super) fn without(self, events: u64) -> Self {
        Self { runs: self.runs.saturating_sub(1), events: self.events.saturating_sub(events) }
    }
}
