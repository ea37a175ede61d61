//! Journal: what we need of a store. Its clauses are J1–J13 of `docs/laws.md`, and each is a test that runs on
//! every store. In short: all or nothing (J1), `Ok` is durable (J2), the version is the lock (J3), an older claim
//! writes nothing (J4), no gaps and no forks (J5), what does not check out is never read (J6), lists without
//! journals (J7), what is owed outside is recorded with what it tells of (J8), the same again is recorded once (J9),
//! what was acknowledged is there (J10), reading changes nothing (J11), whoever takes a run names whose it was (J12),
//! and nothing is changed unnoticed (J13).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::kernel::binding::Open;
use crate::kernel::evidence::Hash;
use crate::kernel::{
    Event, Failure, Hidden, Millis, Question, Recorded, Run, RunId, SessionId, Spent, Status, Veil,
    Version, Workflow,
};
use crate::ports::Fault;
use crate::ports::desks::Desk;
use crate::ports::evidence::Evidence;
use crate::ports::holding::{Appended, Fence, Guard, Hold, Incarnation, Token};
use crate::ports::log::{Logged, Noting};
use crate::ports::outbox::{HookRow, OutboxEntry, Settlement};
use crate::ports::pages::{Page, RunFilter, StoreReport};
use crate::ports::replicas::Replicas;

/// A run folded to its latest version, less what grows: the saved head that lists, inboxes and
/// `workflow_waiting` are read from. Written with every append, in the same atomic step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// Whose it is.
    pub owner: String,
    /// The workflow's name.
    pub workflow: String,
    /// The definition's digest.
    pub definition: String,
    /// The journal's length.
    pub version: Version,
    /// Whether it moves, waits or is over.
    pub status: HeadStatus,
    /// When it came to be.
    pub started_at: Millis,
    /// When it last changed.
    pub updated_at: Millis,
    /// The open questions, whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Arc<Question>>,
    /// When the clock must be looked at again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Millis>,
    /// Turns taken.
    #[serde(default)]
    pub turns: u32,
    /// Messages in the conversation.
    #[serde(default)]
    pub messages: usize,
    /// Whatever the caller wants to find again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Where it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<(RunId, Version)>,
    /// The first run of its family, where it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<RunId>,
    /// Who asked for what it does, where that is not its owner alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requesters: Vec<String>,
    /// What it spent.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub spent: Spent,
    /// What its session had spent before it.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub spent_before: Spent,
    /// Model calls that it is at.
    #[serde(default, skip_serializing_if = "is_none_owed")]
    pub owed: u64,
    /// Marks of the keys that answers to it came with; none where an earlier build wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Vec<String>>,
    /// What the run knows to be secret.
    #[serde(default, skip_serializing_if = "Veil::is_nothing")]
    pub veil: Veil,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_none_owed(owed: &u64) -> bool {
    *owed == 0
}

/// Whether a run moves, waits or is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadStatus {
    /// Something is owed to the world.
    Running,
    /// Nothing is owed but answers.
    Waiting(Millis),
    /// Over, and did what it should.
    Completed,
    /// Over, and did not.
    Failed(Failure),
    /// Stopped, by whom.
    Cancelled(String),
}

impl HeadStatus {
    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Running | Self::Waiting(_) => false,
            Self::Completed | Self::Failed(_) | Self::Cancelled(_) => true,
        }
    }

    /// The word used on the wire.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Waiting(_) => "WAITING",
            Self::Completed => "COMPLETED",
            Self::Failed(_) => "FAILED",
            Self::Cancelled(_) => "CANCELLED",
        }
    }
}

impl Head {
    /// The same, as it is shown to whoever does not decide.
    #[must_use]
    pub fn veiled(mut self) -> Self {
        if self.veil.is_nothing() {
            return self;
        }
        for question in &mut self.questions {
            *question = self.veil.question(Arc::clone(question));
        }
        if let HeadStatus::Failed(failure) = &mut self.status {
            self.veil.failure(failure);
        }
        for value in self.metadata.values_mut() {
            *value = self.veil.words(&self.owner, value).into_owned();
        }
        self
    }

    /// Who asked for what the run does.
    pub fn requesters(&self) -> Vec<String> {
        if self.requesters.is_empty() { vec![self.owner.clone()] } else { self.requesters.clone() }
    }

    /// The desks on which the run lies; none where it asks nothing.
    pub fn desks(&self) -> BTreeSet<Desk> {
        if self.questions.is_empty() {
            return BTreeSet::new();
        }
        Desk::of(&self.owner, self.questions.iter())
    }

    /// Its open questions, as an answer may name them.
    pub fn open(&self) -> impl Iterator<Item = Open<'_>> {
        self.questions.iter().map(|question| Open { run: &self.run, question })
    }

    /// The head of a run as it stands.
    pub fn of(run: &Run) -> Self {
        Self {
            run: run.id.clone(),
            session: run.session.clone(),
            owner: run.owner.clone(),
            workflow: run.workflow.name.clone(),
            definition: run.definition.clone(),
            version: run.version,
            status: match &run.status {
                Status::Running => HeadStatus::Running,
                Status::Waiting { since } => HeadStatus::Waiting(*since),
                Status::Completed => HeadStatus::Completed,
                Status::Failed(failure) => HeadStatus::Failed(failure.clone()),
                Status::Cancelled { by } => HeadStatus::Cancelled(by.clone()),
            },
            started_at: run.started_at,
            updated_at: run.updated_at,
            questions: run.questions.values().cloned().collect(),
            wake_at: run.wake_at(),
            turns: run.turns_taken,
            messages: run.conversation.len(),
            metadata: run.metadata.clone(),
            forked_from: run.forked_from.clone(),
            family: run.family.clone(),
            requesters: if run.requesters.len() > 1 { run.requesters.clone() } else { Vec::new() },
            spent: run.spent,
            spent_before: run.spent_before,
            owed: run.owed_replies(),
            said: Some(run.keys.marks()),
            veil: run.veil.clone(),
        }
    }
}

/// A session, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Its id.
    pub session: SessionId,
    /// Whose it is.
    pub owner: String,
    /// When it came to be.
    pub started_at: Millis,
    /// Whatever its owner wants to find again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// What its owner no longer wants to be shown, by id: a response, or the session's own id for
    /// all of it. The journals keep it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hidden: BTreeSet<String>,
}

impl SessionRow {
    /// A session that has just come to be.
    pub fn new(session: SessionId, owner: impl Into<String>, started_at: Millis) -> Self {
        let (metadata, hidden) = (BTreeMap::new(), BTreeSet::new());
        Self { session, owner: owner.into(), started_at, metadata, hidden }
    }
}

/// What an idempotency key stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRow {
    /// The digest of what was asked with it.
    pub request: String,
    /// The run it started.
    pub run: RunId,
}

/// One append: the only commit point there is.
#[derive(Debug, Clone)]
pub struct Append {
    /// The run.
    pub run: RunId,
    /// The version its journal must be at; 0 begins it.
    pub expected: Version,
    /// By what it is known if it is submitted again (J9); none where nobody would.
    pub token: Option<Token>,
    /// The writer's fence, where it drives the run: that of the latest claim, not yet left. Answers and
    /// cancels need none: the version guards them.
    pub fence: Option<Fence>,
    /// What becomes of the right to drive it.
    pub hold: Hold,
    /// What else must be as the writer knows it.
    pub guards: Vec<Guard>,
    /// When: the time of all these events.
    pub at: Millis,
    /// What happened.
    pub events: Vec<Arc<Event>>,
    /// The same as it is hashed, where something in it is secret and stands apart (J13).
    pub hidden: Option<Box<Hidden>>,
    /// The run's head after these events; its `version` is `expected + events.len()`.
    pub head: Head,
    /// With the first append: the session, created if it is not there.
    pub session: Option<SessionRow>,
    /// With the first append: the idempotency key, scoped to the owner in the head.
    pub key: Option<(String, KeyRow)>,
    /// The listeners that these events are for (J8).
    pub channels: Vec<String>,
    /// With the first append: whoever wants to be told of the run from its beginning.
    pub hooks: Vec<HookRow>,
}

/// Why an append wrote nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// J3: the journal is elsewhere.
    #[error("the journal is at version {at}")]
    Moved {
        /// Where it is.
        at: Version,
    },
    /// J4: a later claim exists, or this one was left.
    #[error("the right to drive it was superseded")]
    Superseded,
    /// J12: the run is not held by whom the writer named.
    #[error("the run is held by another than the writer names")]
    Held {
        /// By whom, if by anybody.
        by: Option<Incarnation>,
    },
    /// Something that was decided on has changed meanwhile.
    #[error("`{0}` was changed meanwhile")]
    GuardMoved(String),
    /// Nobody knows whether it was written: to be submitted again, as it is, with its token (J9).
    #[error("it is not known whether it was written: {0}")]
    Unknown(String),
    /// The session is not as the caller knew it.
    #[error("the session was changed meanwhile")]
    SessionMoved,
    /// The session belongs to another owner.
    #[error("the session belongs to another owner")]
    SessionTaken,
    /// The idempotency key is taken.
    #[error("the idempotency key is taken")]
    KeyTaken(KeyRow),
    /// The world's no. After a permanent one the store takes no more writes (E7).
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A store of journals.
#[async_trait]
pub trait Journal: Send + Sync + std::fmt::Debug {
    /// Appends `append.events`, if the journal is still at `append.expected` (J1–J5). One that is known by its
    /// token is answered as it was the first time (J9).
    async fn append(&self, append: Append) -> Result<Appended, AppendError>;

    /// Events of a run after `after`, in order, at most `limit`; empty for an unknown run.
    async fn read(&self, run: &RunId, after: Version, limit: usize)
    -> Result<Vec<Recorded>, Fault>;

    /// A run's head.
    async fn head(&self, run: &RunId) -> Result<Option<Head>, Fault>;

    /// Heads, newest run first.
    async fn heads(
        &self,
        filter: &RunFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, Fault>;

    /// A session.
    async fn session(&self, session: &SessionId) -> Result<Option<SessionRow>, Fault>;

    /// Sessions, newest first where the ids are ours; of one owner, or of all.
    async fn sessions(
        &self,
        owner: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SessionRow>, Fault>;

    /// Keeps a session as it now is, whether it has runs or not, if it is still as the caller `knew` it
    /// (none: not there yet); refused if it is another owner's. So of two changes at once none is lost.
    async fn put_session(
        &self,
        knew: Option<SessionRow>,
        row: SessionRow,
    ) -> Result<(), AppendError>;

    /// What an idempotency key of an owner stands for.
    async fn key(&self, owner: &str, key: &str) -> Result<Option<KeyRow>, Fault>;

    /// The idempotency key that a run was started with, and what it stands for.
    async fn key_of(&self, run: &RunId) -> Result<Option<(String, KeyRow)>, Fault>;

    /// J7: heads of runs with open questions, the soonest deadline first, then the longest waiting.
    async fn waiting(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Head>, Fault>;

    /// J7: those of them that lie on any of these desks, in the same order. A page may be short and still have a next one.
    /// A store that several processes write to finds them without a look at those that lie on none of them.
    async fn waiting_on(
        &self,
        desks: &[Desk],
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, Fault> {
        let mut page = self.waiting(cursor, limit).await?;
        page.rows.retain(|head| {
            let lain = head.desks();
            desks.iter().any(|desk| lain.contains(desk))
        });
        Ok(page)
    }

    /// J7: runs whose clock is due at `now` or before, the soonest first.
    async fn due(&self, now: Millis, limit: usize) -> Result<Vec<(Millis, RunId)>, Fault>;

    /// J7: the soonest time at which any run's clock is due.
    async fn next_due(&self) -> Result<Option<Millis>, Fault>;

    /// J7: runs that owe something to the world and may need a driver.
    async fn running(&self, cursor: Option<&str>, limit: usize) -> Result<Page<RunId>, Fault>;

    /// The forks of a family, by its first run, oldest first; those of which the head says so.
    async fn forks(&self, family: &RunId) -> Result<Vec<RunId>, Fault>;

    /// The life in which this process writes.
    fn incarnation(&self) -> Incarnation;

    /// Takes the right to drive a run that is at `expected`, from whoever is named (J12), where there is nothing to
    /// append with it.
    async fn take(
        &self,
        run: &RunId,
        from: Option<Incarnation>,
        expected: Version,
    ) -> Result<Fence, AppendError>;

    /// What it is beside that where several processes write to it; none where this one alone does.
    fn replicas(&self) -> Option<&dyn Replicas> {
        None
    }

    /// Keeps a definition, under its digest; the same again is a no-op.
    async fn put_definition(&self, digest: &str, json: &str) -> Result<(), Fault>;

    /// A definition by its digest.
    async fn definition(&self, digest: &str) -> Result<Option<String>, Fault>;

    /// J8: entries that are due at `now` or before, the soonest first.
    async fn outbox_entries(&self, now: Millis, limit: usize) -> Result<Vec<OutboxEntry>, Fault>;

    /// J8: the soonest time at which any entry is due.
    async fn next_outbox_entry(&self) -> Result<Option<Millis>, Fault>;

    /// Notes what came of a delivery; one that is not owed any more is no matter.
    async fn settle(&self, run: &RunId, channel: &str, outcome: Settlement) -> Result<(), Fault>;

    /// Keeps a hook of a run, in place of one with the same id.
    async fn put_hook(&self, hook: &HookRow) -> Result<(), Fault>;

    /// The hooks of a run, by their ids.
    async fn hooks(&self, run: &RunId) -> Result<Vec<HookRow>, Fault>;

    /// Takes a hook away, and what it was owed; one that is not there is no matter.
    async fn remove_hook(&self, run: &RunId, id: &str) -> Result<(), Fault>;

    /// Forgets runs that were over before `before`, with everything that hangs on them; at most
    /// `limit` a call. Returns how many. Sessions go with their last run; one in which a run still
    /// goes or waits is left alone, because that run may remember what was said in the others; and so is
    /// a family, because what was refused in one run of it counts in the others (K11).
    async fn prune(&self, before: Millis, limit: usize) -> Result<usize, Fault>;

    /// Takes an entry into the store's own log, durable when it returns (L1), and says where it lies
    /// in its lane. Forgets the oldest of the lane where that is full (L2).
    async fn note(&self, noting: Noting) -> Result<u64, Fault>;

    /// The store's own log, newest entry first; behind the oldest, how many were forgotten.
    async fn notes(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Logged>, Fault>;

    /// Keeps something of the store's own under a name, in place of what was there.
    async fn remember(&self, name: &str, text: &str) -> Result<(), Fault>;

    /// What is kept under that name.
    async fn remembered(&self, name: &str) -> Result<Option<String>, Fault>;

    /// After how many more events a run is saved folded; none where that is not done. It is a convenience: what it is
    /// taken up from is the journal, and a fold that is lost, or of another kernel, costs a longer look at that.
    fn folds_every(&self) -> Option<Version> {
        None
    }

    /// Keeps a run as it is folded, up to the end of the append with that link, in place of what was kept of it.
    async fn save_fold(&self, _run: Box<Run>, _link: Hash) -> Result<(), Fault> {
        Ok(())
    }

    /// What is so kept of a run, if it is one of what lies in its journal.
    async fn saved_fold(
        &self,
        _run: &RunId,
        _workflow: &Arc<Workflow>,
    ) -> Result<Option<Run>, Fault> {
        Ok(None)
    }

    /// Reads everything, checks everything, and says what it found.
    async fn verify(&self) -> Result<StoreReport, Fault>;

    /// What strangers can check of it (J13).
    fn evidence(&self) -> &dyn Evidence;

    /// Whether it still takes writes.
    fn is_healthy(&self) -> bool;

    /// Whether there is room for more. Where there is none it goes on by itself once there is again.
    fn has_room(&self) -> bool {
        true
    }

    /// Why it is out of reach now, where it is, though it may come back; none for one that is on this machine.
    fn away(&self) -> Option<String> {
        None
    }

    /// Ends all writing; everything acknowledged is on disk when it returns.
    async fn close(&self);
}
