//! Memory: the reference. What the contract means, with nothing but maps; it forgets on exit.

mod bounds;
mod evidence;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::kernel::evidence::leaf::{Kinds, Leaf};
use crate::kernel::evidence::{Hash, chain};
use crate::kernel::{Hidden, Millis, Recorded, RunId, SessionId, Version};
use crate::ports::evidence::Evidence;
use crate::ports::{
    Append, AppendError, Fault, Head, HookRow, Journal, KeyRow, Lease, Logged, Noting, Page,
    Parcel, RunFilter, SessionRow, Settlement, StoreReport,
};
use crate::store::audit;
use crate::store::codec;
use crate::store::index_entries::{self, IndexEntries, Waiting};
use crate::store::keys;
use crate::store::leases::Leases;
use crate::store::log::{ChainedNote, Ends};
use crate::store::memory::bounds::{above, below, set};
use crate::store::memory::evidence::Leaves;
use crate::store::pagination;
use crate::store::parcels;

/// A store that lives as long as the process.
#[derive(Debug)]
pub(super) struct MemoryJournal {
    state: Mutex<State>,
    leases: Leases,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    runs: BTreeMap<RunId, Kept>,
    sessions: BTreeMap<SessionId, SessionRow>,
    session_runs: BTreeSet<(SessionId, RunId)>,
    keys: BTreeMap<(String, String), KeyRow>,
    waiting: BTreeSet<(Waiting, RunId)>,
    due: BTreeSet<(Millis, RunId)>,
    going: BTreeSet<RunId>,
    forks: BTreeSet<(RunId, RunId)>,
    definitions: BTreeMap<String, String>,
    parcels: BTreeMap<(RunId, String), Parcel>,
    hooks: BTreeMap<(RunId, String), HookRow>,
    log_ends: Ends,
    log: BTreeMap<Vec<u8>, ChainedNote>,
    leaves: Leaves,
    keepsakes: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Kept {
    head: Head,
    journal: Vec<Recorded>,
    key: Option<String>,
    /// The first version of each append, and the link before it; and the last link (J13).
    links: Vec<(Version, Hash)>,
    link: Hash,
    /// Appends of which something stands apart, as they were hashed.
    hidden: BTreeMap<Version, Box<Hidden>>,
}

impl Kept {
    fn new(head: &Head, key: Option<String>) -> Self {
        let (journal, links, link) = (Vec::new(), Vec::new(), chain::GENESIS);
        Self { head: head.clone(), journal, key, links, link, hidden: BTreeMap::new() }
    }
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self { state: Mutex::default(), leases: Leases::new(1) }
    }
}

impl MemoryJournal {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change below is checked before it begins, and none of them panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn append(&mut self, append: Append, leases: &Leases) -> Result<Version, AppendError> {
        audit::check_append(&append)?;
        if self.is_closed {
            return Err(Fault::Retriable("the store is closed".into()).into());
        }
        let at = self.runs.get(&append.run).map_or(0, |kept| kept.head.version);
        if at != append.expected {
            return Err(AppendError::Moved { at });
        }
        if !leases.admits(&append.run, append.fence) {
            return Err(AppendError::Superseded);
        }
        if let Some(row) = &append.session
            && self.sessions.get(&row.session).is_some_and(|known| known.owner != row.owner)
        {
            return Err(AppendError::SessionTaken);
        }
        let owner = append.head.owner.clone();
        if let Some((key, _)) = &append.key
            && let Some(row) = self.keys.get(&(owner.clone(), key.clone()))
        {
            return Err(AppendError::KeyTaken(row.clone()));
        }
        let payload = match &append.hidden {
            Some(hidden) => codec::hidden_json(append.at, hidden),
            None => codec::events_json(append.at, &append.events),
        };
        let payload = chain::payload(&payload.map_err(Fault::from)?);
        let kinds = Kinds::of(append.events.iter().map(|event| &**event));
        let owed: Vec<_> = parcels::of(&append).collect();
        if let Some(row) = append.session {
            self.sessions.entry(row.session.clone()).or_insert(row);
        }
        let key = append.key.map(|(key, row)| {
            self.keys.insert((owner, key.clone()), row);
            key
        });
        for parcel in owed {
            let place = (parcel.run.clone(), parcel.lane.clone());
            let old = self.parcels.remove(&place);
            self.parcels.insert(place, Parcel::grown(old, parcel));
        }
        for hook in append.hooks {
            self.hooks.insert((hook.run.clone(), hook.hook.id.clone()), hook);
        }
        let head = append.head;
        self.session_runs.insert((head.session.clone(), head.run.clone()));
        if let Some(family) = &head.family {
            self.forks.insert((family.clone(), head.run.clone()));
        }
        let kept = self.runs.remove(&append.run);
        let mut kept = kept.unwrap_or_else(|| Kept::new(&head, key));
        kept.links.push((at + 1, kept.link));
        kept.hidden.extend(append.hidden.map(|hidden| (at + 1, hidden)));
        kept.link = chain::link(kept.link, &append.run, at + 1, payload);
        if !kinds.is_nothing() {
            self.leaves.wait(Leaf::entry(append.run.clone(), at + 1, kinds, kept.link));
        }
        self.index(&kept.head, false);
        self.index(&head, true);
        let numbered = append.events.into_iter().zip(append.expected + 1..);
        let recorded = numbered.map(|(event, version)| Recorded {
            version,
            at: append.at,
            event: Arc::unwrap_or_clone(event),
        });
        kept.journal.extend(recorded);
        kept.head = head;
        let version = kept.head.version;
        self.runs.insert(append.run, kept);
        Ok(version)
    }

    /// Puts a run into its indexes, or takes it out of them.
    fn index(&mut self, head: &Head, present: bool) {
        let entries = IndexEntries::of(head);
        let run = &head.run;
        if let Some(place) = entries.waiting {
            set(&mut self.waiting, (place, run.clone()), present);
        }
        if let Some(at) = entries.due {
            set(&mut self.due, (at, run.clone()), present);
        }
        if entries.going {
            set(&mut self.going, run.clone(), present);
        }
    }

    fn forget(&mut self, run: &RunId) {
        let Some(kept) = self.runs.remove(run) else { return };
        let (version, link) = (kept.head.version, kept.link);
        self.leaves.wait(Leaf::Tombstone { run: run.clone(), version, link });
        let Head { session, owner, family, .. } = &kept.head;
        if let Some(family) = family {
            self.forks.remove(&(family.clone(), run.clone()));
        }
        self.index(&kept.head, false);
        self.session_runs.remove(&(session.clone(), run.clone()));
        if self.runs_of(session).next().is_none() {
            self.sessions.remove(session);
        }
        self.parcels.retain(|(of, _), _| of != run);
        self.hooks.retain(|(of, _), _| of != run);
        if let Some(key) = kept.key {
            self.keys.remove(&(owner.clone(), key));
        }
    }

    /// Whether something still goes on in a run's session, or in its family.
    fn goes_on(&self, head: &Head) -> bool {
        let family = head.family.as_ref().unwrap_or(&head.run);
        let kin = self.forks_of(family).chain([family]);
        let mut runs = self.runs_of(&head.session).chain(kin).filter_map(|run| self.runs.get(run));
        runs.any(|kept| !kept.head.status.is_over())
    }

    /// The forks of a family, oldest first.
    fn forks_of(&self, family: &RunId) -> impl Iterator<Item = &RunId> {
        let first = (family.clone(), RunId::fresh(""));
        let of = family.clone();
        let rows = self.forks.range(first..).take_while(move |(other, _)| *other == of);
        rows.map(|(_, run)| run)
    }

    /// The runs of a session, newest first.
    fn runs_of(&self, session: &SessionId) -> impl Iterator<Item = &RunId> {
        let first = (session.clone(), RunId::fresh(""));
        let of = session.clone();
        let mut runs: Vec<_> = self
            .session_runs
            .range(first..)
            .take_while(move |(other, _)| *other == of)
            .map(|(_, run)| run)
            .collect();
        runs.reverse();
        runs.into_iter()
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn append(&self, append: Append) -> Result<Version, AppendError> {
        self.lock().append(append, &self.leases)
    }

    async fn read(
        &self,
        run: &RunId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, Fault> {
        let state = self.lock();
        let journal = state.runs.get(run).map_or(&[][..], |kept| &kept.journal);
        let tail = usize::try_from(after).ok().and_then(|after| journal.get(after..));
        Ok(tail.unwrap_or_default().iter().take(limit).cloned().collect())
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, Fault> {
        Ok(self.lock().runs.get(run).map(|kept| kept.head.clone()))
    }

    async fn heads(
        &self,
        filter: &RunFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, Fault> {
        let Ok(cursor) = cursor.map(RunId::parse).transpose() else {
            return Ok(pagination::nothing());
        };
        let state = self.lock();
        let row = |run: &RunId| {
            let head = state.runs.get(run).map(|kept| &kept.head);
            let head = head.filter(|head| index_entries::matches(filter, head)).cloned();
            Ok((run.to_string(), head))
        };
        if let Some(session) = &filter.session {
            let runs = state.runs_of(session);
            let runs = runs.filter(|run| cursor.as_ref().is_none_or(|cursor| *run < cursor));
            return pagination::page(runs.map(row), limit);
        }
        let runs = state.runs.range(below(cursor)).rev();
        pagination::page(runs.map(|(run, _)| row(run)), limit)
    }

    async fn session(&self, session: &SessionId) -> Result<Option<SessionRow>, Fault> {
        Ok(self.lock().sessions.get(session).cloned())
    }

    async fn put_session(
        &self,
        knew: Option<SessionRow>,
        row: SessionRow,
    ) -> Result<(), AppendError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Fault::Retriable("the store is closed".into()).into());
        }
        if state.sessions.get(&row.session).is_some_and(|known| known.owner != row.owner) {
            return Err(AppendError::SessionTaken);
        }
        if state.sessions.get(&row.session) != knew.as_ref() {
            return Err(AppendError::SessionMoved);
        }
        state.sessions.insert(row.session.clone(), row);
        Ok(())
    }

    async fn sessions(
        &self,
        owner: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SessionRow>, Fault> {
        let Ok(cursor) = cursor.map(SessionId::parse).transpose() else {
            return Ok(pagination::nothing());
        };
        let state = self.lock();
        let rows = state.sessions.range(below(cursor)).rev().map(|(id, row)| {
            let is_wanted = owner.is_none_or(|owner| row.owner == owner);
            Ok((id.to_string(), is_wanted.then(|| row.clone())))
        });
        pagination::page(rows, limit)
    }

    async fn key(&self, owner: &str, key: &str) -> Result<Option<KeyRow>, Fault> {
        Ok(self.lock().keys.get(&(owner.to_owned(), key.to_owned())).cloned())
    }

    async fn key_of(&self, run: &RunId) -> Result<Option<(String, KeyRow)>, Fault> {
        let state = self.lock();
        let Some(Kept { head, key: Some(key), .. }) = state.runs.get(run) else { return Ok(None) };
        let row = state.keys.get(&(head.owner.clone(), key.clone()));
        Ok(row.map(|row| (key.clone(), row.clone())))
    }

    async fn waiting(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Head>, Fault> {
        let Some(cursor) = pagination::cursor(cursor, Waiting::read_cursor) else {
            return Ok(pagination::nothing());
        };
        let state = self.lock();
        let rows = state.waiting.range(above(cursor)).map(|(place, run)| {
            let head = state.runs.get(run).map(|kept| kept.head.clone());
            Ok((place.cursor(run), head))
        });
        pagination::page(rows, limit)
    }

    async fn due(&self, now: Millis, limit: usize) -> Result<Vec<(Millis, RunId)>, Fault> {
        let state = self.lock();
        let due = state.due.iter().take_while(|(at, _)| *at <= now);
        Ok(due.take(limit).cloned().collect())
    }

    async fn next_due(&self) -> Result<Option<Millis>, Fault> {
        Ok(self.lock().due.first().map(|(at, _)| *at))
    }

    async fn running(&self, cursor: Option<&str>, limit: usize) -> Result<Page<RunId>, Fault> {
        let Ok(cursor) = cursor.map(RunId::parse).transpose() else {
            return Ok(pagination::nothing());
        };
        let state = self.lock();
        let runs = state.going.range(above(cursor));
        pagination::page(runs.map(|run| Ok((run.to_string(), Some(run.clone())))), limit)
    }

    async fn forks(&self, family: &RunId) -> Result<Vec<RunId>, Fault> {
        Ok(self.lock().forks_of(family).cloned().collect())
    }

    async fn claim(
        &self,
        run: &RunId,
        holder: &str,
        now: Millis,
        ttl_ms: u64,
    ) -> Result<Option<Lease>, Fault> {
        Ok(self.leases.claim(run, holder, now, ttl_ms))
    }

    async fn release(&self, lease: &Lease) -> Result<(), Fault> {
        self.leases.release(lease);
        Ok(())
    }

    async fn put_definition(&self, digest: &str, json: &str) -> Result<(), Fault> {
        let mut state = self.lock();
        state.definitions.entry(digest.to_owned()).or_insert_with(|| json.to_owned());
        Ok(())
    }

    async fn definition(&self, digest: &str) -> Result<Option<String>, Fault> {
        Ok(self.lock().definitions.get(digest).cloned())
    }

    async fn parcels(&self, now: Millis, limit: usize) -> Result<Vec<Parcel>, Fault> {
        let state = self.lock();
        let due = state.parcels.values().filter(|parcel| parcel.due <= now);
        let mut due: Vec<_> = due.cloned().collect();
        due.sort_by_key(|parcel| parcel.due);
        due.truncate(limit);
        Ok(due)
    }

    async fn next_parcel(&self) -> Result<Option<Millis>, Fault> {
        Ok(self.lock().parcels.values().map(|parcel| parcel.due).min())
    }

    async fn settle(&self, run: &RunId, lane: &str, outcome: Settlement) -> Result<(), Fault> {
        let mut state = self.lock();
        let place = (run.clone(), lane.to_owned());
        let left = state.parcels.remove(&place).and_then(|parcel| parcel.settled(&outcome));
        if let Some(parcel) = left {
            state.parcels.insert(place, parcel);
        }
        Ok(())
    }

    async fn put_hook(&self, hook: &HookRow) -> Result<(), Fault> {
        parcels::check_hook(hook)?;
        self.lock().hooks.insert((hook.run.clone(), hook.hook.id.clone()), hook.clone());
        Ok(())
    }

    async fn hooks(&self, run: &RunId) -> Result<Vec<HookRow>, Fault> {
        let state = self.lock();
        let hooks = state.hooks.iter().filter(|((of, _), _)| of == run);
        Ok(hooks.map(|(_, hook)| hook.clone()).collect())
    }

    async fn remove_hook(&self, run: &RunId, id: &str) -> Result<(), Fault> {
        let mut state = self.lock();
        state.hooks.remove(&(run.clone(), id.to_owned()));
        state.parcels.remove(&(run.clone(), parcels::lane_of(id)));
        Ok(())
    }

    async fn prune(&self, before: Millis, limit: usize) -> Result<usize, Fault> {
        let mut state = self.lock();
        let heads = state.runs.values().map(|kept| &kept.head);
        let over = heads.filter(|head| head.status.is_over() && head.updated_at < before);
        let gone = over.filter(|head| !state.goes_on(head)).take(limit);
        let runs: Vec<_> = gone.map(|head| head.run.clone()).collect();
        for run in &runs {
            state.forget(run);
        }
        Ok(runs.len())
    }

    async fn note(&self, noting: Noting) -> Result<u64, Fault> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Fault::Retriable("the store is closed".into()));
        }
        let mut ends = state.log_ends;
        let placed =
            ends.place(noting, |lane, at| Ok(state.log.get(&keys::log(lane, at)).cloned()))?;
        state.log_ends = ends;
        if let Some(gone) = placed.gone {
            state.log.remove(&keys::log(placed.lane, gone));
        }
        state.log.insert(keys::log(placed.lane, placed.index), placed.entry);
        placed.leaf.into_iter().for_each(|leaf| state.leaves.wait(leaf));
        Ok(placed.index)
    }

    async fn notes(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Logged>, Fault> {
        let state = self.lock();
        let read = |lane, at| {
            let chained = state.log.get(&keys::log(lane, at));
            Ok(chained.map(|chained| chained.entry.clone()))
        };
        state.log_ends.page(cursor, limit, read)
    }

    async fn remember(&self, name: &str, text: &str) -> Result<(), Fault> {
        self.lock().keepsakes.insert(name.to_owned(), text.to_owned());
        Ok(())
    }

    async fn remembered(&self, name: &str) -> Result<Option<String>, Fault> {
        Ok(self.lock().keepsakes.get(name).cloned())
    }

    async fn verify(&self) -> Result<StoreReport, Fault> {
        let state = self.lock();
        let mut audit = audit::Audit::new("memory", codec::CHAINED);
        for kept in state.runs.values() {
            let definition = state.definitions.get(&kept.head.definition);
            audit.run(&kept.head, &kept.journal, definition.map(String::as_str));
        }
        audit.report.sessions = audit::count(state.sessions.len());
        Ok(audit.finish())
    }

    fn evidence(&self) -> &dyn Evidence {
        self
    }

    fn is_healthy(&self) -> bool {
        !self.lock().is_closed
    }

    async fn close(&self) {
        self.lock().is_closed = true;
    }
}
