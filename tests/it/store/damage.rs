//! Damage: a disk that is full or not ours, a record that rotted, a format of another day, two
//! processes on one directory. Each gets the clear error it deserves, and nothing is lost.

use std::fs;
use std::path::Path;

use holdpoint::store::keys;
use holdpoint::wire::v1::{GetRunRequest, ListRunsRequest};
use tempfile::TempDir;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::store::sled::flip;
use crate::support::server::{
    Client, Server, Setup, answer_to, asked, drained, names, run, send, start_of,
};
use crate::terminal::cli::{Ended, holdpoint};

/// Room for the store of a few runs: more than sled's file has at first, and less than it has once it has grown.
const FILE_KIB_MAX: u64 = 250;
/// Runs tried on a disk that holds fewer.
const STARTS_MAX: u32 = 200;

fn command(root: &Path, arguments: &[&str]) -> Ended {
    let data = root.join("data");
    holdpoint(root, &[arguments, &["--data", data.to_str().unwrap()]].concat(), "")
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

async fn run_ids(client: &mut Client) -> Vec<String> {
    let request = ListRunsRequest { page_size: 1_000, ..Default::default() };
    let runs = client.list_runs(request).await.unwrap().into_inner().runs;
    runs.into_iter().map(|run| run.run_id).collect()
}

async fn start(client: &mut Client, number: u32) -> Result<String, Status> {
    // Nothing repeats in it, so that nothing makes it small.
    let words: Vec<_> = (0..4_000_u32).map(|word| format!("{number}/{}", word * word)).collect();
    let request = start_of("chat", "", &words.join(" "), &format!("key-{number}"));
    let events = drained(client.run_workflow(request).await?.into_inner()).await?;
    Ok(events[0].run_id.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_full_disk_stops_it_visibly_and_nothing_acknowledged_is_lost() {
    let root = TempDir::new().unwrap();
    let mut server = Setup::new(root.path()).file_kib_max(FILE_KIB_MAX).start();
    let mut client = server.client().await;
    let mut kept = Vec::new();
    let mut refused = None;
    for number in 0..STARTS_MAX {
        match start(&mut client, number).await {
            Ok(run) => kept.push(run),
            Err(status) => {
                refused = Some((number, status));
                break;
            }
        }
    }
    let (number, status) = refused.expect("the disk is full before all of them are in");
    assert!(kept.len() > 1, "some were taken");
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "store.failed"));
    let again = start(&mut client, number).await.unwrap_err();
    assert_eq!(reason(&again), "store.failed", "it does not try again");
    for path in ["/readyz", "/healthz"] {
        let (code, why) = server.page(path);
        assert_eq!(code, 503, "{path}");
        assert!(why.starts_with("the store takes no writes"), "{why}");
    }
    let listed = client.list_runs(ListRunsRequest::default()).await.unwrap_err();
    assert_eq!(reason(&listed), "store.failed", "what may not be durable is not shown");
    assert!(server.told().contains("the store has failed"), "{}", server.told());

    server.restart();
    let mut client = server.client().await;
    assert_eq!(server.page("/readyz").0, 200);
    let found = run_ids(&mut client).await;
    for run in &kept {
        assert!(found.contains(run), "{run} was acknowledged");
    }
    // Whether the last one got in is not known; with its key it is in once now.
    let last = start(&mut client, number).await.unwrap();
    let found = run_ids(&mut client).await;
    assert_eq!(found.iter().filter(|run| **run == last).count(), 1);
    assert_eq!(found.len(), kept.len() + 1);
    drop((client, server));
    assert_eq!(command(root.path(), &["doctor"]).code, 0);
}

#[test]
fn a_directory_that_cannot_be_written_to_is_named() {
    let root = TempDir::new().unwrap();
    // Not even root may make a directory there.
    let told = holdpoint(root.path(), &["serve", "--data", "/sys/holdpoint-test"], "");
    assert_eq!(told.code, 1, "{}", told.err);
    assert!(told.err.contains("`/sys/holdpoint-test` cannot be written to"), "{}", told.err);
    assert!(told.err.contains("another directory"), "{}", told.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j6_a_damaged_record_is_told_and_the_others_go_on() {
    for prefix in [keys::ENTRY, keys::HEAD] {
        let root = TempDir::new().unwrap();
        let mut server = Server::start(root.path());
        let mut client = server.client().await;
        let mut open = Vec::new();
        for _ in 0..2 {
            let events = run(&mut client, start_of("chat", "", "Hello", "")).await;
            open.push((events[0].run_id.clone(), asked(&events).unwrap().request_id));
        }
        // Stopped, not killed: what is still in the write-ahead log would heal it.
        server.terminate();
        server.wait();
        let damaged = flip(&root.path().join("data"), prefix).to_string();
        server.restart();
        let mut client = server.client().await;
        for (run_id, request) in &open {
            let answer = answer_to(request, "And then?", "");
            if *run_id != damaged {
                assert_eq!(names(&send(&mut client, answer).await).last(), Some(&"status"));
                continue;
            }
            let request = GetRunRequest { run_id: run_id.clone(), omit_conversation: false };
            for status in [
                client.get_run(request).await.unwrap_err(),
                client.send_responses(answer).await.unwrap_err(),
            ] {
                assert_eq!(
                    (status.code(), reason(&status).as_str()),
                    (Code::DataLoss, "store.damaged")
                );
                assert!(status.message().contains("holdpoint doctor"), "{status:?}");
            }
        }
        drop((client, server));
        let told = command(root.path(), &["doctor", "--json"]);
        assert_eq!(told.code, 1, "{}", told.out);
        let findings = told.json()["findings"].to_string();
        assert!(findings.contains(&damaged), "the doctor names the run: {findings}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j6_a_byte_that_rots_in_the_log_never_loses_anything_silently() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let mut client = server.client().await;
    for number in 0..2 {
        start(&mut client, number).await.unwrap();
    }
    // The next opening gives the tree what is in the log so far.
    server.restart();
    let mut client = server.client().await;
    for number in 2..4 {
        start(&mut client, number).await.unwrap();
    }
    let whole = lengths(&mut client).await;
    // Killed: sled has saved nothing of its own, and reads the whole log at the next opening.
    server.kill();
    let (data, kept) = (root.path().join("data"), root.path().join("kept"));
    copy(&data, &kept);
    let (mut refused, mut passed_over) = (0, 0);
    // Of the two halves of the log one may be empty.
    let has_some = |file: &&str| fs::metadata(kept.join(file)).unwrap().len() > 100;
    let files = ["store/db", "wal", "wal2"].into_iter().filter(has_some);
    for (file, part) in files.flat_map(|file| (0..16).map(move |n| (file, n))) {
        fs::remove_dir_all(&data).unwrap();
        copy(&kept, &data);
        let mut log = fs::read(data.join(file)).unwrap();
        let place = match part {
            // The last that was acknowledged: as if it had been cut short.
            15 => log.windows(4).rposition(|four| four == b"HPW1").unwrap_or_default() + 40,
            part => log.len() * part / 16 + 40,
        };
        log[place] ^= 0x10;
        fs::write(data.join(file), log).unwrap();
        let is_whole = match Setup::new(root.path()).try_start() {
            // sled may pass over a whole commit in the middle of its log: what is there is whole, or
            // is said to be damaged.
            Ok(server) => {
                let mut client = server.client().await;
                let found = lengths(&mut client).await;
                for (run_id, _) in &found {
                    let request =
                        GetRunRequest { run_id: run_id.clone(), omit_conversation: false };
                    if let Err(status) = client.get_run(request).await {
                        assert_eq!(status.code(), Code::DataLoss, "{status:?}");
                    }
                }
                passed_over += u32::from(found != whole);
                found == whole
            }
            Err(ended) => {
                refused += 1;
                assert_eq!(ended.code(), Some(1));
                false
            }
        };
        // The doctor may see more than the runs do, never less.
        let told = command(root.path(), &["doctor"]);
        assert!(is_whole || told.code == 1, "{file}, part {part}: {}", told.out);
        assert!(!told.err.contains("panicked at"), "{file}, part {part}: {}", told.err);
    }
    // Much of it is healed: the write-ahead log still has what rotted in sled's.
    println!("{refused} refused, {passed_over} passed over");
    let told = server.told();
    assert!(refused + passed_over >= 8, "{refused} and {passed_over}: {told}");
    fs::remove_dir_all(&data).unwrap();
    copy(&kept, &data);
    server.restart();
    assert_eq!(lengths(&mut server.client().await).await, whole);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j6_a_store_that_shows_less_than_was_acknowledged_does_not_open() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    start(&mut server.client().await, 0).await.unwrap();
    server.kill();
    let (data, older) = (root.path().join("data"), root.path().join("older"));
    copy(&data, &older);
    server.restart();
    start(&mut server.client().await, 1).await.unwrap();
    server.kill();
    fs::copy(data.join("tide"), older.join("tide")).unwrap();
    fs::remove_dir_all(&data).unwrap();
    copy(&older, &data);
    let ended = Setup::new(root.path()).try_start().unwrap_err();
    assert_eq!(ended.code(), Some(1));
    assert!(server.told().contains("has lost the end of its log"), "{}", server.told());
    assert_eq!(command(root.path(), &["doctor"]).code, 1);
    fs::remove_file(data.join("tide")).unwrap();
    server.restart();
    assert_eq!(run_ids(&mut server.client().await).await.len(), 1, "on the operator's word");
}

/// Every run, with the number of its events.
async fn lengths(client: &mut Client) -> Vec<(String, u64)> {
    let request = ListRunsRequest { page_size: 1_000, ..Default::default() };
    let runs = client.list_runs(request).await.unwrap().into_inner().runs;
    runs.into_iter().map(|run| (run.run_id, run.sequence)).collect()
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_format_of_another_day_is_refused_and_left_alone() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let run_id = run(&mut server.client().await, start_of("chat", "", "Hello", "")).await;
    server.kill();
    let format = root.path().join("data/format");
    let ours = fs::read_to_string(&format).unwrap();
    fs::write(&format, "holdpoint store 9\n").unwrap();
    let told = command(root.path(), &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(told.code, 1);
    for part in ["`holdpoint store 9`", ours.trim(), "holdpoint export", "holdpoint import"] {
        assert!(told.err.contains(part), "{part} in {}", told.err);
    }
    assert_eq!(fs::read_to_string(&format).unwrap(), "holdpoint store 9\n");
    fs::write(&format, ours).unwrap();
    server.restart();
    assert_eq!(run_ids(&mut server.client().await).await, [run_id[0].run_id.clone()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_is_refused_and_a_command_talks_to_the_first() {
    let root = TempDir::new().unwrap();
    let server = Server::start(root.path());
    let events = run(&mut server.client().await, start_of("chat", "", "Hello", "")).await;
    let told = command(root.path(), &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!((told.code, told.out.as_str()), (1, ""));
    assert!(told.err.contains("is held by process"), "{}", told.err);
    assert!(told.err.contains(server.address()), "it says where to talk: {}", told.err);
    let told = command(root.path(), &["runs", "--json"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert_eq!(told.json()["runs"][0]["run_id"], events[0].run_id);
    let request = asked(&events).unwrap().request_id;
    let told = command(root.path(), &["respond", &request, "Good day"]);
    assert_eq!(told.code, 4, "{}", told.err);
    // What works on the files themselves cannot share them, and says so.
    for offline in [&["doctor"][..], &["export", "copy.jsonl"], &["prune", "--older-than", "1d"]] {
        let told = command(root.path(), offline);
        assert_eq!(told.code, 1, "{offline:?}: {}", told.out);
        assert!((told.out + &told.err).contains("is held by process"), "{offline:?}");
    }
    assert_eq!(run_ids(&mut server.client().await).await.len(), 1);
}
