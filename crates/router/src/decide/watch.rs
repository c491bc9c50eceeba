//! A thread that keeps summaries up to date and writes what was learned to its file.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use waypost_io::IoContext;

use super::Decider;
use crate::Registry;

/// How often files are compared with what was read from them.
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);

/// How often what was learned is written.
const BETWEEN_FLUSHES: Duration = Duration::from_secs(30);

/// A watch over summaries, which ends when it is dropped.
pub struct Watch {
    stopped: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Decider {
    /// Compares the summaries of the registry, which may be another one each time, with their files
    /// once a second from now on, and writes what was learned now and then.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn watch(
        self: &Arc<Decider>,
        registry: impl Fn() -> Arc<Registry> + Send + 'static,
    ) -> waypost_io::Result<Watch> {
        let stopped = Arc::new((Mutex::new(false), Condvar::new()));
        let (decider, stop) = (Arc::clone(self), Arc::clone(&stopped));
        let work = move || {
            let mut flushed = Instant::now();
            while !wait(&stop) {
                decider.refresh(&registry(), true);
                if flushed.elapsed() >= BETWEEN_FLUSHES {
                    flushed = Instant::now();
                    decider.flush_or_warn();
                }
            }
            decider.flush_or_warn();
        };
        let thread = std::thread::Builder::new()
            .name("summaries".to_owned())
            .spawn(work)
            .doing("start a thread for", "summaries")?;
        Ok(Watch {
            stopped,
            thread: Some(thread),
        })
    }

    fn flush_or_warn(&self) {
        if let Err(error) = self.flush() {
            (self.warn)(&error.to_string());
        }
    }
}

/// Waits until it is time for the next check. Whether to stop instead.
fn wait(stop: &(Mutex<bool>, Condvar)) -> bool {
    let (stopped, changed) = stop;
    let stopped = stopped.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = changed.wait_timeout_while(stopped, BETWEEN_CHECKS, |stopped| !*stopped);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

impl Drop for Watch {
    /// Waits until what was learned is written.
    fn drop(&mut self) {
        let (stopped, changed) = &*self.stopped;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
