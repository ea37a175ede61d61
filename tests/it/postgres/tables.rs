//! The tables of a store on PostgreSQL, as whoever operates the database changes them: what is told of that, in which words,
//! what is made again, and what servers that live do about it.

use holdpoint::store::{Migrated, PostgresConfig, PostgresError};
use serde_json::json;
use tempfile::TempDir;

use crate::postgres::replicas::{ready, said};
use crate::postgres::rewound::Picture;
use crate::postgres::served::House;
use crate::support::postgres::Database;
use crate::support::server::{answer_to, names, send};
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
            "create table holdpoint.extra (x int)",
            "drop table holdpoint.extra",
            "the table `extra` is new (`drop table holdpoint.extra`, or where it is a view `drop view holdpoint.extra`)",
        ),
        (
            "alter table holdpoint.runs add column x int",
            "alter table holdpoint.runs drop column x",
            "the column `runs.x` is new (`alter table holdpoint.runs drop column x`)",
        ),
        (
            "create unique index u on holdpoint.desks (run)",
            "drop index holdpoint.u",
            "the unique index `u` on `desks` is new (`drop index holdpoint.u`)",
        ),
        // Dropped before the trigger that calls it, the function would stay.
        (
            "create function holdpoint.f() returns trigger language plpgsql as 'begin return null; end'; \
             create trigger t before insert on holdpoint.runs for each row execute function holdpoint.f()",
            "drop trigger t on holdpoint.runs; drop function holdpoint.f",
            "the trigger `t` on `runs` is new (`drop trigger t on holdpoint.runs`), and the function `f` is new (`drop \
             function holdpoint.f`)",
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
async fn how_a_server_is_set_to_write_things_is_not_taken_for_what_was_done_to_the_tables() {
    let (made, empty) = (Database::made().await, Database::empty().await);
    let settings = ["bytea_output = escape", "quote_all_identifiers = on"];
    let settings = [&settings[..], &["standard_conforming_strings = off"]].concat();
    for database in [&made, &empty] {
        let client = database.client().await;
        for setting in &settings {
            let set = format!("alter database {} set {setting}", database.name);
            client.batch_execute(&set).await.unwrap();
        }
    }
    // One that was made before, and one that is made so.
    let config = PostgresConfig::new(&empty.address()).unwrap();
    holdpoint::store::migrate(&config).await.unwrap();
    for database in [made, empty] {
        database.open().await.journal().close().await;
        let reset = format!("alter database {} reset all", database.name);
        database.client().await.batch_execute(&reset).await.unwrap();
        database.open().await.journal().close().await;
    }
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
    assert!(told.contains("schema 4, records of form 5;"), "{told}");
    let told = said(&["store", "migrate"]);
    assert!(told.contains("(indexes: sessions_owner): schema 4"), "{told}");
    let told = said(&["store", "migrate", "--json"]);
    assert!(told.contains("\"schema\":4"), "{told}");
    let told = said(&["doctor"]);
    assert!(!told.contains("missing"), "{told}");
}

/// What a server says of tables that are missing.
const MISSING: &str = "the table `marks` is missing; put that back, or restore the database with all servers stopped, and say \
     `holdpoint restored` before they start";

/// Two servers over a database, of which a picture was taken when something was asked, and was paid for afterwards.
async fn paid(database: &Database) -> (House, Picture) {
    let pays = ("unsafe", Answer::Json(json!("receipt 7")));
    let house = House::open(&database.address(), 2, pays).await;
    let (_, request) = house.asked("k").await;
    let picture = Picture::take(database).await;
    let mut client = house.servers[0].client().await;
    let told = send(&mut client, answer_to(&request, "approve", "yes")).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
    for server in &house.servers {
        ready(server).await;
    }
    (house, picture)
}

/// Every server says so, once it has looked.
async fn all_say(house: &House, words: &str) {
    for server in &house.servers {
        let told = said(server, "/readyz", |_, told| told.contains(words)).await;
        assert_eq!(server.page("/readyz").0, 503, "{told}");
    }
}

/// They hold the store, and so does whoever is started afterwards.
async fn are_held(house: &mut House) {
    all_say(house, "held: the store has gone back in time").await;
    for server in &mut house.servers {
        server.kill();
    }
    house.servers[0].restart_here();
    let server = &house.servers[0];
    let told = said(server, "/readyz", |_, told| !told.starts_with("waiting:")).await;
    assert!(told.contains("held: the store has gone back in time"), "{told}");
    assert_eq!(house.tool.seen().len(), 1, "it is paid once");
}

#[tokio::test(flavor = "multi_thread")]
async fn j10_tables_that_were_altered_and_put_back_from_before_are_held_by_whoever_lived_meanwhile()
{
    let database = Database::made().await;
    let (mut house, picture) = paid(&database).await;
    let client = database.client().await;
    client.batch_execute("alter table holdpoint.runs add column x int").await.unwrap();
    all_say(&house, "the column `runs.x` is new (`alter table holdpoint.runs drop column x`)")
        .await;
    let back = "alter table holdpoint.runs drop column x; delete from holdpoint.replicas";
    picture.go_back_after(back).await;
    are_held(&mut house).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j10_a_table_that_comes_back_with_less_is_held_and_what_is_told_meanwhile_is_what_is_so() {
    let database = Database::made().await;
    let (mut house, _) = paid(&database).await;
    let client = database.client().await;
    let change = async |sql: &str| client.batch_execute(sql).await.unwrap();
    change("create table holdpoint.extra (x int)").await;
    all_say(&house, "the table `extra` is new (`drop table holdpoint.extra`, or where it is a view `drop view holdpoint.extra`)").await;
    change("begin; drop table holdpoint.extra; create schema aside; alter table holdpoint.marks set schema aside; commit").await;
    all_say(&house, MISSING).await;
    change("begin; delete from aside.marks; alter table aside.marks set schema holdpoint; commit")
        .await;
    are_held(&mut house).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_away_for_a_while_is_named_by_whoever_lives_and_holds_nobody_afterwards() {
    let database = Database::made().await;
    let (house, _) = paid(&database).await;
    let client = database.client().await;
    let moved = "create schema aside; alter table holdpoint.marks set schema aside";
    client.batch_execute(moved).await.unwrap();
    all_say(&house, MISSING).await;
    client.batch_execute("alter table aside.marks set schema holdpoint").await.unwrap();
    for server in &house.servers {
        ready(server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_upon_a_table_that_is_gone_is_told_which_and_what_to_do() {
    let database = Database::made().await;
    let journal = database.open().await.journal();
    let replicas = journal.replicas().unwrap();
    replicas.beat().await.unwrap();
    let client = database.client().await;
    let moved = "create schema aside; alter table holdpoint.marks set schema aside";
    client.batch_execute(moved).await.unwrap();
    for told in [
        replicas.look_back().await.unwrap_err().to_string(),
        replicas.beat().await.unwrap_err().to_string(),
        journal.remember("name", "text").await.unwrap_err().to_string(),
        journal.away().unwrap(),
    ] {
        assert!(told.contains(MISSING), "{told}");
    }
    // What is told is what is so now, though no sign of life can be given.
    let moved = "begin; alter table aside.marks set schema holdpoint; create table holdpoint.extra (x int); commit";
    client.batch_execute(moved).await.unwrap();
    assert_eq!(replicas.look_back().await.unwrap(), None);
    let told = journal.away().unwrap();
    assert!(told.contains("the table `extra` is new") && !told.contains("marks"), "{told}");
    client.batch_execute("drop table holdpoint.extra").await.unwrap();
    assert_eq!(replicas.look_back().await.unwrap(), None);
    assert_eq!(journal.away(), None);
    journal.remember("name", "text").await.unwrap();
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_a_right_that_whoever_serves_lacks() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (client, role) = (database.client().await, format!("server_{}", database.name));
    let made = format!(
        "create role {role} login; grant usage on schema holdpoint to {role}; \
         grant select, insert, update, delete on all tables in schema holdpoint to {role}"
    );
    client.batch_execute(&made).await.unwrap();
    let address = database.address().replacen("holdpoint@", &format!("{role}@"), 1);
    let doctor = || holdpoint(root.path(), &["doctor", "--store", &address, "--data", "x"], "");
    let told = doctor();
    assert!(told.code == 0 && !told.out.contains("rights"), "{told:?}");
    client.batch_execute(&format!("revoke update on holdpoint.outbox from {role}")).await.unwrap();
    let told = doctor();
    assert_ne!(told.code, 0, "no server serves with that: {told:?}");
    let all = format!("{}{}", told.out, told.err);
    assert!(all.contains("permission denied to update in holdpoint.outbox"), "{told:?}");
    assert!(all.contains(&format!("grant update on holdpoint.outbox to {role}")), "{told:?}");
    client.batch_execute(&format!("drop owned by {role}; drop role {role}")).await.unwrap();
}
