//! Cutting the text of a map into pieces.
//!
//! One thread looks for the places. Of a plain file it reads only a little around them, and the pieces
//! are read by the threads that work on them. Of any other text it reads all.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use waypost_io::{ErrorKind, FileReader, FileSection, Progress, Source, Stream};

use crate::error::Result;

/// How much of a file is read at first to find a place.
const WINDOW: usize = 64 << 10;

/// How large pieces are, and how much of them there is at a time, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// About the size of a piece.
    pub(crate) piece: usize,
    /// The size of the largest.
    pub(crate) longest: usize,
    /// The size of all that are in work; one may be larger.
    pub(crate) together: usize,
}

/// The text of a piece.
pub(crate) struct Text {
    place: Place,
    permit: Permit,
}

enum Place {
    Read(Vec<u8>),
    InFile(FileReader, Progress),
}

impl Text {
    /// Its bytes, in the buffer if they have not been read yet. The permit is to be kept as long as
    /// they, or what becomes of them, are in memory.
    pub(crate) fn bytes(self, mut buffer: Vec<u8>) -> Result<(Vec<u8>, Permit)> {
        let bytes = match self.place {
            Place::Read(text) => text,
            Place::InFile(mut file, progress) => {
                buffer.resize(self.permit.bytes, 0);
                read_exact(&mut file, &mut buffer)?;
                progress.add(buffer.len() as u64);
                buffer
            }
        };
        Ok((bytes, self.permit))
    }
}

/// The memory for pieces.
#[derive(Debug, Default)]
struct Room {
    used: Mutex<usize>,
    freed: Condvar,
}

impl Room {
    /// Waits until there is room for so many bytes, or nothing else in it.
    fn enter(self: &Arc<Room>, bytes: usize, most: usize) -> Permit {
        let is_full = |used: &mut usize| *used > 0 && *used + bytes > most;
        let used = self.freed.wait_while(self.used(), is_full);
        *used.unwrap_or_else(PoisonError::into_inner) += bytes;
        Permit {
            room: Arc::clone(self),
            bytes,
        }
    }

    fn used(&self) -> MutexGuard<'_, usize> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permits a piece to be in memory.
#[derive(Debug)]
pub(crate) struct Permit {
    room: Arc<Room>,
    bytes: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.room.used() -= self.bytes;
        self.room.freed.notify_all();
    }
}

fn read_exact(file: &mut FileReader, buffer: &mut [u8]) -> Result<()> {
    let (read, failed) = file.read_full(buffer);
    let kind = match failed {
        Some(source) => ErrorKind::Io {
            doing: "read",
            source,
        },
        None if read < buffer.len() => ErrorKind::EndsEarly,
        None => return Ok(()),
    };
    Err(waypost_io::Error::new(kind).into())
}

/// A piece of a text.
pub(crate) enum Cutting<C> {
    /// Whole lines, and the cut at their end, unless they are the last.
    Piece(Text, Option<C>),
    /// There is no place to cut for too long.
    Impossible,
}

/// The pieces of a text. `last_cut` finds the last place to cut in some whole lines, as the start of
/// one of them; what follows the last line feed is the start of another one.
pub(crate) struct Texts<F> {
    way: Way,
    sizes: Sizes,
    last_cut: F,
    progress: Progress,
    room: Arc<Room>,
}

enum Way {
    /// A plain file, and the offset of the next piece.
    File(FileSection, u64),
    /// Anything else, and what was read and not given out yet.
    Stream(Box<Stream>, Vec<u8>),
    Ended,
}

impl<C, F: Fn(&[u8]) -> Option<(usize, C)>> Texts<F> {
    /// Cuts the text of a source into pieces.
    pub(crate) fn open(
        source: &Source,
        progress: &Progress,
        sizes: Sizes,
        last_cut: F,
    ) -> Result<Texts<F>> {
        let way = match source.plain()? {
            Some((file, start)) => Way::File(file, start),
            None => {
                let stream = source.open()?.reporting_to(progress);
                Way::Stream(Box::new(stream), Vec::new())
            }
        };
        Ok(Texts {
            way,
            sizes,
            last_cut,
            progress: progress.clone(),
            room: Arc::default(),
        })
    }

    /// The next piece. `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Cutting<C>>> {
        match std::mem::replace(&mut self.way, Way::Ended) {
            Way::File(file, at) => self.next_in_file(file, at),
            Way::Stream(stream, rest) => self.next_in_stream(stream, rest),
            Way::Ended => Ok(None),
        }
    }

    fn text(&self, place: Place, length: usize) -> Text {
        Text {
            place,
            permit: self.room.enter(length, self.sizes.together),
        }
    }

    fn read(&self, text: Vec<u8>) -> Text {
        let length = text.len();
        self.text(Place::Read(text), length)
    }

    fn next_in_file(&mut self, file: FileSection, start: u64) -> Result<Option<Cutting<C>>> {
        let mut searched = start;
        let mut end = start;
        let (end, cut) = loop {
            end += self.sizes.piece as u64;
            if end >= file.length {
                break (file.length, None);
            }
            if end - start > self.sizes.longest as u64 {
                return Ok(Some(Cutting::Impossible));
            }
            match self.search(&file, searched, end)? {
                Ok((at, cut)) => break (at, Some(cut)),
                Err(from) => searched = from,
            }
        };
        if start >= end {
            return Ok(None);
        }
        let place = Place::InFile(file.reader(start), self.progress.clone());
        let text = self.text(place, (end - start) as usize);
        if cut.is_some() {
            self.way = Way::File(file, end);
        }
        Ok(Some(Cutting::Piece(text, cut)))
    }

    /// Looks for the last place to cut in a part of a file, in larger and larger windows before its
    /// end. Otherwise returns the offset from which to look together with what follows.
    fn search(
        &self,
        file: &FileSection,
        from: u64,
        end: u64,
    ) -> Result<std::result::Result<(u64, C), u64>> {
        let mut window = WINDOW.min(self.sizes.piece) as u64;
        let mut buffer = Vec::new();
        loop {
            let mut start = from.max(end.saturating_sub(window));
            buffer.resize((end - start) as usize, 0);
            read_exact(&mut file.reader(start), &mut buffer)?;
            let mut text = &buffer[..];
            let is_all = start == from;
            if !is_all {
                // The first line may have begun before.
                let feed = memchr::memchr(b'\n', text).map_or(text.len(), |at| at + 1);
                text = &text[feed..];
                start += feed as u64;
            }
            if let Some((at, cut)) = (self.last_cut)(text) {
                return Ok(Ok((start + at as u64, cut)));
            }
            if is_all {
                return Ok(Err(start + not_compared(text) as u64));
            }
            window *= 4;
        }
    }

    fn next_in_stream(
        &mut self,
        mut stream: Box<Stream>,
        mut text: Vec<u8>,
    ) -> Result<Option<Cutting<C>>> {
        let mut searched = 0;
        loop {
            if text.len() > self.sizes.longest {
                return Ok(Some(Cutting::Impossible));
            }
            let old = text.len();
            text.resize(old + self.sizes.piece, 0);
            let (read, failed) = stream.read_full(&mut text[old..]);
            text.truncate(old + read);
            if let Some(failed) = failed {
                return Err(failed.into());
            }
            if read < self.sizes.piece {
                let last = (!text.is_empty()).then(|| self.read(text));
                return Ok(last.map(|text| Cutting::Piece(text, None)));
            }
            if let Some((at, cut)) = (self.last_cut)(&text[searched..]) {
                let rest = text.split_off(searched + at);
                self.way = Way::Stream(stream, rest);
                return Ok(Some(Cutting::Piece(self.read(text), Some(cut))));
            }
            searched = not_compared(&text);
        }
    }
}

/// Where the lines of a text begin that must be searched again with what follows: the last may be
/// incomplete, and the one before has not been compared with it.
fn not_compared(text: &[u8]) -> usize {
    let ends = memchr::memrchr_iter(b'\n', text).nth(2);
    ends.map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The last line that starts with `|` and is not the first.
    fn last_cut(text: &[u8]) -> Option<(usize, ())> {
        let end = memchr::memrchr(b'\n', text)?;
        let found = memchr::memmem::rfind(&text[..end], b"\n|")?;
        Some((found + 1, ()))
    }

    /// All pieces, and whether there were enough places to cut.
    fn cut(path: &std::path::Path, size: usize, longest: usize) -> (Vec<Vec<u8>>, bool) {
        let source = Source::new(path.to_owned());
        let sizes = Sizes {
            piece: size,
            longest,
            together: size,
        };
        let mut texts = Texts::open(&source, &Progress::default(), sizes, last_cut).unwrap();
        let mut pieces = Vec::new();
        loop {
            match texts.next().unwrap() {
                Some(Cutting::Piece(text, _)) => pieces.push(text.bytes(Vec::new()).unwrap().0),
                Some(Cutting::Impossible) => return (pieces, false),
                None => return (pieces, true),
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_of_files_and_streams_are_the_text_cut_where_it_can_be(
            lines in prop::collection::vec("[|a-z][a-z]{0,9}", 1..80),
            bom: bool,
            size in 1usize..120,
            longest in 0usize..300,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut bytes = text.clone().into_bytes();
            if bom {
                bytes.splice(0..0, *b"\xef\xbb\xbf");
            }
            let (plain, packed) = (folder.path().join("a"), folder.path().join("a.gz"));
            std::fs::write(&plain, &bytes).unwrap();
            let mut member = Vec::new();
            waypost_io::gzip::Gzip::new(1).compress(&bytes, &mut member).unwrap();
            std::fs::write(&packed, member).unwrap();
            for path in [plain, packed] {
                let (pieces, complete) = cut(&path, size, longest.max(size));
                let joined = pieces.concat();
                prop_assert!(text.as_bytes().starts_with(&joined));
                prop_assert!(!complete || joined.len() == text.len());
                for piece in pieces.iter().skip(1) {
                    prop_assert_eq!(piece[0], b'|');
                }
                for piece in &pieces {
                    prop_assert!(!piece.is_empty() && piece.len() <= longest.max(size) + size);
                }
            }
        }
    }
}
