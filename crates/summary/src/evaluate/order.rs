//! Sorts lookups by their SURTs, on all cores.
//!
//! ```text
//! parts, each sorted ─► ranges of SURTs, each merged from all parts ─► joined in order
//! ```

use rayon::prelude::*;

/// About how many lookups a range has: so few that their text is in the cache while they are merged.
pub(super) const RANGE: usize = 1 << 12;

/// Ranges begin at SURTs of a sample with this many for each range.
const SAMPLED: usize = 8;

/// A lookup in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The URI, then the SURT.
    start: usize,
    uri: u32,
    surt: u32,
    times: u64,
}

impl Entry {
    fn uri<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.start + self.uri as usize]
    }

    pub(super) fn surt<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let start = self.start + self.uri as usize;
        &bytes[start..start + self.surt as usize]
    }

    /// The URI, its SURT, and how often it occurs.
    pub(super) fn fields<'a>(&self, bytes: &'a [u8]) -> Fields<'a> {
        (self.uri(bytes), self.surt(bytes), self.times)
    }
}

type Fields<'a> = (&'a [u8], &'a [u8], u64);

/// What lookups are sorted by: several spellings of a URI can have the same SURT.
fn key<'a>(&(uri, surt, _): &Fields<'a>) -> (&'a [u8], &'a [u8]) {
    (surt, uri)
}

/// Some of the lookups, sorted.
#[derive(Default)]
pub(super) struct Part {
    bytes: Vec<u8>,
    asked: Vec<Entry>,
    /// URIs without a SURT, and how often they occur.
    pub(super) rejected: u64,
    pub(super) rejected_times: u64,
}

impl Part {
    /// The lookups of these URIs and their number of occurrences. `write` appends the SURT of one.
    pub(super) fn of<U: AsRef<[u8]>>(
        uris: impl Iterator<Item = (U, u64)>,
        mut write: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), waypost_surt::Error>,
    ) -> Part {
        let mut part = Part::default();
        for (uri, times) in uris {
            let uri = uri.as_ref();
            let start = part.bytes.len();
            part.bytes.extend_from_slice(uri);
            match write(uri, &mut part.bytes) {
                Ok(()) => part.push_entry(start, uri.len(), times),
                Err(_) => {
                    part.bytes.truncate(start);
                    part.rejected += 1;
                    part.rejected_times += times;
                }
            }
        }
        let bytes = &part.bytes;
        part.asked
            .sort_unstable_by(|a, b| key(&a.fields(bytes)).cmp(&key(&b.fields(bytes))));
        part
    }

    /// Adds the lookup whose URI and SURT were appended.
    fn push_entry(&mut self, start: usize, uri: usize, times: u64) {
        self.asked.push(Entry {
            start,
            uri: uri as u32,
            surt: (self.bytes.len() - start - uri) as u32,
            times,
        });
    }

    fn surt(&self, index: usize) -> &[u8] {
        self.asked[index].surt(&self.bytes)
    }

    /// The lookups from one SURT to another.
    fn range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> impl Iterator<Item = Fields<'_>> {
        let before = |bound| {
            self.asked
                .partition_point(|asked| asked.surt(&self.bytes) < bound)
        };
        let start = from.map_or(0, before);
        let end = to.map_or(self.asked.len(), before);
        let asked = self.asked[start..end].iter();
        asked.map(|asked| asked.fields(&self.bytes))
    }
}

/// The lookups of all parts in order, which have no URI in common, and their text. Ranges have about
/// `range` lookups.
pub(super) fn in_order(parts: Vec<Part>, range: usize) -> (Vec<u8>, Vec<Entry>) {
    let bounds = bounds(&parts, range);
    let number = |at: usize| bounds.get(at).map(Vec::as_slice);
    let ranges: Vec<Part> = (0..=bounds.len())
        .into_par_iter()
        .map(|at| merged(&parts, at.checked_sub(1).and_then(number), number(at)))
        .collect();
    // Before the text is copied once more.
    parts.into_par_iter().for_each(drop);
    joined(ranges)
}

/// The SURTs at which all ranges but the first begin: quantiles of a sample.
fn bounds(parts: &[Part], range: usize) -> Vec<Vec<u8>> {
    let step = (range / SAMPLED).max(1);
    let mut sample: Vec<&[u8]> = parts
        .iter()
        .flat_map(|part| (0..part.asked.len()).step_by(step).map(|at| part.surt(at)))
        .collect();
    sample.par_sort_unstable();
    let each = range.div_ceil(step);
    let mut bounds: Vec<Vec<u8>> = sample
        .iter()
        .skip(each)
        .step_by(each)
        .map(|surt| surt.to_vec())
        .collect();
    bounds.dedup();
    bounds
}

/// Merges the lookups of a range.
fn merged(parts: &[Part], from: Option<&[u8]>, to: Option<&[u8]>) -> Part {
    let mut asked: Vec<Fields<'_>> = Vec::new();
    parts
        .iter()
        .for_each(|part| asked.extend(part.range(from, to)));
    // It finds the runs that the parts are.
    asked.sort_by(|a, b| key(a).cmp(&key(b)));
    let mut merged = Part::default();
    let bytes = asked.iter().map(|(uri, surt, _)| uri.len() + surt.len());
    merged.bytes.reserve_exact(bytes.sum());
    merged.asked.reserve_exact(asked.len());
    for (uri, surt, times) in asked {
        let start = merged.bytes.len();
        merged.bytes.extend_from_slice(uri);
        merged.bytes.extend_from_slice(surt);
        merged.push_entry(start, uri.len(), times);
    }
    merged
}

/// The text of all parts, copied on all cores, and their lookups.
fn joined(parts: Vec<Part>) -> (Vec<u8>, Vec<Entry>) {
    let mut bytes = vec![0; parts.iter().map(|part| part.bytes.len()).sum()];
    let mut asked = Vec::with_capacity(parts.iter().map(|part| part.asked.len()).sum());
    let mut copies = Vec::with_capacity(parts.len());
    let (mut start, mut rest) = (0, &mut bytes[..]);
    for part in parts {
        asked.extend(part.asked.into_iter().map(|entry| Entry {
            start: start + entry.start,
            ..entry
        }));
        start += part.bytes.len();
        let (place, after) = rest.split_at_mut(part.bytes.len());
        copies.push((place, part.bytes));
        rest = after;
    }
    copies
        .into_par_iter()
        .for_each(|(place, bytes)| place.copy_from_slice(&bytes));
    (bytes, asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The SURT of a test: its first two bytes, so that many URIs have the same one. URIs with `x`
    /// have none.
    fn surt(uri: &[u8], out: &mut Vec<u8>) -> Result<(), waypost_surt::Error> {
        if uri.contains(&b'x') {
            return Err(waypost_surt::Error::BadPort);
        }
        out.extend_from_slice(&uri[..uri.len().min(2)]);
        Ok(())
    }

    proptest! {
        #[test]
        fn ranges_give_what_one_sort_gives(
            uris in prop::collection::btree_map("[a-dx]{0,5}", (1..9u64, 0..7usize), 0..150),
            range in 1..40usize,
        ) {
            let mut parts: BTreeMap<usize, Vec<(&str, u64)>> = BTreeMap::new();
            for (uri, (times, part)) in &uris {
                parts.entry(*part).or_default().push((uri, *times));
            }
            let parts: Vec<Part> = parts
                .into_values()
                .map(|uris| Part::of(uris.into_iter(), surt))
                .collect();
            let rejected: u64 = parts.iter().map(|part| part.rejected).sum();
            let rejected_times: u64 = parts.iter().map(|part| part.rejected_times).sum();
            let (bytes, asked) = in_order(parts, range);
            let found: Vec<(&[u8], &[u8], u64)> =
                asked.iter().map(|asked| asked.fields(&bytes)).collect();
            let mut expected: Vec<(Vec<u8>, &[u8], u64)> = Vec::new();
            let mut bad = Vec::new();
            for (uri, (times, _)) in &uris {
                let mut out = Vec::new();
                match surt(uri.as_bytes(), &mut out) {
                    Ok(()) => expected.push((out, uri.as_bytes(), *times)),
                    Err(_) => bad.push(times),
                }
            }
            expected.sort();
            let expected: Vec<(&[u8], &[u8], u64)> = expected
                .iter()
                .map(|(surt, uri, times)| (*uri, &surt[..], *times))
                .collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(rejected, bad.len() as u64);
            prop_assert_eq!(rejected_times, bad.into_iter().sum::<u64>());
        }
    }
}
