//! The price that spends a budget.
//!
//! What rows and keys take is known only when the map is there, and which map is best depends on what
//! they take. So a map is chosen, measured, and chosen again with the prices that it showed, until they
//! hold; then they are left as they are and λ alone is moved.

use super::choice::Choices;
use super::compact::{Filtered, FilteredBudget};
use super::cost::{Cost, Sum, Terms};
use super::judge::Judge;
use super::price::{self, Prices};
use crate::error::{Error, Result};
use crate::map::compact::Given;
use crate::map::cost::Top;
use crate::map::pass::walk_again;
use crate::map::prior::Prior;
use crate::map::queue::{Finished, Queue};
use crate::map::sample::Sample;
use crate::map::search::Learned;
use crate::map::write::{Plan, Style, Summed, Writer};

/// How many prices are tried in one walk.
const LANES: usize = 4;
const SMALLEST: f64 = 1e-6;
const LARGEST: f64 = 1e6;
/// How often prices are measured anew.
const LEARNING: usize = 3;
/// How much the mean of places alike counts against what was seen at a place: the first is tried
/// first, and which is best is found out by lookups set aside.
const STRENGTHS: [f64; 3] = [1.0, 0.3, 3.0];
/// Half of the lookups teach the prior.
const SCALE: f64 = 2.0;
/// How much of what was seen once is held to be chance.
const LUCK: f64 = 1.0;
/// How often a map is chosen and measured, at most; how far λ is moved at first, and how near two
/// prices are as good as the same, as logarithms.
const ROUNDS: usize = 12;
const STRIDE: f64 = 0.06;
const NEAR: f64 = 4e-3;
/// A place with a larger share of the URI-Rs than this is a large one: tried one behind the other.
const LARGE: [f64; 3] = [0.1, 0.01, 0.001];
/// How much of a budget of bytes must be used, and how much is aimed at.
const USED: f64 = 0.995;
const GOAL: f64 = 0.998;

/// Bytes by which headers may turn out longer than those that were measured: they name the price and
/// the filter in digits.
const SLACK: u64 = 16;

/// The logarithms of a price and of what the map for it takes.
type Point = (f64, f64);

/// Between which prices the best one lies.
struct Between {
    /// The largest map that was small enough, and the smallest that was too large.
    low: Option<Point>,
    high: Option<Point>,
    /// How far to go if one is not known yet.
    stride: f64,
}

impl Between {
    fn new(low: Option<Point>) -> Between {
        Between {
            low,
            high: None,
            stride: STRIDE,
        }
    }

    fn add(&mut self, lambda: f64, bytes: u64, fits: bool) {
        let point = Some((lambda.ln(), (bytes.max(1) as f64).ln()));
        *(if fits { &mut self.low } else { &mut self.high }) = point;
    }

    /// The next price to try for a map of so many bytes, if there is any.
    fn next(&mut self, goal: f64) -> Option<f64> {
        let at = match (self.low, self.high) {
            (Some(low), Some(high)) if high.0 - low.0 > NEAR => {
                // By their sizes, but never at the ends.
                let share = ((goal.ln() - low.1) / (high.1 - low.1)).clamp(0.15, 0.85);
                low.0 + share * (high.0 - low.0)
            }
            (Some(_), Some(_)) | (None, None) => return None,
            (Some(low), None) => low.0 + self.stride,
            (None, Some(high)) => high.0 - self.stride,
        };
        self.stride *= 2.0;
        Some(at.exp()).filter(|lambda| (SMALLEST..=LARGEST).contains(lambda))
    }
}

/// What was found.
pub(crate) struct Chosen {
    pub(crate) choices: Choices,
    pub(crate) has_ports: bool,
    pub(crate) lambda: f64,
    pub(crate) sum: Sum,
    /// Bytes of the gzipped rows and of the filter.
    pub(crate) rows: u64,
    pub(crate) filter: u64,
    pub(crate) written: Summed,
}

impl Chosen {
    fn bytes(&self) -> u64 {
        self.rows + self.filter
    }
}

/// Whether a map uses nearly all that it may.
fn is_spent(chosen: &Chosen, allowed: u64) -> bool {
    chosen.bytes() <= allowed && chosen.bytes() as f64 >= USED * allowed as f64
}

pub(crate) struct Search<'a> {
    pub(crate) given: &'a mut Given,
    filtered: &'a Filtered,
    /// The headers that the map will have.
    head: &'a [u8],
    pub(crate) learned: Learned,
    prices: Prices,
    /// Lookups and newcomers.
    pub(crate) sample: Option<Sample>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        given: &'a mut Given,
        filtered: &'a Filtered,
        head: &'a [u8],
    ) -> Result<Search<'a>> {
        let sample = filtered.sample.as_ref();
        let to_learn = sample.map(|_| Prior::to_learn(STRENGTHS[0], SCALE));
        let prior = filtered.prior.as_ref().or(to_learn.as_ref());
        let learned = Learned::new(given, sample, prior)?;
        Ok(Search {
            given,
            filtered,
            head,
            learned,
            prices: Prices::new(),
            sample: match &filtered.growth {
                Some(growth) => {
                    let lookups = filtered.sample.clone().unwrap_or_default();
                    Some(lookups.with_growth(&growth.places))
                }
                None => filtered.sample.clone(),
            },
        })
    }

    pub(crate) fn find(&mut self) -> Result<Chosen> {
        match self.filtered.budget {
            FilteredBudget::Lambda(lambda) => {
                let lambda = lambda.max(SMALLEST);
                for round in 0..LEARNING {
                    let chosen = self.choose(lambda, None)?;
                    self.learn(&chosen);
                    if round == 0 {
                        self.pick_strength(lambda)?;
                    }
                }
                self.prices.settle();
                self.choose(lambda, None)
            }
            FilteredBudget::Bytes(bytes) => self.of_bytes(bytes),
            FilteredBudget::Accuracy(accuracy) => self.of_accuracy(accuracy),
        }
    }

    fn terms(&self) -> Terms<'_> {
        Terms {
            prices: &self.prices,
            prior: &self.learned.prior,
            densities: &self.learned.densities,
            top: self.filtered.top.unwrap_or(Top::Everything),
            max_width: self.filtered.max_width,
            counting: self.given.counting,
            miss: self.filtered.miss_price,
            luck: LUCK,
            aside: true,
        }
    }

    /// What the best maps for some prices cost.
    fn costs<const L: usize>(&mut self, lambdas: [f64; L]) -> Result<[Sum; L]> {
        let mut cost = Cost::new(self.terms(), lambdas);
        walk_again(&self.given.source, self.sample.as_ref(), &mut cost)?;
        Ok(cost.found)
    }

    /// Chooses the map for a price and measures it. What was chosen before for large places stays, if
    /// that is given.
    fn choose(&mut self, lambda: f64, frozen: Option<(&Choices, f64)>) -> Result<Chosen> {
        let urirs = self.learned.urirs as f64;
        let mut cost = Cost::new(self.terms(), [lambda]);
        cost.frozen = frozen.map(|(choices, large)| (choices, large * urirs));
        cost.choices = Some(Choices::new(&self.given.room.temporary));
        let sample = self.sample.as_ref();
        walk_again(&self.given.source, sample, &mut cost)?;
        let (sum, has_ports) = (cost.found[0], cost.has_ports);
        let Some(choices) = cost.choices.take() else {
            return Err(Error::invalid("nothing was chosen"));
        };
        let plan = Plan::Filters(&choices);
        let queue = Queue::to_measure(self.head, Style::Published);
        let mut writer = Writer::new(plan, Style::Published, self.given.counting, queue);
        walk_again(&self.given.source, sample, &mut writer)?;
        let (finished, written) = writer.finish()?;
        frozen.map_or(Ok(()), |(choices, _)| choices.intact())?;
        choices.intact()?;
        let rows = match finished {
            Finished::Measured(bytes) => bytes,
            _ => 0,
        };
        Ok(Chosen {
            filter: price::companion(&written.keys),
            choices,
            has_ports,
            lambda,
            sum,
            rows,
            written,
        })
    }

    fn learn(&mut self, chosen: &Chosen) {
        let rows = chosen.rows as f64 - self.head_bytes() as f64;
        self.prices
            .learn(chosen.sum.bytes, rows, &chosen.written.keys);
    }

    /// Finds out how much the mean of places alike should count: one half of the lookups chooses maps,
    /// the other judges them.
    fn pick_strength(&mut self, lambda: f64) -> Result<()> {
        let Some(learning) = self.learned.learning.clone() else {
            return Ok(());
        };
        let mut best = (f64::INFINITY, STRENGTHS[0]);
        for strength in STRENGTHS {
            // In half as many lookups each stands for two.
            let prior = learning.finish(1.0, strength);
            let terms = Terms {
                prior: &prior,
                aside: false,
                ..self.terms()
            };
            let mut cost = Cost::new(terms, [2.0 * lambda]);
            cost.choices = Some(Choices::new(&self.given.room.temporary));
            walk_again(&self.given.source, self.sample.as_ref(), &mut cost)?;
            let bytes = cost.found[0].bytes;
            let Some(choices) = cost.choices.take() else {
                continue;
            };
            let mut judge = Judge::new(&choices);
            walk_again(&self.given.source, self.sample.as_ref(), &mut judge)?;
            choices.intact()?;
            let judged = bytes + 2.0 * lambda * judge.wrong;
            if judged < best.0 {
                best = (judged, strength);
            }
        }
        self.learned.prior = learning.finish(2.0, best.1);
        Ok(())
    }

    /// What the headers take.
    fn head_bytes(&self) -> u64 {
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut out = vec![0; compressor.gzip_compress_bound(self.head.len())];
        compressor
            .gzip_compress(self.head, &mut out)
            .map_or(0, |bytes| bytes as u64)
    }

    /// How many lookups a map is expected to answer wrongly.
    pub(crate) fn wrong(&self, sum: &Sum, lambda: f64) -> f64 {
        (sum.cost - sum.bytes) / lambda - self.filtered.miss_price * sum.missed
    }

    /// The largest price for which `fits` holds of false positives and bytes of the map, about.
    fn about(&mut self, within: f64, fits: impl Fn(f64, f64) -> bool) -> Result<f64> {
        let (mut low, mut high) = (SMALLEST.ln(), LARGEST.ln());
        while high - low > within {
            let step = (high - low) / (LANES as f64 + 1.0);
            let lambdas: [f64; LANES] =
                std::array::from_fn(|lane| (low + step * (lane as f64 + 1.0)).exp());
            let sums = self.costs(lambdas)?;
            let fitting = (0..LANES)
                .take_while(|&lane| fits(self.wrong(&sums[lane], lambdas[lane]), sums[lane].bytes))
                .count();
            if fitting < LANES {
                high = lambdas[fitting].ln();
            }
            if fitting > 0 {
                low = lambdas[fitting - 1].ln();
            }
        }
        Ok(low.exp())
    }

    /// The best map that takes no more bytes, all files together.
    fn of_bytes(&mut self, allowed: u64) -> Result<Chosen> {
        let allowed = allowed.saturating_sub(SLACK);
        let fixed = (self.head_bytes() + price::HEAD) as f64;
        let target = allowed as f64;
        let mut lambda = self.about(0.4, |_, bytes| bytes + fixed <= target)?;
        for round in 0..LEARNING {
            let chosen = self.choose(lambda, None)?;
            self.learn(&chosen);
            let bytes = chosen.bytes() as f64;
            lambda = (lambda.ln() + 1.5 * (target / bytes).ln().clamp(-1.0, 1.0)).exp();
            if round == 0 {
                self.pick_strength(lambda)?;
            }
        }
        self.prices.settle();
        let mut best: Option<Chosen> = None;
        let mut between = Between::new(None);
        for _ in 0..ROUNDS {
            let chosen = self.choose(lambda, None)?;
            let fits = chosen.bytes() <= allowed;
            between.add(lambda, chosen.bytes(), fits);
            let larger = |best: &Chosen| best.bytes() < chosen.bytes() || best.bytes() > allowed;
            let smaller = |best: &Chosen| best.bytes() > allowed && chosen.bytes() < best.bytes();
            if best
                .as_ref()
                .is_none_or(|best| (fits && larger(best)) || smaller(best))
            {
                best = Some(chosen);
            }
            if best.as_ref().is_some_and(|best| is_spent(best, allowed)) {
                break;
            }
            let Some(next) = between.next(GOAL * target) else {
                break;
            };
            lambda = next;
        }
        let best = best.ok_or_else(|| Error::invalid("no map was found"))?;
        if best.bytes() > allowed {
            return Err(Error::invalid(format!(
                "{} bytes are too few: the smallest map that was found takes {}",
                allowed + SLACK,
                best.bytes() + SLACK
            )));
        }
        self.fill(best, allowed)
    }

    /// Spends what is left. Between two prices that differ by nothing a large place may change, so that
    /// no price gives a map of the size that is allowed. Then large places stay as they are, and the
    /// price goes up for the others: at first only the largest stay.
    fn fill(&mut self, best: Chosen, allowed: u64) -> Result<Chosen> {
        LARGE
            .into_iter()
            .try_fold(best, |best, large| self.fill_below(large, best, allowed))
    }

    fn fill_below(&mut self, large: f64, best: Chosen, allowed: u64) -> Result<Chosen> {
        let mut larger: Option<Chosen> = None;
        let mut between = Between::new(None);
        between.add(best.lambda, best.bytes(), true);
        for _ in 0..ROUNDS {
            let now = larger.as_ref().unwrap_or(&best);
            if is_spent(now, allowed) {
                break;
            }
            let used = now.bytes();
            let Some(lambda) = between.next(GOAL * allowed as f64) else {
                break;
            };
            let chosen = self.choose(lambda, Some((&best.choices, large)))?;
            let fits = chosen.bytes() <= allowed;
            between.add(lambda, chosen.bytes(), fits);
            if fits && chosen.bytes() > used {
                larger = Some(chosen);
            }
        }
        Ok(larger.unwrap_or(best))
    }

    /// The smallest map that is right as often as asked for, as far as the lookups tell.
    fn of_accuracy(&mut self, accuracy: f64) -> Result<Chosen> {
        let lookups = self
            .filtered
            .sample
            .as_ref()
            .map_or(0.0, |sample| sample.weight());
        if lookups <= 0.0 {
            return Err(Error::invalid(
                "how often a map will be right cannot be told without lookups",
            ));
        }
        let allowed = (1.0 - accuracy) * lookups;
        let mut lambda = 1.0;
        for round in 0..=LEARNING {
            if round == LEARNING {
                self.prices.settle();
            }
            // The largest price that is still wrong too often, and a little more.
            let within = if round < LEARNING { 0.4 } else { 0.01 };
            lambda = self.about(within, |wrong, _| wrong > allowed)? * within.exp();
            if round < LEARNING {
                let chosen = self.choose(lambda, None)?;
                self.learn(&chosen);
            }
            if round == 0 {
                self.pick_strength(lambda)?;
            }
        }
        self.choose(lambda, None)
    }
}
