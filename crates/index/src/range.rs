//! The key ranges of a lookup in a sorted index.
//!
//! | match | of `http://example.com/a` | as ranges of lines |
//! |---|---|---|
//! | exact | this URI-R | from `com,example)/a` to before `com,example)/a!` |
//! | prefix | everything with this prefix | from `com,example)/a` to before `com,example)/b` |
//! | host | everything on `example.com`, at every port | from `com,example)/` to before `com,example*`, and from `com,example:` to before `com,example;` |
//! | domain | the host and its subdomains, at every port | from `com,example)/` to before `com,example-`, and from `com,example:` to before `com,example;` |
//!
//! A space follows the key in a line and `!` follows the space in ASCII, `*` follows `)`, and `-`
//! follows `,`. Keys with a port have `:` instead of `)` and sort far away: CDX servers read only
//! the first range and miss them. [`ranges`] returns both; [`pywb_range`] returns the range of pywb.

use std::fmt;
use std::str::FromStr;

use waypost_surt::Surt;

/// Which keys match a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Match {
    /// The same key.
    #[default]
    Exact,
    /// Keys with this prefix.
    Prefix,
    /// Keys of the same host, at any port.
    Host,
    /// Keys of the same host and its subdomains, at any port.
    Domain,
}

impl Match {
    /// All variants.
    pub const ALL: [Match; 4] = [Match::Exact, Match::Prefix, Match::Host, Match::Domain];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Match::Exact => "exact",
            Match::Prefix => "prefix",
            Match::Host => "host",
            Match::Domain => "domain",
        }
    }

    /// Parses wildcards: `*.example.com` is a domain and `example.com/a*` a prefix. Returns the URI
    /// without the star.
    pub fn of_wildcard(uri: &[u8]) -> Option<(Match, &[u8])> {
        if let Some(domain) = uri.strip_prefix(b"*.") {
            return Some((Match::Domain, domain));
        }
        uri.strip_suffix(b"*").map(|prefix| (Match::Prefix, prefix))
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Match {
    type Err = String;

    fn from_str(name: &str) -> Result<Match, String> {
        let known = Match::ALL.into_iter().find(|known| known.name() == name);
        known.ok_or_else(|| format!("invalid match `{name}`: use exact, prefix, host or domain"))
    }
}

/// Lines from `start` up to but not including `end`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// The lower bound, inclusive.
    pub start: Vec<u8>,
    /// The upper bound, exclusive.
    pub end: Vec<u8>,
}

impl Range {
    fn new(start: &[u8], start_tail: &[u8], end: &[u8], end_tail: &[u8]) -> Range {
        Range {
            start: [start, start_tail].concat(),
            end: [end, end_tail].concat(),
        }
    }

    /// Whether the range contains a line.
    pub fn contains(&self, line: &[u8]) -> bool {
        line >= &self.start[..] && line < &self.end[..]
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (&self.start, &self.end);
        write!(f, "{}..{}", start.escape_ascii(), end.escape_ascii())
    }
}

/// The ranges of a lookup of `uri`, whose SURT is `surt`: the [`pywb_range`], and those of the same
/// host at other ports. They are sorted and do not overlap.
///
/// If the URI has a port, a host lookup matches only that port; a domain lookup matches all ports.
pub fn ranges(uri: &[u8], surt: &[u8], kind: Match) -> Vec<Range> {
    let taken = Surt::new(surt);
    let (host, port) = (taken.host(), taken.port());
    match kind {
        Match::Host if port.is_none() && !host.is_empty() => {
            vec![
                Range::new(host, b")/", host, b"*"),
                Range::new(host, b":", host, b";"),
            ]
        }
        Match::Domain if !host.is_empty() => {
            // A name without a comma is a whole top-level domain.
            let start: &[u8] = if host.contains(&b',') { b")/" } else { b"," };
            vec![
                Range::new(host, start, host, b"-"),
                Range::new(host, b":", host, b";"),
            ]
        }
        _ => vec![pywb_range(uri, surt, kind)],
    }
}

/// The range that pywb reads in an index with SURT keys.
pub fn pywb_range(uri: &[u8], surt: &[u8], kind: Match) -> Range {
    match kind {
        Match::Exact => Range::new(surt, b"", surt, b"!"),
        Match::Prefix => {
            let mut start = surt.to_vec();
            // Canonicalisation drops these at the end, but here they are part of the prefix.
            match uri.trim_ascii_end().last() {
                Some(b'?') if !surt.contains(&b'?') => start.push(b'?'),
                Some(b'/') if start.last() != Some(&b'/') && !surt.contains(&b'?') => {
                    start.push(b'/');
                }
                _ => {}
            }
            let mut end = start.clone();
            if let Some(last) = end.last_mut() {
                *last = last.saturating_add(1);
            }
            Range { start, end }
        }
        Match::Host => {
            let host = host_with_port(surt);
            Range::new(host, b")/", host, b"*")
        }
        Match::Domain => {
            let host = host_with_port(surt);
            let start: &[u8] = if host.contains(&b',') { b")/" } else { b"," };
            Range::new(host, start, host, b"-")
        }
    }
}

/// The part before `)/`, or everything.
fn host_with_port(surt: &[u8]) -> &[u8] {
    let end = memchr::memmem::find(surt, b")/");
    &surt[..end.unwrap_or(surt.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(uri: &str, surt: &str, kind: Match, key: &str) -> bool {
        let line = format!("{key} 20200101000000 {{}}");
        let ranges = ranges(uri.as_bytes(), surt.as_bytes(), kind);
        assert!(ranges.is_sorted(), "{ranges:?}");
        ranges.iter().any(|range| range.contains(line.as_bytes()))
    }

    #[test]
    fn hosts_and_domains_are_found_at_every_port() {
        let (uri, surt) = ("http://example.com/", "com,example)/");
        for (key, host, domain) in [
            ("com,example)/", true, true),
            ("com,example)/a?b", true, true),
            ("com,example:8080)/a", true, true),
            ("com,example,www2)/", false, true),
            ("com,example,api:8443)/", false, true),
            ("com,example-other)/", false, false),
            ("com,examples)/", false, false),
            ("com,example2:80)/", false, false),
            ("com)/", false, false),
        ] {
            assert_eq!(finds(uri, surt, Match::Host, key), host, "{key}");
            assert_eq!(finds(uri, surt, Match::Domain, key), domain, "{key}");
        }
    }

    #[test]
    fn a_port_in_the_uri_means_that_port_of_the_host() {
        let (uri, surt) = ("http://example.com:8080/", "com,example:8080)/");
        assert!(finds(uri, surt, Match::Host, "com,example:8080)/a"));
        assert!(!finds(uri, surt, Match::Host, "com,example:80801)/a"));
        assert!(!finds(uri, surt, Match::Host, "com,example)/a"));
        assert!(finds(uri, surt, Match::Domain, "com,example,www)/a"));
    }

    #[test]
    fn an_exact_lookup_does_not_find_longer_keys() {
        let (uri, surt) = ("http://example.com/a", "com,example)/a");
        assert!(finds(uri, surt, Match::Exact, surt));
        assert!(!finds(uri, surt, Match::Exact, "com,example)/a/b"));
        assert!(!finds(uri, surt, Match::Exact, "com,example)/a!b"));
        assert!(finds(uri, surt, Match::Prefix, "com,example)/a!b"));
        assert!(!finds(uri, surt, Match::Prefix, "com,example)/b"));
    }

    #[test]
    fn stars_are_read_as_people_write_them() {
        assert_eq!(
            Match::of_wildcard(b"*.a.com"),
            Some((Match::Domain, &b"a.com"[..]))
        );
        assert_eq!(
            Match::of_wildcard(b"a.com/b*"),
            Some((Match::Prefix, &b"a.com/b"[..]))
        );
        assert_eq!(Match::of_wildcard(b"a.com/b"), None);
    }
}
