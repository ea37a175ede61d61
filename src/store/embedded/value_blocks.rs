//! Blocks of the value log: how values lie in it together, and how one of them is read back. Knows bytes, not files.
//!
//! ```text
//! block  =  check u32 LE │ body u32 LE │ whole u32 LE │ once u32 LE │ dictionary u8 │ body
//! whole  =  { key u16 LE │ value u32 LE │ the key's bytes │ the value's bytes }
//! place  =  5 │ segment varint │ offset varint │ block varint │ at varint │ bytes varint
//! ```
//!
//! The check is of all that follows it, the lengths are in bytes. A body is what is whole without what it says again
//! (`repeats`; then it is `once` long, otherwise that is 0), and packed with a dictionary (`packing`; 0 is none). A
//! place is what the tree has instead of the value: which block, where in it the value begins, and how long it is.

use crate::store::embedded::repeats;
use crate::store::embedded::tree::Bytes;
use crate::store::embedded::varints;
use crate::store::{keys, packing};

/// What a block holds, about: enough that what its values have in common is said once, and little to unpack for one.
const BLOCK_BYTES: usize = 16 << 10;
/// What a block of one run's large values may hold: its head says again what its journal says.
const LARGE_BLOCK_BYTES: usize = 4 << 20;
/// A value of this many bytes is large.
const LARGE_BYTES: usize = 4 << 10;
/// Blocks beyond this say again what lies further back than the packing sees.
const REPEATS_BYTES: usize = 32 << 10;
/// Check, body, whole, once, dictionary.
pub(super) const HEADER_BYTES: usize = 4 + 4 + 4 + 4 + 1;
/// Before each value: the lengths of its key and of itself.
const LENGTHS_BYTES: usize = 2 + 4;
/// The first byte of a place. Records begin with their format, packed ones with 4, and large ones that lie in the
/// tree with 0.
const BESIDE: u8 = 5;

/// A key, its value, and where their entry begins in the whole of a block.
pub(super) type Listed<'a> = (&'a [u8], &'a [u8], u32);
/// A key and the value that is to lie there.
pub(super) type Value = (Vec<u8>, Bytes);

/// Where a value lies in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u32,
    /// Where its block begins in the segment, and how long that is.
    pub(super) offset: u32,
    pub(super) block: u32,
    /// Where its entry begins in the whole of the block.
    pub(super) at: u32,
    /// How long it is.
    pub(super) bytes: u32,
}

impl Place {
    /// What lies in the tree for it.
    pub(super) fn written(self) -> Bytes {
        let mut bytes = vec![BESIDE];
        for number in [self.segment, self.offset, self.block, self.at, self.bytes] {
            varints::put(&mut bytes, number.into());
        }
        bytes.into()
    }

    /// The place that lies in the tree; none if it is another thing.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (&BESIDE, mut left) = bytes.split_first()? else { return None };
        let mut next = || u32::try_from(varints::take(&mut left)?).ok();
        let place =
            Self { segment: next()?, offset: next()?, block: next()?, at: next()?, bytes: next()? };
        left.is_empty().then_some(place)
    }
}

/// A block, and where in its whole each of its values begins.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    /// Key, where its entry begins, and how long the value is.
    pub(super) values: Vec<(Vec<u8>, u32, u32)>,
}

/// Values as blocks, those of a run next to one another: they have most in common.
pub(super) fn blocks(mut values: Vec<Value>) -> impl Iterator<Item = Block> {
    values.sort_by(|(one, _), (other, _)| neighbours(one).cmp(&neighbours(other)));
    let mut values = values.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut whole = Vec::new();
        let mut held = Vec::new();
        while let Some((key, value)) = values.next_if(|next| has_room(&whole, &held, next)) {
            let at = length(whole.len());
            whole.extend_from_slice(&u16::try_from(key.len()).unwrap_or(u16::MAX).to_le_bytes());
            whole.extend_from_slice(&length(value.len()).to_le_bytes());
            whole.extend_from_slice(&key);
            whole.extend_from_slice(&value);
            held.push((key, at, length(value.len())));
        }
        (!held.is_empty()).then(|| Block { bytes: packed(&whole), values: held })
    })
}

fn neighbours(key: &[u8]) -> (&[u8], &[u8]) {
    (keys::run_that_it_begins_with(key).unwrap_or(key), key)
}

/// Whether a value still belongs in a block.
fn has_room(whole: &[u8], held: &[(Vec<u8>, u32, u32)], (key, value): &Value) -> bool {
    let Some((last, ..)) = held.last() else { return true };
    let run = keys::run_that_it_begins_with(key);
    let is_of_the_same = run.is_some() && run == keys::run_that_it_begins_with(last);
    let is_large = is_of_the_same && value.len() >= LARGE_BYTES;
    whole.len() < BLOCK_BYTES && value.len() < LARGE_BYTES
        || is_large && whole.len() + value.len() <= LARGE_BLOCK_BYTES
}

/// No block weighs anything near this: a value has at most 128 MiB.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn packed(whole: &[u8]) -> Vec<u8> {
    let once = (whole.len() > REPEATS_BYTES).then(|| repeats::pack(whole)).flatten();
    let lying = once.as_deref().unwrap_or(whole);
    let packed = packing::squeeze(lying);
    let dictionary = if packed.is_some() { packing::DICTIONARY } else { 0 };
    let body = packed.as_deref().unwrap_or(lying);
    let mut block = Vec::with_capacity(HEADER_BYTES + body.len());
    block.extend_from_slice(&[0; 4]);
    let once = once.as_ref().map_or(0, |once| length(once.len()));
    for bytes in [length(body.len()), length(whole.len()), once] {
        block.extend_from_slice(&bytes.to_le_bytes());
    }
    block.push(dictionary);
    block.extend_from_slice(body);
    let check = crc32c::crc32c(&block[4..]);
    block[..4].copy_from_slice(&check.to_le_bytes());
    block
}

/// How long the block is that begins so.
pub(super) fn block_bytes(header: &[u8; HEADER_BYTES]) -> usize {
    HEADER_BYTES + number(header, 4).unwrap_or_default()
}

/// What a block holds; none if it rotted.
pub(super) fn whole(block: &[u8]) -> Option<Vec<u8>> {
    let (header, body) = block.split_first_chunk::<HEADER_BYTES>()?;
    let check = u32::try_from(number(header, 0)?).ok()?;
    if crc32c::crc32c(block.get(4..)?) != check || number(header, 4)? != body.len() {
        return None;
    }
    let (whole, once) = (number(header, 8)?, number(header, 12)?);
    let lying = if once == 0 { whole } else { once };
    let lying = match header[HEADER_BYTES - 1] {
        0 => (body.len() == lying).then(|| body.to_vec())?,
        dictionary => packing::release(dictionary, body, lying)?,
    };
    if once == 0 { Some(lying) } else { repeats::unpack(&lying, whole) }
}

/// The value of a key whose entry begins there; none if there is another.
pub(super) fn value<'a>(whole: &'a [u8], key: &[u8], at: u32) -> Option<&'a [u8]> {
    let (found, value, _) = entry(whole, usize::try_from(at).ok()?)?;
    (found == key).then_some(value)
}

/// All values; none if they do not add up.
pub(super) fn values(whole: &[u8]) -> Option<Vec<Listed<'_>>> {
    let (mut values, mut at) = (Vec::new(), 0);
    while at < whole.len() {
        let (key, value, next) = entry(whole, at)?;
        values.push((key, value, length(at)));
        at = next;
    }
    Some(values)
}

/// A key, its value, and where the next entry begins.
fn entry(whole: &[u8], at: usize) -> Option<(&[u8], &[u8], usize)> {
    let (lengths, rest) = whole.get(at..)?.split_first_chunk::<LENGTHS_BYTES>()?;
    let key = usize::from(u16::from_le_bytes([lengths[0], lengths[1]]));
    let value = number(lengths, 2)?;
    let (key, rest) = rest.split_at_checked(key)?;
    let value = rest.get(..value)?;
    Some((key, value, at + LENGTHS_BYTES + key.len() + value.len()))
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(four)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(prefix: u8, run: u8) -> Vec<u8> {
        [&[prefix][..], &[run; keys::RUN_BYTES]].concat()
    }

    fn read(blocks: &[Block]) -> Vec<Value> {
        let mut read = Vec::new();
        for block in blocks {
            let whole = whole(&block.bytes).unwrap();
            let header = block.bytes.first_chunk().unwrap();
            assert_eq!(block_bytes(header), block.bytes.len());
            let listed = values(&whole).unwrap();
            for ((key, at, bytes), listed) in block.values.iter().zip(listed) {
                let found = value(&whole, key, *at).unwrap();
                assert_eq!((&key[..], found, *at), listed);
                assert_eq!(length(found.len()), *bytes);
                read.push((key.clone(), Bytes::from(found)));
            }
        }
        read
    }

    #[test]
    fn what_a_head_says_again_of_its_journal_lies_there_once() {
        let once: Vec<u8> =
            (0..20_000_u32).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let values = vec![
            (key(keys::HEAD, 1), Bytes::from(&once[..])),
            (key(keys::HEAD, 2), Bytes::from(b"small")),
            (key(keys::ENTRY, 1), Bytes::from(&once[..])),
        ];
        let blocks: Vec<_> = blocks(values).collect();
        assert_eq!(read(&blocks).len(), 3);
        let bytes: usize = blocks.iter().map(|block| block.bytes.len()).sum();
        assert!(bytes < once.len() + 1_000, "{bytes}");
    }

    #[test]
    fn a_value_is_read_by_its_own_key_alone() {
        let values = [1, 2].map(|run| (key(keys::HEAD, run), Bytes::from(&[run])));
        let block = blocks(values.to_vec()).next().unwrap();
        let whole = whole(&block.bytes).unwrap();
        let (_, at, _) = block.values[1];
        assert_eq!(value(&whole, &key(keys::HEAD, 2), at), Some(&[2][..]));
        assert_eq!(value(&whole, &key(keys::HEAD, 1), at), None);
    }

    #[test]
    fn a_place_is_read_back_and_nothing_else_is_taken_for_one() {
        let place = Place { segment: 7, offset: 1 << 30, block: 300, at: 16_000, bytes: u32::MAX };
        let mut written = place.written().to_vec();
        assert_eq!(Place::read(&written), Some(place));
        written.push(0);
        assert_eq!(Place::read(&written), None);
        for other in [&b""[..], &[0, 0, 1], &[1, 5], &[4, 1, 1, 1, 1, 1]] {
            assert_eq!(Place::read(other), None);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_laid_in_blocks_comes_back(
            lengths in prop::collection::vec((0_u8..6, 0_usize..30_000, 0_u8..3), 1..30),
        ) {
            let values: Vec<Value> = lengths.iter().enumerate().map(|(n, (run, bytes, kind))| {
                let prefix = [keys::HEAD, keys::ENTRY, keys::SESSION][usize::from(*kind)];
                let mut key = key(prefix, *run);
                key.extend(length(n).to_be_bytes());
                let value: Vec<u8> = (0..*bytes).map(|at| (at * (n + 1) % 251).to_le_bytes()[0]).collect();
                (key, value.into())
            }).collect();
            let mut found = read(&blocks(values.clone()).collect::<Vec<_>>());
            let mut values = values;
            values.sort();
            found.sort();
            prop_assert_eq!(found, values);
        }

        #[test]
        fn a_block_in_which_a_bit_rotted_is_none(at: prop::sample::Index, bit in 0..8_u32) {
            let values = (0..50).map(|n| (key(keys::HEAD, n), Bytes::from(vec![n; 100]))).collect();
            let mut block = blocks(values).next().unwrap().bytes;
            let at = at.index(block.len());
            block[at] ^= 1 << bit;
            prop_assert_eq!(whole(&block), None);
        }
    }
}
