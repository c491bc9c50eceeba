//! Values and days that hold an implausible share of their surroundings.
//!
//! In 2019, a single second of 2005 held 64% of all Last-Modified times of that year: the trace of an
//! error, not of pages. Such values are found in two passes: the first counts ranges of 10,000 seconds,
//! of which there are few; the second counts every second, and its domains, in the largest ranges only.
//! A value cannot hold a large share of a year without its range being among the largest.

use std::collections::{BTreeMap, HashMap, HashSet};

use waypost_index::scan::{self, At, Job, Outcome};
use waypost_index::{Capture, Field, Fields, Select};
use waypost_io::partial::{Decoder, Encoder};
use waypost_io::{Progress, Result, Source};
use waypost_surt::Surt;
use xxhash_rust::xxh3::xxh3_64;

use crate::calendar::{DAY, Date};

/// The width of a range, in seconds: the first six of ten digits.
pub const RANGE: i64 = 10_000;

/// What counts as an anomaly.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of largest ranges of each year whose seconds are counted.
    pub ranges: usize,
    /// The least share of the year that a value holds.
    pub share: f64,
    /// The least ratio to the next most frequent value of the year and those around it, or of a day to
    /// the largest other day of its month and those around it.
    pub ratio: f64,
    /// The least number of captures.
    pub least: u64,
    /// Where to report progress.
    pub progress: Progress,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ranges: 10,
            share: 0.01,
            ratio: 5.0,
            least: 50,
            progress: Progress::default(),
        }
    }
}

/// A value or a day that stands out.
#[derive(Clone, Debug, PartialEq)]
pub struct Anomaly {
    /// The second, or the first second of the day.
    pub time: i64,
    /// Whether it is a day.
    pub is_day: bool,
    /// Captures.
    pub count: u64,
    /// Captures of its year.
    pub of_year: u64,
    /// Captures of its day.
    pub of_day: u64,
    /// The count of the next most frequent value or day.
    pub next: u64,
    /// Registered domains; `None` for a day.
    pub domains: Option<u64>,
}

impl Anomaly {
    /// The share of its year.
    pub fn share(&self) -> f64 {
        self.count as f64 / self.of_year as f64
    }

    /// Its year.
    pub fn year(&self) -> i32 {
        Date::of_unix(self.time).year
    }

    /// The ratio to the next.
    pub fn ratio(&self) -> f64 {
        self.count as f64 / self.next.max(1) as f64
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Anomalies {
    /// Captures with a Last-Modified time.
    pub captures: u64,
    /// What stands out, by ratio.
    pub found: Vec<Anomaly>,
    /// The counts of the largest ranges of each year, the largest first, with their first seconds.
    pub ranges: BTreeMap<i32, Vec<(i64, u64)>>,
    /// What was read.
    pub outcome: Outcome,
}

/// Finds the anomalies of an index.
///
/// # Errors
/// If a source cannot be read.
pub fn anomalies(sources: &[Source], options: &Options) -> Result<Anomalies> {
    let scan = |job: &Counting| {
        options.progress.read(sources);
        let scanning = scan::Options {
            select: Select::new(),
            progress: options.progress.clone(),
            ..scan::Options::default()
        };
        scan::scan(sources, job, scanning)
    };
    let (coarse, outcome) = scan(&Counting { wanted: None })?;
    let ranges = largest_ranges(&coarse.ranges, options.ranges);
    let wanted: HashSet<i64> = ranges
        .values()
        .flatten()
        .map(|(start, _)| start / RANGE)
        .collect();
    let (fine, _) = scan(&Counting {
        wanted: Some(wanted),
    })?;
    let mut found = values(&coarse, &fine, options);
    found.extend(days(&coarse, &found, options));
    found.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()).then(a.time.cmp(&b.time)));
    Ok(Anomalies {
        captures: coarse.days.values().sum(),
        found,
        ranges,
        outcome,
    })
}

/// The largest ranges of each year.
fn largest_ranges(ranges: &HashMap<i64, u64>, most: usize) -> BTreeMap<i32, Vec<(i64, u64)>> {
    let mut years: BTreeMap<i32, Vec<(i64, u64)>> = BTreeMap::new();
    for (&range, &count) in ranges {
        let start = range * RANGE;
        years
            .entry(Date::of_unix(start).year)
            .or_default()
            .push((start, count));
    }
    for all in years.values_mut() {
        all.sort_by_key(|&(start, count)| (std::cmp::Reverse(count), start));
        all.truncate(most);
    }
    years
}

/// The days on which pages were captured: times on them are those of pages made for the request.
fn is_recent(coarse: &Partial, day: i64) -> bool {
    match (coarse.first, coarse.last) {
        (Some(first), Some(last)) => {
            (first.div_euclid(DAY) - 2..=last.div_euclid(DAY) + 1).contains(&day)
        }
        _ => false,
    }
}

fn year_of_day(day: i64) -> i32 {
    Date::of_day(day).year
}

fn values(coarse: &Partial, fine: &Partial, options: &Options) -> Vec<Anomaly> {
    let mut years: BTreeMap<i32, u64> = BTreeMap::new();
    for (&day, &count) in &coarse.days {
        *years.entry(year_of_day(day)).or_default() += count;
    }
    let mut by_year: BTreeMap<i32, Vec<(i64, &Value)>> = BTreeMap::new();
    for (&time, value) in &fine.values {
        by_year
            .entry(Date::of_unix(time).year)
            .or_default()
            .push((time, value));
    }
    for values in by_year.values_mut() {
        values.sort_by_key(|(time, value)| (std::cmp::Reverse(value.count), *time));
    }
    let mut found = Vec::new();
    for (&year, values) in &by_year {
        for &(time, value) in values {
            let of_year = years.get(&year).copied().unwrap_or(0);
            if value.count < options.least || (value.count as f64) < options.share * of_year as f64
            {
                break;
            }
            let day = time.div_euclid(DAY);
            if is_recent(coarse, day) {
                continue;
            }
            // The next in the year and in those before and after it, as in the paper.
            let next = (year - 1..=year + 1)
                .filter_map(|year| by_year.get(&year))
                .flat_map(|values| values.iter())
                .filter(|(other, other_value)| *other != time && other_value.count <= value.count)
                .filter(|(other, _)| !is_recent(coarse, other.div_euclid(DAY)))
                .map(|(_, value)| value.count)
                .max()
                .unwrap_or(0);
            let anomaly = Anomaly {
                time,
                is_day: false,
                count: value.count,
                of_year,
                of_day: coarse.days.get(&day).copied().unwrap_or(0),
                next,
                domains: Some(value.domains),
            };
            if anomaly.ratio() >= options.ratio {
                found.push(anomaly);
            }
        }
    }
    found
}

/// Days that stand out from the month before to the month after, and not because of one second that was
/// found already.
fn days(coarse: &Partial, values: &[Anomaly], options: &Options) -> Vec<Anomaly> {
    let mut years: BTreeMap<i32, u64> = BTreeMap::new();
    for (&day, &count) in &coarse.days {
        *years.entry(year_of_day(day)).or_default() += count;
    }
    let mut found = Vec::new();
    for (&day, &count) in &coarse.days {
        let of_year = years.get(&year_of_day(day)).copied().unwrap_or(0);
        let explained: u64 = values
            .iter()
            .filter(|value| value.time.div_euclid(DAY) == day)
            .map(|value| value.count)
            .sum();
        let rest = count - explained.min(count);
        if rest < options.least
            || (rest as f64) < options.share * of_year as f64
            || is_recent(coarse, day)
        {
            continue;
        }
        let next = (day - 30..=day + 30)
            .filter(|other| *other != day && !is_recent(coarse, *other))
            .filter_map(|other| coarse.days.get(&other).copied())
            .max()
            .unwrap_or(0);
        let anomaly = Anomaly {
            time: day * DAY,
            is_day: true,
            count: rest,
            of_year,
            of_day: count,
            next,
            domains: None,
        };
        if anomaly.ratio() >= options.ratio {
            found.push(anomaly);
        }
    }
    found
}

struct Counting {
    /// The ranges whose seconds are counted; `None` to count ranges.
    wanted: Option<HashSet<i64>>,
}

/// A second and the domains of its captures, which are adjacent in a sorted index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Value {
    count: u64,
    domains: u64,
    /// Hashes of the first and last domain.
    first: u64,
    last: u64,
}

#[derive(Default)]
struct Partial {
    ranges: HashMap<i64, u64>,
    days: HashMap<i64, u64>,
    values: HashMap<i64, Value>,
    /// The first and last capture.
    first: Option<i64>,
    last: Option<i64>,
}

impl Job for Counting {
    type Partial = Partial;

    fn fields(&self) -> Fields {
        Field::LastMod.into()
    }

    fn empty(&self) -> Partial {
        Partial::default()
    }

    fn add(&self, partial: &mut Partial, capture: &Capture<'_>, _: At) {
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
        let Some(wanted) = &self.wanted else {
            *partial.ranges.entry(time / RANGE).or_default() += 1;
            *partial.days.entry(time.div_euclid(DAY)).or_default() += 1;
            if let Some(captured) = capture.time() {
                let captured = captured.unix();
                partial.first = Some(partial.first.map_or(captured, |first| first.min(captured)));
                partial.last = Some(partial.last.map_or(captured, |last| last.max(captured)));
            }
            return;
        };
        if wanted.contains(&(time / RANGE)) {
            let domain = xxh3_64(Surt::new(capture.key()).registered_domain());
            let value = partial.values.entry(time).or_default();
            let one = Value {
                count: 1,
                domains: 1,
                first: domain,
                last: domain,
            };
            value.append(one);
        }
    }

    fn merge(&self, earlier: &mut Partial, later: Partial, _: At) -> Result<()> {
        for (range, count) in later.ranges {
            *earlier.ranges.entry(range).or_default() += count;
        }
        for (day, count) in later.days {
            *earlier.days.entry(day).or_default() += count;
        }
        for (time, value) in later.values {
            earlier.values.entry(time).or_default().append(value);
        }
        earlier.first = [earlier.first, later.first].into_iter().flatten().min();
        earlier.last = earlier.last.max(later.last);
        Ok(())
    }

    fn to_bytes(&self, partial: &Partial) -> Result<Vec<u8>> {
        let mut out = Encoder::new("lastmod-anomalies", 1);
        for counts in [&partial.ranges, &partial.days] {
            let sorted: BTreeMap<i64, u64> = counts.iter().map(|(&k, &v)| (k, v)).collect();
            out.number(sorted.len() as u64);
            for (key, count) in sorted {
                out.number(key.cast_unsigned());
                out.number(count);
            }
        }
        let sorted: BTreeMap<i64, Value> = partial.values.iter().map(|(&k, &v)| (k, v)).collect();
        out.number(sorted.len() as u64);
        for (time, value) in sorted {
            out.number(time.cast_unsigned());
            for number in [value.count, value.domains, value.first, value.last] {
                out.number(number);
            }
        }
        out.option(partial.first.map(i64::cast_unsigned));
        out.option(partial.last.map(i64::cast_unsigned));
        Ok(out.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Partial> {
        let mut from = Decoder::new(bytes, "lastmod-anomalies", 1)?;
        let mut partial = Partial::default();
        for counts in [&mut partial.ranges, &mut partial.days] {
            for _ in 0..from.count()? {
                let key = from.number()?.cast_signed();
                counts.insert(key, from.number()?);
            }
        }
        for _ in 0..from.count()? {
            let time = from.number()?.cast_signed();
            let value = Value {
                count: from.number()?,
                domains: from.number()?,
                first: from.number()?,
                last: from.number()?,
            };
            partial.values.insert(time, value);
        }
        partial.first = from.option()?.map(u64::cast_signed);
        partial.last = from.option()?.map(u64::cast_signed);
        from.finish()?;
        Ok(partial)
    }
}

impl Value {
    /// Adds later captures.
    fn append(&mut self, later: Value) {
        if self.count == 0 {
            *self = later;
            return;
        }
        self.count += later.count;
        self.domains += later.domains - u64::from(self.last == later.first);
        self.last = later.last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's appendix A: its numbers agree with each other and with ours.
    #[test]
    fn the_ratios_of_the_papers_appendix_follow_from_its_tables() {
        let of = |count, of_year, of_day, next| Anomaly {
            time: 1_114_316_977,
            is_day: false,
            count,
            of_year,
            of_day,
            next,
            domains: None,
        };
        // Table 8: all but 9 of the 364,934 in the range are of one second; table 7: the year and the day.
        let whole = of(364_934 - 9, 567_693, 365_113, 7_329);
        assert_eq!((whole.share() * 100.0).round(), 64.0);
        assert_eq!(whole.ratio().trunc(), 49.0);
        // "the whole difference is down to a single day", and that to a single second.
        assert!(whole.count as f64 / whole.of_day as f64 > 0.999);
        // The second factor, 15, is that of the ranges in table 8, not of the seconds, which is 16.
        let segments = of(13_408 - 3, 1, 1, 805);
        assert_eq!(
            (segments.ratio().trunc(), (13_408f64 / 857.0).trunc()),
            (16.0, 15.0)
        );
        assert_eq!(Date::of_unix(1_114_316_977).year, 2005);
        assert_eq!(1_114_316_977 / RANGE, 111_431);
    }
}
