//! Packing: a record as it lies in the tree of a directory, in fewer bytes: LZ4, with a dictionary of the words that
//! all records use. It belongs to the stored form, and knows nothing of what records mean. It seals nothing: what is
//! checked (J6) and hashed (J13) is what was packed.
//!
//! ```text
//! packed  =  4 │ dictionary u8 │ length u16 LE │ LZ4 block
//! ```

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

/// The first byte of what is packed. Records begin with their format, which is another, and a place whose value lies
/// in chunks with 0.
pub const PACKED: u8 = 4;
/// The dictionary that is packed with. Once written it never changes: others get another number.
pub const DICTIONARY: u8 = 1;
/// Its words, as JSON has them between the values.
const WORDS: &[u8] = include_bytes!("dictionary_1.txt");
const HEADER_BYTES: usize = 4;
/// Shorter ones are stored as they are: they hardly become shorter.
const BYTES_MIN: usize = 96;

/// A record, packed; none where that would hardly be shorter.
pub fn pack(record: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(record.len()).ok().filter(|_| record.len() >= BYTES_MIN)?;
    let block = squeeze(record)?;
    let [low, high] = length.to_le_bytes();
    Some([&[PACKED, DICTIONARY, low, high], &block[..]].concat())
}

/// The record that was packed; none if these bytes are no such thing.
pub fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let (&[_, dictionary, low, high], block) = packed.split_first_chunk::<HEADER_BYTES>()?;
    release(dictionary, block, usize::from(u16::from_le_bytes([low, high])))
}

/// Whether a value is one that was packed.
pub fn is_packed(value: &[u8]) -> bool {
    value.first() == Some(&PACKED) && value.len() > HEADER_BYTES
}

/// The same of bytes of any length, whose length is kept elsewhere.
pub(super) fn squeeze(bytes: &[u8]) -> Option<Vec<u8>> {
    let block = compress_with_dict(bytes, WORDS);
    (block.len() < bytes.len() / 8 * 7).then_some(block)
}

/// So many bytes that were squeezed; none if they are not.
pub(super) fn release(dictionary: u8, block: &[u8], bytes: usize) -> Option<Vec<u8>> {
    if dictionary != DICTIONARY {
        return None;
    }
    let whole = decompress_with_dict(block, bytes, WORDS).ok()?;
    (whole.len() == bytes).then_some(whole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::digest;

    #[test]
    fn a_dictionary_that_was_written_with_never_changes() {
        assert_eq!(
            digest::of_bytes(WORDS),
            "d8704c2c82ffd0eae2c2bdcf33d88cb5a2f79f4512087914072d3edead1ffce5"
        );
    }

    #[test]
    fn a_record_of_every_run_takes_less_than_half() {
        let record = br#"2....{"at":1794965274287,"events":[{"started":{"session":"ses_01m7p48znf","workflow":"approve_and_send","definition":"8c81","owner":"ada","door":"grpc","input":"Ask.","seed":"a22c","epoch":"8138","known":{"assurance":"proven","credential":"machine"}}},{"opened":{"path":"draft","opening":"step"}}]}"#;
        let packed = pack(record).unwrap();
        assert!(packed.len() < record.len() / 2, "{} of {}", packed.len(), record.len());
        assert!(is_packed(&packed));
        assert_eq!(unpack(&packed).unwrap(), record);
    }

    proptest! {
        #[test]
        fn whatever_is_packed_comes_back(record in prop::collection::vec(0_u8..6, 0..5000)) {
            if let Some(packed) = pack(&record) {
                prop_assert!(packed.len() < record.len());
                prop_assert_eq!(unpack(&packed), Some(record));
            }
        }

        #[test]
        fn what_rotted_is_another_record_or_none_and_never_a_longer_one(
            record in "[a-d\"]{96,600}", at in 0_usize..600, byte: u8,
        ) {
            let Some(mut packed) = pack(record.as_bytes()) else { return Ok(()) };
            let at = at % packed.len();
            packed[at] = byte;
            if let Some(found) = unpack(&packed) {
                prop_assert!(u16::try_from(found.len()).is_ok());
            }
        }
    }
}
