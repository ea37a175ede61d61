//! The tables of a store on PostgreSQL, as whoever operates the database changes them: what is told of that, in which words,
//! and what is made again.

use holdpoint::store::{Migrated, PostgresConfig, PostgresError};
use serde_json::json;
use tempfile::TempDir;

use crate::postgres::served::House;
use crate::support::postgres::Database;
use crate::support::tool_server::Answer;
use crate::terminal::cli::holdpoint;

async fn refused(address: &str) -> PostgresError {
    let config = PostgresConfig::new(address).unwrap();
    holdpoint::store::open_postgres(&config).await.map(drop).unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_to_the_tables_is_told_in_words() {
    let database = Database::made().await;
    let client = database.client().await;
    for (change, back, words) in [
        (
            "alter table holdpoint.entries set unlogged",
            "alter table holdpoint.entries set logged",
            "`entries` is unlogged (`alter table holdpoint.entries set logged`)",
        ),
        (
            "alter table holdpoint.runs enable row level security",
            "alter table holdpoint.runs disable row level security",
            "`runs` has row security (`alter table holdpoint.runs disable row level security`)",
        ),
        (
            "alter table holdpoint.desks rename to aside",
            "alter table holdpoint.aside rename to desks",
            "the table `desks` is missing, and the table `aside` is new",
        ),
        (
            "create unique index u on holdpoint.desks (run)",
            "drop index holdpoint.u",
            "the unique index `u` on `desks` is new (`drop index holdpoint.u`)",
        ),
    ] {
        client.batch_execute(change).await.unwrap();
        let told = refused(&database.address()).await.to_string();
        assert!(told.contains(words), "{change}: {told}");
        client.batch_execute(back).await.unwrap();
    }
    database.open().await.journal().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_gone_refuses_nobody_is_named_and_is_made_again() {
    let database = Database::made().await;
    let config = PostgresConfig::new(&database.address()).unwrap();
    let client = database.client().await;
    let is_there = "select pg_get_indexdef('holdpoint.sessions_owner'::regclass)";
    let made: String = client.query_one(is_there, &[]).await.unwrap().get(0);
    client.batch_execute("drop index holdpoint.sessions_owner").await.unwrap();
    let journal = database.open().await.journal();
    let report = journal.verify().await.unwrap();
    journal.close().await;
    assert!(report.damage.is_empty(), "{report:?}");
    let missing = |line: &&String| line.contains("the index `sessions_owner` is missing");
    assert_eq!(report.tables.iter().filter(missing).count(), 1, "{report:?}");
    let mended = holdpoint::store::migrate(&config).await.unwrap();
    assert_eq!(mended, Migrated::Mended(vec!["sessions_owner".into()]));
    let again: String = client.query_one(is_there, &[]).await.unwrap().get(0);
    assert_eq!(made, again);
    assert_eq!(holdpoint::store::migrate(&config).await.unwrap(), Migrated::Current);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_warns_of_an_index_that_is_gone_and_commands_say_which_schema_there_is() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let address = database.address();
    let said = |words: &[&str]| {
        let told =
            holdpoint(root.path(), &[words, &["--store", &address, "--data", "x"]].concat(), "");
        assert_eq!(told.code, 0, "{words:?}: {told:?}");
        told.out
    };
    let client = database.client().await;
    client.batch_execute("drop index holdpoint.sessions_owner").await.unwrap();
    let house = House::open(&address, 1, ("unsafe", Answer::Json(json!("receipt 7")))).await;
    let (told, missing) = (house.servers[0].told(), "the index `sessions_owner` is missing");
    assert!(told.contains(missing) && told.contains("holdpoint store migrate"), "{told}");
    drop(house);
    let told = said(&["doctor"]);
    assert!(told.contains(missing), "{told}");
    assert!(told.contains("schema 4, records of form 4;"), "{told}");
    let told = said(&["store", "migrate"]);
    assert!(told.contains("(indexes: sessions_owner): schema 4"), "{told}");
    let told = said(&["store", "migrate", "--json"]);
    assert!(told.contains("\"schema\":4"), "{told}");
    let told = said(&["doctor"]);
    assert!(!told.contains("missing"), "{told}");
}
