//! The SURT of a capture, computed from its URL where its key is not that SURT.
//!
//! A lookup canonicalises its URI, so a summary must contain the SURT that the same canonicalisation
//! gives for the capture's URL. The keys of an index may differ from it: some tools keep
//! percent-escapes, `www` or the order of parameters. Every key is therefore compared with its URL,
//! which is cheap as long as they agree.

use std::borrow::Cow;

use memchr::memmem;
use waypost_surt::{Canonicalizer, Dialect, is_surt};

use super::{KeyCheck, KeyForm, usual_form};
use crate::capture::{Capture, Field};

/// Computes the SURT of captures, whatever their keys are.
pub struct Rekeyer {
    canonicalizer: Canonicalizer,
    /// Whether keys that look like SURTs are trusted without comparing them with their URLs.
    trusting: bool,
    /// The other dialects, to find one that fits the keys that differ.
    others: Vec<Canonicalizer>,
    check: KeyCheck,
    buffer: Vec<u8>,
}

impl Rekeyer {
    /// Computes SURTs of `dialect`. Captures must have been read with [`Field::Url`].
    pub fn new(dialect: Dialect) -> Rekeyer {
        Rekeyer {
            canonicalizer: Canonicalizer::new(dialect),
            trusting: false,
            others: Vec::new(),
            check: KeyCheck::default(),
            buffer: Vec::new(),
        }
    }

    /// Trusts keys that look like SURTs and computes only the others: for reports on the index
    /// itself.
    pub fn trusting(dialect: Dialect) -> Rekeyer {
        Rekeyer {
            trusting: true,
            ..Rekeyer::new(dialect)
        }
    }

    /// The comparison of keys with URLs so far.
    pub fn check(&self) -> &KeyCheck {
        &self.check
    }

    /// The SURT of a capture: its key if that is the SURT of its URL, else the SURT computed from the
    /// URL. A capture without a URL, or whose URL has no SURT, keeps its key, converted to the usual
    /// form. So does a capture of a request other than GET, whose key contains the request.
    #[inline]
    pub fn surt<'b>(&'b mut self, capture: &'b Capture<'_>) -> &'b [u8] {
        match self.has_plain_key(capture) {
            true => capture.key(),
            false => self.other_surt(capture),
        }
    }

    /// Whether the key of a capture is the SURT of its URL and plain, as most are: graphic ASCII, in the usual
    /// form. If keys are trusted, they are not compared.
    #[inline]
    pub fn has_plain_key(&mut self, capture: &Capture<'_>) -> bool {
        let is_plain = !self.trusting
            && capture
                .plain(Field::Url)
                .is_some_and(|url| self.canonicalizer.matches_plainly(url, capture.key()));
        self.check.compared += u64::from(is_plain);
        is_plain
    }

    /// The [SURT](Rekeyer::surt) of a capture whose key is not [plain](Rekeyer::has_plain_key).
    #[inline]
    pub fn other_surt<'b>(&'b mut self, capture: &'b Capture<'_>) -> &'b [u8] {
        let key = capture.key();
        match KeyForm::of(key) {
            KeyForm::Surt if self.trusting => key,
            KeyForm::Surt => match capture.url() {
                None => key,
                Some(url) => {
                    self.check.compared += 1;
                    let url = completed(self.canonicalizer.dialect(), &url);
                    if self.canonicalizer.matches(&url, key) {
                        key
                    } else {
                        self.computed(key, &url)
                    }
                }
            },
            form => self.rewritten(capture, form),
        }
    }

    /// The key of a capture, computed again from its URL, whatever its key looks like.
    pub fn new_key<'b>(&'b mut self, capture: &Capture<'_>) -> NewKey<'b> {
        let key = capture.key();
        let Some(mut url) = capture.url() else {
            return NewKey::NoUrl;
        };
        if self.canonicalizer.matches(&url, key) {
            return NewKey::Same;
        }
        if has_request(key, &url) {
            let Some(with_request) = with_request(capture, &url) else {
                return NewKey::Request;
            };
            url = with_request.into();
        }
        self.buffer.clear();
        let result = self.canonicalizer.canonicalize(&url, &mut self.buffer);
        let is_column = !self.buffer.is_empty() && self.buffer.iter().all(|byte| *byte > b' ');
        if result.is_err() || !is_column {
            NewKey::NoSurt
        } else if self.buffer == key {
            NewKey::Same
        } else {
            NewKey::Changed(&self.buffer)
        }
    }

    /// The SURT of a URL whose key differs from it.
    #[cold]
    fn computed<'b>(&'b mut self, key: &'b [u8], url: &[u8]) -> &'b [u8] {
        if has_request(key, url) || !self.canonicalize(url) || self.buffer == key {
            return key;
        }
        if self.others.is_empty() {
            let asked = self.canonicalizer.dialect();
            let others = Dialect::ALL.into_iter().filter(|other| *other != asked);
            self.others = others.map(Canonicalizer::new).collect();
        }
        let fits = self
            .others
            .iter_mut()
            .filter_map(|other| other.matches(url, key).then_some(other.dialect()));
        self.check.add_different(key, &self.buffer, url, fits);
        &self.buffer
    }

    /// The SURT of a capture whose key does not look like one.
    #[cold]
    fn rewritten<'b>(&'b mut self, capture: &'b Capture<'_>, form: KeyForm) -> &'b [u8] {
        let key = capture.key();
        let is_reversed = !matches!(form, KeyForm::Host | KeyForm::Url);
        let url = match capture.text(Field::Url) {
            Some(_) if self.trusting && is_reversed => None,
            Some(url) => Some(url),
            None if is_reversed => None,
            None => Some(key.into()),
        };
        if let Some(url) = url
            && !has_request(key, &url)
            && self.canonicalize(&url)
        {
            return &self.buffer;
        }
        self.buffer.clear();
        self.buffer.extend_from_slice(&usual_form(key));
        &self.buffer
    }

    /// The SURT of a URL; `None` if it has none.
    pub(crate) fn of_url(&mut self, url: &[u8]) -> Option<&[u8]> {
        self.canonicalize(url).then_some(&self.buffer)
    }

    /// Writes the SURT of a URL to the buffer. Returns `false` if it has no SURT.
    fn canonicalize(&mut self, url: &[u8]) -> bool {
        self.buffer.clear();
        let url = completed(self.canonicalizer.dialect(), url);
        let result = self.canonicalizer.canonicalize(&url, &mut self.buffer);
        if let Cow::Owned(usual) = usual_form(&self.buffer) {
            self.buffer = usual;
        }
        result.is_ok()
    }
}

/// A URI with the scheme that Webrecorder's dialects need to make a SURT of it, if it is not a SURT
/// already. Holdings and lookups both go through this, so that `example.com/a` is the same for both.
pub fn completed(dialect: Dialect, uri: &[u8]) -> Cow<'_, [u8]> {
    match dialect.is_webrecorder() && !is_surt(uri) {
        true => dialect.complete(uri),
        false => Cow::Borrowed(uri),
    }
}

/// The key of a capture, computed again from its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewKey<'a> {
    /// The key is the SURT of the URL.
    Same,
    /// The SURT of the URL, which is not the key.
    Changed(&'a [u8]),
    /// The capture has no URL.
    NoUrl,
    /// The URL has no SURT.
    NoSurt,
    /// The key contains a request that is not in the rest of the line.
    Request,
}

/// The URL with the method and the body of the request in the JSON, as it was when the key was made.
#[cold]
fn with_request(capture: &Capture<'_>, url: &[u8]) -> Option<Vec<u8>> {
    let (method, body) = (capture.other("method")?, capture.other("requestBody")?);
    let separator = if url.contains(&b'?') { b'&' } else { b'?' };
    let mut with_request = url.to_vec();
    with_request.push(separator);
    with_request.extend_from_slice(b"__wb_method=");
    with_request.extend_from_slice(&method);
    if !body.is_empty() {
        with_request.push(b'&');
        with_request.extend_from_slice(&body);
    }
    Some(with_request)
}

/// Whether a key contains the method and body of a request that its URL does not have, as written by
/// pywb and related tools.
fn has_request(key: &[u8], url: &[u8]) -> bool {
    [&b"__wb_method="[..], b"__pywb_method="]
        .iter()
        .any(|mark| memmem::find(key, mark).is_some() && memmem::find(url, mark).is_none())
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

    #[test]
    fn a_key_that_is_not_the_surt_of_its_url_is_computed_and_counted() {
        let mut rekeyer = Rekeyer::new(Dialect::Ia);
        let mut surt = |key: &str, url: &str| {
            let mut capture = Capture::new(b"", key.as_bytes(), b"2004");
            capture.set(Field::Url, url.as_bytes());
            String::from_utf8(rekeyer.surt(&capture).to_vec()).unwrap()
        };
        let agreed = [
            ("com,example)/a", "http://www.example.com/A/"),
            ("com,example)/a?b=1&c=2", "http://example.com/a?c=2&b=1"),
        ];
        for (key, url) in agreed {
            assert_eq!(surt(key, url), key);
        }
        // There is nothing to compare without a URL, and the key of a request contains more than its URL.
        for (key, url) in [
            ("com,example)/a%2fb", "-"),
            ("com,example)/a%2fb", "http://example.com:99999/"),
            (
                "com,example)/a?__wb_method=post&x=1",
                "http://example.com/a",
            ),
        ] {
            assert_eq!(surt(key, url), key);
        }
        assert_eq!(
            surt("com,example)/a%2fb%41", "http://example.com/a%2Fb%41"),
            "com,example)/a/ba"
        );
        assert_eq!(
            surt("com,example,www)/", "http://www.example.com/"),
            "com,example)/"
        );
        let check = rekeyer.check();
        assert_eq!((check.compared, check.differ), (6, 2));
        assert_eq!(check.other_dialect(), None);
        let example = check.example.clone().unwrap();
        assert_eq!(example.key, "com,example)/a%2fb%41");
        assert_eq!(example.surt, "com,example)/a/ba");
        assert!(!check.fits());
    }

    #[test]
    fn keys_of_another_dialect_name_it() {
        let mut capture = Capture::new(b"", b"com,example)/", b"2004");
        capture.set(Field::Url, b"http://www.www2.example.com/");
        let mut rekeyer = Rekeyer::new(Dialect::Ia);
        assert_eq!(rekeyer.surt(&capture), b"com,example,www2)/");
        let mut check = KeyCheck::default();
        check.merge(rekeyer.check());
        check.merge(rekeyer.check());
        assert_eq!((check.compared, check.differ), (2, 2));
        assert_eq!(check.other_dialect(), Some(Dialect::CommonCrawl));
    }

    #[test]
    fn keys_of_webrecorder_name_it() {
        let mut rekeyer = Rekeyer::new(Dialect::Ia);
        for (key, url) in [
            ("com,example)/a/", "http://www.Example.com/A/"),
            (
                "com,example)/%c3%a9?a-b&a=1",
                "http://example.com/%C3%A9?a=1&a-b",
            ),
            ("com,example)/", "http://example.com/"),
        ] {
            let mut capture = Capture::new(b"", key.as_bytes(), b"2004");
            capture.set(Field::Url, url.as_bytes());
            rekeyer.surt(&capture);
        }
        let check = rekeyer.check();
        assert_eq!((check.compared, check.differ), (3, 2));
        assert_eq!(check.other_dialect(), Some(Dialect::Webrecorder));
    }
}
