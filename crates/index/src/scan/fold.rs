//! Joins pieces of the input in order, and completes the lines that cross their borders.

use std::sync::Arc;

use waypost_io::Result;

use super::block::{self, Found, Reading};
use super::{At, Job, LONGEST_LINE, Outcome};
use crate::layout::FileLayout;
use crate::rejects::{self, Bad, RejectsFile};
use crate::revisit::Resolver;

/// How many bytes are kept of a line that is too long.
const KEPT: usize = 1024;

/// A fragment: the start of a line without its end, or the end of a line without its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) bytes: Vec<u8>,
    /// Its length, if it is too long to keep.
    pub(super) overlong: u64,
}

impl Fragment {
    pub(super) fn is_empty(&self) -> bool {
        self.overlong == 0 && self.bytes.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.overlong.max(self.bytes.len() as u64)
    }

    /// Appends more of the line.
    pub(super) fn extend(&mut self, piece: &[u8]) {
        self.extend_by(piece, piece.len() as u64);
    }

    /// Appends a fragment of which only the start may have been kept.
    pub(super) fn extend_by(&mut self, piece: &[u8], length: u64) {
        let total = self.len() + length;
        if total > LONGEST_LINE as u64 + 1 {
            let more = KEPT.saturating_sub(self.bytes.len()).min(piece.len());
            self.bytes.extend_from_slice(&piece[..more]);
            self.bytes.truncate(KEPT);
            self.bytes.shrink_to_fit();
            self.overlong = total;
        } else {
            self.bytes.extend_from_slice(piece);
        }
    }
}

/// Everything needed to parse a line.
pub(super) struct Context<'a, 'b, J> {
    pub(super) reading: &'a Reading<'a, J>,
    pub(super) strict: bool,
    pub(super) rejects: Option<&'b mut RejectsFile>,
    pub(super) resolver: Option<&'b mut Resolver>,
}

/// The result so far.
pub(super) struct Fold<P> {
    pub(super) partial: P,
    pub(super) outcome: Outcome,
    /// The name of the current source.
    pub(super) name: String,
    pub(super) layout: Arc<FileLayout>,
    /// The position in the source, without the pending fragment.
    pub(super) place: At,
    pub(super) pending: Fragment,
}

impl<P> Fold<P> {
    pub(super) fn new(partial: P) -> Fold<P> {
        Fold {
            partial,
            outcome: Outcome::default(),
            name: String::new(),
            layout: Arc::default(),
            place: At::default(),
            pending: Fragment::default(),
        }
    }

    /// Adds the next bytes: the end of a line, complete lines, and the start of a line.
    pub(super) fn bytes<J: Job<Partial = P>>(
        &mut self,
        context: &mut Context<'_, '_, J>,
        bytes: &[u8],
        (start, end): (usize, usize),
        found: Option<(Found<P>, Arc<FileLayout>)>,
    ) -> Result<()> {
        let head = &bytes[..start];
        if !head.is_empty() {
            let ends = head.last() == Some(&b'\n');
            self.pending.extend(head);
            if ends {
                self.finish_line(context, true)?;
            }
        }
        let body = &bytes[start..end];
        if !body.is_empty() {
            let found = match found {
                // A header between the lines may have changed the layout since the work was assigned.
                Some((found, layout)) if Arc::ptr_eq(&layout, &self.layout) => found,
                _ => self.read(context, body)?,
            };
            self.absorb(context, found, body)?;
        }
        self.pending.extend(&bytes[end..]);
        Ok(())
    }

    fn read<J: Job<Partial = P>>(
        &self,
        context: &mut Context<'_, '_, J>,
        lines: &[u8],
    ) -> Result<Found<P>> {
        let resolver = context.resolver.as_deref_mut();
        let mut found = block::read(context.reading, &self.layout, lines, resolver);
        context.reading.job.seal(&mut found.partial)?;
        Ok(found)
    }

    /// Parses the pending line, which is complete.
    pub(super) fn finish_line<J: Job<Partial = P>>(
        &mut self,
        context: &mut Context<'_, '_, J>,
        has_end: bool,
    ) -> Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        if pending.overlong > 0 {
            self.reject(context, Bad::TooLong, None, self.place, &pending.bytes)?;
            self.outcome.tally.lines += 1;
            self.outcome.tally.bytes += pending.overlong;
            self.place.line += 1;
            self.place.byte += pending.overlong;
        } else {
            let mut found = self.read(context, &pending.bytes)?;
            if !has_end && !context.reading.list {
                for bad in &mut found.bad {
                    bad.kind = Bad::Cut;
                    context.reading.job.cut(&mut found.partial);
                }
            }
            self.absorb(context, found, &pending.bytes)?;
        }
        pending.bytes.clear();
        pending.overlong = 0;
        self.pending = pending;
        Ok(())
    }

    /// Ends the source: the pending fragment is its last line.
    pub(super) fn finish_source<J: Job<Partial = P>>(
        &mut self,
        context: &mut Context<'_, '_, J>,
    ) -> Result<()> {
        if !self.pending.is_empty() {
            self.finish_line(context, false)?;
        }
        if let Some(file) = self.outcome.files.last_mut() {
            file.lines = self.place.line;
            file.bytes = self.place.byte;
        }
        Ok(())
    }

    fn absorb<J: Job<Partial = P>>(
        &mut self,
        context: &mut Context<'_, '_, J>,
        found: Found<P>,
        bytes: &[u8],
    ) -> Result<()> {
        let base = self.place;
        for bad in found.bad {
            let at = At {
                source: 0,
                line: bad.line,
                byte: bad.start as u64,
            };
            let line = &bytes[bad.start..bad.end];
            self.reject(context, bad.kind, bad.detail, at.from_base(base), line)?;
        }
        let job = context.reading.job;
        job.merge(&mut self.partial, found.partial, base)?;
        self.outcome.tally.merge(&found.tally);
        self.place.line += found.tally.lines;
        self.place.byte += found.tally.bytes;
        if let Some(layout) = found.layout {
            self.layout = Arc::new(layout);
        }
        Ok(())
    }

    fn reject<J>(
        &mut self,
        context: &mut Context<'_, '_, J>,
        kind: Bad,
        detail: Option<String>,
        at: At,
        bytes: &[u8],
    ) -> Result<()> {
        let place = (&self.name[..], at.line + 1, at.byte);
        if context.strict {
            return Err(rejects::strict(kind, detail.as_deref(), place, bytes));
        }
        if let Some(file) = context.rejects.as_deref_mut() {
            file.write(bytes)?;
        }
        self.outcome.rejects.add(kind, detail, place, bytes);
        Ok(())
    }
}
