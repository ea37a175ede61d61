//! Tokens: the words and signs of an expression, with their places.

use crate::kernel::expression::Wrong;

/// A word or a sign.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Number(serde_json::Number),
    Text(String),
    Name(String),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

/// Longer signs come first, so that `<=` is not read as `<`.
const SIGNS: [&str; 23] = [
    "==", "!=", "<=", ">=", "&&", "||", "??", "<", ">", "!", "+", "-", "*", "/", "%", "(", ")",
    "[", "]", ",", ".", "?", ":",
];

/// Words that are signs.
const WORDS: [(&str, &str); 4] = [("and", "&&"), ("or", "||"), ("not", "!"), ("in", "in")];

/// The tokens of a text, each with the character that it begins at.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Wrong> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&first) = chars.get(at) {
        if first.is_whitespace() {
            at += 1;
            continue;
        }
        let begin = at;
        let token = if first.is_ascii_digit() {
            number(&chars, &mut at)?
        } else if first == '"' || first == '\'' {
            quoted(&chars, &mut at)?
        } else if first.is_ascii_alphabetic() || first == '_' {
            name(&chars, &mut at)
        } else {
            sign(&chars, &mut at)?
        };
        found.push((begin, token));
    }
    found.push((chars.len(), Token::End));
    Ok(found)
}

fn number(chars: &[char], at: &mut usize) -> Result<Token, Wrong> {
    let begin = *at;
    let digits = |at: &mut usize| {
        while chars.get(*at).is_some_and(char::is_ascii_digit) {
            *at += 1;
        }
    };
    digits(at);
    let has_more = |at: usize| chars.get(at + 1).is_some_and(char::is_ascii_digit);
    if chars.get(*at) == Some(&'.') && has_more(*at) {
        *at += 1;
        digits(at);
    }
    let text: String = chars.get(begin..*at).unwrap_or_default().iter().collect();
    let whole = text.parse::<i64>().ok().map(Into::into);
    let number = whole.or_else(|| serde_json::Number::from_f64(text.parse().ok()?));
    number.map(Token::Number).ok_or_else(|| {
        Wrong::new(begin, "expression.syntax", format!("`{text}` is no number that can be kept"))
    })
}

fn quoted(chars: &[char], at: &mut usize) -> Result<Token, Wrong> {
    let (begin, quote) = (*at, chars.get(*at).copied());
    let mut text = String::new();
    *at += 1;
    while let Some(&next) = chars.get(*at) {
        *at += 1;
        if Some(next) == quote {
            return Ok(Token::Text(text));
        }
        if next == '\\' {
            let escaped = chars.get(*at).copied();
            *at += 1;
            match escaped {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(other) => text.push(other),
                None => break,
            }
        } else {
            text.push(next);
        }
    }
    Err(Wrong::new(begin, "expression.syntax", "a text begins here and does not end"))
}

/// A name may have `-` in it where a letter or digit follows at once: steps are called so.
fn name(chars: &[char], at: &mut usize) -> Token {
    let begin = *at;
    let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    while let Some(next) = chars.get(*at) {
        let joins = *next == '-' && chars.get(*at + 1).is_some_and(char::is_ascii_alphabetic);
        if !is_part(next) && !joins {
            break;
        }
        *at += 1;
    }
    let text: String = chars.get(begin..*at).unwrap_or_default().iter().collect();
    match WORDS.iter().find(|(word, _)| *word == text) {
        Some((_, sign)) => Token::Sign(sign),
        None => Token::Name(text),
    }
}

fn sign(chars: &[char], at: &mut usize) -> Result<Token, Wrong> {
    let fits = |sign: &&&str| {
        sign.chars().enumerate().all(|(index, c)| chars.get(*at + index) == Some(&c))
    };
    let Some(sign) = SIGNS.iter().find(fits) else {
        let what: String = chars.get(*at).into_iter().collect();
        let message = format!("`{what}` means nothing here");
        return Err(Wrong::new(*at, "expression.syntax", message));
    };
    *at += sign.len();
    Ok(Token::Sign(sign))
}
