//! A SURT taken apart, without copying.
//!
//! ```text
//! uk,co,bbc,news:8080)/images/logo.png?height=80
//! └──── host ───┘└port┘└─── path ─────┘└ query ┘
//! ```
//!
//! The host ends at the first `)`, if no `/` comes before it. Everything here follows from what
//! comes first in the bytes and nothing looks ahead, so that SURTs that start alike are taken apart
//! alike: trees of them rest on that.

use std::cmp::Ordering;
use std::fmt;

use memchr::{memchr, memchr2, memrchr};

/// What a SURT names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A host by name: `com,example)/`.
    Host,
    /// A host by address: `1,0,0,127)/`, `::1)/`.
    Address,
    /// No host: `mailto:someone@example.com`, `urn:uuid:…`, and whatever else is not a SURT.
    Bare,
}

/// A borrowed SURT.
///
/// ```
/// use waypost_surt::Surt;
///
/// let surt = Surt::new(b"uk,co,bbc,news:8080)/images/logo.png?height=80");
/// assert_eq!(surt.labels().collect::<Vec<_>>(), [&b"uk"[..], b"co", b"bbc", b"news"]);
/// assert_eq!(surt.port(), Some(&b"8080"[..]));
/// assert_eq!(surt.segments().count(), 2);
/// assert_eq!(surt.query(), Some(&b"height=80"[..]));
/// assert_eq!(surt.to_uri(), b"http://news.bbc.co.uk:8080/images/logo.png?height=80");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Surt<'a> {
    bytes: &'a [u8],
    /// Where the path starts: behind the `)`, or behind the colon of a bare scheme.
    path: usize,
    /// Where the `?` is, or the end.
    query: usize,
    has_host: bool,
}

impl<'a> Surt<'a> {
    /// Parses `bytes`. Any bytes are accepted; anything but a SURT is [`Kind::Bare`].
    pub fn new(bytes: &'a [u8]) -> Surt<'a> {
        let host_end = memchr2(b')', b'/', bytes).filter(|&at| bytes[at] == b')');
        let path = match host_end {
            Some(close) => close + 1,
            None => scheme_length(bytes),
        };
        let query = memchr(b'?', &bytes[path..]).map_or(bytes.len(), |at| path + at);
        Surt {
            bytes,
            path,
            query,
            has_host: host_end.is_some(),
        }
    }

    /// All of it.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// A host by name, by address, or none.
    pub fn kind(&self) -> Kind {
        if !self.has_host {
            Kind::Bare
        } else if self.is_address() {
            Kind::Address
        } else {
            Kind::Host
        }
    }

    /// Whether the top label is a number, which no name's is, or the host is an IPv6 address.
    fn is_address(&self) -> bool {
        let authority = self.authority();
        let top = &authority[..memchr2(b',', b':', authority).unwrap_or(authority.len())];
        (!top.is_empty() && top.iter().all(u8::is_ascii_digit))
            || is_dotted_quad(top)
            || is_ipv6(authority)
    }

    /// Host and port as they stand: `uk,co,bbc,news:8080`. Empty without a host.
    pub fn authority(&self) -> &'a [u8] {
        if self.has_host {
            &self.bytes[..self.path - 1]
        } else {
            b""
        }
    }

    /// The host's labels as they stand, without the port: `uk,co,bbc,news`.
    pub fn host(&self) -> &'a [u8] {
        let authority = self.authority();
        match self.port() {
            Some(port) => &authority[..authority.len() - port.len() - 1],
            None => authority,
        }
    }

    /// The host's labels, the top one first.
    pub fn labels(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let host = self.host();
        // An empty host has no labels, where `split` would give one.
        host.split(|&byte| byte == b',')
            .filter(move |_| !host.is_empty())
    }

    /// The port, if there is one. The colons of an IPv6 address are not taken for one.
    pub fn port(&self) -> Option<&'a [u8]> {
        let authority = self.authority();
        let colon = memrchr(b':', authority)?;
        let (host, port) = (&authority[..colon], &authority[colon + 1..]);
        (!port.is_empty() && port.iter().all(u8::is_ascii_digit) && !is_ipv6(authority))
            .then_some(port)
            .filter(|_| !host.is_empty())
    }

    /// The path with its leading slash, without the query. Behind a bare scheme, all the rest.
    pub fn path(&self) -> &'a [u8] {
        &self.bytes[self.path..self.query]
    }

    /// The path's segments. The root has none, and a slash at the end adds none.
    pub fn segments(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let path = self.path();
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let path = path.strip_suffix(b"/").unwrap_or(path);
        path.split(|&byte| byte == b'/')
            .filter(move |_| !path.is_empty())
    }

    /// What stands behind the `?`.
    pub fn query(&self) -> Option<&'a [u8]> {
        self.bytes.get(self.query + 1..)
    }

    /// All of it but the query.
    pub fn without_query(&self) -> &'a [u8] {
        &self.bytes[..self.query]
    }

    /// Everything before the path: `uk,co,bbc,news:8080)`, `mailto:`.
    pub(crate) fn before_path(&self) -> &'a [u8] {
        &self.bytes[..self.path]
    }

    /// The places above this one in the tree of SURTs and itself, from the top: `uk`, `uk,co`,
    /// `uk,co,bbc`, `uk,co,bbc)`, `uk,co,bbc)/images`, … and last the whole if it has a query.
    pub fn prefixes(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let authority = self.authority();
        let hosts = memchr::memchr2_iter(b',', b':', authority).chain([authority.len()]);
        let trimmed = self.path + trim_slash(self.path()).len();
        let start = self.path;
        let paths = memchr::memchr_iter(b'/', &bytes[start..trimmed])
            .map(move |at| start + at)
            .chain([trimmed]);
        let whole = (self.query < bytes.len()).then_some(bytes.len());
        let mut last = 0;
        hosts
            .chain(paths)
            .chain(whole)
            .filter(move |&end| std::mem::replace(&mut last, end) != end)
            .map(move |end| &bytes[..end])
    }

    /// Order by segment: a separator sorts below every other byte.
    ///
    /// In plain byte order, which indexes have, `/a`, `/a-b` and `/a/c` stand in this order, because
    /// `-` is below `/`: the subtree of `/a` is torn apart. By segment, a place is followed by
    /// everything below it before anything else comes, so that subtrees can be counted as they pass.
    /// What has no host comes before all that has one.
    pub fn cmp_by_segment(&self, other: &Surt<'_>) -> Ordering {
        if self.has_host != other.has_host {
            return self.has_host.cmp(&other.has_host);
        }
        let (a, b) = (self.bytes, other.bytes);
        let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let rank = match Part::behind(&a[..common]) {
            Part::Host => |byte: u8| match byte {
                b')' => 1,
                b':' => 2,
                b',' => 3,
                other => 4 + u16::from(other),
            },
            Part::Path => |byte: u8| match byte {
                b'?' => 1,
                b'/' => 2,
                other => 4 + u16::from(other),
            },
            Part::Query => |byte: u8| 4 + u16::from(byte),
        };
        let at = |bytes: &[u8]| bytes.get(common).map_or(0, |&byte| rank(byte));
        at(a).cmp(&at(b))
    }

    /// A URI with this SURT, for people. The scheme is a guess: SURTs do not keep it.
    pub fn to_uri(&self) -> Vec<u8> {
        if !self.has_host {
            return self.bytes.to_vec();
        }
        let mut uri = Vec::with_capacity(self.bytes.len() + 8);
        // A port that SURTs drop was not that of the scheme.
        uri.extend_from_slice(match self.port() {
            Some(b"80") => b"https://",
            _ => b"http://",
        });
        let host = self.host();
        if is_ipv6(host) {
            uri.push(b'[');
        }
        let start = uri.len();
        for label in host.rsplit(|&byte| byte == b',') {
            uri.extend_from_slice(label);
            uri.push(b'.');
        }
        uri.pop();
        // One `www` is always taken off, so one that is left was the second.
        if crate::canonicalize::without_www(&uri[start..]).is_some() {
            uri.splice(start..start, *b"www.");
        }
        if is_ipv6(host) {
            uri.push(b']');
        }
        if let Some(port) = self.port() {
            uri.push(b':');
            uri.extend_from_slice(port);
        }
        uri.extend_from_slice(&self.bytes[self.path..]);
        uri
    }
}

impl fmt::Debug for Surt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Surt({:?})", String::from_utf8_lossy(self.bytes))
    }
}

/// Whether a line that may be a URI or a SURT is a SURT: it has a `)` before its first `/` and
/// no scheme.
///
/// ```
/// assert!(waypost_surt::is_surt(b"com,example)/a"));
/// assert!(waypost_surt::is_surt(b"com,example:8080)/a"));
/// assert!(!waypost_surt::is_surt(b"http://example.com/a)"));
/// assert!(!waypost_surt::is_surt(b"example.com/a_(b)"));
/// ```
pub fn is_surt(line: &[u8]) -> bool {
    let surt = Surt::new(line);
    // `javascript:f()` has a `)` and no `/`; in a SURT nothing but a port follows a single colon.
    surt.has_host && (memchr(b':', surt.host()).is_none() || is_ipv6(surt.host()))
}

/// A place without the slashes at its end.
pub(crate) fn trim_slash(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte != b'/');
    end.map_or(&b""[..], |end| &text[..=end])
}

/// Which part of a SURT comes behind a prefix of it.
enum Part {
    Host,
    Path,
    Query,
}

impl Part {
    fn behind(prefix: &[u8]) -> Part {
        match memchr2(b')', b'/', prefix) {
            None => Part::Host,
            Some(at) if memchr(b'?', &prefix[at..]).is_some() => Part::Query,
            Some(_) => Part::Path,
        }
    }
}

/// The length of `scheme:`, or 0.
fn scheme_length(bytes: &[u8]) -> usize {
    match bytes
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-')))
    {
        Some(colon) if colon > 0 && bytes[colon] == b':' => colon + 1,
        _ => 0,
    }
}

/// `127.0.0.1` as some tools leave it, not reversed.
fn is_dotted_quad(label: &[u8]) -> bool {
    label.split(|&byte| byte == b'.').count() == 4
        && label
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Two colons or more, and nothing but what an IPv6 address may hold (dots became commas).
fn is_ipv6(authority: &[u8]) -> bool {
    memchr::memchr_iter(b':', authority).nth(1).is_some()
        && authority
            .iter()
            .all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b',' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(surt: &str) -> Vec<String> {
        Surt::new(surt.as_bytes())
            .prefixes()
            .map(|prefix| String::from_utf8(prefix.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn parts_of_odd_surts_are_where_they_should_be() {
        let bare = Surt::new(b"mailto:someone@example.com");
        assert_eq!(bare.kind(), Kind::Bare);
        assert_eq!(bare.path(), b"someone@example.com");
        assert_eq!(bare.labels().count(), 0);

        for address in ["1,0,0,127)/", "127.0.0.1)/a", "::1)/", "4,3,2,::ffff:1)/"] {
            let surt = Surt::new(address.as_bytes());
            assert_eq!(surt.kind(), Kind::Address, "{address}");
            assert_eq!(surt.port(), None, "{address}");
        }
        assert_eq!(Surt::new(b"1,0,0,127:81)/").port(), Some(&b"81"[..]));

        let local = Surt::new(b"localhost:3000)/?");
        assert_eq!(local.host(), b"localhost");
        assert_eq!(local.port(), Some(&b"3000"[..]));
        assert_eq!(local.query(), Some(&b""[..]));

        let rootless = Surt::new(b"com,cnn)");
        assert_eq!((rootless.path(), rootless.query()), (&b""[..], None));
        assert_eq!(rootless.segments().count(), 0);
        assert_eq!(Surt::new(b"").kind(), Kind::Bare);
    }

    #[test]
    fn prefixes_go_from_the_top_to_the_whole() {
        assert_eq!(
            prefixes("uk,co,bbc:81)/a/b?c"),
            [
                "uk",
                "uk,co",
                "uk,co,bbc",
                "uk,co,bbc:81",
                "uk,co,bbc:81)",
                "uk,co,bbc:81)/a",
                "uk,co,bbc:81)/a/b",
                "uk,co,bbc:81)/a/b?c"
            ]
        );
        assert_eq!(prefixes("com,x)/"), ["com", "com,x", "com,x)"]);
        assert_eq!(prefixes("urn:a/b"), ["urn:a", "urn:a/b"]);
    }

    #[test]
    fn by_segment_a_subtree_stays_together() {
        let mut surts = [
            "com,a)/x-y",
            "com,a)/x",
            "com,a)/x/z",
            "com,a)/x?q",
            "com,a-b)/",
            "com,a,b)/",
            "com,a:81)/",
            "com,a)/",
        ];
        surts.sort_by(|a, b| Surt::new(a.as_bytes()).cmp_by_segment(&Surt::new(b.as_bytes())));
        assert_eq!(
            surts,
            [
                "com,a)/",
                "com,a)/x",
                "com,a)/x?q",
                "com,a)/x/z",
                "com,a)/x-y",
                "com,a:81)/",
                "com,a,b)/",
                "com,a-b)/"
            ]
        );
    }

    #[test]
    fn a_uri_for_people_has_the_same_surt() {
        let mut canonicalizer = crate::Canonicalizer::new(crate::Dialect::Ia);
        for surt in [
            "com,example)/",
            "com,example:80)/a?b=c",
            "x,www)/",
            "1,0,0,127:81)/a",
            "::1)/x",
            "mailto:a@b.c",
            "com,example)/%25/%20",
        ] {
            let uri = Surt::new(surt.as_bytes()).to_uri();
            let mut again = Vec::new();
            canonicalizer.canonicalize(&uri, &mut again).unwrap();
            assert_eq!(String::from_utf8(again).unwrap(), surt);
        }
    }

    #[test]
    fn uris_and_surts_are_told_apart() {
        assert!(is_surt(b"com,example)"));
        assert!(is_surt(b"::1)/"));
        assert!(!is_surt(b"javascript:f()"));
        assert!(!is_surt(b"mailto:a@b.c"));
        assert!(!is_surt(b"https://x/(a)"));
    }
}
