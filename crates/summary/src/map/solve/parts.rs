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

/// The maximum number of pieces in a batch: large enough to make hand-overs cheap, small enough to bound
/// the results in memory. At most 16 results per thread are in flight, each of about a megabyte of a map.
const MAX_BATCH: usize = 4;

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
        // Smaller batches towards the end, so that all threads finish at about the same time.
        let left = count - given;
        let length = (left / (4 * threads)).clamp(1, MAX_BATCH).min(left);
        let batch = given..given + length;
        given += length;
        Ok((length > 0).then_some(batch))
    };
    let work_on_batch = |batch: Range<usize>| -> Result<Vec<(usize, T)>> {
        batch.map(|number| Ok((number, work(number)?))).collect()
    };
    let width = Width {
        threads,
        pieces: 4 * threads,
    };
    pipeline::run(
        width,
        give,
        || &work_on_batch,
        |results| {
            let mut results = results.into_iter();
            results.try_for_each(|(number, result)| take(number, result))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_taken_once_and_in_order() {
        for count in (0..20).chain([99, 300]) {
            for threads in 1..9 {
                let mut taken = Vec::new();
                let work = |number: usize| Ok(7 * number);
                let take = |number, result| {
                    taken.push((number, result));
                    Ok(())
                };
                each(count, threads, work, take).unwrap();
                let expected: Vec<_> = (0..count).map(|number| (number, 7 * number)).collect();
                assert_eq!(taken, expected);
            }
        }
    }

    #[test]
    fn an_error_in_a_batch_ends_the_work() {
        let work = |number: usize| match number {
            101 => Err(changed()),
            _ => Ok(()),
        };
        let mut taken = 0;
        let take = |_, ()| {
            taken += 1;
            Ok(())
        };
        assert!(each(300, 4, work, take).is_err());
        assert!(taken <= 101);
    }
}
