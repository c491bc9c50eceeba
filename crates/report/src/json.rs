//! JSON written straight into a buffer, for large results: building values first would be slower.

use std::borrow::Cow;

/// Appends `text` as a JSON string. Bytes that are not UTF-8 become U+FFFD.
///
/// ```
/// let mut out = Vec::new();
/// waypost_report::push_json_string(b"say \"ja\"\n", &mut out);
/// assert_eq!(out, br#""say \"ja\"\n""#);
/// ```
pub fn push_json_string(text: &[u8], out: &mut Vec<u8>) {
    let text: Cow<'_, str> = String::from_utf8_lossy(text);
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut written = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[written..at]);
        written = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                out.extend_from_slice(b"\\u00");
                for digit in [control >> 4, control & 15] {
                    out.push(b"0123456789abcdef"[usize::from(digit)]);
                }
            }
        }
    }
    out.extend_from_slice(&bytes[written..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &[u8]) -> String {
        let mut out = Vec::new();
        push_json_string(text, &mut out);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn every_byte_that_json_forbids_is_escaped_and_nothing_else() {
        assert_eq!(json(b""), r#""""#);
        assert_eq!(
            json("http://é.com/?a=b&c".as_bytes()),
            "\"http://é.com/?a=b&c\""
        );
        assert_eq!(json(b"a\"b\\c/"), r#""a\"b\\c/""#);
        assert_eq!(
            json(b"\n\r\t\x00\x1f\x7f"),
            "\"\\n\\r\\t\\u0000\\u001f\x7f\""
        );
        assert_eq!(json(b"a\xffb"), "\"a\u{fffd}b\"");
    }
}
