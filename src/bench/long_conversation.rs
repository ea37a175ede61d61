//! W2: a long conversation. One session, turn after turn, each adding 1 KiB that every later step
//! sees. What it shows is growth: of the disk with the turns, and of nothing with their square.

use serde::Serialize;

use crate::bench::clients;
use crate::bench::clock::Stopwatch;
use crate::bench::figures::{Samples, median};
use crate::bench::options::Options;
use crate::bench::process::{Scratch, Server};
use crate::bench::workflows::TALK;
use crate::bench::{BenchError, Progress};

/// The turns at either end that are compared.
const ENDS: usize = 20;

/// What came of one length.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct W2 {
    /// Turns of the conversation.
    pub turns: u32,
    /// How long all of them took.
    pub seconds: f64,
    /// How long the first 20 took.
    pub first_20_seconds: f64,
    /// How long the last 20 took.
    pub last_20_seconds: f64,
    /// The data directory afterwards.
    pub bytes: u64,
}

/// Measures every length on a store of its own.
pub(super) async fn measure(
    scratch: &Scratch,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Vec<W2>, BenchError> {
    let mut measured = Vec::new();
    for &turns in &options.turns {
        let mut passes = Vec::new();
        for pass in 1..=options.passes {
            progress(&format!("w2: {turns} turns, pass {pass} of {}", options.passes));
            passes.push(one_pass(scratch, turns, options.replicas).await?);
        }
        measured.extend(median(passes, |pass: &W2| pass.seconds));
    }
    Ok(measured)
}

async fn one_pass(scratch: &Scratch, turns: u32, count: u16) -> Result<W2, BenchError> {
    let place = scratch.fresh_place("w2").await?;
    let servers = Server::several(scratch, &place, count).await?;
    // Each turn goes to the next server.
    let mut callers = clients::dial_all(&servers, count, count).await?;
    let mut turn = (0..callers.len()).cycle();
    let mut next = || turn.next().unwrap_or(0);
    let mut samples = Samples::default();
    let whole = Stopwatch::start();
    let mut request = clients::start(&mut callers[next()], TALK).await?;
    for _ in 0..turns {
        let one = Stopwatch::start();
        request = clients::say(&mut callers[next()], request).await?;
        samples.add(one.elapsed());
    }
    let seconds = whole.seconds();
    let bytes = place.bytes().await?;
    let count = samples.count();
    Ok(W2 {
        turns,
        seconds,
        first_20_seconds: samples.sum_of(0..ENDS.min(count)),
        last_20_seconds: samples.sum_of(count.saturating_sub(ENDS)..count),
        bytes,
    })
}
