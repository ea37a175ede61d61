//! Lines: what is typed and what is said, in the width that there is. Where on the screen they stand is not known
//! here.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use ratatui::widgets::{Block, Paragraph};

use crate::cli::term::plain;

/// Draws the line that is being typed, and the cursor at its end where it is for this one.
pub(super) fn input(frame: &mut Frame<'_>, area: Rect, typed: &str, has_cursor: bool) {
    let inner = Block::bordered().inner(area);
    let shown = tail(typed, usize::from(inner.width.saturating_sub(3)));
    let width = Span::raw(shown.as_str()).width();
    frame.render_widget(Paragraph::new(format!("> {shown}")).block(Block::bordered()), area);
    if has_cursor {
        let column = inner.x.saturating_add(2).saturating_add(u16::try_from(width).unwrap_or(0));
        frame.set_cursor_position((column, inner.y));
    }
}

/// The end of a text, as much as fits.
fn tail(text: &str, width: usize) -> String {
    let mut shown = plain(text).replace('\n', " ");
    while Span::raw(shown.as_str()).width() > width {
        shown.remove(0);
    }
    shown
}

/// A line in pieces that fit, broken between words where it can be.
pub(super) fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let used = pieces.last().map_or(0, |piece| Span::raw(piece.as_str()).width());
        if used > 0 && used + Span::raw(word.trim_end()).width() > width {
            pieces.push(String::new());
        }
        for char in word.chars() {
            let Some(piece) = pieces.last_mut() else { break };
            if Span::raw(format!("{piece}{char}").trim_end()).width() > width {
                pieces.push(char.to_string());
            } else {
                piece.push(char);
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words_and_long_words_anywhere() {
        assert_eq!(wrapped("one two three", 8), ["one two ", "three"]);
        assert_eq!(wrapped("abcdefgh", 3), ["abc", "def", "gh"]);
    }
}
