//! Scans that write lines: what [`rekey`](crate::rekey) and [`convert`](crate::convert) share.
//!
//! Workers rewrite the lines of their blocks. The results are written to a file in the order of the
//! input, to be sorted afterwards.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use waypost_io::partial::{Decoder, Encoder};
use waypost_io::{Error, ErrorKind, Format, LineWriter, Progress, Result, Source};

use crate::capture::{Capture, Fields};
use crate::rejects::RejectsFile;
use crate::scan::{self, At, Job, Outcome};
use crate::select::Select;
use crate::takedown::Takedowns;

/// Options of [`rekey`](crate::rekey::rekey) and [`convert`](crate::convert::convert).
#[derive(Default)]
pub struct Options<'a> {
    /// Whether to stop at the first bad line or damaged file.
    pub strict: bool,
    /// Saves the bad lines.
    pub rejects: Option<&'a mut RejectsFile>,
    /// What to leave out because it was taken down.
    pub takedowns: Option<Arc<Takedowns>>,
    /// Where to report progress.
    pub progress: Progress,
}

/// How lines are rewritten.
pub(crate) trait Rewrite: Sync {
    /// Counts of rewritten lines.
    type Tally: Default + Send + Serialize + DeserializeOwned;
    /// What a worker needs beside the capture, made once for each block.
    type Tools: Send;

    /// Whether to check JSON to its end.
    const WHOLE: bool;

    /// The fields that [`capture`](Rewrite::capture) uses.
    fn fields(&self) -> Fields;
    /// Creates the tools of a block.
    fn tools(&self) -> Self::Tools;
    /// Called for every line before it is parsed: captures, headers, bad lines.
    fn line(&self, lines: &mut Lines<Self::Tally>, line: &[u8]) {
        let _ = (lines, line);
    }
    /// Rewrites a capture.
    ///
    /// # Errors
    /// If the file cannot be rewritten at all.
    fn capture(
        &self,
        lines: &mut Lines<Self::Tally>,
        tools: &mut Self::Tools,
        capture: &Capture<'_>,
    ) -> Result<()>;
    /// Adds the counts of later lines.
    fn merge(&self, earlier: &mut Self::Tally, later: Self::Tally);
}

/// Rewritten lines.
#[derive(Default)]
pub(crate) struct Lines<T> {
    pub(crate) bytes: Vec<u8>,
    /// The offset of the last line in `bytes`.
    pub(crate) last: usize,
    pub(crate) tally: T,
}

/// Writes the rewritten lines of `sources` to the file `out`, after `header`.
pub(crate) fn rewrite<R: Rewrite>(
    sources: &[Source],
    rule: R,
    mut select: Select,
    options: Options<'_>,
    header: &[u8],
    out: &Path,
) -> Result<(R::Tally, Outcome)> {
    let mut writer = LineWriter::create(out, &Format::Plain, 1)?;
    writer.push_lines(header)?;
    let job = Rewriting {
        rule,
        out: Mutex::new(writer),
    };
    options.progress.read(sources);
    select.takedowns(options.takedowns);
    let options = scan::Options {
        select,
        strict: options.strict,
        rejects: options.rejects,
        progress: options.progress,
        ..scan::Options::default()
    };
    let (block, outcome) = scan::scan(sources, &job, options)?;
    let writer = job.out.into_inner().unwrap_or_else(PoisonError::into_inner);
    writer.finish()?;
    Ok((block.lines.tally, outcome))
}

struct Rewriting<R> {
    rule: R,
    out: Mutex<LineWriter>,
}

struct Block<R: Rewrite> {
    lines: Lines<R::Tally>,
    tools: Option<R::Tools>,
    error: Option<Error>,
}

impl<R: Rewrite> Job for Rewriting<R> {
    type Partial = Block<R>;

    fn fields(&self) -> Fields {
        self.rule.fields()
    }

    fn whole(&self) -> bool {
        R::WHOLE
    }

    fn empty(&self) -> Block<R> {
        Block {
            lines: Lines {
                bytes: Vec::new(),
                last: 0,
                tally: R::Tally::default(),
            },
            tools: None,
            error: None,
        }
    }

    fn line(&self, block: &mut Block<R>, line: &[u8], _: Option<&[u8]>, _: At) {
        self.rule.line(&mut block.lines, line);
    }

    fn cut(&self, block: &mut Block<R>) {
        block.lines.bytes.truncate(block.lines.last);
    }

    fn add(&self, block: &mut Block<R>, capture: &Capture<'_>, _: At) {
        let tools = block.tools.get_or_insert_with(|| self.rule.tools());
        if block.error.is_none()
            && let Err(error) = self.rule.capture(&mut block.lines, tools, capture)
        {
            block.error = Some(error);
        }
    }

    fn seal(&self, block: &mut Block<R>) -> Result<()> {
        block.tools = None;
        block.error.take().map_or(Ok(()), Err)
    }

    fn merge(&self, earlier: &mut Block<R>, later: Block<R>, _: At) -> Result<()> {
        self.rule.merge(&mut earlier.lines.tally, later.lines.tally);
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.push_lines(&later.lines.bytes)
    }

    fn to_bytes(&self, block: &Block<R>) -> Result<Vec<u8>> {
        let mut out = Encoder::new("rewritten", 1);
        out.text(&block.lines.bytes);
        out.text(&serde_json::to_vec(&block.lines.tally).unwrap_or_default());
        Ok(out.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Block<R>> {
        let mut from = Decoder::new(bytes, "rewritten", 1)?;
        let mut block = self.empty();
        block.lines.bytes = from.text()?.to_vec();
        block.lines.tally = serde_json::from_slice(from.text()?)
            .map_err(|error| Error::new(ErrorKind::Format(error.to_string())))?;
        from.finish()?;
        Ok(block)
    }
}
