//! Counting consecutive URI-Rs on one thread, and writing their rows.

use waypost_surt::Policy;

use super::cut::{Cut, Used};
use super::order::Piece;
use super::records::Counts;
use super::rows::RowText;
use crate::holdings::{Reduce, Run};

/// Counts URI-Rs under all policies.
pub(super) struct Cutter<'a> {
    pub(super) policies: &'a [Policy],
    /// For each policy, whether its rows wait until the end.
    pub(super) waits: &'a [bool],
    /// Whether there are second keys.
    pub(super) by: bool,
    pub(super) used: &'a Used,
}

/// The counts of consecutive URI-Rs.
pub(super) struct Part<'a> {
    /// Until all URI-Rs are counted.
    cut: Option<Cut<'a>>,
    pub(super) pieces: Vec<Piece<Counts>>,
    /// For each policy, the number of its piece.
    pub(super) piece_of: Vec<usize>,
}

impl<'a> Reduce for Cutter<'a> {
    type Part = Part<'a>;

    fn part(&self) -> Part<'a> {
        Part {
            cut: Some(Cut::new(self.policies, self.by, self.used)),
            pieces: Vec::new(),
            piece_of: Vec::new(),
        }
    }

    fn run(&self, part: &mut Part<'a>, run: &Run) {
        let Some(cut) = &mut part.cut else {
            return;
        };
        if self.by {
            let seconds = run
                .seconds
                .iter()
                .map(|(second, counts)| (&second[..], *counts));
            cut.add_by(&run.surt, seconds);
        } else {
            cut.add(&run.surt, run.counts);
        }
    }

    fn end(&self, part: &mut Part<'a>) {
        let Some(cut) = part.cut.take() else {
            return;
        };
        (part.pieces, part.piece_of) = cut.finish();
        let mut text = RowText::default();
        for (number, piece) in part.pieces.iter_mut().enumerate() {
            let mut waits = part.piece_of.iter().zip(self.waits);
            if waits.any(|(&of, waits)| of == number && !waits) {
                piece.write(|key, counts, out| text.write(key, counts, out));
            }
        }
    }
}
