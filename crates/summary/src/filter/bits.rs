//! Values of 1 to 16 bits, packed without gaps: the first value in the lowest bits of the first byte.

/// All bits of a value that is `width` wide.
#[inline]
pub(crate) fn mask(width: u8) -> u16 {
    ((1u32 << width) - 1) as u16
}

/// The bytes that so many values take; `None` if that is more than 64 bits can count.
pub(crate) fn bytes_for(values: u64, width: u8) -> Option<u64> {
    Some(values.checked_mul(u64::from(width))?.div_ceil(8))
}

/// The value that begins at a bit; zeros where `bytes` ends too early.
#[inline]
pub(crate) fn get(bytes: &[u8], width: u8, bit: u64) -> u16 {
    let start = (bit >> 3) as usize;
    let word = match bytes.get(start..).and_then(<[u8]>::first_chunk::<4>) {
        Some(four) => u32::from_le_bytes(*four),
        None => last(bytes, start),
    };
    (word >> (bit & 7)) as u16 & mask(width)
}

#[cold]
fn last(bytes: &[u8], start: usize) -> u32 {
    let rest = bytes.get(start..).unwrap_or_default();
    let mut four = [0; 4];
    four[..rest.len().min(4)].copy_from_slice(&rest[..rest.len().min(4)]);
    u32::from_le_bytes(four)
}

/// Appends the values. Their bits above `width` must be zero.
pub(crate) fn pack(values: &[u16], width: u8, out: &mut Vec<u8>) {
    out.reserve((values.len() * usize::from(width)).div_ceil(8));
    if width == 8 {
        out.extend(values.iter().map(|&value| value as u8));
        return;
    }
    let (mut word, mut filled) = (0u64, 0u32);
    for &value in values {
        word |= u64::from(value) << filled;
        filled += u32::from(width);
        if filled >= 32 {
            out.extend_from_slice(&(word as u32).to_le_bytes());
            word >>= 32;
            filled -= 32;
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_packed_is_got(values in proptest::collection::vec(any::<u16>(), 0..200), width in 1u8..=16) {
            let values: Vec<u16> = values.into_iter().map(|value| value & mask(width)).collect();
            let mut bytes = Vec::new();
            pack(&values, width, &mut bytes);
            prop_assert_eq!(bytes.len() as u64, bytes_for(values.len() as u64, width).unwrap());
            for (index, &value) in values.iter().enumerate() {
                prop_assert_eq!(get(&bytes, width, index as u64 * u64::from(width)), value);
            }
        }
    }

    #[test]
    fn beyond_the_end_there_are_zeros() {
        assert_eq!(get(&[0xff], 16, 112), 0);
        assert_eq!(get(&[], 1, 0), 0);
    }

    #[test]
    fn sizes_beyond_32_bits_are_counted() {
        assert_eq!(bytes_for(10_000_000_000, 9), Some(11_250_000_000));
        assert_eq!(bytes_for(u64::MAX, 16), None);
    }
}
