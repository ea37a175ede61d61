//! Folds: runs as they were folded, kept beside their journals so that a long one is taken up quickly. What a fold is,
//! the kernel says (`kernel::saved`); here it is held to its journal: it names the link of the append that it goes up to
//! (J13), and one that is of another history, or cannot be read, is as if it were not there.

use std::sync::Arc;

use crate::kernel::evidence::Hash;
use crate::kernel::workflow::Workflow;
use crate::kernel::{Recorded, Run, RunId, Version, replay, saved};
use crate::ports::Fault;
use crate::store::codec;
use crate::store::embedded::chunks::{self, Sealed};
use crate::store::embedded::reader;
use crate::store::embedded::view::View;
use crate::store::keys::{self, Packed};

const VERSION_BYTES: usize = 8;
const LINK_BYTES: usize = 32;

/// A run's fold as it is kept, up to the append with that link; none where it would not come back as it is.
pub(super) fn record(run: &Run, link: Hash) -> Option<(Packed, Sealed)> {
    let (packed, text) = (keys::pack(&run.id)?, saved::save(run)?);
    let payload = [&run.version.to_be_bytes()[..], &link.0, text.as_bytes()].concat();
    chunks::check(payload.len()).ok()?;
    let key = keys::fold(&packed);
    let record = codec::seal(&key, &payload);
    Some((packed, Sealed { key, record }))
}

/// The fold that is kept of a run, if it is one of what lies in its journal.
pub(super) fn read(
    view: View<'_>,
    run: &RunId,
    workflow: &Arc<Workflow>,
) -> Result<Option<Run>, Fault> {
    let Some(packed) = keys::pack(run) else { return Ok(None) };
    let key = keys::fold(&packed);
    match reader::record(view, &key) {
        Ok(None) | Err(Fault::Corrupt(_)) => Ok(None),
        Ok(Some(record)) => {
            let parts = codec::unseal(&key, &record).ok().and_then(parts);
            let Some((version, link, text)) = parts else { return Ok(None) };
            // What is wrong with the journal, whoever reads that is told.
            if !matches!(link_after(view, &packed, version), Ok(Some(there)) if there == link) {
                return Ok(None);
            }
            let fold = saved::read(text, workflow);
            Ok(fold.filter(|fold| fold.id == *run && fold.version == version))
        }
        Err(fault) => Err(fault),
    }
}

/// What is wrong with the fold of a run, if anything is: it is held against the journal, which alone counts.
pub(super) fn check(
    view: View<'_>,
    (run, journal): (&RunId, &[Recorded]),
    definition: Option<&str>,
) -> Result<Option<String>, Fault> {
    let workflow = definition.and_then(|json| serde_json::from_str(json).ok()).map(Arc::new);
    let (Some(packed), Some(workflow)) = (keys::pack(run), workflow) else { return Ok(None) };
    let key = keys::fold(&packed);
    match reader::record(view, &key) {
        Ok(None) => return Ok(None),
        Ok(Some(record)) if codec::unseal(&key, &record).ok().and_then(parts).is_some() => {}
        Ok(Some(_)) | Err(Fault::Corrupt(_)) => {
            return Ok(Some(format!("run `{run}`: its saved fold cannot be read; {UNUSED}")));
        }
        Err(fault) => return Err(fault),
    }
    // One of another kernel, or of another history, is not used, and is written over in its time.
    let Some(fold) = read(view, run, &workflow)? else { return Ok(None) };
    let until = journal.iter().take_while(|recorded| recorded.version <= fold.version);
    match replay(run, workflow, until) {
        Ok(folded) if folded == fold => Ok(None),
        Ok(_) | Err(_) => Ok(Some(format!(
            "run `{run}`: its saved fold is not what its journal folds to; {REMEDY}"
        ))),
    }
}

const UNUSED: &str = "it is not used, and the next one takes its place";
const REMEDY: &str =
    "`holdpoint export` and `holdpoint import` into a new directory leave it behind";

fn parts(payload: &[u8]) -> Option<(Version, Hash, &str)> {
    let (version, rest) = payload.split_first_chunk::<VERSION_BYTES>()?;
    let (link, text) = rest.split_at_checked(LINK_BYTES)?;
    Some((Version::from_be_bytes(*version), Hash::read(link)?, std::str::from_utf8(text).ok()?))
}

/// The link of the append that ends at a version; none if there is no such.
fn link_after(view: View<'_>, run: &Packed, version: Version) -> Result<Option<Hash>, Fault> {
    let key = keys::entry(run, version + 1);
    if let Some(record) = reader::record(view, &key)? {
        // The one after it holds on to it.
        return Ok(codec::unseal_chained(&key, &record)?.0);
    }
    let key = keys::head(run);
    let Some(record) = reader::record(view, &key)? else { return Ok(None) };
    let stored = codec::unseal_head(&key, &record)?;
    Ok(stored.link.filter(|_| stored.head.version == version))
}
