//! What an operator of a database comes upon: a standby that is missing, limits and settings of a role, a directory with a
//! store of its own, and variables that name two places. Each is told with its remedy, and nothing vanishes.

use std::path::Path;

use holdpoint::ports::identity::Identity;
use holdpoint::store::{PostgresConfig, PostgresError};
use holdpoint::wire::v1::ReleaseStoreRequest;
use serde_json::json;
use tempfile::TempDir;
use tonic_types::StatusExt as _;

use crate::postgres::served::House;
use crate::support::postgres::{Database, Private, launch};
use crate::support::server::{Setup, answer_to, asked, journal, names, send};
use crate::support::tool_server::Answer;
use crate::terminal::cli::{Ended, holdpoint, with_env};

/// Connections that one server has to one host at most.
const CONNECTIONS_MAX: i64 = 16;

async fn refused(address: &str) -> PostgresError {
    let config = PostgresConfig::new(address).unwrap();
    holdpoint::store::open_postgres(&config).await.map(drop).unwrap_err()
}

/// Does something with servers that takes its time.
pub(crate) async fn with(
    both: (Private, Private),
    deed: impl FnOnce(&Private, &Private) + Send + 'static,
) -> (Private, Private) {
    let done = tokio::task::spawn_blocking(move || {
        deed(&both.0, &both.1);
        both
    });
    done.await.unwrap()
}

/// An address that names both.
pub(crate) fn address_of(both: &(Private, Private)) -> String {
    let host = |one: &Private| {
        let address = one.address("postgres");
        address.split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned()
    };
    let hosts = format!("{},{}", host(&both.0), host(&both.1));
    format!("postgres://holdpoint@{hosts}/postgres?durability=single")
}

/// Why a store says that it is held, where it does for that.
pub(crate) async fn doubled(address: &str) -> Option<String> {
    let config = PostgresConfig::new(address).unwrap();
    let journal = holdpoint::store::look_at_postgres(&config).await.unwrap().journal();
    let known = Identity::of(&*journal).await.unwrap().unwrap();
    assert_eq!(known.is_rewound, known.twins.is_some(), "{known:?}");
    known.why_doubled()
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_of_two_with_one_history_is_left_alone_is_held_until_somebody_releases_it() {
    let first = tokio::task::spawn_blocking(|| Private::start(&[])).await.unwrap();
    let alone = first.address("postgres");
    holdpoint::store::migrate(&PostgresConfig::new(&alone).unwrap()).await.unwrap();
    let pays = || ("unsafe", Answer::Json(json!("receipt 7")));
    let mut house = House::open(&alone, 1, pays()).await;
    let (run, request) = house.asked("k").await;
    house.servers[0].terminate();
    house.servers[0].wait();
    let both = tokio::task::spawn_blocking(move || {
        let twin = first.twin();
        (first, twin)
    });
    let both = both.await.unwrap();
    let address = address_of(&both);
    let config = PostgresConfig::new(&address).unwrap().of_one_server();
    let told = holdpoint::store::open_postgres(&config).await.map(drop).unwrap_err();
    assert!(matches!(told, PostgresError::Twins { .. }), "{told}");
    for one in [&both.0, &both.1] {
        let why = doubled(&one.address("postgres")).await.expect("it says so of itself");
        let names = [&both.0, &both.1].map(|one| one.dir.path().display().to_string());
        assert!(names.iter().all(|name| why.contains(name)), "{why}");
    }
    // Whoever is started where one of them is left could not know, and does nothing.
    let both = with(both, |first, _| first.stop()).await;
    let other = House::open(&address, 1, pays()).await;
    let (status, told) = other.servers[0].page("/readyz");
    assert_eq!(status, 503, "{told}");
    assert!(told.contains("held: two databases with one history took writes"), "{told}");
    let mut client = other.servers[0].client().await;
    let held = client.send_responses(answer_to(&request, "approve", "yes")).await.unwrap_err();
    let reason = held.get_details_error_info().unwrap().reason;
    assert!(["store.held", "request.asked_anew"].contains(&reason.as_str()), "{held}");
    assert_eq!(house.tool.seen().len(), 0);
    // Once somebody has looked it is asked anew, there and nowhere else.
    client.release_store(ReleaseStoreRequest::default()).await.unwrap();
    let anew = asked(&journal(&mut client, &run).await).unwrap().request_id;
    assert_ne!(anew, request);
    let told = send(&mut client, answer_to(&anew, "approve", "yes")).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
    assert_eq!(house.tool.seen().len(), 1);
    assert_eq!(doubled(&both.1.address("postgres")).await, None);
    let both = with(both, |first, _| launch(first.dir.path(), &[])).await;
    assert!(doubled(&both.0.address("postgres")).await.is_some(), "nobody looked at that one");
    drop((other, both));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_hosts_that_take_writes_with_one_history_none_is_used_nor_left_for_the_other() {
    let first = tokio::task::spawn_blocking(|| Private::start(&[])).await.unwrap();
    let alone = PostgresConfig::new(&first.address("postgres")).unwrap();
    holdpoint::store::migrate(&alone).await.unwrap();
    let both = tokio::task::spawn_blocking(move || {
        let twin = first.twin();
        (first, twin)
    });
    let both = both.await.unwrap();
    let address = address_of(&both);
    let config = PostgresConfig::new(&address).unwrap();
    // Whoever has used neither cannot know which is meant, and says so of both.
    let migrated = holdpoint::store::migrate(&config).await.map(drop).unwrap_err();
    for told in [refused(&address).await, migrated] {
        assert!(matches!(told, PostgresError::Twins { .. }) && told.may_pass(), "{told}");
        for one in [&both.0, &both.1] {
            assert!(told.to_string().contains(&one.dir.path().display().to_string()), "{told}");
        }
    }
    // Whoever has used one before decides nothing while there are two, and goes on when there are not.
    let both = with(both, |_, twin| twin.stop()).await;
    let store = holdpoint::store::open_postgres(&config).await.unwrap();
    let journal = store.journal();
    let beats = async || {
        for _ in 0..12 {
            drop(journal.replicas().unwrap().beat().await);
        }
        journal.away().unwrap_or_default()
    };
    assert_eq!(beats().await, "");
    journal.remember("one", "text").await.unwrap();
    let both = with(both, |_, twin| launch(twin.dir.path(), &[])).await;
    let told = beats().await;
    assert!(told.contains("nothing says which of them was promoted last"), "{told}");
    assert!(journal.remember("two", "text").await.is_err());
    let both = with(both, |_, twin| twin.stop()).await;
    assert_eq!(beats().await, "");
    journal.remember("three", "text").await.unwrap();
    // While its own is away, the copy gets nothing.
    let both = with(both, |first, twin| {
        first.stop();
        launch(twin.dir.path(), &[]);
    })
    .await;
    let told = beats().await;
    assert!(told.contains("not the one that this process has used"), "{told}");
    assert!(journal.remember("four", "text").await.is_err());
    let client = both.1.client().await;
    let lives = "select count(*) from holdpoint.replicas";
    assert_eq!(client.query_one(lives, &[]).await.unwrap().get::<_, i64>(0), 0);
    let both = with(both, |first, twin| {
        twin.stop();
        launch(first.dir.path(), &[]);
    })
    .await;
    assert_eq!(beats().await, "");
    journal.remember("five", "text").await.unwrap();
    journal.close().await;
    drop(both);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_is_missing_is_named_and_eats_no_connections() {
    let both = tokio::task::spawn_blocking(Private::with_standby).await.unwrap();
    let (primary, standby) = both;
    let address = format!("{}?durability=replicated", primary.address("postgres"));
    let config = PostgresConfig::new(&address).unwrap();
    holdpoint::store::migrate(&config).await.unwrap();
    let store = holdpoint::store::open_postgres(&config).await.unwrap();
    let journal = store.journal();
    let replicas = journal.replicas().unwrap();
    replicas.beat().await.unwrap();
    let client = primary.client().await;
    let count = async || {
        let sql = "select count(*) from pg_stat_activity where application_name = 'holdpoint'";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    let standby = tokio::task::spawn_blocking(move || {
        standby.stop();
        standby
    });
    let standby = standby.await.unwrap();
    // Many write at once, before anybody knows.
    let names: Vec<_> = (0..24).map(|number| format!("name {number}")).collect();
    let writing = names.iter().map(|name| journal.remember(name, "text"));
    let written = futures::future::join_all(writing).await;
    assert!(written.iter().all(Result::is_err), "nothing was acknowledged");
    assert!(count().await <= CONNECTIONS_MAX, "{}", count().await);
    let told = replicas.beat().await.unwrap_err().to_string();
    assert!(told.contains("waits for a synchronous standby"), "{told}");
    let away = journal.away().unwrap();
    assert!(away.contains("waits for a synchronous standby"), "what /readyz says: {away}");
    // From then on nothing is sent that would wait as well.
    let before = count().await;
    for _ in 0..20 {
        assert!(replicas.beat().await.is_err() && replicas.bury().await.is_err());
        assert!(journal.remember("name", "text").await.is_err());
    }
    // One that was opened to ask, and is not closed yet, may be among them.
    assert!(count().await <= before + 1, "{} and {before}", count().await);
    // Whoever starts meanwhile waits, and says for whom.
    let told = refused(&address).await;
    assert!(matches!(told, PostgresError::NoStandby { .. }) && told.may_pass(), "{told}");
    // It goes on by itself.
    let standby = tokio::task::spawn_blocking(move || {
        launch(standby.dir.path(), &["wal_level=replica", "max_wal_senders=4"]);
        standby
    });
    let _standby = standby.await.unwrap();
    while replicas.beat().await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(journal.away(), None);
    journal.remember("name", "text").await.unwrap();
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_settings_of_a_role_are_told_with_their_remedy() {
    let database = Database::made().await;
    let client = database.client().await;
    let role = format!("crowded_{}", database.name);
    client.batch_execute(&format!("create role {role} login connection limit 0")).await.unwrap();
    let address = database.address().replace("holdpoint@", &format!("{role}@"));
    let told = refused(&address).await;
    assert!(matches!(told, PostgresError::Crowded { .. }) && told.may_pass(), "{told}");
    assert!(told.to_string().contains("`max_connections`"), "{told}");
    client.batch_execute(&format!("drop role {role}")).await.unwrap();
    let set = format!("alter database {} set default_transaction_read_only", database.name);
    client.batch_execute(&format!("{set} = on")).await.unwrap();
    let told = refused(&database.address()).await.to_string();
    assert!(told.contains("`alter role … reset default_transaction_read_only`"), "{told}");
    let back = "set default_transaction_read_only = off";
    client.batch_execute(&format!("{back}; {set} = off")).await.unwrap();
    let set = format!("alter database {} set synchronous_commit", database.name);
    client.batch_execute(&format!("{set} = off")).await.unwrap();
    let told = refused(&database.address()).await.to_string();
    let reset = format!("`alter database {} reset synchronous_commit`", database.name);
    assert!(told.contains(&reset), "{told}");
    assert!(!told.contains("alter role"), "it is not set there: {told}");
    client.batch_execute(&format!("{set} = on")).await.unwrap();
    let set = format!("alter database {} set statement_timeout", database.name);
    client.batch_execute(&format!("{set} = '200ms'")).await.unwrap();
    // For as long as this one has the table, nobody else reads it.
    let mut holder = database.client().await;
    let held = holder.transaction().await.unwrap();
    let lock =
        "set local statement_timeout = 0; lock table holdpoint.meta in access exclusive mode";
    held.batch_execute(lock).await.unwrap();
    let told = refused(&database.address()).await.to_string();
    assert!(told.contains("`alter role … reset statement_timeout`"), "{told}");
    assert!(!told.contains("password"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_in_the_way_of_the_tables_is_told_and_no_password_is_doubted() {
    let database = Database::empty().await;
    let client = database.client().await;
    let taken = "create schema holdpoint; create table holdpoint.runs (run bytea)";
    client.batch_execute(taken).await.unwrap();
    let config = PostgresConfig::new(&database.address()).unwrap();
    let told = holdpoint::store::migrate(&config).await.unwrap_err().to_string();
    assert!(told.contains("already exists") && !told.contains("password"), "{told}");
}

fn moved(root: &Path, address: &str) -> Ended {
    let words = ["store", "move", "--data", "data"];
    with_env(root, &words, "", &[("HOLDPOINT_MOVE_TO", address)])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_with_runs_of_its_own_is_not_served_beside_a_database() {
    let (root, database) = (TempDir::new().unwrap(), Database::empty().await);
    let (root, address) = (root.path(), database.address());
    let beside = Database::made().await;
    // A store without runs hides nothing.
    let mut server = Setup::new(root).start();
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.told());
    let mut server = Setup::new(root).env("HOLDPOINT_STORE", &beside.address()).start();
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.told());
    let words = ["run", "approve_and_send", "Tell Ada.", "--json", "--data", "data"];
    let begun = holdpoint(root, &words, "");
    assert_eq!(begun.code, 4, "it asks: {begun:?}");
    let other = beside.address();
    let words = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--store", &other];
    let told = holdpoint(root, &words, "");
    assert_ne!(told.code, 0, "{told:?}");
    assert!(told.err.contains("has a store of its own"), "{told:?}");
    assert!(told.err.contains("holdpoint store move"), "{told:?}");
    // Whoever only looks may.
    let told = with_env(root, &["inbox"], "", &[("HOLDPOINT_STORE", &beside.address())]);
    assert_eq!(told.code, 0, "{told:?}");
    let told = holdpoint(root, &["keys", "add", "ada", "--data", "data"], "");
    assert_eq!(told.code, 0, "{told:?}");
    let told = moved(root, &address);
    assert_eq!(told.code, 0, "{told:?}");
    // The keys that lie there count no more, and nobody takes them for those that do.
    let told = holdpoint(root, &["keys", "list", "--data", "data"], "");
    assert!(told.code == 0 && told.err.contains("count no more"), "{told:?}");
    let told = holdpoint(root, &["doctor", "--data", "data"], "");
    assert!(told.out.contains("count no more"), "{told:?}");
    let server = Setup::new(root).env("HOLDPOINT_STORE", &address).start();
    assert_eq!(server.page("/readyz").0, 200, "{}", server.told());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_named_is_worked_on_though_a_server_is_named_as_well() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    let both = [("HOLDPOINT_STORE", address.as_str()), ("HOLDPOINT_SERVER", "http://127.0.0.1:1")];
    for words in [
        &["doctor"][..],
        &["keys", "list"],
        &["store", "migrate"],
        &["prune", "--older-than", "30d"],
    ] {
        let told = with_env(root, words, "", &both);
        assert_eq!(told.code, 0, "{words:?}: {told:?}");
    }
    let told = with_env(root, &["verify"], "", &both);
    assert!(!told.err.contains("HOLDPOINT_SERVER"), "{told:?}");
    // Whoever says it here and now means it; and a directory is moved where it lies.
    let told = with_env(root, &["keys", "list", "--server", "http://127.0.0.1:1"], "", &both);
    assert!(told.code != 0 && told.err.contains("leave --server out"), "{told:?}");
    let told = with_env(root, &["store", "move", "--to", &address], "", &both);
    assert!(told.code != 0 && told.err.contains("HOLDPOINT_SERVER"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_that_is_read_in_a_database_offers_nothing_that_is_refused_there() {
    let database = Database::made().await;
    let answer = Answer::Json(json!("receipt 7"));
    let house = House::open(&database.address(), 1, ("unsafe", answer)).await;
    let (_, request) = house.asked("k").await;
    let root = TempDir::new().unwrap();
    for words in [vec!["inbox"], vec!["inbox", &request]] {
        let told = with_env(root.path(), &words, "", &[("HOLDPOINT_STORE", &database.address())]);
        assert_eq!(told.code, 0, "{told:?}");
        assert!(told.out.contains("Pay 7?"), "{told:?}");
        assert!(!told.err.contains("holdpoint respond"), "{told:?}");
        assert!(!told.err.contains("no server works here"), "{told:?}");
    }
    let told = with_env(root.path(), &["inbox"], "", &[("HOLDPOINT_STORE", &database.address())]);
    assert!(told.err.contains("--server or HOLDPOINT_SERVER"), "{told:?}");
    // At a server it is answered.
    let told = holdpoint(root.path(), &["inbox", "--server", &house.servers[0].url()], "");
    assert!(told.err.contains("holdpoint respond"), "{told:?}");
}
