//! Figures: many durations become a few numbers.

use std::time::Duration;

use serde::Serialize;

/// Durations of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples(Vec<Duration>);

impl Samples {
    /// Adds one.
    pub(super) fn add(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// Adds another's.
    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The sum of a part of them, in seconds, in the order in which they were added.
    pub(super) fn sum_of(&self, range: std::ops::Range<usize>) -> f64 {
        self.0.get(range).unwrap_or_default().iter().map(Duration::as_secs_f64).sum()
    }

    /// Their percentiles.
    pub(super) fn spread(mut self) -> Spread {
        self.0.sort_unstable();
        Spread { p50_ms: self.at(50), p99_ms: self.at(99) }
    }

    fn at(&self, percent: usize) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).map_or(0.0, |sample| sample.as_secs_f64() * 1_000.0)
    }
}

/// Where half and nearly all of the samples lie, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Half are faster.
    pub p50_ms: f64,
    /// Nearly all are faster.
    pub p99_ms: f64,
}

/// The pass whose figure lies in the middle.
pub(super) fn median<T>(mut passes: Vec<T>, figure: impl Fn(&T) -> f64) -> Option<T> {
    passes.sort_by(|one, other| figure(one).total_cmp(&figure(other)));
    let middle = passes.len() / 2;
    passes.into_iter().nth(middle)
}

/// A count as a number that can be divided.
#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub(super) fn number(count: usize) -> f64 {
    count as f64
}

/// Bytes in megabytes, as disks are sold.
#[expect(clippy::cast_precision_loss, reason = "sizes here are far below 2^52")]
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_samples() {
        let mut samples = Samples::default();
        for ms in (1..=101).rev() {
            samples.add(Duration::from_millis(ms));
        }
        assert_eq!(samples.count(), 101);
        let spread = samples.spread();
        assert!((spread.p50_ms - 51.0).abs() < 1e-9, "{spread:?}");
        assert!((spread.p99_ms - 100.0).abs() < 1e-9, "{spread:?}");
    }

    #[test]
    fn nothing_measured_is_zero_and_no_panic() {
        assert_eq!(Samples::default().spread(), Spread::default());
        assert_eq!(median(Vec::<f64>::new(), |pass| *pass), None);
        assert!(Samples::default().sum_of(0..20).abs() < f64::EPSILON);
    }

    #[test]
    fn the_median_pass_is_a_pass_that_happened() {
        assert_eq!(median(vec![9.0, 1.0, 5.0], |pass| *pass), Some(5.0));
        assert_eq!(median(vec![9.0, 1.0], |pass| *pass), Some(9.0));
    }
}
