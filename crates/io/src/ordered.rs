//! Processes work on many threads and returns the results in input order.
//!
//! The producer, the workers and the consumer run at the same time, with a bounded number of pieces
//! in flight: a slow disk stops the workers, and slow workers stop the producer.

use crossbeam_channel::{Receiver, Sender, bounded};
use std::thread::{self, JoinHandle};

use crate::error::{Error, ErrorKind, Result};

/// Workers between a producer of `I` and a consumer of `O`.
pub struct Ordered<I, T> {
    jobs: Option<Sender<(I, usize)>>,
    workers: Vec<JoinHandle<()>>,
    taker: Option<JoinHandle<Result<T>>>,
    /// Permits: one is taken for each piece in flight and returned by the consumer.
    places: Receiver<()>,
    given: usize,
}

impl<I: Send + 'static, T: Send + 'static> Ordered<I, T> {
    /// Starts `threads` workers. Each has its own `worker()`, which turns a piece into a result.
    /// `take` receives the results in the order of the pieces, along with `state`, which
    /// [`Ordered::finish`] returns.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new<O, W>(
        threads: usize,
        mut worker: impl FnMut() -> W,
        mut state: T,
        mut take: impl FnMut(&mut T, O) -> Result<()> + Send + 'static,
    ) -> Result<Ordered<I, T>>
    where
        O: Send + 'static,
        W: FnMut(I) -> O + Send + 'static,
    {
        let depth = 2 * threads + 2;
        let (jobs, take_job) = bounded::<(I, usize)>(depth);
        let (send_result, results) = bounded::<(O, usize)>(depth);
        let (give_place, places) = bounded::<()>(depth);
        for _ in 0..depth {
            // The channel has room for all of them.
            let _ = give_place.send(());
        }
        let mut workers = Vec::new();
        for _ in 0..threads.max(1) {
            let (take_job, send_result) = (take_job.clone(), send_result.clone());
            let mut work = worker();
            workers.push(spawn("waypost-work", move || {
                for (piece, number) in take_job {
                    if send_result.send((work(piece), number)).is_err() {
                        break;
                    }
                }
            })?);
        }
        drop(send_result);
        let taker = spawn("waypost-write", move || {
            let mut waiting: std::collections::BTreeMap<usize, O> = Default::default();
            let mut next = 0;
            for (result, number) in results {
                waiting.insert(number, result);
                while let Some(result) = waiting.remove(&next) {
                    take(&mut state, result)?;
                    next += 1;
                    let _ = give_place.send(());
                }
            }
            Ok(state)
        })?;
        Ok(Ordered {
            jobs: Some(jobs),
            workers,
            taker: Some(taker),
            places,
            given: 0,
        })
    }

    /// Passes a piece to the workers. Blocks while too many are in flight.
    ///
    /// # Errors
    /// If taking an earlier result failed.
    pub fn give(&mut self, piece: I) -> Result<()> {
        let number = self.given;
        self.given += 1;
        let given = self.places.recv().is_ok()
            && (self.jobs.as_ref()).is_some_and(|jobs| jobs.send((piece, number)).is_ok());
        if given {
            return Ok(());
        }
        self.end().and_then(|_| Err(lost()))
    }

    /// Waits until all results have been taken.
    ///
    /// # Errors
    /// If taking a result failed.
    pub fn finish(mut self) -> Result<T> {
        self.end()
    }

    fn end(&mut self) -> Result<T> {
        self.jobs = None;
        for worker in self.workers.drain(..) {
            worker.join().map_err(|_| lost())?;
        }
        match self.taker.take() {
            Some(taker) => taker.join().map_err(|_| lost())?,
            None => Err(lost()),
        }
    }
}

/// Waits, so that what the consumer holds, such as a temporary file, is dropped before the process
/// ends.
impl<I, T> Drop for Ordered<I, T> {
    fn drop(&mut self) {
        self.jobs = None;
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
        if let Some(taker) = self.taker.take() {
            let _ = taker.join();
        }
    }
}

pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|source| {
            Error::new(ErrorKind::Io {
                doing: "start a thread",
                source,
            })
        })
}

pub(crate) fn lost() -> Error {
    Error::new(ErrorKind::Panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_input_order_however_long_each_takes() {
        for threads in [1, 2, 7] {
            let mut ordered = Ordered::new(
                threads,
                || {
                    |n: u64| {
                        thread::sleep(std::time::Duration::from_micros(n * 7919 % 300));
                        n * 2
                    }
                },
                Vec::new(),
                |seen, n| {
                    seen.push(n);
                    Ok(())
                },
            )
            .unwrap();
            for n in 0..200 {
                ordered.give(n).unwrap();
            }
            let seen = ordered.finish().unwrap();
            assert_eq!(seen, (0..200).map(|n| n * 2).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn a_consumer_that_fails_stops_the_producer() {
        let mut ordered = Ordered::new(
            2,
            || |n: u32| n,
            (),
            |(), n| {
                if n == 3 {
                    return Err(Error::new(ErrorKind::Invalid("full".to_owned())));
                }
                Ok(())
            },
        )
        .unwrap();
        let error = (0..100).find_map(|n| ordered.give(n).err()).unwrap();
        assert_eq!(error.to_string(), "full");
    }
}
