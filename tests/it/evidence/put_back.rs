//! A store that was put back while nobody served it, and a signing key that knows better: what is held, who lets it go on,
//! and what is given up by name.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use tonic::Code;

use crate::evidence::served::{command, decided, stopped, text};
use crate::support::server::{Server, Setup, start_of};
use crate::terminal::cli::{Ended, holdpoint};

/// Says nothing but that the store has gone back, and takes nothing on.
pub(crate) async fn is_held_as_gone_back(server: &Server) {
    let (status, ready) = server.page("/readyz");
    assert!(status == 503 && ready.contains("gone back in time"), "{status} {ready}");
    let begun = server.client().await.run_workflow(start_of("errand", "", "paper", "")).await;
    let refused = begun.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
}

/// Lets a store go on.
pub(crate) fn released(root: &Path, server: &Server, more: &[&str]) -> Ended {
    let words = [&["release", "--server", server.address()][..], more].concat();
    let told = holdpoint(root, &words, "");
    assert_eq!(told.code, 0, "{told:?}");
    told
}

/// Whether the server has signed a head since it was started.
pub(crate) fn is_signed(server: &Server) -> bool {
    let page = server.page("/metrics").1;
    let signed = page.lines().find_map(|line| line.strip_prefix("holdpoint_heads_signed_total "));
    signed.is_some_and(|count| count != "0")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_a_store_that_was_put_back_in_silence_is_held_by_a_key_that_lies_elsewhere() {
    let root = TempDir::new().unwrap();
    let (data, copy) = (root.path().join("data"), root.path().join("copy"));
    let setup = Setup::new(root.path()).arg("--audit-seconds=1");
    let setup = setup.arg(&format!("--audit-key={}", root.path().join("audit.pem").display()));
    stopped(setup.clone()).await;
    let copied = Command::new("cp").arg("-r").args([&data, &copy]).status().unwrap();
    assert!(copied.success());
    stopped(setup.clone()).await;
    // As it was before the second decision, head and all: only what lies beside the key knows more.
    let (kept, known) = (root.path().join("kept"), root.path().join("known.heads"));
    fs::copy(root.path().join("audit.pem.heads"), &known).unwrap();
    assert!(Command::new("cp").arg("-r").args([&copy, &kept]).status().unwrap().success());
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&copy, &data).unwrap();
    let mut server = setup.clone().start();
    is_held_as_gone_back(&server).await;
    server.terminate();
    server.wait();
    // It is not let go on by what it is known by being spoilt.
    let back = || Command::new("cp").arg("-r").args([&kept, &data]).status().unwrap();
    let beside = root.path().join("audit.pem.heads");
    for spoilt in ["", "rubbish", "{\"holdpoint/", "{\"ORIGIN\": \"rubbish\"}"] {
        fs::remove_dir_all(&data).unwrap();
        assert!(back().success());
        let origin = text(&known).split('"').nth(1).unwrap().to_owned();
        fs::write(&beside, spoilt.replace("ORIGIN", &origin)).unwrap();
        let mut server = setup.clone().start();
        is_held_as_gone_back(&server).await;
        let told = released(root.path(), &server, &["--forget-head"]);
        assert!(told.out.contains("\nforgotten: the head of "), "{told:?}");
        assert_eq!(server.page("/readyz").1.trim(), "ready", "{spoilt}");
        server.terminate();
        server.wait();
    }
    fs::copy(&known, &beside).unwrap();
    fs::remove_dir_all(&data).unwrap();
    assert!(back().success());
    // Whoever says that it was put back, lets it go on and gives up what was signed since, has it signed from there.
    let told = command(root.path(), &["restored"]);
    assert_eq!(told.code, 0, "{told:?}");
    let server = setup.start();
    let told = released(root.path(), &server, &["--forget-head"]);
    assert!(told.out.contains("\nforgotten: the head of "), "{told:?}");
    let (_, ready) = server.page("/readyz");
    assert!(!ready.contains("heads are not being signed"), "it ends with that command: {ready}");
    decided(&server).await;
    while !is_signed(&server) {
        tokio::task::yield_now().await;
    }
    assert!(!server.page("/readyz").1.contains("heads are not being signed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_keeps_the_head_that_the_log_lacks_until_somebody_gives_it_up_by_name() {
    let root = TempDir::new().unwrap();
    let (data, copy) = (root.path().join("data"), root.path().join("copy"));
    let key = root.path().join("audit.pem");
    let setup = Setup::new(root.path()).arg("--audit-seconds=1");
    let setup = setup.arg(&format!("--audit-key={}", key.display()));
    stopped(setup.clone()).await;
    assert!(Command::new("cp").arg("-r").args([&data, &copy]).status().unwrap().success());
    // Where the log goes on from the head there is nothing to forget.
    let beside = key.with_added_extension("heads");
    let mut server = setup.clone().start();
    let told = released(root.path(), &server, &["--forget-head", "--json"]).json();
    assert_eq!((&told["heads"], &told["heads_forgotten"]), (&json!([]), &json!(false)), "{told}");
    assert!(!text(&beside).contains("\"\""), "it is still there");
    decided(&server).await;
    server.terminate();
    server.wait();
    // Put back in silence: a release by itself leaves the proof of that where it is, and says so.
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&copy, &data).unwrap();
    let known = text(&beside);
    let mut server = setup.clone().start();
    is_held_as_gone_back(&server).await;
    let told = released(root.path(), &server, &[]);
    assert!(!told.out.contains("the store was not held"), "{told:?}");
    assert!(told.out.contains("not forgotten: the head of "), "{told:?}");
    assert!(told.err.contains("--forget-head"), "{told:?}");
    assert_eq!(text(&beside), known, "it is where it was");
    assert!(server.page("/readyz").1.contains("heads are not being signed"));
    let log = |server: &Server| {
        let words = ["audit", "--store", "--json", "--server", server.address()];
        holdpoint(root.path(), &words, "").out
    };
    assert!(!log(&server).contains("head_forgotten"));
    // Whoever let it go on has looked: that is not asked of them with every start.
    server.terminate();
    server.wait();
    let mut server = setup.start();
    let (status, ready) = server.page("/readyz");
    assert!(status == 200 && ready.contains("heads are not being signed"), "{status} {ready}");
    decided(&server).await;
    // Given up by name, it stands in the log who did that, and what it was.
    let told = released(root.path(), &server, &["--forget-head", "--json"]).json();
    assert_eq!(told["heads_forgotten"], json!(true), "{told}");
    let root_hash = told["heads"][0]["root"].as_str().unwrap().to_owned();
    let entries = log(&server);
    let entry = entries.lines().find(|line| line.contains("head_forgotten")).unwrap();
    assert!(entry.contains("local") && entry.contains(&root_hash), "{entry}");
    assert!(server.told().contains("a head that was kept beside the key is forgotten"));
    server.terminate();
    server.wait();
    assert_ne!(text(&beside), known);
}
