//! Look-alikes: words as people read them, for rules that look for words: without what nobody sees, and with wide letters
//! as plain ones. It is a net and no wall: whoever chooses the words can choose others.

/// A text without characters that nobody sees, and with wide letters as the plain ones that they look like.
pub(super) fn as_read(text: &str) -> String {
    text.chars().filter(|c| !is_unseen(*c)).map(plain).collect()
}

/// Whether a word has letters of the Latin alphabet and of one that has letters that look the same.
pub(super) fn mixes_alphabets(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphabetic());
    words.into_iter().any(|word| {
        word.chars().any(|c| c.is_ascii_alphabetic()) && word.chars().any(is_of_a_like_alphabet)
    })
}

/// Joiners, marks of direction, soft hyphens, variations, tags, and accents that are written on the letter before.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{e0000}'..='\u{e0fff}')
}

fn plain(c: char) -> char {
    const WIDE: u32 = 0xff01 - 0x21;
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - WIDE).unwrap_or(c),
        c => c,
    }
}

/// Greek, Cyrillic, Armenian, Cherokee, and letters that are made for formulas.
fn is_of_a_like_alphabet(c: char) -> bool {
    matches!(c,
        '\u{370}'..='\u{58f}' | '\u{13a0}'..='\u{13ff}' | '\u{1c80}'..='\u{1c8f}' | '\u{1d400}'..='\u{1d7ff}'
        | '\u{1f00}'..='\u{1fff}' | '\u{2de0}'..='\u{2dff}' | '\u{a640}'..='\u{a69f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_left_out_and_wide_letters_are_plain_ones() {
        for written in
            ["dele\u{200b}te", "del\u{ad}ete", "\u{ff44}elete", "de\u{301}lete", "delete"]
        {
            assert_eq!(as_read(written), "delete", "{written:?}");
        }
    }

    #[test]
    fn a_word_of_two_alphabets_is_known_and_two_words_of_one_each_are_none() {
        assert!(mixes_alphabets("please d\u{435}lete it") && mixes_alphabets("\u{1d41d}elete"));
        assert!(
            !mixes_alphabets("delete \u{434}\u{43e}\u{43c}")
                && !mixes_alphabets("caf\u{e9} na\u{ef}ve")
        );
    }
}
