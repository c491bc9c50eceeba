use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use waypost_index::scan::Pieces;
use waypost_index::select::Select;
use waypost_insight::segments::Property;
use waypost_insight::segments::location::Subset;
use waypost_insight::segments::tabulate::{self, Tabulated, Tabulating};
use waypost_report::{Align, Table, count};

use super::{SubsetArgument, report_outcome};
use crate::args::{BadLines, ResourceArgs};
use crate::cmd::worker::{Divide, Task};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;
use crate::remote::RemoteArgs;

/// Count properties of the captures by segment, in one pass over an index
///
/// The segment is taken from the name of the file that a capture is in. Tables of parts of an index
/// can be merged. Prints the captures by subset.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost segments tabulate segments.cdxj -o crawl.segments\n\
    \x20 waypost segments tabulate segments.cdxj --by status,tld \\\n\
    \x20   --subset all -o other.segments\n\
    \n\
    Exit code 1: an input was damaged; everything before the damage was counted.")]
pub(crate) struct Tabulate {
    /// Indexes: files, folders, or `-`; or URLs of a cluster.idx or of single shards
    #[arg(required = true, value_name = "INDEX", value_hint = ValueHint::AnyPath)]
    inputs: Vec<PathBuf>,
    /// The table to write, gzipped if its name ends with .gz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Properties to count, with commas between them: mime, language, length, tld, host, domain,
    /// protocol, uri-length, lastmod-year, or the name of any field, such as status or charset
    #[arg(
        long,
        value_name = "LIST",
        default_value = "mime,language,length",
        value_delimiter = ','
    )]
    by: Vec<String>,
    /// Which captures to count
    #[arg(long, value_enum, default_value_t = SubsetArgument::Warc)]
    subset: SubsetArgument,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    bad_lines: BadLines,
    /// What other machines have read of the inputs, if they are not to be read here.
    #[arg(skip)]
    pieces: Option<Pieces>,
}

impl Tabulate {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let resources = self.resources.resources(Some(&self.output))?;
        let files = self.remote.files();
        let sources = self.remote.sources(&files, &self.inputs, out)?;
        let properties = self.properties()?;
        let mut rejects = self.bad_lines.file()?;
        let progress = out.progress();
        let options = tabulate::Options {
            properties,
            subset: self.subset.subset(),
            strict: self.bad_lines.strict,
            rejects: rejects.as_mut(),
            resources,
            progress: progress.clone(),
            pieces: self.pieces,
            ..tabulate::Options::default()
        };
        let tabulated = tabulate::tabulate(&sources, options, &self.output)?;
        drop(progress);
        if let Some(rejects) = rejects {
            rejects.finish()?;
        }
        write!(out.data(), "{}", subsets(&tabulated))?;
        let exit = report_outcome(&tabulated.outcome, out);
        if tabulated.header.without > 0 {
            out.warn(format_args!(
                "{} without a segment in the file name; not counted",
                plural::of(tabulated.header.without, "capture")
            ));
        }
        let values: Vec<String> = tabulated
            .values
            .iter()
            .map(|(property, values)| format!("{property} ({})", plural::of(*values, "value")))
            .collect();
        out.note(format_args!(
            "wrote {} of {} in {} to {}",
            values.join(", "),
            plural::of(tabulated.counted, "capture"),
            plural::of(tabulated.header.segments.len() as u64, "segment"),
            self.output.display()
        ));
        Ok(exit)
    }

    fn properties(&self) -> anyhow::Result<Vec<Property>> {
        let mut properties: Vec<Property> = Vec::new();
        for name in &self.by {
            let name = name.trim();
            if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
                return Err(anyhow::anyhow!("--by: invalid property `{name}`"))
                    .hint("write --by mime,language,length");
            }
            let property = Property::parse(name);
            if !properties.contains(&property) {
                properties.push(property);
            }
        }
        Ok(properties)
    }
}

impl Divide for Tabulate {
    fn merge(&mut self, pieces: Pieces) {
        self.pieces = Some(pieces);
    }

    fn reads_lists(&self) -> bool {
        false
    }

    fn read(&self, task: &Task) -> anyhow::Result<Vec<u8>> {
        let resources = self.resources.limits(None)?;
        let job = Tabulating::new(self.properties()?, self.subset.subset(), &resources);
        task.read(&job, Select::new(), &self.bad_lines)
    }
}

/// The captures by subset, as in the paper's table 2.
fn subsets(tabulated: &Tabulated) -> Table {
    let crawl = tabulated.header.crawl_or("captures");
    let mut table = Table::new(&[("subset", Align::Left), (&crawl, Align::Right)]);
    let captures = tabulated.header.captures();
    for subset in Subset::ALL {
        table.row([subset.name().to_owned(), count(captures[subset as usize])]);
    }
    table.row(["total".to_owned(), count(captures.iter().sum())]);
    table
}
