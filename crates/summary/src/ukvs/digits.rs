//! Fast reading and writing of numbers in rows: the general routines would take longer than the
//! rest of a row.

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

/// The leading number of a text, and the rest. Numbers of more than 18 digits are left to the
/// general routine.
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
