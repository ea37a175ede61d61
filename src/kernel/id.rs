//! Ids: one type for each kind of thing that is named, prefixed and sortable.
//!
//! A run's id is drawn by the engine; every id below it (request, message, event, checkpoint) is
//! the run's id and an ordinal, so the kernel needs no chance, and a request id alone tells which
//! run it belongs to without an index. A request's also ends in a part of its nonce: whoever names
//! it has been shown it (K9).

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// A caller's own session id may be this long: it is a key in the store and a word in every log.
pub const SESSION_ID_BYTES_MAX: usize = 128;

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
    /// A durable conversation. Ours begin with `ses_`; a caller may bring its own.
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
        if text.len() > SESSION_ID_BYTES_MAX {
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tail([u8; TAIL_CHARS]);

/// Forty bits: nobody guesses them at a door that takes a thousand calls a second.
const TAIL_CHARS: usize = 8;

impl Tail {
    /// The tail of that nonce.
    pub(super) fn of(nonce: &[u8]) -> Self {
        const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let mut tail = [b'0'; TAIL_CHARS];
        for (place, byte) in tail.iter_mut().zip(nonce) {
            *place = ALPHABET[usize::from(byte & 31)];
        }
        Self(tail)
    }

    fn parse(text: &str) -> Option<Self> {
        let is_one = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
        let bytes: [u8; TAIL_CHARS] = text.as_bytes().try_into().ok()?;
        bytes.iter().all(|byte| is_one(*byte)).then_some(Self(bytes))
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
}
