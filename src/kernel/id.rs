//! Ids: one type for each kind of thing that is named, prefixed and sortable.
//!
//! A run's id is drawn by the engine; every id below it (request, message, event, checkpoint) is
//! the run's id and an ordinal, so the kernel needs no chance, and a request id alone tells which
//! run it belongs to without an index. A request's also ends in a part of its nonce: whoever names
//! it has been shown it (K9).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernel::digest;

/// The number of events in a journal; an event's own version is the count with it included.
pub type Version = u64;

/// A caller's own session id may be this long: it is a key in the store and a word in every log.
pub const SESSION_ID_BYTES_MAX: usize = 128;

/// What stands between a caller's own word for a session and whose it is.
const WHOSE: char = '~';
/// Fifty bits tell owners apart: of two that drew the same, one is told that the other's are unknown.
const WHOSE_CHARS: usize = 10;

/// Why a text is not an id of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadId(pub &'static str);

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id as it is written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id! {
    /// A durable conversation. Ours are `ses_` and 26 characters; a caller may bring its own word, which
    /// is kept with whose it is.
    SessionId
}
id! {
    /// One execution of a workflow: `run_` and 26 characters that sort by time.
    RunId
}

impl SessionId {
    /// Takes a caller's word for a session: visible ASCII, neither empty nor overlong.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        if text.is_empty() {
            return Err(BadId("a session id must not be empty"));
        }
        let word = split_whose(text).map_or(text, |(word, _)| word);
        if word.len() > SESSION_ID_BYTES_MAX {
            return Err(BadId("a session id has at most 128 characters"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadId("a session id is made of visible ASCII characters"));
        }
        Ok(Self(text.into()))
    }

    /// A fresh id around 26 characters drawn by the engine.
    pub fn fresh(stem: &str) -> Self {
        Self(format!("ses_{stem}").into())
    }

    /// The id of the session that `owner` calls `word`, or by its id.
    #[must_use]
    pub fn of(word: &Self, owner: &str) -> Self {
        let whose = whose(owner);
        match split_whose(word.as_str()) {
            Some((_, own)) if own == whose => word.clone(),
            Some(_) | None => Self(format!("{word}{WHOSE}{whose}").into()),
        }
    }

    /// What it is called to `who`: its owner's own word to its owner, the whole id to others.
    #[must_use]
    pub fn told_to(&self, who: &str) -> Self {
        match split_whose(&self.0) {
            Some((word, own)) if own == whose(who) => Self(word.into()),
            Some(_) | None => self.clone(),
        }
    }

    /// Whether `who` may mean it by `given`.
    pub fn is_called(&self, given: &str, who: &str) -> bool {
        self.as_str() == given || self.told_to(who).as_str() == given
    }

    /// Whether it has the form of those that are drawn here.
    pub fn is_drawn(&self) -> bool {
        self.0.strip_prefix("ses_").is_some_and(is_stem)
    }

    /// Whether it is a caller's word, without whose.
    pub fn is_word(&self) -> bool {
        !self.is_drawn() && split_whose(&self.0).is_none()
    }
}

/// The letters by which an owner's sessions are told from others'.
fn whose(owner: &str) -> String {
    let drawn = digest::of_bytes(format!("holdpoint session of {owner}").as_bytes());
    let mut digits = drawn.bytes().map(|hex| if hex > b'9' { hex - b'a' + 10 } else { hex - b'0' });
    let pair = || Some(digits.next()? << 4 | digits.next()?);
    std::iter::from_fn(pair).take(WHOSE_CHARS).map(|byte| char::from(letter(byte))).collect()
}

/// A word, and whose it is, if the text has both.
fn split_whose(text: &str) -> Option<(&str, &str)> {
    let (word, own) = text.rsplit_once(WHOSE)?;
    let is_own = own.len() == WHOSE_CHARS && own.bytes().all(|byte| ALPHABET.contains(&byte));
    (is_own && !word.is_empty()).then_some((word, own))
}

/// Crockford's digits, without look-alikes.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

fn letter(byte: u8) -> u8 {
    ALPHABET[usize::from(byte & 31)]
}

impl RunId {
    /// Reads `run_…` back.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        match text.strip_prefix("run_") {
            Some(stem) if is_stem(stem) => Ok(Self(text.into())),
            Some(_) | None => Err(BadId("a run id is `run_` and 26 lower-case letters or digits")),
        }
    }

    /// A fresh id around 26 characters drawn by the engine.
    pub fn fresh(stem: &str) -> Self {
        Self(format!("run_{stem}").into())
    }

    /// The id without its prefix.
    pub fn stem(&self) -> &str {
        self.0.strip_prefix("run_").unwrap_or(&self.0)
    }

    /// The id of this run's `ordinal`-th message.
    pub fn message(&self, ordinal: usize) -> String {
        format!("msg_{}-{ordinal:04}", self.stem())
    }

    /// The id of this run's event at `version`.
    pub fn event(&self, version: u64) -> String {
        format!("evt_{}-{version:06}", self.stem())
    }

    /// The id of this run's checkpoint at `version`.
    pub fn checkpoint(&self, version: u64) -> String {
        format!("chk_{}-{version:06}", self.stem())
    }
}

/// A question of a run: `req_`, the run's 26 characters, the question's ordinal, and its tail.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RequestId {
    /// The run that asks.
    pub run: RunId,
    /// Which of its questions, counted from 1.
    pub ordinal: u32,
    /// What cannot be guessed of it; none in runs that began before there were any.
    pub tail: Option<Tail>,
}

/// The end of a request's id: a part of the question's nonce.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Tail([u8; Self::CHARS]);

impl Tail {
    /// Forty bits: nobody guesses them at a door that takes a thousand calls a second.
    pub(super) const CHARS: usize = 8;

    /// The tail of that nonce.
    pub(super) fn of(nonce: &[u8]) -> Self {
        let mut tail = [b'0'; Self::CHARS];
        for (place, byte) in tail.iter_mut().zip(nonce) {
            *place = letter(*byte);
        }
        Self(tail)
    }

    fn parse(text: &str) -> Option<Self> {
        let is_one = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
        let bytes: [u8; Self::CHARS] = text.as_bytes().try_into().ok()?;
        bytes.iter().all(|byte| is_one(*byte)).then_some(Self(bytes))
    }
}

impl From<Tail> for String {
    fn from(tail: Tail) -> Self {
        tail.to_string()
    }
}

impl TryFrom<String> for Tail {
    type Error = BadId;

    fn try_from(text: String) -> Result<Self, BadId> {
        Self::parse(&text).ok_or(BadId("a tail is eight lower-case letters or digits"))
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.0).unwrap_or_default())
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl RequestId {
    /// Reads `req_…-n-tail` back; `req_…-n` of runs that began before there were tails.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        let bad = BadId(
            "a request id is `req_`, 26 lower-case letters or digits, `-`, a number and its tail",
        );
        let whole = split(text, "req_").map(|found| (found, None));
        let found = whole.or_else(|| {
            let (rest, tail) = text.rsplit_once('-')?;
            Some((split(rest, "req_")?, Some(Tail::parse(tail)?)))
        });
        let ((run, ordinal), tail) = found.ok_or(bad)?;
        let ordinal = u32::try_from(ordinal).map_err(|_| BadId("no such request"))?;
        Ok(Self { run, ordinal, tail })
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req_{}-{:04}", self.run.stem(), self.ordinal)?;
        match self.tail {
            Some(tail) => write!(f, "-{tail}"),
            None => Ok(()),
        }
    }
}

/// Reads `chk_…-version` back into the run and the version it was saved at.
pub fn parse_checkpoint(text: &str) -> Result<(RunId, u64), BadId> {
    split(text, "chk_").ok_or(BadId(
        "a checkpoint id is `chk_`, 26 lower-case letters or digits, `-` and a number",
    ))
}

fn split(text: &str, prefix: &str) -> Option<(RunId, u64)> {
    let (stem, number) = text.strip_prefix(prefix)?.rsplit_once('-')?;
    if !is_stem(stem) || number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((RunId::fresh(stem), number.parse().ok()?))
}

fn is_stem(text: &str) -> bool {
    text.len() == 26 && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEM: &str = "01k9zq3v7m8n4p5r6s7t8v9w0x";

    #[test]
    fn a_request_id_tells_its_run() {
        let id = RequestId { run: RunId::fresh(STEM), ordinal: 7, tail: None };
        assert_eq!(id.to_string(), format!("req_{STEM}-0007"));
        assert_eq!(RequestId::parse(&id.to_string()), Ok(id.clone()));
        let tailed = RequestId { tail: Some(Tail::of(&[0, 1, 2, 3, 4, 5, 30, 63])), ..id };
        assert_eq!(tailed.to_string(), format!("req_{STEM}-0007-012345yz"));
        assert_eq!(RequestId::parse(&tailed.to_string()), Ok(tailed));
        for wrong in ["-0007-0123", "-0007-012345yz0", "-0007-012345YZ", "-0007-"] {
            assert!(RequestId::parse(&format!("req_{STEM}{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn foreign_texts_are_no_ids() {
        for text in ["", "req_", "req_x-1", "run_", "REQ_01-1", "req_01k9zq3v7m8n4p5r6s7t8v9w0x-"] {
            assert!(RequestId::parse(text).is_err(), "{text}");
            assert!(RunId::parse(text).is_err(), "{text}");
        }
        assert!(SessionId::parse("").is_err());
        assert!(SessionId::parse(&"x".repeat(129)).is_err());
        assert!(SessionId::parse("two words").is_err());
        assert!(SessionId::parse("customer-42").is_ok());
    }

    #[test]
    fn a_word_of_two_owners_is_two_sessions_and_each_is_told_its_own() {
        let word = SessionId::parse("party").unwrap();
        let [anns, bens] = ["ann", "ben"].map(|owner| SessionId::of(&word, owner));
        assert_ne!(anns, bens);
        assert_eq!((anns.told_to("ann"), bens.told_to("ben")), (word.clone(), word.clone()));
        assert_eq!(anns.told_to("ben"), anns, "others are told the whole id");
        // The whole id is the same session to its owner, and another one to anybody else.
        assert_eq!(SessionId::of(&anns, "ann"), anns);
        let taken = SessionId::of(&anns, "ben");
        assert_ne!(taken, anns);
        assert_eq!(taken.told_to("ben"), anns, "and is told as it was given");
        assert!(anns.is_called("party", "ann") && !anns.is_called("party", "ben"));
        assert!(anns.is_called(anns.as_str(), "ben"));
        assert!(word.is_word() && !anns.is_word());
        let drawn = SessionId::fresh(STEM);
        assert!(drawn.is_drawn() && !drawn.is_word() && !word.is_drawn());
        // A word of full length has room for whose it is.
        let long = SessionId::of(&SessionId::parse(&"x".repeat(128)).unwrap(), "ann");
        assert_eq!(SessionId::parse(long.as_str()), Ok(long));
        assert!(SessionId::parse(&format!("{}~nobody", "x".repeat(128))).is_err());
    }
}
