//! Converts the different spellings of a SURT to one.

use std::borrow::Cow;

use memchr::memchr;

use super::{KeyForm, port_behind_comma};

/// A SURT in its usual form: without trailing commas after the host, parentheses, the scheme, or a
/// port at the end. Conversions are repeated (`com,,)/`) until nothing changes, so that all spellings
/// of a SURT give the same result. Keys that are not reversed are returned unchanged.
pub fn usual_form(surt: &[u8]) -> Cow<'_, [u8]> {
    let mut usual = Cow::Borrowed(surt);
    // Everything before this offset is dropped. Nothing is copied, because there may be many prefixes.
    let mut start = 0;
    loop {
        let rest = &usual[start..];
        let next = match KeyForm::of(rest) {
            KeyForm::Surt | KeyForm::Host | KeyForm::Url => break,
            KeyForm::Parenthesis => {
                start += 1;
                continue;
            }
            KeyForm::WithScheme => {
                start += memchr(b'(', rest).map_or(rest.len(), |open| open + 1);
                continue;
            }
            KeyForm::TrailingComma => without_commas(rest),
            KeyForm::PortBehind => port_before(rest),
        };
        if next == rest {
            break;
        }
        start = 0;
        usual = Cow::Owned(next);
    }
    match usual {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[start..]),
        Cow::Owned(mut bytes) => {
            bytes.drain(..start);
            Cow::Owned(bytes)
        }
    }
}

/// `com,example,)/a` → `com,example)/a`; `com,example,:8080)/a` → `com,example:8080)/a`.
fn without_commas(key: &[u8]) -> Vec<u8> {
    let close = memchr(b')', key).unwrap_or(key.len());
    let (host, rest) = key.split_at(close);
    let trimmed = |labels: &'_ [u8]| {
        labels
            .iter()
            .rposition(|&byte| byte != b',')
            .map_or(0, |last| last + 1)
    };
    let host = &host[..trimmed(host)];
    let (labels, port) = host.split_at(port_behind_comma(host).unwrap_or(host.len()));
    let labels = match port.is_empty() {
        true => labels,
        false => &labels[..trimmed(labels)],
    };
    [labels, port, rest].concat()
}

/// `com,example):8080/a` → `com,example:8080)/a`.
fn port_before(key: &[u8]) -> Vec<u8> {
    let close = memchr(b')', key).unwrap_or(key.len());
    let rest = key.get(close + 1..).unwrap_or_default();
    let port = rest
        .iter()
        .position(|byte| !matches!(byte, b':' | b'0'..=b'9'))
        .unwrap_or(rest.len());
    [&key[..close], &rest[..port], b")", &rest[port..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_usual_form_of_the_usual_form_is_itself(surt in "[(]{0,2}(a:/{0,2}[(]?)?[a,:8]{0,5}[),]{0,3}[:8]{0,3}[/a,)]{0,3}") {
            let usual = usual_form(surt.as_bytes()).into_owned();
            prop_assert_eq!(&*usual_form(&usual), &usual[..]);
        }
    }

    #[test]
    fn addresses_keep_their_colons() {
        for (key, usual) in [
            ("4,3,2,::ffff:1)/", "4,3,2,::ffff:1)/"),
            ("4,3,2,::ffff:1:8080)/", "4,3,2,::ffff:1:8080)/"),
            ("4,3,2,::ffff:1,)/", "4,3,2,::ffff:1)/"),
            ("(4,3,2,::ffff:1,:8080)/", "4,3,2,::ffff:1:8080)/"),
            ("::1,:80)/", "::1:80)/"),
        ] {
            assert_eq!(usual_form(key.as_bytes()), usual.as_bytes(), "{key}");
        }
    }

    #[test]
    fn a_million_repetitions_take_linear_time() {
        let many = |piece: &str| piece.repeat(1_000_000);
        assert_eq!(
            &*usual_form(format!("com{})/", many(",")).as_bytes()),
            b"com)/"
        );
        assert_eq!(
            &*usual_form(format!("{}com)/", many("(")).as_bytes()),
            b"com)/"
        );
        assert_eq!(
            &*usual_form(format!("{}com)/", many("a://(")).as_bytes()),
            b"com)/"
        );
        let ports = format!("com){}/", many(":8"));
        assert!(usual_form(ports.as_bytes()).ends_with(b":8)/"));
        let commas = format!("com{})/", many(",:"));
        assert!(usual_form(commas.as_bytes()).ends_with(b":)/"));
    }
}
