//! The `Range` header, for one range of bytes.

use std::ops::Range;

/// Which part of a body is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it: there is no range, or not one that is understood.
    All,
    /// These bytes.
    Part(Range<usize>),
    /// Bytes that do not exist.
    Nothing,
}

/// Reads a `Range` header for a body of this length. Several ranges at once are not supported, and so
/// they get all of it, as RFC 9110 allows.
pub(super) fn wanted(header: Option<&str>, length: usize) -> Wanted {
    let Some(range) = header.and_then(|header| header.trim().strip_prefix("bytes=")) else {
        return Wanted::All;
    };
    let Some((first, last)) = range.split_once('-') else {
        return Wanted::All;
    };
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let range = match (first.trim(), number(first), last.trim(), number(last)) {
        // The last bytes.
        ("", _, _, Some(many)) => length.saturating_sub(many)..length,
        (_, Some(first), "", _) => first..length,
        (_, Some(first), _, Some(last)) if first <= last => {
            first..last.saturating_add(1).min(length)
        }
        _ => return Wanted::All,
    };
    match range.start < range.end {
        true => Wanted::Part(range),
        false => Wanted::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_understood() {
        for (header, expected) in [
            ("bytes=0-4", Wanted::Part(0..5)),
            ("bytes=5-", Wanted::Part(5..10)),
            ("bytes=-3", Wanted::Part(7..10)),
            ("bytes=-30", Wanted::Part(0..10)),
            ("bytes=8-99", Wanted::Part(8..10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=4-2", Wanted::All),
            ("bytes=0-1,3-4", Wanted::All),
            ("lines=0-1", Wanted::All),
            ("bytes=a-b", Wanted::All),
        ] {
            assert_eq!(wanted(Some(header), 10), expected, "{header}");
        }
        assert_eq!(wanted(None, 10), Wanted::All);
    }
}
