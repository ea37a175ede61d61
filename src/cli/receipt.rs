//! `holdpoint receipt`: what a decision can be proven by, as a file that `holdpoint verify` checks. Whether it holds is
//! said there, never here.

use serde_json::{Value, json};
use tonic::metadata::MetadataMap;

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::numbers::sequence;
use crate::kernel::evidence::receipt::written;
use crate::wire::v1::{GetReceiptRequest, Receipt};

/// Under which name a reply has the hash of the leaf.
const HEADER: &str = "x-holdpoint-receipt";
/// Of a hash, as much as tells one from another; the file has all of it.
const HASH_CHARS: usize = 12;

/// Show what a decision can be proven by
///
/// `holdpoint respond` says which run and which sequence; so does `holdpoint audit --json`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint receipt run_01k9zq3v7m8n4p5r6s7t8v9w0x 7 > receipt.json
  holdpoint verify receipt.json --key audit.pub

Until the next signed head holds it, it has no proof yet: `verify` says `open`, and a few seconds later the same
command has it. Where no server works, that is when the command that decided has ended.")]
pub(super) struct Args {
    /// The run in which something was decided
    #[arg(value_name = "RUN")]
    pub run_id: String,
    /// Which of its events has the decision
    #[arg(value_parser = sequence, allow_negative_numbers = true)]
    pub sequence: u64,
    /// The hash of the leaf, for whoever decided in a run that they do not see
    #[arg(long, value_name = "HASH", value_parser = hash)]
    pub leaf: Option<LeafHash>,
}

/// The hash of a leaf, as the reply to a decision names it.
#[derive(Debug, Clone)]
pub(super) struct LeafHash(String);

fn hash(text: &str) -> Result<LeafHash, String> {
    let is_one = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| LeafHash(text.to_owned())).ok_or_else(|| "expected 64 hexadecimal digits".into())
}

/// Shows it.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.look().await?;
    let request = GetReceiptRequest {
        run_id: args.run_id,
        sequence: args.sequence,
        leaf_hash: args.leaf.map(|LeafHash(text)| text).unwrap_or_default(),
    };
    let got = connection.client.get_receipt(request).await;
    connection.close().await;
    let receipt = got?.into_inner().receipt.unwrap_or_default();
    ctx.term.line(&file(&receipt).to_string())?;
    if receipt.head.is_empty() && !ctx.json {
        ctx.term.note("no signed head holds it yet: ask again after the next one");
    }
    Ok(Exit::Done)
}

/// A receipt as it is kept and checked.
fn file(receipt: &Receipt) -> Value {
    let keys = receipt
        .keys
        .iter()
        .map(|one| json!({"before": one.before, "key": one.key, "signature": one.signature}));
    written(json!({
        "run_id": receipt.run_id,
        "sequence": receipt.sequence,
        "leaf": receipt.leaf,
        "leaf_hash": receipt.leaf_hash,
        "index": receipt.index,
        "proof": receipt.proof,
        "head": receipt.head,
        "key": receipt.key,
        "keys": keys.collect::<Vec<_>>(),
    }))
}

/// The hash of the leaf that came with a reply, where something was decided.
pub(super) fn hash_of(reply: &MetadataMap) -> Option<String> {
    reply.get(HEADER)?.to_str().ok().map(str::to_owned)
}

/// Says to whoever has just decided what that can be proven by, and how they have it.
pub(super) fn tell(ctx: &Ctx, run: &str, sequence: u64, hash: &str) {
    if ctx.json {
        let told = json!({"receipt": {"run_id": run, "sequence": sequence, "leaf_hash": hash}});
        ctx.term.note(&told.to_string());
        return;
    }
    let brief: String = hash.chars().take(HASH_CHARS).collect();
    let again = ctx.again();
    let told =
        format!("receipt {brief}…: holdpoint receipt {run} {sequence}{again} > receipt.json");
    ctx.term.note(&ctx.term.paint_error.dim(&told));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::evidence::receipt::Receipt as Read;
    use crate::wire::v1::KeyChange;

    #[test]
    fn what_is_written_is_what_a_check_reads() {
        let change = |name: &str| KeyChange {
            before: format!("{name}+1+a"),
            key: format!("{name}+2+b"),
            signature: "c2ln".into(),
        };
        let receipt = Receipt {
            run_id: "run_1".into(),
            sequence: 7,
            leaf: "{}".into(),
            leaf_hash: "00".repeat(32),
            index: Some(3),
            proof: vec!["11".repeat(32)],
            head: "note".into(),
            key: "holdpoint/1+1+k".into(),
            keys: vec![change("a"), change("b")],
        };
        let read = Read::read(&file(&receipt).to_string()).unwrap();
        assert_eq!((read.index, read.proof.len(), read.keys.len()), (Some(3), 1, 2));
        assert_eq!(read.keys[1].before, "b+1+a");
        let bare = Receipt {
            run_id: "run_1".into(),
            sequence: 7,
            leaf: "{}".into(),
            leaf_hash: "00".repeat(32),
            ..Receipt::default()
        };
        let read = Read::read(&file(&bare).to_string()).unwrap();
        assert_eq!((read.head, read.key, read.index), (None, None, None));
        for name in ["index", "proof", "head", "key", "keys"] {
            assert_eq!(file(&bare).get(name), None, "`{name}` says nothing yet");
        }
    }
}
