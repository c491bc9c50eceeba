//! A range to read, and the command to read it for.

use std::ffi::OsString;
use std::path::Path;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use serde::{Deserialize, Serialize};
use waypost_index::scan::{Job, Pieces, Range, Ranges};
use waypost_index::select::Select;

use crate::args::BadLines;
use crate::cmd::Cli;
use crate::hint::Hint;

/// A command whose input can be read in ranges.
pub(crate) trait Divide {
    /// Merges what other machines have read, instead of reading the inputs.
    fn merge(&mut self, pieces: Pieces);

    /// Whether an input may also be a list of URIs.
    fn reads_lists(&self) -> bool {
        true
    }

    /// Reads a range of an input, and returns the serialised piece.
    fn read(&self, task: &Task) -> anyhow::Result<Vec<u8>>;
}

/// One line of a plan, or the first part of a line of results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The number of the range, from 0, and how many there are.
    pub(super) number: usize,
    pub(super) ranges: usize,
    /// How many ranges of the plan this one is: more than one if results were combined.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(super) combined: usize,
    /// The number of the source.
    pub(crate) source: usize,
    /// Whether the source is a list of URIs.
    pub(super) list: bool,
    #[serde(flatten)]
    pub(super) range: Range,
    /// The arguments of the command, without inputs.
    pub(super) command: Vec<String>,
    /// The results to combine, instead of reading the range.
    #[serde(skip)]
    pub(super) partials: Vec<Vec<u8>>,
}

fn one() -> usize {
    1
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_one(count: &usize) -> bool {
    *count == 1
}

impl Task {
    /// Parses the command, with the file of the range as its input.
    pub(super) fn parse(&self) -> anyhow::Result<(Cli, ArgMatches)> {
        parse(&self.command, [&self.range.path])
    }

    /// The command as one that can be divided.
    pub(super) fn divided<'a>(&self, cli: &'a mut Cli) -> anyhow::Result<&'a mut dyn Divide> {
        divided(cli, &self.command)
    }

    /// Reads the range for a job, or combines the results of its parts.
    pub(crate) fn read<J: Job>(
        &self,
        job: &J,
        select: Select,
        bad_lines: &BadLines,
    ) -> anyhow::Result<Vec<u8>> {
        let mut ranges = Ranges::new(job, select);
        if self.list {
            ranges = ranges.of_lists();
        }
        if bad_lines.strict {
            ranges = ranges.strict();
        }
        let mut partials = self.partials.iter().map(|bytes| ranges.from_bytes(bytes));
        let mut whole = match partials.next() {
            Some(first) => first?,
            None => match ranges.read(&self.range) {
                // A range does not know the number of its first line.
                Err(error) if self.range.start > 0 && error.place().line.is_some() => {
                    let range = Range {
                        start: 0,
                        ..self.range.clone()
                    };
                    return Err(ranges.read(&range).err().unwrap_or(error).into());
                }
                read => read?,
            },
        };
        for partial in partials {
            whole = ranges.merge(whole, partial?)?;
        }
        Ok(ranges.to_bytes(&whole)?)
    }
}

/// Parses a command and its inputs.
pub(super) fn parse<'p, P: AsRef<Path> + 'p + ?Sized>(
    command: &[String],
    inputs: impl IntoIterator<Item = &'p P>,
) -> anyhow::Result<(Cli, ArgMatches)> {
    let name = OsString::from("waypost");
    let words = command.iter().map(OsString::from);
    let inputs = inputs.into_iter().map(|path| path.as_ref().into());
    let words = [name].into_iter().chain(words).chain(["--".into()]);
    let matches = Cli::command().try_get_matches_from(words.chain(inputs))?;
    let cli = Cli::from_arg_matches(&matches)?;
    Ok((cli, matches))
}

/// A command as one that can be divided.
pub(super) fn divided<'a>(
    cli: &'a mut Cli,
    command: &[String],
) -> anyhow::Result<&'a mut dyn Divide> {
    let words = command
        .iter()
        .take_while(|word| !word.starts_with('-'))
        .cloned();
    let name = words.collect::<Vec<_>>().join(" ");
    cli.divided()
        .ok_or_else(|| anyhow::anyhow!("`waypost {name}` cannot be divided into ranges"))
        .hint(
            "the commands are profile, map build, filter build, segments tabulate, index check and stats",
        )
}
