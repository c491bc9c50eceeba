//! scipy beside us, on generated tables with ties and missing values.

use std::fs;

use serde_json::Value;
use waypost_index::generate::Random;
use waypost_insight::numeric::describe::describe;
use waypost_insight::numeric::percentile;
use waypost_insight::numeric::shapiro::shapiro;
use waypost_insight::numeric::spearman::spearman;
use waypost_insight::numeric::{normal, student};
use waypost_insight::segments::Counts;
use waypost_insight::segments::rank::rank;

use super::{oracles, peers};

/// Reads tables, writes what scipy says about them.
const PEER: &str = r#"
import json, sys, warnings
import numpy as np
from scipy import stats
warnings.simplefilter('ignore')
def plain(value):
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    value = float(value)
    return None if value != value else value
out = []
for table in json.load(open(sys.argv[1])):
    columns = np.array([[np.nan if v is None else v for v in column] for column in table['columns']])
    r, p = stats.spearmanr(columns.T, nan_policy='omit')
    values = np.array(table['values'])
    d = stats.describe(values)
    s = stats.shapiro(values)
    out.append({
        'r': plain(np.ma.filled(r, np.nan)), 'p': plain(np.ma.filled(p, np.nan)),
        'describe': plain([d.nobs, d.minmax[0], d.minmax[1], d.mean, d.variance, d.skewness, d.kurtosis]),
        'shapiro': plain([s.statistic, s.pvalue]),
        'percentiles': plain([stats.percentileofscore(values, score) for score in table['scores']]),
        't': plain([2 * stats.t.sf(abs(t), len(values)) for t in table['scores']]),
        'normal': plain([stats.norm.sf(z) for z in table['scores']]),
    })
print(json.dumps(out))
"#;

struct Table {
    columns: Vec<Vec<f64>>,
    values: Vec<f64>,
    scores: Vec<f64>,
}

fn tables() -> Vec<Table> {
    let mut random = Random::new(20_261_117);
    (0..40)
        .map(|number| {
            let rows = 4 + random.below(120) as usize;
            let columns = 3 + random.below(8);
            // From few distinct values, so many ties, to many.
            let distinct = [3, 10, 1000, 1 << 40][number % 4];
            let missing = [0, 5, 30][number % 3];
            let columns = (0..columns)
                .map(|column| {
                    (0..rows)
                        .map(|row| {
                            let noise = random.below(distinct) as f64;
                            // Some columns resemble each other, so that p-values are tiny.
                            let value = if column % 2 == 0 {
                                row as f64 * distinct as f64 + noise
                            } else {
                                noise
                            };
                            if random.below(100) < missing {
                                f64::NAN
                            } else {
                                value
                            }
                        })
                        .collect()
                })
                .collect();
            let count = 3 + random.below(200) as usize;
            let values: Vec<f64> = (0..count)
                .map(|_| match number % 3 {
                    0 => random.fraction(),
                    1 => random.fraction() + random.fraction() + random.fraction(),
                    _ => -random.fraction().max(1e-9).ln() * 10.0,
                })
                .collect();
            let scores = values
                .iter()
                .take(5)
                .copied()
                .chain([0.0, 0.5, 1.7, 30.0])
                .collect();
            Table {
                columns,
                values,
                scores,
            }
        })
        .collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Equal to 1e-9, or relative to it where that is tiny.
fn assert_close(ours: f64, theirs: f64, tolerance: f64, what: &str) {
    let same = ours.is_nan() && theirs.is_nan();
    let off = (ours - theirs).abs();
    assert!(
        same || off <= tolerance * theirs.abs().clamp(1e-300, 1.0) || off <= f64::MIN_POSITIVE,
        "{what}: {ours} {theirs}"
    );
}

#[test]
fn correlations_descriptions_normality_and_percentiles_equal_those_of_scipy() {
    let Some(python) = oracles::python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let tables = tables();
    let json: Vec<Value> = tables
        .iter()
        .map(|table| serde_json::json!({"columns": table.columns, "values": table.values, "scores": table.scores}))
        .collect();
    let path = folder.path().join("tables.json");
    fs::write(&path, serde_json::to_vec(&json).unwrap()).unwrap();
    let answer = peers::run(&python, PEER, &[path.to_str().unwrap()]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    for (number_of, (table, theirs)) in tables.iter().zip(answer.as_array().unwrap()).enumerate() {
        let size = table.columns.len();
        for x in 0..size {
            for y in 0..size {
                if x == y {
                    continue;
                }
                let ours = spearman(&table.columns[x], &table.columns[y]);
                let what = format!("table {number_of}, columns {x} and {y}");
                assert_close(ours.r, number(&theirs["r"][x][y]), 1e-9, &what);
                // A coefficient of 1 up to rounding has a p-value of 0 up to rounding.
                if ours.r.abs() < 1.0 - 1e-12 {
                    assert_close(ours.p, number(&theirs["p"][x][y]), 1e-9, &what);
                }
            }
        }
        // The matrix of a ranking has the same cells.
        let ranking = rank(&Counts {
            segments: (1..size).map(|n| n.to_string()).collect(),
            values: table.columns[0].iter().map(ToString::to_string).collect(),
            whole: table.columns[0].clone(),
            cells: table.columns[1..].to_vec(),
            ..Counts::default()
        });
        for (x, row) in ranking.matrix.iter().enumerate() {
            for (y, r) in row.iter().enumerate() {
                assert_close(*r, number(&theirs["r"][x][y]), 1e-9, "matrix");
            }
        }
        let d = describe(&table.values);
        let ours = [
            d.count as f64,
            d.min,
            d.max,
            d.mean,
            d.variance,
            d.skewness,
            d.kurtosis,
        ];
        for (at, ours) in ours.into_iter().enumerate() {
            assert_close(ours, number(&theirs["describe"][at]), 1e-9, "describe");
        }
        let ours = shapiro(&table.values).unwrap();
        assert_close(ours.w, number(&theirs["shapiro"][0]), 1e-6, "W");
        assert_close(ours.p, number(&theirs["shapiro"][1]), 1e-6, "p of W");
        for (at, score) in table.scores.iter().enumerate() {
            let ours = percentile::rank_of(&table.values, *score);
            assert_close(ours, number(&theirs["percentiles"][at]), 1e-9, "percentile");
            let ours = student::two_sided(*score, table.values.len() as f64);
            assert_close(ours, number(&theirs["t"][at]), 1e-9, "Student's t");
            assert_close(
                normal::upper(*score),
                number(&theirs["normal"][at]),
                1e-9,
                "normal",
            );
        }
    }
}
