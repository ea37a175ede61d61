//! Spans: words within a block: strong, emphasised, code, and links with where they lead. What is not closed is
//! text; each kind of mark is looked for once to the end of its block and then no more, so that the work grows with
//! the text.

use maud::{Markup, html};

use crate::api::console::text;

/// Marks nest this deep; what lies deeper is text.
const DEPTH_MAX: usize = 6;
/// Where a link may lead.
const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// Part of a block.
#[derive(Debug, Clone, PartialEq)]
enum Span<'a> {
    Text(&'a str),
    Code(&'a str),
    Strong(Vec<Span<'a>>),
    Emphasis(Vec<Span<'a>>),
    /// Its words, and all that was written of where it leads.
    Link(&'a str, &'a str),
    /// An image's words, and all that was written of where it is.
    Image(&'a str, &'a str),
}

/// Whether there is nothing to lay out.
pub(super) fn is_plain(text: &str) -> bool {
    read(text, 0).iter().all(|span| matches!(span, Span::Text(_)))
}

/// Words as elements.
pub(super) fn drawn(text: &str) -> Markup {
    shown(&read(text, 0))
}

/// What was looked for to the end, and is not there.
#[derive(Debug, Default)]
struct Missing {
    strong: bool,
    emphasis: [bool; 2],
    link: bool,
    /// Runs of this many ticks.
    ticks: Vec<usize>,
}

fn read(text: &str, depth: usize) -> Vec<Span<'_>> {
    let mut spans = Vec::new();
    let mut missing = Missing::default();
    let (mut from, mut at) = (0, 0);
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let found = if depth >= DEPTH_MAX { None } else { span(text, at, depth, &mut missing) };
        match found {
            Some((span, taken)) => {
                spans
                    .extend(text.get(from..at).filter(|before| !before.is_empty()).map(Span::Text));
                spans.push(span);
                at += taken;
                from = at;
            }
            None => at += c.len_utf8(),
        }
    }
    spans.extend(text.get(from..).filter(|rest| !rest.is_empty()).map(Span::Text));
    spans
}

/// The span that begins here, if one does, and how long it is with its marks.
fn span<'a>(
    text: &'a str,
    at: usize,
    depth: usize,
    missing: &mut Missing,
) -> Option<(Span<'a>, usize)> {
    let rest = text.get(at..)?;
    match rest.as_bytes().first()? {
        b'`' => code(rest, at, text, missing),
        b'*' if rest.starts_with("**") => {
            let inner = enclosed(rest, "**", &mut missing.strong)?;
            stands_alone(text, at, inner.len() + 4)?;
            Some((Span::Strong(read(inner, depth + 1)), inner.len() + 4))
        }
        b'*' => {
            let inner = enclosed(rest, "*", &mut missing.emphasis[0])?;
            stands_alone(text, at, inner.len() + 2)?;
            Some((Span::Emphasis(read(inner, depth + 1)), inner.len() + 2))
        }
        b'_' => {
            let inner = enclosed(rest, "_", &mut missing.emphasis[1])?;
            stands_alone(text, at, inner.len() + 2)?;
            Some((Span::Emphasis(read(inner, depth + 1)), inner.len() + 2))
        }
        b'!' => {
            let (words, target) = link(rest.strip_prefix('!')?, missing)?;
            Some((Span::Image(words, target), words.len() + target.len() + 5))
        }
        b'[' => {
            let (words, target) = link(rest, missing)?;
            let leads = words.len() + target.len() + 4;
            is_sound(target).then_some((Span::Link(words, target), leads))
        }
        _other => None,
    }
}

/// Whether marks stand around whole words, as an author sets them. Within a word, a sum, a path or an address they
/// are part of what is said, and are shown: nobody decides on a text with characters missing (K3).
fn stands_alone(text: &str, at: usize, length: usize) -> Option<()> {
    let before = text.get(..at)?.chars().next_back();
    let after = text.get(at + length..)?.chars().next();
    let is_outside =
        |c: Option<char>, marks: &[char]| c.is_none_or(|c| c.is_whitespace() || marks.contains(&c));
    let opens = is_outside(before, &['(', '[', '"', '\'', '\u{201c}', '\u{2018}', '*', '_']);
    let closes = is_outside(
        after,
        &['.', ',', ';', ':', '!', '?', ')', ']', '"', '\'', '\u{201d}', '\u{2019}', '*', '_'],
    );
    (opens && closes).then_some(())
}

fn code<'a>(
    rest: &'a str,
    at: usize,
    text: &str,
    missing: &mut Missing,
) -> Option<(Span<'a>, usize)> {
    // A run of ticks that does not begin here has been looked at already.
    if text.get(..at).is_some_and(|before| before.ends_with('`')) {
        return None;
    }
    let inner = rest.trim_start_matches('`');
    let count = rest.len() - inner.len();
    if missing.ticks.contains(&count) {
        return None;
    }
    let mut from = 0;
    while let Some(found) = inner.get(from..).and_then(|inner| inner.find('`')) {
        let begins = from + found;
        let run = inner.get(begins..).unwrap_or_default();
        let run = run.len() - run.trim_start_matches('`').len();
        if run == count {
            let words = inner.get(..begins)?;
            return Some((Span::Code(words), words.len() + 2 * count));
        }
        from = begins + run;
    }
    missing.ticks.push(count);
    None
}

/// What stands between a mark and the next of the same; not where blanks stand at its edges.
fn enclosed<'a>(rest: &'a str, mark: &str, is_missing: &mut bool) -> Option<&'a str> {
    if *is_missing {
        return None;
    }
    let inner = rest.get(mark.len()..)?;
    let Some(end) = inner.find(mark) else {
        *is_missing = true;
        return None;
    };
    let inner = inner.get(..end)?;
    let is_tight = !inner.is_empty() && inner.trim() == inner && !inner.contains("\n\n");
    is_tight.then_some(inner)
}

/// The words of a link, and all that stands in its brackets.
fn link<'a>(rest: &'a str, missing: &mut Missing) -> Option<(&'a str, &'a str)> {
    if missing.link {
        return None;
    }
    let inner = rest.strip_prefix('[')?;
    let Some(middle) = inner.find("](") else {
        missing.link = true;
        return None;
    };
    let words = inner.get(..middle)?;
    let target = inner.get(middle + 2..)?;
    let Some(end) = target.find(')') else {
        missing.link = true;
        return None;
    };
    let target = target.get(..end)?;
    let is_one = !words.contains(['[', '\n']) && !target.contains(['\n', '(']);
    is_one.then_some((words, target))
}

/// Whether a place is one that a link may lead to, and shows what it is.
fn is_sound(target: &str) -> bool {
    let place = place(target);
    SCHEMES.iter().any(|scheme| place.starts_with(scheme))
        && place.is_ascii()
        && !place.bytes().any(|byte| byte.is_ascii_control())
}

/// The place itself, without a title after it.
fn place(target: &str) -> &str {
    target.trim().split([' ', '\t']).next().unwrap_or_default()
}

fn shown(spans: &[Span<'_>]) -> Markup {
    html! { @for span in spans { @match span {
        Span::Text(text) => { (text::shown(text)) }
        Span::Code(text) => { code { (text::shown(text)) } }
        Span::Strong(inner) => { strong { (shown(inner)) } }
        Span::Emphasis(inner) => { em { (shown(inner)) } }
        Span::Link(words, target) => {
            a href=(place(target)) rel="noopener noreferrer nofollow" target="_blank" {
                (text::shown(if words.is_empty() { target } else { words }))
            }
            @if words != target { " " span.target { "(" (text::shown(target)) ")" } }
        }
        Span::Image(words, target) => { span.target { "[image: " (text::shown(words)) " (" (text::shown(target)) ")]" } }
    } } }
}
