//! Copied columns: a store that comes from elsewhere, as columns of the tables that take it in. They are put there by
//! `adopt`.

use crate::ports::Fault;
use crate::store::codec;
use crate::store::copies::{Place, Record, RunCopy};
use crate::store::keys;
use crate::store::postgres::prepared::{Columns, int, time};

/// Of runs.
#[derive(Default)]
pub(super) struct RunColumns {
    pub(super) run: Vec<Vec<u8>>,
    pub(super) version: Vec<i64>,
    pub(super) link: Vec<Vec<u8>>,
    pub(super) session: Vec<Vec<u8>>,
    pub(super) owner: Vec<Vec<u8>>,
    pub(super) workflow: Vec<Vec<u8>>,
    pub(super) status: Vec<String>,
    pub(super) updated: Vec<i64>,
    pub(super) wake: Vec<Option<i64>>,
    pub(super) deadline: Vec<Option<i64>>,
    pub(super) since: Vec<Option<i64>>,
    pub(super) family: Vec<Option<Vec<u8>>>,
    pub(super) desks: Vec<Option<Vec<u8>>>,
    pub(super) head: Vec<Vec<u8>>,
    /// Of journals: run, last, first, record.
    pub(super) entries: (Blobs, Vec<i64>, Vec<i64>, Blobs),
    /// Of idempotency keys: place, run, what was said, record.
    pub(super) keys: (Blobs, Blobs, Blobs, Blobs),
    /// Of listeners: run, id, record.
    pub(super) hooks: (Blobs, Blobs, Blobs),
    pub(super) outbox: Owed,
}

/// What listeners are owed: run, lane, after, tip, due, tries, problem.
pub(super) type Owed = (Blobs, Blobs, Vec<i64>, Vec<i64>, Vec<i64>, Vec<i64>, Blobs);

/// One column of `bytea`.
pub(super) type Blobs = Vec<Vec<u8>>;

impl RunColumns {
    pub(super) fn of(copies: &[RunCopy]) -> Result<Self, Fault> {
        let mut rows = Self::default();
        for copy in copies {
            let run = copy.packed.to_vec();
            let columns = Columns::of(&copy.head);
            let json = codec::head_json(&copy.head)?;
            let head_key = keys::head(&copy.packed);
            rows.head.push(codec::seal_linked_head(&head_key, copy.link, (0, None, 0), &json));
            rows.version.push(int(copy.head.version));
            rows.link.push(copy.link.0.to_vec());
            rows.session.push(columns.session);
            rows.owner.push(columns.owner);
            rows.workflow.push(columns.workflow);
            rows.status.push(columns.status);
            rows.updated.push(columns.updated);
            rows.wake.push(columns.wake);
            rows.deadline.push(columns.deadline);
            rows.since.push(columns.since);
            rows.family.push(columns.family);
            rows.desks.push(columns.desks);
            for entry in &copy.entries {
                rows.entries.0.push(run.clone());
                rows.entries.1.push(int(entry.last));
                rows.entries.2.push(int(entry.first));
                rows.entries.3.push(entry.record.clone());
            }
            if let Some((place, said, record)) = &copy.key {
                rows.keys.0.push(place.clone());
                rows.keys.1.push(run.clone());
                rows.keys.2.push(said.as_bytes().to_vec());
                rows.keys.3.push(record.clone());
            }
            for (id, record) in &copy.hooks {
                rows.hooks.0.push(run.clone());
                rows.hooks.1.push(id.clone());
                rows.hooks.2.push(record.clone());
            }
            for owed in &copy.outbox {
                rows.outbox.0.push(run.clone());
                rows.outbox.1.push(owed.channel.as_bytes().to_vec());
                rows.outbox.2.push(int(owed.after));
                rows.outbox.3.push(int(owed.tip));
                rows.outbox.4.push(time(owed.due));
                rows.outbox.5.push(i64::from(owed.tries));
                rows.outbox.6.push(owed.problem.as_bytes().to_vec());
            }
            rows.run.push(run);
        }
        Ok(rows)
    }
}

/// Of what is no run's.
#[derive(Default)]
pub(super) struct RecordColumns {
    /// Digest, record.
    pub(super) definitions: (Blobs, Blobs),
    /// Session, owner, record.
    pub(super) sessions: (Blobs, Blobs, Blobs),
    pub(super) sessions_gone: Blobs,
    /// Lane, index, record.
    pub(super) log: (Vec<i16>, Vec<i64>, Blobs),
    pub(super) log_gone: (Vec<i16>, Vec<i64>),
    /// Name, record.
    pub(super) kept: (Vec<String>, Blobs),
}

impl RecordColumns {
    pub(super) fn of(records: &[(Place, Option<Record>)]) -> Result<Self, Fault> {
        let mut rows = Self::default();
        for (place, record) in records {
            let Some((&kind, rest)) = place.split_first() else { continue };
            match (kind, record) {
                (keys::DEFINITION, Some(record)) => {
                    rows.definitions.0.push(rest.to_vec());
                    rows.definitions.1.push(record.clone());
                }
                (keys::SESSION, Some(record)) => {
                    let session = codec::unseal_session(place, record)?;
                    rows.sessions.0.push(rest.to_vec());
                    rows.sessions.1.push(session.row.owner.as_bytes().to_vec());
                    // Which of its runs came first is said by an index there.
                    rows.sessions.2.push(codec::seal_session(place, &session.row, None)?);
                }
                (keys::SESSION, None) => rows.sessions_gone.push(rest.to_vec()),
                (keys::LOG, record) => {
                    let read = rest.split_first().and_then(|(lane, index)| {
                        Some((i16::from(*lane), u64::from_be_bytes(index.try_into().ok()?)))
                    });
                    let (lane, index) = read.ok_or_else(|| unplaced("the log"))?;
                    if let Some(record) = record {
                        rows.log.0.push(lane);
                        rows.log.1.push(int(index));
                        rows.log.2.push(record.clone());
                    } else {
                        rows.log_gone.0.push(lane);
                        rows.log_gone.1.push(int(index));
                    }
                }
                (b'm', Some(record)) => {
                    let name = str::from_utf8(place).map_err(|_| unplaced("what it keeps"))?;
                    rows.kept.0.push(name.to_owned());
                    rows.kept.1.push(record.clone());
                }
                (_, _) => {}
            }
        }
        Ok(rows)
    }
}

/// Something that belongs to a part of the store, and lies nowhere in it.
pub(super) fn unplaced(what: &str) -> Fault {
    Fault::Corrupt(format!("something of {what} lies at no place"))
}
