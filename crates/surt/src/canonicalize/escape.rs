//! Percent escapes: decoded completely, then encoded again in one way.

use super::commoncrawl::Edition;

/// The value of a hexadecimal digit.
fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Appends `text` to `out` with every `%HH` replaced by its byte, repeatedly until none is
/// left: `%2541` becomes `A`.
///
/// One pass with a stack is equivalent to repeated passes, because two escapes never overlap; repeated
/// passes would take quadratic time on `%252525…`.
pub(super) fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let Some(first) = memchr::memchr(b'%', text) else {
        out.extend_from_slice(text);
        return;
    };
    let start = out.len();
    out.extend_from_slice(&text[..first]);
    for &byte in &text[first..] {
        out.push(byte);
        while let [.., b'%', high, low] = out[start..]
            && let (Some(high), Some(low)) = (hex(high), hex(low))
        {
            out.truncate(out.len() - 3);
            out.push(high << 4 | low);
        }
    }
}

/// Whether this byte is not escaped in a SURT. Control characters, space, DEL, everything above ASCII,
/// `#` and `%` are escaped.
fn is_plain(byte: u8) -> bool {
    (byte > b' ') & (byte < 0x7F) & (byte != b'#') & (byte != b'%')
}

/// Whether there is nothing to escape, which is the usual case. Has no early exits, so that it is
/// vectorised.
fn all_plain(text: &[u8]) -> bool {
    text.iter()
        .fold(true, |plain, &byte| plain & is_plain(byte))
}

/// Appends `text` to `out` in lower case and escaped.
pub(super) fn escape_lower(text: &[u8], out: &mut Vec<u8>) {
    // Usually there is nothing to escape. Has no early exits, so that it is vectorised.
    if text
        .iter()
        .fold(true, |plain, &byte| plain & is_plain(byte))
    {
        let start = out.len();
        out.extend_from_slice(text);
        out[start..].make_ascii_lowercase();
        return;
    }
    for &byte in text {
        if is_plain(byte) {
            out.push(byte.to_ascii_lowercase());
        } else {
            push_escape(byte, out);
        }
    }
}

/// Appends `%hh`.
pub(super) fn push_escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(&[
        b'%',
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]);
}

/// Decodes escapes of ASCII and of valid UTF-8. Other bytes stay escaped, because this is for dialects
/// that work on text. The result is in one of the buffers.
pub(super) fn unescaped_text<'a>(
    text: &'a [u8],
    buffer: &'a mut Vec<u8>,
    letters: &'a mut Vec<u8>,
) -> &'a [u8] {
    let Some(first) = memchr::memchr(b'%', text) else {
        return text;
    };
    buffer.clear();
    buffer.extend_from_slice(&text[..first]);
    let mut above_ascii = false;
    for &byte in &text[first..] {
        buffer.push(byte);
        while let [.., b'%', high, low] = buffer[..]
            && let (Some(high), Some(low)) = (hex(high), hex(low))
        {
            if high >= 8 {
                above_ascii = true;
                break;
            }
            buffer.truncate(buffer.len() - 3);
            buffer.push(high << 4 | low);
        }
    }
    if !above_ascii {
        return buffer;
    }
    letters.clear();
    let mut rest = &buffer[..];
    while let Some(&byte) = rest.first() {
        match escaped_letter(rest) {
            Some((letter, length)) => {
                letters.extend_from_slice(&letter[..length]);
                rest = &rest[3 * length..];
            }
            None => {
                letters.push(byte);
                rest = &rest[1..];
            }
        }
    }
    letters
}

/// The non-ASCII character that the escapes at the start of `text` encode in UTF-8, and its length.
fn escaped_letter(text: &[u8]) -> Option<([u8; 4], usize)> {
    let escape = |text: &[u8]| match *text {
        [b'%', high, low, ..] => Some(hex(high)? << 4 | hex(low)?),
        _ => None,
    };
    let length = match escape(text)? {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => return None,
    };
    let mut letter = [0; 4];
    for (i, byte) in letter[..length].iter_mut().enumerate() {
        *byte = escape(text.get(3 * i..)?)?;
    }
    std::str::from_utf8(&letter[..length]).ok()?;
    Some((letter, length))
}

/// Appends `text` escaped like Java's escaper does: control characters, space, everything above ASCII,
/// `#` and `%`, except that the current edition keeps existing escapes.
pub(super) fn escape_text(text: &[u8], edition: Edition, out: &mut Vec<u8>) {
    if all_plain(text) {
        out.extend_from_slice(text);
        return;
    }
    for (i, &byte) in text.iter().enumerate() {
        let plain = match byte {
            b'%' => {
                edition == Edition::Current
                    && matches!(text[i..], [_, high, low, ..]
                        if hex(high).is_some() && hex(low).is_some())
            }
            b'#' => false,
            _ => byte > b' ' && byte <= 0x7F,
        };
        if plain {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unescaped(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        unescape(text, &mut out);
        out
    }

    /// The definition: repeated passes until nothing changes.
    fn by_repeated_passes(text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        loop {
            let mut next = Vec::new();
            let mut i = 0;
            while i < text.len() {
                match text[i..] {
                    [b'%', high, low, ..] if hex(high).is_some() && hex(low).is_some() => {
                        next.push(hex(high).unwrap() << 4 | hex(low).unwrap());
                        i += 3;
                    }
                    _ => {
                        next.push(text[i]);
                        i += 1;
                    }
                }
            }
            if next == text {
                return text;
            }
            text = next;
        }
    }

    #[test]
    fn escapes_are_undone_to_the_last() {
        assert_eq!(unescaped(b"%2541%41%4"), b"AA%4");
        assert_eq!(unescaped(b"%%34%31"), b"A");
        assert_eq!(unescaped(b"%zz%"), b"%zz%");
    }

    #[test]
    fn a_megabyte_of_nested_escapes_takes_linear_time() {
        let mut nested = b"%".to_vec();
        nested.extend(b"25".repeat(500_000));
        assert_eq!(unescaped(&nested), b"%");
    }

    proptest! {
        #[test]
        fn one_pass_equals_repeated_passes(text in "[%0-9a-fA-F2]{0,40}") {
            prop_assert_eq!(unescaped(text.as_bytes()), by_repeated_passes(text.as_bytes()));
        }
    }
}
