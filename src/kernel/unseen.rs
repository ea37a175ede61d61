//! Unseen: characters that show nothing, look like a plain blank, steer a screen, or change how others are shown. Whoever
//! shows words to people spells them out; what words mean is not looked at here.

/// Whether a character is not seen as what it is. Line breaks and tabs are; what a reader cannot tell from nothing, from a
/// blank, or from another order of letters, is not. (U+FE0F, which makes a picture of the sign before it, is left.)
pub fn is_unseen(c: char) -> bool {
    if c == '\n' || c == '\t' {
        return false;
    }
    is_blank(c) || is_format(c) || c.is_control()
}

fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}'
                | '\u{202f}'
                | '\u{205f}'
                | '\u{2800}'
                | '\u{3000}'
                | '\u{3164}'
                | '\u{ffa0}'
                | '\u{16fe4}'
    )
}

fn is_format(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0e}'
            | '\u{feff}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{13440}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_deceives_the_eye_is_told_from_what_is_read() {
        for c in "\u{a0}\u{2003}\u{3000}\u{200b}\u{202e}\u{fe01}\u{1bca0}\u{13430}\u{e0041}\u{7}\r"
            .chars()
        {
            assert!(is_unseen(c), "{:x}", u32::from(c));
        }
        for c in "aZ é中ש€\n\t❤\u{fe0f}".chars() {
            assert!(!is_unseen(c), "{:x}", u32::from(c));
        }
    }
}
