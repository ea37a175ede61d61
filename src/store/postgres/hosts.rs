//! Hosts: which of the servers that an address names is used. All of them are asked at once, so that one that hangs holds
//! nobody up; of several that take writes it is the one with the latest history, where it comes from the others (`descent`). A server that was a primary once, was
//! frozen while another took its place, and wakes believes that it still is: what was written since is not there, and
//! what is written there is lost. Of two that take writes, neither of which is the later one, one is a copy of the other and
//! nobody knows which: none is used. And what was used once is not left for what is no later. It decides; the asking is
//! another's.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::store::postgres::error::PostgresError;

/// How long others are waited for.
#[derive(Debug, Clone, Copy)]
struct Waits {
    /// Once one is found: in a network that works, all answer within it.
    found: Duration,
    /// Once one has said no: whoever takes its place may be found by asking anew.
    refused: Duration,
}

const WAITS: Waits = Waits { found: Duration::from_millis(250), refused: Duration::from_secs(5) };
/// How long a host that says nothing is waited for by whoever has used none yet, and by the look that nobody waits for: to
/// be let in, and then to hear who is there. Over a line on which every reply takes most of a second both come through; a
/// host that is silent for longer is as good as stopped, and a start does not wait for it for ever.
pub(super) const SILENT: Duration = Duration::from_secs(10);
/// What whoever has used none yet waits for: all of them, for each answers, refuses or is given up within this. What is
/// found first stays theirs, and a copy of it behind a slow line would go on without them.
const FIRST: Waits = Waits { found: SILENT.saturating_mul(2), refused: WAITS.refused };
/// For how long a server with an older history, or another one with the same, is passed over: a keeper stops one that woke
/// within half of that. One that is still the only one then was put there by somebody, and what it lacks is noticed.
const PASSED_OVER: Duration = Duration::from_mins(1);

/// Which history a server tells: each promotion begins another, with a higher number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct History {
    /// The cluster, which all its servers have in common.
    pub(super) system: i64,
    /// Which of its databases: what leads to another one of the same server leads to another store.
    pub(super) database: i64,
    /// The timeline.
    pub(super) timeline: u32,
    /// When the server was started, in microseconds: by that two with the same history are told apart, and one that
    /// has two names is known as one.
    pub(super) started: i64,
}

impl History {
    /// Whether this one was over when the other began, where one comes from the other (`descent`).
    fn is_before(self, other: Self) -> bool {
        let is_one = (self.system, self.database) == (other.system, other.database);
        is_one && self.timeline < other.timeline
    }

    /// Whether two servers tell this one.
    fn is_twin(self, other: Self) -> bool {
        let is_one = (self.system, self.database) == (other.system, other.database);
        is_one && self.timeline == other.timeline && self.started != other.started
    }
}

/// A server that answered and is fit to be used, by whatever leads to it.
#[derive(Debug)]
pub(super) struct Found<T> {
    pub(super) line: T,
    /// None where it does not tell.
    pub(super) history: Option<History>,
    /// Which of the hosts, in the order in which an address names them.
    pub(super) host: usize,
    /// The same in words.
    pub(super) place: String,
}

impl<T> Found<T> {
    fn is_before(&self, other: &Self) -> bool {
        self.history.zip(other.history).is_some_and(|(this, other)| this.is_before(other))
    }

    /// Whether both lead to one server.
    fn is_same(&self, other: &Self) -> bool {
        self.host == other.host || self.history.is_some() && self.history == other.history
    }
}

/// One that would be used, and those that take writes as well and were over before it began.
pub(super) type Earlier<'a, T> = (&'a Found<T>, Vec<&'a Found<T>>);

/// What hosts that were asked at once have answered so far.
#[derive(Debug)]
pub(super) struct Answers<T, Asking> {
    asking: FuturesUnordered<Asking>,
    /// Those that are fit, in the order in which they answered.
    fit: Vec<Found<T>>,
    /// Why others are not.
    worst: Option<PostgresError>,
    /// Those of them that are well, and take no writes.
    standbys: Vec<String>,
}

impl<T, Asking> Answers<T, Asking>
where
    Asking: Future<Output = Result<Found<T>, PostgresError>>,
{
    pub(super) fn of(asking: impl IntoIterator<Item = Asking>) -> Self {
        let asking = asking.into_iter().collect();
        Self { asking, fit: Vec::new(), worst: None, standbys: Vec::new() }
    }

    /// Waits for the first that is fit, and a moment longer for a better one.
    pub(super) async fn wait(&mut self, histories: &Histories) {
        self.wait_for(if histories.is_used() { WAITS } else { FIRST }).await;
    }

    async fn wait_for(&mut self, waits: Waits) {
        let (mut until, mut is_found): (Option<Instant>, bool) = (None, false);
        loop {
            let answer = match until {
                None => self.asking.next().await,
                Some(until) => match tokio::time::timeout_at(until, self.asking.next()).await {
                    Ok(answer) => answer,
                    Err(_) => return,
                },
            };
            let Some(answer) = answer else { return };
            let now = Instant::now();
            if answer.is_ok() && !is_found {
                // A no that came before does not shorten it.
                (until, is_found) = (Some(now + waits.found), true);
            }
            until.get_or_insert(now + waits.refused);
            self.take(answer);
        }
    }

    /// Waits for all of them: each is given up in its time.
    pub(super) async fn wait_for_all(&mut self) {
        while let Some(answer) = self.asking.next().await {
            self.take(answer);
        }
    }

    fn take(&mut self, answer: Result<Found<T>, PostgresError>) {
        match answer {
            Ok(found) => self.fit.push(found),
            Err(error) => {
                if let PostgresError::Standby { place } = &error {
                    self.standbys.push(place.clone());
                }
                if self.worst.as_ref().is_none_or(|worst| weight(&error) > weight(worst)) {
                    self.worst = Some(error);
                }
            }
        }
    }

    /// Whether nobody is waited for any more.
    pub(super) fn are_all(&self) -> bool {
        self.asking.is_empty()
    }

    /// Uses one of them from now on; which of those that are fit.
    pub(super) fn choose(&mut self, histories: &Histories) -> Result<usize, PostgresError> {
        if self.fit.is_empty() {
            return Err(self.refusal());
        }
        let (at, best, hosts) = latest(&self.fit)?;
        histories.admit((best.history, &hosts), &best.place, Instant::now())?;
        Ok(at)
    }

    /// Why none is fit. Where standbys answer, and the primary may be one that does not, both are told.
    fn refusal(&mut self) -> PostgresError {
        let refusal = self.worst.take().unwrap_or(PostgresError::Woken);
        let is_standby = matches!(refusal, PostgresError::Standby { .. });
        let others = if matches!(refusal, PostgresError::Away { .. }) {
            refusal.to_string()
        } else if is_standby && !self.asking.is_empty() {
            format!("{} of the others has not answered", self.asking.len())
        } else {
            return refusal;
        };
        if self.standbys.is_empty() {
            return refusal;
        }
        PostgresError::NoPrimary { standbys: self.standbys.join(" and "), others }
    }

    /// The one that would be used, and those that take writes and were over before it began, if there are any.
    pub(super) fn earlier(&self) -> Option<Earlier<'_, T>> {
        let (_, best, _) = (!self.fit.is_empty()).then(|| latest(&self.fit).ok()).flatten()?;
        let earlier: Vec<_> = self.fit.iter().filter(|one| one.is_before(best)).collect();
        (!earlier.is_empty()).then_some((best, earlier))
    }

    /// What leads to one of those that are fit.
    pub(super) fn into_line(mut self, at: usize) -> T {
        self.fit.swap_remove(at).line
    }

    /// Why none of those that are fit could be used, where that is so: two of them take writes.
    pub(super) fn doubt(&self) -> Option<PostgresError> {
        (!self.fit.is_empty()).then(|| latest(&self.fit).err()).flatten()
    }

    /// Those that take writes with one history, and none of which is another's other name. Another cluster is none of them,
    /// nor is what does not tell its history: nobody has gone on from one in the other.
    pub(super) fn twins(&self) -> Vec<(History, &Found<T>)> {
        let last: Vec<_> = last(&self.fit).filter_map(|one| Some((one.history?, one))).collect();
        let is_one = |history: History| last.iter().any(|(other, _)| history.is_twin(*other));
        last.iter().filter(|(history, _)| is_one(*history)).copied().collect()
    }
}

/// Those of which none is known to be over.
fn last<T>(fit: &[Found<T>]) -> impl Iterator<Item = &Found<T>> {
    fit.iter().filter(|one| !fit.iter().any(|other| one.is_before(other)))
}

/// The one with the latest history, by its place, and all the hosts that lead there. None where two take writes and neither
/// is the later one: what is decided at one of them is open at the other, and would be done twice.
fn latest<T>(fit: &[Found<T>]) -> Result<(usize, &Found<T>, BTreeSet<usize>), PostgresError> {
    let is_latest =
        |one: &Found<T>| fit.iter().all(|other| other.is_same(one) || other.is_before(one));
    let Some((at, best)) = fit.iter().enumerate().find(|(_, one)| is_latest(one)) else {
        let places: Vec<_> = last(fit).map(|one| one.place.as_str()).collect();
        return Err(PostgresError::Twins { places: places.join(" and ") });
    };
    let same = fit.iter().filter(|other| other.is_same(best)).map(|other| other.host);
    Ok((at, best, same.collect()))
}

/// Of several reasons the one that a person can do most about is told.
fn weight(error: &PostgresError) -> u8 {
    match error {
        PostgresError::Standby { .. } | PostgresError::NoPrimary { .. } => 0,
        PostgresError::Away { .. } => 1,
        // One that answers says more than one that does not.
        PostgresError::Says { .. } => 2,
        PostgresError::Address { .. }
        | PostgresError::Crowded { .. }
        | PostgresError::Unanswered { .. }
        | PostgresError::NoStandby { .. }
        | PostgresError::Denied { .. }
        | PostgresError::NotOwner { .. }
        | PostgresError::Untrusted { .. }
        | PostgresError::TooOld { .. }
        | PostgresError::Woken
        | PostgresError::Twins { .. }
        | PostgresError::Parted { .. }
        | PostgresError::Another { .. }
        | PostgresError::Unsafe { .. }
        | PostgresError::NoStore { .. }
        | PostgresError::Older { .. }
        | PostgresError::Served { .. }
        | PostgresError::Newer { .. }
        | PostgresError::NewerForm { .. }
        | PostgresError::OlderReplica { .. }
        | PostgresError::Altered { .. } => 3,
    }
}

/// The server that this process uses, and since when it finds only such as are no later.
#[derive(Debug, Default)]
pub(super) struct Histories(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    /// What it told last.
    latest: Option<History>,
    /// What the first one told that was ever used.
    first: Option<History>,
    /// The hosts that led to it; none while nothing was used.
    hosts: BTreeSet<usize>,
    passing_over: Option<Instant>,
}

impl Used {
    /// Why a server is not the one that is used, where it is not, nor a later one. At a host that led there it is: that
    /// was started again, or another was put in its place there.
    fn refuse(
        &self,
        (history, hosts): (Option<History>, &BTreeSet<usize>),
        place: &str,
    ) -> Result<(), PostgresError> {
        if let Some((found, latest)) = history.zip(self.latest) {
            if found == latest || latest.is_before(found) {
                return Ok(());
            }
            if found.is_before(latest) {
                return Err(PostgresError::Woken);
            }
        }
        if self.hosts.is_empty() || !self.hosts.is_disjoint(hosts) {
            return Ok(());
        }
        Err(PostgresError::Another { place: place.to_owned() })
    }
}

impl Histories {
    /// Whether any was used.
    pub(super) fn is_used(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).hosts.is_empty()
    }

    /// Whether this process has lived in that history, or in one before it: then it knows itself what was there.
    pub(super) fn has_lived_in(&self, history: History) -> bool {
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        used.first.is_some_and(|first| !history.is_before(first))
    }

    /// Uses a server from now on, and no other that is no later; refuses one that is not to be used.
    fn admit(
        &self,
        (history, hosts): (Option<History>, &BTreeSet<usize>),
        place: &str,
        now: Instant,
    ) -> Result<(), PostgresError> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = used.refuse((history, hosts), place);
        let since = *used.passing_over.get_or_insert(now);
        if refused.is_err() && now.duration_since(since) < PASSED_OVER {
            return refused;
        }
        let (mut latest, mut hosts) = (history, hosts.clone());
        // It tells no more than before, or answers more slowly under another name.
        if refused.is_ok() && (history.is_none() || history == used.latest) {
            latest = used.latest;
            hosts.extend(&used.hosts);
        }
        let first = used.first.or(history);
        *used = Used { latest, first, hosts, passing_over: None };
        Ok(())
    }

    /// Whether a connection to a server with that history leads to another than the one that is used now.
    pub(super) fn is_past(&self, history: Option<History>) -> bool {
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        history.is_some() && !used.hosts.is_empty() && history != used.latest
    }
}

#[cfg(test)]
#[path = "hosts_tests.rs"]
mod tests;
