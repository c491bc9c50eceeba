//! Where a capture is stored: crawl, segment and subset, from the name of its file.
//!
//! ```text
//! crawl-data/CC-MAIN-2021-25/segments/1623487610196.46/crawldiagnostics/CC-MAIN-…-00275.warc.gz
//!            └─── crawl ───┘          └── segment ───┘ └─── subset ───┘
//! ```

use std::cmp::Ordering;
use std::fmt;

use memchr::{memchr, memmem};

/// A part of a crawl, by the outcome of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subset {
    /// Successful retrievals.
    Warc,
    /// Redirects, errors, not modified.
    CrawlDiagnostics,
    /// Retrievals of robots.txt.
    RobotsTxt,
}

impl Subset {
    /// The number of subsets.
    pub const COUNT: usize = 3;
    /// All of them.
    pub const ALL: [Subset; Subset::COUNT] =
        [Subset::Warc, Subset::CrawlDiagnostics, Subset::RobotsTxt];

    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Subset::Warc => "warc",
            Subset::CrawlDiagnostics => "crawldiagnostics",
            Subset::RobotsTxt => "robotstxt",
        }
    }

    /// The subset with this name.
    pub fn of_name(name: &[u8]) -> Option<Subset> {
        Subset::ALL
            .into_iter()
            .find(|subset| subset.name().as_bytes() == name)
    }
}

impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The parts of the name of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location<'a> {
    /// The crawl, if the name has one.
    pub crawl: Option<&'a [u8]>,
    /// The segment, if the name has one.
    pub segment: Option<&'a [u8]>,
    /// The subset, if the name has one.
    pub subset: Option<Subset>,
}

impl<'a> Location<'a> {
    /// Splits the name of a file. Only names with `segments/` have a segment.
    pub fn of(filename: &'a [u8]) -> Location<'a> {
        const SEGMENTS: &[u8] = b"segments/";
        let Some(at) =
            memmem::find(filename, SEGMENTS).filter(|at| *at == 0 || filename[at - 1] == b'/')
        else {
            return Location::default();
        };
        let before = filename[..at].strip_suffix(b"/").unwrap_or_default();
        let crawl = before.rsplit(|&byte| byte == b'/').next();
        let rest = &filename[at + SEGMENTS.len()..];
        let Some(end) = memchr(b'/', rest) else {
            return Location::default();
        };
        let after = &rest[end + 1..];
        let subset = memchr(b'/', after).and_then(|end| Subset::of_name(&after[..end]));
        Location {
            crawl: crawl.filter(|crawl| !crawl.is_empty()),
            segment: (end > 0).then_some(&rest[..end]),
            subset,
        }
    }
}

/// The order of segments: numbers in their names are compared as numbers.
pub fn natural_order(a: &str, b: &str) -> Ordering {
    fn pieces(name: &str) -> impl Iterator<Item = (u128, &str)> {
        let mut rest = name;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let text = rest[digits..]
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(rest.len() - digits);
            let (piece, after) = rest.split_at(digits + text);
            rest = after;
            // Too many digits for a number are compared as text.
            let number = piece[..digits].parse().unwrap_or(u128::from(digits > 0));
            Some((number, &piece[digits..]))
        })
    }
    pieces(a).cmp(pieces(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_says_crawl_segment_and_subset() {
        let name = b"crawl-data/CC-MAIN-2021-25/segments/1623487610196.46/crawldiagnostics/CC-MAIN-2021-00275.warc.gz";
        let location = Location::of(name);
        assert_eq!(location.crawl, Some(&b"CC-MAIN-2021-25"[..]));
        assert_eq!(location.segment, Some(&b"1623487610196.46"[..]));
        assert_eq!(location.subset, Some(Subset::CrawlDiagnostics));
        assert_eq!(Location::of(b"segments/7/warc/x").segment, Some(&b"7"[..]));
        assert_eq!(Location::of(b"segments/7/other/x").subset, None);
        for other in [
            &b"x.warc.gz"[..],
            b"",
            b"a/segments/",
            b"segments//warc/x",
            b"mysegments/1/warc/x",
        ] {
            assert_eq!(Location::of(other).segment, None);
        }
    }

    #[test]
    fn segments_are_ordered_by_their_numbers() {
        let mut names = [
            "10",
            "9",
            "1566027312025.20",
            "1566027312025.3",
            "a2",
            "a10",
        ];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(
            names,
            [
                "a2",
                "a10",
                "9",
                "10",
                "1566027312025.3",
                "1566027312025.20"
            ]
        );
    }
}
