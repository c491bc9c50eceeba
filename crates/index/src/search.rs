//! Binary search for a line in sorted bytes, and checks that they are sorted.

use std::ops::Range;

use memchr::{memchr, memrchr};

use waypost_io::mapped::prefetch;
use waypost_io::{Error, Result};

/// The offset of the first line in `lines` that is not smaller than `target`. `key` extracts the part
/// of a line to compare. Every line except possibly the last ends with a newline.
///
/// # Errors
/// If the lines that are read are not sorted.
pub(crate) fn lower_bound(
    lines: &[u8],
    target: &[u8],
    key: impl Fn(&[u8]) -> &[u8],
) -> Result<usize> {
    bound_within(lines, 0..lines.len(), Bounds::default(), target, key)
}

/// The same for a bound that is probably near the start, as the end of a range is near its first line:
/// looks ahead in steps of twice the size until it is behind the bound.
///
/// # Errors
/// If the lines that are read are not sorted.
pub(crate) fn lower_bound_near(
    lines: &[u8],
    target: &[u8],
    key: impl Fn(&[u8]) -> &[u8],
) -> Result<usize> {
    let mut bounds = Bounds::default();
    let (mut low, mut at) = (0, NEAR);
    while at < lines.len() {
        let (start, end) = line_around(lines, at);
        let found = key(&lines[start..end]);
        let smaller = bounds.is_smaller(found, target);
        if !smaller.map_err(|error| error.at_byte(start as u64))? {
            return bound_within(lines, low..start, bounds, target, key);
        }
        low = (end + 1).min(lines.len());
        at = low.saturating_add(at);
    }
    bound_within(lines, low..lines.len(), bounds, target, key)
}

/// The size of the first step.
const NEAR: usize = 2 << 10;

fn bound_within<'a>(
    lines: &'a [u8],
    Range {
        start: mut low,
        end: mut high,
    }: Range<usize>,
    mut bounds: Bounds<'a>,
    target: &[u8],
    key: impl Fn(&[u8]) -> &[u8],
) -> Result<usize> {
    while low < high {
        let middle = low + (high - low) / 2;
        if high - low > FAR {
            // In a large file, waiting for memory takes most of the time. The next read is in the
            // middle of one half or of the other.
            prefetch_line(lines, low + (middle - low) / 2);
            prefetch_line(lines, middle + (high - middle) / 2);
        }
        let (start, end) = line_around(lines, middle);
        let found = key(&lines[start..end]);
        if bounds
            .is_smaller(found, target)
            .map_err(|error| error.at_byte(start as u64))?
        {
            low = (end + 1).min(lines.len());
        } else {
            high = start;
        }
    }
    Ok(low)
}

/// Reads that are closer together than this are not prefetched.
const FAR: usize = 4 << 10;

/// Prefetches the start of the line that contains a byte near `at`, if it is of usual length.
fn prefetch_line(lines: &[u8], at: usize) {
    for back in 0..3 {
        prefetch(lines, at.saturating_sub(back * 64));
    }
}

/// What a binary search has met: the largest key below the target, and the smallest one above it.
#[derive(Default)]
pub(crate) struct Bounds<'a> {
    below: Option<&'a [u8]>,
    above: Option<&'a [u8]>,
}

impl<'a> Bounds<'a> {
    /// Whether `found`, which lies between those met before, is smaller than `target`.
    ///
    /// # Errors
    /// If it is out of order.
    #[inline]
    pub(crate) fn is_smaller(&mut self, found: &'a [u8], target: &[u8]) -> Result<bool> {
        let before = self.below.filter(|below| found < *below);
        let after = self.above.filter(|above| found > *above);
        if let Some(larger) = before.or(after.map(|_| found)) {
            return Err(Error::not_sorted(larger, after.unwrap_or(found)));
        }
        let smaller = found < target;
        *(if smaller {
            &mut self.below
        } else {
            &mut self.above
        }) = Some(found);
        Ok(smaller)
    }
}

/// The start and end, without the newline, of the line that contains byte `at`.
pub(crate) fn line_around(lines: &[u8], at: usize) -> (usize, usize) {
    let start = memrchr(b'\n', &lines[..at]).map_or(0, |newline| newline + 1);
    let end = memchr(b'\n', &lines[at..]).map_or(lines.len(), |newline| at + newline);
    (start, end)
}

/// How many bytes at each end of a file are in the sample.
const END: usize = 4 << 20;

/// How many lines between them are in the sample.
const PLACES: usize = 1024;

/// How much is read between two questions whether to go on.
const STEP: usize = 64 << 20;

/// Checks lines at both ends and at positions in between by what `key` takes of them. Returns whether these
/// were all. `number` is that of the line before the first.
pub(crate) fn sample<'a>(
    lines: &'a [u8],
    number: u64,
    key: impl Fn(&'a [u8]) -> &'a [u8],
) -> Result<bool> {
    if lines.len() <= 2 * END {
        return check(lines, number, key, |_| true);
    }
    let (first, last) = (
        line_around(lines, END).1,
        line_around(lines, lines.len() - END).0,
    );
    let mut sorted = [&lines[..first], &lines[last..]]
        .into_iter()
        .all(|end| check(end, 0, &key, |_| true).is_ok());
    let mut before = &lines[..0];
    for place in 0..=PLACES {
        let at = lines.len() as u128 * place as u128 / PLACES as u128;
        let (start, end) = line_around(lines, (at as usize).min(lines.len() - 1));
        let here = key(&lines[start..end]);
        sorted &= here >= before || here.is_empty();
        before = here;
    }
    if !sorted {
        // Finds the first line that is out of order.
        check(lines, number, key, |_| true)?;
    }
    Ok(false)
}

/// Checks lines by what `key` takes of them, and asks after some of them whether to go on. Returns whether
/// these were all. Blank lines can be anywhere.
pub(crate) fn check<'a>(
    lines: &'a [u8],
    mut number: u64,
    key: impl Fn(&'a [u8]) -> &'a [u8],
    mut go_on: impl FnMut(usize) -> bool,
) -> Result<bool> {
    let mut before = &lines[..0];
    let (mut at, mut pause) = (0, STEP);
    while at < lines.len() {
        let end = memchr(b'\n', &lines[at..]).map_or(lines.len(), |newline| at + newline);
        let here = key(&lines[at..end]);
        number += 1;
        if here < before && !here.is_empty() {
            return Err(Error::not_sorted(before, here).at_line(number));
        }
        if !here.is_empty() {
            before = here;
        }
        at = end + 1;
        if at >= pause {
            pause = at + STEP;
            if !go_on(at.min(lines.len())) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waypost_io::ErrorKind;

    proptest! {
        #[test]
        fn the_bound_is_where_a_scan_finds_it(
            mut lines in prop::collection::vec("[ab ]{0,3}", 0..30),
            target in "[ab ]{0,3}",
            last_newline: bool,
        ) {
            lines.sort();
            let mut text = lines.join("\n");
            if last_newline && !lines.is_empty() {
                text.push('\n');
            }
            let mut expected = 0;
            for line in text.as_bytes().split_inclusive(|&b| b == b'\n') {
                if line.strip_suffix(b"\n").unwrap_or(line) >= target.as_bytes() {
                    break;
                }
                expected += line.len();
            }
            let found = lower_bound(text.as_bytes(), target.as_bytes(), |line| line).unwrap();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn a_near_bound_is_the_same(
            mut lines in prop::collection::vec("[ab]{0,2}[c]{0,700}", 0..60),
            target in "[ab]{0,2}[c]{0,700}",
        ) {
            lines.sort();
            let text = lines.join("\n");
            let far = lower_bound(text.as_bytes(), target.as_bytes(), |line| line).unwrap();
            let near = lower_bound_near(text.as_bytes(), target.as_bytes(), |line| line).unwrap();
            prop_assert_eq!(near, far);
        }
    }

    #[test]
    fn a_sample_finds_what_was_put_before_or_behind_a_large_file() {
        let text = |from: u32, to: u32| -> Vec<u8> {
            (from..to)
                .flat_map(|n| format!("key{n:08}\n").into_bytes())
                .collect()
        };
        let (large, small) = (text(10, 900_000), text(5, 8));
        let check = |text: &[u8]| sample(text, 0, |line| line);
        assert!(!check(&large).unwrap(), "not all of a large file is read");
        assert!(check(&small).unwrap());
        assert!(!check(&[&small[..], &large, b"\n\n"].concat()).unwrap());
        for (unsorted, line) in [
            ([&text(9, 12)[..], &large].concat(), 4),
            ([&large[..], &small].concat(), 899_991),
            ([&large[..6_000_000], &large].concat(), 500_001),
        ] {
            let error = check(&unsorted).unwrap_err();
            assert_eq!(error.place().line, Some(line), "{error}");
        }
    }

    #[test]
    fn lines_met_out_of_order_are_an_error() {
        // The search meets `m`, and then `d` behind it.
        let error = lower_bound(b"a\nb\nm\nc\nd\n", b"x", |line| line).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::NotSorted { .. }),
            "{error}"
        );
    }
}
