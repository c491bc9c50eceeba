//! The dialects: sets of canonicalisation rules.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A set of canonicalisation rules. Archives that wrote their indexes under different dialects
/// give some URIs different SURTs; a lookup must use the dialect of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// Python `surt` 0.3.1: what pywb, cdxj-indexer and the Internet Archive write.
    #[default]
    Ia,
    /// webarchive-commons 3: Common Crawl from CC-MAIN-2025-05 on.
    CommonCrawl,
    /// webarchive-commons 1.1.9: Common Crawl before that, and OpenWayback.
    CommonCrawlLegacy,
    /// `getSurt` of the npm package `warcio` 2: what Webrecorder's tools write into WACZ files.
    Webrecorder,
    /// `getSurt` of `warcio` 1, which encodes parameters as in forms: what older versions of the same tools wrote.
    WebrecorderLegacy,
}

impl Dialect {
    /// All of them, the default first.
    pub const ALL: [Dialect; 5] = [
        Dialect::Ia,
        Dialect::CommonCrawl,
        Dialect::CommonCrawlLegacy,
        Dialect::Webrecorder,
        Dialect::WebrecorderLegacy,
    ];

    /// The name that users type.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Ia => "ia",
            Dialect::CommonCrawl => "commoncrawl",
            Dialect::CommonCrawlLegacy => "commoncrawl-legacy",
            Dialect::Webrecorder => "webrecorder",
            Dialect::WebrecorderLegacy => "webrecorder-legacy",
        }
    }

    /// Whether it is one of Webrecorder's, which need a scheme.
    pub fn is_webrecorder(self) -> bool {
        matches!(self, Dialect::Webrecorder | Dialect::WebrecorderLegacy)
    }
}

impl Dialect {
    /// A URI as people type it, `example.com/a`, with what the dialect needs to make a SURT of it. Only
    /// Webrecorder's need a scheme in lower case; the others assume one.
    pub fn complete(self, uri: &[u8]) -> Cow<'_, [u8]> {
        if !self.is_webrecorder() {
            return Cow::Borrowed(uri);
        }
        let colon = memchr::memchr(b':', uri);
        let scheme = colon.map(|colon| &uri[..colon]).filter(|scheme| {
            scheme.first().is_some_and(u8::is_ascii_alphabetic)
                && scheme
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-'))
        });
        match scheme {
            None => Cow::Owned([b"http://", uri].concat()),
            Some(scheme) if scheme.iter().any(u8::is_ascii_uppercase) => {
                let rest = &uri[scheme.len()..];
                Cow::Owned([&scheme.to_ascii_lowercase(), rest].concat())
            }
            Some(_) => Cow::Borrowed(uri),
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for an unknown dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a dialect: use ia, commoncrawl, commoncrawl-legacy, webrecorder or webrecorder-legacy"
)]
pub struct UnknownDialect(String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Dialect, UnknownDialect> {
        Dialect::ALL
            .into_iter()
            .find(|dialect| dialect.name() == name)
            .ok_or_else(|| UnknownDialect(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_gets_the_scheme_that_people_leave_out() {
        for (typed, complete) in [
            ("example.com/a", "http://example.com/a"),
            ("HTTPS://Example.com/", "https://Example.com/"),
            ("example.com/?u=http://b", "http://example.com/?u=http://b"),
            ("example.com:8080/", "http://example.com:8080/"),
            ("mailto:a@b.com", "mailto:a@b.com"),
            ("http://a", "http://a"),
        ] {
            let found = Dialect::Webrecorder.complete(typed.as_bytes());
            assert_eq!(found, complete.as_bytes(), "{typed}");
            assert_eq!(Dialect::Ia.complete(typed.as_bytes()), typed.as_bytes());
        }
    }
}
