//! Text in the forms of other tools: Python's JSON, base32, base64, percent-encoding.

use std::borrow::Cow;

/// Bytes of a head as text: UTF-8, else ISO 8859-1.
pub(super) fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes
            .iter()
            .map(|&byte| byte as char)
            .collect::<String>()
            .into(),
    }
}

/// Appends a string of JSON in ASCII, as Python's `json.dumps` writes it.
pub(super) fn push_json(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let is_plain = |&byte: &u8| matches!(byte, b' '..=b'\x7f') && byte != b'"' && byte != b'\\';
    let plain = text.bytes().take_while(|byte| is_plain(byte)).count();
    out.extend_from_slice(&text.as_bytes()[..plain]);
    for c in text[plain..].chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            ' '..='\u{7f}' => out.push(c as u8),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
    out.push(b'"');
}

/// Base32 of a SHA-1, which needs no padding.
pub(super) fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    bytes
        .chunks(5)
        .flat_map(|chunk| {
            let mut five = [0; 8];
            five[3..3 + chunk.len()].copy_from_slice(chunk);
            let value = u64::from_be_bytes(five);
            (0..8)
                .rev()
                .map(move |place| LETTERS[(value >> (5 * place) & 31) as usize] as char)
        })
        .collect()
}

/// Base64 with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let value = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let letter = LETTERS[(value >> (18 - 6 * place) & 63) as usize] as char;
            out.push(if place <= chunk.len() { letter } else { '=' });
        }
    }
    out
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Appends bytes as a form does: letters, digits and `_.-~` as they are, a space as `+`.
pub(super) fn push_form(bytes: &[u8], out: &mut String) {
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                out.push(byte as char);
            }
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// Undoes [`push_form`]; bytes that are not UTF-8 become U+FFFD.
pub(super) fn form_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes
            .get(at + 1..at + 3)
            .filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        match (byte, hex) {
            (b'%', Some(hex)) => {
                let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
                out.push(digit(hex[0]) << 4 | digit(hex[1]));
                at += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_those_of_their_standards() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
        assert_eq!(base32(b"foobar1234"), "MZXW6YTBOIYTEMZU");
        let mut json = Vec::new();
        push_json("a\"\u{e9}\u{1f4a9}\u{1}\u{7f}", &mut json);
        assert_eq!(json, b"\"a\\\"\\u00e9\\ud83d\\udca9\\u0001\x7f\"");
        assert_eq!(form_decoded("a+b%20c%zz%e9"), "a b c%zz\u{fffd}");
    }
}
