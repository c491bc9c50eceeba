//! The forms of keys found in indexes, and the SURT that each stands for.
//!
//! | form | example |
//! |---|---|
//! | SURT | `com,example)/path` |
//! | with a trailing comma | `com,example,)/path` |
//! | in parentheses | `(com,example,)/path` |
//! | with the scheme | `http://(com,example,)/path` |
//! | not reversed | `example.com/path` |
//! | the URL | `http://example.com/path` |
//! | with the port at the end | `com,example):8080/path` (OutbackCDX) |
//!
//! A URI-R is identified by its SURT, so code that counts or cuts keys gets them from a [`Rekeyer`].
//! It computes the SURT from the URL where the key differs, and a [`KeyCheck`] counts how often that
//! happens.

mod check;
mod rekey;
mod usual;

use std::fmt;

use memchr::{memchr, memchr2, memchr3};

pub use check::{Different, KeyCheck};
pub use rekey::{NewKey, Rekeyer, completed};
pub use usual::usual_form;

/// How a key is written.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum KeyForm {
    /// `com,example)/path`, and keys without a host such as `urn:uuid:…`.
    #[default]
    Surt,
    /// `com,example,)/path`.
    TrailingComma,
    /// `(com,example,)/path`.
    Parenthesis,
    /// `http://(com,example,)/path`.
    WithScheme,
    /// `example.com/path`.
    Host,
    /// `http://example.com/path`.
    Url,
    /// `com,example):8080/path`.
    PortBehind,
}

impl KeyForm {
    /// The form of a key.
    #[inline]
    pub fn of(key: &[u8]) -> KeyForm {
        match memchr3(b')', b'/', b'(', key) {
            Some(place) => match key[place] {
                b')' => KeyForm::reversed(key, place),
                b'(' if place == 0 => KeyForm::Parenthesis,
                b'/' => KeyForm::slash(key, place),
                _ => KeyForm::Surt,
            },
            None => KeyForm::bare(key),
        }
    }

    /// How many of the first bytes of a key decide that it is a SURT: keys that have them in common have
    /// the same form. `None` if they are not enough, or the key is not a SURT.
    pub(crate) fn decided_by(key: &[u8]) -> Option<usize> {
        let place = memchr3(b')', b'/', b'(', key).filter(|place| key[*place] == b')')?;
        // The host, its parenthesis, and what follows it, which may be a colon.
        (KeyForm::reversed(key, place) == KeyForm::Surt).then_some(place + 2)
    }

    /// A `)` comes before any slash.
    #[inline]
    fn reversed(key: &[u8], place: usize) -> KeyForm {
        if key[..place].ends_with(b",") || port_behind_comma(&key[..place]).is_some() {
            KeyForm::TrailingComma
        } else if key.get(place + 1) == Some(&b':') {
            KeyForm::PortBehind
        } else {
            KeyForm::Surt
        }
    }

    /// A slash comes first.
    #[cold]
    fn slash(key: &[u8], place: usize) -> KeyForm {
        let colon = memchr(b':', &key[..place]);
        match colon {
            Some(colon) if colon + 1 == place && key[place..].starts_with(b"//(") => {
                KeyForm::WithScheme
            }
            Some(colon) if colon + 1 == place && key[place..].starts_with(b"//") => KeyForm::Url,
            // `dns:a/b` and `urn:…` are SURTs; `example.com:8080/x` is not.
            Some(colon) if !key[..colon].contains(&b'.') => KeyForm::Surt,
            _ => KeyForm::Host,
        }
    }

    /// Neither a slash nor a parenthesis.
    #[cold]
    fn bare(key: &[u8]) -> KeyForm {
        let host = &key[..memchr2(b':', b'?', key).unwrap_or(key.len())];
        if host.contains(&b'.') && !host.contains(&b',') {
            KeyForm::Host
        } else {
            KeyForm::Surt
        }
    }

    /// Whether the key is a SURT and therefore sorts like one.
    pub fn is_surt(self) -> bool {
        self == KeyForm::Surt
    }
}

/// Where the port of `com,example,:8080` starts, which follows a comma. The colons of an address, as in
/// `4,3,2,::ffff:1`, are not taken for one.
fn port_behind_comma(host: &[u8]) -> Option<usize> {
    let digits = host.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let port = host.len() - digits.count();
    host[..port].ends_with(b",:").then(|| port - 1)
}

impl fmt::Display for KeyForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyForm::Surt => "are SURTs",
            KeyForm::TrailingComma => "with a trailing comma",
            KeyForm::Parenthesis => "in parentheses",
            KeyForm::WithScheme => "with the scheme",
            KeyForm::Host => "not reversed",
            KeyForm::Url => "are URLs",
            KeyForm::PortBehind => "with the port behind",
        })
    }
}
