//! Audit of an embedded store: every byte of it is read once, and every index is held against the heads.

use std::path::PathBuf;

use crate::kernel::{Recorded, RunId};
use crate::ports::log::Lane;
use crate::ports::{Fault, Head, Logged, StoreReport};
use crate::store::audit::{Audit, count};
use crate::store::codec::{self, StoredHead};
use crate::store::embedded::chunks;
use crate::store::embedded::counts::Counts;
use crate::store::embedded::directory::bytes_below;
use crate::store::embedded::view::View;
use crate::store::embedded::{folds, leaves, reader};
use crate::store::index_entries::IndexEntries;
use crate::store::keys;

/// Reads everything, checks everything, and says what it found.
pub(super) fn verify(
    view: View<'_>,
    (dirs, format): (&[PathBuf; 2], u8),
) -> Result<StoreReport, Fault> {
    let mut audit = Audit::new("sled", format);
    let before = Counts::read(view)?;
    runs(view, &mut audit)?;
    // A run that cannot be read is told by name and not counted, and a store that is written to
    // meanwhile has no one count to be held against.
    if audit.report.damage.is_empty() && before == Counts::read(view)? {
        counts(before.unwrap_or_default(), &mut audit);
    }
    orphans(view, &mut audit)?;
    questions(view, &mut audit)?;
    indexes(view, &mut audit)?;
    sessions(view, &mut audit)?;
    outbox_entries(view, &mut audit)?;
    orphaned_folds(view, &mut audit)?;
    log(view, &mut audit)?;
    if !leaves::is_known(view)? {
        audit.damage("other leaves wait for their places than are known to".into());
    }
    if let Ok(blobs) = bytes_below(&dirs[0].join("blobs"))
        && blobs > 0
    {
        audit.damage(format!("`blobs/` holds {blobs} bytes; it must stay empty"));
    }
    audit.report.bytes = dirs.iter().map(|dir| bytes_below(dir).unwrap_or_default()).sum();
    Ok(audit.finish())
}

/// As many runs and events are there as were written and not pruned.
fn counts(told: Counts, audit: &mut Audit) {
    let found = Counts { runs: audit.report.runs, events: audit.report.events };
    if found != told {
        audit.damage(format!(
            "the store must hold {} runs with {} events and holds {} with {}: what was written is lost",
            told.runs, told.events, found.runs, found.events
        ));
    }
}

/// Every head, with its journal folded anew.
fn runs(view: View<'_>, audit: &mut Audit) -> Result<(), Fault> {
    for row in reader::span(view, &[keys::HEAD], None) {
        let run = match reader::run_of(row) {
            Ok(run) => run,
            Err(what) => {
                audit.damage(what.to_string());
                continue;
            }
        };
        let stored = match reader::stored_head(view, &run) {
            Ok(Some(stored)) => stored,
            Ok(None) => continue, // pruned meanwhile
            Err(what) => {
                audit.damage(format!("the head of run `{run}`: {what}"));
                continue;
            }
        };
        let journal = match journal(view, &stored.head) {
            Ok(journal) => journal,
            Err(what) => {
                audit.damage(what.to_string());
                continue;
            }
        };
        let definition = reader::definition(view, &stored.head.definition);
        let definition = definition.unwrap_or_else(|what| {
            audit.damage(what.to_string());
            None
        });
        audit.run(&stored.head, &journal, definition.as_deref());
        if let Some(what) = folds::check(view, (&run, &journal), definition.as_deref())? {
            audit.damage(what);
        }
        index_entries(view, &run, &stored, audit)?;
    }
    Ok(())
}

/// A journal up to its head: a run that lives may grow while it is read.
fn journal(view: View<'_>, head: &Head) -> Result<Vec<Recorded>, Fault> {
    let length = usize::try_from(head.version).unwrap_or(usize::MAX);
    reader::events(view, &head.run, 0, length)
}

/// Every index in which a run must be found has it.
fn index_entries(
    view: View<'_>,
    run: &RunId,
    stored: &StoredHead,
    audit: &mut Audit,
) -> Result<(), Fault> {
    let Some(packed) = keys::pack(run) else { return Ok(()) };
    let head = &stored.head;
    let is_first = reader::is_first(view, head)?;
    let mut expected = vec![keys::session(&head.session)];
    expected.extend((!is_first).then(|| keys::session_run(&head.session, &packed)));
    expected.extend(keys::index_entries(IndexEntries::of(head), &packed));
    expected.extend(keys::fork_of(head, &packed));
    expected.extend(stored.key.as_ref().map(|key| keys::idempotency(&head.owner, key)));
    for key in expected {
        let is_there = view.has(&key)?;
        if !is_there && reader::stored_head(view, run)?.as_ref() == Some(stored) {
            audit.damage(format!("run `{run}`: missing from index `{}`", char::from(key[0])));
        }
    }
    Ok(())
}

/// Every entry belongs to a run, and every chunk to a value.
fn orphans(view: View<'_>, audit: &mut Audit) -> Result<(), Fault> {
    let mut last = None;
    for row in reader::span(view, &[keys::ENTRY], None) {
        let (key, place) = row?;
        let Some((run, first)) = keys::read_entry(&key) else {
            audit.damage("an entry lies under a key that is none".into());
            continue;
        };
        if last.as_ref() != Some(&run) && reader::stored_head(view, &run).is_ok_and(|h| h.is_none())
        {
            audit.damage(format!("run `{run}`: an entry at version {first} but no head"));
        }
        if let Err(what) = reader::entry(view, &key, place) {
            audit.damage(what.to_string());
        }
        last = Some(run);
    }
    for row in reader::span(view, &[keys::CHUNK], None) {
        let (key, _) = row?;
        let of = key.get(1..key.len().saturating_sub(2)).unwrap_or_default();
        let place = view.get(of)?;
        if place.is_none_or(|place| chunks::count(&place) == 0) {
            audit.damage("a piece of a value that is not there".into());
        }
    }
    Ok(())
}

/// Every question that lies beside a head is one of its run's.
fn questions(view: View<'_>, audit: &mut Audit) -> Result<(), Fault> {
    let mut last = None;
    for row in reader::span(view, &[keys::QUESTION], None) {
        let (key, _) = row?;
        let run = keys::read_question(&key);
        if last == Some(run.clone()) {
            continue;
        }
        // Of a head that counts other ones, the head is told already.
        let stored = run.as_ref().map(|run| reader::stored_head(view, run));
        let belongs = match stored {
            Some(Ok(Some(stored))) => stored.apart > 0,
            Some(Err(_)) => true,
            Some(Ok(None)) | None => false,
        };
        if !belongs && view.has(&key)? {
            audit.damage("an open question lies beside a head that has none there".into());
        }
        last = Some(run);
    }
    Ok(())
}

/// No index names a run that does not belong there.
fn indexes(view: View<'_>, audit: &mut Audit) -> Result<(), Fault> {
    for prefix in [keys::WAITING, keys::DUE, keys::GOING, keys::FORK, keys::SESSION_RUN] {
        for row in reader::span(view, &[prefix], None) {
            let (key, _) = row?;
            let Some(run) = keys::run_at_end(&key) else {
                audit.damage(format!("index `{}` names no run", char::from(prefix)));
                continue;
            };
            let Ok(stored) = reader::stored_head(view, &run) else { continue };
            let belongs = stored.is_some_and(|stored| belongs(&key, &stored.head));
            let is_there = view.has(&key)?;
            if !belongs && is_there {
                let index = char::from(prefix);
                audit.damage(format!("run `{run}`: does not belong in index `{index}`"));
            }
        }
    }
    Ok(())
}

fn belongs(key: &[u8], head: &Head) -> bool {
    let Some(packed) = keys::pack(&head.run) else { return false };
    let in_session = keys::session_run(&head.session, &packed);
    let in_family = keys::fork_of(head, &packed);
    let others = in_family.into_iter().chain([in_session]);
    keys::index_entries(IndexEntries::of(head), &packed).chain(others).any(|own| own == key)
}

/// Every due place has its entry.
fn outbox_entries(view: View<'_>, audit: &mut Audit) -> Result<(), Fault> {
    for row in reader::span(view, &[keys::PARCEL_DUE], None) {
        let (place, _) = row?;
        let outbox_entry = keys::read_outbox_due(&place).map(|(_, key)| view.has(&key));
        let is_there = outbox_entry.transpose()?.unwrap_or(false);
        if !is_there && view.has(&place)? {
            audit.damage("a due entry of the outbox is not there".into());
        }
    }
    Ok(())
}

/// Every fold belongs to a run; whether it is that run's, was asked with it.
fn orphaned_folds(view: View<'_>, audit: &mut Audit) -> Result<(), Fault> {
    for row in reader::span(view, &[keys::FOLD], None) {
        let (key, _) = row?;
        let run = keys::run_at_end(&key);
        let stored = run.as_ref().map(|run| reader::stored_head(view, run));
        if matches!(stored, None | Some(Ok(None))) && view.has(&key)? {
            audit.damage("a saved fold is of a run that is not there".into());
        }
    }
    Ok(())
}

/// As many entries of the log are there as its ends say, and each can be read.
fn log(view: View<'_>, audit: &mut Audit) -> Result<(), Fault> {
    let before = reader::log_ends(view)?;
    let mut missing = 0;
    for lane in Lane::ALL {
        let end = before.of(lane);
        let mut found = 0;
        for row in reader::span(view, &keys::log_lane(lane), None) {
            let (key, _) = row?;
            let Some(record) = reader::record(view, &key)? else { continue };
            if let Err(what) = codec::unseal_json::<Logged>(&key, &record) {
                audit.damage(format!("an entry of the store's own log: {what}"));
            }
            found += 1;
        }
        missing += (end.next - end.first).abs_diff(found);
    }
    // A log that is written to meanwhile has no one length.
    if missing > 0 && before == reader::log_ends(view)? {
        audit.damage(format!("{missing} entries of the store's own log are missing, or too many"));
    }
    Ok(())
}

/// Every session, key, definition, entry and hook checks out.
fn sessions(view: View<'_>, audit: &mut Audit) -> Result<(), Fault> {
    for prefix in [keys::SESSION, keys::KEY, keys::DEFINITION, keys::PARCEL, keys::HOOK] {
        for row in reader::span(view, &[prefix], None) {
            let (key, _) = row?;
            let Some(record) = reader::record(view, &key)? else { continue };
            let outcome = match prefix {
                keys::SESSION => codec::unseal_session(&key, &record).map(|_| ()),
                _ => codec::unseal(&key, &record).map(|_| ()),
            };
            if let Err(what) = outcome {
                audit.damage(format!("under `{}`: {what}", char::from(prefix)));
            }
            audit.report.sessions += count(usize::from(prefix == keys::SESSION));
        }
    }
    Ok(())
}
