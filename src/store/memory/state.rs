//! State: what a store in memory holds, and what an append does to it. Nothing of it knows who calls, but by the life
//! that they write in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::kernel::evidence::leaf::{Kinds, Leaf, Place};
use crate::kernel::evidence::{Hash, chain};
use crate::kernel::{Hidden, Millis, Recorded, RunId, SessionId, Version};
use crate::ports::{
    Append, AppendError, Appended, Desk, Fault, Fence, Guard, Head, Hold, HookRow, Incarnation,
    Introduction, KeyRow, OutboxEntry, SessionRow, Token,
};
use crate::store::audit;
use crate::store::codec;
use crate::store::index_entries::{IndexEntries, Waiting};
use crate::store::log::{ChainedNote, Ends};
use crate::store::memory::bounds::set;
use crate::store::memory::leaves::Leaves;
use crate::store::memory::lives::Lives;
use crate::store::outbox_entries;

/// Everything that is stored.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) is_closed: bool,
    pub(super) runs: BTreeMap<RunId, Kept>,
    pub(super) sessions: BTreeMap<SessionId, SessionRow>,
    pub(super) session_runs: BTreeSet<(SessionId, RunId)>,
    pub(super) keys: BTreeMap<(String, String), KeyRow>,
    pub(super) waiting: BTreeSet<(Waiting, RunId)>,
    /// The same, by whom it may concern; no desk is empty.
    pub(super) desks: Desks,
    pub(super) due: BTreeSet<(Millis, RunId)>,
    pub(super) going: BTreeSet<RunId>,
    pub(super) forks: BTreeSet<(RunId, RunId)>,
    pub(super) definitions: BTreeMap<String, String>,
    pub(super) outbox_entries: BTreeMap<(RunId, String), OutboxEntry>,
    pub(super) hooks: BTreeMap<(RunId, String), HookRow>,
    pub(super) log_ends: Ends,
    pub(super) log: BTreeMap<Vec<u8>, ChainedNote>,
    pub(super) leaves: Leaves,
    pub(super) keepsakes: BTreeMap<String, String>,
    /// Numbers that appends are guarded by.
    pub(super) guards: BTreeMap<String, u64>,
    /// Who carries a entry, and until when.
    pub(super) carried: BTreeMap<(RunId, String), (Incarnation, Millis)>,
    /// Who lives.
    pub(super) lives: Lives,
    /// What they say of themselves, and whether they are about to leave.
    pub(super) introduced: BTreeMap<Incarnation, (Introduction, bool)>,
    /// How many appends each has had acknowledged: by that is seen whether the state has gone back.
    pub(super) marks: BTreeMap<Incarnation, u64>,
}

/// Who finds which runs with open questions, in the order of the inbox.
pub(super) type Desks = BTreeMap<Desk, BTreeSet<(Waiting, RunId)>>;

/// What a process saw of runs.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Version and link of each, as it last was.
    pub(super) last: BTreeMap<RunId, (Version, Hash)>,
    /// All of that, ever.
    pub(super) ever: BTreeSet<(RunId, Version, Hash)>,
    /// A version at which one had another link than before.
    pub(super) diverged: Option<Version>,
}

/// A run.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) head: Head,
    pub(super) journal: Vec<Recorded>,
    pub(super) key: Option<String>,
    /// The first version of each append, and the link before it; and the last link (J13).
    pub(super) links: Vec<(Version, Hash)>,
    pub(super) link: Hash,
    /// Appends of which something stands apart, as they were hashed.
    pub(super) hidden: BTreeMap<Version, Box<Hidden>>,
    /// It as it was folded once, up to a version with that link.
    pub(super) fold: Option<(Version, Hash, String)>,
    /// Its appends by the version before them: the token of each (J9), and where it ended.
    tokens: BTreeMap<Version, (Token, Version)>,
    /// Who drives it, and the fence of the last claim.
    pub(super) holder: Option<Incarnation>,
    pub(super) fence: Fence,
}

impl Kept {
    fn new(head: &Head, key: Option<String>) -> Self {
        let (journal, links, link) = (Vec::new(), Vec::new(), chain::GENESIS);
        let (head, tokens, holder) = (head.clone(), BTreeMap::new(), None);
        let (hidden, fold) = (BTreeMap::new(), None);
        Self { head, journal, key, links, link, hidden, fold, tokens, holder, fence: 0 }
    }

    /// The link that it has at a version, if an append ends there.
    pub(super) fn link_at(&self, version: Version) -> Option<Hash> {
        if version == self.head.version {
            return Some(self.link);
        }
        self.links.iter().find(|(first, _)| *first == version + 1).map(|(_, link)| *link)
    }

    /// The fence of whoever drives it, if that is `me`.
    pub(super) fn fence_of(&self, me: Incarnation) -> Fence {
        if self.holder == Some(me) { self.fence } else { 0 }
    }
}

impl State {
    /// J9: what came of the same append when it was first submitted, if it was.
    fn written_before(&self, append: &Append, me: Incarnation) -> Option<Appended> {
        let kept = self.runs.get(&append.run)?;
        let (token, version) = kept.tokens.get(&append.expected)?;
        let fence = kept.fence_of(me);
        let link = kept.link_at(*version);
        (append.token == Some(*token)).then_some(Appended { version: *version, fence, link })
    }

    /// J4, J12: whether a writer with this fence may write, and have done with the right to drive the run what it
    /// wants.
    pub(super) fn admits(
        &self,
        run: &RunId,
        (me, fence): (Incarnation, Option<Fence>),
        hold: Hold,
    ) -> Result<(), AppendError> {
        let kept = self.runs.get(run);
        let by = kept.and_then(|kept| kept.holder);
        let is_theirs = kept.is_some_and(|kept| by == Some(me) && Some(kept.fence) == fence);
        if fence.is_some() && !is_theirs {
            return Err(AppendError::Superseded);
        }
        match hold {
            // Nobody displaces itself.
            Hold::Take { from } if by != from && (by != Some(me) || from.is_some()) => {
                Err(AppendError::Held { by })
            }
            Hold::Take { .. } | Hold::Keep | Hold::Leave => Ok(()),
        }
    }

    pub(super) fn check_guards(&self, guards: &[Guard]) -> Result<(), AppendError> {
        let number = |guard: &Guard| match guard.of_kept() {
            Some(name) => Guard::number_of(self.keepsakes.get(name).map(String::as_str)),
            None => self.guards.get(&guard.name).copied().unwrap_or(0),
        };
        match guards.iter().find(|guard| number(guard) != guard.number) {
            Some(moved) => Err(AppendError::GuardMoved(moved.name.clone())),
            None => Ok(()),
        }
    }

    /// Raises the number under a guard's name.
    pub(super) fn raise(&mut self, name: String) {
        *self.guards.entry(name).or_default() += 1;
    }

    /// Does with the right to drive a run what was admitted.
    pub(super) fn change_hold(&mut self, run: &RunId, me: Incarnation, hold: Hold) {
        let Some(kept) = self.runs.get_mut(run) else { return };
        match hold {
            Hold::Keep => {}
            Hold::Take { .. } => {
                kept.fence += 1;
                kept.holder = Some(me);
            }
            Hold::Leave => kept.holder = None,
        }
    }

    /// Appends, for whoever writes in this life.
    pub(super) fn append(
        &mut self,
        mut append: Append,
        me: Incarnation,
    ) -> Result<Appended, AppendError> {
        audit::check_append(&append)?;
        if self.is_closed {
            return Err(Fault::Retriable("the store is closed".into()).into());
        }
        if let Some(appended) = self.written_before(&append, me) {
            return Ok(appended);
        }
        self.admits(&append.run, (me, append.fence), append.hold)?;
        let at = self.runs.get(&append.run).map_or(0, |kept| kept.head.version);
        if at != append.expected {
            return Err(AppendError::Moved { at });
        }
        self.check_guards(&append.guards)?;
        self.check_names(&append)?;
        let owner = append.head.owner.clone();
        let payload = match &append.hidden {
            Some(hidden) => codec::hidden_json(append.at, hidden),
            None => codec::events_json(append.at, &append.events),
        };
        let payload = chain::payload(&payload.map_err(Fault::from)?);
        let kinds = Kinds::of(append.events.iter().map(|event| &**event));
        for guard in append.guards.drain(..).filter(|guard| guard.raises) {
            self.raise(guard.name);
        }
        let (run, hold) = (append.run.clone(), append.hold);
        let owed: Vec<_> = outbox_entries::of(&append).collect();
        if let Some(row) = append.session {
            self.sessions.entry(row.session.clone()).or_insert(row);
        }
        let key = append.key.map(|(key, row)| {
            self.keys.insert((owner, key.clone()), row);
            key
        });
        self.owe(owed);
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
        if let Some(token) = append.token {
            kept.tokens.insert(at, (token, version));
        }
        let link = Some(kept.link);
        self.runs.insert(append.run, kept);
        self.change_hold(&run, me, hold);
        let fence = self.runs.get(&run).map_or(0, |kept| kept.fence_of(me));
        Ok(Appended { version, fence, link })
    }

    /// Notes what is to be told outside.
    fn owe(&mut self, owed: Vec<OutboxEntry>) {
        for outbox_entry in owed {
            let place = (outbox_entry.run.clone(), outbox_entry.channel.clone());
            let old = self.outbox_entries.remove(&place);
            self.outbox_entries.insert(place, OutboxEntry::grown(old, outbox_entry));
        }
    }

    /// Whether the session and the key that it brings are free to be brought.
    fn check_names(&self, append: &Append) -> Result<(), AppendError> {
        if let Some(row) = &append.session
            && self.sessions.get(&row.session).is_some_and(|known| known.owner != row.owner)
        {
            return Err(AppendError::SessionTaken);
        }
        if let Some((key, _)) = &append.key
            && let Some(row) = self.keys.get(&(append.head.owner.clone(), key.clone()))
        {
            return Err(AppendError::KeyTaken(row.clone()));
        }
        Ok(())
    }

    /// Puts a run into its indexes, or takes it out of them.
    fn index(&mut self, head: &Head, present: bool) {
        let entries = IndexEntries::of(head);
        let run = &head.run;
        if let Some(place) = entries.waiting {
            set(&mut self.waiting, (place, run.clone()), present);
            for desk in head.desks() {
                let lain = self.desks.entry(desk.clone()).or_default();
                set(lain, (place, run.clone()), present);
                if lain.is_empty() {
                    self.desks.remove(&desk);
                }
            }
        }
        if let Some(at) = entries.due {
            set(&mut self.due, (at, run.clone()), present);
        }
        if entries.going {
            set(&mut self.going, run.clone(), present);
        }
    }

    /// What lies on desks, as the heads have it.
    pub(super) fn desks_of_heads(&self) -> Desks {
        let mut desks = Desks::new();
        for head in self.runs.values().map(|kept| &kept.head) {
            let Some(place) = IndexEntries::of(head).waiting else { continue };
            for desk in head.desks() {
                desks.entry(desk).or_default().insert((place, head.run.clone()));
            }
        }
        desks
    }

    /// Whether a run was forgotten as it should be.
    pub(super) fn has_tombstone(&self, run: &RunId) -> bool {
        self.leaves.lain(&Place::Tombstone(run.clone())).is_some()
    }

    /// Forgets a run, with all that hangs on it.
    pub(super) fn forget(&mut self, run: &RunId) {
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
        self.outbox_entries.retain(|(of, _), _| of != run);
        self.hooks.retain(|(of, _), _| of != run);
        if let Some(key) = kept.key {
            self.keys.remove(&(owner.clone(), key));
        }
    }

    /// Whether something still goes on in a run's session, or in its family.
    pub(super) fn goes_on(&self, head: &Head) -> bool {
        let family = head.family.as_ref().unwrap_or(&head.run);
        let kin = self.forks_of(family).chain([family]);
        let mut runs = self.runs_of(&head.session).chain(kin).filter_map(|run| self.runs.get(run));
        runs.any(|kept| !kept.head.status.is_over())
    }

    /// The forks of a family, oldest first.
    pub(super) fn forks_of(&self, family: &RunId) -> impl Iterator<Item = &RunId> {
        let first = (family.clone(), RunId::fresh(""));
        let of = family.clone();
        let rows = self.forks.range(first..).take_while(move |(other, _)| *other == of);
        rows.map(|(_, run)| run)
    }

    /// The runs of a session, newest first.
    pub(super) fn runs_of(&self, session: &SessionId) -> impl Iterator<Item = &RunId> {
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
