//! The dialect `ia`: the SURTs of Python's `surt` 0.3.1, which pywb, cdxj-indexer, CDX-Writer and
//! therefore most public archives write.

use memchr::{memchr, memchr3, memrchr};

use super::idna2003::Unassigned;
use super::{Scratch, escape, host, unescaped};
use crate::Error;

pub(super) fn canonicalize(
    uri: &[u8],
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    if uri.is_empty() {
        return Err(Error::Empty);
    }
    if uri.starts_with(b"filedesc") {
        out.extend_from_slice(uri);
        return Ok(());
    }
    let uri = trim(uri);
    if memchr3(b'\t', b'\n', b'\r', uri).is_none() {
        return push_surt(uri, scratch, out);
    }
    let mut text = std::mem::take(&mut scratch.text);
    text.clear();
    text.extend(
        uri.iter()
            .filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r')),
    );
    let result = push_surt(&text, scratch, out);
    scratch.text = text;
    result
}

fn push_surt(uri: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<(), Error> {
    if uri.is_empty() {
        return Err(Error::Empty);
    }
    let parts = Parts::of(uri);
    let (mut host, port) = host_and_port(parts.authority)?;
    let mut path = parts.path;
    if host.is_empty() && parts.scheme.starts_with(b"http") && !path.is_empty() {
        (host, path) = host_out_of_path(path);
    }
    push_host(host, scratch);
    if scratch.host.is_empty() {
        push_without_host(&parts, path, scratch, out);
        return Ok(());
    }
    let mut host = &scratch.host[..];
    if parts.scheme != b"dns" {
        host = host::without_www(host).unwrap_or(host);
    }
    host::push_reversed(host, out);
    if let Some(port) = port
        && !is_default(port, parts.scheme)
    {
        host::push_port(i32::from(port), out);
    }
    out.push(b')');
    scratch.push_path(path, true, out);
    if let Some(query) = parts.query {
        scratch.push_query(query, out);
    }
    Ok(())
}

/// `mailto:…`, `urn:…`, and what is left of a URI whose host was all dots.
fn push_without_host(parts: &Parts<'_>, path: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) {
    out.extend_from_slice(parts.scheme);
    out.push(b':');
    let start = out.len();
    scratch.push_path(path, false, out);
    let end = out.len();
    if let Some(query) = parts.query {
        scratch.push_query(query, out);
    }
    if end == start && out.len() > end {
        out.insert(end, b'/');
    }
}

/// Trims white space, as defined by C's `isspace`, from both ends.
fn trim(uri: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = uri.iter().position(|byte| !is_space(byte));
    let end = uri.iter().rposition(|byte| !is_space(byte));
    match (start, end) {
        (Some(start), Some(end)) => &uri[start..=end],
        _ => b"",
    }
}

/// The parts of a URI, without its fragment.
struct Parts<'a> {
    scheme: &'a [u8],
    /// Empty if missing.
    authority: &'a [u8],
    path: &'a [u8],
    query: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn of(uri: &'a [u8]) -> Parts<'a> {
        let uri = last_of_repeated_schemes(uri);
        let (scheme, rest, has_authority) = match scheme_length(uri) {
            Some(length) => {
                let rest = &uri[length + 1..];
                match rest.strip_prefix(b"//") {
                    Some(rest) => (&uri[..length], rest, true),
                    None => (&uri[..length], rest, false),
                }
            }
            None => (&b"http"[..], uri, true),
        };
        let rest = memchr(b'#', rest).map_or(rest, |hash| &rest[..hash]);
        let (rest, query) = match memchr(b'?', rest) {
            Some(question) => (&rest[..question], Some(&rest[question + 1..])),
            None => (rest, None),
        };
        let authority_length = if has_authority {
            memchr(b'/', rest).unwrap_or(rest.len())
        } else {
            0
        };
        let (authority, path) = rest.split_at(authority_length);
        Parts {
            scheme,
            authority,
            path,
            query,
        }
    }
}

/// The length of the scheme at the start of `uri`, which must be followed by a colon.
fn scheme_length(uri: &[u8]) -> Option<usize> {
    if !uri.first()?.is_ascii_alphabetic() {
        return None;
    }
    let length = uri
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-')))?;
    (uri[length] == b':').then_some(length)
}

/// Removes all schemes but the last from `http://https://x`.
fn last_of_repeated_schemes(uri: &[u8]) -> &[u8] {
    let behind_scheme = |uri: &'_ [u8]| -> Option<usize> {
        [&b"http://"[..], b"https://"]
            .iter()
            .find(|scheme| uri.starts_with(scheme))
            .map(|scheme| scheme.len())
    };
    let mut uri = uri;
    while let Some(length) = behind_scheme(uri)
        && behind_scheme(&uri[length..]).is_some()
    {
        uri = &uri[length..];
    }
    uri
}

/// The host of an authority without user and brackets, and its port unless it is 0.
fn host_and_port(authority: &[u8]) -> Result<(&[u8], Option<u16>), Error> {
    let end = authority.iter().rposition(|&byte| byte != b':');
    let authority = end.map_or(&b""[..], |end| &authority[..=end]);
    let authority = memrchr(b'@', authority).map_or(authority, |at| &authority[at + 1..]);
    let (host, port) = match memchr(b'[', authority) {
        Some(open) => {
            let (host, rest) = cut(&authority[open + 1..], b']');
            (host, cut(rest, b':').1)
        }
        None => cut(authority, b':'),
    };
    let number = port.iter().try_fold(0_u16, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u16::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    match number {
        Some(0) => Ok((host, None)),
        Some(port) => Ok((host, Some(port))),
        None => Err(Error::BadPort),
    }
}

/// The parts before and after the first `separator`.
fn cut(text: &[u8], separator: u8) -> (&[u8], &[u8]) {
    match memchr(separator, text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, b""),
    }
}

/// `http:////x/y` and `http:x/y` mean the host `x`.
fn host_out_of_path(path: &[u8]) -> (&[u8], &[u8]) {
    let start = path
        .iter()
        .position(|&byte| byte != b'/')
        .unwrap_or(path.len());
    let path = &path[start..];
    match memchr(b'/', path) {
        Some(slash) => path.split_at(slash),
        None => (path, b"/"),
    }
}

/// Puts the canonical form of `host` into `scratch.host`.
fn push_host(host: &[u8], scratch: &mut Scratch) {
    let Scratch {
        host: out,
        unescaped: buffer,
        normal: dotted,
        idna,
        text,
        ..
    } = scratch;
    out.clear();
    let mut host = unescaped(host, buffer);
    if !host.is_ascii() {
        text.clear();
        for chunk in host.utf8_chunks() {
            text.extend_from_slice(chunk.valid().as_bytes());
        }
        if let Ok(text) = std::str::from_utf8(text)
            && let Some(ascii) = idna.ascii_of(text, Unassigned::Pass)
        {
            host = ascii.as_bytes();
        }
    }
    if host.windows(2).any(|pair| pair == b"..") {
        halve_dots(host, dotted);
        host = dotted;
    }
    let host = trim_dots(host);
    match host::ipv4(host) {
        Some(address) => host::push_quad(address, out),
        None => escape::escape_lower(host, out),
    }
}

/// Replaces every two dots by one, once, from left to right: three become two.
fn halve_dots(host: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut rest = host;
    while let Some(&byte) = rest.first() {
        out.push(byte);
        rest = rest.strip_prefix(b"..").unwrap_or(&rest[1..]);
    }
}

fn trim_dots(host: &[u8]) -> &[u8] {
    let start = host.iter().position(|&byte| byte != b'.');
    let end = host.iter().rposition(|&byte| byte != b'.');
    match (start, end) {
        (Some(start), Some(end)) => &host[start..=end],
        _ => b"",
    }
}

fn is_default(port: u16, scheme: &[u8]) -> bool {
    match port {
        80 => scheme.eq_ignore_ascii_case(b"http"),
        443 => scheme.eq_ignore_ascii_case(b"https"),
        _ => false,
    }
}
