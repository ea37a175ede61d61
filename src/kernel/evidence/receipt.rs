//! Receipt: what one decision can be proven by, alone: its leaf, and the way from there to a head that was signed. It
//! proves that this leaf is in the log; what the leaf speaks of is seen in a bundle of its run.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::kernel::evidence::handover::{self, Handover};
use crate::kernel::evidence::leaf::Leaf;
use crate::kernel::evidence::note::{SignedHead, VerifyKey};
use crate::kernel::evidence::{Finding, Hash, tree};

/// A receipt, as it was handed out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Receipt {
    /// The leaf, as it is hashed.
    pub leaf: String,
    /// Its hash.
    #[serde(alias = "leafHash")]
    pub leaf_hash: Hash,
    /// Its place in the log; none as long as it has none.
    #[serde(default, deserialize_with = "number")]
    pub index: Option<u64>,
    /// The hashes that lead from it to the head's root.
    #[serde(default)]
    pub proof: Vec<Hash>,
    /// The signed head; none as long as there is none.
    #[serde(default)]
    pub head: Option<String>,
    /// The key that the store says it is signed with. Whoever checks has it from elsewhere.
    #[serde(default)]
    pub key: Option<String>,
    /// The keys that have signed before it, and their word on which came next.
    #[serde(default)]
    pub keys: Vec<Handover>,
}

/// A number, or the text of one: protobuf writes those of 64 bits as texts in JSON.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let value = Option::<Value>::deserialize(from)?;
    let read = |value: Value| match value.as_str() {
        Some(text) => text.parse().ok(),
        None => value.as_u64(),
    };
    let wrong = || D::Error::custom("expected the place of a leaf, as a number");
    value.map(|value| read(value).ok_or_else(wrong)).transpose()
}

impl Receipt {
    /// Reads a file, if it is one. A bundle is none, whatever else it says: its journal would go unread.
    pub fn read(text: &str) -> Option<Self> {
        let receipt: Value = serde_json::from_str(text).ok()?;
        let is_bundle = ["format", "entries", "leaves"].iter().any(|it| receipt.get(it).is_some());
        serde_json::from_value(receipt).ok().filter(|_| !is_bundle)
    }

    /// What its leaf speaks of, in words.
    pub fn place(&self) -> String {
        let place = Leaf::parse(&self.leaf).map(|leaf| leaf.place().to_string());
        place.unwrap_or_else(|| "a leaf".into())
    }

    /// Checks it: whether a head that this key signed holds it; no where none does yet. Without a key no signature is
    /// looked at.
    pub fn check(&self, key: Option<&VerifyKey>) -> Result<bool, Finding> {
        if Leaf::parse(&self.leaf).is_none() {
            return Err(Finding::new("the leaf", "it is none"));
        }
        let hash = tree::leaf_hash(self.leaf.as_bytes());
        if hash != self.leaf_hash {
            return Err(Finding::new("the leaf", format!("its hash is {hash}")));
        }
        let head = self.head.as_deref().filter(|head| !head.is_empty()).map(SignedHead::parse);
        let Some(head) = head.transpose().map_err(|what| Finding::new("the signed head", what))?
        else {
            return Ok(false);
        };
        if let Some(key) = key {
            handover::signer(&head, key, &self.keys)?;
        }
        let led = self.index.and_then(|at| tree::led_to(hash, at, head.head.size, &self.proof));
        if led != Some(head.head.root) {
            return Err(Finding::new("the proof", "it does not lead to the signed head"));
        }
        Ok(true)
    }
}
