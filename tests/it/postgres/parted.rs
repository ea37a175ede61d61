//! Two databases of one cluster, of which one was promoted later and does not come from the other: none of them is used, and
//! both are held. After a failover in which nothing was lost nobody is.

use std::sync::Arc;

use holdpoint::kernel::Millis;
use holdpoint::ports::Journal;
use holdpoint::store::{PostgresConfig, PostgresError};

use crate::contract::evidence::all_sequenced;
use crate::postgres::operators::{address_of, doubled, with};
use crate::support::kit::{Play, WORDS};
use crate::support::postgres::{Private, launch};

/// As a server that may have a standby.
const REPLICA: &[&str] = &["wal_level=replica"];

async fn open(address: &str) -> Result<Arc<dyn Journal>, PostgresError> {
    let config = PostgresConfig::new(address).unwrap();
    Ok(holdpoint::store::open_postgres(&config).await?.journal())
}

/// A server with a run in it, and a copy of it that takes writes as well.
async fn with_copy() -> ((Private, Private), Play) {
    let first = tokio::task::spawn_blocking(|| Private::start(REPLICA)).await.unwrap();
    let alone = PostgresConfig::new(&first.address("postgres")).unwrap();
    holdpoint::store::migrate(&alone).await.unwrap();
    let journal = open(&first.address("postgres")).await.unwrap();
    let (play, begin) = Play::begin(1, "s", "ann", 10);
    journal.append(begin).await.unwrap();
    journal.close().await;
    let both = tokio::task::spawn_blocking(move || {
        let copy = first.twin_with(REPLICA);
        (first, copy)
    });
    (both.await.unwrap(), play)
}

/// Goes on with a run where it is told to, as a server that leaves then.
async fn go_on(at: &Private, play: &mut Play) {
    let journal = open(&at.address("postgres")).await.unwrap();
    journal.append(play.speak(WORDS, 20)).await.unwrap();
    journal.close().await;
}

/// None of two is used, and both say that they are held, by both names.
async fn are_held(both: &(Private, Private), word: &str) {
    let told = open(&address_of(both)).await.map(drop).unwrap_err();
    assert!(matches!(told, PostgresError::Parted { .. }) && told.may_pass(), "{told}");
    assert!(told.to_string().contains(word), "{told}");
    let names = [&both.0, &both.1].map(|one| one.dir.path().display().to_string());
    assert!(names.iter().all(|name| told.to_string().contains(name)), "{told}");
    for one in [&both.0, &both.1] {
        let why = doubled(&one.address("postgres")).await.expect("it says so of itself");
        assert!(names.iter().all(|name| why.contains(name)), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_promoted_by_itself_is_not_used_in_place_of_its_original() {
    let (both, mut play) = with_copy().await;
    go_on(&both.0, &mut play).await;
    let both = with(both, |_, copy| copy.promote()).await;
    are_held(&both, "which has what was written last to run").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_standbys_that_were_both_promoted_the_one_promoted_more_often_is_not_used() {
    let (both, mut play) = with_copy().await;
    let mut again = play.clone();
    let both = with(both, |used, other| {
        used.promote();
        other.promote();
        other.promote();
    })
    .await;
    go_on(&both.0, &mut play).await;
    // What was done at the other since does not make up for what it lacks.
    let other = open(&both.1.address("postgres")).await.unwrap();
    other.append(again.speak("Other words.", 30)).await.unwrap();
    other.append(again.approve(40)).await.unwrap();
    other.close().await;
    are_held(&both, "which has what was written last to run").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_that_grew_apart_are_told_though_the_later_one_has_the_longer_ones() {
    for is_sequenced in [false, true] {
        let (both, mut play) = with_copy().await;
        // What was decided and done at the original is forgotten there, as it should be: no run tells of it any more.
        let first = open(&both.0.address("postgres")).await.unwrap();
        first.append(play.speak(WORDS, 20)).await.unwrap();
        play.finish(&*first, 30).await;
        assert_eq!(first.prune(Millis(100), 10).await.unwrap(), 1);
        let both = with(both, |_, copy| copy.promote()).await;
        let second = open(&both.1.address("postgres")).await.unwrap();
        for number in 2..8 {
            let (mut other, begin) = Play::begin(number, "s", "ann", 40);
            second.append(begin).await.unwrap();
            second.append(other.speak(WORDS, 50)).await.unwrap();
            other.finish(&*second, 60).await;
        }
        if is_sequenced {
            let (one, other) = (first.evidence(), second.evidence());
            assert!(all_sequenced(one).await < all_sequenced(other).await);
        }
        first.close().await;
        second.close().await;
        let word = if is_sequenced { "another leaf" } else { "a leaf that waits" };
        are_held(&both, word).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_original_that_answers_late_is_held_against_the_copy_that_is_used() {
    let (both, mut play) = with_copy().await;
    go_on(&both.0, &mut play).await;
    let both = with(both, |first, copy| {
        first.stop();
        copy.promote();
    })
    .await;
    let journal = open(&address_of(&both)).await.unwrap();
    journal.remember("one", "text").await.unwrap();
    let both = with(both, |first, _| launch(first.dir.path(), REPLICA)).await;
    let told = loop {
        drop(journal.replicas().unwrap().beat().await);
        if let Some(why) = journal.away() {
            break why;
        }
    };
    assert!(told.contains("what was written last to run"), "{told}");
    assert!(journal.remember("two", "text").await.is_err());
    journal.close().await;
    for one in [&both.0, &both.1] {
        assert!(doubled(&one.address("postgres")).await.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_without_loss_a_start_beside_the_old_primary_uses_the_new_one() {
    let (both, mut play) = with_copy().await;
    let both = with(both, |_, promoted| promoted.promote()).await;
    // At once, and after others have gone on at the new one.
    for append in [play.speak(WORDS, 20), play.approve(30)] {
        let journal = open(&address_of(&both)).await.unwrap();
        journal.append(append).await.unwrap();
        journal.close().await;
    }
    let there = open(&both.1.address("postgres")).await.unwrap();
    let head = there.head(&play.run.id).await.unwrap().unwrap();
    assert_eq!(head.version, play.run.version);
    there.close().await;
}

/// Gives signs of life for as long as somebody waits for something else.
async fn beating<T>(journal: &dyn Journal, other: impl Future<Output = T>) -> T {
    let beats = async {
        loop {
            journal.replicas().unwrap().beat().await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        done = other => done,
        () = beats => unreachable!("it beats for ever"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_server_lives_at_the_earlier_one_nobody_starts_at_the_later_one() {
    let (both, _) = with_copy().await;
    let living = open(&both.0.address("postgres")).await.unwrap();
    let both = with(both, |_, copy| copy.promote()).await;
    beating(&*living, are_held(&both, "signs of life")).await;
    living.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_at_the_later_one_decides_nothing_while_somebody_lives_at_the_earlier_one() {
    let (both, _) = with_copy().await;
    let both = with(both, |_, promoted| promoted.promote()).await;
    let journal = open(&address_of(&both)).await.unwrap();
    journal.remember("one", "text").await.unwrap();
    let living = open(&both.0.address("postgres")).await.unwrap();
    let told = async {
        loop {
            drop(journal.replicas().unwrap().beat().await);
            // Before the later one has answered, the earlier one is told to be what it is.
            if journal.away().is_some_and(|why| why.contains("signs of life")) {
                return;
            }
        }
    };
    beating(&*living, told).await;
    assert!(journal.remember("two", "text").await.is_err());
    living.close().await;
    journal.close().await;
    for one in [&both.0, &both.1] {
        assert!(doubled(&one.address("postgres")).await.is_some());
    }
}
