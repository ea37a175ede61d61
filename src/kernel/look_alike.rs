//! Look-alikes: words as people read them, for rules that look for words: without what nobody sees, and with letters as
//! the plain ones that they look like. It is a net and no wall: whoever chooses the words can choose others.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// A text as it is looked through. What is looked for is read in the same way, on one line.
#[derive(Debug)]
pub(super) struct Read {
    /// Lines that end are spaces, and several spaces are one.
    text: String,
    /// The same where a line's end within a word is nothing.
    joined: String,
    /// Whether a word has letters of the Latin alphabet and of one that has letters that look the same.
    pub(super) mixes_alphabets: bool,
}

impl Read {
    /// What people read in a text.
    pub(super) fn of(text: &str) -> Self {
        let joined: String = text.chars().filter(|c| !is_line_end(*c)).collect();
        // Before capitals are small: of some alphabets one of the two looks like a Latin letter.
        let seen: String = text.nfkd().map(bare).filter(|c| !is_unseen(*c)).collect();
        Self { text: plain(text), joined: plain(&joined), mixes_alphabets: mixes_alphabets(&seen) }
    }

    /// Whether a word, or several, stand in it. Nothing stands nowhere.
    pub(super) fn has(&self, words: &str) -> bool {
        let sought = plain(words);
        !sought.is_empty() && (self.text.contains(&sought) || self.joined.contains(&sought))
    }
}

fn mixes_alphabets(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphabetic());
    words.into_iter().any(|word| {
        word.chars().any(|c| c.is_ascii_alphabetic()) && word.chars().any(is_of_a_like_alphabet)
    })
}

/// Small letters of one form, each alone: without accents, wide, raised, circled or made for formulas, and one space between
/// words.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars().map(bare).nfkd().map(bare) {
        if c.is_whitespace() || c == '\u{2800}' {
            if !plain.is_empty() && !plain.ends_with(' ') {
                plain.push(' ');
            }
        } else if !is_unseen(c) {
            // There and back: `ß` is `ss`, as its capitals are.
            let capitals = c.to_lowercase().flat_map(char::to_uppercase);
            plain.extend(capitals.flat_map(char::to_lowercase));
        }
    }
    plain.truncate(plain.trim_end().len());
    plain
}

/// Letters in boxes and brackets, with a stroke, or of another alphabet, where Unicode says of none what they look like.
fn bare(c: char) -> char {
    let letter = |first: char| char::from_u32(u32::from(c) - u32::from(first) + u32::from('a'));
    let boxed = match c {
        '\u{249c}'..='\u{24b5}' => letter('\u{249c}'),
        '\u{1f110}'..='\u{1f129}' => letter('\u{1f110}'),
        '\u{1f150}'..='\u{1f169}' => letter('\u{1f150}'),
        '\u{1f170}'..='\u{1f189}' => letter('\u{1f170}'),
        _other => None,
    };
    let stroked = || match c {
        '\u{f8}' | '\u{d8}' => 'o',
        '\u{111}' | '\u{110}' => 'd',
        '\u{127}' | '\u{126}' => 'h',
        '\u{131}' => 'i',
        '\u{142}' | '\u{141}' | '\u{19a}' => 'l',
        '\u{167}' | '\u{166}' => 't',
        '\u{180}' => 'b',
        '\u{247}' => 'e',
        '\u{24d}' => 'r',
        // Also the sign of a millionth, which stands before Latin letters.
        '\u{3bc}' => 'u',
        c => c,
    };
    boxed.unwrap_or_else(stroked)
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Controls, joiners, marks of direction, soft hyphens, variations, tags, and what is written on the letter before, but
/// where scripts write their vowels so.
fn is_unseen(c: char) -> bool {
    let is_vowel =
        || matches!(c, '\u{900}'..='\u{1aaf}' | '\u{1b00}'..='\u{1dbf}' | '\u{a800}'..='\u{abff}');
    c.is_control()
        || (is_combining_mark(c) && !is_vowel())
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{640}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Letters that are neither Latin nor of a script that is written without spaces, or joined to Latin words, by those who
/// use it: phonetic ones, Greek, Coptic, Cyrillic, Armenian, Georgian, Cherokee, Lisu and what else is rare.
fn is_of_a_like_alphabet(c: char) -> bool {
    c.is_alphabetic()
        && !matches!(
            c,
            // Of units and formulas, which look like nothing Latin.
            '\u{3a9}'
                | '\u{394}'
                | '\u{3b4}'
                | '\u{3c0}'
                | '\u{3bb}'
                | '\u{3c3}'
                | '\u{3b8}'
                | '\u{3c6}'
                | '\u{3c8}'
        )
        && !matches!(c,
            '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}'
            | '\u{590}'..='\u{8ff}' | '\u{900}'..='\u{109f}' | '\u{1100}'..='\u{11ff}'
            | '\u{1780}'..='\u{18af}' | '\u{3000}'..='\u{9fff}' | '\u{a800}'..='\u{aaff}'
            | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_left_out_and_letters_are_the_plain_ones_that_they_look_like() {
        for written in [
            "dele\u{200b}te",
            "del\u{ad}ete",
            "\u{ff44}elete",
            "de\u{301}lete",
            "delete",
            "DELETE",
            "del\0ete",
            "del\u{1b}ete",
            "del\u{fff9}ete",
            "del\u{1d173}ete",
            "de\u{489}lete",
            "de\u{20dd}lete",
            "del\u{2028}ete",
            "del\nete",
            "del\r\nete",
            "del\u{85}ete",
            "\u{217e}e\u{217c}ete",
            "\u{1d41d}elete",
            "\u{24d3}elete",
            "\u{1f173}\u{1f174}lete",
            "\u{1f153}\u{1f154}lete",
            "\u{249f}\u{24a0}lete",
            "\u{111}e\u{19a}e\u{167}e",
            "dele\u{640}te",
        ] {
            assert!(Read::of(&format!("please {written} it")).has("delete"), "{written:?}");
            let is_torn = written.chars().any(is_line_end);
            assert!(
                is_torn || Read::of("please delete it").has(written),
                "{written:?} is looked for"
            );
        }
        for (said, sought) in [
            ("lo\u{308}schen", "l\u{f6}schen"),
            ("supprim\u{e9}", "supprime\u{301}"),
            ("xo\u{301}a", "x\u{f3}a"),
            ("\u{1109}\u{1161}\u{11a8}\u{110c}\u{1166}", "\u{c0ad}\u{c81c}"),
            ("\u{ff83}\u{ff9e}\u{ff98}\u{ff70}\u{ff84}", "\u{30c7}\u{30ea}\u{30fc}\u{30c8}"),
            ("STRASSE", "stra\u{df}e"),
            ("\u{1e9e}", "SS"),
        ] {
            assert!(Read::of(said).has(sought) && Read::of(sought).has(said), "{said} {sought}");
        }
    }

    #[test]
    fn between_two_words_stands_one_space_whatever_was_written_there() {
        for space in
            ["  ", "\t", "\n", "\r\n", "\u{a0}", "\u{3000}", " \u{200b}", "\u{2028}", " \n "]
        {
            assert!(Read::of(&format!("now drop{space}table x")).has("drop table"), "{space:?}");
            assert!(Read::of("drop table").has(&format!("drop{space}table")), "{space:?}");
        }
        let read = Read::of("drop the table");
        assert!(!read.has("drop table") && !read.has("") && !read.has("\u{200b} "));
    }

    #[test]
    fn a_word_of_two_alphabets_is_known_and_two_words_of_one_each_are_none() {
        for mixed in [
            "d\u{435}lete",
            "dele\u{3c4}e",
            "d\u{13ac}lete",
            "\u{a4d3}elete",
            "d\u{2c89}lete",
            "\u{1d05}elete",
        ] {
            assert!(Read::of(&format!("please {mixed} it")).mixes_alphabets, "{mixed}");
        }
        for plain in [
            "delete \u{434}\u{43e}\u{43c}",
            "caf\u{e9} na\u{ef}ve",
            "\u{142}\u{f3}d\u{17a}",
            "iPhone\u{3092}",
            "\u{627}\u{644}API",
            "\u{e44}\u{e1f}\u{e25}\u{e4c}PDF",
            "API\u{c758}",
            "5 k\u{2126}",
            "3 \u{b5}g",
            "3 \u{3bc}g",
            "\u{394}T",
            "k\u{3a9}",
        ] {
            assert!(!Read::of(plain).mixes_alphabets, "{plain}");
        }
    }
}
