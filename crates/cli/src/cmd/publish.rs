use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use waypost_archive::publish::{self, HeldInput, Manifest, PublishOptions};
use waypost_index::input;
use waypost_io::Error;
use waypost_report::{Align, Table, bytes, count};

use super::filter::options::KeyFile;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;
use crate::takedowns::read_list;

/// Prepare a folder of summaries for a web server: sitemap, manifest and checksums
///
/// Lists the summaries in the folder, and writes sitemap.xml, manifest.json and SHA256SUMS for them.
/// Then serve the folder with any web server, and others find them with `waypost discover`. Refuses a
/// folder with an index, a list of URIs or a secret key, and a map without its filter.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost publish published --url https://archive.example/summaries/ \\\n\
    \x20   --publisher 'National Library'\n\
    \x20 cd published && sha256sum --check --quiet SHA256SUMS")]
pub(crate) struct Publish {
    /// The folder with the summaries
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// The URL that the folder will have
    #[arg(long, value_name = "URL")]
    url: String,
    /// The publisher of files that do not name one
    #[arg(long, value_name = "TEXT")]
    publisher: Option<String>,
    /// The description of files that do not have one
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Publish files of hashes, too, which reveal more than filters
    #[arg(long)]
    hashes: bool,
    /// Refuse summaries that hold what this list takes down
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    exclude_list: Option<PathBuf>,
    /// What the archive holds: look up all of it in each summary first, and publish nothing if one
    /// calls some of it absent. May be repeated
    #[arg(long, value_name = "INPUT", value_hint = ValueHint::AnyPath)]
    holdings: Vec<PathBuf>,
    #[command(flatten)]
    key_file: KeyFile,
}

impl Publish {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let list = self.exclude_list.as_deref().map(read_list).transpose()?;
        if !self.holdings.is_empty() {
            let progress = out.progress();
            let held = HeldInput {
                sources: input::expand(&self.holdings)?.sources,
                secret: self.key_file.secret()?,
                progress: progress.clone(),
            };
            publish::prove(&self.folder, &held).hint_otherwise(
                "build it from this index again; filters with a secret need --key-file",
            )?;
        }
        let options = PublishOptions {
            url: self.url,
            publisher: self.publisher,
            description: self.description,
            hashes: self.hashes,
            takedowns: list.map(Arc::new),
            ..PublishOptions::default()
        };
        let announce = |manifest: &Manifest| {
            let mut table = Table::new(&[
                ("file", Align::Left),
                ("kind", Align::Left),
                ("URLs", Align::Right),
                ("size", Align::Right),
            ]);
            for file in &manifest.files {
                let urls = file.urls.map_or("-".to_owned(), count);
                table.row([&file.path[..], &file.kind, &urls, &bytes(file.bytes)]);
            }
            let printed = write!(out.data(), "{table}").and_then(|()| out.flush());
            printed.map_err(Error::from_read)
        };
        let published = publish::publish_after(&self.folder, &options, announce).hint_otherwise(
            "name a folder of filters, maps or profiles, and of nothing else that is private; pass --hashes to publish hashes, too",
        )?;
        for file in &published.unchecked {
            out.warn(format_args!(
                "{file}: not checked for takedowns, because its URIs cannot be looked up here"
            ));
        }
        for path in &published.skipped {
            out.note(format_args!("skipping {}: not a summary", path.display()));
        }
        if published.sitemaps > 1 {
            let sitemaps = plural::of(published.sitemaps as u64, "sitemap");
            out.note(format_args!("sitemap.xml is an index of {sitemaps}"));
        }
        out.note(format_args!(
            "wrote sitemap.xml, manifest.json and SHA256SUMS for {} in {}",
            plural::of(published.manifest.files.len() as u64, "file"),
            self.folder.display()
        ));
        Ok(Exit::Yes)
    }
}
