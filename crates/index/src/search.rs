//! Binary search for a line in sorted bytes.

use memchr::{memchr, memrchr};

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
    let (mut low, mut high) = (0, lines.len());
    let (mut below, mut above): (Option<&[u8]>, Option<&[u8]>) = (None, None);
    while low < high {
        let middle = low + (high - low) / 2;
        let (start, end) = line_around(lines, middle);
        let found = key(&lines[start..end]);
        let before = below.filter(|below| found < below);
        let after = above.filter(|above| found > above);
        if let Some(larger) = before.or(after.map(|_| found)) {
            let smaller = after.unwrap_or(found);
            return Err(Error::not_sorted(larger, smaller).at_byte(start as u64));
        }
        if found < target {
            below = Some(found);
            low = (end + 1).min(lines.len());
        } else {
            above = Some(found);
            high = start;
        }
    }
    Ok(low)
}

/// The start and end, without the newline, of the line that contains byte `at`.
pub(crate) fn line_around(lines: &[u8], at: usize) -> (usize, usize) {
    let start = memrchr(b'\n', &lines[..at]).map_or(0, |newline| newline + 1);
    let end = memchr(b'\n', &lines[at..]).map_or(lines.len(), |newline| at + newline);
    (start, end)
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
