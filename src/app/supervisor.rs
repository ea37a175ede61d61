//! Supervisor: tells whoever started this process how it is, as systemd wants to hear it: ready, stopping, and
//! alive while its store takes writes. Where nobody listens nothing is told, and nothing ever waits for it.

use std::env;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use crate::engine::Engine;

/// Where it is told, and how often it wants to hear.
#[derive(Debug)]
pub(super) struct Supervisor {
    line: Option<(UnixDatagram, SocketAddr)>,
    every: Option<Duration>,
}

impl Supervisor {
    /// Whoever the environment names, told from now on that the server lives, until the task is dropped.
    pub(super) fn beside(engine: &Engine) -> (Arc<Self>, AbortOnDropHandle<()>) {
        let supervisor = Arc::new(Self::from_environment());
        let reassuring = Arc::clone(&supervisor).reassure(engine.clone());
        (supervisor, reassuring)
    }

    fn from_environment() -> Self {
        let said = |name: &str| env::var(name).ok();
        let line = said("NOTIFY_SOCKET").and_then(|place| {
            let opened = address(&place).and_then(|to| Ok((UnixDatagram::unbound()?, to)));
            let opened = opened.and_then(|(line, to)| {
                line.set_nonblocking(true)?;
                Ok((line, to))
            });
            opened.inspect_err(|error| tracing::warn!(%error, "the supervisor cannot be told")).ok()
        });
        let every = every(said("WATCHDOG_USEC"), said("WATCHDOG_PID"), std::process::id());
        Self { line, every }
    }

    /// It serves now.
    pub(super) fn ready(&self, address: std::net::SocketAddr) {
        self.tell(&format!("READY=1\nSTATUS=serving on {address}"));
    }

    /// It was told to stop, and finishes what is under way.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=finishing what is under way");
    }

    /// Says that it is alive, as often as that is wanted, until it is dropped: while the store takes writes. One
    /// that has failed stays so until the process starts anew, and silence is how a supervisor hears of it.
    fn reassure(self: Arc<Self>, engine: Engine) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            let Some(every) = self.every.filter(|_| self.line.is_some()) else { return };
            let mut beat = tokio::time::interval(every);
            loop {
                beat.tick().await;
                if engine.is_healthy() {
                    self.tell("WATCHDOG=1");
                }
            }
        }))
    }

    fn tell(&self, words: &str) {
        if let Some((line, to)) = &self.line
            && let Err(error) = line.send_to_addr(words.as_bytes(), to)
        {
            tracing::debug!(%error, "the supervisor was not told");
        }
    }
}

/// A path, or after an `@` a name that stands in no folder.
fn address(place: &str) -> std::io::Result<SocketAddr> {
    match place.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(place),
    }
}

/// Twice as often as it is counted, if it is this process that is meant.
fn every(microseconds: Option<String>, meant: Option<String>, own: u32) -> Option<Duration> {
    let is_ours = meant.is_none_or(|pid| pid.parse() == Ok(own));
    let microseconds: u64 = microseconds?.parse().ok()?;
    (is_ours && microseconds > 1).then(|| Duration::from_micros(microseconds / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_twice_as_often_as_it_counts_and_only_of_itself() {
        let said = |text: &str| Some(text.to_owned());
        let half = Some(Duration::from_secs(15));
        assert_eq!(every(said("30000000"), None, 7), half);
        assert_eq!(every(said("30000000"), said("7"), 7), half);
        assert_eq!(every(said("30000000"), said("8"), 7), None);
        for nothing in [None, said("0"), said("1"), said("soon")] {
            assert_eq!(every(nothing, None, 7), None);
        }
    }
}
