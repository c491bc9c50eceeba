use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum, ValueHint};
use serde_json::{Value, json};
use waypost_index::{Select, input};
use waypost_io::{Lines, Source};
use waypost_memento::Datetime;
use waypost_report::{Align, Table, count};
use waypost_router::{
    ArchiveTally, Choice, Client, Decider, Lookup, Router, Simulation, Truth, Wanted,
    asks_for_page, batch_line, explanation, original_uri, simulate,
};
use waypost_summary::Preference;
use waypost_summary::evaluate::Lookups;
use waypost_summary::holdings::{Holdings, Input};

use super::filter::options::KeyFile;
use super::profile::report_rejects;
use crate::archives;
use crate::args::{Purpose, ResourceArgs};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Say which archives would be asked for a URI, in which order, and why
///
/// No archive is asked: the decision follows from the summaries, rules and learned evidence that the
/// configuration names.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost route http://library.example.org/ --config routing.toml\n\
    \x20 waypost route --batch lookups.txt --config routing.toml\n\
    \x20 waypost route --simulate lookups.txt --truth truth --config routing.toml\n\
    \n\
    --batch writes a JSON object per line. --simulate replays lookups, from a list or a log, against\n\
    what each archive holds: an index or list of URIs per archive, whose name starts with its id.\n\
    Exit code 1: no archive would be asked, or the simulation missed something that is held.")]
pub(crate) struct Route {
    /// URIs
    #[arg(value_name = "URI", required_unless_present_any = ["batch", "simulate"])]
    uris: Vec<String>,
    /// Configuration file, whose archives have summaries
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: PathBuf,
    /// Decide for the memento closest to this time: 4 to 14 digits
    #[arg(long, value_name = "DATETIME")]
    at: Option<String>,
    /// Prefer archives with captures in this language: de
    #[arg(long, value_name = "CODE", conflicts_with = "simulate")]
    language: Option<String>,
    /// Prefer archives with captures of this media type: image/png, image/*; text/html asks for a page
    #[arg(long, value_name = "TYPE", conflicts_with = "simulate")]
    media_type: Option<String>,
    #[command(flatten)]
    purpose: Purpose,
    /// A file with one URI per line; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["uris", "simulate"], value_hint = ValueHint::FilePath)]
    batch: Option<PathBuf>,
    /// Replay lookups: a list of URIs, an access log or a MemGator log
    #[arg(long, value_name = "LOOKUPS", requires = "truth", conflicts_with = "uris", value_hint = ValueHint::FilePath)]
    simulate: Option<PathBuf>,
    /// A folder with the holdings of each archive: ID.cdxj, ID.uris.gz, or a folder ID
    #[arg(long, value_name = "DIR", requires = "simulate", value_hint = ValueHint::DirPath)]
    truth: Option<PathBuf>,
    /// How long an archive takes to answer, in seconds, if neither what was learned nor its
    /// `latency` in the configuration says so
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 1.0,
        requires = "simulate"
    )]
    latency: f64,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    key_file: KeyFile,
    #[command(flatten)]
    resources: ResourceArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

impl Route {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let router = self.router(out)?;
        let wanted = match &self.at {
            None => Wanted::All,
            Some(text) => Wanted::Closest(
                Datetime::parse(text)
                    .with_context(|| format!("invalid datetime `{text}`"))
                    .hint("write 4 to 14 digits, as in 199811 or 20040102030405")?,
            ),
        };
        match (&self.batch, &self.simulate, &self.truth) {
            (Some(batch), ..) => self.decide_batch(&router, batch, wanted, out),
            (None, Some(lookups), Some(truth)) => self.simulate(&router, lookups, truth, out),
            _ => self.explain(&router, wanted, out),
        }
    }

    /// A router with open summaries.
    fn router(&self, out: &Printer) -> anyhow::Result<Router> {
        let mut config = archives::read(Some(&self.config), None)?;
        for archive in &mut config.registry.archives {
            let given = self.key_file.path().map(Path::to_owned);
            archive.key_file = archive.key_file.take().or(given);
        }
        let mut routing = config.routing.clone();
        // What would be decided, not what chance adds to it.
        routing.probe = 0.0;
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&warnings);
        let decider = Decider::open(&routing, move |warning: &str| {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            told.push(warning.to_owned());
        })?;
        decider.refresh(&config.registry, false);
        let mut warnings = warnings.lock().unwrap_or_else(PoisonError::into_inner);
        out.warn_some(std::mem::take(&mut *warnings));
        let client = Client::new(config.client.user_agent()).map_err(anyhow::Error::msg)?;
        Ok(Router::new(config.registry, client).with_decider(Arc::new(decider)))
    }

    fn explain(&self, router: &Router, wanted: Wanted, out: &mut Printer) -> anyhow::Result<Exit> {
        let mut asked = 0;
        for text in &self.uris {
            let uri = original_uri(text)
                .with_context(|| format!("invalid URI `{text}`"))
                .hint("write it with its host, as in http://example.com/page")?;
            let decision = router.decide(&self.lookup(&uri, wanted));
            asked += decision.asked().count() + decision.asked_later().count();
            match self.format {
                Format::Json => {
                    let registry = router.registry();
                    let why = explanation(registry, router.decider(), &decision, &uri);
                    writeln!(out.data(), "{why:#}")?;
                }
                Format::Table => {
                    let table = table(router, &decision.choices);
                    writeln!(out.data(), "{uri}\n{table}")?;
                }
            }
        }
        Ok(if asked > 0 { Exit::Yes } else { Exit::No })
    }

    fn simulate(
        &self,
        router: &Router,
        lookups: &Path,
        truth: &Path,
        out: &mut Printer,
    ) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(None)?;
        let latency = Duration::try_from_secs_f64(self.latency)
            .with_context(|| format!("invalid number of seconds `{}`", self.latency))?;
        let registry = router.registry();
        let files = truth_files(truth)?;
        let mut by_dialect: BTreeMap<&str, Lookups> = BTreeMap::new();
        for archive in &registry.archives {
            let name = archive.dialect.name();
            if !by_dialect.contains_key(name) {
                let source = Source::new(lookups);
                let mut read = Lookups::read_within(&source, archive.dialect, resources.memory)?;
                read.want(self.purpose.wanted());
                by_dialect.insert(name, read);
            }
        }
        let Some(first) = by_dialect.values().next() else {
            anyhow::bail!("no archives");
        };
        if first.passed_over() > 0 {
            let lines = plural::of(first.passed_over(), "line");
            out.note(format_args!("{}: {lines} without a URI", lookups.display()));
        }
        // In the order of their SURTs, which differs by dialect.
        let uri_of = |uri: &[u8]| String::from_utf8_lossy(uri).into_owned();
        let asked: Vec<(String, u64)> = first
            .iter()
            .map(|(uri, _, times)| (uri_of(uri), times))
            .collect();
        let places: BTreeMap<&str, usize> = asked
            .iter()
            .enumerate()
            .map(|(place, (uri, _))| (&uri[..], place))
            .collect();
        let progress = out.progress();
        let mut select = self.purpose.restrict(Select::new());
        select.keep_unresolved(true);
        let mut mementos = Vec::new();
        for archive in &registry.archives {
            let mut column = vec![0; asked.len()];
            let sources = files_of(&files, &archive.id);
            if sources.is_empty() {
                return Err(anyhow::anyhow!(
                    "{}: no file of the archive `{}`",
                    truth.display(),
                    archive.id
                ))
                .hint("name the index or list of each archive by its id, as in ID.cdxj");
            }
            let holdings = Holdings::new(Input {
                dialect: archive.dialect,
                select: select.clone(),
                resources: resources.clone(),
                progress: progress.clone(),
                ..Input::new(input::expand(&sources)?.sources)
            });
            if let Some(lookups) = by_dialect.get(archive.dialect.name()) {
                let samples = std::slice::from_ref(lookups);
                let (captures, reading) = holdings.captures(samples)?;
                report_rejects(&reading, out);
                for ((uri, ..), captures) in lookups.iter().zip(captures.iter().flatten()) {
                    if let Some(&place) = places.get(&uri_of(uri)[..]) {
                        column[place] = *captures;
                    }
                }
            }
            mementos.push(column);
        }
        drop(progress);
        let truth = Truth {
            lookups: asked,
            for_pages: self.purpose.is_pages(),
            mementos,
        };
        let simulation = simulate(router, &truth, latency);
        match self.format {
            Format::Json => writeln!(out.data(), "{:#}", simulation_json(router, &simulation))?,
            Format::Table => print_simulation(router, &simulation, out)?,
        }
        let missed = simulation.total().missed;
        if missed > 0 {
            let missed = plural::of(missed, "held lookup");
            out.warn(format_args!("{missed} would not have been found"));
        }
        Ok(if missed == 0 { Exit::Yes } else { Exit::No })
    }
}

impl Route {
    fn lookup(&self, uri: &str, wanted: Wanted) -> Lookup {
        let accept = self.media_type.as_deref().unwrap_or_default();
        Lookup {
            for_page: self.purpose.is_pages() || asks_for_page(accept, uri),
            preference: Preference {
                language: self.language.clone(),
                media_type: self.media_type.clone(),
            },
            ..Lookup::new(uri, wanted)
        }
    }

    /// Writes a line for each URI.
    fn decide_batch(
        &self,
        router: &Router,
        batch: &Path,
        wanted: Wanted,
        out: &mut Printer,
    ) -> anyhow::Result<Exit> {
        let mut lines = Lines::new(Source::new(batch).open()?);
        let mut asked = false;
        while lines.advance()? {
            let line = String::from_utf8_lossy(lines.line().trim_ascii()).into_owned();
            if line.is_empty() {
                continue;
            }
            let uri = original_uri(&line).unwrap_or_else(|| line.clone());
            let decision = router.decide(&self.lookup(&uri, wanted));
            asked |= decision.asked().next().is_some();
            let json = batch_line(router.registry(), &decision, &line);
            writeln!(out.data(), "{json}")?;
        }
        Ok(if asked { Exit::Yes } else { Exit::No })
    }
}

/// The files of a folder that may hold what archives hold.
fn truth_files(folder: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let listed = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))
        .hint("name a folder with an index or a list of URIs for each archive")?;
    let mut files = Vec::new();
    for entry in listed {
        let path = entry?.path();
        if let Some(name) = path.file_name().and_then(|name| name.to_str())
            && !name.starts_with('.')
        {
            files.push((name.to_owned(), path.clone()));
        }
    }
    files.sort();
    Ok(files)
}

/// The files of an archive: those that are named by its id, with or without a suffix. `a.example` is
/// not `a`: the suffix must be one of an index or list.
fn files_of(files: &[(String, PathBuf)], id: &str) -> Vec<PathBuf> {
    const SUFFIXES: [&str; 7] = ["cdx", "cdxj", "uris", "txt", "idx", "wacz", "filter"];
    let is_own = |name: &str| {
        let Some(suffix) = name.strip_prefix(id) else {
            return false;
        };
        let suffix = ["gz", "zst", "bz2"]
            .iter()
            .find_map(|packed| suffix.strip_suffix(packed)?.strip_suffix('.'))
            .unwrap_or(suffix);
        let suffix = suffix.strip_prefix('.').unwrap_or(suffix);
        suffix.is_empty() || SUFFIXES.contains(&suffix) || suffix.ends_with("URIR.cdxj")
    };
    let own = files.iter().filter(|(name, _)| is_own(name));
    own.map(|(_, path)| path.clone()).collect()
}

fn table(router: &Router, choices: &[Choice]) -> Table {
    let mut table = Table::new(&[
        ("archive", Align::Left),
        ("asked", Align::Left),
        ("decision", Align::Left),
        ("reason", Align::Left),
        ("estimate", Align::Right),
        ("age", Align::Right),
        ("key", Align::Left),
        ("summary", Align::Left),
    ]);
    for choice in choices {
        let Some(archive) = router.registry().archives.get(choice.archive) else {
            continue;
        };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let key = choice.key.as_deref();
        table.row(vec![
            archive.id.clone(),
            match (choice.asked, choice.later) {
                (true, _) => "yes",
                (false, true) => "later",
                (false, false) => "no",
            }
            .to_owned(),
            choice.presence.name().to_owned(),
            choice.reason.name().to_owned(),
            or_dash(choice.estimate.map(|estimate| format!("{estimate:.1}"))),
            or_dash(choice.age.map(age)),
            or_dash(key.map(|key| String::from_utf8_lossy(key).into_owned())),
            or_dash(choice.summary.as_deref().map(str::to_owned)),
        ]);
    }
    table
}

fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

fn tally_json(id: Option<&str>, lookups: u64, tally: &ArchiveTally) -> Value {
    let mut object = json!({
        "lookups": lookups,
        "held": tally.held,
        "requests": tally.requests,
        "requests_saved": lookups - tally.requests,
        "hits": tally.hits,
        "useless": tally.useless(),
        "missed": tally.missed,
        "recall": recall(tally),
        "mementos": tally.mementos,
    });
    if let Some(id) = id {
        object["id"] = id.into();
    }
    object
}

fn recall(tally: &ArchiveTally) -> f64 {
    match tally.held {
        0 => 1.0,
        held => (held - tally.missed) as f64 / held as f64,
    }
}

fn simulation_json(router: &Router, simulation: &Simulation) -> Value {
    let archives = &router.registry().archives;
    let id = |place: usize| archives.get(place).map(|archive| &archive.id[..]);
    let each: Vec<Value> = simulation
        .archives
        .iter()
        .enumerate()
        .map(|(place, tally)| tally_json(id(place), simulation.lookups, tally))
        .collect();
    let total = simulation.total();
    let broadcast = simulation.broadcast();
    json!({
        "lookups": simulation.lookups,
        "broadcast": {
            "requests": broadcast,
            "useless": broadcast - total.held,
            "seconds": simulation.broadcast_seconds,
        },
        "routed": {
            "requests": total.requests,
            "useless": total.useless(),
            "seconds": simulation.routed_seconds,
        },
        "requests_saved": broadcast - total.requests,
        "useless_saved": simulation.useless_saved(),
        "recall": simulation.recall(),
        "missed": total.missed,
        "decision_seconds": simulation.decision_seconds,
        "median_decision_seconds": simulation.median_decision_seconds,
        "total": tally_json(None, broadcast, &total),
        "archives": each,
        "largest": simulation.largest.and_then(id),
        "completeness": simulation.completeness.iter().map(|c| json!({
            "top": c.top,
            "with_largest": c.with_largest,
            "without_largest": c.without_largest,
        })).collect::<Vec<Value>>(),
    })
}

fn print_simulation(
    router: &Router,
    simulation: &Simulation,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let columns = [
        "held", "requests", "hits", "useless", "saved", "missed", "recall",
    ];
    let mut head = vec![("archive", Align::Left)];
    head.extend(columns.map(|name| (name, Align::Right)));
    let mut table = Table::new(&head);
    let mut add = |name: &str, lookups: u64, tally: &ArchiveTally| {
        table.row(vec![
            name.to_owned(),
            count(tally.held),
            count(tally.requests),
            count(tally.hits),
            count(tally.useless()),
            count(lookups - tally.requests),
            count(tally.missed),
            format!("{:.4}", recall(tally)),
        ]);
    };
    for (archive, tally) in router.registry().archives.iter().zip(&simulation.archives) {
        add(&archive.id, simulation.lookups, tally);
    }
    let total = simulation.total();
    add("total", simulation.broadcast(), &total);
    writeln!(out.data(), "{table}")?;
    writeln!(
        out.data(),
        "{} of {} archives: {} requests instead of {}, {:.2}% of the useless ones saved, recall {:.4}",
        plural::of(simulation.lookups, "lookup"),
        simulation.archives.len(),
        count(total.requests),
        count(simulation.broadcast()),
        100.0 * simulation.useless_saved(),
        simulation.recall(),
    )?;
    writeln!(
        out.data(),
        "answer after {:.2} s instead of {:.2} s, decision in {:.1} µs (median)\n",
        simulation.routed_seconds,
        simulation.broadcast_seconds,
        1e6 * simulation.median_decision_seconds,
    )?;
    let mut table = Table::new(&[
        ("archives asked", Align::Right),
        ("share of mementos", Align::Right),
        ("without the largest", Align::Right),
    ]);
    for row in &simulation.completeness {
        table.row(vec![
            row.top.to_string(),
            format!("{:.4}", row.with_largest),
            format!("{:.4}", row.without_largest),
        ]);
    }
    writeln!(out.data(), "{table}")?;
    Ok(())
}
