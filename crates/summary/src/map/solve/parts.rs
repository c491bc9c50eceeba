//! Data of a whole map, or of each of its pieces. Pieces are packed on a tape, so that they take no
//! more memory for a larger map, and are read one by one, on all cores.

use std::ops::{Deref, Range};

use waypost_io::pipeline::{self, Width};

use super::tape::Tape;
use crate::error::{Error, Result};

/// Data that can be put on a tape.
pub(crate) trait Pack: Sized {
    /// Appends its bytes.
    ///
    /// # Errors
    /// If a temporary file could not be read.
    fn pack(&self, out: &mut Vec<u8>) -> Result<()>;

    /// Reads it. `None` if the bytes are invalid.
    fn unpack(bytes: &[u8]) -> Option<Self>;
}

/// The data of all pieces.
#[derive(Debug)]
pub(crate) enum Parts<T> {
    /// The map was not cut.
    Whole(T),
    /// By the number of the piece.
    Packed(Tape),
}

/// The data of a piece.
pub(crate) enum Loan<'a, T> {
    Kept(&'a T),
    Read(T),
}

impl<T> Deref for Loan<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Loan::Kept(kept) => kept,
            Loan::Read(read) => read,
        }
    }
}

impl<T: Pack> Parts<T> {
    /// The number of pieces.
    pub(crate) fn len(&self) -> usize {
        match self {
            Parts::Whole(_) => 1,
            Parts::Packed(tape) => tape.chunks(),
        }
    }

    /// The data of a piece.
    ///
    /// # Errors
    /// If a temporary file could not be read.
    pub(crate) fn get(&self, number: usize) -> Result<Loan<'_, T>> {
        match self {
            Parts::Whole(whole) => Ok(Loan::Kept(whole)),
            Parts::Packed(tape) => {
                let mut bytes = Vec::new();
                tape.read(number, &mut bytes)?;
                T::unpack(&bytes).map(Loan::Read).ok_or_else(changed)
            }
        }
    }
}

/// A temporary file does not have what was written to it.
pub(crate) fn changed() -> Error {
    Error::invalid("a temporary file was changed")
}

/// How many pieces a thread gets at a time, at most: so many that handing them over takes little time,
/// and so few that their results take little memory.
const MOST_AT_ONCE: usize = 8;

/// Works on each of `count` pieces, and takes the results in their order.
pub(crate) fn each<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    let threads = threads.min(count);
    if threads < 2 {
        return (0..count).try_for_each(|number| take(number, work(number)?));
    }
    let mut given = 0;
    let give = || {
        // Fewer at the end, so that all threads end at the same time.
        let left = count - given;
        let length = (left / (4 * threads)).clamp(1, MOST_AT_ONCE).min(left);
        let batch = given..given + length;
        given += length;
        Ok((length > 0).then_some(batch))
    };
    let work_on_all = |batch: Range<usize>| batch.map(&work).collect::<Result<Vec<T>>>();
    let mut taken = 0..count;
    let width = Width {
        threads,
        pieces: 2 * threads,
    };
    pipeline::run(
        width,
        give,
        || &work_on_all,
        |results| {
            // Results first: a number that is taken for none of them would be lost.
            let mut results = results.into_iter().zip(taken.by_ref());
            results.try_for_each(|(result, number)| take(number, result))
        },
    )
}
