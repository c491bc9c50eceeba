//! The dialect `webrecorder`: the keys of `getSurt` in the npm package `warcio`, which browsertrix,
//! ArchiveWeb.page and other tools of Webrecorder write into WACZ files.
//!
//! The function removes `www`, lower-cases the URL, has the browser's parser (WHATWG URL) take it
//! apart, reverses the host and sorts the parameters. Everything else is what that parser does:
//! escapes stay as they are, `\` is a slash, a trailing slash stays, hosts go through UTS 46. A URL
//! with another scheme, or one that the parser refuses, is its own key.
//!
//! Version 1 of the package had the browser sort the parameters (`URLSearchParams`), which encodes them as in
//! forms: `?u=http%3A%2F%2Fa.com`.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use idna::AsciiDenyList;
use memchr::{memchr, memchr2, memchr3, memrchr};

use super::{Scratch, host, query};
use crate::Error;

pub(super) fn canonicalize(
    uri: &[u8],
    as_form: bool,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    if uri.is_empty() {
        return Err(Error::Empty);
    }
    // JavaScript's strings hold U+FFFD where the bytes were not UTF-8.
    let uri = String::from_utf8_lossy(uri);
    let Some(rest) = behind_scheme(uri.as_bytes()) else {
        out.extend_from_slice(uri.as_bytes());
        return Ok(());
    };
    let start = out.len();
    let (before, behind) = without_www(&uri, rest);
    let mut text = std::mem::take(&mut scratch.text);
    put_lower_case(before, behind, &mut text);
    let parsed = push_surt(&text, as_form, scratch, out);
    scratch.text = text;
    if parsed.is_none() {
        out.truncate(start);
        out.extend_from_slice(before.as_bytes());
        out.extend_from_slice(behind.as_bytes());
    }
    Ok(())
}

/// The offset behind `http:` or `https:`, which must be in lower case.
fn behind_scheme(uri: &[u8]) -> Option<usize> {
    let rest = uri.strip_prefix(b"http")?;
    let rest = rest.strip_prefix(b"s").unwrap_or(rest);
    let rest = rest.strip_prefix(b":")?;
    Some(uri.len() - rest.len())
}

/// The URL before and behind `www`, digits and a dot, if they follow `http://` in lower case.
fn without_www(uri: &str, behind_scheme: usize) -> (&str, &str) {
    let (scheme, rest) = uri.split_at(behind_scheme);
    let found = rest
        .strip_prefix("//")
        .and_then(|authority| host::without_www(authority.as_bytes()));
    match found {
        Some(behind) => (&uri[..scheme.len() + 2], &uri[uri.len() - behind.len()..]),
        None => (scheme, rest),
    }
}

/// Puts the text in lower case into `out`, without what the parser skips: control characters and
/// spaces at its end; tabs and line breaks anywhere.
fn put_lower_case(before: &str, behind: &str, out: &mut Vec<u8>) {
    out.clear();
    if behind.is_ascii() {
        out.extend_from_slice(before.as_bytes());
        out.extend_from_slice(behind.as_bytes());
        out.make_ascii_lowercase();
    } else if behind.contains('Σ') {
        // Its lower case depends on the letters around it.
        out.extend_from_slice([before, behind].concat().to_lowercase().as_bytes());
    } else {
        let mut buffer = [0; 4];
        for c in before.chars().chain(behind.chars()) {
            for lower in c.to_lowercase() {
                out.extend_from_slice(lower.encode_utf8(&mut buffer).as_bytes());
            }
        }
    }
    let end = out.iter().rposition(|&byte| byte > b' ');
    out.truncate(end.map_or(0, |end| end + 1));
    if memchr3(b'\t', b'\n', b'\r', out).is_some() {
        out.retain(|byte| !matches!(byte, b'\t' | b'\n' | b'\r'));
    }
}

/// Appends the SURT of a URL in lower case. `None` if the parser refuses the URL.
fn push_surt(url: &[u8], as_form: bool, scratch: &mut Scratch, out: &mut Vec<u8>) -> Option<()> {
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    let behind = behind_scheme(url)?;
    let default_port = if behind == 6 { 443 } else { 80 };
    let rest = &url[behind..];
    let slashes = rest.iter().take_while(|byte| is_slash(byte)).count();
    let rest = &rest[slashes..];
    let rest = memchr(b'#', rest).map_or(rest, |hash| &rest[..hash]);
    let (rest, query) = match memchr(b'?', rest) {
        Some(question) => (&rest[..question], &rest[question + 1..]),
        None => (rest, &b""[..]),
    };
    let (authority, path) = rest.split_at(memchr2(b'/', b'\\', rest).unwrap_or(rest.len()));
    let authority = memrchr(b'@', authority).map_or(authority, |at| &authority[at + 1..]);
    let (host, port) = host_and_port(authority)?;
    push_host(host, scratch, out)?;
    if let Some(port) = port
        && port != default_port
    {
        host::push_port(i32::from(port), out);
    }
    out.push(b')');
    push_path(path, out);
    if as_form {
        push_form(query, out);
    } else if !query.is_empty() {
        out.push(b'?');
        let start = out.len();
        for &byte in query {
            push_escaped(byte, matches!(byte, b'"' | b'<' | b'>' | b'\''), out);
        }
        sort_parameters(out, start, &mut scratch.parameters);
    }
    Some(())
}

/// The host, which must not be empty, and the port, which may be.
fn host_and_port(authority: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let mut in_brackets = false;
    let colon = authority.iter().position(|byte| {
        match byte {
            b'[' => in_brackets = true,
            b']' => in_brackets = false,
            _ => {}
        }
        *byte == b':' && !in_brackets
    });
    let (host, digits) = match colon {
        Some(colon) => (&authority[..colon], &authority[colon + 1..]),
        None => (authority, &b""[..]),
    };
    let port = digits.iter().try_fold(0_u16, |port, digit| {
        let digit = digit.is_ascii_digit().then(|| u16::from(digit - b'0'))?;
        port.checked_mul(10)?.checked_add(digit)
    })?;
    let port = (!digits.is_empty()).then_some(port);
    (!host.is_empty()).then_some((host, port))
}

/// Appends a host with its labels reversed.
fn push_host(host: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) -> Option<()> {
    if let Some(address) = host.strip_prefix(b"[") {
        let address = std::str::from_utf8(address.strip_suffix(b"]")?).ok()?;
        push_ipv6(address.parse().ok()?, out);
        return Some(());
    }
    let host = percent_decoded(host, &mut scratch.unescaped);
    let host: Cow<'_, str> = idna::domain_to_ascii_cow(host, AsciiDenyList::URL).ok()?;
    if host.is_empty() {
        return None;
    }
    if ends_in_number(host.as_bytes()) {
        scratch.host.clear();
        host::push_quad(ipv4(host.as_bytes())?, &mut scratch.host);
        host::push_reversed(&scratch.host, out);
    } else {
        host::push_reversed(host.as_bytes(), out);
    }
    Some(())
}

/// `host` with its escapes undone once: itself, or in `buffer` if it has any.
fn percent_decoded<'a>(host: &'a [u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    if memchr(b'%', host).is_none() {
        return host;
    }
    buffer.clear();
    let mut rest = host;
    while let [byte, behind @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                buffer.push(high << 4 | low);
                rest = &rest[3..];
            }
            None => {
                buffer.push(*byte);
                rest = behind;
            }
        }
    }
    buffer
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

/// An IPv6 address in brackets: the first of the longest runs of zeros shortened, no dotted quads.
fn push_ipv6(address: Ipv6Addr, out: &mut Vec<u8>) {
    let pieces = address.segments();
    let run = |start: usize| pieces[start..].iter().take_while(|&&p| p == 0).count();
    let longest = (0..8).rev().max_by_key(|&start| run(start)).unwrap_or(0);
    let zeros = match run(longest) {
        0 | 1 => 8..8,
        length => longest..longest + length,
    };
    out.push(b'[');
    for (place, piece) in pieces.iter().enumerate() {
        if place == zeros.start {
            out.extend_from_slice(if place == 0 { b"::" } else { b":" });
        }
        if zeros.contains(&place) {
            continue;
        }
        let digits = (4 - piece.leading_zeros() / 4).max(1);
        for digit in (0..digits).rev() {
            let value = u32::from(piece >> (4 * digit) & 15);
            out.push(char::from_digit(value, 16).unwrap_or('0') as u8);
        }
        if place < 7 {
            out.push(b':');
        }
    }
    out.push(b']');
}

/// Whether the last label is a number, which makes the host an IPv4 address or invalid.
fn ends_in_number(host: &[u8]) -> bool {
    let host = host.strip_suffix(b".").unwrap_or(host);
    let last = &host[memrchr(b'.', host).map_or(0, |dot| dot + 1)..];
    match last {
        [] => false,
        [b'0', b'x', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        digits => digits.iter().all(u8::is_ascii_digit),
    }
}

/// An IPv4 address of up to four decimal, octal (`0…`) or hexadecimal (`0x…`) numbers, of which the
/// last fills the bytes that remain.
fn ipv4(host: &[u8]) -> Option<u32> {
    let host = host.strip_suffix(b".").unwrap_or(host);
    let mut parts = [0_u32; 4];
    let mut count = 0;
    for part in host.split(|&byte| byte == b'.') {
        *parts.get_mut(count)? = number(part)?;
        count += 1;
    }
    let (last, leading) = parts[..count].split_last()?;
    let room = 8 * (4 - leading.len());
    if leading.iter().any(|&part| part > 255) || u64::from(*last) >= 1 << room {
        return None;
    }
    let high = leading
        .iter()
        .fold(0_u64, |value, &part| value << 8 | u64::from(part));
    Some((high << room) as u32 | last)
}

fn number(part: &[u8]) -> Option<u32> {
    let (digits, radix) = match part {
        [] => return None,
        [b'0', b'x', digits @ ..] => (digits, 16),
        [b'0', digits @ ..] => (digits, 8),
        digits => (digits, 10),
    };
    digits.iter().try_fold(0_u32, |value, &digit| {
        let digit = (digit as char).to_digit(radix)?;
        value.checked_mul(radix)?.checked_add(digit)
    })
}

/// Appends a path whose dot segments are resolved and which `\` separates too.
fn push_path(path: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut rest = path.get(1..).unwrap_or_default();
    loop {
        let slash = memchr2(b'/', b'\\', rest);
        let segment = &rest[..slash.unwrap_or(rest.len())];
        match dots(segment) {
            0 => {
                out.push(b'/');
                for &byte in segment {
                    push_escaped(
                        byte,
                        matches!(byte, b'"' | b'<' | b'>' | b'`' | b'{' | b'}'),
                        out,
                    );
                }
            }
            dots => {
                if dots == 2 {
                    let last = memrchr(b'/', &out[start..]).unwrap_or(0);
                    out.truncate(start + last);
                }
                if slash.is_none() {
                    out.push(b'/');
                }
            }
        }
        match slash {
            Some(slash) => rest = &rest[slash + 1..],
            None => return,
        }
    }
}

/// 1 for `.`, 2 for `..`, which may be escaped; 0 for every other segment.
fn dots(segment: &[u8]) -> usize {
    let dot = |text: &'_ [u8]| match text {
        [b'.', ..] => Some(1),
        [b'%', b'2', b'e', ..] => Some(3),
        _ => None,
    };
    let Some(first) = dot(segment) else {
        return 0;
    };
    match dot(&segment[first..]) {
        None if segment.len() == first => 1,
        Some(second) if segment.len() == first + second => 2,
        _ => 0,
    }
}

/// Appends a byte, escaped if it is not a visible ASCII character or one of the `special` ones.
fn push_escaped(byte: u8, special: bool, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if special || !matches!(byte, 0x21..=0x7E) {
        let digits = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
        out.extend_from_slice(&[b'%', digits[0], digits[1]]);
    } else {
        out.push(byte);
    }
}

/// Sorts the parameters of `out[start..]` by their bytes, names and values together.
fn sort_parameters(out: &mut Vec<u8>, start: usize, ranges: &mut Vec<(usize, usize)>) {
    let length = out.len() - start;
    ranges.clear();
    let mut from = 0;
    for at in memchr::memchr_iter(b'&', &out[start..]).chain([length]) {
        ranges.push((from, at));
        from = at + 1;
    }
    let text = &out[start..];
    let parameter = |range: &(usize, usize)| &text[range.0..range.1];
    if ranges.is_sorted_by_key(parameter) {
        return;
    }
    ranges.sort_unstable_by_key(parameter);
    query::reorder(out, start, ranges);
}

/// Appends parameters as `URLSearchParams` does when it has sorted them: decoded once, sorted by their names,
/// and encoded as in forms.
fn push_form(query: &[u8], out: &mut Vec<u8>) {
    let decoded = |text: &[u8]| {
        let space = |byte: &u8| if *byte == b'+' { b' ' } else { *byte };
        let text: Vec<u8> = text.iter().map(space).collect();
        String::from_utf8_lossy(percent_decoded(&text, &mut Vec::new())).into_owned()
    };
    let parameters = query.split(|&byte| byte == b'&');
    let mut pairs: Vec<[String; 2]> = parameters
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| {
            let equals = memchr(b'=', parameter).unwrap_or(parameter.len());
            let value = parameter.get(equals + 1..).unwrap_or_default();
            [&parameter[..equals], value].map(decoded)
        })
        .collect();
    pairs.sort_by(|[a, _], [b, _]| a.encode_utf16().cmp(b.encode_utf16()));
    let mut separator = b'?';
    for [name, value] in &pairs {
        for (before, text) in [(separator, name), (b'=', value)] {
            out.push(before);
            for byte in text.bytes() {
                match byte {
                    b' ' => out.push(b'+'),
                    b'*' | b'-' | b'.' | b'_' => out.push(byte),
                    _ => push_escaped(byte, !byte.is_ascii_alphanumeric(), out),
                }
            }
        }
        separator = b'&';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(url: &str, as_form: bool) -> String {
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        canonicalize(url.as_bytes(), as_form, &mut scratch, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn surt(url: &str) -> String {
        canonical(url, false)
    }

    #[test]
    fn parameters_were_encoded_as_in_forms() {
        for (url, expected) in [
            (
                "http://a.com/?u=http://b/%2f",
                "com,a)/?u=http%3A%2F%2Fb%2F%2F",
            ),
            ("http://a.com/?b=2&a=x+y&b=1&&c", "com,a)/?a=x+y&b=2&b=1&c="),
            ("http://a.com/?%C3%89=~*-._'", "com,a)/?%C3%89=%7E*-._%27"),
            ("http://a.com/?&", "com,a)/"),
            ("http://a.com/x/?", "com,a)/x/"),
            ("http://a.com/?%ff", "com,a)/?%EF%BF%BD="),
            ("http://a.com/?x=a=b", "com,a)/?x=a%3Db"),
        ] {
            assert_eq!(canonical(url, true), expected, "{url}");
        }
    }

    #[test]
    fn keys_are_those_of_the_package() {
        for (url, expected) in [
            (
                "https://www.Example.com/A/?b=2&a-c&a=1#x",
                "com,example)/a/?a-c&a=1&b=2",
            ),
            ("http://WWW.example.com", "com,example,www)/"),
            ("http://www2.www.com/", "com,www)/"),
            ("http:\\\\a.com\\b\\..\\c", "com,a)/c"),
            ("http://a.com/^`|'?^`'", "com,a)/^%60|'?^`%27"),
            ("http://a.com/É%C3%89", "com,a)/%C3%A9%c3%89"),
            ("http://u@p@a.com:080/", "com,a)/"),
            ("https://a.com:80/?", "com,a:80)/"),
            ("http://a.com./", ",com,a)/"),
            ("http://faß.de/", "de,xn--fa-hia)/"),
            ("http://0x7f.1/", "1,0,0,127)/"),
            (
                "http://[0:0::1:0:0:0.1.2.3]:8080/",
                "[::1:0:0:1:203]:8080)/",
            ),
            ("http://a.com/x/%2E./.", "com,a)/"),
            ("HTTP://a.com/", "HTTP://a.com/"),
            ("urn:uuid:A", "urn:uuid:A"),
        ] {
            assert_eq!(surt(url), expected, "{url}");
        }
    }

    #[test]
    fn a_url_that_the_parser_refuses_is_its_own_key_without_www() {
        for (url, expected) in [
            ("http://www.X y/", "http://X y/"),
            ("http://a.1/", "http://a.1/"),
            ("http://1.2.3.08/", "http://1.2.3.08/"),
            ("http://a:b/", "http://a:b/"),
            ("http://", "http://"),
            ("http://a:65536/", "http://a:65536/"),
            ("https://[::1/", "https://[::1/"),
            ("http://xn--a/", "http://xn--a/"),
        ] {
            assert_eq!(surt(url), expected, "{url}");
        }
    }
}
