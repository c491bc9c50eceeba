//! Several statistics side by side: two crawls, two archives.

use waypost_report::{Align, Axis, Cell, LineSeries, Lines, Page, Table, count};

use super::model::{Place, Statistics};
use super::tables::{date, pareto_text};
use crate::numeric::histogram::ratio;

use Align::{Left, Right};

/// How many places are compared.
const PLACES: usize = 50;

/// The tables of a comparison, with their titles.
pub fn tables(all: &[Statistics]) -> Vec<(&'static str, Table)> {
    let names: Vec<String> = all
        .iter()
        .enumerate()
        .map(|(at, found)| match &found.name[..] {
            "" => format!("#{}", at + 1),
            name => name.to_owned(),
        })
        .collect();
    let mut tables = vec![
        ("Totals", totals(all, &names)),
        ("Captures by year", years(all, &names)),
    ];
    for (title, of) in [
        (
            "Top-level domains",
            (|found: &Statistics| &found.tlds[..]) as fn(&Statistics) -> &[Place],
        ),
        ("Registered domains", |found| &found.domains[..]),
    ] {
        tables.push((title, shares(title, all, &names, of)));
    }
    tables.push(("Media types", media(all, &names)));
    tables.push(("Mean children by depth", children(all, &names)));
    tables.retain(|(_, table)| !table.is_empty());
    tables
}

/// Columns: a name, one for each, and the change from the first to the last if there are two.
fn columns<'a>(first: &'a str, names: &'a [String], change: bool) -> Vec<(&'a str, Align)> {
    let mut columns = vec![(first, Left)];
    columns.extend(names.iter().map(|name| (&name[..], Right)));
    if change && names.len() == 2 {
        columns.push(("change", Right));
    }
    columns
}

/// The change from the first to the second, as a percentage.
fn change(values: &[f64]) -> Option<Cell> {
    let [first, second] = values else {
        return None;
    };
    Some(match *first {
        0.0 => Cell::from("-"),
        first => Cell::from(format!("{:+.1}%", (second - first) / first * 100.0)),
    })
}

fn totals(all: &[Statistics], names: &[String]) -> Table {
    let mut table = Table::new(&columns("attribute", names, true));
    let mut counts = |name: &str, of: fn(&Statistics) -> u64| {
        let values: Vec<u64> = all.iter().map(of).collect();
        let mut row = vec![Cell::from(name)];
        row.extend(values.iter().map(|value| Cell::count(*value)));
        row.extend(change(
            &values.iter().map(|value| *value as f64).collect::<Vec<_>>(),
        ));
        table.row(row);
    };
    counts("lines", |found| found.totals.lines);
    counts("captures", |found| found.totals.captures);
    counts("revisits", |found| found.totals.revisits);
    counts("URI-Rs", |found| found.totals.urirs);
    counts("HxPx keys", |found| found.totals.hxpx_keys);
    counts("hosts", |found| found.totals.hosts);
    counts("registered domains", |found| found.totals.domains);
    counts("top-level domains", |found| found.totals.tlds);
    counts("IP addresses", |found| found.totals.addresses);
    counts("record bytes", |found| found.totals.record_bytes);
    counts("most captures of a URI-R", |found| found.distribution.max);
    let mut numbers = |name: &str, decimals: usize, of: fn(&Statistics) -> f64| {
        let values: Vec<f64> = all.iter().map(of).collect();
        let mut row = vec![Cell::from(name)];
        row.extend(values.iter().map(|value| Cell::number(*value, decimals)));
        row.extend(change(&values));
        table.row(row);
    };
    numbers("median captures", 1, |found| found.distribution.median);
    numbers("mean captures, γ", 2, |found| found.distribution.mean);
    numbers("Gini coefficient", 4, |found| found.distribution.gini);
    numbers("α, bytes per line", 1, |found| found.growth.bytes_per_line);
    numbers("Heaps' β", 4, |found| {
        found.growth.heaps.map_or(f64::NAN, |law| law.exponent)
    });
    let mut texts = |name: &str, of: fn(&Statistics) -> String| {
        table.row([name.to_owned()].into_iter().chain(all.iter().map(of)));
    };
    texts("Pareto break point", |found| {
        found
            .distribution
            .pareto
            .map_or("-".to_owned(), pareto_text)
    });
    texts("first capture", |found| date(found.totals.first.as_deref()));
    texts("last capture", |found| date(found.totals.last.as_deref()));
    texts("likely defects", |found| count(found.defects.len() as u64));
    table
}

fn years(all: &[Statistics], names: &[String]) -> Table {
    let mut years: Vec<u16> = all
        .iter()
        .flat_map(|found| found.years.iter().map(|year| year.year))
        .collect();
    years.sort_unstable();
    years.dedup();
    let mut table = Table::new(&columns("year", names, true));
    for year in years {
        let values: Vec<u64> = all
            .iter()
            .map(|found| {
                let year = found.years.iter().find(|known| known.year == year);
                year.map_or(0, |year| year.captures)
            })
            .collect();
        let mut row = vec![Cell::from(year.to_string())];
        row.extend(values.iter().map(|value| Cell::count(*value)));
        row.extend(change(
            &values.iter().map(|value| *value as f64).collect::<Vec<_>>(),
        ));
        table.row(row);
    }
    table
}

/// Names with the share that each has of them, by the largest share of any.
fn by_share(rows: Vec<(String, Vec<f64>)>, first: &str, names: &[String]) -> Table {
    let mut rows = rows;
    let largest = |row: &(String, Vec<f64>)| row.1.iter().copied().fold(0.0, f64::max);
    rows.sort_by(|a, b| {
        largest(b)
            .total_cmp(&largest(a))
            .then_with(|| a.0.cmp(&b.0))
    });
    let mut table = Table::new(&columns(first, names, false));
    for (name, shares) in rows.into_iter().take(PLACES) {
        let shares = shares.into_iter().map(Cell::percent);
        table.row([Cell::from(name)].into_iter().chain(shares));
    }
    table
}

fn merge(rows: &mut Vec<(String, Vec<f64>)>, name: &str, at: usize, of: usize, share: f64) {
    let row = match rows.iter().position(|row| row.0 == name) {
        Some(row) => row,
        None => {
            rows.push((name.to_owned(), vec![0.0; of]));
            rows.len() - 1
        }
    };
    rows[row].1[at] = share;
}

fn shares(
    title: &str,
    all: &[Statistics],
    names: &[String],
    of: fn(&Statistics) -> &[Place],
) -> Table {
    let mut rows = Vec::new();
    for (at, found) in all.iter().enumerate() {
        for place in of(found).iter().take(2 * PLACES) {
            let share = ratio(place.captures as f64, found.totals.captures as f64);
            merge(&mut rows, &place.key, at, all.len(), share);
        }
    }
    by_share(rows, &title.trim_end_matches('s').to_lowercase(), names)
}

fn media(all: &[Statistics], names: &[String]) -> Table {
    let mut rows = Vec::new();
    for (at, found) in all.iter().enumerate() {
        for media in found.media_types.iter().take(2 * PLACES) {
            let share = ratio(media.statuses.total() as f64, found.totals.captures as f64);
            merge(&mut rows, &media.name, at, all.len(), share);
        }
    }
    by_share(rows, "media type", names)
}

fn children(all: &[Statistics], names: &[String]) -> Table {
    let layers = |found: &Statistics| -> Vec<(String, f64)> {
        let layers = found.host_tree.iter().chain(&found.path_tree);
        layers
            .map(|layer| (layer.depth.clone(), layer.mean_children))
            .collect()
    };
    let mut depths: Vec<String> = all
        .iter()
        .flat_map(|found| layers(found).into_iter().map(|layer| layer.0))
        .collect();
    // `H2` before `H10`. Anything may be in a file.
    depths.sort_by_cached_key(|name| {
        let number = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let kind = name[..name.len() - number.len()].to_owned();
        (kind, number.parse::<u32>().unwrap_or(0), number.to_owned())
    });
    depths.dedup();
    let mut table = Table::new(&columns("depth", names, false));
    for depth in depths {
        let cells = all.iter().map(|found| {
            let layers = layers(found);
            let layer = layers.iter().find(|layer| layer.0 == depth);
            layer.map_or(Cell::from("-"), |layer| Cell::number(layer.1, 2))
        });
        table.row([Cell::from(&depth)].into_iter().chain(cells));
    }
    table
}

/// The comparison as one HTML file.
pub fn html(all: &[Statistics]) -> String {
    let names: Vec<&str> = all.iter().map(|found| &found.name[..]).collect();
    let mut page = Page::new("Archives side by side");
    page.subtitle(&names.join(" · "));
    for found in all {
        page.fact(
            &found.name,
            &format!(
                "{} captures",
                waypost_report::short(found.totals.captures as f64)
            ),
        );
    }
    for (title, table) in tables(all) {
        page.section(title);
        if title == "Captures by year" {
            for (title, of) in [
                (
                    "Captures by year",
                    (|year: &super::model::Year| year.captures as f64)
                        as fn(&super::model::Year) -> f64,
                ),
                ("URI-Rs so far", |year| year.urirs_so_far as f64),
            ] {
                let series = all.iter().map(|found| LineSeries {
                    name: found.name.clone(),
                    points: found
                        .years
                        .iter()
                        .map(|year| (f64::from(year.year), of(year)))
                        .collect(),
                    dashed: false,
                });
                let plot = Lines {
                    title: title.into(),
                    x: Axis::years("year"),
                    y: Axis::linear(title),
                    series: series.collect(),
                };
                page.figure(&plot.svg(), "");
            }
        }
        page.table(title, &table);
    }
    page.html()
}
