//! Memory: the reference. What the contract means, with nothing but maps; it forgets on exit. One process has it
//! alone, or several handles to one state stand for as many processes (`cluster`).

mod bounds;
pub(super) mod cluster;
mod evidence;
mod leaves;
mod lives;
mod mishaps;
mod replicas;
mod state;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::kernel::evidence::Hash;
use crate::kernel::{Millis, Recorded, Run, RunId, SessionId, Version, Workflow, replay, saved};
use crate::ports::evidence::Evidence;
use crate::ports::{
    Append, AppendError, Appended, Desk, Fault, Fence, Guard, Head, Hold, HookRow, Incarnation,
    Journal, KeyRow, Logged, Noting, OutboxEntry, Page, Replicas, RunFilter, SessionRow,
    Settlement, StoreReport,
};
use crate::store::audit;
use crate::store::codec;
use crate::store::index_entries::{self, Waiting};
use crate::store::keys;
use crate::store::memory::bounds::{above, below};
use crate::store::memory::cluster::{MemoryReplica, Seat};
use crate::store::memory::mishaps::Mishap;
use crate::store::memory::state::{Kept, State};
use crate::store::outbox_entries;
use crate::store::pagination;

/// After how many more events a run is saved folded: so often, because whatever a run can come to is to come back.
const FOLD_EVENTS: Version = 8;

/// A store that lives as long as the process.
#[derive(Debug)]
pub(super) struct MemoryJournal {
    state: Arc<Mutex<State>>,
    me: AtomicU64,
    /// What it takes to be one of several.
    seat: Option<Seat>,
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self { state: Arc::default(), me: AtomicU64::new(1), seat: None }
    }
}

impl MemoryJournal {
    /// The life in which it writes.
    fn me(&self) -> Incarnation {
        Incarnation(self.me.load(Ordering::SeqCst))
    }

    /// Whatever befalls a call before it comes to the store.
    async fn enter(&self) -> Result<(), Fault> {
        match &self.seat {
            Some(seat) => seat.enter().await,
            None => Ok(()),
        }
    }

    /// The state, for a call that comes to the store.
    async fn entered(&self) -> Result<MutexGuard<'_, State>, Fault> {
        self.enter().await?;
        Ok(self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change below is checked before it begins, and none of them panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryReplica {
    /// So many times it reads a journal and finds nothing there, as where another server answers than the one that said
    /// how far it goes.
    pub fn misread(&self, times: u32) {
        if let Some(seat) = &self.journal.seat {
            seat.mishaps().misread(times);
        }
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        self.enter().await?;
        let Some(seat) = &self.seat else { return self.lock().append(append, self.me()) };
        let (run, after) = (append.run.clone(), append.expected);
        let mishap = seat.befalls(&append);
        if let Some(error) = mishap.and_then(Mishap::before) {
            return Err(error);
        }
        if mishap == Some(Mishap::Swallowed) {
            let (version, fence) = (append.head.version, append.fence.unwrap_or(0));
            return Ok(Appended { version, fence, link: None });
        }
        let (fence, hold) = (append.fence, append.hold);
        let mut state = self.lock();
        let kept = state.runs.get(&run).map(|kept| (kept.head.version, kept.link));
        let is_new = kept.map_or(0, |(version, _)| version) == after;
        if let Some((version, link)) = kept.filter(|_| is_new) {
            seat.see(&run, version, link)?;
        }
        let appended = state.append(append, self.me())?;
        if let Some(kept) =
            state.runs.get(&run).filter(|kept| kept.head.version == appended.version)
        {
            seat.see(&run, appended.version, kept.link)?;
        }
        let me = self.me();
        let mark = state.marks.entry(me).or_default();
        *mark += 1;
        let mark = *mark;
        drop(state);
        if is_new {
            seat.witness(&run, (self.me(), fence), (hold, appended.fence));
        }
        seat.cry(run, after);
        if let Some(error) = mishap.and_then(Mishap::after) {
            return Err(error);
        }
        seat.acknowledge(me, mark);
        Ok(appended)
    }

    async fn read(
        &self,
        run: &RunId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, Fault> {
        let state = self.entered().await?;
        if self.seat.as_ref().is_some_and(|seat| seat.mishaps().misreads()) {
            return Ok(Vec::new());
        }
        let journal = state.runs.get(run).map_or(&[][..], |kept| &kept.journal);
        let tail = usize::try_from(after).ok().and_then(|after| journal.get(after..));
        Ok(tail.unwrap_or_default().iter().take(limit).cloned().collect())
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, Fault> {
        Ok(self.entered().await?.runs.get(run).map(|kept| kept.head.clone()))
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
        let state = self.entered().await?;
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
        Ok(self.entered().await?.sessions.get(session).cloned())
    }

    async fn put_session(
        &self,
        knew: Option<SessionRow>,
        row: SessionRow,
    ) -> Result<(), AppendError> {
        let mut state = self.entered().await?;
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
        let state = self.entered().await?;
        let rows = state.sessions.range(below(cursor)).rev().map(|(id, row)| {
            let is_wanted = owner.is_none_or(|owner| row.owner == owner);
            Ok((id.to_string(), is_wanted.then(|| row.clone())))
        });
        pagination::page(rows, limit)
    }

    async fn key(&self, owner: &str, key: &str) -> Result<Option<KeyRow>, Fault> {
        Ok(self.entered().await?.keys.get(&(owner.to_owned(), key.to_owned())).cloned())
    }

    async fn key_of(&self, run: &RunId) -> Result<Option<(String, KeyRow)>, Fault> {
        let state = self.entered().await?;
        let Some(Kept { head, key: Some(key), .. }) = state.runs.get(run) else { return Ok(None) };
        let row = state.keys.get(&(head.owner.clone(), key.clone()));
        Ok(row.map(|row| (key.clone(), row.clone())))
    }

    async fn waiting(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Head>, Fault> {
        let Some(cursor) = pagination::cursor(cursor, Waiting::read_cursor) else {
            return Ok(pagination::nothing());
        };
        let state = self.entered().await?;
        let rows = state.waiting.range(above(cursor)).map(|(place, run)| {
            let head = state.runs.get(run).map(|kept| kept.head.clone());
            Ok((place.cursor(run), head))
        });
        pagination::page(rows, limit)
    }

    async fn waiting_on(
        &self,
        desks: &[Desk],
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, Fault> {
        let Some(cursor) = pagination::cursor(cursor, Waiting::read_cursor) else {
            return Ok(pagination::nothing());
        };
        let state = self.entered().await?;
        let lain = desks.iter().filter_map(|desk| state.desks.get(desk));
        let found: BTreeSet<_> = lain.flat_map(|lain| lain.range(above(cursor.clone()))).collect();
        let rows = found.into_iter().map(|(place, run)| {
            let head = state.runs.get(run).map(|kept| kept.head.clone());
            Ok((place.cursor(run), head))
        });
        pagination::page(rows, limit)
    }

    async fn due(&self, now: Millis, limit: usize) -> Result<Vec<(Millis, RunId)>, Fault> {
        let state = self.entered().await?;
        let due = state.due.iter().take_while(|(at, _)| *at <= now);
        Ok(due.take(limit).cloned().collect())
    }

    async fn next_due(&self) -> Result<Option<Millis>, Fault> {
        Ok(self.entered().await?.due.first().map(|(at, _)| *at))
    }

    async fn running(&self, cursor: Option<&str>, limit: usize) -> Result<Page<RunId>, Fault> {
        let Ok(cursor) = cursor.map(RunId::parse).transpose() else {
            return Ok(pagination::nothing());
        };
        let state = self.entered().await?;
        let runs = state.going.range(above(cursor));
        pagination::page(runs.map(|run| Ok((run.to_string(), Some(run.clone())))), limit)
    }

    async fn forks(&self, family: &RunId) -> Result<Vec<RunId>, Fault> {
        Ok(self.entered().await?.forks_of(family).cloned().collect())
    }

    fn incarnation(&self) -> Incarnation {
        self.me()
    }

    async fn take(
        &self,
        run: &RunId,
        from: Option<Incarnation>,
        expected: Version,
    ) -> Result<Fence, AppendError> {
        let (mut state, me) = (self.entered().await?, self.me());
        let hold = Hold::Take { from };
        state.admits(run, (me, None), hold)?;
        let at = state.runs.get(run).map_or(0, |kept| kept.head.version);
        if at != expected {
            return Err(AppendError::Moved { at });
        }
        state.change_hold(run, me, hold);
        let fence = state.runs.get(run).map_or(0, |kept| kept.fence_of(me));
        if let Some(seat) = &self.seat {
            seat.witness(run, (me, None), (hold, fence));
        }
        Ok(fence)
    }

    fn replicas(&self) -> Option<&dyn Replicas> {
        self.seat.is_some().then_some(self)
    }

    async fn put_definition(&self, digest: &str, json: &str) -> Result<(), Fault> {
        let mut state = self.entered().await?;
        state.definitions.entry(digest.to_owned()).or_insert_with(|| json.to_owned());
        Ok(())
    }

    async fn definition(&self, digest: &str) -> Result<Option<String>, Fault> {
        Ok(self.entered().await?.definitions.get(digest).cloned())
    }

    async fn outbox_entries(&self, now: Millis, limit: usize) -> Result<Vec<OutboxEntry>, Fault> {
        let state = self.entered().await?;
        let due = state.outbox_entries.values().filter(|outbox_entry| outbox_entry.due <= now);
        let mut due: Vec<_> = due.cloned().collect();
        due.sort_by_key(|outbox_entry| outbox_entry.due);
        due.truncate(limit);
        Ok(due)
    }

    async fn next_outbox_entry(&self) -> Result<Option<Millis>, Fault> {
        Ok(self.entered().await?.outbox_entries.values().map(|outbox_entry| outbox_entry.due).min())
    }

    async fn settle(&self, run: &RunId, channel: &str, outcome: Settlement) -> Result<(), Fault> {
        let mut state = self.entered().await?;
        let place = (run.clone(), channel.to_owned());
        if state.carried.remove(&place).is_some_and(|(by, _)| by != self.me()) {
            // Somebody else took it when our time was over: what becomes of it is theirs to say.
            return Ok(());
        }
        let left = state
            .outbox_entries
            .remove(&place)
            .and_then(|outbox_entry| outbox_entry.settled(&outcome));
        if let Some(outbox_entry) = left {
            state.outbox_entries.insert(place, outbox_entry);
        }
        Ok(())
    }

    async fn put_hook(&self, hook: &HookRow) -> Result<(), Fault> {
        outbox_entries::check_hook(hook)?;
        let mut state = self.entered().await?;
        state.hooks.insert((hook.run.clone(), hook.hook.id.clone()), hook.clone());
        state.raise(Guard::hooks(&hook.run));
        Ok(())
    }

    async fn hooks(&self, run: &RunId) -> Result<Vec<HookRow>, Fault> {
        let state = self.entered().await?;
        let hooks = state.hooks.iter().filter(|((of, _), _)| of == run);
        Ok(hooks.map(|(_, hook)| hook.clone()).collect())
    }

    async fn remove_hook(&self, run: &RunId, id: &str) -> Result<(), Fault> {
        let mut state = self.entered().await?;
        state.hooks.remove(&(run.clone(), id.to_owned()));
        state.outbox_entries.remove(&(run.clone(), outbox_entries::channel_of(id)));
        state.raise(Guard::hooks(run));
        Ok(())
    }

    async fn prune(&self, before: Millis, limit: usize) -> Result<usize, Fault> {
        let mut state = self.entered().await?;
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
        let mut state = self.entered().await?;
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
        placed.outdone.iter().for_each(|place| drop(state.leaves.waiting.remove(place)));
        Ok(placed.index)
    }

    async fn notes(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Logged>, Fault> {
        let state = self.entered().await?;
        let read = |lane, at| {
            let chained = state.log.get(&keys::log(lane, at));
            Ok(chained.map(|chained| chained.entry.clone()))
        };
        state.log_ends.page(cursor, limit, read)
    }

    async fn remember(&self, name: &str, text: &str) -> Result<(), Fault> {
        self.entered().await?.keepsakes.insert(name.to_owned(), text.to_owned());
        Ok(())
    }

    async fn remembered(&self, name: &str) -> Result<Option<String>, Fault> {
        Ok(self.entered().await?.keepsakes.get(name).cloned())
    }

    /// Often: whatever a run can be, what is saved of it is what its journal folds to.
    fn folds_every(&self) -> Option<Version> {
        Some(FOLD_EVENTS)
    }

    async fn save_fold(&self, run: Box<Run>, link: Hash) -> Result<(), Fault> {
        let mut state = self.entered().await?;
        let version = run.version;
        let kept = state.runs.get_mut(&run.id).filter(|kept| kept.link_at(version) == Some(link));
        let Some(kept) = kept else { return Ok(()) };
        let told = kept.journal.iter().take_while(|told| told.version <= version);
        let folded = replay(&run.id, Arc::clone(&run.workflow), told);
        kept.fold = saved::save(&run).map(|text| (version, link, text));
        assert_eq!(
            folded.as_ref(),
            Ok(&saved::folded(*run)),
            "J5: a run is what its journal folds to"
        );
        assert!(kept.fold.is_some(), "what is saved of a run comes back as it is");
        Ok(())
    }

    async fn saved_fold(
        &self,
        run: &RunId,
        workflow: &Arc<Workflow>,
    ) -> Result<Option<Run>, Fault> {
        let state = self.entered().await?;
        let kept = state.runs.get(run);
        let fold = kept.and_then(|kept| {
            let (version, link, text) = kept.fold.as_ref()?;
            (kept.link_at(*version) == Some(*link)).then_some(text)
        });
        Ok(fold.and_then(|text| saved::read(text, workflow)))
    }

    async fn verify(&self) -> Result<StoreReport, Fault> {
        let state = self.entered().await?;
        let mut audit = audit::Audit::new("memory", codec::CHAINED);
        for kept in state.runs.values() {
            let definition = state.definitions.get(&kept.head.definition);
            audit.run(&kept.head, &kept.journal, definition.map(String::as_str));
        }
        if state.desks != state.desks_of_heads() {
            audit.damage("what lies on desks is not what the heads ask".into());
        }
        audit.report.sessions = audit::count(state.sessions.len());
        Ok(audit.finish())
    }

    fn evidence(&self) -> &dyn Evidence {
        self
    }

    fn is_healthy(&self) -> bool {
        self.seat.as_ref().map_or_else(|| !self.lock().is_closed, Seat::is_well)
    }

    async fn close(&self) {
        match &self.seat {
            Some(seat) => {
                seat.leave();
                self.lock().let_go(self.me());
            }
            None => self.lock().is_closed = true,
        }
    }
}
