//! Note: a head of the log as it is signed and handed out, in the form of C2SP's *tlog-checkpoint* within a
//! *signed note*, so that witnesses and tools that exist can read it. It checks signatures and makes none: the
//! key is elsewhere.
//!
//! ```text
//! holdpoint/4f1c…                              origin: which log this is
//! 4711                                         leaves
//! YKY…=                                        root, base64
//!
//! — holdpoint/4f1c… mI5B…==                    key id (4 bytes) and Ed25519 signature of all above the empty line
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, UnparsedPublicKey};

use crate::kernel::evidence::Hash;
use crate::kernel::evidence::tree::TreeHead;

/// The kind of key, as a signed note numbers it.
const KIND: u8 = 1;
/// More than a note with a few dozen witnesses has.
const NOTE_BYTES_MAX: usize = 64 << 10;

/// Whose signature counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyKey {
    /// The name that stands before its signatures.
    pub name: String,
    /// The key itself.
    pub key: [u8; 32],
}

impl VerifyKey {
    /// A key with a name; none if the name could not stand in a note.
    pub fn new(name: &str, key: [u8; 32]) -> Option<Self> {
        let is_name = !name.is_empty() && !name.contains(['+', '\n']) && !has_space(name);
        is_name.then(|| Self { name: name.to_owned(), key })
    }

    /// The first bytes of its signatures.
    pub fn id(&self) -> [u8; 4] {
        let whole = Hash::of(&[self.name.as_bytes(), b"\n", &[KIND], &self.key]).0;
        [whole[0], whole[1], whole[2], whole[3]]
    }

    /// As it is handed out: `name+id+key`.
    pub fn text(&self) -> String {
        let key = STANDARD.encode([&[KIND][..], &self.key].concat());
        format!("{}+{key}", self.short())
    }

    /// `name+id`: what tells it from others. The keys of one log may have one name, all of them.
    pub fn short(&self) -> String {
        named(&self.name, self.id())
    }

    /// From that text.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut parts = text.splitn(3, '+');
        let (name, _, key) = (parts.next()?, parts.next()?, parts.next()?);
        let bytes = STANDARD.decode(key).ok()?;
        let (&kind, key) = bytes.split_first()?;
        let read = Self::new(name, key.try_into().ok()?)?;
        // Its id is part of the text, and must be its own.
        (kind == KIND && read.text() == text).then_some(read)
    }

    /// Whether a signature is this key's.
    pub fn signed(&self, text: &str, signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.key).verify(text.as_bytes(), signature).is_ok()
    }
}

fn named(name: &str, [a, b, c, d]: [u8; 4]) -> String {
    format!("{name}+{a:02x}{b:02x}{c:02x}{d:02x}")
}

fn has_space(text: &str) -> bool {
    text.chars().any(char::is_whitespace)
}

/// What is signed of a head.
pub fn body(origin: &str, head: TreeHead) -> String {
    format!("{origin}\n{}\n{}\n", head.size, STANDARD.encode(head.root.0))
}

/// A body with a signature under it.
pub fn signed(body: &str, key: &VerifyKey, signature: &[u8]) -> String {
    let signature = STANDARD.encode([&key.id()[..], signature].concat());
    format!("{body}\n\u{2014} {} {signature}\n", key.name)
}

/// A note that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    /// Which log it is of.
    pub origin: String,
    /// The head.
    pub head: TreeHead,
    /// What is signed.
    body: String,
    /// Name, key id and signature, line by line.
    signatures: Vec<(String, Vec<u8>)>,
}

impl SignedHead {
    /// Reads a note. Says what is wrong with one that is none.
    pub fn parse(note: &str) -> Result<Self, String> {
        if note.len() > NOTE_BYTES_MAX {
            return Err(format!("a signed head has at most {NOTE_BYTES_MAX} bytes"));
        }
        let (text, lines) = note
            .split_once("\n\n")
            .ok_or("a signed head has an empty line before its signatures")?;
        let body = format!("{text}\n");
        let mut parts = text.split('\n');
        let (origin, size, root) = (parts.next(), parts.next(), parts.next());
        let (Some(origin), Some(size), Some(root)) = (origin, size, root) else {
            return Err("a signed head has three lines: origin, size, root".into());
        };
        let number = size.parse::<u64>().ok().filter(|number| number.to_string() == size);
        let number = number.ok_or("the second line of a signed head is its size")?;
        let root = STANDARD.decode(root).ok().and_then(|bytes| Hash::read(&bytes));
        let root = root.ok_or("the third line of a signed head is its root, in base64")?;
        let mut signatures = Vec::new();
        for line in lines.split_terminator('\n') {
            let signature = line.strip_prefix("\u{2014} ").and_then(|rest| rest.split_once(' '));
            let signature = signature.and_then(|(name, bytes)| {
                Some((name.to_owned(), STANDARD.decode(bytes).ok().filter(|all| all.len() > 4)?))
            });
            signatures.push(signature.ok_or("a line below the empty one is no signature")?);
        }
        let head = TreeHead { size: number, root };
        Ok(Self { origin: origin.to_owned(), head, body, signatures })
    }

    /// Whether this key signed it.
    pub fn is_signed_by(&self, key: &VerifyKey) -> bool {
        let own = self.signatures.iter().filter(|(name, _)| *name == key.name);
        let signatures = own.filter_map(|(_, bytes)| bytes.split_first_chunk::<4>());
        let mut signatures = signatures.filter(|(id, _)| **id == key.id());
        signatures.any(|(_, signature)| key.signed(&self.body, signature))
    }

    /// The keys that its signatures name, as `name+id`. It is their own word: whose they are is seen with the key.
    pub fn signed_as(&self) -> Vec<String> {
        let signatures = self.signatures.iter();
        let ids = signatures.filter_map(|(name, bytes)| Some((name, bytes.first_chunk::<4>()?)));
        ids.map(|(name, id)| named(name, *id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    fn pair(seed: u8) -> (Ed25519KeyPair, VerifyKey) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let key = pair.public_key().as_ref().try_into().unwrap();
        (pair, VerifyKey::new("holdpoint/test", key).unwrap())
    }

    #[test]
    fn a_note_is_signed_by_its_key_and_by_no_other() {
        let (pair, key) = pair(1);
        let head = TreeHead { size: 7, root: Hash::of(&[b"root"]) };
        let text = body("holdpoint/test", head);
        let note = signed(&text, &key, pair.sign(text.as_bytes()).as_ref());
        let read = SignedHead::parse(&note).unwrap();
        assert_eq!((read.origin.as_str(), read.head), ("holdpoint/test", head));
        assert!(read.is_signed_by(&key));
        assert!(!read.is_signed_by(&self::pair(2).1));
        let forged = SignedHead::parse(&note.replacen("\n7\n", "\n6\n", 1)).unwrap();
        assert!(!forged.is_signed_by(&key));
        assert_eq!(VerifyKey::parse(&key.text()), Some(key));
    }

    #[test]
    fn what_is_no_note_is_told_so() {
        for note in
            ["", "a\n1\n\n", "a\nb\nc\n\n", "a\n01\nAAAA\n\n", "a\n1\nAAAA\n\n\u{2014} x y\n"]
        {
            assert!(SignedHead::parse(note).is_err(), "{note:?}");
        }
        for key in ["", "a+b+c", "a b+00000000+AQ==", "holdpoint/test+00000000+AQ=="] {
            assert_eq!(VerifyKey::parse(key), None, "{key}");
        }
    }
}
