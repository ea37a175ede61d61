//! Cells: the runs that are in memory. A bounded set; any of them can be dropped and loaded again.
//!
//! One cell is one run. Its state is behind an async mutex, so commands to a run go one by one; its
//! tail of recent events is behind a plain one, so a watcher never waits for a command.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::engine::holder::Holder;
use crate::engine::narrate::{Narrator, Published};
use crate::engine::trace::SpanBuilder;
use crate::kernel::evidence::Hash;
use crate::kernel::{Event, Run, RunId, Status, Version, weight};
use crate::ports::HookRow;

/// Runs kept in memory after their last use: a conversation that goes on is usually answered soon.
const CELLS_MAX: usize = 1024;
/// Those of them that are over: few are asked for again, and what is cleared away soon is cleared away
/// at half the cost.
const CELLS_OVER_MAX: usize = 64;
/// The conversations of those runs: a few that are huge may not fill the memory.
const CELLS_BYTES_MAX: usize = 128 << 20;
/// Events kept for watchers that are nearly up to date; others read the journal.
const TAIL_EVENTS_MAX: usize = 128;
/// The weight of those events: one run may not fill the memory with its tail.
const TAIL_BYTES_MAX: usize = 256 << 10;

/// How many of the oldest are looked at for one that is free; all of them held is no time to search.
const EVICT_LOOK: usize = 64;

/// How often the set itself holds a cell: by its id, and by its age.
const HOLDS_OF_OURS: usize = 2;

/// One run in memory.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) id: RunId,
    pub(super) state: tokio::sync::Mutex<State>,
    tail: Mutex<Tail>,
    /// Notified after every publication.
    pub(super) changed: Notify,
}

/// What is known of the run.
#[derive(Debug)]
pub(super) enum State {
    /// Nothing yet, or no longer: it must be loaded.
    Cold,
    /// Everything.
    Hot(Box<Hot>),
}

/// A run in memory and what is being done for it.
#[derive(Debug)]
pub(super) struct Hot {
    /// Apart: it is large, and the hands that it goes through are many.
    pub(super) run: Box<Run>,
    pub(super) narrator: Narrator,
    /// Whether it was moving when it was last written, and nobody has recovered it yet: it can be
    /// looked at, and nothing else is done with it before that.
    pub(super) is_adrift: bool,
    /// Whether it may be ahead of what is durable: it is folded again before anything is done with it.
    pub(super) is_unsure: bool,
    /// How far the store is known to have it, and the link that it had there, where others write to it too: what they write
    /// goes on from that (J10).
    pub(super) known: Option<(Version, Hash)>,
    /// The version up to which it is saved folded, or was to be.
    pub(super) saved: Version,
    /// Whose it is to drive.
    pub(super) holder: Holder,
    /// Work under way, by what it is about; in order, so that a simulation can be played again.
    pub(super) work: BTreeMap<WorkKey, AbortHandle>,
    /// Who wants to be told of it.
    pub(super) hooks: Vec<HookRow>,
    /// The store's number for them: another one means others.
    pub(super) hooks_number: u64,
    /// Who tells its work to the outside, if somebody listens.
    pub(super) scribe: Option<Box<SpanBuilder>>,
    /// Whether there are other runs of its family; nothing while nobody has looked.
    pub(super) has_kin: Option<bool>,
    /// The store's number for its family when that was looked up, where others may fork it.
    pub(super) family_number: Option<u64>,
}

/// What a piece of work is about: a turn's attempt and round, or a call of a turn.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WorkKey {
    Reply { turn: u32, attempt: u32, round: u32 },
    Call { turn: u32, call: String },
}

/// The newest events, and where the run rests.
#[derive(Debug)]
struct Tail {
    /// The version before the first event kept.
    base: Version,
    events: VecDeque<Arc<Published>>,
    bytes: usize,
    rest: Rest,
    /// How much the run knew to be secret when the oldest of them was told.
    hides: usize,
    /// How often the store was found to tell another history of it: whoever was told the one hears nothing of the other.
    histories: u64,
}

/// Whether more events can come without anybody doing anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Moving,
    Waiting,
    Over,
}

/// What a watcher finds in the tail.
#[derive(Debug)]
pub(super) enum Glance {
    /// These events come next.
    Events(Vec<Arc<Published>>),
    /// Nothing new; this is how the run stands.
    UpToDate(Rest),
    /// The tail begins later: read the journal.
    Behind,
    /// It ends before that: whoever asks knows more than there is. This is how the run stands.
    Ahead(Rest),
}

impl Cell {
    fn new(id: RunId) -> Self {
        Self {
            id,
            state: tokio::sync::Mutex::new(State::Cold),
            tail: Mutex::new(Tail::after(0)),
            changed: Notify::new(),
        }
    }

    /// Sets the tail to a run that was just loaded. Whoever watched it before it was let go of may have missed
    /// what others wrote since, and nothing more need come of the run: they look again.
    pub(super) fn loaded(&self, run: &Run) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.base = run.version;
        tail.events.clear();
        tail.bytes = 0;
        tail.rest = rest_of(run);
        tail.hides = run.veil.count();
        drop(tail);
        self.changed.notify_waiters();
    }

    /// Shows durable events to the watchers (E1).
    pub(super) fn publish(&self, run: &Run, batch: Vec<Arc<Published>>) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let hides = run.veil.count();
        if hides != tail.hides
            && let Some(first) = batch.first()
        {
            // What was told before it was known to be secret is told otherwise from now on: from the journal.
            tail.events.clear();
            (tail.base, tail.bytes, tail.hides) = (first.sequence - 1, 0, hides);
        }
        let end = tail.events.back().map_or(tail.base, |last| last.sequence);
        if let Some(first) = batch.first().filter(|first| first.sequence != end + 1) {
            // Others wrote in between, and nobody here was told: whoever is behind that reads the journal (E1).
            tail.events.clear();
            (tail.base, tail.bytes) = (first.sequence - 1, 0);
        }
        for published in batch {
            tail.bytes += weight_of(&published.event);
            tail.events.push_back(published);
        }
        while tail.events.len() > TAIL_EVENTS_MAX || tail.bytes > TAIL_BYTES_MAX {
            let Some(dropped) = tail.events.pop_front() else { break };
            tail.base = dropped.sequence;
            tail.bytes = tail.bytes.saturating_sub(weight_of(&dropped.event));
        }
        tail.rest = rest_of(run);
        drop(tail);
        self.changed.notify_waiters();
    }

    /// The version up to which everything is durable and may be told (E1).
    pub(super) fn published(&self) -> Version {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.events.back().map_or(tail.base, |last| last.sequence)
    }

    /// What is remembered to have come after a version; of what is long ago, nothing is.
    pub(super) fn after(&self, version: Version) -> Vec<Arc<Published>> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.events.iter().filter(|told| told.sequence > version).cloned().collect()
    }

    /// The run is not there any more: whoever watches it is told.
    pub(super) fn lost(&self) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        *tail = Tail::after(tail.histories + 1);
        drop(tail);
        self.changed.notify_waiters();
    }

    /// The store tells another history of it than it did: whoever watches it is told.
    pub(super) fn another(&self) {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).histories += 1;
        self.changed.notify_waiters();
    }

    /// How often that was so.
    pub(super) fn histories(&self) -> u64 {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).histories
    }

    /// What comes after `after`.
    pub(super) fn glance(&self, after: Version, most: usize) -> Glance {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if after < tail.base {
            return Glance::Behind;
        }
        if after > tail.events.back().map_or(tail.base, |last| last.sequence) {
            return Glance::Ahead(tail.rest);
        }
        let skipped = usize::try_from(after - tail.base).unwrap_or(usize::MAX);
        let events: Vec<_> = tail.events.iter().skip(skipped).take(most).cloned().collect();
        if events.is_empty() { Glance::UpToDate(tail.rest) } else { Glance::Events(events) }
    }
}

impl Tail {
    fn after(histories: u64) -> Self {
        let (events, rest) = (VecDeque::new(), Rest::Moving);
        Self { base: 0, events, bytes: 0, rest, hides: 0, histories }
    }
}

impl Hot {
    /// Stops whatever is under way: it is somebody else's now.
    pub(super) fn stop_all(&mut self) {
        for task in std::mem::take(&mut self.work).into_values() {
            task.abort();
        }
    }

    pub(super) fn new(run: Box<Run>) -> Self {
        let narrator = Narrator::at(&run);
        Self {
            known: None,
            saved: run.version,
            run,
            narrator,
            is_adrift: false,
            is_unsure: false,
            holder: Holder::Nobody,
            work: BTreeMap::new(),
            hooks: Vec::new(),
            hooks_number: 0,
            scribe: None,
            has_kin: None,
            family_number: None,
        }
    }
}

fn rest_of(run: &Run) -> Rest {
    match run.status {
        Status::Running => Rest::Moving,
        Status::Waiting { .. } => Rest::Waiting,
        Status::Completed | Status::Failed(_) | Status::Cancelled { .. } => Rest::Over,
    }
}

/// Roughly what an event weighs in memory; only the parts that can be large are counted.
fn weight_of(event: &Event) -> usize {
    64 + match event {
        Event::MessageAdded { message, .. } => message.bytes(),
        Event::Delta { text, .. } => text.len(),
        Event::Asked(question) => question.weight() + 1024,
        Event::Started(started) => weight(&started.input) + 4096,
        Event::Output { value }
        | Event::Answered { value, .. }
        | Event::ToolReturned { value, .. } => weight(value) + 1024,
        Event::ToolCalled { call, .. } => weight(&call.arguments) + 1024,
        Event::StepStarted { .. }
        | Event::HandedOff { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::Closed { .. }
        | Event::Noted { .. }
        | Event::Voted { .. }
        | Event::Claimed(_)
        | Event::Delegated(_)
        | Event::Reminded { .. }
        | Event::Stood { .. }
        | Event::Held { .. }
        | Event::Escalated { .. }
        | Event::Revoked { .. }
        | Event::Renewed { .. }
        | Event::Ruled(_)
        | Event::StepOpened { .. }
        | Event::StepOutcome { .. }
        | Event::StepClosed { .. }
        | Event::Signalled { .. }
        | Event::CheckpointSaved
        | Event::Parked
        | Event::Warned(_)
        | Event::Completed
        | Event::Failed(_)
        | Event::Cancelled { .. } => 0,
    }
}

/// The bounded set of cells, least recently used first out.
#[derive(Debug, Default)]
pub(super) struct Cells {
    set: Mutex<Set>,
}

#[derive(Debug, Default)]
struct Set {
    cells: HashMap<RunId, Entry>,
    /// Those that may go on, and those that are over, by their age.
    living: BTreeMap<u64, Arc<Cell>>,
    over: BTreeMap<u64, Arc<Cell>>,
    ticket: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    cell: Arc<Cell>,
    /// When it was last used.
    stamp: u64,
    /// What it weighs.
    bytes: usize,
    is_over: bool,
}

impl Cells {
    /// The cell of a run, cold if it is not in memory.
    pub(super) fn get(&self, id: &RunId) -> Arc<Cell> {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        set.ticket += 1;
        let ticket = set.ticket;
        if let Some(entry) = set.cells.get_mut(id) {
            let (cell, is_over) = (Arc::clone(&entry.cell), entry.is_over);
            let old = std::mem::replace(&mut entry.stamp, ticket);
            let order = set.order(is_over);
            order.remove(&old);
            order.insert(ticket, Arc::clone(&cell));
            return cell;
        }
        let cell = Arc::new(Cell::new(id.clone()));
        let entry = Entry { cell: Arc::clone(&cell), stamp: ticket, bytes: 0, is_over: false };
        set.cells.insert(id.clone(), entry);
        set.living.insert(ticket, Arc::clone(&cell));
        let gone = set.evict();
        drop(set);
        // A run is a heap of small things: nobody waits while it is cleared away.
        drop(gone);
        cell
    }

    /// The cell of a run that is in memory, if it is; being looked at keeps it there no longer.
    pub(super) fn peek(&self, id: &RunId) -> Option<Arc<Cell>> {
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        set.cells.get(id).map(|entry| Arc::clone(&entry.cell))
    }

    /// Notes what a run weighs now, and whether it is over.
    pub(super) fn weigh(&self, id: &RunId, bytes: usize, is_over: bool) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = set.cells.get_mut(id) else { return };
        let before = std::mem::replace(&mut entry.bytes, bytes);
        let was_over = std::mem::replace(&mut entry.is_over, is_over);
        let stamp = entry.stamp;
        set.bytes = (set.bytes + bytes).saturating_sub(before);
        if was_over != is_over
            && let Some(cell) = set.order(was_over).remove(&stamp)
        {
            set.order(is_over).insert(stamp, cell);
        }
        let gone = set.evict();
        drop(set);
        drop(gone);
    }

    /// Forgets a cell: there is no such run after all.
    pub(super) fn forget(&self, id: &RunId) {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// All that are in memory.
    pub(super) fn all(&self) -> Vec<Arc<Cell>> {
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = set.cells.values().map(|entry| Arc::clone(&entry.cell)).collect();
        all.sort_by(|one, other| one.id.cmp(&other.id));
        all
    }

    /// How many runs are in memory.
    pub(super) fn count(&self) -> usize {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).cells.len()
    }
}

impl Set {
    fn order(&mut self, is_over: bool) -> &mut BTreeMap<u64, Arc<Cell>> {
        if is_over { &mut self.over } else { &mut self.living }
    }

    fn remove(&mut self, id: &RunId) {
        if let Some(entry) = self.cells.remove(id) {
            self.order(entry.is_over).remove(&entry.stamp);
            self.bytes = self.bytes.saturating_sub(entry.bytes);
        }
    }

    /// Takes out the oldest cells that nobody holds: a cell with work or a watcher is held by it.
    fn evict(&mut self) -> Vec<Arc<Cell>> {
        let mut gone = Vec::new();
        loop {
            let is_full = self.cells.len() > CELLS_MAX || self.bytes > CELLS_BYTES_MAX;
            if !is_full && self.over.len() <= CELLS_OVER_MAX {
                return gone;
            }
            let is_free = |cell: &&Arc<Cell>| Arc::strong_count(cell) == HOLDS_OF_OURS;
            let living = self.living.values().take(if is_full { EVICT_LOOK } else { 0 });
            let mut oldest = self.over.values().take(EVICT_LOOK).chain(living);
            let Some(free) = oldest.find(is_free).cloned() else { return gone };
            self.remove(&free.id);
            gone.push(free);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> RunId {
        RunId::fresh(&format!("{number:026}"))
    }

    #[test]
    fn of_runs_that_are_over_the_last_few_stay_and_those_that_go_on_all_do() {
        let cells = Cells::default();
        let held = cells.get(&id(0));
        cells.weigh(&id(0), 1, true);
        for number in 1..=CELLS_OVER_MAX + 10 {
            drop(cells.get(&id(number)));
            drop(cells.get(&id(1_000 + number)));
            cells.weigh(&id(number), 1, true);
        }
        assert_eq!(cells.count(), CELLS_OVER_MAX + CELLS_OVER_MAX + 10);
        assert!(Arc::ptr_eq(&held, &cells.get(&id(0))), "somebody holds it");
        assert!(cells.peek(&id(11)).is_none() && cells.peek(&id(12)).is_some());
        assert!(cells.peek(&id(1_001)).is_some());
    }

    #[test]
    fn where_it_is_full_those_that_are_over_leave_first() {
        let cells = Cells::default();
        for number in 0..CELLS_MAX {
            drop(cells.get(&id(number)));
        }
        cells.weigh(&id(700), 1, true);
        drop(cells.get(&id(CELLS_MAX)));
        assert!(cells.peek(&id(700)).is_none() && cells.peek(&id(0)).is_some());
        drop(cells.get(&id(CELLS_MAX + 1)));
        assert!(cells.peek(&id(0)).is_none() && cells.peek(&id(1)).is_some());
        assert_eq!(cells.count(), CELLS_MAX);
    }
}
