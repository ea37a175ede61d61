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
mod tests {
    use futures::future::BoxFuture;
    use tokio::sync::oneshot;

    use super::*;

    type Asking = BoxFuture<'static, Result<Found<&'static str>, PostgresError>>;

    /// So long that a test would be stopped first.
    const EVER: Duration = Duration::from_hours(1);

    /// What a server of one cluster tells that was started with the history that it has.
    fn at(timeline: u32) -> History {
        History { system: 7, database: 5, timeline, started: timeline.into() }
    }

    fn one(line: &'static str, host: usize, history: Option<History>) -> Found<&'static str> {
        Found { line, history, host, place: line.into() }
    }

    fn found_at(line: &'static str, timeline: u32) -> Found<&'static str> {
        one(line, line.len(), Some(at(timeline)))
    }

    fn answers(line: &'static str, timeline: u32) -> Asking {
        Box::pin(async move { Ok(found_at(line, timeline)) })
    }

    /// One that answers after others have.
    fn late(line: &'static str, timeline: u32) -> Asking {
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(found_at(line, timeline))
        })
    }

    fn fails(error: PostgresError) -> Asking {
        Box::pin(async move { Err(error) })
    }

    fn hangs() -> Asking {
        Box::pin(std::future::pending())
    }

    fn standby() -> PostgresError {
        PostgresError::Standby { place: "two".into() }
    }

    fn away() -> PostgresError {
        PostgresError::Away { place: "one".into(), why: "nobody listens".into() }
    }

    async fn chosen(asking: Vec<Asking>, waits: Waits) -> Result<&'static str, PostgresError> {
        let mut answers = Answers::of(asking);
        answers.wait_for(waits).await;
        let at = answers.choose(&Histories::default())?;
        Ok(answers.into_line(at))
    }

    #[tokio::test]
    async fn a_host_that_hangs_costs_a_moment_and_not_its_patience() {
        let waits = Waits { found: Duration::from_millis(1), refused: EVER };
        let asking = vec![hangs(), fails(standby()), answers("three", 1)];
        assert_eq!(chosen(asking, waits).await.unwrap(), "three");
        // Where all have answered nobody is waited for.
        let waits = Waits { found: EVER, refused: EVER };
        let asking = vec![fails(away()), fails(standby()), late("three", 1)];
        assert_eq!(chosen(asking, waits).await.unwrap(), "three");
    }

    #[tokio::test]
    async fn while_nobody_takes_writes_it_is_soon_asked_anew() {
        let waits = Waits { found: EVER, refused: Duration::from_millis(1) };
        let refused = chosen(vec![hangs(), fails(standby())], waits).await;
        let told = refused.unwrap_err().to_string();
        assert!(
            told.contains(": two answers, as a standby")
                && told.contains("1 of the others has not"),
            "{told}"
        );
    }

    #[tokio::test]
    async fn beside_a_host_that_is_away_the_standby_is_told_that_waits_to_be_promoted() {
        let waits = Waits { found: EVER, refused: EVER };
        for asking in [vec![fails(away()), fails(standby())], vec![fails(standby()), fails(away())]]
        {
            let told = chosen(asking, waits).await.unwrap_err().to_string();
            assert!(
                told.contains("at one cannot") && told.contains(": two answers, as a standby"),
                "{told}"
            );
        }
    }

    #[tokio::test]
    async fn of_two_that_take_writes_it_is_the_one_that_was_promoted_last() {
        let waits = Waits { found: EVER, refused: EVER };
        for asking in
            [vec![answers("old", 4), late("newer", 5)], vec![answers("newer", 5), late("old", 4)]]
        {
            assert_eq!(chosen(asking, waits).await.unwrap(), "newer");
        }
    }

    #[tokio::test]
    async fn whatever_was_over_before_the_latest_began_is_held_against_it() {
        let earlier = async |all: Vec<Asking>| {
            let mut answers = Answers::of(all);
            answers.wait_for_all().await;
            let lines = |all: Vec<&Found<&'static str>>| all.iter().map(|one| one.line).collect();
            answers.earlier().map(|(best, all)| (best.line, lines(all)))
        };
        let both: Option<(&str, Vec<&str>)> =
            earlier(vec![answers("old", 4), answers("newer", 5)]).await;
        assert_eq!(both, Some(("newer", vec!["old"])));
        assert_eq!(earlier(vec![answers("newer", 5), fails(standby())]).await, None);
        assert_eq!(earlier(vec![answers("one", 4), answers("three", 4)]).await, None);
        assert_eq!(earlier(vec![fails(away())]).await, None);
    }

    #[test]
    fn two_that_take_writes_and_of_which_neither_is_later_are_both_refused_by_name() {
        let copy = |started| Some(History { started, ..at(4) });
        let other = Some(History { system: 8, ..at(4) });
        let beside = Some(History { database: 6, ..at(4) });
        for second in [copy(9), other, beside, None] {
            let both = vec![one("one", 0, copy(4)), one("two", 1, second)];
            let told = latest(&both).map(drop).unwrap_err();
            assert!(matches!(&told, PostgresError::Twins { places } if places == "one and two"));
            assert!(told.may_pass() && !told.is_away(), "it is waited for: {told}");
        }
        // Another that was promoted since is later than both.
        let all =
            vec![one("one", 0, copy(4)), one("two", 1, copy(9)), one("three", 2, Some(at(5)))];
        assert_eq!(latest(&all).unwrap().1.line, "three");
        // Two names of one server are no two servers.
        let names = vec![one("one", 0, copy(4)), one("two", 1, copy(4))];
        let (_, best, hosts) = latest(&names).unwrap();
        assert_eq!((best.line, hosts), ("one", BTreeSet::from([0, 1])));
    }

    /// A standby, one that takes writes, and a copy of it behind a slow line, which answers when that is said.
    fn with_a_slow_copy() -> (Vec<Asking>, oneshot::Sender<()>) {
        let (answer, answers) = oneshot::channel();
        let copy = |started| Some(History { started, ..at(4) });
        let quick: Asking = Box::pin(async move { Ok(one("one", 0, copy(4))) });
        let slow: Asking = Box::pin(async move {
            answers.await.unwrap();
            Ok(one("two", 1, copy(9)))
        });
        (vec![fails(standby()), quick, slow], answer)
    }

    #[tokio::test]
    async fn whoever_has_used_none_waits_for_each_host_that_may_still_answer() {
        // A host that said no does not shorten what another is given.
        let waits = Waits { refused: Duration::ZERO, ..FIRST };
        let (asking, answer) = with_a_slow_copy();
        let later = async {
            let moment = Duration::from_millis(5);
            tokio::time::timeout(moment, std::future::pending::<()>()).await.unwrap_err();
            answer.send(())
        };
        let (told, sent) = tokio::join!(chosen(asking, waits), later);
        assert!(matches!(told, Err(PostgresError::Twins { .. })), "{told:?}");
        sent.unwrap();
    }

    #[tokio::test]
    async fn a_copy_behind_a_slow_line_holds_nobody_up_and_is_heard_all_the_same() {
        let (asking, answer) = with_a_slow_copy();
        let mut answers = Answers::of(asking);
        answers.wait_for(Waits { found: Duration::ZERO, refused: EVER }).await;
        assert!(answers.doubt().is_none() && !answers.are_all() && answers.twins().is_empty());
        answer.send(()).unwrap();
        answers.wait_for_all().await;
        assert!(matches!(answers.doubt(), Some(PostgresError::Twins { .. })));
        assert!(answers.are_all() && answers.twins().len() == 2);
    }

    #[tokio::test]
    async fn two_that_take_writes_with_one_history_are_twins_and_no_others_are() {
        let copy = |started| Some(History { started, ..at(4) });
        let twins = async |all: Vec<Found<&'static str>>| {
            let asking: Vec<Asking> =
                all.into_iter().map(|one| -> Asking { Box::pin(async move { Ok(one) }) }).collect();
            let mut answers = Answers::of(asking);
            answers.wait_for_all().await;
            answers.twins().into_iter().map(|(history, _)| history).collect::<BTreeSet<_>>()
        };
        let both = twins(vec![one("one", 0, copy(4)), one("two", 1, copy(9))]).await;
        assert_eq!(both.len(), 2);
        // Another cluster, another database of this one, what tells nothing, another name and one that was promoted since are none.
        let other = Some(History { system: 8, ..at(4) });
        let beside = Some(History { database: 6, ..at(4) });
        for second in [other, beside, None, copy(4), Some(at(5))] {
            let none = twins(vec![one("one", 0, copy(4)), one("two", 1, second)]).await;
            assert_eq!(none, BTreeSet::new(), "{second:?}");
        }
    }

    /// Whether a server that was found at those hosts is used.
    fn is_used(histories: &Histories, history: History, hosts: &[usize], now: Instant) -> bool {
        let hosts = hosts.iter().copied().collect();
        histories.admit((Some(history), &hosts), "there", now).is_ok()
    }

    #[test]
    fn a_process_that_has_a_database_uses_no_other_with_the_same_history() {
        let (histories, now) = (Histories::default(), Instant::now());
        let life = |started| History { started, ..at(4) };
        assert!(is_used(&histories, life(1), &[0], now));
        assert!(!is_used(&histories, life(2), &[1], now), "its copy, while it is away");
        assert!(!is_used(&histories, History { system: 8, ..at(9) }, &[1], now));
        assert!(!is_used(&histories, History { database: 6, ..life(1) }, &[1], now));
        assert!(!histories.is_past(Some(life(1))), "what is open there stays");
        // It was started again, and is found under its other name, too.
        assert!(is_used(&histories, life(3), &[0], now));
        assert!(histories.is_past(Some(life(1))));
        assert!(is_used(&histories, life(3), &[2], now) && is_used(&histories, life(5), &[2], now));
        // One that was promoted since is gone to, wherever it is.
        assert!(is_used(&histories, at(5), &[1], now));
        assert!(histories.is_past(Some(life(5))));
        // What stays the only one was put there; from then on nothing that leads elsewhere is used.
        let copy = History { started: 9, ..at(5) };
        assert!(!is_used(&histories, copy, &[0], now));
        assert!(is_used(&histories, copy, &[0], now + PASSED_OVER));
        assert!(histories.is_past(Some(at(5))) && !histories.is_past(Some(copy)));
        assert!(!is_used(&histories, at(5), &[1], now + PASSED_OVER));
    }

    #[test]
    fn j10_a_primary_that_woke_is_not_gone_back_to() {
        let (histories, now) = (Histories::default(), Instant::now());
        let admits = |timeline, now| is_used(&histories, at(timeline), &[0], now);
        assert!(admits(4, now) && admits(5, now));
        assert!(
            histories.is_past(Some(at(4)))
                && !histories.is_past(Some(at(5)))
                && !histories.is_past(None)
        );
        assert!(!admits(4, now), "it was frozen while another was promoted");
        assert!(admits(5, now));
        assert!(!admits(4, now));
        // One that stays the only one was put there: it is used, and what it lacks is noticed elsewhere.
        assert!(!admits(4, now + PASSED_OVER / 2));
        assert!(admits(4, now + PASSED_OVER));
        // Another cluster's numbers say nothing about this one's: it was put where this one was.
        let other = History { system: 8, timeline: 1, started: 1, ..at(4) };
        assert!(is_used(&histories, other, &[0], now) && histories.is_past(Some(at(4))));
    }

    #[tokio::test]
    async fn where_none_is_fit_what_a_person_can_mend_is_told() {
        let waits = Waits { found: EVER, refused: EVER };
        let (why, remedy) = ("no".into(), "ask".into());
        let denied = PostgresError::Denied { place: "three".into(), why, remedy };
        let refused = chosen(vec![fails(standby()), fails(denied), fails(away())], waits).await;
        assert!(matches!(refused, Err(PostgresError::Denied { .. })), "{refused:?}");
        let refused = chosen(vec![fails(standby()), fails(away())], waits).await;
        assert!(matches!(refused, Err(PostgresError::NoPrimary { .. })), "{refused:?}");
    }

    #[tokio::test]
    async fn of_hosts_the_one_that_has_no_slots_is_blamed_and_not_the_one_that_is_dead() {
        let waits = Waits { found: EVER, refused: EVER };
        let crowded = || PostgresError::Crowded { place: "one".into(), why: "too many".into() };
        let begins =
            || PostgresError::Says { place: "one".into(), why: "it starts".into(), passes: true };
        for asking in [vec![fails(away()), fails(crowded())], vec![fails(crowded()), fails(away())]]
        {
            let refused = chosen(asking, waits).await;
            assert!(matches!(refused, Err(PostgresError::Crowded { .. })), "{refused:?}");
        }
        let refused = chosen(vec![fails(away()), fails(begins())], waits).await;
        assert!(matches!(refused, Err(PostgresError::Says { .. })), "{refused:?}");
    }
}
