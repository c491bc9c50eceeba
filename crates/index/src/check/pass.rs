//! What one pass over the lines finds.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use waypost_surt::Dialect;
use xxhash_rust::xxh3::xxh3_128;

use super::Violation;
use super::keys::{Comparer, KeysReport};
use crate::capture::{Capture, Field, Fields};
use crate::distinct::Distinct;
use crate::error::{Error, Result};
use crate::key::Rekeyer;
use crate::scan::{At, Job};
use crate::timestamp::{Time, is_plausible};

/// How much of a line a violation keeps.
const KEPT: usize = 200;

/// A pass over all lines.
pub(super) struct Pass {
    keys: bool,
    /// Whether the sources can be read again, so that hashes may be dropped.
    again: bool,
    /// Whether hashes of keys, and of lines, are still wanted.
    hash_keys: AtomicBool,
    hash_lines: AtomicBool,
    sets: Mutex<Sets>,
    /// Tools that blocks use one after the other.
    tools: Mutex<Vec<Tools>>,
}

struct Sets {
    keys: Option<Distinct>,
    lines: Option<Distinct>,
    error: Option<Error>,
}

/// What is costly to make for every block.
struct Tools {
    rekeyer: Rekeyer,
    comparer: Option<Comparer>,
}

/// What a part of the lines has.
#[derive(Default)]
pub(super) struct Part {
    tools: Option<Tools>,
    /// Lines in the order of their bytes.
    lines: Order,
    /// Lines that are no header.
    counted: u64,
    violation: Option<Violation>,
    /// A header that comes before all other lines.
    header: Option<Vec<u8>>,
    /// The SURTs of captures in the order of their bytes.
    surts: Order,
    key_hashes: Vec<u128>,
    line_hashes: Vec<u128>,
    first: Option<Time>,
    last: Option<Time>,
    /// The digits of the two, where they are fourteen: most comparisons end there.
    digits: Option<([u8; 14], [u8; 14])>,
    keys: Option<KeysReport>,
    /// The source of the last line.
    source: usize,
}

/// Some byte strings that follow each other.
#[derive(Default)]
struct Order {
    any: bool,
    first: Vec<u8>,
    last: Vec<u8>,
    /// Places where the string changes, and one for the first.
    changes: u64,
    broken: bool,
}

#[derive(PartialEq, Eq)]
enum Step {
    First,
    Same,
    Up,
    Down,
}

impl Order {
    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Step {
        if !self.any {
            self.any = true;
            self.first.extend_from_slice(bytes);
            self.last.extend_from_slice(bytes);
            self.changes = 1;
            return Step::First;
        }
        match bytes.cmp(&self.last) {
            std::cmp::Ordering::Equal => return Step::Same,
            std::cmp::Ordering::Greater => {}
            std::cmp::Ordering::Less => {
                self.broken = true;
                self.set_last(bytes);
                return Step::Down;
            }
        }
        self.set_last(bytes);
        Step::Up
    }

    #[inline]
    fn set_last(&mut self, bytes: &[u8]) {
        self.changes += 1;
        self.last.clear();
        self.last.extend_from_slice(bytes);
    }

    /// Takes in what comes later; says how its first string compares with our last one.
    fn merge(&mut self, later: Order) -> Step {
        if !later.any {
            return Step::First;
        }
        if !self.any {
            *self = later;
            return Step::First;
        }
        let step = match later.first.cmp(&self.last) {
            std::cmp::Ordering::Equal => Step::Same,
            std::cmp::Ordering::Greater => Step::Up,
            std::cmp::Ordering::Less => Step::Down,
        };
        self.changes += later.changes - u64::from(step == Step::Same);
        self.broken |= later.broken || step == Step::Down;
        self.last = later.last;
        step
    }
}

/// The exact counts.
pub(super) struct Counts {
    pub(super) uri_rs: u64,
    pub(super) duplicates: u64,
}

impl Pass {
    pub(super) fn new(memory: usize, keys: bool, again: bool) -> Pass {
        let set = || Some(Distinct::new(memory / 4));
        Pass {
            keys,
            again,
            hash_keys: AtomicBool::new(true),
            hash_lines: AtomicBool::new(true),
            sets: Mutex::new(Sets {
                keys: set(),
                lines: set(),
                error: None,
            }),
            tools: Mutex::new(Vec::new()),
        }
    }

    /// The counts of the whole, and whether they are missing because hashes were dropped.
    pub(super) fn counts(self, whole: &Part) -> Result<(Counts, bool)> {
        let sets = self
            .sets
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(error) = sets.error {
            return Err(error);
        }
        let mut missing = false;
        let mut count = |order: &Order, set: Option<Distinct>| match set {
            _ if !order.broken => Ok(order.changes),
            Some(set) => set.count(),
            None => {
                missing = true;
                Ok(0)
            }
        };
        let uri_rs = count(&whole.surts, sets.keys)?;
        let lines = count(&whole.lines, sets.lines)?;
        let duplicates = whole.counted.saturating_sub(lines);
        Ok((Counts { uri_rs, duplicates }, missing))
    }

    /// A violation between the last line of a part and the first one of the next.
    fn joint(earlier: &Part, later: &mut Part, base: At) -> Option<Violation> {
        if !earlier.lines.any || earlier.source != base.source {
            return None;
        }
        let first = match later.header.take() {
            Some(header) => header,
            None if later.lines.any => later.lines.first.clone(),
            None => return None,
        };
        (first < earlier.lines.last).then(|| Violation {
            at: base,
            before: cut(&earlier.lines.last),
            here: cut(&first),
        })
    }

    /// Gathers hashes; drops them all if they are many and probably not needed.
    fn gather(&self, part: &Part, keys: &[u128], lines: &[u128]) {
        let Ok(mut sets) = self.sets.lock() else {
            return;
        };
        let sets = &mut *sets;
        let take =
            |set: &mut Option<Distinct>, hashes: &[u128], order: &Order, flag: &AtomicBool| {
                let Some(distinct) = set else {
                    return Ok(());
                };
                if distinct.is_full() && self.again && !order.broken {
                    *set = None;
                    flag.store(false, Ordering::Relaxed);
                    return Ok(());
                }
                distinct.add(hashes)
            };
        let taken = take(&mut sets.keys, keys, &part.surts, &self.hash_keys)
            .and_then(|()| take(&mut sets.lines, lines, &part.lines, &self.hash_lines));
        if let Err(error) = taken {
            sets.error = sets.error.take().or(Some(error));
        }
    }
}

/// A header of any kind; it may come once in each file.
#[inline]
fn is_header(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'!')) || line.starts_with(b" CDX")
}

impl Job for Pass {
    type Partial = Part;

    fn fields(&self) -> Fields {
        Field::Url.into()
    }

    fn whole(&self) -> bool {
        true
    }

    fn partial(&self) -> Part {
        let tools = self.tools.lock().ok().and_then(|mut tools| tools.pop());
        Part {
            tools: Some(tools.unwrap_or_else(|| Tools {
                rekeyer: Rekeyer::trusting(Dialect::Ia),
                comparer: self.keys.then(Comparer::new),
            })),
            keys: self.keys.then(KeysReport::default),
            ..Part::default()
        }
    }

    fn line(&self, part: &mut Part, line: &[u8], at: At) {
        if part.violation.is_none() && part.lines.any && line < &part.lines.last[..] {
            part.violation = Some(Violation {
                at,
                before: cut(&part.lines.last),
                here: cut(line),
            });
        }
        if is_header(line) {
            // Every file has its own at its top: they say nothing about duplicates, nor about the
            // order of files. Between lines they are out of order, and lookups would go astray.
            if !part.lines.any && part.header.is_none() {
                part.header = Some(cut(line));
            }
            return;
        }
        part.counted += 1;
        if part.lines.push(line) != Step::Same && self.hash_lines.load(Ordering::Relaxed) {
            part.line_hashes.push(xxh3_128(line));
        }
    }

    fn capture(&self, part: &mut Part, capture: &Capture<'_>, _: At) {
        part.see_time(capture.timestamp());
        let Some(tools) = &mut part.tools else {
            return;
        };
        let surt = tools.rekeyer.surt(capture);
        if part.surts.push(surt) != Step::Same && self.hash_keys.load(Ordering::Relaxed) {
            part.key_hashes.push(xxh3_128(surt));
        }
        if let (Some(comparer), Some(report)) = (&mut tools.comparer, &mut part.keys) {
            comparer.compare(capture, report);
        }
    }

    fn merge(&self, earlier: &mut Part, mut later: Part, base: At) {
        if let (Some(tools), Ok(mut waiting)) = (later.tools.take(), self.tools.lock()) {
            waiting.push(tools);
        }
        let keys = std::mem::take(&mut later.key_hashes);
        let lines = std::mem::take(&mut later.line_hashes);
        let joint = Pass::joint(earlier, &mut later, base);
        earlier.counted += later.counted;
        if later.lines.any {
            earlier.source = base.source;
        }
        earlier.lines.merge(later.lines);
        if earlier.violation.is_none() {
            earlier.violation = joint.or(later.violation.map(|violation| Violation {
                at: violation.at.from_base(base),
                ..violation
            }));
        }
        earlier.surts.merge(later.surts);
        earlier.first = min(earlier.first, later.first);
        earlier.last = later.last.max(earlier.last);
        if let (Some(report), Some(more)) = (&mut earlier.keys, later.keys) {
            report.merge(more);
        }
        self.gather(earlier, &keys, &lines);
    }
}

impl Part {
    #[inline]
    fn see_time(&mut self, raw: &[u8]) {
        if let (Ok(digits), Some((first, last))) = (<[u8; 14]>::try_from(raw), &self.digits)
            && digits >= *first
            && digits <= *last
            && is_plausible(raw)
        {
            return;
        }
        let Some(time) = Time::parse(raw) else {
            return;
        };
        self.first = min(self.first, Some(time));
        self.last = self.last.max(Some(time));
        let digits = |time: Option<Time>| {
            let digits = format!("{:014}", time?.digits14());
            <[u8; 14]>::try_from(digits.as_bytes()).ok()
        };
        self.digits = digits(self.first).zip(digits(self.last));
    }

    pub(super) fn files_in_order(&self) -> bool {
        !self.lines.broken
    }

    pub(super) fn first_time(&self) -> Option<Time> {
        self.first
    }

    pub(super) fn last_time(&self) -> Option<Time> {
        self.last
    }

    pub(super) fn keys_report(&self) -> Option<KeysReport> {
        self.keys.clone()
    }

    pub(super) fn into_violation(self) -> Option<Violation> {
        self.violation
    }
}

fn min(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn cut(line: &[u8]) -> Vec<u8> {
    line[..line.len().min(KEPT)].to_vec()
}
