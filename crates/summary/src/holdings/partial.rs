//! The holdings of some captures: URI-Rs with counts, as a partial that merges.
//!
//! A row is a URI-R with one of its second keys and one source, and the number of these captures.
//! Captures of a sorted index give sorted rows, in which rows of the same URI-R are adjacent; any
//! other input gives several runs, which are merged when the holdings are read. So nothing is read
//! twice.

use std::sync::Arc;

use waypost_index::key::KeyCheck;
use waypost_index::scan::{At, Job};
use waypost_index::timestamp::Time;
use waypost_index::{Capture, Fields, Select, Span};
use waypost_io::Resources;
use waypost_io::partial::{Decoder, Encoder, Runs, Spill, push_number, take_number};
use waypost_surt::{Dialect, Surt};

use super::row::{RowReader, RowTools};
use crate::about::By;
use crate::classes::Classes;
use crate::lookup::spelled;
use crate::profile::records::Counts;

/// Gathers holdings: the scan job behind every profile, map and evaluation.
///
/// ```
/// use waypost_index::{Select, scan};
/// use waypost_io::Resources;
/// use waypost_summary::holdings::Gather;
/// use waypost_surt::Dialect;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a.cdxj");
/// # std::fs::write(&path, "com,example)/ 2004 {}\ncom,example)/ 2005 {}\ncom,example)/a 2004 {}\n")?;
/// let gather = Gather::new(Dialect::Ia, None, &Resources::default());
/// let scan = scan::Ranges::new(&gather, Select::default());
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
/// let (mut held, outcome) = scan.finish(whole)?;
/// assert_eq!(outcome.tally.captures, 3);
/// assert_eq!(held.urirs()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gather {
    rows: RowReader,
    share: usize,
    spill: Arc<Spill>,
}

impl Gather {
    /// Gathers URI-Rs, with their second keys if there are any. Rows that exceed their part of
    /// the memory are spilled to a temporary file.
    pub fn new(dialect: Dialect, by: Option<By>, resources: &Resources) -> Gather {
        Gather {
            rows: RowReader::new(dialect, by),
            // A growing block has twice the capacity that it uses.
            share: resources.memory / 8,
            spill: Spill::new(&resources.temporary),
        }
    }

    /// Gathers URI-Rs in any order; counts of the same URI-R are added up.
    ///
    /// ```
    /// use waypost_io::Resources;
    /// use waypost_summary::holdings::{Counts, Gather, Input, Reading};
    /// use waypost_summary::{Archive, map};
    /// use waypost_surt::{Dialect, Surt};
    ///
    /// let gather = Gather::new(Dialect::Ia, None, &Resources::default());
    /// let urirs = [(b"com,example)/a", 2), (b"com,example)/b", 1)];
    /// let urirs = urirs.map(|(surt, captures)| (Surt::new(surt), Counts::of_captures(captures)));
    /// let mut held = gather.collect(urirs)?;
    /// let reading = Reading::of_held(&mut held)?;
    /// let mut text = Vec::new();
    /// let (input, archive) = (Input::new(Vec::new()), Archive::default());
    /// map::write_to(&mut held, reading, &input, &archive, &mut text)?;
    /// assert!(text.ends_with(b"com,example)/a 2/1\ncom,example)/b 1/1\n"));
    /// # Ok::<(), waypost_summary::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a temporary file cannot be written.
    pub fn collect<'s>(
        &self,
        urirs: impl IntoIterator<Item = (Surt<'s>, Counts)>,
    ) -> waypost_io::Result<Held> {
        let mut held = self.empty();
        for (surt, counts) in urirs {
            let surt = spelled(surt.as_bytes());
            let second = self.rows.second_of_uri(&surt);
            held.count(&surt, &second, counts.captures, self.rows.source);
        }
        self.seal(&mut held)?;
        Ok(held)
    }

    /// The classes that [`By::Class`] counts by.
    #[must_use]
    pub fn with_classes(mut self, classes: Option<Arc<Classes>>) -> Gather {
        self.rows.classes = classes;
        self
    }

    /// The same for captures of the source with this number, which must be below 64.
    #[must_use]
    pub fn of_source(&self, number: usize) -> Gather {
        Gather {
            rows: self.rows.of_source(number),
            share: self.share,
            spill: Arc::clone(&self.spill),
        }
    }
}

/// URI-Rs with counts.
pub struct Held {
    runs: Runs,
    /// Captures that were added here; not kept in serialised form.
    captures: u64,
    span: Span,
    /// How the keys of indexes compare with their URLs.
    keys: KeyCheck,
    tail: Tail,
    payload: Vec<u8>,
    tools: Option<Box<RowTools>>,
}

/// The row that captures are being added to.
#[derive(Default)]
struct Tail {
    surt: Vec<u8>,
    second: Vec<u8>,
    captures: u64,
    source: u64,
}

impl Held {
    /// The oldest capture.
    pub fn first(&self) -> Option<Time> {
        self.span.first
    }

    /// The newest capture.
    pub fn last(&self) -> Option<Time> {
        self.span.last
    }

    /// How the keys of indexes compare with their URLs.
    pub fn keys(&self) -> &KeyCheck {
        &self.keys
    }

    /// Whether all captures were in the order of their SURTs.
    pub fn in_order(&self) -> bool {
        self.runs.in_order()
    }

    /// The number of URI-Rs.
    ///
    /// # Errors
    /// When rows cannot be merged on disk.
    pub fn urirs(&mut self) -> waypost_io::Result<u64> {
        self.runs.distinct()
    }

    pub(super) fn runs(&mut self) -> &mut Runs {
        &mut self.runs
    }

    /// The number of captures.
    pub fn captures(&self) -> u64 {
        self.captures
    }

    #[inline]
    fn count(&mut self, surt: &[u8], second: &[u8], captures: u64, source: u64) {
        self.captures += captures;
        let tail = &mut self.tail;
        if tail.captures > 0 && tail.surt == surt && tail.second == second {
            tail.captures += captures;
            return;
        }
        tail.flush(&mut self.runs, &mut self.payload);
        tail.surt.clear();
        tail.surt.extend_from_slice(surt);
        tail.second.clear();
        tail.second.extend_from_slice(second);
        (tail.captures, tail.source) = (captures, source);
    }
}

impl Tail {
    #[inline]
    fn flush(&mut self, runs: &mut Runs, payload: &mut Vec<u8>) {
        if self.captures > 0 {
            payload.clear();
            push_number(payload, self.captures);
            push_number(payload, self.source);
            payload.extend_from_slice(&self.second);
            runs.push(&self.surt, payload);
            self.captures = 0;
        }
    }
}

/// The content of a row: captures, source and second key.
#[inline]
pub(super) fn payload(bytes: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (captures, rest) = take_number(bytes)?;
    let (source, second) = take_number(rest)?;
    Some((captures, source, second))
}

impl Job for Gather {
    type Partial = Held;

    fn fields(&self) -> Fields {
        self.rows.fields()
    }

    fn empty(&self) -> Held {
        Held {
            runs: Runs::new(self.share, &self.spill),
            captures: 0,
            span: Span::default(),
            keys: KeyCheck::default(),
            tail: Tail::default(),
            payload: Vec::new(),
            tools: None,
        }
    }

    fn add(&self, held: &mut Held, capture: &Capture<'_>, _: At) {
        held.span.add(capture);
        let mut tools = (held.tools.take()).unwrap_or_else(|| self.rows.tools());
        let (surt, second) = self.rows.of_capture(&mut tools, capture);
        held.count(&surt, second, 1, self.rows.source);
        drop(surt);
        held.tools = Some(tools);
    }

    fn add_uri(
        &self,
        held: &mut Held,
        line: &[u8],
        select: &Select,
    ) -> Result<bool, waypost_surt::Error> {
        let mut tools = (held.tools.take()).unwrap_or_else(|| self.rows.tools());
        let wanted = tools.surts.of_uri(line, select).map(|surt| {
            if let Some(surt) = surt {
                let second = self.rows.second_of_uri(surt);
                held.count(surt, &second, 1, self.rows.source);
            }
            surt.is_some()
        });
        held.tools = Some(tools);
        wanted
    }

    fn seal(&self, held: &mut Held) -> waypost_io::Result<()> {
        if let Some(tools) = held.tools.take() {
            held.keys.merge(tools.surts.check());
        }
        held.tail.flush(&mut held.runs, &mut held.payload);
        held.runs.seal()
    }

    fn merge(&self, earlier: &mut Held, later: Held, _: At) -> waypost_io::Result<()> {
        earlier.span.merge(&later.span);
        earlier.keys.merge(&later.keys);
        earlier.runs.merge(later.runs)
    }

    fn to_bytes(&self, held: &Held) -> waypost_io::Result<Vec<u8>> {
        let mut out = Encoder::new("holdings", 1);
        out.option(held.span.first.map(Time::digits14));
        out.option(held.span.last.map(Time::digits14));
        out.text(&held.keys.to_bytes());
        held.runs.encode(&mut out)?;
        Ok(out.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> waypost_io::Result<Held> {
        let mut from = Decoder::new(bytes, "holdings", 1)?;
        let mut held = self.empty();
        held.span = Span::of(from.option()?, from.option()?);
        held.keys = KeyCheck::from_bytes(from.text()?)?;
        held.runs = held.runs.decode(&mut from)?;
        from.finish()?;
        Ok(held)
    }
}
