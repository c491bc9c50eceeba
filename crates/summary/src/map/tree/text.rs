//! Cutting the text of a map into pieces.
//!
//! One thread looks for the places. Of a plain file it reads only a little around them, and the pieces
//! are read by the threads that work on them. Of any other text it reads all.

use waypost_io::{FileReader, FileSection, Progress, Source, Stream};

use crate::error::{Error, Result};

/// How much of a file is read at first to find a place.
const WINDOW: usize = 64 << 10;

/// The text of a piece.
pub(crate) enum Text {
    Read(Vec<u8>),
    InFile {
        file: FileReader,
        length: usize,
        progress: Progress,
    },
}

impl Text {
    /// Its bytes, in the buffer if they have not been read yet.
    pub(crate) fn bytes(self, mut buffer: Vec<u8>) -> Result<Vec<u8>> {
        match self {
            Text::Read(text) => Ok(text),
            Text::InFile {
                mut file,
                length,
                progress,
            } => {
                buffer.resize(length, 0);
                read_exact(&mut file, &mut buffer)?;
                progress.add(length as u64);
                Ok(buffer)
            }
        }
    }
}

fn read_exact(file: &mut FileReader, buffer: &mut [u8]) -> Result<()> {
    let (read, failed) = file.read_full(buffer);
    match failed {
        Some(error) => Err(Error::invalid(error.to_string())),
        None if read < buffer.len() => Err(Error::invalid("the map ends early")),
        None => Ok(()),
    }
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
    size: usize,
    longest: usize,
    last_cut: F,
    progress: Progress,
}

enum Way {
    /// A plain file, and the offset of the next piece.
    File(FileSection, u64),
    /// Anything else, and what was read and not given out yet.
    Stream(Box<Stream>, Vec<u8>),
    Ended,
}

impl<C, F: Fn(&[u8]) -> Option<(usize, C)>> Texts<F> {
    /// Cuts the text of a source into pieces of about `size` bytes, and at most `longest`.
    pub(crate) fn open(
        source: &Source,
        progress: &Progress,
        size: usize,
        longest: usize,
        last_cut: F,
    ) -> Result<Texts<F>> {
        let way = match source.plain()? {
            Some((file, start)) => Way::File(file, start),
            None => {
                let stream = source.open()?.reporting_to(progress).text();
                Way::Stream(Box::new(stream), Vec::new())
            }
        };
        Ok(Texts {
            way,
            size,
            longest,
            last_cut,
            progress: progress.clone(),
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

    fn next_in_file(&mut self, file: FileSection, start: u64) -> Result<Option<Cutting<C>>> {
        let mut searched = start;
        let mut end = start;
        let (end, cut) = loop {
            end += self.size as u64;
            if end >= file.length {
                break (file.length, None);
            }
            if end - start > self.longest as u64 {
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
        let text = Text::InFile {
            file: file.reader(start),
            length: (end - start) as usize,
            progress: self.progress.clone(),
        };
        if cut.is_some() {
            self.way = Way::File(file, end);
        }
        Ok(Some(Cutting::Piece(text, cut)))
    }

    /// Looks for the last place to cut in a part of a file, in more and more of it. If there is none:
    /// from where to look in what follows.
    fn search(
        &self,
        file: &FileSection,
        from: u64,
        end: u64,
    ) -> Result<std::result::Result<(u64, C), u64>> {
        let mut window = WINDOW.min(self.size) as u64;
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
            if text.len() > self.longest {
                return Ok(Some(Cutting::Impossible));
            }
            let old = text.len();
            text.resize(old + self.size, 0);
            let (read, failed) = stream.read_full(&mut text[old..]);
            text.truncate(old + read);
            if let Some(failed) = failed {
                return Err(failed.into());
            }
            if read < self.size {
                let last = Cutting::Piece(Text::Read(text), None);
                return Ok((old + read > 0).then_some(last));
            }
            if let Some((at, cut)) = (self.last_cut)(&text[searched..]) {
                let rest = text.split_off(searched + at);
                self.way = Way::Stream(stream, rest);
                return Ok(Some(Cutting::Piece(Text::Read(text), Some(cut))));
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
        let mut texts =
            Texts::open(&source, &Progress::default(), size, longest, last_cut).unwrap();
        let mut pieces = Vec::new();
        loop {
            match texts.next().unwrap() {
                Some(Cutting::Piece(text, _)) => pieces.push(text.bytes(Vec::new()).unwrap()),
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
