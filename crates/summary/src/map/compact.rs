//! Compacting maps.

use std::path::Path;

use tempfile::TempPath;
use waypost_io::pipeline::{self, Pool, Width};
use waypost_io::{LONGEST_LINE, Phase, Progress, Resources, Source};

use super::solve::papers::{Decide, Papers};
use super::solve::plain::Search;
use super::solve::prior::Prior;
use super::solve::top::Top;
use super::solve::{Choices, Loan, Outline, Solution};
use super::tree::cut::{PIECE, Piece, Pieces, Sharing};
use super::tree::pass::{Pass, Walked, walk_rows};
use super::tree::rows::{Order, RowSums, Rows, check_kind};
use super::tree::sample::Sample;
use super::tree::spooled;
use super::tree::tidy::tidied;
use super::write::assemble::write_pieces;
use super::write::once::Once;
use super::write::pieces;
use super::write::queue::{Finished, Queue};
use super::write::{Counting, Style, Summed, Writer};
use crate::error::{Error, Result};
use crate::ukvs::{Header, Headers, RowWriter, Value};

/// The maximum size of a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// Number of rows.
    Keys(u64),
    /// Rows, as a share of the URI-Rs.
    Share(f64),
    /// Bytes of the gzipped file.
    Bytes(u64),
    /// No maximum: the price of a false positive, in rows.
    Lambda(f64),
}

/// The rule for compacting a map.
#[derive(Clone, Debug)]
pub enum Rule {
    /// By the papers' rule.
    Papers(Papers),
    /// At least cost.
    LeastCost(Box<LeastCost>),
}

/// Options for the least-cost map.
#[derive(Clone, Debug)]
pub struct LeastCost {
    /// The maximum size of the map.
    pub budget: Budget,
    /// Lookups that price false positives.
    pub sample: Option<Sample>,
    /// Whether voids may be learned from the lookups.
    pub voids: bool,
    /// Expected misses where there are no lookups. Learned from the lookups, if there are any.
    pub prior: Option<Prior>,
    /// The highest level at which wildcards are allowed; by default, as high as the budget
    /// requires.
    pub top: Option<Top>,
}

/// The result of compacting a map.
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
    /// The budget, in rows, or in bytes if it was given in bytes.
    pub allowed: Option<u64>,
    /// The gzipped size in bytes, if the budget was given in bytes.
    pub gzipped: Option<u64>,
    /// Expected false positives, in lookups of the sample, including those that the prior adds.
    pub false_positives: Option<f64>,
    /// Expected misses; the false positives are some of these.
    pub misses: Option<f64>,
    /// Topmost nodes that the papers' rule rolled up.
    pub rolled: Option<u64>,
    /// URI-Rs of the map.
    pub urirs: u64,
    /// Whether the rows had to be sorted first.
    pub sorted: bool,
    /// The highest level of wildcards.
    pub top: Option<Top>,
    /// The price of a void, in rows, if voids are allowed.
    pub void_price: Option<f64>,
    /// Rows read and rows written over the course of the run.
    pub trace: Vec<(u64, u64)>,
    /// What the papers' rule would achieve at the same size.
    pub papers: Option<SameSize>,
}

/// The best map by the papers' rule that is no larger than the least-cost map: of the weights that
/// were tried, the one with the fewest false positives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SameSize {
    /// The weight of hosts.
    pub host_weight: f64,
    /// The weight of paths.
    pub path_weight: f64,
    /// Number of rows.
    pub rows: u64,
    /// Expected false positives, priced like those of the least-cost map.
    pub false_positives: f64,
}

/// A map that can be read several times.
pub struct SourceMap {
    pub(super) source: Source,
    _temporary: Option<TempPath>,
    pub(super) sorted: bool,
    pub(super) room: Resources,
    pub(super) headers: Headers,
    pub(super) counting: Counting,
    pub(super) keys: usize,
    pub(super) progress: Progress,
    /// The least size of the pieces that it is cut into, if it is.
    pub(super) piece: Option<usize>,
}

/// How a walk over pieces ended.
enum Walk {
    /// Completed, with this many rows.
    Whole { rows: u64 },
    /// A piece is not tidy.
    Untidy,
    /// The map cannot be cut, or a piece cannot be read.
    Impossible,
}

impl SourceMap {
    /// Opens a map.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(source: &Source, room: &Resources) -> Result<SourceMap> {
        let mut given = SourceMap {
            source: source.clone(),
            _temporary: None,
            sorted: false,
            room: room.clone(),
            headers: Headers::default(),
            counting: Counting::default(),
            keys: 1,
            progress: Progress::default(),
            piece: None,
        };
        // A map is read several times.
        source.keep(&room.temporary)?;
        let rows = Rows::open(&given.source, Order::Any)?;
        given.keys = rows.keys();
        given.headers = rows.headers().clone();
        given.counting = counting(&given.headers);
        // Second keys are numbered in the order of their rows.
        given.piece = (given.keys == 1).then_some(PIECE);
        Ok(given)
    }

    /// Reports what is done with the map: reading, solving, writing.
    #[must_use]
    pub fn reporting_to(mut self, progress: &Progress) -> SourceMap {
        self.progress = progress.clone();
        self
    }

    /// Whether its rows have filters, according to its headers.
    pub fn has_filters(&self) -> bool {
        super::filtered::identity_in(&self.headers).is_some()
    }

    /// The dialect of its SURTs.
    ///
    /// # Errors
    /// If a header names an unknown dialect.
    pub fn dialect(&self) -> Result<waypost_surt::Dialect> {
        Ok(crate::about::About::from_headers(&self.headers)?.dialect)
    }

    fn tidy(&mut self) -> Result<()> {
        self.progress.begin(Phase::Sorting, None);
        let tidy = tidied(&self.source, &self.room)?;
        self.source = Source::new(tidy.to_path_buf());
        self._temporary = Some(tidy);
        self.sorted = true;
        Ok(())
    }

    /// Walks over all rows; tidies them first if necessary.
    pub(super) fn walk<P: Pass>(
        &mut self,
        sample: Option<&Sample>,
        mut pass: impl FnMut() -> P,
    ) -> Result<(P, u64)> {
        loop {
            let mut this = pass();
            match self.pass(Phase::Reading, Order::Watch, sample, &mut this)? {
                Walked::Whole { rows } => return Ok((this, rows)),
                Walked::Untidy(untidy) if self.sorted => return Err(untidy.error(&self.source)),
                Walked::Untidy(_) => self.tidy()?,
            }
        }
    }

    /// Makes something of the pieces of the map, once more if it had to be tidied first. If that is
    /// not possible, the map stays in one piece from now on: then a walk over all of it says why, with
    /// the number of the line.
    pub(super) fn in_pieces<T>(
        &mut self,
        mut make: impl FnMut(&mut SourceMap) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let was_sorted = self.sorted;
        let mut made = make(self)?;
        if made.is_none() && self.sorted != was_sorted {
            made = make(self)?;
        }
        if made.is_none() {
            self.piece = None;
        }
        Ok(made)
    }

    /// Walks over the pieces of the map on all cores. `done` makes a result of the pass over a piece,
    /// or `None` if it is not possible to walk it alone, and `take` receives the results in the order
    /// of the pieces. Returns the number of rows, or `None` if the map cannot be walked in pieces, or
    /// has just been tidied.
    pub(super) fn walk_pieces<P: Pass, T: Send>(
        &mut self,
        sharing: Sharing,
        sample: Option<&Sample>,
        pass: impl Fn(&Piece) -> Result<P> + Sync,
        done: impl Fn(P) -> Result<Option<T>> + Sync,
        take: impl FnMut(T) -> Result<()>,
    ) -> Result<Option<u64>> {
        match self.pieces(Phase::Reading, sharing, sample, pass, done, take)? {
            Walk::Whole { rows } => Ok(Some(rows)),
            Walk::Untidy if !self.sorted => {
                self.tidy()?;
                Ok(None)
            }
            Walk::Untidy | Walk::Impossible => Ok(None),
        }
    }

    /// Walks over the pieces of a map that has already been walked in pieces.
    pub(super) fn walk_pieces_again<P: Pass, T: Send>(
        &self,
        phase: Phase,
        sample: Option<&Sample>,
        pass: impl Fn(&Piece) -> Result<P> + Sync,
        done: impl Fn(P) -> Result<Option<T>> + Sync,
        take: impl FnMut(T) -> Result<()>,
    ) -> Result<()> {
        match self.pieces(phase, Sharing::Ancestors, sample, pass, done, take)? {
            Walk::Whole { .. } => Ok(()),
            Walk::Untidy | Walk::Impossible => Err(self.changed()),
        }
    }

    /// The map could be walked in pieces before.
    pub(super) fn changed(&self) -> Error {
        Error::invalid("the map was changed while it was read").in_file(&self.source)
    }

    fn pieces<P: Pass, T: Send>(
        &self,
        phase: Phase,
        sharing: Sharing,
        sample: Option<&Sample>,
        pass: impl Fn(&Piece) -> Result<P> + Sync,
        done: impl Fn(P) -> Result<Option<T>> + Sync,
        mut take: impl FnMut(T) -> Result<()>,
    ) -> Result<Walk> {
        let Some(size) = self.piece else {
            return Ok(Walk::Impossible);
        };
        check_kind(&self.source)?;
        self.progress.begin(phase, self.source.size());
        let (source, memory) = (&self.source, self.room.memory);
        let mut pieces = Pieces::open(source, &self.progress, sharing, size, memory)?;
        let name = self.source.to_string();
        let threads = self.room.threads.max(1);
        let width = Width {
            threads,
            pieces: 2 * threads + 2,
        };
        let pool = Pool::new();
        let walk = |mut piece: Piece| {
            // A map of one piece is better walked as a whole.
            let text = piece.text.take().filter(|_| !piece.borders.is_whole());
            let Some(Ok((text, permit))) = text.map(|text| text.bytes(pool.get())) else {
                return Ok(Err(Walk::Impossible));
            };
            if has_long_line(&text) {
                return Ok(Err(Walk::Impossible));
            }
            let mut pass = pass(&piece)?;
            let (from, to) = piece.borders.keys();
            let sample = sample.map(|sample| sample.between(from, to));
            let Ok(mut rows) = Rows::of_text(text, &name, Order::Watch) else {
                return Ok(Err(Walk::Impossible));
            };
            let walked = walk_rows(&mut rows, sample.as_ref(), &mut pass);
            let sums = (rows.sums(), rows.headers().clone());
            pool.put(rows.into_buffer());
            Ok(match walked {
                Ok(Walked::Whole { rows }) => match done(pass)? {
                    Some(result) => Ok((result, rows, sums, permit)),
                    None => Err(Walk::Impossible),
                },
                Ok(Walked::Untidy(_)) => Err(Walk::Untidy),
                Err(_) => Err(Walk::Impossible),
            })
        };
        let mut ended = None;
        let mut all = 0;
        let (mut sums, mut headers) = (RowSums::default(), Headers::default());
        let walked = pipeline::run(
            width,
            || Ok(pieces.next()),
            || &walk,
            |walked| match walked {
                Ok((result, rows, (piece, of_piece), _)) => {
                    all += rows;
                    sums.merge(&piece);
                    // Only the first piece has headers.
                    if all == rows {
                        headers = of_piece;
                    }
                    take(result)
                }
                Err(walk) => {
                    ended = Some(walk);
                    Err(Error::invalid("the map cannot be walked in pieces"))
                }
            },
        );
        match (walked, ended) {
            (Ok(()), _) => {
                let checked = sums.check(&headers);
                checked.map_err(|error| error.in_file(&self.source))?;
                Ok(Walk::Whole { rows: all })
            }
            (Err(_), Some(ended)) => Ok(ended),
            (Err(error), None) => Err(error),
        }
    }

    /// Walks over rows that are known to be tidy.
    pub(super) fn walk_again<P: Pass>(
        &self,
        phase: Phase,
        sample: Option<&Sample>,
        pass: &mut P,
    ) -> Result<()> {
        match self.pass(phase, Order::Any, sample, pass)? {
            Walked::Whole { .. } => Ok(()),
            Walked::Untidy(untidy) => Err(untidy.error(&self.source)),
        }
    }

    fn pass<P: Pass>(
        &self,
        phase: Phase,
        order: Order,
        sample: Option<&Sample>,
        pass: &mut P,
    ) -> Result<Walked> {
        self.progress.begin(phase, self.source.size());
        let mut rows = Rows::reporting_to(Some(&self.progress), &self.source, order)?;
        walk_rows(&mut rows, sample, pass)
    }
}

/// Whether a line is too long. Few pieces are long enough to have one.
fn has_long_line(piece: &[u8]) -> bool {
    piece.len() > LONGEST_LINE
        && (piece.split(|&byte| byte == b'\n')).any(|line| line.len() > LONGEST_LINE)
}

/// Whether wildcard rows of a map include the counts of the rows below them.
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

/// Compacts a map.
///
/// # Errors
/// When the map cannot be read or written.
pub fn compact(
    given: &mut SourceMap,
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
    given: &mut SourceMap,
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
            report.sorted = given.sorted;
            let head = head_in(style, &given.headers, rule, &report);
            let (choices, has_ports) = (&decide.choices, decide.has_ports);
            write(
                given,
                choices,
                None,
                has_ports,
                &head,
                style,
                out,
                traced,
                &mut report,
            )?;
        }
        Rule::LeastCost(least) => {
            if style == Style::Reference || traced {
                given.piece = None;
            }
            let (outline, solution, has_ports) =
                Search::new(given, least, style)?.find(&mut report)?;
            report.sorted = given.sorted;
            let head = head_in(style, &given.headers, rule, &report);
            write_solution(
                given,
                &outline,
                &solution,
                least.sample.as_ref(),
                has_ports,
                &head,
                style,
                out,
                traced,
                &mut report,
            )?;
        }
    }
    Ok(report)
}

/// The headers in a style.
fn head_in(style: Style, headers: &Headers, rule: &Rule, report: &Report) -> Vec<u8> {
    match style {
        Style::Published => head(headers, rule, report),
        Style::Reference => Vec::new(),
    }
}

/// A void of one year says nothing about another, so maps with a second key are compacted without
/// voids.
fn refuse_voids(given: &SourceMap, rule: &Rule) -> Result<()> {
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

/// Compacts by the papers' rule in a single pass. `None` if it takes two.
fn in_one_walk(
    given: &mut SourceMap,
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
    let head = head_in(style, &given.headers, rule, &report);
    if style == Style::Published && !traced && given.room.threads > 1 {
        let whole = given.in_pieces(|given| pieces::compact(given, papers, &head, out))?;
        if let Some(whole) = whole {
            report.rows_in = whole.rows;
            report.rolled = Some(whole.rolled);
            report.written = whole.written;
            report.bytes = whole.bytes;
            report.sorted = given.sorted;
            return Ok(Some(report));
        }
    }
    loop {
        let queue = Queue::to_file(out, &head, style)?;
        let mut once = Once::new(papers, style, queue, traced);
        let walked = given.pass(Phase::Reading, Order::Watch, None, &mut once)?;
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

/// Writes the map of a solution.
#[allow(
    clippy::too_many_arguments,
    reason = "two callers, and each of them has these at hand"
)]
pub(super) fn write_solution(
    given: &mut SourceMap,
    outline: &Outline,
    solution: &Solution,
    sample: Option<&Sample>,
    has_ports: bool,
    head: &[u8],
    style: Style,
    out: &Path,
    traced: bool,
    report: &mut Report,
) -> Result<()> {
    if !outline.is_in_pieces() {
        let choices = &solution.choices(outline, 0, &given.room.temporary)?;
        return write(
            given, choices, sample, has_ports, head, style, out, traced, report,
        );
    }
    let mut lines = RowWriter::create(out, head, given.room.threads)?;
    let phase = Phase::Writing;
    report.written = write_pieces(given, outline, solution, sample, phase, |text| {
        lines.push_lines(text)
    })?;
    report.bytes = lines.finish()?.bytes_out;
    Ok(())
}

#[allow(
    clippy::too_many_arguments,
    reason = "two callers, and each of them has these at hand"
)]
pub(super) fn write(
    given: &mut SourceMap,
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
        let mut writer = Writer::new(Loan::Kept(choices), style, counting, queue);
        writer.trace = traced.then(Vec::new);
        given.walk_again(Phase::Writing, sample, &mut writer)?;
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
    let mut writer = Writer::new(Loan::Kept(choices), style, counting, queue);
    writer.trace = traced.then(Vec::new);
    given.walk_again(Phase::Writing, sample, &mut writer)?;
    choices.intact()?;
    report.trace = writer.trace.take().unwrap_or_default();
    let (finished, written) = writer.finish()?;
    report.written = written;
    if let Finished::Spool(spool) = finished {
        let (spools, progress) = (vec![spool.finish()?], Progress::default());
        spooled::write(spools, given.keys, head, &given.room, &progress, out)?;
    }
    report.bytes = std::fs::metadata(out).map_or(0, |metadata| metadata.len());
    Ok(())
}

/// Whether an abandoned output leaves no trace. Pipes and devices can't be rewound.
fn is_replaced(out: &Path) -> bool {
    out.as_os_str() != "-" && std::fs::metadata(out).map_or(true, |metadata| metadata.is_file())
}

/// The headers of the compacted map.
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

/// Records in the headers how a least-cost map was built.
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

/// The headers of a map derived from another, with additional fields that say how.
pub(super) fn head_with(headers: &Headers, how: Vec<(String, Value)>) -> Vec<u8> {
    let mut headers = headers.clone();
    // The companion of the input map does not belong to the output.
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
