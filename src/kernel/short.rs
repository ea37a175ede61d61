//! Short: as much of somebody's text as is told, where it is long.

/// A text, or as many characters of it as are told, with a mark where it was cut. It is cut where a word ends: whoever cuts
/// does not know what is secret in it, and what is left of a secret of which too little is left is nobody's to find.
pub fn shortened(text: &str, most: usize) -> String {
    let Some((cut, _)) = text.char_indices().nth(most) else { return text.to_owned() };
    let (left, rest) = text.split_at(cut);
    let is_between = |c: char| c.is_whitespace() || "\"',;{}[]()<>".contains(c);
    let words = if rest.starts_with(is_between) {
        left
    } else {
        let last = left.char_indices().rev().find(|(_, c)| is_between(*c));
        last.and_then(|(at, c)| left.get(..at + c.len_utf8())).unwrap_or_default()
    };
    // One word that is longer than all that is told.
    let told = Some(words.trim_end()).filter(|words| !words.is_empty()).unwrap_or(left);
    format!("{told}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_cut_say_so_and_none_is_cut_in_two() {
        assert_eq!(shortened("déjà vu", 7), "déjà vu");
        assert_eq!(shortened("déjà vu", 4), "déjà…");
        assert_eq!(shortened("déjà vu", 6), "déjà…");
        assert_eq!(shortened("", 0), "");
        assert_eq!(
            shortened(r#"{"note":"charged","card":"4929-canary"}"#, 30),
            r#"{"note":"charged","card":"…"#
        );
        assert_eq!(shortened("all-of-it-is-one-word", 10), "all-of-it-…");
    }
}
