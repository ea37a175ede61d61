//! Runs: the chain of each, from its first append to its head, and its leaves; and every definition, hashed
//! anew. That the events fold to the head is looked at by the store's own audit.

use std::collections::{HashMap, HashSet};

use crate::kernel::RunId;
use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::kernel::evidence::walk::{Step, Walk};
use crate::kernel::evidence::{Finding, is_definition, whole_digest};
use crate::ports::{Fault, Head, Journal, RunFilter};
use crate::store::verify::{Glance, Memory, Verified, or_finding};

/// Heads and appends read at a time.
const PAGE: usize = 500;

/// Whole digests of definitions that were looked at, by the digest that runs name; none where they are not
/// what it says.
type Definitions = HashMap<String, Option<String>>;

/// Looks at every run there is.
pub(super) async fn runs(
    journal: &dyn Journal,
    (gone, memory): (&HashSet<RunId>, &dyn Memory),
    verified: &mut Verified,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<(), Fault> {
    let mut definitions = Definitions::new();
    let mut cursor = None;
    loop {
        let page = journal.heads(&RunFilter::default(), cursor.as_deref(), PAGE).await;
        let Some(page) = or_finding(page, "the list of runs", verified)? else { return Ok(()) };
        for head in &page.rows {
            verified.runs += 1;
            if gone.contains(&head.run) {
                let place = format!("run `{}`", head.run);
                verified.found(place, "a tombstone says that it was forgotten, and it is there");
            }
            let place = format!("run `{}`", head.run);
            let seen = is_seen(journal, head, memory).await;
            if let Some(Some(seen)) = or_finding(seen, &place, verified)? {
                verified.skipped += 1;
                verified.events += seen.version;
                verified.unchained += seen.unchained;
                progress(verified.runs);
                continue;
            }
            let looked = run(journal, head, &mut definitions, verified).await;
            match or_finding(looked, &place, verified)? {
                Some(Ok(glance)) => memory.held(&head.run, glance),
                Some(Err(finding)) => verified.add(finding),
                None => {}
            }
            progress(verified.runs);
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

/// What was seen of a run before, if it is as it was then.
async fn is_seen(
    journal: &dyn Journal,
    head: &Head,
    memory: &dyn Memory,
) -> Result<Option<Glance>, Fault> {
    let Some(seen) = memory.known(&head.run).filter(|seen| seen.version == head.version) else {
        return Ok(None);
    };
    let link = journal.evidence().link(&head.run).await?;
    Ok(Some(seen).filter(|seen| link == Some(seen.link)))
}

/// Walks along one run, and says at which place it does not hold.
async fn run(
    journal: &dyn Journal,
    head: &Head,
    definitions: &mut Definitions,
    verified: &mut Verified,
) -> Result<Result<Glance, Finding>, Fault> {
    let evidence = journal.evidence();
    let anchor = evidence.leaf(&Place::Anchor(head.run.clone())).await?.map(|lain| lain.leaf);
    let mut walk = Walk::new(&head.run);
    let mut is_anchored = anchor.is_none();
    loop {
        let entries = evidence.entries(&head.run, walk.version(), PAGE).await?;
        let is_last = entries.len() < PAGE;
        for entry in &entries {
            let step = match walk.take(entry) {
                Ok(step) => step,
                Err(finding) => return Ok(Err(finding)),
            };
            if let Some(digest) = &step.definition {
                let checked = definition(journal, head, digest, definitions).await?;
                if let Err(finding) = checked {
                    return Ok(Err(finding));
                }
            }
            if let Some(Leaf::Anchor { version, link, .. }) = &anchor
                && *version == walk.version()
            {
                is_anchored = *link == step.link;
            }
            if walk.unchained() < step.version
                && let Err(finding) = leaf(journal, &head.run, &step).await?
            {
                return Ok(Err(finding.at_byte(step.byte)));
            }
        }
        if is_last {
            break;
        }
    }
    verified.events += walk.version();
    verified.unchained += walk.unchained();
    let at = |version| format!("run `{}` at version {version}", head.run);
    if walk.unchained() > 0 && anchor.is_none() {
        let what = "it is not chained, and no leaf says that it was taken over";
        return Ok(Err(Finding::new(at(walk.unchained()), what)));
    }
    if let Some(Leaf::Anchor { version, definition: whole, .. }) = &anchor {
        if !is_anchored || *version < walk.unchained() {
            let what = "what lies up to here is not what was taken over";
            return Ok(Err(Finding::new(at(*version), what)));
        }
        let known = definitions.get(&head.definition).cloned().flatten();
        if !whole.is_empty() && known.as_ref() != Some(whole) {
            let place = format!("definition `{}`", head.definition);
            return Ok(Err(Finding::new(
                place,
                format!("run `{}` was taken over with another", head.run),
            )));
        }
    }
    if walk.version() != head.version {
        let what =
            format!("its journal ends here, and its head stands at version {}", head.version);
        return Ok(Err(Finding::new(at(walk.version()), what).at_byte(walk.bytes())));
    }
    if evidence.link(&head.run).await? != Some(walk.link()) {
        let what =
            format!("its head does not hold the link of its last append, which is {}", walk.link());
        return Ok(Err(Finding::new(at(walk.version()), what).at_byte(walk.bytes())));
    }
    let (version, unchained, link) = (walk.version(), walk.unchained(), walk.link());
    Ok(Ok(Glance { version, unchained, link }))
}

/// An append of weight has its leaf, and that says what the append says.
async fn leaf(
    journal: &dyn Journal,
    run: &RunId,
    step: &Step,
) -> Result<Result<(), Finding>, Fault> {
    let place = Place::Entry(run.clone(), step.version);
    let wrong = |what: String| Ok(Err(Finding::new(place.to_string(), what)));
    // Only a bundle may leave out what is secret.
    if step.left_out > 0 {
        return wrong("what stands apart from it is gone".into());
    }
    let lain = journal.evidence().leaf(&place).await?;
    let expected = Leaf::entry(run.clone(), step.version, step.kinds, step.link);
    match lain {
        None if step.kinds.is_nothing() => Ok(Ok(())),
        None => wrong("no leaf says what it says".into()),
        Some(lain) if step.kinds.is_nothing() => {
            wrong(format!("a leaf says more than the event does: {}", lain.leaf.text()))
        }
        Some(lain) if lain.leaf == expected => Ok(Ok(())),
        Some(lain) => {
            let which = lain.index.map_or("its leaf".into(), |index| format!("leaf {index}"));
            wrong(format!("{which} says otherwise: {}", lain.leaf.text()))
        }
    }
}

/// The definition of a run is what its digest says.
async fn definition(
    journal: &dyn Journal,
    head: &Head,
    digest: &str,
    definitions: &mut Definitions,
) -> Result<Result<(), Finding>, Fault> {
    if digest != head.definition {
        let place = format!("run `{}` at version 1", head.run);
        return Ok(Err(Finding::new(place, "its head names another definition")));
    }
    let wrong = |what: &str| Ok(Err(Finding::new(format!("definition `{digest}`"), what)));
    if let Some(known) = definitions.get(digest) {
        return if known.is_some() { Ok(Ok(())) } else { wrong("it is not what its digest says") };
    }
    let json = journal.definition(digest).await?;
    let is_own = json.as_deref().is_some_and(|json| is_definition(digest, json));
    let whole = json.as_deref().filter(|_| is_own).and_then(whole_digest);
    definitions.insert(digest.to_owned(), whole);
    match json {
        None => wrong("it is missing"),
        Some(_) if is_own => Ok(Ok(())),
        Some(_) => wrong("it is not what its digest says"),
    }
}
