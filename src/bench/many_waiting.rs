//! W3: many waiting. Sessions by the ten thousand that wait for a person; then `kill -9`, a new
//! process, and one of them is answered.

use serde::Serialize;
use tokio::task::JoinSet;

use crate::bench::clients::{self, Remaining};
use crate::bench::clock::Stopwatch;
use crate::bench::options::Options;
use crate::bench::process::{Scratch, Server};
use crate::bench::workflows::CYCLE;
use crate::bench::yardstick::panicked;
use crate::bench::{BenchError, Progress};

/// Clients that make the sessions.
const CLIENTS: u16 = 64;
/// A line of progress for every so many sessions.
const STRIDE: u32 = 50_000;

/// What came of one number of sessions.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct W3 {
    /// Sessions that wait.
    pub sessions: u32,
    /// How long it took to make them.
    pub create_seconds: f64,
    /// The data directory then.
    pub bytes: u64,
    /// Resident memory of the server then, of all of them where there are several.
    pub resident_bytes: u64,
    /// From the start of the new process until it served.
    pub restart_seconds: f64,
    /// From the start of the new process until one session was answered and completed.
    pub first_answer_seconds: f64,
    /// Resident memory of the new process then.
    pub restarted_resident_bytes: u64,
}

/// Measures every number of sessions on a store of its own.
pub(super) async fn measure(
    scratch: &Scratch,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Vec<W3>, BenchError> {
    let mut measured = Vec::new();
    for &sessions in &options.sessions {
        progress(&format!("w3: {sessions} waiting sessions"));
        measured.push(one(scratch, (sessions, options.replicas), progress).await?);
    }
    Ok(measured)
}

async fn one(
    scratch: &Scratch,
    (sessions, servers): (u32, u16),
    progress: Progress<'_>,
) -> Result<W3, BenchError> {
    let place = scratch.fresh_place("w3").await?;
    let servers = Server::several(scratch, &place, servers).await?;
    let whole = Stopwatch::start();
    let request = create(&servers, sessions, progress).await?;
    let create_seconds = whole.seconds();
    let resident_bytes = servers.iter().map(Server::resident_bytes).sum();
    let bytes = place.bytes().await?;
    progress(&format!("w3: {sessions} made in {create_seconds:.1} s; kill -9, and start again"));
    drop(servers);
    // The first that is back answers.
    let server = Server::at(scratch, &place, 0).await?;
    let restart_seconds = server.since_exec.seconds();
    let mut callers = clients::dial(&server.address, 1).await?;
    clients::approve(&mut callers[0], request).await?;
    Ok(W3 {
        sessions,
        create_seconds,
        bytes,
        resident_bytes,
        restart_seconds,
        first_answer_seconds: server.since_exec.seconds(),
        restarted_resident_bytes: server.resident_bytes(),
    })
}

/// Makes the sessions; the open request of one of the first comes back.
pub(super) async fn create(
    servers: &[Server],
    sessions: u32,
    progress: Progress<'_>,
) -> Result<String, BenchError> {
    let remaining = Remaining::new(sessions);
    let mut tasks = JoinSet::new();
    for mut client in clients::dial_all(servers, CLIENTS, clients::FEW).await? {
        let remaining = remaining.clone();
        tasks.spawn(async move {
            let mut first = None;
            while remaining.take() {
                let request = clients::start(&mut client, CYCLE).await?;
                first.get_or_insert(request);
            }
            Ok::<_, BenchError>(first)
        });
    }
    let telling = async {
        let mut told = 0;
        let mut ticks = tokio::time::interval(std::time::Duration::from_millis(250));
        loop {
            ticks.tick().await;
            let done = sessions - remaining.count();
            if done / STRIDE > told {
                told = done / STRIDE;
                progress(&format!("w3: {done} of {sessions} sessions"));
            }
        }
    };
    let making = async {
        let mut first = None;
        while let Some(one) = tasks.join_next().await {
            first = first.or(one.map_err(panicked)??);
        }
        first.ok_or(BenchError::Unexpected("make any session"))
    };
    tokio::select! {
        made = making => made,
        () = telling => Err(BenchError::Unexpected("make any session")),
    }
}
