//! The forms that keys have in the wild, and the SURT that each stands for.
//!
//! | form | example |
//! |---|---|
//! | SURT | `com,example)/path` |
//! | with a trailing comma | `com,example,)/path` |
//! | in parentheses | `(com,example,)/path` |
//! | with the scheme | `http://(com,example,)/path` |
//! | not reversed | `example.com/path` |
//! | the URL | `http://example.com/path` |
//! | with the port behind | `com,example):8080/path` (OutbackCDX) |
//!
//! A URI-R is known by its SURT, so whoever counts or cuts keys asks a [`Rekeyer`] for it. Forms
//! that only write the SURT in another way are rewritten; the others are made anew from the URL.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memchr2, memchr3};
use waypost_surt::{Canonicalizer, Dialect};

use crate::capture::{Capture, Field};

/// How a key is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyForm {
    /// `com,example)/path`, and keys without a host such as `urn:uuid:…`.
    #[default]
    Surt,
    /// `com,example,)/path`.
    TrailingComma,
    /// `(com,example,)/path`.
    Parenthesis,
    /// `http://(com,example,)/path`.
    WithScheme,
    /// `example.com/path`.
    Host,
    /// `http://example.com/path`.
    Url,
    /// `com,example):8080/path`.
    PortBehind,
}

impl KeyForm {
    /// The form of a key.
    #[inline]
    pub fn of(key: &[u8]) -> KeyForm {
        match memchr3(b')', b'/', b'(', key) {
            Some(place) => match key[place] {
                b')' => KeyForm::reversed(key, place),
                b'(' if place == 0 => KeyForm::Parenthesis,
                b'/' => KeyForm::slash(key, place),
                _ => KeyForm::Surt,
            },
            None => KeyForm::bare(key),
        }
    }

    /// A `)` comes before any slash.
    #[inline]
    fn reversed(key: &[u8], place: usize) -> KeyForm {
        if place > 0 && key[place - 1] == b',' || key[..place].windows(2).any(|w| w == b",:") {
            KeyForm::TrailingComma
        } else if key.get(place + 1) == Some(&b':') {
            KeyForm::PortBehind
        } else {
            KeyForm::Surt
        }
    }

    /// A slash comes first.
    #[cold]
    fn slash(key: &[u8], place: usize) -> KeyForm {
        let colon = memchr(b':', &key[..place]);
        match colon {
            Some(colon) if colon + 1 == place && key[place..].starts_with(b"//(") => {
                KeyForm::WithScheme
            }
            Some(colon) if colon + 1 == place && key[place..].starts_with(b"//") => KeyForm::Url,
            // `dns:a/b` and `urn:…` are what the SURT is; `example.com:8080/x` is not.
            Some(colon) if !key[..colon].contains(&b'.') => KeyForm::Surt,
            _ => KeyForm::Host,
        }
    }

    /// Neither a slash nor a parenthesis.
    #[cold]
    fn bare(key: &[u8]) -> KeyForm {
        let host = &key[..memchr2(b':', b'?', key).unwrap_or(key.len())];
        if host.contains(&b'.') && !host.contains(&b',') {
            KeyForm::Host
        } else {
            KeyForm::Surt
        }
    }

    /// Whether the key is as it should be, and sorts as it should.
    pub fn is_surt(self) -> bool {
        self == KeyForm::Surt
    }
}

impl fmt::Display for KeyForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyForm::Surt => "are SURTs",
            KeyForm::TrailingComma => "with a trailing comma",
            KeyForm::Parenthesis => "in parentheses",
            KeyForm::WithScheme => "with the scheme",
            KeyForm::Host => "not reversed",
            KeyForm::Url => "are URLs",
            KeyForm::PortBehind => "with the port behind",
        })
    }
}

/// Gives the SURT of captures, whatever the form of their keys.
pub struct Rekeyer {
    canonicalizer: Canonicalizer,
    buffer: Vec<u8>,
}

impl Rekeyer {
    /// Makes SURTs by the rules of `dialect` where they must be made anew.
    pub fn new(dialect: Dialect) -> Rekeyer {
        Rekeyer {
            canonicalizer: Canonicalizer::new(dialect),
            buffer: Vec::new(),
        }
    }

    /// The SURT of a capture. Keys that are none are made from the URL, which must have been asked
    /// for; without one, from the key itself. What no SURT can be made of is given as it is: two
    /// captures with the same key are still the same URI-R.
    #[inline]
    pub fn surt<'b>(&'b mut self, capture: &'b Capture<'_>) -> &'b [u8] {
        match KeyForm::of(capture.key()) {
            KeyForm::Surt => capture.key(),
            form => self.rewritten(capture, form),
        }
    }

    #[cold]
    fn rewritten<'b>(&'b mut self, capture: &'b Capture<'_>, form: KeyForm) -> &'b [u8] {
        let key = capture.key();
        self.buffer.clear();
        match form {
            KeyForm::Surt => return key,
            KeyForm::Host | KeyForm::Url => {
                let url = capture.text(Field::Url);
                let uri = url.as_deref().unwrap_or(key);
                if self
                    .canonicalizer
                    .canonicalize(uri, &mut self.buffer)
                    .is_err()
                {
                    return key;
                }
                if let Cow::Owned(usual) = usual_form(&self.buffer) {
                    self.buffer = usual;
                }
            }
            _ => self.buffer.extend_from_slice(&usual_form(key)),
        }
        &self.buffer
    }
}

/// A SURT in its usual form: without commas behind its host, parentheses around it, the scheme before
/// it, or a port behind it. What was rewritten may be rewritten again (`com,,)/`), so that two
/// spellings of a SURT that differ only in these end as one. Keys that are not reversed are left.
pub fn usual_form(surt: &[u8]) -> Cow<'_, [u8]> {
    let mut usual = Cow::Borrowed(surt);
    loop {
        let mut next = Vec::with_capacity(usual.len());
        match KeyForm::of(&usual) {
            KeyForm::Surt | KeyForm::Host | KeyForm::Url => return usual,
            KeyForm::TrailingComma => without_comma(&usual, &mut next),
            KeyForm::Parenthesis => without_comma(&usual[1..], &mut next),
            KeyForm::WithScheme => {
                let open = memchr(b'(', &usual).unwrap_or(0);
                without_comma(&usual[open + 1..], &mut next);
            }
            KeyForm::PortBehind => port_before(&usual, &mut next),
        }
        if next == *usual {
            return usual;
        }
        usual = Cow::Owned(next);
    }
}

/// `com,example,)/a` → `com,example)/a`; `com,example,:8080)/a` → `com,example:8080)/a`.
fn without_comma(key: &[u8], out: &mut Vec<u8>) {
    let close = memchr(b')', key).unwrap_or(key.len());
    let (host, rest) = key.split_at(close);
    let colon = memchr(b':', host).unwrap_or(host.len());
    let (labels, port) = host.split_at(colon);
    out.extend_from_slice(labels.strip_suffix(b",").unwrap_or(labels));
    out.extend_from_slice(port);
    out.extend_from_slice(rest);
}

/// `com,example):8080/a` → `com,example:8080)/a`.
fn port_before(key: &[u8], out: &mut Vec<u8>) {
    let close = memchr(b')', key).unwrap_or(key.len());
    let rest = key.get(close + 1..).unwrap_or_default();
    let port = rest
        .iter()
        .position(|byte| !matches!(byte, b':' | b'0'..=b'9'))
        .unwrap_or(rest.len());
    out.extend_from_slice(&key[..close]);
    out.extend_from_slice(&rest[..port]);
    out.push(b')');
    out.extend_from_slice(&rest[port..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surt(key: &str, url: &str) -> String {
        let mut capture = Capture::new(b"", key.as_bytes(), b"2004");
        capture.set(Field::Url, url.as_bytes());
        let mut rekeyer = Rekeyer::new(Dialect::Ia);
        String::from_utf8(rekeyer.surt(&capture).to_vec()).unwrap()
    }

    #[test]
    fn every_form_of_a_key_gives_its_surt() {
        let cases = [
            ("com,example)/a", KeyForm::Surt, "com,example)/a"),
            (
                "com,example)/a?(b)=http://c",
                KeyForm::Surt,
                "com,example)/a?(b)=http://c",
            ),
            ("com,example:8080)/a", KeyForm::Surt, "com,example:8080)/a"),
            ("com,example,)/a", KeyForm::TrailingComma, "com,example)/a"),
            ("com,,)/a", KeyForm::TrailingComma, "com)/a"),
            (
                "(com,example),)/a",
                KeyForm::Parenthesis,
                "com,example),)/a",
            ),
            (
                "com,example,:8080)/a",
                KeyForm::TrailingComma,
                "com,example:8080)/a",
            ),
            ("(com,example,)/a", KeyForm::Parenthesis, "com,example)/a"),
            (
                "http://(com,example,)/a",
                KeyForm::WithScheme,
                "com,example)/a",
            ),
            (
                "https://(com,example,:8443)/",
                KeyForm::WithScheme,
                "com,example:8443)/",
            ),
            ("example.com/a", KeyForm::Host, "com,example)/a"),
            ("example.com", KeyForm::Host, "com,example)/"),
            ("http://www.example.com/A/", KeyForm::Url, "com,example)/a"),
            (
                "com,example):8080/a",
                KeyForm::PortBehind,
                "com,example:8080)/a",
            ),
            ("urn:uuid:1", KeyForm::Surt, "urn:uuid:1"),
            ("dns:example.com", KeyForm::Surt, "dns:example.com"),
            ("-", KeyForm::Surt, "-"),
        ];
        for (key, form, expected) in cases {
            assert_eq!(KeyForm::of(key.as_bytes()), form, "{key}");
            assert_eq!(surt(key, "-"), expected, "{key}");
        }
    }

    #[test]
    fn a_key_that_is_not_reversed_is_made_from_the_url() {
        assert_eq!(
            surt(
                "example.com/path",
                "http://www.example.com:8080/Path?b=1&a=2"
            ),
            "com,example:8080)/path?a=2&b=1"
        );
        assert_eq!(
            surt("example.com:99999/", "http://example.com:99999/"),
            "example.com:99999/"
        );
    }
}
