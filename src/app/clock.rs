//! Clock: the machine's time and fresh ids, behind the port; and the time of a store that several machines share, which is
//! kept by what the store says and how long ago that was, whatever the machine's own clock is set to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

use crate::kernel::Millis;
use crate::ports::Clock;

/// The longest single sleep: a clock that is set meanwhile is noticed within this time.
const NAP: Duration = Duration::from_millis(NAP_MS);
const NAP_MS: u64 = 60_000;
/// Crockford's alphabet in lower case: sorts as the bits do, and reads aloud without confusion.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// What the time is moved by at one word of the store's: more than two good clocks come apart between two of them.
const SHIFT_MS: u64 = 1_000;
/// How often in a row a store must say that its time has leapt before it is followed there.
const LEAP_TOLD: u32 = 3;
/// From when on it is said that the machine's own clock is wrong: those who read logs of two machines are led astray.
const ASTRAY_MS: u64 = 2_000;

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

    fn ticks(&self) -> u64 {
        let since = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(since.tv_sec).unwrap_or(0);
        seconds * 1_000 + u64::try_from(since.tv_nsec).unwrap_or(0) / 1_000_000
    }

    async fn pause(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
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

/// The time of a store that several processes share. Before the store has said what time it is, it is the machine's, and
/// nothing is to be decided by it.
#[derive(Debug)]
pub struct SharedClock {
    machine: Arc<dyn Clock>,
    following: Mutex<Following>,
    /// Whoever sleeps until a time looks again how far that is.
    shifted: Notify,
}

impl SharedClock {
    /// One that follows; ids, and how much time goes by, are the machine's to say.
    pub fn over(machine: Arc<dyn Clock>) -> Self {
        Self { machine, following: Mutex::default(), shifted: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Following> {
        self.following.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Clock for SharedClock {
    fn now(&self) -> Millis {
        let offset = self.lock().offset;
        offset.map_or_else(|| self.machine.now(), |offset| at(self.machine.ticks(), offset))
    }

    async fn sleep_until(&self, at: Millis) {
        loop {
            let mut shifted = std::pin::pin!(self.shifted.notified());
            shifted.as_mut().enable();
            let left = at.since(self.now());
            if left == 0 {
                return;
            }
            tokio::select! {
                // As long at most as a machine that slept meanwhile may oversleep.
                () = self.machine.pause(left.min(NAP_MS)) => {}
                () = shifted => {}
            }
        }
    }

    fn ticks(&self) -> u64 {
        self.machine.ticks()
    }

    async fn pause(&self, ms: u64) {
        self.machine.pause(ms).await;
    }

    fn follow(&self, asked: u64, time: Millis) {
        let (now, own) = (self.machine.ticks(), self.machine.now());
        let mut following = self.lock();
        let shifted = following.heed((asked, now), time);
        let ahead = following.offset.map_or(0, |offset| difference(own, at(now, offset)));
        let told = following.tells(ahead);
        drop(following);
        match shifted {
            Shift::None => {}
            Shift::By(_) => self.shifted.notify_waiters(),
            Shift::Leap(ms) => {
                tracing::error!(ms, "the store's clock has leapt: deadlines go by where it is now");
                self.shifted.notify_waiters();
            }
            Shift::Doubted(ms) => {
                tracing::warn!(ms, "the store says another time than before; it is asked again");
            }
        }
        match told {
            Some(true) => tracing::warn!(
                ahead_ms = ahead,
                "this machine's clock is wrong, or the database's is: the database's counts"
            ),
            Some(false) => tracing::info!("this machine's clock agrees with the database's again"),
            None => {}
        }
    }

    fn is_set(&self) -> bool {
        self.lock().offset.is_some()
    }

    fn astray(&self) -> i64 {
        if self.is_set() { difference(self.machine.now(), self.now()) } else { 0 }
    }

    fn fresh_stem(&self) -> String {
        self.machine.fresh_stem()
    }

    fn fresh_secret(&self) -> String {
        self.machine.fresh_secret()
    }
}

/// How far the store's time is from the machine's ticks, as far as is known. It asks nobody.
#[derive(Debug, Default)]
struct Following {
    /// What is added to ticks; none before the first word.
    offset: Option<i64>,
    /// How often in a row another time was told, far from this one.
    leaps: u32,
    /// By how much the machine's own clock was ahead when somebody was told that it is wrong.
    told: Option<i64>,
}

/// What one word of the store's came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shift {
    None,
    By(i64),
    /// It is followed though it is far.
    Leap(i64),
    /// It is too far to be believed at once.
    Doubted(i64),
}

impl Following {
    /// Heeds that it was `time` somewhere between two ticks. The time is moved no further than that proves: an answer that
    /// was long on its way proves little.
    fn heed(&mut self, (asked, answered): (u64, u64), time: Millis) -> Shift {
        let (least, most) = (apart(time.0, answered), apart(time.0, asked.min(answered)));
        let Some(offset) = self.offset else {
            self.offset = Some(least.midpoint(most));
            return Shift::None;
        };
        let nearest = offset.clamp(least, most);
        let by = nearest.saturating_sub(offset);
        if by.unsigned_abs() > SHIFT_MS {
            self.leaps += 1;
            if self.leaps < LEAP_TOLD {
                return Shift::Doubted(by);
            }
        }
        let has_leapt = std::mem::take(&mut self.leaps) >= LEAP_TOLD;
        self.offset = Some(nearest);
        match by {
            0 => Shift::None,
            by if has_leapt => Shift::Leap(by),
            by => Shift::By(by),
        }
    }

    /// Whether something is to be said of the machine's own clock: that it is wrong, or no more; once.
    fn tells(&mut self, ahead: i64) -> Option<bool> {
        if ahead.unsigned_abs() < ASTRAY_MS {
            return self.told.take().map(|_| false);
        }
        let is_known = self.told.is_some_and(|told| told.abs_diff(ahead) < ASTRAY_MS);
        if is_known {
            return None;
        }
        self.told = Some(ahead);
        Some(true)
    }
}

/// One less the other.
fn apart(one: u64, other: u64) -> i64 {
    i64::try_from(i128::from(one) - i128::from(other)).unwrap_or(0)
}

fn difference(one: Millis, other: Millis) -> i64 {
    apart(one.0, other.0)
}

fn at(ticks: u64, offset: i64) -> Millis {
    Millis(ticks.saturating_add_signed(offset))
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

    #[test]
    fn what_a_word_does_not_prove_moves_nothing() {
        let mut following = Following::default();
        // Asked at 1,000 and answered at 1,100: it was 5,000 somewhere in between.
        assert_eq!(following.heed((1_000, 1_100), Millis(5_000)), Shift::None);
        assert_eq!(following.offset, Some(3_950));
        assert_eq!(following.heed((2_000, 2_500), Millis(6_000)), Shift::None, "it may be so");
        assert_eq!(following.heed((3_000, 3_010), Millis(7_000)), Shift::By(40));
        assert_eq!(at(3_010, following.offset.unwrap()), Millis(7_000), "no further than proven");
        // An answer that was ten seconds on its way says nothing against it.
        assert_eq!(following.heed((4_000, 14_000), Millis(8_100)), Shift::None);
        assert_eq!(following.heed((15_000, 15_000), Millis(18_800)), Shift::By(-190), "back, too");
    }

    #[test]
    fn a_store_whose_clock_leaps_is_followed_once_it_has_said_so_three_times() {
        let mut following = Following::default();
        following.heed((0, 0), Millis(1_000));
        let hour = 3_600_000;
        let leapt = |ticks: u64| ((ticks, ticks), Millis(1_000 + ticks + hour));
        let told = |following: &mut Following, ticks| {
            let (ticks, time) = leapt(ticks);
            following.heed(ticks, time)
        };
        assert_eq!(told(&mut following, 1_500), Shift::Doubted(3_600_000));
        assert_eq!(following.heed((3_000, 3_000), Millis(4_000)), Shift::None, "it was a slip");
        assert_eq!(told(&mut following, 4_500), Shift::Doubted(3_600_000));
        assert_eq!(told(&mut following, 6_000), Shift::Doubted(3_600_000));
        assert_eq!(told(&mut following, 7_500), Shift::Leap(3_600_000));
        assert_eq!(told(&mut following, 9_000), Shift::None);
    }

    #[test]
    fn a_machine_whose_clock_is_wrong_is_told_of_once_and_when_it_is_right_again() {
        let mut following = Following::default();
        assert_eq!(following.tells(1_999), None);
        assert_eq!(following.tells(3_600_000), Some(true));
        assert_eq!(following.tells(3_600_400), None);
        assert_eq!(following.tells(-3_600_000), Some(true), "it is wrong otherwise now");
        assert_eq!(following.tells(7), Some(false));
        assert_eq!(following.tells(7), None);
    }

    #[tokio::test]
    async fn whoever_sleeps_until_a_time_wakes_when_the_store_says_that_it_is_past() {
        let clock = SharedClock::over(Arc::new(SystemClock));
        assert!(!clock.is_set());
        clock.follow(clock.ticks(), Millis(1_000));
        assert!(clock.is_set() && clock.now() < Millis(60_000));
        let sleeps = clock.sleep_until(Millis(3_600_000));
        let told = async {
            for _ in 0..LEAP_TOLD {
                tokio::task::yield_now().await;
                clock.follow(clock.ticks(), Millis(3_600_000));
            }
        };
        tokio::join!(sleeps, told);
    }

    #[tokio::test]
    async fn a_time_that_has_passed_is_not_slept_for() {
        SystemClock.sleep_until(Millis(1)).await;
    }
}
