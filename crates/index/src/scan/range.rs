//! Reads an index in ranges, each independently and on any machine, and merges the results.
//!
//! A plain file can be split anywhere, and a gzip file at its members. A file with other compression,
//! or with a single member, is one range. A range may start and end in the middle of a line: its
//! [`Piece`] keeps both fragments, and merging joins them. The result does not depend on how the input
//! is split or how merges are grouped.
//!
//! A range does not know what precedes it. If that matters, merging reads the later range again: if a
//! header between the lines has changed the columns, or if revisits are resolved that may repeat
//! captures before the range. Both are rare, but then the files must be there when pieces are merged.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use waypost_io::{Compression, Error, ErrorKind, Result, Source, Stream, adapters};

use super::block::{self, Reading};
use super::cut::{failed, read_full};
use super::fold::{Context, Fold, Fragment};
use super::{At, FileReport, Job, Outcome, Tally};
use crate::layout::FileLayout;
use crate::rejects::Rejects;
use crate::revisit::Resolver;
use crate::select::Select;
use waypost_io::partial::{Decoder, Encoder};

/// Number of bytes to read at a time.
const BLOCK: usize = 256 * 1024;
/// How much of a remote file is read to detect its layout: enough for a sample, also of a gzip file.
const BEGINNING: u64 = 256 * 1024;

/// A byte range of a file, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The file, or its URL.
    pub path: PathBuf,
    /// Its start.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// Whether this is also the end of the file.
    pub last: bool,
}

/// The result of one range or of several consecutive ones.
pub struct Piece<P> {
    fold: Fold<P>,
    /// The file and offset of its start and of its end.
    start: (PathBuf, u64),
    end: (PathBuf, u64),
    /// Whether its end is the end of the file.
    ends_file: bool,
    /// The fragment before the first newline, if it does not start at the start of a file.
    head: Option<Head>,
    /// The layout used for the first lines.
    layout: Arc<FileLayout>,
    /// The files, in order.
    paths: Vec<PathBuf>,
    /// If revisits are resolved.
    resolver: Option<Resolver>,
}

struct Head {
    fragment: Fragment,
    /// Whether the end of the line was found.
    complete: bool,
    /// Whether that was the end of the file instead of a newline.
    at_end: bool,
}

/// Reads ranges for a job and merges the results.
///
/// See [`scan`](super) for an example.
pub struct Ranges<'a, J> {
    pub(super) job: &'a J,
    select: Select,
    list: bool,
    strict: bool,
}

impl<'a, J: Job> Ranges<'a, J> {
    /// Reads indexes, with these filters.
    pub fn new(job: &'a J, select: Select) -> Ranges<'a, J> {
        Ranges {
            job,
            select,
            list: false,
            strict: false,
        }
    }

    /// Reads lists of URIs, one per line, instead of indexes.
    #[must_use]
    pub fn of_lists(mut self) -> Ranges<'a, J> {
        self.list = true;
        self
    }

    /// Turns the first bad line or damage into an error.
    #[must_use]
    pub fn strict(mut self) -> Ranges<'a, J> {
        self.strict = true;
        self
    }

    fn reading(&self) -> Reading<'_, J> {
        Reading {
            job: self.job,
            select: &self.select,
            wanted: self.job.fields() | self.select.fields(),
            whole: self.job.whole(),
            list: self.list,
        }
    }

    fn context<'b>(
        &self,
        reading: &'b Reading<'b, J>,
        resolver: Option<&'b mut Resolver>,
    ) -> Context<'b, 'b, J> {
        Context {
            reading,
            strict: self.strict,
            rejects: None,
            resolver,
        }
    }

    /// Reads a range, on this thread.
    ///
    /// # Errors
    /// If the file cannot be read, or a gzip range does not start and end at members.
    pub fn read(&self, range: &Range) -> Result<Piece<J::Partial>> {
        let resolver = self.select.resolves().then(Resolver::default);
        self.read_after(range, None, resolver)
    }

    /// Reads a range before which the layout is known, if it has changed, and so are the captures that
    /// revisits repeat.
    fn read_after(
        &self,
        range: &Range,
        layout: Option<Arc<FileLayout>>,
        mut resolver: Option<Resolver>,
    ) -> Result<Piece<J::Partial>> {
        let source = Source::new(range.path.clone());
        // Of a remote file, no more than is needed.
        let start = match adapters::url_of(&range.path) {
            Some(_) => source.section(0, BEGINNING)?,
            None => None,
        };
        let mut beginning = match start {
            Some(start) => Stream::new(source.to_string(), start)?.text(),
            None => source.open()?,
        };
        let mut sample = vec![0; FileLayout::SAMPLE];
        let (length, _) = beginning.read_full(&mut sample);
        let detected = FileLayout::detect(&sample[..length]);
        let layout = layout.unwrap_or_else(|| Arc::new(detected.clone()));
        let compression = beginning.compression();
        let mut fold = Fold::new(self.job.empty());
        fold.name = source.to_string();
        fold.layout = Arc::clone(&layout);
        fold.outcome.files.push(FileReport {
            name: source.to_string(),
            layout: detected,
            compression,
            lines: 0,
            bytes: 0,
        });
        let mut piece = Piece {
            fold,
            start: (range.path.clone(), range.start),
            end: (range.path.clone(), range.end),
            ends_file: range.last,
            head: (range.start > 0).then(|| Head {
                fragment: Fragment::default(),
                complete: false,
                at_end: false,
            }),
            layout,
            paths: vec![range.path.clone()],
            resolver: None,
        };
        let section = source.section(range.start, range.end)?;
        if section.is_none() && (range.start > 0 || !range.last) {
            let error = std::io::Error::from(std::io::ErrorKind::NotSeekable);
            return Err(Error::io("read a range of", &range.path, error));
        }
        // The first range of a file has the byte-order mark, if there is one.
        let mut marked = range.start == 0 && beginning.had_byte_order_mark();
        let mut buffer = vec![0; BLOCK];
        let reading = self.reading();
        let mut context = self.context(&reading, resolver.as_mut());
        let mut stream = match (compression, section) {
            (Compression::Plain, Some(mut section)) => loop {
                let length =
                    read_full(&mut section, &mut buffer).map_err(|error| failed(error, &source))?;
                if length == 0 {
                    piece.resolver = resolver;
                    return Ok(piece);
                }
                let mark = if std::mem::take(&mut marked) { 3 } else { 0 };
                piece.take(&mut context, &buffer[mark.min(length)..length])?;
            },
            (Compression::Gzip, Some(section)) => {
                let stream = Stream::gzip_at(source.to_string(), section, range.start)?;
                match marked {
                    true => stream.text(),
                    false => stream.members_end_lines(),
                }
            }
            _ => source.open()?.text(),
        };
        loop {
            let (length, error) = stream.read_full(&mut buffer);
            piece.take(&mut context, &buffer[..length])?;
            match error {
                None if length > 0 => {}
                None => break,
                Some(error) if !error.is_damage() || self.strict => return Err(error),
                // The file is intact, but the range does not end at a member.
                Some(error) if !range.last => return Err(error),
                Some(error) => {
                    piece.fold.outcome.damage.push(error);
                    if self.list {
                        // A truncated URI is a different URI.
                        piece.fold.pending = Fragment::default();
                    }
                    break;
                }
            }
        }
        piece.resolver = resolver;
        Ok(piece)
    }

    /// Reads all ranges of a piece again, now that it is known what precedes them.
    fn read_again(
        &self,
        piece: &Piece<J::Partial>,
        layout: Option<Arc<FileLayout>>,
        resolver: Option<Resolver>,
    ) -> Result<Piece<J::Partial>> {
        let range = |number: usize, path: &PathBuf| -> Result<Range> {
            let is_last = number + 1 == piece.paths.len();
            let end = match is_last {
                true => piece.end.1,
                false => Source::new(path).stored()?.unwrap_or_default(),
            };
            Ok(Range {
                path: path.clone(),
                start: if number == 0 { piece.start.1 } else { 0 },
                end,
                last: !is_last || piece.ends_file,
            })
        };
        let mut read = self.read_after(&range(0, &piece.paths[0])?, layout, resolver)?;
        for (number, path) in piece.paths.iter().enumerate().skip(1) {
            read = self.merge(read, self.read(&range(number, path)?)?)?;
        }
        Ok(read)
    }

    /// Merges two consecutive pieces: of one file, or the end of one and the start of another.
    ///
    /// # Errors
    /// If they are not consecutive, or spilling fails, or a range has to be read again and cannot be.
    pub fn merge(
        &self,
        mut earlier: Piece<J::Partial>,
        mut later: Piece<J::Partial>,
    ) -> Result<Piece<J::Partial>> {
        let reading = self.reading();
        let mut resolver = earlier.resolver.take();
        let mut context = self.context(&reading, resolver.as_mut());
        let Some(head) = &mut later.head else {
            if !earlier.ends_file {
                return Err(earlier.gap(&later));
            }
            // The file ends without another newline: the head is its last line.
            if let Some(head) = earlier.head.as_mut().filter(|head| !head.complete) {
                (head.complete, head.at_end) = (true, true);
            }
            earlier.fold.finish_source(&mut context)?;
            let base = At {
                source: earlier.fold.place.source + 1,
                line: 0,
                byte: 0,
            };
            if matters(resolver.as_ref(), &later) {
                later = self.read_again(&later, None, resolver.take())?;
            }
            return earlier.append(self.job, later, base, false, resolver);
        };
        if earlier.end != later.start || earlier.ends_file {
            return Err(earlier.gap(&later));
        }
        match &mut earlier.head {
            // The whole earlier piece is the middle of a line.
            Some(first) if !first.complete => {
                let (bytes, length) = (&head.fragment.bytes, head.fragment.len());
                first.fragment.extend_by(bytes, length);
                head.fragment = std::mem::take(&mut first.fragment);
                later.start = earlier.start;
                return Ok(later);
            }
            _ => {}
        }
        let (bytes, length) = (&head.fragment.bytes, head.fragment.len());
        earlier.fold.pending.extend_by(bytes, length);
        if !head.complete {
            earlier.end = later.end;
            earlier.ends_file = later.ends_file;
            earlier
                .fold
                .outcome
                .damage
                .append(&mut later.fold.outcome.damage);
            earlier.resolver = resolver;
            return Ok(earlier);
        }
        if !head.at_end || !earlier.fold.pending.is_empty() {
            earlier.fold.finish_line(&mut context, !head.at_end)?;
        }
        if *earlier.fold.layout != *later.layout || matters(resolver.as_ref(), &later) {
            let layout = Arc::clone(&earlier.fold.layout);
            later = self.read_again(&later, Some(layout), resolver.take())?;
        }
        let base = earlier.fold.place;
        earlier.append(self.job, later, base, true, resolver)
    }

    /// The result of all ranges of all files.
    ///
    /// # Errors
    /// If the piece does not start at the start of a file and end at the end of one.
    pub fn finish(&self, mut piece: Piece<J::Partial>) -> Result<(J::Partial, Outcome)> {
        if piece.start.1 > 0 || !piece.ends_file {
            return Err(Error::new(ErrorKind::Invalid(
                "some ranges of this file are missing".to_owned(),
            ))
            .in_file(&piece.fold.name));
        }
        let reading = self.reading();
        let mut resolver = piece.resolver.take();
        let mut context = self.context(&reading, resolver.as_mut());
        piece.fold.finish_source(&mut context)?;
        Ok((piece.fold.partial, piece.fold.outcome))
    }

    /// Serialises a piece.
    ///
    /// # Errors
    /// If spilled data cannot be read.
    pub fn to_bytes(&self, piece: &Piece<J::Partial>) -> Result<Vec<u8>> {
        let fold = &piece.fold;
        let mut out = Encoder::new("piece", 2);
        let state = State {
            start: piece.start.clone(),
            end: piece.end.clone(),
            ends_file: piece.ends_file,
            paths: piece.paths.clone(),
            resolver: piece.resolver.clone(),
            layout: FileLayout::clone(&piece.layout),
            last_layout: FileLayout::clone(&fold.layout),
            name: fold.name.clone(),
            place: (fold.place.source, fold.place.line, fold.place.byte),
            tally: fold.outcome.tally.clone(),
            files: fold.outcome.files.clone(),
            rejects: fold.outcome.rejects.clone(),
            damage: fold.outcome.damage.iter().map(Damage::of).collect(),
        };
        let state = serde_json::to_vec(&state)
            .map_err(|error| Error::new(ErrorKind::Format(error.to_string())))?;
        out.text(&state);
        let flags = |head: &Head| u64::from(head.complete) | u64::from(head.at_end) << 1;
        out.option(piece.head.as_ref().map(flags));
        for fragment in piece
            .head
            .iter()
            .map(|head| &head.fragment)
            .chain([&fold.pending])
        {
            out.text(&fragment.bytes);
            out.number(fragment.overlong);
        }
        out.text(&self.job.to_bytes(&fold.partial)?);
        Ok(out.finish())
    }

    /// Deserialises the result of [`to_bytes`](Ranges::to_bytes).
    ///
    /// # Errors
    /// If the bytes are invalid.
    #[allow(
        clippy::wrong_self_convention,
        reason = "deserialisation depends on the job"
    )]
    pub fn from_bytes(&self, bytes: &[u8]) -> Result<Piece<J::Partial>> {
        let mut from = Decoder::new(bytes, "piece", 2)?;
        let state: State = serde_json::from_slice(from.text()?)
            .map_err(|error| Error::new(ErrorKind::Format(error.to_string())))?;
        if state.paths.is_empty() {
            let message = "a piece without files".to_owned();
            return Err(Error::new(ErrorKind::Format(message)));
        }
        let fragment = |from: &mut Decoder<'_>| -> Result<Fragment> {
            Ok(Fragment {
                bytes: from.text()?.to_vec(),
                overlong: from.number()?,
            })
        };
        let head = match from.option()? {
            None => None,
            Some(complete) => Some(Head {
                fragment: fragment(&mut from)?,
                complete: complete & 1 > 0,
                at_end: complete & 2 > 0,
            }),
        };
        let pending = fragment(&mut from)?;
        let partial = self.job.from_bytes(from.text()?)?;
        from.finish()?;
        let (source, line, byte) = state.place;
        Ok(Piece {
            fold: Fold {
                partial,
                outcome: Outcome {
                    tally: state.tally,
                    files: state.files,
                    rejects: state.rejects,
                    damage: state.damage.into_iter().map(Damage::error).collect(),
                },
                name: state.name,
                layout: Arc::new(state.last_layout),
                place: At { source, line, byte },
                pending,
            },
            start: state.start,
            end: state.end,
            ends_file: state.ends_file,
            head,
            layout: Arc::new(state.layout),
            paths: state.paths,
            resolver: state.resolver,
        })
    }
}

/// Whether what was seen before a piece changes what is in it.
fn matters<P>(before: Option<&Resolver>, piece: &Piece<P>) -> bool {
    match (before, &piece.resolver) {
        (Some(before), Some(after)) => before.matters_to(after),
        _ => false,
    }
}

impl<P> Piece<P> {
    /// Adds the next bytes.
    fn take<J: Job<Partial = P>>(
        &mut self,
        context: &mut Context<'_, '_, J>,
        mut bytes: &[u8],
    ) -> Result<()> {
        if let Some(head) = self.head.as_mut().filter(|head| !head.complete) {
            let end = memchr::memchr(b'\n', bytes).map(|at| at + 1);
            let (first, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            head.fragment.extend(first);
            head.complete = end.is_some();
            bytes = rest;
        }
        self.fold.bytes(context, bytes, block::body(bytes), None)
    }

    fn gap(&self, later: &Piece<P>) -> Error {
        Error::new(ErrorKind::Invalid(format!(
            "the ranges are not consecutive: one ends at byte {} and the next starts at byte {} of {}",
            self.end.1,
            later.start.1,
            later.start.0.display()
        )))
        .in_file(self.end.0.display())
    }

    /// Merges a piece that starts at `base`, in the same file or at the start of the next one. If the
    /// piece was not read again, `resolver` has seen what precedes it.
    fn append<J: Job<Partial = P>>(
        mut self,
        job: &J,
        later: Piece<P>,
        base: At,
        same_file: bool,
        resolver: Option<Resolver>,
    ) -> Result<Piece<P>> {
        self.resolver = match (resolver, later.resolver) {
            (Some(mut resolver), Some(more)) => {
                resolver.append(more);
                Some(resolver)
            }
            (resolver, more) => resolver.or(more),
        };
        let paths = later.paths.into_iter();
        self.paths.extend(paths.skip(usize::from(same_file)));
        job.merge(&mut self.fold.partial, later.fold.partial, base)?;
        let (outcome, more) = (&mut self.fold.outcome, later.fold.outcome);
        outcome.tally.merge(&more.tally);
        outcome.damage.extend(more.damage);
        let first = more.files.first().map(|file| file.name.clone());
        outcome.rejects.merge(more.rejects, |example| {
            if same_file && Some(&example.file) == first.as_ref() {
                example.line += base.line;
                example.byte += base.byte;
            }
        });
        let mut files = more.files.into_iter();
        if same_file && let (Some(last), Some(file)) = (outcome.files.last_mut(), files.next()) {
            // Lines are counted when a file is at its end.
            if later.fold.place.source > 0 {
                last.lines = base.line + file.lines;
                last.bytes = base.byte + file.bytes;
            }
        }
        outcome.files.extend(files);
        self.fold.place = later.fold.place.from_base(base);
        self.fold.pending = later.fold.pending;
        self.fold.layout = later.fold.layout;
        self.fold.name = later.fold.name;
        self.end = later.end;
        self.ends_file = later.ends_file;
        Ok(self)
    }
}

/// A piece without its partial, for serialisation as JSON.
#[derive(Serialize, Deserialize)]
struct State {
    start: (PathBuf, u64),
    end: (PathBuf, u64),
    ends_file: bool,
    paths: Vec<PathBuf>,
    resolver: Option<Resolver>,
    layout: FileLayout,
    last_layout: FileLayout,
    name: String,
    place: (usize, u64, u64),
    tally: Tally,
    files: Vec<FileReport>,
    rejects: Rejects,
    damage: Vec<Damage>,
}

/// Serialised damage of a file.
#[derive(Serialize, Deserialize)]
struct Damage {
    file: Option<String>,
    byte: Option<u64>,
    compression: String,
    /// What is wrong; `None` if the data is truncated.
    detail: Option<String>,
    trailing: bool,
}

impl Damage {
    fn of(error: &Error) -> Damage {
        let (compression, detail, trailing) = match error.kind() {
            ErrorKind::Truncated { compression } => (*compression, None, false),
            ErrorKind::TrailingGarbage { compression } => (*compression, None, true),
            ErrorKind::Corrupt {
                compression,
                detail,
            } => (*compression, Some(detail.clone()), false),
            other => ("compressed", Some(other.to_string()), false),
        };
        Damage {
            file: error.place().file.clone(),
            byte: error.place().byte,
            compression: compression.to_owned(),
            detail,
            trailing,
        }
    }

    fn error(self) -> Error {
        let known = [Compression::Gzip, Compression::Zstd, Compression::Bzip2];
        let compression = known
            .into_iter()
            .map(Compression::name)
            .find(|name| *name == self.compression)
            .unwrap_or("compressed");
        let mut error = Error::new(match self.detail {
            Some(detail) => ErrorKind::Corrupt {
                compression,
                detail,
            },
            None if self.trailing => ErrorKind::TrailingGarbage { compression },
            None => ErrorKind::Truncated { compression },
        });
        if let Some(file) = self.file {
            error = error.in_file(file);
        }
        match self.byte {
            Some(byte) => error.at_byte(byte),
            None => error,
        }
    }
}
