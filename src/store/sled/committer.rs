//! Committer: the one thread that writes. It gathers what is queued, decides on all of it, makes it
//! durable in one step, and only then answers.
//!
//! ```text
//! callers ──queue──► gather ─► check each ─► one record ─► fdatasync ─► shown ─► answer each
//!                                                                                       │
//!                                                     now and then, on its own thread: sled settles
//! ```
//!
//! - **J1** One record of the write-ahead log: all of a group's writes are recovered, or none. Nobody
//!   can read them before they are durable, or some of them without the others.
//! - **J2** sled's `flush` ends in `sync_file_range`, which survives no power cut; `fdatasync` does.
//! - **E7** A failed write is never tried again: the store has failed, and says so to everyone.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::failpoint;
use crate::kernel::{Millis, Version};
use crate::ports::{AppendError, Fault};
use crate::store::leases::Leases;
use crate::store::sled::bygone::Bygone;
use crate::store::sled::group::{Decided, Errand, Group};
use crate::store::sled::health::{Health, Watch};
use crate::store::sled::prepared::{Prepared, Sealed, Seat};
use crate::store::sled::recent::Recent;
use crate::store::sled::records::Write;
use crate::store::sled::settler::Settler;
use crate::store::sled::shelf::Shelf;
use crate::store::sled::tally::Tally;
use crate::store::sled::tide::Tide;
use crate::store::sled::wal::Wal;

/// Jobs that may wait for the committer; beyond it callers wait for their turn to queue. Several
/// groups' worth, so that the disk never waits for the callers.
pub(super) const QUEUE_MAX: usize = 1_024;
/// Appends made durable together: at some 30 µs each a group takes about as long as ten syncs, and
/// nobody waits much longer for being in company.
const GROUP_MAX: usize = 256;
/// Bytes made durable together: a few of sled's segments.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// Runs taken out together: each is as many places as its journal has entries.
const PRUNE_MAX: usize = 64;

/// What the committer is asked to do.
#[derive(Debug)]
pub(super) enum Job {
    Append(Box<Prepared>, oneshot::Sender<Result<Version, AppendError>>),
    Define(Sealed, oneshot::Sender<Result<(), AppendError>>),
    Errand(Errand, oneshot::Sender<Result<Version, AppendError>>),
    Seat(Box<Seat>, oneshot::Sender<Result<(), AppendError>>),
    Prune { before: Millis, limit: usize, reply: oneshot::Sender<Result<usize, Fault>> },
    Close(oneshot::Sender<()>),
}

/// The one thread that writes.
#[derive(Debug)]
pub(super) struct Committer {
    pub(super) shelf: Arc<Shelf>,
    pub(super) leases: Arc<Leases>,
    pub(super) health: Arc<Health>,
    pub(super) tide: Tide,
    pub(super) tally: Tally,
    pub(super) recent: Recent,
    pub(super) wal: Wal,
    pub(super) settler: Settler,
    pub(super) written: u64,
}

impl Committer {
    /// Works until it is closed, or nobody is left who could ask.
    pub(super) fn work(mut self, mut queue: mpsc::Receiver<Job>) {
        let watch = Watch::new(&self.health, "its writing thread panicked");
        let mut jobs = Vec::with_capacity(GROUP_MAX);
        let mut left = None;
        while let Some(job) = left.take().or_else(|| queue.blocking_recv()) {
            match job {
                Job::Append(..) | Job::Define(..) | Job::Seat(..) | Job::Errand(..) => {
                    jobs.push(job);
                    left = gather(&mut queue, &mut jobs);
                    if jobs.len() > 1 && left.is_none() {
                        // Where there are several, more are about to come: one sync for all of them.
                        std::thread::yield_now();
                        left = gather(&mut queue, &mut jobs);
                    }
                    self.commit_jobs(&mut jobs);
                }
                Job::Prune { before, limit, reply } => tell(reply, self.prune(before, limit)),
                Job::Close(reply) => {
                    self.close();
                    tell(reply, ());
                    break;
                }
            }
            self.refresh_if_due();
        }
        watch.done();
    }

    /// Makes a group durable, and answers each of it.
    fn commit_jobs(&mut self, jobs: &mut Vec<Job>) {
        let ready = self.health.check().and_then(|()| self.shelf.has_room());
        let mut answers = Vec::with_capacity(jobs.len());
        let decided = self.shelf.with(|view| {
            ready?;
            let mut group = Group::new(view, &self.leases, &self.recent, self.tally);
            for job in jobs.iter_mut() {
                answers.push(match job {
                    Job::Append(append, _) => group.append(append),
                    Job::Define(sealed, _) => group.define(sealed).map(|()| 0).map_err(Into::into),
                    Job::Errand(errand, _) => group.errand(errand).map_err(Into::into),
                    Job::Seat(seat, _) => group.seat(seat).map(|()| 0),
                    Job::Prune { .. } | Job::Close(_) => Ok(0),
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
        self.mark_tide(jobs, &answers);
        for (job, answer) in jobs.drain(..).zip(answers) {
            match job {
                Job::Append(_, reply) | Job::Errand(_, reply) => tell(reply, answer),
                Job::Define(_, reply) | Job::Seat(_, reply) => {
                    tell(reply, answer.map(|_| ()));
                }
                Job::Prune { .. } | Job::Close(_) => {}
            }
        }
        failpoint::hit("store.after_ack");
    }

    /// Remembers the last append that somebody is about to be told of.
    fn mark_tide(&self, jobs: &[Job], answers: &[Result<Version, AppendError>]) {
        let last = jobs.iter().zip(answers).rev().find_map(|(job, answer)| match (job, answer) {
            (Job::Append(append, _), Ok(version)) => Some((&append.run, *version)),
            (
                Job::Append(..)
                | Job::Define(..)
                | Job::Errand(..)
                | Job::Seat(..)
                | Job::Prune { .. }
                | Job::Close(_),
                _,
            ) => None,
        });
        if let Some((run, version)) = last {
            self.tide.mark(run, version);
        }
    }

    /// J2: everything in the group is durable when this returns `Ok`.
    fn commit(&mut self, decided: Option<Decided>) -> Result<(), Fault> {
        let Some(Decided { writes, tally, briefs }) = decided else { return Ok(()) };
        failpoint::hit("store.before_record");
        if let Err(failure) = self.write(writes) {
            self.health.fail(&failure.to_string());
            return self.health.check();
        }
        failpoint::hit("store.after_write");
        self.tally = tally;
        self.recent.take(briefs);
        Ok(())
    }

    fn write(&mut self, writes: Vec<Write>) -> Result<(), Fault> {
        if self.wal.is_full() && (self.settler.is_free()? || self.wal.is_brimming()) {
            self.begin_to_settle()?;
        }
        self.wal.append(&writes).map_err(|error| broken(&error))?;
        failpoint::hit("store.after_sync");
        self.written += weight(&writes);
        self.shelf.write(writes)
    }

    /// Has sled made to hold durably what the write-ahead log does, and goes on in its other file. Waits
    /// if that holds what sled does not have yet.
    fn begin_to_settle(&mut self) -> Result<(), Fault> {
        self.settler.wait()?;
        self.health.check_failure()?;
        let generation = self.wal.turn().map_err(|error| broken(&error))?;
        self.shelf.age()?;
        self.settler.begin(generation)
    }

    /// Returns when sled holds everything durably.
    fn settle(&mut self) -> Result<(), Fault> {
        if self.wal.is_needed() {
            self.begin_to_settle()?;
        }
        self.settler.wait()?;
        self.health.check_failure()
    }

    fn prune(&mut self, before: Millis, limit: usize) -> Result<usize, Fault> {
        self.health.check()?;
        self.recent.clear();
        self.tide.clear().map_err(|error| Fault::Permanent(format!("the tide: {error}")))?;
        let (mut pruned, mut bygone) = (0, Bygone::default());
        while pruned < limit {
            let (slice, decided) = self.shelf.with(|view| {
                let mut group = Group::new(view, &self.leases, &self.recent, self.tally);
                let pruned = group.prune(&mut bygone, before, PRUNE_MAX.min(limit - pruned))?;
                Ok((pruned, group.decided()))
            })?;
            self.commit(decided)?;
            pruned += slice;
            if slice == 0 {
                break;
            }
        }
        Ok(pruned)
    }

    fn refresh_if_due(&mut self) {
        if self.written < self.shelf.refresh_bytes() || self.health.check().is_err() {
            return;
        }
        self.written = 0;
        if let Err(failure) = self.settle().and_then(|()| self.shelf.refresh()) {
            self.health.fail(&failure.to_string());
        }
    }

    /// Everything acknowledged is durable already; what is left is to let go. Settled first, so that
    /// the next opening has nothing to replay.
    fn close(&mut self) {
        let outcome = if self.health.check().is_ok() { self.settle() } else { self.settler.wait() };
        if let Err(failure) = outcome {
            tracing::warn!(%failure, "the store was not settled; the next opening will do it");
        }
        self.health.close();
        self.shelf.close();
    }
}

fn broken(error: &std::io::Error) -> Fault {
    Fault::Permanent(format!("the write-ahead log: {error}"))
}

fn weight(writes: &[Write]) -> u64 {
    let of = |(key, value): &Write| key.len() + value.as_ref().map_or(0, |value| value.len());
    crate::store::audit::count(writes.iter().map(of).sum())
}

/// Takes what is queued, up to a group's bounds; a job that cannot be part of a group is returned.
fn gather(queue: &mut mpsc::Receiver<Job>, jobs: &mut Vec<Job>) -> Option<Job> {
    let weight = |job: &Job| match job {
        Job::Append(append, _) => append.bytes(),
        Job::Define(sealed, _) => sealed.record.len(),
        Job::Seat(seat, _) => seat.sealed.record.len(),
        Job::Errand(..) | Job::Prune { .. } | Job::Close(_) => 0,
    };
    let mut bytes: usize = jobs.iter().map(weight).sum();
    while jobs.len() < GROUP_MAX && bytes < GROUP_BYTES_MAX {
        match queue.try_recv().ok()? {
            job @ (Job::Append(..) | Job::Define(..) | Job::Seat(..) | Job::Errand(..)) => {
                bytes += weight(&job);
                jobs.push(job);
            }
            alone @ (Job::Prune { .. } | Job::Close(_)) => return Some(alone),
        }
    }
    None
}

/// Whoever asked may have gone; what was decided stands all the same.
fn tell<T>(reply: oneshot::Sender<T>, outcome: T) {
    drop(reply.send(outcome));
}
