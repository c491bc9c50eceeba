//! Making a map smaller.

use std::path::Path;

use tempfile::TempPath;
use waypost_index::Source;

use super::once::Once;
use super::papers::{Decide, Papers};
use super::pass::{Pass, Walked, walk, walk_again};
use super::prior::Prior;
use super::queue::{Finished, Queue};
use super::rows::{Order, Rows};
use super::sample::Sample;
use super::search::Search;
use super::solve::Choices;
use super::tidy::{Room, tidied, write_spooled};
use super::top::Top;
use super::write::{Counting, Style, Summed, Writer};
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
    /// How many rows the budget allowed, or bytes, if it was one of bytes.
    pub allowed: Option<u64>,
    /// Bytes of the map when it is gzipped, if the budget was one of bytes.
    pub gzipped: Option<u64>,
    /// False positives to be expected, in lookups of the sample; what the prior adds is in it.
    pub false_positives: Option<f64>,
    /// Misses to be expected, of which these are called present.
    pub misses: Option<f64>,
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
    /// What the papers' rule would have given at the same size.
    pub papers: Option<SameSize>,
}

/// A map by the papers' rule that is no larger than another: of those with the weights that were tried,
/// the one with the fewest false positives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SameSize {
    /// The weight of hosts.
    pub host_weight: f64,
    /// The weight of paths.
    pub path_weight: f64,
    /// Its rows.
    pub rows: u64,
    /// False positives to be expected, priced as those of the other.
    pub false_positives: f64,
}

/// A map that can be walked again and again.
pub struct Given {
    pub(super) source: Source,
    _temporary: Option<TempPath>,
    pub(super) sorted: bool,
    pub(super) room: Room,
    pub(super) headers: Headers,
    pub(super) counting: Counting,
    pub(super) keys: usize,
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
            keys: 1,
        };
        // A map is read several times.
        source.keep(&room.temporary)?;
        let rows = Rows::open(&given.source, Order::Any)?;
        given.keys = rows.keys();
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
        self.source = Source::new(tidy.to_path_buf());
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
    let mut report = compact_by(given, rule, style, out, traced)?;
    if traced {
        report.trace.push((report.rows_in, report.written.rows));
    }
    Ok(report)
}

fn compact_by(
    given: &mut Given,
    rule: &Rule,
    style: Style,
    out: &Path,
    traced: bool,
) -> Result<Report> {
    let mut report = Report::default();
    if given.keys > 1 {
        refuse_voids(given, rule)?;
    }
    let folder = given.room.temporary.clone();
    match rule {
        Rule::Papers(papers) => {
            if let Some(report) = in_one_walk(given, rule, papers, style, out, traced)? {
                return Ok(report);
            }
            let (decide, rows) = given.walk(None, || Decide::new(papers, &folder))?;
            report.rows_in = rows;
            report.rolled = Some(decide.rolled);
            let (choices, has_ports) = (&decide.choices, decide.has_ports);
            write_by(
                given,
                rule,
                choices,
                None,
                has_ports,
                style,
                out,
                traced,
                &mut report,
            )?;
        }
        Rule::LeastCost(least) => {
            let (outline, solution, has_ports) =
                Search::new(given, least, style)?.find(&mut report)?;
            let choices = &solution.choices(&outline, &folder)?;
            let sample = least.sample.as_ref();
            write_by(
                given,
                rule,
                choices,
                sample,
                has_ports,
                style,
                out,
                traced,
                &mut report,
            )?;
        }
    }
    Ok(report)
}

#[allow(
    clippy::too_many_arguments,
    reason = "two callers, and each of them has these at hand"
)]
fn write_by(
    given: &mut Given,
    rule: &Rule,
    choices: &Choices<'_>,
    sample: Option<&Sample>,
    has_ports: bool,
    style: Style,
    out: &Path,
    traced: bool,
    report: &mut Report,
) -> Result<()> {
    report.sorted = given.sorted;
    let head = match style {
        Style::Published => head(&given.headers, rule, report),
        Style::Reference => Vec::new(),
    };
    write(
        given, choices, sample, has_ports, &head, style, out, traced, report,
    )
}

/// A void of one year says nothing of another: maps with a second key are compacted without voids.
fn refuse_voids(given: &Given, rule: &Rule) -> Result<()> {
    if matches!(rule, Rule::LeastCost(least) if least.voids) {
        return Err(Error::invalid(
            "voids are not learned for a map with a second key",
        ));
    }
    let mut rows = Rows::open(&given.source, Order::Any)?;
    while let Some(row) = rows.next()? {
        if row.frequency.is_void() {
            let line = rows.line_number();
            return Err(Error::invalid(
                "a map with a second key and voids cannot be compacted: leave the voids out",
            )
            .in_file(&given.source)
            .at_line(line));
        }
    }
    Ok(())
}

/// Compacts by the papers' rule in one walk. `None` if it takes two.
fn in_one_walk(
    given: &mut Given,
    rule: &Rule,
    papers: &Papers,
    style: Style,
    out: &Path,
    traced: bool,
) -> Result<Option<Report>> {
    if !is_replaced(out) || given.keys > 1 {
        return Ok(None);
    }
    let mut report = Report::default();
    let head = match style {
        Style::Published => head(&given.headers, rule, &report),
        Style::Reference => Vec::new(),
    };
    loop {
        let queue = Queue::to_file(out, &head, style)?;
        let mut once = Once::new(papers, style, queue, traced);
        let walked = walk(&given.source, None, &mut once)?;
        once.queue.flush();
        match walked {
            Walked::Whole { .. } if once.gives_up() => return Ok(None),
            Walked::Whole { rows } => {
                report.rows_in = rows;
                report.rolled = Some(once.rolled);
                report.sorted = given.sorted;
                report.trace = once.trace.take().unwrap_or_default();
                let (finished, written) = once.queue.finish()?;
                report.written = written;
                if let Finished::File(bytes) = finished {
                    report.bytes = bytes;
                }
                return Ok(Some(report));
            }
            Walked::Untidy(untidy) if given.sorted => return Err(untidy.error(&given.source)),
            Walked::Untidy(_) => given.tidy()?,
        }
    }
}

#[allow(
    clippy::too_many_arguments,
    reason = "two callers, and each of them has these at hand"
)]
pub(super) fn write(
    given: &mut Given,
    choices: &Choices<'_>,
    sample: Option<&Sample>,
    has_ports: bool,
    head: &[u8],
    style: Style,
    out: &Path,
    traced: bool,
    report: &mut Report,
) -> Result<()> {
    let counting = given.counting;
    if (!has_ports || style == Style::Reference) && is_replaced(out) {
        let queue = Queue::to_file(out, head, style)?;
        let mut writer = Writer::new(choices, style, counting, queue);
        writer.trace = traced.then(Vec::new);
        if let Walked::Untidy(untidy) = walk_again(&given.source, sample, &mut writer)? {
            return Err(untidy.error(&given.source));
        }
        choices.intact()?;
        writer.queue.flush();
        if !writer.queue.gave_up {
            report.trace = writer.trace.take().unwrap_or_default();
            let (finished, written) = writer.finish()?;
            report.written = written;
            if let Finished::File(bytes) = finished {
                report.bytes = bytes;
            }
            return Ok(());
        }
    }
    let queue = Queue::to_spool(&given.room, style)?;
    let mut writer = Writer::new(choices, style, counting, queue);
    writer.trace = traced.then(Vec::new);
    if let Walked::Untidy(untidy) = walk_again(&given.source, sample, &mut writer)? {
        return Err(untidy.error(&given.source));
    }
    choices.intact()?;
    report.trace = writer.trace.take().unwrap_or_default();
    let (finished, written) = writer.finish()?;
    report.written = written;
    if let Finished::Spool(spool) = finished {
        write_spooled(spool.finish()?, given.keys, head, out)?;
    }
    report.bytes = std::fs::metadata(out).map_or(0, |metadata| metadata.len());
    Ok(())
}

/// Whether an output that is given up leaves no trace: pipes and devices take what they are given.
fn is_replaced(out: &Path) -> bool {
    out.as_os_str() != "-" && std::fs::metadata(out).map_or(true, |metadata| metadata.is_file())
}

/// The headers of the smaller map.
fn head(headers: &Headers, rule: &Rule, report: &Report) -> Vec<u8> {
    match rule {
        Rule::Papers(papers) => {
            let weights = format!("{} {}", papers.host_weight, papers.path_weight);
            let how = vec![
                ("rule".into(), "papers".into()),
                ("weights".into(), Value::Text(weights)),
            ];
            head_with(headers, how)
        }
        Rule::LeastCost(least) => {
            let lookups = least.sample.as_ref().map(Sample::lookups);
            head_with(headers, how_of(report.lambda, lookups))
        }
    }
}

/// How a map of least cost says that it was made.
pub(super) fn how_of(lambda: Option<f64>, lookups: Option<u64>) -> Vec<(String, Value)> {
    let mut how: Vec<(String, Value)> = vec![("rule".into(), "least cost".into())];
    if let Some(lambda) = lambda {
        how.push(("lambda".into(), Value::Text(format!("{lambda:.6e}"))));
    }
    if let Some(lookups) = lookups {
        how.push(("lookups".into(), Value::Text(lookups.to_string())));
    }
    how
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
