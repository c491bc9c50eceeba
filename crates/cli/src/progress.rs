//! A bar that shows how many bytes are read, how fast, and how long it will take. Hidden off a
//! terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows a number that others count up, until it is dropped.
pub(crate) struct Progress {
    done: Arc<AtomicU64>,
    shown: Option<Shown>,
}

struct Shown {
    bar: ProgressBar,
    over: Arc<AtomicBool>,
    ticker: JoinHandle<()>,
}

impl Progress {
    /// `total` is how many bytes there are, if that is known.
    pub(crate) fn new(what: &'static str, total: Option<u64>, show: bool) -> Progress {
        let done = Arc::new(AtomicU64::new(0));
        let shown = show.then(|| {
            let bar = match total {
                Some(total) => ProgressBar::new(total),
                None => ProgressBar::new_spinner(),
            };
            let template = match total {
                Some(_) => {
                    "{msg} {bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}, {eta} left"
                }
                None => "{msg} {spinner} {decimal_bytes} {decimal_bytes_per_sec}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_message(what);
            let over = Arc::new(AtomicBool::new(false));
            let ticker = thread::spawn({
                let (bar, done, over) = (bar.clone(), Arc::clone(&done), Arc::clone(&over));
                move || {
                    while !over.load(Ordering::Relaxed) {
                        bar.set_position(done.load(Ordering::Relaxed));
                        thread::park_timeout(Duration::from_millis(100));
                    }
                }
            });
            Shown { bar, over, ticker }
        });
        Progress { done, shown }
    }

    /// What to count up.
    pub(crate) fn bytes(&self) -> &Arc<AtomicU64> {
        &self.done
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(shown) = self.shown.take() {
            shown.over.store(true, Ordering::Relaxed);
            shown.ticker.thread().unpark();
            let _ = shown.ticker.join();
            shown.bar.finish_and_clear();
        }
    }
}
