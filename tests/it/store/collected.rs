//! Collected: a store in which much was asked and is answered makes room in its value log, and is killed while it does.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use holdpoint::wire::v1::workflow_event::Event;
use tempfile::TempDir;
use tonic::Status;

use crate::support::server::{
    Client, Server, Setup, answer_to, asked, drained, forget_settings, journal, start_of,
};
use crate::terminal::cli::holdpoint;

/// Where a server may die while it makes room. kill.rs holds the list against the source.
pub(crate) const COLLECTING: [&str; 4] = [
    "store.values_copied",
    "store.values_handed_over",
    "store.before_segment_goes",
    "store.after_segment_goes",
];

/// Letters that are drafted before the first of them is approved.
const LETTERS: usize = 16;
/// Rounds of them in which room must have been made.
const ROUNDS_MAX: usize = 6;

/// A letter: its run, what is asked, its words, and whether they were approved.
struct Letter {
    run: String,
    request: String,
    words: String,
    is_approved: bool,
}

/// Some kilobytes that hardly pack, other ones in each letter.
fn words(letter: usize) -> String {
    let word = |word: usize| format!("{:x}", (word + letter * 10_000).wrapping_mul(2_654_435_761));
    (0..2_000).map(word).collect::<Vec<_>>().join(" ")
}

impl Letter {
    async fn draft(client: &mut Client, words: String) -> Result<Self, Status> {
        let begun = client.run_workflow(start_of("approve_and_send", "", &words, "")).await?;
        let events = drained(begun.into_inner()).await?;
        let (run, request) = (events[0].run_id.clone(), asked(&events).unwrap().request_id);
        Ok(Self { run, request, words, is_approved: false })
    }

    async fn approve(&mut self, client: &mut Client) -> Result<(), Status> {
        let answer = answer_to(&self.request, "approve", "");
        drained(client.send_responses(answer).await?.into_inner()).await?;
        self.is_approved = true;
        Ok(())
    }

    /// What was acknowledged of it is there, and it was sent once if it was approved.
    async fn check(&self, client: &mut Client) {
        let told = journal(client, &self.run).await;
        assert!(format!("{told:?}").contains(&self.words), "{}: its words are whole", self.run);
        let is_deed = |event: &&Event| matches!(event, Event::ToolResult(_));
        let deeds = told.iter().filter_map(|it| it.event.as_ref()).filter(is_deed).count();
        assert!(deeds == 1 || !self.is_approved && deeds == 0, "{}: {deeds}", self.run);
    }
}

/// Letters are drafted and approved until the server is gone, or for long. What was said last may be recorded or not.
async fn write_letters(client: &mut Client) -> (Vec<Letter>, Result<(), Status>) {
    let mut letters = Vec::new();
    for round in 0..ROUNDS_MAX {
        for number in 0..LETTERS {
            match Letter::draft(client, words(round * LETTERS + number)).await {
                Ok(letter) => letters.push(letter),
                Err(status) => return (letters, Err(status)),
            }
        }
        for number in 0..LETTERS {
            if let Err(status) = letters[round * LETTERS + number].approve(client).await {
                return (letters, Err(status));
            }
        }
    }
    (letters, Ok(()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_room_is_made_nothing_acknowledged_is_lost() {
    for (point, passage) in COLLECTING.into_iter().flat_map(|point| [(point, 1), (point, 4)]) {
        let root = TempDir::new().unwrap();
        let server = Setup::new(root.path()).failpoint(point, passage).start();
        let mut client = server.client().await;
        let (letters, end) = write_letters(&mut client).await;
        assert!(end.is_err(), "{point}:{passage} is never passed");
        drop((client, server));
        let mut server = Server::start(root.path());
        let mut client = server.client().await;
        for letter in &letters {
            letter.check(&mut client).await;
        }
        // It goes on making room where it was.
        let (more, end) = write_letters(&mut client).await;
        assert!(end.is_ok(), "{end:?}");
        for letter in letters.iter().chain(&more) {
            letter.check(&mut client).await;
        }
        server.kill();
        let data = root.path().join("data");
        for look in ["doctor", "verify"] {
            let told = holdpoint(root.path(), &[look, "--data", data.to_str().unwrap()], "");
            assert_eq!(told.code, 0, "{point}:{passage}: {look}: {}", told.out);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_needed_no_more_goes_from_the_disk() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let (_, end) = write_letters(&mut server.client().await).await;
    assert!(end.is_ok(), "{end:?}");
    server.terminate();
    server.wait();
    let left = segments(&root.path().join("data"));
    let begun = left.iter().max().copied().unwrap();
    assert!(left.len() < usize::try_from(begun).unwrap(), "{} of {begun} are left", left.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_pruned_goes_from_the_disk_at_once_and_a_kill_in_between_loses_nothing() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let mut client = server.client().await;
    let (mut letters, end) = write_letters(&mut client).await;
    assert!(end.is_ok(), "{end:?}");
    letters.clear();
    for number in 0..2 {
        letters.push(Letter::draft(&mut client, words(9_000 + number)).await.unwrap());
    }
    drop(client);
    server.terminate();
    server.wait();
    let data = root.path().join("data");
    let before = segments(&data).len();
    let prune = ["prune", "--older-than", "0m", "--data", data.to_str().unwrap()];
    let mut deaths = 0;
    for point in COLLECTING {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
        forget_settings(&mut command);
        let command = command.args(prune).env("HOLDPOINT_FAILPOINT", format!("{point}:1"));
        let ended = command.current_dir(root.path()).output().unwrap();
        deaths += u32::from(ended.status.signal() == Some(9));
    }
    assert!(deaths >= 2, "it is killed where files go");
    let pruned = holdpoint(root.path(), &prune, "");
    assert_eq!(pruned.code, 0, "{}", pruned.err);
    let left = segments(&data);
    assert!(left.len() <= 2, "{before} before, {left:?} left");
    server.restart_here();
    let mut client = server.client().await;
    for letter in &mut letters {
        letter.check(&mut client).await;
        letter.approve(&mut client).await.unwrap();
        letter.check(&mut client).await;
    }
    server.kill();
    for look in ["doctor", "verify"] {
        let told = holdpoint(root.path(), &[look, "--data", data.to_str().unwrap()], "");
        assert_eq!(told.code, 0, "{look}: {}", told.out);
    }
}

fn segments(data: &Path) -> Vec<u32> {
    let names = fs::read_dir(data.join("values")).unwrap().map(|file| file.unwrap().file_name());
    names.map(|name| name.to_str().unwrap().parse().unwrap()).collect()
}
