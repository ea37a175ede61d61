//! W6: many questions of one run. All are open at once and are answered one by one, in no order; what
//! it shows is that an answer costs as much among a thousand as among a hundred.

use serde::Serialize;

use crate::bench::clients;
use crate::bench::clock::Stopwatch;
use crate::bench::figures::{Samples, Spread, median};
use crate::bench::options::Options;
use crate::bench::process::{Scratch, Server};
use crate::bench::{BenchError, Progress};

/// Neighbours in the order of answering lie this far apart in that of asking: a prime, so that all
/// have their turn.
const STRIDE: usize = 7_919;

/// What came of one number of branches.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct W6 {
    /// Questions that were open at once.
    pub branches: u32,
    /// How long until all were asked.
    pub asked_seconds: f64,
    /// How long until all were answered.
    pub answered_seconds: f64,
    /// One answer, to the next pause.
    pub answer: Spread,
}

/// Measures every number of branches on a store of its own.
pub(super) async fn measure(
    scratch: &Scratch,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Vec<W6>, BenchError> {
    let mut measured = Vec::new();
    for &branches in &options.branches {
        let mut passes = Vec::new();
        for pass in 1..=options.passes {
            progress(&format!("w6: {branches} branches, pass {pass} of {}", options.passes));
            passes.push(one_pass(scratch, branches).await?);
        }
        measured.extend(median(passes, |pass: &W6| pass.answered_seconds));
    }
    Ok(measured)
}

async fn one_pass(scratch: &Scratch, branches: u32) -> Result<W6, BenchError> {
    let data = scratch.fresh_data("w6")?;
    let server = Server::orchestrator(scratch, &data).await?;
    let client = &mut clients::dial(&server.address, 1).await?[0];
    let asked = Stopwatch::start();
    let open = clients::spread(client, branches).await?;
    let asked_seconds = asked.seconds();
    if open.len() != branches as usize {
        return Err(BenchError::Unexpected("ask everybody"));
    }
    let mut samples = Samples::default();
    let answered = Stopwatch::start();
    let mut is_over = false;
    for turn in 0..open.len() {
        let one = Stopwatch::start();
        let request = open[turn * STRIDE % open.len()].clone();
        is_over = clients::answer(client, request, "fine").await?;
        samples.add(one.elapsed());
    }
    if !is_over {
        return Err(BenchError::Unexpected("complete a run"));
    }
    let answered_seconds = answered.seconds();
    Ok(W6 { branches, asked_seconds, answered_seconds, answer: samples.spread() })
}
