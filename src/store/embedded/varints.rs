//! Varints: numbers in as few bytes as they need, seven bits each. Nothing of what they count.

/// Writes a number.
pub(super) fn put(to: &mut Vec<u8>, number: u64) {
    let mut left = number;
    loop {
        let [low, ..] = left.to_le_bytes();
        left >>= 7;
        if left == 0 {
            to.push(low & 0x7F);
            return;
        }
        to.push(low | 0x80);
    }
}

/// Reads a number, if there is one.
pub(super) fn take(from: &mut &[u8]) -> Option<u64> {
    let mut number: u64 = 0;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_back_and_what_follows_it_is_left() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), (1 << 63) - 1] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            bytes.push(9);
            let mut left = &bytes[..];
            assert_eq!((take(&mut left), left), (Some(number), &[9][..]));
        }
        assert_eq!(take(&mut &[0x80; 20][..]), None, "it ends nowhere");
        assert_eq!(take(&mut &[0x80][..]), None, "it was cut short");
    }
}
