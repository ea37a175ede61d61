//! Backoff: how long to wait before a server is asked again.
//!
//! Jittered, so that a thousand runs do not come back at the same moment; a server's own wish
//! (`Retry-After`) goes first, within reason.

use http::HeaderMap;

use crate::kernel::{Millis, digest};
use crate::ports::Clock;

/// The first pause, doubled with every further try.
const PAUSE_MS: u64 = 500;
/// A pause never grows beyond this: a step's own policy can wait longer.
const PAUSE_MS_MAX: u64 = 8_000;
/// A server that wants to be left alone for longer is not waited for within an attempt.
const RETRY_AFTER_MS_MAX: u64 = 30_000;

/// How long to wait after `tried` tries; none if it is longer than an attempt waits.
pub(super) fn pause_ms(tried: u32, retry_after_ms: Option<u64>, chance: u64) -> Option<u64> {
    let jittered = |ms: u64| ms / 2 + chance % (ms / 2 + 1);
    match retry_after_ms {
        Some(ms) if ms > RETRY_AFTER_MS_MAX => None,
        // Never earlier than the server wants.
        Some(ms) => Some(ms + jittered(PAUSE_MS)),
        None => {
            let doubled = PAUSE_MS.saturating_mul(2_u64.saturating_pow(tried));
            Some(jittered(doubled.min(PAUSE_MS_MAX)))
        }
    }
}

/// A number that nobody can foresee.
pub(super) fn chance(clock: &dyn Clock) -> u64 {
    let digest = digest::of_bytes(clock.fresh_stem().as_bytes());
    digest.get(..15).and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or_default()
}

/// What a server wishes: `retry-after-ms`, or `retry-after` in seconds or as a date.
pub(super) fn wish_ms(headers: &HeaderMap, now: Millis) -> Option<u64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|text| text.parse::<u64>().ok()) {
        return Some(ms);
    }
    let text = text("retry-after")?;
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(seconds.saturating_mul(1_000));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
    Some(Millis(u64::try_from(at).ok()?).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_within_bounds_and_are_never_the_same_for_all() {
        for tried in [0, 1, 4, 63, 64, u32::MAX] {
            let least = pause_ms(tried, None, 0).unwrap();
            let most = (0..2_000).filter_map(|chance| pause_ms(tried, None, chance)).max().unwrap();
            assert!(least >= PAUSE_MS / 2 && most <= PAUSE_MS_MAX && least < most, "{tried}");
        }
        assert!(pause_ms(3, None, 0) > pause_ms(0, None, 0));
    }

    #[test]
    fn a_servers_wish_is_kept_within_reason() {
        assert!((0..999).all(|chance| pause_ms(0, Some(2_000), chance).unwrap() >= 2_000));
        assert_eq!(pause_ms(0, Some(RETRY_AFTER_MS_MAX + 1), 0), None);
    }

    #[test]
    fn a_wish_is_read_in_all_its_forms() {
        let wish = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, http::HeaderValue::from_static(value));
            wish_ms(&headers, Millis(1_445_412_470_000))
        };
        assert_eq!(wish("retry-after", "7"), Some(7_000));
        assert_eq!(wish("retry-after-ms", "250"), Some(250));
        assert_eq!(wish("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), Some(10_000));
        assert_eq!(wish("retry-after", "Wed, 21 Oct 2014 07:28:00 GMT"), None, "a Tuesday");
        assert_eq!(wish("retry-after", "soon"), None);
    }
}
