//! What a process spends its time on: reading, writing, computing or waiting.
//!
//! Readers and writers of files add up how long the system took. Together with the CPU time of the
//! process, that tells what bounded a run, and so whether a faster disk or more cores would help.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static READING: AtomicU64 = AtomicU64::new(0);
static WRITING: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Adds up the time of a read of a file or pipe, which returns the number of bytes.
pub(crate) fn reading(read: impl FnOnce() -> std::io::Result<usize>) -> std::io::Result<usize> {
    let start = Instant::now();
    let done = read();
    READING.fetch_add(nanoseconds(start), Ordering::Relaxed);
    if let Ok(bytes) = done {
        BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    }
    done
}

/// Adds up the time of a write to a file or pipe.
pub(crate) fn writing<T>(write: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = write();
    WRITING.fetch_add(nanoseconds(start), Ordering::Relaxed);
    done
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The bytes that this process has read so far.
pub fn bytes_read() -> u64 {
    BYTES.load(Ordering::Relaxed)
}

/// What a run spent its time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// How long it took.
    pub whole: Duration,
    /// How long threads read. Several may read at a time.
    pub reading: Duration,
    /// How long threads wrote.
    pub writing: Duration,
    /// CPU time of all threads.
    pub computing: Duration,
    /// The number of cores.
    pub cores: usize,
}

/// What bounded a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bound {
    /// All cores were busy.
    Computing,
    /// Cores waited for input.
    Reading,
    /// Cores waited for output.
    Writing,
    /// Some cores waited for others.
    Waiting,
}

impl Bound {
    /// Its name: `computing`.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Computing => "computing",
            Bound::Reading => "reading",
            Bound::Writing => "writing",
            Bound::Waiting => "waiting",
        }
    }
}

impl Spent {
    /// What this process has spent since `start`.
    pub fn since(start: Instant) -> Spent {
        let time = |counter: &AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        Spent {
            whole: start.elapsed(),
            reading: time(&READING),
            writing: time(&WRITING),
            computing: cpu_time(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// The average number of busy cores.
    pub fn busy_cores(&self) -> f64 {
        share(self.computing, self.whole)
    }

    /// What bounded the run: the cores if they were busy for four fifths of the time, or else reading
    /// or writing if one of them went on for half of it.
    pub fn bound(&self) -> Bound {
        let (reading, writing) = (
            share(self.reading, self.whole),
            share(self.writing, self.whole),
        );
        if self.busy_cores() >= 0.8 * self.cores as f64 {
            Bound::Computing
        } else if reading.max(writing) < 0.5 {
            Bound::Waiting
        } else if reading >= writing {
            Bound::Reading
        } else {
            Bound::Writing
        }
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64().max(1e-9)
}

/// The CPU time of all threads of this process; nothing where the system does not tell.
fn cpu_time() -> Duration {
    #[cfg(target_os = "linux")]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::from_secs(seconds)
            + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
    }
    #[cfg(not(target_os = "linux"))]
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(reading: u64, writing: u64, computing: u64) -> Spent {
        Spent {
            whole: Duration::from_secs(10),
            reading: Duration::from_secs(reading),
            writing: Duration::from_secs(writing),
            computing: Duration::from_secs(computing),
            cores: 2,
        }
    }

    #[test]
    fn the_bound_is_what_the_cores_waited_for() {
        assert_eq!(spent(9, 1, 18).bound(), Bound::Computing);
        assert_eq!(spent(9, 1, 11).bound(), Bound::Reading);
        assert_eq!(spent(2, 7, 9).bound(), Bound::Writing);
        assert_eq!(spent(1, 1, 10).bound(), Bound::Waiting);
    }

    #[test]
    fn reading_and_computing_are_counted() {
        let (start, before) = (Instant::now(), bytes_read());
        let read = reading(|| {
            std::thread::sleep(Duration::from_millis(20));
            Ok(7)
        });
        let spent = Spent::since(start);
        assert_eq!(read.unwrap(), 7);
        assert!(bytes_read() >= before + 7);
        assert!(spent.reading >= Duration::from_millis(20));
        assert!(spent.computing > Duration::ZERO);
    }
}
