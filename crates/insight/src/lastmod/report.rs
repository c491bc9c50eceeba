//! What the Last-Modified times of an index show: when pages were made, how long their URIs were, and how
//! many were made for the request.
//!
//! Everything is counted in one pass and in memory that does not depend on the number of lines: times
//! by day, offsets from the capture by second within two days of it, and URI lengths by year. Domains
//! are adjacent in a sorted index, so those with many long queries are found on the way.

use std::collections::{BTreeMap, HashMap, HashSet};

use waypost_index::scan::{self, At, Job, Outcome};
use waypost_index::{Capture, Field, Fields, Select};
use waypost_io::partial::{Decoder, Encoder};
use waypost_io::{Error, ErrorKind, Progress, Result, Source};
use waypost_surt::Surt;

use super::uri::UriStats;
use crate::calendar::{DAY, Date};
use crate::segments::location::Location;

/// What to count.
#[derive(Clone, Debug)]
pub struct Options {
    /// Times that are left out.
    pub exclude: HashSet<i64>,
    /// Only captures in these segments; `None` for all.
    pub segments: Option<HashSet<String>>,
    /// A domain is an outlier in a year with more captures than this …
    pub outlier_captures: u64,
    /// … and a mean length of queries above this.
    pub outlier_query: u64,
    /// Where to report progress.
    pub progress: Progress,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            exclude: HashSet::new(),
            segments: None,
            outlier_captures: 100,
            outlier_query: 100,
            progress: Progress::default(),
        }
    }
}

/// Classes of the offset between Last-Modified and capture: their names and upper bounds in seconds.
pub const CLASSES: [(&str, i64); 8] = [
    ("after the capture", -1),
    ("at the capture", 0),
    ("up to 3 s before", 3),
    ("up to an hour", 3600),
    ("up to a day", DAY),
    ("up to 30 days", 30 * DAY),
    ("up to a year", 365 * DAY),
    ("older", i64::MAX),
];

/// Offsets within this many seconds are counted one by one.
pub const NEAR: i64 = 2 * DAY;

/// The class of an offset, Last-Modified minus capture.
fn class_of(offset: i64) -> usize {
    let age = offset.saturating_neg();
    CLASSES
        .iter()
        .position(|(_, most)| age <= *most)
        .unwrap_or(CLASSES.len() - 1)
}

/// A domain whose URIs have unusually long queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlier {
    /// The domain, as in SURTs.
    pub domain: String,
    /// The year of its times.
    pub year: i32,
    /// Its URIs.
    pub stats: UriStats,
}

/// Maximum number of outliers that are named. All are left out.
const NAMED: usize = 1000;

/// What was counted.
#[derive(Debug, Default)]
pub struct Report {
    /// Captures.
    pub captures: u64,
    /// Captures with a Last-Modified time that is not excluded.
    pub with_lastmod: u64,
    /// Captures with an excluded one.
    pub excluded: u64,
    /// Captures by day of their times, counted from 1970.
    pub days: BTreeMap<i64, u64>,
    /// URI lengths by year.
    pub years: BTreeMap<i32, UriStats>,
    /// The same without outlier domains.
    pub without_outliers: BTreeMap<i32, UriStats>,
    /// The outlier domains, those with most captures first.
    pub outliers: Vec<Outlier>,
    /// URI lengths by class of offset.
    pub classes: [UriStats; CLASSES.len()],
    /// Offsets, Last-Modified minus capture, within [`NEAR`], and how often they occur.
    pub offsets: HashMap<i64, u64>,
    /// What was read.
    pub outcome: Outcome,
}

impl Report {
    /// Captures by year.
    pub fn by_year(&self) -> BTreeMap<i32, u64> {
        self.group(|date| Some(date.year))
    }

    /// Captures by month of a year.
    pub fn by_month(&self, year: i32) -> BTreeMap<u8, u64> {
        self.group(|date| (date.year == year).then_some(date.month))
    }

    /// Captures by day of a month.
    pub fn by_day(&self, year: i32, month: u8) -> BTreeMap<u8, u64> {
        self.group(|date| ((date.year, date.month) == (year, month)).then_some(date.day))
    }

    fn group<K: Ord>(&self, key: impl Fn(Date) -> Option<K>) -> BTreeMap<K, u64> {
        let mut groups = BTreeMap::new();
        for (&day, &count) in &self.days {
            if let Some(key) = key(Date::of_day(day)) {
                *groups.entry(key).or_default() += count;
            }
        }
        groups
    }

    /// The month with most times, by default the one that the captures are from.
    pub fn peak_month(&self) -> Option<(i32, u8)> {
        let months = self.group(|date| Some((date.year, date.month)));
        months
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(month, _)| month)
    }

    /// The most frequent offsets.
    pub fn top_offsets(&self, most: usize) -> Vec<(i64, u64)> {
        let mut all: Vec<(i64, u64)> = self.offsets.iter().map(|(&o, &n)| (o, n)).collect();
        all.sort_by_key(|&(offset, count)| (std::cmp::Reverse(count), offset.abs(), offset));
        all.truncate(most);
        all
    }

    /// Whole hours other than zero that are at least `ratio` times as frequent as the seconds around
    /// them: local times without a zone.
    pub fn hour_peaks(&self, ratio: f64) -> Vec<(i64, u64, f64)> {
        let count = |offset: i64| self.offsets.get(&offset).copied().unwrap_or(0);
        (-(NEAR / 3600)..=NEAR / 3600)
            .filter(|hour| *hour != 0)
            .filter_map(|hour| {
                let offset = hour * 3600;
                let around: u64 = (1..=30)
                    .map(|s| count(offset - s) + count(offset + s))
                    .sum();
                let usual = (around as f64 / 60.0).max(1.0 / 60.0);
                let times = count(offset) as f64 / usual;
                (count(offset) > 1 && times >= ratio).then_some((offset, count(offset), times))
            })
            .collect()
    }

    /// Captures whose offset is at most `seconds` away from zero.
    pub fn within(&self, seconds: i64) -> u64 {
        let near = self
            .offsets
            .iter()
            .filter(|(offset, _)| offset.abs() <= seconds);
        near.map(|(_, count)| count).sum()
    }

    /// Table 7 for a year: years, months and days around the largest ones.
    pub fn zoom(&self, year: i32) -> Zoom {
        let years = self.by_year();
        let months = self.by_month(year);
        let month = largest(&months).unwrap_or(1);
        let days = self.by_day(year, month);
        let day = largest(&days).unwrap_or(1);
        let around = |middle: i64, low: i64, high: i64| {
            (middle - 2..=middle + 2).filter(move |at| (low..=high).contains(at))
        };
        let get = |count: Option<&u64>| count.copied().unwrap_or(0);
        Zoom {
            years: around(i64::from(year), 1, 9999)
                .map(|y| (y, get(years.get(&(y as i32)))))
                .collect(),
            months: around(i64::from(month), 1, 12)
                .map(|m| (m, get(months.get(&(m as u8)))))
                .collect(),
            days: around(i64::from(day), 1, 31)
                .map(|d| (d, get(days.get(&(d as u8)))))
                .collect(),
            year,
            month,
            day,
        }
    }

    /// The year that stands out most from those around it, if one does.
    pub fn outstanding_year(&self) -> Option<i32> {
        let years = self.by_year();
        let last = *years.keys().next_back()?;
        let ratio = |year: i32| {
            let of = |year: i32| years.get(&year).copied().unwrap_or(0) as f64;
            let around = of(year - 1).max(of(year + 1)).max(1.0);
            of(year) / around
        };
        // The last year has the pages that were made for the request.
        let candidates = years.keys().copied().filter(|year| *year < last);
        candidates.max_by(|&a, &b| ratio(a).total_cmp(&ratio(b)))
    }
}

fn largest(counts: &BTreeMap<u8, u64>) -> Option<u8> {
    counts
        .iter()
        .max_by_key(|(_, count)| **count)
        .map(|(key, _)| *key)
}

/// Counts around the largest ones, in finer and finer detail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zoom {
    /// Years and their counts.
    pub years: Vec<(i64, u64)>,
    /// Months of the year.
    pub months: Vec<(i64, u64)>,
    /// Days of the month.
    pub days: Vec<(i64, u64)>,
    /// The year.
    pub year: i32,
    /// Its largest month.
    pub month: u8,
    /// The largest day of that.
    pub day: u8,
}

/// Counts the times of an index.
///
/// # Errors
/// If a source cannot be read.
pub fn report(sources: &[Source], options: &Options) -> Result<Report> {
    let job = Counting { options };
    options.progress.read(sources);
    let scanning = scan::Options {
        select: Select::new(),
        progress: options.progress.clone(),
        ..scan::Options::default()
    };
    let (mut partial, outcome) = scan::scan(sources, &job, scanning)?;
    for run in [partial.head.take(), partial.tail.take()]
        .into_iter()
        .flatten()
    {
        job.close(&mut partial, run);
    }
    let mut without_outliers = partial.years.clone();
    for (year, stats) in &partial.outlier_years {
        without_outliers.entry(*year).or_default().remove(*stats);
    }
    partial.outliers.sort_by(|a, b| {
        b.stats
            .count
            .cmp(&a.stats.count)
            .then_with(|| a.domain.cmp(&b.domain))
    });
    Ok(Report {
        captures: partial.captures,
        with_lastmod: partial.days.values().sum(),
        excluded: partial.excluded,
        days: partial.days.into_iter().collect(),
        years: partial.years,
        without_outliers,
        outliers: partial.outliers,
        classes: partial.classes,
        offsets: partial.offsets,
        outcome,
    })
}

/// The captures of one domain, as far as they are adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Run {
    domain: Vec<u8>,
    years: BTreeMap<i32, UriStats>,
}

impl Run {
    fn merge(&mut self, later: Run) {
        for (year, stats) in later.years {
            self.years.entry(year).or_default().merge(stats);
        }
    }
}

struct Counting<'a> {
    options: &'a Options,
}

#[derive(Default)]
struct Partial {
    captures: u64,
    excluded: u64,
    days: HashMap<i64, u64>,
    years: BTreeMap<i32, UriStats>,
    classes: [UriStats; CLASSES.len()],
    offsets: HashMap<i64, u64>,
    /// The first domain, whose captures may continue those of an earlier partial.
    head: Option<Run>,
    /// The last domain, if it is another one.
    tail: Option<Run>,
    outliers: Vec<Outlier>,
    outlier_years: BTreeMap<i32, UriStats>,
}

impl Partial {
    fn last(&mut self) -> Option<&mut Run> {
        self.tail.as_mut().or(self.head.as_mut())
    }
}

impl Counting<'_> {
    /// Ends the captures of a domain: is it an outlier?
    fn close(&self, partial: &mut Partial, run: Run) {
        for (year, stats) in run.years {
            let is_outlier = stats.count > self.options.outlier_captures
                && stats.query > self.options.outlier_query * stats.count;
            if is_outlier {
                partial.outlier_years.entry(year).or_default().merge(stats);
                if partial.outliers.len() < NAMED {
                    let domain = String::from_utf8_lossy(&run.domain).into_owned();
                    partial.outliers.push(Outlier {
                        domain,
                        year,
                        stats,
                    });
                }
            }
        }
    }

    /// Appends a run that follows all others.
    fn append(&self, partial: &mut Partial, run: Run) {
        match partial.last() {
            None => partial.head = Some(run),
            Some(last) if last.domain == run.domain => last.merge(run),
            Some(_) => {
                if let Some(closed) = partial.tail.replace(run) {
                    self.close(partial, closed);
                }
            }
        }
    }
}

impl Job for Counting<'_> {
    type Partial = Partial;

    fn fields(&self) -> Fields {
        Field::Url | Field::LastMod | Field::Filename
    }

    fn empty(&self) -> Partial {
        Partial::default()
    }

    fn add(&self, partial: &mut Partial, capture: &Capture<'_>, _: At) {
        if let Some(segments) = &self.options.segments {
            let filename = capture.text(Field::Filename).unwrap_or_default();
            let segment = Location::of(&filename).segment.unwrap_or_default();
            if !std::str::from_utf8(segment).is_ok_and(|name| segments.contains(name)) {
                return;
            }
        }
        partial.captures += 1;
        let Some(time) = capture
            .number(Field::LastMod)
            .and_then(|time| i64::try_from(time).ok())
        else {
            return;
        };
        // Beyond the year 9999 it is not a time.
        if time > 253_402_300_799 {
            return;
        }
        if self.options.exclude.contains(&time) {
            partial.excluded += 1;
            return;
        }
        let year = Date::of_unix(time).year;
        *partial.days.entry(time.div_euclid(DAY)).or_default() += 1;
        let mut stats = UriStats::default();
        stats.add(&capture.url().unwrap_or_default());
        partial.years.entry(year).or_default().merge(stats);
        if let Some(captured) = capture.time() {
            let offset = time - captured.unix();
            partial.classes[class_of(offset)].merge(stats);
            if offset.abs() <= NEAR {
                *partial.offsets.entry(offset).or_default() += 1;
            }
        }
        let surt = Surt::new(capture.key());
        let domain = surt.registered_domain();
        match partial.last() {
            Some(run) if run.domain == domain => run.years.entry(year).or_default().merge(stats),
            _ => {
                let run = Run {
                    domain: domain.to_vec(),
                    years: BTreeMap::from([(year, stats)]),
                };
                self.append(partial, run);
            }
        }
    }

    fn merge(&self, earlier: &mut Partial, later: Partial, _: At) -> Result<()> {
        earlier.captures += later.captures;
        earlier.excluded += later.excluded;
        for (day, count) in later.days {
            *earlier.days.entry(day).or_default() += count;
        }
        for (offset, count) in later.offsets {
            *earlier.offsets.entry(offset).or_default() += count;
        }
        for (year, stats) in later.years {
            earlier.years.entry(year).or_default().merge(stats);
        }
        for (sum, stats) in earlier.classes.iter_mut().zip(later.classes) {
            sum.merge(stats);
        }
        for (year, stats) in later.outlier_years {
            earlier.outlier_years.entry(year).or_default().merge(stats);
        }
        earlier.outliers.extend(later.outliers);
        earlier.outliers.truncate(NAMED);
        for run in [later.head, later.tail].into_iter().flatten() {
            self.append(earlier, run);
        }
        Ok(())
    }

    fn to_bytes(&self, partial: &Partial) -> Result<Vec<u8>> {
        let mut out = Encoder::new("lastmod-report", 1);
        let signed = |out: &mut Encoder, number: i64| out.number(number.cast_unsigned());
        let years = |out: &mut Encoder, years: &BTreeMap<i32, UriStats>| {
            out.number(years.len() as u64);
            for (year, stats) in years {
                signed(out, i64::from(*year));
                stats.encode(out);
            }
        };
        out.number(partial.captures);
        out.number(partial.excluded);
        for counts in [&partial.days, &partial.offsets] {
            let sorted: BTreeMap<i64, u64> = counts.iter().map(|(&k, &v)| (k, v)).collect();
            out.number(sorted.len() as u64);
            for (key, count) in sorted {
                signed(&mut out, key);
                out.number(count);
            }
        }
        years(&mut out, &partial.years);
        years(&mut out, &partial.outlier_years);
        partial
            .classes
            .iter()
            .for_each(|stats| stats.encode(&mut out));
        for run in [&partial.head, &partial.tail] {
            out.number(u64::from(run.is_some()));
            if let Some(run) = run {
                out.text(&run.domain);
                years(&mut out, &run.years);
            }
        }
        out.number(partial.outliers.len() as u64);
        for outlier in &partial.outliers {
            out.text(outlier.domain.as_bytes());
            signed(&mut out, i64::from(outlier.year));
            outlier.stats.encode(&mut out);
        }
        Ok(out.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Partial> {
        let mut from = Decoder::new(bytes, "lastmod-report", 1)?;
        let from = &mut from;
        fn year(from: &mut Decoder<'_>) -> Result<i32> {
            i32::try_from(from.number()?.cast_signed()).map_err(|_| damaged())
        }
        fn years(from: &mut Decoder<'_>) -> Result<BTreeMap<i32, UriStats>> {
            (0..from.count()?)
                .map(|_| Ok((year(from)?, UriStats::decode(from)?)))
                .collect()
        }
        fn counts(from: &mut Decoder<'_>) -> Result<HashMap<i64, u64>> {
            (0..from.count()?)
                .map(|_| Ok((from.number()?.cast_signed(), from.number()?)))
                .collect()
        }
        fn run(from: &mut Decoder<'_>) -> Result<Option<Run>> {
            Ok(match from.number()? {
                0 => None,
                _ => Some(Run {
                    domain: from.text()?.to_vec(),
                    years: years(from)?,
                }),
            })
        }
        let mut partial = Partial {
            captures: from.number()?,
            excluded: from.number()?,
            days: counts(from)?,
            offsets: counts(from)?,
            years: years(from)?,
            outlier_years: years(from)?,
            ..Partial::default()
        };
        for stats in &mut partial.classes {
            *stats = UriStats::decode(from)?;
        }
        partial.head = run(from)?;
        partial.tail = run(from)?;
        for _ in 0..from.count()? {
            let domain = String::from_utf8_lossy(from.text()?).into_owned();
            let (year, stats) = (year(from)?, UriStats::decode(from)?);
            partial.outliers.push(Outlier {
                domain,
                year,
                stats,
            });
        }
        Ok(partial)
    }
}

fn damaged() -> Error {
    Error::new(ErrorKind::Format(
        "the bytes of a partial are damaged".to_owned(),
    ))
}
