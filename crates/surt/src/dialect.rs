//! The dialects: sets of canonicalisation rules.

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
}

impl Dialect {
    /// All of them, the default first.
    pub const ALL: [Dialect; 4] = [
        Dialect::Ia,
        Dialect::CommonCrawl,
        Dialect::CommonCrawlLegacy,
        Dialect::Webrecorder,
    ];

    /// The name that users type.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Ia => "ia",
            Dialect::CommonCrawl => "commoncrawl",
            Dialect::CommonCrawlLegacy => "commoncrawl-legacy",
            Dialect::Webrecorder => "webrecorder",
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
#[error("`{0}` is not a dialect: use ia, commoncrawl, commoncrawl-legacy or webrecorder")]
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
