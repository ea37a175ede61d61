//! What a move of a store is to the people at it: whoever has signed in stays so, and what nobody can answer afterwards is
//! told to whoever moves it.

use std::path::Path;

use tempfile::TempDir;

use crate::bridge::calls::Caller;
use crate::grpc::keys_served::signed_in;
use crate::support::postgres::Database;
use crate::support::server::{Server, Setup, asked, run, start_of};
use crate::terminal::cli::{Ended, holdpoint, with_env};

fn moved(root: &Path, address: &str, more: &[&str]) -> Ended {
    let words = [&["store", "move", "--data", "data"], more].concat();
    let told = with_env(root, &words, "", &[("HOLDPOINT_MOVE_TO", address)]);
    assert_eq!(told.code, 0, "{told:?}");
    told
}

/// A key in the data directory.
fn added(root: &Path, name: &str, role: &str) -> String {
    let words = ["keys", "add", name, "--role", role, "--data", "data", "--json"];
    let told = holdpoint(root, &words, "");
    assert_eq!(told.code, 0, "{told:?}");
    told.json()["secret"].as_str().unwrap().to_owned()
}

fn inbox(server: &Server, pass: &str) -> u16 {
    let caller = Caller::new(server.address()).with(&format!("Cookie: {pass}"));
    caller.get("/console/inbox").status
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_signed_in_at_the_console_stays_so_when_the_store_moves() {
    let (root, database) = (TempDir::new().unwrap(), Database::empty().await);
    let (root, address) = (root.path(), database.address());
    let ada = added(root, "ada", "user");
    let mut server = Setup::new(root).start();
    let (pass, other) = (signed_in(&server, &ada), signed_in(&server, &ada));
    let out = Caller::new(server.address()).with(&format!("Cookie: {other}"));
    assert_eq!(out.raw("POST", "/console/sign-out", "").status, 303);
    assert_eq!((inbox(&server, &pass), inbox(&server, &other)), (200, 401));
    moved(root, &address, &[]);
    assert_eq!((inbox(&server, &pass), inbox(&server, &other)), (200, 401), "{}", server.told());
    let fresh = signed_in(&server, &ada);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.told());
    let server = Setup::new(root).env("HOLDPOINT_STORE", &address).start();
    assert_eq!((inbox(&server, &pass), inbox(&server, &fresh)), (200, 200), "{}", server.told());
    assert_eq!(inbox(&server, &other), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_local_can_answer_is_counted_and_named_by_the_move() {
    let (root, database) = (TempDir::new().unwrap(), Database::empty().await);
    let (root, address) = (root.path(), database.address());
    let words = ["run", "approve_and_send", "Tell Ada.", "--json", "--data", "data"];
    let begun = holdpoint(root, &words, "");
    assert_eq!(begun.code, 4, "it asks: {begun:?}");
    let ops = added(root, "ops", "operator");
    let told = moved(root, &address, &["--json"]).json();
    assert_eq!(told["waits_for_local"]["count"], 1, "{told}");
    let request = told["waits_for_local"]["requests"][0].as_str().unwrap().to_owned();
    let server = Setup::new(root).env("HOLDPOINT_STORE", &address).start();
    let url = server.url();
    let as_ops = |words: &[&str]| {
        let words = [words, &["--server", &url]].concat();
        with_env(root, &words, "", &[("HOLDPOINT_API_KEY", &ops)])
    };
    let told = as_ops(&["respond", &request, "approve"]);
    assert!(told.code != 0 && told.err.contains("waits for local"), "{told:?}");
    assert!(told.err.contains("takes it back with `holdpoint cancel`"), "{told:?}");
    assert_eq!(as_ops(&["cancel", &request]).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_moves_with_its_store_says_what_only_local_can_answer() {
    let (root, database) = (TempDir::new().unwrap(), Database::empty().await);
    let root = root.path();
    let server = Setup::new(root).start();
    let mut client = server.client().await;
    let told = run(&mut client, start_of("approve_and_send", "", "Tell Ada.", "one")).await;
    let request = asked(&told).unwrap().request_id;
    let told = moved(root, &database.address(), &[]);
    assert!(told.err.contains("1 question waits for `local` alone"), "{told:?}");
    assert!(told.err.contains(&request), "{told:?}");
}
