//! Outbox changes: what becomes of parcels and of the hooks that they are for, in a group. Whether a parcel
//! was delivered is decided by whoever carries it.

use crate::ports::{Fault, Parcel};
use crate::store::codec;
use crate::store::embedded::chunks::{self, Sealed};
use crate::store::embedded::group::Group;
use crate::store::embedded::prepared::{OutboxChange, Prepared};
use crate::store::embedded::reader;
use crate::store::embedded::tree::Bytes;
use crate::store::keys::{self, Packed};
use crate::store::parcels;

/// A parcel's due place, its record, and what lies where it goes.
pub(super) type PlacedParcel = (Vec<u8>, Sealed, Option<Bytes>);

impl Group<'_> {
    /// Adds a change to the outbox.
    pub(super) fn change_outbox(&mut self, change: &OutboxChange) -> Result<(), Fault> {
        match change {
            OutboxChange::Settle { packed, lane, outcome } => {
                let Some(parcel) = self.parcel(&keys::parcel(packed, lane))? else { return Ok(()) };
                let Some(left) = parcel.clone().settled(outcome) else {
                    return self.take_parcel(packed, &parcel);
                };
                let placed = self.placed(packed, &left)?;
                self.mark(keys::parcel_due(parcel.due, packed, lane), false);
                self.put_parcel(placed);
            }
            OutboxChange::PutHook(sealed) => self.replace(sealed)?,
            OutboxChange::RemoveHook { packed, id } => {
                self.remove(keys::hook(packed, id))?;
                if let Some(parcel) = self.parcel(&keys::parcel(packed, &parcels::lane_of(id)))? {
                    self.take_parcel(packed, &parcel)?;
                }
            }
        }
        Ok(())
    }

    /// The parcels of an append, each with what its lane was owed before (J8).
    pub(super) fn grown(&self, append: &Prepared) -> Result<Vec<PlacedParcel>, Fault> {
        let grown = append.parcels.iter().map(|new| {
            let key = keys::parcel(&append.packed, &new.lane);
            let parcel = Parcel::grown(self.parcel(&key)?, new.clone());
            self.placed(&append.packed, &parcel)
        });
        grown.collect()
    }

    pub(super) fn put_parcel(&mut self, (due, sealed, old): PlacedParcel) {
        self.mark(due, true);
        self.put(sealed, old.as_deref());
    }

    /// Takes out what a run that is forgotten owes, and to whom.
    pub(super) fn forget_outbox(&mut self, run: &Packed) -> Result<(), Fault> {
        for row in reader::span(self.view, &keys::of_run(keys::PARCEL, run), None) {
            let (key, _) = row?;
            if let Some(parcel) = self.parcel(&key)? {
                self.take_parcel(run, &parcel)?;
            }
        }
        for row in reader::span(self.view, &keys::of_run(keys::HOOK, run), None) {
            let (key, place) = row?;
            self.writes.extend(chunks::clear(key.to_vec(), &place));
        }
        Ok(())
    }

    /// A parcel as it is to be stored: its due place, its record, and what lies there.
    fn placed(&self, run: &Packed, parcel: &Parcel) -> Result<PlacedParcel, Fault> {
        let key = keys::parcel(run, &parcel.lane);
        let record = codec::seal_json(&key, parcel)?;
        let old = self.place(&key)?;
        Ok((keys::parcel_due(parcel.due, run, &parcel.lane), Sealed { key, record }, old))
    }

    fn parcel(&self, key: &[u8]) -> Result<Option<Parcel>, Fault> {
        match self.value(key)? {
            Some(record) => Ok(Some(codec::unseal_json(key, &record)?)),
            None => Ok(None),
        }
    }

    fn take_parcel(&mut self, run: &Packed, parcel: &Parcel) -> Result<(), Fault> {
        self.remove(keys::parcel(run, &parcel.lane))?;
        self.mark(keys::parcel_due(parcel.due, run, &parcel.lane), false);
        Ok(())
    }
}
