//! Group: appends that become durable together. Each is checked against what is stored and against
//! those before it in the group; one that fails leaves no write behind, and the others go on.

use std::collections::HashMap;

use ::sled::IVec;

use crate::kernel::{Millis, RunId, SessionId, Version};
use crate::ports::{AppendError, Fault, KeyRow, Logged, Noting, Parcel, Settlement};
use crate::store::codec::{self, StoredHead, StoredSession};
use crate::store::keys::{self, Packed};
use crate::store::leases::Leases;
use crate::store::log::Ends;
use crate::store::parcels;
use crate::store::places::Places;
use crate::store::sled::apart::Changes;
use crate::store::sled::bygone::Bygone;
use crate::store::sled::prepared::{Prepared, Sealed, Seat};
use crate::store::sled::reader;
use crate::store::sled::recent::{Brief, Recent};
use crate::store::sled::records::Write;
use crate::store::sled::tally::Tally;
use crate::store::sled::values;
use crate::store::sled::view::View;

/// A change beside the journals: to the outbox, or to what is the store's own.
#[derive(Debug)]
pub(super) enum Errand {
    Settle { packed: Packed, lane: String, outcome: Settlement },
    PutHook(Sealed),
    RemoveHook { packed: Packed, id: String },
    Note(Box<Noting>),
    Keep(Sealed),
}

/// What a group comes to.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) writes: Vec<Write>,
    /// What the store holds once the writes are made.
    pub(super) tally: Tally,
    pub(super) briefs: Recent,
}

/// A parcel's due place, its record, and what lies where it goes.
type Placed = (Vec<u8>, Sealed, Option<IVec>);

/// Writes that are decided on but not yet made.
#[derive(Debug)]
pub(super) struct Group<'a> {
    view: View<'a>,
    leases: &'a Leases,
    recent: &'a Recent,
    /// The runs that are appended to, as they will stand.
    briefs: Recent,
    writes: HashMap<Vec<u8>, Option<IVec>>,
    /// What the store holds once the writes are made.
    tally: Tally,
}

impl<'a> Group<'a> {
    /// A group without any writes, to a store that holds as much as `tally` says.
    pub(super) fn new(
        view: View<'a>,
        leases: &'a Leases,
        recent: &'a Recent,
        tally: Tally,
    ) -> Self {
        Self { view, leases, recent, briefs: Recent::default(), writes: HashMap::new(), tally }
    }

    /// Every write, with the new tally; nothing if there is nothing to write.
    pub(super) fn decided(self) -> Option<Decided> {
        if self.writes.is_empty() {
            return None;
        }
        let mut writes: Vec<_> = self.writes.into_iter().collect();
        writes.push((keys::TALLY.to_vec(), Some(self.tally.record().into())));
        Some(Decided { writes, tally: self.tally, briefs: self.briefs })
    }

    /// Adds an append, or says why it cannot be (J3, J4). Its records are taken out of it.
    pub(super) fn append(&mut self, append: &mut Prepared) -> Result<Version, AppendError> {
        let head_key = keys::head(&append.packed);
        let old = self.brief(&append.packed, &head_key)?;
        let at = old.as_ref().map_or(0, |old| old.version);
        if at != append.expected {
            return Err(AppendError::Moved { at });
        }
        let old_fence = old.as_ref().map_or(0, |old| old.fence);
        let fence = append.fence.unwrap_or(old_fence);
        if fence < old_fence || !self.leases.admits(&append.run, append.fence) {
            return Err(AppendError::Superseded);
        }
        let is_new_session = self.check_session(append)?;
        self.check_key(append)?;
        let parcels = self.grown(append)?;
        let lie_apart = old.as_ref().map_or(&[][..], |old| &old.apart);
        let questions = append.apart.changes(&append.packed, lie_apart)?;
        let questions = self.replaced(questions)?;

        // Nothing fails from here on.
        self.tally = self.tally.added(append.expected == 0, append.version - append.expected);
        if let Some((_, sealed)) = append.session.take().filter(|_| is_new_session) {
            self.put(sealed, None);
        }
        let new_key = append.key.take().map(|(text, sealed)| {
            self.put(sealed, None);
            text
        });
        if append.expected == 0 && !is_new_session {
            self.mark(std::mem::take(&mut append.session_run), true);
        }
        if let Some(fork) = append.fork.take().filter(|_| append.expected == 0) {
            self.mark(fork, true);
        }
        for hook in append.hooks.drain(..) {
            self.put(hook, None);
        }
        for (due, sealed, old) in parcels {
            self.mark(due, true);
            self.put(sealed, old.as_deref());
        }
        self.put(std::mem::take(&mut append.entry), None);
        self.writes.extend(questions);
        if let Some(old) = &old {
            self.index(&append.packed, old.places, false);
        }
        self.index(&append.packed, append.places, true);
        let (pieces, old_key) = old.map_or((0, None), |old| (old.pieces, old.key));
        let key = new_key.or(old_key);
        let apart = append.apart.ordinals();
        let record = codec::seal_head(&head_key, fence, key.as_deref(), apart.len(), &append.head);
        let places = append.places;
        let pieces_now = values::pieces_of(record.len());
        self.write(Sealed { key: head_key, record }, pieces);
        let brief =
            Brief { version: append.version, fence, key, places, pieces: pieces_now, apart };
        self.briefs.add(append.packed, brief);
        Ok(append.version)
    }

    /// Adds a definition, unless it is there.
    pub(super) fn define(&mut self, sealed: &Sealed) -> Result<(), Fault> {
        if self.place(&sealed.key)?.is_none() {
            self.put(sealed.clone(), None);
        }
        Ok(())
    }

    /// Makes a change beside the journals. Says where an entry of the log lies; of others, nothing.
    pub(super) fn errand(&mut self, errand: &Errand) -> Result<u64, Fault> {
        match errand {
            Errand::Settle { packed, lane, outcome } => {
                let key = keys::parcel(packed, lane);
                let Some(parcel) = self.parcel(&key)? else { return Ok(0) };
                let Some(left) = parcel.clone().settled(outcome) else {
                    self.take_parcel(packed, &parcel)?;
                    return Ok(0);
                };
                let (due, sealed, old) = self.placed(packed, &left)?;
                self.mark(keys::parcel_due(parcel.due, packed, lane), false);
                self.mark(due, true);
                self.put(sealed, old.as_deref());
            }
            Errand::PutHook(sealed) | Errand::Keep(sealed) => {
                let old = self.place(&sealed.key)?;
                self.put(sealed.clone(), old.as_deref());
            }
            Errand::RemoveHook { packed, id } => {
                self.remove(keys::hook(packed, id))?;
                let key = keys::parcel(packed, &parcels::lane_of(id));
                if let Some(parcel) = self.parcel(&key)? {
                    self.take_parcel(packed, &parcel)?;
                }
            }
            Errand::Note(noting) => return self.note((**noting).clone()),
        }
        Ok(0)
    }

    /// Takes an entry into the log, in place of the oldest where its lane is full.
    fn note(&mut self, noting: Noting) -> Result<u64, Fault> {
        let read = |key: &[u8]| -> Result<Option<Logged>, Fault> {
            let Some(record) = self.value(key)? else { return Ok(None) };
            Ok(Some(codec::unseal_json(key, &record)?))
        };
        let mut ends: Ends = match self.value(keys::LOG_ENDS)? {
            Some(record) => codec::unseal_json(keys::LOG_ENDS, &record)?,
            None => Ends::default(),
        };
        let placed = ends.place(noting, |lane, at| read(&keys::log(lane, at)))?;
        let key = keys::log(placed.lane, placed.index);
        let record = codec::seal_json(&key, &placed.entry)?;
        let ended = codec::seal_json(keys::LOG_ENDS, &ends)?;
        let old = self.place(&key)?;
        self.put(Sealed { key, record }, old.as_deref());
        self.put(Sealed { key: keys::LOG_ENDS.to_vec(), record: ended }, None);
        if let Some(gone) = placed.gone {
            self.remove(keys::log(placed.lane, gone))?;
        }
        Ok(placed.index)
    }

    /// The writes for questions that lie apart.
    fn replaced(&self, changes: Changes) -> Result<Vec<Write>, Fault> {
        let mut writes = Vec::with_capacity(changes.put.len() + changes.gone.len());
        for Sealed { key, record } in changes.put {
            let old = self.place(&key)?;
            writes.extend(values::cut(key, record, old.as_deref().map_or(0, values::pieces)));
        }
        for key in changes.gone {
            if let Some(place) = self.place(&key)? {
                writes.extend(values::clear(key, &place));
            }
        }
        Ok(writes)
    }

    /// The parcels of an append, each with what its lane was owed before.
    fn grown(&self, append: &Prepared) -> Result<Vec<Placed>, Fault> {
        let grown = append.parcels.iter().map(|new| {
            let key = keys::parcel(&append.packed, &new.lane);
            let parcel = Parcel::grown(self.parcel(&key)?, new.clone());
            self.placed(&append.packed, &parcel)
        });
        grown.collect()
    }

    /// A parcel as it is to be stored: its due place, its record, and what lies there.
    fn placed(&self, run: &Packed, parcel: &Parcel) -> Result<Placed, Fault> {
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

    /// Keeps a session as it now is, if it is nobody else's and still as it was known.
    pub(super) fn seat(&mut self, seat: &Seat) -> Result<(), AppendError> {
        let Seat { knew, row, sealed } = seat;
        let Some(known) = self.session(&sealed.key)? else {
            if knew.is_some() {
                return Err(AppendError::SessionMoved);
            }
            self.put(sealed.clone(), None);
            return Ok(());
        };
        if known.row.owner != row.owner {
            return Err(AppendError::SessionTaken);
        }
        if knew.as_ref() != Some(&known.row) {
            return Err(AppendError::SessionMoved);
        }
        let (key, place) = (sealed.key.clone(), self.place(&sealed.key)?);
        let record = codec::seal_session(&key, row, known.first.as_ref()).map_err(Fault::from)?;
        self.put(Sealed { key, record }, place.as_deref());
        Ok(())
    }

    /// Takes out the next runs that were over before `before` and that nobody needs; the group must
    /// hold nothing else.
    pub(super) fn prune(
        &mut self,
        bygone: &mut Bygone,
        before: Millis,
        limit: usize,
    ) -> Result<usize, Fault> {
        debug_assert!(self.writes.is_empty(), "pruning reads what is stored, not what is decided");
        let runs = bygone.next(self.view, before, limit)?;
        for run in &runs {
            self.forget(run)?;
        }
        Ok(runs.len())
    }

    fn forget(&mut self, run: &RunId) -> Result<(), Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(()) };
        let head_key = keys::head(&packed);
        let Some(place) = self.place(&head_key)? else { return Ok(()) };
        let stored = self.head(&head_key, place.clone())?;
        for row in reader::span(self.view, &keys::entries(&packed), None) {
            let (key, place) = row?;
            self.writes.extend(values::clear(key.to_vec(), &place));
        }
        for row in reader::span(self.view, &keys::of_run(keys::PARCEL, &packed), None) {
            let (key, _) = row?;
            if let Some(parcel) = self.parcel(&key)? {
                self.take_parcel(&packed, &parcel)?;
            }
        }
        for row in reader::span(self.view, &keys::of_run(keys::HOOK, &packed), None) {
            let (key, place) = row?;
            self.writes.extend(values::clear(key.to_vec(), &place));
        }
        self.tally = self.tally.without(stored.head.version);
        self.index(&packed, Places::of(&stored.head), false);
        if let Some(key) = &stored.key {
            self.remove(keys::idempotency(&stored.head.owner, key))?;
        }
        self.writes.extend(values::clear(head_key, &place));
        self.mark(keys::session_run(&stored.head.session, &packed), false);
        if let Some(fork) = keys::fork_of(&stored.head, &packed) {
            self.mark(fork, false);
        }
        if !self.has_runs(&stored.head.session)? {
            self.remove(keys::session(&stored.head.session))?;
        }
        Ok(())
    }

    /// Whether any run is left in a session.
    fn has_runs(&self, session: &SessionId) -> Result<bool, Fault> {
        let known = self.session(&keys::session(session))?;
        let first = known.and_then(|known| keys::pack(&known.first?));
        if let Some(first) = first
            && self.place(&keys::head(&first))?.is_some()
        {
            return Ok(true);
        }
        for row in reader::span(self.view, &keys::session_runs(session), None) {
            let (key, _) = row?;
            if !matches!(self.writes.get(key.as_ref()), Some(None)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the append brings a session that is not there yet.
    fn check_session(&self, append: &Prepared) -> Result<bool, AppendError> {
        let Some((row, sealed)) = &append.session else { return Ok(false) };
        let Some(known) = self.session(&sealed.key)? else { return Ok(true) };
        if known.row.owner == row.owner { Ok(false) } else { Err(AppendError::SessionTaken) }
    }

    /// A session, with this group's writes made.
    fn session(&self, key: &[u8]) -> Result<Option<StoredSession>, Fault> {
        match self.value(key)? {
            Some(record) => Ok(Some(codec::unseal_session(key, &record)?)),
            None => Ok(None),
        }
    }

    fn check_key(&self, append: &Prepared) -> Result<(), AppendError> {
        let Some((_, sealed)) = &append.key else { return Ok(()) };
        let Some(known) = self.value(&sealed.key)? else { return Ok(()) };
        let known: KeyRow = codec::unseal_json(&sealed.key, &known).map_err(Fault::from)?;
        Err(AppendError::KeyTaken(known))
    }

    /// Puts a run under its headings, or takes it away from them.
    fn index(&mut self, run: &Packed, places: Places, present: bool) {
        if let Some(place) = places.waiting {
            self.mark(keys::waiting(place, run), present);
        }
        if let Some(at) = places.due {
            self.mark(keys::timed(keys::DUE, at, run), present);
        }
        if places.going {
            self.mark(keys::going(run), present);
        }
    }

    fn mark(&mut self, key: Vec<u8>, present: bool) {
        self.writes.insert(key, present.then(IVec::default));
    }

    fn remove(&mut self, key: Vec<u8>) -> Result<(), Fault> {
        if let Some(place) = self.place(&key)? {
            self.writes.extend(values::clear(key, &place));
        }
        Ok(())
    }

    fn put(&mut self, sealed: Sealed, old: Option<&[u8]>) {
        self.write(sealed, old.map_or(0, values::pieces));
    }

    /// Writes a record where one of so many pieces lay.
    fn write(&mut self, sealed: Sealed, old_pieces: u16) {
        self.writes.extend(values::cut(sealed.key, sealed.record, old_pieces));
    }

    /// How a run stands, with this group's writes made.
    fn brief(&self, run: &Packed, head_key: &[u8]) -> Result<Option<Brief>, Fault> {
        if let Some(brief) = self.briefs.get(run).or_else(|| self.recent.get(run)) {
            return Ok(Some(brief.clone()));
        }
        let Some(place) = self.place(head_key)? else { return Ok(None) };
        let pieces = values::pieces(&place);
        let StoredHead { head, fence, key, apart } = self.head(head_key, place)?;
        let places = Places::of(&head);
        let lie_apart = if apart > 0 { head.questions.as_slice() } else { &[] };
        let apart = lie_apart.iter().map(|question| question.ordinal).collect();
        Ok(Some(Brief { version: head.version, fence, key, places, pieces, apart }))
    }

    /// What lies at a key, with this group's writes made.
    fn place(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        match self.writes.get(key) {
            Some(decided) => Ok(decided.clone()),
            None => self.view.get(key),
        }
    }

    fn value(&self, key: &[u8]) -> Result<Option<IVec>, Fault> {
        let Some(place) = self.place(key)? else { return Ok(None) };
        values::join(key, place, |piece| self.place(piece)).map(Some)
    }

    fn head(&self, key: &[u8], place: IVec) -> Result<StoredHead, Fault> {
        let record = values::join(key, place, |piece| self.place(piece))?;
        // Whoever has this group's writes made to a run finds it among the briefs.
        reader::whole_head(self.view, codec::unseal_head(key, &record)?)
    }
}
