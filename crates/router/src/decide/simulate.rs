//! What routing would have done for a list of lookups whose truth is known.

use std::time::Duration;

use rayon::prelude::*;

use super::{Choice, Decision};
use crate::{Lookup, Router, Wanted};

/// What archives hold of a list of lookups.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// The lookups, and how often each is made.
    pub lookups: Vec<(String, u64)>,
    /// Whether they are for pages.
    pub for_pages: bool,
    /// For each archive of the registry, the number of mementos for each lookup.
    pub mementos: Vec<Vec<u64>>,
}

/// What routing would have done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulation {
    /// Lookups, repeated ones counted as often as they are made.
    pub lookups: u64,
    /// Each archive of the registry, in its order.
    pub archives: Vec<ArchiveTally>,
    /// Mean time until the last archive has answered, if those that are selected are asked. Archives
    /// that are asked later are asked after the others have answered.
    pub routed_seconds: f64,
    /// The same if all are asked.
    pub broadcast_seconds: f64,
    /// Mean time to decide about a lookup.
    pub decision_seconds: f64,
    /// The median of that time, which other work on the same machine hardly changes.
    pub median_decision_seconds: f64,
    /// The share of all mementos that the best archives have, for 1, 2, 3 … of them.
    pub completeness: Vec<Completeness>,
    /// The place of the archive with the most mementos.
    pub largest: Option<usize>,
}

/// What became of the lookups for one archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveTally {
    /// Lookups of which it has mementos.
    pub held: u64,
    /// Requests to it.
    pub requests: u64,
    /// Requests that found something.
    pub hits: u64,
    /// Lookups of which it has mementos, but for which it was not asked.
    pub missed: u64,
    /// Mementos of all lookups.
    pub mementos: u64,
}

impl ArchiveTally {
    /// Requests that found nothing.
    pub fn useless(&self) -> u64 {
        self.requests - self.hits
    }

    fn plus(self, other: ArchiveTally) -> ArchiveTally {
        ArchiveTally {
            held: self.held + other.held,
            requests: self.requests + other.requests,
            hits: self.hits + other.hits,
            missed: self.missed + other.missed,
            mementos: self.mementos + other.mementos,
        }
    }
}

/// How complete TimeMaps are if only the best archives are asked: the mean share of the mementos of a
/// URI, over URIs that have some.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Completeness {
    /// How many archives are asked.
    pub top: usize,
    /// The share.
    pub with_largest: f64,
    /// The share if the largest archive does not exist.
    pub without_largest: f64,
}

impl Simulation {
    /// The sum over all archives.
    pub fn total(&self) -> ArchiveTally {
        let archives = self.archives.iter().copied();
        archives.fold(ArchiveTally::default(), ArchiveTally::plus)
    }

    /// Requests if all archives are asked.
    pub fn broadcast(&self) -> u64 {
        self.lookups * self.archives.len() as u64
    }

    /// The share of held URIs that was found; 1 if nothing is held.
    pub fn recall(&self) -> f64 {
        let total = self.total();
        match total.held {
            0 => 1.0,
            held => (held - total.missed) as f64 / held as f64,
        }
    }

    /// The share of the useless requests of a broadcast that routing saves.
    pub fn useless_saved(&self) -> f64 {
        let total = self.total();
        match self.broadcast() - total.held {
            0 => 0.0,
            useless => 1.0 - total.useless() as f64 / useless as f64,
        }
    }
}

/// The sums over a part of the lookups.
#[derive(Default)]
struct Part {
    lookups: u64,
    archives: Vec<ArchiveTally>,
    routed_seconds: f64,
    broadcast_seconds: f64,
    deciding: Vec<Duration>,
    /// URIs that have mementos with and without the largest archive, and the sums of shares.
    known: [u64; 2],
    shares: [Vec<f64>; 2],
}

/// Decides all lookups and compares the decisions with the truth. The time that an archive takes to
/// answer is what was learned about it for such URIs, or else what the registry says, or else
/// `latency`.
pub fn simulate(router: &Router, truth: &Truth, latency: Duration) -> Simulation {
    let count = router.registry().archives.len();
    let sums: Vec<u64> = truth
        .mementos
        .iter()
        .map(|column| column.iter().sum())
        .collect();
    let largest = (0..sums.len()).max_by_key(|&at| (sums[at], std::cmp::Reverse(at)));
    let largest = largest.filter(|&at| sums[at] > 0);
    let parts: Vec<Part> = truth
        .lookups
        .par_chunks(1024)
        .enumerate()
        .map(|(chunk, lookups)| {
            let mut part = Part {
                archives: vec![ArchiveTally::default(); count],
                shares: [vec![0.0; count], vec![0.0; count]],
                ..Part::default()
            };
            for (at, (uri, times)) in lookups.iter().enumerate() {
                let mementos = |archive: usize| truth.mementos[archive][chunk * 1024 + at];
                let lookup = Lookup {
                    for_page: truth.for_pages,
                    ..Lookup::new(&uri[..], Wanted::All)
                };
                part.add(router, &lookup, *times, latency, largest, &mementos);
            }
            part
        })
        .collect();
    let mut all = Part {
        archives: vec![ArchiveTally::default(); count],
        shares: [vec![0.0; count], vec![0.0; count]],
        ..Part::default()
    };
    for part in parts {
        all.lookups += part.lookups;
        all.routed_seconds += part.routed_seconds;
        all.broadcast_seconds += part.broadcast_seconds;
        all.deciding.extend(part.deciding);
        for (sum, tally) in all.archives.iter_mut().zip(part.archives) {
            *sum = sum.plus(tally);
        }
        for side in 0..2 {
            all.known[side] += part.known[side];
            for (sum, share) in all.shares[side].iter_mut().zip(&part.shares[side]) {
                *sum += share;
            }
        }
    }
    let per = |sum: f64, number: u64| {
        if number == 0 {
            0.0
        } else {
            sum / number as f64
        }
    };
    let decided = all.deciding.len();
    let deciding: Duration = all.deciding.iter().sum();
    let median = match decided {
        0 => Duration::ZERO,
        _ => *all.deciding.select_nth_unstable(decided / 2).1,
    };
    Simulation {
        lookups: all.lookups,
        routed_seconds: per(all.routed_seconds, all.lookups),
        broadcast_seconds: per(all.broadcast_seconds, all.lookups),
        decision_seconds: per(deciding.as_secs_f64(), decided as u64),
        median_decision_seconds: median.as_secs_f64(),
        completeness: (0..count)
            .map(|top| Completeness {
                top: top + 1,
                with_largest: per(all.shares[0][top], all.known[0]),
                without_largest: per(all.shares[1][top], all.known[1]),
            })
            .collect(),
        archives: all.archives,
        largest,
    }
}

impl Part {
    fn add(
        &mut self,
        router: &Router,
        lookup: &Lookup,
        times: u64,
        latency: Duration,
        largest: Option<usize>,
        mementos: &dyn Fn(usize) -> u64,
    ) {
        let start = std::time::Instant::now();
        let decision = router.decide(lookup);
        self.deciding.push(start.elapsed());
        self.lookups += times;
        let seconds = |choices: &mut dyn Iterator<Item = &Choice>| {
            let each = choices.map(|choice| choice.latency.unwrap_or(latency));
            each.max().unwrap_or_default().as_secs_f64()
        };
        let mut routed = seconds(&mut decision.asked());
        let mut asked = vec![false; self.archives.len()];
        decision.asked().for_each(|c| asked[c.archive] = true);
        if decision.asked().all(|choice| mementos(choice.archive) == 0) {
            routed += seconds(&mut decision.asked_later());
            decision.asked_later().for_each(|c| asked[c.archive] = true);
        }
        self.routed_seconds += routed * times as f64;
        self.broadcast_seconds += seconds(&mut decision.choices.iter()) * times as f64;
        for (at, tally) in self.archives.iter_mut().enumerate() {
            let (held, asked) = (mementos(at) > 0, asked[at]);
            tally.held += u64::from(held) * times;
            tally.requests += u64::from(asked) * times;
            tally.hits += u64::from(held && asked) * times;
            tally.missed += u64::from(held && !asked) * times;
            tally.mementos += mementos(at) * times;
        }
        self.add_shares(&decision, None, 0, mementos);
        self.add_shares(&decision, largest, 1, mementos);
    }

    /// Adds which share of the mementos the best archives have, apart from one.
    fn add_shares(
        &mut self,
        decision: &Decision,
        without: Option<usize>,
        side: usize,
        mementos: &dyn Fn(usize) -> u64,
    ) {
        let counts = decision
            .choices
            .iter()
            .filter(|choice| Some(choice.archive) != without)
            .map(|choice| mementos(choice.archive) as f64);
        let counts: Vec<f64> = counts.collect();
        let all: f64 = counts.iter().sum();
        if all == 0.0 {
            return;
        }
        self.known[side] += 1;
        let mut sum = 0.0;
        for (top, share) in self.shares[side].iter_mut().enumerate() {
            sum += counts.get(top).copied().unwrap_or(0.0);
            *share += sum / all;
        }
    }
}
