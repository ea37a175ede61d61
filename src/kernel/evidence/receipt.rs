//! Receipt: what one decision can be proven by, alone: its leaf, and the way from there to a head that was signed. It
//! proves that this leaf is in the log, and is of the run and version that the leaf names; what was decided there is
//! seen in a bundle of that run.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::kernel::evidence::handover::{self, Handover};
use crate::kernel::evidence::leaf::Leaf;
use crate::kernel::evidence::note::{SignedHead, VerifyKey};
use crate::kernel::evidence::{Finding, Hash, tree};
use crate::kernel::strict;

/// A receipt, as it was handed out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Receipt {
    /// The run that it says it is of; it must be the leaf's.
    #[serde(default, alias = "runId")]
    pub run_id: Option<String>,
    /// The version that it says it is of; it must be the leaf's.
    #[serde(default, deserialize_with = "number")]
    pub sequence: Option<u64>,
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

/// What a receipt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Whether a head holds it; no where none does yet.
    pub is_proven: bool,
    /// Whose signature that head has: the key that was brought, or one that it has led to. None without a key, or a head.
    pub signer: Option<VerifyKey>,
}

/// A receipt as every door writes it: what it has nothing to say of yet is left out, and no member is empty.
pub fn written(mut receipt: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    };
    if let Some(members) = receipt.as_object_mut() {
        members.retain(|_, value| !is_empty(value));
    }
    receipt
}

/// A number, or the text of one: protobuf writes those of 64 bits as texts in JSON, with digits and nothing else.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let value = Option::<Value>::deserialize(from)?;
    let read = |value: Value| match value.as_str() {
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        Some(_) => None,
        None => value.as_u64(),
    };
    let wrong = || D::Error::custom("expected a number that counts");
    value.map(|value| read(value).ok_or_else(wrong)).transpose()
}

impl Receipt {
    /// Reads a file, if it is one. A bundle is none, whatever else it says: its journal would go unread. Nor is what
    /// says one thing twice: another program would read the other.
    pub fn read(text: &str) -> Option<Self> {
        let receipt = strict::read(text.as_bytes()).ok().filter(Value::is_object)?;
        let are_objects = |all: &Vec<Value>| all.iter().all(Value::is_object);
        if !receipt.get("keys").and_then(Value::as_array).is_none_or(are_objects) {
            return None;
        }
        let is_bundle = ["format", "entries", "leaves"].iter().any(|it| receipt.get(it).is_some());
        serde_json::from_value(receipt).ok().filter(|_| !is_bundle)
    }

    /// What its leaf speaks of, in words.
    pub fn place(&self) -> String {
        let place = Leaf::parse(&self.leaf).map(|leaf| leaf.place().to_string());
        place.unwrap_or_else(|| "a leaf".into())
    }

    /// Checks it: whether a head holds it that this key signed, or one that it has led to. Without a key no signature is
    /// looked at.
    pub fn check(&self, key: Option<&VerifyKey>) -> Result<Standing, Finding> {
        let Some(leaf) = Leaf::parse(&self.leaf) else {
            return Err(Finding::new("the leaf", "it is none"));
        };
        let hash = tree::leaf_hash(self.leaf.as_bytes());
        if hash != self.leaf_hash {
            return Err(Finding::new("the leaf", format!("its hash is {hash}")));
        }
        self.check_names(&leaf)?;
        handover::refuse_rubbish(&self.keys)?;
        let head = self.head.as_deref().filter(|head| !head.is_empty()).map(SignedHead::parse);
        let Some(head) = head.transpose().map_err(|what| Finding::new("the signed head", what))?
        else {
            return Ok(Standing { is_proven: false, signer: None });
        };
        let signer = key.map(|key| handover::signer_in_file(&head, key, &self.keys)).transpose()?;
        let led = self.index.and_then(|at| tree::led_to(hash, at, head.head.size, &self.proof));
        if led != Some(head.head.root) {
            return Err(Finding::new("the proof", "it does not lead to the signed head"));
        }
        Ok(Standing { is_proven: true, signer })
    }

    /// What stands around the leaf is bound to nothing but the leaf: it says the same, or nothing.
    fn check_names(&self, leaf: &Leaf) -> Result<(), Finding> {
        let place = leaf.version();
        let is_run = self
            .run_id
            .as_deref()
            .is_none_or(|said| place.is_some_and(|(run, _)| run.as_str() == said));
        let is_version =
            self.sequence.is_none_or(|said| place.is_some_and(|(_, version)| version == said));
        if is_run && is_version {
            return Ok(());
        }
        let what = format!(
            "its `run_id` or its `sequence` is not that of its leaf, which is of {}",
            leaf.place()
        );
        Err(Finding::new("the receipt", what))
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;
    use crate::kernel::RunId;
    use crate::kernel::evidence::chain::GENESIS;
    use crate::kernel::evidence::leaf::Kinds;
    use crate::kernel::evidence::note;
    use crate::kernel::evidence::tree::TreeHead;

    const RUN: &str = "run_01k9zq3v7m8n4p5r6s7t8v9w0x";

    /// A receipt that no head holds yet.
    fn receipt() -> Value {
        let leaf = Leaf::entry(RunId::parse(RUN).unwrap(), 7, Kinds::default(), GENESIS).text();
        let hash = tree::leaf_hash(leaf.as_bytes());
        json!({"run_id": RUN, "sequence": 7, "leaf": leaf, "leaf_hash": hash})
    }

    fn checked(receipt: &Value) -> Option<bool> {
        let standing = Receipt::read(&receipt.to_string())?.check(None).ok()?;
        Some(standing.is_proven)
    }

    #[test]
    fn j13_the_run_and_the_sequence_of_a_receipt_are_those_of_its_leaf() {
        assert_eq!(checked(&receipt()), Some(false), "it is open");
        let mut texts = receipt();
        texts["sequence"] = "7".into();
        assert_eq!(checked(&texts), Some(false), "as protobuf writes it");
        let other = RUN.replace('x', "y");
        for (name, value) in [
            ("run_id", json!(other)),
            ("runId", json!(other)),
            ("sequence", json!(8)),
            ("sequence", json!("8")),
            ("sequence", json!("+7")),
            ("index", json!("+0")),
            ("keys", json!([{"before": "a", "key": "b", "signature": "!"}])),
            ("keys", json!([["a", "b", ""]])),
        ] {
            let mut forged = receipt();
            forged[name] = value.clone();
            assert_eq!(checked(&forged), None, "{name}: {value}");
        }
        // An entry of the store's own log is of no run.
        let leaf = Leaf::Log { index: 3, action: "restored".into(), link: GENESIS }.text();
        let mut odd = receipt();
        odd["leaf_hash"] = json!(tree::leaf_hash(leaf.as_bytes()));
        odd["leaf"] = leaf.into();
        assert_eq!(checked(&odd), None);
    }

    #[test]
    fn j13_a_receipt_that_says_one_thing_twice_is_none() {
        let text = receipt().to_string();
        assert!(Receipt::read(&text).is_some());
        for more in ["\"leaf\": \"forged\",", "\"x\": 1, \"x\": 2,", "\"x\": {\"y\": 1, \"y\": 2},"]
        {
            let twice = text.replacen('{', &format!("{{{more}"), 1);
            assert_eq!(Receipt::read(&twice), None, "{more}");
        }
    }

    #[test]
    fn j13_a_receipt_names_the_key_that_signed_its_head_and_not_the_one_that_led_to_it() {
        let pair = |seed: u8| Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let key = |seed: u8| {
            let key = pair(seed).public_key().as_ref().try_into().unwrap();
            VerifyKey::new("holdpoint/test", key).unwrap()
        };
        let (first, now) = (key(1).text(), key(2).text());
        let said = pair(1).sign(Handover::text("holdpoint/test", &first, &now).as_bytes());
        let change = Handover::new("holdpoint/test", (&first, &now), Some(said.as_ref()));
        let mut proven = receipt();
        let root = tree::leaf_hash(proven["leaf"].as_str().unwrap().as_bytes());
        let body = note::body("holdpoint/test", TreeHead { size: 1, root });
        proven["head"] =
            note::signed(&body, &key(2), pair(2).sign(body.as_bytes()).as_ref()).into();
        proven["index"] = json!(0);
        proven["keys"] = json!([change]);
        let proven = Receipt::read(&proven.to_string()).unwrap();
        for brought in [1, 2] {
            let standing = proven.check(Some(&key(brought))).unwrap();
            assert_eq!(standing, Standing { is_proven: true, signer: Some(key(2)) }, "{brought}");
        }
        assert_eq!(proven.check(None), Ok(Standing { is_proven: true, signer: None }));
        assert!(proven.check(Some(&key(9))).is_err());
    }
}
