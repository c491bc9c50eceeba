//! Compares a plain URI with a SURT without canonicalising it.
//!
//! Most URIs of an index need no canonicalisation beyond reversing the host, dropping `www` and
//! changing case, and the dialects agree on those except for a trailing slash.
//! They are recognised here and compared in place, several times faster than by building their SURT.

use memchr::{memchr, memchr2, memrchr};

use crate::Dialect;

/// Whether `surt` is the SURT of `uri` under a dialect. `None` if the URI is not plain enough to
/// tell.
pub(super) fn matches(uri: &[u8], surt: &[u8], dialect: Dialect) -> Option<bool> {
    let rest = uri
        .strip_prefix(b"http://")
        .or_else(|| uri.strip_prefix(b"https://"))?;
    let (authority, path) = match memchr2(b'/', b'?', rest) {
        Some(end) if rest[end] == b'/' => rest.split_at(end),
        Some(_) => return None,
        None => (rest, &b"/"[..]),
    };
    let (path, query) = match memchr(b'?', path) {
        Some(question) => path.split_at(question),
        None => (path, &b""[..]),
    };
    if !is_plain_host(authority) || !is_plain_path(path) || !is_plain_query(query) {
        return None;
    }
    let is_webrecorder = dialect == Dialect::Webrecorder;
    if is_webrecorder && !is_plain_for_webrecorder(authority, path, query) {
        return None;
    }
    let host = match strip_www(authority) {
        // Some dialects remove more than one `www`.
        Some(host) if strip_www(host).is_some() => return None,
        Some(host) => host,
        None => authority,
    };
    // One slash is removed from the end of a path.
    let path = match path {
        path if is_webrecorder => path,
        [rest @ .., b'/'] if !rest.is_empty() => rest,
        path => path,
    };
    let length = host.len() + 1 + path.len() + query.len();
    if surt.len() != length || surt[host.len()] != b')' {
        return Some(false);
    }
    let (labels, rest) = surt.split_at(host.len());
    let (surt_path, surt_query) = rest[1..].split_at(path.len());
    Some(is_reversed(host, labels) && is_lower(path, surt_path) && is_lower(query, surt_query))
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

/// What `webrecorder` treats in its own way: `www` in capitals, numbers as top labels, encoded labels,
/// and characters that it escapes or takes for slashes.
fn is_plain_for_webrecorder(host: &[u8], path: &[u8], query: &[u8]) -> bool {
    let top = &host[memrchr(b'.', host).map_or(0, |dot| dot + 1)..];
    let is_special = |byte: u8| matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'`' | b'{' | b'}');
    top[0].is_ascii_alphabetic()
        && !host.windows(2).any(|pair| pair == b"--")
        && strip_www(host) == super::host::without_www(host)
        && !path
            .iter()
            .fold(false, |found, &byte| found | is_special(byte))
        && !query.iter().fold(false, |found, &byte| {
            found | is_special(byte) | (byte == b'\'')
        })
}

/// No query, or `?` and one parameter that is not a session: nothing to sort, strip or escape.
fn is_plain_query(query: &[u8]) -> bool {
    if query.is_empty() {
        return true;
    }
    let plain = query.iter().fold(true, |plain, &byte| {
        plain & is_graphic(byte) & (byte != b'#') & (byte != b'%') & (byte != b'&')
    });
    // Every session has an `id` in its name.
    let session = query
        .iter()
        .zip(&query[1..])
        .fold(false, |found, (&a, &b)| {
            found | ((a | 0x20 == b'i') & (b | 0x20 == b'd'))
        });
    plain && !session && query.len() > 1
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
