//! How many distinct things there are, about, in a few kilobytes: HyperLogLog.
//!
//! With 2^14 registers, the standard error is 1.04/√2^14 = 0.81%. The estimator is that of Ertl (*New
//! cardinality estimation algorithms for HyperLogLog sketches*, 2017), which needs no corrections for
//! small or large numbers. Few hashes are kept as they are, and then the count is exact.

use waypost_io::partial::{Decoder, Encoder};
use waypost_io::{Error, ErrorKind, Result};

/// The number of bits of a hash that choose the register.
const BITS: u32 = 14;
const REGISTERS: usize = 1 << BITS;
/// The largest value of a register.
const MOST: u32 = 64 - BITS + 1;
/// So many hashes are kept as they are.
const FEW: usize = 1_024;

/// The standard error of the estimate.
pub const ERROR: f64 = 1.04 / (1 << (BITS / 2)) as f64;

/// Counts distinct hashes.
///
/// ```
/// use waypost_insight::numeric::distinct::Distinct;
///
/// let mut distinct = Distinct::default();
/// for hash in [7, 8, 7] {
///     distinct.add(hash);
/// }
/// assert_eq!(distinct.estimate(), 2.0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distinct {
    /// All hashes, sorted but for those added last.
    Few(Vec<u64>),
    /// For each register, one more than the most zeros at the start of a hash.
    Many(Box<[u8]>),
}

impl Default for Distinct {
    fn default() -> Distinct {
        Distinct::Few(Vec::new())
    }
}

impl Distinct {
    /// Adds a hash, whose bits must be evenly distributed.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        match self {
            Distinct::Few(hashes) => {
                if hashes.last() != Some(&hash) {
                    hashes.push(hash);
                    if hashes.len() >= 2 * FEW {
                        self.tidy();
                    }
                }
            }
            Distinct::Many(registers) => {
                let register = &mut registers[(hash >> (64 - BITS)) as usize];
                // The bit that is set limits the number of zeros.
                let zeros = (hash << BITS | 1 << (BITS - 1)).leading_zeros();
                *register = (*register).max(zeros as u8 + 1);
            }
        }
    }

    /// Removes duplicates, and changes to registers if there are too many hashes.
    #[cold]
    fn tidy(&mut self) {
        let Distinct::Few(hashes) = self else {
            return;
        };
        hashes.sort_unstable();
        hashes.dedup();
        if hashes.len() > FEW {
            let hashes = std::mem::take(hashes);
            *self = Distinct::Many(vec![0; REGISTERS].into());
            hashes.into_iter().for_each(|hash| self.add(hash));
        }
    }

    /// Adds all hashes of another.
    pub fn merge(&mut self, mut other: Distinct) {
        if let (Distinct::Few(_), Distinct::Many(_)) = (&*self, &other) {
            std::mem::swap(self, &mut other);
        }
        match (&mut *self, other) {
            (_, Distinct::Few(hashes)) => hashes.into_iter().for_each(|hash| self.add(hash)),
            (Distinct::Many(ours), Distinct::Many(theirs)) => {
                for (our, their) in ours.iter_mut().zip(theirs) {
                    *our = (*our).max(their);
                }
            }
            // They were exchanged.
            (Distinct::Few(_), Distinct::Many(_)) => {}
        }
    }

    /// The number of distinct hashes, about.
    pub fn estimate(&self) -> f64 {
        match self {
            Distinct::Few(hashes) => {
                let mut hashes = hashes.clone();
                hashes.sort_unstable();
                hashes.dedup();
                hashes.len() as f64
            }
            Distinct::Many(registers) => estimate(registers),
        }
    }

    /// Serialises it.
    pub fn encode(&self, out: &mut Encoder) {
        match self {
            Distinct::Few(hashes) => {
                out.number(0);
                let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
                out.text(&bytes);
            }
            Distinct::Many(registers) => {
                out.number(1);
                out.text(registers);
            }
        }
    }

    /// Deserialises it.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Distinct> {
        let damaged = || {
            Error::new(ErrorKind::Format(
                "the bytes of a partial are damaged".to_owned(),
            ))
        };
        let kind = from.number()?;
        let bytes = from.text()?;
        match kind {
            0 => {
                let (hashes, rest) = bytes.as_chunks::<8>();
                if !rest.is_empty() {
                    return Err(damaged());
                }
                let mut distinct = Distinct::default();
                for hash in hashes {
                    distinct.add(u64::from_le_bytes(*hash));
                }
                Ok(distinct)
            }
            1 if bytes.len() == REGISTERS
                && bytes.iter().all(|value| u32::from(*value) <= MOST) =>
            {
                Ok(Distinct::Many(bytes.into()))
            }
            _ => Err(damaged()),
        }
    }
}

/// Ertl's estimator.
fn estimate(registers: &[u8]) -> f64 {
    let mut counts = [0u32; MOST as usize + 1];
    for value in registers {
        counts[usize::from(*value)] += 1;
    }
    let size = REGISTERS as f64;
    let share = |value: usize| f64::from(counts[value]) / size;
    let mut sum = size * tau(1.0 - share(MOST as usize));
    for value in (1..MOST as usize).rev() {
        sum = 0.5 * (sum + f64::from(counts[value]));
    }
    sum += size * sigma(share(0));
    size * size / (2.0 * std::f64::consts::LN_2 * sum)
}

fn sigma(x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut x, mut y, mut z) = (x, 1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut x, mut y, mut z) = (x, 1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    fn of(numbers: impl Iterator<Item = u64>) -> Distinct {
        let mut distinct = Distinct::default();
        for number in numbers {
            distinct.add(xxh3_64(&number.to_le_bytes()));
        }
        distinct
    }

    #[test]
    fn estimates_are_within_four_standard_errors_at_every_size() {
        for size in [0, 1, 100, 1_024, 1_025, 5_000, 30_000, 100_000, 2_000_000] {
            let estimate = of(0..size).estimate();
            let off = (estimate - size as f64).abs();
            assert!(off <= 4.0 * ERROR * size as f64, "{size}: {estimate}");
            assert!(
                size > FEW as u64 || estimate == size as f64,
                "{size}: {estimate}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_order_and_the_pieces_do_not_matter(
            numbers in prop::collection::vec(0u64..6_000, 0..6_000),
            cut in 0usize..6_000,
            seed in any::<u64>(),
        ) {
            let whole = of(numbers.iter().copied());
            let (a, b) = numbers.split_at(cut.min(numbers.len()));
            let mut merged = of(b.iter().rev().copied());
            merged.merge(of(a.iter().copied()));
            prop_assert_eq!(whole.estimate(), merged.estimate());
            let mut out = Encoder::new("distinct", 1);
            merged.encode(&mut out);
            let bytes = out.finish();
            let mut from = Decoder::new(&bytes, "distinct", 1).unwrap();
            prop_assert_eq!(Distinct::decode(&mut from).unwrap().estimate(), merged.estimate());
            // Damage is an error or another number, never a panic.
            let mut bytes = bytes;
            let at = (seed % bytes.len() as u64) as usize;
            bytes[at] ^= (seed >> 32) as u8 | 1;
            if let Ok(mut from) = Decoder::new(&bytes, "distinct", 1)
                && let Ok(damaged) = Distinct::decode(&mut from)
            {
                let _ = damaged.estimate();
            }
        }
    }
}
