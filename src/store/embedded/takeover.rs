//! Takeover: a store that was written without a chain gets one (J13). Every run's head is given the link over
//! its journal as it is, and every journal one leaf that says so; from then on each append holds on to the one
//! before it. The entries themselves stay as they are.
//!
//! It is done before anything else is, in batches of which each is one record of the write-ahead log; should it
//! be cut off, it is found unfinished by the format that the directory still names, and goes on with the runs
//! whose heads have no link.

use std::collections::HashMap;

use crate::failpoint;
use crate::kernel::evidence::leaf::Leaf;
use crate::kernel::evidence::walk::Walk;
use crate::kernel::evidence::{Hash, whole_digest};
use crate::kernel::{RunId, Version};
use crate::ports::Fault;
use crate::store::codec;
use crate::store::embedded::chunks;
use crate::store::embedded::database::Database;
use crate::store::embedded::view::View;
use crate::store::embedded::wal::Wal;
use crate::store::embedded::wal_records::Write;
use crate::store::embedded::{evidence, reader, waiting};
use crate::store::keys;

/// Runs in one batch: some hundred KiB of heads, so that the sync is shared by them.
const RUNS_AT_ONCE: usize = 64;
/// Appends of a run that are held at a time.
const ENTRIES_AT_ONCE: usize = 500;
/// One line in the log for this many runs.
const TOLD_RUNS: u64 = 100_000;

/// Takes over what is there, up to the last run.
pub(super) fn take_over(database: &Database, wal: &mut Wal) -> Result<(), Fault> {
    tracing::info!("the store is of the format before: its journals are chained now");
    let mut pass = Pass::default();
    loop {
        let writes = database.with(|view| pass.next(view))?;
        if !writes.is_empty() {
            failpoint::hit("store.before_takeover");
            wal.append(&writes).map_err(|error| broken(&error))?;
            database.write(writes)?;
            failpoint::hit("store.after_takeover");
        }
        if wal.is_needed() && (wal.is_full() || pass.is_done) {
            let generation = wal.turn(database.bytes()).map_err(|error| broken(&error))?;
            database.rotate()?;
            database.checkpoint(generation)?;
        }
        if pass.is_done {
            tracing::info!(runs = pass.runs, "the store is taken over");
            return Ok(());
        }
    }
}

fn broken(error: &std::io::Error) -> Fault {
    Fault::Permanent(format!("the write-ahead log: {error}"))
}

/// A look through all runs, the oldest first.
#[derive(Debug, Default)]
struct Pass {
    after: Option<Vec<u8>>,
    runs: u64,
    is_done: bool,
    /// Whole digests of definitions, by the digests that runs name.
    definitions: HashMap<String, String>,
}

impl Pass {
    /// The writes of the next batch.
    fn next(&mut self, view: View<'_>) -> Result<Vec<Write>, Fault> {
        let mut writes = Vec::new();
        let mut seen = 0;
        for row in reader::span(view, &[keys::HEAD], self.after.clone()).take(RUNS_AT_ONCE) {
            let (key, place) = row?;
            seen += 1;
            self.after = Some(key.to_vec());
            self.runs += 1;
            if self.runs.is_multiple_of(TOLD_RUNS) {
                tracing::info!(runs = self.runs, "journals are being chained");
            }
            // What is damaged is told by whoever reads it, and stays as it is: nothing is appended to it.
            match self.run(view, &key, &place) {
                Ok(more) => writes.extend(more),
                Err(Fault::Corrupt(what)) => {
                    tracing::error!(what, "a run could not be taken over: it is damaged");
                }
                Err(fault) => return Err(fault),
            }
        }
        self.is_done = seen < RUNS_AT_ONCE;
        Ok(writes)
    }

    /// What must be written to chain one run; nothing if it is.
    fn run(&mut self, view: View<'_>, key: &[u8], place: &[u8]) -> Result<Vec<Write>, Fault> {
        let record = chunks::join(key, place.into(), |chunk| view.get(chunk))?;
        let (linked, payload) = codec::unseal_chained(key, &record)?;
        if linked.is_some() {
            return Ok(Vec::new());
        }
        let head = codec::unseal_head(key, &record)?.head;
        let (version, link) = linked_up(view, &head.run)?;
        if version != head.version {
            let run = &head.run;
            return Err(Fault::Corrupt(format!(
                "run `{run}`: its journal ends at version {version}"
            )));
        }
        let definition = self.whole_digest(view, &head.definition)?;
        let record = codec::seal_chained(key, link, payload);
        let mut writes = chunks::split(key.to_vec(), record, chunks::count(place));
        let anchor = Leaf::Anchor { run: head.run, version, link, definition };
        if let Some(waiting) = waiting::record(&anchor) {
            writes.extend(chunks::split(waiting.key, waiting.record, 0));
        }
        Ok(writes)
    }

    fn whole_digest(&mut self, view: View<'_>, digest: &str) -> Result<String, Fault> {
        if let Some(known) = self.definitions.get(digest) {
            return Ok(known.clone());
        }
        let json = reader::definition(view, digest)?;
        let whole = json.as_deref().and_then(whole_digest).unwrap_or_default();
        self.definitions.insert(digest.to_owned(), whole.clone());
        Ok(whole)
    }
}

/// Where a journal ends, and the link over all of it.
fn linked_up(view: View<'_>, run: &RunId) -> Result<(Version, Hash), Fault> {
    let mut walk = Walk::new(run);
    loop {
        let entries = evidence::entries(view, run, walk.version(), ENTRIES_AT_ONCE)?;
        let is_last = entries.len() < ENTRIES_AT_ONCE;
        for entry in &entries {
            walk.take(entry).map_err(|finding| Fault::Corrupt(finding.to_string()))?;
        }
        if is_last {
            return Ok((walk.version(), walk.link()));
        }
    }
}
