//! Codec: records ↔ bytes. The stored form, pinned by golden files; it knows no store.
//!
//! ```text
//! record   =  1 │ crc32c u32 LE of key‖payload │ payload (JSON)
//! chained  =  2 │ crc32c u32 LE of key‖key id‖payload‖link │ key id u8 │ link [u8; 32] │ payload (JSON)
//! apart    =  3 │ as chained, of │ length u32 LE │ payload (JSON) of that length │ what stands apart (JSON)
//! ```
//!
//! What belongs to a run's journal is chained (J13): an entry's link is that of the entry before it, a head's is
//! that of the last. The key id names the key that the payload is sealed with; 0, the only one there is, none.
//! A saved fold would be a chained record, too, under a key of its own, with the link of the entry that it
//! stands after.
//!
//! The key is part of the checksum: a record that turns up under another key does not check out
//! either (J6). And what a key says its record does not say again: every byte of a waiting run is
//! there a million times. A new format gets a new number and a reader beside the old one.

use std::borrow::Borrow;

use serde::{Deserialize, Deserializer, Serialize};

use crate::kernel::evidence::Hash;
use crate::kernel::{Apart, Event, Hidden, Millis, Recorded, RunId, Version, veil};
use crate::ports::{Fault, Head, SessionRow};
use crate::store::keys;

/// The format of what is not chained.
pub const FORMAT: u8 = 1;
/// The format of what is.
pub const CHAINED: u8 = 2;
/// The format of what is, and has something that stands apart from what is hashed.
pub const APART: u8 = 3;
const HEADER_BYTES: usize = 5;
/// Before the payload of what is chained.
const CHAINED_BYTES: usize = HEADER_BYTES + 1 + 32;
/// The payload lies open.
const NO_KEY: u8 = 0;
/// How a head's payload begins.
const HEAD_OPENS: &[u8] = br#"{"head":{"#;

/// Why bytes are not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// Another format than ours.
    #[error(
        "a record has format {found}, this program reads {FORMAT}, {CHAINED} and {APART}; \
         `export` with the program that wrote it, then `import` here"
    )]
    UnknownFormat {
        /// The format byte.
        found: u8,
    },
    /// The checksum does not fit.
    #[error("a record's checksum does not fit its bytes")]
    Checksum,
    /// The checksum fits, but the payload is none of ours.
    #[error("a record cannot be read: {0}")]
    Payload(String),
}

impl From<BadRecord> for Fault {
    fn from(bad: BadRecord) -> Self {
        match bad {
            BadRecord::UnknownFormat { .. } => Self::Permanent(bad.to_string()),
            BadRecord::Checksum | BadRecord::Payload(_) => Self::Corrupt(bad.to_string()),
        }
    }
}

/// The events of one append, as they are stored: one record.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry<Events> {
    at: Millis,
    events: Events,
    /// The hashes of what stands apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<Hash>,
}

/// A head, with what only the store needs to know of a run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StoredHead {
    /// The head.
    pub head: Head,
    /// The highest fence that wrote (J4); 0 if none did.
    #[serde(default)]
    pub fence: u64,
    /// The idempotency key that the run was started with; it goes when the run goes.
    #[serde(default)]
    pub key: Option<String>,
    /// How many open questions lie beside it, each in a place of its own; then it holds none.
    #[serde(default)]
    pub apart: usize,
    /// The link of the last entry; none where an earlier build wrote it.
    #[serde(skip)]
    pub link: Option<Hash>,
}

/// A session, with what only the store needs to know of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StoredSession {
    /// The session.
    #[serde(flatten)]
    pub row: SessionRow,
    /// The run that it came to be with: its place in the session is here, and in no index.
    #[serde(default, deserialize_with = "run_of_stem")]
    pub first: Option<RunId>,
}

fn run_of_stem<'de, D: Deserializer<'de>>(from: D) -> Result<Option<RunId>, D::Error> {
    let run = format!("run_{}", String::deserialize(from)?);
    RunId::parse(&run).map(Some).map_err(serde::de::Error::custom)
}

/// Puts format and checksum before a payload.
pub fn seal(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(HEADER_BYTES + payload.len());
    record.push(FORMAT);
    record.extend_from_slice(&checksum(key, payload).to_le_bytes());
    record.extend_from_slice(payload);
    record
}

/// The payload of a record, if it checks out (J6).
pub fn unseal<'a>(key: &[u8], record: &'a [u8]) -> Result<&'a [u8], BadRecord> {
    let Some((&[format, a, b, c, d], payload)) = record.split_first_chunk::<HEADER_BYTES>() else {
        return Err(BadRecord::Checksum);
    };
    if format != FORMAT {
        return Err(BadRecord::UnknownFormat { found: format });
    }
    if checksum(key, payload) != u32::from_le_bytes([a, b, c, d]) {
        return Err(BadRecord::Checksum);
    }
    Ok(payload)
}

/// Puts format, checksum and link before a payload.
pub fn seal_chained(key: &[u8], link: Hash, payload: &[u8]) -> Vec<u8> {
    Unlinked::new(key, payload).linked(link)
}

/// The payload of a record of either format, if it checks out, and its link if it has one.
pub fn unseal_chained<'a>(
    key: &[u8],
    record: &'a [u8],
) -> Result<(Option<Hash>, &'a [u8]), BadRecord> {
    unseal_apart(key, record).map(|(link, payload, _)| (link, payload))
}

/// A link if there is one, a payload, and what stands apart from that.
pub type Unsealed<'a> = (Option<Hash>, &'a [u8], Vec<Apart>);

/// The same, with what stands apart from it.
pub fn unseal_apart<'a>(key: &[u8], record: &'a [u8]) -> Result<Unsealed<'a>, BadRecord> {
    let format = match record.first() {
        Some(&format) if [CHAINED, APART].contains(&format) => format,
        Some(_) | None => return unseal(key, record).map(|payload| (None, payload, Vec::new())),
    };
    let Some((header, body)) = record.split_first_chunk::<CHAINED_BYTES>() else {
        return Err(BadRecord::Checksum);
    };
    let link = Hash::read(&header[HEADER_BYTES + 1..]).unwrap_or_default();
    let key_id = header[HEADER_BYTES];
    let check = crc32c::crc32c_append(unlinked_checksum(key, key_id, body), &link.0);
    if header[1..HEADER_BYTES] != check.to_le_bytes() {
        return Err(BadRecord::Checksum);
    }
    if key_id != NO_KEY {
        return Err(BadRecord::Payload(format!(
            "it is sealed with key {key_id}, which is unknown"
        )));
    }
    if format == CHAINED {
        return Ok((Some(link), body, Vec::new()));
    }
    let parts = body.split_first_chunk::<4>().and_then(|(length, rest)| {
        rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
    });
    let (payload, apart) = parts.ok_or(BadRecord::Checksum)?;
    Ok((Some(link), payload, from_json(apart)?))
}

fn unlinked_checksum(key: &[u8], key_id: u8, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(key), &[key_id]), payload)
}

/// A chained record whose link is not known yet. Whoever makes it does all but that; the committer, of which
/// there is one, adds 32 bytes.
#[derive(Debug, Default)]
pub struct Unlinked {
    record: Vec<u8>,
    check: u32,
    /// Where the payload lies in it.
    payload: std::ops::Range<usize>,
}

impl Unlinked {
    /// A record around a payload.
    pub fn new(key: &[u8], payload: &[u8]) -> Self {
        let mut record = Vec::with_capacity(CHAINED_BYTES + payload.len());
        record.push(CHAINED);
        record.resize(CHAINED_BYTES, 0);
        record.extend_from_slice(payload);
        let check = unlinked_checksum(key, NO_KEY, payload);
        Self { payload: CHAINED_BYTES..record.len(), record, check }
    }

    /// One append's record, with what stands apart from what is hashed of it.
    pub fn hidden(key: &[u8], at: Millis, hidden: &Hidden) -> Result<Self, BadRecord> {
        let payload = hidden_json(at, hidden)?;
        let apart = to_json(&hidden.apart)?;
        let length = u32::try_from(payload.len());
        let length = length.map_err(|_| BadRecord::Payload("it is too large".into()))?;
        let mut body = length.to_le_bytes().to_vec();
        body.extend_from_slice(&payload);
        let end = CHAINED_BYTES + body.len();
        body.extend_from_slice(&apart);
        let mut made = Self::new(key, &body);
        if let Some(format) = made.record.first_mut() {
            *format = APART;
        }
        Ok(Self { payload: CHAINED_BYTES + 4..end, ..made })
    }

    /// One append's record.
    pub fn events(
        key: &[u8],
        at: Millis,
        events: &[impl Borrow<Event> + Serialize],
    ) -> Result<Self, BadRecord> {
        Ok(Self::new(key, &events_json(at, events)?))
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        self.record.get(self.payload.clone()).unwrap_or_default()
    }

    /// What lies in it behind its header, whatever its link will be; and where that begins.
    pub fn middle(&self) -> (&[u8], usize) {
        (self.record.get(CHAINED_BYTES..).unwrap_or_default(), CHAINED_BYTES)
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.record.len()
    }

    /// The record.
    pub fn linked(mut self, link: Hash) -> Vec<u8> {
        let check = crc32c::crc32c_append(self.check, &link.0);
        if let Some((header, _)) = self.record.split_first_chunk_mut::<CHAINED_BYTES>() {
            header[1..HEADER_BYTES].copy_from_slice(&check.to_le_bytes());
            header[HEADER_BYTES + 1..].copy_from_slice(&link.0);
        }
        self.record
    }
}

fn checksum(key: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), payload)
}

/// What is hashed of an append: its time and its events.
pub fn events_json(
    at: Millis,
    events: &[impl Borrow<Event> + Serialize],
) -> Result<Vec<u8>, BadRecord> {
    to_json(&Entry { at, events, secrets: Vec::new() })
}

/// What is hashed of an append in which something stands apart: its hash is in its place, and with the others.
pub fn hidden_json(at: Millis, hidden: &Hidden) -> Result<Vec<u8>, BadRecord> {
    let secrets = hidden.apart.iter().map(Apart::hash).collect();
    to_json(&Entry { at, events: &hidden.events, secrets })
}

/// One append's record as earlier builds wrote it: such stores are there, and tests make them.
pub fn seal_events(
    key: &[u8],
    at: Millis,
    events: &[impl Borrow<Event> + Serialize],
) -> Result<Vec<u8>, BadRecord> {
    seal_json(key, &Entry { at, events, secrets: Vec::new() })
}

/// One append's events, the first of them at version `first`.
pub fn unseal_events(
    key: &[u8],
    record: &[u8],
    first: Version,
) -> Result<Vec<Recorded>, BadRecord> {
    let (_, payload, apart) = unseal_apart(key, record)?;
    let Entry::<Vec<Event>> { at, mut events, secrets } = from_json(payload)?;
    // One that is gone, or another, would leave a hash in the place of what somebody said.
    if !apart.iter().map(Apart::hash).eq(secrets) {
        return Err(BadRecord::Payload(
            "what stands apart from it is not what its hashes say".into(),
        ));
    }
    for event in &mut events {
        veil::reveal(event, &apart);
    }
    let numbered = events.into_iter().zip(first..);
    Ok(numbered.map(|(event, version)| Recorded { version, at, event }).collect())
}

/// A head's JSON, without its run. Made by the caller; the committer, of which there is one, only
/// adds what it alone knows.
pub fn head_json(head: &Head) -> Result<Vec<u8>, BadRecord> {
    leave_out(to_json(head)?, "run", head.run.as_str())
}

/// A head's record around its JSON, as earlier builds wrote it.
pub fn seal_head(
    key: &[u8],
    fence: u64,
    idempotency_key: Option<&str>,
    apart: usize,
    head: &[u8],
) -> Vec<u8> {
    seal(key, &head_payload(fence, idempotency_key, apart, head))
}

/// A head's record around its JSON, with the link of the last entry.
pub fn seal_linked_head(
    key: &[u8],
    link: Hash,
    (fence, idempotency_key, apart): (u64, Option<&str>, usize),
    head: &[u8],
) -> Vec<u8> {
    seal_chained(key, link, &head_payload(fence, idempotency_key, apart, head))
}

/// What of a head's JSON lies in its linked record as it is, whatever stands beside it; and where that begins.
pub fn head_middle(head: &[u8]) -> (&[u8], usize) {
    (head.strip_prefix(b"{").unwrap_or(head), CHAINED_BYTES + HEAD_OPENS.len())
}

fn head_payload(fence: u64, idempotency_key: Option<&str>, apart: usize, head: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(head.len() + 64);
    payload.extend_from_slice(HEAD_OPENS);
    payload.extend_from_slice(head_middle(head).0);
    if fence != 0 {
        payload.extend_from_slice(format!(",\"fence\":{fence}").as_bytes());
    }
    if let Some(text) = idempotency_key {
        let text = serde_json::Value::from(text);
        payload.extend_from_slice(format!(",\"key\":{text}").as_bytes());
    }
    if apart > 0 {
        payload.extend_from_slice(format!(",\"apart\":{apart}").as_bytes());
    }
    payload.push(b'}');
    payload
}

/// A head, and what the store keeps beside it.
pub fn unseal_head(key: &[u8], record: &[u8]) -> Result<StoredHead, BadRecord> {
    let (link, payload) = unseal_chained(key, record)?;
    let run = keys::run_at_end(key);
    let (Some(rest), Some(run)) = (payload.strip_prefix(HEAD_OPENS), run) else {
        return Err(BadRecord::Payload("it is no head".into()));
    };
    let stored: StoredHead = from_json(&put_back(HEAD_OPENS, "run", run.as_str(), rest))?;
    Ok(StoredHead { link, ..stored })
}

/// A session's record, with the run that it came to be with.
pub fn seal_session(
    key: &[u8],
    row: &SessionRow,
    first: Option<&RunId>,
) -> Result<Vec<u8>, BadRecord> {
    let mut json = leave_out(to_json(row)?, "session", row.session.as_str())?;
    if let Some(first) = first {
        json.pop();
        json.extend_from_slice(format!(",\"first\":\"{}\"}}", first.stem()).as_bytes());
    }
    Ok(seal(key, &json))
}

/// A session.
pub fn unseal_session(key: &[u8], record: &[u8]) -> Result<StoredSession, BadRecord> {
    let rest = unseal(key, record)?.strip_prefix(b"{");
    let session = key.get(1..).and_then(|bytes| str::from_utf8(bytes).ok());
    let (Some(rest), Some(session)) = (rest, session) else {
        return Err(BadRecord::Payload("it is no session".into()));
    };
    from_json(&put_back(b"{", "session", session, rest))
}

/// Takes the first field out of an object.
fn leave_out(mut json: Vec<u8>, field: &str, id: &str) -> Result<Vec<u8>, BadRecord> {
    let first = put_back(b"{", field, id, b"");
    if json.starts_with(&first) {
        json.drain(1..first.len());
        return Ok(json);
    }
    Err(BadRecord::Payload(format!("`{field}` does not come first")))
}

/// Puts it back in again.
fn put_back(opening: &[u8], field: &str, id: &str, rest: &[u8]) -> Vec<u8> {
    let mut json = Vec::with_capacity(opening.len() + field.len() + id.len() + rest.len() + 8);
    json.extend_from_slice(opening);
    for part in ["\"", field, "\":"] {
        json.extend_from_slice(part.as_bytes());
    }
    // Ids are visible ASCII: two characters of it are not written as they are.
    if id.contains(['"', '\\']) {
        json.extend_from_slice(serde_json::Value::from(id).to_string().as_bytes());
    } else {
        json.push(b'"');
        json.extend_from_slice(id.as_bytes());
        json.push(b'"');
    }
    json.push(b',');
    json.extend_from_slice(rest);
    json
}

/// Adds the text of a leaf to the payload of a place that holds several: a place of its own for each would cost
/// more than the leaf.
pub fn add_leaf(payload: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    payload.extend_from_slice(&length.to_be_bytes());
    payload.extend_from_slice(text.as_bytes());
}

/// The texts of such a payload.
pub fn read_leaves(mut payload: &[u8]) -> Result<Vec<String>, BadRecord> {
    let bad = || BadRecord::Payload("they are no leaves".into());
    let mut texts = Vec::new();
    while !payload.is_empty() {
        let (length, rest) = payload.split_first_chunk::<2>().ok_or_else(bad)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (text, rest) = rest.split_at_checked(length).ok_or_else(bad)?;
        texts.push(String::from_utf8(text.to_vec()).map_err(|_| bad())?);
        payload = rest;
    }
    Ok(texts)
}

/// Any record with a JSON payload.
pub fn seal_json(key: &[u8], value: &impl Serialize) -> Result<Vec<u8>, BadRecord> {
    Ok(seal(key, &to_json(value)?))
}

/// The value of a record with a JSON payload.
pub fn unseal_json<T: for<'de> Deserialize<'de>>(
    key: &[u8],
    record: &[u8],
) -> Result<T, BadRecord> {
    from_json(unseal(key, record)?)
}

fn from_json<T: for<'de> Deserialize<'de>>(json: &[u8]) -> Result<T, BadRecord> {
    serde_json::from_slice(json).map_err(|error| BadRecord::Payload(error.to_string()))
}

/// JSON of one of our own values.
pub fn to_json(value: &impl Serialize) -> Result<Vec<u8>, BadRecord> {
    serde_json::to_vec(value).map_err(|error| BadRecord::Payload(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j6_any_flipped_bit_is_noticed() {
        let record = seal(b"key", b"payload");
        assert_eq!(unseal(b"key", &record), Ok(&b"payload"[..]));
        for index in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[index / 8] ^= 1 << (index % 8);
            assert!(unseal(b"key", &damaged).is_err(), "bit {index}");
        }
        assert_eq!(unseal(b"other", &record), Err(BadRecord::Checksum));
        assert_eq!(unseal(b"key", &record[..4]), Err(BadRecord::Checksum));
    }

    #[test]
    fn j6_any_flipped_bit_of_what_is_chained_is_noticed() {
        let link = Hash::of(&[b"before"]);
        let record = seal_chained(b"key", link, b"payload");
        assert_eq!(unseal_chained(b"key", &record), Ok((Some(link), &b"payload"[..])));
        assert_eq!(unseal_chained(b"key", &seal(b"key", b"old")), Ok((None, &b"old"[..])));
        for index in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[index / 8] ^= 1 << (index % 8);
            assert!(unseal_chained(b"key", &damaged).is_err(), "bit {index}");
        }
        assert_eq!(unseal_chained(b"other", &record), Err(BadRecord::Checksum));
        assert_eq!(unseal_chained(b"key", &record[..20]), Err(BadRecord::Checksum));
    }

    #[test]
    fn another_format_is_an_error_of_its_own() {
        let mut record = seal(b"key", b"payload");
        record[0] = 9;
        assert_eq!(unseal(b"key", &record), Err(BadRecord::UnknownFormat { found: 9 }));
        assert!(matches!(Fault::from(BadRecord::UnknownFormat { found: 9 }), Fault::Permanent(_)));
    }

    #[test]
    fn the_entry_form_is_time_and_events() {
        let record = seal_events(b"k", Millis(7), &[Event::Parked]).expect("it is JSON");
        assert_eq!(unseal(b"k", &record), Ok(&br#"{"at":7,"events":["parked"]}"#[..]));
        let read = unseal_events(b"k", &record, 4).expect("it checks out");
        assert_eq!(read, vec![Recorded { version: 4, at: Millis(7), event: Event::Parked }]);
    }
}
