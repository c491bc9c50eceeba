//! Recognises usual objects by bits: members that are all strings without escapes, separated as nearly
//! all tools separate them, `{"name": "value", "name": "value"}`.
//!
//! Every quote of such an object is part of a seam, `": "` or `", "` or `"}` and a newline, except the
//! first; and the first two kinds of seams alternate. Both are seen for 64 bytes at once, without finding
//! a single member. A quote or a backslash that breaks these rules is *odd*: so an object that ends with its
//! line is usual if its first quote is the only odd byte there.

use std::arch::x86_64::_addcarry_u64;

/// The first quotes of the seams in a chunk, one bit for each byte: `": "`, `", "`, or `"}` and a newline.
/// Ends are in both words: making a third word costs more than telling the three kinds apart again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seams {
    pub(super) colons_and_ends: u64,
    pub(super) commas_and_ends: u64,
}

/// How many bytes after a chunk are needed to recognise a seam that starts with its last byte.
pub(super) const AFTER: usize = 3;

/// What the chunks before say about the next one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SeamState {
    /// Which of its first bytes are the last quotes of seams.
    closed: u64,
    /// The carry into the next chunk: 1 if no comma and no end has followed the last colon, else 0.
    carry: u8,
}

impl SeamState {
    /// The odd bytes and control characters of the next chunk. `special` are its quotes, backslashes and
    /// control characters.
    #[inline(always)]
    pub(super) fn odd(&mut self, special: u64, seams: Seams) -> u64 {
        let Seams {
            colons_and_ends,
            commas_and_ends,
        } = seams;
        let colons = colons_and_ends & !commas_and_ends;
        let two_quotes = colons_and_ends ^ commas_and_ends;
        let last_quotes = two_quotes << AFTER | self.closed;
        let first_quotes = colons_and_ends | commas_and_ends;
        self.closed = two_quotes >> (64 - AFTER);
        // In one seam, not in none and not in two.
        let strange = special & !(first_quotes ^ last_quotes);
        // Adding a colon to ones carries through them to the next zero, which is a comma or an end. The
        // bits that this changes are those of values, with the zero behind. A second colon changes nothing
        // where it is, and a zero that no colon precedes remains one. Newlines are zeros, too: every line
        // starts anew.
        let ones = !(commas_and_ends | strange);
        let mut sum = 0;
        self.carry = _addcarry_u64(self.carry, ones, colons, &mut sum);
        let changed = sum ^ ones;
        strange | first_quotes & !changed
    }
}
