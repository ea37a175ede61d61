//! Chunks: no place in the tree holds more than 4 KiB; larger values are split into chunks, without what they
//! say again (`repeats`), and packed (`packing`).
//!
//! ```text
//! split  =  0 │ chunks u16 BE                                     the value, as it is
//!        or 0 │ chunks u16 BE │ its bytes u32 BE                  without its repeats
//!        or 0 │ chunks u16 BE │ its bytes u32 BE │ dictionary u8 │ bytes without its repeats u32 BE
//! ```
//!
//! sled puts large pages into blob files that it neither syncs nor reclaims. A page holds up to 16
//! values, so 4 KiB each keep it well below the 128 KiB at which that begins.

use crate::ports::Fault;
use crate::store::embedded::invariants;
use crate::store::embedded::repeats;
use crate::store::embedded::tree::Bytes;
use crate::store::embedded::wal_records::Write;
use crate::store::{keys, packing};

/// The most that one place holds.
pub(super) const CHUNK_BYTES_MAX: usize = 4 << 10;
/// The largest value: more than any append can weigh, and what 16 bits of chunks can count.
pub(super) const VALUE_BYTES_MAX: usize = 128 << 20;

/// The first byte of a place whose value lies in chunks. Records begin with their format, and that
/// is never zero.
const SPLIT: u8 = 0;
/// How long such places are: as the first build wrote them, without repeats, and packed.
const PLACE_BYTES: [usize; 3] = [3, 7, 12];

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
        &[SPLIT, high, low, ..] if PLACE_BYTES.contains(&place.len()) => {
            u16::from_be_bytes([high, low])
        }
        _ => 0,
    }
}

/// How many chunks these writes leave beside the place that they are for.
pub(super) fn count_after(writes: &[Write]) -> u16 {
    let place = writes.last().and_then(|(_, place)| place.as_deref());
    place.map_or(0, count)
}

/// What must be written to have `value` at `key`, where one of `old_chunks` was: place by place,
/// nothing where a place is to be emptied.
pub(super) fn split(key: Vec<u8>, value: Vec<u8>, old_chunks: u16) -> Vec<Write> {
    let mut writes = Vec::new();
    let mut used = 0;
    let place = if value.len() <= CHUNK_BYTES_MAX {
        Bytes::from(value)
    } else {
        let (told, lying) = shortened(value);
        for chunk in lying.chunks(CHUNK_BYTES_MAX) {
            writes.push((keys::chunk(&key, used), Some(Bytes::from(chunk))));
            used += 1;
        }
        let mut place = vec![SPLIT];
        place.extend_from_slice(&used.to_be_bytes());
        place.extend(told);
        Bytes::from(place)
    };
    writes.extend((used..old_chunks).map(|index| (keys::chunk(&key, index), None)));
    writes.push((key, Some(place)));
    invariants::holds(
        writes.iter().flat_map(|(_, value)| value).all(|value| value.len() <= CHUNK_BYTES_MAX),
        "no place holds more than 4 KiB",
    );
    writes
}

/// A value as its chunks have it, and what its place tells of that.
fn shortened(value: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let Ok(bytes) = u32::try_from(value.len()) else { return (Vec::new(), value) };
    let once = repeats::pack(&value);
    let has_repeats = once.is_some();
    let once = once.unwrap_or(value);
    let told = bytes.to_be_bytes();
    match (u32::try_from(once.len()), packing::squeeze(&once)) {
        (Ok(left), Some(packed)) => {
            ([&told[..], &[packing::DICTIONARY], &left.to_be_bytes()].concat(), packed)
        }
        (Ok(_) | Err(_), _) if has_repeats => (told.to_vec(), once),
        (Ok(_) | Err(_), _) => (Vec::new(), once),
    }
}

/// The value that was shortened, as its place tells it; none if it is none.
fn whole(place: &[u8], lying: Vec<u8>) -> Option<Vec<u8>> {
    let Some((told, packed)) = place.get(3..)?.split_first_chunk::<4>() else { return Some(lying) };
    let bytes = |told: [u8; 4]| {
        let bytes = usize::try_from(u32::from_be_bytes(told)).ok()?;
        (bytes <= VALUE_BYTES_MAX).then_some(bytes)
    };
    let value = bytes(*told)?;
    let Some((&dictionary, left)) = packed.split_first() else {
        return repeats::unpack(&lying, value);
    };
    let left = bytes(left.try_into().ok()?)?;
    let once = packing::release(dictionary, &lying, left)?;
    // What has no repeats is as long without them.
    if left == value { Some(once) } else { repeats::unpack(&once, value) }
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
    let whole = whole(&place, value);
    let whole = whole.ok_or_else(|| Fault::Corrupt("a large record does not unpack".into()))?;
    Ok(whole.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// What lies in a store after writes.
    fn lies(writes: Vec<Write>, store: &mut BTreeMap<Vec<u8>, Bytes>) {
        for (key, value) in writes {
            match value {
                Some(value) => store.insert(key, value),
                None => store.remove(&key),
            };
        }
    }

    #[test]
    fn a_value_comes_back_whatever_lay_there_and_leaves_nothing_behind() {
        let once: Vec<u8> =
            (0..20_000_u32).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let again = [&once[..], &once[..], &once[..]].concat();
        let small = vec![1; 100];
        let mut store = BTreeMap::new();
        let key = b"key".to_vec();
        let mut chunks = 0;
        for value in [&small, &again, &once, &again, &small, &once] {
            let writes = split(key.clone(), value.clone(), chunks);
            chunks = count_after(&writes);
            lies(writes, &mut store);
            let place = store[&key].clone();
            assert_eq!(count(&place), chunks);
            let found = join(&key, place, |key| Ok(store.get(key).cloned())).unwrap();
            assert_eq!(&*found, &value[..]);
            assert_eq!(store.len(), usize::from(chunks) + 1, "no chunk of what lay there is left");
        }
        let apart = split(key.clone(), again, 0);
        assert!(count_after(&apart) <= count_after(&split(key.clone(), once, 0)) + 1);
        let place = store[&key].clone();
        lies(clear(key, &place), &mut store);
        assert_eq!(store.len(), 0);
    }

    #[test]
    fn what_an_earlier_build_split_is_joined() {
        let key = b"key".to_vec();
        let chunk = Bytes::from(vec![7; 4]);
        let joined = join(&key, Bytes::from(&[SPLIT, 0, 2]), |_| Ok(Some(chunk.clone())));
        assert_eq!(&*joined.unwrap(), &[7; 8]);
        let rotten =
            join(&key, Bytes::from(&[SPLIT, 0, 1, 0, 0, 0, 9]), |_| Ok(Some(chunk.clone())));
        assert!(matches!(rotten, Err(Fault::Corrupt(_))), "{rotten:?}");
    }
}
