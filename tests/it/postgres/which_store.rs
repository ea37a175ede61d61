//! Which store a command works on, where a directory and a database could both be meant: the server that has the directory is
//! found, what is not plain is refused with both named, and whatever is changed says where.

use std::path::Path;

use holdpoint::store::PostgresConfig;
use tempfile::TempDir;

use crate::support::postgres::Database;
use crate::support::server::{Server, Setup, asked, run, start_of};
use crate::terminal::cli::{Ended, holdpoint, with_env};

/// A store of its own in `data`, with a run that waits.
fn own_store(root: &Path) {
    let words = ["run", "approve_and_send", "Tell Ada.", "--json", "--data", "data"];
    let begun = holdpoint(root, &words, "");
    assert_eq!(begun.code, 4, "it asks: {begun:?}");
}

fn moved(root: &Path, address: &str) -> Ended {
    let words = ["store", "move", "--data", "data", "--json"];
    with_env(root, &words, "", &[("HOLDPOINT_MOVE_TO", address)])
}

/// What a new run at a server asks.
async fn request(server: &Server, key: &str) -> String {
    let mut client = server.client().await;
    let told = run(&mut client, start_of("approve_and_send", "", "Tell Ada.", key)).await;
    asked(&told).unwrap().request_id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_named_is_not_passed_over_for_a_database_that_a_variable_names() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    own_store(root);
    let told = holdpoint(root, &["export", "all.jsonl", "--data", "data"], "");
    assert!(told.code == 0 && told.out.contains("from `data`"), "{told:?}");
    let env = [("HOLDPOINT_STORE", address.as_str())];
    for words in [
        &["prune", "--older-than", "1m", "--data", "data"][..],
        &["doctor", "--data", "data"],
        &["verify", "--data", "data"],
        &["keys", "add", "ada", "--data", "data"],
        &["export", "again.jsonl", "--data", "data"],
        &["restored", "--data", "data"],
        &["release", "--data", "data"],
        &["audit", "--data", "data"],
        &["inbox", "--data", "data"],
        // There is no store yet: that is what it is to make.
        &["import", "all.jsonl", "--data", "back"],
    ] {
        let told = with_env(root, words, "", &env);
        assert_eq!(told.code, 2, "{words:?}: {told:?}");
        assert!(told.err.contains("--data names `"), "{words:?}: {told:?}");
        assert!(told.err.contains("HOLDPOINT_STORE names the database at"), "{words:?}: {told:?}");
        assert!(told.err.contains("env -u HOLDPOINT_STORE"), "{words:?}: {told:?}");
    }
    assert!(!root.join("back").exists(), "nothing was made");
    // Who says it here and now means it, and a directory without a store only lies beside.
    let words = ["prune", "--older-than", "1m", "--data", "data", "--store", &address];
    let told = holdpoint(root, &words, "");
    assert!(told.code == 0 && told.out.contains("forgotten in the database at"), "{told:?}");
    let told = with_env(root, &["doctor", "--data", "none"], "", &env);
    assert!(told.code == 0 && told.out.contains("in the database at"), "{told:?}");
    let told = holdpoint(root, &["prune", "--older-than", "1m", "--data", "data"], "");
    assert!(told.code == 0 && told.out.contains("forgotten in `data`"), "{told:?}");
    let told = holdpoint(root, &["import", "all.jsonl", "--data", "back"], "");
    assert!(told.code == 0 && told.out.contains("into `back`"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_joins_no_servers_over_a_database() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let words = ["dev", "--no-open", "--listen", "127.0.0.1:0"];
    let (address, client) = (database.address(), database.client().await);
    let lives = async || {
        let sql = "select count(*) from holdpoint.replicas";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    let before = lives().await;
    let told = with_env(root.path(), &words, "", &[("HOLDPOINT_STORE", &address)]);
    assert_eq!(told.code, 2, "{told:?}");
    assert!(told.err.contains("HOLDPOINT_STORE: `dev`"), "{told:?}");
    let told = holdpoint(root.path(), &[&words[..], &["--store", &address]].concat(), "");
    assert_eq!(told.code, 2, "{told:?}");
    assert_eq!(lives().await, before, "nobody came");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_led_to_the_directory_of_a_server_over_a_database_talks_to_that_server() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    let mut server = Setup::new(root).env("HOLDPOINT_STORE", &address).start();
    let (one, two) = (request(&server, "one").await, request(&server, "two").await);
    let told = holdpoint(root, &["inbox", "--data", "data", "--json"], "");
    assert!(told.code == 0 && told.out.contains(&one), "{told:?}");
    let told = holdpoint(root, &["respond", &one, "approve", "--data", "data", "--json"], "");
    assert_eq!(told.code, 0, "{told:?}");
    // The same where the database is named as well.
    let words = ["respond", &two, "approve", "--data", "data", "--json"];
    let told = with_env(root, &words, "", &[("HOLDPOINT_STORE", &address)]);
    assert_eq!(told.code, 0, "{told:?}");
    // What would be good nowhere is not made, also once the server has ended.
    let refused = |words: &[&str]| {
        let told = holdpoint(root, &[words, &["--data", "data"]].concat(), "");
        assert_ne!(told.code, 0, "{words:?}: {told:?}");
        assert!(told.err.contains("of a server over the database at"), "{words:?}: {told:?}");
        assert!(told.err.contains("`--store` or HOLDPOINT_STORE"), "{words:?}: {told:?}");
    };
    refused(&["keys", "add", "carl"]);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.told());
    for words in [
        &["keys", "add", "carl"][..],
        &["inbox"],
        &["run", "approve_and_send", "Tell Ben."],
        &["serve", "--listen", "127.0.0.1:0"],
        &["prune", "--older-than", "1m"],
    ] {
        refused(words);
    }
    let data = root.join("data");
    assert!(!data.join("keys.toml").exists() && !data.join("format").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_a_key_looks_through_the_server_that_runs_here_and_sees_what_is_theirs() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    let [ada, bob] = ["ada", "bob"].map(|name| {
        let words = ["keys", "add", name, "--json", "--store", &address, "--data", "none"];
        let told = holdpoint(root, &words, "").json();
        told["secret"].as_str().unwrap().to_owned()
    });
    let server = Setup::new(root).env("HOLDPOINT_STORE", &address).start();
    let begun = async |key: &str, name: &str| {
        let mut client = server.client_with(key).await;
        let told = run(&mut client, start_of("approve_and_send", "", "Tell Ben.", name)).await;
        (told[0].run_id.clone(), asked(&told).unwrap().request_id)
    };
    let ((_, hers), (run, his)) = (begun(&ada, "ada").await, begun(&bob, "bob").await);
    let run = run.as_str();
    let env = [("HOLDPOINT_STORE", address.as_str()), ("HOLDPOINT_API_KEY", ada.as_str())];
    let told = with_env(root, &["inbox", "--data", "data"], "", &env);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.err.contains("holdpoint respond 1"), "it is hers to answer: {told:?}");
    assert!(!told.err.contains("`local`"), "{told:?}");
    let told = with_env(root, &["inbox", "--data", "data", "--json"], "", &env);
    assert!(told.out.contains(&hers) && !told.out.contains(&his), "{told:?}");
    for words in [["journal", run], ["runs", run], ["watch", run]] {
        let told = with_env(root, &[&words[..], &["--data", "data"]].concat(), "", &env);
        assert_eq!(told.code, 5, "{words:?}: {told:?}");
    }
    // Who names the database here and now reads that, and is told as whom.
    for words in [&["inbox"][..], &["journal", run]] {
        let words = [words, &["--data", "data", "--store", &address]].concat();
        let told = with_env(root, &words, "", &env);
        assert_eq!(told.code, 0, "{words:?}: {told:?}");
        let as_whom = told.err.matches("read in the database, as `local`").count();
        assert_eq!(as_whom, 1, "{words:?}: {told:?}");
        assert!(!told.err.contains("no server works here"), "{words:?}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_led_to_a_moved_directory_talks_to_the_server_that_moved_with_it() {
    let (root, database) = (TempDir::new().unwrap(), Database::empty().await);
    let (root, address) = (root.path(), database.address());
    let server = Setup::new(root).start();
    let waits = request(&server, "one").await;
    let told = moved(root, &address);
    assert_eq!(told.code, 0, "{told:?} {}", server.told());
    assert!(!root.join("data/move.state.json").exists(), "whoever asked has heard it");
    let told = holdpoint(root, &["inbox", "--data", "data", "--json"], "");
    assert!(told.code == 0 && told.out.contains(&waits), "{told:?}");
    let told = holdpoint(root, &["respond", &waits, "approve", "--data", "data", "--json"], "");
    assert_eq!(told.code, 0, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_moved_is_not_said_to_be_moved_to_another_database() {
    let (root, database) = (TempDir::new().unwrap(), Database::empty().await);
    let (root, address) = (root.path(), database.address());
    own_store(root);
    let told = moved(root, &address);
    assert_eq!(told.code, 0, "{told:?}");
    for other in [Database::empty().await, Database::made().await] {
        let told = moved(root, &other.address());
        assert_ne!(told.code, 0, "{told:?}");
        let place = PostgresConfig::new(&address).unwrap().place();
        assert!(told.err.contains(&place), "{told:?}");
        assert!(told.err.contains("before, and is in charge there"), "{told:?}");
    }
    let other = Database::empty().await;
    assert_ne!(moved(root, &other.address()).code, 0);
    let sql = "select count(*) from pg_namespace where nspname = 'holdpoint'";
    let made: i64 = other.client().await.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(made, 0, "and nothing is made there");
    assert_eq!(moved(root, &address).code, 0, "the same one is no other");
}

#[test]
fn an_address_that_is_wrong_is_said_to_be_what_it_was_named_as_and_how_a_password_is_written() {
    let root = TempDir::new().unwrap();
    let wrong = "postgres://holdpoint:p@ss:w/o?r#d%@127.0.0.1:1/holdpoint";
    let words = ["store", "move", "--data", "data"];
    let told = with_env(root.path(), &words, "", &[("HOLDPOINT_MOVE_TO", wrong)]);
    assert!(told.err.contains("HOLDPOINT_MOVE_TO: the address"), "{told:?}");
    assert!(told.err.contains("`%40` for `@`") && !told.err.contains("store:"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_directory_beside_another_database_says_how_the_warning_ends() {
    let (root, database) = (TempDir::new().unwrap(), Database::empty().await);
    let (root, other) = (root.path(), Database::made().await);
    own_store(root);
    let told = holdpoint(root, &["keys", "add", "ada", "--data", "data"], "");
    assert!(told.code == 0 && told.err.contains("in `data/keys.toml`"), "{told:?}");
    assert_eq!(moved(root, &database.address()).code, 0);
    let mut server = Setup::new(root).env("HOLDPOINT_STORE", &other.address()).start();
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.told());
    let warned = "was moved to another database than this one";
    assert!(server.told().contains(warned), "{}", server.told());
    assert!(server.told().contains("look at the address"), "first: {}", server.told());
    assert!(server.told().contains("remove its `keys.toml`"), "{}", server.told());
    std::fs::remove_file(root.join("data/keys.toml")).unwrap();
    let before = server.told().matches(warned).count();
    let server = Setup::new(root).env("HOLDPOINT_STORE", &other.address()).start();
    assert_eq!(server.told().matches(warned).count(), before, "{}", server.told());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_make_the_tables_is_told_which_right_is_missing() {
    let (empty, made) = (Database::empty().await, Database::made().await);
    let client = empty.client().await;
    let role = format!("guest_{}", empty.name);
    client.batch_execute(&format!("create role {role} login")).await.unwrap();
    let refused = async |database: &Database| {
        let address = database.address().replace("holdpoint@", &format!("{role}@"));
        let config = PostgresConfig::new(&address).unwrap();
        holdpoint::store::migrate(&config).await.unwrap_err().to_string()
    };
    let told = refused(&empty).await;
    assert!(told.contains("`grant create on database"), "{told}");
    assert!(!told.contains("to use schema"), "there is none: {told}");
    let told = refused(&made).await;
    assert!(told.contains("the role that owns them") && !told.contains("password"), "{told}");
    client.batch_execute(&format!("drop role {role}")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_a_database_without_keys_is_told_where_they_are_made() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let address = database.address();
    let words = ["serve", "--listen", "0.0.0.0:0", "--data", "data", "--store", &address];
    let told = holdpoint(root.path(), &words, "");
    assert_ne!(told.code, 0, "{told:?}");
    assert!(told.err.contains("`holdpoint keys add NAME --store URL`"), "{told:?}");
}
