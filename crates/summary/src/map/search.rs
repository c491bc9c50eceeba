//! Looking for the price at which the map of least cost spends its budget.
//!
//! A larger price of false positives gives a larger map. One walk over the map makes its outline;
//! prices are tried on that, several at once, and the one that is found decides.

use super::beside::Beside;
use super::compact::{Budget, Given, LeastCost, Report, Rule, head};
use super::cost::{Expected, Gather, Top};
use super::decision::Decisions;
use super::judge::Judge;
use super::outline::Outline;
use super::pass::walk_again;
use super::prior::{Learning, Prior};
use super::queue::{Finished, Queue};
use super::sample::Sample;
use super::sites::Sites;
use super::write::{Plan, Style, Writer};
use crate::error::{Error, Result};

/// How many prices are tried at once.
const LANES: usize = 8;

/// Looks for the price that spends a budget.
pub(super) struct Search<'a> {
    given: &'a mut Given,
    least: &'a LeastCost,
    style: Style,
    prior: Prior,
    densities: Vec<u8>,
    urirs: u64,
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
            let mut gather = Gather::new(Expected {
                prior: &flat,
                teach: 0.0,
                aside: 1.0,
                densities: &sites.taught,
            });
            gather.learning = sample.is_some().then(Learning::default);
            gather
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

/// What one walk gathers.
struct Gathered {
    outline: Outline,
    beside: Option<Beside>,
    has_ports: bool,
    urirs: u64,
    rows: u64,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        given: &'a mut Given,
        least: &'a LeastCost,
        style: Style,
    ) -> Result<Search<'a>> {
        let (prior, densities) = match &least.sample {
            Some(sample) => {
                let learned = Learned::new(given, Some(sample), least.prior.as_ref())?;
                (learned.prior, learned.densities)
            }
            None => (Prior::or_learned(least.prior.as_ref(), None), Vec::new()),
        };
        Ok(Search {
            given,
            least,
            style,
            prior,
            densities,
            urirs: 0,
        })
    }

    /// Gathers what maps of any price are found from. Lookups set aside count by `aside`.
    fn gather(&mut self, voids: bool, aside: f64) -> Result<Gathered> {
        let (prior, densities) = (&self.prior, &self.densities);
        let folder = self.given.room.temporary.clone();
        let domains = self.least.top == Some(Top::Domains);
        let compared = self.given.keys == 1 && !voids;
        let (mut gather, rows) = self.given.walk(self.least.sample.as_ref(), || {
            let expected = Expected {
                prior,
                teach: 1.0,
                aside,
                densities,
            };
            let mut gather = Gather::new(expected).with_outline(voids, domains, &folder);
            gather.beside = compared.then(Beside::new);
            gather
        })?;
        let outline = gather.outline()?;
        self.urirs = gather.urirs;
        Ok(Gathered {
            outline: outline.unwrap_or_else(|| Outline::new(&folder)),
            beside: gather.beside,
            has_ports: gather.has_ports,
            urirs: gather.urirs,
            rows,
        })
    }

    /// The decisions at a price, and what the map costs.
    fn decide(&self, outline: &Outline, at: &At) -> Result<(Decisions, u64, f64)> {
        let mut decisions = Decisions::new(&self.given.room.temporary);
        let lambdas = [at.lambda];
        let priced = outline.price(lambdas, at.top, at.void, Some(&mut decisions))?;
        decisions.intact()?;
        Ok((decisions, priced.rows[0] as u64, priced.costs[0]))
    }

    pub(super) fn find(mut self, report: &mut Report) -> Result<(Decisions, bool)> {
        let void = if self.least.voids && self.least.sample.is_some() {
            self.void_price()?
        } else {
            None
        };
        let gathered = self.gather(void.is_some(), 1.0)?;
        report.rows_in = gathered.rows;
        report.urirs = gathered.urirs;
        let (at, gzipped) = self.price(&gathered.outline, void)?;
        report.gzipped = gzipped;
        report.lambda = Some(at.lambda);
        report.top = Some(at.top);
        report.void_price = void;
        report.allowed = match self.least.budget {
            Budget::Bytes(bytes) => Some(bytes),
            _ => self.allowed(),
        };
        let (decisions, rows, cost) = self.decide(&gathered.outline, &at)?;
        if at.lambda > 0.0 && void.is_none() {
            report.false_positives = Some((cost - rows as f64) / at.lambda);
            report.papers = gathered.beside.and_then(|beside| beside.of_size(rows));
        }
        Ok((decisions, gathered.has_ports))
    }

    /// How many rows the budget allows.
    fn allowed(&self) -> Option<u64> {
        match self.least.budget {
            Budget::Keys(keys) => Some(keys),
            Budget::Share(share) => Some((self.urirs as f64 * share) as u64),
            Budget::Bytes(_) | Budget::Lambda(_) => None,
        }
    }

    /// The price of a false positive that spends the budget, how far up wildcards stand, and what the
    /// map takes when it is gzipped, if that was measured.
    fn price(&self, outline: &Outline, void: Option<f64>) -> Result<(At, Option<u64>)> {
        let tops = match self.least.top {
            Some(top) => vec![top],
            None if self.least.sample.is_some() => vec![Top::TopLevel, Top::Everything],
            None => vec![Top::SecondLevel, Top::TopLevel, Top::Everything],
        };
        let mut at = At {
            lambda: SMALLEST,
            top: Top::Everything,
            void,
        };
        for top in tops {
            at.top = top;
            let found = match self.least.budget {
                Budget::Lambda(lambda) => Some((lambda, None)),
                Budget::Bytes(allowed) => self.lambda_of_bytes(outline, at, allowed)?,
                _ => {
                    let rows = self.allowed().unwrap_or(u64::MAX);
                    lambda_of_rows(outline, at, rows as f64)?.map(|lambda| (lambda, None))
                }
            };
            if let Some((lambda, gzipped)) = found {
                at.lambda = lambda;
                return Ok((at, gzipped));
            }
        }
        // Nothing is small enough: this is the smallest.
        let gzipped = match self.least.budget {
            Budget::Bytes(_) => Some(self.gzipped(outline, &at)?.0),
            _ => None,
        };
        Ok((at, gzipped))
    }

    /// The largest price whose map is no larger than allowed when it is gzipped, and how large it is.
    /// What rows take is measured on the last map that was tried, and the next one has as many as fit.
    fn lambda_of_bytes(
        &self,
        outline: &Outline,
        at: At,
        allowed: u64,
    ) -> Result<Option<(f64, Option<u64>)>> {
        let tried = |lambda: f64| {
            let (bytes, rows) = self.gzipped(outline, &At { lambda, ..at })?;
            Ok::<_, Error>((bytes, bytes as f64 / rows.max(1) as f64))
        };
        let (mut taken, _) = tried(SMALLEST)?;
        if taken > allowed {
            return Ok(None);
        }
        let (mut low, mut high) = (SMALLEST, LARGEST);
        let mut each = 9.0;
        for _ in 0..24 {
            let rows = 0.993 * allowed as f64 / each;
            let guess = lambda_of_rows(outline, at, rows)?.unwrap_or(SMALLEST);
            let lambda = if guess > low && (guess < high || high == LARGEST) {
                guess
            } else {
                f64::midpoint(low.ln(), high.ln()).exp()
            };
            let (bytes, now) = tried(lambda)?;
            each = now;
            if bytes <= allowed {
                (low, taken) = (lambda, bytes);
                if bytes as f64 >= 0.985 * allowed as f64 || lambda == LARGEST {
                    break;
                }
            } else {
                high = lambda;
            }
            if (high / low).ln() < 1e-9 {
                break;
            }
        }
        Ok(Some((low, Some(taken))))
    }

    /// How many bytes a map takes when it is gzipped, and its rows.
    fn gzipped(&self, outline: &Outline, at: &At) -> Result<(u64, u64)> {
        let (decisions, rows, _) = self.decide(outline, at)?;
        let rule = Rule::LeastCost(Box::new(LeastCost {
            sample: None,
            ..self.least.clone()
        }));
        let report = Report {
            lambda: Some(at.lambda),
            ..Report::default()
        };
        let head = head(&self.given.headers, &rule, &report);
        let queue = Queue::to_measure(&head, self.style);
        let plan = Plan::Rolls(&decisions);
        let mut writer = Writer::new(plan, self.style, self.given.counting, queue);
        walk_again(&self.given.source, self.least.sample.as_ref(), &mut writer)?;
        let bytes = match writer.queue.finish()?.0 {
            Finished::Measured(bytes) => bytes,
            _ => 0,
        };
        decisions.intact()?;
        Ok((bytes, rows))
    }

    /// What a void must cost so that voids pay on lookups that did not teach them. `None`: they do not.
    fn void_price(&mut self) -> Result<Option<f64>> {
        let outline = self.gather(true, 0.0)?.outline;
        let mut best = (f64::INFINITY, None);
        for void in [None, Some(8.0), Some(4.0), Some(2.0), Some(1.0)] {
            let (at, _) = self.price(&outline, void)?;
            let (decisions, ..) = self.decide(&outline, &at)?;
            let mut judge = Judge::new(&decisions);
            walk_again(&self.given.source, self.least.sample.as_ref(), &mut judge)?;
            decisions.intact()?;
            let false_positives = judge.false_positives;
            if false_positives < best.0 {
                best = (false_positives, void);
            }
        }
        Ok(best.1)
    }
}

/// At which price a map is chosen.
#[derive(Clone, Copy, Debug)]
struct At {
    lambda: f64,
    top: Top,
    /// What a void costs, if there may be any.
    void: Option<f64>,
}

/// The largest price whose map has no more rows than allowed.
fn lambda_of_rows(outline: &Outline, at: At, allowed: f64) -> Result<Option<f64>> {
    let (mut low, mut high) = (SMALLEST.ln(), LARGEST.ln());
    let first = outline.price([SMALLEST, LARGEST], at.top, at.void, None)?;
    if first.rows[0] > allowed {
        return Ok(None);
    }
    if first.rows[1] <= allowed {
        return Ok(Some(LARGEST));
    }
    for _ in 0..12 {
        let step = (high - low) / (LANES as f64 + 1.0);
        let lambdas: [f64; LANES] = std::array::from_fn(|l| (low + step * (l as f64 + 1.0)).exp());
        let rows = outline.price(lambdas, at.top, at.void, None)?.rows;
        let fits = rows.iter().take_while(|&&rows| rows <= allowed).count();
        if fits < LANES {
            high = lambdas[fits].ln();
        }
        if fits > 0 {
            low = lambdas[fits - 1].ln();
            if rows[fits - 1] >= 0.995 * allowed {
                break;
            }
        }
        if high - low < 1e-9 {
            break;
        }
    }
    Ok(Some(low.exp()))
}

const SMALLEST: f64 = 1e-12;
const LARGEST: f64 = 1e12;
