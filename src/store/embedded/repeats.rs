//! Repeats: a large record with what it says again told by where it was said before. What somebody sends stands in
//! an append several times (the input, the message, the question about it, its subject): here it is stored once. It
//! is no compression of anything that is said once, and knows nothing of what records mean.
//!
//! ```text
//! packed  =  { literal │ again }
//! literal =  length varint │ its bytes
//! again   =  length varint │ how far back varint     (no "again" after the last literal, if nothing follows)
//! ```

use crate::store::embedded::varints;

/// The shortest stretch that is looked for: shorter ones cost more to find than they take.
const BLOCK: usize = 64;
/// Records beyond this are stored as they are: the table of what was seen would grow with them.
const BYTES_MAX: usize = 32 << 20;
/// Any odd number that mixes well.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

/// A record without its repeats; none where that would hardly be shorter.
pub(super) fn pack(record: &[u8]) -> Option<Vec<u8>> {
    Repeats::of(record).left_out(record, 0)
}

/// What a record says again, and where it said it before. To look for it takes long, and to leave it out does not: whoever
/// has only the middle of a record looks there, and whoever knows the rest leaves it out.
#[derive(Debug, Default)]
pub(super) struct Repeats(Vec<Again>);

/// A stretch that was there before.
#[derive(Debug)]
struct Again {
    start: usize,
    length: usize,
    back: usize,
}

impl Again {
    /// Whether it is so in a record where everything lies so much further on.
    fn is_in(&self, record: &[u8], further: usize) -> bool {
        let start = self.start + further;
        let stretch = |from: usize| record.get(from..from + self.length);
        start.checked_sub(self.back).is_some_and(|from| stretch(from) == stretch(start))
            && stretch(start).is_some()
    }
}

impl Repeats {
    /// Those of a record, or of a part of one.
    pub(super) fn of(record: &[u8]) -> Self {
        let mut found = Vec::new();
        if record.len() > BYTES_MAX || record.len() < 2 * BLOCK {
            return Self(found);
        }
        let mut seen = Seen::new(record.len());
        // Where what was not said before begins, and what is looked at.
        let (mut literal, mut at) = (0, 0);
        let mut hash = Rolling::at(record, 0);
        while at + BLOCK <= record.len() {
            if let Some(from) = seen.before(record, at, hash.0) {
                // The stretch may have begun before the block that was recognised.
                let ahead = (1..=from.min(at - literal))
                    .take_while(|back| record[from - back] == record[at - back])
                    .count();
                let (from, start) = (from - ahead, at - ahead);
                let length = ahead + alike(&record[at..], &record[from + ahead..]);
                found.push(Again { start, length, back: start - from });
                // What is said again need not be remembered again.
                at = start + length;
                literal = at;
                hash = Rolling::at(record, at);
                continue;
            }
            if at.is_multiple_of(BLOCK) {
                seen.remember(at, hash.0);
            }
            hash.roll(record, at);
            at += 1;
        }
        Self(found)
    }

    /// A record without them, where that in which they were found lies so much further on; none where it would hardly be
    /// shorter, or where they are not there.
    pub(super) fn left_out(&self, record: &[u8], further: usize) -> Option<Vec<u8>> {
        let again: usize = self.0.iter().map(|again| again.length).sum();
        // Each takes ten bytes of the two that tell it at most, and the last literal as many.
        let most = record.len().saturating_sub(again) + 20 * (self.0.len() + 1);
        if self.0.is_empty() || !self.0.iter().all(|again| again.is_in(record, further)) {
            return None;
        }
        let (mut packed, mut literal) = (Vec::with_capacity(most), 0);
        for again in &self.0 {
            let start = again.start + further;
            put(&mut packed, start - literal);
            packed.extend_from_slice(&record[literal..start]);
            put(&mut packed, again.length);
            put(&mut packed, again.back);
            literal = start + again.length;
        }
        put(&mut packed, record.len() - literal);
        packed.extend_from_slice(&record[literal..]);
        (packed.len() < record.len() / 8 * 7).then_some(packed)
    }
}

/// The record that was packed, of so many bytes; none if it is none.
pub(super) fn unpack(mut packed: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut record = Vec::with_capacity(bytes.min(BYTES_MAX));
    while !packed.is_empty() {
        let literal = take(&mut packed)?;
        let (said, rest) = packed.split_at_checked(literal)?;
        record.extend_from_slice(said);
        packed = rest;
        if packed.is_empty() {
            break;
        }
        let (length, back) = (take(&mut packed)?, take(&mut packed)?);
        let from = record.len().checked_sub(back).filter(|_| back > 0)?;
        if length > bytes.checked_sub(record.len())? {
            return None;
        }
        // It may reach into itself: as much as there is, again and again.
        let mut left = length;
        while left > 0 {
            let piece = left.min(record.len() - from);
            record.extend_from_within(from..from + piece);
            left -= piece;
        }
    }
    (record.len() == bytes).then_some(record)
}

/// How far two stretches are the same. Block by block first: that is many times as fast, and what repeats is long.
fn alike(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK));
    let whole = blocks.take_while(|(one, other)| one == other).count() * BLOCK;
    let rest = one[whole..].iter().zip(&other[whole..]);
    whole + rest.take_while(|(one, other)| one == other).count()
}

fn put(to: &mut Vec<u8>, number: usize) {
    varints::put(to, u64::try_from(number).unwrap_or(u64::MAX));
}

fn take(from: &mut &[u8]) -> Option<usize> {
    usize::try_from(varints::take(from)?).ok()
}

/// A hash of a block that can be moved on by a byte.
struct Rolling(u64);

impl Rolling {
    /// That of the block at a place; nothing where there is none.
    fn at(record: &[u8], at: usize) -> Self {
        let block = record.get(at..at + BLOCK).unwrap_or_default();
        Self(block.iter().fold(0, |hash, byte| next(hash, *byte)))
    }

    /// That of the block one further on.
    fn roll(&mut self, record: &[u8], at: usize) {
        if let (Some(out), Some(into)) = (record.get(at), record.get(at + BLOCK)) {
            let gone = u64::from(*out).wrapping_add(1).wrapping_mul(LAST);
            self.0 = next(self.0.wrapping_sub(gone), *into);
        }
    }
}

fn next(hash: u64, byte: u8) -> u64 {
    hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1)
}

/// What the first byte of a block counts for.
const LAST: u64 = {
    let (mut power, mut count) = (1_u64, 1);
    while count < BLOCK {
        power = power.wrapping_mul(BASE);
        count += 1;
    }
    power
};

/// Where blocks were seen: one place for each of their hashes, so that nobody can make a look take long.
struct Seen {
    places: Vec<u32>,
    bits: u32,
}

impl Seen {
    fn new(bytes: usize) -> Self {
        let size = (bytes / BLOCK * 2).next_power_of_two();
        Self { places: vec![u32::MAX; size], bits: size.trailing_zeros() }
    }

    fn slot(&self, hash: u64) -> usize {
        let mixed = hash.wrapping_mul(BASE) >> 32;
        usize::try_from(mixed).unwrap_or_default() & ((1 << self.bits) - 1)
    }

    fn remember(&mut self, at: usize, hash: u64) {
        let slot = self.slot(hash);
        self.places[slot] = u32::try_from(at).unwrap_or(u32::MAX);
    }

    /// Where the block at a place was seen before it.
    fn before(&self, record: &[u8], at: usize, hash: u64) -> Option<usize> {
        let from = usize::try_from(self.places[self.slot(hash)]).ok()?;
        let block = record.get(at..at + BLOCK)?;
        (from < at && record.get(from..from + BLOCK) == Some(block)).then_some(from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(record: &[u8]) -> usize {
        let packed = pack(record).unwrap();
        assert_eq!(unpack(&packed, record.len()).as_deref(), Some(record));
        packed.len()
    }

    /// Words that do not repeat.
    fn text(words: u32) -> String {
        let words: Vec<_> =
            (0..words).map(|word| format!("{:x}", word.wrapping_mul(2_654_435_761))).collect();
        words.join(" ")
    }

    #[test]
    fn what_is_said_again_takes_next_to_nothing() {
        let text = text(9_000);
        let record = format!(
            "{{\"input\":\"{text}\",\"message\":\"{text}\",\"prompt\":\"Send this? {text}\"}}"
        );
        let bytes = packed(record.as_bytes());
        assert!(bytes < text.len() + 200, "{bytes} for {} of {}", text.len(), record.len());
        assert!(packed(&[b'a'; 10_000]) < 200, "what repeats itself right away, too");
    }

    #[test]
    fn what_is_said_once_is_stored_as_it_is() {
        assert_eq!(pack(text(9_000).as_bytes()), None);
        assert_eq!(pack(b"short"), None);
    }

    #[test]
    fn what_was_found_in_the_middle_of_a_record_is_left_out_of_the_whole() {
        let text = text(900);
        let middle = format!("{{\"input\":\"{text}\",\"message\":\"{text}\"}}");
        let repeats = Repeats::of(middle.as_bytes());
        for (before, after) in [("", ""), ("some header", ""), ("", "and more"), ("both", "both")] {
            let record = format!("{before}{middle}{after}");
            let packed = repeats.left_out(record.as_bytes(), before.len()).unwrap();
            assert!(packed.len() < text.len() + 200, "{}", packed.len());
            assert_eq!(unpack(&packed, record.len()).as_deref(), Some(record.as_bytes()));
        }
        // Whoever is wrong about where it lies, or what it is, loses nothing.
        for (record, further) in [(middle.as_str(), 1), (text.as_str(), 0), ("", 0), ("", 9_000)] {
            assert_eq!(repeats.left_out(record.as_bytes(), further), None);
        }
    }

    #[test]
    fn what_is_no_packed_record_is_told_from_one() {
        let text = text(500);
        let record = format!("{text}{text}");
        let packed = pack(record.as_bytes()).unwrap();
        assert_eq!(unpack(&packed, record.len() + 1), None);
        assert_eq!(unpack(&packed, record.len() - 1), None);
        assert_eq!(unpack(&[0, 4, 1], 4), None, "nothing was said that could be said again");
        assert_eq!(unpack(&[1, b'a', 4, 0], 5), None);
        assert_eq!(unpack(&[1, b'a', 4, 2], 5), None);
        assert_eq!(unpack(&[1, b'a', 4, 1], 5).as_deref(), Some(&b"aaaaa"[..]));
        assert_eq!(unpack(&[0xFF; 9], 5), None);
        for end in 0..packed.len() {
            let cut = unpack(&packed[..end], record.len());
            assert!(cut.is_none_or(|cut| cut == record.as_bytes()), "{end}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_packed_comes_back(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6),
            order in prop::collection::vec(0_usize..6, 1..30),
        ) {
            let record: Vec<u8> = order.iter().flat_map(|at| pieces[at % pieces.len()].clone()).collect();
            if let Some(packed) = pack(&record) {
                prop_assert!(packed.len() < record.len());
                prop_assert_eq!(unpack(&packed, record.len()), Some(record));
            }
        }

        #[test]
        fn rubbish_is_never_more_than_it_says(packed in prop::collection::vec(any::<u8>(), 0..400), bytes in 0_usize..5_000) {
            if let Some(record) = unpack(&packed, bytes) {
                prop_assert_eq!(record.len(), bytes);
            }
        }
    }
}
