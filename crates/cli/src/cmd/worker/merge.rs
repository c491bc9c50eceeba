use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::prelude::{BASE64_STANDARD, Engine};
use clap::{Args, ValueHint};
use waypost_index::scan::{Pieces, Range};
use waypost_io::{Error, ErrorKind, IoContext};
use waypost_report::count;

use super::Task;
use super::task::{divided, parse};
use crate::exit::Exit;
use crate::hint::Hint;
use crate::overwrite;
use crate::plural;
use crate::printer::Printer;

/// Merge partial results and run the command to its end
///
/// Prints and writes what the command would have printed and written without workers. The lines may
/// be in any order. A range that was read more than once counts once.
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost worker plan small.cdxj --size 64K -- profile -o profiles > ranges\n\
    \x20 split -n l/2 ranges part-\n\
    \x20 waypost worker < part-aa > partials-a\n\
    \x20 waypost worker < part-ab > partials-b\n\
    \x20 waypost worker merge partials-a partials-b")]
pub(crate) struct Merge {
    /// Files that workers have written; `-` is standard input
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    partials: Vec<PathBuf>,
}

impl Merge {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let mut partials = Partials::default();
        for path in &self.partials {
            partials.add(path)?;
        }
        let tasks = partials.complete()?;
        let command = &tasks[0].command;
        let mut ranges = Vec::new();
        let mut paths: Vec<&Path> = Vec::new();
        for task in &tasks {
            if task.source == paths.len() {
                paths.push(&task.range.path);
            }
            ranges.push(task.range.clone());
        }
        let (mut cli, matches) = parse(command, paths)?;
        overwrite::check(&matches)?;
        let fetch = move |number| partials.fetch(number);
        divided(&mut cli, command)?.merge(Pieces::new(&ranges, fetch));
        cli.run(out)
    }
}

/// The lines of all files.
#[derive(Default)]
struct Partials {
    files: Vec<(String, File)>,
    /// The range of each number and where its partial is.
    found: Vec<Option<(Task, Place)>>,
}

#[derive(Clone, Copy)]
struct Place {
    file: usize,
    start: u64,
    length: usize,
}

/// The longest range that is read; its command may have many arguments.
const LONGEST_TASK: u64 = 1 << 20;

impl Partials {
    /// Finds the partials in a file.
    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let name = path.display().to_string();
        let file = open(path)?;
        let mut reader = BufReader::with_capacity(1 << 18, &file);
        let (mut at, mut line) = (0u64, 0u64);
        loop {
            let mut head = Vec::new();
            let length = (&mut reader)
                .take(LONGEST_TASK)
                .read_until(b'\t', &mut head)
                .doing("read", path)?;
            if length == 0 {
                break;
            }
            line += 1;
            let mut last = [0];
            let rest = reader.skip_until(b'\n').doing("read", path)?;
            at += length as u64;
            let place = Place {
                file: self.files.len(),
                start: at,
                length: rest.saturating_sub(1),
            };
            at += rest as u64;
            // A worker that was killed may have left an incomplete line.
            if rest == 0
                || file.read_at(&mut last, at - 1).doing("read", path)? == 0
                || last != *b"\n"
            {
                break;
            }
            self.take(&head, place)
                .with_context(|| format!("{name}: line {}", count(line)))?;
        }
        self.files.push((name, file));
        Ok(())
    }

    fn take(&mut self, head: &[u8], place: Place) -> anyhow::Result<()> {
        let task: Task = serde_json::from_slice(head.strip_suffix(b"\t").unwrap_or(head))
            .context("this is not a partial result")
            .hint("name files that `waypost worker` has written")?;
        if task.number >= task.ranges || task.ranges > 1 << 32 {
            anyhow::bail!("range {} of {}", task.number, task.ranges);
        }
        if self.found.is_empty() {
            self.found.resize_with(task.ranges, || None);
        }
        let known = self.found.iter().flatten().next();
        if known.is_some_and(|(known, _)| known.command != task.command)
            || self.found.len() != task.ranges
        {
            return Err(anyhow::anyhow!("these are results of different plans"))
                .hint("merge the results of one plan");
        }
        match &mut self.found[task.number] {
            Some((known, _)) if *known != task => {
                return Err(anyhow::anyhow!("these are results of different plans"))
                    .hint("merge the results of one plan");
            }
            Some(_) => {}
            none => *none = Some((task, place)),
        }
        Ok(())
    }

    /// All ranges, in order.
    fn complete(&self) -> anyhow::Result<Vec<Task>> {
        let missing: Vec<usize> = (0..self.found.len())
            .filter(|&number| self.found[number].is_none())
            .collect();
        if let Some(first) = missing.first() {
            return Err(anyhow::anyhow!(
                "the results of {} are missing, the first is line {} of the plan",
                plural::of(missing.len() as u64, "range"),
                count(*first as u64 + 1)
            ))
            .hint("run `waypost worker` again on the ranges that failed");
        }
        if self.found.is_empty() {
            anyhow::bail!("no partial results");
        }
        Ok(self
            .found
            .iter()
            .flatten()
            .map(|(task, _)| task.clone())
            .collect())
    }

    /// Reads the partial of a range.
    fn fetch(&self, number: usize) -> waypost_io::Result<Vec<u8>> {
        let Some((task, place)) = &self.found[number] else {
            return Err(Error::new(ErrorKind::EndsEarly));
        };
        let (name, file) = &self.files[place.file];
        let mut text = vec![0; place.length];
        file.read_exact_at(&mut text, place.start)
            .doing("read", Path::new(name))?;
        BASE64_STANDARD.decode(text).map_err(|error| {
            let Range { path, start, .. } = &task.range;
            Error::new(ErrorKind::Format(format!(
                "the partial result of {} from byte {start} is corrupt: {error}",
                path.display()
            )))
            .in_file(name)
        })
    }
}

/// Opens a file to read it at any offset. Standard input and pipes are copied to a temporary file.
fn open(path: &Path) -> anyhow::Result<File> {
    let mut input: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let file = File::open(path).doing("open", path)?;
        if file.metadata().doing("open", path)?.is_file() {
            return Ok(file);
        }
        Box::new(file)
    };
    let mut copy = tempfile::tempfile().context("cannot make a temporary file")?;
    io::copy(&mut input, &mut copy).doing("copy", path)?;
    copy.flush().doing("copy", path)?;
    io::Seek::rewind(&mut copy).doing("copy", path)?;
    Ok(copy)
}
