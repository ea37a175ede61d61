//! Yardstick: what the machine itself can do: synced appends to a plain file, bare gRPC turns.
//! Taken in the same run as the workloads, so that ratios can be formed.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, spawn_blocking};

use crate::bench::clients::{self, Client};
use crate::bench::clock::Stopwatch;
use crate::bench::figures::{Samples, Spread, number};
use crate::bench::options::Options;
use crate::bench::process::{Scratch, Server};
use crate::bench::{BenchError, Progress};

/// What is appended each time.
const RECORD_BYTES: usize = 1 << 10;
/// Writers that share a group commit: as many as the busiest workload has clients.
const WRITERS: usize = 64;
/// How long each yardstick is held to the machine at most; their figures settle within a second.
const LENGTH_MAX: Duration = Duration::from_secs(3);
/// Calls before the first that counts: connections, allocators and caches are warm by then.
const WARM_UP_TURNS: usize = 500;

/// What the machine can do.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Yardsticks {
    /// Synced appends by one writer.
    pub append_one: Rate,
    /// Synced appends by 64 writers that share a group commit.
    pub append_grouped: Rate,
    /// Bare gRPC turns, by clients.
    pub turns: Vec<Turns>,
}

/// How often something can be done.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Rate {
    /// Times a second.
    pub per_second: f64,
    /// How long each takes.
    #[serde(flatten)]
    pub spread: Spread,
}

/// Bare gRPC turns.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Turns {
    /// Clients at once.
    pub clients: u16,
    /// What they get.
    #[serde(flatten)]
    pub rate: Rate,
}

/// Takes all of them.
pub(super) async fn measure(
    scratch: &Scratch,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Yardsticks, BenchError> {
    let length = LENGTH_MAX.min(options.length());
    progress("yardstick: synced appends of 1 KiB, one writer");
    let append_one = append_one(scratch, length).await?;
    progress("yardstick: synced appends of 1 KiB, 64 writers in group commits");
    let append_grouped = append_grouped(scratch, length).await?;
    let server = Server::echo(scratch).await?;
    let mut turns = Vec::new();
    for &clients in &options.clients {
        progress(&format!("yardstick: bare gRPC turns, {clients} clients"));
        let callers = clients::dial_over(&server.address, clients, options.connections(clients));
        turns.push(Turns { clients, rate: bare_turns(callers.await?, length).await? });
    }
    Ok(Yardsticks { append_one, append_grouped, turns })
}

fn create(scratch: &Scratch) -> Result<File, BenchError> {
    let path = scratch.join("yardstick");
    File::create(&path).map_err(BenchError::io(format!("create `{}`", path.display())))
}

async fn append_one(scratch: &Scratch, length: Duration) -> Result<Rate, BenchError> {
    let mut file = create(scratch)?;
    let work = move || {
        let record = [b'x'; RECORD_BYTES];
        let mut samples = Samples::default();
        let whole = Stopwatch::start();
        while whole.elapsed() < length {
            let one = Stopwatch::start();
            file.write_all(&record)?;
            file.sync_data()?;
            samples.add(one.elapsed());
        }
        Ok(rate(samples, whole))
    };
    blocking(work).await
}

type Waiting = (Vec<u8>, oneshot::Sender<()>);

async fn append_grouped(scratch: &Scratch, length: Duration) -> Result<Rate, BenchError> {
    let mut file = create(scratch)?;
    let (queue, mut queued) = mpsc::channel::<Waiting>(WRITERS);
    let committer = blocking(move || {
        let (mut bytes, mut replies) = (Vec::new(), Vec::new());
        while let Some(first) = queued.blocking_recv() {
            let mut next = Some(first);
            while let Some((record, reply)) = next {
                bytes.extend_from_slice(&record);
                replies.push(reply);
                next = queued.try_recv().ok();
            }
            file.write_all(&bytes)?;
            file.sync_data()?;
            bytes.clear();
            replies.drain(..).for_each(|reply| reply.send(()).unwrap_or_default());
        }
        Ok(())
    });
    let whole = Stopwatch::start();
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let queue = queue.clone();
        writers.spawn(async move {
            let mut samples = Samples::default();
            while whole.elapsed() < length {
                let one = Stopwatch::start();
                let (reply, done) = oneshot::channel();
                if queue.send((vec![b'x'; RECORD_BYTES], reply)).await.is_err() {
                    break;
                }
                if done.await.is_ok() {
                    samples.add(one.elapsed());
                }
            }
            samples
        });
    }
    drop(queue);
    let writing = async {
        let mut samples = Samples::default();
        while let Some(Ok(more)) = writers.join_next().await {
            samples.extend(more);
        }
        rate(samples, whole)
    };
    let (rate, committed) = tokio::join!(writing, committer);
    committed.map(|()| rate)
}

/// Bare gRPC turns of callers of an echo server.
pub(super) async fn bare_turns(
    mut callers: Vec<Client>,
    length: Duration,
) -> Result<Rate, BenchError> {
    for index in 0..WARM_UP_TURNS {
        let index = index % callers.len();
        clients::turn(&mut callers[index]).await?;
    }
    let whole = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for mut client in callers {
        tasks.spawn(async move {
            let mut samples = Samples::default();
            while whole.elapsed() < length {
                let one = Stopwatch::start();
                clients::turn(&mut client).await?;
                samples.add(one.elapsed());
            }
            Ok::<_, BenchError>(samples)
        });
    }
    let mut samples = Samples::default();
    while let Some(one) = tasks.join_next().await {
        samples.extend(one.map_err(panicked)??);
    }
    Ok(rate(samples, whole))
}

fn rate(samples: Samples, whole: Stopwatch) -> Rate {
    let per_second = number(samples.count()) / whole.seconds();
    Rate { per_second, spread: samples.spread() }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, BenchError> {
    let outcome = spawn_blocking(work).await.map_err(panicked)?;
    outcome.map_err(BenchError::io("append to a file in the scratch directory"))
}

/// A task of ours that did not end well.
pub(super) fn panicked(error: tokio::task::JoinError) -> BenchError {
    BenchError::io("finish a measurement")(std::io::Error::other(error))
}
