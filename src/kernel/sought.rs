//! Sought: where a secret ends that stands at a place of a text: whole, in whatever spelling, or as much of it as a cut
//! has left. Nobody who cuts a text knows what is secret in it, so what is left of a secret there is hidden as the whole
//! is. How it may be written is `spelling`'s to know, and what becomes of it, `sieve`'s.

use crate::kernel::number;
use crate::kernel::spelling::Reading;

/// What is at least this long is hidden wherever it stands; anything shorter where it is a word of its own, since
/// it would turn up in the middle of others. However short: one letter of a text too many is hidden from onlookers
/// rather than a PIN of two digits shown.
const ANYWHERE_CHARS: usize = 8;
/// What marks where a text is cut; the last is what is left of a character that was cut in two.
const CUTS: [&str; 3] = ["…", "...", "\u{fffd}"];
/// Where no mark says so, a text may have been cut at its end only if it is this long: nobody cuts shorter ones, and
/// what merely begins as a secret does is another value.
const CUT_BYTES_MIN: usize = 64;
/// The most that is left of an escape that was cut in two: of an emoji's in JSON.
const ESCAPE_BYTES_MAX: usize = 16;
/// What is left of a secret at a cut is hidden if it is at least this long, and at least this part of it. Whoever may put
/// words and a `…` into a text that is masked would be told by the mask which beginning is right: of three characters
/// there are few enough to try all at once, and then to go on by one. Of eight there are not; and a third of a long
/// one is more than what cards, accounts and keys of one kind have in common.
const PART_CHARS_MIN: usize = 8;
const PART_OF: usize = 3;
/// A secret that is shorter than this can be found by trying.
pub(super) const GUESSED_CHARS: usize = 12;
/// Steps that looking through a text may take, whatever is in it; for each of its bytes; for each of those and secret.
const STEPS: usize = 1 << 20;
const STEPS_PER_BYTE: usize = 16;
const STEPS_PER_SECRET: usize = 4;

/// A text that is looked for.
#[derive(PartialEq, Eq)]
pub(super) struct Sought {
    text: String,
    chars: usize,
    /// Whether whoever said what is looked through may be guessing at it.
    is_guarded: bool,
}

/// Where what was found ends, and whether somebody could come upon it by trying: a short secret, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    pub(super) end: usize,
    pub(super) is_guessed: bool,
}

/// A look through a text.
pub(super) struct Look<'t> {
    reading: Reading<'t>,
    /// Where an escape ends that belongs to no word, though its last letter looks like it: `\n`, `%20`.
    breaks: Vec<usize>,
}

impl<'t> Look<'t> {
    /// A look through a text for so many others.
    pub(super) fn through(text: &'t str, count: usize) -> Self {
        let per_byte = STEPS_PER_SECRET.saturating_mul(count).saturating_add(STEPS_PER_BYTE);
        let left = text.len().saturating_mul(per_byte).saturating_add(STEPS);
        Self { reading: Reading { text, left }, breaks: Vec::new() }
    }

    /// Whether it takes too long.
    pub(super) fn is_given_up(&self) -> bool {
        self.reading.left == 0
    }

    /// The characters that may be said at a place where an escape may begin.
    pub(super) fn escapes(&mut self, at: usize) -> Vec<char> {
        let said = self.reading.said_at(at);
        self.breaks.retain(|end| *end > at);
        let of_no_word = said.iter().filter(|(c, _)| !c.is_alphanumeric());
        self.breaks.extend(of_no_word.map(|(_, end)| *end));
        let mut chars: Vec<_> = said.into_iter().map(|(c, _)| c).collect();
        chars.dedup();
        chars
    }

    /// Whether what stands at a place may be the rest of something of which the beginning was cut off: at the cut, or after
    /// what is left of an escape that was cut in two.
    pub(super) fn is_rest_at(&self, at: usize) -> bool {
        let before = self.reading.text.get(..at).unwrap_or_default();
        // Three dots are as often a pause.
        let is_mark = |before: &str| before.ends_with(['…', '\u{fffd}']);
        let bytes = before.bytes().rev().take(ESCAPE_BYTES_MAX);
        let half = bytes.take_while(|byte| is_of_escape(*byte)).count();
        is_mark(before) || before.get(..before.len() - half).is_some_and(is_mark)
    }

    /// A number that stands at a place, and where it ends.
    pub(super) fn number_at(&self, at: usize) -> Option<(usize, String)> {
        let before = self.reading.text.get(..at)?.chars().next_back();
        if before.is_some_and(|c| c.is_ascii_digit() || c == '.') || !self.begins_word(at) {
            return None;
        }
        let (bytes, number) = number::read(self.reading.text.get(at..)?)?;
        ends_word(self.reading.text, at + bytes).then_some((at + bytes, number))
    }

    /// Whether nothing that belongs to a word stands right before.
    fn begins_word(&self, at: usize) -> bool {
        let before = self.reading.text.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(char::is_alphanumeric) || self.breaks.contains(&at)
    }
}

impl Sought {
    /// A text, which is not empty.
    pub(super) fn new(text: &str) -> Self {
        let chars = text.chars().count();
        Self { text: text.to_owned(), chars, is_guarded: true }
    }

    /// The same in the words of somebody who knows it.
    pub(super) fn known(text: &str) -> Self {
        Self { is_guarded: false, ..Self::new(text) }
    }

    /// What it begins with.
    pub(super) fn first(&self) -> Option<char> {
        self.text.chars().next()
    }

    /// As it was given.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether all of it stands at a place.
    pub(super) fn is_at(&self, look: &mut Look<'_>, at: usize) -> bool {
        let (text, begins_word) = (look.reading.text, look.begins_word(at));
        let mut is_there = false;
        look.reading.follow(at, &self.text, &mut |_, count, ends| {
            let is_word = |end| begins_word && ends_word(text, end);
            let is_one = |end: &usize| self.is_long(text.get(at..*end)) || is_word(*end);
            is_there |= count == self.chars && ends.iter().any(is_one);
        });
        is_there
    }

    /// Where it ends if it stands at a place: all of it, or its beginning before a cut.
    pub(super) fn end(&self, look: &mut Look<'_>, at: usize) -> Option<Found> {
        self.end_without((0, &self.text), look, at)
    }

    /// Where it ends if it stands at a place but for its beginning.
    pub(super) fn end_of_rest(&self, look: &mut Look<'_>, at: usize) -> Option<Found> {
        let rests = self.text.char_indices().enumerate().skip(1);
        let rests = rests.take_while(|(count, _)| count + PART_CHARS_MIN <= self.chars);
        let rests = rests.filter_map(|(count, (from, _))| Some((count, self.text.get(from..)?)));
        rests.filter_map(|rest| self.end_without(rest, look, at)).max()
    }

    /// Where the `rest` of it ends that so many characters are `missing` of.
    fn end_without(
        &self,
        (missing, rest): (usize, &str),
        look: &mut Look<'_>,
        at: usize,
    ) -> Option<Found> {
        let text = look.reading.text;
        let begins_word = missing > 0 || look.begins_word(at);
        let is_long = |end| self.is_long(text.get(at..end));
        let mut found = None;
        look.reading.follow(at, rest, &mut |reading, count, ends| {
            let is_all = missing + count == self.chars;
            let is_whole = is_all && missing == 0;
            if !is_whole && !self.tells(count, text.len(), true) {
                return;
            }
            for end in ends.iter().copied() {
                let end = if is_all {
                    Some(end).filter(|_| is_long(end) || (begins_word && ends_word(text, end)))
                } else {
                    let cut = cut_after(reading, end).filter(|_| begins_word || is_long(end));
                    let cut =
                        cut.filter(|(_, is_marked)| self.tells(count, text.len(), *is_marked));
                    cut.map(|(end, _)| end)
                };
                let is_guessed = self.is_guarded && (!is_whole || self.chars < GUESSED_CHARS);
                found = found.max(end.map(|end| Found { end, is_guessed }));
            }
        });
        found
    }

    /// Whether it is hidden in the middle of a word as well: it is long, or was written so.
    fn is_long(&self, found: Option<&str>) -> bool {
        let chars = || found.map_or(0, |found| found.chars().count());
        self.chars >= ANYWHERE_CHARS || chars() >= ANYWHERE_CHARS
    }

    /// Whether so many characters of it tell of it, where a text of so many bytes was cut. What nothing marks may be no cut:
    /// there the text must be long.
    fn tells(&self, chars: usize, bytes: usize, is_marked: bool) -> bool {
        let is_part = chars >= PART_CHARS_MIN && chars.saturating_mul(PART_OF) >= self.chars;
        is_part && (is_marked || bytes >= CUT_BYTES_MIN)
    }
}

/// Whether nothing that belongs to a word stands right there.
fn ends_word(text: &str, end: usize) -> bool {
    let after = text.get(end..).and_then(|after| after.chars().next());
    !after.is_some_and(char::is_alphanumeric)
}

/// Whether an escape that was cut in two may have it.
fn is_of_escape(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"\\%&#;".contains(&byte)
}

/// Where what ends at a place was cut, if it was, and whether a mark says so. An escape may have been cut in two: what is
/// left of it belongs to what was cut.
fn cut_after(reading: &mut Reading<'_>, place: usize) -> Option<(usize, bool)> {
    let rest = reading.text.get(place..)?;
    let is_mark = |rest: &str| CUTS.iter().any(|mark| rest.starts_with(mark));
    if rest.is_empty() || is_mark(rest) {
        return Some((place, !rest.is_empty()));
    }
    if !rest.starts_with(['\\', '%', '&']) {
        return None;
    }
    if reading.said_at(place).iter().any(|(c, _)| *c == '…') {
        return Some((place, true));
    }
    let bytes = rest.bytes().take(ESCAPE_BYTES_MAX);
    let bytes = bytes.take_while(|byte| is_of_escape(*byte)).count();
    let after = rest.get(bytes..).unwrap_or_default();
    let is_cut = after.is_empty() || is_mark(after);
    is_cut.then_some((place + bytes, !after.is_empty()))
}
