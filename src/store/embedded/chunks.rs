//! Chunks: large values, and how builds before this one laid them in the tree: in chunks, for none of its places holds
//! more than 4 KiB. Now they lie beside it as they are (`value_log`), but without what they say again (`repeats`).
//!
//! ```text
//! large  =  6 │ its bytes u32 BE │ the value without its repeats
//! split  =  0 │ chunks u16 BE                                     the value, as it is
//!        or 0 │ chunks u16 BE │ its bytes u32 BE                  without its repeats
//!        or 0 │ chunks u16 BE │ its bytes u32 BE │ dictionary u8 │ bytes without its repeats u32 BE
//! ```
//!
//! sled puts large pages into blob files that it neither syncs nor reclaims. A page holds up to 16
//! values, so 4 KiB each keep it well below the 128 KiB at which that begins.

use crate::ports::Fault;
use crate::store::embedded::repeats::{self, Repeats};
use crate::store::embedded::tree::Bytes;
use crate::store::embedded::wal_records::Write;
use crate::store::{keys, packing};

/// The most that one place in the tree holds.
pub(super) const CHUNK_BYTES_MAX: usize = 4 << 10;
/// The largest value: more than any append can weigh, and what 16 bits of chunks can count.
pub(super) const VALUE_BYTES_MAX: usize = 128 << 20;

/// The first byte of a place whose value lies in chunks. Records begin with their format, and that
/// is never zero.
const SPLIT: u8 = 0;
/// The first byte of a value that lies there without its repeats.
const LARGE: u8 = 6;
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

/// What must be written to have `value` at `key`, where one of `old_chunks` was: place by place,
/// nothing where a place is to be emptied.
pub(super) fn split(key: Vec<u8>, value: Vec<u8>, old_chunks: u16) -> Vec<Write> {
    let once = is_large(&value).then(|| repeats::pack(&value)).flatten();
    placed(key, shortened(value, once), old_chunks)
}

/// The same of a value in whose middle, which begins at `at`, its repeats were looked for already.
pub(super) fn split_known(
    key: Vec<u8>,
    value: Vec<u8>,
    old_chunks: u16,
    (known, at): (&Repeats, usize),
) -> Vec<Write> {
    let once = is_large(&value).then(|| known.left_out(&value, at)).flatten();
    placed(key, shortened(value, once), old_chunks)
}

/// The repeats of what will be the middle of a large value. Whoever makes it looks for them, and not the committer, of which
/// there is one.
pub(super) fn repeats_of(middle: &[u8]) -> Repeats {
    if is_large(middle) { Repeats::of(middle) } else { Repeats::default() }
}

fn is_large(value: &[u8]) -> bool {
    value.len() > CHUNK_BYTES_MAX
}

fn placed(key: Vec<u8>, value: Vec<u8>, old_chunks: u16) -> Vec<Write> {
    let mut writes: Vec<Write> =
        (0..old_chunks).map(|index| (keys::chunk(&key, index), None)).collect();
    writes.push((key, Some(value.into())));
    writes
}

/// A large value as it is without its repeats, if it has some.
fn shortened(value: Vec<u8>, once: Option<Vec<u8>>) -> Vec<u8> {
    match (once, u32::try_from(value.len())) {
        (Some(once), Ok(bytes)) => [&[LARGE][..], &bytes.to_be_bytes(), &once].concat(),
        (None | Some(_), _) => value,
    }
}

/// The value that was shortened; none if it is none.
fn lengthened(place: &[u8]) -> Option<Vec<u8>> {
    let (bytes, once) = place.get(1..)?.split_first_chunk::<4>()?;
    let bytes = usize::try_from(u32::from_be_bytes(*bytes)).ok()?;
    (bytes <= VALUE_BYTES_MAX).then(|| repeats::unpack(once, bytes)).flatten()
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
    let unread = || Fault::Corrupt("a large record does not unpack".into());
    let count = count(&place);
    if place.first() == Some(&LARGE) {
        return lengthened(&place).map(Bytes::from).ok_or_else(unread);
    }
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
    whole(&place, value).map(Bytes::from).ok_or_else(unread)
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

    /// A value as the build before this one laid it in the tree.
    fn split_by_an_earlier_build(key: &[u8], value: &[u8]) -> Vec<Write> {
        let once = repeats::pack(value).unwrap_or_else(|| value.to_vec());
        let lying = packing::squeeze(&once);
        let lying_bytes = lying.as_deref().unwrap_or(&once);
        let chunks = lying_bytes.chunks(CHUNK_BYTES_MAX).zip(0..);
        let mut writes: Vec<Write> =
            chunks.map(|(chunk, at)| (keys::chunk(key, at), Some(Bytes::from(chunk)))).collect();
        let used = u16::try_from(writes.len()).unwrap();
        let length = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
        let mut place = [&[SPLIT][..], &used.to_be_bytes()].concat();
        if lying.is_some() || once.len() < value.len() {
            place.extend(length(value.len()));
        }
        if lying.is_some() {
            place.push(packing::DICTIONARY);
            place.extend(length(once.len()));
        }
        writes.push((key.to_vec(), Some(place.into())));
        writes
    }

    #[test]
    fn a_value_comes_back_whatever_lay_there_and_leaves_nothing_behind() {
        let once: Vec<u8> =
            (0..20_000_u32).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let again = [&once[..], &once[..], &once[..]].concat();
        let small = [&[1][..], &[7; 100]].concat();
        let once = [&[1][..], &once].concat();
        let again = [&[1][..], &again].concat();
        let mut store = BTreeMap::new();
        let key = b"key".to_vec();
        for value in [&small, &again, &once, &again, &small, &once] {
            for is_earlier in [true, false] {
                let old = store.get(&key).map_or(0, |place: &Bytes| count(place));
                let writes = if is_earlier && value.len() > CHUNK_BYTES_MAX {
                    store.clear();
                    split_by_an_earlier_build(&key, value)
                } else {
                    split(key.clone(), value.clone(), old)
                };
                lies(writes, &mut store);
                let place = store[&key].clone();
                let chunks = usize::from(count(&place));
                let found = join(&key, place, |key| Ok(store.get(key).cloned())).unwrap();
                assert_eq!(&*found, &value[..]);
                assert_eq!(store.len(), chunks + 1, "no chunk of what lay there is left");
            }
        }
        let [(_, Some(place))] = &split(key.clone(), again, 0)[..] else { panic!("one place") };
        assert!(place.len() < once.len() + 100, "what it says again is not said again");
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
        let rotten = [&[SPLIT, 0, 1, 0, 0, 0, 9][..], &[LARGE, 0, 0, 0, 9], &[LARGE, 255]];
        for place in rotten {
            let rotten = join(&key, Bytes::from(place), |_| Ok(Some(chunk.clone())));
            assert!(matches!(rotten, Err(Fault::Corrupt(_))), "{rotten:?}");
        }
    }
}
