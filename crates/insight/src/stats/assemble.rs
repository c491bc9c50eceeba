//! Puts the statistics together from what was counted.

use std::collections::BTreeMap;

use waypost_index::rejects::Bad;
use waypost_index::timestamp::Time;
use waypost_summary::holdings::Reading;
use waypost_summary::{PowerFit, Result};

use super::Options;
use super::collect::{Collected, MOST_SEGMENTS};
use super::defects::{Evidence, defects};
use super::estimate::{Estimates, Scale};
use super::media;
use super::model::*;
use super::tallies::{CLASSES, Tallies, class_of};
use super::top::Top;
use crate::numeric::histogram::{Histogram, ratio};

/// How many media types and languages are listed.
const NAMES: usize = 1_000;

/// Counts by name, each by class of status.
type ByName = BTreeMap<String, [u64; CLASSES]>;

/// What the media types say.
#[derive(Default)]
struct Media {
    types: ByName,
    statuses: BTreeMap<String, u64>,
    grid: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Puts the statistics together. With `estimates`, `found` is a sample of the URI-Rs.
pub(super) fn assemble(
    mut found: Collected<'_>,
    tallies: Tallies,
    reading: &Reading,
    options: &Options<'_>,
    estimates: Option<&Estimates>,
) -> Result<Statistics> {
    if let Some(estimates) = estimates {
        estimates.scale(&mut found);
    }
    let scale = estimates.map_or(Scale::default(), |estimates| estimates.scale);
    let mut media = Media::default();
    for group in media::GROUPS {
        let row = STATUS_GROUPS.map(|name| (name.to_owned(), 0));
        media
            .grid
            .insert(group.to_owned(), row.into_iter().collect());
    }
    tallies
        .mimes
        .finish(|text, captures| media.add(text, captures))?;
    let mut detected = ByName::new();
    tallies.detected.finish(|text, captures| {
        let (status, name) = split_status(text);
        detected.entry(media::name(name)).or_default()[class_of(status)] += captures;
    })?;
    let mut languages: BTreeMap<String, Language> = BTreeMap::new();
    tallies.languages.finish(|text, captures| {
        let (kind, code) = text.split_first().unwrap_or((&b'+', b""));
        let code = String::from_utf8_lossy(code).into_owned();
        let entry = languages.entry(code).or_default();
        match kind {
            b'1' => entry.first += captures,
            _ => entry.any += captures,
        }
    })?;

    let months: Vec<(u32, [u64; CLASSES], u64)> = tallies
        .months
        .iter()
        .map(|(number, month)| (number, month.classes, month.bytes))
        .collect();
    let undated = tallies.months.undated();
    let years = years(&months, &found);
    let tree = &found.tree;
    let (host_tree, path_tree) = tree.layers();
    let rejected = |kind: Bad| {
        reading
            .rejected
            .iter()
            .map(|rejects| rejects.count(kind))
            .sum::<u64>()
    };
    let record_bytes = months.iter().map(|month| month.2).sum::<u64>() + undated.bytes;
    let digits = |time: Option<Time>| time.map(|time| format!("{:014}", time.digits14()));
    let sites = tree.site_count;
    let totals = Totals {
        files: reading.contents.len() as u64,
        stored_bytes: None,
        bytes: reading.bytes,
        lines: reading.lines,
        captures: found.captures.sum(),
        revisits: media.captures("warc/revisit"),
        urirs: found.captures.count(),
        hxpx_keys: tree.keys,
        hosts: tree.host_count,
        sites,
        domains: tree.domain_count,
        tlds: tree.tld_count,
        addresses: tree.address_count,
        address_urirs: tree.addresses.urirs,
        address_captures: tree.addresses.captures,
        without_host: found.without_host,
        record_bytes,
        undated: undated.classes.iter().sum(),
        first: digits(reading.first),
        last: digits(reading.last),
    };
    let samples = tallies
        .sample
        .pages()
        .map(|(time, url)| (text(time), text(url)));
    let mut statistics = Statistics {
        format: "waypost-stats".into(),
        version: 1,
        name: options.name.clone(),
        bad_lines: Bad::ALL
            .into_iter()
            .map(|kind| Kind {
                kind: kind.name().into(),
                meaning: kind.meaning().into(),
                count: rejected(kind),
            })
            .chain([Kind {
                kind: "list".into(),
                meaning: "line of a list without a SURT".into(),
                count: reading.bad_uris.count,
            }])
            .filter(|kind| kind.count > 0)
            .collect(),
        non_web: reading
            .tally
            .non_web_kinds()
            .map(|(kind, count)| Kind {
                kind: kind.name().into(),
                meaning: "not a capture of the Web".into(),
                count,
            })
            .collect(),
        distribution: distribution(&found.captures),
        top_urirs: places(found.top_urirs, scale),
        depths: tree.depths(),
        laws: tree.laws(),
        growth: growth(&years, &months, &found.month_new, reading),
        months: months
            .iter()
            .map(|(number, classes, _)| Month {
                month: month_name(*number),
                captures: classes.iter().sum(),
                new_urirs: found.month_new.get(*number as usize).copied().unwrap_or(0),
            })
            .collect(),
        path_query: path_query(&found.path_query),
        media_types: listed(media.types.clone()),
        detected_types: listed(detected),
        statuses: media
            .statuses
            .iter()
            .map(|(name, captures)| Count {
                name: name.clone(),
                captures: *captures,
            })
            .collect(),
        languages: languages
            .into_iter()
            .map(|(code, language)| Language { code, ..language })
            .collect(),
        host_tree,
        path_tree,
        years,
        cdx_summary: CdxSummary {
            captures: totals.captures,
            urls: totals.urirs,
            hosts: sites,
            bytes: totals.record_bytes,
            first: totals.first.clone().unwrap_or_default(),
            last: totals.last.clone().unwrap_or_default(),
            mimestatus: media.grid.clone(),
            pathquery: path_query_grid(&found.path_query),
            yearmonth: year_month_grid(&months),
            samples: samples.collect(),
            tophosts: Vec::new(),
        },
        classes: options.classes.map_or(Vec::new(), |classes| {
            let names = classes.names().iter();
            names
                .zip(&found.classes)
                .map(|(name, class)| Class {
                    name: name.clone(),
                    hosts: class.hosts,
                    urirs: class.urirs,
                    captures: class.captures,
                })
                .collect()
        }),
        totals,
        ..Statistics::default()
    };
    if let Some(estimates) = estimates {
        estimates.correct(&mut statistics);
    }
    statistics.languages.sort_by(|a, b| {
        b.first
            .cmp(&a.first)
            .then(b.any.cmp(&a.any))
            .then(a.code.cmp(&b.code))
    });
    statistics.languages.truncate(NAMES);
    let tree = found.tree;
    let queries = tree.top_queries.finish().into_iter();
    let (malformed, malformed_captures) = media.malformed();
    let evidence = Evidence {
        malformed,
        malformed_captures,
        traps: found.traps,
        trap_examples: found.trap_examples.iter().map(|surt| text(surt)).collect(),
        queries: queries
            .filter(|_| estimates.is_none())
            .map(|(key, urirs, _)| (text(&key), urirs))
            .collect(),
        bad_statuses: rejected(Bad::Status),
    };
    statistics.tlds = places(tree.top_tlds, scale);
    statistics.domains = places(tree.top_domains, scale);
    statistics.hosts = places(tree.top_hosts, scale);
    statistics.top_subtrees = places(tree.top_subtrees, scale);
    let sites = places(tree.top_sites, scale).into_iter();
    statistics.cdx_summary.tophosts = sites.map(|site| (site.key, site.captures)).collect();
    statistics.lookups = found.join.map(super::lookups::Join::into_found);
    statistics.defects = defects(&statistics, &evidence);
    Ok(statistics)
}

const STATUS_GROUPS: [&str; 5] = ["2XX", "3XX", "4XX", "5XX", "Other"];

impl Media {
    fn add(&mut self, text: &[u8], captures: u64) {
        let (status, raw) = split_status(text);
        let class = class_of(status);
        self.types.entry(media::name(raw)).or_default()[class] += captures;
        let name = status.map_or("-".to_owned(), |status| format!("{status:03}"));
        *self.statuses.entry(name).or_default() += captures;
        let group = media::group(&String::from_utf8_lossy(raw));
        let status = STATUS_GROUPS[class.min(4)];
        if let Some(count) = self.grid.get_mut(group).and_then(|row| row.get_mut(status)) {
            *count += captures;
        }
    }

    /// Captures of a media type.
    fn captures(&self, name: &str) -> u64 {
        self.types.get(name).map_or(0, |counts| counts.iter().sum())
    }

    fn malformed(&self) -> (Vec<(String, u64)>, u64) {
        let types = self.types.iter();
        let mut malformed: Vec<(String, u64)> = types
            .filter(|(name, _)| !media::is_well_formed(name))
            .map(|(name, counts)| (name.clone(), counts.iter().sum()))
            .collect();
        malformed.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let captures = malformed.iter().map(|(_, captures)| captures).sum();
        (malformed, captures)
    }
}

/// A status and what follows it.
fn split_status(text: &[u8]) -> (Option<u16>, &[u8]) {
    let (status, rest) = text.split_at_checked(3).unwrap_or((b"---", text));
    let status = std::str::from_utf8(status).ok();
    (status.and_then(|digits| digits.parse().ok()), rest)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn places(top: Top<u64>, scale: Scale) -> Vec<Place> {
    top.finish()
        .into_iter()
        .map(|(key, captures, urirs)| Place {
            key: text(&key),
            urirs: scale.urirs(urirs),
            captures: scale.captures(captures),
        })
        .collect()
}

/// The most frequent types.
fn listed(types: ByName) -> Vec<MediaType> {
    let mut types: Vec<MediaType> = types
        .into_iter()
        .map(|(name, counts)| MediaType {
            name,
            statuses: StatusClasses::of(counts),
        })
        .collect();
    types.sort_by(|a, b| {
        let totals = b.statuses.total().cmp(&a.statuses.total());
        totals.then_with(|| a.name.cmp(&b.name))
    });
    types.truncate(NAMES);
    types
}

fn distribution(captures: &Histogram) -> Distribution {
    // Powers of two: 1, 2, 3 to 4, 5 to 8, ….
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    for (value, urirs) in captures.iter() {
        *bins.entry(value.next_power_of_two()).or_default() += urirs;
    }
    Distribution {
        max: captures.max(),
        min: captures.min(),
        median: captures.median(),
        mean: captures.mean(),
        deviation: captures.deviation(),
        gini: captures.gini(),
        pareto: captures.pareto(),
        curve: captures.curve(100),
        histogram: bins.into_iter().collect(),
    }
}

fn years(months: &[(u32, [u64; CLASSES], u64)], found: &Collected<'_>) -> Vec<Year> {
    let mut years: Vec<(u16, [u64; CLASSES], u64)> = Vec::new();
    for (number, classes, bytes) in months {
        let year = (number / 12) as u16;
        if years.last().is_none_or(|last| last.0 != year) {
            years.push((year, [0; CLASSES], 0));
        }
        if let Some((_, counts, sum)) = years.last_mut() {
            for (count, more) in counts.iter_mut().zip(classes) {
                *count += more;
            }
            *sum += bytes;
        }
    }
    let (mut urirs_so_far, mut captures_so_far) = (0, 0);
    years
        .into_iter()
        .map(|(year, classes, record_bytes)| {
            let first = usize::from(year) * 12;
            let new: u64 = found.month_new[first..first + 12].iter().sum();
            let urirs = found.year_urirs[usize::from(year)];
            let captures: u64 = classes.iter().sum();
            urirs_so_far += new;
            captures_so_far += captures;
            Year {
                year,
                urirs,
                urirs_so_far,
                captures,
                captures_so_far,
                seen_before: ratio((urirs - new.min(urirs)) as f64, urirs as f64),
                gamma: ratio(captures as f64, urirs as f64),
                gamma_so_far: ratio(captures_so_far as f64, urirs_so_far as f64),
                statuses: StatusClasses::of(classes),
                record_bytes,
            }
        })
        .collect()
}

fn growth(
    years: &[Year],
    months: &[(u32, [u64; CLASSES], u64)],
    month_new: &[u64],
    reading: &Reading,
) -> Growth {
    let points: Vec<(u64, u64)> = if years.len() >= 3 {
        years
            .iter()
            .map(|year| (year.captures_so_far, year.urirs_so_far))
            .collect()
    } else {
        let (mut captures, mut urirs) = (0, 0);
        months
            .iter()
            .map(|(number, classes, _)| {
                captures += classes.iter().sum::<u64>();
                urirs += month_new.get(*number as usize).copied().unwrap_or(0);
                (captures, urirs)
            })
            .collect()
    };
    Growth {
        bytes_per_line: ratio(reading.bytes as f64, reading.lines as f64),
        heaps: PowerFit::new(points.iter().map(|(x, y)| (*x as f64, *y as f64))),
        points,
    }
}

fn month_name(number: u32) -> String {
    format!("{:04}-{:02}", number / 12, number % 12 + 1)
}

fn path_query(cells: &[u64]) -> Vec<PathQuery> {
    let cells = cells.iter().enumerate();
    cells
        .filter(|(_, captures)| **captures > 0)
        .map(|(at, captures)| PathQuery {
            path: (at / (MOST_SEGMENTS + 1)) as u64,
            query: (at % (MOST_SEGMENTS + 1)) as u64,
            captures: *captures,
        })
        .collect()
}

fn path_query_grid(cells: &[u64]) -> BTreeMap<String, BTreeMap<String, u64>> {
    let name = |letter: char, number: u64| match number {
        0..=4 => format!("{letter}{number}"),
        _ => "Other".to_owned(),
    };
    let mut grid: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for path in 0..=5 {
        let row = (0..=5).map(|query| (name('Q', query), 0)).collect();
        grid.insert(name('P', path), row);
    }
    for cell in path_query(cells) {
        let row = grid.entry(name('P', cell.path)).or_default();
        *row.entry(name('Q', cell.query)).or_default() += cell.captures;
    }
    grid
}

fn year_month_grid(
    months: &[(u32, [u64; CLASSES], u64)],
) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut grid: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (number, classes, _) in months {
        let year = grid
            .entry(format!("{:04}", number / 12))
            .or_insert_with(|| (1..=12).map(|month| (format!("{month:02}"), 0)).collect());
        year.insert(format!("{:02}", number % 12 + 1), classes.iter().sum());
    }
    grid
}
