use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use waypost_archive::publish::{self, PublishOptions};
use waypost_report::{Align, Table, bytes, count};

use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Prepare a folder of summaries for a web server: sitemap, manifest and checksums
///
/// Writes sitemap.xml, manifest.json and SHA256SUMS for all summaries in the folder. Then serve the
/// folder with any web server, and others find them with `waypost discover`.
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
}

impl Publish {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let options = PublishOptions {
            url: self.url,
            publisher: self.publisher,
            description: self.description,
            hashes: self.hashes,
            ..PublishOptions::default()
        };
        let published = publish::publish(&self.folder, &options).hint_otherwise(
            "name a folder of filters, maps or profiles; pass --hashes to publish hashes, too",
        )?;
        let mut table = Table::new(&[
            ("file", Align::Left),
            ("kind", Align::Left),
            ("URLs", Align::Right),
            ("size", Align::Right),
        ]);
        for file in &published.manifest.files {
            let urls = file.urls.map_or("-".to_owned(), count);
            table.row([&file.path[..], &file.kind, &urls, &bytes(file.bytes)]);
        }
        write!(out.data(), "{table}")?;
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
