//! The progress of a run, in phases: reading, sorting, writing.
//!
//! A library reports to a [`Progress`] that its caller made; whoever shows it reads the same value
//! from another thread. Reporting is one atomic addition and never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What is being done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// The input is read.
    #[default]
    Reading,
    /// What was read is sorted or merged.
    Sorting,
    /// A best result is searched for.
    Solving,
    /// The result is written.
    Writing,
}

impl Phase {
    const ALL: [Phase; 4] = [
        Phase::Reading,
        Phase::Sorting,
        Phase::Solving,
        Phase::Writing,
    ];

    /// Its name: `reading`, `sorting`.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Reading => "reading",
            Phase::Sorting => "sorting",
            Phase::Solving => "solving",
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
    /// How much there is to do in this phase; 0 if that is not known.
    total: AtomicU64,
    done: AtomicU64,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What is being done.
    pub phase: Phase,
    /// How much of it, in bytes as they are stored, is done.
    pub done: u64,
    /// How much there is to do, if that is known.
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

    /// So much more is done.
    #[inline]
    pub fn add(&self, done: u64) {
        self.shared.done.fetch_add(done, Ordering::Relaxed);
    }

    /// So much is done in all.
    pub fn set(&self, done: u64) {
        self.shared.done.store(done, Ordering::Relaxed);
    }

    /// How far it has come.
    pub fn snapshot(&self) -> Snapshot {
        let phase = usize::from(self.shared.phase.load(Ordering::Acquire));
        let total = self.shared.total.load(Ordering::Relaxed);
        Snapshot {
            phase: Phase::ALL.get(phase).copied().unwrap_or_default(),
            done: self.shared.done.load(Ordering::Relaxed),
            total: (total > 0).then_some(total),
        }
    }

    /// The counter of bytes, for those who only count.
    pub fn counter(&self) -> &AtomicU64 {
        &self.shared.done
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
        progress.begin(Phase::Writing, None);
        assert_eq!(shown.snapshot().phase.name(), "writing");
        assert_eq!((shown.snapshot().done, shown.snapshot().total), (0, None));
    }
}
