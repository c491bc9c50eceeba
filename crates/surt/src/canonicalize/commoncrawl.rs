//! The dialects `commoncrawl` and `commoncrawl-legacy`: the SURTs of webarchive-commons 3 and 1.1.9,
//! which Common Crawl and OpenWayback write.
//!
//! The library works on text where Python's works on bytes, so escapes that are not UTF-8 stay as
//! they are (or are escaped twice, in the legacy), and it knows six schemes: everything else, `mailto:`
//! too, is treated as a host.

use memchr::{memchr, memmem};

use super::escape::{escape_text, unescaped_text};
use super::idna2003::Unassigned;
use super::{Scratch, host, path};
use crate::Error;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edition {
    /// webarchive-commons 3.
    Current,
    /// webarchive-commons 1.1.9.
    Legacy,
}

pub(super) fn canonicalize(
    uri: &[u8],
    edition: Edition,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    if uri.is_empty() {
        return Err(Error::Empty);
    }
    if uri.starts_with(b"filedesc") || uri.starts_with(b"warcinfo") {
        out.extend_from_slice(uri);
        return Ok(());
    }
    if let Some(name) = uri.strip_prefix(b"dns:") {
        host::push_reversed(name, out);
        out.push(b')');
        return Ok(());
    }
    let uri = trim(uri);
    if !has_line_break(uri) {
        return push_surt(uri, edition, scratch, out);
    }
    let mut text = std::mem::take(&mut scratch.text);
    text.clear();
    push_without_line_breaks(uri, &mut text);
    let result = push_surt(&text, edition, scratch, out);
    scratch.text = text;
    result
}

fn push_surt(
    uri: &[u8],
    edition: Edition,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let (scheme, rest) = split_scheme(uri);
    let rest = memchr(b'#', rest).map_or(rest, |hash| &rest[..hash]);
    let (rest, query) = match memchr(b'?', rest) {
        Some(question) => (&rest[..question], Some(&rest[question + 1..])),
        None => (rest, None),
    };
    let slash = memchr(b'/', rest).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(slash);
    let (host, port) = host_and_port(authority, edition)?;
    put_host(host, edition, scratch)?;
    let mut host = &scratch.host[..];
    while let Some(rest) = host::without_www(host) {
        host = rest;
    }
    host::push_reversed(host, out);
    if let Some(port) = port
        && !is_default(port, scheme)
    {
        host::push_port(port, out);
    }
    out.push(b')');

    let start = out.len();
    let path = unescaped_text(path, &mut scratch.unescaped, &mut scratch.letters);
    let path = path::normalized(path, &mut scratch.normal);
    escape_text(path, edition, out);
    out[start..].make_ascii_lowercase();
    path::strip(out, start);
    if let Some(query) = query {
        out.push(b'?');
        let start = out.len();
        let query = unescaped_text(query, &mut scratch.unescaped, &mut scratch.letters);
        escape_text(query, edition, out);
        out[start..].make_ascii_lowercase();
        scratch.finish_query(start, out);
    }
    Ok(())
}

/// Trims all bytes up to the space from both ends, like Java's `trim`.
fn trim(uri: &[u8]) -> &[u8] {
    let start = uri.iter().position(|&byte| byte > b' ');
    let end = uri.iter().rposition(|&byte| byte > b' ');
    match (start, end) {
        (Some(start), Some(end)) => &uri[start..=end],
        _ => b"",
    }
}

/// Unicode's line and paragraph separators, in UTF-8.
const LINE_BREAKS: [&[u8]; 6] = [
    b"\n",
    b"\r",
    b"\t",
    b"\xC2\x85",
    b"\xE2\x80\xA8",
    b"\xE2\x80\xA9",
];

fn has_line_break(uri: &[u8]) -> bool {
    memchr::memchr3(b'\n', b'\r', b'\t', uri).is_some()
        || !uri.is_ascii()
            && LINE_BREAKS
                .iter()
                .any(|line_break| memmem::find(uri, line_break).is_some())
}

fn push_without_line_breaks(uri: &[u8], out: &mut Vec<u8>) {
    let mut rest = uri;
    while let Some(&byte) = rest.first() {
        match LINE_BREAKS.iter().find_map(|b| rest.strip_prefix(*b)) {
            Some(behind) => rest = behind,
            None => {
                out.push(byte);
                rest = &rest[1..];
            }
        }
    }
}

/// The scheme, or `http` if it is not one of the six, and what follows its slashes.
fn split_scheme(uri: &[u8]) -> (&[u8], &[u8]) {
    let known = ["http", "https", "ftp", "mms", "rtsp", "wais"];
    let found = memchr(b':', uri).filter(|&length| {
        uri[length..].starts_with(b"://")
            && known
                .iter()
                .any(|scheme| uri[..length].eq_ignore_ascii_case(scheme.as_bytes()))
    });
    let (scheme, rest) = match found {
        Some(length) => (&uri[..length], &uri[length + 3..]),
        None => (&b"http"[..], uri),
    };
    let slashes = if scheme == b"http" || scheme == b"https" {
        rest.iter().take_while(|&&byte| byte == b'/').count()
    } else {
        0
    };
    (scheme, &rest[slashes..])
}

/// The host without the user, and the port, which may be of any size.
fn host_and_port(authority: &[u8], edition: Edition) -> Result<(&[u8], Option<i32>), Error> {
    let host = memchr(b'@', authority).map_or(authority, |at| &authority[at + 1..]);
    let colon = match edition {
        Edition::Current if host.starts_with(b"[") => {
            let close = memchr(b']', host).unwrap_or(0);
            memchr(b':', &host[close..]).map(|colon| close + colon)
        }
        _ => memchr(b':', host),
    };
    let Some(colon) = colon else {
        return Ok((host, None));
    };
    let (host, port) = (&host[..colon], &host[colon + 1..]);
    if port.is_empty() {
        return Ok((host, None));
    }
    let port = std::str::from_utf8(port)
        .ok()
        .and_then(|port| port.parse().ok())
        .ok_or(Error::BadPort)?;
    // The library represents a missing port as -1, so `:-1` is treated as missing.
    Ok((host, (port != -1).then_some(port)))
}

/// Puts the canonical form of `host` into `scratch.host`.
fn put_host(host: &[u8], edition: Edition, scratch: &mut Scratch) -> Result<(), Error> {
    let Scratch {
        host: out,
        unescaped,
        letters,
        normal: dotted,
        idna,
        ..
    } = scratch;
    let mut host = unescaped_text(host, unescaped, letters);
    let lower;
    if !host.is_ascii()
        && let Ok(text) = std::str::from_utf8(host)
    {
        match idna.ascii_of(text, Unassigned::Refuse) {
            Some(ascii) => host = ascii.as_bytes(),
            None => {
                lower = text.to_lowercase();
                host = lower.as_bytes();
            }
        }
    }
    if host.windows(2).any(|pair| pair == b"..") {
        dotted.clear();
        dotted.extend_from_slice(host);
        dotted.dedup_by(|next, before| *next == b'.' && *before == b'.');
        host = dotted;
    }
    let host = host.strip_prefix(b".").unwrap_or(host);
    let mut host = host.strip_suffix(b".").unwrap_or(host);
    if edition == Edition::Current {
        if host.is_empty() {
            return Err(Error::BadHost);
        }
        if memchr(b'.', host).is_none()
            && let [b'[', address @ .., b']'] = host
        {
            host = address;
        }
    }
    out.clear();
    match host::ipv4_in_full(host) {
        Some(address) => host::push_quad(address, out),
        None => {
            escape_text(host, edition, out);
            out.make_ascii_lowercase();
        }
    }
    Ok(())
}

/// Whether the port is the default port of the scheme; 0 if the library knows none.
fn is_default(port: i32, scheme: &[u8]) -> bool {
    let default = if scheme.eq_ignore_ascii_case(b"http") {
        80
    } else if scheme.eq_ignore_ascii_case(b"https") {
        443
    } else {
        0
    };
    port == default
}
