//! Sorts lines by their bytes, in place.
//!
//! Lines of an index have long common prefixes, so a comparison sort reads the same bytes again and
//! again. Here each line carries its next eight bytes as a number: the numbers are sorted, and only
//! lines with equal numbers fetch their next eight. A line that has ended sorts before longer ones,
//! and its length distinguishes padding from real zeros. So the order is that of `memcmp`, then of
//! length, like that of `LC_ALL=C sort`.

use rayon::prelude::*;

/// Bytes that must follow the last line in the buffer, so that eight can always be read at once.
pub(crate) const SLACK: usize = 8;

/// Below this many lines, comparing the rest of the lines is faster than fetching eight bytes at a
/// time.
const FEW: usize = 24;

/// Above this many lines, the work is shared between threads.
const MANY: usize = 1 << 15;

/// A line in a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Eight bytes of the line, in big-endian order; the sorter knows which.
    window: u64,
    start: u32,
    len: u32,
}

impl Entry {
    /// The line `data[start..start + len]`, which is followed by at least [`SLACK`] bytes.
    pub(crate) fn new(data: &[u8], start: u32, len: u32) -> Entry {
        let mut entry = Entry {
            window: 0,
            start,
            len,
        };
        entry.window = entry.fetch(data, 0);
        entry
    }

    /// The bytes of the line, without its newline.
    pub(crate) fn line<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let start = self.start as usize;
        &data[start..start + self.len as usize]
    }

    /// Eight bytes from `depth` on; zeros after the end of the line.
    fn fetch(&self, data: &[u8], depth: usize) -> u64 {
        let left = (self.len as usize).saturating_sub(depth);
        if left == 0 {
            return 0;
        }
        let at = self.start as usize + depth;
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&data[at..at + 8]);
        let window = u64::from_be_bytes(bytes);
        if left >= 8 {
            window
        } else {
            window & (!0 << (64 - 8 * left))
        }
    }
}

/// Sorts `entries`, which are lines of `data`, by their bytes.
pub(crate) fn sort(data: &[u8], entries: &mut [Entry]) {
    sort_from(data, entries, 0);
}

/// Sorts lines that agree in their first `depth` bytes and carry the next eight in their windows.
fn sort_from(data: &[u8], mut entries: &mut [Entry], mut depth: usize) {
    // The largest group is handled by this loop, and only smaller ones recurse. So the stack has at
    // most log2(lines) frames, however long the lines are.
    loop {
        if entries.len() <= FEW {
            return sort_few(data, entries, depth);
        }
        if entries.len() >= MANY {
            entries.par_sort_unstable_by_key(|e| e.window);
        } else {
            entries.sort_unstable_by_key(|e| e.window);
        }
        depth += 8;
        let parallel = entries.len() >= MANY;
        let mut groups: Vec<&mut [Entry]> = Vec::new();
        let mut largest: &mut [Entry] = &mut [];
        for group in entries.chunk_by_mut(|a, b| a.window == b.window) {
            if group.len() == 1 {
                continue;
            }
            let going_on = skip_ended(group, depth);
            if going_on.len() < 2 {
                continue;
            }
            let smaller = if going_on.len() > largest.len() {
                std::mem::replace(&mut largest, going_on)
            } else {
                going_on
            };
            if smaller.is_empty() {
                continue;
            }
            if parallel {
                groups.push(smaller);
            } else {
                refetch(data, smaller, depth);
                sort_from(data, smaller, depth);
            }
        }
        groups.into_par_iter().for_each(|group| {
            refetch(data, group, depth);
            sort_from(data, group, depth);
        });
        if largest.is_empty() {
            return;
        }
        refetch(data, largest, depth);
        entries = largest;
    }
}

/// Moves the lines that end within `depth` bytes to the front, the shorter first, and returns the
/// others. All lines of `group` have the same bytes so far, but for zeros past the end.
fn skip_ended(group: &mut [Entry], depth: usize) -> &mut [Entry] {
    let mut ended = 0;
    for at in 0..group.len() {
        if group[at].len as usize <= depth {
            group.swap(at, ended);
            ended += 1;
        }
    }
    let (ended, going_on) = group.split_at_mut(ended);
    ended.sort_unstable_by_key(|e| e.len);
    going_on
}

fn refetch(data: &[u8], group: &mut [Entry], depth: usize) {
    for entry in group {
        entry.window = entry.fetch(data, depth);
    }
}

fn sort_few(data: &[u8], entries: &mut [Entry], depth: usize) {
    let rest = |e: &Entry| {
        let line = e.line(data);
        &line[depth.min(line.len())..]
    };
    entries.sort_unstable_by(|a, b| a.window.cmp(&b.window).then_with(|| rest(a).cmp(rest(b))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(lines: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut data = Vec::new();
        let mut places = Vec::new();
        for line in lines {
            places.push((data.len() as u32, line.len() as u32));
            data.extend_from_slice(line);
            data.push(b'\n');
        }
        data.extend_from_slice(&[0xff; SLACK]);
        let mut entries: Vec<Entry> = places
            .iter()
            .map(|&(start, len)| Entry::new(&data, start, len))
            .collect();
        sort(&data, &mut entries);
        entries.iter().map(|e| e.line(&data).to_vec()).collect()
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_byte_slices(
            mut lines in prop::collection::vec(prop::collection::vec(0u8..3, 0..40), 0..300)
        ) {
            let ours = sorted(&lines);
            lines.sort();
            prop_assert_eq!(ours, lines);
        }
    }

    #[test]
    fn long_lines_that_differ_only_in_length_do_not_exhaust_the_stack() {
        let mut lines: Vec<Vec<u8>> = (0..3000).rev().map(|n| vec![b'a'; n * 8]).collect();
        lines.push(vec![0; 200_000]);
        lines.push(vec![0; 200_001]);
        let ours = sorted(&lines);
        lines.sort();
        assert_eq!(ours, lines);
    }

    #[test]
    fn many_lines_are_sorted_by_several_threads() {
        let mut lines: Vec<Vec<u8>> = (0u64..200_000)
            .map(|n| {
                let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
                format!("com,example)/{n:08}/{}", n % 7).into_bytes()
            })
            .collect();
        let ours = sorted(&lines);
        lines.sort();
        assert_eq!(ours, lines);
    }
}
