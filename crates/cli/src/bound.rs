//! What bounded a long run: reading, computing, writing or waiting.

use std::time::Instant;

use waypost_io::meter::{self, Spent};

use crate::printer::Printer;

/// Runs that read less are over before anyone wonders.
const LONG: u64 = 100_000_000;

/// Reports what a long run since `start` spent its time on.
pub(crate) fn report(start: Instant, out: &Printer) {
    if meter::bytes_read() >= LONG {
        out.note(line(&Spent::since(start)));
    }
}

fn line(spent: &Spent) -> String {
    let percent = |part: std::time::Duration| {
        100.0 * part.as_secs_f64() / spent.whole.as_secs_f64().max(1e-9)
    };
    format!(
        "{:.1} s: {:.1} of {} cores busy, reading {:.0}% and writing {:.0}% of the time; bounded by {}",
        spent.whole.as_secs_f64(),
        spent.busy_cores(),
        spent.cores,
        percent(spent.reading),
        percent(spent.writing),
        spent.bound().name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_line_says_what_more_cores_or_a_faster_disk_would_change() {
        let spent = Spent {
            whole: Duration::from_secs(20),
            reading: Duration::from_secs(2),
            writing: Duration::from_secs(1),
            computing: Duration::from_secs(38),
            cores: 2,
        };
        assert_eq!(
            line(&spent),
            "20.0 s: 1.9 of 2 cores busy, reading 10% and writing 5% of the time; bounded by computing"
        );
    }
}
