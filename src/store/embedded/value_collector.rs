//! Value collector: copies what is still needed out of a segment of the value log of which much is not, so that the
//! segment can go. A little with each checkpoint, on the checkpointer's thread; nobody waits for it.
//!
//! ```text
//! a checkpoint    copy, durably ─► note ─► the tree has the new places
//! the next one    sync of the tree ─► note, without the segment ─► the segment goes
//! ```
//!
//! Where nothing had to be copied the segment goes with the very checkpoint. After a prune, and nothing else, all of it
//! is done before the store is closed.
//!
//! What is copied is in no write-ahead log: the tree gets a new place only once the note has what lies there, and what
//! lay at the old one goes only once the tree holds the new one durably.

use crate::failpoint;
use crate::ports::Fault;
use crate::store::embedded::tree::{Bytes, Tree};
use crate::store::embedded::value_blocks::{self, Place, Value};
use crate::store::embedded::value_log::ValueLog;

/// What is looked through with one checkpoint: more than it adds.
const PASS_BYTES: u64 = 4 << 20;

/// What is being collected.
#[derive(Debug, Default)]
pub(super) struct Collector {
    /// The segment, and how far it was looked through.
    victim: Option<(u32, u64)>,
    /// What was copied with this checkpoint: its key, where it lay, and where it lies now.
    copied: Vec<(Vec<u8>, Place, Place)>,
    /// The segment out of which everything was copied with the checkpoint before.
    emptied: Option<u32>,
    /// Segments in which something rotted: what they hold is not known, so they stay.
    rotten: Vec<u32>,
}

impl Collector {
    /// The segment that no note has to name any more, once the tree is synced.
    pub(super) fn emptied(&self) -> Option<u32> {
        self.emptied
    }

    /// It is gone.
    pub(super) fn removed(&mut self) {
        self.emptied = None;
    }

    /// Copies a part of what is needed. The places come later ([`Self::hand_over`]).
    pub(super) fn copy(&mut self, tree: &Tree, values: &ValueLog) -> Result<(), Fault> {
        if self.emptied.is_some() {
            return Ok(());
        }
        self.victim = self.victim.or_else(|| self.choose(values).map(|segment| (segment, 0)));
        let Some((segment, mut offset)) = self.victim else { return Ok(()) };
        let (begun, mut kept, mut old) = (offset, Vec::new(), Vec::new());
        while offset < begun + PASS_BYTES {
            let Some((block, whole)) =
                values.block_at(segment, offset).map_err(|error| unread(&error))?
            else {
                break;
            };
            let Some(live) = whole.map(|whole| live(tree, block, &whole)).transpose()?.flatten()
            else {
                tracing::error!(segment, offset, "a block of `values/` rotted; its segment stays");
                self.rotten.push(segment);
                self.victim = None;
                return Ok(());
            };
            for (value, place) in live {
                old.push((value.0.clone(), place));
                kept.push(value);
            }
            offset += u64::from(block.block);
        }
        self.victim = Some((segment, offset));
        self.copied = moved(old, values.append(kept).map_err(|error| unread(&error))?);
        if !self.copied.is_empty() {
            failpoint::hit("store.values_copied");
        } else if is_through(values, segment, offset)? {
            // What the tree was given since it had a place in it is synced before the note.
            (self.victim, self.emptied) = (None, Some(segment));
        }
        Ok(())
    }

    /// Whether anything is left to do, by what is counted.
    pub(super) fn is_due(&self, values: &ValueLog) -> bool {
        self.emptied.is_some() || self.victim.is_some() || self.choose(values).is_some()
    }

    /// The full segment of which least is needed, if that is less than two thirds.
    fn choose(&self, values: &ValueLog) -> Option<u32> {
        let full = values.full_segments().into_iter();
        let full = full.filter(|it| !self.rotten.contains(&it.segment));
        let least = full.min_by(|one, other| {
            let of = |live: u64, whole: u64| u128::from(live) * u128::from(whole);
            of(one.live, other.written).cmp(&of(other.live, one.written))
        })?;
        (least.live.saturating_mul(3) < least.written.saturating_mul(2)).then_some(least.segment)
    }

    /// Gives the tree the places of what was copied, now that they are noted.
    pub(super) fn hand_over(&mut self, tree: &Tree, values: &ValueLog) -> Result<(), Fault> {
        let copied = std::mem::take(&mut self.copied);
        for (key, old, new) in &copied {
            let lies = tree.get(key)?.and_then(|lies| Place::read(&lies));
            if lies == Some(*old) {
                tree.set(key, Some(&new.written()))?;
            }
            values.give_up(if lies == Some(*old) { *old } else { *new });
        }
        if !copied.is_empty() {
            failpoint::hit("store.values_handed_over");
        }
        let Some((segment, offset)) = self.victim else { return Ok(()) };
        if is_through(values, segment, offset)? {
            (self.victim, self.emptied) = (None, Some(segment));
        }
        Ok(())
    }
}

fn is_through(values: &ValueLog, segment: u32, offset: u64) -> Result<bool, Fault> {
    Ok(values.block_at(segment, offset).map_err(|error| unread(&error))?.is_none())
}

/// What of a block the tree still has, and where it lies; none if the block does not add up.
fn live(tree: &Tree, block: Place, whole: &[u8]) -> Result<Option<Vec<(Value, Place)>>, Fault> {
    let Some(values) = value_blocks::values(whole) else { return Ok(None) };
    let mut live = Vec::new();
    for (key, value, at) in values {
        let place = Place { at, bytes: u32::try_from(value.len()).unwrap_or(u32::MAX), ..block };
        if tree.get(key)?.is_some_and(|lies| Place::read(&lies) == Some(place)) {
            live.push(((key.to_vec(), Bytes::from(value)), place));
        }
    }
    Ok(Some(live))
}

/// Where each lay, and where it lies now.
fn moved(
    mut old: Vec<(Vec<u8>, Place)>,
    mut new: Vec<(Vec<u8>, Place)>,
) -> Vec<(Vec<u8>, Place, Place)> {
    old.sort_by(|(one, _), (other, _)| one.cmp(other));
    new.sort_by(|(one, _), (other, _)| one.cmp(other));
    old.into_iter().zip(new).map(|((key, old), (_, new))| (key, old, new)).collect()
}

fn unread(error: &std::io::Error) -> Fault {
    Fault::Permanent(format!("the value log: {error}"))
}
