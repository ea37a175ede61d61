//! W5: many at a slow model. Runs by the thousand, each of which waits for its model at the same
//! moment: what does one of them cost?

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::bench::clients::{self, Remaining};
use crate::bench::clock::Stopwatch;
use crate::bench::figures::number;
use crate::bench::model::SlowModel;
use crate::bench::options::Options;
use crate::bench::process::{Scratch, Server};
use crate::bench::workflows::{self, MODEL};
use crate::bench::yardstick::panicked;
use crate::bench::{BenchError, Progress};

/// Clients that start the runs.
const CLIENTS: u16 = 64;
/// Runs before anything counts: by then every thread and every cache is there.
const WARM_UP: u32 = 200;
/// How often it is looked whether all have come to their end.
const LOOK: Duration = Duration::from_millis(20);

/// What came of one number of runs.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct W5 {
    /// Runs that wait for the model at the same moment.
    pub runs: u32,
    /// From the first start until all of them waited.
    pub asked_seconds: f64,
    /// Resident memory of the server before.
    pub resident_before_bytes: u64,
    /// Resident memory of the server while they waited.
    pub resident_bytes: u64,
    /// What one of them costs.
    pub bytes_per_run: f64,
    /// From the model's answers until all of them had completed.
    pub completed_seconds: f64,
}

/// Measures every number of runs on a store of its own.
pub(super) async fn measure(
    scratch: &Scratch,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Vec<W5>, BenchError> {
    allow_connections();
    let model = SlowModel::start().await?;
    workflows::write_model(&scratch.join("workflows"), &model.base_url)
        .map_err(BenchError::io("write the workflow"))?;
    let mut measured = Vec::new();
    for &runs in &options.runs {
        progress(&format!("w5: {runs} runs at a slow model"));
        measured.push(one(scratch, &model, runs).await?);
    }
    Ok(measured)
}

/// Every run has a connection to the model of its own; the server under test inherits the bound.
fn allow_connections() {
    let most = getrlimit(Resource::Nofile).maximum;
    // Where it is not allowed, as many as there may be will have to do.
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap_or_default();
}

async fn one(scratch: &Scratch, model: &SlowModel, runs: u32) -> Result<W5, BenchError> {
    let data = scratch.fresh_data("w5")?;
    let server = Server::orchestrator(scratch, &data).await?;
    let mut callers = clients::dial_over(&server.address, CLIENTS, clients::FEW).await?;
    model.answer();
    start(&callers, WARM_UP.min(runs)).await?;
    clients::all_over(&mut callers[0], LOOK).await?;
    model.think();
    let resident_before_bytes = server.resident_bytes();
    let whole = Stopwatch::start();
    start(&callers, runs).await?;
    model.asked_by(runs).await?;
    let asked_seconds = whole.seconds();
    let resident_bytes = server.resident_bytes();
    let whole = Stopwatch::start();
    model.answer();
    clients::all_over(&mut callers[0], LOOK).await?;
    let more = usize::try_from(resident_bytes.saturating_sub(resident_before_bytes));
    Ok(W5 {
        runs,
        asked_seconds,
        resident_before_bytes,
        resident_bytes,
        bytes_per_run: number(more.unwrap_or(usize::MAX)) / f64::from(runs),
        completed_seconds: whole.seconds(),
    })
}

/// Starts runs and leaves them: whoever watches would cost the server something, too (E5).
async fn start(callers: &[clients::Client], runs: u32) -> Result<(), BenchError> {
    let remaining = Remaining::new(runs);
    let mut tasks = JoinSet::new();
    for mut client in callers.iter().cloned() {
        let remaining = remaining.clone();
        tasks.spawn(async move {
            while remaining.take() {
                clients::begin(&mut client, MODEL).await?;
            }
            Ok::<_, BenchError>(())
        });
    }
    while let Some(one) = tasks.join_next().await {
        one.map_err(panicked)??;
    }
    Ok(())
}
