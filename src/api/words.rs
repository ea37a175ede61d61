//! Words: what turns one text into another, word by word, so that whoever changed something sees exactly what
//! they changed before it is sent. How that is drawn is the page's and the terminal's.
//!
//! Lines are set beside one another first, and the words of what differs then: both within a bound, beyond
//! which what differs is told as a whole. Nothing is ever left out: the pieces that were there are the text
//! before, and the pieces that are there now the text after.

/// A stretch of one of the texts, or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// In both.
    Same(&'a str),
    /// Only in the text before.
    Gone(&'a str),
    /// Only in the text after.
    New(&'a str),
}

/// Comparisons in all: a few milliseconds, and a few megabytes while they last.
const CELLS_MAX: usize = 1_000_000;

/// What turns `before` into `after`.
pub fn changes<'a>(before: &'a str, after: &'a str) -> Vec<Piece<'a>> {
    let lines = |text: &'a str| text.split_inclusive('\n').collect::<Vec<_>>();
    let mut left = CELLS_MAX;
    let mut pieces = Vec::new();
    let mut hunk = (String::new(), String::new());
    let mut at = (0, 0);
    for piece in beside(&lines(before), &lines(after), &mut left) {
        match piece {
            Piece::Gone(line) => hunk.0.push_str(line),
            Piece::New(line) => hunk.1.push_str(line),
            Piece::Same(line) => {
                worded(&mut at, &mut hunk, &mut left, &mut pieces);
                push(&mut pieces, at.0, Piece::Same(line));
                at = (at.0 + line.len(), at.1 + line.len());
            }
        }
    }
    worded(&mut at, &mut hunk, &mut left, &mut pieces);
    joined(&pieces, before, after)
}

/// Where a stretch begins and ends in its text, and which it is.
type Span = (Kind, usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Same,
    Gone,
    New,
}

fn push(spans: &mut Vec<Span>, at: usize, piece: Piece<'_>) {
    let (kind, text) = match piece {
        Piece::Same(text) => (Kind::Same, text),
        Piece::Gone(text) => (Kind::Gone, text),
        Piece::New(text) => (Kind::New, text),
    };
    match spans.last_mut() {
        Some((known, _, end)) if *known == kind && *end == at => *end += text.len(),
        Some(_) | None => spans.push((kind, at, at + text.len())),
    }
}

/// The words of lines that differ.
fn worded(
    at: &mut (usize, usize),
    hunk: &mut (String, String),
    left: &mut usize,
    spans: &mut Vec<Span>,
) {
    let (gone, new) = (std::mem::take(&mut hunk.0), std::mem::take(&mut hunk.1));
    for piece in beside(&tokens(&gone), &tokens(&new), left) {
        match piece {
            Piece::Same(text) => {
                push(spans, at.0, piece);
                *at = (at.0 + text.len(), at.1 + text.len());
            }
            Piece::Gone(text) => {
                push(spans, at.0, piece);
                at.0 += text.len();
            }
            Piece::New(text) => {
                push(spans, at.1, piece);
                at.1 += text.len();
            }
        }
    }
}

fn joined<'a>(spans: &[Span], before: &'a str, after: &'a str) -> Vec<Piece<'a>> {
    let cut = |text: &'a str, from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let piece = |(kind, from, to): &Span| match kind {
        Kind::Same => Piece::Same(cut(before, *from, *to)),
        Kind::Gone => Piece::Gone(cut(before, *from, *to)),
        Kind::New => Piece::New(cut(after, *from, *to)),
    };
    spans.iter().map(piece).collect()
}

/// A text as words, the blanks between them, and single marks.
fn tokens(text: &str) -> Vec<&str> {
    let sort = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 0,
        ' ' | '\t' => 1,
        _ => 2,
    };
    let mut tokens = Vec::new();
    let mut from = 0;
    let mut last = None;
    for (place, c) in text.char_indices() {
        let now = sort(c);
        // A mark stands by itself: a comma that was added is not part of what follows it.
        if last.is_some_and(|last| last != now || now == 2) {
            tokens.extend(text.get(from..place));
            from = place;
        }
        last = Some(now);
    }
    tokens.extend(text.get(from..).filter(|rest| !rest.is_empty()));
    tokens
}

/// Two lists beside one another: what they have in common, in order, as much of it as can be had.
fn beside<'t>(before: &[&'t str], after: &[&'t str], left: &mut usize) -> Vec<Piece<'t>> {
    let same = |(one, other): (&&&str, &&&str)| one == other;
    let head = before.iter().zip(after).take_while(|pair| same((&pair.0, &pair.1))).count();
    let (tail_of, tail_in) = (before.iter().skip(head).rev(), after.iter().skip(head).rev());
    let tail = tail_of.zip(tail_in).take_while(|pair| same((&pair.0, &pair.1))).count();
    let old = before.get(head..before.len() - tail).unwrap_or_default();
    let new = after.get(head..after.len() - tail).unwrap_or_default();
    let mut pieces: Vec<_> = before.iter().take(head).map(|text| Piece::Same(text)).collect();
    let cells = old.len().saturating_mul(new.len());
    if cells > *left {
        pieces.extend(old.iter().map(|text| Piece::Gone(text)));
        pieces.extend(new.iter().map(|text| Piece::New(text)));
    } else {
        *left -= cells;
        pieces.extend(common(old, new));
    }
    pieces.extend(before.iter().skip(before.len() - tail).map(|text| Piece::Same(text)));
    pieces
}

/// The longest common part of two lists, with what is around it.
fn common<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<Piece<'t>> {
    let width = new.len() + 1;
    let mut best = vec![0_u32; (old.len() + 1) * width];
    for (row, one) in old.iter().enumerate().rev() {
        for (column, other) in new.iter().enumerate().rev() {
            let here = row * width + column;
            best[here] = if one == other {
                best[here + width + 1] + 1
            } else {
                best[here + width].max(best[here + 1])
            };
        }
    }
    let (mut row, mut column, mut pieces) = (0, 0, Vec::new());
    while row < old.len() || column < new.len() {
        let here = row * width + column;
        if row < old.len() && column < new.len() && old[row] == new[column] {
            pieces.push(Piece::Same(old[row]));
            (row, column) = (row + 1, column + 1);
        } else if row < old.len() && (column == new.len() || best[here + width] >= best[here + 1]) {
            pieces.push(Piece::Gone(old[row]));
            row += 1;
        } else {
            pieces.push(Piece::New(new[column]));
            column += 1;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(before: &str, after: &str) -> String {
        let spelled = |piece: Piece<'_>| match piece {
            Piece::Same(text) => text.to_owned(),
            Piece::Gone(text) => format!("[-{text}]"),
            Piece::New(text) => format!("[+{text}]"),
        };
        changes(before, after).into_iter().map(spelled).collect()
    }

    #[test]
    fn what_was_changed_is_told_word_by_word() {
        assert_eq!(told("Dear Ada, see you.", "Dear Bob, see you."), "Dear [-Ada][+Bob], see you.");
        assert_eq!(told("Pay 10 now", "Pay 1000 now"), "Pay [-10][+1000] now", "numbers are whole");
        assert_eq!(told("a\nb\nc\n", "a\nx\nc\n"), "a\n[-b][+x]\nc\n");
        assert_eq!(told("", "all"), "[+all]");
        assert_eq!(told("same", "same"), "same");
        assert_eq!(told("one two", "one  two"), "one[- ][+  ]two", "blanks count");
        assert_eq!(told("end", "end\n"), "end[+\n]");
    }

    #[test]
    fn what_is_too_long_is_told_as_a_whole_and_soon() {
        let before: String =
            (0..40_000).map(|n: u32| "w".to_owned() + &n.to_string() + " ").collect();
        let after: String =
            (0..40_000).map(|n: u32| "v".to_owned() + &n.to_string() + " ").collect();
        assert_eq!(changes(&before, &after).len(), 3, "gone, new, and the blank at the end");
    }

    proptest! {
        #[test]
        fn the_pieces_are_both_texts(before in "[ab ,\nä]{0,40}", after in "[ab ,\nä]{0,40}") {
            let (mut old, mut new) = (String::new(), String::new());
            for piece in changes(&before, &after) {
                match piece {
                    Piece::Same(text) => { old.push_str(text); new.push_str(text); }
                    Piece::Gone(text) => old.push_str(text),
                    Piece::New(text) => new.push_str(text),
                }
            }
            prop_assert_eq!((old, new), (before, after));
        }
    }
}
