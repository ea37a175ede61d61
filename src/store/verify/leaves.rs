//! Leaves: the log of leaves as one tree, held against the heads that were signed; and every leaf held against
//! what it speaks of.

use std::collections::HashSet;

use crate::kernel::RunId;
use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::kernel::evidence::tree::{Frontier, leaf_hash};
use crate::ports::{Fault, Journal};
use crate::store::audit::count;
use crate::store::verify::{Claim, Verified, counted_leaves, or_finding};

/// Leaves read at a time.
const PAGE: usize = 1_000;
/// Leaves that may wait for a place: more than wait after hours without a writer.
const WAITING_MAX: usize = 1_000_000;

/// Hashes all leaves into one tree and holds it against the heads. Returns the runs that have a tombstone.
pub(super) async fn tree(
    journal: &dyn Journal,
    claims: &[Claim],
    verified: &mut Verified,
) -> Result<HashSet<RunId>, Fault> {
    let evidence = journal.evidence();
    let mut frontier = Frontier::default();
    let mut gone = HashSet::new();
    hold(claims, &frontier, verified);
    loop {
        let from = frontier.size();
        let page = evidence.leaves(from, PAGE).await;
        let Some(page) = or_finding(page, "the log of leaves", verified)? else { break };
        for text in &page {
            if let Some(Leaf::Tombstone { run, .. }) = Leaf::parse(text) {
                gone.insert(run);
            }
            frontier.push(leaf_hash(text.as_bytes()), |_, _, _| {});
            hold(claims, &frontier, verified);
        }
        if page.len() < PAGE {
            break;
        }
    }
    verified.leaves = frontier.size();
    if let Some(edge) = or_finding(evidence.tree().await, "the log of leaves", verified)?
        && edge != frontier.head()
    {
        let (kept, found) = (edge.size, frontier.size());
        let what = format!("its edge says {kept} leaves and another root, and {found} are there");
        verified.found("the log of leaves", what);
    }
    for claim in claims.iter().filter(|claim| claim.head.head.size > frontier.size()) {
        let (signed, found) = (claim.head.head.size, frontier.size());
        let what = format!(
            "it holds {}, and the log has {found}: it was cut off at leaf {found}",
            counted_leaves(signed)
        );
        verified.found(&*claim.what, what);
    }
    let waiting =
        or_finding(evidence.waiting_leaves(WAITING_MAX).await, "the log of leaves", verified)?;
    let waiting = waiting.unwrap_or_default();
    verified.waiting = count(waiting.len());
    gone.extend(waiting.into_iter().filter_map(|leaf| match leaf {
        Leaf::Tombstone { run, .. } => Some(run),
        Leaf::Entry { .. } | Leaf::Anchor { .. } | Leaf::Log { .. } => None,
    }));
    verified.forgotten = count(gone.len());
    Ok(gone)
}

/// A log that is as long as a head says must have its root.
fn hold(claims: &[Claim], frontier: &Frontier, verified: &mut Verified) {
    for claim in claims.iter().filter(|claim| claim.head.head.size == frontier.size()) {
        if claim.head.head.root != frontier.root() {
            let size = frontier.size();
            let what =
                format!("the first {size} leaves have another root than the one that was signed");
            verified.found(&*claim.what, what);
        }
    }
}

/// Every leaf speaks of something that is there, or was forgotten as it should be.
pub(super) async fn behind(
    journal: &dyn Journal,
    gone: &HashSet<RunId>,
    verified: &mut Verified,
) -> Result<(), Fault> {
    let mut index = 0;
    while index < verified.leaves {
        let page = journal.evidence().leaves(index, PAGE).await;
        let Some(page) = or_finding(page, "the log of leaves", verified)? else { break };
        if page.is_empty() {
            break;
        }
        for text in page {
            let what = match Leaf::parse(&text) {
                Some(leaf) => wrong(journal, index, &leaf, gone).await,
                None => Ok(Some("it is no leaf".to_owned())),
            };
            let place = format!("leaf {index}");
            if let Some(Some(what)) = or_finding(what, &place, verified)? {
                verified.found(place, what);
            }
            index += 1;
        }
    }
    Ok(())
}

/// What is wrong with a leaf.
async fn wrong(
    journal: &dyn Journal,
    index: u64,
    leaf: &Leaf,
    gone: &HashSet<RunId>,
) -> Result<Option<String>, Fault> {
    let (evidence, place) = (journal.evidence(), leaf.place());
    let known = evidence.leaf(&place).await?;
    if known.is_none_or(|known| known.index != Some(index)) {
        return Ok(Some(format!("{place}: another leaf stands for it")));
    }
    let (run, version) = match &place {
        // Looked at with the log itself.
        Place::Log(_) => return Ok(None),
        Place::Tombstone(run) => {
            let is_there = evidence.link(run).await?.is_some();
            return Ok(is_there.then(|| format!("{place}: it is there")));
        }
        Place::Anchor(run) => (run, 1),
        Place::Entry(run, version) => (run, *version),
    };
    if gone.contains(run) {
        return Ok(None);
    }
    let found = evidence.entries(run, version - 1, 1).await?;
    let is_there = found.first().is_some_and(|entry| entry.version == version);
    Ok((!is_there).then(|| format!("{place}: the event is gone, and no tombstone says so")))
}
