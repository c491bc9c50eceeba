//! The sizes of rows and filters, in bytes.
//!
//! The size of a gzipped row depends on the rows around it. A simple model is assumed (a constant,
//! plus a part that grows with the last label or segment) and scaled to the size measured on the
//! current map. A URI in a filter takes its width plus the overhead of a filter with that many
//! keys: the fewer keys, the more each takes, and every width has an entry in the table.

use crate::filter::part_size;
use crate::filter::ribbon::Width;
use crate::map::solve::RowPrice;

use super::choice::{OPEN, STATES, WIDEST};

/// The head of a companion.
pub(crate) const HEAD: u64 = 128;

/// The size of a row without its last label or segment, and the size of each byte of that, before
/// anything has been measured.
const ROW: f64 = 5.0;
const BYTE: f64 = 0.6;

/// The assumed number of keys of a width before anything is known.
const MANY: u64 = 1 << 17;

/// The sizes of rows and keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prices {
    /// The measured gzipped size of rows relative to the model.
    scale: f64,
    /// Marginal bytes per key, by state: zero if nothing or everything is present.
    keys: [f64; STATES],
    /// Widths that were not worth their table entry in the last measurement, and whether they are
    /// dropped.
    dropped: u32,
    settled: bool,
}

impl Prices {
    /// Nothing has been measured yet.
    pub(crate) fn new() -> Prices {
        Prices {
            scale: 1.0,
            keys: std::array::from_fn(|state| match state {
                1..=16 => key(state as u8, MANY),
                _ => 0.0,
            }),
            dropped: 0,
            settled: false,
        }
    }

    /// The price of a row.
    pub(crate) fn row(&self) -> RowPrice {
        RowPrice {
            row: self.scale * ROW,
            byte: self.scale * BYTE,
        }
    }

    /// Marginal bytes per key, by state.
    pub(crate) fn keys(&self) -> &[f64; STATES] {
        &self.keys
    }

    /// Whether rows may have filters of this width.
    pub(crate) fn allows(&self, width: u8) -> bool {
        !self.settled || self.dropped & 1 << width == 0
    }

    /// Drops the widths that are not worth their entry. None is dropped while prices are being
    /// learned: one that is unused at first may be the best in the end.
    pub(crate) fn settle(&mut self, settled: bool) {
        self.settled = settled;
    }

    /// Updates the sizes from a measurement: the estimated and the measured size of the rows, and
    /// the number of keys of each width.
    pub(crate) fn learn(&mut self, thought: f64, rows: f64, keys: &[u64; STATES]) {
        if thought > 0.0 && rows > 0.0 {
            self.scale *= (rows / thought).clamp(0.2, 5.0);
        }
        let mut keys = *keys;
        let mut kept: Vec<usize> = (1..OPEN).filter(|&width| keys[width] > 0).collect();
        // Starting with the width with the fewest keys, compares its overhead with the cost of
        // moving its keys to the nearest other width. Near the best width, one more or less costs
        // about a quarter of a bit per key; further away, the cost grows with the square.
        let mut order = kept.clone();
        order.sort_by_key(|&width| (keys[width], width));
        for width in order {
            let others = kept.iter().copied().filter(|&other| other != width);
            let Some(nearest) = others.min_by_key(|other| (other.abs_diff(width), *other)) else {
                break;
            };
            let count = keys[width];
            let fixed = bytes(width as u8, count) as f64 - count as f64 * key(width as u8, count);
            let away = nearest.abs_diff(width) as f64;
            if 0.035 * away * away * (count as f64) < fixed {
                keys[nearest] += std::mem::take(&mut keys[width]);
                kept.retain(|&other| other != width);
            }
        }
        self.dropped = 0;
        for width in 1..=WIDEST {
            if kept.contains(&usize::from(width)) {
                self.keys[usize::from(width)] = key(width, keys[usize::from(width)]);
            } else if !kept.is_empty() {
                self.dropped |= 1 << width;
            }
        }
    }
}

/// The size of a companion with these numbers of keys by width.
pub(crate) fn companion(keys: &[u64; STATES]) -> u64 {
    let parts: u64 = (1..OPEN)
        .filter(|&width| keys[width] > 0)
        .map(|width| bytes(width as u8, keys[width]))
        .sum();
    if parts == 0 { 0 } else { HEAD + parts }
}

/// The size of a width with this many keys, including its table entries.
fn bytes(width: u8, count: u64) -> u64 {
    part_size(count, Width::whole(width))
}

/// The marginal size of a key in a width with this many keys. Sizes grow in steps, so it is
/// averaged over a wide range.
fn key(width: u8, count: u64) -> f64 {
    let (less, more) = (count * 2 / 3, count * 3 / 2 + 2);
    (bytes(width, more) as f64 - bytes(width, less) as f64) / (more - less) as f64
}
