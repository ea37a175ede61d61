//! Committer: the one thread that writes. It gathers what is queued, decides on all of it, makes it
//! durable in one step, and only then answers.
//!
//! ```text
//! callers ──queue──► gather ─► check each ─► one record ─► fdatasync ─► memtable ─► answer each
//!                                                                                       │
//!                                        now and then, on a thread of its own: a checkpoint
//! ```
//!
//! - **J1** One record of the write-ahead log: all of a group's writes are recovered, or none. Nobody
//!   can read them before they are durable, or some of them without the others.
//! - **J2** sled's `flush` ends in `sync_file_range`, which survives no power cut; `fdatasync` does.
//! - **E7** A failed write is never tried again: the store has failed, and says so to everyone.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::failpoint;
use crate::kernel::Millis;
use crate::ports::{AppendError, Fault};
use crate::store::embedded::checkpointer::Checkpointer;
use crate::store::embedded::counts::Counts;
use crate::store::embedded::database::Database;
use crate::store::embedded::disk;
use crate::store::embedded::group::{Decided, Group, Written};
use crate::store::embedded::head_cache::HeadCache;
use crate::store::embedded::health::{Health, Watch};
use crate::store::embedded::high_water_mark::HighWaterMark;
use crate::store::embedded::lull::Lull;
use crate::store::embedded::prepared::{Change, Prepared};
use crate::store::embedded::prune_scan::PruneScan;
use crate::store::embedded::reader;
use crate::store::embedded::wal::Wal;
use crate::store::embedded::wal_records::Write;
use crate::store::leases::Leases;

/// Jobs that may wait for the committer; beyond it callers wait for their turn to queue. Several
/// groups' worth, so that the disk never waits for the callers.
pub(super) const QUEUE_MAX: usize = 1_024;
/// Appends made durable together (group commit): at some 30 µs each a group takes about as long as ten syncs, and
/// nobody waits much longer for being in company.
const GROUP_MAX: usize = 256;
/// Bytes made durable together: a few of sled's segments.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// Runs taken out together: each is as many places as its journal has entries.
const PRUNE_MAX: usize = 64;

/// Who is told what came of it.
type Reply = oneshot::Sender<Result<Written, AppendError>>;

/// What the committer is asked to do.
#[derive(Debug)]
pub(super) enum Job {
    Write(Work, Reply),
    Prune {
        before: Millis,
        limit: usize,
        reply: oneshot::Sender<Result<usize, Fault>>,
    },
    /// Says when everything before it is done.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "a store moves into a database alone")
    )]
    Barrier(oneshot::Sender<()>),
    /// Nobody has written for a while, and much was before that.
    Lull,
    Close(oneshot::Sender<()>),
}

/// What can be one of a group.
#[derive(Debug)]
pub(super) enum Work {
    Append(Box<Prepared>),
    Change(Change),
}

impl Work {
    /// Its weight, for the bound on a group.
    fn bytes(&self) -> usize {
        match self {
            Self::Append(append) => append.bytes(),
            Self::Change(change) => change.bytes(),
        }
    }
}

/// The one thread that writes.
#[derive(Debug)]
pub(super) struct Committer {
    pub(super) database: Arc<Database>,
    pub(super) leases: Arc<Leases>,
    pub(super) health: Arc<Health>,
    pub(super) mark: HighWaterMark,
    pub(super) counts: Counts,
    pub(super) cache: HeadCache,
    pub(super) wal: Wal,
    pub(super) checkpointer: Checkpointer,
    pub(super) lull: Lull,
    /// Whether somebody wants the room that pruned runs took.
    pub(super) wants_room: bool,
}

impl Committer {
    /// Works until it is closed, or nobody is left who could ask.
    pub(super) fn work(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut jobs = Vec::with_capacity(GROUP_MAX);
        let mut left = None;
        // The last to be made is the first to go: whoever loses its answer to a panic finds the store failed.
        let watch = Watch::new(&self.health, "its writing thread panicked");
        while let Some(job) = left.take().or_else(|| queue.blocking_recv()) {
            match job {
                Job::Write(work, reply) => {
                    jobs.push((work, reply));
                    left = gather(&mut queue, &mut jobs);
                    if jobs.len() > 1 && left.is_none() {
                        // Where there are several, more are about to come: one sync for all of them.
                        std::thread::yield_now();
                        left = gather(&mut queue, &mut jobs);
                    }
                    self.commit_jobs(&mut jobs);
                }
                Job::Prune { before, limit, reply } => tell(reply, self.prune(before, limit)),
                Job::Barrier(reply) => tell(reply, ()),
                Job::Lull => self.reopen(),
                Job::Close(reply) => {
                    self.close();
                    tell(reply, ());
                    break;
                }
            }
            self.reopen_if_due();
        }
        watch.done();
    }

    /// Makes a group durable, and answers each of it.
    fn commit_jobs(&mut self, jobs: &mut Vec<(Work, Reply)>) {
        let ready = self.health.check().and_then(|()| self.database.has_room());
        let mut answers = Vec::with_capacity(jobs.len());
        let decided = self.database.with(|view| {
            ready?;
            let mut group = Group::new(view, &self.leases, &self.cache, self.counts);
            for (work, _) in jobs.iter_mut() {
                answers.push(match work {
                    Work::Append(append) => group.append(append),
                    Work::Change(change) => group.change(change),
                });
            }
            Ok(group.decided())
        });
        let written = decided.and_then(|decided| self.commit(decided));
        failpoint::hit("store.before_ack");
        if let Err(fault) = written {
            // Whatever was decided, even a no, was decided on writes that were never made.
            answers = jobs.iter().map(|_| Err(fault.clone().into())).collect();
        }
        self.mark_high_water(jobs, &answers);
        for ((_, reply), answer) in jobs.drain(..).zip(answers) {
            tell(reply, answer);
        }
        failpoint::hit("store.after_ack");
    }

    /// Remembers the last append that somebody is about to be told of.
    fn mark_high_water(&self, jobs: &[(Work, Reply)], answers: &[Result<Written, AppendError>]) {
        let mut told = jobs.iter().zip(answers).rev();
        let last = told.find_map(|((work, _), answer)| match (work, answer) {
            (Work::Append(append), Ok(written)) => Some((&append.run, written.at)),
            (Work::Append(_) | Work::Change(_), _) => None,
        });
        if let Some((run, version)) = last {
            self.mark.write(run, version);
        }
    }

    /// J2: everything in the group is durable when this returns `Ok`.
    fn commit(&mut self, decided: Option<Decided>) -> Result<(), Fault> {
        let Some(Decided { writes, counts, heads }) = decided else { return Ok(()) };
        failpoint::hit("store.before_record");
        if let Err(failure) = self.write(writes) {
            self.health.fail(&failure.to_string());
            return self.health.check();
        }
        failpoint::hit("store.after_write");
        self.counts = counts;
        self.cache.take(heads);
        Ok(())
    }

    fn write(&mut self, writes: Vec<Write>) -> Result<(), Fault> {
        if self.wal.is_full() && (self.checkpointer.is_free()? || self.wal.is_brimming()) {
            self.begin_checkpoint()?;
        }
        self.wal.append(&writes).map_err(|error| broken(&error))?;
        failpoint::hit("store.after_sync");
        self.lull.wrote(weight(&writes));
        self.database.write(writes)
    }

    /// Has what the write-ahead log holds flushed to the tree, and goes on in its other file. Waits if that
    /// holds what the tree does not have yet.
    fn begin_checkpoint(&mut self) -> Result<(), Fault> {
        self.checkpointer.wait()?;
        self.health.check_failure()?;
        let generation = self.wal.turn(self.database.bytes()).map_err(|error| broken(&error))?;
        self.database.rotate()?;
        self.checkpointer.begin(generation)
    }

    /// Returns when the tree holds everything durably.
    fn checkpoint(&mut self) -> Result<(), Fault> {
        if self.wal.is_needed() {
            self.begin_checkpoint()?;
        }
        self.checkpointer.wait()?;
        self.health.check_failure()
    }

    /// Retention: forgets runs that were over before `before`. The tree reclaims their space by itself, in
    /// its own compaction; what lay beside it goes before the store is closed.
    fn prune(&mut self, before: Millis, limit: usize) -> Result<usize, Fault> {
        self.health.check()?;
        self.cache.clear();
        let mark = self.mark.read();
        self.mark
            .clear()
            .map_err(|error| Fault::Permanent(format!("the high-water mark: {error}")))?;
        let (mut pruned, mut scan) = (0, PruneScan::default());
        while pruned < limit {
            let (slice, decided) = self.database.with(|view| {
                let mut group = Group::new(view, &self.leases, &self.cache, self.counts);
                let pruned = group.prune(&mut scan, before, PRUNE_MAX.min(limit - pruned))?;
                Ok((pruned, group.decided()))
            })?;
            self.commit(decided)?;
            pruned += slice;
            if slice == 0 {
                break;
            }
        }
        // Also where nothing was: one before may have been cut off.
        self.wants_room = true;
        // As it was, where its run is still there: an older copy of the store is told by it.
        if let Some((run, version)) = mark
            && self.database.with(|view| reader::head(view, &run))?.is_some()
        {
            self.mark.write(&run, version);
        }
        Ok(pruned)
    }

    /// Gives the disk back what was pruned.
    fn make_room(&mut self) -> Result<(), Fault> {
        while self.wants_room {
            self.wants_room = self.database.make_room()?;
        }
        Ok(())
    }

    fn reopen_if_due(&mut self) {
        if self.lull.written() >= self.database.reopen_bytes() {
            self.reopen();
        }
    }

    /// Has the page table saved: a restart reads only what is written from now on.
    fn reopen(&mut self) {
        if self.health.check().is_err() {
            return;
        }
        self.lull.saved();
        if let Err(failure) = self.checkpoint().and_then(|()| self.database.reopen()) {
            self.health.fail(&failure.to_string());
        }
    }

    /// Everything acknowledged is durable already; what is left is to let go. A checkpoint first, so that
    /// the next opening has nothing to replay.
    fn close(&mut self) {
        let outcome = if self.health.check().is_ok() {
            self.checkpoint().and_then(|()| self.make_room())
        } else {
            self.checkpointer.wait()
        };
        if let Err(failure) = outcome {
            tracing::warn!(%failure, "the last checkpoint failed; the next opening replays what it lacks");
        }
        self.health.close();
        self.database.close();
    }
}

fn broken(error: &std::io::Error) -> Fault {
    Fault::Permanent(format!("the write-ahead log: {error}"))
}

/// About how much of it comes into the tree's own log, which is what a restart reads.
fn weight(writes: &[Write]) -> u64 {
    let of = |(key, value): &Write| key.len() + disk::in_tree(key, value.as_deref());
    crate::store::audit::count(writes.iter().map(of).sum())
}

/// Takes what is queued, up to a group's bounds; a job that cannot be part of a group is returned.
fn gather(queue: &mut mpsc::Receiver<Job>, jobs: &mut Vec<(Work, Reply)>) -> Option<Job> {
    let mut bytes: usize = jobs.iter().map(|(work, _)| work.bytes()).sum();
    while jobs.len() < GROUP_MAX && bytes < GROUP_BYTES_MAX {
        match queue.try_recv().ok()? {
            Job::Write(work, reply) => {
                bytes += work.bytes();
                jobs.push((work, reply));
            }
            alone @ (Job::Prune { .. } | Job::Barrier(_) | Job::Lull | Job::Close(_)) => {
                return Some(alone);
            }
        }
    }
    None
}

/// Whoever asked may have gone; what was decided stands all the same.
fn tell<T>(reply: oneshot::Sender<T>, outcome: T) {
    drop(reply.send(outcome));
}
