//! Who is asked, as the tables have it: somebody's inbox is read without others', a store of the build before is laid out
//! once, and what does not agree with the heads is told.

use std::sync::Arc;

use holdpoint::ports::{Desk, Journal, Page};
use holdpoint::store::{Migrated, PostgresConfig, PostgresError};
use serde_json::json;

use crate::support::kit::{Play, WORDS, definition, workflow};
use crate::support::postgres::Database;

/// Requests of others, among which somebody's three are.
const OTHERS: u64 = 2_000;

/// A database with the definition of what is run, and the store in it.
async fn opened() -> (Database, Arc<dyn Journal>) {
    let database = Database::made().await;
    let journal = database.open().await.journal();
    let (digest, text) = definition(&workflow(None));
    journal.put_definition(&digest, &text).await.unwrap();
    (database, journal)
}

/// A run of somebody's own, which asks them something.
async fn asks(journal: &dyn Journal, number: u64, owner: &str) -> Play {
    let whose = (owner, owner);
    let begun = Play::begin_with(number, whose, 10 + number, &workflow(None), json!("Go."));
    let (mut play, begin) = begun;
    journal.append(begin).await.unwrap();
    journal.append(play.speak(WORDS, 10 + number)).await.unwrap();
    play
}

fn own(who: &str) -> Vec<Desk> {
    vec![Desk::began(who), Desk::asked(who)]
}

fn numbers(page: &Page<holdpoint::ports::Head>) -> Vec<String> {
    page.rows.iter().map(|head| head.run.to_string()).collect()
}

/// What lies on desks, row by row.
async fn lain(database: &Database) -> Vec<String> {
    let sql = "select d::text from holdpoint.desks d order by 1";
    let rows = database.client().await.query_typed(sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Rows of two tables that were ever read.
async fn read_ever(database: &Database) -> [i64; 2] {
    let sql = "select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint
        from pg_stat_user_tables where schemaname = 'holdpoint' and relname = $1";
    let client = database.client().await;
    let mut read = [0; 2];
    for (at, table) in ["runs", "desks"].into_iter().enumerate() {
        let row = client.query_one(sql, &[&table]).await.unwrap();
        read[at] = row.get(0);
    }
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn j7_somebodys_requests_are_found_without_a_look_at_those_of_others() {
    let (database, journal) = opened().await;
    let asking = (0..OTHERS + 3).map(|number| {
        let (journal, owner) = (Arc::clone(&journal), format!("other{number}"));
        let owner = if number % 800 == 7 { "ann".to_owned() } else { owner };
        tokio::spawn(async move { asks(&*journal, number, &owner).await })
    });
    for asked in asking.collect::<Vec<_>>() {
        asked.await.unwrap();
    }
    journal.close().await;
    let client = database.client().await;
    client.batch_execute("analyze holdpoint.runs, holdpoint.desks").await.unwrap();
    // Whoever would read the head of another's comes upon it.
    let broken = "update holdpoint.runs set head = 'none' where owner <> 'ann'";
    client.batch_execute(broken).await.unwrap();

    let config = PostgresConfig::new(&database.address()).unwrap();
    let looked = holdpoint::store::look_at_postgres(&config).await.unwrap().journal();
    let before = read_ever(&database).await;
    let page = looked.waiting_on(&own("ann"), None, 100).await.unwrap();
    assert_eq!(numbers(&page).len(), 3, "{page:?}");
    // What a connection has read is counted when it ends.
    looked.close().await;
    let looked = holdpoint::store::look_at_postgres(&config).await.unwrap().journal();
    let counted = async {
        loop {
            let now = read_ever(&database).await;
            if now[1] > before[1] {
                return [now[0] - before[0], now[1] - before[1]];
            }
            tokio::task::yield_now().await;
        }
    };
    let counted = tokio::time::timeout(std::time::Duration::from_mins(2), counted).await.unwrap();
    assert_eq!(counted, [3, 3], "rows of runs, and of desks");
    assert!(looked.waiting(None, 100).await.is_err(), "all of them cannot be read");
    looked.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j7_a_page_goes_on_after_the_one_before_and_has_each_run_once() {
    let (_database, journal) = opened().await;
    for number in 0..7 {
        asks(&*journal, number, if number == 3 { "bob" } else { "ann" }).await;
    }
    // On both desks of one who asks themselves.
    let desks = [own("ann"), own("ann"), own("nobody")].concat();
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = journal.waiting_on(&desks, cursor.as_deref(), 2).await.unwrap();
        assert!(page.rows.len() <= 2);
        found.extend(numbers(&page));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let all = journal.waiting(None, 100).await.unwrap();
    let anns: Vec<_> = all.rows.iter().filter(|head| head.owner == "ann").collect();
    assert_eq!(found, anns.iter().map(|head| head.run.to_string()).collect::<Vec<_>>());
    assert_eq!(found.len(), 6);
    let none = journal.waiting_on(&desks, Some("nothing"), 2).await.unwrap();
    assert!(none.rows.is_empty() && none.next.is_none());
    assert!(journal.waiting_on(&[], None, 2).await.unwrap().rows.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_build_before_is_laid_out_once_and_not_under_whoever_serves() {
    let (database, journal) = opened().await;
    for number in 0..5 {
        asks(&*journal, number, "ann").await;
    }
    asks(&*journal, 5, "bob").await.finish(&*journal, 900).await;
    let (before, client) = (lain(&database).await, database.client().await);
    assert_eq!(before.len(), 5, "what is over lies nowhere");
    let older = "drop table holdpoint.desks; alter table holdpoint.runs drop column desks;
        update holdpoint.meta set schema = 2";
    client.batch_execute(older).await.unwrap();
    let config = PostgresConfig::new(&database.address()).unwrap();
    let refused = holdpoint::store::migrate(&config).await.unwrap_err();
    assert!(matches!(refused, PostgresError::Served { servers: 1, .. }), "{refused}");
    assert!(refused.to_string().contains("stop them first"), "{refused}");
    client.batch_execute("delete from holdpoint.replicas").await.unwrap();
    assert_eq!(holdpoint::store::migrate(&config).await.unwrap(), Migrated::Raised);
    assert_eq!(lain(&database).await, before);
    assert_eq!(journal.verify().await.unwrap().damage, [""; 0]);
    assert_eq!(holdpoint::store::migrate(&config).await.unwrap(), Migrated::Current);
}

#[tokio::test(flavor = "multi_thread")]
async fn j7_desks_that_do_not_agree_with_the_heads_are_told() {
    let (database, journal) = opened().await;
    let play = asks(&*journal, 1, "ann").await;
    asks(&*journal, 2, "bob").await;
    let client = database.client().await;
    let saved = "create table public.desks as select * from holdpoint.desks;
        create table public.runs as select run, desks from holdpoint.runs";
    client.batch_execute(saved).await.unwrap();
    let back =
        "delete from holdpoint.desks; insert into holdpoint.desks select * from public.desks;
        update holdpoint.runs r set desks = s.desks from public.runs s where s.run = r.run";
    for (harm, word) in [
        ("delete from holdpoint.desks", "on whose desk it does not lie"),
        ("update holdpoint.desks set since = since + 1", "on whose desk it does not lie"),
        ("update holdpoint.desks set desk = 'another'", "whom it does not ask"),
        ("update holdpoint.desks set run = 'x'", "`desks` has 2 rows that belong to no run"),
        (
            "delete from holdpoint.desks; update holdpoint.runs set desks = null",
            "what it is found by",
        ),
    ] {
        assert_eq!(journal.verify().await.unwrap().damage, [""; 0]);
        client.batch_execute(harm).await.unwrap();
        let told = journal.verify().await.unwrap().damage;
        assert!(told.iter().any(|line| line.contains(word)), "{harm}: {told:?}");
        let names_it = told.iter().any(|line| line.contains(play.run.id.as_str()));
        assert!(names_it || word.contains("belong to no run"), "{harm}: {told:?}");
        client.batch_execute(back).await.unwrap();
    }
}
