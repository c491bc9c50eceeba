//! How many different things there are, exactly, in bounded memory.
//!
//! Things are known by a hash of 128 bits (XXH3): among ten billion, the chance that any two share
//! one is 10⁻¹⁹. Hashes are gathered, sorted and made unique; what does not fit is spilled as a
//! sorted run, and the runs are merged at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use rayon::slice::ParallelSliceMut;

use crate::error::{IoContext, Result};

/// Counts different hashes.
#[derive(Debug)]
pub(crate) struct Distinct {
    most: usize,
    waiting: Vec<u128>,
    runs: Vec<File>,
}

impl Distinct {
    /// Keeps about `memory` bytes.
    pub(crate) fn new(memory: usize) -> Distinct {
        // The vector grows by doubling, and for a moment there are the old one and the new one.
        let most = (memory / size_of::<u128>() / 3).max(1024);
        Distinct {
            most,
            waiting: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Whether the next hashes may have to be spilled.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.most
    }

    /// Takes in hashes.
    pub(crate) fn add(&mut self, hashes: &[u128]) -> Result<()> {
        for some in hashes.chunks(self.most) {
            if self.waiting.len() + some.len() > self.most {
                self.squeeze();
                if self.waiting.len() > self.most / 2 {
                    self.spill()?;
                }
            }
            self.waiting.extend_from_slice(some);
        }
        Ok(())
    }

    fn squeeze(&mut self) {
        self.waiting.par_sort_unstable();
        self.waiting.dedup();
    }

    fn spill(&mut self) -> Result<()> {
        let folder = std::env::temp_dir();
        let file = tempfile::tempfile().doing("write temporary files in", &folder)?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        for hash in self.waiting.drain(..) {
            out.write_all(&hash.to_le_bytes())
                .doing("write temporary files in", &folder)?;
        }
        let file = out
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .doing("write temporary files in", &folder)?;
        self.runs.push(file);
        Ok(())
    }

    /// How many there are.
    pub(crate) fn count(mut self) -> Result<u64> {
        self.squeeze();
        if self.runs.is_empty() {
            return Ok(self.waiting.len() as u64);
        }
        self.spill()?;
        let mut runs = Vec::new();
        for mut file in self.runs {
            file.seek(SeekFrom::Start(0))
                .doing("read temporary files in", std::env::temp_dir())?;
            runs.push(BufReader::with_capacity(1 << 16, file));
        }
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            if let Some(hash) = next(run)? {
                heads.push(Reverse((hash, number)));
            }
        }
        let (mut count, mut last) = (0, None);
        while let Some(Reverse((hash, number))) = heads.pop() {
            if last != Some(hash) {
                count += 1;
                last = Some(hash);
            }
            if let Some(hash) = next(&mut runs[number])? {
                heads.push(Reverse((hash, number)));
            }
        }
        Ok(count)
    }
}

fn next(run: &mut BufReader<File>) -> Result<Option<u128>> {
    let mut bytes = [0; 16];
    match run.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(u128::from_le_bytes(bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error).doing("read temporary files in", std::env::temp_dir()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn the_count_is_exact_whatever_the_memory(
            hashes in proptest::collection::vec(0u128..5000, 0..20_000),
            memory in 0usize..200_000,
            piece in 1usize..3000,
        ) {
            let mut distinct = Distinct::new(memory);
            for some in hashes.chunks(piece) {
                distinct.add(some).unwrap();
            }
            let expected: HashSet<u128> = hashes.into_iter().collect();
            prop_assert_eq!(distinct.count().unwrap(), expected.len() as u64);
        }
    }
}
