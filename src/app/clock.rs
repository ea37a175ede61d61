//! Clock: the machine's time and fresh ids, behind the port.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use crate::kernel::Millis;
use crate::ports::Clock;

/// The longest single sleep: a clock that is set meanwhile is noticed within this time.
const NAP: Duration = Duration::from_mins(1);
/// Crockford's alphabet in lower case: sorts as the bits do, and reads aloud without confusion.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    async fn sleep_until(&self, at: Millis) {
        loop {
            let left = at.since(self.now());
            if left == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(left).min(NAP)).await;
        }
    }

    fn fresh_stem(&self) -> String {
        stem(uuid::Uuid::now_v7().as_u128())
    }

    fn fresh_secret(&self) -> String {
        let mut drawn = [0_u8; 16];
        // A machine without a random source starts no process of ours: the ids are drawn from it too.
        getrandom::fill(&mut drawn).expect("the system's random source answers");
        let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
        drawn.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }
}

/// 128 bits as 26 characters that sort as the number does.
fn stem(bits: u128) -> String {
    let digit = |place: u32| {
        let index = usize::try_from((bits >> (5 * place)) & 31).unwrap_or(0);
        char::from(ALPHABET[index])
    };
    (0..26).rev().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_sort_by_the_time_they_were_drawn() {
        let clock = SystemClock;
        let drawn: Vec<_> = (0..1000).map(|_| clock.fresh_stem()).collect();
        assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(drawn.iter().all(|stem| stem.len() == 26));
    }

    #[tokio::test]
    async fn a_time_that_has_passed_is_not_slept_for() {
        SystemClock.sleep_until(Millis(1)).await;
    }
}
