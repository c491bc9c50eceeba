//! Distributes work to all cores and merges the results in input order.

use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, bounded, never, select, unbounded};
use libdeflater::Decompressor;
use waypost_io::{Compression, Error, ErrorKind, Result, Source, members};

use super::block::{self, Found, Reading};
use super::feed::{Buffer, Fed, Feed, Pool, Work};
use super::fold::{Context, Fold, Fragment};
use super::{At, FileReport, Job, LONGEST_LINE, Options, Outcome};
use crate::layout::FileLayout;
use crate::revisit::Resolver;

/// A block that a worker has parsed.
struct Done<P> {
    buffer: Buffer,
    len: usize,
    /// The range of its complete lines.
    body: (usize, usize),
    /// Their result, and the layout used; `None` if the merger must parse them.
    found: Option<(Found<P>, Arc<FileLayout>)>,
    /// Number of bytes of the source.
    stored: u64,
    /// The offset of members that could not be inflated by themselves.
    rest: Option<u64>,
}

type Answer<P> = thread::Result<Result<Done<P>>>;

/// The next item in input order.
enum Slot<P> {
    Begin(Arc<FileLayout>, Compression),
    Waiting,
    Ready(Box<Answer<P>>),
    End(Option<Error>),
    Failed(Error),
}

impl<P> Slot<P> {
    fn is_there(&self) -> bool {
        !matches!(self, Slot::Waiting)
    }
}

pub(super) fn run<J: Job>(
    sources: &[Source],
    job: &J,
    mut options: Options<'_>,
) -> Result<(J::Partial, Outcome)> {
    let select = std::mem::take(&mut options.select);
    let reading = Reading {
        job,
        select: &select,
        wanted: job.fields() | select.fields(),
        whole: job.whole(),
        list: options.list,
    };
    let pool = Pool::default();
    let given_up = AtomicUsize::new(usize::MAX);
    let (sender, fed) = bounded(4);
    let feed = Feed {
        sources,
        pool: &pool,
        block: options.block.map(|size| size.clamp(1, LONGEST_LINE)),
        given_up: &given_up,
        sender,
    };
    thread::scope(|threads| {
        threads.spawn(|| feed.run());
        let mut merger = Merger {
            reading: &reading,
            sources,
            pool: &pool,
            given_up: &given_up,
            resolver: select.resolves().then(Resolver::default),
            options,
            fold: Fold::new(job.empty()),
            source: None,
            dispatched: None,
            streamed: None,
        };
        // A worker of a thread pool that waited here for others of that pool could deadlock, and a
        // single worker would only add the cost of handing work over.
        let is_worker = rayon::current_thread_index().is_some();
        if is_worker || rayon::current_num_threads() == 1 || merger.resolver.is_some() {
            merger.alone(fed)?;
        } else {
            merger.together(fed)?;
        }
        Ok((merger.fold.partial, merger.fold.outcome))
    })
}

/// Merges results.
struct Merger<'a, J: Job> {
    reading: &'a Reading<'a, J>,
    sources: &'a [Source],
    pool: &'a Pool,
    given_up: &'a AtomicUsize,
    resolver: Option<Resolver>,
    options: Options<'a>,
    fold: Fold<J::Partial>,
    /// The source whose results are being merged.
    source: Option<usize>,
    /// The source whose work is being assigned, and its layout.
    dispatched: Option<(usize, Arc<FileLayout>)>,
    /// Set when the source was read to its end as a stream, with the result.
    streamed: Option<Option<Error>>,
}

impl<'a, J: Job> Merger<'a, J> {
    /// Runs on this thread only.
    fn alone(&mut self, fed: Receiver<Fed>) -> Result<()> {
        for fed in fed {
            match self.take(fed) {
                Ok(slot) => self.merge(slot)?,
                Err(batch) => {
                    for work in batch {
                        if self.is_given_up() {
                            break;
                        }
                        // A resolver needs captures in order, so they are parsed here.
                        let layout = self.resolver.is_none().then(|| self.layout());
                        let answer = Ok(perform(self.reading, self.pool, work, layout));
                        self.merge(Slot::Ready(Box::new(answer)))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs with the workers of the thread pool.
    fn together(&mut self, fed: Receiver<Fed>) -> Result<()> {
        let (reading, pool) = (self.reading, self.pool);
        // In boxes, because what is sent is copied several times on the way, here by one thread for all.
        let (sender, done) = unbounded::<(u64, Box<Answer<J::Partial>>)>();
        let most = 2 * rayon::current_num_threads() + 2;
        let most = most.min(reading.job.most_partials()).max(1);
        rayon::in_place_scope(|scope| {
            // Dropped when this function returns for any reason, so that the feed ends, too.
            let fed = fed;
            let mut fed_ended = false;
            let mut slots: VecDeque<Slot<J::Partial>> = VecDeque::new();
            let mut first = 0u64;
            let mut unassigned = Vec::new().into_iter();
            let idle = never();
            loop {
                while slots.front().is_some_and(Slot::is_there) {
                    if let Some(slot) = slots.pop_front() {
                        first += 1;
                        self.merge(slot)?;
                    }
                }
                if self.is_given_up() {
                    unassigned = Vec::new().into_iter();
                }
                if slots.len() < most
                    && let Some(work) = unassigned.next()
                {
                    let number = first + slots.len() as u64;
                    slots.push_back(Slot::Waiting);
                    let (sender, layout) = (sender.clone(), self.layout());
                    scope.spawn(move |_| {
                        let answer = catch_unwind(AssertUnwindSafe(|| {
                            perform(reading, pool, work, Some(layout))
                        }));
                        // The receiver is gone after an error.
                        let _ = sender.send((number, Box::new(answer)));
                    });
                    continue;
                }
                if fed_ended && slots.is_empty() {
                    return Ok(());
                }
                let more = if fed_ended || slots.len() >= most {
                    &idle
                } else {
                    &fed
                };
                select! {
                    recv(done) -> answer => {
                        if let Ok((number, answer)) = answer {
                            slots[(number - first) as usize] = Slot::Ready(answer);
                        }
                    }
                    recv(more) -> fed => match fed.map(|fed| self.take(fed)) {
                        Err(_) => fed_ended = true,
                        Ok(Ok(slot)) => slots.push_back(slot),
                        Ok(Err(batch)) => unassigned = batch.into_iter(),
                    },
                }
            }
        })
    }

    /// Returns what is merged in its turn or, as an error, work to be assigned.
    fn take(&mut self, fed: Fed) -> Result<Slot<J::Partial>, Vec<Work>> {
        Ok(match fed {
            Fed::Begin {
                layout,
                compression,
            } => {
                let layout = Arc::new(layout);
                let number = self.dispatched.as_ref().map_or(0, |(number, _)| number + 1);
                self.dispatched = Some((number, Arc::clone(&layout)));
                Slot::Begin(layout, compression)
            }
            Fed::Work(batch) => return Err(batch),
            Fed::End { damage } => Slot::End(damage),
            Fed::Failed(error) => Slot::Failed(error),
        })
    }

    /// Whether the rest of the source whose work is being assigned is read as a stream.
    fn is_given_up(&self) -> bool {
        let number = self.given_up.load(Ordering::Relaxed);
        (self.dispatched.as_ref()).is_some_and(|(dispatched, _)| *dispatched == number)
    }

    /// The layout for work that is assigned now.
    fn layout(&self) -> Arc<FileLayout> {
        let dispatched = self.dispatched.as_ref();
        dispatched
            .map(|(_, layout)| Arc::clone(layout))
            .unwrap_or_default()
    }

    fn merge(&mut self, slot: Slot<J::Partial>) -> Result<()> {
        match slot {
            Slot::Begin(layout, compression) => {
                self.begin(layout, compression);
                Ok(())
            }
            Slot::Ready(answer) => match *answer {
                Ok(done) => {
                    let done = done.map_err(|error| error.in_file(self.name()))?;
                    self.block(done)
                }
                Err(panic) => resume_unwind(panic),
            },
            Slot::End(damage) => self.end(damage),
            Slot::Failed(error) => Err(error),
            Slot::Waiting => Ok(()),
        }
    }

    fn name(&self) -> String {
        self.source
            .and_then(|number| self.sources.get(number))
            .map(Source::to_string)
            .unwrap_or_default()
    }

    fn begin(&mut self, layout: Arc<FileLayout>, compression: Compression) {
        let number = self.source.map_or(0, |number| number + 1);
        self.source = Some(number);
        let name = self.name();
        self.fold.place = At {
            source: number,
            line: 0,
            byte: 0,
        };
        self.fold.outcome.files.push(FileReport {
            name: name.clone(),
            layout: FileLayout::clone(&layout),
            compression,
            lines: 0,
            bytes: 0,
        });
        self.fold.name = name;
        self.fold.layout = layout;
        self.streamed = None;
    }

    fn end(&mut self, damage: Option<Error>) -> Result<()> {
        let damaged = match &self.streamed {
            Some(streamed) => streamed.is_some(),
            None => damage.is_some(),
        };
        let (fold, mut context) = self.parts();
        if damaged && context.reading.list {
            // A truncated URI is a different URI.
            fold.pending = Fragment::default();
        }
        fold.finish_source(&mut context)?;
        match self.streamed.take().unwrap_or(damage) {
            Some(damage) if self.options.strict => Err(damage),
            Some(damage) => {
                self.fold.outcome.damage.push(damage);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The result so far, and everything needed to add to it.
    fn parts(&mut self) -> (&mut Fold<J::Partial>, Context<'a, '_, J>) {
        let context = Context {
            reading: self.reading,
            strict: self.options.strict,
            rejects: self.options.rejects.as_deref_mut(),
            resolver: self.resolver.as_mut(),
        };
        (&mut self.fold, context)
    }

    /// A block that a worker has parsed.
    fn block(&mut self, done: Done<J::Partial>) -> Result<()> {
        if self.streamed.is_some() {
            self.pool.give(done.buffer);
            return Ok(());
        }
        self.options.progress.add(done.stored);
        let bytes = &done.buffer[..done.len];
        self.bytes(bytes, done.body, done.found)?;
        self.pool.give(done.buffer);
        match done.rest {
            Some(offset) => self.stream(offset),
            None => Ok(()),
        }
    }

    /// Reads the rest of a gzip file here, because its members cannot be separated.
    fn stream(&mut self, offset: u64) -> Result<()> {
        let Some(number) = self.source else {
            return Ok(());
        };
        self.given_up.store(number, Ordering::Relaxed);
        let stream = self.sources[number].gzip_at(offset)?.text();
        let mut stream = stream.reporting_to(&self.options.progress);
        let size = 1024 * 1024;
        let mut buffer = self.pool.take(size);
        loop {
            let (len, error) = stream.read_full(&mut buffer[..size]);
            let bytes = &buffer[..len];
            self.bytes(bytes, block::body(bytes), None)?;
            match error {
                Some(error) if !error.is_damage() => return Err(error),
                None if len > 0 => {}
                error => {
                    self.streamed = Some(error);
                    return Ok(());
                }
            }
        }
    }

    fn bytes(
        &mut self,
        bytes: &[u8],
        body: (usize, usize),
        found: Option<(Found<J::Partial>, Arc<FileLayout>)>,
    ) -> Result<()> {
        let (fold, mut context) = self.parts();
        fold.bytes(&mut context, bytes, body, found)?;
        // A header between the lines applies to all work assigned from now on.
        if let Some((number, dispatched)) = &mut self.dispatched
            && Some(*number) == self.source
            && !Arc::ptr_eq(dispatched, &self.fold.layout)
        {
            *dispatched = Arc::clone(&self.fold.layout);
        }
        Ok(())
    }
}

/// Reads the bytes of some work and parses their complete lines, if the layout is known.
fn perform<J: Job>(
    reading: &Reading<'_, J>,
    pool: &Pool,
    work: Work,
    layout: Option<Arc<FileLayout>>,
) -> Result<Done<J::Partial>> {
    let (buffer, len, stored, rest) = match work {
        Work::Part { file, offset, len } => {
            let mut buffer = pool.take(len);
            let read = read_at(&file, offset, &mut buffer[..len])?;
            (buffer, read, read as u64, None)
        }
        Work::Bytes {
            buffer,
            len,
            stored,
        } => (buffer, len, stored, None),
        Work::Members {
            chunk,
            start,
            pieces,
            offset,
        } => {
            let mut out = pool.take(0);
            let mut decompressor = Decompressor::new();
            let (len, used) =
                members::inflate(&mut decompressor, &chunk[start..], &pieces, &mut out);
            let stored = if used == 0 { 0 } else { pieces[used - 1].end };
            let rest = pieces.get(used).map(|piece| offset + piece.start as u64);
            pool.give_shared(chunk);
            (out, len, stored as u64, rest)
        }
    };
    let bytes = &buffer[..len];
    let body = block::body(bytes);
    let found = match layout {
        None => None,
        Some(layout) => {
            let mut found = block::read(reading, &layout, &bytes[body.0..body.1], None);
            reading.job.seal(&mut found.partial)?;
            Some((found, layout))
        }
    };
    Ok(Done {
        buffer,
        len,
        body,
        found,
        stored,
        rest,
    })
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &std::fs::File, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => {
                let kind = ErrorKind::Io {
                    doing: "read",
                    source,
                };
                return Err(Error::new(kind).at_byte(offset + filled as u64));
            }
        }
    }
    Ok(filled)
}
