//! W1: pause and resume. Start a run, be asked, answer, see it complete; many clients at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;

use crate::bench::clients;
use crate::bench::clock::Stopwatch;
use crate::bench::figures::{Samples, Spread, median, number};
use crate::bench::options::Options;
use crate::bench::process::{Scratch, Server, own_cpu};
use crate::bench::workflows::{CYCLE, unlike};
use crate::bench::yardstick::{bare_turns, panicked};
use crate::bench::{BenchError, Progress};

/// What is done before anything counts, at most: by then the store has segments and the caches are
/// warm.
const WARM_UP_MAX: Duration = Duration::from_secs(2);

/// How long the yardstick is held to the machine on either side of a pass.
const BESIDE_MAX: Duration = Duration::from_secs(2);

/// What came of one number of clients: the pass in the middle.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct W1 {
    /// Clients at once.
    pub clients: u16,
    /// Whole cycles a second.
    pub cycles_per_second: f64,
    /// From the call until the pause was seen.
    pub start: Spread,
    /// From the answer until the completion was seen.
    pub respond: Spread,
    /// What a cycle costs the server's processor: the figure that a busy machine disturbs least.
    pub server_cpu_us: f64,
    /// What a cycle costs the clients' processor.
    pub client_cpu_us: f64,
    /// The longest time in which nobody was answered: what a store that writes itself anew costs everybody at once.
    pub longest_gap_ms: f64,
    /// What the store takes on disk in the end.
    pub bytes: u64,
    /// Bare gRPC turns a second, right before and right after it.
    pub bare_turns_per_second: f64,
}

impl W1 {
    /// Cycles, as a share of what bare gRPC turns allowed just then: two turns a cycle.
    pub fn of_bare_grpc(&self) -> f64 {
        self.cycles_per_second / (self.bare_turns_per_second / 2.0)
    }
}

/// Measures every number of clients, pass by pass, so that a slow minute hits all of them; the
/// yardstick is taken beside each, so that it hits that too.
pub(super) async fn measure(
    scratch: &Scratch,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Vec<W1>, BenchError> {
    let mut passes = Vec::new();
    let beside = BESIDE_MAX.min(options.length());
    let echo = Server::echo(scratch).await?;
    for pass in 1..=options.passes {
        for &clients in &options.clients {
            progress(&format!("w1: {clients} clients, pass {pass} of {}", options.passes));
            let over = options.connections(clients);
            let bare = clients::dial_over(&echo.address, clients, over).await?;
            let before = bare_turns(bare.clone(), beside).await?.per_second;
            let mut one = one_pass(scratch, (clients, over), options).await?;
            let after = bare_turns(bare, beside).await?.per_second;
            one.bare_turns_per_second = f64::midpoint(before, after);
            let (cycles, share) = (one.cycles_per_second, one.of_bare_grpc() * 100.0);
            progress(&format!(
                "w1: {clients} clients: {cycles:.0} cycles/s, {share:.0} % of bare gRPC"
            ));
            passes.push(one);
        }
    }
    let middle = |&clients: &u16| {
        let own = passes.iter().filter(|pass| pass.clients == clients).copied().collect();
        median(own, W1::of_bare_grpc)
    };
    Ok(options.clients.iter().filter_map(middle).collect())
}

async fn one_pass(
    scratch: &Scratch,
    (clients, connections): (u16, u16),
    options: &Options,
) -> Result<W1, BenchError> {
    let (length, input) = (options.length(), options.input);
    let warm_up = WARM_UP_MAX.min(length);
    let place = scratch.fresh_place("w1").await?;
    let servers = Server::several(scratch, &place, options.replicas).await?;
    let callers = clients::dial_all(&servers, clients, connections).await?;
    let cpu = || servers.iter().map(Server::cpu).sum::<Duration>();
    let (server_cpu, client_cpu) = (cpu(), own_cpu());
    let whole = Stopwatch::start();
    let (gaps, numbers) = (Arc::new(Gaps::default()), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for mut client in callers {
        let (gaps, numbers) = (Arc::clone(&gaps), Arc::clone(&numbers));
        tasks.spawn(async move {
            let (mut starts, mut responds) = (Samples::default(), Samples::default());
            let mut cycles = 0;
            while whole.elapsed() < warm_up + length {
                let begun = whole.elapsed();
                let told = input.map(|bytes| {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    unlike(number, usize::try_from(bytes).unwrap_or(usize::MAX))
                });
                let one = Stopwatch::start();
                let request = match told {
                    Some(told) => clients::start_with(&mut client, CYCLE, told).await?,
                    None => clients::start(&mut client, CYCLE).await?,
                };
                let paused = one.elapsed();
                gaps.answered(whole.elapsed());
                let one = Stopwatch::start();
                clients::approve(&mut client, request).await?;
                let completed = one.elapsed();
                gaps.answered(whole.elapsed());
                cycles += 1;
                // A cycle counts if all of it lies within the time that is measured.
                if begun >= warm_up && whole.elapsed() <= warm_up + length {
                    starts.add(paused);
                    responds.add(completed);
                }
            }
            Ok::<_, BenchError>((starts, responds, cycles))
        });
    }
    let (mut starts, mut responds, mut cycles) = (Samples::default(), Samples::default(), 0);
    while let Some(one) = tasks.join_next().await {
        let (more_starts, more_responds, more) = one.map_err(panicked)??;
        cycles += more;
        starts.extend(more_starts);
        responds.extend(more_responds);
    }
    let cycles_per_second = number(starts.count()) / length.as_secs_f64();
    let each = |used: Duration| used.as_secs_f64() * 1e6 / number(cycles).max(1.0);
    Ok(W1 {
        clients,
        cycles_per_second,
        start: starts.spread(),
        respond: responds.spread(),
        server_cpu_us: each(cpu().saturating_sub(server_cpu)),
        client_cpu_us: each(own_cpu().saturating_sub(client_cpu)),
        longest_gap_ms: gaps.longest().as_secs_f64() * 1e3,
        bytes: place.bytes().await?,
        bare_turns_per_second: 0.0,
    })
}

/// When anybody was last answered, and the longest time in which nobody was.
#[derive(Debug, Default)]
struct Gaps {
    last_us: AtomicU64,
    longest_us: AtomicU64,
}

impl Gaps {
    fn answered(&self, at: Duration) {
        let at = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        let last = self.last_us.fetch_max(at, Ordering::Relaxed);
        // What comes before the first answer is the server's own beginning.
        if last > 0 {
            self.longest_us.fetch_max(at.saturating_sub(last), Ordering::Relaxed);
        }
    }

    fn longest(&self) -> Duration {
        Duration::from_micros(self.longest_us.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_is_between_two_answers_of_anybody() {
        let gaps = Gaps::default();
        // The first one is late, two come in no order, and then nobody is answered for a while.
        for at in [9_000, 9_010, 9_005, 9_012, 9_300, 9_301] {
            gaps.answered(Duration::from_millis(at));
        }
        assert_eq!(gaps.longest(), Duration::from_millis(288));
    }
}
