//! Group: what becomes durable together (group commit). Each append is checked against what is stored and
//! against those before it in the group; one that fails leaves no write behind, and the others go on.
//! Nothing is written here: that is the committer's.

use std::collections::HashMap;

use crate::kernel::evidence::leaf::Leaf;
use crate::kernel::evidence::{Hash, chain};
use crate::kernel::{Millis, RunId, SessionId};
use crate::ports::{AppendError, Fault, KeyRow, Noting};
use crate::store::codec::{self, StoredHead, StoredSession};
use crate::store::embedded::chunks::{self, Sealed};
use crate::store::embedded::counts::Counts;
use crate::store::embedded::head_cache::{CachedHead, HeadCache};
use crate::store::embedded::invariants;
use crate::store::embedded::leaves::{self, Grown};
use crate::store::embedded::overflow_questions::OverflowChanges;
use crate::store::embedded::prepared::{Change, Prepared, SessionChange};
use crate::store::embedded::prune_scan::PruneScan;
use crate::store::embedded::reader;
use crate::store::embedded::tree::Bytes;
use crate::store::embedded::view::View;
use crate::store::embedded::waiting::{self, EntryLeaf};
use crate::store::embedded::wal_records::Write;
use crate::store::index_entries::IndexEntries;
use crate::store::keys::{self, Packed};
use crate::store::leases::Leases;
use crate::store::log::{ChainedNote, Ends};

/// What a group comes to.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) writes: Vec<Write>,
    /// What the store holds once the writes are made.
    pub(super) counts: Counts,
    pub(super) heads: HeadCache,
}

/// What a caller is told of what it wanted written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    /// The journal's length after an append, or where a note lies.
    pub(super) at: u64,
    /// An append's link.
    pub(super) link: Option<Hash>,
}

/// Writes that are decided on but not yet made.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) view: View<'a>,
    leases: &'a Leases,
    cache: &'a HeadCache,
    /// The runs that are appended to, as they will stand.
    heads: HeadCache,
    pub(super) writes: HashMap<Vec<u8>, Option<Bytes>>,
    /// The leaves of the appends, in their order.
    leaves: Vec<EntryLeaf>,
    /// What the store holds once the writes are made.
    counts: Counts,
}

impl<'a> Group<'a> {
    /// A group without any writes, to a store that holds as much as `counts` says.
    pub(super) fn new(
        view: View<'a>,
        leases: &'a Leases,
        cache: &'a HeadCache,
        counts: Counts,
    ) -> Self {
        let (heads, writes) = (HeadCache::default(), HashMap::new());
        Self { view, leases, cache, heads, writes, leaves: Vec::new(), counts }
    }

    /// Every write, with the new counts; nothing if there is nothing to write.
    pub(super) fn decided(self) -> Option<Decided> {
        if self.writes.is_empty() {
            return None;
        }
        self.cache.assert_goes_on(&self.heads);
        let mut writes: Vec<_> = self.writes.into_iter().collect();
        // J13: a leaf waits from the moment of its append.
        writes.extend(waiting::records(&self.leaves, self.view.waiting().next_number()));
        writes.push((keys::COUNTS.to_vec(), Some(self.counts.record().into())));
        Some(Decided { writes, counts: self.counts, heads: self.heads })
    }

    /// Adds an append, or says why it cannot be (J3, J4, J12). Its records are taken out of it.
    pub(super) fn append(&mut self, append: &mut Prepared) -> Result<Written, AppendError> {
        let head_key = keys::head(&append.packed);
        let old = self.cached_head(&append.packed, &head_key)?;
        let at = old.as_ref().map_or(0, |old| old.version);
        // J9: only whoever has not been answered submits again, and goes no further before that. So the last is enough.
        if let (Some(token), Some(old)) = (append.token, &old)
            && old.written == Some((append.expected, token))
        {
            return Ok(Written { at, link: Some(old.link) });
        }
        let old_fence = old.as_ref().map_or(0, |old| old.fence);
        let fence = append.fence.unwrap_or(old_fence);
        if fence < old_fence {
            return Err(AppendError::Superseded);
        }
        self.leases.admits(&append.run, append.fence, append.hold)?;
        if at != append.expected {
            return Err(AppendError::Moved { at });
        }
        let is_new_session = self.check_session(append)?;
        self.check_key(append)?;
        let outbox_entries = self.grown(append)?;
        let overflow = old.as_ref().map_or(&[][..], |old| &old.overflow);
        let questions = append.overflow.changes(&append.packed, overflow)?;
        let questions = self.replaced(questions)?;

        // Nothing fails from here on. J5: what is written goes on right after what is stored.
        invariants::holds(
            append.entry.0 == keys::entry(&append.packed, at + 1) && append.version > at,
            "J5: an append's entry lies right after the version that its head stands at",
        );
        let fence = self.leases.change(&append.run, append.hold).unwrap_or(fence);
        self.counts = self.counts.added(append.expected == 0, append.version - append.expected);
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
        for outbox_entry in outbox_entries {
            self.put_outbox_entry(outbox_entry);
        }
        // J13: each append holds on to the one before it.
        let prev = old.as_ref().map_or(chain::GENESIS, |old| old.link);
        let link = chain::link(prev, &append.run, at + 1, append.payload);
        let (key, unlinked) = std::mem::take(&mut append.entry);
        let known = (&append.entry_repeats, unlinked.middle().1);
        self.writes.extend(chunks::split_known(key, unlinked.linked(prev), 0, known));
        self.leaves.extend(EntryLeaf::of(append.packed, at + 1, append.kinds, link));
        self.writes.extend(questions);
        self.reindex(&append.packed, old.as_ref().map(|old| old.entries), append.entries);
        let (old_chunks, old_key) = old.map_or((0, None), |old| (old.chunks, old.key));
        let key = new_key.or(old_key);
        let overflow = append.overflow.ordinals();
        let beside = (fence, key.as_deref(), overflow.len());
        let record = codec::seal_linked_head(&head_key, link, beside, &append.head);
        let known = (&append.head_repeats, codec::head_middle(&append.head).1);
        self.writes.extend(chunks::split_known(head_key, record, old_chunks, known));
        let (version, entries) = (append.version, append.entries);
        let written = append.token.map(|token| (append.expected, token));
        let head = CachedHead { version, fence, key, entries, chunks: 0, overflow, link, written };
        self.heads.add(append.packed, head);
        Ok(Written { at: append.version, link: Some(link) })
    }

    /// Adds a change that is no append. Says where an entry of the log lies; of others, nothing.
    pub(super) fn change(&mut self, change: &Change) -> Result<Written, AppendError> {
        let mut at = 0;
        match change {
            Change::Outbox(change) => self.change_outbox(change)?,
            Change::PutDefinition(sealed) => {
                if self.place(&sealed.key)?.is_none() {
                    self.put(sealed.clone(), None);
                }
            }
            Change::PutSession(change) => self.put_session(change)?,
            Change::PutText(sealed) => self.replace(sealed)?,
            Change::SaveFold(run, sealed) => {
                if self.place(&keys::head(run))?.is_some() {
                    self.replace(sealed)?;
                }
            }
            Change::Note(noting) => at = self.note((**noting).clone())?,
            Change::Sequence(grown) => self.sequence(grown)?,
        }
        Ok(Written { at, link: None })
    }

    /// Takes an entry into the log, in place of the oldest where its lane is full.
    fn note(&mut self, noting: Noting) -> Result<u64, Fault> {
        let read = |key: &[u8]| -> Result<Option<ChainedNote>, Fault> {
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
        self.replace(&Sealed { key, record })?;
        self.put(Sealed { key: keys::LOG_ENDS.to_vec(), record: ended }, None);
        if let Some(gone) = placed.gone {
            self.remove(keys::log(placed.lane, gone))?;
        }
        if let Some(waiting) = placed.leaf.as_ref().and_then(waiting::record) {
            self.put(waiting, None);
        }
        let outdone = placed.outdone.and_then(|place| keys::leaf_place(keys::PENDING, &place));
        if let Some(outdone) = outdone {
            self.remove(outdone)?;
        }
        Ok(placed.index)
    }

    /// Gives leaves their places, if the log is still as long as it was when they were counted.
    fn sequence(&mut self, grown: &Grown) -> Result<(), Fault> {
        let size = match self.value(keys::TREE)? {
            Some(record) => leaves::frontier(&record)?.size(),
            None => 0,
        };
        if size != grown.expected {
            return Err(Fault::Retriable("the log of leaves has grown meanwhile".into()));
        }
        let waiting = self.view.waiting();
        invariants::holds(
            grown.writes.iter().all(|(key, _)| !keys::is_pending_entries(key) || waiting.has(key)),
            "J13: only a leaf that waits is given a place",
        );
        self.writes.extend(grown.writes.iter().cloned());
        Ok(())
    }

    /// The writes for questions that lie beside their head.
    fn replaced(&self, changes: OverflowChanges) -> Result<Vec<Write>, Fault> {
        let mut writes = Vec::with_capacity(changes.put.len() + changes.gone.len());
        for Sealed { key, record } in changes.put {
            let old = self.place(&key)?;
            writes.extend(chunks::split(key, record, old.as_deref().map_or(0, chunks::count)));
        }
        for key in changes.gone {
            if let Some(place) = self.place(&key)? {
                writes.extend(chunks::clear(key, &place));
            }
        }
        Ok(writes)
    }

    /// Keeps a session as it now is, if it is nobody else's and still as it was known.
    fn put_session(&mut self, change: &SessionChange) -> Result<(), AppendError> {
        let SessionChange { knew, row, sealed } = change;
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
        let key = sealed.key.clone();
        let record = codec::seal_session(&key, row, known.first.as_ref()).map_err(Fault::from)?;
        Ok(self.replace(&Sealed { key, record })?)
    }

    /// Takes out the next runs that were over before `before` and that nobody needs; the group must
    /// hold nothing else.
    pub(super) fn prune(
        &mut self,
        scan: &mut PruneScan,
        before: Millis,
        limit: usize,
    ) -> Result<usize, Fault> {
        invariants::holds(
            self.writes.is_empty(),
            "pruning reads what is stored, not what is decided",
        );
        let runs = scan.next(self.view, before, limit)?;
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
        invariants::holds(stored.head.status.is_over(), "only a run that is over is forgotten");
        for row in reader::span(self.view, &keys::entries(&packed), None) {
            let (key, place) = row?;
            self.writes.extend(chunks::clear(key.to_vec(), &place));
        }
        self.forget_outbox(&packed)?;
        self.remove(keys::fold(&packed))?;
        // J13: absence without a tombstone is a finding.
        let (link, version) = (stored.link.unwrap_or(chain::GENESIS), stored.head.version);
        let tombstone = Leaf::Tombstone { run: run.clone(), version, link };
        if let Some(waiting) = waiting::record(&tombstone) {
            self.put(waiting, None);
        }
        self.counts = self.counts.without(stored.head.version);
        self.index(&packed, IndexEntries::of(&stored.head), false);
        if let Some(key) = &stored.key {
            self.remove(keys::idempotency(&stored.head.owner, key))?;
        }
        self.writes.extend(chunks::clear(head_key, &place));
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

    /// Takes a run out of the indexes that its old head put it in, and puts it into those of its new one.
    /// In this order: what stays where it was is written over its own removal.
    fn reindex(&mut self, run: &Packed, old: Option<IndexEntries>, new: IndexEntries) {
        if let Some(old) = old {
            self.index(run, old, false);
        }
        self.index(run, new, true);
        invariants::holds(
            keys::index_entries(new, run).all(|key| matches!(self.writes.get(&key), Some(Some(_)))),
            "J7: a run can be found in every index that its head puts it in",
        );
    }

    /// Puts a run into its indexes, or takes it out of them.
    fn index(&mut self, run: &Packed, entries: IndexEntries, present: bool) {
        for key in keys::index_entries(entries, run) {
            self.mark(key, present);
        }
    }

    pub(super) fn mark(&mut self, key: Vec<u8>, present: bool) {
        self.writes.insert(key, present.then(Bytes::default));
    }

    pub(super) fn remove(&mut self, key: Vec<u8>) -> Result<(), Fault> {
        if let Some(place) = self.place(&key)? {
            self.writes.extend(chunks::clear(key, &place));
        }
        Ok(())
    }

    /// Writes a record in place of whatever lies there.
    pub(super) fn replace(&mut self, sealed: &Sealed) -> Result<(), Fault> {
        let old = self.place(&sealed.key)?;
        self.put(sealed.clone(), old.as_deref());
        Ok(())
    }

    pub(super) fn put(&mut self, sealed: Sealed, old: Option<&[u8]>) {
        self.write(sealed, old.map_or(0, chunks::count));
    }

    /// Writes a record where one of so many chunks lay.
    fn write(&mut self, sealed: Sealed, old_chunks: u16) {
        self.writes.extend(chunks::split(sealed.key, sealed.record, old_chunks));
    }

    /// How a run stands, with this group's writes made.
    fn cached_head(&self, run: &Packed, head_key: &[u8]) -> Result<Option<CachedHead>, Fault> {
        if let Some(head) = self.heads.get(run).or_else(|| self.cache.get(run)) {
            return Ok(Some(head.clone()));
        }
        let Some(place) = self.place(head_key)? else { return Ok(None) };
        let chunks = chunks::count(&place);
        let StoredHead { head, fence, key, apart, link } = self.head(head_key, place)?;
        let link = link.ok_or_else(|| {
            let run = &head.run;
            Fault::Corrupt(format!(
                "run `{run}` could not be taken over: `holdpoint doctor` says why"
            ))
        })?;
        let entries = IndexEntries::of(&head);
        let beside = if apart > 0 { head.questions.as_slice() } else { &[] };
        let overflow = beside.iter().map(|question| question.ordinal).collect();
        let (version, written) = (head.version, None);
        Ok(Some(CachedHead { version, fence, key, entries, chunks, overflow, link, written }))
    }

    /// What lies at a key, with this group's writes made.
    pub(super) fn place(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        match self.writes.get(key) {
            Some(decided) => Ok(decided.clone()),
            None => self.view.get(key),
        }
    }

    pub(super) fn value(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        let Some(place) = self.place(key)? else { return Ok(None) };
        chunks::join(key, place, |chunk| self.place(chunk)).map(Some)
    }

    fn head(&self, key: &[u8], place: Bytes) -> Result<StoredHead, Fault> {
        let record = chunks::join(key, place, |chunk| self.place(chunk))?;
        // Whoever has this group's writes made to a run finds it among its heads.
        reader::whole_head(self.view, codec::unseal_head(key, &record)?)
    }
}
