//! Drain: a server that is asked to stop takes nothing new, tells its streams, loses nothing and
//! ends well; and the pages that an operator's tools ask for.

use std::time::Duration;

use holdpoint::wire::v1::{RunStatus, WatchRunRequest, WorkflowEvent};
use tempfile::TempDir;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::support::server::{
    Client, Server, Setup, answer_to, asked, drained, journal, names, run, send, start_of,
};

/// A bound on everything that is waited for here.
const PATIENCE: Duration = Duration::from_mins(1);

/// Starts `steady` and returns its stream when the agent is at work.
async fn at_work(client: &mut Client) -> (Streaming<WorkflowEvent>, Vec<WorkflowEvent>) {
    at_work_on("steady", client).await
}

async fn at_work_on(
    workflow: &str,
    client: &mut Client,
) -> (Streaming<WorkflowEvent>, Vec<WorkflowEvent>) {
    let request = start_of(workflow, "", "Think.", "steady-key");
    let mut stream = client.run_workflow(request).await.unwrap().into_inner();
    let mut events = Vec::new();
    while names(&events).last() != Some(&"executor_invoked") {
        events.push(stream.message().await.unwrap().unwrap());
    }
    (stream, events)
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_under_way_is_finished_and_the_stream_with_it() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let mut client = server.client().await;
    let (stream, _) = at_work(&mut client).await;
    server.terminate();
    let events = timeout(PATIENCE, drained(stream)).await.unwrap().unwrap();
    assert_eq!(names(&events).last(), Some(&"completed"));
    drop(client);
    assert_eq!(server.wait().code(), Some(0), "{}", server.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_whose_turn_comes_while_it_drains_have_it_and_the_stream_follows() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let mut client = server.client().await;
    let (stream, _) = at_work_on("steady_pair", &mut client).await;
    server.terminate();
    let rest = timeout(PATIENCE, drained(stream)).await.unwrap().unwrap();
    let names = names(&rest);
    let count = |wanted: &str| names.iter().filter(|name| **name == wanted).count();
    assert_eq!((count("executor_completed"), count("executor_failed")), (2, 0), "{names:?}");
    assert_eq!(names.last(), Some(&"completed"));
    drop(client);
    assert_eq!(server.wait().code(), Some(0), "{}", server.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_is_cut_off_tells_its_stream_and_is_done_after_the_restart() {
    let root = TempDir::new().unwrap();
    let mut server = Setup::new(root.path()).arg("--drain-seconds").arg("0").start();
    let mut client = server.client().await;
    let (stream, events) = at_work(&mut client).await;
    server.terminate();
    let status = timeout(PATIENCE, drained(stream)).await.unwrap().unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "server.draining"));
    drop(client);
    assert_eq!(server.wait().code(), Some(0), "{}", server.told());

    server.restart();
    let last = events.last().unwrap();
    let (run_id, after_sequence) = (last.run_id.clone(), last.sequence);
    let request = WatchRunRequest { run_id, after_sequence, through_pauses: false };
    let stream = server.client().await.watch_run(request).await.unwrap().into_inner();
    let rest = timeout(PATIENCE, drained(stream)).await.unwrap().unwrap();
    assert_eq!(rest[0].sequence, last.sequence + 1, "E1: taken up where it broke off");
    assert_eq!(names(&rest).last(), Some(&"completed"));
    let whole = journal(&mut server.client().await, &last.run_id).await;
    let count = |wanted: &str| names(&whole).iter().filter(|name| **name == wanted).count();
    assert_eq!((count("executor_invoked"), count("executor_completed")), (2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_new_is_taken_on_while_it_drains() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let mut client = server.client().await;
    let paused = run(&mut client, start_of("chat", "", "Hello", "")).await;
    let request = asked(&paused).unwrap().request_id;
    let (stream, _) = at_work(&mut client).await;
    server.terminate();
    // The signal takes its time; until it has come the same call again is the same run.
    let status = loop {
        match client.run_workflow(start_of("chat", "", "Again", "same")).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(status) => break status,
        }
    };
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "server.draining"));
    let status = client.send_responses(answer_to(&request, "x", "k")).await.unwrap_err();
    assert_eq!(reason(&status), "server.draining");
    timeout(PATIENCE, drained(stream)).await.unwrap().unwrap();
    drop(client);
    assert_eq!(server.wait().code(), Some(0), "{}", server.told());
    server.restart();
    let events = send(&mut server.client().await, answer_to(&request, "x", "k")).await;
    assert_eq!(names(&events)[0], "response_received", "what was refused can be done now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_of_a_waiting_run_is_told_and_can_watch_again() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let mut client = server.client().await;
    let paused = run(&mut client, start_of("chat", "", "Hello", "")).await;
    let last = paused.last().unwrap();
    let (run_id, after_sequence) = (last.run_id.clone(), last.sequence);
    let request = WatchRunRequest { run_id, after_sequence, through_pauses: true };
    let stream = client.watch_run(request).await.unwrap().into_inner();
    server.terminate();
    let status = timeout(PATIENCE, drained(stream)).await.unwrap().unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "server.draining"));
    drop(client);
    assert_eq!(server.wait().code(), Some(0), "{}", server.told());
    server.restart();
    let request =
        holdpoint::wire::v1::GetRunRequest { run_id: last.run_id.clone(), omit_conversation: true };
    let view = server.client().await.get_run(request).await.unwrap().into_inner();
    assert_eq!(view.run.unwrap().status(), RunStatus::Waiting);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_pages_answer() {
    let root = TempDir::new().unwrap();
    let server = Server::start(root.path());
    run(&mut server.client().await, start_of("chat", "", "Hello", "")).await;
    assert_eq!(server.page("/healthz"), (200, "ok\n".into()));
    assert_eq!(server.page("/readyz"), (200, "ready\n".into()));
    let (status, metrics) = server.page("/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("\nholdpoint_runs_started_total 1\n"), "{metrics}");
    let (status, told) = server.page("/nowhere");
    assert_eq!(status, 404);
    assert!(told.contains("/healthz"), "{told}");
}
