//! `holdpoint bench`: it measures what it says, and leaves nothing behind, however it ends.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::tempdir;

use crate::support::postgres::Database;
use crate::terminal::cli::holdpoint;

#[test]
fn a_short_round_of_everything_has_every_figure() {
    let folder = tempdir().unwrap();
    let arguments = [
        "bench",
        "--json",
        "--clients",
        "2",
        "--seconds",
        "1",
        "--passes",
        "1",
        "--turns",
        "40",
        "--sessions",
        "20",
        "--runs",
        "30",
        "--branches",
        "20",
    ];
    let ended = holdpoint(folder.path(), &arguments, "");
    assert_eq!(ended.code, 0, "{}", ended.err);
    let report = ended.json();
    for figure in [
        "/yardsticks/append_one/per_second",
        "/yardsticks/append_grouped/per_second",
        "/yardsticks/turns/0/per_second",
        "/w1/0/cycles_per_second",
        "/w1/0/start/p50_ms",
        "/w1/0/respond/p99_ms",
        "/w2/0/seconds",
        "/w2/0/last_20_seconds",
        "/w2/0/bytes",
        "/w3/0/create_seconds",
        "/w3/0/resident_bytes",
        "/w3/0/first_answer_seconds",
        "/w4/0/page/p50_ms",
        "/w4/0/listing/p99_ms",
        "/w4/0/own_first_ms",
        "/w4/0/own/p50_ms",
        "/w5/0/asked_seconds",
        "/w5/0/resident_bytes",
        "/w5/0/completed_seconds",
        "/w6/0/answered_seconds",
        "/w6/0/answer/p50_ms",
    ] {
        let found = report.pointer(figure).and_then(serde_json::Value::as_f64);
        assert!(found.is_some_and(|found| found > 0.0), "{figure}: {report}");
    }
    assert!(is_empty(folder.path()), "the scratch directory is still there");
}

#[test]
fn whoever_stops_it_stops_its_servers_and_keeps_the_disk_clean() {
    let folder = tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
        .args(["bench", "w1", "--clients", "1", "--seconds", "1", "--passes", "99"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(child.stderr.take().unwrap()).lines();
    let reached = told.map_while(Result::ok).any(|line| line.contains("w1: 1 clients"));
    assert!(reached, "w1 was never reached");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(is_empty(folder.path()), "the scratch directory is still there");
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn several_servers_over_one_database_are_measured_and_nothing_of_them_is_left() {
    let (folder, database) = (tempdir().unwrap(), Database::empty().await);
    let address = format!("{}?durability=single", database.address());
    let words = [
        "bench",
        "w1",
        "w2",
        "w3",
        "--json",
        "--clients",
        "3",
        "--seconds",
        "1",
        "--passes",
        "1",
        "--turns",
        "40",
        "--sessions",
        "20",
        "--replicas",
        "2",
        "--store",
        &address,
    ];
    let ended = holdpoint(folder.path(), &words, "");
    assert_eq!(ended.code, 0, "{}", ended.err);
    let report = ended.json();
    for figure in ["/w1/0/cycles_per_second", "/w2/0/bytes", "/w3/0/first_answer_seconds"] {
        let measured = report.pointer(figure).and_then(serde_json::Value::as_f64);
        assert!(measured.is_some_and(|measured| measured > 0.0), "{figure}: {report}");
    }
    let left = "select count(*) from pg_database where datname like 'holdpoint_bench_%'";
    let left: i64 = database.client().await.query_one(left, &[]).await.unwrap().get(0);
    assert_eq!(left, 0);
    for words in [&["bench", "w1", "--replicas", "2"][..], &["bench", "w4", "--store", &address]] {
        let ended = holdpoint(folder.path(), words, "");
        assert_eq!(ended.code, 2, "{ended:?}");
    }
}
