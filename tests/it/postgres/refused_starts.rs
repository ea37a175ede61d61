//! Servers that come to others over one PostgreSQL and should not be there as they are: one that is refused is nobody to the
//! others, one beside another's data directory takes nothing from it, and one whose key knows of more than the log holds
//! says so for as long as that is so.

use std::fs;
use std::path::Path;

use holdpoint::store::PostgresConfig;
use serde_json::Value;
use tempfile::TempDir;

use crate::postgres::served::setup;
use crate::support::postgres::{Database, Private};
use crate::support::proxy::Proxy;
use crate::support::server::{Server, Setup, answer_to, asked, run, send, start_of};
use crate::terminal::cli::{holdpoint, with_env};

/// What a new run at a server asks.
async fn request(server: &Server) -> String {
    let mut client = server.client().await;
    let told = run(&mut client, start_of("approve_and_send", "", "Tell Ada.", "")).await;
    asked(&told).unwrap().request_id
}

async fn decided(server: &Server) {
    let request = request(server).await;
    send(&mut server.client().await, answer_to(&request, "approve", "")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_refused_leaves_no_life_behind() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    fs::create_dir_all(root.join("first")).unwrap();
    let first = Setup::new(&root.join("first")).env("HOLDPOINT_STORE", &address).start();
    let client = database.client().await;
    let lives = async || {
        let sql = "select count(*) from holdpoint.replicas";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    assert_eq!(lives().await, 1);
    for (listen, wrong) in [
        ("127.0.0.1:0", "--audit-key=other.pem"),
        ("127.0.0.1:0", "--audit-key-before=none.pem"),
        ("127.0.0.1:0", "--policy=none.yaml"),
        ("127.0.0.1:0", "--a2a-root=nobody"),
        ("127.0.0.1:0", "--a2a-card-key=none.pem"),
        // Where somebody listens already.
        (first.address(), "--drain-seconds=0"),
    ] {
        let words = ["serve", "--data", "second", "--listen", listen, wrong];
        let told = with_env(root, &words, "", &[("HOLDPOINT_STORE", &address)]);
        assert_ne!(told.code, 0, "{wrong}: {told:?}");
        assert_eq!(lives().await, 1, "{wrong}: {told:?}");
    }
    assert!(first.page("/metrics").1.contains("\nholdpoint_replicas 1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_the_database_leaves_in_its_middle_begins_again_and_serves() {
    const STEP: usize = 5;
    let private = tokio::task::spawn_blocking(|| Private::start(&[])).await.unwrap();
    let proxy = Proxy::to(&private.socket()).await;
    let address = format!("postgres://holdpoint@{}/postgres?durability=single", proxy.address);
    holdpoint::store::migrate(&PostgresConfig::new(&address).unwrap()).await.unwrap();
    let mut fallen = 0;
    for words in (2..).step_by(STEP) {
        let root = TempDir::new().unwrap();
        let setup = Setup::new(root.path()).env("HOLDPOINT_STORE", &address);
        proxy.knife.fall_after(words);
        let starting = tokio::task::spawn_blocking(move || setup.start());
        while !proxy.knife.has_fallen() && !starting.is_finished() {
            tokio::task::yield_now().await;
        }
        let has_fallen = proxy.knife.mend();
        let mut server = starting.await.unwrap();
        decided(&server).await;
        server.terminate();
        assert_eq!(server.wait().code(), Some(0), "after {words} words: {}", server.told());
        if !has_fallen {
            break;
        }
        fallen += 1;
    }
    assert!(fallen > 3, "it left {fallen} starts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_beside_one_directory_says_so_and_leaves_the_first_to_be_found() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    let setup = Setup::new(root).env("HOLDPOINT_STORE", &address);
    let first = setup.clone().start();
    assert!(!first.told().contains("another server lives beside"), "{}", first.told());
    let mut second = setup.start();
    assert!(second.told().contains("another server lives beside"), "{}", second.told());
    let request = request(&second).await;
    second.terminate();
    assert_eq!(second.wait().code(), Some(0), "{}", second.told());
    let told = holdpoint(root, &["inbox", "--data", "data", "--json"], "");
    assert!(told.code == 0 && told.out.contains(&request), "{told:?}");
    let said = fs::read_to_string(root.join("data/server.json")).unwrap();
    assert!(said.contains(first.address()), "{said}");
}

/// Copies a key, and what lies beside it with a head that no log holds.
fn copied_ahead(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
    let text = fs::read_to_string(from.with_added_extension("heads")).unwrap();
    let mut heads: Value = serde_json::from_str(&text).unwrap();
    for note in heads.as_object_mut().unwrap().values_mut() {
        let mut lines: Vec<_> = note.as_str().unwrap().split('\n').map(ToOwned::to_owned).collect();
        lines[1] = "1000000".into();
        *note = lines.join("\n").into();
    }
    fs::write(to.with_added_extension("heads"), heads.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_a_server_that_keeps_a_head_which_the_log_lacks_says_so_though_another_signs() {
    const UNSIGNED: &str = "heads are not being signed";
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let [one, other] = ["one", "other"].map(|name| root.path().join(name));
    let start = |own: &Path| {
        fs::create_dir_all(own).unwrap();
        let setup = Setup::new(own).env("HOLDPOINT_STORE", &database.address());
        let key = format!("--audit-key={}", own.join("audit.pem").display());
        setup.arg("--audit-seconds=1").arg(&key).start()
    };
    let signing = start(&one);
    decided(&signing).await;
    while !one.join("audit.pem.heads").exists() {
        tokio::task::yield_now().await;
    }
    copied_ahead(&one.join("audit.pem"), &other.join("audit.pem"));
    let server = start(&other);
    // What one has signed and the log lacks holds the store for all, until somebody has looked.
    let held = |server: &Server| server.page("/readyz").1.contains("gone back in time");
    assert!(held(&server), "{}", server.told());
    while !held(&signing) {
        tokio::task::yield_now().await;
    }
    let told = holdpoint(root.path(), &["release", "--server", signing.address()], "");
    assert_eq!(told.code, 0, "{told:?}");
    while held(&server) {
        tokio::task::yield_now().await;
    }
    assert!(server.page("/readyz").1.contains(UNSIGNED), "{}", server.told());
    decided(&signing).await;
    // Until it has looked again, or takes it for well.
    let looked = || server.told().matches("heads of the log are not signed").count() > 1;
    while !looked() && server.page("/readyz").1.contains(UNSIGNED) {
        tokio::task::yield_now().await;
    }
    assert!(server.page("/readyz").1.contains(UNSIGNED), "{}", server.told());
    assert!(server.told().contains("holdpoint verify --audit-key"), "{}", server.told());
    // Given up here it is over.
    let words = ["release", "--forget-head", "--server", server.address()];
    let told = holdpoint(root.path(), &words, "");
    assert!(told.code == 0 && told.out.contains("\nforgotten: the head of "), "{told:?}");
    assert!(!server.page("/readyz").1.contains(UNSIGNED), "it ends with that command");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_read_what_its_key_has_signed_does_not_start_and_the_others_go_on() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let [one, two] = ["one", "two"].map(|name| root.path().join(name));
    for own in [&one, &two] {
        fs::create_dir_all(own).unwrap();
    }
    let healthy = setup(&one, &database.address()).start();
    let key = two.join("audit.pem");
    fs::copy(one.join("data/audit.key"), &key).unwrap();
    fs::write(two.join("audit.pem.heads"), "torn").unwrap();
    let newcomer = setup(&two, &database.address()).arg("--audit-key").arg(key.to_str().unwrap());
    assert!(newcomer.try_start().is_err(), "{}", newcomer.told());
    let told = newcomer.told();
    assert!(told.contains("audit.pem.heads") && told.contains("copy it from a server"), "{told}");
    assert_eq!(healthy.page("/readyz").0, 200, "{}", healthy.page("/readyz").1);
}
