//! Receipts: what a decision can be proven by, as each door writes it. What is in one is the engine's to say.

use serde_json::{Value, json};
use tonic::Status;

use crate::api::status;
use crate::engine::{Engine, Receipt};
use crate::kernel::evidence::handover::Handover;
use crate::kernel::evidence::receipt::written;
use crate::kernel::{Principal, Refusal};
use crate::wire::v1 as pb;

/// What gRPC asks for.
pub(super) async fn get(
    engine: &Engine,
    request: pb::GetReceiptRequest,
    who: &Principal,
) -> Result<pb::GetReceiptResponse, Status> {
    let pb::GetReceiptRequest { run_id, sequence, leaf_hash } = request;
    if run_id.is_empty() {
        return Err(status::refused(&Refusal::invalid("run_id", "say which run")));
    }
    let receipt = engine.receipt(&run_id, sequence, &leaf_hash, who).await.map_err(status::of)?;
    Ok(pb::GetReceiptResponse { receipt: Some(message(&receipt)) })
}

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
        keys: receipt.keys.iter().map(key_change).collect(),
    }
}

fn key_change(change: &Handover) -> pb::KeyChange {
    let Handover { before, key, signature } = change.clone();
    pb::KeyChange { before, key, signature }
}

/// What is known of it at once, and stays as it is: a response that is fetched again says the same.
pub(super) fn brief(receipt: &Receipt) -> Value {
    json!({
        "run_id": receipt.run.as_str(),
        "sequence": receipt.sequence,
        "leaf": receipt.leaf,
        "leaf_hash": receipt.hash,
    })
}

/// As it is handed out in JSON. What it has no proof of yet is left out, as in a reply.
pub(super) fn json(receipt: &Receipt) -> Value {
    written(json!({
        "run_id": receipt.run.as_str(),
        "sequence": receipt.sequence,
        "leaf": receipt.leaf,
        "leaf_hash": receipt.hash,
        "index": receipt.index,
        "proof": receipt.proof,
        "head": receipt.head,
        "key": receipt.key,
        "keys": receipt.keys,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::RunId;
    use crate::kernel::evidence::Hash;

    #[test]
    fn a_receipt_without_a_proof_has_one_form_at_every_door() {
        let bare = Receipt {
            run: RunId::parse("run_01k9zq3v7m8n4p5r6s7t8v9w0x").unwrap(),
            sequence: 7,
            leaf: "{}".into(),
            hash: Hash::of(&[b"leaf"]),
            index: None,
            proof: Vec::new(),
            head: None,
            key: None,
            keys: Vec::new(),
        };
        assert_eq!(json(&bare), brief(&bare));
        let proven = Receipt { index: Some(0), head: Some("note".into()), ..bare };
        let told = json(&proven);
        assert_eq!((&told["index"], &told["head"]), (&0.into(), &"note".into()));
        assert_eq!(told.get("keys"), None, "the key has never changed: {told}");
    }
}
