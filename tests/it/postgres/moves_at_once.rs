//! Two stores on their way into one database, or one that comes late: whoever was there first is in charge, and nothing of
//! theirs is taken away.

use std::fs::{self, File};
use std::path::Path;

use holdpoint::ports::identity::Identity;
use holdpoint::store::moving::{Move, MoveError};
use holdpoint::store::{PostgresConfig, StoreConfig};
use tempfile::TempDir;

use crate::postgres::moved::{cut_off, folder, is_done};
use crate::support::kit::Play;
use crate::support::postgres::Database;
use crate::support::server::Setup;
use crate::terminal::cli::holdpoint;

/// A directory with a run that waits.
async fn waiting_store(root: &Path, number: u64) -> holdpoint::store::Store {
    let store = holdpoint::store::open(&StoreConfig::new(root)).await.unwrap();
    let journal = store.journal();
    Identity::fresh(format!("epoch {number}")).keep(&*journal).await.unwrap();
    let (play, begin) = Play::begin(number, &format!("s{number}"), "ann", 10);
    let (digest, definition) = crate::support::kit::definition(&play.run.workflow);
    journal.put_definition(&digest, &definition).await.unwrap();
    journal.append(begin).await.unwrap();
    store
}

async fn count(client: &tokio_postgres::Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_became_a_store_while_a_move_came_to_it_is_not_emptied() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let config = PostgresConfig::new(&database.address()).unwrap();
    let store = waiting_store(root.path(), 1).await;
    // Somebody is a moment ahead: what they write is not to be seen yet.
    let (ahead, other) = (database.client().await, database.client().await);
    let sql = "begin; lock table holdpoint.kept in exclusive mode; \
               insert into holdpoint.definitions values ('a', 'b')";
    ahead.batch_execute(sql).await.unwrap();
    let begun =
        tokio::spawn(async move { Move::begin(&store, &config, "late".into()).await.map(drop) });
    let waits = "select count(*) from pg_stat_activity \
                 where datname = current_database() and wait_event_type = 'Lock'";
    while count(&other, waits).await == 0 {
        tokio::task::yield_now().await;
    }
    ahead.batch_execute("commit").await.unwrap();
    let refused = begun.await.unwrap();
    assert!(matches!(refused, Err(MoveError::Taken { .. })), "{refused:?}");
    assert_eq!(count(&other, "select count(*) from holdpoint.definitions").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_another_store_has_moved_to_is_not_emptied_though_its_mark_was_left() {
    let (root, _tool) = folder().await;
    let (root, database) = (root.path(), Database::empty().await);
    let address = database.address();
    let waiting = cut_off(root, &address, "move.left").await;
    let other = TempDir::new().unwrap();
    let config = PostgresConfig::new(&address).unwrap();
    let store = waiting_store(other.path(), 2).await;
    let refused = Move::begin(&store, &config, "other".into()).await.map(drop);
    assert!(matches!(refused, Err(MoveError::Taken { .. })), "{refused:?}");
    let server = Setup::new(root).arg("--store").arg(&address).start();
    is_done(&server, &waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_moves_at_once_the_one_that_began_first_puts_nothing_more() {
    let (one, two, database) =
        (TempDir::new().unwrap(), TempDir::new().unwrap(), Database::empty().await);
    let config = PostgresConfig::new(&database.address()).unwrap();
    let (first, second) = (waiting_store(one.path(), 1).await, waiting_store(two.path(), 2).await);
    let mut early = Move::begin(&first, &config, "one".into()).await.unwrap();
    let mut late = Move::begin(&second, &config, "two".into()).await.unwrap();
    let refused = early.copy(&|_| {}).await;
    assert!(refused.is_err(), "another has begun since");
    assert!(early.keep("keys", "theirs").await.is_err(), "nor keys that nobody has there");
    early.give_up();
    late.copy(&|_| {}).await.unwrap();
    assert_eq!(late.finish().await.unwrap().runs, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_not_removed_where_it_counts_no_more_by_whoever_waited_for_a_move() {
    let (root, database) = (TempDir::new().unwrap(), Database::empty().await);
    let data = root.path().join("data");
    let added = holdpoint(root.path(), &["keys", "add", "ada", "--data", "data"], "");
    assert_eq!(added.code, 0, "{added:?}");
    let before = fs::read(data.join("keys.toml")).unwrap();
    // Whoever moves a store has this while its keys go along.
    let lock = File::create(data.join("keys.toml.lock")).unwrap();
    lock.lock().unwrap();
    let own = root.path().to_owned();
    let removed = tokio::task::spawn_blocking(move || {
        holdpoint(&own, &["keys", "remove", "ada", "--data", "data"], "")
    });
    let store = waiting_store(&data, 1).await;
    let config = PostgresConfig::new(&database.address()).unwrap();
    let mut moving = Move::begin(&store, &config, "one".into()).await.unwrap();
    moving.copy(&|_| {}).await.unwrap();
    moving.finish().await.unwrap();
    drop(lock);
    let told = removed.await.unwrap();
    assert_ne!(told.code, 0, "{told:?}");
    assert!(told.err.contains("moved") && told.err.contains("--store"), "{told:?}");
    assert_eq!(fs::read(data.join("keys.toml")).unwrap(), before);
}
