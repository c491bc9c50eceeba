//! Lists of URIs, one a line, read on all cores.
//!
//! ```text
//! source ─► blocks of whole lines ─► workers: a part of each block ─► parts in the order of the list
//! ```

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::{memchr_iter, memrchr};
use waypost_index::input::{Source, Stream};
use waypost_index::rejects::{RejectsFile, printable};
use waypost_index::select::Select;

use super::spool::{Spool, Spooled};
use super::{Input, Reading};
use crate::error::{Error, ErrorKind, Result};
use crate::lookup::SurtWriter;
use crate::ukvs::LONGEST;
use waypost_io::pipeline::{self, Pool, Width};

/// How much is read at a time.
const BLOCK: usize = 1 << 20;

/// How many examples are kept.
const EXAMPLES: usize = 3;

/// Lines of lists that have no SURT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadUri {
    /// How many there are.
    pub count: u64,
    /// The first of them: where, and what is wrong.
    pub examples: Vec<String>,
}

/// A list that is to be read.
pub(crate) struct List<'a> {
    pub(crate) source: &'a Source,
    /// Whether to stop at the first bad line, or at damage.
    pub(crate) strict: bool,
    /// Keeps the bad lines.
    pub(crate) rejects: Option<&'a mut RejectsFile>,
    /// Which lines count.
    pub(crate) select: &'a Select,
    /// Counts the bytes that are read, as they are stored.
    pub(crate) progress: Option<&'a AtomicU64>,
    /// How much memory there is for everything, in bytes.
    pub(crate) memory: usize,
}

/// What was in a list.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// Lines of any kind.
    pub(crate) lines: u64,
    /// Bytes, decompressed.
    pub(crate) bytes: u64,
    pub(crate) uris: u64,
    /// What ended it too early.
    pub(crate) damage: Option<waypost_index::Error>,
}

/// What a worker made of a block.
struct Done<P> {
    part: P,
    lines: u64,
    uris: u64,
    /// Which lines of the block are bad, and why.
    bad: Vec<(u64, Vec<u8>, waypost_surt::Error)>,
}

impl List<'_> {
    /// Gives every URI to a worker, which adds it to the part of its block and says whether the
    /// filters let it through. `take` gets the parts in
    /// order. Bad lines are added to `bad`.
    pub(crate) fn read<P: Send, W>(
        mut self,
        bad: &mut BadUri,
        part: impl Fn() -> P + Sync,
        worker: impl Fn() -> W + Sync,
        mut take: impl FnMut(P) -> Result<()>,
    ) -> Result<Listed>
    where
        W: FnMut(&mut P, &[u8]) -> Result<bool, waypost_surt::Error>,
    {
        check_filters(self.select, self.source)?;
        let mut blocks = Blocks::open(self.source, self.progress)?;
        let buffers: Pool<Vec<u8>> = Pool::new();
        let mut listed = Listed::default();
        let give = || {
            let mut block = buffers.get();
            Ok(blocks.next(&mut block)?.then_some(block))
        };
        let worker = || {
            let mut add = worker();
            let (part, buffers) = (&part, &buffers);
            move |block: Vec<u8>| {
                let done = work(&block, part(), &mut add);
                buffers.put(block);
                Ok(done)
            }
        };
        // Blocks and what is made of them take little of it, but at least as much as two cores need.
        let width = Width::within((self.memory / 8).max(16 * BLOCK), 0, 2 * BLOCK);
        pipeline::run(width, give, worker, |done: Done<P>| {
            for (at, line, why) in done.bad {
                let what = format!("{why}: {}", printable(&line));
                let error = Error::new(ErrorKind::Syntax(what))
                    .in_file(self.source)
                    .at_line(listed.lines + at);
                if self.strict {
                    return Err(error);
                }
                if let Some(rejects) = self.rejects.as_deref_mut() {
                    rejects.write(&line)?;
                }
                bad.count += 1;
                if bad.examples.len() < EXAMPLES {
                    bad.examples.push(error.to_string());
                }
            }
            listed.lines += done.lines;
            listed.uris += done.uris;
            take(done.part)
        })?;
        for &line in &blocks.too_long {
            let error = Error::new(ErrorKind::Syntax(
                "the line is longer than 16 MiB".to_owned(),
            ))
            .in_file(self.source)
            .at_line(line);
            if self.strict {
                return Err(error);
            }
            bad.count += 1;
            if bad.examples.len() < EXAMPLES {
                bad.examples.push(error.to_string());
            }
        }
        if let Some(damage) = blocks.damage.take_if(|_| self.strict) {
            return Err(damage.into());
        }
        listed.bytes = blocks.bytes;
        listed.damage = blocks.damage;
        Ok(listed)
    }
}

/// Refuses filters that look at what lists do not have: they would silently let everything through.
pub(crate) fn check_filters(select: &Select, source: &Source) -> Result<()> {
    match select.needs_captures() {
        None => Ok(()),
        Some(missing) => Err(Error::invalid(format!(
            "a list of URIs has no {missing} to filter by"
        ))
        .in_file(source)),
    }
}

fn work<P>(
    block: &[u8],
    mut part: P,
    add: &mut impl FnMut(&mut P, &[u8]) -> Result<bool, waypost_surt::Error>,
) -> Done<P> {
    let (mut lines, mut uris, mut bad) = (0, 0, Vec::new());
    let block = block.strip_suffix(b"\n").unwrap_or(block);
    let mut start = 0;
    for end in memchr_iter(b'\n', block).chain([block.len()]) {
        let line = block[start..end].trim_ascii();
        start = end + 1;
        lines += 1;
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        match add(&mut part, line) {
            Ok(taken) => uris += u64::from(taken),
            Err(why) => bad.push((lines, line.to_vec(), why)),
        }
    }
    Done {
        part,
        lines,
        uris,
        bad,
    }
}

/// Writes down the URIs of a list.
pub(super) fn read(
    input: &Input,
    source: &Source,
    bit: u64,
    rejects: Option<&mut RejectsFile>,
    spool: &Mutex<Spool>,
    reading: &mut Reading,
) -> Result<()> {
    // A list knows neither times nor languages nor types.
    let second: &[u8] = if input.by.is_some() { b"-" } else { b"" };
    let worker = || {
        let mut writer = SurtWriter::new(input.dialect);
        let mut surt = Vec::new();
        move |lines: &mut Spooled, line: &[u8]| {
            surt.clear();
            writer.write(line, &mut surt)?;
            if !input.select.accepts_uri(line, &surt) {
                return Ok(false);
            }
            lines.add(&surt, second);
            Ok(true)
        }
    };
    let list = List {
        source,
        strict: input.strict,
        rejects,
        select: &input.select,
        progress: Some(&input.progress),
        memory: input.memory,
    };
    let take = |mut lines: Spooled| {
        lines.end_line();
        if let Ok(mut spool) = spool.lock() {
            spool.take(&lines);
        }
        Ok(())
    };
    let listed = list.read(&mut reading.bad_uris, || Spooled::new(bit), worker, take)?;
    reading.captures += listed.uris;
    reading.lines += listed.lines;
    reading.bytes += listed.bytes;
    reading.damage.extend(listed.damage);
    Ok(())
}

/// Cuts a source into blocks of whole lines.
pub(crate) struct Blocks<'a> {
    stream: Stream,
    progress: Option<&'a AtomicU64>,
    /// The beginning of a line whose end was not read yet.
    rest: Vec<u8>,
    ended: bool,
    /// Lines that were given.
    lines: u64,
    /// Bytes that were read, decompressed.
    bytes: u64,
    /// What ended it too early: half a line of a damaged file is no line.
    pub(crate) damage: Option<waypost_index::Error>,
    /// The numbers of lines that were too long to keep. Empty lines stand in their places.
    pub(crate) too_long: Vec<u64>,
}

impl<'a> Blocks<'a> {
    pub(crate) fn open(source: &Source, progress: Option<&'a AtomicU64>) -> Result<Blocks<'a>> {
        Ok(Blocks {
            stream: source.open()?,
            progress,
            rest: Vec::new(),
            ended: false,
            lines: 0,
            bytes: 0,
            damage: None,
            too_long: Vec::new(),
        })
    }

    /// Drops what was read of a line that is too long, and all that is still to come of it.
    fn skip_line(&mut self, block: &mut Vec<u8>) -> Result<()> {
        self.too_long.push(self.lines + 1);
        self.rest.clear();
        self.rest.push(b'\n');
        block.resize(BLOCK, 0);
        loop {
            let (length, error) = self.stream.read_full(&mut block[..BLOCK]);
            self.bytes += length as u64;
            match error {
                Some(error) if error.is_damage() => self.damage = Some(error),
                Some(error) => return Err(error.into()),
                None => {}
            }
            if let Some(feed) = memchr::memchr(b'\n', &block[..length]) {
                self.rest.extend_from_slice(&block[feed + 1..length]);
                return Ok(());
            }
            if length < BLOCK {
                return Ok(());
            }
        }
    }

    /// Puts the next lines in `block`. `false` if there are no more.
    pub(crate) fn next(&mut self, block: &mut Vec<u8>) -> Result<bool> {
        let mut filled = 0;
        while !self.ended {
            let kept = filled + self.rest.len();
            if kept > LONGEST {
                self.skip_line(block)?;
                filled = 0;
                continue;
            }
            // What a block that is used again had is written over, not cleared first.
            block.resize((kept + BLOCK).max(block.len()), 0);
            block[filled..kept].copy_from_slice(&self.rest);
            self.rest.clear();
            let before = self.stream.source_position();
            let (length, error) = self.stream.read_full(&mut block[kept..kept + BLOCK]);
            if let Some(progress) = self.progress {
                progress.fetch_add(self.stream.source_position() - before, Ordering::Relaxed);
            }
            self.bytes += length as u64;
            filled = kept + length;
            match error {
                Some(error) if error.is_damage() => self.damage = Some(error),
                Some(error) => return Err(error.into()),
                None => {}
            }
            let feed = memrchr(b'\n', &block[..filled]).map_or(0, |at| at + 1);
            self.ended = length < BLOCK;
            let end = match self.ended && self.damage.is_none() {
                true => filled,
                false => feed,
            };
            if end > 0 {
                self.rest.extend_from_slice(&block[end..filled]);
                block.truncate(end);
                self.lines += memchr_iter(b'\n', block).count() as u64;
                return Ok(true);
            }
        }
        Ok(false)
    }
}
