//! The plots of the report, each shown above the table with the same numbers.

use waypost_report::{Axis, BarSeries, Bars, Heat, LineSeries, Lines, Ranked, Shape, short};

use super::model::{Kind, Law, Layer, MediaType, Place, Statistics, StatusClasses, Year};
use super::tables::{magnitude, numbered, pareto_text, path_query_grid};

/// A plot and its caption.
type Figure = (String, String);

/// How many entries of a list are plotted.
const SHOWN: usize = 20;

/// The plots of the table with this title. Tables of a few attributes have none.
pub(super) fn figures(title: &str, found: &Statistics) -> Vec<Figure> {
    match title {
        "Lines that are not captures" | "Rows that are not of the Web" => {
            let kinds = match title {
                "Rows that are not of the Web" => &found.non_web,
                _ => &found.bad_lines,
            };
            kinds_by_lines(title, kinds)
        }
        "Captures per URI-R" => vec![shares_of_captures(found), urirs_by_captures(found)],
        "Most captured URI-Rs" => by_captures(title, &found.top_urirs),
        "Most captured subtrees" => by_captures(title, &found.top_subtrees),
        "Top-level domains" => vec![tlds(found)],
        "Registered domains" => by_captures("Registered domains by captures", &found.domains),
        "Hosts" => by_captures("Hosts by captures", &found.hosts),
        "Years" => years(found),
        "Growth" => growth(found),
        "Media types" => media("Media types by captures and status", &found.media_types),
        "Detected media types" => media(
            "Detected media types by captures and status",
            &found.detected_types,
        ),
        "Statuses" => {
            let mut statuses: Vec<_> = found.statuses.iter().collect();
            statuses.sort_by_key(|status| std::cmp::Reverse(status.captures));
            ranked(
                "Statuses by captures",
                "captures",
                statuses
                    .into_iter()
                    .map(|status| (status.name.clone(), [status.captures])),
                ["captures"],
            )
        }
        "Languages" => ranked(
            "Languages by captures",
            "captures",
            found.languages.iter().map(|language| {
                let other = language.any.saturating_sub(language.first);
                (language.code.clone(), [language.first, other])
            }),
            ["as first", "as another"],
        ),
        "Path segments and query parameters" => vec![paths_and_queries(found)],
        "Depths of hosts and paths" => depths(found),
        "The tree by depth" => tree(found),
        "Fitted power laws" => laws(found),
        "Classes" => ranked(
            "Classes by captures",
            "captures",
            found
                .classes
                .iter()
                .map(|class| (class.name.clone(), [class.captures])),
            ["captures"],
        ),
        "Archived against accessed" => archived_and_accessed(found),
        "Looked up and not held" => ranked(
            title,
            "lookups",
            found
                .lookups
                .iter()
                .flat_map(|lookups| &lookups.seeds)
                .map(|seed| (seed.uri.clone(), [seed.requests])),
            ["lookups"],
        ),
        "MemGator's requests by archive" => ranked(
            title,
            "requests",
            found.memgator.iter().map(|archive| {
                let answers = [archive.hits, archive.misses, archive.errors];
                (archive.archive.clone(), answers)
            }),
            ["hits", "misses", "errors"],
        ),
        _ => Vec::new(),
    }
}

/// Horizontal bars of the first entries of a list; none for a single entry.
fn ranked<const N: usize>(
    title: &str,
    x: &str,
    entries: impl Iterator<Item = (String, [u64; N])>,
    series: [&str; N],
) -> Vec<Figure> {
    let entries: Vec<(String, [u64; N])> = entries.take(SHOWN).collect();
    if entries.len() < 2 {
        return Vec::new();
    }
    let plot = Ranked {
        title: title.into(),
        x: Axis::linear(x),
        series: series
            .iter()
            .enumerate()
            .map(|(at, name)| BarSeries {
                name: (*name).to_owned(),
                values: entries
                    .iter()
                    .map(|(_, values)| values[at] as f64)
                    .collect(),
            })
            .collect(),
        names: entries.into_iter().map(|(name, _)| name).collect(),
    };
    vec![(plot.svg(), String::new())]
}

fn by_captures(title: &str, places: &[Place]) -> Vec<Figure> {
    let entries = places
        .iter()
        .map(|place| (place.key.clone(), [place.captures]));
    ranked(title, "captures", entries, ["captures"])
}

fn kinds_by_lines(title: &str, kinds: &[Kind]) -> Vec<Figure> {
    let entries = kinds.iter().map(|kind| (kind.kind.clone(), [kind.count]));
    ranked(title, "lines", entries, ["lines"])
}

fn solid(name: &str, points: Vec<(f64, f64)>) -> LineSeries {
    LineSeries {
        name: name.to_owned(),
        points,
        dashed: false,
    }
}

fn dashed(name: &str, points: Vec<(f64, f64)>) -> LineSeries {
    LineSeries {
        dashed: true,
        ..solid(name, points)
    }
}

fn shares_of_captures(found: &Statistics) -> Figure {
    let of = &found.distribution;
    let plot = Lines {
        title: "Share of captures of the most captured URIs".into(),
        x: Axis::percent("URIs, the most captured first"),
        y: Axis::percent("captures"),
        series: vec![
            solid("captures", of.curve.clone()),
            dashed("if all URIs had equally many", vec![(0.0, 0.0), (1.0, 1.0)]),
        ],
    };
    let caption = of.pareto.map_or(String::new(), |pareto| {
        format!(
            "Gini coefficient {:.2}; Pareto break point {}.",
            of.gini,
            pareto_text(pareto)
        )
    });
    (plot.svg(), caption)
}

fn urirs_by_captures(found: &Statistics) -> Figure {
    let of = &found.distribution;
    let mut low = 1;
    let categories = of.histogram.iter().map(|(high, _)| {
        let name = match low {
            _ if low >= *high => short(*high as f64),
            _ => format!("{}–{}", short(low as f64), short(*high as f64)),
        };
        low = high + 1;
        name
    });
    let urirs = of.histogram.iter().map(|(_, urirs)| *urirs as f64);
    let plot = Bars {
        title: "URIs by number of captures".into(),
        x: "captures of a URI".into(),
        categories: categories.collect(),
        y: Axis::log("URIs"),
        series: vec![BarSeries {
            name: "URIs".into(),
            values: urirs.collect(),
        }],
    };
    (plot.svg(), "Both scales are logarithmic.".into())
}

fn tlds(found: &Statistics) -> Figure {
    let shown = || found.tlds.iter().take(14);
    let plot = Bars {
        title: "Top-level domains by captures".into(),
        x: "top-level domain".into(),
        y: Axis::log("captures"),
        categories: shown().map(|tld| format!(".{}", tld.key)).collect(),
        series: vec![BarSeries {
            name: "captures".into(),
            values: shown().map(|tld| tld.captures as f64).collect(),
        }],
    };
    let all = found.totals.captures.max(1) as f64;
    let rest = 1.0 - shown().map(|tld| tld.captures as f64 / all).sum::<f64>();
    let caption = format!(
        "The scale is logarithmic. All others together: {:.2}% of the captures.",
        rest.max(0.0) * 100.0
    );
    (plot.svg(), caption)
}

/// Bars of captures by status class; classes that do not occur are left out.
fn by_status(title: &str, x: &str, categories: Vec<String>, statuses: &[StatusClasses]) -> Figure {
    let series = StatusClasses::NAMES.iter().enumerate();
    let series = series.map(|(at, name)| BarSeries {
        name: (*name).to_owned(),
        values: statuses
            .iter()
            .map(|classes| classes.counts()[at] as f64)
            .collect(),
    });
    let plot = Bars {
        title: title.into(),
        x: x.into(),
        y: Axis::linear("captures"),
        categories,
        series: series
            .filter(|series| series.values.iter().any(|value| *value > 0.0))
            .collect(),
    };
    (plot.svg(), String::new())
}

fn years(found: &Statistics) -> Vec<Figure> {
    let years = &found.years;
    let (Some(first), Some(last)) = (years.first(), years.last()) else {
        return Vec::new();
    };
    // Years without captures are shown as such.
    let every: Vec<u16> = (first.year..=last.year).take(200).collect();
    let statuses: Vec<StatusClasses> = every
        .iter()
        .map(|number| {
            let year = years.iter().find(|year| year.year == *number);
            year.map_or(StatusClasses::default(), |year| year.statuses)
        })
        .collect();
    let names = every.iter().map(ToString::to_string).collect();
    let mut figures = vec![by_status(
        "Captures by year and status",
        "year",
        names,
        &statuses,
    )];
    if years.len() < 2 {
        return figures;
    }
    type Line = (&'static str, fn(&Year) -> f64);
    let mut lines = |title: &str, y: Axis, series: &[Line]| {
        let plot = Lines {
            title: title.into(),
            x: Axis::years("year"),
            y,
            series: series
                .iter()
                .map(|(name, of)| {
                    let points = years.iter().map(|year| (f64::from(year.year), of(year)));
                    solid(name, points.collect())
                })
                .collect(),
        };
        figures.push((plot.svg(), String::new()));
    };
    lines(
        "Captures and URIs so far",
        Axis::linear("so far"),
        &[
            ("captures", |year| year.captures_so_far as f64),
            ("URIs", |year| year.urirs_so_far as f64),
        ],
    );
    lines(
        "Captures per URI",
        Axis::linear("captures per URI"),
        &[
            ("γ of the year", |year| year.gamma),
            ("γ so far", |year| year.gamma_so_far),
        ],
    );
    lines(
        "URIs that had been captured in an earlier year",
        Axis::percent("share of the URIs of the year"),
        &[("seen before", |year| year.seen_before)],
    );
    figures
}

fn growth(found: &Statistics) -> Vec<Figure> {
    let Some(heaps) = &found.growth.heaps else {
        return Vec::new();
    };
    let points = || {
        let points = found.growth.points.iter();
        points.map(|(x, y)| (*x as f64, *y as f64))
    };
    let law = points().map(|(x, _)| (x, heaps.factor * x.powf(heaps.exponent)));
    let plot = Lines {
        title: "Growth: URIs against captures".into(),
        x: Axis::linear("captures"),
        y: Axis::linear("URIs"),
        series: vec![
            solid("URIs", points().collect()),
            dashed("Heaps' law", law.collect()),
        ],
    };
    let caption = format!(
        "URI-Rs = K · captures^β with K = {:.3} and β = {:.3}. At β = 1, every capture is of a new URI.",
        heaps.factor, heaps.exponent
    );
    vec![(plot.svg(), caption)]
}

fn media(title: &str, types: &[MediaType]) -> Vec<Figure> {
    if types.is_empty() {
        return Vec::new();
    }
    let shown = &types[..types.len().min(15)];
    let subtype = |name: &str| match name.split_once('/') {
        Some((_, subtype)) if subtype.len() < 16 => subtype.to_owned(),
        _ => name.chars().take(14).collect(),
    };
    let names = shown.iter().map(|media| subtype(&media.name)).collect();
    let statuses: Vec<StatusClasses> = shown.iter().map(|media| media.statuses).collect();
    vec![by_status(title, "media type (subtype)", names, &statuses)]
}

fn paths_and_queries(found: &Statistics) -> Figure {
    let (queries, grid) = path_query_grid(found);
    let rows = grid.into_iter().enumerate();
    let plot = Heat {
        title: "Captures by path segments and query parameters".into(),
        x: "query parameters".into(),
        y: "path segments".into(),
        columns: (0..=queries).map(|query| numbered('Q', query)).collect(),
        rows: rows
            .map(|(path, row)| (numbered('P', path), row.into_iter().map(Some).collect()))
            .collect(),
    };
    (plot.svg(), String::new())
}

fn depths(found: &Statistics) -> Vec<Figure> {
    let line = |name: &str, of: fn(&super::model::Depth) -> u64| {
        let points = found.depths.iter().take(SHOWN);
        solid(
            name,
            points
                .map(|depth| (depth.depth as f64, of(depth) as f64))
                .collect(),
        )
    };
    if found.depths.len() < 2 {
        return Vec::new();
    }
    let plot = Lines {
        title: "Hosts and keys by depth".into(),
        x: Axis::years("labels of the host, or segments of the path"),
        y: Axis::linear("number"),
        series: vec![
            line("hosts", |depth| depth.hosts),
            line("keys by host depth", |depth| depth.host_keys),
            line("keys by path depth", |depth| depth.path_keys),
        ],
    };
    vec![(plot.svg(), String::new())]
}

fn tree(found: &Statistics) -> Vec<Figure> {
    let trees = [("Hosts", &found.host_tree), ("Paths", &found.path_tree)];
    let mut figures = Vec::new();
    for (name, layers) in trees {
        let shape = Shape {
            title: format!("{name}: parents and children by depth"),
            layers: layers
                .iter()
                .take(12)
                .map(|layer| waypost_report::Layer {
                    name: layer.depth.clone(),
                    parents: layer.parents,
                    children: layer.children,
                })
                .collect(),
        };
        let caption = "Stronger where a parent has more children.".to_owned();
        figures.push((shape.svg(), caption));
    }
    let redq = Lines {
        title: "Reduction by cutting keys at a depth (RedQ)".into(),
        x: Axis::years("depth"),
        y: Axis::percent("keys saved"),
        series: trees
            .iter()
            .map(|(name, layers)| solid(name, by_depth(layers, |layer| layer.redq)))
            .collect(),
    };
    figures.push((redq.svg(), String::new()));
    type Curve = fn(&Layer) -> &Vec<(f64, f64)>;
    let curves: [(&str, &str, Curve); 2] = [
        (
            "Global reduction",
            "The share of all keys saved when the largest subtrees are rolled up at a depth.",
            |layer| &layer.global_reduction,
        ),
        (
            "Incremental reduction",
            "The share of the nodes of a depth saved when the parents with most children are rolled up.",
            |layer| &layer.incremental_reduction,
        ),
    ];
    for (title, caption, of) in curves {
        for (name, layers) in trees {
            let series: Vec<LineSeries> = layers
                .iter()
                .take(8)
                .map(|layer| solid(&layer.depth, of(layer).clone()))
                .filter(|series| series.points.iter().any(|point| point.1 > 0.0))
                .collect();
            if series.is_empty() {
                continue;
            }
            let plot = Lines {
                title: format!("{title} of {}", name.to_lowercase()),
                x: Axis::log("share of nodes rolled up"),
                y: Axis::percent("saved"),
                series,
            };
            figures.push((plot.svg(), caption.to_owned()));
        }
    }
    figures
}

/// A measure of layers against their depth, which their names end with.
fn by_depth(layers: &[Layer], of: fn(&Layer) -> f64) -> Vec<(f64, f64)> {
    let depth = |layer: &Layer| layer.depth[1..].parse().unwrap_or(0.0);
    let shown = layers.iter().take(SHOWN);
    shown.map(|layer| (depth(layer), of(layer))).collect()
}

fn laws(found: &Statistics) -> Vec<Figure> {
    let mut series = Vec::new();
    // The laws count depths from 1: those of hosts start with the children of H1, those of paths with
    // the children of P0.
    let laws = [
        ("hosts", &found.host_tree, found.laws.host, 1.0),
        ("paths", &found.path_tree, found.laws.path, 0.0),
    ];
    for (name, layers, law, before) in laws {
        let Some(Law { a, k }) = law else {
            continue;
        };
        let points: Vec<(f64, f64)> = by_depth(layers, |layer| layer.mean_children)
            .into_iter()
            .map(|(depth, children)| (depth - before, children))
            .filter(|(depth, _)| *depth > 0.0)
            .collect();
        let fitted = points.iter().map(|(depth, _)| (*depth, a * depth.powf(-k)));
        let fitted = dashed(&format!("{name}, fitted"), fitted.collect());
        series.extend([solid(name, points), fitted]);
    }
    if series.is_empty() {
        return Vec::new();
    }
    let plot = Lines {
        title: "Mean children by depth".into(),
        x: Axis::years("depth"),
        y: Axis::log("mean children"),
        series,
    };
    let caption = "Fitted: mean children = a · depth^-k.".to_owned();
    vec![(plot.svg(), caption)]
}

fn archived_and_accessed(found: &Statistics) -> Vec<Figure> {
    let Some(lookups) = &found.lookups else {
        return Vec::new();
    };
    let width = lookups.grid.first().map_or(0, Vec::len);
    let rows = lookups.grid.iter().enumerate();
    let plot = Heat {
        title: "Archived against accessed".into(),
        x: "lookups of a URI".into(),
        y: "captures of a URI".into(),
        columns: (0..width).map(magnitude).collect(),
        rows: rows
            .map(|(row, cells)| (magnitude(row), cells.clone()))
            .collect(),
    };
    let caption = "URIs that are neither archived nor accessed cannot be counted.";
    vec![(plot.svg(), caption.into())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::model::{Count, Totals};

    #[test]
    fn the_title_of_every_plot_is_escaped_and_single_entries_have_none() {
        let mut found = Statistics {
            totals: Totals {
                captures: 5,
                ..Totals::default()
            },
            statuses: vec![Count {
                name: "200".into(),
                captures: 5,
            }],
            ..Statistics::default()
        };
        assert!(figures("Statuses", &found).is_empty());
        found.statuses.push(Count {
            name: "<404>".into(),
            captures: 1,
        });
        let [(svg, _)] = &figures("Statuses", &found)[..] else {
            panic!("expected one plot");
        };
        assert!(svg.contains("&lt;404&gt;: 1</title>"));
        assert!(figures("Totals", &found).is_empty());
    }
}
