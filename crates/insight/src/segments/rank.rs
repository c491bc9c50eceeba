//! How much the segments resemble the whole: rank correlations, and the ranking that they give.

use rayon::prelude::*;

use super::counts::Counts;
use crate::numeric::describe::{Description, describe};
use crate::numeric::shapiro::{Shapiro, shapiro};
use crate::numeric::spearman::{Correlation, spearman};

/// The ranking of the segments of a crawl by one property.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// The name of the crawl.
    pub crawl: String,
    /// The name of the property.
    pub property: String,
    /// The names of the segments.
    pub segments: Vec<String>,
    /// The number of values that were compared.
    pub values: usize,
    /// Cells that were missing.
    pub missing: usize,
    /// The correlation of each segment with the whole.
    pub with_whole: Vec<Correlation>,
    /// All correlations: row and column 0 are the whole, the others the segments.
    pub matrix: Vec<Vec<f64>>,
    /// Segments, the best first. Those without a correlation are last.
    pub order: Vec<usize>,
    /// The distribution of the correlations with the whole.
    pub description: Description,
    /// Whether that is normal; `None` for too few segments.
    pub normality: Option<Shapiro>,
}

impl Ranking {
    /// The rank of each segment, from 1.
    pub fn ranks(&self) -> Vec<usize> {
        let mut ranks = vec![0; self.order.len()];
        for (rank, &segment) in self.order.iter().enumerate() {
            ranks[segment] = rank + 1;
        }
        ranks
    }

    /// The correlations with the whole that exist.
    pub fn coefficients(&self) -> Vec<f64> {
        let all = self.with_whole.iter().map(|correlation| correlation.r);
        all.filter(|r| !r.is_nan()).collect()
    }
}

/// Ranks the segments of one property.
pub fn rank(counts: &Counts) -> Ranking {
    let columns: Vec<&[f64]> = std::iter::once(&counts.whole[..])
        .chain(counts.cells.iter().map(|cells| &cells[..]))
        .collect();
    // The upper triangle: the matrix is symmetrical.
    let rows: Vec<Vec<Correlation>> = (0..columns.len())
        .into_par_iter()
        .map(|row| {
            let others = columns[row + 1..].iter();
            others
                .map(|column| spearman(columns[row], column))
                .collect()
        })
        .collect();
    let mut matrix = vec![vec![1.0; columns.len()]; columns.len()];
    for (row, correlations) in rows.iter().enumerate() {
        for (at, correlation) in correlations.iter().enumerate() {
            matrix[row][row + 1 + at] = correlation.r;
            matrix[row + 1 + at][row] = correlation.r;
        }
    }
    let with_whole = rows.into_iter().next().unwrap_or_default();
    let mut order: Vec<usize> = (0..with_whole.len()).collect();
    let key = |at: usize| match with_whole[at].r {
        r if r.is_nan() => f64::INFINITY,
        r => -r,
    };
    order.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
    let mut ranking = Ranking {
        crawl: counts.crawl.clone(),
        property: counts.property.clone(),
        segments: counts.segments.clone(),
        values: counts.values.len(),
        missing: counts.missing(),
        with_whole,
        matrix,
        order,
        description: describe(&[]),
        normality: None,
    };
    let coefficients = ranking.coefficients();
    ranking.description = describe(&coefficients);
    ranking.normality = shapiro(&coefficients);
    ranking
}

/// The segments of one crawl by several properties: the mean of their ranks decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Combined {
    /// The name of each segment, the best first.
    pub segments: Vec<String>,
    /// The mean rank of each.
    pub means: Vec<f64>,
}

/// Combines rankings of the same segments. `None` if their segments differ.
pub fn combine(rankings: &[&Ranking]) -> Option<Combined> {
    let first = rankings.first()?;
    if rankings
        .iter()
        .any(|ranking| ranking.segments != first.segments)
    {
        return None;
    }
    let ranks: Vec<Vec<usize>> = rankings.iter().map(|ranking| ranking.ranks()).collect();
    let mean =
        |at: usize| ranks.iter().map(|ranks| ranks[at]).sum::<usize>() as f64 / ranks.len() as f64;
    let mut order: Vec<usize> = (0..first.segments.len()).collect();
    order.sort_by(|&a, &b| mean(a).total_cmp(&mean(b)));
    Some(Combined {
        segments: order.iter().map(|&at| first.segments[at].clone()).collect(),
        means: order.iter().map(|&at| mean(at)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(cells: &[&[f64]]) -> Counts {
        let values = cells[0].len();
        Counts {
            segments: (0..cells.len()).map(|n| n.to_string()).collect(),
            values: (0..values).map(|n| n.to_string()).collect(),
            whole: (0..values)
                .map(|at| cells.iter().map(|c| c[at]).filter(|c| !c.is_nan()).sum())
                .collect(),
            cells: cells.iter().map(|cells| cells.to_vec()).collect(),
            ..Counts::default()
        }
    }

    #[test]
    fn the_segment_with_the_order_of_the_whole_is_the_best() {
        let counts = counts(&[
            &[9.0, 7.0, 5.0, 3.0],
            &[1.0, 7.0, 5.0, 3.0],
            &[90.0, 70.0, f64::NAN, 30.0],
            &[0.0, 0.0, 0.0, 0.0],
        ]);
        let ranking = rank(&counts);
        assert_eq!(ranking.order, [2, 0, 1, 3]);
        assert_eq!(ranking.ranks(), [2, 3, 1, 4]);
        assert!(ranking.with_whole[3].r.is_nan());
        assert_eq!(ranking.description.count, 3);
        for row in 0..5 {
            for column in 0..5 {
                let (a, b) = (ranking.matrix[row][column], ranking.matrix[column][row]);
                assert!(a == b || a.is_nan() && b.is_nan());
            }
        }
    }

    /// Table 5 of the paper: symmetrical, as ours is, and every segment resembles the whole more than any
    /// other segment.
    #[test]
    fn the_papers_table_5_is_symmetrical_and_the_whole_is_closest() {
        let table = [
            [1.0, 0.947, 0.949, 0.937],
            [0.947, 1.0, 0.896, 0.894],
            [0.949, 0.896, 1.0, 0.899],
            [0.937, 0.894, 0.899, 1.0],
        ];
        for (x, row) in table.iter().enumerate() {
            for (y, r) in row.iter().enumerate() {
                assert_eq!(*r, table[y][x]);
                assert!(x == 0 || y == 0 || x == y || *r < table[0][x]);
            }
        }
    }

    #[test]
    fn several_properties_are_combined_by_the_mean_of_their_ranks() {
        let one = rank(&counts(&[
            &[9.0, 7.0, 5.0],
            &[5.0, 7.0, 9.0],
            &[9.0, 5.0, 7.0],
        ]));
        let combined = combine(&[&one, &one]).unwrap();
        assert_eq!(combined.means, [1.0, 2.0, 3.0]);
        let other = Ranking {
            segments: vec!["x".to_owned()],
            ..one.clone()
        };
        assert_eq!(combine(&[&one, &other]), None);
    }
}
