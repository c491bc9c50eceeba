//! Numbers in rows: reading and formatting them in the general way would take longer than all the rest
//! of a row.

/// Appends a number.
pub(crate) fn push_digits(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The number that a text begins with, and what is behind it. One of more than 18 digits is left to
/// the general way.
#[inline]
pub(crate) fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut length = 0;
    while let Some(digit) = text.get(length).filter(|byte| byte.is_ascii_digit()) {
        value = value * 10 + u64::from(digit - b'0');
        length += 1;
        if length > 18 {
            return None;
        }
    }
    (length > 0).then(|| (value, &text[length..]))
}
