use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueHint};
use waypost_io::{Lines, Resources, Source};
use waypost_net::{ClientOptions, is_url};
use waypost_router::harvest::{self, Finding, Journal, served_uri, uris_in};
use waypost_router::{Archive, ArchiveLimits, Client, Config, Registry, Router};
use waypost_summary::Texts;
use waypost_summary::evaluate::Lookups;
use waypost_surt::Dialect;

use crate::args::dialects;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::listening::Threads;
use crate::plural;
use crate::printer::Printer;

/// Make a map of an archive that publishes none, from samples of what it holds
///
/// Sample URIs are asked of its TimeMap or CDX server, politely: one at a time, at a rate, up to a
/// budget. An access log of the archive and a full-text search add what they show. The map is marked
/// as partial: what was not looked at is unknown, not absent.
///
/// Findings go to a journal next to the map. A harvest that was interrupted goes on where it ended.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost harvest --log access.log -o partial.ukvs\n\
    \n\
    To ask an archive:\n\
    \x20 waypost harvest uris.txt --timemap https://archive.example/timemap/link/ \\\n\
    \x20   -o partial.ukvs\n\
    \x20 waypost harvest --seen waypost.log --config waypost.toml --archive ID \\\n\
    \x20   -o partial.ukvs\n\
    \x20 waypost harvest --search 'https://archive.example/search?q={query}' \\\n\
    \x20   --words words.txt -o partial.ukvs\n\
    \n\
    Exit code 1: URIs are left, because the budget is used up or the archive fails.")]
pub(crate) struct Harvest {
    /// Files with one URI per line; `-` is standard input
    #[arg(value_name = "LIST", value_hint = ValueHint::FilePath)]
    lists: Vec<PathBuf>,
    /// What a router was asked for: a log of `waypost serve` or MemGator, or an access log. What it
    /// was asked for most often comes first
    #[arg(long, value_name = "LOG", value_hint = ValueHint::FilePath)]
    seen: Vec<PathBuf>,
    /// The map to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// The start of its TimeMap URIs, to which a URI is appended
    #[arg(long, value_name = "URL", conflicts_with_all = ["cdx", "config"])]
    timemap: Option<String>,
    /// The URL of its CDX server, which is asked with ?url=
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    cdx: Option<String>,
    /// Configuration file with the archive
    #[arg(short, long, value_name = "FILE", requires = "archive", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// The id of the archive
    #[arg(long, value_name = "ID")]
    archive: Option<String>,
    /// An access log of the archive: what it served with 200 is held
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log: Vec<PathBuf>,
    /// A full-text search of the archive: a URL with {query}
    #[arg(long, value_name = "URL", requires = "words")]
    search: Option<String>,
    /// What to search for, one query per line
    #[arg(long, value_name = "FILE", requires = "search", value_hint = ValueHint::FilePath)]
    words: Option<PathBuf>,
    /// Maximum number of requests
    #[arg(long, value_name = "N", default_value_t = 1000)]
    budget: u64,
    /// Requests per second
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    rate: f64,
    /// How the operator of the archive reaches you: sent in the User-Agent
    #[arg(long, value_name = "TEXT")]
    contact: Option<String>,
    /// How the archive canonicalises URIs
    #[arg(long, value_parser = dialects(), default_value = "ia")]
    dialect: Dialect,
    /// The journal of findings [default: OUTPUT.journal]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    journal: Option<PathBuf>,
}

impl Harvest {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            anyhow::bail!("invalid rate `{}`: it must be more than 0", self.rate);
        }
        let asks = !self.lists.is_empty() || !self.seen.is_empty();
        if !asks && self.log.is_empty() && self.search.is_none() {
            return Err(anyhow::anyhow!("nothing to look at")).hint(
                "name a list of URIs, a log of a router with --seen, an access log of the archive with --log, or a search with --search",
            );
        }
        let path = self.journal.clone().unwrap_or_else(|| {
            let mut name = self.output.as_os_str().to_owned();
            name.push(".journal");
            PathBuf::from(name)
        });
        let mut journal = Journal::open(&path, self.dialect)?;
        for log in &self.log {
            let served = read_log(log, &mut journal)?;
            let what = plural::of(served, "memento");
            out.note(format_args!("{}: {what} served", log.display()));
        }
        let mut left = self.budget;
        let mut finished = true;
        if let (Some(search), Some(words)) = (&self.search, &self.words) {
            finished &= self.search(search, words, &mut left, &mut journal, out)?;
        }
        if asks {
            finished &= self.ask(left, &mut journal, out)?;
        }
        let mut archive = waypost_summary::Archive::default();
        if let Some(id) = &self.archive {
            archive.id = Texts::from(id.clone());
        }
        journal.write_map(archive, &self.output)?;
        out.note(format_args!(
            "{}: {} of {} are held; everything else is unknown",
            self.output.display(),
            journal.hits(),
            plural::of(journal.len() as u64, "URI-R"),
        ));
        Ok(if finished { Exit::Yes } else { Exit::No })
    }

    /// The archive to ask, and the User-Agent.
    fn archive(&self) -> anyhow::Result<(Archive, String)> {
        let (mut archive, mut client) = match (&self.config, &self.archive) {
            (Some(path), Some(id)) => {
                let config = Config::read(path)?;
                let place = config.registry.position(id);
                let archive = place.map(|place| config.registry.archives[place].clone());
                let archive =
                    archive.with_context(|| format!("{}: no archive `{id}`", path.display()))?;
                (archive, config.client)
            }
            _ => {
                let id = self.archive.clone().unwrap_or_else(|| "archive".to_owned());
                let archive = Archive {
                    timemap: self.timemap.clone().map(with_slash),
                    cdx: self.cdx.clone(),
                    // Only counted, never shown.
                    replay: "http://replay.invalid/{timestamp}/{url}".parse().ok(),
                    ..Archive::new(id)
                };
                (archive, Config::default().client)
            }
        };
        if archive.timemap.is_none() && archive.cdx.is_none() && archive.timegate.is_none() {
            return Err(anyhow::anyhow!("no archive to ask"))
                .hint("name it with --timemap, --cdx, or --config and --archive");
        }
        let urls = [&archive.timemap, &archive.cdx];
        if let Some(bad) = urls.into_iter().flatten().find(|url| !is_url(url)) {
            anyhow::bail!("invalid URL `{bad}`");
        }
        archive.limits = ArchiveLimits {
            rate: Some(self.rate),
            concurrency: 1,
            ..archive.limits
        };
        // Everything is asked for, whatever summaries there are.
        archive.summaries.clear();
        archive.rules = Default::default();
        client.contact = self.contact.clone().or(client.contact);
        Ok((archive, client.user_agent()))
    }

    /// Asks the archive for the URIs of the lists. Whether none are left.
    fn ask(&self, budget: u64, journal: &mut Journal, out: &Printer) -> anyhow::Result<bool> {
        let (archive, agent) = self.archive()?;
        let mut uris = Vec::new();
        for list in &self.lists {
            let mut lines = Lines::new(Source::new(list).open()?);
            while lines.advance()? {
                let line = lines.line().trim_ascii();
                if !line.is_empty() && !line.starts_with(b"#") {
                    uris.push(String::from_utf8_lossy(line).into_owned());
                }
            }
        }
        for log in &self.seen {
            uris.extend(self.seen_in(log, out)?);
        }
        let client = Client::new(agent).map_err(anyhow::Error::msg)?;
        let registry = Registry {
            archives: vec![archive],
        };
        let router = Router::new(registry, client);
        let runtime = Threads::default().start()?;
        let report = runtime.block_on(harvest::ask(
            &router,
            uris.into_iter(),
            budget,
            journal,
            |_| {},
        ))?;
        runtime.shutdown_timeout(Duration::from_secs(1));
        out.note(format_args!(
            "{}, {}; {} known before, {} rejected, {} failed",
            plural::of(report.asked, "request"),
            plural::of(report.hits, "hit"),
            report.known,
            report.rejected,
            report.failed,
        ));
        if report.failed > 0 && report.hits == 0 {
            out.warn("nothing was found, so that nothing is known to be absent either: name a URI that the archive holds");
        } else if report.failed > 0 {
            out.warn("some requests failed: run the command again to repeat them");
        }
        Ok(!report.unfinished && report.failed == 0)
    }

    /// What a router was asked for, according to its log, most often first.
    fn seen_in(&self, log: &std::path::Path, out: &Printer) -> anyhow::Result<Vec<String>> {
        let memory = Resources::default().memory;
        let seen = Lookups::read_within(&Source::new(log), self.dialect, memory)?;
        if seen.passed_over() > 0 {
            let lines = plural::of(seen.passed_over(), "line");
            out.note(format_args!("{}: {lines} without a URI", log.display()));
        }
        let mut uris: Vec<(u64, &[u8])> = seen.iter().map(|(uri, _, times)| (times, uri)).collect();
        uris.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
        let uris = uris.into_iter();
        Ok(uris
            .map(|(_, uri)| String::from_utf8_lossy(uri).into_owned())
            .collect())
    }

    /// Searches for words. Whether none are left.
    fn search(
        &self,
        template: &str,
        words: &std::path::Path,
        left: &mut u64,
        journal: &mut Journal,
        out: &Printer,
    ) -> anyhow::Result<bool> {
        if !template.contains("{query}") || !is_url(template) {
            return Err(anyhow::anyhow!("invalid search `{template}`"))
                .hint("write a URL with {query}, as in https://archive.example/search?q={query}");
        }
        let client = waypost_net::Client::new(ClientOptions::default())?;
        let host = template.split('/').nth(2).unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default().to_owned();
        let mut lines = Lines::new(Source::new(words).open()?);
        let (mut found, mut searches) = (0, 0);
        while lines.advance()? {
            let query = String::from_utf8_lossy(lines.line().trim_ascii()).into_owned();
            if query.is_empty() {
                continue;
            }
            if *left == 0 {
                out.note("the budget is used up before all searches were made");
                return Ok(false);
            }
            if searches > 0 {
                std::thread::sleep(Duration::from_secs_f64(1.0 / self.rate));
            }
            *left -= 1;
            searches += 1;
            let url = template.replace("{query}", &encode(&query));
            let text = client.get(&url, 16 << 20)?;
            for uri in uris_in(&String::from_utf8_lossy(&text), std::slice::from_ref(&host)) {
                let at_least_one = Finding {
                    captures: 1,
                    at_least: true,
                };
                found += u64::from(journal.add(&uri, at_least_one)?);
            }
        }
        let (searches, found) = (plural::of(searches, "query"), plural::of(found, "URI"));
        out.note(format_args!("{searches}: {found} found"));
        Ok(true)
    }
}

/// Notes what an access log shows.
fn read_log(path: &std::path::Path, journal: &mut Journal) -> anyhow::Result<u64> {
    let mut lines = Lines::new(Source::new(path).open()?);
    let mut served = 0;
    while lines.advance()? {
        let line = String::from_utf8_lossy(lines.line()).into_owned();
        let at_least_one = Finding {
            captures: 1,
            at_least: true,
        };
        if let Some(uri) = served_uri(&line) {
            served += u64::from(journal.add(uri, at_least_one)?);
        }
    }
    Ok(served)
}

fn with_slash(url: String) -> String {
    match url.ends_with('/') || url.contains('?') {
        true => url,
        false => url + "/",
    }
}

/// Percent-encodes a query.
fn encode(query: &str) -> String {
    let mut out = String::new();
    for byte in query.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
