//! Chunks: no place in the tree holds more than 4 KiB; larger values are split into chunks.
//!
//! sled puts large pages into blob files that it neither syncs nor reclaims. A page holds up to 16
//! values, so 4 KiB each keep it well below the 128 KiB at which that begins.

use crate::ports::Fault;
use crate::store::embedded::invariants;
use crate::store::embedded::tree::Bytes;
use crate::store::embedded::wal_records::Write;
use crate::store::keys;

/// The most that one place holds.
pub(super) const CHUNK_BYTES_MAX: usize = 4 << 10;
/// The largest value: more than any append can weigh, and what 16 bits of chunks can count.
pub(super) const VALUE_BYTES_MAX: usize = 128 << 20;

/// The first byte of a place whose value lies in chunks. Records begin with their format, and that
/// is never zero.
const SPLIT: u8 = 0;

/// A record that is whole, and where it lies.
#[derive(Debug, Clone, Default)]
pub(super) struct Sealed {
    pub(super) key: Vec<u8>,
    pub(super) record: Vec<u8>,
}

/// Whether a value can be stored at all.
pub(super) fn check(bytes: usize) -> Result<(), Fault> {
    if bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Fault::Permanent(format!(
        "a record of {bytes} bytes is more than the {VALUE_BYTES_MAX} a store takes"
    )))
}

/// How many chunks lie beside this place.
pub(super) fn count(place: &[u8]) -> u16 {
    match place {
        &[SPLIT, high, low] => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}

/// How many chunks a value of so many bytes lies in.
pub(super) fn count_of(bytes: usize) -> u16 {
    if bytes <= CHUNK_BYTES_MAX {
        return 0;
    }
    u16::try_from(bytes.div_ceil(CHUNK_BYTES_MAX)).unwrap_or(u16::MAX)
}

/// What must be written to have `value` at `key`, where one of `old_chunks` was: place by place,
/// nothing where a place is to be emptied.
pub(super) fn split(key: Vec<u8>, value: Vec<u8>, old_chunks: u16) -> Vec<Write> {
    let mut writes = Vec::new();
    let mut used = 0;
    let place = if value.len() <= CHUNK_BYTES_MAX {
        Bytes::from(value)
    } else {
        for chunk in value.chunks(CHUNK_BYTES_MAX) {
            writes.push((keys::chunk(&key, used), Some(Bytes::from(chunk))));
            used += 1;
        }
        let [high, low] = used.to_be_bytes();
        Bytes::from(&[SPLIT, high, low])
    };
    writes.extend((used..old_chunks).map(|index| (keys::chunk(&key, index), None)));
    writes.push((key, Some(place)));
    invariants::holds(
        writes.iter().flat_map(|(_, value)| value).all(|value| value.len() <= CHUNK_BYTES_MAX),
        "no place holds more than 4 KiB",
    );
    writes
}

/// What must be emptied to have nothing at `key`, where `old` is.
pub(super) fn clear(key: Vec<u8>, old: &[u8]) -> Vec<Write> {
    let chunks = (0..count(old)).map(|index| (keys::chunk(&key, index), None));
    let mut writes: Vec<_> = chunks.collect();
    writes.push((key, None));
    writes
}

/// The whole value whose first place is `place`.
pub(super) fn join(
    key: &[u8],
    place: Bytes,
    get: impl Fn(&[u8]) -> Result<Option<Bytes>, Fault>,
) -> Result<Bytes, Fault> {
    let count = count(&place);
    if count == 0 {
        return Ok(place);
    }
    let mut value = Vec::with_capacity(usize::from(count) * CHUNK_BYTES_MAX);
    for index in 0..count {
        let chunk = get(&keys::chunk(key, index))?.ok_or_else(|| {
            Fault::Corrupt(format!("piece {index} of {count} of a large record is missing"))
        })?;
        value.extend_from_slice(&chunk);
    }
    Ok(value.into())
}
