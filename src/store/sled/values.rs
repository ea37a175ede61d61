//! Values: no place in sled holds more than 4 KiB; larger values are cut into pieces.
//!
//! sled puts large pages into blob files that it neither syncs nor reclaims. A page holds up to 16
//! values, so 4 KiB each keep it well below the 128 KiB at which that begins.

use ::sled::IVec;

use crate::ports::Fault;
use crate::store::keys;

/// The most that one place holds.
pub(super) const PLACE_BYTES_MAX: usize = 4 << 10;
/// The largest value: more than any append can weigh, and what 16 bits of pieces can count.
pub(super) const VALUE_BYTES_MAX: usize = 128 << 20;

/// The first byte of a place whose value lies in pieces. Records begin with their format, and that
/// is never zero.
const CUT: u8 = 0;

/// Whether a value can be stored at all.
pub(super) fn check(bytes: usize) -> Result<(), Fault> {
    if bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Fault::Permanent(format!(
        "a record of {bytes} bytes is more than the {VALUE_BYTES_MAX} a store takes"
    )))
}

/// How many pieces lie beside this place.
pub(super) fn pieces(place: &[u8]) -> u16 {
    match place {
        &[CUT, high, low] => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}

/// How many pieces a value of so many bytes lies in.
pub(super) fn pieces_of(bytes: usize) -> u16 {
    if bytes <= PLACE_BYTES_MAX {
        return 0;
    }
    u16::try_from(bytes.div_ceil(PLACE_BYTES_MAX)).unwrap_or(u16::MAX)
}

/// What must be written to have `value` at `key`, where one of `old_pieces` was: place by place,
/// nothing where a place is to be emptied.
pub(super) fn cut(key: Vec<u8>, value: Vec<u8>, old_pieces: u16) -> Vec<(Vec<u8>, Option<IVec>)> {
    let mut writes = Vec::new();
    let mut used = 0;
    let place = if value.len() <= PLACE_BYTES_MAX {
        IVec::from(value)
    } else {
        for piece in value.chunks(PLACE_BYTES_MAX) {
            writes.push((keys::piece(&key, used), Some(IVec::from(piece))));
            used += 1;
        }
        let [high, low] = used.to_be_bytes();
        IVec::from(&[CUT, high, low])
    };
    writes.extend((used..old_pieces).map(|index| (keys::piece(&key, index), None)));
    writes.push((key, Some(place)));
    debug_assert!(
        writes.iter().flat_map(|(_, value)| value).all(|value| value.len() <= PLACE_BYTES_MAX),
        "no place holds more than 4 KiB"
    );
    writes
}

/// What must be emptied to have nothing at `key`, where `old` is.
pub(super) fn clear(key: Vec<u8>, old: &[u8]) -> Vec<(Vec<u8>, Option<IVec>)> {
    let pieces = (0..pieces(old)).map(|index| (keys::piece(&key, index), None));
    let mut writes: Vec<_> = pieces.collect();
    writes.push((key, None));
    writes
}

/// The whole value whose first place is `place`.
pub(super) fn join(
    key: &[u8],
    place: IVec,
    get: impl Fn(&[u8]) -> Result<Option<IVec>, Fault>,
) -> Result<IVec, Fault> {
    let count = pieces(&place);
    if count == 0 {
        return Ok(place);
    }
    let mut value = Vec::with_capacity(usize::from(count) * PLACE_BYTES_MAX);
    for index in 0..count {
        let piece = get(&keys::piece(key, index))?.ok_or_else(|| {
            Fault::Corrupt(format!("piece {index} of {count} of a large record is missing"))
        })?;
        value.extend_from_slice(&piece);
    }
    Ok(value.into())
}
