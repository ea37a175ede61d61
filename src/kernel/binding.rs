//! Binding: which question an answer names. One rule for all doors: they parse, and ask here.
//!
//! A question is named by its request id, by its digest, or by its code: letters that a person can
//! type, looked up only among the open questions of the conversation that they are typed in.
//!
//! - **K9** A decision is answered by one of the three. Words alone never decide; they answer a
//!   question of the conversation's only where it is the only one that is open, and where whoever
//!   speaks began, at the same door, what ended in it. Where the file says `binding: digest`, an id or a
//!   code finds a decision and does not answer it: the digest of what was shown must come along.

use serde_json::{Value, json};

use crate::kernel::digest;
use crate::kernel::id::{RequestId, RunId};
use crate::kernel::naming::Naming;
use crate::kernel::principal::Principal;
use crate::kernel::question::Question;
use crate::kernel::refusal::Refusal;
use crate::kernel::terms::Kind;
use crate::kernel::verb::Verb;

/// Letters of codes: consonants alone, so that a code is no word, in any language, by accident.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
/// Three million codes for the few questions that are open in one conversation.
const CODE_CHARS: usize = 5;
/// Where two begin alike, as many more as tell them apart; after this many they are one question.
const CODE_CHARS_MAX: usize = 16;

/// By what an answer names its question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// Its id.
    Request(RequestId),
    /// The digest of what was shown.
    Digest(String),
    /// The letters that were printed with it.
    Code(String),
}

impl Reference {
    /// What a text names, if it has the form of a name.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(id) = RequestId::parse(text) {
            return Some(Self::Request(id));
        }
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 64 && text.bytes().all(is_hex) {
            return Some(Self::Digest(text.to_owned()));
        }
        code(text).map(Self::Code)
    }
}

/// An open question of a conversation.
#[derive(Debug, Clone, Copy)]
pub struct Open<'a> {
    /// The run that asks.
    pub run: &'a RunId,
    /// What it asks.
    pub question: &'a Question,
}

/// What words that came without a name say.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Words<'a> {
    /// A verb, or an option's place, and a code: `approve KWQFM: but hurry`.
    Coded {
        /// What is said.
        word: &'a str,
        /// The code.
        code: String,
        /// What is said with it.
        note: &'a str,
    },
    /// Words.
    Plain,
}

/// Reads words: `<verb> <code>[: note]` and nothing else, or words.
fn read(text: &str) -> Words<'_> {
    let (said, note) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
    let mut words = said.split_ascii_whitespace();
    let (Some(word), Some(letters), None) = (words.next(), words.next(), words.next()) else {
        return Words::Plain;
    };
    let lower = word.to_ascii_lowercase();
    let is_verb = Verb::parse(&lower).is_some()
        || Verb::plainly(&lower).is_some()
        || word.bytes().all(|byte| byte.is_ascii_digit());
    match code(letters) {
        Some(code) if is_verb => Words::Coded { word, code, note: note.trim() },
        Some(_) | None => Words::Plain,
    }
}

/// A code, whatever its case.
fn code(text: &str) -> Option<String> {
    let letters = text.to_ascii_uppercase();
    let is_one = letters.bytes().all(|byte| LETTERS.contains(&byte));
    (is_one && (CODE_CHARS..=CODE_CHARS_MAX).contains(&letters.len())).then_some(letters)
}

impl Question {
    /// The code that is printed with it, and never without all of what it decides; nothing, where any
    /// words are an answer, or where it would not be enough.
    pub fn code(&self) -> String {
        if self.needs_digest() {
            String::new()
        } else if self.decides() || self.kind == Kind::Selection {
            self.letters(CODE_CHARS)
        } else {
            String::new()
        }
    }

    /// Whether nothing but its digest answers it.
    pub fn needs_digest(&self) -> bool {
        self.by_digest && self.decides()
    }

    /// By what its answer must name it, as files and the wire say it; nothing where any name will do.
    pub fn binding(&self) -> &'static str {
        if self.needs_digest() { "digest" } else { "" }
    }

    fn letters(&self, count: usize) -> String {
        let drawn = digest::of_bytes(format!("holdpoint code {}", self.digest).as_bytes());
        let pairs = drawn.as_bytes().chunks_exact(2).take(count);
        let letter = |pair: &[u8]| {
            let byte =
                std::str::from_utf8(pair).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
            char::from(LETTERS[usize::from(byte.unwrap_or_default()) % LETTERS.len()])
        };
        pairs.map(letter).collect()
    }

    /// What a word and a note say to it.
    pub fn said_by(&self, word: &str, note: &str) -> Value {
        let read = self.read(&Value::from(word));
        match read {
            Ok(Value::Object(mut fields)) if !note.is_empty() => {
                fields.insert("note".into(), note.into());
                Value::Object(fields)
            }
            Ok(Value::String(word)) if !note.is_empty() => json!({"decision": word, "note": note}),
            Ok(value) => value,
            Err(_) => match Verb::parse(&word.to_ascii_lowercase()) {
                // A word that means nothing without its note.
                Some(verb) if verb.needs_note() && !note.is_empty() => {
                    json!({"decision": verb.word(), "note": note})
                }
                Some(_) | None => Value::from(word),
            },
        }
    }
}

/// Refuses an answer that names its question in a way that its file does not take for enough: by id or
/// code, where it wants the digest of what was shown.
pub(super) fn refuse_unseen(
    question: &Question,
    digest: Option<&str>,
    request: &str,
) -> Result<(), Refusal> {
    if digest.is_some() || !question.needs_digest() {
        return Ok(());
    }
    Err(Refusal::DigestNeeded { request: request.to_owned() })
}

/// The code of each, long enough to tell it from the others.
fn codes(open: &[Open<'_>]) -> Vec<String> {
    let differs = |one: &Open<'_>, count: usize| {
        let letters = one.question.letters(count);
        let same = open.iter().filter(|other| other.question.letters(count) == letters).count();
        (same == 1).then_some(letters)
    };
    let shortest = |one: &Open<'_>| {
        (CODE_CHARS..=CODE_CHARS_MAX).find_map(|count| differs(one, count)).unwrap_or_default()
    };
    open.iter().map(shortest).collect()
}

/// Each open question, and by what it can be named.
pub fn names(open: &[Open<'_>]) -> Vec<Naming> {
    open.iter()
        .zip(codes(open))
        .map(|(one, code)| Naming {
            request: one.question.id(one.run).to_string(),
            prompt: one.question.prompt.clone(),
            code,
            verbs: one.question.verbs(),
        })
        .collect()
}

/// The question that `reference` names, among those that are open in a conversation.
pub fn find<'a>(reference: &Reference, open: &[Open<'a>]) -> Result<Open<'a>, Refusal> {
    let named = |is_it: &dyn Fn(&Open<'_>) -> bool| {
        let mut found = open.iter().filter(|one| is_it(one));
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(*one),
            // K7: what could mean either of two is neither.
            (Some(_), Some(_)) => Err(Refusal::Unbound { open: names(open) }),
            (None, _) => Err(match reference {
                Reference::Request(id) => Refusal::UnknownRequest(id.to_string()),
                Reference::Digest(digest) => Refusal::StaleDigest { request: digest.clone() },
                Reference::Code(code) => Refusal::UnknownCode { code: code.clone() },
            }),
        }
    };
    match reference {
        Reference::Request(id) => named(&|one| one.question.id(one.run) == *id),
        Reference::Digest(digest) => named(&|one| one.question.digest == *digest),
        Reference::Code(code) => named(&|one| one.question.letters(code.len()) == *code),
    }
}

/// What `input`, said in a conversation with these open questions, answers, and what it says to it;
/// none if nothing is open. This is the one place where words become answers (K9).
pub fn resolve(
    input: &Value,
    open: &[Open<'_>],
    who: &Principal,
    session: &str,
) -> Result<Option<(RequestId, Value)>, Refusal> {
    if let Some(Words::Coded { word, code, note }) = input.as_str().map(read) {
        let one = find(&Reference::Code(code), open)?;
        return Ok(Some((one.question.id(one.run), one.question.said_by(word, note))));
    }
    let one = by_words(input, open, who, session)?;
    Ok(one.map(|one| (one.question.id(one.run), input.clone())))
}

/// The question that `input`, which names none, answers by itself; none if nothing is open. Refused
/// wherever it is not clear, by K9, that these words are meant for it.
fn by_words<'a>(
    input: &Value,
    open: &[Open<'a>],
    who: &Principal,
    session: &str,
) -> Result<Option<Open<'a>>, Refusal> {
    let [one] = open else {
        if open.is_empty() {
            return Ok(None);
        }
        if open.iter().any(|one| one.question.decides()) {
            return Err(Refusal::Unbound { open: names(open) });
        }
        let requests = names(open).into_iter().map(|naming| naming.request).collect();
        return Err(Refusal::AmbiguousAnswer { session: session.to_owned(), requests });
    };
    let is_own =
        one.question.leg.as_ref().is_none_or(|leg| leg.by == who.id && leg.door == who.door);
    if one.question.decides() || !is_own || is_bare_place(one.question, input) {
        return Err(Refusal::Unbound { open: names(open) });
    }
    Ok(Some(*one))
}

/// Whether a number alone is to choose: it may be that of another list than the one that is open.
fn is_bare_place(question: &Question, input: &Value) -> bool {
    let is_number = match input {
        Value::String(text) => text.trim().parse::<usize>().is_ok(),
        Value::Number(_) => true,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    };
    let is_id = |text: &str| question.options.iter().any(|option| option.id == text.trim());
    question.kind == Kind::Selection && is_number && !input.as_str().is_some_and(is_id)
}
