//! How well the best segments of one property, the basis, stand for another one, the target.

use super::rank::Ranking;
use crate::numeric::describe::mean_and_deviation;
use crate::numeric::percentile;

/// How a mean correlation is compared with the correlations of all segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// By its percentile rank: the percentage of segments that are worse.
    #[default]
    Rank,
    /// By its position between the worst, 0, and the best, 100, as in the paper's figure 5.
    Range,
}

/// One row: a target predicted by a basis, for 1, 2, … segments.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionRow {
    /// The property whose best segments are taken.
    pub basis: String,
    /// The property that they should stand for.
    pub target: String,
    /// The percentile for each number of segments, from 1.
    pub cells: Vec<f64>,
    /// The mean of the cells.
    pub mean: f64,
    /// Their deviation.
    pub deviation: f64,
}

/// The mean of all cells of a basis.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    /// The property.
    pub property: String,
    /// The mean over all targets and numbers of segments.
    pub mean: f64,
    /// The deviation.
    pub deviation: f64,
}

/// All pairs of properties.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// A row for each pair, ordered by basis.
    pub rows: Vec<PredictionRow>,
    /// The bases.
    pub bases: Vec<Basis>,
    /// The mean of each column.
    pub columns: Vec<f64>,
    /// What to download.
    pub recommendation: Option<Recommendation>,
}

/// What to download.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// The property to trust: the basis with the highest mean.
    pub property: String,
    /// The number of segments whose mean over the targets is highest for that basis.
    pub number: usize,
    /// Its best segments, at least as many as that.
    pub segments: Vec<String>,
}

/// Predicts each of the `targets` from each of the `bases` with 1 to `most` segments. A property does
/// not predict itself.
pub fn predict(bases: &[&Ranking], targets: &[&Ranking], most: usize, scale: Scale) -> Prediction {
    let (mut rows, mut means) = (Vec::new(), Vec::<Basis>::new());
    let mut best: Option<(f64, Recommendation)> = None;
    for basis in bases {
        let others = targets
            .iter()
            .filter(|target| target.property != basis.property);
        let of_basis: Vec<PredictionRow> = others
            .map(|target| row(basis, target, most, scale))
            .collect();
        if of_basis.is_empty() {
            continue;
        }
        let cells: Vec<f64> = of_basis.iter().flat_map(|row| row.cells.clone()).collect();
        let (mean, deviation) = mean_and_deviation(&cells);
        // The first of equal ones.
        if best.as_ref().map_or(!mean.is_nan(), |best| mean > best.0) {
            best = recommend(basis, &column_means(&of_basis)).map(|advice| (mean, advice));
        }
        means.push(Basis {
            property: basis.property.clone(),
            mean,
            deviation,
        });
        rows.extend(of_basis);
    }
    Prediction {
        columns: column_means(&rows),
        rows,
        bases: means,
        recommendation: best.map(|(_, advice)| advice),
    }
}

/// The percentiles in `target` of the means of its correlations over the best 1, 2, … segments of
/// `basis`.
fn row(basis: &Ranking, target: &Ranking, most: usize, scale: Scale) -> PredictionRow {
    let all = target.coefficients();
    let of_target = |name: &String| -> Option<f64> {
        let at = target.segments.iter().position(|segment| segment == name)?;
        Some(target.with_whole[at].r).filter(|r| !r.is_nan())
    };
    let (mut sum, mut count) = (0.0, 0.0);
    let cells: Vec<f64> = basis
        .order
        .iter()
        .take(most)
        .map(|&segment| {
            if let Some(r) = of_target(&basis.segments[segment]) {
                sum += r;
                count += 1.0;
            }
            match scale {
                Scale::Rank => percentile::rank_of(&all, sum / count),
                Scale::Range => percentile::position_in_range(&all, sum / count),
            }
        })
        .collect();
    let (mean, deviation) = mean_and_deviation(&cells);
    PredictionRow {
        basis: basis.property.clone(),
        target: target.property.clone(),
        cells,
        mean,
        deviation,
    }
}

/// The mean of each column: of one number of segments.
fn column_means(rows: &[PredictionRow]) -> Vec<f64> {
    let columns = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    let column = |at: usize| {
        rows.iter()
            .filter_map(move |row| row.cells.get(at).copied())
    };
    (0..columns)
        .map(|at| mean_and_deviation(&column(at).collect::<Vec<f64>>()).0)
        .collect()
}

/// What to download if this basis is trusted.
fn recommend(basis: &Ranking, columns: &[f64]) -> Option<Recommendation> {
    let better = |best: usize, at: usize| {
        if columns[at] > columns[best] {
            at
        } else {
            best
        }
    };
    let number = (0..columns.len()).reduce(better)? + 1;
    // One segment may be bad by accident, so the second is named, too.
    let segments = basis.order.iter().take(number.max(2));
    Some(Recommendation {
        property: basis.property.clone(),
        number,
        segments: segments.map(|&at| basis.segments[at].clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's figure 6 ends with a row of averages that are not those of its three rows: they are
    /// what comes out if the header, N, is taken for a fourth row.
    #[test]
    fn the_averages_of_the_papers_figure_6_include_its_header() {
        let rows = [[73.7, 36.9, 49.5], [70.8, 77.4, 64.3], [88.0, 75.4, 73.3]];
        for (column, stated) in [58.4, 47.9, 47.5].into_iter().enumerate() {
            let sum: f64 = rows.iter().map(|row| row[column]).sum();
            let with_header = (sum + column as f64 + 1.0) / 4.0;
            assert!((with_header - stated).abs() < 0.06 && sum / 3.0 - stated > 5.0);
        }
    }

    /// Figure 5: for each row its ten cells, mean and deviation; for each basis the mean and deviation
    /// of its twenty cells.
    #[test]
    fn means_and_deviations_are_those_of_the_papers_figure_5() {
        let rows: [(&[f64; 10], f64, f64); 6] = [
            (
                &[70.2, 68.2, 62.4, 46.8, 50.3, 49.7, 53.6, 51.6, 54.8, 56.5],
                56.4,
                7.6,
            ),
            (
                &[49.2, 44.2, 45.3, 54.2, 57.7, 52.1, 57.3, 55.2, 58.9, 53.0],
                52.7,
                4.8,
            ),
            (
                &[58.1, 39.5, 44.0, 41.0, 43.1, 39.2, 41.4, 45.1, 41.3, 42.2],
                43.5,
                5.2,
            ),
            (
                &[62.9, 57.8, 63.0, 57.5, 60.4, 58.0, 58.8, 60.1, 55.4, 57.5],
                59.1,
                2.3,
            ),
            (
                &[69.8, 70.0, 55.6, 63.4, 68.0, 66.1, 58.9, 57.4, 61.5, 62.6],
                63.3,
                4.8,
            ),
            (
                &[70.8, 70.2, 67.0, 69.6, 71.7, 71.2, 73.1, 70.3, 62.5, 61.8],
                68.8,
                3.7,
            ),
        ];
        let check = |cells: &[f64], mean: f64, deviation: f64| {
            let ours = mean_and_deviation(cells);
            assert!((ours.0 - mean).abs() < 0.06, "{ours:?} {mean}");
            assert!((ours.1 - deviation).abs() < 0.06, "{ours:?} {deviation}");
        };
        for (cells, mean, deviation) in rows {
            check(cells, mean, deviation);
        }
        for (pair, (mean, deviation)) in rows.chunks(2).zip([(54.6, 6.6), (51.3, 8.8), (66.1, 5.1)])
        {
            let cells: Vec<f64> = pair.iter().flat_map(|row| row.0.iter().copied()).collect();
            check(&cells, mean, deviation);
        }
    }
}
