//! What two crawls have in common: URI-Rs and contents.

use std::sync::Arc;

use waypost_index::scan::{self, At, Job, Outcome};
use waypost_index::{Capture, Field, Fields, Select};
use waypost_io::partial::{Decoder, Encoder, Hashes, Spill};
use waypost_io::{Progress, Resources, Result, Source};
use xxhash_rust::xxh3::xxh3_128;

use super::location::{Location, Subset};

/// The SHA-1 of nothing: it says nothing about what two captures have in common.
const EMPTY: &[u8] = b"3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ";

/// Distinct things in two crawls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// In the first.
    pub first: u64,
    /// In the second.
    pub second: u64,
    /// In both.
    pub both: u64,
}

impl Common {
    /// The share of those in both among all, which Common Crawl calls similarity.
    pub fn similarity(&self) -> f64 {
        let all = self.first + self.second - self.both;
        self.both as f64 / all as f64
    }
}

/// What two crawls have in common.
#[derive(Debug)]
pub struct Overlap {
    /// URI-Rs.
    pub uris: Common,
    /// Contents, by their digests.
    pub digests: Common,
    /// What was read of each.
    pub outcomes: [Outcome; 2],
}

/// Compares two crawls, in the captures of `subset`; `None` for all captures.
///
/// # Errors
/// If a source cannot be read, or a temporary file cannot be written.
pub fn overlap(
    crawls: [&[Source]; 2],
    subset: Option<Subset>,
    resources: &Resources,
    progress: &Progress,
) -> Result<Overlap> {
    let job = Hashing {
        subset,
        // Two crawls, two kinds of things, each alone and with the other crawl.
        share: resources.memory / 16,
        spill: Spill::new(&resources.temporary),
    };
    let scan = |sources: &[Source]| {
        progress.read(sources);
        let options = scan::Options {
            select: Select::new(),
            progress: progress.clone(),
            ..scan::Options::default()
        };
        scan::scan(sources, &job, options)
    };
    let (first, first_outcome) = scan(crawls[0])?;
    let (second, second_outcome) = scan(crawls[1])?;
    let mut common = [Common::default(); 2];
    for (common, (first, second)) in common.iter_mut().zip(first.into_iter().zip(second)) {
        let mut union = first.union;
        union.merge(second.union)?;
        let all = union.count()?;
        common.first = first.own.count()?;
        common.second = second.own.count()?;
        common.both = common.first + common.second - all;
    }
    Ok(Overlap {
        uris: common[0],
        digests: common[1],
        outcomes: [first_outcome, second_outcome],
    })
}

struct Hashing {
    subset: Option<Subset>,
    share: usize,
    spill: Arc<Spill>,
}

/// Hashes of one kind, twice: counting the distinct ones consumes them.
struct Twice {
    own: Hashes,
    union: Hashes,
}

impl Twice {
    fn add(&mut self, bytes: &[u8]) {
        let hash = xxh3_128(bytes);
        self.own.add(hash);
        self.union.add(hash);
    }
}

impl Job for Hashing {
    /// URI-Rs and digests.
    type Partial = [Twice; 2];

    fn fields(&self) -> Fields {
        Field::Digest | Field::Filename | Field::Status
    }

    fn empty(&self) -> [Twice; 2] {
        let hashes = || Hashes::new(self.share, &self.spill);
        [(); 2].map(|()| Twice {
            own: hashes(),
            union: hashes(),
        })
    }

    fn add(&self, [uris, digests]: &mut [Twice; 2], capture: &Capture<'_>, _: At) {
        let filename = capture.text(Field::Filename).unwrap_or_default();
        let subset = Location::of(&filename)
            .subset
            .unwrap_or(match capture.status() {
                Some(200) => Subset::Warc,
                _ => Subset::CrawlDiagnostics,
            });
        if self.subset.is_some_and(|wanted| wanted != subset) {
            return;
        }
        uris.add(capture.key());
        if let Some(digest) = capture.text(Field::Digest) {
            let digest = digest.strip_prefix(b"sha1:").unwrap_or(&digest);
            if digest != EMPTY {
                digests.add(digest);
            }
        }
    }

    fn seal(&self, partial: &mut [Twice; 2]) -> Result<()> {
        for twice in partial {
            twice.own.seal();
            twice.union.seal();
        }
        Ok(())
    }

    fn merge(&self, earlier: &mut [Twice; 2], later: [Twice; 2], _: At) -> Result<()> {
        for (earlier, later) in earlier.iter_mut().zip(later) {
            earlier.own.merge(later.own)?;
            earlier.union.merge(later.union)?;
        }
        Ok(())
    }

    fn to_bytes(&self, partial: &[Twice; 2]) -> Result<Vec<u8>> {
        let mut out = Encoder::new("overlap", 1);
        for twice in partial {
            twice.own.encode(&mut out)?;
        }
        Ok(out.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<[Twice; 2]> {
        let mut from = Decoder::new(bytes, "overlap", 1)?;
        let mut partial = self.empty();
        for twice in &mut partial {
            let hashes = Hashes::new(self.share, &self.spill).decode(&mut from)?;
            let mut copy = Encoder::new("copy", 1);
            hashes.encode(&mut copy)?;
            let copy = copy.finish();
            let mut copy = Decoder::new(&copy, "copy", 1)?;
            twice.union = Hashes::new(self.share, &self.spill).decode(&mut copy)?;
            twice.own = hashes;
        }
        from.finish()?;
        Ok(partial)
    }
}
