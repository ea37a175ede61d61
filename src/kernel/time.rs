//! Time, as a number the kernel is handed: milliseconds since 1970, never read from a clock here.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in time, in milliseconds since the Unix epoch.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// This point, `ms` later.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// How many milliseconds lie between `session_memory` and this point; none if it is not earlier.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Reads a length of time as people write it: `500ms`, `30s`, `2h`, `1h30m`, `7d`. A number alone
/// is none: nobody can tell its unit.
pub fn duration_ms(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after.bytes().take_while(u8::is_ascii_lowercase).count();
        let (unit, after) = after.split_at_checked(letters)?;
        let unit_ms: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            &_ => return None,
        };
        let part = number.parse::<u64>().ok()?.checked_mul(unit_ms)?;
        total = total.checked_add(part)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

impl Millis {
    /// The time as people read it, in UTC: `2026-11-16T06:03:43Z`.
    pub fn date(self) -> String {
        // The last second of the year 9999: nothing here is later.
        let seconds = (self.0 / 1_000).min(253_402_300_799);
        let (mut day, rest) = (seconds / 86_400, seconds % 86_400);
        let mut year = 1970;
        // A century at a time would be quicker; nobody waits for the end of a sentence.
        while day >= days_of(year) {
            day -= days_of(year);
            year += 1;
        }
        let february = if days_of(year) == 366 { 29 } else { 28 };
        let mut month = 1;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if day < length {
                break;
            }
            day -= length;
            month += 1;
        }
        let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
        format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
    }
}

/// The days of a year, as the calendar has them.
fn days_of(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    if is_leap { 366 } else { 365 }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_a_date() {
        for (ms, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696_789, "2000-02-29T12:34:56Z"),
            (1_794_809_023_000, "2026-11-16T06:03:43Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Millis(ms).date(), date);
        }
    }

    #[test]
    fn a_length_of_time_is_read_as_people_write_it() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("1h30m", 5_400_000), ("0s", 0)] {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
        }
        for text in ["", "30", "h", "2 h", "-1s", "1.5h", "2H", "99999999999999999999d", "é"] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }
}
