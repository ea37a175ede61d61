//! Outbox changes: what becomes of entries and of the hooks that they are for, in a group. Whether a entry
//! was delivered is decided by whoever carries it.

use crate::ports::{Fault, OutboxEntry};
use crate::store::codec;
use crate::store::embedded::chunks::{self, Sealed};
use crate::store::embedded::group::Group;
use crate::store::embedded::prepared::{OutboxChange, Prepared};
use crate::store::embedded::reader;
use crate::store::embedded::tree::Bytes;
use crate::store::keys::{self, Packed};
use crate::store::outbox_entries;

/// A entry's due place, its record, and what lies where it goes.
pub(super) type PlacedEntry = (Vec<u8>, Sealed, Option<Bytes>);

impl Group<'_> {
    /// Adds a change to the outbox.
    pub(super) fn change_outbox(&mut self, change: &OutboxChange) -> Result<(), Fault> {
        match change {
            OutboxChange::Settle { packed, channel, outcome } => {
                let Some(outbox_entry) = self.outbox_entry(&keys::outbox_entry(packed, channel))?
                else {
                    return Ok(());
                };
                let Some(left) = outbox_entry.clone().settled(outcome) else {
                    return self.take_outbox_entry(packed, &outbox_entry);
                };
                let placed = self.placed(packed, &left)?;
                self.mark(keys::outbox_due(outbox_entry.due, packed, channel), false);
                self.put_outbox_entry(placed);
            }
            OutboxChange::PutHook(sealed) => self.replace(sealed)?,
            OutboxChange::RemoveHook { packed, id } => {
                self.remove(keys::hook(packed, id))?;
                if let Some(outbox_entry) =
                    self.outbox_entry(&keys::outbox_entry(packed, &outbox_entries::channel_of(id)))?
                {
                    self.take_outbox_entry(packed, &outbox_entry)?;
                }
            }
        }
        Ok(())
    }

    /// The entries of an append, each with what its channel was owed before (J8).
    pub(super) fn grown(&self, append: &Prepared) -> Result<Vec<PlacedEntry>, Fault> {
        let grown = append.outbox_entries.iter().map(|new| {
            let key = keys::outbox_entry(&append.packed, &new.channel);
            let outbox_entry = OutboxEntry::grown(self.outbox_entry(&key)?, new.clone());
            self.placed(&append.packed, &outbox_entry)
        });
        grown.collect()
    }

    pub(super) fn put_outbox_entry(&mut self, (due, sealed, old): PlacedEntry) {
        self.mark(due, true);
        self.put(sealed, old.as_deref());
    }

    /// Takes out what a run that is forgotten owes, and to whom.
    pub(super) fn forget_outbox(&mut self, run: &Packed) -> Result<(), Fault> {
        for row in reader::span(self.view, &keys::of_run(keys::PARCEL, run), None) {
            let (key, _) = row?;
            if let Some(outbox_entry) = self.outbox_entry(&key)? {
                self.take_outbox_entry(run, &outbox_entry)?;
            }
        }
        for row in reader::span(self.view, &keys::of_run(keys::HOOK, run), None) {
            let (key, place) = row?;
            self.writes.extend(chunks::clear(key.to_vec(), &place));
        }
        Ok(())
    }

    /// A entry as it is to be stored: its due place, its record, and what lies there.
    fn placed(&self, run: &Packed, outbox_entry: &OutboxEntry) -> Result<PlacedEntry, Fault> {
        let key = keys::outbox_entry(run, &outbox_entry.channel);
        let record = codec::seal_json(&key, outbox_entry)?;
        let old = self.place(&key)?;
        Ok((
            keys::outbox_due(outbox_entry.due, run, &outbox_entry.channel),
            Sealed { key, record },
            old,
        ))
    }

    fn outbox_entry(&self, key: &[u8]) -> Result<Option<OutboxEntry>, Fault> {
        match self.value(key)? {
            Some(record) => Ok(Some(codec::unseal_json(key, &record)?)),
            None => Ok(None),
        }
    }

    fn take_outbox_entry(&mut self, run: &Packed, outbox_entry: &OutboxEntry) -> Result<(), Fault> {
        self.remove(keys::outbox_entry(run, &outbox_entry.channel))?;
        self.mark(keys::outbox_due(outbox_entry.due, run, &outbox_entry.channel), false);
        Ok(())
    }
}
