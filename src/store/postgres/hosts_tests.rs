//! What the choice of a host promises: the latest of those that take writes, and none where nobody knows which that is.

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
        told.contains(": two answers, as a standby") && told.contains("1 of the others has not"),
        "{told}"
    );
}

#[tokio::test]
async fn beside_a_host_that_is_away_the_standby_is_told_that_waits_to_be_promoted() {
    let waits = Waits { found: EVER, refused: EVER };
    for asking in [vec![fails(away()), fails(standby())], vec![fails(standby()), fails(away())]] {
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
    let all = vec![one("one", 0, copy(4)), one("two", 1, copy(9)), one("three", 2, Some(at(5)))];
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
    for asking in [vec![fails(away()), fails(crowded())], vec![fails(crowded()), fails(away())]] {
        let refused = chosen(asking, waits).await;
        assert!(matches!(refused, Err(PostgresError::Crowded { .. })), "{refused:?}");
    }
    let refused = chosen(vec![fails(away()), fails(begins())], waits).await;
    assert!(matches!(refused, Err(PostgresError::Says { .. })), "{refused:?}");
}
