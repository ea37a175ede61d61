//! Text: what others wrote, shown so that nothing hides in it. Invisible and direction-changing
//! characters appear as escapes; markup stays text. Times and ids as people read them.

use crate::kernel::unseen::is_unseen;
use crate::kernel::{Millis, Question};
use jiff::Timestamp;
use maud::{Markup, html};

/// A text as it is, with everything that hides made visible.
pub(super) fn shown(text: &str) -> Markup {
    let mut pieces: Vec<(bool, String)> = Vec::new();
    for c in text.chars() {
        let hides = is_unseen(c);
        match pieces.last_mut() {
            Some((hidden, piece)) if *hidden == hides && !hides => piece.push(c),
            Some(_) | None => pieces.push((hides, if hides { escape(c) } else { c.to_string() })),
        }
    }
    html! {
        @for (hides, piece) in &pieces {
            @if *hides {
                span.escape title="a character that cannot be seen" { (piece) }
            } @else { (piece) }
        }
    }
}

/// A text as it is, with everything that hides spelled out: for where there are no marks.
pub(super) fn escaped(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { escape(c) } else { c.to_string() }).collect()
}

/// Whether anything in it cannot be seen.
pub(super) fn has_hidden(text: &str) -> bool {
    text.chars().any(is_unseen)
}

/// A text of ours, with its literals (`between these`) set as such; hidden characters shown.
pub(super) fn ticked(text: &str) -> Markup {
    let pieces: Vec<&str> = text.split('`').collect();
    // An odd one out is no literal.
    if pieces.len().is_multiple_of(2) {
        return shown(text);
    }
    html! {
        @for (index, piece) in pieces.iter().enumerate() {
            @if index % 2 == 1 { code { (shown(piece)) } } @else { (shown(piece)) }
        }
    }
}

fn escape(c: char) -> String {
    match c {
        '\r' => "\\r".into(),
        c => format!("\\u{{{:x}}}", u32::from(c)),
    }
}

/// A point in time; the page's module puts it into the reader's own zone.
pub(super) fn time(at: Millis) -> Markup {
    html! { time datetime=(rfc3339(at)) { (stamp(at)) } }
}

/// How long ago, with the time behind it.
pub(super) fn ago(at: Millis, now: Millis) -> Markup {
    html! {
        time datetime=(rfc3339(at)) title=(stamp(at)) data-ago=(at.0) {
            (length(now.since(at))) " ago"
        }
    }
}

/// A deadline, counting down where scripts run.
pub(super) fn deadline(at: Millis, now: Millis) -> Markup {
    let left = at.since(now);
    html! {
        time.deadline datetime=(rfc3339(at)) title=(stamp(at)) data-deadline=(at.0)
            data-soon[left < 3_600_000] {
            @if left == 0 { "deadline passed" } @else { "due in " (length(left)) }
        }
    }
}

/// The deadline of an open question: how long is left, and no time, where its clock stands still. One without a deadline
/// says what is halted, where that stands in its way.
pub(super) fn due(question: &Question, now: Millis) -> Markup {
    html! {
        @match (question.deadline, &question.still) {
            (None, None) => {}
            (None, Some(still)) => { span.deadline { "halted: " (ticked(&still.what)) } }
            (Some(at), still) => {
                @match still.as_ref().and_then(|still| still.left_ms) {
                    Some(left) => { span.deadline { (standing(left)) } }
                    None => { (deadline(at, now)) }
                }
            }
        }
    }
}

/// What is said of a clock that stands still.
pub(super) fn standing(left_ms: u64) -> String {
    format!("stands still while halted, {} left", length(left_ms))
}

/// A length of time in at most two units.
pub(super) fn length(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    if ms == 0 {
        return "under 1 ms".into();
    }
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    let mut rest = ms / 1_000;
    let mut parts = Vec::new();
    for (seconds, unit) in UNITS {
        if rest >= seconds && parts.len() < 2 {
            parts.push(format!("{} {unit}", rest / seconds));
            rest %= seconds;
        } else if !parts.is_empty() {
            break;
        }
    }
    parts.join(" ")
}

/// The end of an id: enough to tell it from its neighbours.
pub(super) fn short(id: &str) -> String {
    let count = id.chars().count();
    if count <= 14 {
        return id.to_owned();
    }
    let tail: String = id.chars().skip(count - 8).collect();
    format!("…{tail}")
}

/// The beginning of a text, on one line.
pub(super) fn first_words(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let cut: String = line.chars().take(most).collect();
    format!("{cut}…")
}

/// `snake_case` as words.
pub(super) fn words(name: &str) -> String {
    let words = name.replace(['_', '-'], " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

fn timestamp(at: Millis) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()
}

fn rfc3339(at: Millis) -> String {
    timestamp(at).map(|at| at.to_string()).unwrap_or_default()
}

fn stamp(at: Millis) -> String {
    timestamp(at).map(|at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()).unwrap_or_default()
}

/// So many of something, as one says it.
pub(super) fn counted(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown_as_an_escape() {
        let text = shown("pay\u{202e}001\u{200b} to <b>Eve</b>\u{7}\r\n").into_string();
        for part in ["\\u{202e}", "\\u{200b}", "\\u{7}", "\\r", "&lt;b&gt;Eve&lt;/b&gt;"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let unseen = |c: char| "\u{202e}\u{200b}\u{7}\r".contains(c);
        assert!(!text.contains(unseen), "{text:?}");
        assert_eq!(
            shown("plain\n\ttext, ünïcödé 漢字 ✔️").into_string(),
            "plain\n\ttext, ünïcödé 漢字 ✔️"
        );
        assert!(has_hidden("a\u{2066}b") && has_hidden("tag\u{e0041}") && !has_hidden("ok"));
    }

    #[test]
    fn a_length_of_time_has_at_most_two_units() {
        for (ms, words) in [
            (5, "5 ms"),
            (61_000, "1 min 1 s"),
            (3_600_000, "1 h"),
            (90_061_000, "1 d 1 h"),
            (86_400_000 + 61_000, "1 d"),
        ] {
            assert_eq!(length(ms), words);
        }
        assert_eq!(short("run_01k9zq3v7m8n4p5r6s7t8v9w0x"), "…7t8v9w0x");
        assert_eq!(words("plan_review"), "Plan review");
        assert_eq!(first_words("a  b\nc", 3), "a b…");
    }
}
