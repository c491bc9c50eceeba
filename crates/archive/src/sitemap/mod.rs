//! Sitemaps that list summaries, with Dublin Core, as the Croatian Web Archive publishes them.
//!
//! ```xml
//! <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:dc="http://purl.org/dc/elements/1.1/">
//!   <url>
//!     <loc>https://haw.nsk.hr/bloom-filter/haw-2020-hr-domain-harvest.csv</loc>
//!     <lastmod>2021-12-15</lastmod>
//!     <dc:title>Croatian TLD (hr) harvest bloom filter</dc:title>
//!     <dc:format>text/csv</dc:format>
//!     <dc:format>Number of URLs 180,379,433</dc:format>
//!     <dc:format>Size 319502017B</dc:format>
//!   </url>
//! </urlset>
//! ```

mod read;
mod write;

pub use read::{Listing, MOST_BYTES, MOST_ENTRIES, parse};
pub use write::{Part, write, write_index, write_parts};

/// The namespace of sitemaps.
const SITEMAP: &str = "http://www.sitemaps.org/schemas/sitemap/0.9";

/// The namespaces of Dublin Core; ours is the first.
const DUBLIN_CORE: [&str; 2] = [
    "http://purl.org/dc/elements/1.1/",
    "http://purl.org/dc/terms/",
];

/// What `dc:format` says the number of URLs with.
const URLS: &str = "Number of URLs ";

/// What `dc:format` says the size with.
const SIZE: &str = "Size ";

/// What `dc:identifier` says the checksum with.
const CHECKSUM: &str = "sha256:";

/// A file in a sitemap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its URL.
    pub location: String,
    /// When it was last modified, as a date or a time of ISO 8601.
    pub modified: Option<String>,
    /// Elements of Dublin Core with their texts, in order.
    pub elements: Vec<(String, String)>,
}

impl Entry {
    /// The texts of an element.
    pub fn get<'a>(&'a self, element: &'a str) -> impl Iterator<Item = &'a str> {
        let own = self.elements.iter();
        own.filter(move |(name, _)| name == element)
            .map(|(_, text)| &text[..])
    }

    /// Adds the media type, the number of URLs if it is known, and the size.
    pub fn add_format(&mut self, media_type: &str, urls: Option<u64>, bytes: u64) {
        let mut add = |text: String| self.elements.push(("format".to_owned(), text));
        add(media_type.to_owned());
        if let Some(urls) = urls {
            add(format!("{URLS}{}", with_commas(urls)));
        }
        add(format!("{SIZE}{bytes}B"));
    }

    /// Adds the checksum.
    pub fn add_checksum(&mut self, sha256: &str) {
        let text = format!("{CHECKSUM}{sha256}");
        self.elements.push(("identifier".to_owned(), text));
    }

    /// The media type.
    pub fn media_type(&self) -> Option<&str> {
        self.get("format")
            .find(|text| text.contains('/') && !text.contains(' '))
    }

    /// The number of URLs.
    pub fn urls(&self) -> Option<u64> {
        self.get("format")
            .find_map(|text| number(text.strip_prefix(URLS)?))
    }

    /// The size in bytes.
    pub fn bytes(&self) -> Option<u64> {
        self.get("format")
            .find_map(|text| number(text.strip_prefix(SIZE)?.trim_end().strip_suffix('B')?))
    }

    /// The SHA-256 checksum, in lower-case hexadecimal digits.
    pub fn checksum(&self) -> Option<String> {
        self.get("identifier").find_map(|text| {
            let digits = text.strip_prefix(CHECKSUM)?;
            let is_checksum = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            is_checksum.then(|| digits.to_ascii_lowercase())
        })
    }
}

/// A number with or without separators.
fn number(text: &str) -> Option<u64> {
    let digits: String = text
        .trim()
        .chars()
        .filter(|c| !matches!(c, ',' | '.' | ' ' | '\u{a0}' | '\u{202f}'))
        .collect();
    // `parse` alone accepts a sign.
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            location in "https?://[a-z]{1,9}\\.example/[ -~]{0,20}",
            texts in proptest::collection::vec("\\PC{1,20}", 0..5),
            urls in proptest::option::of(any::<u64>()),
            bytes in any::<u64>(),
        ) {
            let mut entry = Entry {
                location: location.trim().to_owned(),
                modified: Some("2021-12-15".to_owned()),
                ..Entry::default()
            };
            for text in texts {
                // White space at the ends and runs of it are not kept.
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                if !text.is_empty() {
                    entry.elements.push(("title".to_owned(), text));
                }
            }
            entry.add_format("text/csv", urls, bytes);
            entry.add_checksum(&"0a".repeat(32));
            let Listing::Files(read) = parse(write(std::slice::from_ref(&entry)).as_bytes()).unwrap() else {
                panic!("a list of files")
            };
            prop_assert_eq!(&read[..], std::slice::from_ref(&entry));
            prop_assert_eq!(read[0].urls(), urls);
            prop_assert_eq!(read[0].bytes(), Some(bytes));
            prop_assert_eq!(read[0].checksum(), Some("0a".repeat(32)));
            prop_assert_eq!(read[0].media_type(), Some("text/csv"));
        }

        #[test]
        fn nonsense_is_an_error_and_never_a_panic(text in "(<|>|/|url|urlset|loc|&|;|#|!|\\[|\\]|\"| |x){0,60}") {
            let _ = parse(text.as_bytes());
        }
    }
}
