use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use waypost_index::lookup::{Filter, Form, Index, Lookup as Search, Order, Query, Wanted};
use waypost_index::output::AtomicFile;
use waypost_index::range::{Match, pywb_range, ranges};
use waypost_index::timestamp::Time;
use waypost_index::{Error, ErrorKind};
use waypost_report::count;
use waypost_surt::{Canonicalizer, Dialect};

use crate::exit::Exit;
use crate::hint::Hint;
use crate::printer::Printer;

/// Find the captures of URIs in a sorted index
///
/// The index is a sorted flat file, not compressed, or a ZipNum index. Lookups read only what they
/// need: a flat file is searched by halves, and of ZipNum one block is inflated.
///
/// *.example.com asks for the domain and example.com/a* for the prefix, as with --match. Hosts and
/// domains are found at every port.
///
/// Filters are written [!][=|~]FIELD:VALUE, as for pywb: `=status:200` the status is 200,
/// `mime:html` the media type contains html, `~url:http://[^/]*/a` the URL matches the regular
/// expression from its start; `!` turns a filter round. Without FIELD: the whole line is searched.
/// A capture must pass all filters.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    waypost index lookup zipnum http://example.com/\n  \
    waypost index lookup sorted.cdxj --match domain --filter =status:200 example.com\n  \
    waypost index lookup zipnum --batch uris.txt --limit 1 --misses missing.txt\n\n\
    Exit code 1: nothing was found.")]
pub(crate) struct Lookup {
    /// The index: a sorted file, the folder of a ZipNum index, or its .idx file
    #[arg(value_name = "INDEX")]
    index: PathBuf,
    /// The URIs to look up
    #[arg(value_name = "URI", required_unless_present = "batch")]
    uris: Vec<String>,
    /// Look up every line of this file, `-` for standard input; each block is read once
    #[arg(long, value_name = "FILE", conflicts_with = "uris")]
    batch: Option<PathBuf>,
    /// Write the URIs for which there was nothing to this file
    #[arg(long, value_name = "FILE")]
    misses: Option<PathBuf>,
    /// What to find: exact, prefix, host or domain
    #[arg(short = 'm', long = "match", value_name = "MATCH", value_parser = str::parse::<Match>)]
    kind: Option<Match>,
    /// Only captures at this time or later: 4 to 14 digits
    #[arg(long, value_name = "TIME", value_parser = first_of)]
    from: Option<Time>,
    /// Only captures at this time or earlier: 4 to 14 digits
    #[arg(long, value_name = "TIME", value_parser = last_of)]
    to: Option<Time>,
    /// Only captures that pass: =status:200, mime:html, !~url:.*login; may be repeated
    #[arg(short, long, value_name = "FILTER", value_parser = filter)]
    filter: Vec<Filter>,
    /// At most so many captures for each URI
    #[arg(short, long, value_name = "N")]
    limit: Option<u64>,
    /// The captures closest to this time first
    #[arg(long, value_name = "TIME", value_parser = first_of, conflicts_with = "reverse")]
    closest: Option<Time>,
    /// The last captures first
    #[arg(short, long)]
    reverse: bool,
    /// Give revisits the media type, status and place of the capture that they repeat
    #[arg(long)]
    resolve_revisits: bool,
    /// How to write captures
    #[arg(long, value_enum, default_value_t = Output::Cdxj)]
    output: Output,
    /// The rules by which the index's SURTs were made: ia, commoncrawl, commoncrawl-legacy
    #[arg(long, default_value = "ia", value_parser = str::parse::<Dialect>)]
    dialect: Dialect,
    /// Ask for the same range of keys as pywb, which misses ports other than the scheme's own
    #[arg(long)]
    as_pywb: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// `key timestamp {json}`
    Cdxj,
    /// A JSON object a line
    Json,
    /// `key timestamp url mime status digest length offset filename`
    Text,
}

fn first_of(digits: &str) -> Result<Time, String> {
    Time::first_of(digits.as_bytes()).ok_or_else(|| "write 4 to 14 digits: 2004, 20040131".into())
}

fn last_of(digits: &str) -> Result<Time, String> {
    Time::last_of(digits.as_bytes()).ok_or_else(|| "write 4 to 14 digits: 2004, 20040131".into())
}

fn filter(text: &str) -> Result<Filter, String> {
    Filter::parse(text).map_err(|error| error.to_string())
}

impl Lookup {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let index = Index::open(&self.index)?;
        let mut search = Search::new(&index, self.wanted());
        let asked = self.asked(out)?;
        let mut missing = Vec::new();
        let mut take = |row: &[u8]| {
            out.data().write_all(row).map_err(|source| {
                let doing = "write to standard output";
                Error::new(ErrorKind::Io { doing, source })
            })
        };
        if self.batch.is_some() {
            let queries: Vec<Query> = asked.iter().map(|(_, query)| query.clone()).collect();
            search.batch(&queries, take)?;
            missing.clone_from(&search.stats().missing);
        } else {
            for (at, (_, query)) in asked.iter().enumerate() {
                if search.one(query, &mut take)? == 0 {
                    missing.push(at);
                }
            }
        }
        let stats = search.stats();
        if stats.bad_lines > 0 {
            out.warn(format_args!(
                "{} lines that are no captures were left out; `waypost index check` says why",
                count(stats.bad_lines)
            ));
        }
        if let Some(path) = &self.misses {
            write_misses(path, missing.iter().map(|&at| &asked[at].0))?;
        }
        if self.batch.is_some() {
            out.note(format_args!(
                "found {} captures of {} URIs; nothing for {}",
                count(stats.found),
                count((asked.len() - missing.len()) as u64),
                count(missing.len() as u64)
            ));
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
            form: match self.output {
                Output::Cdxj => Form::Cdxj,
                Output::Json => Form::Json,
                Output::Text => Form::Text,
            },
        }
    }

    /// The URIs that were asked for and what they ask for.
    fn asked(&self, out: &Printer) -> anyhow::Result<Vec<(String, Query)>> {
        let mut canonicalizer = Canonicalizer::new(self.dialect);
        let Some(batch) = &self.batch else {
            let ask = |uri: &String| Ok((uri.clone(), self.query(&mut canonicalizer, uri)?));
            return self.uris.iter().map(ask).collect();
        };
        let mut asked = Vec::new();
        let mut bad = 0;
        for line in open(batch)?.split(b'\n') {
            let line = line.with_context(|| format!("cannot read {}", batch.display()))?;
            let uri = String::from_utf8_lossy(line.trim_ascii()).into_owned();
            if uri.is_empty() {
                continue;
            }
            match self.query(&mut canonicalizer, &uri) {
                Ok(query) => asked.push((uri, query)),
                Err(error) => {
                    bad += 1;
                    if bad <= 3 {
                        out.warn(format_args!("{error:#}"));
                    }
                }
            }
        }
        if bad > 0 {
            let bad = count(bad);
            out.warn(format_args!(
                "{bad} lines of {} are no URIs",
                batch.display()
            ));
        }
        Ok(asked)
    }

    fn query(&self, canonicalizer: &mut Canonicalizer, uri: &str) -> anyhow::Result<Query> {
        let (kind, uri) = match (self.kind, Match::of_wildcard(uri)) {
            (None, Some(wildcard)) => wildcard,
            (kind, _) => (kind.unwrap_or_default(), uri),
        };
        let mut surt = Vec::new();
        canonicalizer
            .canonicalize(uri.as_bytes(), &mut surt)
            .with_context(|| format!("cannot look up {uri}"))?;
        let ranges = if self.as_pywb {
            vec![pywb_range(uri.as_bytes(), &surt, kind)]
        } else {
            ranges(uri.as_bytes(), &surt, kind)
        };
        Ok(Query { ranges })
    }
}

fn open(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path)
        .with_context(|| format!("cannot open {}", path.display()))
        .hint("name a file with a URI in each line")?;
    Ok(Box::new(BufReader::new(file)))
}

fn write_misses<'a>(path: &Path, uris: impl Iterator<Item = &'a String>) -> anyhow::Result<()> {
    let mut file = AtomicFile::create(path)?;
    let text: String = uris.flat_map(|uri| [uri, "\n"]).collect();
    file.write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(file.commit()?)
}
