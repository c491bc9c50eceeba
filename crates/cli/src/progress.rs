//! A progress bar with the phase of a run, its rate and the remaining time.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use waypost_io::progress::{Phase, Progress, Snapshot};

/// Shows what libraries report to its [`Progress`], until it is dropped.
pub(crate) struct Bar {
    progress: Progress,
    shown: Option<Shown>,
}

struct Shown {
    over: Arc<AtomicBool>,
    ticker: JoinHandle<()>,
}

impl Bar {
    /// A bar on standard error, if `show` is set.
    pub(crate) fn new(show: bool) -> Bar {
        let progress = Progress::new();
        let shown = show.then(|| {
            let over = Arc::new(AtomicBool::new(false));
            let ticker = thread::spawn({
                let (progress, over) = (progress.clone(), Arc::clone(&over));
                move || follow(&progress, &over, ProgressDrawTarget::stderr())
            });
            Shown { over, ticker }
        });
        Bar { progress, shown }
    }

    /// Shows nothing, and reports to `progress`.
    pub(crate) fn hidden(progress: &Progress) -> Bar {
        Bar {
            progress: progress.clone(),
            shown: None,
        }
    }
}

impl Deref for Bar {
    type Target = Progress;

    fn deref(&self) -> &Progress {
        &self.progress
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(shown) = self.shown.take() {
            shown.over.store(true, Ordering::Relaxed);
            shown.ticker.thread().unpark();
            let _ = shown.ticker.join();
        }
    }
}

/// Draws the progress ten times a second until it is over. Every phase gets a bar of its own, so that
/// its rate and remaining time are those of the phase.
fn follow(progress: &Progress, over: &AtomicBool, target: ProgressDrawTarget) {
    let mut now = progress.snapshot();
    let mut bar = bar(&now, target);
    while !over.load(Ordering::Relaxed) {
        let next = progress.snapshot();
        if (next.phase, next.total) != (now.phase, now.total) || next.done < now.done {
            bar.finish_and_clear();
            bar = self::bar(&next, ProgressDrawTarget::stderr());
        }
        now = next;
        bar.set_position(now.done);
        bar.tick();
        thread::park_timeout(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}

fn bar(now: &Snapshot, target: ProgressDrawTarget) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(now.total, target).with_message(now.phase.name());
    match ProgressStyle::with_template(template(now)) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn template(now: &Snapshot) -> &'static str {
    match now.total {
        Some(_) => {
            "{msg} {bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}, {eta} left"
        }
        None if matches!(now.phase, Phase::Reading | Phase::Fetching) => {
            "{msg} {spinner} {decimal_bytes} {elapsed}"
        }
        None => "{msg} {spinner} {elapsed}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::{InMemoryTerm, TermLike};

    /// What a bar shows for a snapshot.
    fn drawn(now: &Snapshot) -> String {
        let terminal = InMemoryTerm::new(5, 100);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar = bar(now, target);
        bar.set_position(now.done);
        bar.tick();
        terminal.flush().unwrap();
        terminal.contents()
    }

    #[test]
    fn each_phase_shows_its_name_and_what_is_known() {
        let mut now = Snapshot {
            phase: Phase::Reading,
            done: 500_000,
            total: Some(2_000_000),
        };
        let text = drawn(&now);
        assert!(text.starts_with("reading"), "{text}");
        assert!(text.contains("500.00 kB/2.00 MB"), "{text}");
        now = Snapshot {
            phase: Phase::Sorting,
            done: 0,
            total: None,
        };
        let text = drawn(&now);
        assert!(text.starts_with("sorting"), "{text}");
        assert!(!text.contains("left"), "{text}");
    }
}
