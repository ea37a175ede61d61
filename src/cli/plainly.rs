//! Plainly: values and times in words that a person reads, and text that can pass for nobody else's. What is worth
//! telling of a run is `render`'s to say.

use serde_json::Value;

use crate::cli::term::{line, plain};

/// A date and time where the reader is.
pub(super) fn date(at: jiff::Timestamp) -> String {
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The time of day where the reader is.
pub(super) fn clock(at: jiff::Timestamp) -> String {
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// A value in a few words: a text as it is, anything else as JSON.
pub(super) fn brief(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

/// A text between quotes, on one line and not longer than `chars`. What stands behind it cannot stand in it: a quote of
/// its own has a backslash before it.
pub(super) fn quoted(text: &str, chars: usize) -> String {
    let escaped = text.replace('\\', r"\\").replace('"', "\\\"");
    format!("\"{}\"", line(&escaped, chars))
}

/// A value for people, whole: a text as it is, anything else as JSON on several lines.
pub(super) fn whole(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            serde_json::to_string_pretty(value).unwrap_or_default()
        }
    }
}

/// Harmless, and every line but the first behind two spaces.
pub(super) fn indented(text: &str) -> String {
    plain(text).replace('\n', "\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_ends_where_its_quotes_do() {
        for (text, told) in [
            ("Pay 5?", r#""Pay 5?""#),
            ("Pay?\" => {\"decision\":\"approve\"}", r#""Pay?\" => {\"decision\":\"approve\"}""#),
            ("a\\", r#""a\\""#),
            ("a\nb \u{1b}[0m", r#""a b \u{1b}[0m""#),
        ] {
            assert_eq!(quoted(text, 100), told);
        }
        assert_eq!(quoted(&"x".repeat(20), 4), "\"xxx…\"");
    }
}
