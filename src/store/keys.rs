//! Keys: where each thing lies in the one ordered tree. No I/O, and nothing of any engine.
//!
//! ```text
//! h run                          head                        reversed: runs, newest first
//! u run ordinal                  open question               of a run that has many
//! j run first                    the events of one append
//! w deadline since run           runs with open questions    empty
//! d wake_at run                  due timers                  empty
//! g run                          going: owes something       empty
//! r family run                   forks of a family           empty
//! s session                      session
//! t session 00 run               later runs of a session     empty: the first is in the session
//! k sha256(owner 00 key)[..16]   idempotency key
//! f digest                       definition
//! p run channel                     entry: what a listener is owed
//! q due run channel                 due entries                 empty
//! n run hook                     hook: who wants to be told
//! l lane index                   the store's own log, lane by lane
//! a place                        leaf that has no place in the log yet (J13)
//! a 4 number                     the same of appends that became durable together
//! e index                        leaves of the log from that one on, as many as one place holds
//! i place                        where in the log a leaf lies    the first of its run at its `e`
//! o level index                  hash of a whole subtree of the log, every eighth level
//! x run                          the run as it was folded once
//! c key n                        the n-th chunk of a value too large for one place
//! m name                         the store's own
//! ```
//!
//! Numbers are big-endian, so that bytes sort as numbers do. A run's 26 characters are 18 bytes:
//! they are in most keys, and keys are most of what a waiting run costs.

use sha2::{Digest as _, Sha256};

use crate::kernel::evidence::leaf::Place;
use crate::kernel::{Millis, RunId, SessionId, Version};
use crate::ports::Head;
use crate::ports::log::Lane;
use crate::store::index_entries::{IndexEntries, Waiting};

/// Bytes of a packed run id.
pub const RUN_BYTES: usize = 18;
/// A packed run id.
pub type Packed = [u8; RUN_BYTES];

/// Heads.
pub const HEAD: u8 = b'h';
/// Open questions that lie beside their run's head.
pub const QUESTION: u8 = b'u';
/// Journals.
pub const ENTRY: u8 = b'j';
/// Runs with open questions.
pub const WAITING: u8 = b'w';
/// Due timers.
pub const DUE: u8 = b'd';
/// Runs that owe something.
pub const GOING: u8 = b'g';
/// Forks, by the first run of their family.
pub const FORK: u8 = b'r';
/// Sessions.
pub const SESSION: u8 = b's';
/// Runs of a session, all but the one that it came to be with.
pub const SESSION_RUN: u8 = b't';
/// Idempotency keys.
pub const KEY: u8 = b'k';
/// Definitions.
pub const DEFINITION: u8 = b'f';
/// Entries.
pub const PARCEL: u8 = b'p';
/// Due entries.
pub const PARCEL_DUE: u8 = b'q';
/// Hooks.
pub const HOOK: u8 = b'n';
/// The store's own log.
pub const LOG: u8 = b'l';
/// Leaves that wait for their place in the store-wide log.
pub const PENDING: u8 = b'a';
/// What follows `PENDING` where the leaf of one append waits; see [`leaf_place`] for what else does.
pub const ENTRY_LEAF: u8 = 1;
/// What follows it where those of a whole group do.
pub const GROUP: u8 = 4;
/// Leaves of the store-wide log.
pub const LEAF: u8 = b'e';
/// Where in that log a leaf lies. Of appends, the first of a run among the leaves that lie at one place: those that
/// follow it lie right after it. (An earlier build told the place of each.)
pub const LEAF_INDEX: u8 = b'i';
/// What follows `LEAF_INDEX` where the leaves of several runs begin, each newer than any that has leaves before them.
const NEW_RUNS: u8 = 5;
/// What follows either where a leaf says how much was refused.
pub const REFUSALS_LEAF: u8 = 6;
/// Hashes of whole subtrees of that log.
pub const NODE: u8 = b'o';
/// Folds that are kept beside their journals.
pub const FOLD: u8 = b'x';
/// Chunks of large values.
pub const CHUNK: u8 = b'c';
/// How many times the store was opened.
pub const EPOCH: &[u8] = b"mepoch";
/// The generation of the write-ahead log that the last checkpoint flushed.
pub const CHECKPOINT: &[u8] = b"msettled";
/// How many runs and events the store must hold.
pub const COUNTS: &[u8] = b"mtally";

/// The right edge of the store-wide log of leaves.
pub const TREE: &[u8] = b"mtree";
/// Where the lanes of the log begin and end.
pub const LOG_ENDS: &[u8] = b"mlog";
/// What the things have in common that are kept under names.
pub const KEEPSAKE: &[u8] = b"mown.";

const DIGITS: u128 = 36;
const TAIL: usize = 2;

/// A run's id in 18 bytes that sort as the id does; none if it is not a proper id.
pub fn pack(run: &RunId) -> Option<Packed> {
    let stem = run.stem().as_bytes();
    if stem.len() != 26 {
        return None;
    }
    let (front, tail) = stem.split_at(26 - TAIL);
    // 24 digits of base 36 are 125 bits, the last two are 11.
    let front = number(front)?;
    let tail = u16::try_from(number(tail)?).ok()?;
    let mut packed = [0; RUN_BYTES];
    packed[..16].copy_from_slice(&front.to_be_bytes());
    packed[16..].copy_from_slice(&tail.to_be_bytes());
    Some(packed)
}

/// A run's id back from its bytes; none if they are no packed id.
pub fn unpack(bytes: &[u8]) -> Option<RunId> {
    let (front, tail) = bytes.split_first_chunk::<16>()?;
    let tail: [u8; 2] = tail.try_into().ok()?;
    let mut stem = digits(u128::from_be_bytes(*front), 26 - TAIL)?;
    stem.push_str(&digits(u16::from_be_bytes(tail).into(), TAIL)?);
    Some(RunId::fresh(&stem))
}

fn number(text: &[u8]) -> Option<u128> {
    text.iter().try_fold(0_u128, |sum, &byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'z' => byte - b'a' + 10,
            _ => return None,
        };
        sum.checked_mul(DIGITS)?.checked_add(digit.into())
    })
}

fn digits(mut number: u128, count: usize) -> Option<String> {
    const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut text = vec![b'0'; count];
    for place in text.iter_mut().rev() {
        *place = ALPHABET[usize::try_from(number % DIGITS).ok()?];
        number /= DIGITS;
    }
    if number == 0 { String::from_utf8(text).ok() } else { None }
}

fn key(prefix: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + parts.iter().map(|part| part.len()).sum::<usize>());
    bytes.push(prefix);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Where a run's head lies.
pub fn head(run: &Packed) -> Vec<u8> {
    key(HEAD, &[run])
}

/// Where a run's fold lies, if one is kept.
pub fn fold(run: &Packed) -> Vec<u8> {
    key(FOLD, &[run])
}

/// Where an open question lies, if not in its run's head.
pub fn question(run: &Packed, ordinal: u32) -> Vec<u8> {
    key(QUESTION, &[run, &ordinal.to_be_bytes()])
}

/// The run of such a place.
pub fn read_question(bytes: &[u8]) -> Option<RunId> {
    let (run, ordinal) = bytes.get(1..)?.split_at_checked(RUN_BYTES)?;
    (ordinal.len() == 4).then(|| unpack(run)).flatten()
}

/// Where the events of one append lie, the first of them at `first`.
pub fn entry(run: &Packed, first: Version) -> Vec<u8> {
    key(ENTRY, &[run, &first.to_be_bytes()])
}

/// What the entries of a run have in common.
pub fn entries(run: &Packed) -> Vec<u8> {
    key(ENTRY, &[run])
}

/// The run and the first version of an entry's key.
pub fn read_entry(bytes: &[u8]) -> Option<(RunId, Version)> {
    let (run, first) = bytes.get(1..)?.split_at_checked(RUN_BYTES)?;
    Some((unpack(run)?, Version::from_be_bytes(first.try_into().ok()?)))
}

/// The place of a run in the inbox.
pub(super) fn waiting(place: Waiting, run: &Packed) -> Vec<u8> {
    key(WAITING, &[&place.deadline.0.to_be_bytes(), &place.since.0.to_be_bytes(), run])
}

/// The place and the run of such a key.
pub(super) fn read_waiting(bytes: &[u8]) -> Option<(Waiting, RunId)> {
    let (deadline, rest) = bytes.get(1..)?.split_first_chunk::<8>()?;
    let (since, run) = rest.split_first_chunk::<8>()?;
    let time = |bytes: &[u8; 8]| Millis(u64::from_be_bytes(*bytes));
    Some((Waiting { deadline: time(deadline), since: time(since) }, unpack(run)?))
}

/// The place of a run by the time at which its clock is due.
pub fn due(at: Millis, run: &Packed) -> Vec<u8> {
    key(DUE, &[&at.0.to_be_bytes(), run])
}

/// The time and the run of such a place.
pub fn read_due(bytes: &[u8]) -> Option<(Millis, RunId)> {
    let (at, run) = bytes.get(1..)?.split_first_chunk::<8>()?;
    Some((Millis(u64::from_be_bytes(*at)), unpack(run)?))
}

/// The place of a run that owes something.
pub fn going(run: &Packed) -> Vec<u8> {
    key(GOING, &[run])
}

/// The keys of a run's entries in the indexes (J7).
pub(super) fn index_entries(
    entries: IndexEntries,
    run: &Packed,
) -> impl Iterator<Item = Vec<u8>> + use<> {
    let waits = entries.waiting.map(|place| waiting(place, run));
    let is_due = entries.due.map(|at| due(at, run));
    let goes = entries.going.then(|| going(run));
    [waits, is_due, goes].into_iter().flatten()
}

/// The place of a fork in its family.
pub fn fork(family: &Packed, run: &Packed) -> Vec<u8> {
    key(FORK, &[family, run])
}

/// The place of a run in its family, if it is a fork.
pub(super) fn fork_of(head: &Head, run: &Packed) -> Option<Vec<u8>> {
    head.family.as_ref().and_then(pack).map(|family| fork(&family, run))
}

/// Where a session lies.
pub fn session(session: &SessionId) -> Vec<u8> {
    key(SESSION, &[session.as_str().as_bytes()])
}

/// The place of a run in its session. Session ids are visible ASCII: a zero ends them.
pub fn session_run(session: &SessionId, run: &Packed) -> Vec<u8> {
    key(SESSION_RUN, &[session.as_str().as_bytes(), &[0], run])
}

/// What the runs of a session have in common.
pub fn session_runs(session: &SessionId) -> Vec<u8> {
    key(SESSION_RUN, &[session.as_str().as_bytes(), &[0]])
}

/// Where an idempotency key lies. A digest, because its length is the caller's choice.
pub fn idempotency(owner: &str, text: &str) -> Vec<u8> {
    let mut sum = Sha256::new();
    sum.update(owner.as_bytes());
    sum.update([0]);
    sum.update(text.as_bytes());
    key(KEY, &[&sum.finalize()[..16]])
}

/// Where a definition lies.
pub fn definition(digest: &str) -> Vec<u8> {
    key(DEFINITION, &[digest.as_bytes()])
}

/// Where a entry lies.
pub fn outbox_entry(run: &Packed, channel: &str) -> Vec<u8> {
    key(PARCEL, &[run, channel.as_bytes()])
}

/// The place of a entry by its time.
pub fn outbox_due(due: Millis, run: &Packed, channel: &str) -> Vec<u8> {
    key(PARCEL_DUE, &[&due.0.to_be_bytes(), run, channel.as_bytes()])
}

/// The time of such a place, and where its entry lies.
pub fn read_outbox_due(bytes: &[u8]) -> Option<(Millis, Vec<u8>)> {
    let (due, rest) = bytes.get(1..)?.split_first_chunk::<8>()?;
    if rest.len() <= RUN_BYTES {
        return None;
    }
    Some((Millis(u64::from_be_bytes(*due)), key(PARCEL, &[rest])))
}

/// Where a hook of a run lies.
pub fn hook(run: &Packed, id: &str) -> Vec<u8> {
    key(HOOK, &[run, id.as_bytes()])
}

/// What the questions (`QUESTION`), entries (`PARCEL`), hooks (`HOOK`) or forks (`FORK`) of a run have in common.
pub fn of_run(prefix: u8, run: &Packed) -> Vec<u8> {
    key(prefix, &[run])
}

/// Where the `index`-th entry of a lane of the log lies.
pub fn log(lane: Lane, index: u64) -> Vec<u8> {
    key(LOG, &[&[lane_byte(lane)], &index.to_be_bytes()])
}

/// What the entries of a lane have in common.
pub fn log_lane(lane: Lane) -> Vec<u8> {
    key(LOG, &[&[lane_byte(lane)]])
}

fn lane_byte(lane: Lane) -> u8 {
    match lane {
        Lane::Refusals => 0,
        Lane::Deeds => 1,
    }
}

/// Where something of the store's own is kept under a name.
pub fn keepsake(name: &str) -> Vec<u8> {
    [KEEPSAKE, name.as_bytes()].concat()
}

/// Where the `index`-th chunk of the value at `of` lies.
pub fn chunk(of: &[u8], index: u16) -> Vec<u8> {
    key(CHUNK, &[of, &index.to_be_bytes()])
}

/// The run that a key begins with, if it is a key of one run's.
pub fn run_that_it_begins_with(key: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = key.split_first()?;
    let is_of_a_run = [HEAD, QUESTION, ENTRY, PARCEL, HOOK, FOLD].contains(prefix);
    is_of_a_run.then(|| rest.get(..RUN_BYTES)).flatten()
}

/// Whether what lies there may lie beside the tree. Not what is asked for before the write-ahead log is replayed, nor what
/// is written anew with every group.
pub fn may_lie_beside(key: &[u8]) -> bool {
    let prefixes = [SESSION, KEY, DEFINITION, LOG];
    let is_one_of = |prefix: &u8| prefixes.contains(prefix);
    run_that_it_begins_with(key).is_some()
        || key.first().is_some_and(is_one_of)
        || key.starts_with(KEEPSAKE)
}

/// Whether a chunk of a larger value lies there.
pub fn is_chunk(key: &[u8]) -> bool {
    key.first() == Some(&CHUNK)
}

/// Where a leaf waits, or (`LEAF_INDEX`) where its place is told; none if its run is no proper id. What was
/// taken over comes before what was written since, so that it is first in the log, too.
pub fn leaf_place(prefix: u8, place: &Place) -> Option<Vec<u8>> {
    Some(match place {
        Place::Anchor(run) => key(prefix, &[&[0], &pack(run)?]),
        Place::Entry(run, first) => {
            key(prefix, &[&[ENTRY_LEAF], &pack(run)?, &first.to_be_bytes()])
        }
        Place::Tombstone(run) => key(prefix, &[&[2], &pack(run)?]),
        Place::Log(index) => key(prefix, &[&[3], &index.to_be_bytes()]),
        Place::Refusals(next) => key(prefix, &[&[REFUSALS_LEAF], &next.to_be_bytes()]),
    })
}

/// Where the leaves of a group's appends wait.
pub fn pending_group(number: u64) -> Vec<u8> {
    key(PENDING, &[&[GROUP], &number.to_be_bytes()])
}

/// The number of such a place.
pub fn read_pending_group(bytes: &[u8]) -> Option<u64> {
    let number = bytes.strip_prefix(&[PENDING, GROUP])?;
    Some(u64::from_be_bytes(number.try_into().ok()?))
}

/// Whether leaves of appends wait at such a place, together or one.
pub fn is_pending_entries(bytes: &[u8]) -> bool {
    matches!(bytes, [PENDING, ENTRY_LEAF | GROUP, ..])
}

/// What the places (`LEAF_INDEX`) of the leaves of a run's appends have in common.
pub fn leaf_places(run: &Packed) -> Vec<u8> {
    key(LEAF_INDEX, &[&[ENTRY_LEAF], run])
}

/// Where the place of the leaves of new runs is told, by the first of them.
pub fn new_runs(run: &Packed) -> Vec<u8> {
    key(LEAF_INDEX, &[&[NEW_RUNS], run])
}

/// Where an append's leaf waits, by its packed run.
pub fn pending_entry(run: &Packed, first: Version) -> Vec<u8> {
    key(PENDING, &[&[ENTRY_LEAF], run, &first.to_be_bytes()])
}

/// The place that such a key (`PENDING`, `LEAF_INDEX`) stands for.
pub fn read_leaf_place(bytes: &[u8]) -> Option<Place> {
    let (&tag, rest) = bytes.get(1..)?.split_first()?;
    match tag {
        0 => Some(Place::Anchor(unpack(rest)?)),
        ENTRY_LEAF => {
            let (run, first) = rest.split_at_checked(RUN_BYTES)?;
            Some(Place::Entry(unpack(run)?, Version::from_be_bytes(first.try_into().ok()?)))
        }
        2 => Some(Place::Tombstone(unpack(rest)?)),
        3 => Some(Place::Log(u64::from_be_bytes(rest.try_into().ok()?))),
        REFUSALS_LEAF => Some(Place::Refusals(u64::from_be_bytes(rest.try_into().ok()?))),
        _ => None,
    }
}

/// Where the leaves of the log from the `index`-th on lie.
pub fn leaf(index: u64) -> Vec<u8> {
    key(LEAF, &[&index.to_be_bytes()])
}

/// Which leaf is the first of such a place.
pub fn read_leaf(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(1..)?.try_into().ok()?))
}

/// Where the hash of the `index`-th whole subtree of a level lies.
pub fn node(level: u8, index: u64) -> Vec<u8> {
    key(NODE, &[&[level], &index.to_be_bytes()])
}

/// The run at the end of an index key.
pub fn run_at_end(bytes: &[u8]) -> Option<RunId> {
    unpack(bytes.last_chunk::<RUN_BYTES>()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_runs_sort_as_their_ids_do(a in "[0-9a-z]{26}", b in "[0-9a-z]{26}") {
            let (left, right) = (RunId::fresh(&a), RunId::fresh(&b));
            let (x, y) = (pack(&left).expect("an id"), pack(&right).expect("an id"));
            prop_assert_eq!(x.cmp(&y), left.cmp(&right));
            prop_assert_eq!(unpack(&x), Some(left));
        }
    }

    #[test]
    fn what_is_no_id_has_no_place() {
        for stem in ["", "short", "01K9ZQ3V7M8N4P5R6S7T8V9W0X", "01k9zq3v7m8n4p5r6s7t8v9w0!"] {
            assert_eq!(pack(&RunId::fresh(stem)), None, "{stem}");
        }
        assert_eq!(unpack(&[0xff; RUN_BYTES]), None);
        assert!(pack(&RunId::fresh(&"z".repeat(26))).is_some());
    }
}
