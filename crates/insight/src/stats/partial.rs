//! The scan job of the statistics: URI-Rs by month, and what is counted for each capture.

use std::sync::Arc;

use waypost_index::scan::{At, Job};
use waypost_index::{Capture, Fields, Select};
use waypost_io::partial::{Decoder, Encoder, Spill};
use waypost_io::{Resources, Result};
use waypost_summary::By;
use waypost_summary::holdings::{Gather, Held};
use waypost_surt::Dialect;

use super::tallies::Tallies;

/// Counts what statistics need: the scan job of [`statistics`](super::statistics).
///
/// ```
/// use waypost_index::{Select, scan};
/// use waypost_insight::stats::{self, Counting};
/// use waypost_io::Resources;
/// use waypost_summary::holdings::Reading;
/// use waypost_surt::Dialect;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a.cdxj");
/// # std::fs::write(&path, "com,example)/ 2004 {}\ncom,example)/ 2005 {}\ncom,example)/a 2004 {}\n")?;
/// let counting = Counting::new(Dialect::Ia, &Resources::default());
/// let scan = scan::Ranges::new(&counting, Select::default());
/// // Each range could be read by another machine; pieces are sent as bytes.
/// let mut pieces = Vec::new();
/// for range in scan::ranges(&path, 30)? {
///     pieces.push(scan.to_bytes(&scan.read(&range)?)?);
/// }
/// let mut pieces = pieces.iter().map(|bytes| scan.from_bytes(bytes));
/// let mut whole = pieces.next().unwrap()?;
/// for piece in pieces {
///     whole = scan.merge(whole, piece?)?;
/// }
/// let (mut counted, outcome) = scan.finish(whole)?;
/// let reading = Reading::of_ranges(outcome, false, counted.held())?;
/// let found = stats::of_counted(counted, &reading, &stats::Options::default())?;
/// assert_eq!((found.totals.captures, found.totals.urirs), (3, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Counting {
    gather: Gather,
    share: usize,
    spill: Arc<Spill>,
}

impl Counting {
    /// Counts captures under SURTs of this dialect. What exceeds its part of the memory is spilled.
    pub fn new(dialect: Dialect, resources: &Resources) -> Counting {
        Counting {
            gather: Gather::new(dialect, Some(By::Month), resources),
            share: resources.memory / 64,
            spill: Spill::new(&resources.temporary),
        }
    }
}

/// The counts of some captures.
pub struct Counted {
    pub(super) held: Held,
    pub(super) tallies: Tallies,
}

impl Counted {
    /// The URI-Rs with their captures by month.
    pub fn held(&mut self) -> &mut Held {
        &mut self.held
    }
}

impl Job for Counting {
    type Partial = Counted;

    fn fields(&self) -> Fields {
        let fields: Fields = Tallies::FIELDS.into_iter().collect();
        self.gather.fields() | fields
    }

    fn empty(&self) -> Counted {
        Counted {
            held: self.gather.empty(),
            tallies: Tallies::new(self.share, &self.spill),
        }
    }

    fn add(&self, counted: &mut Counted, capture: &Capture<'_>, at: At) {
        self.gather.add(&mut counted.held, capture, at);
        counted.tallies.add(capture);
    }

    fn add_uri(
        &self,
        counted: &mut Counted,
        line: &[u8],
        select: &Select,
    ) -> Result<bool, waypost_surt::Error> {
        self.gather.add_uri(&mut counted.held, line, select)
    }

    fn seal(&self, counted: &mut Counted) -> Result<()> {
        self.gather.seal(&mut counted.held)
    }

    fn merge(&self, earlier: &mut Counted, later: Counted, base: At) -> Result<()> {
        self.gather.merge(&mut earlier.held, later.held, base)?;
        earlier.tallies.merge(later.tallies)
    }

    fn to_bytes(&self, counted: &Counted) -> Result<Vec<u8>> {
        let mut out = Encoder::new("statistics", 1);
        out.text(&self.gather.to_bytes(&counted.held)?);
        counted.tallies.encode(&mut out)?;
        Ok(out.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Counted> {
        let mut from = Decoder::new(bytes, "statistics", 1)?;
        let held = self.gather.from_bytes(from.text()?)?;
        let tallies = Tallies::new(self.share, &self.spill).decode(&mut from)?;
        from.finish()?;
        Ok(Counted { held, tallies })
    }
}
