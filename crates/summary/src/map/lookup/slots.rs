//! Filling the slots of a table on all cores.
//!
//! A key takes the first free slot from its home on, and sorted keys take slots in order. Workers fill
//! the slots of each range of keys as if there were no keys before it. If the range before extends
//! beyond the home of the first key, the first slots move up, into the first empty slots of the range.
//! Those behind stay where they are, so joining two ranges moves few slots.

use std::ops::Range;

use waypost_io::Resources;
use waypost_io::pipeline::{self, Pool, Width};

use super::table::{entry, home};
use crate::error::Result;
use crate::filter::{Run, RunReader};

/// A slot in the file.
pub(super) type Slot = [u8; 8];

const EMPTY: Slot = [0; 8];

/// How many keys a worker takes at a time: as many as are read from a file at a time.
pub(super) const RANGE: usize = 1 << 16;

/// The memory of a worker, in bytes: keys as they are read, and decoded.
const WORKER: usize = 2 * 16 * RANGE;

/// The memory of a filled range, in bytes: a table has one and a half slots for each key.
const FILLED: usize = 3 * 8 * RANGE / 2;

/// The slots of a range of keys.
struct Filled {
    /// The home of the first key, which is the number of the first slot.
    first: u64,
    slots: Vec<Slot>,
}

/// Passes on the slots of a table with `homes` homes, in order. The last one is empty: every search
/// ends there.
pub(super) fn fill(
    run: &Run,
    homes: u64,
    range: usize,
    room: &Resources,
    mut out: impl FnMut(&[Slot]) -> Result<()>,
) -> Result<()> {
    let mut starts = (0..run.count()).step_by(range);
    let ranges = run.count().div_ceil(range as u64);
    let mut width = Width::within(room.memory / 4, WORKER, FILLED);
    // Small tables are built often: each server opens many.
    width.threads = (width.threads.min(room.threads)).min(ranges.max(1) as usize);
    let buffers = Pool::new();
    // The first slot that no key has taken.
    let mut next = 0;
    pipeline::run(
        width,
        || Ok(starts.next()),
        || {
            let (mut reader, buffers) = (run.reader(), &buffers);
            move |start| {
                reader.seek(start);
                fill_range(&mut reader, homes, range, buffers.get())
            }
        },
        |mut filled| {
            leave_empty(next..filled.first, &mut out)?;
            let taken = next.saturating_sub(filled.first);
            let start = move_up(&mut filled.slots, taken);
            let slots = &filled.slots[start..];
            out(slots)?;
            next = next.max(filled.first) + slots.len() as u64;
            filled.slots.clear();
            buffers.put(filled.slots);
            Ok(())
        },
    )?;
    leave_empty(next..homes.max(next) + 1, &mut out)
}

/// Fills the slots of the next keys.
fn fill_range(
    reader: &mut RunReader<'_>,
    homes: u64,
    mut range: usize,
    slots: Vec<Slot>,
) -> Result<Filled> {
    let mut filled = Filled { first: 0, slots };
    while range > 0 {
        let keys = reader.peek()?;
        let keys = &keys[..keys.len().min(range)];
        let Some(key) = keys.first() else { break };
        if filled.slots.is_empty() {
            filled.first = home((key >> 64) as u64, homes);
        }
        for &key in keys {
            let (hash, offset) = ((key >> 64) as u64, key as u64);
            let home = (home(hash, homes) - filled.first) as usize;
            if home > filled.slots.len() {
                filled.slots.resize(home, EMPTY);
            }
            filled.slots.push(entry(hash, offset).to_le_bytes());
        }
        let count = keys.len();
        range -= count;
        reader.take(count);
    }
    Ok(filled)
}

/// Moves slots up because the first `taken` places are taken, as far as there are empty slots for that.
/// Returns where the slots begin now.
fn move_up(slots: &mut [Slot], taken: u64) -> usize {
    let (mut end, mut empty) = (0, 0);
    while empty < taken && end < slots.len() {
        empty += u64::from(slots[end] == EMPTY);
        end += 1;
    }
    let mut start = end;
    for from in (0..end).rev() {
        if slots[from] != EMPTY {
            start -= 1;
            slots[start] = slots[from];
        }
    }
    start
}

/// Passes on empty slots for all places of a range.
fn leave_empty(places: Range<u64>, mut out: impl FnMut(&[Slot]) -> Result<()>) -> Result<()> {
    let some = [EMPTY; 512];
    let mut left = places.end.saturating_sub(places.start);
    while left > 0 {
        let now = left.min(some.len() as u64);
        out(&some[..now as usize])?;
        left -= now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::filter::RunWriter;

    /// The slots of a table, one key after the other.
    fn expected(keys: &BTreeSet<u128>, homes: u64) -> Vec<Slot> {
        let mut slots = vec![EMPTY; homes as usize];
        for key in keys {
            let (hash, offset) = ((key >> 64) as u64, *key as u64);
            let from = home(hash, homes) as usize;
            let free = slots[from..].iter().position(|slot| *slot == EMPTY);
            let place = free.map_or(slots.len(), |free| from + free);
            slots.resize(slots.len().max(place + 1), EMPTY);
            slots[place] = entry(hash, offset).to_le_bytes();
        }
        slots.push(EMPTY);
        slots
    }

    proptest! {
        #[test]
        fn ranges_are_joined_where_they_overflow(
            hashes in prop::collection::vec(prop_oneof![any::<u64>(), (0..5u64).prop_map(|high| high << 61)], 0..200),
            homes in 1..300u64,
            range in 1..60usize,
            threads in 1..4usize,
            memory in prop_oneof![Just(0usize), Just(1 << 30)],
        ) {
            let keys = hashes.iter().zip(0u64..).map(|(&hash, offset)| u128::from(hash) << 64 | u128::from(offset));
            let keys: BTreeSet<u128> = keys.collect();
            let mut run = RunWriter::new(memory, &std::env::temp_dir());
            for key in &keys {
                run.push_chunk(vec![*key]).unwrap();
            }
            let room = Resources { threads, memory, ..Resources::default() };
            let mut slots = Vec::new();
            fill(&run.finish().unwrap(), homes, range, &room, |part| {
                slots.extend_from_slice(part);
                Ok(())
            }).unwrap();
            prop_assert_eq!(slots, expected(&keys, homes));
        }
    }
}
