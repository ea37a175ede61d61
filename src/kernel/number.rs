//! Number: a number in one form, however it is written: `31415926`, `31415926.0`, `+31415926`, `3.1415926e7`. Digit by
//! digit, so that nothing is rounded.

/// Digits that are read, and zeros that an exponent may add; what has more is no number of anybody's.
const DIGITS_MAX: usize = 64;

/// The number that a text begins with, in that form, and how many bytes it is written in.
pub(super) fn read(text: &str) -> Option<(usize, String)> {
    let bytes = text.as_bytes();
    let is = |at: usize, which: &[u8]| bytes.get(at).is_some_and(|byte| which.contains(byte));
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let from = usize::from(is(0, b"+-"));
    let whole = digits(from);
    let written = text.get(from..whole)?;
    // What begins with a zero is a code, and not the number without it.
    if written.is_empty() || (written.len() > 1 && written.starts_with('0')) {
        return None;
    }
    let mut end = whole;
    if is(end, b".") && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    let fraction = text.get(whole + 1..end).unwrap_or_default();
    let mut exponent = 0;
    if is(end, b"eE") {
        let sign = usize::from(is(end + 1, b"+-"));
        let last = digits(end + 1 + sign);
        if last > end + 1 + sign {
            exponent = text.get(end + 1..last)?.parse().ok()?;
            end = last;
        }
    }
    let form = form((written, fraction), exponent)?;
    // The digits are the secret; a sign before them hides nothing.
    Some((end, form))
}

/// The number that a text is, without the blanks around it.
pub(super) fn plain(text: &str) -> Option<String> {
    let text = text.trim();
    read(text).filter(|(end, _)| *end == text.len()).map(|(_, number)| number)
}

/// Digits with the point where it belongs, and no zeros that say nothing.
fn form((whole, fraction): (&str, &str), exponent: i32) -> Option<String> {
    let mut digits = format!("{whole}{fraction}");
    let mut point = i32::try_from(whole.len()).ok()?.checked_add(exponent)?;
    if digits.len() > DIGITS_MAX || usize::try_from(point.abs()).ok()? > DIGITS_MAX {
        return None;
    }
    while point < 1 {
        digits.insert(0, '0');
        point += 1;
    }
    let place = usize::try_from(point).ok()?;
    while digits.len() < place {
        digits.push('0');
    }
    let (whole, fraction) = digits.split_at_checked(place)?;
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = fraction.trim_end_matches('0');
    Some(if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_form_however_it_is_written() {
        for written in ["31415926", "31415926.0", "+31415926", "3.1415926e7", "314159260E-1"] {
            assert_eq!(plain(written).as_deref(), Some("31415926"), "{written}");
        }
        for (written, form) in
            [("-0.50", "0.5"), ("5e-3", "0.005"), ("0", "0"), ("-0.0", "0"), ("1e3", "1000")]
        {
            assert_eq!(plain(written).as_deref(), Some(form), "{written}");
        }
        for none in ["", "+", ".5", "0042", "1e", "12a", "1e999", "1.", "12 13"] {
            assert_eq!(plain(none), None, "{none}");
        }
        assert_eq!(read("73.0, and"), Some((4, "73".to_owned())));
        assert_eq!(read("73. And"), Some((2, "73".to_owned())));
    }
}
