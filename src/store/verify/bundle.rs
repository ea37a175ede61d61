//! Bundle: one run of a store with all that proves it, for whoever has nothing but the public key.

use crate::kernel::RunId;
use crate::kernel::evidence::bundle::{Bundle, Definition, FORMAT, Proven, VERSION};
use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::kernel::evidence::walk::Walk;
use crate::ports::evidence::Lain;
use crate::ports::{Fault, Journal, LastHead};

/// Appends read at a time.
const PAGE: usize = 500;

/// A run with its proofs, as far as there are any yet; none if there is no such run.
pub async fn bundle(journal: &dyn Journal, run: &RunId) -> Result<Option<Bundle>, Fault> {
    let Some(head) = journal.head(run).await? else { return Ok(None) };
    let evidence = journal.evidence();
    let digest = head.definition;
    let json = journal.definition(&digest).await?;
    let json = json.ok_or_else(|| Fault::Corrupt(format!("definition `{digest}` is missing")))?;
    let mut walk = Walk::new(run);
    let (mut entries, mut leaves) = (Vec::new(), Vec::new());
    leaves.extend(evidence.leaf(&Place::Anchor(run.clone())).await?);
    loop {
        let page = evidence.entries(run, walk.version(), PAGE).await?;
        for entry in &page {
            let step = walk.take(entry).map_err(|finding| Fault::Corrupt(finding.to_string()))?;
            if !step.kinds.is_nothing() {
                leaves.extend(evidence.leaf(&Place::Entry(run.clone(), step.version)).await?);
            }
        }
        let is_last = page.len() < PAGE;
        entries.extend(page);
        if is_last {
            break;
        }
    }
    let last = LastHead::of(journal).await?;
    let signed = last.as_ref().and_then(|last| last.head().ok());
    let size = signed.map_or(0, |signed| signed.head.size);
    let mut proven = Vec::with_capacity(leaves.len());
    for Lain { leaf, index } in leaves {
        proven.push(prove(journal, &leaf, index, size).await?);
    }
    let (note, key) = last.map(|last| (last.note, last.key)).unzip();
    Ok(Some(Bundle {
        format: FORMAT.into(),
        version: VERSION,
        run: run.clone(),
        definition: Definition { digest, json },
        entries,
        leaves: proven,
        head: note,
        key,
        keys: LastHead::handed(journal).await?,
    }))
}

/// A leaf with its proof in the log of `size` leaves, where it is in that.
async fn prove(
    journal: &dyn Journal,
    leaf: &Leaf,
    index: Option<u64>,
    size: u64,
) -> Result<Proven, Fault> {
    let proof = match index {
        Some(index) => journal.evidence().inclusion(index, size).await?,
        None => None,
    };
    Ok(Proven { text: leaf.text(), index, proof: proof.unwrap_or_default() })
}
