//! The recall of the router, measured: excluded archives are asked anyway now and then, and what they
//! had says how much was missed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What became of requests to archives.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Archives that were asked because of the decision, and had something.
    hits: AtomicU64,
    /// Archives that were asked because of the decision, and had nothing.
    useless: AtomicU64,
    /// Archives that were excluded, whether they were asked anyway or not.
    excluded: AtomicU64,
    /// Excluded archives that were asked anyway, and answered.
    probes: AtomicU64,
    /// Those of them that had something: they were excluded wrongly.
    missed: AtomicU64,
    chance: AtomicU64,
}

/// The recall of the router, as far as it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AuditedRecall {
    /// Requests that found something.
    pub hits: u64,
    /// Requests that found nothing.
    pub useless: u64,
    /// Requests that were saved, or made as probes.
    pub excluded: u64,
    /// Probes that were answered.
    pub probes: u64,
    /// Probes that found something.
    pub missed: u64,
    /// The share of what is held that was found. `None` without probes.
    pub recall: Option<f64>,
    /// Its confidence interval at 95%.
    pub interval: Option<(f64, f64)>,
}

impl Audit {
    /// Dice for the archives of one decision. `None` if nothing is probed.
    pub(crate) fn dice(&self, share: f64) -> Option<Dice> {
        if share <= 0.0 {
            return None;
        }
        let start = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(1, |since| since.as_nanos() as u64 | 1)
        };
        if self.chance.load(Ordering::Relaxed) == 0 {
            let _ = self
                .chance
                .compare_exchange(0, start(), Ordering::Relaxed, Ordering::Relaxed);
        }
        let number = self.chance.fetch_add(GOLDEN, Ordering::Relaxed);
        Some(Dice {
            state: mixed(number),
            share,
        })
    }

    /// An archive that the decision selected has answered.
    pub(crate) fn asked(&self, found: bool) {
        let counter = if found { &self.hits } else { &self.useless };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Archives were excluded.
    pub(crate) fn excluded(&self, archives: u64) {
        self.excluded.fetch_add(archives, Ordering::Relaxed);
    }

    /// An excluded archive was asked anyway, and has answered.
    pub(crate) fn probed(&self, found: bool) {
        self.probes.fetch_add(1, Ordering::Relaxed);
        self.missed.fetch_add(u64::from(found), Ordering::Relaxed);
    }

    pub(crate) fn recall(&self) -> AuditedRecall {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AuditedRecall::new(
            get(&self.hits),
            get(&self.useless),
            get(&self.excluded),
            get(&self.probes),
            get(&self.missed),
        )
    }
}

/// Decides at random which excluded archives are asked anyway.
pub(crate) struct Dice {
    state: u64,
    share: f64,
}

impl Dice {
    /// Whether to probe the next archive.
    pub(crate) fn draws(&mut self) -> bool {
        self.state = self.state.wrapping_add(GOLDEN);
        ((mixed(self.state) >> 11) as f64) / ((1u64 << 53) as f64) < self.share
    }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output function of splitmix64.
fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl AuditedRecall {
    fn new(hits: u64, useless: u64, excluded: u64, probes: u64, missed: u64) -> AuditedRecall {
        // Of the excluded pairs, the share that had something is that of the probes.
        let recall_at = |share: f64| {
            let missed = share * excluded as f64;
            match hits as f64 + missed {
                all if all > 0.0 => hits as f64 / all,
                _ => 1.0,
            }
        };
        let measured = probes > 0;
        let (low, high) = wilson(missed, probes);
        AuditedRecall {
            hits,
            useless,
            excluded,
            probes,
            missed,
            recall: measured.then(|| recall_at(missed as f64 / probes as f64)),
            interval: measured.then(|| (recall_at(high), recall_at(low))),
        }
    }
}

/// Wilson's confidence interval at 95% of a share.
fn wilson(successes: u64, trials: u64) -> (f64, f64) {
    if trials == 0 {
        return (0.0, 1.0);
    }
    const Z: f64 = 1.959_964;
    let (n, p) = (trials as f64, successes as f64 / trials as f64);
    let centre = p + Z * Z / (2.0 * n);
    let spread = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    let low = ((centre - spread) / scale).max(0.0);
    let high = ((centre + spread) / scale).min(1.0);
    match successes {
        0 => (0.0, high),
        _ if successes == trials => (low, 1.0),
        _ => (low, high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_wilsons() {
        let (low, high) = wilson(10, 100);
        assert!((low - 0.0552).abs() < 1e-3 && (high - 0.1744).abs() < 1e-3);
        assert_eq!(wilson(0, 0), (0.0, 1.0));
        assert_eq!(wilson(0, 50).0, 0.0);
        assert_eq!(wilson(50, 50).1, 1.0);
    }

    #[test]
    fn probes_measure_what_was_missed() {
        let audit = Audit::default();
        assert_eq!(audit.recall().recall, None);
        for number in 0..900 {
            audit.asked(number % 3 != 0);
        }
        audit.excluded(10_000);
        for number in 0..100 {
            audit.probed(number == 0);
        }
        let recall = audit.recall();
        // 600 hits, and 1% of 10,000 missed.
        assert!((recall.recall.unwrap() - 600.0 / 700.0).abs() < 1e-9);
        let (low, high) = recall.interval.unwrap();
        assert!(low < 600.0 / 700.0 && high > 600.0 / 700.0 && low > 0.4 && high < 1.0);
        assert_eq!(
            (recall.useless, recall.probes, recall.missed),
            (300, 100, 1)
        );
    }

    #[test]
    fn probes_are_drawn_as_often_as_wanted() {
        let audit = Audit::default();
        // Of each archive of each decision.
        for place in 0..3 {
            let drawn = (0..100_000)
                .filter_map(|_| audit.dice(0.01))
                .filter_map(|mut dice| (0..3).map(|_| dice.draws()).nth(place))
                .filter(|drawn| *drawn)
                .count();
            assert!((700..1300).contains(&drawn), "{drawn}");
        }
        assert!(audit.dice(0.0).is_none());
        let mut always = audit.dice(1.0).unwrap();
        assert!((0..1000).all(|_| always.draws()));
    }
}
