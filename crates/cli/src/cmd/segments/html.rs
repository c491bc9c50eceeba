//! The pages of `waypost segments rank --html` and `predict --html`.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use waypost_insight::numeric::normal;
use waypost_insight::segments::predict::Prediction;
use waypost_insight::segments::rank::Ranking;
use waypost_io::AtomicFile;
use waypost_report::{Axis, BarSeries, Bars, Heat, LineSeries, Lines, Page};

use super::{predict, rank};

/// Writes a page.
pub(crate) fn write(path: &Path, page: &Page) -> anyhow::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(page.html().as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(file.commit()?)
}

/// The paper's figures 1 to 4 for each ranking, and the tables.
pub(super) fn rank_page(crawls: &[Vec<Ranking>]) -> Page {
    let all: Vec<&Ranking> = crawls.iter().flatten().collect();
    let mut page = Page::new("Segments that stand for the whole");
    for ranking in &all {
        if let Some(&best) = ranking.order.first() {
            page.lead(&format!(
                "{}, {}: the best of {} segments is number {best} ({}), with a rank correlation of {:.3} with the whole; the mean is {:.3}.",
                ranking.crawl,
                ranking.property,
                ranking.segments.len(),
                ranking.segments[best],
                ranking.with_whole[best].r,
                ranking.description.mean
            ));
        }
    }
    for ranking in &all {
        page.section(&format!("{} {}", ranking.crawl, ranking.property));
        page.figure(
            &quantiles(ranking),
            "The dashed line is a normal distribution.",
        );
        let d = &ranking.description;
        let caption = format!(
            "Mean {:.4}, standard deviation {:.4}.",
            d.mean,
            d.variance.sqrt()
        );
        page.figure(&histogram(ranking), &caption);
        page.figure(&per_segment(ranking), "The dashed line is the mean.");
        page.figure(&ordered(ranking), "The dashed lines are 95% intervals.");
    }
    page.section("Tables");
    page.table(
        "Distribution of the correlations",
        &rank::descriptions(&all),
    );
    page.table(
        "Rankings side by side",
        &rank::side_by_side(crawls, usize::MAX),
    );
    page.table("Rankings", &rank::rows(&all, usize::MAX));
    page
}

/// The paper's figures 5 and 6.
pub(super) fn predict_page(prediction: &Prediction) -> Page {
    let mut page = Page::new("How well segments stand for other properties");
    if let Some(recommended) = &prediction.recommendation {
        page.lead(&format!(
            "Trust {} and take {} of its best segments: {}.",
            recommended.property,
            recommended.number,
            recommended.segments.join(", ")
        ));
    }
    page.section("Percentiles");
    let svg = Heat {
        title: "Percentile of the best N segments of a basis in a target".into(),
        x: "segments".into(),
        y: "target by basis".into(),
        columns: (1..=prediction.columns.len())
            .map(|n| n.to_string())
            .collect(),
        rows: prediction
            .rows
            .iter()
            .map(|row| {
                let cells = row.cells.iter();
                let cells =
                    cells.map(|cell| cell.is_finite().then(|| cell.round().max(0.0) as u64));
                (format!("{} by {}", row.target, row.basis), cells.collect())
            })
            .collect(),
    };
    page.figure(
        &svg.svg(),
        "Rounded; the table has the decimals, means and deviations.",
    );
    page.table("Percentiles", &predict::heat_map(prediction));
    page.table("Bases", &predict::basis_table(prediction));
    page
}

fn line(name: &str, points: Vec<(f64, f64)>, dashed: bool) -> LineSeries {
    LineSeries {
        name: name.to_owned(),
        points,
        dashed,
    }
}

fn quantiles(ranking: &Ranking) -> String {
    let mut sorted = ranking.coefficients();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let (mean, deviation) = (
        ranking.description.mean,
        ranking.description.variance.sqrt(),
    );
    let normal: Vec<f64> = (0..sorted.len())
        .map(|at| normal::quantile((at as f64 + 0.5) / n))
        .collect();
    let expected = normal.iter().map(|z| (*z, mean + z * deviation)).collect();
    Lines {
        title: "Quantiles of the correlations".into(),
        x: Axis::free("quantile of the normal distribution"),
        y: Axis::free("rank correlation with the whole"),
        series: vec![
            line(
                "segments",
                normal.iter().copied().zip(sorted).collect(),
                false,
            ),
            line("normal", expected, true),
        ],
    }
    .svg()
}

fn histogram(ranking: &Ranking) -> String {
    const BINS: usize = 20;
    let (min, max) = (ranking.description.min, ranking.description.max);
    let width = ((max - min) / BINS as f64).max(f64::MIN_POSITIVE);
    let mut counts = vec![0.0; BINS];
    for r in ranking.coefficients() {
        counts[(((r - min) / width) as usize).min(BINS - 1)] += 1.0;
    }
    Bars {
        title: "Histogram of the correlations".into(),
        x: "rank correlation with the whole".into(),
        y: Axis::linear("segments"),
        categories: (0..BINS)
            .map(|bin| format!("{:.3}", min + width * bin as f64))
            .collect(),
        series: vec![BarSeries {
            name: "segments".into(),
            values: counts,
        }],
    }
    .svg()
}

fn per_segment(ranking: &Ranking) -> String {
    let all = ranking.with_whole.iter().enumerate();
    let points: Vec<(f64, f64)> = all.map(|(at, c)| (at as f64, c.r)).collect();
    let last = points.len().saturating_sub(1) as f64;
    let mean = ranking.description.mean;
    Lines {
        title: "Correlations by segment".into(),
        x: Axis::linear("segment"),
        y: Axis::free("rank correlation with the whole"),
        series: vec![
            line("segments", points, false),
            line("mean", vec![(0.0, mean), (last, mean)], true),
        ],
    }
    .svg()
}

fn ordered(ranking: &Ranking) -> String {
    let (mut r, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new());
    for (rank, &at) in ranking.order.iter().rev().enumerate() {
        let correlation = ranking.with_whole[at];
        let (from, to) = correlation.interval();
        let x = rank as f64 + 1.0;
        r.push((x, correlation.r));
        low.push((x, from));
        high.push((x, to));
    }
    Lines {
        title: "Correlations in order, with 95% intervals".into(),
        x: Axis::linear("segments, the worst first"),
        y: Axis::free("rank correlation with the whole"),
        series: vec![
            line("correlation", r, false),
            line("lower", low, true),
            line("upper", high, true),
        ],
    }
    .svg()
}
