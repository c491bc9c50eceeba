//! How many mementos each archive has, by year, by month of a year, or by day of a month.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use waypost_report::short;

use crate::{Found, Registry};

/// The part of time that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Zoom {
    /// All years.
    #[default]
    Years,
    /// The months of a year.
    Year(i16),
    /// The days of a month.
    Month(i16, i8),
}

impl Zoom {
    /// Reads `2010` or `201005`.
    pub(crate) fn parse(text: &str) -> Option<Zoom> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.len() {
            4 if digits => Some(Zoom::Year(text.parse().ok()?)),
            6 if digits => {
                let month: i8 = text[4..].parse().ok()?;
                let year = text[..4].parse().ok()?;
                (1..=12)
                    .contains(&month)
                    .then_some(Zoom::Month(year, month))
            }
            _ => None,
        }
    }

    /// Whether a day is shown.
    pub(crate) fn covers(self, day: Date) -> bool {
        match self {
            Zoom::Years => true,
            Zoom::Year(year) => day.year() == year,
            Zoom::Month(year, month) => (day.year(), day.month()) == (year, month),
        }
    }

    /// The next wider one.
    fn wider(self) -> Option<Zoom> {
        match self {
            Zoom::Years => None,
            Zoom::Year(_) => Some(Zoom::Years),
            Zoom::Month(year, _) => Some(Zoom::Year(year)),
        }
    }

    /// As a parameter; empty if everything is shown.
    pub(crate) fn word(self) -> String {
        match self {
            Zoom::Years => String::new(),
            Zoom::Year(year) => format!("{year:04}"),
            Zoom::Month(year, month) => format!("{year:04}{month:02}"),
        }
    }

    /// The period in words.
    pub(crate) fn name(self) -> String {
        match self {
            Zoom::Years => "all years".to_owned(),
            Zoom::Year(year) => year.to_string(),
            Zoom::Month(year, month) => format!("{} {year}", MONTHS[month as usize - 1]),
        }
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The most columns. Earlier years are counted in the first.
const MOST_COLUMNS: usize = 60;

/// A table with a row for each archive that has mementos.
pub(crate) struct Grid {
    pub(crate) title: String,
    /// Where the next wider one is.
    pub(crate) wider: Option<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<GridRow>,
}

pub(crate) struct GridRow {
    pub(crate) name: String,
    pub(crate) cells: Vec<GridCell>,
}

#[derive(Clone, Default)]
pub(crate) struct GridCell {
    pub(crate) count: u64,
    /// From 0, none, to 5, as many as anywhere.
    pub(crate) weight: u8,
    pub(crate) text: String,
    pub(crate) label: String,
    /// Where its parts are.
    pub(crate) link: Option<String>,
}

/// The day of a memento.
pub(crate) fn day_of(found: &Found) -> Date {
    let time = found.memento.datetime.to_jiff();
    time.to_zoned(TimeZone::UTC).date()
}

impl Grid {
    /// Counts mementos. `address` is where another part of time is shown.
    pub(crate) fn new(
        registry: &Registry,
        mementos: &[Found],
        zoom: Zoom,
        address: impl Fn(Zoom) -> String,
    ) -> Option<Grid> {
        let days = mementos.iter().map(|found| (found.archive, day_of(found)));
        let shown: Vec<(usize, Date)> = days.filter(|(_, day)| zoom.covers(*day)).collect();
        let columns = columns(zoom, &shown)?;
        let first = columns[0].0;
        let mut counts: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (archive, day) in &shown {
            let column = (part_of(zoom, *day) - first).max(0) as usize;
            let row = counts
                .entry(*archive)
                .or_insert_with(|| vec![0; columns.len()]);
            row[column] += 1;
        }
        let most = counts.values().flatten().copied().max().unwrap_or(0);
        let rows = counts.iter().map(|(archive, counts)| {
            let name = name_of(registry, *archive);
            let cells = counts
                .iter()
                .zip(&columns)
                .map(|(&count, (_, label, inner))| GridCell {
                    count,
                    weight: weight(count, most),
                    text: short(count as f64),
                    label: format!("{name}, {label}: {count} {}", plural(count)),
                    link: inner.map(&address),
                });
            GridRow {
                cells: cells.collect(),
                name: name.clone(),
            }
        });
        Some(Grid {
            title: format!("When and where: {}", zoom.name()),
            wider: zoom.wider().map(&address),
            rows: rows.collect(),
            columns: columns.into_iter().map(|(_, label, _)| label).collect(),
        })
    }
}

pub(crate) fn name_of(registry: &Registry, archive: usize) -> String {
    let archive = registry.archives.get(archive);
    let name = archive.map(|archive| {
        archive
            .name
            .as_ref()
            .filter(|name| !name.is_empty())
            .unwrap_or(&archive.id)
    });
    name.cloned().unwrap_or_default()
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "memento" } else { "mementos" }
}

/// The year, month or day, as a number.
fn part_of(zoom: Zoom, day: Date) -> i32 {
    match zoom {
        Zoom::Years => day.year().into(),
        Zoom::Year(_) => day.month().into(),
        Zoom::Month(..) => day.day().into(),
    }
}

/// The columns: number, label, and what a click shows. `None` if there is nothing to show.
fn columns(zoom: Zoom, shown: &[(usize, Date)]) -> Option<Vec<(i32, String, Option<Zoom>)>> {
    let parts = || shown.iter().map(|(_, day)| part_of(zoom, *day));
    let last = parts().max()?;
    Some(match zoom {
        Zoom::Years => {
            let first = parts().min()?.max(last + 1 - MOST_COLUMNS as i32);
            (first..=last)
                .map(|year| {
                    (
                        year,
                        year.to_string(),
                        i16::try_from(year).ok().map(Zoom::Year),
                    )
                })
                .collect()
        }
        Zoom::Year(year) => (1..=12)
            .zip(MONTHS)
            .map(|(month, name)| {
                let inner = Zoom::Month(year, month);
                (month.into(), name[..3].to_owned(), Some(inner))
            })
            .collect(),
        Zoom::Month(year, month) => {
            let days = Date::new(year, month, 1).map_or(31, Date::days_in_month);
            (1..=days)
                .map(|day| (day.into(), day.to_string(), None))
                .collect()
        }
    })
}

/// From 0 to 5, by the logarithm of the count.
fn weight(count: u64, most: u64) -> u8 {
    match count {
        0 => 0,
        _ => {
            let share = (1.0 + count as f64).ln() / (1.0 + most as f64).ln();
            (share * 5.0).ceil().clamp(1.0, 5.0) as u8
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Archive;
    use proptest::prelude::*;
    use waypost_memento::{Datetime, Memento};

    fn found(archive: usize, timestamp: &str) -> Found {
        let datetime = Datetime::parse_timestamp(timestamp).unwrap();
        Found {
            memento: Memento::new(format!("http://a.example/{timestamp}"), datetime),
            archive,
        }
    }

    fn registry() -> Registry {
        Registry {
            archives: ["a", "b"].map(Archive::new).to_vec(),
        }
    }

    #[test]
    fn years_open_into_months_and_months_into_days() {
        let mementos = [found(0, "20100501"), found(1, "20100502"), found(1, "2012")];
        let grid = |zoom| Grid::new(&registry(), &mementos, zoom, |zoom| zoom.word()).unwrap();
        let years = grid(Zoom::Years);
        assert_eq!(years.columns, ["2010", "2011", "2012"]);
        assert_eq!(years.rows[1].cells[2].link.as_deref(), Some("2012"));
        assert_eq!(years.rows[1].cells[2].label, "b, 2012: 1 memento");
        assert!(years.wider.is_none());
        let months = grid(Zoom::Year(2010));
        assert_eq!(months.columns[4], "May");
        assert_eq!(months.rows[0].cells[4].link.as_deref(), Some("201005"));
        assert_eq!(months.wider.as_deref(), Some(""));
        let days = grid(Zoom::Month(2010, 5));
        assert_eq!(days.columns.len(), 31);
        assert_eq!(days.rows[1].cells[1].count, 1);
        assert!(days.rows[1].cells[1].link.is_none());
        assert!(Grid::new(&registry(), &mementos, Zoom::Year(2011), |zoom| zoom.word()).is_none());
        assert_eq!(Zoom::parse("201013"), None);
        assert_eq!(Zoom::parse("20100"), None);
    }

    proptest! {
        #[test]
        fn every_memento_is_counted_once(
            times in prop::collection::vec((0..2usize, 1900..2030u16, 1..=12u8, 1..=28u8), 1..40),
            place in 0..40usize,
        ) {
            let mementos: Vec<Found> = times.iter()
                .map(|(archive, year, month, day)| found(*archive, &format!("{year}{month:02}{day:02}")))
                .collect();
            let day = day_of(&mementos[place % mementos.len()]);
            for zoom in [Zoom::Years, Zoom::Year(day.year()), Zoom::Month(day.year(), day.month())] {
                let grid = Grid::new(&registry(), &mementos, zoom, |zoom| zoom.word()).unwrap();
                let counted: u64 = grid.rows.iter().flat_map(|row| &row.cells).map(|cell| cell.count).sum();
                let shown = mementos.iter().filter(|found| zoom.covers(day_of(found))).count();
                prop_assert_eq!(counted, shown as u64);
                prop_assert_eq!(Zoom::parse(&zoom.word()).unwrap_or_default(), zoom);
            }
        }
    }
}
