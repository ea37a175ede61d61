//! Leaves: the log of leaves as one tree, held against the heads that were signed; and every leaf held against
//! what it speaks of.

use std::collections::{BTreeMap, HashSet};

use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::kernel::evidence::tree::{Frontier, leaf_hash};
use crate::kernel::{RunId, Version};
use crate::ports::log::Lane;
use crate::ports::{Fault, Journal, Note};
use crate::store::audit::count;
use crate::store::verify::{Claim, Verified, counted_leaves, or_finding};

/// Leaves read at a time.
const PAGE: usize = 1_000;
/// Leaves that may wait for a place: more than wait after hours without a writer.
const WAITING_MAX: usize = 1_000_000;

/// Hashes all leaves into one tree and holds it against the heads. Returns the runs that have a tombstone, and the leaves
/// that wait.
pub(super) async fn tree(
    journal: &dyn Journal,
    claims: &[Claim],
    verified: &mut Verified,
) -> Result<(HashSet<RunId>, Vec<Leaf>), Fault> {
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
        // A head has one root, and none for each leaf before its last: where the two parted is not seen in it.
        let what = format!(
            "it holds {}, and the log has {found}, fewer than were signed: it was cut off, or put back and went on otherwise",
            counted_leaves(signed)
        );
        verified.found(&*claim.what, what);
    }
    let waiting =
        or_finding(evidence.waiting_leaves(WAITING_MAX).await, "the log of leaves", verified)?;
    let waiting = waiting.unwrap_or_default();
    verified.waiting = count(waiting.len());
    gone.extend(waiting.iter().filter_map(|leaf| match leaf {
        Leaf::Tombstone { run, .. } => Some(run.clone()),
        Leaf::Entry { .. } | Leaf::Anchor { .. } | Leaf::Log { .. } | Leaf::Refusals { .. } => None,
    }));
    verified.forgotten = count(gone.len());
    Ok((gone, waiting))
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
    (gone, waiting): (&HashSet<RunId>, &[Leaf]),
    verified: &mut Verified,
) -> Result<(), Fault> {
    let mut index = 0;
    let mut unended = Unended::default();
    while index < verified.leaves {
        let page = journal.evidence().leaves(index, PAGE).await;
        let Some(page) = or_finding(page, "the log of leaves", verified)? else { break };
        if page.is_empty() {
            break;
        }
        for text in page {
            let what = match Leaf::parse(&text) {
                Some(leaf) => {
                    unended.take(&leaf, Some(index), gone);
                    wrong(journal, index, &leaf, gone).await
                }
                None => Ok(Some("it is no leaf".to_owned())),
            };
            let place = format!("leaf {index}");
            if let Some(Some(what)) = or_finding(what, &place, verified)? {
                verified.found(place, what);
            }
            index += 1;
        }
    }
    for leaf in waiting {
        unended.take(leaf, None, gone);
        let what = refusals(journal, leaf).await;
        if let Some(Some(what)) = or_finding(what, "a leaf that waits for its place", verified)? {
            verified.found("a leaf that waits for its place", what);
        }
    }
    unended.tell(verified);
    Ok(())
}

/// Runs that were forgotten, and whose leaves do not say that they were over: no other is ever forgotten. One that ended
/// before it was taken over from an earlier build has no such leaf at all.
#[derive(Default)]
struct Unended {
    /// Of each, the last of its leaves that says nothing of an end, by version, and where it lies.
    runs: BTreeMap<RunId, (Version, Option<u64>)>,
    ended: HashSet<RunId>,
}

impl Unended {
    fn take(&mut self, leaf: &Leaf, index: Option<u64>, gone: &HashSet<RunId>) {
        let Leaf::Entry { run, version, .. } = leaf else { return };
        if !gone.contains(run) || self.ended.contains(run) {
            return;
        }
        if leaf.ends() {
            self.runs.remove(run);
            self.ended.insert(run.clone());
        } else {
            let last = self.runs.entry(run.clone()).or_insert((*version, index));
            *last = (*last).max((*version, index));
        }
    }

    fn tell(self, verified: &mut Verified) {
        for (run, (version, index)) in self.runs {
            let last = index.map_or_else(
                || "which waits for its place".to_owned(),
                |index| format!("leaf {index}"),
            );
            let what = format!(
                "its last leaf ({last}) is of version {version} and says no end: only a run that is over is forgotten"
            );
            verified.found(Place::Tombstone(run).to_string(), what);
        }
    }
}

/// What is wrong with a leaf that says how much was refused: its lane has that link at that place, or has forgotten it
/// because it was full, and is not shorter. It may be longer: an earlier build makes no such leaves.
async fn refusals(journal: &dyn Journal, leaf: &Leaf) -> Result<Option<String>, Fault> {
    let Leaf::Refusals { next, link } = leaf else { return Ok(None) };
    let (place, last) = (leaf.place(), next.saturating_sub(1));
    let (found, _) = journal.evidence().log(Lane::Refusals, last, 1).await?;
    Ok(match found.first() {
        None => Some(format!("{place}: the log ends before that")),
        // What was forgotten, and what a later build notes, cannot be hashed.
        Some(entry) if entry.index > last || entry.entry.note == Note::Unknown => None,
        Some(entry) if entry.link(Lane::Refusals) == *link => None,
        Some(_) => Some(format!("{place}: the log says otherwise than {}", leaf.text())),
    })
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
        Place::Refusals(_) => return refusals(journal, leaf).await,
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
