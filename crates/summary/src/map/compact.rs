//! Making a map smaller.

use std::path::Path;

use tempfile::TempPath;
use waypost_index::Source;

use super::cost::{Cost, Prices, Sites, Top};
use super::decision::Decisions;
use super::judge::Judge;
use super::papers::{Decide, Papers};
use super::pass::{Pass, Walked, walk, walk_again};
use super::prior::{Learning, Prior};
use super::rows::{Order, Rows};
use super::sample::Sample;
use super::tidy::{Room, tidied, write_spooled};
use super::write::{Counting, Finished, Plan, Style, Summed, Writer};
use crate::error::{Error, Result};
use crate::ukvs::{Header, Headers, Value};

/// How large the map may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// So many rows.
    Keys(u64),
    /// Rows, as a share of the URI-Rs.
    Share(f64),
    /// Bytes of the gzipped file.
    Bytes(u64),
    /// What a false positive costs, in rows.
    Lambda(f64),
}

/// How to make a map smaller.
#[derive(Clone, Debug)]
pub enum Rule {
    /// By the papers' rule.
    Papers(Papers),
    /// At least cost.
    LeastCost(Box<LeastCost>),
}

/// How to find the map of least cost.
#[derive(Clone, Debug)]
pub struct LeastCost {
    /// How large the map may be.
    pub budget: Budget,
    /// Lookups to price false positives by.
    pub sample: Option<Sample>,
    /// Whether zero rows may be learned from the lookups.
    pub voids: bool,
    /// What to expect where no lookup is known. Learned from the lookups if there are any.
    pub prior: Option<Prior>,
    /// How far up wildcards may stand; as far as the budget needs, if not given.
    pub top: Option<Top>,
}

/// What was made.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Rows read.
    pub rows_in: u64,
    /// Rows written.
    pub written: Summed,
    /// Bytes of the file.
    pub bytes: u64,
    /// The price of a false positive, in rows.
    pub lambda: Option<f64>,
    /// How many rows the budget allowed, if it was one of rows.
    pub allowed: Option<u64>,
    /// False positives to be expected, in lookups of the sample; what the prior adds is in it.
    pub false_positives: Option<f64>,
    /// Places that the papers' rule rolled up.
    pub rolled: Option<u64>,
    /// URI-Rs of the map.
    pub urirs: u64,
    /// The rows had to be sorted first.
    pub sorted: bool,
    /// How far up wildcards stand.
    pub top: Option<Top>,
    /// What a void costs, in rows, if there are any.
    pub void_price: Option<f64>,
    /// Rows read against rows written, on the way.
    pub trace: Vec<(u64, u64)>,
}

/// A map that can be walked again and again.
pub struct Given {
    pub(super) source: Source,
    _temporary: Option<TempPath>,
    pub(super) sorted: bool,
    pub(super) room: Room,
    pub(super) headers: Headers,
    pub(super) counting: Counting,
}

impl Given {
    /// Opens a map.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(source: &Source, room: &Room) -> Result<Given> {
        let mut given = Given {
            source: source.clone(),
            _temporary: None,
            sorted: false,
            room: room.clone(),
            headers: Headers::default(),
            counting: Counting::default(),
        };
        if *source == Source::Stdin {
            given.tidy()?;
        }
        let rows = Rows::open(&given.source, Order::Any)?;
        if rows.keys() > 1 {
            return Err(Error::invalid(
                "maps with a second key cannot be compacted: build one without, or one for each",
            )
            .in_file(source));
        }
        given.headers = rows.headers().clone();
        given.counting = counting(&given.headers);
        Ok(given)
    }

    /// Whether its rows have filters, as far as its headers say.
    pub fn has_filters(&self) -> bool {
        super::filtered::identity_in(&self.headers).is_some()
    }

    /// The dialect of its SURTs.
    ///
    /// # Errors
    /// When a header names one that does not exist.
    pub fn dialect(&self) -> Result<waypost_surt::Dialect> {
        Ok(crate::about::About::from_headers(&self.headers)?.dialect)
    }

    fn tidy(&mut self) -> Result<()> {
        let tidy = tidied(&self.source, &self.room)?;
        self.source = Source::File(tidy.to_path_buf());
        self._temporary = Some(tidy);
        self.sorted = true;
        Ok(())
    }

    /// Walks over all rows; makes them tidy first if they are not.
    pub(super) fn walk<P: Pass>(
        &mut self,
        sample: Option<&Sample>,
        mut pass: impl FnMut() -> P,
    ) -> Result<(P, u64)> {
        loop {
            let mut this = pass();
            match walk(&self.source, sample, &mut this)? {
                Walked::Whole { rows } => return Ok((this, rows)),
                Walked::Untidy(untidy) if self.sorted => return Err(untidy.error(&self.source)),
                Walked::Untidy(_) => self.tidy()?,
            }
        }
    }
}

/// Whether wildcard rows of a map count what rows below them count.
pub(crate) fn counting(headers: &Headers) -> Counting {
    let meta = headers.get("meta");
    let said = meta
        .as_ref()
        .and_then(|meta| meta.get("wildcards")?.as_text());
    match said {
        Some("partition") => Counting::Partition,
        _ => Counting::Accumulate,
    }
}

/// Makes a map smaller.
///
/// # Errors
/// When the map cannot be read or written.
pub fn compact(
    given: &mut Given,
    rule: &Rule,
    style: Style,
    out: &Path,
    traced: bool,
) -> Result<Report> {
    let mut report = Report::default();
    let (decisions, sample, has_ports) = match rule {
        Rule::Papers(papers) => {
            let (decide, rows) = given.walk(None, || Decide::new(papers))?;
            report.rows_in = rows;
            report.rolled = Some(decide.rolled);
            (decide.decisions, None, decide.has_ports)
        }
        Rule::LeastCost(least) => {
            let found = Search::new(given, least, style)?.find(&mut report)?;
            (found.0, least.sample.as_ref(), found.1)
        }
    };
    report.sorted = given.sorted;
    let head = match style {
        Style::Published => head(&given.headers, rule, &report),
        Style::Reference => Vec::new(),
    };
    write(
        given,
        Plan::Rolls(&decisions),
        sample,
        has_ports,
        &head,
        style,
        out,
        traced,
        &mut report,
    )?;
    Ok(report)
}

#[allow(
    clippy::too_many_arguments,
    reason = "two callers, and each of them has these at hand"
)]
pub(super) fn write(
    given: &mut Given,
    plan: Plan<'_>,
    sample: Option<&Sample>,
    has_ports: bool,
    head: &[u8],
    style: Style,
    out: &Path,
    traced: bool,
    report: &mut Report,
) -> Result<()> {
    let counting = given.counting;
    if !has_ports || style == Style::Reference {
        let mut writer = Writer::to_file(out, head, plan, style, counting)?;
        writer.trace = traced.then(Vec::new);
        if let Walked::Untidy(untidy) = walk_again(&given.source, sample, &mut writer)? {
            return Err(untidy.error(&given.source));
        }
        if !writer.gave_up {
            report.trace = writer.trace.take().unwrap_or_default();
            let written = writer.written;
            if let Finished::File(bytes) = writer.finish()? {
                report.bytes = bytes;
            }
            // What was still waiting has been counted by now.
            report.written = written;
            return Ok(());
        }
    }
    let mut writer = Writer::to_spool(&given.room, plan, counting)?;
    writer.trace = traced.then(Vec::new);
    if let Walked::Untidy(untidy) = walk_again(&given.source, sample, &mut writer)? {
        return Err(untidy.error(&given.source));
    }
    report.trace = writer.trace.take().unwrap_or_default();
    report.written = writer.written;
    if let Finished::Spool(spool) = writer.finish()? {
        write_spooled(spool.finish()?, 1, head, out)?;
    }
    report.bytes = std::fs::metadata(out).map_or(0, |metadata| metadata.len());
    Ok(())
}

/// The headers of the smaller map.
fn head(headers: &Headers, rule: &Rule, report: &Report) -> Vec<u8> {
    let mut meta = Vec::new();
    let mut add = |name: &str, value: String| meta.push((name.into(), Value::Text(value)));
    match rule {
        Rule::Papers(papers) => {
            add("rule", "papers".into());
            add(
                "weights",
                format!("{} {}", papers.host_weight, papers.path_weight),
            );
        }
        Rule::LeastCost(least) => {
            add("rule", "least cost".into());
            if let Some(lambda) = report.lambda {
                add("lambda", format!("{lambda:.6e}"));
            }
            if let Some(sample) = &least.sample {
                add("lookups", sample.lookups().to_string());
            }
        }
    }
    head_with(headers, meta)
}

/// The headers of a map made from another, with what is to be said of how it was made.
pub(super) fn head_with(headers: &Headers, how: Vec<(String, Value)>) -> Vec<u8> {
    let mut headers = headers.clone();
    // The filter of the map that it was made from is not its own.
    headers.drop_field("meta", "filter");
    if headers.get("fields").is_none() && headers.get("keys").is_none() {
        let list = |name: &str| Value::List(vec![name.into()]);
        let fields = vec![
            ("keys".into(), list("surt")),
            ("values".into(), list("frequency")),
        ];
        headers.add(Header::new("fields", Value::Object(fields)));
    }
    let mut meta: Vec<(String, Value)> = vec![
        ("type".into(), "MementoMap".into()),
        ("wildcards".into(), "partition".into()),
    ];
    meta.extend(how);
    headers.add(Header::new("meta", Value::Object(meta)));
    let mut out = Vec::new();
    headers.write(&mut out);
    out
}

/// How many prices are tried in one walk.
const LANES: usize = 8;

/// Looks for the price that spends a budget.
struct Search<'a> {
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
        strength: f64,
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
        let learning = first.learning.filter(|_| prior.is_none());
        let prior = match (prior, &learning) {
            (Some(prior), _) => prior.clone(),
            // Half of the lookups taught it.
            (None, Some(learning)) => learning.finish(2.0, strength),
            (None, None) => Prior::default(),
        };
        Ok(Learned {
            prior,
            learning,
            densities: sites.all,
            urirs: first.urirs,
            rows,
        })
    }
}

impl<'a> Search<'a> {
    fn new(given: &'a mut Given, least: &'a LeastCost, style: Style) -> Result<Search<'a>> {
        let learned = Learned::new(given, least.sample.as_ref(), least.prior.as_ref(), STRENGTH)?;
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

    fn find(mut self, report: &mut Report) -> Result<(Decisions, bool)> {
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
        Ok((found.decisions.unwrap_or_default(), found.has_ports))
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
        let plan = Plan::Rolls(&decisions);
        let mut writer = Writer::to_measure(&head, plan, self.style, self.given.counting);
        walk_again(&self.given.source, self.least.sample.as_ref(), &mut writer)?;
        match writer.finish()? {
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

const SMALLEST: f64 = 1e-12;
const LARGEST: f64 = 1e12;

/// How much the mean of places alike counts against what was seen at a place.
const STRENGTH: f64 = 0.3;
