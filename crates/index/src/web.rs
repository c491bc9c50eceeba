//! Distinguishes captures of the Web from other rows of an index.
//!
//! Crawlers also record DNS lookups, metadata and screenshots. Such rows are recognised by their URL
//! or, if that is not enough, by their media type. They are counted by kind and are not part of the
//! holdings.

use std::fmt;

use memchr::{memchr, memchr2};

use crate::capture::{Capture, Field};
use crate::json::{self, Next};

/// A kind of row that is not a capture of the Web.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum NonWeb {
    /// A DNS lookup: `dns:example.com`.
    Dns,
    /// The first record of an ARC file.
    Filedesc,
    /// A record about the file or the crawl: `warcinfo`, or a URL that is `-`.
    Warcinfo,
    /// A record of the crawler about a capture or about itself: `metadata:`, `text/anvl`.
    Metadata,
    /// A request: `warc/request`. Its response is the capture.
    Request,
    /// A screenshot of a page: `screenshot:`, `thumbnail:`, `urn:view:`.
    Screenshot,
    /// Data derived from a page: its text, its resources, its videos.
    Derived,
    /// `whois:`.
    Whois,
    /// `mailto:`.
    Mailto,
    /// `data:`.
    Data,
    /// `file:`.
    File,
    /// `javascript:`.
    Javascript,
    /// A row of Alexa's dat files.
    Dat,
    /// Any scheme other than http, https and ftp.
    Other,
}

impl NonWeb {
    /// The number of kinds.
    pub const COUNT: usize = 14;

    /// All kinds.
    pub const ALL: [NonWeb; NonWeb::COUNT] = [
        NonWeb::Dns,
        NonWeb::Filedesc,
        NonWeb::Warcinfo,
        NonWeb::Metadata,
        NonWeb::Request,
        NonWeb::Screenshot,
        NonWeb::Derived,
        NonWeb::Whois,
        NonWeb::Mailto,
        NonWeb::Data,
        NonWeb::File,
        NonWeb::Javascript,
        NonWeb::Dat,
        NonWeb::Other,
    ];

    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            NonWeb::Dns => "dns",
            NonWeb::Filedesc => "filedesc",
            NonWeb::Warcinfo => "warcinfo",
            NonWeb::Metadata => "metadata",
            NonWeb::Request => "request",
            NonWeb::Screenshot => "screenshot",
            NonWeb::Derived => "derived",
            NonWeb::Whois => "whois",
            NonWeb::Mailto => "mailto",
            NonWeb::Data => "data",
            NonWeb::File => "file",
            NonWeb::Javascript => "javascript",
            NonWeb::Dat => "dat",
            NonWeb::Other => "other",
        }
    }
}

impl fmt::Display for NonWeb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of a row that is not of the Web; `None` for a capture of the Web. The URL and the media
/// type must have been parsed; without a URL, the key decides.
#[inline(always)]
pub fn non_web(capture: &Capture<'_>) -> Option<NonWeb> {
    let url = capture.raw(Field::Url).unwrap_or_default();
    match is_http(url) {
        true => of_http(capture),
        false => by_scheme(capture, url),
    }
}

#[inline(always)]
fn of_http(capture: &Capture<'_>) -> Option<NonWeb> {
    let key = capture.key();
    // The first letter is enough for most keys.
    match key.first() == Some(&b'o') && key.starts_with(b"org,archive,web)/screenshot/") {
        true => Some(NonWeb::Screenshot),
        false => by_mime(capture),
    }
}

/// Whether a lookup of the row's key finds it: a capture of the Web, or a row whose key says itself that it
/// is not one, such as `dns:example.com`. The URL and the media type must have been parsed.
#[inline]
pub fn answers(capture: &Capture<'_>) -> bool {
    non_web(capture).is_none() || by_key(capture.key()).is_some()
}

/// Decides about a URL that does not begin with `http://` or `https://`.
#[inline(never)]
fn by_scheme(capture: &Capture<'_>, url: &[u8]) -> Option<NonWeb> {
    let text = match url {
        b"" => None,
        _ => capture.url(),
    };
    by_mime(capture).or_else(|| match &text {
        Some(url) if is_http(url) => of_http(capture),
        Some(url) => by_url(url),
        None => by_key(capture.key()),
    })
}

#[inline(always)]
fn is_http(url: &[u8]) -> bool {
    // Both are asked at once, because which of them it is differs from line to line.
    match url.first_chunk::<8>() {
        Some(start) => (start == b"https://") | start.starts_with(b"http://"),
        None => url == b"http://",
    }
}

#[inline(always)]
fn by_mime(capture: &Capture<'_>) -> Option<NonWeb> {
    // The first letters and the length are enough for most media types without escapes. All are compared at
    // once, because which of them they are differs from line to line.
    let Some(mime @ [first, second, ..]) = capture.plain(Field::Mime) else {
        return by_whole_mime(capture);
    };
    let is_arc = (*first == b'a') & matches!(second, b'r' | b'l');
    let is_dns = (mime.len() == 8) & mime.ends_with(b"dns");
    let is_anvl = (mime.len() == 9) & mime.ends_with(b"anvl");
    let is_fields = (mime.len() == 23) & mime.ends_with(b"fields");
    match (*first == b'w') | is_arc | is_dns | is_anvl | is_fields {
        true => by_whole_mime(capture),
        false => None,
    }
}

#[inline(never)]
fn by_whole_mime(capture: &Capture<'_>) -> Option<NonWeb> {
    let mime = capture.mime()?;
    match mime.first() {
        Some(b'w') if mime.starts_with(b"warc/warcinfo") => Some(NonWeb::Warcinfo),
        Some(b'w') if mime.starts_with(b"warc/metadata") => Some(NonWeb::Metadata),
        Some(b'w') if mime.starts_with(b"warc/request") => Some(NonWeb::Request),
        Some(b'a') if mime.starts_with(b"arc/filedesc") => Some(NonWeb::Filedesc),
        Some(b'a') if *mime == *b"alexa/dat" => Some(NonWeb::Dat),
        Some(b't') if *mime == *b"text/dns" => Some(NonWeb::Dns),
        // What a server has answered with a status is a capture, whatever it calls its content.
        Some(b'a' | b't') if is_crawl_fields(&mime) && !has_status(capture) => {
            Some(match capture.key() {
                b"-" => NonWeb::Warcinfo,
                _ => NonWeb::Metadata,
            })
        }
        _ => None,
    }
}

/// Whether records of this media type describe a crawl or its captures: fields and values, as Heritrix and
/// other crawlers write them.
pub(crate) fn is_crawl_fields(mime: &[u8]) -> bool {
    matches!(mime, b"application/warc-fields" | b"text/anvl")
}

/// Whether a line has an HTTP status, which need not have been parsed: in columns, it follows the media type.
#[cold]
fn has_status(capture: &Capture<'_>) -> bool {
    let is_status = |text: &[u8]| text.len() == 3 && text.iter().all(u8::is_ascii_digit);
    if let Some(object) = capture.json() {
        let mut found = false;
        let read = json::members(object, false, |name, raw| {
            found |= Field::of_json(name) == Some(Field::Status)
                && json::text(raw).is_some_and(|text| is_status(&text));
            Next::More
        });
        return found && read.is_ok();
    }
    let mut columns = capture.line().split(|byte| *byte == b' ');
    let mime = capture.raw(Field::Mime);
    columns.any(|column| Some(column) == mime) && columns.next().is_some_and(is_status)
}

/// Decides by the key alone, if the line has no URL.
fn by_key(key: &[u8]) -> Option<NonWeb> {
    // The labels of a host, reversed or not, precede any colon except that of a port.
    let head = &key[..memchr2(b')', b'/', key).unwrap_or(key.len())];
    match memchr(b':', head) {
        Some(_) if key.starts_with(b"http") => None,
        Some(colon) if head[..colon].iter().any(|b| matches!(b, b',' | b'.')) => None,
        Some(_) => by_url(key),
        None if key == b"-" => Some(NonWeb::Warcinfo),
        None => None,
    }
}

fn by_url(url: &[u8]) -> Option<NonWeb> {
    if url == b"-" {
        return Some(NonWeb::Warcinfo);
    }
    let scheme = scheme(url)?.to_ascii_lowercase();
    let rest = &url[scheme.len() + 1..];
    Some(match &*scheme {
        b"http" | b"https" | b"ftp" | b"ftps" => return None,
        b"dns" => NonWeb::Dns,
        b"filedesc" => NonWeb::Filedesc,
        b"warcinfo" => NonWeb::Warcinfo,
        b"metadata" => NonWeb::Metadata,
        b"screenshot" | b"thumbnail" => NonWeb::Screenshot,
        b"youtube-dl" => NonWeb::Derived,
        b"whois" => NonWeb::Whois,
        b"mailto" => NonWeb::Mailto,
        b"data" => NonWeb::Data,
        b"file" => NonWeb::File,
        b"javascript" => NonWeb::Javascript,
        b"urn" => match &rest[..memchr(b':', rest).unwrap_or(rest.len())] {
            b"view" | b"thumbnail" | b"screenshot" | b"fullpage" => NonWeb::Screenshot,
            b"text" | b"pageinfo" | b"transclusions" | b"embeds" => NonWeb::Derived,
            _ => NonWeb::Other,
        },
        // A host and a port without a scheme: `example.com:8080/x`.
        scheme if scheme.contains(&b'.') => return None,
        _ => NonWeb::Other,
    })
}

/// The part before the first colon, if it can be a scheme.
fn scheme(url: &[u8]) -> Option<&[u8]> {
    let colon = memchr(b':', url)?;
    let scheme = &url[..colon];
    let fine = scheme.first()?.is_ascii_alphabetic()
        && scheme
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    fine.then_some(scheme)
}

/// Whether this can be a URL: it has a scheme or a host with a dot, or is the `-` of records without
/// a URL.
#[inline]
pub fn can_be_url(url: &[u8]) -> bool {
    match is_http(url) {
        true => url.len() > 7,
        false => can_be_other_url(url),
    }
}

#[inline(never)]
fn can_be_other_url(url: &[u8]) -> bool {
    let host = &url[..memchr2(b'/', b'?', url).unwrap_or(url.len())];
    url == b"-" || scheme(url).is_some() || (host.len() > 2 && host.contains(&b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{FileLayout, Line};

    fn kind(key: &str, url: &str, mime: &str) -> Option<NonWeb> {
        let mut capture = Capture::new(b"", key.as_bytes(), b"2004");
        capture.set(Field::Url, url.as_bytes());
        capture.set(Field::Mime, mime.as_bytes());
        non_web(&capture)
    }

    #[test]
    fn rows_that_are_no_captures_of_the_web_are_told_by_url_media_type_or_key() {
        let cases = [
            ("com,example)/", "http://example.com/", "text/html", None),
            ("com,example)/", "ftp://example.com/", "text/plain", None),
            ("com,example)/", "HTTP://example.com/", "text/plain", None),
            ("com,example)/", "", "text/plain", None),
            ("com,example:8080)/", "", "", None),
            ("1.2.3.4:8080/a", "", "", None),
            (
                "dns:example.com",
                "dns:example.com",
                "text/dns",
                Some(NonWeb::Dns),
            ),
            ("com,example)", "dns:example.com", "", Some(NonWeb::Dns)),
            ("dns:example.com", "", "", Some(NonWeb::Dns)),
            (
                "-",
                "filedesc://a.arc",
                "arc/filedesc0.1.0",
                Some(NonWeb::Filedesc),
            ),
            ("-", "-", "warc/warcinfo0.1.0", Some(NonWeb::Warcinfo)),
            ("-", "-", "", Some(NonWeb::Warcinfo)),
            (
                "org,gnu)/software",
                "metadata://gnu.org/software",
                "text/plain",
                Some(NonWeb::Metadata),
            ),
            (
                "org,archive,web)/screenshot/com,a)/",
                "http://web.archive.org/screenshot/http://a.com/",
                "image/png",
                Some(NonWeb::Screenshot),
            ),
            (
                "urn:view:http://a.com/",
                "urn:view:http://a.com/",
                "image/png",
                Some(NonWeb::Screenshot),
            ),
            ("x", "urn:pageinfo:http://a.com/", "", Some(NonWeb::Derived)),
            (
                "01_03_03).pdf",
                "youtube-dl:http://a.pt/(01).pdf",
                "",
                Some(NonWeb::Derived),
            ),
            ("x", "whois://a.com/b", "", Some(NonWeb::Whois)),
            ("x", "gopher://a.com/b", "", Some(NonWeb::Other)),
            ("x", "file:///a b", "", Some(NonWeb::File)),
            ("com,a)/", "http://a.com/", "alexa/dat", Some(NonWeb::Dat)),
            (
                "com,a)/",
                "http://a.com/",
                "warc/request",
                Some(NonWeb::Request),
            ),
            ("com,a)/", "http://a.com/", "warc/revisit", None),
            (
                "com,a)/",
                "http://a.com/",
                "text/anvl",
                Some(NonWeb::Metadata),
            ),
            (
                "com,a)/",
                "http://a.com/",
                "application/warc-fields",
                Some(NonWeb::Metadata),
            ),
            ("-", "", "application/warc-fields", Some(NonWeb::Warcinfo)),
        ];
        for (key, url, mime, expected) in cases {
            assert_eq!(kind(key, url, mime), expected, "{key} {url} {mime}");
        }
    }

    #[test]
    fn what_a_server_called_anvl_is_a_capture() {
        for (line, expected) in [
            (
                r#"com,a)/ 20040101000000 {"mime": "text/anvl", "status": "200", "url": "http://a.com/"}"#,
                None,
            ),
            (
                r#"com,a)/ 20040101000000 {"mime": "text\/anvl", "statuscode": 404, "url": "http://a.com/"}"#,
                None,
            ),
            (
                r#"com,a)/ 20040101000000 {"mime": "text\/anvl", "status": "-", "url": "http://a.com/"}"#,
                Some(NonWeb::Metadata),
            ),
            (
                "com,a)/ 20040101000000 http://a.com/ text/anvl 200 D - - 1 2 a.warc",
                None,
            ),
            (
                "com,a)/ 20040101000000 http://a.com/ text/anvl - D - - 1 2 a.warc",
                Some(NonWeb::Metadata),
            ),
        ] {
            let layout = FileLayout::detect(line.as_bytes());
            let wanted = Field::Url | Field::Mime;
            match layout.read(line.as_bytes(), wanted, false) {
                Line::Capture(capture, _) => assert_eq!(non_web(&capture), expected, "{line}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_lookup_finds_captures_and_what_its_own_key_says() {
        let found = |key: &str, url: &str, mime: &str| {
            let mut capture = Capture::new(b"", key.as_bytes(), b"2004");
            capture.set(Field::Url, url.as_bytes());
            capture.set(Field::Mime, mime.as_bytes());
            answers(&capture)
        };
        assert!(found("com,a)/", "http://a.com/", "warc/revisit"));
        assert!(!found("com,a)/", "http://a.com/", "warc/request"));
        assert!(found("dns:a.com", "dns:a.com", "text/dns"));
        assert!(!found("com,a)/", "dns:a.com", "text/dns"));
    }

    #[test]
    fn what_can_be_no_url_is_known() {
        for url in [
            "http://a/",
            "example.com",
            "www.a.b/c?d",
            "dns:a",
            "-",
            "urn:x",
            "a.b:80/",
        ] {
            assert!(can_be_url(url.as_bytes()), "{url}");
        }
        for url in [
            "",
            "some/not/even/url/thing",
            "text/html",
            "200",
            "/a.b",
            "http://",
        ] {
            assert!(!can_be_url(url.as_bytes()), "{url}");
        }
    }
}
