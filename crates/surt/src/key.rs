//! Keys of maps: nodes in the tree of SURTs, alone or with their subtrees.
//!
//! | key | covers |
//! |---|---|
//! | `com,example)/a` | `com,example)/a`, with any query |
//! | `com,example)/a?b` | just that |
//! | `com,example)/a/*` | `com,example)/a` and everything below it |
//! | `com,example)/*` | everything on the host, but not on its ports |
//! | `com,example,*` | the host, its ports and every host below it |
//! | `*` | everything |
//!
//! The root may be spelled `com,example)/` or `com,example)`, and `uk,gov,*)/` is read as `uk,gov,*`.
//! These are not the keys of a policy, whose `uk)/` stands for all of `.uk`: that depends on the
//! policy ([`Policy::cut`](crate::Policy::cut)).

use std::fmt;

use memchr::{memchr, memchr2};

use crate::surt::trim_slash;
use crate::{Kind, Surt};

/// A key of a map.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key<'a> {
    /// The node, without the part that says how far the key reaches.
    stem: &'a [u8],
    reach: Reach,
}

/// How far below its node a key reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// The node alone.
    Exact,
    /// `X/*`: the node and every path below it.
    Paths,
    /// `X,*`: the host, its ports, and every host below it.
    Hosts,
    /// `*`: everything.
    All,
}

impl<'a> Key<'a> {
    /// Parses a key of a map. Any bytes are a key.
    pub fn new(text: &'a [u8]) -> Key<'a> {
        let host = text
            .strip_suffix(b",*")
            .or(text.strip_suffix(b",*)/"))
            .or(text.strip_suffix(b",*)"))
            // A comma and a star in a path are just that, and so they are behind a bare scheme.
            .filter(|host| memchr2(b')', b'/', host).is_none() && !is_bare(host));
        let (stem, reach) = if text == b"*" {
            (&b""[..], Reach::All)
        } else if let Some(host) = host {
            (host, Reach::Hosts)
        } else if Surt::new(text).query().is_some() || !has_host(text) {
            // So is a star in a query, and behind a bare scheme.
            (text, Reach::Exact)
        } else if let Some(stem) = text.strip_suffix(b"/*") {
            (trim_root(stem), Reach::Paths)
        } else {
            (trim_root(text), Reach::Exact)
        };
        Key { stem, reach }
    }

    /// The node, where a root is spelled without its slash: `com,example)`.
    pub fn stem(&self) -> &'a [u8] {
        self.stem
    }

    /// How far it reaches.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Appends the key in the spelling of maps.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.stem);
        out.extend_from_slice(match self.reach {
            Reach::Exact if self.is_root() => b"/",
            Reach::Exact => b"",
            Reach::Paths => b"/*",
            Reach::Hosts => b",*",
            Reach::All => b"*",
        });
    }

    /// Whether the key covers this SURT.
    pub fn covers(&self, surt: &Surt<'_>) -> bool {
        match self.reach {
            Reach::All => true,
            Reach::Exact if Surt::new(self.stem).query().is_some() => surt.as_bytes() == self.stem,
            Reach::Exact => trim_slash(surt.without_query()) == trim_slash(self.stem),
            Reach::Paths => trim_slash(surt.without_query())
                .strip_prefix(self.stem)
                .is_some_and(|below| below.is_empty() || self.is_root() || below[0] == b'/'),
            Reach::Hosts => {
                surt.kind() != Kind::Bare
                    && surt
                        .authority()
                        .strip_prefix(self.stem)
                        .is_some_and(|below| matches!(below.first(), None | Some(b',' | b':')))
            }
        }
    }

    /// Whether the stem is a whole host and nothing more.
    fn is_root(&self) -> bool {
        let stem = Surt::new(self.stem);
        stem.kind() != Kind::Bare && stem.path().is_empty() && stem.query().is_none()
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Whether a host ends in the text.
fn has_host(text: &[u8]) -> bool {
    memchr2(b')', b'/', text).is_some_and(|at| text[at] == b')')
}

/// Whether the start of a key is a scheme and what follows it (`urn:a`), not a host with its port
/// (`localhost:8080`) or the start of an address (`fe80::1`).
fn is_bare(text: &[u8]) -> bool {
    match memchr(b':', text) {
        Some(colon) => {
            let (scheme, rest) = (&text[..colon], &text[colon + 1..]);
            memchr2(b':', b',', scheme).is_none()
                && !scheme.is_empty()
                && memchr(b':', rest).is_none()
                && !rest.iter().all(u8::is_ascii_digit)
        }
        None => false,
    }
}

/// A root without its slash; anything else as it is.
fn trim_root(text: &[u8]) -> &[u8] {
    let surt = Surt::new(text);
    if surt.path() == b"/" && surt.query().is_none() {
        &text[..text.len() - 1]
    } else {
        text
    }
}

impl<'a> Surt<'a> {
    /// The keys that cover this SURT, from the most specific to `*`. The first that a map has decides.
    ///
    /// ```
    /// use waypost_surt::Surt;
    ///
    /// let keys: Vec<String> = Surt::new(b"uk,co,bbc)/images?x").candidates().map(|k| k.to_string()).collect();
    /// assert_eq!(
    ///     keys,
    ///     ["uk,co,bbc)/images?x", "uk,co,bbc)/images", "uk,co,bbc)/images/*", "uk,co,bbc)/*",
    ///      "uk,co,bbc,*", "uk,co,*", "uk,*", "*"]
    /// );
    /// ```
    pub fn candidates(&self) -> impl Iterator<Item = Key<'a>> + use<'a> {
        let place = trim_slash(self.without_query());
        let has_host = self.kind() != Kind::Bare;
        let bytes = self.as_bytes();
        let with_query = self.query().map(|_| bytes);
        let exact = with_query.into_iter().chain([place]).map(|stem| Key {
            stem,
            reach: Reach::Exact,
        });
        let path_start = self.before_path().len().min(place.len());
        let paths = std::iter::once(place.len())
            .chain(memchr::memrchr_iter(b'/', &place[path_start..]).map(move |at| path_start + at))
            // A path that does not start with a slash is not cut at the host by one.
            .chain((place.get(path_start).is_some_and(|&b| b != b'/')).then_some(path_start))
            .filter(move |_| has_host)
            .map(move |end| Key {
                stem: &place[..end],
                reach: Reach::Paths,
            });
        let authority = self.authority();
        let hosts = has_host
            .then_some(authority.len())
            .into_iter()
            .chain(memchr::memrchr2_iter(b',', b':', authority))
            .map(move |end| Key {
                stem: &authority[..end],
                reach: Reach::Hosts,
            });
        exact.chain(paths).chain(hosts).chain([Key {
            stem: b"",
            reach: Reach::All,
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(surt: &str) -> Vec<String> {
        Surt::new(surt.as_bytes())
            .candidates()
            .map(|key| key.to_string())
            .collect()
    }

    fn covers(key: &str, surt: &str) -> bool {
        Key::new(key.as_bytes()).covers(&Surt::new(surt.as_bytes()))
    }

    #[test]
    fn a_wildcard_covers_its_own_node_and_nothing_beside_it() {
        assert!(covers("com,x)/a/*", "com,x)/a"));
        assert!(covers("com,x)/a/*", "com,x)/a/"));
        assert!(covers("com,x)/a/*", "com,x)/a?q"));
        assert!(covers("com,x)/a/*", "com,x)/a/b/c?q"));
        assert!(!covers("com,x)/a/*", "com,x)/a-b"));
        assert!(!covers("com,x)/a/*", "com,x)/"));
        assert!(covers("com,x)/*", "com,x)/"));
        assert!(covers("com,x)/*", "com,x)"));
        assert!(!covers("com,x)/*", "com,x,y)/"));
    }

    #[test]
    fn a_port_lies_below_its_host() {
        assert!(covers("com,x,*", "com,x:8080)/"));
        assert!(!covers("com,x)/*", "com,x:8080)/"));
        assert!(covers("com,x:8080)/*", "com,x:8080)/a"));
        assert_eq!(
            candidates("com,x:8080)/a"),
            [
                "com,x:8080)/a",
                "com,x:8080)/a/*",
                "com,x:8080)/*",
                "com,x:8080,*",
                "com,x,*",
                "com,*",
                "*"
            ]
        );
    }

    #[test]
    fn a_host_wildcard_covers_the_host_and_the_hosts_below_it() {
        for key in ["uk,gov,*", "uk,gov,*)/", "uk,gov,*)"] {
            assert!(covers(key, "uk,gov)/"), "{key}");
            assert!(covers(key, "uk,gov,a,b)/c?d"), "{key}");
            assert!(!covers(key, "uk,governor)/"), "{key}");
        }
        assert!(!covers("com,x)/a,*", "com,x)/a,b"));
    }

    #[test]
    fn both_spellings_of_the_root_are_one_key() {
        assert_eq!(Key::new(b"com,x)/"), Key::new(b"com,x)"));
        assert_eq!(Key::new(b"com,x)").to_string(), "com,x)/");
        assert!(covers("com,x)", "com,x)/?q"));
    }

    #[test]
    fn keys_with_a_query_come_first_and_cover_only_it() {
        assert!(covers("com,x)/a?b", "com,x)/a?b"));
        assert!(!covers("com,x)/a?b", "com,x)/a?c"));
        assert!(!covers("com,x)/a?b", "com,x)/a"));
    }

    #[test]
    fn a_star_behind_a_bare_scheme_is_no_wildcard() {
        for key in ["urn:a,*", "mailto:a/*", "urn:a/b,*"] {
            assert_eq!(Key::new(key.as_bytes()).reach(), Reach::Exact, "{key}");
            assert!(covers(key, key), "{key}");
        }
        for key in [
            "localhost:8080,*",
            "::1,*",
            "fe80::1,*",
            "com,x:81,*",
            ",*",
            "x,*",
        ] {
            assert_eq!(Key::new(key.as_bytes()).reach(), Reach::Hosts, "{key}");
        }
    }

    #[test]
    fn candidates_of_odd_places_go_up_to_everything() {
        assert_eq!(
            candidates("com,x)//a"),
            [
                "com,x)//a",
                "com,x)//a/*",
                "com,x)//*",
                "com,x)/*",
                "com,x,*",
                "com,*",
                "*"
            ]
        );
        assert_eq!(
            candidates("localhost)/a"),
            [
                "localhost)/a",
                "localhost)/a/*",
                "localhost)/*",
                "localhost,*",
                "*"
            ]
        );
        assert_eq!(
            candidates("127.0.0.1)/"),
            ["127.0.0.1)/", "127.0.0.1)/*", "127.0.0.1,*", "*"]
        );
        assert_eq!(candidates("urn:a/b?c"), ["urn:a/b?c", "urn:a/b", "*"]);
        assert_eq!(candidates(""), ["", "*"]);
        assert_eq!(
            candidates("com,x)/a,b/c_(d)"),
            [
                "com,x)/a,b/c_(d)",
                "com,x)/a,b/c_(d)/*",
                "com,x)/a,b/*",
                "com,x)/*",
                "com,x,*",
                "com,*",
                "*"
            ]
        );
    }
}
