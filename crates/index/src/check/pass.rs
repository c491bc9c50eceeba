//! The partial of a check: what is found in one pass over some lines.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use waypost_io::partial::{Decoder, Encoder, Hashes, Spill};
use waypost_io::{Error, ErrorKind, Resources, Result};
use waypost_surt::Dialect;
use xxhash_rust::xxh3::xxh3_128;

use super::keys::{Comparer, KeysReport};
use super::{Report, Violation};
use crate::capture::{Capture, Field, Fields};
use crate::key::{KeyForm, Rekeyer};
use crate::scan::{At, Job, Outcome};
use crate::span::Span;
use crate::structure;
use crate::timestamp::Time;

/// How many bytes of a line a violation keeps.
const KEPT: usize = 200;

/// Checks lines.
pub struct Checking {
    keys: bool,
    /// Whether hashes are collected.
    hashed: bool,
    share: usize,
    spill: Arc<Spill>,
    lines: structure::PrefixComparer,
}

/// The result for some consecutive lines.
pub struct Part {
    tools: Option<Tools>,
    /// Whole lines, compared by their bytes. The last one is kept only at headers and at the end of a block.
    lines: Order,
    /// How many bytes of this line are those of the line before, and how the two compare.
    shared: (usize, Step),
    /// The key of this line, once it is known.
    key: KnownKey,
    /// The key of the line before.
    key_before: KnownKey,
    /// Whether the line before was a header.
    after_header: bool,
    /// Number of lines other than headers.
    counted: u64,
    violation: Option<Violation>,
    /// The source of the first line.
    starts: Option<usize>,
    /// A header that comes before all other lines.
    header: Option<Vec<u8>>,
    /// The position of the first line that is not a header.
    first_at: At,
    /// The SURTs of captures, compared by their bytes.
    surts: Order,
    key_hashes: Hashes,
    line_hashes: Hashes,
    span: Span,
    keys: Option<KeysReport>,
    /// The source of the last line.
    source: usize,
}

/// What is known about the key of a line.
#[derive(Clone, Copy)]
struct KnownKey {
    /// Its length if it is a SURT and starts its line, else 0.
    length: usize,
    /// How many of its bytes show that it is a SURT; never reached if it is not.
    decided_by: usize,
}

impl KnownKey {
    const NOTHING: KnownKey = KnownKey {
        length: 0,
        decided_by: usize::MAX,
    };
}

thread_local! {
    /// Objects that are reused because they are expensive to create for every block.
    static TOOLS: RefCell<Vec<Tools>> = const { RefCell::new(Vec::new()) };
}

struct Tools {
    rekeyer: Rekeyer,
    comparer: Option<Comparer>,
}

/// Statistics of some consecutive byte strings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Order {
    any: bool,
    first: Vec<u8>,
    last: Vec<u8>,
    /// Number of changes from one string to the next, plus one for the first.
    changes: u64,
    broken: bool,
}

/// From one string to the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    First,
    Same,
    Up,
    Down,
}

impl From<Ordering> for Step {
    #[inline]
    fn from(order: Ordering) -> Step {
        match order {
            Ordering::Equal => Step::Same,
            Ordering::Greater => Step::Up,
            Ordering::Less => Step::Down,
        }
    }
}

impl Order {
    /// How a string compares with the last one.
    #[inline]
    fn step(&self, bytes: &[u8]) -> Step {
        match self.any {
            true => bytes.cmp(&self.last).into(),
            false => Step::First,
        }
    }

    /// Adds a string that is such a step from the one before, but does not keep it as the last.
    #[inline]
    fn count(&mut self, bytes: &[u8], step: Step) {
        if step == Step::First {
            self.any = true;
            self.first.extend_from_slice(bytes);
        }
        self.broken |= step == Step::Down;
        self.changes += u64::from(step != Step::Same);
    }

    #[inline]
    fn keep(&mut self, last: &[u8]) {
        self.last.clear();
        self.last.extend_from_slice(last);
    }

    /// Merges a later sequence. Returns how its first string compares with the last one here.
    fn merge(&mut self, later: Order) -> Step {
        if !later.any {
            return Step::First;
        }
        if !self.any {
            *self = later;
            return Step::First;
        }
        let step = self.step(&later.first);
        self.changes += later.changes - u64::from(step == Step::Same);
        self.broken |= later.broken || step == Step::Down;
        self.last = later.last;
        step
    }
}

impl Checking {
    /// Compares keys with the SURTs of URLs if `keys` is set. Hashes that exceed their part of
    /// the memory are spilled to a temporary file.
    pub fn new(keys: bool, resources: &Resources) -> Checking {
        Checking {
            keys,
            hashed: true,
            share: resources.memory / 4,
            spill: Spill::new(&resources.temporary),
            lines: structure::PrefixComparer::new(),
        }
    }

    /// The same without hashes, for input that is probably sorted. If it is not, the result cannot be
    /// [reported](Checking::report) before the hashes of another scan were [added](Part::add_hashes).
    pub(super) fn of_sorted(keys: bool, resources: &Resources) -> Checking {
        Checking {
            hashed: false,
            ..Checking::new(keys, resources)
        }
    }

    /// The report on the lines of all files.
    ///
    /// # Errors
    /// If spilled hashes cannot be read.
    pub fn report(&self, part: Part, outcome: Outcome) -> Result<Report> {
        let count = |order: &Order, hashes: Hashes| match order.broken {
            false => Ok(order.changes),
            true => hashes.count(),
        };
        let uri_rs = count(&part.surts, part.key_hashes)?;
        let lines = count(&part.lines, part.line_hashes)?;
        Ok(Report {
            outcome,
            uri_rs,
            duplicates: part.counted.saturating_sub(lines),
            files_in_order: !part.lines.broken,
            first: part.span.first,
            last: part.span.last,
            keys: part.keys,
            violation: part.violation,
        })
    }

    /// Finds a violation between the last line of a partial and the first lines of the next.
    fn joint(earlier: &Part, later: &Part, base: At) -> Option<Violation> {
        if !earlier.lines.any || earlier.source != base.source {
            return None;
        }
        let header = later.header.as_ref().filter(|_| later.starts == Some(0));
        let line =
            Some(&later.lines.first).filter(|_| later.lines.any && later.first_at.source == 0);
        let header = header.map(|header| (header, At::default()));
        let line = line.map(|line| (line, later.first_at));
        let (here, at) = [header, line]
            .into_iter()
            .flatten()
            .find(|(line, _)| **line < earlier.lines.last)?;
        Some(Violation {
            at: at.from_base(base),
            before: cut(&earlier.lines.last),
            here: cut(here),
        })
    }
}

/// Whether a line is a header of any kind, which may occur once in each file.
#[inline]
fn is_header(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'!')) || line.starts_with(b" CDX")
}

impl Job for Checking {
    type Partial = Part;

    fn fields(&self) -> Fields {
        (Field::Url | Field::Status | Field::Length | Field::Offset).with_checked_numbers()
    }

    fn whole(&self) -> bool {
        true
    }

    fn empty(&self) -> Part {
        Part {
            tools: None,
            lines: Order::default(),
            counted: 0,
            violation: None,
            shared: (0, Step::First),
            key: KnownKey::NOTHING,
            key_before: KnownKey::NOTHING,
            after_header: false,
            starts: None,
            header: None,
            first_at: At::default(),
            surts: Order::default(),
            key_hashes: Hashes::new(self.share, &self.spill),
            line_hashes: Hashes::new(self.share, &self.spill),
            span: Span::default(),
            keys: self.keys.then(KeysReport::default),
            source: 0,
        }
    }

    #[inline(always)]
    fn line(&self, part: &mut Part, line: &[u8], before: Option<&[u8]>, at: At) {
        part.starts = Some(0);
        let before = before.filter(|_| !part.after_header);
        part.after_header = is_header(line);
        if part.after_header {
            if let Some(before) = before {
                part.lines.keep(before);
            }
            // Every file has its own header at its top, which is neither a duplicate nor out of order.
            // A header between other lines is out of order and would break lookups.
            if part.lines.any && line < &part.lines.last[..] {
                part.record_violation(None, line, at);
            }
            if !part.lines.any && part.header.is_none() {
                part.header = Some(cut(line));
            }
            return;
        }
        part.counted += 1;
        if !part.lines.any {
            part.first_at = at;
        }
        let (shared, step) = match before {
            Some(before) => {
                let shared = self.lines.common(line, before);
                let order = line.get(shared).cmp(&before.get(shared));
                (shared, order.into())
            }
            None => (0, part.lines.step(line)),
        };
        if step == Step::Down {
            part.record_violation(before, line, at);
        }
        part.lines.count(line, step);
        part.shared = (shared, step);
        let key = std::mem::replace(&mut part.key, KnownKey::NOTHING);
        part.key_before = before.map_or(KnownKey::NOTHING, |_| key);
        if self.hashed && step != Step::Same {
            part.line_hashes.add(xxh3_128(line));
        }
    }

    fn last_line(&self, part: &mut Part, line: &[u8]) {
        if !is_header(line) {
            part.lines.keep(line);
        }
    }

    #[inline(always)]
    fn add(&self, part: &mut Part, capture: &Capture<'_>, _: At) {
        part.span.add(capture);
        let tools = part.tools.get_or_insert_with(|| {
            let waiting = TOOLS.with_borrow_mut(Vec::pop);
            let fits = |tools: &Tools| tools.comparer.is_some() == self.keys;
            waiting.filter(fits).unwrap_or_else(|| Tools {
                rekeyer: Rekeyer::trusting(Dialect::Ia),
                comparer: self.keys.then(Comparer::new),
            })
        });
        // In a sorted index, most keys have the host of the key before, and the two compare as their lines do.
        let (shared, line_step) = part.shared;
        let before = part.key_before;
        let starts_line = capture.key_starts_line();
        let is_surt = starts_line & (before.decided_by <= shared);
        let surt = match is_surt {
            true => capture.key(),
            false => tools.rekeyer.surt(capture),
        };
        if is_surt {
            part.key.length = surt.len();
            part.key.decided_by = before.decided_by;
        } else if surt.as_ptr() == capture.line().as_ptr() {
            part.key = KnownKey {
                length: surt.len(),
                decided_by: KeyForm::decided_by(surt).unwrap_or(usize::MAX),
            };
        }
        let both = before.length.min(part.key.length);
        let step = if both == 0 {
            part.surts.step(surt)
        } else if shared < both {
            line_step
        } else {
            part.key.length.cmp(&before.length).into()
        };
        part.surts.count(surt, step);
        part.surts.keep(surt);
        if self.hashed && step != Step::Same {
            part.key_hashes.add(xxh3_128(surt));
        }
        if let (Some(comparer), Some(report)) = (&mut tools.comparer, &mut part.keys) {
            comparer.compare(capture, report);
        }
    }

    fn seal(&self, part: &mut Part) -> Result<()> {
        TOOLS.with_borrow_mut(|waiting| waiting.extend(part.tools.take()));
        part.key_hashes.seal();
        part.line_hashes.seal();
        Ok(())
    }

    fn merge(&self, earlier: &mut Part, later: Part, base: At) -> Result<()> {
        let joint = Checking::joint(earlier, &later, base);
        earlier.counted += later.counted;
        if earlier.starts.is_none() {
            earlier.starts = later.starts.map(|source| base.source + source);
            earlier.header = later.header;
        }
        if !earlier.lines.any {
            earlier.first_at = later.first_at.from_base(base);
        }
        if later.lines.any {
            earlier.source = base.source + later.source;
        }
        earlier.lines.merge(later.lines);
        if earlier.violation.is_none() {
            earlier.violation = joint.or(later.violation.map(|violation| Violation {
                at: violation.at.from_base(base),
                ..violation
            }));
        }
        earlier.surts.merge(later.surts);
        earlier.span.merge(&later.span);
        if let (Some(report), Some(more)) = (&mut earlier.keys, later.keys) {
            report.merge(more);
        }
        earlier.key_hashes.merge(later.key_hashes)?;
        earlier.line_hashes.merge(later.line_hashes)
    }

    fn to_bytes(&self, part: &Part) -> Result<Vec<u8>> {
        let mut out = Encoder::new("check", 1);
        let state = State {
            lines: part.lines.clone(),
            surts: part.surts.clone(),
            counted: part.counted,
            violation: part.violation.clone(),
            starts: part.starts,
            header: part.header.clone(),
            first_at: part.first_at,
            times: (
                part.span.first.map(Time::digits14),
                part.span.last.map(Time::digits14),
            ),
            keys: part.keys.clone(),
            source: part.source,
        };
        let state = serde_json::to_vec(&state)
            .map_err(|error| Error::new(ErrorKind::Format(error.to_string())))?;
        out.text(&state);
        part.key_hashes.encode(&mut out)?;
        part.line_hashes.encode(&mut out)?;
        Ok(out.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Part> {
        let mut from = Decoder::new(bytes, "check", 1)?;
        let state: State = serde_json::from_slice(from.text()?)
            .map_err(|error| Error::new(ErrorKind::Format(error.to_string())))?;
        let empty = self.empty();
        let part = Part {
            lines: state.lines,
            surts: state.surts,
            counted: state.counted,
            violation: state.violation,
            starts: state.starts,
            header: state.header,
            first_at: state.first_at,
            span: Span::of(state.times.0, state.times.1),
            keys: state.keys,
            source: state.source,
            key_hashes: empty.key_hashes.decode(&mut from)?,
            line_hashes: empty.line_hashes.decode(&mut from)?,
            tools: None,
            shared: empty.shared,
            key: empty.key,
            key_before: empty.key_before,
            after_header: empty.after_header,
        };
        from.finish()?;
        Ok(part)
    }
}

/// A partial without its hashes, for serialisation as JSON.
#[derive(Serialize, Deserialize)]
struct State {
    lines: Order,
    surts: Order,
    counted: u64,
    violation: Option<Violation>,
    starts: Option<usize>,
    header: Option<Vec<u8>>,
    first_at: At,
    times: (Option<u64>, Option<u64>),
    keys: Option<KeysReport>,
    source: usize,
}

impl Part {
    /// Whether equal keys or equal lines may not be adjacent.
    pub(super) fn is_unsorted(&self) -> bool {
        self.lines.broken || self.surts.broken
    }

    /// Adds the hashes that another scan of the same lines has collected.
    ///
    /// # Errors
    /// If the other scan has read a different number of lines.
    pub(super) fn add_hashes(&mut self, hashed: Part) -> Result<()> {
        if hashed.counted != self.counted {
            let why = "the index was changed while it was read".to_owned();
            return Err(Error::new(ErrorKind::Invalid(why)));
        }
        self.key_hashes = hashed.key_hashes;
        self.line_hashes = hashed.line_hashes;
        Ok(())
    }

    /// Records a line that is smaller than the last one, unless one was recorded.
    #[cold]
    fn record_violation(&mut self, before: Option<&[u8]>, line: &[u8], at: At) {
        self.violation.get_or_insert_with(|| Violation {
            at,
            before: cut(before.unwrap_or(&self.lines.last)),
            here: cut(line),
        });
    }
}

fn cut(line: &[u8]) -> Vec<u8> {
    line[..line.len().min(KEPT)].to_vec()
}
