//! The profiles of all policies, while they are written.
//!
//! Parts arrive in order. Their pieces wait until there are enough to be written on all cores, each
//! policy's to its own file.

use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;
use waypost_io::partial::Spill;
use waypost_surt::Policy;

use super::build::{Options, PolicyReport, ProfileSize};
use super::cut::Used;
use super::cutter::Part;
use super::order::{Order, Piece};
use super::records::Counts;
use super::rows::{Header, Rows};
use crate::about::{About, By};
use crate::error::Result;
use crate::holdings::Input;

/// How much is counted before it is sorted and written.
const BATCH: usize = 4 << 20;

/// The profiles of all policies.
pub(super) struct Outputs<'a> {
    outputs: Vec<Output>,
    used: &'a Used,
    /// For each policy, pieces to be written.
    waiting: Vec<Vec<Arc<Waiting>>>,
    /// How many bytes they have.
    size: usize,
    /// With how many bytes they are written.
    batch: usize,
}

/// A profile being written.
struct Output {
    order: Order<Counts>,
    rows: Rows,
    path: Option<PathBuf>,
}

/// A piece to be written, for one or several policies.
struct Waiting {
    piece: Piece<Counts>,
    /// Its number in the part.
    number: usize,
    /// The last SURT that it may have.
    last: Arc<[u8]>,
}

impl<'a> Outputs<'a> {
    /// Starts a profile for each policy. Policies that wait hold their rows until the end. As much room is
    /// left for the metadata as `widest` takes; if it is not known yet, [`Outputs::describe`] adds it.
    pub(super) fn create(
        waits: &[bool],
        about: Option<&About>,
        widest: &About,
        used: &'a Used,
        input: &Input,
        options: &Options,
    ) -> Result<Outputs<'a>> {
        let memory = input.resources.memory;
        let most = (memory / 8 / options.policies.len().max(1)).max(64 << 10);
        let spill = Spill::new(&input.resources.temporary);
        let mut outputs = Vec::new();
        for (&policy, &waits) in options.policies.iter().zip(waits) {
            let folder = options.folder.as_ref();
            let path = folder.map(|folder| folder.join(file_name(options, input.by, policy)));
            let text = about.map(|about| header(about, policy));
            let header = Header::with_room(text, header(widest, policy).len());
            outputs.push(Output {
                order: Order::new(policy, most, waits, &spill),
                rows: Rows::create(path.as_deref(), options.gzip, header)?,
                path,
            });
        }
        Ok(Outputs {
            waiting: outputs.iter().map(|_| Vec::new()).collect(),
            outputs,
            used,
            size: 0,
            batch: (memory / 16).clamp(1 << 20, BATCH),
        })
    }

    /// Adds the counts of URI-Rs up to `last`.
    pub(super) fn take(&mut self, part: Part<'_>, last: &[u8]) -> Result<()> {
        let last: Arc<[u8]> = last.into();
        self.size += part.pieces.iter().map(Piece::size).sum::<usize>();
        let pieces = part.pieces.into_iter().enumerate().map(|(number, piece)| {
            let last = Arc::clone(&last);
            Arc::new(Waiting {
                piece,
                number,
                last,
            })
        });
        let pieces: Vec<_> = pieces.collect();
        for (waiting, &number) in self.waiting.iter_mut().zip(&part.piece_of) {
            if !pieces[number].piece.is_empty() {
                waiting.push(Arc::clone(&pieces[number]));
            }
        }
        drop(pieces);
        if self.size >= self.batch {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.size = 0;
        let used = self.used;
        self.outputs
            .par_iter_mut()
            .zip(self.waiting.par_iter_mut())
            .try_for_each(|(output, waiting)| output.take(waiting, used))
    }

    /// Whether keys arrived too late: for each policy, after a flush.
    pub(super) fn late(&self) -> impl Iterator<Item = bool> {
        self.outputs.iter().map(|output| output.order.is_late())
    }

    /// Adds metadata that was not known before. Returns whether there is room for all of it.
    pub(super) fn describe(&mut self, about: &About) -> bool {
        self.outputs.iter_mut().all(|output| {
            let header = header(about, output.order.policy());
            output.rows.set_header(header)
        })
    }

    /// Moves all files to their final paths.
    pub(super) fn finish(self) -> Result<Vec<PolicyReport>> {
        let outputs = self.outputs.into_par_iter();
        let finished: Vec<Result<PolicyReport>> = outputs.map(Output::finish).collect();
        finished.into_iter().collect()
    }
}

impl Output {
    fn take(&mut self, pieces: &mut Vec<Arc<Waiting>>, used: &Used) -> Result<()> {
        for waiting in pieces.drain(..) {
            (self.order).take(&waiting.piece, &waiting.last, &mut self.rows)?;
            // The last policy that shares it.
            if let Some(waiting) = Arc::into_inner(waiting)
                && let Some(used) = used.get(waiting.number)
            {
                used.put(waiting.piece.emptied());
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<PolicyReport> {
        let policy = self.order.policy();
        self.order.finish(&mut self.rows)?;
        let written = self.rows.finish()?;
        Ok(PolicyReport {
            policy,
            size: ProfileSize {
                keys: written.keys,
                bytes: written.bytes,
                gzip_bytes: written.gzip_bytes,
                gzip_exact: written.gzip_exact,
            },
            path: self.path,
        })
    }
}

/// The header of the profile of a policy.
fn header(about: &About, policy: Policy) -> Vec<u8> {
    let about = About {
        policy: Some(policy),
        ..about.clone()
    };
    let mut header = Vec::new();
    about.headers().write(&mut header);
    header
}

/// `NAME.H3P1.cdxj.gz`; with a second key `NAME.H3P1.year.cdxj`.
pub(super) fn file_name(options: &Options, by: Option<By>, policy: Policy) -> String {
    let by = by.map(|by| format!(".{}", by.name())).unwrap_or_default();
    let end = if options.gzip { ".gz" } else { "" };
    format!("{}.{policy}{by}.cdxj{end}", options.name)
}
