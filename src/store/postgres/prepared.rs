//! Prepared: an append with everything encoded that goes into rows. What it goes on from, the link of the append
//! before it, is known later: it is asked for where it is not remembered.

use crate::kernel::evidence::leaf::{Kinds, Leaf};
use crate::kernel::evidence::{Hash, chain};
use crate::kernel::{Millis, RunId, Version};
use crate::ports::{Append, Fault, Fence, Guard, Hold, Token};
use crate::store::audit;
use crate::store::codec::{self, Unlinked};
use crate::store::index_entries::IndexEntries;
use crate::store::keys::{self, Packed};
use crate::store::outbox_entries;
use crate::store::postgres::desk_marks;

/// An append, encoded.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) run: RunId,
    pub(super) packed: Packed,
    pub(super) expected: Version,
    pub(super) version: Version,
    pub(super) token: Option<Token>,
    pub(super) fence: Option<Fence>,
    pub(super) hold: Hold,
    pub(super) guards: Vec<Guard>,
    pub(super) at: Millis,
    /// The record, but for its link. It is copied: the same append may be submitted again.
    at_events: Events,
    payload: Hash,
    kinds: Kinds,
    head: Vec<u8>,
    pub(super) columns: Columns,
    pub(super) session: Option<Vec<u8>>,
    /// Where the idempotency key lies, what it is, and what it stands for.
    pub(super) key: Option<(Vec<u8>, String, Vec<u8>)>,
    pub(super) channels: Vec<String>,
    /// Ids and records.
    pub(super) hooks: Vec<(String, Vec<u8>)>,
}

/// What is needed to make the record again.
#[derive(Debug)]
struct Events {
    key: Vec<u8>,
    hidden: Option<Box<crate::kernel::Hidden>>,
    payload: Vec<u8>,
}

/// What a run is found by.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) session: Vec<u8>,
    pub(super) owner: Vec<u8>,
    pub(super) workflow: Vec<u8>,
    pub(super) status: String,
    pub(super) updated: i64,
    pub(super) wake: Option<i64>,
    pub(super) deadline: Option<i64>,
    pub(super) since: Option<i64>,
    pub(super) family: Option<Vec<u8>>,
    pub(super) desks: Option<Vec<u8>>,
}

impl Columns {
    pub(super) fn of(head: &crate::ports::Head) -> Self {
        let entries = IndexEntries::of(head);
        Self {
            session: head.session.as_str().as_bytes().to_vec(),
            owner: head.owner.as_bytes().to_vec(),
            workflow: head.workflow.as_bytes().to_vec(),
            status: head.status.word().to_owned(),
            updated: time(head.updated_at),
            wake: entries.due.map(time),
            deadline: entries.waiting.map(|place| time(place.deadline)),
            since: entries.waiting.map(|place| time(place.since)),
            family: head.family.as_ref().and_then(keys::pack).map(|family| family.to_vec()),
            desks: desk_marks::of(head),
        }
    }
}

/// A number of ours in a column; what is beyond it is as large as can be.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of ours from a column; the largest stands for whatever was beyond it.
pub(super) fn uint(number: i64) -> u64 {
    if number == i64::MAX { u64::MAX } else { u64::try_from(number).unwrap_or(0) }
}

/// A time in a column.
pub(super) fn time(at: Millis) -> i64 {
    int(at.0)
}

/// A run's id as it is kept.
pub(super) fn packed(run: &RunId) -> Result<Packed, Fault> {
    keys::pack(run).ok_or_else(|| Fault::Permanent(format!("`{run}` is not the id of a run")))
}

/// An append's rows, once it is known what it goes on from.
#[derive(Debug)]
pub(super) struct Linked {
    pub(super) body: Vec<u8>,
    pub(super) head: Vec<u8>,
    pub(super) link: Hash,
    pub(super) leaf: Option<(Vec<u8>, Vec<u8>)>,
}

impl Prepared {
    /// Encodes an append.
    pub(super) fn new(append: Append) -> Result<Self, Fault> {
        audit::check_append(&append)?;
        let Append { run, expected, token, fence, hold, guards, at, events, hidden, .. } = append;
        let Append { head, session, key, channels, hooks, .. } = append;
        let packed = packed(&run)?;
        let entry_key = keys::entry(&packed, expected + 1);
        let payload = match &hidden {
            Some(hidden) => codec::hidden_json(at, hidden)?,
            None => codec::events_json(at, &events)?,
        };
        let kinds = Kinds::of(events.iter().map(|event| &**event));
        let session = session.map(|row| {
            codec::seal_session(&keys::session(&row.session), &row, None).map_err(Fault::from)
        });
        let key = key.map(|(text, row)| {
            let at = keys::idempotency(&head.owner, &text);
            let record = codec::seal_json(&at, &row)?;
            Ok::<_, Fault>((at, text, record))
        });
        let hooks = hooks.iter().map(|hook| {
            outbox_entries::check_hook(hook)?;
            let at = keys::hook(&packed, &hook.hook.id);
            Ok::<_, Fault>((hook.hook.id.clone(), codec::seal_json(&at, hook)?))
        });
        Ok(Self {
            packed,
            expected,
            version: head.version,
            token,
            fence,
            hold,
            guards,
            at,
            payload: chain::payload(&payload),
            at_events: Events { key: entry_key, hidden, payload },
            kinds,
            head: codec::head_json(&head)?,
            columns: Columns::of(&head),
            session: session.transpose()?,
            key: key.transpose()?,
            channels,
            hooks: hooks.collect::<Result<_, _>>()?,
            run,
        })
    }

    /// Its weight, for the bound on a group.
    pub(super) fn bytes(&self) -> usize {
        self.at_events.payload.len() + self.head.len()
    }

    /// The rows, for what it goes on from.
    pub(super) fn linked(&self, prev: Hash) -> Result<Linked, Fault> {
        let Events { key, hidden, payload } = &self.at_events;
        let record = match hidden {
            Some(hidden) => Unlinked::hidden(key, self.at, hidden)?,
            None => Unlinked::new(key, payload),
        };
        let first = self.expected + 1;
        let link = chain::link(prev, &self.run, first, self.payload);
        let head_key = keys::head(&self.packed);
        let head = codec::seal_linked_head(&head_key, link, (0, None, 0), &self.head);
        let leaf = (!self.kinds.is_nothing()).then(|| {
            let leaf = Leaf::entry(self.run.clone(), first, self.kinds, link);
            let place = keys::pending_entry(&self.packed, first);
            let record = codec::seal(&place, leaf.text().as_bytes());
            (place, record)
        });
        Ok(Linked { body: record.linked(prev), head, link, leaf })
    }
}
