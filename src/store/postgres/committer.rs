//! Committer: takes whatever waits to be appended and sends it as one group. One group is under way at a time: while the
//! database makes one durable, the next gathers. What nobody knows to be written is submitted again with its token, on
//! another connection (J9): it is written then, or it was.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::kernel::{RunId, Version};
use crate::ports::{AppendError, Appended, Fault, Guard, Incarnation};
use crate::store::keys::Packed;
use crate::store::postgres::connections::{Connections, Line, PATIENCE, away};
use crate::store::postgres::faults::{fault, is_full, is_unknown};
use crate::store::postgres::group::{Outcome, Refused, submit};
use crate::store::postgres::links::Links;
use crate::store::postgres::marks::{Lane, Marks};
use crate::store::postgres::prepared::Prepared;

/// Appends of one group.
const GROUP_MAX: usize = 256;
/// Appends that are looked through for a group: several of one run go one after the other.
const LATER_MAX: usize = 1_024;
/// What they weigh: more is sent in several.
const GROUP_BYTES: usize = 4 << 20;
/// How often one is submitted again because something was otherwise than remembered.
const TRIES: u32 = 8;
/// Between attempts to reach the database.
const PAUSE: Duration = Duration::from_millis(100);

/// An append on its way.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) append: Prepared,
    pub(super) told: oneshot::Sender<Result<Appended, AppendError>>,
    pub(super) since: Instant,
    /// How often it was submitted, and whether anybody knows what became of it.
    tries: u32,
    is_unknown: bool,
}

impl Waiting {
    pub(super) fn new(
        append: Prepared,
        told: oneshot::Sender<Result<Appended, AppendError>>,
    ) -> Self {
        Self { append, told, since: Instant::now(), tries: 0, is_unknown: false }
    }

    /// Whoever has left is told nothing.
    fn tell(self, outcome: Result<Appended, AppendError>) {
        drop(self.told.send(outcome));
    }
}

/// What sends groups.
#[derive(Debug)]
pub(super) struct Committer {
    pub(super) connections: Arc<Connections>,
    pub(super) links: Arc<Links>,
    pub(super) marks: Arc<Marks>,
    pub(super) me: Arc<AtomicU64>,
    /// Hears of what was written.
    pub(super) cry: mpsc::Sender<(RunId, Version)>,
    pub(super) queue: mpsc::Receiver<Waiting>,
}

impl Committer {
    /// Sends groups until nobody can append any more.
    pub(super) async fn run(mut self) {
        let mut line = None;
        let mut later = VecDeque::new();
        loop {
            if later.is_empty() {
                let next = tokio::select! {
                    next = self.queue.recv() => next,
                    () = self.connections.closed() => None,
                };
                let Some(next) = next else { return };
                later.push_back(next);
            }
            while later.len() < LATER_MAX
                && let Ok(next) = self.queue.try_recv()
            {
                later.push_back(next);
            }
            let group = gather(&mut later);
            for back in self.send(&mut line, group).await {
                // In front of what came after it: it was first.
                later.push_front(back);
            }
        }
    }

    /// Sends a group; those that must be sent again.
    async fn send(&self, line: &mut Option<Line>, group: Vec<Waiting>) -> Vec<Waiting> {
        if line.as_ref().is_none_or(|line| !self.connections.is_good(line)) {
            *line = match self.connections.connect(None).await {
                Ok(line) => Some(line),
                Err(error) => {
                    let unreached = away(&error);
                    let back = later_or_told(group, |one| one.give_up(&unreached));
                    if !back.is_empty() {
                        tokio::time::sleep(PAUSE).await;
                    }
                    return back;
                }
            };
        }
        let Some(open) = line.as_ref() else { return group };
        let appends: Vec<_> = group.iter().map(|one| &one.append).collect();
        let me = Incarnation(self.me.load(Ordering::SeqCst));
        let mark = self.marks.draw(Lane::Appends);
        let sent = submit(&open.client, (me, mark), &appends, &self.links);
        let outcomes = tokio::time::timeout(PATIENCE, sent).await;
        let is_doubtful = open.took_doubt();
        match outcomes {
            Ok(Ok(outcomes)) if !is_doubtful => {
                if outcomes.iter().any(Outcome::is_written) {
                    self.marks.acknowledge(me, Lane::Appends, mark);
                }
                self.told(group, outcomes)
            }
            Ok(Ok(_)) => {
                *line = None;
                // What a standby may lack is not remembered as what the database has.
                for one in &group {
                    self.links.doubt(&one.append.packed);
                }
                unknown(group, "the database committed it, but not on its standby")
            }
            Ok(Err(Refused::Error(error))) if is_unknown(&error) => {
                *line = None;
                unknown(group, &error.to_string())
            }
            Ok(Err(Refused::Error(error))) => {
                if is_full(&error) {
                    self.connections.had_room(Some(fault(&error).to_string()));
                }
                one_by_one(group, &fault(&error))
            }
            Ok(Err(Refused::Fault(fault))) => one_by_one(group, &fault),
            Err(_) => {
                *line = None;
                unknown(group, "the database takes too long to answer")
            }
        }
    }

    fn told(&self, group: Vec<Waiting>, outcomes: Vec<Outcome>) -> Vec<Waiting> {
        let mut back = Vec::new();
        for (mut one, outcome) in group.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Done(outcome) => {
                    if outcome.is_ok() {
                        drop(self.cry.try_send((one.append.run.clone(), one.append.expected)));
                    }
                    one.tell(outcome);
                }
                Outcome::Again if one.tries < TRIES => {
                    one.tries += 1;
                    back.push(one);
                }
                Outcome::Again => {
                    let busy = "the run is written to by others all the time".into();
                    one.tell(Err(Fault::Retriable(busy).into()));
                }
            }
        }
        back.reverse();
        back
    }
}

impl Waiting {
    /// Gives up on reaching the database, once it has taken long enough.
    fn give_up(&self, why: &Fault) -> Option<AppendError> {
        let is_late = self.since.elapsed() >= PATIENCE;
        let is_final = matches!(why, Fault::Permanent(_));
        if !is_late && !is_final {
            return None;
        }
        // What was sent before, and never heard of, may be there.
        Some(if self.is_unknown {
            AppendError::Unknown(why.to_string())
        } else {
            why.clone().into()
        })
    }
}

/// What those of a group have between them, that no two may: a group is decided on as a whole, on what was before it.
#[derive(Debug, Default)]
struct Company {
    runs: HashSet<Packed>,
    /// Sessions and keys that are brought.
    names: HashSet<Vec<u8>>,
    /// Guards that are looked at, and whether one of them raises each.
    guards: HashMap<String, bool>,
}

impl Company {
    /// Whether one can go with them.
    fn admits(&self, append: &Prepared) -> bool {
        let is_raised = |guard: &Guard| {
            self.guards.get(&guard.name).is_some_and(|is_raised| *is_raised || guard.raises)
        };
        !self.runs.contains(&append.packed)
            && !brought(append).any(|name| self.names.contains(name))
            && !append.guards.iter().any(is_raised)
    }

    fn add(&mut self, append: &Prepared) {
        self.runs.insert(append.packed);
        self.names.extend(brought(append).map(<[u8]>::to_vec));
        for guard in &append.guards {
            *self.guards.entry(guard.name.clone()).or_default() |= guard.raises;
        }
    }
}

/// What an append brings that may be there already: a session, and an idempotency key.
fn brought(append: &Prepared) -> impl Iterator<Item = &[u8]> {
    let session = append.session.as_ref().map(|_| append.columns.session.as_slice());
    session.into_iter().chain(append.key.as_ref().map(|(id, _, _)| id.as_slice()))
}

/// As many as go together: none that another of them has to do with, since each goes on from what is there.
fn gather(later: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let (mut company, mut bytes) = (Company::default(), 0);
    let (mut group, mut rest) = (Vec::new(), VecDeque::new());
    let mut is_alone = false;
    while let Some(next) = later.pop_front() {
        let fits = group.is_empty()
            || (!is_alone && group.len() < GROUP_MAX && bytes + next.append.bytes() <= GROUP_BYTES);
        // What was refused with others goes alone: none of them is to blame for another.
        let fits = fits && (group.is_empty() || next.tries == 0);
        if fits && company.admits(&next.append) {
            company.add(&next.append);
            bytes += next.append.bytes();
            is_alone = next.tries > 0;
            group.push(next);
        } else {
            // Of one run, in order.
            company.runs.insert(next.append.packed);
            rest.push_back(next);
        }
    }
    *later = rest;
    group
}

fn later_or_told(
    group: Vec<Waiting>,
    give_up: impl Fn(&Waiting) -> Option<AppendError>,
) -> Vec<Waiting> {
    let mut back = Vec::new();
    for one in group {
        match give_up(&one) {
            Some(error) => one.tell(Err(error)),
            None => back.push(one),
        }
    }
    back.reverse();
    back
}

/// Nobody knows whether they were written: those that have a token are submitted again.
fn unknown(group: Vec<Waiting>, why: &str) -> Vec<Waiting> {
    let mut back = Vec::new();
    for mut one in group {
        one.is_unknown = true;
        one.tries += 1;
        if one.append.token.is_some() && one.tries <= TRIES && one.since.elapsed() < PATIENCE {
            back.push(one);
        } else {
            one.tell(Err(AppendError::Unknown(why.to_owned())));
        }
    }
    back.reverse();
    back
}

/// A group was refused as a whole: each is tried alone, so that one hurts nobody else.
fn one_by_one(group: Vec<Waiting>, why: &Fault) -> Vec<Waiting> {
    let was_alone = group.len() == 1;
    let mut back = Vec::new();
    for mut one in group {
        one.tries += 1;
        let passes = why.may_pass();
        if (!was_alone || passes) && one.tries < TRIES && one.since.elapsed() < PATIENCE {
            back.push(one);
        } else if one.is_unknown {
            one.tell(Err(AppendError::Unknown(why.to_string())));
        } else {
            one.tell(Err(why.clone().into()));
        }
    }
    back.reverse();
    back
}
