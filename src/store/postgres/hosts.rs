//! Hosts: which of the servers that an address names is used. All of them are asked at once, so that one that hangs holds
//! nobody up; of several that take writes it is the one with the latest history. A server that was a primary once, was
//! frozen while another took its place, and wakes believes that it still is: what was written since is not there, and
//! what is written there is lost. It decides; the asking is another's.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::store::postgres::config::PostgresError;

/// How long others are waited for.
#[derive(Debug, Clone, Copy)]
struct Waits {
    /// Once one is found: in a network that works, all answer within it.
    found: Duration,
    /// Once one has said no: whoever takes its place may be found by asking anew.
    refused: Duration,
}

const WAITS: Waits = Waits { found: Duration::from_millis(250), refused: Duration::from_secs(5) };
/// For how long a server with an older history is passed over: a keeper stops one that woke within half of that. One that
/// is still the only one then was put there by somebody, and what it lacks is noticed.
const PASSED_OVER: Duration = Duration::from_mins(1);

/// Which history a server tells: each promotion begins another, with a higher number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct History {
    /// The cluster, which all its servers have in common.
    pub(super) system: i64,
    /// The timeline.
    pub(super) timeline: u32,
}

impl History {
    /// Whether this one was over when the other began.
    fn is_before(self, other: Self) -> bool {
        self.system == other.system && self.timeline < other.timeline
    }
}

/// A server that answered and is fit to be used, by whatever leads to it.
#[derive(Debug)]
pub(super) struct Found<T> {
    pub(super) line: T,
    /// None where it does not tell.
    pub(super) history: Option<History>,
}

/// Waits for the first that is fit, and a moment longer for a better one.
pub(super) async fn choose<T, Asking>(
    asking: impl IntoIterator<Item = Asking>,
    histories: &Histories,
) -> Result<Found<T>, PostgresError>
where
    Asking: Future<Output = Result<Found<T>, PostgresError>>,
{
    let best = best(asking, WAITS).await?;
    if histories.admit(best.history, Instant::now()) { Ok(best) } else { Err(PostgresError::Woken) }
}

/// The one with the latest history of those that are fit.
async fn best<T, Asking>(
    asking: impl IntoIterator<Item = Asking>,
    waits: Waits,
) -> Result<Found<T>, PostgresError>
where
    Asking: Future<Output = Result<Found<T>, PostgresError>>,
{
    let mut asking: FuturesUnordered<_> = asking.into_iter().collect();
    let (mut best, mut worst): (Option<Found<T>>, Option<PostgresError>) = (None, None);
    let mut until: Option<Instant> = None;
    loop {
        let answer = match until {
            None => asking.next().await,
            Some(until) => match tokio::time::timeout_at(until, asking.next()).await {
                Ok(answer) => answer,
                Err(_) => break,
            },
        };
        match answer {
            None => break,
            Some(Ok(found)) => {
                let soon = Instant::now() + waits.found;
                until = Some(until.map_or(soon, |until| until.min(soon)));
                let is_later = |best: &Found<T>| match (best.history, found.history) {
                    (Some(best), Some(found)) => best.is_before(found),
                    _ => false,
                };
                if best.as_ref().is_none_or(is_later) {
                    best = Some(found);
                }
            }
            Some(Err(error)) => {
                until.get_or_insert_with(|| Instant::now() + waits.refused);
                if worst.as_ref().is_none_or(|worst| weight(&error) > weight(worst)) {
                    worst = Some(error);
                }
            }
        }
    }
    best.ok_or_else(|| worst.unwrap_or(PostgresError::Woken))
}

/// Of several reasons the one that a person can do most about is told.
fn weight(error: &PostgresError) -> u8 {
    match error {
        PostgresError::Standby { .. } => 0,
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

/// The latest history that this process has used, and since when it finds only older ones.
#[derive(Debug, Default)]
pub(super) struct Histories(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    latest: Option<History>,
    passing_over: Option<Instant>,
}

impl Histories {
    /// Whether a server with that history is to be used; from then on none with an older one is.
    fn admit(&self, history: Option<History>, now: Instant) -> bool {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(history), Some(latest)) = (history, used.latest)
            && history.is_before(latest)
            && now.duration_since(*used.passing_over.get_or_insert(now)) < PASSED_OVER
        {
            return false;
        }
        *used = Used { latest: history.or(used.latest), passing_over: None };
        true
    }

    /// Whether a connection to a server with that history leads to where others have gone on since.
    pub(super) fn is_past(&self, history: Option<History>) -> bool {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner).latest;
        history.zip(latest).is_some_and(|(history, latest)| history.is_before(latest))
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;

    use super::*;

    type Asking = BoxFuture<'static, Result<Found<&'static str>, PostgresError>>;

    /// So long that a test would be stopped first.
    const EVER: Duration = Duration::from_hours(1);

    fn at(timeline: u32) -> History {
        History { system: 7, timeline }
    }

    fn answers(line: &'static str, timeline: u32) -> Asking {
        Box::pin(async move { Ok(Found { line, history: Some(at(timeline)) }) })
    }

    /// One that answers after others have.
    fn late(line: &'static str, timeline: u32) -> Asking {
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(Found { line, history: Some(at(timeline)) })
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
        best(asking, waits).await.map(|found| found.line)
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
        assert!(matches!(refused, Err(PostgresError::Standby { .. })), "{refused:?}");
    }

    #[tokio::test]
    async fn of_two_that_take_writes_it_is_the_one_that_was_promoted_last() {
        let waits = Waits { found: EVER, refused: EVER };
        for asking in
            [vec![answers("old", 4), late("new", 5)], vec![answers("new", 5), late("old", 4)]]
        {
            assert_eq!(chosen(asking, waits).await.unwrap(), "new");
        }
    }

    #[test]
    fn j10_a_primary_that_woke_is_not_gone_back_to() {
        let (histories, now) = (Histories::default(), Instant::now());
        assert!(histories.admit(Some(at(4)), now) && histories.admit(Some(at(5)), now));
        assert!(
            histories.is_past(Some(at(4)))
                && !histories.is_past(Some(at(5)))
                && !histories.is_past(None)
        );
        assert!(!histories.admit(Some(at(4)), now), "it was frozen while another was promoted");
        assert!(histories.admit(Some(at(5)), now));
        assert!(!histories.admit(Some(at(4)), now));
        // Another cluster's numbers say nothing about this one's.
        assert!(!histories.is_past(Some(History { system: 8, timeline: 1 })));
        // One that stays the only one was put there: it is used, and what it lacks is noticed elsewhere.
        assert!(!histories.admit(Some(at(4)), now + PASSED_OVER / 2));
        assert!(histories.admit(Some(at(4)), now + PASSED_OVER));
    }

    #[tokio::test]
    async fn where_none_is_fit_what_a_person_can_mend_is_told() {
        let waits = Waits { found: EVER, refused: EVER };
        let denied = PostgresError::Denied { place: "three".into(), why: "no".into() };
        let refused = chosen(vec![fails(standby()), fails(denied), fails(away())], waits).await;
        assert!(matches!(refused, Err(PostgresError::Denied { .. })), "{refused:?}");
        let refused = chosen(vec![fails(standby()), fails(away())], waits).await;
        assert!(matches!(refused, Err(PostgresError::Away { .. })), "{refused:?}");
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
