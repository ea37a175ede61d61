//! Spelling: what a place of a text says, however that is written: as it is; as JSON, URLs, forms and HTML escape it; or
//! as one of them escapes what another wrote. Read character by character, so that nobody's choice of what to escape,
//! and of the case of its digits, matters. What is looked for is `sieve`'s to know.

use serde_json::Value;

use crate::kernel::entities::NAMED;
use crate::kernel::placeholder;

/// How often what is escaped may have been escaped again: JSON in JSON in JSON.
const LAYERS_MAX: usize = 3;
/// The same of JSON alone, where it is cheap to tell: by how many backslashes there are.
const DOUBLINGS_MAX: usize = 5;
/// Digits of a character in HTML; leading zeros are allowed.
const DIGITS_MAX: usize = 8;
/// A character that is said, and where what says it ends.
type Said = (char, usize);

/// A text that is read.
pub(super) struct Reading<'t> {
    pub(super) text: &'t str,
    /// Steps that are left. Whoever wrote the text may have seen to it that it takes many.
    pub(super) left: usize,
}

/// Whether an escape may begin with it.
pub(super) fn opens(c: char) -> bool {
    matches!(c, '\\' | '%' | '&' | '+')
}

impl Reading<'_> {
    /// What a place may say, in order: the character that stands there, and those that it begins an escape of.
    pub(super) fn said_at(&mut self, at: usize) -> Vec<Said> {
        self.read(at, LAYERS_MAX)
    }

    /// Goes through the text from a place on for as long as it says what is `wanted`. For each character of that, `each`
    /// is told how many were said by then, and the places where they may end; it may read on from there. Stops where no
    /// steps are left.
    pub(super) fn follow(
        &mut self,
        at: usize,
        wanted: &str,
        each: &mut dyn FnMut(&mut Self, usize, &[usize]),
    ) {
        // Most of a text is neither what is looked for nor an escape.
        if self.plain(at).is_some_and(|(said, _)| !opens(said) && !wanted.starts_with(said)) {
            self.left = self.left.saturating_sub(1);
            return;
        }
        let (mut places, mut next) = (vec![at], Vec::new());
        for (count, c) in (1..).zip(wanted.chars()) {
            next.clear();
            for place in &places {
                match self.plain(*place) {
                    Some((said, _)) if opens(said) => {
                        let said = self.said_at(*place).into_iter();
                        next.extend(said.filter(|(said, _)| *said == c).map(|(_, end)| end));
                    }
                    Some((said, end)) => {
                        self.left = self.left.saturating_sub(1);
                        next.extend((said == c).then_some(end));
                    }
                    None => {}
                }
            }
            next.sort_unstable();
            next.dedup();
            if next.is_empty() || self.left == 0 {
                return;
            }
            each(self, count, &next);
            std::mem::swap(&mut places, &mut next);
        }
    }

    fn plain(&self, at: usize) -> Option<Said> {
        let c = self.text.get(at..)?.chars().next()?;
        Some((c, at + c.len_utf8()))
    }

    fn starts_with(&self, at: usize, what: &str) -> bool {
        self.text.get(at..).is_some_and(|rest| rest.starts_with(what))
    }

    /// What a place may say, where so many layers are taken off. What is special to one layer may itself be escaped by
    /// the next; letters and digits never are.
    fn read(&mut self, at: usize, layers: usize) -> Vec<Said> {
        self.left = self.left.saturating_sub(1);
        let Some(first) = self.plain(at).filter(|_| self.left > 0) else { return Vec::new() };
        let mut said = vec![first];
        if !opens(first.0) || layers == 0 {
            return said;
        }
        let is_row = first.0 == '\\';
        let row = if is_row { self.backslashes(at, layers, &mut said) } else { at };
        for layer in 0..layers {
            let mut more = Vec::new();
            for (c, from) in &said {
                match c {
                    '\\' if *from > row => self.after_backslash(*from, layer, &mut more),
                    '%' => self.after_percent(*from, layer, &mut more),
                    '&' => self.after_ampersand(*from, layer, &mut more),
                    // Forms write a space so.
                    '+' => more.push((' ', *from)),
                    _plain => {}
                }
            }
            said.append(&mut more);
            said.sort_unstable();
            said.dedup();
        }
        said
    }

    /// Several in a row, and where they end. Each layer of JSON doubles them, and adds one before what it escapes; what it
    /// need not escape, not every layer does.
    fn backslashes(&mut self, at: usize, layers: usize, found: &mut Vec<Said>) -> usize {
        let count = self.count_backslashes(at);
        let doubled = (1..=DOUBLINGS_MAX).map(|layer| 1 << layer).filter(|bytes| *bytes <= count);
        found.extend(doubled.map(|bytes| ('\\', at + bytes)));
        // More of them are no escape of anything.
        if !self.starts_with(at + count, "\\") {
            self.after_backslash(at + count, layers - 1, found);
        }
        at + count
    }

    fn count_backslashes(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        rest.bytes().take(1 << DOUBLINGS_MAX).take_while(|byte| *byte == b'\\').count()
    }

    /// JSON: `\"`, `\/`, `\n`, `\u00eb`; and whatever others put a backslash before.
    fn after_backslash(&mut self, from: usize, layers: usize, found: &mut Vec<Said>) {
        for (c, end) in self.read(from, layers) {
            match c {
                'b' => found.push(('\u{8}', end)),
                'f' => found.push(('\u{c}', end)),
                'n' => found.push(('\n', end)),
                'r' => found.push(('\r', end)),
                't' => found.push(('\t', end)),
                'u' => self.after_u(end, layers, found),
                c if !c.is_alphanumeric() => found.push((c, end)),
                _letter => {}
            }
        }
    }

    /// The four digits of `\u00eb`; where they are the first half of a character, those of the other, too.
    fn after_u(&mut self, from: usize, layers: usize, found: &mut Vec<Said>) {
        let text = self.text;
        let unit = |at: usize| u16::try_from(hexadecimal(text, at, 4)?).ok();
        let Some(first) = unit(from) else { return };
        if let Some(c) = char::from_u32(u32::from(first)) {
            found.push((c, from + 4));
            return;
        }
        // Its own backslashes are as many as those before the first.
        let places = match self.count_backslashes(from + 4) {
            0 => self.read(from + 4, layers),
            count => vec![('\\', from + 4 + count)],
        };
        for (c, at) in places {
            let is_next = c == '\\' && self.starts_with(at, "u");
            if let Some(second) = unit(at + 1).filter(|_| is_next)
                && let Some(Ok(c)) = char::decode_utf16([first, second]).next()
            {
                found.push((c, at + 5));
            }
        }
    }

    /// URLs and forms: the bytes of one character, `%C3%AB`.
    fn after_percent(&mut self, from: usize, layers: usize, found: &mut Vec<Said>) {
        let text = self.text;
        let byte = |at: usize| u8::try_from(hexadecimal(text, at, 2)?).ok();
        let Some(first) = byte(from) else { return };
        let count = match first {
            ..0x80 => 1,
            0xC2..0xE0 => 2,
            0xE0..0xF0 => 3,
            0xF0..0xF5 => 4,
            0x80..0xC2 | 0xF5.. => return,
        };
        let mut ways = vec![(vec![first], from + 2)];
        for _ in 1..count {
            let mut longer = Vec::new();
            for (bytes, at) in ways {
                for (_, at) in self.read(at, layers).into_iter().filter(|(c, _)| *c == '%') {
                    let next = byte(at).map(|next| ([&*bytes, &[next]].concat(), at + 2));
                    longer.extend(next);
                }
            }
            ways = longer;
        }
        for (bytes, end) in ways {
            let c = std::str::from_utf8(&bytes).ok().and_then(|said| said.chars().next());
            found.extend(c.map(|c| (c, end)));
        }
    }

    /// HTML: `&quot;`, `&#39;`, `&#x27;`; a browser reads them without the last character, too.
    fn after_ampersand(&mut self, from: usize, layers: usize, found: &mut Vec<Said>) {
        let named = NAMED.iter().filter(|(name, _)| self.starts_with(from, name));
        let mut open: Vec<Said> = named.map(|(name, c)| (*c, from + name.len())).collect();
        let numbers = self.read(from, layers).into_iter().filter(|(c, _)| *c == '#');
        open.extend(numbers.filter_map(|(_, at)| numbered(self.text, at)));
        for (c, at) in open {
            let closed = self.read(at, layers).into_iter().filter(|(c, _)| *c == ';');
            found.extend(closed.map(|(_, end)| (c, end)));
            found.push((c, at));
        }
    }
}

/// The character that HTML has a number for: `39`, `x27`.
fn numbered(text: &str, at: usize) -> Option<Said> {
    let rest = text.get(at..)?;
    let (digits, radix) = rest.strip_prefix(['x', 'X']).map_or((rest, 10), |digits| (digits, 16));
    let bytes = digits.bytes().take(DIGITS_MAX);
    let count = bytes.take_while(|byte| char::from(*byte).is_digit(radix)).count();
    let number = u32::from_str_radix(digits.get(..count)?, radix).ok()?;
    Some((char::from_u32(number)?, text.len() - digits.len() + count))
}

fn hexadecimal(text: &str, at: usize, count: usize) -> Option<u32> {
    let digits = text.get(at..at + count)?;
    // A sign would be read as well.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// How a text that is JSON, and a URL, have another within, where that is not as it is.
pub(super) fn spellings(text: &str) -> Vec<String> {
    let json = Value::from(text).to_string();
    let within = json.get(1..json.len() - 1).unwrap_or_default().to_owned();
    let others = [within, placeholder::encode(text)].into_iter();
    others.filter(|spelling| spelling != text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the whole of a text says what is wanted.
    fn says(text: &str, wanted: &str) -> bool {
        let mut is_said = false;
        Reading { text, left: 1_000_000 }.follow(0, wanted, &mut |_, count, ends| {
            is_said |= count == wanted.chars().count() && ends.contains(&text.len());
        });
        is_said
    }

    #[test]
    fn a_text_says_the_same_however_it_is_escaped() {
        for (text, wanted) in [
            ("plain", "plain"),
            (r"Zo\u00eb", "Zoë"),
            (r"Zo\u00EB", "Zoë"),
            (r"\ud83d\ude00", "😀"),
            (r"\\\\ud83d\\\\ude00", "😀"),
            ("%5Cud83d%5Cude00", "😀"),
            (r"a\/b", "a/b"),
            (r#"a\"b"#, "a\"b"),
            (r#"a\\\"b"#, "a\"b"),
            (r"a\\\\\/b", "a/b"),
            (r"a%5C\/b", "a/b"),
            (r#"a\\\\\\\"b"#, "a\"b"),
            (r#"a\\\\\\\\\\\\\\\"b"#, "a\"b"),
            (r"Zo\\\\u00eb", "Zoë"),
            (r"C:\\\\dir", r"C:\dir"),
            (r"one\ntwo", "one\ntwo"),
            ("correct%20horse/battery", "correct horse/battery"),
            ("correct+horse%2Fbattery", "correct horse/battery"),
            ("correct%20horse%2fbattery", "correct horse/battery"),
            ("1+1%2B1", "1+1+1"),
            ("Zo%C3%AB", "Zoë"),
            ("Zo%c3%ab", "Zoë"),
            ("%F0%9F%98%80", "😀"),
            ("Zo%25C3%25AB", "Zoë"),
            ("a &quot;b&quot; &amp; &lt;c&gt;", "a \"b\" & <c>"),
            ("it&#39;s it&#x27;s it&#039;s it&apos;s", "it's it's it's it's"),
            ("a&amp;quot;b", "a\"b"),
            ("caf&eacute; &uuml;ber &Uuml;ber", "café über Über"),
            ("a&sol;b&excl; &QUOT;c&quot; &lpar;d&rpar;", "a/b! \"c\" (d)"),
            ("caf&eacute!", "café!"),
            ("a&quotb &AMP c &#39d", "a\"b & c 'd"),
            ("a&amp;eacute;b", "aéb"),
            (r"a\u0026quot;b", "a\"b"),
            ("a%5C%22b", "a\"b"),
            ("a%26%2339%3Bb", "a'b"),
            ("50%25", "50%"),
            ("50%25", "50%25"),
        ] {
            assert!(says(text, wanted), "{text} says {wanted}");
        }
    }

    #[test]
    fn what_is_no_escape_is_read_as_it_is() {
        for (text, wanted) in [
            (r"a\b", "ab"),
            ("100%", "100"),
            ("%+1", "\u{1}"),
            ("%C3%28", "Ã("),
            (r"\ud83d\u0041", "A"),
            ("&QuOt;", "\""),
            ("&Uuml;", "ü"),
            ("&#;", "\0"),
            ("a+b", "a/b"),
            (r"\u00", "\0"),
        ] {
            assert!(!says(text, wanted), "{text} does not say {wanted}");
        }
        assert!(says(r"\x", r"\x") && says("%zz", "%zz") && says("&co;", "&co;"));
    }

    #[test]
    fn whoever_has_no_steps_left_stops() {
        let mut reading = Reading { text: "aaaaaa", left: 3 };
        let mut told = 0;
        reading.follow(0, "aaaaaa", &mut |_, count, _| told = count);
        assert_eq!((reading.left, told), (0, 2));
    }
}
