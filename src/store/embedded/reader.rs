//! Reader: the questions that can be asked of the database. Plain blocking functions; whoever calls
//! them sees to it that no async worker does.

use std::ops::Bound;

use crate::kernel::{Millis, Recorded, RunId, SessionId, Version};
use crate::ports::{
    Fault, Head, HookRow, KeyRow, Logged, OutboxEntry, Page, RunFilter, SessionRow,
};
use crate::store::codec::{self, StoredHead, StoredSession};
use crate::store::embedded::chunks;
use crate::store::embedded::disk;
use crate::store::embedded::tree::{Bytes, Row};
use crate::store::embedded::view::View;
use crate::store::index_entries::{self, IndexEntries, Waiting};
use crate::store::keys::{self, Packed};
use crate::store::log::Ends;
use crate::store::pagination;

/// Everything whose key begins with `prefix`, after the key `after` if one is given.
pub(super) fn span<'a>(
    view: View<'a>,
    prefix: &[u8],
    after: Option<Vec<u8>>,
) -> impl Iterator<Item = Row> + use<'a> {
    let from = after.map_or_else(|| Bound::Included(prefix.to_vec()), Bound::Excluded);
    view.rows((from, end_of(prefix)))
}

/// The same downwards, below the key `before` if one is given.
pub(super) fn span_below<'a>(
    view: View<'a>,
    prefix: &[u8],
    before: Option<Vec<u8>>,
) -> impl Iterator<Item = Row> + use<'a> {
    let to = before.map_or_else(|| end_of(prefix), Bound::Excluded);
    view.rows_back((Bound::Included(prefix.to_vec()), to))
}

fn end_of(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}

/// The whole record at a key.
pub(super) fn record(view: View<'_>, key: &[u8]) -> Result<Option<Bytes>, Fault> {
    match view.get(key)? {
        Some(place) => chunks::join(key, place, |chunk| view.get(chunk)).map(Some),
        None => Ok(None),
    }
}

/// A head with what the store keeps beside it.
pub(super) fn stored_head(view: View<'_>, run: &RunId) -> Result<Option<StoredHead>, Fault> {
    let Some(key) = keys::pack(run).map(|packed| keys::head(&packed)) else { return Ok(None) };
    let read = || match record(view, &key)? {
        Some(record) => whole_head(view, codec::unseal_head(&key, &record)?).map(Some),
        None => Ok(None),
    };
    // A listing reads many: whose it is that rotted must be told.
    match read() {
        Err(Fault::Corrupt(what)) if !what.contains(run.as_str()) => {
            Err(Fault::Corrupt(format!("run `{run}`: {what}")))
        }
        read => read,
    }
}

/// A head with the questions that lie beside it: as many as it says, or something is lost.
pub(super) fn whole_head(view: View<'_>, mut stored: StoredHead) -> Result<StoredHead, Fault> {
    let Some(packed) = keys::pack(&stored.head.run).filter(|_| stored.apart > 0) else {
        return Ok(stored);
    };
    for row in span(view, &keys::of_run(keys::QUESTION, &packed), None) {
        let (key, place) = row?;
        let record = chunks::join(&key, place, |chunk| view.get(chunk))?;
        stored.head.questions.push(codec::unseal_json(&key, &record)?);
    }
    let (run, there, told) = (&stored.head.run, stored.head.questions.len(), stored.apart);
    if there == told {
        return Ok(stored);
    }
    Err(Fault::Corrupt(format!("run `{run}`: {there} open questions of {told} are there")))
}

/// A run's head.
pub(super) fn head(view: View<'_>, run: &RunId) -> Result<Option<Head>, Fault> {
    Ok(stored_head(view, run)?.map(|stored| stored.head))
}

/// Events of a run after `after`, at most `limit`.
pub(super) fn events(
    view: View<'_>,
    run: &RunId,
    after: Version,
    limit: usize,
) -> Result<Vec<Recorded>, Fault> {
    let Some(packed) = keys::pack(run) else { return Ok(Vec::new()) };
    let Some(wanted) = after.checked_add(1) else { return Ok(Vec::new()) };
    let up_to = keys::entry(&packed, wanted);
    // The wanted version may lie within an entry that begins before it.
    let before = (Bound::Included(keys::entries(&packed)), Bound::Included(up_to.clone()));
    let begin = match view.rows_back(before).next() {
        Some(row) => row?.0.to_vec(),
        None => up_to,
    };
    let mut events = Vec::new();
    for row in view.rows((Bound::Included(begin), end_of(&keys::entries(&packed)))) {
        if events.len() >= limit {
            break;
        }
        let (key, place) = row?;
        events.extend(entry(view, &key, place)?.into_iter().filter(|event| event.version > after));
    }
    let is_whole = events.len() < limit;
    events.truncate(limit);
    check_journal(view, run, wanted, &events, is_whole)?;
    Ok(events)
}

/// J5: a journal has no gaps, and ends where its head stands. The other half of what the writer asserts; here
/// it is the disk that speaks, so damage is told, and nothing panics. A head that cannot be read is told by
/// whoever reads it.
fn check_journal(
    view: View<'_>,
    run: &RunId,
    wanted: Version,
    events: &[Recorded],
    is_whole: bool,
) -> Result<(), Fault> {
    let mut expected = wanted;
    for event in events {
        if event.version != expected {
            return Err(Fault::Corrupt(format!(
                "run `{run}`: version {expected} of its journal is missing"
            )));
        }
        expected += 1;
    }
    let Some(packed) = keys::pack(run).filter(|_| is_whole) else { return Ok(()) };
    let key = keys::head(&packed);
    let head = match record(view, &key) {
        Ok(record) => record.and_then(|record| codec::unseal_head(&key, &record).ok()),
        Err(Fault::Corrupt(_)) => None,
        Err(fault) => return Err(fault),
    };
    match head.map(|stored| stored.head.version) {
        Some(version) if version >= expected => Err(Fault::Corrupt(format!(
            "run `{run}`: version {expected} of its journal is missing, its head stands at {version}"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// The events of one entry.
pub(super) fn entry(view: View<'_>, key: &[u8], place: Bytes) -> Result<Vec<Recorded>, Fault> {
    let Some((run, first)) = keys::read_entry(key) else {
        return Err(Fault::Corrupt("an entry lies under a key that is none".into()));
    };
    let record = chunks::join(key, place, |chunk| view.get(chunk))?;
    codec::unseal_events(key, &record, first).map_err(|bad| match Fault::from(bad) {
        Fault::Corrupt(what) => Fault::Corrupt(format!("run `{run}` at version {first}: {what}")),
        fault @ (Fault::Permanent(_) | Fault::Retriable(_) | Fault::Rewound) => fault,
    })
}

/// Heads, newest run first.
pub(super) fn heads(
    view: View<'_>,
    filter: &RunFilter,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<Head>, Fault> {
    let read = |cursor: &str| RunId::parse(cursor).ok().and_then(|run| keys::pack(&run));
    let Some(cursor) = pagination::cursor(cursor, read) else { return Ok(pagination::nothing()) };
    let look = |run: Result<RunId, Fault>| {
        let run = run?;
        let head = head(view, &run)?.filter(|head| index_entries::matches(filter, head));
        Ok((run.to_string(), head))
    };
    if let Some(session) = &filter.session {
        return pagination::page(runs_of(view, session, cursor)?.map(look), limit);
    }
    let rows = span_below(view, &[keys::HEAD], cursor.map(|run| keys::head(&run)));
    pagination::page(rows.map(run_of).map(look), limit)
}

/// The runs of a session, newest first, below the run `before` if one is given.
pub(super) fn runs_of<'a>(
    view: View<'a>,
    session: &SessionId,
    before: Option<Packed>,
) -> Result<impl Iterator<Item = Result<RunId, Fault>> + use<'a>, Fault> {
    let known = stored_session(view, session)?.and_then(|known| keys::pack(&known.first?));
    // It may have been forgotten before the others.
    let mut first = match known.filter(|first| before.is_none_or(|before| *first < before)) {
        Some(first) if view.has(&keys::head(&first))? => keys::unpack(&first),
        Some(_) | None => None,
    };
    let before = before.map(|run| keys::session_run(session, &run));
    let mut later = span_below(view, &keys::session_runs(session), before).map(run_of).peekable();
    Ok(std::iter::from_fn(move || match later.peek() {
        // Whoever brings runs from elsewhere may bring older ones later.
        Some(Ok(run)) if first.as_ref().is_some_and(|first| first > run) => first.take().map(Ok),
        Some(_) => later.next(),
        None => first.take().map(Ok),
    }))
}

/// Whether a run's session came to be with it. A session that cannot be read is told elsewhere.
pub(super) fn is_first(view: View<'_>, head: &Head) -> Result<bool, Fault> {
    match stored_session(view, &head.session) {
        Ok(known) => Ok(known.is_some_and(|known| known.first.as_ref() == Some(&head.run))),
        Err(Fault::Corrupt(_)) => Ok(true),
        Err(fault) => Err(fault),
    }
}

fn stored_session(view: View<'_>, session: &SessionId) -> Result<Option<StoredSession>, Fault> {
    let key = keys::session(session);
    match record(view, &key)? {
        Some(record) => Ok(Some(codec::unseal_session(&key, &record)?)),
        None => Ok(None),
    }
}

/// A session.
pub(super) fn session(view: View<'_>, session: &SessionId) -> Result<Option<SessionRow>, Fault> {
    Ok(stored_session(view, session)?.map(|known| known.row))
}

/// Sessions, by their ids downwards.
pub(super) fn sessions(
    view: View<'_>,
    owner: Option<&str>,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<SessionRow>, Fault> {
    let read = |cursor: &str| SessionId::parse(cursor).ok();
    let Some(cursor) = pagination::cursor(cursor, read) else { return Ok(pagination::nothing()) };
    let below = cursor.map(|session| keys::session(&session));
    let rows = span_below(view, &[keys::SESSION], below).map(|row| {
        let (key, place) = row?;
        let record = chunks::join(&key, place, |chunk| view.get(chunk))?;
        let row = codec::unseal_session(&key, &record)?.row;
        let is_wanted = owner.is_none_or(|owner| row.owner == owner);
        Ok((row.session.to_string(), is_wanted.then_some(row)))
    });
    pagination::page(rows, limit)
}

/// What an idempotency key stands for.
pub(super) fn key(view: View<'_>, owner: &str, text: &str) -> Result<Option<KeyRow>, Fault> {
    let key = keys::idempotency(owner, text);
    match record(view, &key)? {
        Some(record) => Ok(Some(codec::unseal_json(&key, &record)?)),
        None => Ok(None),
    }
}

/// The idempotency key of a run.
pub(super) fn key_of(view: View<'_>, run: &RunId) -> Result<Option<(String, KeyRow)>, Fault> {
    let Some(StoredHead { key: Some(text), head, .. }) = stored_head(view, run)? else {
        return Ok(None);
    };
    Ok(key(view, &head.owner, &text)?.map(|row| (text, row)))
}

/// J7: the inbox.
pub(super) fn waiting(
    view: View<'_>,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<Head>, Fault> {
    let read = |cursor: &str| {
        let (place, run) = Waiting::read_cursor(cursor)?;
        Some(keys::waiting(place, &keys::pack(&run)?))
    };
    let Some(after) = pagination::cursor(cursor, read) else { return Ok(pagination::nothing()) };
    let rows = span(view, &[keys::WAITING], after).map(|row| {
        let (key, _) = row?;
        let (place, run) = keys::read_waiting(&key).ok_or_else(no_run)?;
        // The run may have moved on since the index was read.
        let head = head(view, &run)?.filter(|head| IndexEntries::of(head).waiting == Some(place));
        Ok((place.cursor(&run), head))
    });
    pagination::page(rows, limit)
}

/// J7: runs whose clock is due.
pub(super) fn due(
    view: View<'_>,
    now: Millis,
    limit: usize,
) -> Result<Vec<(Millis, RunId)>, Fault> {
    let mut rows = Vec::new();
    for row in span(view, &[keys::DUE], None).take(limit) {
        let (key, _) = row?;
        let (at, run) = keys::read_due(&key).ok_or_else(no_run)?;
        if at > now {
            break;
        }
        rows.push((at, run));
    }
    Ok(rows)
}

/// J7: runs that owe something.
pub(super) fn running(
    view: View<'_>,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<RunId>, Fault> {
    let read = |cursor: &str| RunId::parse(cursor).ok().and_then(|run| keys::pack(&run));
    let Some(after) = pagination::cursor(cursor, read) else { return Ok(pagination::nothing()) };
    let rows = span(view, &[keys::GOING], after.map(|run| keys::going(&run))).map(|row| {
        let run = run_of(row)?;
        Ok((run.to_string(), Some(run)))
    });
    pagination::page(rows, limit)
}

/// The forks of a family, oldest first.
pub(super) fn forks(view: View<'_>, family: &RunId) -> Result<Vec<RunId>, Fault> {
    let Some(packed) = keys::pack(family) else { return Ok(Vec::new()) };
    span(view, &keys::of_run(keys::FORK, &packed), None).map(run_of).collect()
}

/// A definition.
pub(super) fn definition(view: View<'_>, digest: &str) -> Result<Option<String>, Fault> {
    let not_text = || format!("definition `{digest}` is not text");
    text_at(view, &keys::definition(digest), not_text)
}

/// Entries that are due at `now` or before, the soonest first.
pub(super) fn outbox_entries(
    view: View<'_>,
    now: Millis,
    limit: usize,
) -> Result<Vec<OutboxEntry>, Fault> {
    let mut due = Vec::new();
    for row in span(view, &[keys::PARCEL_DUE], None) {
        if due.len() >= limit {
            break;
        }
        let (place, _) = row?;
        let Some((at, key)) = keys::read_outbox_due(&place) else { return Err(no_run()) };
        if at > now {
            break;
        }
        if let Some(record) = record(view, &key)? {
            due.push(codec::unseal_json(&key, &record)?);
        }
    }
    Ok(due)
}

/// The hooks of a run.
pub(super) fn hooks(view: View<'_>, run: &RunId) -> Result<Vec<HookRow>, Fault> {
    let Some(packed) = keys::pack(run) else { return Ok(Vec::new()) };
    let mut hooks = Vec::new();
    for row in span(view, &keys::of_run(keys::HOOK, &packed), None) {
        let (key, place) = row?;
        let record = chunks::join(&key, place, |chunk| view.get(chunk))?;
        hooks.push(codec::unseal_json(&key, &record)?);
    }
    Ok(hooks)
}

/// A text that is kept under a key.
pub(super) fn text(view: View<'_>, key: &[u8]) -> Result<Option<String>, Fault> {
    text_at(view, key, || "what was kept as a text is none".into())
}

fn text_at(
    view: View<'_>,
    key: &[u8],
    not_text: impl Fn() -> String,
) -> Result<Option<String>, Fault> {
    let Some(record) = record(view, key)? else { return Ok(None) };
    let text = String::from_utf8(codec::unseal(key, &record)?.to_vec());
    text.map(Some).map_err(|_| Fault::Corrupt(not_text()))
}

/// The generation of the write-ahead log that the last checkpoint flushed; 0 if there was none.
pub(super) fn checkpoint(view: View<'_>) -> Result<u64, Fault> {
    let Some(record) = record(view, keys::CHECKPOINT)? else { return Ok(0) };
    Ok(disk::read_note(codec::unseal(keys::CHECKPOINT, &record)?)?.0)
}

/// Where the lanes of the log begin and end.
pub(super) fn log_ends(view: View<'_>) -> Result<Ends, Fault> {
    match record(view, keys::LOG_ENDS)? {
        Some(record) => Ok(codec::unseal_json(keys::LOG_ENDS, &record)?),
        None => Ok(Ends::default()),
    }
}

/// A page of the store's own log.
pub(super) fn notes(
    view: View<'_>,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<Logged>, Fault> {
    log_ends(view)?.page(cursor, limit, |lane, at| {
        let key = keys::log(lane, at);
        let Some(record) = record(view, &key)? else { return Ok(None) };
        Ok(Some(codec::unseal_json(&key, &record)?))
    })
}

/// The run at the end of a row's key.
pub(super) fn run_of(row: Row) -> Result<RunId, Fault> {
    let (key, _) = row?;
    keys::run_at_end(&key).ok_or_else(no_run)
}

pub(super) fn no_run() -> Fault {
    Fault::Corrupt("a key of an index names no run".into())
}
