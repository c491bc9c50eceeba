//! Reading a sitemap that may be hostile: limits on everything, and no document types, whose entities
//! could expand to gigabytes.

use quick_xml::events::{BytesRef, Event};
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::reader::NsReader;
use waypost_io::{Error, ErrorKind, Result};

use super::{DUBLIN_CORE, Entry, SITEMAP};

/// Maximum size of a sitemap, by its protocol.
pub const MOST_BYTES: usize = 52_428_800;

/// Maximum number of entries, by its protocol.
pub const MOST_ENTRIES: usize = 50_000;

/// Maximum depth of elements.
const MOST_DEPTH: usize = 16;

/// Maximum length of a text, and maximum number of texts of an entry.
const MOST_TEXT: usize = 16 << 10;
const MOST_ELEMENTS: usize = 256;

/// What a sitemap lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Files.
    Files(Vec<Entry>),
    /// Other sitemaps.
    Sitemaps(Vec<String>),
}

/// Reads a sitemap.
///
/// # Errors
/// If it is not a sitemap, or exceeds a limit.
pub fn parse(bytes: &[u8]) -> Result<Listing> {
    if bytes.len() > MOST_BYTES {
        return Err(wrong(format!("a sitemap of more than {MOST_BYTES} bytes")));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let error = wrong(format!("the sitemap is not UTF-8: {error}"));
        error.at_byte(bytes.len() as u64)
    })?;
    let mut reader = NsReader::from_str(text.trim_start_matches('\u{feff}'));
    let mut parser = Parser::default();
    loop {
        let at = reader.buffer_position();
        let here = |error: Error| error.at_byte(at);
        let (namespace, event) = reader
            .read_resolved_event()
            .map_err(|error| here(wrong(format!("invalid XML: {error}"))))?;
        let done = match event {
            Event::Start(start) => {
                let name = name_of(&namespace, start.local_name().as_ref());
                parser.start(name)
            }
            Event::Empty(start) => {
                let name = name_of(&namespace, start.local_name().as_ref());
                parser.start(name).and_then(|()| parser.end())
            }
            Event::End(_) => parser.end(),
            Event::Text(text) => match text.xml10_content() {
                Ok(text) => parser.text(&text),
                Err(error) => Err(wrong(error.to_string())),
            },
            Event::CData(text) => match text.xml10_content() {
                Ok(text) => parser.text(&text),
                Err(error) => Err(wrong(error.to_string())),
            },
            Event::GeneralRef(reference) => match resolve(&reference) {
                Some(c) => parser.text(c.encode_utf8(&mut [0; 4])),
                None => Err(wrong("an entity that XML does not define")),
            },
            Event::DocType(_) => Err(wrong("a document type, which no sitemap has")),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => Ok(()),
            Event::Eof => return parser.finish(),
        };
        done.map_err(here)?;
    }
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Format(what.into()))
}

fn resolve(reference: &BytesRef<'_>) -> Option<char> {
    match reference.decode().ok()?.as_ref() {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => reference.resolve_char_ref().ok().flatten(),
    }
}

/// An element, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    UrlSet,
    SitemapIndex,
    Url,
    Sitemap,
    Location,
    Modified,
    DublinCore(String),
    Other,
}

fn name_of(namespace: &ResolveResult<'_>, local: &[u8]) -> Name {
    let in_dublin_core = |name: &[u8]| DUBLIN_CORE.iter().any(|known| known.as_bytes() == name);
    match namespace {
        ResolveResult::Bound(Namespace(name)) if in_dublin_core(name) => {
            Name::DublinCore(String::from_utf8_lossy(local).into_owned())
        }
        // Some leave the namespace out.
        ResolveResult::Unbound => of_sitemap(local),
        ResolveResult::Bound(Namespace(name)) if *name == SITEMAP.as_bytes() => of_sitemap(local),
        _ => Name::Other,
    }
}

fn of_sitemap(local: &[u8]) -> Name {
    match local {
        b"urlset" => Name::UrlSet,
        b"sitemapindex" => Name::SitemapIndex,
        b"url" => Name::Url,
        b"sitemap" => Name::Sitemap,
        b"loc" => Name::Location,
        b"lastmod" => Name::Modified,
        _ => Name::Other,
    }
}

#[derive(Default)]
struct Parser {
    open: Vec<Name>,
    text: String,
    root: Option<Name>,
    entry: Entry,
    entries: Vec<Entry>,
}

impl Parser {
    fn start(&mut self, name: Name) -> Result<()> {
        if self.open.is_empty() {
            if !matches!(name, Name::UrlSet | Name::SitemapIndex) || self.root.is_some() {
                return Err(wrong("not a sitemap: expected <urlset> or <sitemapindex>"));
            }
            self.root = Some(name.clone());
        }
        if self.open.len() >= MOST_DEPTH {
            return Err(wrong("elements are nested too deeply"));
        }
        if self.open.len() == 1 {
            self.entry = Entry::default();
        }
        self.text.clear();
        self.open.push(name);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<()> {
        // Text outside the parts of an entry is only white space.
        if self.open.len() == 3 {
            self.text += text;
            if self.text.len() > MOST_TEXT {
                return Err(wrong(format!("a text of more than {MOST_TEXT} bytes")));
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let ended = self.open.pop();
        let text = || self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        match (self.open.len(), ended) {
            (2, Some(Name::Location)) => self.entry.location = self.text.trim().to_owned(),
            (2, Some(Name::Modified)) => self.entry.modified = Some(text()),
            (2, Some(Name::DublinCore(element))) => {
                let text = text();
                if self.entry.elements.len() == MOST_ELEMENTS {
                    return Err(wrong(format!(
                        "an entry with more than {MOST_ELEMENTS} elements"
                    )));
                }
                if !text.is_empty() {
                    self.entry.elements.push((element, text));
                }
            }
            (1, Some(Name::Url | Name::Sitemap)) => {
                let entry = std::mem::take(&mut self.entry);
                if entry.location.is_empty() {
                    return Err(wrong("an entry without <loc>"));
                }
                if self.entries.len() == MOST_ENTRIES {
                    return Err(wrong(format!("more than {MOST_ENTRIES} entries")));
                }
                self.entries.push(entry);
            }
            _ => {}
        }
        self.text.clear();
        Ok(())
    }

    fn finish(self) -> Result<Listing> {
        if !self.open.is_empty() {
            return Err(wrong("the sitemap is cut short"));
        }
        match self.root {
            Some(Name::UrlSet) => Ok(Listing::Files(self.entries)),
            Some(_) => Ok(Listing::Sitemaps(
                self.entries
                    .into_iter()
                    .map(|entry| entry.location)
                    .collect(),
            )),
            None => Err(wrong("not a sitemap: it is empty")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As printed in the report "Developing Bloom Filters for Web Archives' Holdings".
    const PUBLISHED: &str = r#"<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
 xmlns:dc="http://purl.org/dc/elements/1.1/">
 <url>
     <loc>https://haw.nsk.hr/bloom-filter/haw-2020-hr-domain-harvest.csv</loc>
     <lastmod>2021-12-15</lastmod>
     <dc:title>Croatian TLD (hr) harvest bloom filter</dc:title>
     <dc:publisher>National and University Library in Zagreb (NSK)
     </dc:publisher>
     <dc:date>2021</dc:date>
     <dc:description>Bloom filter of URLs harvested during 2020 domanin
     crawl</dc:description>
     <dc:format>text/csv</dc:format>
     <dc:format>Number of URLs 180,379,433</dc:format>
     <dc:format>Size 319502017B</dc:format>
    </url>
 </urlset>"#;

    #[test]
    fn the_published_sitemap_is_read() {
        let Listing::Files(files) = parse(PUBLISHED.as_bytes()).unwrap() else {
            panic!("a list of files")
        };
        let [file] = &files[..] else {
            panic!("one file")
        };
        assert_eq!(
            file.location,
            "https://haw.nsk.hr/bloom-filter/haw-2020-hr-domain-harvest.csv"
        );
        assert_eq!(file.modified.as_deref(), Some("2021-12-15"));
        assert_eq!(
            file.get("publisher").collect::<Vec<_>>(),
            ["National and University Library in Zagreb (NSK)"]
        );
        assert_eq!(file.media_type(), Some("text/csv"));
        assert_eq!(file.urls(), Some(180_379_433));
        assert_eq!(file.bytes(), Some(319_502_017));
        assert_eq!(file.checksum(), None);
    }

    #[test]
    fn indexes_prefixes_entities_and_missing_namespaces_are_read() {
        let index = "<sitemapindex><sitemap><loc>http://h/a?b=1&amp;c=&#x32;</loc></sitemap></sitemapindex>";
        assert_eq!(
            parse(index.as_bytes()).unwrap(),
            Listing::Sitemaps(vec!["http://h/a?b=1&c=2".to_owned()])
        );
        let prefixed = format!(
            "<s:urlset xmlns:s='{SITEMAP}' xmlns:t='{}'><s:url><s:loc>http://h/</s:loc>\
             <t:title><![CDATA[a < b]]></t:title><x><loc>no</loc></x></s:url></s:urlset>",
            DUBLIN_CORE[1]
        );
        let Listing::Files(files) = parse(prefixed.as_bytes()).unwrap() else {
            panic!("a list of files")
        };
        assert_eq!(files[0].location, "http://h/");
        assert_eq!(files[0].get("title").collect::<Vec<_>>(), ["a < b"]);
    }

    #[test]
    fn hostile_sitemaps_are_refused() {
        let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;\">]><urlset><url><loc>&b;</loc></url></urlset>";
        let external = "<!DOCTYPE x SYSTEM \"file:///etc/passwd\"><urlset/>";
        let entity = "<urlset><url><loc>&passwd;</loc></url></urlset>";
        let deep = "<urlset>".to_owned() + &"<a>".repeat(100_000);
        let long = format!(
            "<urlset><url><loc>{}</loc></url></urlset>",
            "a".repeat(1 << 20)
        );
        let many = format!(
            "<urlset>{}</urlset>",
            "<url><loc>a</loc></url>".repeat(MOST_ENTRIES + 1)
        );
        let texts = format!(
            "<urlset xmlns:dc='{}'><url><loc>a</loc>{}</url></urlset>",
            DUBLIN_CORE[0],
            "<dc:title>b</dc:title>".repeat(MOST_ELEMENTS + 1)
        );
        for text in [
            bomb,
            external,
            entity,
            &deep,
            &long,
            &many,
            &texts,
            "",
            "<html><body>404</body></html>",
            "<urlset><url><loc>a</loc></url>",
            "<urlset><url></url></urlset>",
            "<urlset></urlset><urlset></urlset>",
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Format(_)), "{error}");
        }
        assert!(parse(b"<urlset>\xff</urlset>").is_err());
    }
}
