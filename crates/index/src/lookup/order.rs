//! Collects captures to return them in another order than that of the index.

use std::collections::BTreeMap;

use waypost_io::Result;

use super::{Order, too_many};
use crate::capture::Capture;
use crate::layout::Shape;
use crate::revisit::Original;

/// A selected capture.
pub(crate) struct Found<'l> {
    pub(crate) capture: Capture<'l>,
    pub(crate) shape: Shape,
    pub(crate) original: Option<Original>,
}

/// Maximum number of bytes to keep.
const MOST: usize = 256 << 20;

/// The first captures in some order, up to a limit.
pub(crate) struct Kept {
    order: Order,
    limit: usize,
    /// By rank: the distance in time, or the reverse position.
    rows: BTreeMap<(u64, u64), (Vec<u8>, Option<Original>)>,
    seen: u64,
    bytes: usize,
}

impl Kept {
    pub(crate) fn new(order: Order, limit: Option<u64>) -> Kept {
        Kept {
            order,
            limit: limit.map_or(usize::MAX, |limit| limit as usize),
            rows: BTreeMap::new(),
            seen: 0,
            bytes: 0,
        }
    }

    pub(crate) fn add(&mut self, found: &Found<'_>) -> Result<()> {
        self.seen += 1;
        let rank = match self.order {
            // At the same distance, the one that comes first in the index.
            Order::Closest(time) => {
                let own = found.capture.time().map_or(i64::MAX, |own| own.unix());
                (own.abs_diff(time.unix()), self.seen)
            }
            Order::Forward => (0, self.seen),
            Order::Reverse => (0, u64::MAX - self.seen),
        };
        if self.rows.len() >= self.limit {
            match self.rows.last_key_value() {
                Some((worst, _)) if *worst > rank => {
                    if let Some((_, (line, _))) = self.rows.pop_last() {
                        self.bytes -= line.len();
                    }
                }
                _ => return Ok(()),
            }
        }
        let line = found.capture.line().to_vec();
        self.bytes += line.len();
        if self.bytes > MOST {
            return Err(too_many());
        }
        self.rows.insert(rank, (line, found.original.clone()));
        Ok(())
    }

    pub(crate) fn into_rows(self) -> impl Iterator<Item = (Vec<u8>, Option<Original>)> {
        self.rows.into_values()
    }
}
