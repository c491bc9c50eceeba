//! Searching for the price at which the least-cost map spends its budget.
//!
//! A higher price of false positives gives a larger map. One pass over the map builds its outline,
//! on which prices are tried; only the gzipped size of rows is measured on the map itself.

use waypost_io::Phase;

use super::beside::Beside;
use super::prior::{Learning, Prior};
use super::search::{Range, search};
use super::sites::Sites;
use super::top::Top;
use super::{
    Expects, Gather, Hull, Outline, RowPrice, Solution, Terms, VoidPrice, assess, solve, states,
};
use crate::error::{Error, Result};
use crate::map::compact::{Budget, LeastCost, Report, SourceMap, head_with, how_of};
use crate::map::tree::sample::Sample;
use crate::map::write::Style;
use crate::map::write::measure::measure;

/// A map of so many rows takes a few kilobytes.
const LEAST_SHARE: u64 = 100;

const RANGE: Range = Range {
    smallest: 1e-12,
    largest: 1e12,
    near: 1e-9,
    spent: 0.005,
};

/// Searches for the price that spends a budget.
pub(crate) struct Search<'a> {
    given: &'a mut SourceMap,
    least: &'a LeastCost,
    style: Style,
    prior: Prior,
    sites: Vec<Sites>,
    urirs: u64,
    has_ports: bool,
}

/// The result of a pass over a map and lookups.
pub(crate) struct Learned {
    pub(crate) prior: Prior,
    /// How often each site of each piece is looked up.
    pub(crate) sites: Vec<Sites>,
}

impl Learned {
    /// Learns the prior, unless it is given.
    pub(crate) fn new(
        given: &mut SourceMap,
        sample: Option<&Sample>,
        prior: Option<&Prior>,
    ) -> Result<Learned> {
        let Some(sample) = sample else {
            return Ok(Learned {
                prior: Prior::or_learned(prior, None),
                sites: Vec::new(),
            });
        };
        let flat = Prior::power(0.0, 1.0);
        let learn = |gather: &mut Gather<'_>| gather.learning = Some(Learning::default());
        let learned = given.in_pieces(|given| {
            let Some(sites) = Sites::in_pieces(given, sample)? else {
                return Ok(None);
            };
            let gathered = Gather::in_pieces(given, Some(sample), &flat, &sites, learn)?;
            let learning = gathered.map(|(gather, ..)| gather.learning);
            Ok(learning.map(|learning| (learning, sites)))
        })?;
        let (learning, sites) = match learned {
            Some(learned) => learned,
            None => {
                let (sites, _) = given.walk(Some(sample), Sites::default)?;
                let gather = || {
                    let mut gather = Gather::new(&flat, &sites);
                    learn(&mut gather);
                    gather
                };
                let learning = given.walk(Some(sample), gather)?.0.learning;
                (learning, vec![sites])
            }
        };
        let learning = learning.filter(|_| prior.is_none_or(Prior::is_to_learn));
        Ok(Learned {
            prior: Prior::or_learned(prior, learning.as_ref()),
            sites,
        })
    }
}

/// The result of one pass.
struct Gathered {
    outline: Outline,
    beside: Option<Beside>,
    rows: u64,
}

/// The prices at which a map is chosen.
#[derive(Clone, Copy, Debug)]
struct At {
    lambda: f64,
    top: Top,
    /// The price of a void, if voids are allowed.
    void: VoidPrice,
    /// The weight of held-out misses.
    aside: f64,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        given: &'a mut SourceMap,
        least: &'a LeastCost,
        style: Style,
    ) -> Result<Search<'a>> {
        let learned = Learned::new(given, least.sample.as_ref(), least.prior.as_ref())?;
        Ok(Search {
            given,
            least,
            style,
            prior: learned.prior,
            sites: learned.sites,
            urirs: 0,
            has_ports: false,
        })
    }

    /// Collects what is needed to choose maps at any price.
    fn gather(&mut self) -> Result<Gathered> {
        let (prior, sites) = (&self.prior, &self.sites);
        let folder = self.given.room.temporary.clone();
        let domains = self.least.top == Some(Top::Domains);
        let compared = self.given.keys == 1 && !self.least.voids;
        let (folds, sample) = (!self.least.voids, self.least.sample.as_ref());
        let prepare = |gather: &mut Gather<'_>| {
            gather.build_outline(domains, &folder);
            gather.strays = true;
            gather.folds = folds;
            gather.beside = compared.then(Beside::new);
        };
        let gathered = self
            .given
            .in_pieces(|given| Gather::in_pieces(given, sample, prior, sites, prepare))?;
        let (gather, outline, rows) = match gathered {
            Some(gathered) => gathered,
            // Sites were counted by piece.
            None if sites.len() > 1 => return Err(self.given.changed()),
            None => {
                let sites = sites.first().unwrap_or(Sites::none());
                let gather = || {
                    let mut gather = Gather::new(prior, sites);
                    prepare(&mut gather);
                    gather
                };
                let (mut gather, rows) = self.given.walk(sample, gather)?;
                let outline = gather.outline()?;
                (gather, outline, rows)
            }
        };
        (self.urirs, self.has_ports) = (gather.urirs, gather.has_ports);
        Ok(Gathered {
            outline,
            beside: gather.beside,
            rows,
        })
    }

    fn terms(&self, at: &At) -> Terms<'_> {
        Terms {
            lambda: at.lambda,
            states: states(std::iter::empty()),
            row: RowPrice::ONE,
            void: at.void,
            keys: [0.0; super::STATES],
            expects: Expects {
                aside: at.aside,
                ..Expects::plain(&self.prior)
            },
            top: at.top,
            counting: self.given.counting,
            miss: 0.0,
            luck: 0.0,
        }
    }

    /// The map at a price.
    fn solve(&self, outline: &Outline, at: &At) -> Result<Solution> {
        let folder = &self.given.room.temporary;
        solve(outline, &self.terms(at), None, Some(folder))
    }

    pub(crate) fn find(mut self, report: &mut Report) -> Result<(Outline, Solution, bool)> {
        let gathered = self.gather()?;
        self.given.progress.begin(Phase::Solving, None);
        let outline = gathered.outline;
        let void = if self.least.voids && self.least.sample.is_some() {
            self.void_price(&outline)?
        } else {
            VoidPrice::Never
        };
        report.rows_in = gathered.rows;
        report.urirs = self.urirs;
        let (at, gzipped) = self.price(&outline, void, 1.0)?;
        report.gzipped = gzipped;
        report.lambda = Some(at.lambda);
        report.top = Some(at.top);
        report.void_price = match void {
            VoidPrice::Fixed(price) => Some(price),
            _ => None,
        };
        report.allowed = match self.least.budget {
            Budget::Bytes(bytes) => Some(bytes),
            _ => self.allowed(),
        };
        let solution = self.solve(&outline, &at)?;
        report.false_positives = Some(assess(&outline, &solution, &self.terms(&at))?.wrong);
        report.misses = Some(solution.misses);
        let rows = solution.value.size as u64;
        report.papers = gathered.beside.and_then(|beside| beside.of_size(rows));
        Ok((outline, solution, self.has_ports))
    }

    /// The number of rows that the budget allows.
    fn allowed(&self) -> Option<u64> {
        match self.least.budget {
            Budget::Keys(keys) => Some(keys),
            // A share of a small archive is no reason to give up what a few kilobytes tell.
            Budget::Share(share) => Some(((self.urirs as f64 * share) as u64).max(LEAST_SHARE)),
            Budget::Bytes(_) | Budget::Lambda(_) => None,
        }
    }

    /// The price of a false positive that spends the budget, the highest level of wildcards, and
    /// the gzipped size of the map, if it was measured.
    fn price(&self, outline: &Outline, void: VoidPrice, aside: f64) -> Result<(At, Option<u64>)> {
        let tops = match self.least.top {
            Some(top) => vec![top],
            None if self.least.sample.is_some() => vec![Top::TopLevel, Top::Everything],
            None => vec![Top::SecondLevel, Top::TopLevel, Top::Everything],
        };
        let mut at = At {
            lambda: RANGE.smallest,
            top: Top::Everything,
            void,
            aside,
        };
        for top in tops {
            at.top = top;
            let found = match self.least.budget {
                Budget::Lambda(lambda) => Some((lambda, None)),
                Budget::Bytes(allowed) => self.lambda_of_bytes(outline, at, allowed)?,
                _ => {
                    let rows = self.allowed().unwrap_or(u64::MAX);
                    self.lambda_of_rows(outline, at, rows as f64)?
                        .map(|lambda| (lambda, None))
                }
            };
            if let Some((lambda, gzipped)) = found {
                at.lambda = lambda;
                return Ok((at, gzipped));
            }
        }
        // Nothing is small enough: this is the smallest map.
        if let Budget::Bytes(allowed) = self.least.budget {
            let smallest = self.gzipped(outline, &at)?.0;
            return Err(Error::invalid(format!(
                "{allowed} bytes are too few: the smallest map takes {smallest}"
            )));
        }
        Ok((at, None))
    }

    /// The highest price whose map has no more rows than allowed.
    fn lambda_of_rows(&self, outline: &Outline, at: At, allowed: f64) -> Result<Option<f64>> {
        let solve = |lambda: f64| {
            let terms = self.terms(&At { lambda, ..at });
            Ok(solve(outline, &terms, None, None)?.value)
        };
        let mut hull = Hull::new(allowed);
        let found = search(RANGE, None, |lambda| {
            let rows = match at.void {
                // Voids may cost more than the row that they take.
                VoidPrice::Fixed(_) => solve(lambda)?.size,
                _ => hull.size(lambda, solve)?,
            };
            let over = (rows.max(0.5) / allowed).ln();
            Ok(hull.end(RANGE.spent).is_none().then_some(over))
        })?;
        let end = hull.end(RANGE.spent);
        Ok(end.map(|end| end * (1.0 - RANGE.near)).or(found.low))
    }

    /// The highest price whose gzipped map is no larger than allowed, and its size. The bytes per
    /// row are measured on the last map that was tried, and the next map has as many rows as fit.
    fn lambda_of_bytes(
        &self,
        outline: &Outline,
        at: At,
        allowed: u64,
    ) -> Result<Option<(f64, Option<u64>)>> {
        let tried = |lambda: f64| self.gzipped(outline, &At { lambda, ..at });
        let (mut taken, _) = tried(RANGE.smallest)?;
        if taken > allowed {
            return Ok(None);
        }
        let (mut low, mut high) = (RANGE.smallest, RANGE.largest);
        let mut each = 9.0;
        for _ in 0..24 {
            let rows = 0.993 * allowed as f64 / each;
            let guess = self.lambda_of_rows(outline, at, rows)?;
            let lambda = match guess {
                Some(guess) if guess > low && (guess < high || high == RANGE.largest) => guess,
                _ => f64::midpoint(low.ln(), high.ln()).exp(),
            };
            let (bytes, rows) = tried(lambda)?;
            each = bytes as f64 / rows.max(1) as f64;
            if bytes <= allowed {
                (low, taken) = (lambda, bytes);
                if bytes as f64 >= 0.985 * allowed as f64 || lambda == RANGE.largest {
                    break;
                }
            } else {
                high = lambda;
            }
            if (high / low).ln() < RANGE.near {
                break;
            }
        }
        Ok(Some((low, Some(taken))))
    }

    /// The gzipped size of a map in bytes, and its number of rows.
    fn gzipped(&self, outline: &Outline, at: &At) -> Result<(u64, u64)> {
        let solution = self.solve(outline, at)?;
        let lookups = self.least.sample.as_ref().map(Sample::lookups);
        let head = match self.style {
            Style::Published => head_with(&self.given.headers, how_of(Some(at.lambda), lookups)),
            Style::Reference => Vec::new(),
        };
        let sample = self.least.sample.as_ref();
        let (bytes, written) = measure(
            self.given,
            outline,
            &solution,
            sample,
            self.has_ports,
            &head,
            self.style,
        )?;
        Ok((bytes, written.rows))
    }

    /// The price of a void at which voids pay off on held-out lookups.
    fn void_price(&self, outline: &Outline) -> Result<VoidPrice> {
        let mut best = (f64::INFINITY, VoidPrice::Never);
        let prices = [8.0, 4.0, 2.0, 1.0].map(VoidPrice::Fixed);
        for void in [VoidPrice::Never].into_iter().chain(prices) {
            let (at, _) = self.price(outline, void, 0.0)?;
            let solution = self.solve(outline, &at)?;
            let judged = assess(outline, &solution, &self.terms(&at))?.judged;
            if judged < best.0 {
                best = (judged, void);
            }
        }
        Ok(best.1)
    }
}
