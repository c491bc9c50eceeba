//! Filters from indexes and lists of URLs.
//!
//! A URL becomes 128 bits: the start of its MD5, which says in which filter it goes, and the two
//! hashes that give its positions. Sorted, they are grouped by filter, and duplicates are dropped, so
//! that filters are filled one after the other in bounded memory.

use std::path::Path;

use waypost_io::progress::Phase;

use super::forms::{Form, Output};
use super::hash::{self, Method, combine};
use super::{Shape, Split};
use crate::error::{Error, Result};
use crate::filter::build::describe;
use crate::filter::hash::{Hash, HashFunction};
use crate::filter::input::{self, Hashing, Input, Reading};
use crate::filter::run::Run;
use crate::filter::{Metadata, format};
use crate::scope::Scopes;

/// The filters to export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// How URLs are distributed.
    pub split: Split,
    /// The false positive rate.
    pub rate: f64,
    /// The number of bits that a URL sets; `None` for the number that takes the least space.
    pub hashes: Option<u32>,
    /// The number of URLs in all filters to make room for, if it is more than there are now.
    pub capacity: u64,
    /// What is written.
    pub form: Form,
    /// Metadata given by the user.
    pub metadata: Metadata,
}

impl Default for ExportOptions {
    /// As published: 16 filters, 1%, five hash functions.
    fn default() -> ExportOptions {
        ExportOptions {
            split: Split::Sixteen,
            rate: 0.01,
            hashes: Some(5),
            capacity: 0,
            form: Form::Text,
            metadata: Metadata::default(),
        }
    }
}

/// What was exported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExportReport {
    /// Distinct URLs.
    pub urls: u64,
    /// The size of each filter.
    pub shape: Shape,
    /// How many there are.
    pub split: Split,
    /// The expected false positive rate, on average over all filters.
    pub rate: f64,
}

/// The hash of a URL from which its filter and its positions follow.
pub(crate) fn hash_url(url: &[u8]) -> Hash {
    let (first, second) = hash::pair(url);
    let md5 = u128::from_be_bytes(hash::md5(url));
    md5 >> 64 << 64 | u128::from(first) << 32 | u128::from(second)
}

/// Exports the URLs of the whole input.
///
/// # Errors
/// If the input can't be read, the filters would be too large for Orestes, or they can't be written.
pub fn export(
    input: Input<'_>,
    options: &ExportOptions,
    out: &Path,
) -> Result<(ExportReport, Reading)> {
    if options.form != Form::Json {
        format::check_place(out)?;
    }
    let hashing = Hashing::of_urls(input.dialect, &input.resources);
    let scopes = Scopes::of(&input.select);
    let (memory, progress) = (input.resources.memory, input.progress.clone());
    let (run, reading) = input::read_with(input, &hashing)?;
    let split = options.split;
    let counts = counts(&run, split)?;
    let most = counts.iter().copied().max().unwrap_or(0);
    let capacity = options.capacity.div_ceil(split.filters() as u64).max(most);
    let shape = Shape::for_rate(capacity, options.rate, options.hashes)?;
    let mut metadata = options.metadata.clone();
    describe(&reading, &scopes, HashFunction::Xxh3, &mut metadata)?;
    let method = Method::KirschMitzenmacher;
    let mut output = Output::create(options.form, out, method, split, &metadata)?;
    progress.begin(Phase::Writing, Some(shape.bytes() * split.filters() as u64));
    let window = (memory as u64 / 4).max(1 << 20);
    let mut first = 0;
    for (number, &count) in counts.iter().enumerate() {
        output.begin(number, shape, count)?;
        // Only part of a filter is in memory if it is larger than that.
        let mut start = 0;
        while start < shape.bytes() {
            let end = (start + window).min(shape.bytes());
            let bits = fill(&run, first..first + count, shape, start..end)?;
            output.write(&bits)?;
            progress.add(bits.len() as u64);
            start = end;
        }
        output.end()?;
        first += count;
    }
    output.finish(&metadata)?;
    let urls: u64 = counts.iter().sum();
    let rates: f64 = counts.iter().map(|&urls| shape.rate(urls)).sum();
    let report = ExportReport {
        urls,
        shape,
        split,
        rate: rates / counts.len() as f64,
    };
    Ok((report, reading))
}

/// The number of URLs in each filter.
fn counts(run: &Run, split: Split) -> Result<Vec<u64>> {
    let mut counts = vec![0; split.filters()];
    let mut reader = run.reader();
    loop {
        let hashes = reader.peek()?;
        if hashes.is_empty() {
            return Ok(counts);
        }
        for hash in hashes {
            counts[split.filter_of(&hash.to_be_bytes())] += 1;
        }
        let taken = hashes.len();
        reader.take(taken);
    }
}

/// The bytes `window` of a filter with these URLs.
fn fill(
    run: &Run,
    urls: std::ops::Range<u64>,
    shape: Shape,
    window: std::ops::Range<u64>,
) -> Result<Vec<u8>> {
    let length = usize::try_from(window.end - window.start)
        .map_err(|_| Error::invalid("the memory limit is too large"))?;
    let mut bits = vec![0u8; length];
    let mut reader = run.reader_at(urls.start);
    let mut left = urls.end - urls.start;
    while left > 0 {
        let hashes = reader.peek()?;
        let some = hashes
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        if some == 0 {
            break;
        }
        for &hash in &hashes[..some] {
            let (first, second) = ((hash >> 32) as u32, hash as u32);
            for number in 0..shape.hashes {
                let at = combine(first, second, number, shape.bits);
                let byte = (at / 8).wrapping_sub(window.start);
                if let Some(byte) = bits.get_mut(byte as usize) {
                    *byte |= 1 << (at % 8);
                }
            }
        }
        reader.take(some);
        left -= some as u64;
    }
    Ok(bits)
}
