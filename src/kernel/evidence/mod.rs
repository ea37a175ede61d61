//! Evidence: what lets a stranger see that nothing was changed behind our back (J13). Hashes, chains, trees,
//! notes and bundles, as values; where they are stored, and who signs, is none of its business.
//!
//! ```text
//! entry ─► link (binds the entry, the one before it, its run and version)      chain
//!          └─► leaf (a decision, a vote, an end, …) ─► Merkle tree ─► note      leaf, tree, note
//! ```
//!
//! `docs/evidence.md` tells auditors the same, and is enough to write a verifier from.

pub mod bundle;
pub mod chain;
pub mod decided;
pub mod handover;
pub mod leaf;
pub mod note;
pub mod receipt;
pub mod tree;
pub mod walk;

use std::fmt;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::kernel::strict;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// That of parts, one after the other. By ring: everything that is written is hashed, and where the processor has no
    /// instruction for it, Rust's own takes nearly twice as long.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut sum = Context::new(&SHA256);
        for part in parts {
            sum.update(part);
        }
        let mut hash = Self::default();
        hash.0.copy_from_slice(sum.finish().as_ref());
        hash
    }

    /// From its hexadecimal digits.
    pub fn parse(hex: &str) -> Option<Self> {
        let digits = hex.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// From its bytes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Lower case alone: a hash has one spelling.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        0..b'0' | b':'..b'a' | b'g'.. => None,
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every receipt and every leaf has several: the formatter's own way is twenty times as slow.
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        f.write_str(str::from_utf8(&digits).unwrap_or_default())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("64 hexadecimal digits expected"))
    }
}

/// What does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where: a run and a version, a leaf, a definition.
    pub place: String,
    /// What is wrong there.
    pub what: String,
    /// In a journal: which byte of it, its appends' payloads read one after the other.
    pub byte: Option<u64>,
}

impl Finding {
    /// From a place and what is wrong there.
    pub fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into(), byte: None }
    }

    /// The same, at that byte of a journal.
    #[must_use]
    pub fn at_byte(self, byte: u64) -> Self {
        Self { byte: Some(byte), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.byte {
            Some(byte) => write!(f, "{}, byte {byte} of its journal: {}", self.place, self.what),
            None => write!(f, "{}: {}", self.place, self.what),
        }
    }
}

/// Whether a definition is what its digest says. Earlier builds kept the first half of the digest.
pub fn is_definition(digest: &str, json: &str) -> bool {
    match whole_digest(json) {
        Some(whole) => whole == digest || (digest.len() == 32 && whole.starts_with(digest)),
        None => false,
    }
}

/// The whole digest of a definition; none if it is no JSON.
pub fn whole_digest(json: &str) -> Option<String> {
    // Of two members of one name one program would read the first and another the last: there is no one digest.
    let value = strict::read(json.as_bytes()).ok()?;
    Some(crate::kernel::digest::of(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_has_one_spelling() {
        let hash = Hash::of(&[b"a", b"bc"]);
        assert_eq!(hash, Hash::of(&[b"abc"]));
        let text = hash.to_string();
        assert_eq!(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Hash::parse(&text), Some(hash));
        assert_eq!(Hash::parse(&text.to_uppercase()), None);
        assert_eq!(Hash::parse(text.get(1..).unwrap()), None);
    }

    #[test]
    fn a_definition_is_what_its_digest_says_whatever_the_order_of_its_keys() {
        let whole = whole_digest(r#"{"b":1,"a":2}"#).unwrap();
        assert!(is_definition(&whole, r#"{"a":2, "b":1}"#));
        assert!(
            is_definition(whole.get(..32).unwrap(), r#"{"a":2,"b":1}"#),
            "as an earlier build wrote it"
        );
        assert!(!is_definition(whole.get(..31).unwrap(), r#"{"a":2,"b":1}"#));
        assert!(!is_definition(&whole, r#"{"a":2,"b":2}"#));
        assert!(!is_definition(&whole, "no JSON"));
        assert!(!is_definition(&whole, r#"{"a":1,"b":1,"a":2}"#), "which `a` was it?");
    }
}
