//! Clock: a stopwatch. The product asks `ports::Clock` for the time of day in milliseconds; here
//! what is wanted is microseconds that never go backwards.

use std::time::{Duration, Instant};

/// Began at some moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    /// Begins now.
    #[expect(clippy::disallowed_methods, reason = "measuring is this room's purpose")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// How long it has been running.
    pub(super) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// The same in seconds.
    pub(super) fn seconds(self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}
