//! The outline of a map: what is needed to find the map of least cost at any price.
//!
//! Where nothing below a place can ever roll up, what it costs is a straight line: its rows, and λ for
//! each lookup in vain that they call present. Such lines are added up on the way, and only the places
//! where there is something to choose are kept, in the order in which they are closed. A few bytes each,
//! they are read again for every price, which is many times faster than reading the map.

use std::path::Path;

use super::cost::Top;
use super::decision::{Decisions, ROLL, VOID_BELOW, VOID_HERE};
use super::tape::Tape;
use crate::error::{Error, Result};

/// How many bytes are written at once.
const CHUNK: usize = 1 << 18;

/// Rows, and lookups in vain that are called present: if nothing is said above, and below a wildcard.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Line {
    pub(crate) absent_rows: u64,
    pub(crate) absent_wrong: f64,
    pub(crate) open_rows: u64,
    pub(crate) open_wrong: f64,
}

impl Line {
    #[inline]
    pub(crate) fn add(&mut self, other: &Line) {
        self.absent_rows += other.absent_rows;
        self.absent_wrong += other.absent_wrong;
        self.open_rows += other.open_rows;
        self.open_wrong += other.open_wrong;
    }

    /// Whether a wildcard of so many rows is at no price cheaper.
    #[inline]
    pub(crate) fn stays(&self, rows: u64) -> bool {
        rows + self.open_rows >= self.absent_rows && self.open_wrong >= self.absent_wrong
    }
}

/// A place with something to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Choosing {
    pub(crate) id: usize,
    /// Its slot among the open places, and that of its parent.
    pub(crate) slot: usize,
    pub(crate) parent: usize,
    /// What it costs beside the places below it that are kept.
    pub(crate) line: Line,
    /// Lookups in vain at the place itself that a void would turn away.
    pub(crate) here: f64,
    /// Rows of a wildcard.
    pub(crate) rows: u64,
    /// How far up wildcards must be allowed to stand for one here.
    pub(crate) top: Option<Top>,
    /// A void may stand here for all below.
    pub(crate) can_void: bool,
    /// What the map came with decides: the line is all that it costs.
    pub(crate) given: u8,
}

const OPEN_ROWS: u8 = 1;
const ABSENT_WRONG: u8 = 2;
const OPEN_WRONG: u8 = 4;
const HERE: u8 = 8;
const ROWS: u8 = 16;
const CAN_VOID: u8 = 32;
const GIVEN: u8 = 64;

/// The places with something to choose, in the order in which they are closed.
#[derive(Debug)]
pub(crate) struct Outline {
    tape: Tape,
    chunk: Vec<u8>,
    /// The last place's number, from which the next one's is not far.
    last: usize,
    slots: usize,
}

/// What maps cost at several prices.
pub(crate) struct Priced<const L: usize> {
    pub(crate) rows: [f64; L],
    pub(crate) costs: [f64; L],
}

/// Rows and their cost for each price.
#[derive(Clone, Copy)]
struct Lanes<const L: usize> {
    cost: [f64; L],
    rows: [f64; L],
}

impl<const L: usize> Lanes<L> {
    const ZERO: Lanes<L> = Lanes {
        cost: [0.0; L],
        rows: [0.0; L],
    };

    #[inline]
    fn add(&mut self, other: &Lanes<L>) {
        for l in 0..L {
            self.cost[l] += other.cost[l];
            self.rows[l] += other.rows[l];
        }
    }

    #[inline]
    fn add_line(&mut self, lambdas: &[f64; L], rows: u64, wrong: f64) {
        let rows = rows as f64;
        for (l, lambda) in lambdas.iter().enumerate() {
            self.cost[l] += rows + lambda * wrong;
            self.rows[l] += rows;
        }
    }
}

impl Outline {
    /// Nothing yet. What does not fit into memory is put in `folder`.
    pub(crate) fn new(folder: &Path) -> Outline {
        Outline {
            tape: Tape::new(folder),
            chunk: Vec::with_capacity(CHUNK + 128),
            last: 0,
            slots: 1,
        }
    }

    /// Keeps a place.
    pub(crate) fn push(&mut self, place: &Choosing) -> Result<()> {
        let out = &mut self.chunk;
        let line = &place.line;
        let mut flags = 0;
        for (flag, is) in [
            (OPEN_ROWS, line.open_rows != 0),
            (ABSENT_WRONG, line.absent_wrong != 0.0),
            (OPEN_WRONG, line.open_wrong != 0.0),
            (HERE, place.here != 0.0),
            (ROWS, place.rows != 1),
            (CAN_VOID, place.can_void),
            (GIVEN, place.given != 0),
        ] {
            flags |= if is { flag } else { 0 };
        }
        out.push(flags);
        out.push(place.top.map_or(u8::MAX, |top| top as u8));
        let step = place.id as i64 - self.last as i64;
        self.last = place.id;
        push_number(out, ((step << 1) ^ (step >> 63)) as u64);
        push_number(out, place.slot as u64);
        push_number(out, (place.slot - place.parent) as u64);
        push_number(out, line.absent_rows);
        if line.open_rows != 0 {
            push_number(out, line.open_rows);
        }
        for weight in [line.absent_wrong, line.open_wrong, place.here] {
            if weight != 0.0 {
                out.extend_from_slice(&weight.to_le_bytes());
            }
        }
        if place.rows != 1 {
            push_number(out, place.rows);
        }
        if place.given != 0 {
            out.push(place.given);
        }
        self.slots = self.slots.max(place.slot + 1);
        if self.chunk.len() >= CHUNK {
            self.tape.push(&self.chunk)?;
            self.chunk.clear();
        }
        Ok(())
    }

    /// Writes down the last of it.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.tape.push(&self.chunk)?;
        self.chunk = Vec::new();
        Ok(())
    }

    /// The least that a map costs, for `L` prices at once: rows, and λ for every lookup in vain that is
    /// called present. `void` is what a void costs, in rows. Decisions are those of the first price.
    pub(crate) fn price<const L: usize>(
        &self,
        lambdas: [f64; L],
        top: Top,
        void: Option<f64>,
        mut decisions: Option<&mut Decisions>,
    ) -> Result<Priced<L>> {
        let mut slots = vec![(Lanes::ZERO, Lanes::ZERO); self.slots];
        let mut chunk = Vec::new();
        let mut last = 0;
        let mut root = Lanes::ZERO;
        for number in 0..self.tape.chunks() {
            self.tape.read(number, &mut chunk)?;
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let place = next(&mut rest, &mut last)
                    .filter(|place| place.slot < slots.len())
                    .ok_or_else(|| Error::invalid("a temporary file was changed"))?;
                let below = std::mem::replace(&mut slots[place.slot], (Lanes::ZERO, Lanes::ZERO));
                let (absent, open, decision) = least(&place, below, &lambdas, top, void);
                if let Some(decisions) = &mut decisions {
                    decisions.set(place.id, decision);
                }
                if place.slot == 0 {
                    root = absent;
                    continue;
                }
                slots[place.parent].0.add(&absent);
                slots[place.parent].1.add(&open);
            }
        }
        Ok(Priced {
            rows: root.rows,
            costs: root.cost,
        })
    }
}

/// The least that a place costs with all below it, and what is decided at the first price.
#[inline]
fn least<const L: usize>(
    place: &Choosing,
    (mut absent, mut open): (Lanes<L>, Lanes<L>),
    lambdas: &[f64; L],
    top: Top,
    void: Option<f64>,
) -> (Lanes<L>, Lanes<L>, u8) {
    let line = &place.line;
    absent.add_line(lambdas, line.absent_rows, line.absent_wrong);
    open.add_line(lambdas, line.open_rows, line.open_wrong);
    if place.given != 0 {
        return (absent, open, place.given);
    }
    let may_roll = place.top.is_some_and(|least| top >= least);
    let rows = place.rows as f64;
    let mut decision = 0;
    for l in (0..L).rev() {
        decision = 0;
        if place.here != 0.0 {
            let wrong = lambdas[l] * place.here;
            match void {
                Some(price) if price < wrong => {
                    open.rows[l] += 1.0;
                    open.cost[l] += price;
                    decision |= VOID_HERE;
                }
                _ => open.cost[l] += wrong,
            }
        }
        let (stay_absent, stay_open) = (
            (absent.cost[l], absent.rows[l]),
            (open.cost[l], open.rows[l]),
        );
        if may_roll && rows + stay_open.0 < stay_absent.0 {
            absent.cost[l] = rows + stay_open.0;
            absent.rows[l] = rows + stay_open.1;
            decision |= ROLL;
        }
        if let Some(price) = void
            && place.can_void
            && price + stay_absent.0 < stay_open.0
        {
            open.cost[l] = price + stay_absent.0;
            open.rows[l] = 1.0 + stay_absent.1;
            decision |= VOID_BELOW;
        }
    }
    (absent, open, decision)
}

/// The next place. `None` if the bytes are not what [`Outline::push`] wrote.
#[inline]
fn next(rest: &mut &[u8], last: &mut usize) -> Option<Choosing> {
    let flags = byte(rest)?;
    let has = |flag: u8| flags & flag != 0;
    let top = byte(rest)?;
    let step = number(rest)?;
    let step = (step >> 1) as i64 ^ -((step & 1) as i64);
    *last = usize::try_from(*last as i64 + step).ok()?;
    let slot = number(rest)? as usize;
    let parent = slot.checked_sub(number(rest)? as usize)?;
    let absent_rows = number(rest)?;
    let open_rows = if has(OPEN_ROWS) { number(rest)? } else { 0 };
    let mut weight = |flag: u8| -> Option<f64> {
        if flags & flag == 0 {
            return Some(0.0);
        }
        let (bytes, behind) = rest.split_first_chunk()?;
        *rest = behind;
        Some(f64::from_le_bytes(*bytes))
    };
    let (absent_wrong, open_wrong, here) =
        (weight(ABSENT_WRONG)?, weight(OPEN_WRONG)?, weight(HERE)?);
    Some(Choosing {
        id: *last,
        slot,
        parent,
        line: Line {
            absent_rows,
            absent_wrong,
            open_rows,
            open_wrong,
        },
        here,
        rows: if has(ROWS) { number(rest)? } else { 1 },
        top: Top::ALL.get(usize::from(top)).copied(),
        can_void: has(CAN_VOID),
        given: if has(GIVEN) { byte(rest)? } else { 0 },
    })
}

#[inline]
fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, behind) = rest.split_first()?;
    *rest = behind;
    Some(byte)
}

/// Seven bits a byte, the lowest first.
#[inline]
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = byte(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[inline]
fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn choosing() -> impl Strategy<Value = Choosing> {
        let weight = || prop_oneof![Just(0.0), -5.0..1e9f64];
        (
            (any::<u32>(), 0..60usize, 0..60usize),
            (any::<u64>(), weight(), 0..3u64, weight(), weight()),
            (
                0..3u64,
                prop::option::of(prop::sample::select(&Top::ALL[..])),
                any::<bool>(),
                0..3u8,
            ),
        )
            .prop_map(
                |((id, slot, up), (a, b, c, d, here), (rows, top, can_void, given))| Choosing {
                    id: id as usize,
                    slot,
                    parent: slot.saturating_sub(up),
                    line: Line {
                        absent_rows: a,
                        absent_wrong: b,
                        open_rows: c,
                        open_wrong: d,
                    },
                    here,
                    rows,
                    top,
                    can_void,
                    given,
                },
            )
    }

    proptest! {
        #[test]
        fn what_is_kept_comes_back(places in prop::collection::vec(choosing(), 0..40)) {
            let folder = tempfile::tempdir().unwrap();
            let mut outline = Outline::new(folder.path());
            for place in &places {
                outline.push(place).unwrap();
            }
            let mut rest = &outline.chunk[..];
            let mut last = 0;
            for place in &places {
                prop_assert_eq!(next(&mut rest, &mut last), Some(*place));
            }
            prop_assert!(rest.is_empty());
        }
    }
}
