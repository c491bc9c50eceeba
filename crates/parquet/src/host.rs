//! The parts of a URL that are columns: host, port, path, query, and the suffixes of the host.

use psl::{List, Psl, Type};

/// A URL, split without canonicalising it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Url<'a> {
    pub(crate) protocol: &'a [u8],
    pub(crate) host: Vec<u8>,
    pub(crate) port: Option<i32>,
    pub(crate) path: &'a [u8],
    pub(crate) query: Option<&'a [u8]>,
}

impl<'a> Url<'a> {
    pub(crate) fn split(url: &'a [u8]) -> Url<'a> {
        let Some(at) = memchr::memchr(b':', url) else {
            return Url {
                path: url,
                ..Url::default()
            };
        };
        let (protocol, rest) = (&url[..at], &url[at + 1..]);
        let Some(rest) = rest.strip_prefix(b"//") else {
            // `dns:example.com`: the host is the name that was looked up.
            let host = rest.strip_prefix(b"//").unwrap_or(rest);
            let is_name = matches!(protocol, b"dns" | b"whois");
            return Url {
                protocol,
                host: if is_name {
                    host.to_ascii_lowercase()
                } else {
                    Vec::new()
                },
                path: if is_name { b"" } else { rest },
                ..Url::default()
            };
        };
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?' | b'#'));
        let (authority, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let host = match memchr::memrchr(b'@', authority) {
            Some(at) => &authority[at + 1..],
            None => authority,
        };
        // The colons of an IPv6 address are in brackets.
        let colon = memchr::memrchr(b':', host).filter(|at| !host[*at..].contains(&b']'));
        let (host, port) = match colon {
            Some(at) => {
                let port = std::str::from_utf8(&host[at + 1..]).ok();
                (&host[..at], port.and_then(|port| port.parse().ok()))
            }
            None => (host, None),
        };
        let rest = &rest[..memchr::memchr(b'#', rest).unwrap_or(rest.len())];
        let (path, query) = match memchr::memchr(b'?', rest) {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        Url {
            protocol,
            host: host.to_ascii_lowercase(),
            port,
            path,
            query,
        }
    }
}

/// The labels and suffixes of a host; none for an address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names<'a> {
    /// The last label, the one before it, and so on.
    pub(crate) parts: [Option<&'a [u8]>; 5],
    pub(crate) registry_suffix: Option<&'a [u8]>,
    pub(crate) registered_domain: Option<&'a [u8]>,
    pub(crate) private_suffix: Option<&'a [u8]>,
    pub(crate) private_domain: Option<&'a [u8]>,
    pub(crate) reversed: Option<Vec<u8>>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(host: &'a [u8]) -> Names<'a> {
        let host = host.strip_suffix(b".").unwrap_or(host);
        if host.is_empty() || is_address(host) {
            return Names::default();
        }
        let mut labels = host.rsplit(|byte| *byte == b'.');
        let parts = std::array::from_fn(|_| labels.next());
        let mut reversed = Vec::with_capacity(host.len());
        for label in host.rsplit(|byte| *byte == b'.') {
            if !reversed.is_empty() {
                reversed.push(b'.');
            }
            reversed.extend_from_slice(label);
        }
        let private = suffix(host);
        let mut registry = private;
        // A company's suffix lies below a registry's: look again without its first label.
        while let Some((name, true)) = registry {
            let dot = memchr::memchr(b'.', name);
            registry = dot.and_then(|dot| suffix(&name[dot + 1..]));
        }
        let (private, registry) = (
            private.map(|(name, _)| name),
            registry.map(|(name, _)| name),
        );
        Names {
            parts,
            registry_suffix: registry,
            registered_domain: registry.and_then(|suffix| below(host, suffix)),
            private_suffix: private,
            private_domain: private.and_then(|suffix| below(host, suffix)),
            reversed: Some(reversed),
        }
    }
}

/// The public suffix of a host, and whether it is a company's.
fn suffix(host: &[u8]) -> Option<(&[u8], bool)> {
    let found = List.suffix(host)?;
    let length = found.as_bytes().len();
    let is_private = found.typ() == Some(Type::Private);
    found
        .is_known()
        .then(|| (&host[host.len() - length..], is_private))
}

/// The suffix of a host with one more label.
fn below<'a>(host: &'a [u8], suffix: &[u8]) -> Option<&'a [u8]> {
    let rest = host.len().checked_sub(suffix.len() + 1)?;
    let start = memchr::memrchr(b'.', &host[..rest]).map_or(0, |dot| dot + 1);
    Some(&host[start..])
}

fn is_address(host: &[u8]) -> bool {
    host.starts_with(b"[")
        || host
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_as_they_are() {
        let url = Url::split(b"https://me@WWW.Example.com:8443/a/b?c=d#e");
        assert_eq!(url.host, b"www.example.com");
        assert_eq!((url.protocol, url.port), (&b"https"[..], Some(8443)));
        assert_eq!((url.path, url.query), (&b"/a/b"[..], Some(&b"c=d"[..])));
        assert_eq!(Url::split(b"http://a.com").path, b"");
        assert_eq!(Url::split(b"http://[::1]:80/x").port, Some(80));
        assert_eq!(Url::split(b"dns:A.com").host, b"a.com");
        assert_eq!(Url::split(b"nothing").protocol, b"");
    }

    #[test]
    fn suffixes_are_those_of_registries_and_of_companies() {
        let names = Names::of(b"www.bbc.co.uk");
        assert_eq!(names.registry_suffix, Some(&b"co.uk"[..]));
        assert_eq!(names.registered_domain, Some(&b"bbc.co.uk"[..]));
        assert_eq!(names.private_domain, Some(&b"bbc.co.uk"[..]));
        assert_eq!(names.reversed.as_deref(), Some(&b"uk.co.bbc.www"[..]));
        assert_eq!(names.parts[1], Some(&b"co"[..]));
        let names = Names::of(b"a.b.blogspot.com");
        assert_eq!(names.registered_domain, Some(&b"blogspot.com"[..]));
        assert_eq!(names.private_suffix, Some(&b"blogspot.com"[..]));
        assert_eq!(names.private_domain, Some(&b"b.blogspot.com"[..]));
        assert_eq!(Names::of(b"com").registered_domain, None);
        assert_eq!(Names::of(b"1.2.3.4"), Names::default());
    }
}
