//! Canonical: JSON in the one form that RFC 8785 gives it, so that anybody can compute a digest again.
//!
//! Keys are sorted by their UTF-16 code units, numbers are written as ECMAScript writes them, and
//! texts escape nothing that need not be. Integers beyond 2^53, which that form would round, are
//! written as texts: two different amounts never have one digest. `digest` has the older form, by
//! which definitions and idempotency keys are known.

use serde_json::{Number, Value};

/// The largest integer that every reader of JSON keeps exactly.
const EXACT_MAX: u64 = 1 << 53;

/// The canonical form of a value.
#[cfg(test)]
fn form(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out);
    out
}

/// Writes the canonical form of a value behind what is there.
pub(super) fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_by(|one, other| one.encode_utf16().cmp(other.encode_utf16()));
            out.push(b'{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_text(key, out);
                out.push(b':');
                write(&map[key], out);
            }
            out.push(b'}');
        }
    }
}

/// Writes a text as JSON.
pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
    // serde_json escapes what RFC 8785 wants escaped, in the same form; memory takes every write.
    serde_json::to_writer(out, text).unwrap_or_default();
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    let whole = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    match whole {
        Some(size) if size > EXACT_MAX => write_text(&number.to_string(), out),
        Some(_) => out.extend_from_slice(number.to_string().as_bytes()),
        None => out.extend_from_slice(float(number.as_f64().unwrap_or_default()).as_bytes()),
    }
}

/// A number as ECMAScript's `Number::toString` writes it.
fn float(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let sign = if value < 0.0 { "-" } else { "" };
    // The shortest digits that read back as the same number, and their exponent.
    let shortest = format!("{:e}", value.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    // Where the decimal point stands, counted from the first digit.
    let point = exponent + 1;
    let written = if count <= point && point <= 21 {
        format!("{digits}{}", "0".repeat(usize::try_from(point - count).unwrap_or_default()))
    } else if 0 < point && point <= 21 {
        let (whole, rest) = digits.split_at(usize::try_from(point).unwrap_or_default());
        format!("{whole}.{rest}")
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", "0".repeat(usize::try_from(-point).unwrap_or_default()))
    } else {
        let (first, rest) = digits.split_at(1);
        let rest = if rest.is_empty() { String::new() } else { format!(".{rest}") };
        let mark = if exponent < 0 { "-" } else { "+" };
        format!("{first}{rest}e{mark}{}", exponent.unsigned_abs())
    };
    format!("{sign}{written}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> String {
        String::from_utf8(form(value)).expect("JSON is UTF-8")
    }

    #[test]
    fn numbers_are_written_as_ecmascript_writes_them() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (123_456_789.125, "123456789.125"),
            (0.000_001, "0.000001"),
            (0.000_000_1, "1e-7"),
            (4.5, "4.5"),
            (2e-3, "0.002"),
            (1e30, "1e+30"),
            (333_333_333.333_333_3, "333333333.3333333"),
            (5e-324, "5e-324"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
        ];
        for (number, written) in cases {
            assert_eq!(float(number), written);
        }
    }

    #[test]
    fn keys_are_sorted_by_their_utf_16_units_and_texts_escape_no_more_than_they_must() {
        let value = json!({
            "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Hebrew Letter Dalet",
            "1": "One", "\u{1f600}": "Emoji", "\u{80}": "Control", "\u{f6}": "Latin o",
        });
        let text = text(&value);
        let order: Vec<usize> = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"]
            .iter()
            .map(|word| text.find(word).expect("it is there"))
            .collect();
        assert!(order.is_sorted(), "{text}");
        assert!(text.starts_with("{\"\\r\":"), "{text}");
    }

    #[test]
    fn integers_that_others_would_round_are_written_as_texts() {
        assert_eq!(text(&json!([9_007_199_254_740_992_u64])), "[9007199254740992]");
        assert_eq!(text(&json!([9_007_199_254_740_993_u64])), "[\"9007199254740993\"]");
        assert_eq!(text(&json!([-9_007_199_254_740_993_i64])), "[\"-9007199254740993\"]");
        assert_ne!(
            form(&json!(9_007_199_254_740_993_u64)),
            form(&json!(9_007_199_254_740_994_u64))
        );
    }
}
