//! Compares a plain URI with a SURT without canonicalising it.
//!
//! Most URIs of an index need no canonicalisation beyond reversing the host, dropping `www` and
//! changing case, and the dialects agree on those except for a trailing slash.
//! They are recognised here and compared in place, several times faster than by building their SURT.

use memchr::{memchr, memchr2, memrchr};

use super::query;
use crate::Dialect;

/// Compares URIs with SURTs.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    dialect: Dialect,
    /// The host of the last URI, and its labels in reverse order with the parenthesis after them. Indexes are
    /// sorted, so the next URI probably has the same.
    host: Vec<u8>,
    labels: Vec<u8>,
}

impl Plain {
    pub(super) fn new(dialect: Dialect) -> Plain {
        Plain {
            dialect,
            host: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Whether `surt` is the SURT of `uri`. `None` if the URI is not plain enough to tell.
    #[inline]
    pub(super) fn matches(&mut self, uri: &[u8], surt: &[u8]) -> Option<bool> {
        let rest = without_scheme(uri)?;
        if let (Some(path @ [b'/', ..]), Some(rest)) = (
            rest.strip_prefix(&self.host[..]),
            surt.strip_prefix(&self.labels[..]),
        ) && !self.host.is_empty()
        {
            return match !self.dialect.is_webrecorder()
                && is_usual_path(uri, path.len(), surt, rest.len())
            {
                true => Some(true),
                false => self.matches_behind_host(path, rest),
            };
        }
        self.matches_with_host(rest, surt)
    }

    /// The same for what follows the scheme.
    #[inline(never)]
    fn matches_with_host(&mut self, rest: &[u8], surt: &[u8]) -> Option<bool> {
        let (authority, path) = match memchr2(b'/', b'?', rest) {
            Some(end) if rest[end] == b'/' => rest.split_at(end),
            Some(_) => return None,
            None => (rest, &b"/"[..]),
        };
        if !is_plain_host(authority) {
            return None;
        }
        if self.dialect.is_webrecorder() && !is_plain_host_for_webrecorder(authority) {
            return None;
        }
        let host = match strip_www(authority) {
            // Some dialects remove more than one `www`.
            Some(host) if strip_www(host).is_some() => return None,
            Some(host) => host,
            None => authority,
        };
        let labels = surt.get(..=host.len());
        match labels.and_then(<[u8]>::split_last) {
            Some((b')', labels)) if is_reversed(host, labels) => {}
            // Another host is no match, if the rest is plain, too.
            _ => return self.matches_behind_host(path, b"").map(|_| false),
        }
        self.host.clear();
        self.host.extend_from_slice(authority);
        self.labels.clear();
        self.labels.extend_from_slice(&surt[..=host.len()]);
        self.matches_behind_host(path, &surt[host.len() + 1..])
    }

    /// The same for what follows the host.
    fn matches_behind_host(&self, path: &[u8], surt: &[u8]) -> Option<bool> {
        let (path, query) = match memchr(b'?', path) {
            Some(question) => path.split_at(question),
            None => (path, &b""[..]),
        };
        if !is_plain_path(path) || !is_plain_query(query, self.dialect) {
            return None;
        }
        if self.dialect == Dialect::WebrecorderLegacy && !query.is_empty() {
            return None;
        }
        let is_webrecorder = self.dialect.is_webrecorder();
        if is_webrecorder && !is_plain_for_webrecorder(path, query) {
            return None;
        }
        // One slash is removed from the end of a path.
        let path = match path {
            path if is_webrecorder => path,
            [rest @ .., b'/'] if !rest.is_empty() => rest,
            path => path,
        };
        if surt.len() != path.len() + query.len() {
            return Some(false);
        }
        let (surt_path, surt_query) = surt.split_at(path.len());
        Some(is_lower(path, surt_path) && is_lower(query, surt_query))
    }
}

/// What follows `http://` or `https://`.
#[inline]
fn without_scheme(uri: &[u8]) -> Option<&[u8]> {
    let start: &[u8; 8] = uri.first_chunk()?;
    // Not one after the other, because which of them it is differs from line to line.
    let (http, https) = (start.starts_with(b"http://"), start == b"https://");
    (http | https).then(|| &uri[7 + usize::from(https)..])
}

/// Whether a path at the end of a URI, without a query, is plain and the rest of a SURT is the same in lower
/// case. `false` also if this has to be found out in another way.
#[inline]
fn is_usual_path(uri: &[u8], path: usize, surt: &[u8], rest: usize) -> bool {
    const WIDTH: usize = 16;
    // One slash is removed from the end of a path, but it must not be one of two.
    let slash = usize::from(path > 1 && uri.ends_with(b"/"));
    let uri = &uri[..uri.len() - slash];
    if path - slash != rest || slash == 1 && uri.ends_with(b"/") {
        return false;
    }
    // From the end, so that what precedes the path and is not to be compared can be read, too.
    let (mut left, mut uri, mut surt) = (rest, uri, surt);
    let mut odd = 0;
    loop {
        let (Some(shifted), Some((uri_rest, bytes)), Some((surt_rest, lower))) = (
            uri.len()
                .checked_sub(1)
                .and_then(|end| uri[..end].last_chunk::<WIDTH>()),
            uri.split_last_chunk::<WIDTH>(),
            surt.split_last_chunk::<WIDTH>(),
        ) else {
            return false;
        };
        let ignored = WIDTH.saturating_sub(left) as u8;
        for at in 0..WIDTH {
            let (before, byte) = (shifted[at], bytes[at]);
            // Differs from the SURT, or would have to be escaped, unescaped, resolved or stripped.
            let is_odd = !is_graphic(byte)
                | (byte == b'#')
                | (byte == b'%')
                | (byte == b'(')
                | (byte == b'?')
                | (before == b'/') & ((byte == b'/') | (byte == b'.'))
                | (byte.to_ascii_lowercase() != lower[at]);
            odd |= u8::from(is_odd & (at as u8 >= ignored));
        }
        if left <= WIDTH {
            return odd == 0;
        }
        left -= WIDTH;
        (uri, surt) = (uri_rest, surt_rest);
    }
}

fn strip_www(host: &[u8]) -> Option<&[u8]> {
    match host {
        [b'w' | b'W', b'w' | b'W', b'w' | b'W', ..] => {}
        _ => return None,
    }
    let digits = host[3..].iter().take_while(|b| b.is_ascii_digit()).count();
    host[3 + digits..].strip_prefix(b".")
}

/// Letters, digits, hyphens and single dots between them, but not an IP address.
fn is_plain_host(host: &[u8]) -> bool {
    let (Some(first), Some(last)) = (host.first(), host.last()) else {
        return false;
    };
    if !first.is_ascii_alphabetic() || *last == b'.' {
        return false;
    }
    let mut before = b'.';
    host.iter().fold(true, |plain, &byte| {
        let dots = (byte == b'.') & (before == b'.');
        before = byte;
        plain & !dots & (byte.is_ascii_alphanumeric() | (byte == b'-') | (byte == b'.'))
    })
}

/// A path without a query that holds nothing to escape, unescape, resolve or strip, but letters to
/// change to lower case and one slash at its end.
fn is_plain_path(path: &[u8]) -> bool {
    // Have no early exits, so that they are vectorised.
    let plain = path.iter().fold(true, |plain, &byte| {
        plain & is_graphic(byte) & (byte != b'#') & (byte != b'%') & (byte != b'(')
    });
    plain
        && !path.iter().zip(&path[1..]).fold(false, |odd, (&a, &b)| {
            odd | ((a == b'/') & ((b == b'/') | (b == b'.')))
        })
}

/// Not what `webrecorder` treats in its own way: `www` in capitals, numbers as top labels, encoded labels.
fn is_plain_host_for_webrecorder(host: &[u8]) -> bool {
    let top = &host[memrchr(b'.', host).map_or(0, |dot| dot + 1)..];
    top[0].is_ascii_alphabetic()
        && !host.windows(2).any(|pair| pair == b"--")
        && strip_www(host) == super::host::without_www(host)
}

/// Not what `webrecorder` treats in its own way: characters that it escapes or takes for slashes.
fn is_plain_for_webrecorder(path: &[u8], query: &[u8]) -> bool {
    let is_special = |byte: u8| matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'`' | b'{' | b'}');
    !path
        .iter()
        .fold(false, |found, &byte| found | is_special(byte))
        && !query.iter().fold(false, |found, &byte| {
            found | is_special(byte) | (byte == b'\'')
        })
}

/// No query, or `?` and sorted parameters without sessions: nothing to sort, strip or escape. More than one
/// parameter only in the default dialect.
fn is_plain_query(query: &[u8], dialect: Dialect) -> bool {
    let Some(parameters) = query.get(1..) else {
        return true;
    };
    let plain = query.iter().fold(true, |plain, &byte| {
        plain & is_graphic(byte) & (byte != b'#') & (byte != b'%')
    });
    plain
        && !parameters.is_empty()
        && !may_have_session(parameters)
        && (memchr(b'&', parameters).is_none()
            || dialect == Dialect::Ia
                && !parameters.iter().any(u8::is_ascii_uppercase)
                && query::is_sorted(parameters))
}

/// Every session has `sid`, `nid` or `fid` in its name, and the shortest are 16 bytes long.
fn may_have_session(query: &[u8]) -> bool {
    query.len() >= 16
        && query.windows(3).fold(false, |found, text| match text {
            &[a, b, c] => {
                let before = (a | 0x20 == b's') | (a | 0x20 == b'n') | (a | 0x20 == b'f');
                found | before & (b | 0x20 == b'i') & (c | 0x20 == b'd')
            }
            _ => found,
        })
}

fn is_graphic(byte: u8) -> bool {
    (byte > b' ') & (byte < 0x7F)
}

/// Whether `labels` are those of `host` in reverse order and lower case, joined by commas.
fn is_reversed(host: &[u8], labels: &[u8]) -> bool {
    if host.len() != labels.len() {
        return false;
    }
    let mut host = host;
    let mut labels = labels;
    while let Some(dot) = memrchr(b'.', host) {
        let label = &host[dot + 1..];
        if !is_lower(label, &labels[..label.len()]) || labels.get(label.len()) != Some(&b',') {
            return false;
        }
        host = &host[..dot];
        labels = &labels[label.len() + 1..];
    }
    is_lower(host, labels)
}

/// Whether `lower` is `text` in lower case.
fn is_lower(text: &[u8], lower: &[u8]) -> bool {
    text.len() == lower.len()
        && text
            .iter()
            .zip(lower)
            .fold(true, |same, (&a, &b)| same & (a.to_ascii_lowercase() == b))
}
