//! Properties of ribbon filters: recall, rates, sizes.

use super::width::rate;
use super::*;
use crate::filter::Hasher;
use crate::filter::hash::Hash;
use proptest::prelude::*;

/// A filter of several shards, without a file.
struct Ribbon {
    shards: Vec<Shard>,
    buckets: u64,
    columns: u8,
    keys: u64,
}

struct Shard {
    place: Place,
    rows: Vec<u8>,
    stored: Vec<u8>,
    starts: Vec<u32>,
}

impl Ribbon {
    fn new(hashes: &[Hash], shards: u64, width: Width) -> Ribbon {
        let mut workshop = Workshop::default();
        let (keys, columns) = (hashes.len() as u64, width.columns());
        let buckets = buckets(keys, shards, columns);
        let shard = |number| {
            let own: Vec<Hash> = hashes
                .iter()
                .copied()
                .filter(|&hash| position(hash, shards, shards * buckets).shard == number)
                .collect();
            let (mut rows, mut stored, mut starts) = (Vec::new(), Vec::new(), Vec::new());
            let built = workshop
                .build(&own, (shards, buckets), width, &mut rows, &mut stored)
                .unwrap();
            let (count, narrow) = (built.rows, built.narrow);
            assert_eq!(
                rows.len() as u64,
                bytes_of_rows(count.into(), columns, narrow.into())
            );
            assert_eq!(stored.len() as u64, bytes_of_starts(buckets));
            assert!(built.rate <= width.rate() * 1.000_001);
            bucket::starts(count, buckets, &stored, &mut starts);
            Shard {
                place: Place::new(0, count, narrow),
                rows,
                stored,
                starts,
            }
        };
        Ribbon {
            shards: (0..shards).map(shard).collect(),
            buckets,
            columns,
            keys,
        }
    }

    fn contains(&self, hash: Hash) -> bool {
        let (probe, rows) = self.probe::<false>(hash);
        probe.answer::<Folded>(rows)
    }

    /// What to check for a hash, and the rows of its shard.
    fn probe<const EIGHT: bool>(&self, hash: Hash) -> (Probe, &[u8]) {
        let shards = self.shards.len() as u64;
        let position = position(hash, shards, shards * self.buckets);
        let shard = &self.shards[position.shard as usize];
        let bucket = (position.bucket - position.shard * self.buckets) as usize;
        let starts = [shard.starts[bucket], shard.starts[bucket + 1]];
        let probe = shard
            .place
            .probe::<EIGHT>(hash, position, starts, self.columns);
        (probe, &shard.rows)
    }

    /// Bits of payload for each key.
    fn bits_per_key(&self) -> f64 {
        let sizes = self
            .shards
            .iter()
            .map(|shard| shard.rows.len() + shard.stored.len());
        sizes.sum::<usize>() as f64 * 8.0 / self.keys as f64
    }

    /// How many of `tries` hashes that are not held are called present.
    fn false_positives(&self, tries: u64) -> u64 {
        (0..tries)
            .filter(|&number| self.contains(hash("out", number)))
            .count() as u64
    }
}

/// A lookup as it is compiled for a processor.
struct Ask<'a, const EIGHT: bool>(&'a Ribbon, Hash);

impl<const EIGHT: bool> Work for Ask<'_, EIGHT> {
    type Output = bool;

    #[inline(always)]
    fn run<P: Parity>(self) -> bool {
        let (probe, rows) = self.0.probe::<EIGHT>(self.1);
        probe.answer::<P>(rows)
    }
}

fn hash(stream: &str, number: u64) -> Hash {
    Hasher::Public.hash(format!("{stream}{number}").as_bytes())
}

fn hashes(stream: &str, count: u64) -> Vec<Hash> {
    let mut hashes: Vec<Hash> = (0..count).map(|number| hash(stream, number)).collect();
    hashes.sort_unstable();
    hashes
}

fn any_bits() -> impl Strategy<Value = f64> {
    prop_oneof![(1u8..=WIDEST).prop_map(f64::from), 1.0..f64::from(WIDEST)]
}

proptest! {
    #[test]
    fn every_hash_that_is_held_is_found(
        hashes in proptest::collection::vec(any::<u128>(), 0..3000),
        repeated in 0usize..100,
        bits in any_bits(),
        shards in 1u64..5,
    ) {
        let mut hashes = hashes;
        hashes.extend_from_within(..repeated.min(hashes.len()));
        let ribbon = Ribbon::new(&hashes, shards, Width::of_bits(bits).unwrap());
        for &hash in &hashes {
            prop_assert!(ribbon.contains(hash));
        }
    }

    /// Bad hashes: all close together, all equal, or equal in one half.
    #[test]
    fn hashes_that_crowd_are_found(
        first in any::<u128>(),
        step in prop_oneof![Just(0u128), Just(1), Just(1 << 64), Just(1 << 100), any::<u128>()],
        count in 1u128..3000,
        bits in any_bits(),
    ) {
        let hashes: Vec<Hash> = (0..count)
            .map(|number| first.wrapping_add(step.wrapping_mul(number)))
            .collect();
        let ribbon = Ribbon::new(&hashes, 1, Width::of_bits(bits).unwrap());
        for &hash in &hashes {
            prop_assert!(ribbon.contains(hash));
        }
    }

    #[test]
    fn the_order_of_hashes_does_not_matter(
        count in 0u64..3000,
        bits in any_bits(),
        rotate in 0usize..3000,
    ) {
        let mut hashes = hashes("in", count);
        let width = Width::of_bits(bits).unwrap();
        let sorted = Ribbon::new(&hashes, 1, width);
        hashes.rotate_left(rotate.min(count as usize));
        hashes.reverse();
        let turned = Ribbon::new(&hashes, 1, width);
        prop_assert_eq!(&sorted.shards[0].rows, &turned.shards[0].rows);
        prop_assert_eq!(&sorted.shards[0].stored, &turned.shards[0].stored);
    }
}

/// With one and two columns, many hashes that are not held are called present.
#[test]
fn every_processor_gives_the_same_answers() {
    let processors: Vec<Processor> = Processor::all().collect();
    assert_eq!(processors.last(), Some(&Processor::detect()));
    let held = hashes("in", 3000);
    for bits in (2..=2 * WIDEST).map(|half| f64::from(half) / 2.0) {
        let ribbon = Ribbon::new(&held, 2, Width::of_bits(bits).unwrap());
        let others = (0..1000).map(|number| hash("out", number));
        for hash in held.iter().copied().chain(others) {
            let expected = ribbon.contains(hash);
            for processor in &processors {
                let found = processor.run(Ask::<false>(&ribbon, hash));
                assert_eq!(found, expected, "{bits} bits on {processor:?}");
                if bits == 8.0 {
                    let found = processor.run(Ask::<true>(&ribbon, hash));
                    assert_eq!(found, expected, "as eight columns on {processor:?}");
                }
            }
        }
    }
}

#[test]
fn nothing_is_held_where_nothing_was_inserted() {
    for width in [1, 8, 32] {
        let ribbon = Ribbon::new(&[], 3, Width::whole(width));
        assert_eq!(ribbon.false_positives(1000), 0);
    }
}

/// For each number of keys, many filters: what is rare in one shows in the sum.
#[test]
fn the_rate_is_two_to_the_minus_width_at_every_size() {
    for (keys, filters) in [
        (1, 300),
        (20, 300),
        (200, 100),
        (1000, 40),
        (1030, 40),
        (5000, 8),
        (40_000, 2),
    ] {
        for bits in [1.0, 1.3, 3.0, 4.0, 5.7, 7.0, 8.0, 11.0] {
            let width = Width::of_bits(bits).unwrap();
            let (mut found, mut tried) = (0, 0);
            for filter in 0..filters {
                let held = hashes(&format!("in {filter} "), keys);
                let tries = 200_000 / filters;
                found += Ribbon::new(&held, 1, width).false_positives(tries);
                tried += tries;
            }
            // Few rows cannot be cut finely: then more of them are wide.
            let blocks = keys as f64 / 64.0;
            let least = tried as f64 * rate(width.columns(), width.narrow() - 3.0 / blocks);
            let most = tried as f64 * width.rate();
            let deviations = match found as f64 {
                found if width.narrow() > 0.0 && found < most => {
                    ((found - least) / least.max(1.0).sqrt()).min(0.0)
                }
                found => (found - most) / most.sqrt(),
            };
            assert!(
                deviations.abs() < 4.5,
                "{keys} keys, {bits} bits: {deviations}"
            );
        }
    }
}

/// A random equation that depends on those of the keys is a false positive at any width: wide rows
/// show how many there are.
#[test]
fn hardly_any_equation_depends_on_the_others() {
    for (keys, filters) in [(1000, 100), (4000, 25), (33_000, 3), (65_000, 1)] {
        let found: u64 = (0..filters)
            .map(|filter| {
                let held = hashes(&format!("in {filter} "), keys);
                Ribbon::new(&held, 1, Width::whole(20)).false_positives(1_000_000 / filters)
            })
            .sum();
        // One is expected by chance.
        assert!(found <= 8, "{keys} keys: {found}");
    }
}

/// Few keys need the most rows for each. Whether a random equation depends on those of the keys is
/// found out from the equations: lookups would take a hundred times as many.
#[test]
fn a_thousand_keys_are_within_four_percent_of_the_limit() {
    let others: Vec<Hash> = (0..50_000).map(|number| hash("out", number)).collect();
    let filters = 20;
    for columns in [1, 4, 8, 12, 16, 20] {
        let (width, counts) = (Width::whole(columns), (1, buckets(1000, 1, columns)));
        let mut dependent = 0;
        for filter in 0..filters {
            let held = hashes(&format!("in {filter} "), 1000);
            let mut workshop = Workshop::default();
            let (mut rows, mut stored) = (Vec::new(), Vec::new());
            workshop
                .build(&held, counts, width, &mut rows, &mut stored)
                .unwrap();
            dependent += others
                .iter()
                .filter(|&&hash| workshop.depends(hash, counts))
                .count();
        }
        let share = dependent as f64 / (filters * others.len()) as f64;
        let rate = 0.5f64.powi(columns.into()) * (1.0 - share) + share;
        let ratio = bytes(1000, width) as f64 * 8.0 / 1000.0 / -rate.log2();
        assert!(
            ratio <= 1.0375,
            "{columns} bits: {ratio}, {dependent} depend"
        );
    }
}

#[test]
fn sizes_are_within_four_percent_of_the_limit() {
    for columns in 1..=WIDEST {
        let width = Width::whole(columns);
        let over = |bits: f64| bits / f64::from(columns);
        for keys in [1000, 1500, 5000, 20_000, 40_000] {
            let bits = Ribbon::new(&hashes("in", keys), 1, width).bits_per_key();
            assert_eq!(bits, bytes(keys, width) as f64 * 8.0 / keys as f64);
            // Wide rows need some more, which matters if they are few.
            if columns <= 20 || keys > 1000 {
                assert!(over(bits) < 1.0375, "{keys} keys, {columns} bits: {bits}");
            }
        }
        // With head and table, which large filters are not excused from.
        for keys in [100_000u64, 1_000_000, 180_000_000, 10_000_000_000] {
            let bytes = crate::filter::file_size(crate::filter::Kind::Ribbon, keys, columns.into());
            let bits = bytes as f64 * 8.0 / keys as f64;
            assert!(over(bits) < 1.0375, "{keys} keys, {columns} bits: {bits}");
        }
    }
}

#[test]
fn widths_in_between_cost_little_more_than_their_rates() {
    let keys = 40_000;
    for rate in [
        0.9,
        0.5,
        0.3,
        0.1,
        0.01,
        0.0066,
        0.0039,
        1.0 / 256.0,
        0.001,
        1e-9,
    ] {
        let width = Width::of_rate(rate).unwrap();
        assert!(width.rate() <= rate * 1.000_001, "{rate}");
        let bits = bytes(keys, width) as f64 * 8.0 / keys as f64;
        let limit = -rate.min(0.5).log2();
        // A mixture of two widths is not quite as good as one in between would be.
        assert!(bits < 1.03 * limit + 0.09, "{rate}: {bits} bits");
    }
    assert_eq!(Width::of_rate(1.0 / 256.0), Some(Width::whole(8)));
    assert_eq!(Width::of_rate(1e-10), None);
    assert_eq!(Width::of_bits(0.5), None);
    assert_eq!(Width::of_bits(32.5), None);
}

#[test]
fn sizes_beyond_32_bits_are_counted() {
    assert!(bytes(10_000_000_000, Width::whole(9)) > 11_250_000_000);
    assert!(bytes(u64::MAX / 64, Width::whole(32)) > 1 << 58);
    assert_eq!(bytes(0, Width::whole(9)), 0);
}
