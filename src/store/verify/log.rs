//! Log: the store's own log, lane by lane: each entry holds on to the one before it, and what was done has its
//! leaf.

use crate::kernel::Millis;
use crate::kernel::evidence::chain;
use crate::kernel::evidence::leaf::Place;
use crate::ports::log::Lane;
use crate::ports::{Fault, Journal, Logged, Note};
use crate::store::verify::{Verified, or_finding};

/// Entries read at a time.
const PAGE: usize = 500;

/// Looks at both lanes.
pub(super) async fn lanes(journal: &dyn Journal, verified: &mut Verified) -> Result<(), Fault> {
    for lane in Lane::ALL {
        let place = format!("the store's own log ({})", lane.word());
        or_finding(walk(journal, lane, verified).await, &place, verified)?;
    }
    Ok(())
}

/// When the store was made from an export, if its own log says so. What is damaged there is found by the walk.
pub(super) async fn imported(journal: &dyn Journal) -> Result<Option<Millis>, Fault> {
    let mut from = 0;
    loop {
        let (entries, _) = match journal.evidence().log(Lane::Deeds, from, PAGE).await {
            Err(Fault::Corrupt(_)) => return Ok(None),
            read => read?,
        };
        let mut notes = entries.iter().map(|one| &one.entry);
        if let Some(found) = notes.find(|entry| matches!(entry.note, Note::Imported { .. })) {
            return Ok(Some(found.first));
        }
        match entries.last() {
            Some(last) if entries.len() == PAGE => from = last.index + 1,
            Some(_) | None => return Ok(None),
        }
    }
}

/// The oldest are forgotten where a lane is full, and not before: whoever takes some away says that they were.
async fn forgotten(
    journal: &dyn Journal,
    lane: Lane,
    first: Option<u64>,
    verified: &mut Verified,
) -> Result<(), Fault> {
    let place = format!("the store's own log ({})", lane.word());
    // Where nothing is kept, whatever has a leaf is missing.
    let Some(first) = first else {
        if lane == Lane::Deeds && journal.evidence().leaf(&Place::Log(0)).await?.is_some() {
            verified.found(place, "its entries are gone, and their leaves are there");
        }
        return Ok(());
    };
    if first == 0 {
        return Ok(());
    }
    let is_full = !journal.evidence().log(lane, first + lane.most() - 1, 1).await?.0.is_empty();
    if !is_full {
        verified.found(place, format!("{first} of its entries are gone, and it is not full"));
    }
    Ok(())
}

/// What is wrong with how often an entry says that it happened, and when last: neither is in its link. What was done is
/// never counted with another deed; of refusals, and of entries that were lost, the count is what they say.
fn miscounted(entry: &Logged, lane: Lane) -> Option<String> {
    let Logged { first, last, count, note, .. } = entry;
    // Nor is it known how a later build counts what it notes.
    if lane == Lane::Refusals || *note == Note::Unknown {
        return None;
    }
    if *count != 1 && *note != Note::Lost {
        return Some(format!("it says that it happened {count} times, and each time is an entry"));
    }
    (last != first)
        .then(|| format!("it says that it happened at {}, and at {}", first.date(), last.date()))
}

async fn walk(journal: &dyn Journal, lane: Lane, verified: &mut Verified) -> Result<(), Fault> {
    let evidence = journal.evidence();
    // The link of the entry before; not known before the oldest that is kept.
    let mut link = None;
    let (mut from, mut is_chained) = (0, false);
    loop {
        let (entries, last) = evidence.log(lane, from, PAGE).await?;
        if from == 0 {
            forgotten(journal, lane, entries.first().map(|one| one.index), verified).await?;
        }
        for one in &entries {
            let place = format!("entry {} of the store's own log ({})", one.index, lane.word());
            match one.prev {
                Some(prev) if link.is_some_and(|link| link != prev) => {
                    verified.found(&*place, "it does not go on from what lies before it");
                }
                Some(_) => is_chained = true,
                None if is_chained => {
                    verified.found(&*place, "it is not chained, and those before it are");
                }
                None => {}
            }
            if let Some(what) = miscounted(&one.entry, lane) {
                verified.found(&*place, what);
            }
            // What a later build notes cannot be hashed by this one.
            let own = (one.entry.note != Note::Unknown).then(|| one.link(lane));
            link = if is_chained { own } else { Some(chain::GENESIS) };
            if lane == Lane::Deeds && is_chained {
                let leaf = evidence.leaf(&Place::Log(one.index)).await?;
                match (leaf, own) {
                    (None, _) => verified.found(&*place, "no leaf says what it says"),
                    (Some(lain), Some(own)) if lain.leaf.link() != own => {
                        verified.found(
                            &*place,
                            format!("its leaf says otherwise: {}", lain.leaf.text()),
                        );
                    }
                    (Some(_), _) => {}
                }
            }
            from = one.index + 1;
        }
        if entries.len() < PAGE {
            if is_chained && link.is_some_and(|link| link != last) {
                let place = format!("the store's own log ({})", lane.word());
                verified.found(place, format!("its end is not entry {}", from.saturating_sub(1)));
            }
            return Ok(());
        }
    }
}
