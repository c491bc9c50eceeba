//! The statistics as a page that people would rather look at than read.

use waypost_report::{
    Axis, BarSeries, Bars, Heat, Layer, LineSeries, Lines, Page, Shape, bytes, count, short,
};

use super::model::{Statistics, StatusClasses, Year};
use super::tables::{Section, date, magnitude, numbered, pareto_text, path_query_grid, tables};

/// How many rows the lists of the page have.
const ROWS: usize = 100;

/// The report as one HTML file.
pub fn html(found: &Statistics) -> String {
    let name = match &found.name[..] {
        "" => "the archive",
        name => name,
    };
    let mut page = Page::new(&format!("What {name} holds"));
    let totals = &found.totals;
    page.subtitle(&format!(
        "{} of index in {}, {} lines",
        bytes(totals.bytes),
        counted(totals.files, "file"),
        count(totals.lines)
    ));
    for sentence in sentences(found, name) {
        page.lead(&sentence);
    }
    page.fact("captures", &short(totals.captures as f64));
    page.fact("URIs (URI-Rs)", &short(totals.urirs as f64));
    page.fact("hosts", &short(totals.hosts as f64));
    page.fact("registered domains", &short(totals.domains as f64));
    page.fact(
        "captures per URI, γ",
        &format!("{:.2}", found.distribution.mean),
    );
    if let (Some(first), Some(last)) = (found.years.first(), found.years.last()) {
        page.fact("years", &format!("{}–{}", first.year, last.year));
    }
    if totals.record_bytes > 0 {
        page.fact("size of the records", &bytes(totals.record_bytes));
    }
    let all = tables(found, ROWS);
    for section in Section::ALL {
        let here: Vec<_> = all
            .iter()
            .filter(|titled| titled.section == section)
            .collect();
        if here.is_empty() {
            continue;
        }
        page.section(section.heading());
        match section {
            Section::Defects => {
                page.text("What stands out, with the evidence and what to do about it. Not all of it is wrong.");
                let notes: Vec<(String, String)> = found
                    .defects
                    .iter()
                    .map(|defect| {
                        (
                            defect.title.clone(),
                            format!("{} {}", defect.evidence, defect.advice),
                        )
                    })
                    .collect();
                page.notes(notes.iter().map(|(title, text)| (&title[..], &text[..])));
            }
            Section::Distribution => distribution(found, &mut page),
            Section::Places => places(found, &mut page),
            Section::Time => time(found, &mut page),
            Section::Content => content(found, &mut page),
            Section::Tree => tree(found, &mut page),
            Section::Lookups => lookups(found, &mut page),
            Section::Totals | Section::Classes => {}
        }
        // The defects are already there, as remarks.
        let shown = here
            .iter()
            .filter(|titled| titled.section != Section::Defects);
        for titled in shown {
            page.table(titled.title, &titled.table);
        }
    }
    page.html()
}

fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// The summary at the top, for someone who reads nothing else.
fn sentences(found: &Statistics, name: &str) -> Vec<String> {
    let totals = &found.totals;
    let mut all = Vec::new();
    let mut first = format!(
        "{}{} holds {} of {} from {}",
        name[..1].to_uppercase(),
        &name[1..],
        counted(totals.captures, "capture"),
        counted(totals.urirs, "URI"),
        counted(totals.hosts, "host"),
    );
    if totals.first.is_some() {
        first += &format!(
            ", made between {} and {}",
            date(totals.first.as_deref()),
            date(totals.last.as_deref())
        );
    }
    all.push(first + ".");
    if totals.urirs == 0 {
        return all;
    }
    let of = &found.distribution;
    let mut second = format!("A URI was captured {:.1} times on average", of.mean);
    if let Some(pareto) = of.pareto.filter(|_| of.max > 1) {
        second += &format!(
            ", but unevenly: {} of the URIs have {} of the captures",
            percent(pareto),
            percent(1.0 - pareto)
        );
    }
    all.push(second + ".");
    let mut places = Vec::new();
    if let Some(tld) = found.tlds.first() {
        places.push(format!(
            "{} of the captures are from .{}",
            percent(tld.captures as f64 / totals.captures.max(1) as f64),
            tld.key
        ));
    }
    if let Some(domain) = found.domains.first() {
        places.push(format!(
            "the largest domain, {}, has {}",
            domain.key,
            percent(domain.captures as f64 / totals.captures.max(1) as f64)
        ));
    }
    if !places.is_empty() {
        all.push(places.join("; ") + ".");
    }
    if let Some(busiest) = found.years.iter().max_by_key(|year| year.captures)
        && found.years.len() > 1
    {
        let seen: u64 = found.years[1..].iter().map(|year| year.urirs).sum();
        let again: f64 = found.years[1..]
            .iter()
            .map(|year| year.seen_before * year.urirs as f64)
            .sum();
        all.push(format!(
            "Most captures were made in {} ({}). After the first year, {} of the URIs of a year had been captured before.",
            busiest.year,
            count(busiest.captures),
            percent(again / seen.max(1) as f64)
        ));
    }
    let successes: u64 = found.years.iter().map(|year| year.statuses.success).sum();
    let dated: u64 = found.years.iter().map(|year| year.captures).sum();
    let html = found
        .media_types
        .iter()
        .find(|media| media.name == "text/html");
    if dated > 0
        && let Some(html) = html
    {
        all.push(format!(
            "{} of the captures are successful answers (2xx), and {} are HTML pages.",
            percent(successes as f64 / dated as f64),
            percent(html.statuses.total() as f64 / totals.captures.max(1) as f64)
        ));
    }
    if !found.defects.is_empty() {
        all.push(format!(
            "{} worth a look.",
            match found.defects.len() {
                1 => "One thing is".to_owned(),
                n => format!("{n} things are"),
            }
        ));
    }
    all
}

fn distribution(found: &Statistics, page: &mut Page) {
    let of = &found.distribution;
    let lorenz = Lines {
        title: "Share of captures of the most captured URIs".into(),
        x: Axis::percent("URIs, the most captured first"),
        y: Axis::percent("captures"),
        series: vec![
            LineSeries {
                name: "captures".into(),
                points: of.curve.clone(),
                dashed: false,
            },
            LineSeries {
                name: "if all URIs had equally many".into(),
                points: vec![(0.0, 0.0), (1.0, 1.0)],
                dashed: true,
            },
        ],
    };
    let caption = match of.pareto {
        Some(pareto) => format!(
            "Gini coefficient {:.2}; Pareto break point {}.",
            of.gini,
            pareto_text(pareto)
        ),
        None => String::new(),
    };
    page.figure(&lorenz.svg(), &caption);
    let mut low = 1;
    let categories = of.histogram.iter().map(|(high, _)| {
        let name = match low {
            _ if low >= *high => short(*high as f64),
            _ => format!("{}–{}", short(low as f64), short(*high as f64)),
        };
        low = high + 1;
        name
    });
    let bars = Bars {
        title: "URIs by number of captures".into(),
        x: "captures of a URI".into(),
        categories: categories.collect(),
        y: Axis::log("URIs"),
        series: vec![BarSeries {
            name: "URIs".into(),
            values: of
                .histogram
                .iter()
                .map(|(_, urirs)| *urirs as f64)
                .collect(),
        }],
    };
    page.figure(&bars.svg(), "Both scales are logarithmic.");
}

fn places(found: &Statistics, page: &mut Page) {
    let shown = || found.tlds.iter().take(14);
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let bars = Bars {
        title: "Top-level domains by captures".into(),
        x: "top-level domain".into(),
        y: Axis::log("captures"),
        categories: shown().map(|tld| format!(".{}", tld.key)).collect(),
        series: vec![BarSeries {
            name: "captures".into(),
            values: shown().map(|tld| tld.captures as f64).collect(),
        }],
    };
    let rest = 1.0
        - shown()
            .map(|tld| share(tld.captures, found.totals.captures))
            .sum::<f64>();
    page.figure(
        &bars.svg(),
        &format!(
            "The scale is logarithmic. All others together: {:.2}% of the captures.",
            rest.max(0.0) * 100.0
        ),
    );
}

fn time(found: &Statistics, page: &mut Page) {
    let years = &found.years;
    if years.is_empty() {
        return;
    }
    // Years without captures are shown as such.
    let (first, last) = (years[0].year, years[years.len() - 1].year);
    let every: Vec<Option<&Year>> = (first..=last)
        .take(200)
        .map(|number| years.iter().find(|year| year.year == number))
        .collect();
    let series = StatusClasses::NAMES
        .iter()
        .enumerate()
        .map(|(at, name)| BarSeries {
            name: (*name).to_owned(),
            values: every
                .iter()
                .map(|year| year.map_or(0.0, |year| year.statuses.counts()[at] as f64))
                .collect(),
        });
    let bars = Bars {
        title: "Captures by year and status".into(),
        x: "year".into(),
        y: Axis::linear("captures"),
        categories: (first..=last)
            .take(200)
            .map(|year| year.to_string())
            .collect(),
        series: series
            .filter(|series| series.values.iter().any(|value| *value > 0.0))
            .collect(),
    };
    page.figure(&bars.svg(), "");
    if years.len() > 1 {
        let line = |name: &str, of: fn(&Year) -> f64| LineSeries {
            name: name.to_owned(),
            points: years
                .iter()
                .map(|year| (f64::from(year.year), of(year)))
                .collect(),
            dashed: false,
        };
        let grown = Lines {
            title: "Captures and URIs so far".into(),
            x: Axis::years("year"),
            y: Axis::linear("so far"),
            series: vec![
                line("captures", |year| year.captures_so_far as f64),
                line("URIs", |year| year.urirs_so_far as f64),
            ],
        };
        page.figure(&grown.svg(), "");
        let gamma = Lines {
            title: "Captures per URI".into(),
            x: Axis::years("year"),
            y: Axis::linear("captures per URI"),
            series: vec![
                line("γ of the year", |year| year.gamma),
                line("γ so far", |year| year.gamma_so_far),
            ],
        };
        page.figure(&gamma.svg(), "");
    }
    let points = |of: fn(f64) -> f64| -> Vec<(f64, f64)> {
        let points = found.growth.points.iter();
        points.map(|(x, y)| (*x as f64, of(*y as f64))).collect()
    };
    if let Some(heaps) = &found.growth.heaps {
        let law = points(|y| y)
            .into_iter()
            .map(|(x, _)| (x, heaps.factor * x.powf(heaps.exponent)));
        let plot = Lines {
            title: "Growth: URIs against captures".into(),
            x: Axis::linear("captures"),
            y: Axis::linear("URIs"),
            series: vec![
                LineSeries {
                    name: "URIs".into(),
                    points: points(|y| y),
                    dashed: false,
                },
                LineSeries {
                    name: "Heaps' law".into(),
                    points: law.collect(),
                    dashed: true,
                },
            ],
        };
        page.figure(
            &plot.svg(),
            &format!(
                "URI-Rs = K · captures^β with K = {:.3} and β = {:.3}. At β = 1, every capture is of a new URI.",
                heaps.factor, heaps.exponent
            ),
        );
    }
}

fn content(found: &Statistics, page: &mut Page) {
    let shown = || found.media_types.iter().take(15);
    let series = StatusClasses::NAMES
        .iter()
        .enumerate()
        .map(|(at, name)| BarSeries {
            name: (*name).to_owned(),
            values: shown()
                .map(|media| media.statuses.counts()[at] as f64)
                .collect(),
        });
    let subtype = |name: &str| match name.split_once('/') {
        Some((_, subtype)) if subtype.len() < 16 => subtype.to_owned(),
        _ => name.chars().take(14).collect(),
    };
    let bars = Bars {
        title: "Media types by captures and status".into(),
        x: "media type (subtype)".into(),
        y: Axis::linear("captures"),
        categories: shown().map(|media| subtype(&media.name)).collect(),
        series: series
            .filter(|series| series.values.iter().any(|value| *value > 0.0))
            .collect(),
    };
    page.figure(&bars.svg(), "");
    let (queries, grid) = path_query_grid(found);
    let heat = Heat {
        title: "Captures by path segments and query parameters".into(),
        x: "query parameters".into(),
        y: "path segments".into(),
        columns: (0..=queries).map(|query| numbered('Q', query)).collect(),
        rows: grid
            .into_iter()
            .enumerate()
            .map(|(path, row)| (numbered('P', path), row.into_iter().map(Some).collect()))
            .collect(),
    };
    page.figure(&heat.svg(), "");
}

fn tree(found: &Statistics, page: &mut Page) {
    page.text("A URI is a path through a tree: labels of the host, then segments of the path. H2 are hosts cut to two labels, P1 are URIs cut to one path segment. RedQ is the share of keys that cutting at that depth would save.");
    for (name, layers) in [("Hosts", &found.host_tree), ("Paths", &found.path_tree)] {
        let shape = Shape {
            title: format!("{name}: parents and children by depth"),
            layers: layers
                .iter()
                .take(12)
                .map(|layer| Layer {
                    name: layer.depth.clone(),
                    parents: layer.parents,
                    children: layer.children,
                })
                .collect(),
        };
        page.figure(&shape.svg(), "Stronger where a parent has more children.");
    }
    for (title, caption, of) in [
        (
            "Global reduction",
            "The share of all keys saved when the largest subtrees are rolled up at a depth.",
            (|layer: &super::model::Layer| layer.global_reduction.clone())
                as fn(&super::model::Layer) -> Vec<(f64, f64)>,
        ),
        (
            "Incremental reduction",
            "The share of the nodes of a depth saved when the parents with most children are rolled up.",
            |layer| layer.incremental_reduction.clone(),
        ),
    ] {
        for (name, layers) in [("hosts", &found.host_tree), ("paths", &found.path_tree)] {
            let series: Vec<LineSeries> = layers
                .iter()
                .take(8)
                .map(|layer| LineSeries {
                    name: layer.depth.clone(),
                    points: of(layer),
                    dashed: false,
                })
                .filter(|series| series.points.iter().any(|point| point.1 > 0.0))
                .collect();
            if series.is_empty() {
                continue;
            }
            let plot = Lines {
                title: format!("{title} of {name}"),
                x: Axis::log("share of nodes rolled up"),
                y: Axis::percent("saved"),
                series,
            };
            page.figure(&plot.svg(), caption);
        }
    }
}

fn lookups(found: &Statistics, page: &mut Page) {
    let Some(lookups) = &found.lookups else {
        return;
    };
    page.text(&format!(
        "Of {} that were looked up, {} are held ({}). What is looked up often and not held is a candidate for the next crawl.",
        counted(lookups.urirs, "URI"),
        count(lookups.held),
        percent(lookups.held as f64 / lookups.urirs.max(1) as f64)
    ));
    let heat = Heat {
        title: "Archived against accessed".into(),
        x: "lookups of a URI".into(),
        y: "captures of a URI".into(),
        columns: (0..lookups.grid.first().map_or(0, Vec::len))
            .map(magnitude)
            .collect(),
        rows: lookups
            .grid
            .iter()
            .enumerate()
            .map(|(row, cells)| (magnitude(row), cells.clone()))
            .collect(),
    };
    page.figure(
        &heat.svg(),
        "URIs that are neither archived nor accessed cannot be counted.",
    );
}
