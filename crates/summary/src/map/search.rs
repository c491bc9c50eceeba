//! Looking for the price at which the map of least cost spends its budget.
//!
//! A larger price of false positives gives a larger map. Several prices are tried in one walk over
//! the map, with numbers only; the walk at the price that is found decides.

use super::compact::{Budget, Given, LeastCost, Report, Rule, SameSize, head};
use super::cost::{Cost, Prices, Sites, Top};
use super::decision::Decisions;
use super::judge::Judge;
use super::papers::{Decide, Papers};
use super::pass::walk_again;
use super::prior::{Learning, Prior};
use super::queue::{Finished, Queue};
use super::sample::Sample;
use super::write::{Plan, Style, Writer};
use crate::error::{Error, Result};

/// How many prices are tried in one walk.
const LANES: usize = 8;

/// Looks for the price that spends a budget.
pub(super) struct Search<'a> {
    given: &'a mut Given,
    least: &'a LeastCost,
    style: Style,
    prior: Prior,
    urirs: u64,
    rows: u64,
    densities: Vec<u8>,
}

/// What one look at a map and at lookups tells.
pub(super) struct Learned {
    pub(super) prior: Prior,
    /// What it was learned from, if it was.
    pub(super) learning: Option<Learning>,
    /// How much each site is asked for.
    pub(super) densities: Vec<u8>,
    pub(super) urirs: u64,
    pub(super) rows: u64,
}

impl Learned {
    /// Learns what to expect, unless it is given.
    pub(super) fn new(
        given: &mut Given,
        sample: Option<&Sample>,
        prior: Option<&Prior>,
    ) -> Result<Learned> {
        let flat = Prior::power(0.0, 1.0);
        let (sites, _) = match sample {
            Some(_) => given.walk(sample, Sites::default)?,
            None => (Sites::default(), 0),
        };
        let (first, rows) = given.walk(sample, || {
            let prices = Prices {
                prior: &flat,
                top: Top::Everything,
                void: None,
                teach: 0.0,
                aside: 1.0,
                densities: &sites.taught,
            };
            let mut cost = Cost::<1>::new(prices, [0.0]);
            cost.learning = sample.is_some().then(Learning::default);
            cost
        })?;
        let learning = first
            .learning
            .filter(|_| prior.is_none_or(Prior::is_to_learn));
        Ok(Learned {
            prior: Prior::or_learned(prior, learning.as_ref()),
            learning,
            densities: sites.all,
            urirs: first.urirs,
            rows,
        })
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(
        given: &'a mut Given,
        least: &'a LeastCost,
        style: Style,
    ) -> Result<Search<'a>> {
        let learned = Learned::new(given, least.sample.as_ref(), least.prior.as_ref())?;
        Ok(Search {
            given,
            least,
            style,
            prior: learned.prior,
            urirs: learned.urirs,
            rows: learned.rows,
            densities: learned.densities,
        })
    }

    fn cost<const L: usize>(
        &mut self,
        top: Top,
        void: Option<f64>,
        aside: f64,
        lambdas: [f64; L],
        decide: bool,
    ) -> Result<Cost<'_, L>> {
        let (prior, densities) = (&self.prior, &self.densities);
        let (cost, _) = self.given.walk(self.least.sample.as_ref(), || {
            let prices = Prices {
                prior,
                top,
                void,
                teach: 1.0,
                aside,
                densities,
            };
            let mut cost = Cost::new(prices, lambdas);
            cost.decisions = decide.then(Decisions::default);
            cost
        })?;
        Ok(cost)
    }

    pub(super) fn find(mut self, report: &mut Report) -> Result<(Decisions, bool)> {
        report.rows_in = self.rows;
        report.urirs = self.urirs;
        let void = if self.least.voids && self.least.sample.is_some() {
            self.void_price()?
        } else {
            None
        };
        let (lambda, top) = self.lambda(void, 1.0)?;
        report.lambda = Some(lambda);
        report.top = Some(top);
        report.void_price = void;
        report.allowed = self.allowed();
        let found = self.cost(top, void, 1.0, [lambda], true)?;
        if lambda > 0.0 && void.is_none() {
            report.false_positives = Some((found.costs[0] - found.keys[0]) / lambda);
        }
        let (keys, has_ports) = (found.keys[0] as u64, found.has_ports);
        let decisions = found.decisions.unwrap_or_default();
        if self.given.keys == 1 && report.false_positives.is_some() {
            report.papers = self.papers(keys)?;
        }
        Ok((decisions, has_ports))
    }

    /// What the papers' rule gives with no more rows than these, hosts and paths weighted alike.
    fn papers(&mut self, rows: u64) -> Result<Option<SameSize>> {
        let sample = self.least.sample.as_ref();
        let mut decide = |weight: f64| {
            let papers = Papers {
                host_weight: weight,
                path_weight: weight,
                ..Papers::default()
            };
            let decided = self.given.walk(sample, || Decide::new(&papers))?;
            Ok::<_, Error>(decided.0)
        };
        let mut best = (0.0, decide(0.0)?);
        if best.1.keys_left > rows {
            return Ok(None);
        }
        let (mut low, mut high) = (LIGHTEST.ln(), HEAVIEST.ln());
        for _ in 0..9 {
            let weight = f64::midpoint(low, high).exp();
            let decided = decide(weight)?;
            if decided.keys_left > rows {
                high = weight.ln();
                continue;
            }
            low = weight.ln();
            let near = decided.keys_left as f64 >= 0.98 * rows as f64;
            best = (weight, decided);
            if near {
                break;
            }
        }
        let (weight, decided) = best;
        let priced = self.cost_of(&decided.decisions)?;
        Ok(Some(SameSize {
            weight,
            rows: decided.keys_left,
            false_positives: priced,
        }))
    }

    /// How many false positives are to be expected of decisions that something else made.
    fn cost_of(&mut self, decisions: &Decisions) -> Result<f64> {
        let (prior, densities) = (&self.prior, &self.densities);
        let (cost, _) = self.given.walk(self.least.sample.as_ref(), || {
            let prices = Prices {
                prior,
                top: Top::Everything,
                void: None,
                teach: 1.0,
                aside: 1.0,
                densities,
            };
            let mut cost = Cost::new(prices, [1.0]);
            cost.forced = Some(decisions);
            cost
        })?;
        Ok(cost.costs[0] - cost.keys[0])
    }

    /// How many rows the budget allows.
    fn allowed(&self) -> Option<u64> {
        match self.least.budget {
            Budget::Keys(keys) => Some(keys),
            Budget::Share(share) => Some((self.urirs as f64 * share) as u64),
            Budget::Bytes(_) | Budget::Lambda(_) => None,
        }
    }

    /// The price of a false positive, and how far up wildcards stand.
    fn lambda(&mut self, void: Option<f64>, aside: f64) -> Result<(f64, Top)> {
        let tops = match self.least.top {
            Some(top) => vec![top],
            None if self.least.sample.is_some() => vec![Top::TopLevel, Top::Everything],
            None => vec![Top::SecondLevel, Top::TopLevel, Top::Everything],
        };
        let last = tops[tops.len() - 1];
        for top in tops {
            if let Budget::Lambda(lambda) = self.least.budget {
                return Ok((lambda, top));
            }
            let found = match self.least.budget {
                Budget::Bytes(bytes) => self.lambda_of_bytes(top, void, aside, bytes)?,
                _ => {
                    let keys = self.allowed().unwrap_or(u64::MAX);
                    self.lambda_of_keys(top, void, aside, keys)?
                }
            };
            if let Some(lambda) = found {
                return Ok((lambda, top));
            }
        }
        Ok((SMALLEST, last))
    }

    /// The largest price whose map has no more rows than allowed.
    fn lambda_of_keys(
        &mut self,
        top: Top,
        void: Option<f64>,
        aside: f64,
        allowed: u64,
    ) -> Result<Option<f64>> {
        let (mut low, mut high) = (SMALLEST.ln(), LARGEST.ln());
        let allowed = allowed as f64;
        let first = self.cost(top, void, aside, [SMALLEST, LARGEST], false)?;
        if first.keys[0] > allowed {
            return Ok(None);
        }
        if first.keys[1] <= allowed {
            return Ok(Some(LARGEST));
        }
        for _ in 0..12 {
            let step = (high - low) / (LANES as f64 + 1.0);
            let lambdas: [f64; LANES] =
                std::array::from_fn(|l| (low + step * (l as f64 + 1.0)).exp());
            let keys = self.cost(top, void, aside, lambdas, false)?.keys;
            let fits = keys.iter().take_while(|&&keys| keys <= allowed).count();
            if fits < LANES {
                high = lambdas[fits].ln();
            }
            if fits > 0 {
                low = lambdas[fits - 1].ln();
                if keys[fits - 1] >= 0.995 * allowed {
                    break;
                }
            }
            if high - low < 1e-9 {
                break;
            }
        }
        Ok(Some(low.exp()))
    }

    /// The largest price whose map is no larger than allowed when it is gzipped.
    fn lambda_of_bytes(
        &mut self,
        top: Top,
        void: Option<f64>,
        aside: f64,
        allowed: u64,
    ) -> Result<Option<f64>> {
        if self.gzipped(top, void, aside, SMALLEST)? > allowed {
            return Ok(None);
        }
        if self.gzipped(top, void, aside, LARGEST)? <= allowed {
            return Ok(Some(LARGEST));
        }
        let (mut low, mut high) = (SMALLEST.ln(), LARGEST.ln());
        for _ in 0..24 {
            let middle = (low + high) / 2.0;
            let bytes = self.gzipped(top, void, aside, middle.exp())?;
            if bytes <= allowed {
                low = middle;
                if bytes as f64 >= 0.985 * allowed as f64 {
                    break;
                }
            } else {
                high = middle;
            }
        }
        Ok(Some(low.exp()))
    }

    fn gzipped(&mut self, top: Top, void: Option<f64>, aside: f64, lambda: f64) -> Result<u64> {
        let decisions = self
            .cost(top, void, aside, [lambda], true)?
            .decisions
            .unwrap_or_default();
        let rule = Rule::LeastCost(Box::new(LeastCost {
            sample: None,
            ..self.least.clone()
        }));
        let report = Report {
            lambda: Some(lambda),
            ..Report::default()
        };
        let head = head(&self.given.headers, &rule, &report);
        let queue = Queue::to_measure(&head, self.style);
        let plan = Plan::Rolls(&decisions);
        let mut writer = Writer::new(plan, self.style, self.given.counting, queue);
        walk_again(&self.given.source, self.least.sample.as_ref(), &mut writer)?;
        match writer.queue.finish()?.0 {
            Finished::Measured(bytes) => Ok(bytes),
            _ => Ok(0),
        }
    }

    /// What a void must cost so that voids pay on lookups that did not teach them. `None`: they do not.
    fn void_price(&mut self) -> Result<Option<f64>> {
        let mut best = (f64::INFINITY, None);
        for price in [None, Some(8.0), Some(4.0), Some(2.0), Some(1.0)] {
            let (lambda, top) = self.lambda(price, 0.0)?;
            let found = self.cost(top, price, 0.0, [lambda], true)?;
            let decisions = found.decisions.unwrap_or_default();
            let mut judge = Judge::new(&decisions);
            walk_again(&self.given.source, self.least.sample.as_ref(), &mut judge)?;
            if judge.false_positives < best.0 {
                best = (judge.false_positives, price);
            }
        }
        Ok(best.1)
    }
}

/// Weights of the papers' rule between which one is looked for.
const LIGHTEST: f64 = 0.01;
const HEAVIEST: f64 = 100.0;

const SMALLEST: f64 = 1e-12;
const LARGEST: f64 = 1e12;
