//! Times: a time of ours as protobuf has it, and back.

use prost_types::Timestamp;

use crate::kernel::Millis;

pub(super) fn time(at: Millis) -> Timestamp {
    let seconds = i64::try_from(at.0 / 1000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(at.0 % 1000).unwrap_or(0) * 1_000_000;
    Timestamp { seconds, nanos }
}

/// A time as a caller sends it; before 1970 is at its beginning.
pub(super) fn millis(at: Timestamp) -> Millis {
    let seconds = u64::try_from(at.seconds).unwrap_or(0);
    let ms = u64::try_from(at.nanos).unwrap_or(0) / 1_000_000;
    Millis(seconds.saturating_mul(1_000).saturating_add(ms))
}
