//! Three stages that run at the same time: one thread produces pieces, all cores process them, and the
//! caller takes the results in the order of the pieces.
//!
//! The number of pieces in flight is bounded: a slow disk stops the workers, and slow workers stop the
//! producer.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::{Error, ErrorKind};

/// How much is in flight at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Workers.
    pub threads: usize,
    /// Pieces that were produced and not taken yet. At least one.
    pub pieces: usize,
}

impl Width {
    /// All cores, with some queued pieces for each.
    pub fn full() -> Width {
        let threads = rayon::current_num_threads();
        Width {
            threads,
            pieces: 3 * threads + 2,
        }
    }

    /// All cores, as far as memory allows.
    pub fn within(memory: usize, worker: usize, piece: usize) -> Width {
        Width::full().bounded(memory, worker, piece)
    }

    /// Reduces it to fit in `memory`, if each worker and each piece needs so many bytes. At least one
    /// of each remains.
    fn bounded(self, memory: usize, worker: usize, piece: usize) -> Width {
        let threads = (memory / (worker + piece).max(1)).clamp(1, self.threads.max(1));
        let left = memory.saturating_sub(threads * worker);
        Width {
            threads,
            pieces: (left / piece.max(1)).clamp(1, self.pieces.max(1)),
        }
    }
}

/// Processes the pieces that `give` produces. Each worker has its own `worker()`, which turns a piece
/// into a result; `take` receives the results in the order of the pieces. The first error in that
/// order ends the run.
///
/// # Errors
/// Those of the stages, or [`Panicked`](ErrorKind::Panicked) if one of them panicked.
pub fn run<I: Send, O: Send, E: Send + From<Error>, W: FnMut(I) -> Result<O, E>>(
    width: Width,
    mut give: impl FnMut() -> Result<Option<I>, E> + Send,
    worker: impl Fn() -> W + Sync,
    mut take: impl FnMut(O) -> Result<(), E>,
) -> Result<(), E> {
    // No channel is ever full: each has room for all pieces in flight.
    let (send_piece, pieces) = sync_channel::<(usize, I)>(width.pieces);
    let (send_result, results) = sync_channel::<(usize, Result<O, E>)>(width.pieces);
    let (give_place, places) = sync_channel::<()>(width.pieces);
    for _ in 0..width.pieces {
        let _ = give_place.send(());
    }
    let pieces = Mutex::new(pieces);
    thread::scope(|scope| {
        let failed = send_result.clone();
        scope.spawn(move || {
            for number in 0.. {
                if places.recv().is_err() {
                    return;
                }
                let given = caught(&mut give);
                let sent = match given {
                    Ok(Some(piece)) => send_piece.send((number, piece)).is_ok(),
                    Ok(None) => false,
                    Err(error) => {
                        let _ = failed.send((number, Err(error)));
                        false
                    }
                };
                if !sent {
                    return;
                }
            }
        });
        for _ in 0..width.threads {
            let send_result = send_result.clone();
            let (pieces, worker) = (&pieces, &worker);
            scope.spawn(move || {
                // A worker that cannot start fails the first piece that it would have processed.
                let mut work = catch_unwind(AssertUnwindSafe(worker)).ok();
                loop {
                    let piece = locked(pieces).recv();
                    let Ok((number, piece)) = piece else {
                        return;
                    };
                    let result = match &mut work {
                        Some(work) => caught(|| work(piece)),
                        None => Err(panicked().into()),
                    };
                    if send_result.send((number, result)).is_err() {
                        // The producer may wait until one of the pieces that are left is dropped.
                        while locked(pieces).recv().is_ok() {}
                        return;
                    }
                }
            });
        }
        drop(send_result);
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        // An error drops this end of the channels, which ends the other stages.
        let give_place = give_place;
        for (number, result) in results {
            waiting.insert(number, result);
            while let Some(result) = waiting.remove(&next) {
                take(result?)?;
                next += 1;
                let _ = give_place.send(());
            }
        }
        Ok(())
    })
}

/// Converts a panic into an error, so that it neither hangs nor aborts the run.
fn caught<T, E: From<Error>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked().into()))
}

pub(crate) fn panicked() -> Error {
    Error::new(ErrorKind::Panicked)
}

/// A pool of values for reuse.
#[derive(Debug)]
pub struct Pool<T>(Mutex<Vec<T>>);

impl<T: Default> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool::new()
    }
}

impl<T: Default> Pool<T> {
    /// An empty pool.
    pub fn new() -> Pool<T> {
        Pool(Mutex::default())
    }

    /// A value that was put back, or a new one.
    pub fn get(&self) -> T {
        locked(&self.0).pop().unwrap_or_default()
    }

    /// Puts a value back.
    pub fn put(&self, thing: T) {
        locked(&self.0).push(thing);
    }
}

/// Ignores poisoning: a panic ends all threads anyway.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind, Result};
    use std::time::Duration;

    const WIDTH: Width = Width {
        threads: 4,
        pieces: 9,
    };

    fn numbers(until: u32) -> impl FnMut() -> Result<Option<u32>> + Send {
        let mut numbers = 0..until;
        move || Ok(numbers.next())
    }

    #[test]
    fn results_are_in_the_order_of_the_pieces() {
        for width in [
            WIDTH,
            Width {
                threads: 1,
                pieces: 1,
            },
        ] {
            let mut taken = Vec::new();
            let slow = |number: u32| {
                thread::sleep(Duration::from_micros(u64::from(number * 7919 % 211)));
                Ok(number)
            };
            run(
                width,
                numbers(500),
                || slow,
                |number| {
                    taken.push(number);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(taken, (0..500).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_error_in_order_ends_the_run_in_any_stage() {
        let fail = |number: u32| Error::new(ErrorKind::Invalid(number.to_string()));
        let mut given = 0;
        let ended = run(
            WIDTH,
            || {
                given += 1;
                if given > 300 {
                    Err(fail(300))
                } else {
                    Ok(Some(given))
                }
            },
            || {
                |number: u32| {
                    if number.is_multiple_of(100) {
                        Err(fail(number))
                    } else {
                        Ok(number)
                    }
                }
            },
            |_| Ok(()),
        );
        assert_eq!(ended.unwrap_err().to_string(), "100");
        let taking = run(
            WIDTH,
            numbers(1000),
            || Ok,
            |number| {
                if number == 17 {
                    Err(fail(number))
                } else {
                    Ok(())
                }
            },
        );
        assert_eq!(taking.unwrap_err().to_string(), "17");
        let giving = run(WIDTH, || Err::<Option<u32>, _>(fail(5)), || Ok, |_| Ok(()));
        assert_eq!(giving.unwrap_err().to_string(), "5");
    }

    /// A piece of which there are few at a time.
    struct Rare(std::sync::Arc<(Mutex<usize>, std::sync::Condvar)>);

    impl Drop for Rare {
        fn drop(&mut self) {
            *locked(&self.0.0) -= 1;
            self.0.1.notify_all();
        }
    }

    #[test]
    fn a_producer_that_waits_for_its_pieces_to_be_dropped_ends_after_an_error() {
        for threads in [1, 3] {
            let there = std::sync::Arc::new((Mutex::new(0), std::sync::Condvar::new()));
            let ended = run(
                Width { threads, pieces: 9 },
                || {
                    let there = std::sync::Arc::clone(&there);
                    let count = (there.1).wait_while(locked(&there.0), |count| *count >= 5);
                    *count.unwrap_or_else(PoisonError::into_inner) += 1;
                    Ok(Some(Rare(there)))
                },
                || {
                    |piece: Rare| {
                        thread::sleep(Duration::from_millis(2));
                        Ok(piece)
                    }
                },
                |_| Err(Error::new(ErrorKind::EndsEarly)),
            );
            assert!(ended.is_err());
        }
    }

    #[test]
    fn a_panic_in_any_stage_ends_the_run_with_an_error() {
        let boom = |number: u32| assert!(number != 20, "a panic that a test wants");
        let ends = [
            run(
                WIDTH,
                {
                    let mut next = 0;
                    move || {
                        next += 1;
                        boom(next);
                        Ok(Some(next))
                    }
                },
                || Ok::<u32, Error>,
                |_| Ok(()),
            ),
            run(
                WIDTH,
                numbers(1000),
                || {
                    move |number| {
                        boom(number);
                        Ok::<u32, Error>(number)
                    }
                },
                |_| Ok(()),
            ),
            run(
                WIDTH,
                numbers(1000),
                || -> fn(u32) -> Result<u32> { panic!("a panic that a test wants") },
                |_| Ok(()),
            ),
        ];
        for end in ends {
            assert!(matches!(end.unwrap_err().kind(), ErrorKind::Panicked));
        }
    }

    #[test]
    fn memory_bounds_the_width_however_many_cores_there_are() {
        let many = Width {
            threads: 256,
            pieces: 770,
        };
        assert_eq!(many.bounded(1 << 40, 1 << 10, 1 << 10), many);
        for memory in [0, 1 << 20, 1 << 24, 1 << 27, 1 << 30, 1 << 34] {
            for (worker, piece) in [(0, 33 << 20), (48 << 20, 20 << 20), (0, 0), (1, 1 << 33)] {
                let width = many.bounded(memory, worker, piece);
                let used = width.threads * worker + width.pieces * piece;
                assert!(used <= memory.max(worker + piece), "{width:?} in {memory}");
            }
        }
    }
}
