//! Handover: a key that signs heads says which key does so after it. Whoever has been given the first public key goes
//! on from it to the one that signs now, and trusts nobody in between. It checks signatures and makes none.
//!
//! ```text
//! holdpoint key change 1
//! holdpoint/4f1c…                              origin: which log this is
//! holdpoint/4f1c…+2b8c…+AXy…=                  the key before
//! holdpoint/4f1c…+91d0…+Ab7…=                  the key from then on
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::kernel::evidence::Finding;
use crate::kernel::evidence::note::{SignedHead, VerifyKey};

/// Says what is signed.
const WHAT: &str = "holdpoint key change 1";

/// That heads are signed with another key from then on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The key before.
    pub before: String,
    /// The key from then on.
    pub key: String,
    /// The signature of the key before, in base64; empty where it did not sign: there the chain is broken.
    #[serde(default)]
    pub signature: String,
}

impl Handover {
    /// What is signed of it.
    pub fn text(origin: &str, before: &str, key: &str) -> String {
        format!("{WHAT}\n{origin}\n{before}\n{key}\n")
    }

    /// That it happened; with the signature, where it is one.
    pub fn new(origin: &str, (before, key): (&str, &str), signature: Option<&[u8]>) -> Self {
        let text = Self::text(origin, before, key);
        let signer = VerifyKey::parse(before);
        let is_own =
            |signature: &&[u8]| signer.is_some_and(|signer| signer.signed(&text, signature));
        let signature = signature.filter(is_own).map(|own| STANDARD.encode(own));
        let (before, key) = (before.to_owned(), key.to_owned());
        Self { before, key, signature: signature.unwrap_or_default() }
    }

    /// The key from then on, if the one before signed that.
    fn next(&self, origin: &str) -> Option<VerifyKey> {
        let signature = STANDARD.decode(&self.signature).ok()?;
        let text = Self::text(origin, &self.before, &self.key);
        let is_signed = VerifyKey::parse(&self.before)?.signed(&text, &signature);
        VerifyKey::parse(&self.key).filter(|_| is_signed)
    }
}

/// Refuses a signature that is no base64: what nobody needs to look at for this head is still no place for rubbish.
pub fn refuse_rubbish(handed: &[Handover]) -> Result<(), Finding> {
    let is_rubbish = |change: &&Handover| STANDARD.decode(&change.signature).is_err();
    match handed.iter().find(is_rubbish) {
        Some(change) => {
            let what = format!("the signature of `{}` is no base64", change.before);
            Err(Finding::new("the chain of keys", what))
        }
        None => Ok(()),
    }
}

/// The key that signed a head, as whoever trusts `first` may believe: that one, or one that it has led to. Says where
/// the chain of keys ends, if it does not lead there.
pub fn signer(
    head: &SignedHead,
    first: &VerifyKey,
    handed: &[Handover],
) -> Result<VerifyKey, Finding> {
    let mut known = first.clone();
    // What was handed on and back again is followed in the order in which it was; what the key before did not sign at
    // first it may have signed later.
    let mut left = handed;
    loop {
        if head.is_signed_by(&known) {
            return Ok(known);
        }
        let text = known.text();
        let mut changes = left.iter().enumerate().filter(|(_, change)| change.before == text);
        let signed = |(at, change): (usize, &Handover)| Some((at, change.next(&head.origin)?));
        if let Some((at, next)) = changes.clone().find_map(signed) {
            (known, left) = (next, left.get(at + 1..).unwrap_or_default());
            continue;
        }
        let Some((_, change)) = changes.next() else { break };
        let what = format!(
            "the chain of keys is broken: `{}` did not sign that `{}` came after it",
            change.before, change.key
        );
        return Err(Finding::new("the signed head", what));
    }
    let led = if known == *first { "" } else { ", nor did any key that it has led to" };
    let what = match others(head, first).as_slice() {
        [] => format!("`{}` did not sign it{led}", first.short()),
        // The keys of one log have one name: which of them it was is seen by the id.
        others => {
            let others = others.join("`, `");
            format!("`{}` did not sign it{led}; by its own word `{others}` did", first.short())
        }
    };
    Err(Finding::new("the signed head", what))
}

/// The same of the head in a file that was handed out. It knows of no key that came after it: whoever has only a later
/// one is told what can be done, since a true file is no forgery for that.
pub fn signer_in_file(
    head: &SignedHead,
    first: &VerifyKey,
    handed: &[Handover],
) -> Result<VerifyKey, Finding> {
    signer(head, first, handed).map_err(|finding| {
        let leads_on = handed.iter().any(|change| change.before == first.text());
        if leads_on || others(head, first).is_empty() {
            return finding;
        }
        let what = format!(
            "{}. If that is an older key of this log, use the public key of that time, or fetch the file again: a key leads to \
             those after it, and never to those before",
            finding.what
        );
        Finding { what, ..finding }
    })
}

/// The keys that a head names as those that signed it, without this one.
fn others(head: &SignedHead, key: &VerifyKey) -> Vec<String> {
    head.signed_as().into_iter().filter(|named| *named != key.short()).collect()
}

/// Whether a key has nothing left to say: another signs now, and it has signed which one came after it, or the next has
/// already given way to another. Whoever has it can still sign a change to a key of their own, and whoever trusts it
/// would go on from there.
pub fn is_outlived(key: &[u8; 32], now: &VerifyKey, handed: &[Handover]) -> bool {
    let is_its =
        |change: &Handover| VerifyKey::parse(&change.before).is_some_and(|it| it.key == *key);
    let Some(at) = handed.iter().rposition(is_its) else { return false };
    // A change that was cut off before anything was signed is told again, the second time perhaps without its word.
    let is_signed = handed.get(at).is_some_and(|last| {
        let is_same = |it: &Handover| it.before == last.before && it.key == last.key;
        handed.iter().any(|it| is_same(it) && !it.signature.is_empty())
    });
    now.key != *key && (is_signed || at + 1 < handed.len())
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;
    use crate::kernel::evidence::Hash;
    use crate::kernel::evidence::note::{body, signed};
    use crate::kernel::evidence::tree::TreeHead;

    fn pair(seed: u8) -> (Ed25519KeyPair, VerifyKey) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let key = pair.public_key().as_ref().try_into().unwrap();
        (pair, VerifyKey::new("holdpoint/test", key).unwrap())
    }

    fn handed(from: u8, to: u8, by: u8) -> Handover {
        let (before, key) = (pair(from).1.text(), pair(to).1.text());
        let text = Handover::text("holdpoint/test", &before, &key);
        Handover::new(
            "holdpoint/test",
            (&before, &key),
            Some(pair(by).0.sign(text.as_bytes()).as_ref()),
        )
    }

    #[test]
    fn j13_the_first_key_leads_to_the_one_that_signs_now_and_a_break_is_named() {
        let text = body("holdpoint/test", TreeHead { size: 7, root: Hash::of(&[b"root"]) });
        let note = signed(&text, &pair(3).1, pair(3).0.sign(text.as_bytes()).as_ref());
        let head = SignedHead::parse(&note).unwrap();
        let chain = [handed(1, 2, 1), handed(2, 3, 2)];
        for first in [1, 2, 3] {
            assert_eq!(signer(&head, &pair(first).1, &chain), Ok(pair(3).1), "{first}");
        }
        let stranger = signer(&head, &pair(9).1, &chain).unwrap_err();
        assert!(stranger.what.contains("did not sign it"), "{stranger}");
        // Somebody else's signature is none; nor is one of another log, or of another key.
        let broken = [handed(1, 2, 1), handed(2, 3, 9)];
        let told = signer(&head, &pair(1).1, &broken).unwrap_err();
        assert!(told.what.contains("the chain of keys is broken"), "{told}");
        assert_eq!(broken[1].signature, "");
        // What the key before did not sign at first it may sign later.
        let mended = [handed(1, 2, 1), handed(2, 3, 9), handed(2, 3, 2)];
        assert_eq!(signer(&head, &pair(1).1, &mended), Ok(pair(3).1));
        let mut forged = chain.clone();
        forged[1].key = pair(9).1.text();
        assert!(signer(&head, &pair(1).1, &forged).is_err());
        let moved =
            SignedHead::parse(&note.replace("holdpoint/test\n7", "holdpoint/other\n7")).unwrap();
        assert!(signer(&moved, &pair(1).1, &chain).is_err());
    }

    #[test]
    fn j13_whoever_brings_a_later_key_to_a_file_is_told_which_key_signed_it_and_what_to_do() {
        let text = body("holdpoint/test", TreeHead { size: 7, root: Hash::of(&[b"root"]) });
        let by = |seed: u8, id: u8| {
            let note = signed(&text, &pair(id).1, pair(seed).0.sign(text.as_bytes()).as_ref());
            SignedHead::parse(&note).unwrap()
        };
        let (head, chain) = (by(2, 2), [handed(1, 2, 1)]);
        let told = signer_in_file(&head, &pair(3).1, &chain).unwrap_err().what;
        for key in [pair(2).1, pair(3).1] {
            assert!(told.contains(&format!("`{}`", key.short())), "both ids: {told}");
        }
        assert!(told.contains("older key") && told.contains("fetch the file again"), "{told}");
        assert_eq!(signer_in_file(&head, &pair(1).1, &chain), Ok(pair(2).1));
        // Of a store there is nothing to fetch again; and a signature under the key's own id is no other key's.
        let told = signer(&head, &pair(3).1, &chain).unwrap_err().what;
        assert!(!told.contains("fetch"), "{told}");
        let told = signer_in_file(&by(9, 3), &pair(3).1, &chain).unwrap_err().what;
        assert_eq!(told, format!("`{}` did not sign it", pair(3).1.short()));
        // Where the key's own chain is broken, that is what is wrong.
        let told = signer_in_file(&head, &pair(1).1, &[handed(1, 2, 9)]).unwrap_err().what;
        assert!(told.contains("is broken") && !told.contains("older"), "{told}");
    }

    #[test]
    fn a_key_is_outlived_once_it_has_said_which_comes_after_it_and_signs_no_more() {
        let bytes = |seed| pair(seed).1.key;
        let (signed, unsigned) = ([handed(1, 2, 1)], [handed(1, 2, 9)]);
        assert!(is_outlived(&bytes(1), &pair(2).1, &signed));
        assert!(!is_outlived(&bytes(2), &pair(2).1, &signed), "it signs");
        assert!(!is_outlived(&bytes(3), &pair(2).1, &signed), "it has never signed here");
        assert!(!is_outlived(&bytes(1), &pair(2).1, &unsigned), "its word is as good later");
        let again = [handed(1, 2, 1), handed(1, 2, 9)];
        assert!(is_outlived(&bytes(1), &pair(2).1, &again), "it has said so once");
        let further = [handed(1, 2, 9), handed(2, 3, 2)];
        assert!(is_outlived(&bytes(1), &pair(3).1, &further), "nobody asks for its word any more");
        let back = [handed(1, 2, 1), handed(2, 1, 2)];
        assert!(!is_outlived(&bytes(1), &pair(1).1, &back), "it was taken back");
        assert!(is_outlived(&bytes(2), &pair(1).1, &back));
    }
}
