//! Original URIs as people type them: with or without a scheme, percent-encoded or not.
//!
//! A URI at the end of a path can be percent-encoded as a whole (`http%3A%2F%2Fa.example%2F`) or not at
//! all. Only the former is decoded: `%2F` and `%26` in a URI that was not encoded belong to it.

use std::fmt::Write as _;

/// Reads an original URI as it is typed on a command line or in a parameter: adds `http://` if there
/// is no scheme, encodes what a URI cannot have and drops a fragment. `None` if it is not a URI.
///
/// ```
/// use waypost_router::original_uri;
///
/// assert_eq!(original_uri("example.com/a b").as_deref(), Some("http://example.com/a%20b"));
/// assert_eq!(original_uri("http://example.com:port/"), None);
/// ```
pub fn original_uri(text: &str) -> Option<String> {
    normalise(text.trim().as_bytes())
}

/// The same for the end of a path, which may be percent-encoded as a whole.
pub(crate) fn from_path(text: &str) -> Option<String> {
    match is_encoded(text) {
        true => normalise(&percent_decoded(text)?),
        false => normalise(text.as_bytes()),
    }
}

/// Whether a URI at the end of a path is percent-encoded as a whole: its scheme is, or it has none
/// and no delimiters.
fn is_encoded(text: &str) -> bool {
    let scheme = text.bytes().take_while(|byte| is_scheme(*byte)).count();
    let (scheme, rest) = text.split_at(scheme);
    let starts = rest.get(..3).unwrap_or_default();
    let encoded_colon = !scheme.is_empty() && starts.eq_ignore_ascii_case("%3a");
    encoded_colon || !text.contains(['/', '?'])
}

fn is_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// The bytes of a percent-encoded text; `None` if a `%` is not followed by two hexadecimal digits.
pub(crate) fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'%' {
            let digits = rest
                .get(..2)
                .filter(|two| two.iter().all(u8::is_ascii_hexdigit))?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

fn normalise(text: &[u8]) -> Option<String> {
    let text = text.split(|byte| *byte == b'#').next().unwrap_or_default();
    let length = text.iter().take_while(|byte| is_scheme(**byte)).count();
    let (scheme, rest) = text.split_at(length);
    let scheme = String::from_utf8_lossy(scheme).to_ascii_lowercase();
    let is_web = matches!(&scheme[..], "http" | "https");
    let (scheme, rest) = match rest {
        [b':', b'/', b'/', rest @ ..] if !scheme.is_empty() => (&scheme[..], rest),
        // Proxies that clean paths leave one slash.
        [b':', b'/', rest @ ..] if is_web => (&scheme[..], rest),
        _ => ("http", text),
    };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
    let (authority, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let path = rest.iter().position(|byte| *byte == b'?');
    let (path, query) = rest.split_at(path.unwrap_or(rest.len()));
    let mut uri = format!("{scheme}://");
    if !is_authority(authority) {
        return None;
    }
    encode(authority, b"", &mut uri)?;
    encode(path, b"\\^`{|}", &mut uri)?;
    encode(query, b"", &mut uri)?;
    Some(uri)
}

/// Whether the part between `//` and the path has a host, and a port of digits if it has one.
fn is_authority(authority: &[u8]) -> bool {
    let at = authority.iter().rposition(|byte| *byte == b'@');
    let address = &authority[at.map_or(0, |at| at + 1)..];
    let (host, behind) = match address.iter().position(|byte| *byte == b']') {
        Some(end) if address.starts_with(b"[") => address.split_at(end + 1),
        _ => {
            let colon = address.iter().position(|byte| *byte == b':');
            address.split_at(colon.unwrap_or(address.len()))
        }
    };
    let is_host = |byte: &u8| {
        byte.is_ascii_alphanumeric() || *byte >= 0x80 || b"-_.~!$&'()*+,;=%[]:".contains(byte)
    };
    // ASCII cannot be percent-encoded in a host: it would hide what it names.
    let hides = host.windows(2).any(|two| two[0] == b'%' && two[1] < b'8');
    let port = match behind {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    !host.is_empty() && host.iter().all(is_host) && !hides && port
}

/// Appends bytes, of which those that a URI cannot have and those of `also` are encoded. `None` if a
/// `%` is not followed by two hexadecimal digits.
fn encode(bytes: &[u8], also: &[u8], out: &mut String) -> Option<()> {
    for (place, &byte) in bytes.iter().enumerate() {
        match byte {
            b'%' => {
                let digits = bytes.get(place + 1..place + 3)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                out.push('%');
            }
            b'<' | b'>' | b'"' | 0..=b' ' | 0x7F.. => {
                let _ = write!(out, "%{byte:02X}");
            }
            _ if also.contains(&byte) => {
                let _ = write!(out, "%{byte:02X}");
            }
            _ => out.push(byte as char),
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_keeps_what_belongs_to_it() {
        for (text, uri) in [
            ("http://example.com/", "http://example.com/"),
            ("example.com", "http://example.com"),
            ("example.com/a?b=c", "http://example.com/a?b=c"),
            ("HTTPS://Example.com/A", "https://Example.com/A"),
            (
                "http://example.com/p?x=1&y=http://z/%20q",
                "http://example.com/p?x=1&y=http://z/%20q",
            ),
            (
                "http%3A%2F%2Fexample.com%2Fa%20b%3Fq%3D1",
                "http://example.com/a%20b?q=1",
            ),
            ("http%3A//example.com/a%3Fb", "http://example.com/a?b"),
            ("example.com%2Fa%26b", "http://example.com/a&b"),
            // Only what was encoded as a whole is decoded.
            (
                "http://example.com/a%2Fb?q=AT%26T",
                "http://example.com/a%2Fb?q=AT%26T",
            ),
            ("http://example.com/a%23frag", "http://example.com/a%23frag"),
            (
                "http%3A%2F%2Fexample.com%2Fa%2523frag",
                "http://example.com/a%23frag",
            ),
            (
                "http%3A%2F%2Fexample.com%2Fa%23frag",
                "http://example.com/a",
            ),
            ("http://example.com/%C3%A9", "http://example.com/%C3%A9"),
            (
                "http%3A%2F%2Fexample.com%2F%C3%A9?%FF",
                "http://example.com/%C3%A9?%FF",
            ),
            ("http:/example.com/", "http://example.com/"),
            ("ftp://example.com/", "ftp://example.com/"),
            ("example.com:8080/", "http://example.com:8080/"),
            (
                "http://user:pass@example.com:80/",
                "http://user:pass@example.com:80/",
            ),
            ("http://[::1]:80/", "http://[::1]:80/"),
            ("http://example.com/a|b?c|d", "http://example.com/a%7Cb?c|d"),
        ] {
            assert_eq!(from_path(text).as_deref(), Some(uri), "{text}");
        }
        assert_eq!(
            original_uri(" http://é.example/a b\n").as_deref(),
            Some("http://%C3%A9.example/a%20b")
        );
    }

    #[test]
    fn what_is_not_a_uri_is_refused() {
        for text in [
            "http://",
            "http:///a",
            "?a",
            "http://exa%20mple.com:port/",
            "http://exa%20mple.com/",
            "http://example.com:port/",
            "http://a b/",
            "http://example.com/%zz",
            "http://example.com/?100%",
            "example.com%2",
            "http://[::1]x/",
            "http://a\"b/",
        ] {
            assert_eq!(from_path(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_uri_that_was_read_is_read_the_same_again(text in ".*") {
            if let Some(uri) = from_path(&text) {
                proptest::prop_assert_eq!(from_path(&uri), Some(uri.clone()));
                proptest::prop_assert!(uri.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }
}
