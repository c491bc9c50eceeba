use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use waypost_archive::discover::{self, DiscoverOptions, Found, Outcome};
use waypost_archive::filters::is_companion;
use waypost_archive::sitemap::Entry;
use waypost_io::Source;
use waypost_net::{Client, ClientOptions};
use waypost_report::{Align, Table, bytes, count};
use waypost_router::{Config, published_map};
use waypost_summary::filter::Secret;
use waypost_summary::{ErrorKind, open_source};

use crate::args::{number, size};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Find summaries that archives publish, and keep copies of them
///
/// Takes the URL of a sitemap, of a folder or a host that has one, or a sitemap file; or of a summary, or
/// of a host or page that names its map, in a Link header, a `<link>` or at /.well-known/mementomap.
/// Downloads what is new or has changed, all pages of a map and its filter, resumes interrupted downloads,
/// and verifies sizes and checksums. The copies mirror the servers:
/// DIR/archive.example/summaries/small.filter. With --config and --archive, the copies that are sound
/// summaries are added to that archive of the configuration file, which a running `waypost serve` reads
/// again. Exit code 1: nothing was found, or a file was refused.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost discover published/sitemap.xml --list\n\
    \n\
    From the Web:\n\
    \x20 waypost discover https://archive.example/summaries/ -o copies --max-size 500M\n\
    \x20 waypost discover https://archive.example/ -o copies --config waypost.toml \\\n\
    \x20   --archive archive.example")]
pub(crate) struct Discover {
    /// Summaries, sitemaps, or folders and hosts that have one
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// The folder for the copies
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath, required_unless_present = "list")]
    output: Option<PathBuf>,
    /// Only list what there is
    #[arg(long)]
    list: bool,
    /// A configuration file, to which the copies are added
    #[arg(short, long, value_name = "FILE", requires = "archive", conflicts_with = "list", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// The id of the archive in that file that they describe
    #[arg(long, value_name = "ID", requires = "config")]
    archive: Option<String>,
    /// Maximum size of a file
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size)]
    max_size: u64,
    /// Maximum size of all copies together
    #[arg(long, value_name = "SIZE", default_value = "64GiB", value_parser = size)]
    max_total: u64,
    /// Maximum number of files
    #[arg(long, value_name = "N", default_value = "1000", value_parser = number)]
    max_files: u64,
    /// Follow sitemaps and redirects to other hosts
    #[arg(long)]
    other_hosts: bool,
}

impl Discover {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let client = Client::new(ClientOptions {
            same_host: !self.other_hosts,
            ..ClientOptions::default()
        })?;
        let options = DiscoverOptions {
            most_bytes: self.max_size,
            most_total: self.max_total,
            most_files: usize::try_from(self.max_files)?,
            other_hosts: self.other_hosts,
        };
        let mut table = Table::new(&[
            ("summary", Align::Left),
            ("title", Align::Left),
            ("URLs", Align::Right),
            ("size", Align::Right),
            ("copy", Align::Left),
        ]);
        let (mut all, mut refused, mut total) = (0, 0, 0);
        let mut copies: Vec<PathBuf> = Vec::new();
        let bar = out.progress();
        client.report_to(&bar);
        for url in &self.urls {
            let map = match is_local(url) {
                true => None,
                false => published_map(url),
            };
            let listed = match &map {
                // It is the summary itself.
                Some(map) if *map == *url => Ok(Vec::new()),
                _ => discover::find(&client, url, &options),
            };
            let mut found = match (listed, &map) {
                (Ok(found), _) => found,
                // A host may publish its map and nothing else.
                (Err(_), Some(_)) => Vec::new(),
                (listed, None) => {
                    listed.hint_otherwise("name the sitemap itself: https://…/sitemap.xml")?
                }
            };
            if let Some(location) = map
                && !found.iter().any(|file| file.entry.location == location)
            {
                let entry = Entry {
                    location,
                    ..Entry::default()
                };
                let sha256 = None;
                found.push(Found { entry, sha256 });
            }
            for file in &found {
                let state = match &self.output {
                    Some(folder) if !self.list => {
                        let fetched =
                            discover::fetch(&client, folder, url, file, &options, &mut total);
                        if let Outcome::Downloaded(path) | Outcome::Unchanged(path) = &fetched {
                            copies.push(path.clone());
                        }
                        match fetched {
                            Outcome::Downloaded(path) => format!("new: {}", path.display()),
                            Outcome::Unchanged(path) => format!("unchanged: {}", path.display()),
                            Outcome::Refused(error) => {
                                out.warn(format_args!("refused {error}"));
                                refused += 1;
                                "refused".to_owned()
                            }
                        }
                    }
                    _ => "-".to_owned(),
                };
                let entry = &file.entry;
                table.row([
                    &entry.location[..],
                    entry.get("title").next().unwrap_or("-"),
                    &entry.urls().map_or("-".to_owned(), count),
                    &entry.bytes().map_or("-".to_owned(), bytes),
                    &state,
                ]);
                all += 1;
            }
        }
        drop(bar);
        write!(out.data(), "{table}")?;
        if all == 0 {
            out.note("no summaries found");
        }
        if refused > 0 {
            out.warn(format_args!("refused {}", plural::of(refused, "file")));
        }
        if let (Some(config), Some(archive)) = (&self.config, &self.archive) {
            install(config, archive, &copies, out)?;
        }
        Ok(match all > 0 && refused == 0 {
            true => Exit::Yes,
            false => Exit::No,
        })
    }
}

/// Adds copies that are sound summaries to an archive of a configuration file.
fn install(config: &Path, archive: &str, copies: &[PathBuf], out: &Printer) -> anyhow::Result<()> {
    let mut sound = Vec::new();
    let mut described: BTreeMap<String, &Path> = BTreeMap::new();
    let registry = Config::read(config)?.registry;
    let known = registry.position(archive);
    let key_file = known.and_then(|place| registry.archives[place].key_file.as_deref());
    let secret = key_file.map(Secret::read).transpose()?;
    for copy in copies.iter().filter(|copy| !is_companion(copy)) {
        match open_source(&Source::new(copy), false, secret) {
            Ok(summary) => {
                if let Some(id) = summary.about().archive.id.first() {
                    described.entry(id.to_owned()).or_insert(copy);
                }
                sound.push(copy.clone());
            }
            Err(error) if matches!(error.kind(), ErrorKind::NeedsSecret(_)) => {
                sound.push(copy.clone());
                out.warn(format_args!(
                    "{error}; name its key file in `key_file` of the archive {archive}"
                ));
            }
            Err(error) => out.warn(format_args!("not added: {error}")),
        }
    }
    // A summary of another archive would call absent what this one holds.
    if described.len() > 1 {
        let ids: Vec<&str> = described.keys().map(String::as_str).collect();
        return Err(anyhow::anyhow!(
            "the summaries describe several archives: {}",
            ids.join(", ")
        ))
        .hint("discover the summaries of one archive at a time, by their own URLs");
    }
    let added = Config::add_summaries(config, archive, &sound)
        .hint_otherwise("name an archive of the configuration file with --archive")?;
    out.note(format_args!(
        "{}: {} added to the archive {archive}",
        config.display(),
        plural::of(added as u64, "file")
    ));
    Ok(())
}

/// Whether a sitemap is a file here.
fn is_local(start: &str) -> bool {
    std::path::Path::new(start).is_file()
}
