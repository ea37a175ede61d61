//! Prepared: an append, or another change, with everything encoded that can be before the committer sees it.
//! The callers are many and the committer is one: whatever they can do, it need not.

use crate::kernel::evidence::leaf::Kinds;
use crate::kernel::evidence::{Hash, chain};
use crate::kernel::{RunId, Version};
use crate::ports::{
    Append, Fault, Fence, Hold, HookRow, Noting, OutboxEntry, SessionRow, Settlement, Token,
};
use crate::store::audit;
use crate::store::codec::{self, Unlinked};
use crate::store::embedded::chunks::{self, Sealed};
use crate::store::embedded::leaves::Grown;
use crate::store::embedded::overflow_questions::OverflowQuestions;
use crate::store::embedded::repeats::Repeats;
use crate::store::index_entries::IndexEntries;
use crate::store::keys::{self, Packed};
use crate::store::outbox_entries;

/// An append, encoded.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) run: RunId,
    pub(super) packed: Packed,
    pub(super) expected: Version,
    pub(super) version: Version,
    /// By what it is known if it is submitted again (J9).
    pub(super) token: Option<Token>,
    pub(super) fence: Option<Fence>,
    pub(super) hold: Hold,
    /// Where the events lie, and their record but for its link.
    pub(super) entry: (Vec<u8>, Unlinked),
    /// The hash of the events as they are stored (J13).
    pub(super) payload: Hash,
    /// What of it weighs enough for a leaf.
    pub(super) kinds: Kinds,
    /// What that record says again.
    pub(super) entry_repeats: Repeats,
    /// The head's JSON; the committer adds fence and idempotency key to it.
    pub(super) head: Vec<u8>,
    /// What it says again.
    pub(super) head_repeats: Repeats,
    /// The questions that are too many for it.
    pub(super) overflow: OverflowQuestions,
    pub(super) entries: IndexEntries,
    /// The run's place in its session, unless the session comes to be with it.
    pub(super) session_run: Vec<u8>,
    /// A fork's place in its family.
    pub(super) fork: Option<Vec<u8>>,
    pub(super) session: Option<(SessionRow, Sealed)>,
    pub(super) key: Option<(String, Sealed)>,
    /// What listeners are owed for it (J8).
    pub(super) outbox_entries: Vec<OutboxEntry>,
    pub(super) hooks: Vec<Sealed>,
}

impl Prepared {
    /// Encodes an append.
    pub(super) fn new(append: Append) -> Result<Self, Fault> {
        audit::check_append(&append)?;
        let outbox_entries = outbox_entries::of(&append).collect();
        let Append { run, expected, token, fence, hold, at, events, hidden, .. } = append;
        let Append { mut head, session, key, hooks, .. } = append;
        let packed = keys::pack(&run)
            .ok_or_else(|| Fault::Permanent(format!("`{run}` is not the id of a run")))?;
        let entry_key = keys::entry(&packed, expected + 1);
        let record = match &hidden {
            Some(hidden) => Unlinked::hidden(&entry_key, at, hidden)?,
            None => Unlinked::events(&entry_key, at, &events)?,
        };
        chunks::check(record.bytes())?;
        let payload = chain::payload(record.payload());
        let kinds = Kinds::of(events.iter().map(|event| &**event));
        let session = session.map(|row| {
            let key = keys::session(&row.session);
            // Should it be there already, it is not written, and the run gets a place of its own.
            let first = (expected == 0).then_some(&run);
            let record = codec::seal_session(&key, &row, first)?;
            Ok::<_, Fault>((row, Sealed { key, record }))
        });
        let key = key.map(|(text, row)| {
            let key = keys::idempotency(&head.owner, &text);
            let record = codec::seal_json(&key, &row)?;
            Ok::<_, Fault>((text, Sealed { key, record }))
        });
        let hooks = hooks.iter().map(sealed_hook).collect::<Result<_, Fault>>()?;
        let entries = IndexEntries::of(&head);
        let overflow = OverflowQuestions::take(&mut head, &packed, &events)?;
        let json = codec::head_json(&head)?;
        chunks::check(json.len() + key_bytes(key.as_ref()))?;
        Ok(Self {
            entry_repeats: chunks::repeats_of(record.middle().0),
            head_repeats: chunks::repeats_of(codec::head_middle(&json).0),
            packed,
            expected,
            version: head.version,
            token,
            fence,
            hold,
            entry: (entry_key, record),
            payload,
            kinds,
            head: json,
            overflow,
            entries,
            session_run: keys::session_run(&head.session, &packed),
            fork: keys::fork_of(&head, &packed),
            session: session.transpose()?,
            key: key.transpose()?,
            outbox_entries,
            hooks,
            run,
        })
    }

    /// Its weight, for the bound on a group.
    pub(super) fn bytes(&self) -> usize {
        self.entry.1.bytes() + self.head.len() + self.overflow.bytes()
    }
}

/// A hook as it is stored.
pub(super) fn sealed_hook(hook: &HookRow) -> Result<Sealed, Fault> {
    outbox_entries::check_hook(hook)?;
    let packed = keys::pack(&hook.run)
        .ok_or_else(|| Fault::Permanent(format!("`{}` is not the id of a run", hook.run)))?;
    let key = keys::hook(&packed, &hook.hook.id);
    let record = codec::seal_json(&key, hook)?;
    chunks::check(record.len())?;
    Ok(Sealed { key, record })
}

/// What an idempotency key may take in a head: JSON may write each byte as six.
fn key_bytes(key: Option<&Result<(String, Sealed), Fault>>) -> usize {
    match key {
        Some(Ok((text, _))) => text.len() * 6,
        Some(Err(_)) | None => 0,
    }
}

/// A session as it is to be kept, and as its writer knew it.
#[derive(Debug)]
pub(super) struct SessionChange {
    pub(super) knew: Option<SessionRow>,
    pub(super) row: SessionRow,
    pub(super) sealed: Sealed,
}

/// A change to the outbox that comes with no append.
#[derive(Debug)]
pub(super) enum OutboxChange {
    Settle { packed: Packed, channel: String, outcome: Settlement },
    PutHook(Sealed),
    RemoveHook { packed: Packed, id: String },
}

/// A change that is no append: to the outbox, to a session, or to what is the store's own.
#[derive(Debug)]
pub(super) enum Change {
    Outbox(OutboxChange),
    PutDefinition(Sealed),
    PutSession(Box<SessionChange>),
    /// A text that is kept under a name.
    PutText(Sealed),
    /// A run's fold, if the run is still there.
    SaveFold(Packed, Sealed),
    Note(Box<Noting>),
    /// Leaves get their places in the log.
    Sequence(Box<Grown>),
}

impl Change {
    /// Its weight, for the bound on a group; of what is small, nothing.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::PutDefinition(sealed) | Self::SaveFold(_, sealed) => sealed.record.len(),
            Self::PutSession(change) => change.sealed.record.len(),
            Self::Sequence(grown) => grown.bytes(),
            Self::Outbox(_) | Self::PutText(_) | Self::Note(_) => 0,
        }
    }
}
