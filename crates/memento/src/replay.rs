//! Memento URIs by template.

use std::fmt;
use std::str::FromStr;

use crate::Datetime;

/// A template of memento URIs: `https://archive.example/{timestamp}/{url}`. For archives that send
/// captures without the URIs at which they are replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    before: String,
    between: String,
    behind: String,
    timestamp_first: bool,
}

/// A text that is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a replay template: it must have {{timestamp}} and {{url}} once each")]
pub struct InvalidTemplate(pub String);

impl Replay {
    /// The URI of the memento of `url` at a datetime. Bytes that a URI cannot have are
    /// percent-encoded.
    pub fn uri(&self, datetime: Datetime, url: &str) -> String {
        let timestamp = datetime.timestamp();
        let mut encoded = String::with_capacity(url.len());
        for &byte in url.as_bytes() {
            match byte {
                b'<' | b'>' | b'"' | 0..=b' ' | 0x7F.. => {
                    encoded.push_str(&format!("%{byte:02X}"));
                }
                _ => encoded.push(byte as char),
            }
        }
        let url = &encoded[..];
        let (first, second) = match self.timestamp_first {
            true => (&timestamp[..], url),
            false => (url, &timestamp[..]),
        };
        [&self.before, first, &self.between, second, &self.behind].concat()
    }
}

impl fmt::Display for Replay {
    /// The template.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = match self.timestamp_first {
            true => ("{timestamp}", "{url}"),
            false => ("{url}", "{timestamp}"),
        };
        let Replay {
            before,
            between,
            behind,
            ..
        } = self;
        write!(f, "{before}{first}{between}{second}{behind}")
    }
}

impl FromStr for Replay {
    type Err = InvalidTemplate;

    fn from_str(text: &str) -> Result<Replay, InvalidTemplate> {
        const NAMES: [&str; 2] = ["{timestamp}", "{url}"];
        let invalid = || InvalidTemplate(text.to_owned());
        if NAMES.iter().any(|name| text.matches(name).count() != 1) {
            return Err(invalid());
        }
        let places = NAMES.map(|name| text.find(name).unwrap_or_default());
        let timestamp_first = places[0] < places[1];
        let (first, second) = if timestamp_first { (0, 1) } else { (1, 0) };
        Ok(Replay {
            before: text[..places[first]].to_owned(),
            between: text[places[first] + NAMES[first].len()..places[second]].to_owned(),
            behind: text[places[second] + NAMES[second].len()..].to_owned(),
            timestamp_first,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_both_parts_once() {
        let at = Datetime::parse_timestamp("2014").unwrap();
        let replay: Replay = "https://a/{timestamp}id_/{url}".parse().unwrap();
        assert_eq!(
            replay.uri(at, "http://b/{url}"),
            "https://a/20140101000000id_/http://b/{url}"
        );
        let replay: Replay = "https://a/?u={url}&t={timestamp}#".parse().unwrap();
        assert_eq!(replay.uri(at, "x"), "https://a/?u=x&t=20140101000000#");
        assert_eq!(replay.to_string(), "https://a/?u={url}&t={timestamp}#");
        assert_eq!(
            replay.uri(at, "é <"),
            "https://a/?u=%C3%A9%20%3C&t=20140101000000#"
        );
        assert!("https://a/{timestamp}/".parse::<Replay>().is_err());
        assert!(
            "https://a/{timestamp}/{timestamp}/{url}"
                .parse::<Replay>()
                .is_err()
        );
    }
}
