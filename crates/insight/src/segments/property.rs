//! The properties of a capture whose distribution is compared.

use std::borrow::Cow;
use std::fmt;

use waypost_index::{Capture, Field, Fields};
use waypost_surt::{Kind, Surt};

/// A property of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    /// The media type sent by the server and the detected one, which is `ditto` if it is the same.
    Mime,
    /// The first language.
    Language,
    /// The class of the length of the record, compressed: see [`length_class`].
    Length,
    /// The top-level domain.
    Tld,
    /// The host, as in the SURT.
    Host,
    /// The registered domain, as in the SURT.
    Domain,
    /// The scheme of the URL.
    Protocol,
    /// The length of the URL in bytes.
    UriLength,
    /// The year of the Last-Modified time.
    LastmodYear,
    /// A field of the index, or a member of the JSON, by its name.
    Field(String),
}

impl Property {
    /// The properties that the paper compares.
    pub const USUAL: [Property; 3] = [Property::Mime, Property::Language, Property::Length];

    /// The property with this name. A name that is not known is that of a field.
    pub fn parse(name: &str) -> Property {
        match name {
            "mime" => Property::Mime,
            "language" | "languages" => Property::Language,
            "length" => Property::Length,
            "tld" => Property::Tld,
            "host" => Property::Host,
            "domain" => Property::Domain,
            "protocol" | "scheme" => Property::Protocol,
            "uri-length" => Property::UriLength,
            "lastmod-year" | "lastmod" => Property::LastmodYear,
            other => Property::Field(other.to_owned()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Property::Mime => "mime",
            Property::Language => "language",
            Property::Length => "length",
            Property::Tld => "tld",
            Property::Host => "host",
            Property::Domain => "domain",
            Property::Protocol => "protocol",
            Property::UriLength => "uri-length",
            Property::LastmodYear => "lastmod-year",
            Property::Field(name) => name,
        }
    }

    /// The fields that `value` reads.
    pub fn fields(&self) -> Fields {
        match self {
            Property::Mime => Field::Mime | Field::MimeDetected,
            Property::Language => Field::Languages.into(),
            Property::Length => Field::Length.into(),
            Property::Tld | Property::Host | Property::Domain => Fields::NONE,
            Property::Protocol | Property::UriLength => Field::Url.into(),
            Property::LastmodYear => Field::LastMod.into(),
            Property::Field(name) => {
                Field::of_json(name.as_bytes()).map_or(Fields::NONE, Fields::from)
            }
        }
    }

    /// The value of a capture, which may be written to `buffer`. `None` if it has none.
    #[inline]
    pub(crate) fn value<'a>(
        &self,
        capture: &'a Capture<'_>,
        buffer: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        buffer.clear();
        match self {
            Property::Mime => {
                let sent = capture.mime();
                let detected = capture.text(Field::MimeDetected);
                if sent.is_none() && detected.is_none() {
                    return None;
                }
                buffer.extend_from_slice(sent.as_deref().unwrap_or(b"-"));
                buffer.push(b' ');
                buffer.extend_from_slice(match detected.as_deref() {
                    Some(detected) if sent.as_deref() == Some(detected) => b"ditto",
                    Some(detected) => detected,
                    None => b"-",
                });
            }
            Property::Language => {
                let languages = capture.text(Field::Languages)?;
                let end = memchr::memchr(b',', &languages).unwrap_or(languages.len());
                buffer.extend_from_slice(&languages[..end]);
            }
            Property::Length => {
                let class = length_class(capture.number(Field::Length)?);
                buffer.extend_from_slice(least_of_class(class).to_string().as_bytes());
            }
            Property::Tld => {
                let surt = Surt::new(capture.key());
                let name = match surt.kind() {
                    Kind::Host => surt.labels().next()?,
                    _ => b"(none)",
                };
                buffer.extend_from_slice(name);
            }
            Property::Host => buffer.extend_from_slice(Surt::new(capture.key()).host()),
            Property::Domain => {
                buffer.extend_from_slice(Surt::new(capture.key()).registered_domain());
            }
            Property::Protocol => {
                let url = capture.url()?;
                let end = memchr::memchr(b':', &url)?;
                buffer.extend_from_slice(&url[..end].to_ascii_lowercase());
            }
            Property::UriLength => {
                buffer.extend_from_slice(capture.url()?.len().to_string().as_bytes());
            }
            Property::LastmodYear => {
                let seconds = i64::try_from(capture.number(Field::LastMod)?).ok()?;
                let year = crate::calendar::Date::of_unix(seconds).year;
                buffer.extend_from_slice(year.to_string().as_bytes());
            }
            Property::Field(name) => {
                let value: Cow<'_, [u8]> = match Field::of_json(name.as_bytes()) {
                    Some(field) => capture.text(field)?,
                    None => capture.other(name)?,
                };
                buffer.extend_from_slice(&value);
            }
        }
        (!buffer.is_empty()).then_some(buffer)
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Classes per power of two: lengths in a class differ by less than 0.8%.
const FINE: u32 = 7;

/// The class of a length: lengths below 256 have one each, larger ones 128 in each power of two. So a
/// histogram is small however many captures there are, and fine enough to be cut into percentiles.
#[inline]
pub fn length_class(length: u64) -> u32 {
    let power = 63 - (length | 1).leading_zeros();
    let shift = power.saturating_sub(FINE);
    (shift << FINE) + (length >> shift) as u32
}

/// The smallest length of a class.
pub fn least_of_class(class: u32) -> u64 {
    let shift = (class >> FINE).saturating_sub(1);
    u64::from(class - (shift << FINE)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_length_is_in_the_class_that_starts_below_it(length in any::<u64>(), small in 0u64..100_000) {
            for length in [length, small] {
                let class = length_class(length);
                let least = least_of_class(class);
                prop_assert!(least <= length && length_class(least) == class);
                prop_assert!(length - least <= length / 128);
                prop_assert!(length_class(length.saturating_add(1)) <= class + 1);
            }
        }
    }

    #[test]
    fn names_are_those_of_the_properties() {
        for property in Property::USUAL {
            assert_eq!(Property::parse(property.name()), property);
        }
        assert_eq!(
            Property::parse("status"),
            Property::Field("status".to_owned())
        );
    }
}
