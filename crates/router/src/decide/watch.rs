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
    threads: Vec<JoinHandle<()>>,
}

impl Decider {
    /// Compares the summaries of the registry, which may be another one each time, with their files
    /// once a second from now on, and writes what was learned now and then.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn watch(
        self: &Arc<Decider>,
        registry: impl Fn() -> Arc<Registry> + Send + Sync + 'static,
    ) -> waypost_io::Result<Watch> {
        let stopped = Arc::new((Mutex::new(false), Condvar::new()));
        let registry = Arc::new(registry);
        let (decider, stop) = (Arc::clone(self), Arc::clone(&stopped));
        let current = Arc::clone(&registry);
        let compare = move || {
            let mut flushed = Instant::now();
            while !wait(&stop, BETWEEN_CHECKS) {
                decider.refresh(&current(), true);
                if flushed.elapsed() >= BETWEEN_FLUSHES {
                    flushed = Instant::now();
                    decider.flush_or_warn();
                }
            }
            decider.flush_or_warn();
        };
        let (decider, stop) = (Arc::clone(self), Arc::clone(&stopped));
        // Downloads may take long, and nobody waits for them.
        let download = move || {
            loop {
                decider.download(&registry());
                let interval = decider.read_config().refresh;
                if wait(&stop, interval) {
                    break;
                }
            }
        };
        start("downloads", download)?;
        Ok(Watch {
            threads: vec![start("summaries", compare)?],
            stopped,
        })
    }

    fn flush_or_warn(&self) {
        if let Err(error) = self.flush() {
            (self.warn)(&error.to_string());
        }
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> waypost_io::Result<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(work).doing("start a thread for", name)
}

/// Waits for some time. Whether to stop instead.
fn wait(stop: &(Mutex<bool>, Condvar), time: Duration) -> bool {
    let (stopped, changed) = stop;
    let stopped = stopped.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = changed.wait_timeout_while(stopped, time, |stopped| !*stopped);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

impl Drop for Watch {
    /// Waits until what was learned is written.
    fn drop(&mut self) {
        let (stopped, changed) = &*self.stopped;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
