//! Takedowns: a list of what an archive may no longer show.
//!
//! ```text
//! # court order 12
//! http://www.example.com/private.html
//! http://example.com/2019/*
//! domain example.net
//! ```
//!
//! | line | takes down |
//! |---|---|
//! | `http://a.org/b`, `org,a)/b?c` | that page |
//! | `http://a.org/`, `org,a)/` | the host, on all its ports |
//! | `http://a.org/b/*`, `org,a)/b/*`, `org,a,*` | what a map's key means: [`waypost_surt::Key`] |
//! | `page …`, `host …`, `domain …` | the page, the host, the host and all hosts below it |
//!
//! Schemes, `www` and the like are as in the SURTs of the dialect, so a list fits indexes of all dialects.
//!
//! Unlike a [selection](crate::Select::exclude), a takedown is not recorded in any output: what is on
//! the list is absent as if it had never been captured.

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use waypost_io::error::excerpt;
use waypost_io::{Error, ErrorKind, Lines, Result, Source};
use waypost_surt::{Dialect, Key, Reach, Surt, is_surt};

use crate::capture::Capture;
use crate::key::{Rekeyer, usual_form};
use crate::select::with_surt;

/// A list of takedowns.
#[derive(Debug)]
pub struct Takedowns {
    file: String,
    lines: Vec<TakedownLine>,
    /// The same as keys, for each dialect that was asked for.
    keys: [OnceLock<LinesByKey>; Dialect::ALL.len()],
}

#[derive(Debug)]
struct TakedownLine {
    number: u64,
    text: String,
    extent: Extent,
    uri: Vec<u8>,
    /// Whether it covered anything.
    is_used: AtomicBool,
}

/// What a line takes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// One URI-R: `=SURT`.
    Page,
    /// A path and what is below it, on one port: `SURT/*`.
    Paths,
    /// All ports of a host: `HOST:*`.
    Host,
    /// A host and all hosts below it: `HOST,*`.
    Domain,
}

/// The lines that cover a key.
type LinesByKey = HashMap<Vec<u8>, Vec<usize>>;

impl Takedowns {
    /// Reads a list.
    ///
    /// # Errors
    /// If it can't be read, or for the first line that can't be understood.
    pub fn read(path: &Path) -> Result<Takedowns> {
        let source = Source::new(path);
        let mut takedowns = Takedowns {
            file: source.to_string(),
            lines: Vec::new(),
            keys: Default::default(),
        };
        let mut rekeyers = Dialect::ALL.map(Rekeyer::new);
        let mut lines = Lines::new(source.open()?);
        while lines.advance().map_err(|error| error.in_file(&source))? {
            let line = without_comment(lines.line());
            if line.is_empty() {
                continue;
            }
            let fail = |problem: String| {
                Error::new(ErrorKind::Invalid(problem))
                    .in_file(&source)
                    .at_line(lines.number())
            };
            let (extent, uri) = understand(line).map_err(fail)?;
            let Some(found) = rekeyers.iter_mut().find_map(|rekeyer| rekeyer.of_url(&uri)) else {
                return Err(fail(format!("invalid URI `{}`", excerpt(line))));
            };
            let found = Surt::new(found);
            if found.host().is_empty() && uri.ends_with(b"://") {
                return Err(fail(format!("a URI without a host: `{}`", excerpt(line))));
            }
            let is_root = matches!(found.path(), b"" | b"/") && found.query().is_none();
            let extent = extent.unwrap_or(match is_root && !found.host().is_empty() {
                true => Extent::Host,
                false => Extent::Page,
            });
            if extent != Extent::Page && found.host().is_empty() {
                return Err(fail(format!("no host in `{}`", excerpt(line))));
            }
            takedowns.lines.push(TakedownLine {
                number: lines.number(),
                text: excerpt(line),
                extent,
                uri,
                is_used: AtomicBool::new(false),
            });
        }
        Ok(takedowns)
    }

    /// Whether a URI-R is on the list, given its SURT of this dialect.
    pub fn cover(&self, surt: &[u8], dialect: Dialect) -> bool {
        self.find(&[b"=", surt].concat(), dialect) | self.cover_subtree(surt, dialect)
    }

    /// Whether a capture is on the list, by its key or by its URL. Both are of this dialect.
    pub fn cover_capture(&self, capture: &Capture<'_>, dialect: Dialect) -> bool {
        self.cover(capture.key(), dialect)
            || with_surt(capture, dialect, |surt| self.cover(surt, dialect))
    }

    /// Whether everything that a key of a map stands for is on the list. A key without a query also stands
    /// for a slash at its end and for its queries; those are taken to be listed if the key is.
    pub fn cover_key(&self, key: &[u8], dialect: Dialect) -> bool {
        let parsed = Key::new(key);
        let below: &[u8] = match parsed.reach() {
            Reach::Exact => {
                let with_slash = [key, b"/"].concat();
                return self.cover(key, dialect) | self.cover(&with_slash, dialect);
            }
            Reach::Paths => b"/",
            // No host has this name, so only lines for domains cover it.
            Reach::Hosts => b",*)/",
            Reach::All => return false,
        };
        self.cover_subtree(&[parsed.stem(), below].concat(), dialect)
    }

    /// A URI of each line: the page, or the one that stands for a host or a subtree.
    pub fn uris(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(|line| &line.uri[..])
    }

    /// The lines that mean more than one page, each with its file and number.
    pub fn subtrees(&self) -> impl Iterator<Item = String> {
        self.named(|line| line.extent != Extent::Page)
    }

    /// The lines that covered nothing so far, each with its file and number. Without any lookup, none.
    pub fn unused(&self) -> impl Iterator<Item = String> {
        let was_used = self.keys.iter().any(|keys| keys.get().is_some());
        self.named(move |line| was_used && !line.is_used.load(Ordering::Relaxed))
    }

    fn named(&self, wanted: impl Fn(&TakedownLine) -> bool) -> impl Iterator<Item = String> {
        let lines = self.lines.iter().filter(move |line| wanted(line));
        lines.map(|line| format!("{}: line {}: {}", self.file, line.number, line.text))
    }

    /// Whether any line for more than a page covers a SURT. Marks all that do.
    fn cover_subtree(&self, surt: &[u8], dialect: Dialect) -> bool {
        let surt = Surt::new(surt);
        let mut found = self.find(&[surt.host(), b":*"].concat(), dialect);
        let mut text = Vec::new();
        for key in surt.candidates().filter(|key| key.reach() != Reach::Exact) {
            text.clear();
            key.write(&mut text);
            found |= self.find(&text, dialect);
        }
        found
    }

    /// Marks the lines with this key. Returns whether there are any.
    fn find(&self, key: &[u8], dialect: Dialect) -> bool {
        let lines = self.keys(dialect).get(key);
        for &at in lines.into_iter().flatten() {
            self.lines[at].is_used.store(true, Ordering::Relaxed);
        }
        lines.is_some()
    }

    fn keys(&self, dialect: Dialect) -> &LinesByKey {
        let at = Dialect::ALL.iter().position(|known| *known == dialect);
        self.keys[at.unwrap_or(0)].get_or_init(|| {
            let mut keys = LinesByKey::new();
            let mut rekeyer = Rekeyer::new(dialect);
            for (at, line) in self.lines.iter().enumerate() {
                // What has no SURT in this dialect has no captures.
                let Some(found) = rekeyer.of_url(&line.uri) else {
                    continue;
                };
                let surt = Surt::new(found);
                let path = surt.without_query();
                let key = match line.extent {
                    Extent::Page => [b"=", found].concat(),
                    Extent::Host => [surt.host(), b":*"].concat(),
                    Extent::Domain => [surt.host(), b",*"].concat(),
                    Extent::Paths => [path.strip_suffix(b"/").unwrap_or(path), b"/*"].concat(),
                };
                keys.entry(key).or_default().push(at);
            }
            keys
        })
    }
}

/// A line without white space around it and without its comment. A `#` in a URI has no space before it.
fn without_comment(line: &[u8]) -> &[u8] {
    let end = (0..line.len())
        .find(|&at| line[at] == b'#' && (at == 0 || line[at - 1].is_ascii_whitespace()));
    line[..end.unwrap_or(line.len())].trim_ascii()
}

/// What a line takes down, if it says so, and a URI for it.
type Understood = (Option<Extent>, Vec<u8>);

fn understand(line: &[u8]) -> Result<Understood, String> {
    let space = line.iter().position(u8::is_ascii_whitespace);
    let (first, rest) = line.split_at(space.unwrap_or(line.len()));
    let word = match first {
        b"page" => Some(Extent::Page),
        b"host" => Some(Extent::Host),
        b"domain" => Some(Extent::Domain),
        // The space may be in a URI.
        _ if rest.is_empty() || memchr::memmem::find(first, b"://").is_some() => None,
        _ => {
            return Err(format!(
                "unknown word `{}`: write page, host or domain, and a URI or SURT",
                excerpt(first)
            ));
        }
    };
    let text = word.map_or(line, |_| rest.trim_ascii());
    if text.is_empty() {
        return Err("no URI or SURT after this word".to_owned());
    }
    let (extent, uri) = match surt_of(text) {
        Some(surt) => of_surt(&surt, word),
        None => of_uri(text, word),
    }?;
    Ok((word.or(extent), uri))
}

/// The SURT or key of a map that a line consists of, in the usual form: crawlers write
/// `http://(com,example,)/`. `None` if it is a URI.
fn surt_of(text: &[u8]) -> Option<Vec<u8>> {
    let scheme = memchr::memmem::find(text, b"://").map_or(0, |at| at + 3);
    if text.get(scheme) == Some(&b'(') {
        return Some(match memchr::memchr(b')', text) {
            Some(_) => usual_form(text).into_owned(),
            None => text[scheme + 1..].to_vec(),
        });
    }
    let host = &text[..memchr::memchr2(b')', b'/', text).unwrap_or(text.len())];
    let is_reversed = is_surt(text) || (host.contains(&b',') && !host.contains(&b'.'));
    (scheme == 0 && is_reversed).then(|| usual_form(text).into_owned())
}

fn of_surt(surt: &[u8], word: Option<Extent>) -> Result<Understood, String> {
    if surt.iter().any(u8::is_ascii_whitespace) {
        return Err(format!("a SURT has no spaces: `{}`", excerpt(surt)));
    }
    // `com,example,` is how crawlers write a domain.
    let domain = surt.strip_suffix(b",").map(|host| [host, b",*"].concat());
    let key = Key::new(domain.as_deref().unwrap_or(surt));
    let stem = match (word, key.reach()) {
        (Some(Extent::Page), _) => surt,
        _ => key.stem(),
    };
    let has_host = memchr::memchr(b')', stem).is_some();
    let extent = match key.reach() {
        Reach::All => return Err(star(surt)),
        Reach::Hosts => Some(Extent::Domain),
        Reach::Paths => Some(Extent::Paths),
        Reach::Exact if word.is_none() && surt.ends_with(b"*") => return Err(star(surt)),
        Reach::Exact if word.is_none() && !has_host => {
            let text = excerpt(surt);
            return Err(format!(
                "write `domain {text}`, `host {text}` or `page {text})/`"
            ));
        }
        Reach::Exact => None,
    };
    let end: &[u8] = if has_host { b"" } else { b")/" };
    Ok((extent, Surt::new(&[stem, end].concat()).to_uri()))
}

fn of_uri(uri: &[u8], word: Option<Extent>) -> Result<Understood, String> {
    match uri.strip_suffix(b"*") {
        Some(above) if word.is_none() => match above.ends_with(b"/") && !above.contains(&b'?') {
            true => Ok((Some(Extent::Paths), above.to_vec())),
            false => Err(star(uri)),
        },
        _ => Ok((None, uri.to_vec())),
    }
}

fn star(text: &[u8]) -> String {
    let text = excerpt(text);
    format!(
        "`*` stands for whole parts, as in `/a/*` and `com,a,*`: write `page {text}` if it is part of the URI"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: impl AsRef<[u8]>) -> Result<Takedowns> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Takedowns::read(file.path())
    }

    fn covered(line: &str, surt: &str) -> bool {
        read(line).unwrap().cover(surt.as_bytes(), Dialect::Ia)
    }

    #[test]
    fn a_line_says_how_much_it_means() {
        let host = ["org,iana)/", "org,iana)/a?b", "org,iana:8080)/a"];
        let below = ["org,iana,data)/", "org,iana,data:81)/x"];
        let others = ["org,ianas)/", "org)/", "com,org,iana)/"];
        for (line, pages, on_host, in_domain) in [
            ("http://www.iana.org/", true, true, false),
            ("https://iana.org", true, true, false),
            ("iana.org", true, true, false),
            ("org,iana)/", true, true, false),
            ("http://(org,iana,)/", true, true, false),
            ("page org,iana)/", true, false, false),
            ("page http://www.iana.org", true, false, false),
            ("http://www.iana.org/about", false, false, false),
            ("host http://www.iana.org/about", true, true, false),
            ("host org,iana", true, true, false),
            ("host iana.org", true, true, false),
            ("domain iana.org", true, true, true),
            ("domain org,iana)/about", true, true, true),
            ("org,iana,*", true, true, true),
            ("org,iana,", true, true, true),
            ("http://(org,iana,", true, true, true),
            ("  domain\torg,iana # court order 12 \r", true, true, true),
            ("org,*", true, true, true),
        ] {
            let list = read(line).unwrap();
            let cover = |surt: &&str| list.cover(surt.as_bytes(), Dialect::Ia);
            assert_eq!(cover(&host[0]), pages, "{line}");
            assert_eq!(host[1..].iter().all(cover), on_host, "{line}");
            assert_eq!(host[1..].iter().any(cover), on_host, "{line}");
            assert_eq!(below.iter().all(cover), in_domain, "{line}");
            assert_eq!(below.iter().any(cover), in_domain, "{line}");
            if line != "org,*" {
                assert!(!others.iter().any(cover), "{line}");
            }
        }
    }

    #[test]
    fn a_star_means_what_is_below() {
        for line in [
            "http://a.fr/2019/*",
            "fr,a)/2019/*",
            "https://www.a.fr/2019/*",
        ] {
            for surt in ["fr,a)/2019", "fr,a)/2019?x", "fr,a)/2019/1/2"] {
                assert!(covered(line, surt), "{line} {surt}");
            }
            for surt in ["fr,a)/", "fr,a)/2019-x", "fr,a)/20190", "fr,a:81)/2019"] {
                assert!(!covered(line, surt), "{line} {surt}");
            }
        }
        assert!(covered("http://a.fr/*", "fr,a)/?x"));
        assert!(covered("page http://a.fr/x*", "fr,a)/x*"));
        assert!(covered("http://a.fr/a b", "fr,a)/a%20b"));
    }

    #[test]
    fn a_list_fits_all_dialects() {
        let list = read("http://www2.a.fr/X/\ncom,b)/Y/\n").unwrap();
        assert!(list.cover(b"fr,a)/x", Dialect::Ia));
        assert!(!list.cover(b"fr,a,www2)/x", Dialect::Ia));
        assert!(list.cover(b"fr,a)/x", Dialect::CommonCrawlLegacy));
        assert!(list.cover(b"fr,a)/x/", Dialect::Webrecorder));
        assert!(list.cover(b"com,b)/y", Dialect::Ia));
        assert!(list.cover(b"com,b)/y/", Dialect::Webrecorder));
    }

    #[test]
    fn keys_of_maps_are_covered_if_all_of_them_is() {
        let list = read("host a.fr\ncom,b)/x/*\nnet,*\npage com,c)/\n").unwrap();
        let cover = |key: &str| list.cover_key(key.as_bytes(), Dialect::Ia);
        for key in [
            "fr,a)/*",
            "fr,a)/b",
            "fr,a:81)/*",
            "com,b)/x/*",
            "com,b)/x/y/*",
            "net,*",
            "net,a,*",
            "net,a)/*",
            "com,c)/",
        ] {
            assert!(cover(key), "{key}");
        }
        for key in [
            "fr,a,*",
            "fr,*",
            "*",
            "com,b)/*",
            "com,b)/xy/*",
            "com,c)/*",
            "com,c,*",
        ] {
            assert!(!cover(key), "{key}");
        }
    }

    #[test]
    fn lines_that_cover_nothing_are_named() {
        let list = read("\u{feff}# takedowns\r\n\r\na.fr\r\nhost b.fr\r\ndomain a.fr\r\n").unwrap();
        assert_eq!(list.unused().count(), 0);
        assert!(list.cover(b"fr,a)/", Dialect::Ia));
        let unused: Vec<String> = list.unused().collect();
        assert_eq!(unused.len(), 1);
        assert!(unused[0].ends_with(": line 4: host b.fr"), "{unused:?}");
    }

    #[test]
    fn lines_that_mean_nothing_are_refused() {
        for bad in [
            "hots http://a.fr/",
            "org,iana",
            "com,a)/b*",
            "http://a.fr/b*",
            "http://a.fr/?q=/*",
            "http://",
            "domain",
            "host",
            "domain urn:x",
            "urn:x/*",
            "*",
            "(",
            "com,a)/ - {\"access\": \"block\"}",
        ] {
            let error = read(format!("com,a)/\n{bad}\n")).unwrap_err();
            assert_eq!(error.place().line, Some(2), "{bad}: {error}");
        }
        assert!(read(b"\xff\xfeh\0t\0").is_err());
    }
}
