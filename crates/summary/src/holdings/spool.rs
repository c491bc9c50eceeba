//! Input that is not in order: written down as short lines, sorted, read again.
//!
//! A line is `surt TAB second key TAB source TAB captures`. Tabs sort below everything that a SURT
//! may hold, so lines sort as SURTs do.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;

use rayon::prelude::*;
use waypost_index::input::Source;
use waypost_index::key::{KeyCheck, Rekeyer};
use waypost_index::output::{Format, LineWriter};
use waypost_index::rejects::RejectsFile;
use waypost_index::scan::{self, At, Job};
use waypost_index::sort;
use waypost_index::{Capture, Fields};
use waypost_surt::Dialect;

use super::escaped;
use super::run::{Block, Joiner, Span, fields_of, second_key};
use super::sniff::Content;
use super::{Consumer, Input, Reading, list};
use crate::about::By;
use crate::error::{Error, Result};

/// How much of the sorted lines one thread takes at a time.
const BLOCK: usize = 1 << 20;

pub(super) fn read<C: Consumer>(
    input: &Input,
    mut rejects: Option<&mut RejectsFile>,
    consumer: &C,
    reading: &mut Reading,
) -> Result<()> {
    let folder = waypost_io::temporary::folder_in(&input.temporary)?;
    let spooled = folder.path().join("spooled");
    let spool = Mutex::new(Spool::new(&spooled)?);
    let mut span = Span::default();
    for (number, source) in input.sources.iter().enumerate() {
        let bit = if input.each_a_source { 1 << number } else { 1 };
        let content = &reading.contents[number].1;
        match content {
            Content::Empty => {}
            Content::Summary => {
                return Err(Error::invalid(
                    "this is a summary and not an index: merge profiles with `waypost profile merge`",
                )
                .in_file(source));
            }
            Content::List => {
                list::read(input, source, bit, rejects.as_deref_mut(), &spool, reading)?;
            }
            Content::Index(_) => {
                let job = Write {
                    by: input.by,
                    dialect: input.dialect,
                    source: bit,
                    spool: &spool,
                };
                let options = scan::Options {
                    select: input.select.clone(),
                    strict: input.strict,
                    rejects: rejects.as_deref_mut(),
                    progress: Some(&input.progress),
                    ..scan::Options::default()
                };
                let (lines, outcome) = scan::scan(std::slice::from_ref(source), &job, options)?;
                span.merge(&lines.span);
                reading.keys.merge(&lines.keys);
                reading.captures += outcome.tally.selected;
                reading.take(outcome);
            }
        }
    }
    let spool = spool
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let in_order = spool.finish()?;
    let sorted = if in_order {
        spooled
    } else {
        reading.sorted = true;
        let sorted = folder.path().join("sorted");
        let options = sort::Options {
            memory: input.memory,
            temporary: folder.path().to_owned(),
            ..sort::Options::default()
        };
        let mut out = LineWriter::create(&sorted, &Format::Plain, 1)?;
        sort::sort(&[Source::new(spooled.clone())], &options, &mut out)?;
        out.finish()?;
        // Not needed any more, and disks are finite.
        std::fs::remove_file(&spooled).map_err(|error| Error::io("remove", &spooled, error))?;
        sorted
    };
    let joined = read_sorted(&sorted, consumer)?;
    reading.urirs = joined.urirs;
    reading.first = span.first;
    reading.last = span.last;
    Ok(())
}

/// Lines that are written down.
pub(super) struct Spool {
    out: Option<LineWriter>,
    /// The last SURT, as long as all were in order.
    last: Vec<u8>,
    in_order: bool,
    error: Option<Error>,
}

impl Spool {
    fn new(path: &Path) -> Result<Spool> {
        Ok(Spool {
            out: Some(LineWriter::create(path, &Format::Plain, 1)?),
            last: Vec::new(),
            in_order: true,
            error: None,
        })
    }

    /// Takes in lines that follow those before.
    pub(super) fn take(&mut self, lines: &Spooled) {
        let Some(out) = self.out.as_mut().filter(|_| self.error.is_none()) else {
            return;
        };
        if lines.bytes.is_empty() {
            return;
        }
        self.in_order &= lines.in_order && lines.first() >= &self.last[..];
        self.last.clear();
        self.last.extend_from_slice(&lines.last);
        let bytes = lines.bytes.strip_suffix(b"\n").unwrap_or(&lines.bytes);
        for line in bytes.split(|&byte| byte == b'\n') {
            if let Err(error) = out.push(line) {
                self.error = Some(error.into());
                return;
            }
        }
    }

    fn finish(mut self) -> Result<bool> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if let Some(out) = self.out.take() {
            out.finish()?;
        }
        Ok(self.in_order)
    }
}

/// Lines of some captures that follow each other.
pub(super) struct Spooled {
    bytes: Vec<u8>,
    /// The line that is not written yet, because more captures may follow that it counts.
    last: Vec<u8>,
    second: Vec<u8>,
    captures: u64,
    source: u64,
    in_order: bool,
    pub(super) span: Span,
    keys: KeyCheck,
    rekeyer: Option<Rekeyer>,
}

impl Spooled {
    pub(super) fn new(source: u64) -> Spooled {
        Spooled {
            bytes: Vec::new(),
            last: Vec::new(),
            second: Vec::new(),
            captures: 0,
            source,
            in_order: true,
            span: Span::default(),
            keys: KeyCheck::default(),
            rekeyer: None,
        }
    }

    pub(super) fn add(&mut self, surt: &[u8], second: &[u8]) {
        if self.captures > 0 && self.last == surt && self.second == second {
            self.captures += 1;
            return;
        }
        self.end_line();
        self.in_order &= surt >= &self.last[..];
        self.last.clear();
        self.last.extend_from_slice(surt);
        self.second.clear();
        self.second.extend_from_slice(second);
        self.captures = 1;
    }

    pub(super) fn end_line(&mut self) {
        if self.captures == 0 {
            return;
        }
        self.bytes.extend_from_slice(&self.last);
        self.bytes.push(b'\t');
        self.bytes.extend_from_slice(&self.second);
        let counts = format!("\t{:x}\t{}\n", self.source, self.captures);
        self.bytes.extend_from_slice(counts.as_bytes());
        self.captures = 0;
    }

    fn first(&self) -> &[u8] {
        let end = memchr::memchr(b'\t', &self.bytes).unwrap_or(0);
        &self.bytes[..end]
    }
}

/// Writes down the captures of an index.
struct Write<'a> {
    by: Option<By>,
    dialect: Dialect,
    source: u64,
    spool: &'a Mutex<Spool>,
}

impl Job for Write<'_> {
    type Partial = Spooled;

    fn fields(&self) -> Fields {
        fields_of(self.by)
    }

    fn partial(&self) -> Spooled {
        Spooled::new(self.source)
    }

    fn capture(&self, lines: &mut Spooled, capture: &Capture<'_>, _: At) {
        lines.span.add(capture);
        let mut rekeyer = lines
            .rekeyer
            .take()
            .unwrap_or_else(|| Rekeyer::new(self.dialect));
        let mut second = Vec::new();
        second_key(self.by, capture, &mut second);
        lines.add(&escaped(rekeyer.surt(capture)), &second);
        lines.rekeyer = Some(rekeyer);
    }

    fn merge(&self, earlier: &mut Spooled, mut later: Spooled, _: At) {
        later.end_line();
        earlier.span.merge(&later.span);
        if let Some(rekeyer) = &later.rekeyer {
            earlier.keys.merge(rekeyer.check());
        }
        if let Ok(mut spool) = self.spool.lock() {
            spool.take(&later);
        }
    }
}

/// Reads sorted lines, on all cores.
fn read_sorted<C: Consumer>(path: &Path, consumer: &C) -> Result<Joiner> {
    let fail = |error| Error::io("read", path, error);
    let mut file = File::open(path).map_err(fail)?;
    let mut joiner = Joiner::default();
    let mut buffer: Vec<u8> = Vec::new();
    let at_once = BLOCK * (2 * rayon::current_num_threads());
    loop {
        let before = buffer.len();
        file.by_ref()
            .take(at_once as u64)
            .read_to_end(&mut buffer)
            .map_err(fail)?;
        let ended = buffer.len() - before < at_once;
        let whole = match memchr::memrchr(b'\n', &buffer) {
            Some(end) if !ended => end + 1,
            _ => buffer.len(),
        };
        let blocks: Vec<Block<C::Part>> = pieces(&buffer[..whole])
            .into_par_iter()
            .map(|piece| block(piece, consumer))
            .collect();
        for block in blocks {
            joiner.take(consumer, block);
        }
        buffer.drain(..whole);
        if ended || joiner.has_ended() {
            break;
        }
    }
    match joiner.finish(consumer)? {
        Some(joiner) => Ok(joiner),
        None => Err(Error::format("the sorted lines are not sorted").in_file(path.display())),
    }
}

/// Whole lines, cut into pieces.
fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let least = BLOCK.min(bytes.len());
        let end = memchr::memchr(b'\n', &bytes[least..]).map_or(bytes.len(), |at| least + at + 1);
        pieces.push(&bytes[..end]);
        bytes = &bytes[end..];
    }
    pieces
}

fn block<C: Consumer>(lines: &[u8], consumer: &C) -> Block<C::Part> {
    let mut block = Block::default();
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    for line in lines.split(|&byte| byte == b'\n') {
        let mut fields = line.split(|&byte| byte == b'\t');
        let (Some(surt), Some(second), Some(source), Some(captures)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let number = |text: &[u8], radix| {
            std::str::from_utf8(text)
                .ok()
                .and_then(|text| u64::from_str_radix(text, radix).ok())
                .unwrap_or(0)
        };
        let second = (!second.is_empty()).then_some(second);
        block.add(
            consumer,
            surt,
            second,
            number(captures, 10),
            number(source, 16),
        );
    }
    block
}
