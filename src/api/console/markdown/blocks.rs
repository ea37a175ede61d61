//! Blocks: the parts of a text that follow one another: paragraphs, headings, lists, quotes, code, tables.

use maud::{Markup, html};

use crate::api::console::markdown::spans;
use crate::api::console::text;

/// Quotes and lists nest this deep; what lies deeper is a paragraph.
const DEPTH_MAX: usize = 6;
/// Columns of a table; a wider one is a paragraph.
const COLUMNS_MAX: usize = 50;

/// A part of a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block<'a> {
    Paragraph(Vec<&'a str>),
    Heading(usize, &'a str),
    Quote(Vec<Block<'a>>),
    /// The numbers of its items, where they have any.
    List(Vec<(Option<u64>, Vec<Block<'a>>)>),
    /// What is said of it after its fence, and its lines.
    Code(&'a str, Vec<&'a str>),
    Table(Vec<&'a str>, Vec<Vec<&'a str>>),
    Rule,
}

/// The blocks of a text.
pub(super) fn read(source: &str) -> Vec<Block<'_>> {
    let lines: Vec<&str> = source.lines().collect();
    parsed(&lines, 0)
}

/// Whether there is nothing to lay out.
pub(super) fn are_plain(blocks: &[Block<'_>]) -> bool {
    blocks.iter().all(|block| match block {
        Block::Paragraph(lines) => spans::is_plain(&lines.join("\n")),
        Block::Heading(..)
        | Block::Quote(_)
        | Block::List(_)
        | Block::Code(..)
        | Block::Table(..)
        | Block::Rule => false,
    })
}

fn parsed<'a>(lines: &[&'a str], depth: usize) -> Vec<Block<'a>> {
    let mut blocks = Vec::new();
    let mut paragraph: Vec<&'a str> = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at).copied() {
        let rest = lines.get(at..).unwrap_or_default();
        let found = if depth >= DEPTH_MAX { None } else { block(rest, depth) };
        let is_blank = line.trim().is_empty();
        if (is_blank || found.is_some()) && !paragraph.is_empty() {
            blocks.push(Block::Paragraph(std::mem::take(&mut paragraph)));
        }
        let Some((block, taken)) = found else {
            paragraph.extend((!is_blank).then_some(line));
            at += 1;
            continue;
        };
        blocks.push(block);
        at += taken.max(1);
    }
    if !paragraph.is_empty() {
        blocks.push(Block::Paragraph(paragraph));
    }
    blocks
}

/// The block that begins here, if it is no paragraph, and how many lines it has.
fn block<'a>(lines: &[&'a str], depth: usize) -> Option<(Block<'a>, usize)> {
    let line = lines.first()?;
    let text = line.trim_start();
    if let Some(fence) = fence(text) {
        return Some(code(lines, fence));
    }
    if let Some((level, words)) = heading(text) {
        return Some((Block::Heading(level, words), 1));
    }
    if is_rule(text) {
        return Some((Block::Rule, 1));
    }
    if quoted(line).is_some() {
        let quoted: Vec<&str> = lines.iter().map_while(|line| quoted(line)).collect();
        let taken = quoted.len();
        return Some((Block::Quote(parsed(&quoted, depth + 1)), taken));
    }
    if item(line).is_some() {
        return Some(list(lines, depth));
    }
    table(lines)
}

/// What a line quotes: after one mark and a space. `>>> 5` may be code, or a sum.
fn quoted(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('>')?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ') }
}

/// How long a fence is, and of which mark; what follows it.
fn fence(text: &str) -> Option<(char, usize, &str)> {
    let mark = text.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
    let rest = text.trim_start_matches(mark);
    let count = text.len() - rest.len();
    (count >= 3 && !rest.contains('`')).then_some((mark, count, rest.trim()))
}

fn code<'a>(lines: &[&'a str], (mark, count, said): (char, usize, &'a str)) -> (Block<'a>, usize) {
    let is_end = |line: &&&str| {
        let text = line.trim();
        text.len() >= count && text.chars().all(|c| c == mark)
    };
    let inner: Vec<&str> = lines.iter().skip(1).take_while(|line| !is_end(line)).copied().collect();
    let taken = (inner.len() + 2).min(lines.len());
    (Block::Code(said, inner), taken)
}

fn heading(text: &str) -> Option<(usize, &str)> {
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    let words = rest.strip_prefix(' ')?.trim();
    ((1..=6).contains(&level) && !words.is_empty()).then_some((level, words))
}

fn is_rule(text: &str) -> bool {
    let bare: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let one = bare.first().copied().unwrap_or_default();
    bare.len() >= 3 && ['-', '*', '_'].contains(&one) && bare.iter().all(|c| *c == one)
}

/// An item of a list: how far in it stands, its number if it has one, and how far in its words begin.
fn item(line: &str) -> Option<(usize, Option<u64>, usize)> {
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=9).contains(&digits) {
        // Only what a list's own numbers look like: `007. x` and `7) x` are shown as they were written (K3).
        let written = text.get(..digits).filter(|it| digits == 1 || !it.starts_with('0'))?;
        text.get(digits..)?.strip_prefix(". ")?;
        let number = written.parse().ok()?;
        return Some((indent, Some(number), indent + digits + 2));
    }
    text.strip_prefix(['-', '*', '+'])?.strip_prefix(' ')?;
    Some((indent, None, indent + 2))
}

fn list<'a>(lines: &[&'a str], depth: usize) -> (Block<'a>, usize) {
    let first = lines.first().and_then(|line| item(line));
    let (indent, is_numbered) =
        first.map_or((0, false), |(indent, number, _)| (indent, number.is_some()));
    let mut items = Vec::new();
    let mut at = 0;
    while let Some((here, number, begins)) = lines.get(at).and_then(|line| item(line)) {
        if here != indent || number.is_some() != is_numbered {
            break;
        }
        let own = lines.get(at).and_then(|line| line.get(begins..)).unwrap_or_default();
        let mut inner = vec![own];
        at += 1;
        // What stands further in belongs to the item; so does a blank line before such a one.
        while let Some(line) = lines.get(at) {
            let deep = line.len() - line.trim_start().len();
            let next = lines.get(at + 1).map_or(0, |next| next.len() - next.trim_start().len());
            if line.trim().is_empty() {
                if next < begins.min(indent + 2) {
                    break;
                }
                inner.push("");
            } else if deep > indent {
                inner.push(line.get(deep.min(begins)..).unwrap_or(line));
            } else {
                break;
            }
            at += 1;
        }
        items.push((number, parsed(&inner, depth + 1)));
    }
    (Block::List(items), at)
}

fn table<'a>(lines: &[&'a str]) -> Option<(Block<'a>, usize)> {
    let (head, rule) = (lines.first()?, lines.get(1)?);
    let is_rule = rule.contains('-') && rule.chars().all(|c| "|-: \t".contains(c));
    if !head.contains('|') || !is_rule {
        return None;
    }
    let names = cells(head);
    if names.len() > COLUMNS_MAX || names.len() != cells(rule).len() {
        return None;
    }
    let rows = lines.iter().skip(2).take_while(|line| line.contains('|'));
    let rows: Vec<Vec<&str>> = rows.map(|line| cells(line)).collect();
    if rows.iter().any(|row| row.len() > COLUMNS_MAX) {
        return None;
    }
    let taken = rows.len() + 2;
    Some((Block::Table(names, rows), taken))
}

fn cells(line: &str) -> Vec<&str> {
    let text = line.trim();
    let text = text.strip_prefix('|').unwrap_or(text);
    let text = text.strip_suffix('|').unwrap_or(text);
    text.split('|').map(str::trim).collect()
}

/// Blocks as elements.
pub(super) fn drawn(blocks: &[Block<'_>]) -> Markup {
    html! { @for block in blocks { (one(block)) } }
}

fn one(block: &Block<'_>) -> Markup {
    match block {
        Block::Paragraph(lines) => html! { p.prose { (spans::drawn(&lines.join("\n"))) } },
        // No heading of the page's: a text does not change how the page is read aloud.
        Block::Heading(level, words) => {
            html! { p class={ "h h" (level) } { (spans::drawn(words)) } }
        }
        Block::Quote(inner) => html! { blockquote { (drawn(inner)) } },
        Block::List(items) => {
            let is_numbered = items.first().is_some_and(|(number, _)| number.is_some());
            html! {
                @if is_numbered {
                    ol { @for (number, inner) in items { li value=(number.unwrap_or_default()) { (tight(inner)) } } }
                } @else {
                    ul { @for (_, inner) in items { li { (tight(inner)) } } }
                }
            }
        }
        Block::Code(said, lines) => html! {
            @if !said.is_empty() { p.fence.quiet { (text::shown(said)) } }
            pre.code tabindex="0" { code { (text::shown(&lines.join("\n"))) } }
        },
        Block::Table(names, rows) => html! {
            div.scroll tabindex="0" { table {
                thead { tr { @for name in names { th scope="col" { (spans::drawn(name)) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (spans::drawn(cell)) } } } } }
            } }
        },
        Block::Rule => html! { hr; },
    }
}

/// An item of one paragraph is that paragraph.
fn tight(blocks: &[Block<'_>]) -> Markup {
    let Some((Block::Paragraph(lines), rest)) = blocks.split_first() else { return drawn(blocks) };
    html! { span.prose { (spans::drawn(&lines.join("\n"))) } (drawn(rest)) }
}
