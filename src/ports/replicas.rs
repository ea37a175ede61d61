//! Replicas: what we need of a store that several processes write to, beside what every store does. Each of them
//! shows that it lives by its beats; whoever misses them is declared dead by any other, for good, and what it drove
//! is free to be taken. Time is the store's own, for that and for everything else: no two machines agree on theirs.
//!
//! A hint says that somebody has written; it may be lost. What is true is found by asking.

use async_trait::async_trait;

use crate::kernel::evidence::Hash;
use crate::kernel::{Millis, Recorded, RunId, Version};
use crate::ports::{Fault, Fence, Guard, Incarnation, OutboxEntry};

/// How a run stands, less what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The journal's length.
    pub version: Version,
    /// Who drives it, and whether they live.
    pub holder: Option<(Incarnation, bool)>,
    /// The fence of the last claim.
    pub fence: Fence,
    /// The number kept for its hooks: another one means others.
    pub hooks: u64,
    /// The link that it has there; none where an earlier build wrote it.
    pub link: Option<Hash>,
}

impl Standing {
    /// What the run is known by from now on: its length, and the link that it has there.
    pub fn known(&self) -> Option<(Version, Hash)> {
        self.link.map(|link| (self.version, link))
    }
}

/// What is asked before a command is decided on, as it was at one moment while that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// What is kept of the store's own under the name that was asked for.
    pub kept: Option<String>,
    /// The number that is kept under the guard's name; 0 where none is.
    pub guard: u64,
    /// How the run stands; none if there is no such run.
    pub standing: Option<Standing>,
}

/// That somebody has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// To this run, after that version.
    Run(RunId, Version),
    /// Some were lost: anything may have changed.
    Lost,
}

/// That a store lacks what it had acknowledged (J10): how far it is known to have been, and how far it is; the same where
/// it has been written to since, and tells another history up to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewind {
    /// What was acknowledged, by number.
    pub had: u64,
    /// What is there.
    pub has: u64,
}

/// A run of which a store lacks what it had acknowledged or shown, or of which it tells another history than it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRun {
    /// The run.
    pub run: RunId,
    /// Up to where it is known to have been.
    pub had: Version,
    /// Where it is now; at `had` or beyond where it has been written to since by somebody who could not know.
    pub has: Version,
}

/// What a process says of itself to those it shares a store with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Introduction {
    /// The machine it runs on.
    pub name: String,
    /// Where it is reached.
    pub address: String,
    /// Which build it is.
    pub program: String,
}

/// A process that lives, as those it shares a store with see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// The life that it is in.
    pub incarnation: Incarnation,
    /// What it says of itself.
    pub who: Introduction,
    /// When this life began, by the store's clock.
    pub since: Millis,
    /// When it last showed that it lives.
    pub beaten: Millis,
    /// Runs that it drives.
    pub drives: u64,
    /// Whether it is about to leave.
    pub is_draining: bool,
}

/// A store that several processes write to.
#[async_trait]
pub trait Replicas: Send + Sync + std::fmt::Debug {
    /// Shows that this process lives, for as long as is returned, in milliseconds; none if it was declared dead.
    async fn beat(&self) -> Result<Option<u64>, Fault>;

    /// What time it is, by the store's clock, at some moment while this is asked.
    async fn time(&self) -> Result<Millis, Fault>;

    /// Whether the store lacks what it had acknowledged to this process; each loss is told once (J10).
    async fn look_back(&self) -> Result<Option<Rewind>, Fault>;

    /// Of the runs that this process remembers, up to which version and with which link: those of which the store lacks
    /// that, each once. What is remembered is bounded, the newest stays; `unlearn` of all forgets it.
    async fn lost(&self) -> Result<Vec<LostRun>, Fault>;

    /// Forgets what was remembered of a run, or of all of them: the store has gone back, and they are read anew.
    fn unlearn(&self, run: Option<&RunId>);

    /// Says who this process is, from now on and in every life that it begins.
    async fn introduce(&self, who: Introduction) -> Result<(), Fault>;

    /// Says that this process is about to leave.
    async fn drain(&self) -> Result<(), Fault>;

    /// Those who live and have said who they are, the oldest first.
    async fn listed(&self) -> Result<Vec<Replica>, Fault>;

    /// How many of those there are.
    async fn serving(&self) -> Result<usize, Fault> {
        Ok(self.listed().await?.len())
    }

    /// Begins another life: everything that was held in the last one is lost.
    async fn reborn(&self) -> Result<(), Fault>;

    /// Declares dead whoever has missed its beats, for good; what each of them had said of itself. Whoever asks lives.
    async fn bury(&self) -> Result<Vec<Introduction>, Fault>;

    /// Those who live, this process among them if it does.
    async fn living(&self) -> Result<Vec<Incarnation>, Fault>;

    /// How a run stands; none if there is no such run.
    async fn standing(&self, run: &RunId) -> Result<Option<Standing>, Fault>;

    /// The same, with what is kept under a name and the number of a guard: in one question, where that costs less than three.
    async fn outlook(&self, run: &RunId, guard: &str, kept: &str) -> Result<Outlook, Fault>;

    /// The events of a run after a version, at most `limit`, as [`crate::ports::Journal::read`]; none where they go on from
    /// another link than the one that the run is known to have had there: it tells another history than it did (J10).
    async fn read_on_from(
        &self,
        run: &RunId,
        known: (Version, Hash),
        limit: usize,
    ) -> Result<Option<Vec<Recorded>>, Fault>;

    /// Which of these runs have gone on since those versions.
    async fn gone_on(&self, known: &[(RunId, Version)]) -> Result<Vec<RunId>, Fault>;

    /// Runs that owe something to the world and that nobody living drives, at most `limit`, the oldest first.
    async fn stranded(&self, limit: usize) -> Result<Vec<RunId>, Fault>;

    /// Runs that this process drives, as the store has it, at most `limit`.
    async fn held(&self, limit: usize) -> Result<Vec<RunId>, Fault>;

    /// The next hint; waits for it. None once the store is closed here.
    async fn hint(&self) -> Option<Hint>;

    /// The number that is kept under a guard's name; 0 where none is.
    async fn guard(&self, name: &str) -> Result<u64, Fault>;

    /// Takes entries that are due at `now` and that nobody else carries; theirs again once the time to carry them is
    /// over. To be settled by whoever took them.
    async fn take_outbox_entries(
        &self,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<OutboxEntry>, Fault>;

    /// Keeps something of the store's own under a name, if what is there is what the caller `knew`; whether it did.
    async fn remember_if(&self, name: &str, knew: Option<&str>, text: &str) -> Result<bool, Fault> {
        self.remember_resting(name, (knew, text), None).await
    }

    /// The same, if what it rests on is still so, too: something else that is kept under a name ([`Guard::kept`]).
    async fn remember_resting(
        &self,
        name: &str,
        change: (Option<&str>, &str),
        rests: Option<&Guard>,
    ) -> Result<bool, Fault>;
}
