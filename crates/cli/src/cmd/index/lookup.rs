use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum, ValueHint};
use waypost_index::Field;
use waypost_index::lookup::{Filter, Form, Lookup as Search, Order, Query, Wanted};
use waypost_index::range::{Match, pywb_range, ranges};
use waypost_index::timestamp::Time;
use waypost_io::pieces::{PIECE, Piece, Pieces};
use waypost_io::{AtomicFile, Error, ErrorKind, Phase, Source};
use waypost_surt::Canonicalizer;

use super::keys::KeyArgs;
use crate::args::ResourceArgs;
use crate::exit::Exit;
use crate::plural;
use crate::printer::Printer;
use crate::remote::{RemoteArgs, RemoteFiles, as_url};
use crate::time::{check_span, first_of, last_of};

/// Find the captures of URIs in a sorted index
///
/// The index is a sorted, uncompressed file or a ZipNum index. Lookups read only what they need: a
/// flat file is searched by binary search, and one block of a ZipNum index is inflated.
///
/// A ZipNum index on the Web is given by the URL of its .idx file, https://…/cluster.idx. The .idx
/// file is searched and the blocks are fetched by range requests, each block once. With --cache, the
/// .idx file is downloaded once, and again when it has changed.
///
/// *.example.com matches the domain and example.com/a* the prefix, as with --match. Hosts and
/// domains match at every port.
///
/// Filters have pywb's syntax, [!][=|~]FIELD:VALUE. `=status:200` means that the status is 200,
/// `mime:html` that the media type contains html, and `~url:http://[^/]*/a` that the URL matches the
/// regular expression from its start; `!` negates a filter. Without FIELD: the whole line is
/// searched. A capture must pass all filters.
///
/// Lookups from a file (--batch) are sorted, as many at a time as fit in an eighth of --memory, and
/// answered in index order: each capture is printed once and each block read once. When a pipe is
/// silent for a tenth of a second, the lookups received so far are answered.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost index lookup zipnum http://gazette.example.com/\n\
    \x20 waypost index lookup sorted.cdxj --match domain \\\n\
    \x20   --filter =status:200 example.com\n\
    \x20 waypost index lookup zipnum --batch lookups.txt --limit 1 \\\n\
    \x20   --misses misses.txt\n\
    \n\
    Exit code 1: nothing was found.")]
pub(crate) struct Lookup {
    /// The index: a sorted file, the folder of a ZipNum index, or the path or URL of its .idx file
    #[arg(value_name = "INDEX")]
    index: PathBuf,
    /// The URIs to look up
    #[arg(value_name = "URI", required_unless_present = "batch")]
    uris: Vec<String>,
    /// Look up every line of this file, `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "uris", value_hint = ValueHint::FilePath)]
    batch: Option<PathBuf>,
    /// Write URIs without captures to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    misses: Option<PathBuf>,
    /// Which captures match a URI [default: exact]
    #[arg(short = 'm', long = "match", value_name = "MATCH", value_enum)]
    kind: Option<MatchArgument>,
    /// Only captures at this time or later: 2004, 20040131, 2004-01-31
    #[arg(long, value_name = "TIME", value_parser = first_of)]
    from: Option<Time>,
    /// Only captures at this time or earlier; 2004 is the end of 2004
    #[arg(long, value_name = "TIME", value_parser = last_of)]
    to: Option<Time>,
    /// Only captures that pass: =status:200, mime:html, !~url:.*login; may be repeated
    #[arg(short, long, value_name = "FILTER", value_parser = filter)]
    filter: Vec<Filter>,
    /// Maximum number of captures per URI
    #[arg(short, long, value_name = "N")]
    limit: Option<u64>,
    /// Print the captures closest to this time first
    #[arg(long, value_name = "TIME", value_parser = first_of, conflicts_with = "reverse")]
    closest: Option<Time>,
    /// Print the last captures first
    #[arg(short, long)]
    reverse: bool,
    /// Give revisits the media type, status and location of the capture that they repeat
    #[arg(long)]
    resolve_revisits: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Cdxj)]
    format: Format,
    #[command(flatten)]
    keys: KeyArgs,
    /// Read data files outside the folder of a ZipNum index if its rows or .loc file name them
    #[arg(long)]
    anywhere: bool,
    /// Search the same key range as pywb, which misses non-default ports
    #[arg(long)]
    as_pywb: bool,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// `key timestamp {json}`
    Cdxj,
    /// One JSON object per line
    Json,
    /// `key timestamp url mime status digest length offset filename`
    Text,
}

#[derive(Clone, Copy, ValueEnum)]
enum MatchArgument {
    /// The URI itself
    Exact,
    /// Everything that starts with the URI
    Prefix,
    /// Everything on the URI's host
    Host,
    /// Everything on the URI's host and its subdomains
    Domain,
}

impl From<MatchArgument> for Match {
    fn from(kind: MatchArgument) -> Match {
        match kind {
            MatchArgument::Exact => Match::Exact,
            MatchArgument::Prefix => Match::Prefix,
            MatchArgument::Host => Match::Host,
            MatchArgument::Domain => Match::Domain,
        }
    }
}

/// Parses a filter, and refuses likely mistakes: `status=200` would be searched for in the whole
/// line.
pub(super) fn filter(text: &str) -> Result<Filter, String> {
    let rest = text.strip_prefix('!').unwrap_or(text);
    if !rest.contains(':') {
        if let Some(value) = rest.strip_prefix('=') {
            return Err(format!(
                "no field: write FIELD:VALUE, as in `=status:{value}`"
            ));
        }
        let name = rest.strip_prefix('~').unwrap_or(rest).split_once('=');
        if let Some((name, value)) = name
            && (Field::of_json(name.as_bytes()).is_some()
                || ["urlkey", "key", "timestamp"].contains(&name))
        {
            return Err(format!("no field: write `={name}:{value}`"));
        }
    }
    Filter::parse(text).map_err(|error| error.to_string())
}

/// Lookups that are answered together.
#[derive(Default)]
struct Batch {
    uris: Vec<String>,
    queries: Vec<Query>,
    /// Their approximate memory use.
    bytes: usize,
}

/// The results of all lookups.
#[derive(Default)]
struct Tally {
    found: u64,
    missing: u64,
    bad: u64,
}

/// How long a pipe may be silent before its lookups so far are answered.
const SILENCE: Duration = Duration::from_millis(100);

/// How many bad lines are shown.
const SHOWN: u64 = 3;

impl Lookup {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        check_span(self.from, self.to)?;
        let resources = self.resources.resources(None)?;
        let files = self.remote.files();
        let index = self.remote.open(&files, &Source::new(&self.index), out)?;
        let index = index.anywhere(self.anywhere);
        let dialect = self.keys.dialect_of(&index, &self.index, out)?;
        let mut search = Search::new(&index, self.wanted());
        let mut misses = match &self.misses {
            Some(path) => Some(AtomicFile::create(path)?),
            None => None,
        };
        let mut tally = Tally::default();
        match &self.batch {
            Some(path) => {
                let limit = resources.memory / 8;
                let mut canonicalizer = Canonicalizer::new(dialect);
                self.answer_file(
                    path,
                    limit,
                    &mut canonicalizer,
                    &mut search,
                    &files,
                    &mut misses,
                    &mut tally,
                    out,
                )?;
            }
            None => {
                let mut canonicalizer = Canonicalizer::new(dialect);
                for uri in &self.uris {
                    let query = self.query(&mut canonicalizer, uri)?;
                    if search.one(&query, print_to(out))? == 0 {
                        self.miss(uri, &mut misses)?;
                    }
                }
            }
        }
        let stats = search.stats();
        if stats.bad_lines > 0 {
            out.warn(format_args!(
                "skipped {} of the index that are not captures; `waypost index check` shows them",
                plural::of(stats.bad_lines, "line")
            ));
        }
        if let Some(file) = misses {
            file.commit()?;
        }
        if self.batch.is_some() {
            out.note(format_args!(
                "found {} of {}; nothing for {}",
                plural::of(stats.found, "capture"),
                plural::of(tally.found, "URI"),
                plural::of(tally.missing, "URI")
            ));
            if let Some(stats) = files.stats() {
                out.note(format_args!(
                    "fetched {} in {}",
                    waypost_report::bytes(stats.bytes),
                    plural::of(stats.requests, "request")
                ));
            }
        }
        Ok(if stats.found == 0 {
            Exit::No
        } else {
            Exit::Yes
        })
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            from: self.from,
            to: self.to,
            filters: self.filter.clone(),
            limit: self.limit,
            order: match self.closest {
                Some(time) => Order::Closest(time),
                None if self.reverse => Order::Reverse,
                None => Order::Forward,
            },
            resolve: self.resolve_revisits,
            form: match self.format {
                Format::Cdxj => Form::Cdxj,
                Format::Json => Form::Json,
                Format::Text => Form::Text,
            },
        }
    }

    /// Answers every line of a file, in batches of up to `limit` bytes.
    #[expect(clippy::too_many_arguments, reason = "the state of one loop")]
    fn answer_file(
        &self,
        path: &Path,
        limit: usize,
        canonicalizer: &mut Canonicalizer,
        search: &mut Search<'_>,
        files: &RemoteFiles,
        misses: &mut Option<AtomicFile>,
        tally: &mut Tally,
        out: &mut Printer,
    ) -> anyhow::Result<()> {
        let source = Source::new(path);
        // The writer of a pipe may be waiting for an answer; a file is always read to its end.
        let is_file = !source.is_stdin() && source.path().is_file();
        let progress = out.progress_beside_data();
        let mut stream = source.open()?;
        if as_url(&self.index).is_some() {
            progress.begin(Phase::Fetching, None);
            files.client()?.report_to(&progress);
        } else {
            progress.read(std::slice::from_ref(&source));
            stream = stream.reporting_to(&progress);
        }
        let mut lines = Pieces::new(path.display().to_string(), stream, PIECE);
        let (send, pieces) = sync_channel(4);
        // Not joined on an error: it may be blocked on a silent pipe.
        thread::spawn(move || {
            while let Some(piece) = lines.next().transpose() {
                let last = piece.is_err();
                if send.send(piece).is_err() || last {
                    return;
                }
            }
        });
        let mut batch = Batch::default();
        let wait = match is_file {
            true => Duration::MAX,
            false => SILENCE,
        };
        loop {
            let piece = match pieces.recv_timeout(if batch.queries.is_empty() {
                Duration::MAX
            } else {
                wait
            }) {
                Ok(piece) => piece?,
                Err(RecvTimeoutError::Timeout) => {
                    self.answer(&mut batch, search, misses, tally, out)?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            for (number, line) in (piece.first_line..).zip(piece.lines()) {
                self.push(number, line, &piece, canonicalizer, &mut batch, tally, out);
                if batch.bytes > limit {
                    self.answer(&mut batch, search, misses, tally, out)?;
                }
            }
        }
        self.answer(&mut batch, search, misses, tally, out)?;
        if tally.bad > SHOWN {
            out.warn(format_args!(
                "{}: {} could not be looked up; the first {SHOWN} are shown",
                path.display(),
                plural::of(tally.bad, "line")
            ));
        }
        Ok(())
    }

    /// Adds a line of a file to a batch, if it is a URI.
    #[expect(clippy::too_many_arguments, reason = "the state of one loop")]
    fn push(
        &self,
        number: u64,
        line: &[u8],
        piece: &Piece,
        canonicalizer: &mut Canonicalizer,
        batch: &mut Batch,
        tally: &mut Tally,
        out: &Printer,
    ) {
        let uri = String::from_utf8_lossy(line.trim_ascii());
        if uri.is_empty() {
            return;
        }
        let query = if piece.too_long {
            Err(anyhow::anyhow!("the line is too long: {uri}"))
        } else {
            self.query(canonicalizer, &uri)
        };
        match query {
            Ok(query) => {
                let keys: usize = query
                    .ranges
                    .iter()
                    .map(|r| r.start.len() + r.end.len())
                    .sum();
                batch.bytes += uri.len() + keys + 192 * query.ranges.len() + 64;
                batch.uris.push(uri.into_owned());
                batch.queries.push(query);
            }
            Err(error) => {
                tally.bad += 1;
                if tally.bad <= SHOWN {
                    out.warn(format_args!(
                        "line {}: {error:#}",
                        waypost_report::count(number)
                    ));
                }
            }
        }
    }

    /// Prints the captures of a batch, records its misses and empties it.
    fn answer(
        &self,
        batch: &mut Batch,
        search: &mut Search<'_>,
        misses: &mut Option<AtomicFile>,
        tally: &mut Tally,
        out: &mut Printer,
    ) -> anyhow::Result<()> {
        search.batch(&batch.queries, print_to(out))?;
        out.flush()?;
        let missing = &search.stats().missing;
        for &at in missing {
            self.miss(&batch.uris[at], misses)?;
        }
        tally.missing += missing.len() as u64;
        tally.found += (batch.uris.len() - missing.len()) as u64;
        batch.uris.clear();
        batch.queries.clear();
        batch.bytes = 0;
        Ok(())
    }

    /// Records a URI without captures.
    fn miss(&self, uri: &str, misses: &mut Option<AtomicFile>) -> anyhow::Result<()> {
        if let (Some(file), Some(path)) = (misses, &self.misses) {
            writeln!(file, "{uri}").with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn query(&self, canonicalizer: &mut Canonicalizer, uri: &str) -> anyhow::Result<Query> {
        let (kind, bare) = match (self.kind, Match::of_wildcard(uri.as_bytes())) {
            (None, Some(wildcard)) => wildcard,
            (kind, _) => (kind.map_or(Match::default(), Match::from), uri.as_bytes()),
        };
        let whole = canonicalizer.dialect().complete(bare);
        let mut surt = Vec::new();
        canonicalizer
            .canonicalize(&whole, &mut surt)
            .with_context(|| format!("cannot look up {uri}"))?;
        let ranges = if self.as_pywb {
            vec![pywb_range(&whole, &surt, kind)]
        } else {
            ranges(&whole, &surt, kind)
        };
        Ok(Query { ranges })
    }
}

/// Prints rows.
fn print_to(out: &mut Printer) -> impl FnMut(&[u8]) -> waypost_io::Result<()> {
    |row| {
        out.data().write_all(row).map_err(|source| {
            let doing = "write to standard output";
            Error::new(ErrorKind::Io { doing, source })
        })
    }
}
