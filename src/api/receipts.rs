//! Receipts: what a decision can be proven by, as each door writes it. What is in one is the engine's to say.

use serde_json::{Value, json};

use crate::engine::Receipt;
use crate::wire::v1 as pb;

/// As gRPC has it.
pub(super) fn message(receipt: &Receipt) -> pb::Receipt {
    pb::Receipt {
        run_id: receipt.run.to_string(),
        sequence: receipt.sequence,
        leaf: receipt.leaf.clone(),
        leaf_hash: receipt.hash.to_string(),
        index: receipt.index,
        proof: receipt.proof.iter().map(ToString::to_string).collect(),
        head: receipt.head.clone().unwrap_or_default(),
        key: receipt.key.clone().unwrap_or_default(),
    }
}

/// As it is handed out in JSON.
pub(super) fn json(receipt: &Receipt) -> Value {
    json!({
        "run_id": receipt.run.as_str(),
        "sequence": receipt.sequence,
        "leaf": receipt.leaf,
        "leaf_hash": receipt.hash,
        "index": receipt.index,
        "proof": receipt.proof,
        "head": receipt.head,
        "key": receipt.key,
    })
}
