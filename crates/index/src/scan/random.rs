//! Reads files in random ranges, to test jobs.

use std::fs;
use std::path::Path;

use waypost_io::{IoContext, Result};

use super::{Job, Outcome, Ranges, ranges};

impl<J: Job> Ranges<'_, J> {
    /// Reads files in random ranges, and merges the pieces in a random grouping, serialising some of
    /// them in between. For tests of a job: the result must not depend on the `seed`.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn read_at_random(
        &self,
        paths: &[impl AsRef<Path>],
        mut seed: u64,
    ) -> Result<(J::Partial, Outcome)> {
        let mut below = |limit: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % limit.max(1)
        };
        let mut pieces = Vec::new();
        for path in paths {
            let path = path.as_ref();
            let length = fs::metadata(path).doing("open", path)?.len();
            for range in ranges(path, 1 + below(length))? {
                pieces.push(self.read(&range)?);
            }
        }
        while pieces.len() > 1 {
            let at = below(pieces.len() as u64 - 1) as usize;
            let later = pieces.remove(at + 1);
            let earlier = pieces.remove(at);
            let merged = self.merge(earlier, later)?;
            let merged = match below(2) {
                0 => merged,
                _ => self.from_bytes(&self.to_bytes(&merged)?)?,
            };
            pieces.insert(at, merged);
        }
        match pieces.pop() {
            Some(piece) => self.finish(piece),
            None => Ok((self.job.empty(), Outcome::default())),
        }
    }
}
