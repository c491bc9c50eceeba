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
/// be in any order. A range that was read more than once counts once, also if it was combined with
/// others.
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
        let numbers: Vec<usize> = tasks.iter().map(|task| task.number).collect();
        for task in &tasks {
            if task.source == paths.len() {
                paths.push(&task.range.path);
            }
            ranges.push(task.range.clone());
        }
        let (mut cli, matches) = parse(command, paths)?;
        overwrite::check(&matches)?;
        let fetch = move |number: usize| partials.fetch(numbers[number]);
        divided(&mut cli, command)?.merge(Pieces::new(&ranges, fetch));
        cli.run(out)
    }
}

/// The lines of all files.
#[derive(Default)]
struct Partials {
    files: Vec<(String, File)>,
    /// By the number of the range that a result starts with: its task and where it is. Results that
    /// start with the same range differ in how many they combine.
    found: Vec<Vec<(Task, Place)>>,
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
        let end = task.number.checked_add(task.combined);
        if end.is_none_or(|end| end > task.ranges) || task.combined == 0 || task.ranges > 1 << 32 {
            anyhow::bail!("range {} of {}", task.number, task.ranges);
        }
        if self.found.is_empty() {
            self.found.resize_with(task.ranges, Vec::new);
        }
        let known = self.found.iter().flatten().next();
        if known.is_some_and(|(known, _)| known.command != task.command)
            || self.found.len() != task.ranges
        {
            return different_plans();
        }
        let same = &mut self.found[task.number];
        match same
            .iter()
            .find(|(known, _)| known.combined == task.combined)
        {
            Some((known, _)) if *known != task => return different_plans(),
            Some(_) => {}
            None => same.push((task, place)),
        }
        Ok(())
    }

    /// Results that have every range once, in order.
    fn complete(&mut self) -> anyhow::Result<Vec<Task>> {
        let ranges = self.found.len();
        if ranges == 0 {
            anyhow::bail!("no partial results");
        }
        // Whether the ranges from a number to the last can be composed of results.
        let mut composed = vec![false; ranges + 1];
        composed[ranges] = true;
        let mut covered = vec![false; ranges];
        for number in (0..ranges).rev() {
            let here = &mut self.found[number];
            for (task, _) in here.iter() {
                covered[number..number + task.combined].fill(true);
            }
            here.retain(|(task, _)| composed[number + task.combined]);
            here.sort_by_key(|(task, _)| std::cmp::Reverse(task.combined));
            composed[number] = !here.is_empty();
        }
        let missing = covered.iter().filter(|covered| !**covered).count();
        if let Some(first) = covered.iter().position(|covered| !covered) {
            return Err(anyhow::anyhow!(
                "the results of {} are missing, the first is line {} of the plan",
                plural::of(missing as u64, "range"),
                count(first as u64 + 1)
            ))
            .hint("run `waypost worker` again on the ranges that failed");
        }
        let mut tasks = Vec::new();
        let mut number = 0;
        while number < ranges {
            let Some((task, _)) = self.found[number].first() else {
                return Err(anyhow::anyhow!(
                    "results of combined ranges overlap at line {} of the plan",
                    count(number as u64 + 1)
                ))
                .hint("merge the results of the ranges themselves");
            };
            tasks.push(task.clone());
            number += task.combined;
        }
        Ok(tasks)
    }

    /// Reads the first result that starts with a range.
    fn fetch(&self, number: usize) -> waypost_io::Result<Vec<u8>> {
        let Some((task, place)) = self.found[number].first() else {
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

fn different_plans() -> anyhow::Result<()> {
    Err(anyhow::anyhow!("these are results of different plans"))
        .hint("merge the results of one plan")
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
