//! Markdown: what agents and people wrote, laid out as they meant it: a small subset, made into elements here and
//! never into HTML of theirs. Nothing of a text is ever left out but the marks themselves.
//!
//! - A link shows where it leads beside its words, and is one only where it leads to a web page or a mailbox.
//! - Images are told of and not fetched. Comments, tags and entities are text like any other.
//! - Characters that cannot be seen are shown as they are everywhere (`text`), and the source is one press away.
//! - Work is bounded: what nests or grows beyond that is shown as it was written.

mod blocks;
mod spans;

use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::{text, tree};

/// Longer texts are shown as they were written: laying them out would cost more than it gives.
const CHARS_MAX: usize = 60_000;
/// A text is shown in pieces of about this many bytes, which browsers lay out one by one.
const PIECE_BYTES: usize = 16_384;

/// A text, laid out where it has marks, with its source beside it; else as it is.
pub(super) fn text(source: &str) -> Markup {
    if source.len() > CHARS_MAX {
        return long(source);
    }
    if let Some(value) = structured(source) {
        return html! { (tree::tree(&value)) (shown_source(source)) };
    }
    let blocks = blocks::read(source);
    if blocks::are_plain(&blocks) {
        return html! { div.prose { (text::shown(source)) } };
    }
    html! { div.md { (blocks::drawn(&blocks)) } (shown_source(source)) }
}

/// What was said as JSON, which is read more easily as a tree.
fn structured(source: &str) -> Option<Value> {
    let text = source.trim();
    let is_braced = text.starts_with('{') && text.ends_with('}')
        || text.starts_with('[') && text.ends_with(']');
    if !is_braced {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let has_parts = value.as_array().is_none_or(|items| !items.is_empty());
    has_parts.then_some(value)
}

/// The exact text, folded away.
fn shown_source(source: &str) -> Markup {
    html! {
        details.source { summary { "Show source" } pre.code tabindex="0" { (text::shown(source)) } }
    }
}

/// A text too long to be laid out: whole, as it was written, in pieces.
fn long(source: &str) -> Markup {
    let mut rest = source;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(cut(rest));
        pieces.push(piece);
        rest = more;
    }
    html! {
        p.quiet { "Shown as it was written: " (source.chars().count()) " characters are too many to be laid out." }
        div.long { @for piece in pieces {
            @let is_whole = piece.ends_with('\n');
            div.prose.piece { (text::shown(piece.strip_suffix('\n').unwrap_or(piece)))
                @if !is_whole { span.quiet title="the line goes on" { "⤶" } } }
        } }
    }
}

/// Where a piece ends: with a line, if one ends before it is too long.
fn cut(text: &str) -> usize {
    if text.len() <= PIECE_BYTES {
        return text.len();
    }
    let mut end = PIECE_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).and_then(|piece| piece.rfind('\n')).map_or(end, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(source: &str) -> String {
        text(source).into_string()
    }

    #[test]
    fn marks_become_elements_and_the_source_stays_at_hand() {
        let page = drawn(
            "# Plan\n\nPay **Ada** `10` and *soon*:\n\n- one\n- two\n  1. deep\n\n> said\n\n```sh\nrm -rf <dir>\n```\n\n| a | b |\n|---|---|\n| 1 | **2** |\n\n---\n",
        );
        for part in [
            "<p class=\"h h1\">Plan</p>",
            "<strong>Ada</strong>",
            "<code>10</code>",
            "<em>soon</em>",
            "<ul><li>",
            "<ol><li value=\"1\">",
            "<blockquote>",
            "rm -rf &lt;dir&gt;",
            "<th scope=\"col\">a</th>",
            "<td><strong>2</strong></td>",
            "<hr>",
            "Show source",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert_eq!(drawn("plain words, 2 < 3"), "<div class=\"prose\">plain words, 2 &lt; 3</div>");
    }

    #[test]
    fn a_link_shows_where_it_leads_and_leads_nowhere_else() {
        let page = drawn("See [your bank](https://evil.example/x?a=1&b=2 \"title\").");
        assert!(page.contains("href=\"https://evil.example/x?a=1&amp;b=2\""), "{page}");
        assert!(page.contains("rel=\"noopener noreferrer nofollow\""), "{page}");
        assert!(page.contains("(https://evil.example/x?a=1&amp;b=2 &quot;title&quot;)"), "{page}");
        for source in [
            "[x](javascript:alert(1))",
            "[x](data:text/html,<script>alert(1)</script>)",
            "[x](/console/sign-out)",
            "[x](//evil.example)",
            "[x](https://evil.example/\u{202e}gpj)",
            "[x](vbscript:a) and [y](JaVaScRiPt:b)",
            "<https://plain.example>",
            "[ref]: https://hidden.example\n\n**x**",
        ] {
            let page = drawn(source);
            assert!(!page.contains("<a "), "{source}: {page}");
        }
        assert!(drawn("**x** [ref]: https://hidden.example").contains("https://hidden.example"));
    }

    #[test]
    fn nothing_that_was_written_is_html_and_nothing_is_fetched() {
        let page = drawn(
            "**x** <img src=x onerror=alert(1)> <!-- hidden --> &lt;b&gt; ![logo](https://evil.example/a.png)",
        );
        assert!(!page.contains("<img") && !page.contains("<!--"), "{page}");
        for part in [
            "&lt;!-- hidden --&gt;",
            "&amp;lt;b&amp;gt;",
            "image: logo",
            "https://evil.example/a.png",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn k3_marks_within_words_sums_paths_and_addresses_are_part_of_what_is_said() {
        for source in [
            "Pay 5*100*2 EUR",
            "rm -rf /data/*/old/*",
            "DELETE FROM t WHERE a*1 = 5*3",
            "https://a.example/_x_/*y*/*z*",
            "a**b**c",
            "&gt;&gt;&gt; 5",
            "00007. pay",
            "7) pay",
        ] {
            let page = drawn(&source.replace("&gt;", ">"));
            assert!(page.contains(source), "{source}\n{page}");
        }
        assert!(
            drawn("Pay (*now*), **all** of it.").contains("(<em>now</em>), <strong>all</strong>")
        );
    }

    #[test]
    fn what_cannot_be_seen_is_shown_within_marks_too() {
        let page = drawn("**pay\u{202e}001** `a\u{200b}b`");
        assert!(page.contains("\\u{202e}") && page.contains("\\u{200b}"), "{page}");
        assert!(!page.contains(['\u{202e}', '\u{200b}']), "{page}");
    }

    #[test]
    fn lists_keep_the_numbers_that_were_written() {
        let page = drawn("5. five\n9. nine\n");
        assert!(page.contains("<li value=\"5\">") && page.contains("<li value=\"9\">"), "{page}");
    }

    #[test]
    fn bombs_are_shown_as_they_were_written_and_soon() {
        let many = 25_000;
        for bomb in [
            ">".repeat(many),
            "> ".repeat(many),
            "[".repeat(many),
            "![](".repeat(many / 4),
            "*a **b ".repeat(many / 8),
            "_a".repeat(many),
            "`".repeat(many),
            (1..200).map(|n| "`".repeat(n) + " ").collect::<String>(),
            "- ".repeat(many),
            (0..2_000).map(|n| " ".repeat(n % 30) + "- x\n").collect(),
            format!("|{}\n|{}\n", "a|".repeat(9_000), "-|".repeat(9_000)),
            "# ".repeat(many),
            "1. ".repeat(many),
            "[a](b".repeat(many / 5),
            "\\".repeat(many),
            "```".repeat(many / 3),
            "<!--".repeat(many / 4),
        ] {
            let page = drawn(&bomb);
            let head: String = bomb.chars().take(20).collect();
            assert!(page.len() < 40 * bomb.len() + 2_000, "{head}: {}", page.len());
            assert!(page.matches("<blockquote>").count() < 100, "{head}");
        }
    }

    #[test]
    fn a_long_text_is_whole_and_in_pieces() {
        let source = "line of words <b>\n".repeat(20_000);
        let page = drawn(&source);
        assert_eq!(page.matches("line of words &lt;b&gt;").count(), 20_000);
        assert!(page.matches("class=\"prose piece\"").count() > 10);
        let one = "x".repeat(200_000);
        assert!(drawn(&one).contains("⤶"));
    }
}
