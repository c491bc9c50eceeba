//! The search for the price that spends a budget of bytes.
//!
//! The sizes of rows and keys are known only once the map is built, and which map is best depends
//! on these sizes. So a map is chosen on the outline, measured, and chosen again at the measured
//! prices. The final map was measured with all its rows.

use waypost_io::Phase;

use super::compact::{Filtered, FilteredBudget};
use super::price::{self, Prices};
use crate::error::{Error, Result};
use crate::map::compact::SourceMap;
use crate::map::solve::prior::{Learning, Prior};
use crate::map::solve::search::{Bracket, Range, search};
use crate::map::solve::sites::Sites;
use crate::map::solve::solver::Value;
use crate::map::solve::top::Top;
use crate::map::solve::{
    Expects, Frozen, Gather, Outline, Solution, Terms, Totals, VoidPrice, assess, solve, states,
};
use crate::map::tree::sample::Sample;
use crate::map::write::measure::measure;
use crate::map::write::{Style, Summed};

/// Tolerances of the search: coarse while sizes are being learned, then fine.
const ROUGH: Range = Range {
    smallest: 1e-6,
    largest: 1e6,
    near: 0.1,
    spent: 0.03,
};
const FINE: Range = Range {
    near: 1e-3,
    spent: 0.002,
    ..ROUGH
};
/// How often sizes are measured before they are considered settled.
const LEARNING: usize = 2;
/// The weight of the mean of similar nodes against the misses at a node: the first is tried first,
/// and the best is determined on held-out lookups.
const STRENGTHS: [f64; 3] = [1.0, 0.3, 3.0];
/// Half of the lookups train the prior.
const SCALE: f64 = 2.0;
/// How much of what was seen once is attributed to chance.
const LUCK: f64 = 1.0;
/// How often a map is chosen and measured for a budget of bytes, at most.
const ROUNDS: usize = 6;
/// A node with more than this share of the URI-Rs is large; large nodes are tried one by one.
const LARGE: [f64; 3] = [0.1, 0.01, 0.001];
/// The share of a budget of bytes at which it counts as spent, and the share to aim at.
const USED: f64 = 0.995;
const GOAL: f64 = 0.998;

/// In maps with at most this many rows, every candidate is assessed.
const SMALL: u64 = 50_000;

/// How many bytes longer headers may become than when they were measured: they contain the price
/// and the identity of the filter in digits.
const SLACK: u64 = 16;

/// A map as estimated from the outline.
struct Thought {
    solution: Solution,
    totals: Totals,
    /// Bytes of rows and filter, without headers.
    bytes: f64,
}

/// A map that was measured.
pub(crate) struct Chosen {
    pub(crate) solution: Solution,
    pub(crate) totals: Totals,
    /// Bytes of the gzipped rows and of the filter.
    pub(crate) rows: u64,
    pub(crate) filter: u64,
    /// Expected number of wrong answers.
    pub(crate) wrong: f64,
    pub(crate) written: Summed,
}

impl Chosen {
    fn bytes(&self) -> u64 {
        self.rows + self.filter
    }
}

pub(crate) struct Search<'a> {
    pub(crate) given: &'a mut SourceMap,
    filtered: &'a Filtered,
    /// The headers of the map.
    head: &'a [u8],
    prior: Prior,
    learning: Option<Learning>,
    prices: Prices,
    pub(crate) outline: Outline,
    pub(crate) has_ports: bool,
    pub(crate) urirs: u64,
    pub(crate) rows: u64,
    /// Lookups and newcomers.
    pub(crate) sample: Option<Sample>,
    /// The overhead of filters beyond their marginal size per key, as last measured.
    fixed: f64,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        given: &'a mut SourceMap,
        filtered: &'a Filtered,
        head: &'a [u8],
    ) -> Result<Search<'a>> {
        let sample = match &filtered.growth {
            Some(growth) => {
                let lookups = filtered.sample.clone().unwrap_or_default();
                Some(lookups.with_growth(&growth.places))
            }
            None => filtered.sample.clone(),
        };
        let lookups = filtered.sample.as_ref();
        let to_learn = lookups.map(|_| Prior::to_learn(STRENGTHS[0], SCALE));
        let prior = filtered.prior.clone().or(to_learn).unwrap_or_default();
        let folder = given.room.temporary.clone();
        let domains = filtered.top == Some(Top::Domains);
        let prepare = |gather: &mut Gather<'_>| {
            gather.build_outline(domains, &folder);
            gather.learning = lookups.map(|_| Learning::default());
        };
        let gathered = given.in_pieces(|given| {
            let sites = match lookups {
                Some(lookups) => Sites::in_pieces(given, lookups)?,
                None => Some(Vec::new()),
            };
            let Some(sites) = sites else {
                return Ok(None);
            };
            let gathered = Gather::in_pieces(given, sample.as_ref(), &prior, &sites, prepare)?;
            Ok(gathered.map(|(gather, outline, rows)| (gather.counted(), outline, rows)))
        })?;
        let (counted, outline, rows) = match gathered {
            Some(gathered) => gathered,
            None => {
                let sites = match lookups {
                    Some(_) => given.walk(lookups, Sites::default)?.0,
                    None => Sites::default(),
                };
                let gather = || {
                    let mut gather = Gather::new(&prior, &sites);
                    prepare(&mut gather);
                    gather
                };
                let (mut gather, rows) = given.walk(sample.as_ref(), gather)?;
                let outline = gather.outline()?;
                (gather.counted(), outline, rows)
            }
        };
        given.progress.begin(Phase::Solving, None);
        let learning = counted.learning.filter(|_| prior.is_to_learn());
        Ok(Search {
            given,
            filtered,
            head,
            prior: Prior::or_learned(Some(&prior), learning.as_ref()),
            learning,
            prices: Prices::new(),
            outline,
            has_ports: counted.has_ports,
            urirs: counted.urirs,
            rows,
            sample,
            fixed: 0.0,
        })
    }

    pub(crate) fn find(&mut self) -> Result<Chosen> {
        match self.filtered.budget {
            FilteredBudget::Lambda(lambda) => {
                let lambda = lambda.max(ROUGH.smallest);
                for round in 0..LEARNING {
                    let chosen = self.choose(lambda)?;
                    self.learn(&chosen);
                    if round == 0 {
                        self.pick_strength(lambda)?;
                    }
                }
                self.prices.settle(true);
                self.choose(lambda)
            }
            FilteredBudget::Bytes(bytes) => self.of_bytes(bytes),
            FilteredBudget::Accuracy(accuracy) => self.of_accuracy(accuracy),
        }
    }

    fn terms(&self, lambda: f64) -> Terms<'_> {
        let widths = (1..=self.filtered.max_width).filter(|&width| self.prices.allows(width));
        Terms {
            lambda,
            states: states(widths),
            row: self.prices.row(),
            void: VoidPrice::Row,
            keys: *self.prices.keys(),
            expects: Expects {
                prior: &self.prior,
                smooth: true,
                aside: 1.0,
            },
            top: self.filtered.top.unwrap_or(Top::Everything),
            counting: self.given.counting,
            miss: self.filtered.miss_price,
            luck: LUCK,
        }
    }

    /// The best map at a price. Large nodes keep their previous choices, if those are given.
    fn think(&self, lambda: f64, frozen: Option<Frozen<'_>>) -> Result<Thought> {
        let terms = self.terms(lambda);
        let folder = &self.given.room.temporary;
        let solution = solve(&self.outline, &terms, frozen, Some(folder))?;
        let totals = assess(&self.outline, &solution, &terms)?;
        let keys = totals.keys.map(|keys| keys.round() as u64);
        let bytes = totals.rows + price::companion(&keys) as f64;
        Ok(Thought {
            solution,
            totals,
            bytes,
        })
    }

    /// The approximate size of rows and filter at a price, in bytes.
    fn bytes_at(&self, lambda: f64) -> Result<(f64, Value)> {
        let value = solve(&self.outline, &self.terms(lambda), None, None)?.value;
        Ok((value.size + self.fixed, value))
    }

    /// Measures a map.
    fn measure(&self, thought: Thought) -> Result<Chosen> {
        let Thought {
            solution, totals, ..
        } = thought;
        let (rows, written) = measure(
            self.given,
            &self.outline,
            &solution,
            self.sample.as_ref(),
            self.has_ports,
            self.head,
            Style::Published,
        )?;
        let (value, lambda) = (solution.value, solution.lambda);
        let wrong = (value.cost - value.size) / lambda - self.filtered.miss_price * totals.missed;
        Ok(Chosen {
            filter: price::companion(&written.keys),
            solution,
            totals,
            rows,
            wrong,
            written,
        })
    }

    fn choose(&self, lambda: f64) -> Result<Chosen> {
        self.measure(self.think(lambda, None)?)
    }

    /// Updates the prices from a measurement.
    fn learn(&mut self, chosen: &Chosen) {
        let rows = chosen.rows as f64 - self.head_bytes() as f64;
        self.prices
            .learn(chosen.totals.rows, rows, &chosen.written.keys);
        let each: f64 = (self.prices.keys().iter())
            .zip(&chosen.written.keys)
            .map(|(each, keys)| each * *keys as f64)
            .sum();
        self.fixed = chosen.filter as f64 - each;
    }

    /// Determines the weight of the mean of similar nodes: one half of the lookups chooses maps,
    /// the other half scores them.
    fn pick_strength(&mut self, lambda: f64) -> Result<()> {
        let Some(learning) = self.learning.clone() else {
            return Ok(());
        };
        let mut best = (f64::INFINITY, STRENGTHS[0]);
        for strength in STRENGTHS {
            // With half as many lookups, each counts twice.
            let prior = learning.finish(1.0, strength);
            let terms = Terms {
                expects: Expects {
                    prior: &prior,
                    smooth: true,
                    aside: 0.0,
                },
                ..self.terms(2.0 * lambda)
            };
            let folder = &self.given.room.temporary;
            let solution = solve(&self.outline, &terms, None, Some(folder))?;
            let judged = assess(&self.outline, &solution, &terms)?.judged;
            let judged = solution.value.size + 2.0 * lambda * judged;
            if judged < best.0 {
                best = (judged, strength);
            }
        }
        self.prior = learning.finish(SCALE, best.1);
        Ok(())
    }

    /// The size of the headers.
    fn head_bytes(&self) -> u64 {
        waypost_io::gzip::size(&crate::ukvs::described(self.head, b""))
    }

    /// The highest price whose map has about the target size at most.
    fn price_of(&self, target: f64, range: Range, near: Option<f64>) -> Result<f64> {
        let found = search(range, near, |lambda| {
            // The overhead of each width is a large part of a small map and negligible in a large
            // one, where the last measured value is used.
            let bytes = match self.rows <= SMALL {
                true => self.think(lambda, None)?.bytes,
                false => self.bytes_at(lambda)?.0,
            };
            Ok(Some((bytes.max(1.0) / target.max(1.0)).ln()))
        })?;
        Ok(found.low.unwrap_or(range.smallest))
    }

    /// The best map of at most this many bytes, all files together.
    fn of_bytes(&mut self, allowed: u64) -> Result<Chosen> {
        let within = allowed.saturating_sub(SLACK);
        let head = self.head_bytes() as f64;
        let target = GOAL * within as f64 - head;
        let mut lambda = None;
        for round in 0..LEARNING {
            let at = self.price_of(target, ROUGH, lambda)?;
            let chosen = self.choose(at)?;
            self.learn(&chosen);
            if round == 0 {
                self.pick_strength(at)?;
            }
            lambda = Some(at);
        }
        let mut best = None;
        // With few keys, one width may be all that pays off, and no price spends the budget with
        // it. In that case all widths are tried.
        for settled in [true, false] {
            self.prices.settle(settled);
            best = self.spend(best, within, target, lambda)?;
            if best
                .as_ref()
                .is_some_and(|best| best.bytes() as f64 >= USED * within as f64)
            {
                break;
            }
        }
        if let Some(best) = best {
            return Ok(best);
        }
        let smallest = self.choose(ROUGH.smallest)?;
        if smallest.bytes() > within {
            return Err(Error::invalid(format!(
                "{allowed} bytes are too few: the smallest map takes {}",
                smallest.bytes() + SLACK
            )));
        }
        Ok(smallest)
    }

    /// Searches for a map that spends a budget and is better than the best one so far.
    fn spend(
        &self,
        mut best: Option<Chosen>,
        within: u64,
        mut target: f64,
        mut lambda: Option<f64>,
    ) -> Result<Option<Chosen>> {
        let head = self.head_bytes() as f64;
        for _ in 0..ROUNDS {
            let at = self.price_of(target, FINE, lambda)?;
            let thought = self.fill(self.think(at, None)?, target)?;
            let expected = thought.bytes;
            let chosen = self.measure(thought)?;
            lambda = Some(at);
            let bytes = chosen.bytes() as f64;
            let fits = chosen.bytes() <= within;
            let better = |best: &Chosen| chosen.wrong < best.wrong;
            if fits && best.as_ref().is_none_or(better) {
                best = Some(chosen);
            }
            if fits && (bytes >= USED * within as f64 || at >= FINE.largest) {
                break;
            }
            // Corrects by the deviation from the estimate.
            let off = (bytes - head).max(1.0) / expected.max(1.0);
            let next = (GOAL * within as f64 - head) / off;
            if fits && next <= target * 1.001 {
                break;
            }
            target = if fits { next } else { next.min(target * 0.997) };
        }
        Ok(best)
    }

    /// Spends the rest of the budget. A large node may change state between two nearly equal
    /// prices, so that no price gives a map of the allowed size. In that case large nodes are fixed
    /// and the price is raised for the others, starting with only the largest fixed.
    fn fill(&self, mut best: Thought, target: f64) -> Result<Thought> {
        let spent = |thought: &Thought| thought.bytes >= USED * target && thought.bytes <= target;
        for large in LARGE {
            if spent(&best) {
                break;
            }
            let frozen = Frozen {
                solution: &best.solution,
                most: large * self.urirs as f64,
            };
            let mut larger: Option<Thought> = None;
            let used = best.bytes;
            let range = Range {
                smallest: best.solution.lambda,
                ..FINE
            };
            if used > target {
                break;
            }
            search(range, Some(best.solution.lambda * 1.06), |lambda| {
                let thought = self.think(lambda, Some(frozen))?;
                let over = (thought.bytes.max(1.0) / target.max(1.0)).ln();
                let most = larger.as_ref().map_or(used, |larger| larger.bytes);
                if over <= 0.0 && thought.bytes > most {
                    larger = Some(thought);
                }
                Ok(Some(over))
            })?;
            if let Some(larger) = larger {
                best = larger;
            }
        }
        Ok(best)
    }

    /// The smallest map that reaches this Accuracy, as far as the lookups tell.
    fn of_accuracy(&mut self, accuracy: f64) -> Result<Chosen> {
        let lookups = self
            .filtered
            .sample
            .as_ref()
            .map_or(0.0, |sample| sample.weight());
        if lookups <= 0.0 {
            return Err(Error::invalid(
                "the Accuracy of a map cannot be estimated without lookups",
            ));
        }
        let allowed = (1.0 - accuracy) * lookups;
        let mut lambda = 1.0;
        for round in 0..=LEARNING {
            if round == LEARNING {
                self.prices.settle(true);
            }
            let range = if round < LEARNING { ROUGH } else { FINE };
            // The highest price that is still wrong too often, and the next one.
            let Bracket { low, high } = search(
                Range {
                    spent: 0.0,
                    ..range
                },
                Some(lambda),
                |lambda| {
                    let wrong = match self.filtered.miss_price > 0.0 {
                        true => {
                            let thought = self.think(lambda, None)?;
                            let value = thought.solution.value;
                            (value.cost - value.size) / lambda
                                - self.filtered.miss_price * thought.totals.missed
                        }
                        false => {
                            let (_, value) = self.bytes_at(lambda)?;
                            (value.cost - value.size) / lambda
                        }
                    };
                    Ok(Some((allowed.max(1e-9) / wrong.max(1e-9)).ln()))
                },
            )?;
            lambda = high.or(low).unwrap_or(range.largest);
            if round < LEARNING {
                let chosen = self.choose(lambda)?;
                self.learn(&chosen);
            }
            if round == 0 {
                self.pick_strength(lambda)?;
            }
        }
        self.choose(lambda)
    }
}
