//! The progress of a run, in phases: reading, sorting, writing.
//!
//! A library reports to a [`Progress`] that its caller created; the caller reads the same value from
//! another thread to show it. Reporting is one atomic addition and never waits.
//!
//! ```
//! use waypost_io::progress::{Phase, Progress};
//!
//! let progress = Progress::new();
//! let shown = progress.clone();
//! progress.begin(Phase::Writing, Some(1_000));
//! progress.add(250);
//! let now = shown.snapshot();
//! assert_eq!((now.phase.name(), now.done, now.total), ("writing", 250, Some(1_000)));
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::source::Source;

/// What is being done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Reading the input.
    #[default]
    Reading,
    /// Receiving remote files.
    Fetching,
    /// Sorting or merging what was read.
    Sorting,
    /// Searching for the best result.
    Solving,
    /// Comparing with lookups.
    LookingUp,
    /// Writing the result.
    Writing,
}

impl Phase {
    const ALL: [Phase; 6] = [
        Phase::Reading,
        Phase::Fetching,
        Phase::Sorting,
        Phase::Solving,
        Phase::LookingUp,
        Phase::Writing,
    ];

    /// Its name: `reading`, `sorting`.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Reading => "reading",
            Phase::Fetching => "fetching",
            Phase::Sorting => "sorting",
            Phase::Solving => "solving",
            Phase::LookingUp => "looking up",
            Phase::Writing => "writing",
        }
    }
}

/// A value that libraries report to. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    phase: AtomicU8,
    /// The number of bytes to process in this phase; 0 if unknown.
    total: AtomicU64,
    done: AtomicU64,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The current phase.
    pub phase: Phase,
    /// The number of bytes processed in this phase.
    pub done: u64,
    /// The number of bytes to process, if known.
    pub total: Option<u64>,
}

impl Progress {
    /// Nothing done yet.
    pub fn new() -> Progress {
        Progress::default()
    }

    /// Begins a phase of `total` bytes, if that is known.
    pub fn begin(&self, phase: Phase, total: Option<u64>) {
        let shared = &self.shared;
        shared.done.store(0, Ordering::Relaxed);
        shared.total.store(total.unwrap_or(0), Ordering::Relaxed);
        shared.phase.store(phase as u8, Ordering::Release);
    }

    /// Begins reading these sources, as stored.
    pub fn read(&self, sources: &[Source]) {
        self.begin(
            Phase::Reading,
            sources.iter().map(Source::size).sum::<Option<u64>>(),
        );
    }

    /// Adds to the bytes processed.
    #[inline]
    pub fn add(&self, done: u64) {
        self.shared.done.fetch_add(done, Ordering::Relaxed);
    }

    /// Adds to the bytes processed, in large steps, for loops that do little for each item.
    pub fn steps(&self) -> Steps<'_> {
        Steps {
            progress: self,
            pending: 0,
        }
    }

    /// The current state.
    pub fn snapshot(&self) -> Snapshot {
        let phase = usize::from(self.shared.phase.load(Ordering::Acquire));
        let total = self.shared.total.load(Ordering::Relaxed);
        Snapshot {
            phase: Phase::ALL.get(phase).copied().unwrap_or_default(),
            done: self.shared.done.load(Ordering::Relaxed),
            total: (total > 0).then_some(total),
        }
    }
}

/// Reports to a [`Progress`] once for every 64 KiB.
pub struct Steps<'a> {
    progress: &'a Progress,
    pending: u64,
}

impl Steps<'_> {
    /// Adds to the bytes processed.
    #[inline]
    pub fn add(&mut self, done: u64) {
        self.pending += done;
        if self.pending >= 64 << 10 {
            self.progress.add(std::mem::take(&mut self.pending));
        }
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        self.progress.add(self.pending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_what_is_reported_and_a_phase_starts_at_zero() {
        let progress = Progress::new();
        let shown = progress.clone();
        progress.begin(Phase::Reading, Some(10));
        progress.add(4);
        progress.add(3);
        let expected = Snapshot {
            phase: Phase::Reading,
            done: 7,
            total: Some(10),
        };
        assert_eq!(shown.snapshot(), expected);
        let mut steps = progress.steps();
        steps.add(1);
        drop(steps);
        assert_eq!(shown.snapshot().done, 8);
        progress.begin(Phase::Writing, None);
        assert_eq!(shown.snapshot().phase.name(), "writing");
        assert_eq!((shown.snapshot().done, shown.snapshot().total), (0, None));
    }
}
