//! The pass over all URI-Rs, in order.

use waypost_io::progress::{Phase, Progress};
use waypost_summary::Result;
use waypost_summary::holdings::{Held, Pass, Reduce, Run, reduce};
use waypost_surt::Surt;

use super::lookups::Join;
use super::top::Top;
use super::traps::is_trap;
use super::tree::Tree;
use super::walk::Walk;
use super::{Classes, Options};
use crate::numeric::histogram::Histogram;

/// Years that timestamps can have.
const YEARS: usize = 10_000;
/// Path segments and query parameters above this are counted as this.
pub(super) const MOST_SEGMENTS: usize = 127;
/// How many suspected traps are shown.
const TRAPS: usize = 5;

/// What the pass found.
pub(super) struct Collected<'a> {
    pub(super) tree: Tree,
    /// Captures per URI-R.
    pub(super) captures: Histogram,
    pub(super) top_urirs: Top<u64>,
    /// URI-Rs captured in each year.
    pub(super) year_urirs: Vec<u64>,
    /// URI-Rs captured in each month for the first time.
    pub(super) month_new: Vec<u64>,
    /// Captures by segments of the path and parameters of the query.
    pub(super) path_query: Vec<u64>,
    pub(super) without_host: u64,
    /// URI-Rs that look like those of a crawler trap, and some of them.
    pub(super) traps: u64,
    pub(super) trap_examples: Vec<Vec<u8>>,
    pub(super) join: Option<Join<'a>>,
    pub(super) classes: Vec<ClassCount>,
}

/// What belongs to a class.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassCount {
    pub(super) hosts: u64,
    pub(super) urirs: u64,
    pub(super) captures: u64,
    /// The site counted last: all URI-Rs of a site are adjacent.
    site: Vec<u8>,
}

/// Consecutive URI-Rs, prepared by a worker.
#[derive(Default)]
struct Rows {
    bytes: Vec<u8>,
    months: Vec<u32>,
    rows: Vec<Row>,
}

struct Row {
    /// Where its SURT and its months end.
    surt: usize,
    months: usize,
    facts: Facts,
}

/// What is known of a URI-R besides its SURT and its months.
struct Facts {
    captures: u64,
    path: u8,
    query: u8,
    trap: bool,
    class: usize,
}

impl Facts {
    fn of(surt: &[u8], captures: u64, classes: Option<&Classes>) -> Facts {
        let surt = Surt::new(surt);
        let path = parts(surt.path(), b'/');
        let query = surt.query().map_or(0, |query| parts(query, b'&'));
        Facts {
            captures,
            path: path.min(MOST_SEGMENTS) as u8,
            query: query.min(MOST_SEGMENTS) as u8,
            trap: is_trap(&surt, path),
            class: classes.map_or(0, |classes| classes.number(&surt)),
        }
    }
}

struct Prepare<'a> {
    classes: Option<&'a Classes>,
}

impl Reduce for Prepare<'_> {
    type Part = Rows;

    fn part(&self) -> Rows {
        Rows::default()
    }

    fn run(&self, rows: &mut Rows, run: &Run) {
        rows.bytes.extend_from_slice(&run.surt);
        let months = rows.months.len();
        for (month, _) in &run.seconds {
            rows.months.extend(month_number(month));
        }
        rows.months[months..].sort_unstable();
        rows.rows.push(Row {
            surt: rows.bytes.len(),
            months: rows.months.len(),
            facts: Facts::of(&run.surt, run.counts.captures, self.classes),
        });
    }
}

/// The number of the month that `200401` names.
fn month_number(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.len() == 6)?;
    let (year, month) = (
        text[..4].parse::<u16>().ok()?,
        text[4..].parse::<u8>().ok()?,
    );
    Some(super::tallies::month_number(year, month))
}

/// How many parts a path or query has, as cdx-summary counts them: separators at the ends do not
/// count, those in between do.
fn parts(text: &[u8], separator: u8) -> usize {
    let Some(first) = text.iter().position(|byte| *byte != separator) else {
        return 0;
    };
    let last = text
        .iter()
        .rposition(|byte| *byte != separator)
        .unwrap_or(first);
    1 + memchr::memchr_iter(separator, &text[first..last]).count()
}

/// Reads all URI-Rs.
pub(super) fn collect<'a>(
    held: &mut Held,
    options: &Options<'a>,
    memory: usize,
    progress: &Progress,
) -> Result<Collected<'a>> {
    let mut found = Collected::new(options);
    let mut walk = Walk::default();
    let pass = Pass {
        memory: memory / 4,
        piece: 1 << 20,
        phase: Phase::Sorting,
        progress,
    };
    let prepare = Prepare {
        classes: options.classes,
    };
    reduce(held, &prepare, pass, |rows, _| {
        let (mut surt, mut months_from) = (0, 0);
        for row in &rows.rows {
            let text = &rows.bytes[surt..row.surt];
            let months = &rows.months[months_from..row.months];
            found.take(text, months, &row.facts, &mut walk);
            (surt, months_from) = (row.surt, row.months);
        }
        Ok(())
    })?;
    found.finish(walk);
    Ok(found)
}

/// The same of URI-Rs in order, with their captures and months.
pub(super) fn collect_some<'a>(
    urirs: impl Iterator<Item = (Vec<u8>, u64, Vec<u32>)>,
    options: &Options<'a>,
) -> Collected<'a> {
    let mut found = Collected::new(options);
    let mut walk = Walk::default();
    for (surt, captures, months) in urirs {
        let facts = Facts::of(&surt, captures, options.classes);
        found.take(&surt, &months, &facts, &mut walk);
    }
    found.finish(walk);
    found
}

impl<'a> Collected<'a> {
    fn new(options: &Options<'a>) -> Collected<'a> {
        let mut tree = Tree::new(options.top);
        let join = options
            .lookups
            .map(|lookups| Join::new(lookups, options.top, &mut tree.asked));
        let classes = options.classes.map_or(0, Classes::len);
        Collected {
            tree,
            captures: Histogram::default(),
            top_urirs: Top::new(options.top),
            year_urirs: vec![0; YEARS],
            month_new: vec![0; YEARS * 12],
            path_query: vec![0; (MOST_SEGMENTS + 1) * (MOST_SEGMENTS + 1)],
            without_host: 0,
            traps: 0,
            trap_examples: Vec::new(),
            join,
            classes: vec![ClassCount::default(); classes],
        }
    }

    fn finish(&mut self, walk: Walk) {
        walk.finish(&mut self.tree);
        if let Some(join) = &mut self.join {
            join.finish(&self.tree.asked);
        }
    }

    fn take(&mut self, surt: &[u8], months: &[u32], row: &Facts, walk: &mut Walk) {
        self.captures.add(row.captures);
        self.top_urirs.offer(row.captures, || (surt.to_vec(), 1));
        if let Some(new) = months
            .first()
            .and_then(|at| self.month_new.get_mut(*at as usize))
        {
            *new += 1;
        }
        let mut last = u32::MAX;
        for month in months {
            let year = month / 12;
            if year != last {
                last = year;
                if let Some(urirs) = self.year_urirs.get_mut(year as usize) {
                    *urirs += 1;
                }
            }
        }
        let cell = usize::from(row.path) * (MOST_SEGMENTS + 1) + usize::from(row.query);
        self.path_query[cell] += row.captures;
        if row.trap {
            self.traps += 1;
            if self.trap_examples.len() < TRAPS {
                self.trap_examples.push(surt.to_vec());
            }
        }
        if let Some(join) = &mut self.join {
            join.held(surt, row.captures);
        }
        if let Some(class) = self.classes.get_mut(row.class) {
            class.urirs += 1;
            class.captures += row.captures;
            let site = Surt::new(surt).authority();
            if class.hosts == 0 || class.site != site {
                class.hosts += 1;
                class.site.clear();
                class.site.extend_from_slice(site);
            }
        }
        if !walk.add(surt, row.captures, &mut self.tree) {
            self.without_host += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_like_cdx_summary() {
        let count = |text: &str| parts(text.as_bytes(), b'/');
        assert_eq!((count(""), count("/"), count("//")), (0, 0, 0));
        assert_eq!((count("/a"), count("/a/b/"), count("/a//b")), (1, 2, 3));
        assert_eq!(parts(b"&a=1&b&", b'&'), 2);
    }
}
