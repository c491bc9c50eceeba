//! Recognises the tool that wrote the JSON. All JSON is parsed the same way; the name is only for
//! reports.

use std::fmt;

use memchr::memmem;

use crate::json::{self, Kind, Next};

/// A tool or archive whose CDXJ can be recognised.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Tool {
    /// pywb's `cdx-indexer -j` and similar tools.
    Pywb,
    /// cdxj-indexer.
    CdxjIndexer,
    /// Webrecorder: browsertrix, WACZ.
    Webrecorder,
    /// Common Crawl.
    CommonCrawl,
    /// Common Crawl with `lastmod` added.
    CommonCrawlLastmod,
    /// OutbackCDX.
    OutbackCdx,
    /// arquivo.pt.
    Arquivo,
    /// InterPlanetary Wayback.
    Ipwb,
    /// webarchive-indexing, used by early Common Crawl.
    WebarchiveIndexing,
    /// A CDX server of the Internet Archive.
    CdxServer,
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tool::Pywb => "pywb",
            Tool::CdxjIndexer => "cdxj-indexer",
            Tool::Webrecorder => "Webrecorder",
            Tool::CommonCrawl => "Common Crawl",
            Tool::CommonCrawlLastmod => "Common Crawl with lastmod",
            Tool::OutbackCdx => "OutbackCDX",
            Tool::Arquivo => "arquivo.pt",
            Tool::Ipwb => "ipwb",
            Tool::WebarchiveIndexing => "webarchive-indexing",
            Tool::CdxServer => "a CDX server",
        })
    }
}

/// Traits of the JSON of some lines, collected line by line.
#[derive(Default)]
pub(super) struct Traits {
    ipwb: bool,
    collection: bool,
    original: bool,
    common_crawl: bool,
    lastmod: bool,
    webrecorder: bool,
    prefixed_sha1: bool,
    short_names: bool,
    server_names: bool,
}

impl Traits {
    pub(super) fn gather(&mut self, timestamp: &[u8], object: &[u8]) {
        self.webrecorder |= timestamp.len() == 17;
        let visited = json::members(object, false, |name, raw| {
            match name {
                b"locator" | b"original_uri" | b"mime_type" | b"header_digest" => self.ipwb = true,
                b"collection" => self.collection = true,
                b"originalLength" | b"originalOffset" | b"originalFilename" => self.original = true,
                b"mime-detected" | b"languages" | b"charset" | b"encoding" => {
                    self.common_crawl = true;
                }
                b"filename" => {
                    self.common_crawl |= memmem::find(raw.bytes, b"CC-MAIN-").is_some();
                }
                b"lastmod" => self.lastmod = true,
                b"recordDigest" => self.webrecorder = true,
                b"offset" | b"length" | b"status" => self.webrecorder |= raw.kind == Kind::Word,
                b"digest" => {
                    self.prefixed_sha1 |= raw.bytes.starts_with(b"sha1:");
                    self.webrecorder |=
                        raw.bytes.starts_with(b"sha-256:") || raw.bytes.starts_with(b"sha256:");
                }
                b"o" | b"w" => self.short_names = true,
                b"original" | b"mimetype" | b"statuscode" => self.server_names = true,
                _ => {}
            }
            Next::More
        });
        // Invalid JSON is ignored here; bad lines are counted elsewhere.
        let _ = visited;
    }

    pub(super) fn tool(&self) -> Tool {
        if self.ipwb {
            Tool::Ipwb
        } else if self.collection {
            Tool::Arquivo
        } else if self.original {
            Tool::OutbackCdx
        } else if self.common_crawl && self.lastmod {
            Tool::CommonCrawlLastmod
        } else if self.common_crawl {
            Tool::CommonCrawl
        } else if self.webrecorder {
            Tool::Webrecorder
        } else if self.prefixed_sha1 {
            Tool::CdxjIndexer
        } else if self.short_names {
            Tool::WebarchiveIndexing
        } else if self.server_names {
            Tool::CdxServer
        } else {
            Tool::Pywb
        }
    }
}
