//! A progress bar with the phase of a run, its rate and the remaining time. Hidden if stderr is not a
//! terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The phases of a run: reading a known number of bytes, then work of unknown length.
#[derive(Clone, Copy)]
pub(crate) struct Phases {
    /// While the input is read: `reading`.
    pub(crate) first: &'static str,
    /// When all of it was read: `writing`.
    pub(crate) then: &'static str,
}

impl Phases {
    pub(crate) const READ_WRITE: Phases = Phases {
        first: "reading",
        then: "writing",
    };
}

/// Shows a counter until it is dropped.
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
    /// `total` is how many bytes there are to read, if that is known.
    pub(crate) fn new(phases: Phases, total: Option<u64>, show: bool) -> Progress {
        let done = Arc::new(AtomicU64::new(0));
        let shown = show.then(|| {
            let bar = match total {
                Some(total) => ProgressBar::new(total),
                None => ProgressBar::new_spinner(),
            };
            style(
                &bar,
                match total {
                    Some(_) => {
                        "{msg} {bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}, {eta} left"
                    }
                    None => "{msg} {spinner} {decimal_bytes} {decimal_bytes_per_sec}",
                },
            );
            bar.set_message(phases.first);
            let over = Arc::new(AtomicBool::new(false));
            let ticker = thread::spawn({
                let (bar, done, over) = (bar.clone(), Arc::clone(&done), Arc::clone(&over));
                move || {
                    let mut all_read = false;
                    while !over.load(Ordering::Relaxed) {
                        let read = done.load(Ordering::Relaxed);
                        if !all_read && total.is_some_and(|total| total > 0 && read >= total) {
                            all_read = true;
                            style(&bar, "{msg} {spinner} {elapsed}");
                            bar.set_message(phases.then);
                        }
                        if all_read {
                            bar.tick();
                        } else {
                            bar.set_position(read);
                        }
                        thread::park_timeout(Duration::from_millis(100));
                    }
                }
            });
            Shown { bar, over, ticker }
        });
        Progress { done, shown }
    }

    /// The counter to increment.
    pub(crate) fn bytes(&self) -> &Arc<AtomicU64> {
        &self.done
    }
}

fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
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
