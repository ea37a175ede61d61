//! Moving: what a store in a directory gives away when it goes elsewhere: its records, run by run and place by place,
//! and which of them were written meanwhile. It sends nothing anywhere, and changes nothing.

use std::collections::BTreeSet;

use tokio::sync::oneshot;

use crate::kernel::Version;
use crate::ports::Fault;
use crate::store::codec;
use crate::store::copies::{EntryCopy, Place, Record, RunCopy};
use crate::store::embedded::EmbeddedJournal;
use crate::store::embedded::committer::Job;
use crate::store::embedded::counts::Counts;
use crate::store::embedded::view::View;
use crate::store::embedded::{chunks, leaves, reader};
use crate::store::keys::{self, Packed, RUN_BYTES};

/// What is read of journals at a time: little enough to hold, and nobody who writes waits for long.
const JOURNAL_BYTES: usize = 4 << 20;
/// Runs that are read at a time, for the same reason; not one by one, since each time stands in line behind everybody
/// who is served.
const RUNS_AT_ONCE: usize = 32;

/// The run that a place belongs to, if it does.
pub(in crate::store) fn run_of(key: &[u8]) -> Option<Packed> {
    match key.first() {
        Some(&(keys::HEAD | keys::QUESTION | keys::ENTRY | keys::PARCEL | keys::HOOK)) => {
            key.get(1..=RUN_BYTES)?.try_into().ok()
        }
        Some(_) | None => None,
    }
}

impl EmbeddedJournal {
    /// Remembers from now on what is written, or no more.
    pub(in crate::store) fn track(&self, is_wanted: bool) {
        self.database.changed.want(is_wanted);
    }

    /// What was written since this was last asked.
    pub(in crate::store) fn changed(&self) -> BTreeSet<Vec<u8>> {
        self.database.changed.take()
    }

    /// Takes no more writes; everything that was acknowledged, or will be, is there when this returns.
    pub(in crate::store) async fn seal(&self) -> Result<(), Fault> {
        self.health.seal(true);
        let closed = || Fault::Retriable("the store is closed".into());
        let (reply, done) = oneshot::channel();
        self.queue.send(Job::Barrier(reply)).await.map_err(|_| closed())?;
        done.await.map_err(|_| closed())?;
        self.health.check_failure()
    }

    /// Takes writes again.
    pub(in crate::store) fn unseal(&self) {
        self.health.seal(false);
    }

    /// From now on the store is elsewhere.
    pub(in crate::store) fn leave(&self, place: &str, token: &str) -> std::io::Result<()> {
        self.database.directory.moved(place, token)
    }

    /// The next runs after that one.
    pub(in crate::store) async fn runs_after(
        &self,
        after: Option<Packed>,
        limit: usize,
    ) -> Result<Vec<Packed>, Fault> {
        self.ask(move |view| {
            let after = after.map(|run| keys::head(&run));
            let rows = reader::span(view, &[keys::HEAD], after).take(limit);
            rows.map(|row| {
                let (key, _) = row?;
                run_of(&key).ok_or_else(|| Fault::Corrupt("a head lies at no run's place".into()))
            })
            .collect()
        })
        .await
    }

    /// Runs, each with its journal after a version; of one that is no more, nothing. They are the first of those that
    /// are asked for, and as many as are read at once.
    pub(in crate::store) async fn copies_of(
        &self,
        runs: &[(Packed, Version)],
    ) -> Result<Vec<(Packed, Option<RunCopy>)>, Fault> {
        let runs: Vec<_> = runs.iter().take(RUNS_AT_ONCE).copied().collect();
        self.ask(move |view| {
            let (mut copies, mut bytes) = (Vec::with_capacity(runs.len()), 0);
            for (run, after) in runs {
                let copy = copy_of(view, run, after)?;
                bytes += copy.as_ref().map_or(0, RunCopy::bytes);
                copies.push((run, copy));
                if bytes > JOURNAL_BYTES {
                    break;
                }
            }
            Ok(copies)
        })
        .await
    }

    /// The records of the next places that begin like this.
    pub(in crate::store) async fn records_after(
        &self,
        prefix: &'static [u8],
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<(Place, Record)>, Fault> {
        self.ask(move |view| {
            let rows = reader::span(view, prefix, after).take(limit);
            rows.map(|row| {
                let (key, place) = row?;
                let record = chunks::join(&key, place, |chunk| view.get(chunk))?;
                Ok((key.to_vec(), record.to_vec()))
            })
            .collect()
        })
        .await
    }

    /// What lies at these places.
    pub(in crate::store) async fn records(
        &self,
        places: Vec<Place>,
    ) -> Result<Vec<(Place, Option<Record>)>, Fault> {
        self.ask(move |view| {
            let found = places.into_iter().map(|key| {
                let record = reader::record(view, &key)?.map(|record| record.to_vec());
                Ok((key, record))
            });
            found.collect()
        })
        .await
    }

    /// Leaves of the log from that one on.
    pub(in crate::store) async fn leaf_texts(
        &self,
        from: u64,
        limit: usize,
    ) -> Result<Vec<String>, Fault> {
        self.ask(move |view| leaves::texts(view, from, limit)).await
    }

    /// Leaves that wait for their places, by what they speak of.
    pub(in crate::store) async fn waiting_texts(&self) -> Result<Vec<(Place, String)>, Fault> {
        self.ask(move |view| {
            let waiting = leaves::waiting(view, usize::MAX)?.into_iter();
            let told = waiting.map(|leaf| {
                let place = keys::leaf_place(keys::PENDING, &leaf.place());
                let place = place.ok_or_else(|| Fault::Corrupt("a leaf is of no run".into()))?;
                Ok((place, leaf.text()))
            });
            told.collect()
        })
        .await
    }

    /// How many runs and events there must be.
    pub(in crate::store) async fn tally(&self) -> Result<(u64, u64), Fault> {
        let counts = self.ask(Counts::read).await?.unwrap_or_default();
        Ok((counts.runs, counts.events))
    }
}

fn copy_of(view: View<'_>, packed: Packed, after: Version) -> Result<Option<RunCopy>, Fault> {
    let head_key = keys::head(&packed);
    let Some(record) = reader::record(view, &head_key)? else { return Ok(None) };
    let stored = reader::whole_head(view, codec::unseal_head(&head_key, &record)?)?;
    let run = &stored.head.run;
    let link = stored.link.ok_or_else(|| Fault::Corrupt(format!("run `{run}` has no chain")))?;
    let mut entries: Vec<EntryCopy> = Vec::new();
    let (mut bytes, mut upper) = (0, stored.head.version);
    for row in reader::span(view, &keys::entries(&packed), Some(keys::entry(&packed, after))) {
        let (key, place) = row?;
        let first = keys::read_entry(&key).map(|(_, first)| first);
        let first = first.ok_or_else(|| Fault::Corrupt(format!("run `{run}`: a place is none")))?;
        if let Some(before) = entries.last_mut() {
            before.last = first - 1;
        }
        if bytes > JOURNAL_BYTES {
            upper = first - 1;
            break;
        }
        let record = chunks::join(&key, place, |chunk| view.get(chunk))?.to_vec();
        bytes += record.len();
        entries.push(EntryCopy { first, last: stored.head.version, record });
    }
    let key = match &stored.key {
        None => None,
        Some(said) => {
            let place = keys::idempotency(&stored.head.owner, said);
            let record = reader::record(view, &place)?.map(|record| record.to_vec());
            record.map(|record| (place, said.clone(), record))
        }
    };
    let mut hooks = Vec::new();
    for row in reader::span(view, &keys::of_run(keys::HOOK, &packed), None) {
        let (key, place) = row?;
        let record = chunks::join(&key, place, |chunk| view.get(chunk))?.to_vec();
        hooks.push((key.get(1 + RUN_BYTES..).unwrap_or_default().to_vec(), record));
    }
    let mut outbox = Vec::new();
    for row in reader::span(view, &keys::of_run(keys::PARCEL, &packed), None) {
        let (key, place) = row?;
        let record = chunks::join(&key, place, |chunk| view.get(chunk))?;
        outbox.push(codec::unseal_json(&key, &record)?);
    }
    Ok(Some(RunCopy { packed, head: stored.head, link, entries, upper, key, hooks, outbox }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::RunId;

    #[test]
    fn whatever_is_a_runs_is_known_by_its_place() {
        let run = keys::pack(&RunId::fresh("01k9zq3v7m8n4p5r6s7t8v9w0x")).expect("an id");
        for place in [
            keys::head(&run),
            keys::entry(&run, 7),
            keys::question(&run, 1),
            keys::hook(&run, "h"),
            keys::outbox_entry(&run, "webhook"),
        ] {
            assert_eq!(run_of(&place), Some(run), "{place:?}");
        }
        assert_eq!(run_of(keys::TREE), None);
    }
}
