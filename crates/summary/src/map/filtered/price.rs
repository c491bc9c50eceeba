//! What rows and filters take, in bytes.
//!
//! A row takes what gzip makes of it, which depends on the rows around it. A shape is assumed (a row
//! costs something, and more if its last label or segment is long), and how much that comes to is
//! measured on the map at hand. A URI in a filter takes its width and what a filter of as many keys
//! adds to it: few keys take more each, and every width has an entry in the table.

use crate::filter::part_size;
use crate::filter::ribbon::Width;
use crate::map::solve::RowPrice;

use super::choice::{OPEN, STATES, WIDEST};

/// The head of a companion.
pub(crate) const HEAD: u64 = 128;

/// What a row takes beside its last label or segment, and what each byte of that takes, before it is
/// known what gzip makes of the map at hand.
const ROW: f64 = 5.0;
const BYTE: f64 = 0.6;

/// Keys that a width is thought to have as long as nothing is known.
const MANY: u64 = 1 << 17;

/// What things take.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prices {
    /// What gzip makes of rows, against the shape that is assumed.
    scale: f64,
    /// Bytes for each key more, by state: none if nothing or everything is present.
    keys: [f64; STATES],
    /// Widths that are not worth their entry in the table, as far as was last measured, and whether
    /// they are left out.
    dropped: u32,
    settled: bool,
}

impl Prices {
    /// Nothing is known of the map.
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

    /// What a row takes.
    pub(crate) fn row(&self) -> RowPrice {
        RowPrice {
            row: self.scale * ROW,
            byte: self.scale * BYTE,
        }
    }

    /// Bytes for each key more, by state.
    pub(crate) fn keys(&self) -> &[f64; STATES] {
        &self.keys
    }

    /// Whether rows may have filters of a width.
    pub(crate) fn allows(&self, width: u8) -> bool {
        !self.settled || self.dropped & 1 << width == 0
    }

    /// Leaves out the widths that are not worth it. As long as prices are learned none is left out: one
    /// that nobody needs at first may be the best in the end.
    pub(crate) fn settle(&mut self, settled: bool) {
        self.settled = settled;
    }

    /// Takes in what was measured: what rows were thought to take, what they took, and how many keys each
    /// width had.
    pub(crate) fn learn(&mut self, thought: f64, rows: f64, keys: &[u64; STATES]) {
        if thought > 0.0 && rows > 0.0 {
            self.scale *= (rows / thought).clamp(0.2, 5.0);
        }
        let mut keys = *keys;
        let mut kept: Vec<usize> = (1..OPEN).filter(|&width| keys[width] > 0).collect();
        // Widths with the fewest keys first: what each takes for itself against what it costs when
        // its keys go to the nearest other. Near the best width, one more or less costs about a
        // quarter of a bit for each key, and further off it grows with the square.
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

/// What a companion takes with so many keys of each width.
pub(crate) fn companion(keys: &[u64; STATES]) -> u64 {
    let parts: u64 = (1..OPEN)
        .filter(|&width| keys[width] > 0)
        .map(|width| bytes(width as u8, keys[width]))
        .sum();
    if parts == 0 { 0 } else { HEAD + parts }
}

/// What a width with so many keys takes, with its entries in the table.
fn bytes(width: u8, count: u64) -> u64 {
    part_size(count, Width::whole(width))
}

/// What each key more takes if there are so many of a width. Sizes go in steps, so a wide one is
/// looked at.
fn key(width: u8, count: u64) -> f64 {
    let (less, more) = (count * 2 / 3, count * 3 / 2 + 2);
    (bytes(width, more) as f64 - bytes(width, less) as f64) / (more - less) as f64
}
