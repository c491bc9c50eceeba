//! Finds the members of a gzip file without inflating it, so that they can be inflated in parallel.
//!
//! A member can begin only where the bytes `1f 8b 08` and a flag byte with three zero bits stand,
//! but these also occur inside compressed data, about once in 100 MB. So a match is only a
//! candidate. If it is wrong, the member before it cannot be inflated; then the two pieces are tried
//! as one. What still cannot be inflated is left to a [`Stream`](crate::Stream), which reports
//! exactly what is wrong. A [`MemberReader`] inflates members only as far as somebody asks.

use std::ops::Range;

use libdeflater::Decompressor;
use memchr::memmem;

use crate::compression::{EXTRA, Gunzip};
use crate::error::{Error, ErrorKind, Result};

/// Members larger than this are not worth waiting for: their file is inflated as a stream.
pub const LARGEST: usize = 2 * 1024 * 1024;
/// The maximum size of a group of members when inflated, which limits memory for gzip bombs. At most
/// the longest line, so that every line that is too long is found where lines are joined.
const LARGEST_INFLATED: usize = crate::LONGEST_LINE;
/// A member that inflates to more than this is unusual.
const LARGE: usize = 4 * 1024 * 1024;
/// The shortest member: header, an empty block, trailer.
const SHORTEST: usize = 18;

/// The offset in `bytes` of the next candidate for a member, after `from`.
pub fn next_start(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = memmem::find(bytes.get(at..)?, b"\x1f\x8b\x08") {
        let place = at + found;
        if bytes.get(place + 3)? & 0xe0 == 0 {
            return Some(place);
        }
        at = place + 1;
    }
    None
}

/// Whether a piece of which a member is the start is that member and nothing more. The decompressor
/// does not say where a member ends. If its length is also the last number of the piece, there may be
/// another member in between, of the same length and with a damaged header; but then the number stands
/// there, too.
pub fn is_whole(piece: &[u8]) -> bool {
    let Some((rest, number)) = piece.split_last_chunk::<4>() else {
        return false;
    };
    if *number != [0; 4] {
        return memmem::find(rest.get(10..).unwrap_or_default(), number).is_none();
    }
    // The trailer of an empty member is eight zeros. More of them may follow, but nothing else: a
    // damaged member would be lost.
    let end = piece.iter().rposition(|&byte| byte != 0).unwrap_or(0);
    memmem::find(piece.get(10..end).unwrap_or_default(), &[0; 8]).is_none()
}

/// The inflated length of a piece according to its trailer.
fn length(piece: &[u8]) -> Option<usize> {
    if piece.len() < SHORTEST {
        return None;
    }
    let tail: [u8; 4] = piece[piece.len() - 4..].try_into().ok()?;
    let length = u32::from_le_bytes(tail) as usize;
    // A byte of deflated data gives at most 1,032 bytes.
    (length <= piece.len().saturating_mul(1032) && length <= LARGEST_INFLATED).then_some(length)
}

/// Splits off the first pieces of `bytes` that are candidates for members and have about `group`
/// bytes when inflated; at least one, if there is any. `None` if the first is too large, or may
/// continue after the end of `bytes`, which is the end of the file if `ended`.
pub fn pieces(bytes: &[u8], ended: bool, group: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut inflated = 0;
    while start < bytes.len() {
        let end = match next_start(bytes, start + SHORTEST) {
            Some(end) => end,
            None if ended => bytes.len(),
            None => break,
        };
        if end - start > LARGEST {
            break;
        }
        let Some(length) = length(&bytes[start..end]) else {
            // Not a member by itself. If others precede it, it is tried again as the first one.
            if pieces.is_empty() && end < bytes.len() {
                return falsely_cut(bytes, start, end);
            }
            break;
        };
        if !pieces.is_empty() && inflated + length > group {
            break;
        }
        inflated += length;
        pieces.push(start..end);
        start = end;
    }
    pieces
}

/// The first members of `bytes`, as [`pieces`] finds them. What looks like a start of a member may be in
/// the middle of one, which [`inflate`] notices if it also has the next piece; but if the first piece
/// seems to be large, a group has no other. Then it gets one more.
pub fn group(bytes: &[u8], ended: bool, group: usize) -> Vec<Range<usize>> {
    let mut found = pieces(bytes, ended, group);
    if is_doubtful(bytes, &found) {
        found = pieces(bytes, ended, LARGEST_INFLATED);
        found.truncate(2);
    }
    found
}

/// Whether there is one piece, with a trailer that says that it is much larger than a usual member.
/// It should be tried again with what follows it.
pub fn is_doubtful(bytes: &[u8], pieces: &[Range<usize>]) -> bool {
    let [piece] = pieces else {
        return false;
    };
    let trailer = bytes[piece.clone()].last_chunk();
    trailer.is_some_and(|length| u32::from_le_bytes(*length) as usize > LARGE)
}

/// The inflated length of pieces according to their trailers.
pub(crate) fn announced(bytes: &[u8], pieces: &[Range<usize>]) -> usize {
    let lengths = pieces
        .iter()
        .filter_map(|piece| length(&bytes[piece.clone()]));
    lengths.sum()
}

/// A first piece with an implausible trailer: the next candidate is probably wrong.
fn falsely_cut(bytes: &[u8], start: usize, end: usize) -> Vec<Range<usize>> {
    match next_start(bytes, end + 1) {
        Some(next) if next - start <= LARGEST && length(&bytes[start..next]).is_some() => {
            vec![start..end, end..next]
        }
        _ => Vec::new(),
    }
}

/// Inflates pieces, as text, one after the other into `out`. The length of `out` is kept, so a buffer
/// can be reused without clearing it. Returns how much of it was filled and how many pieces were
/// used; fewer than all if one cannot be inflated.
pub fn inflate(
    decompressor: &mut Decompressor,
    bytes: &[u8],
    pieces: &[Range<usize>],
    out: &mut Vec<u8>,
) -> (usize, usize) {
    let mut filled = 0;
    let mut used = 0;
    while used < pieces.len() {
        // One piece; if that is not a member, it and the next, and so on.
        let whole = (1..=pieces.len().min(used + 4) - used).find_map(|count| {
            let piece = &bytes[pieces[used].start..pieces[used + count - 1].end];
            let length = length(piece)?;
            if filled + length > LARGEST_INFLATED {
                return None;
            }
            if out.len() < filled + length {
                out.resize(filled + length, 0);
            }
            match decompressor.gzip_decompress(piece, &mut out[filled..filled + length]) {
                // Shorter than its trailer says: the rest is not part of the member.
                Ok(written) if written == length && is_whole(piece) => Some((count, length)),
                _ => None,
            }
        });
        let Some((count, length)) = whole else {
            break;
        };
        filled += length;
        // The end of a member ends a line: see `Stream::text`.
        let blocked = bytes[pieces[used].start + 3] & EXTRA != 0;
        if length > 0 && out[filled - 1] != b'\n' && !blocked {
            if out.len() == filled {
                out.push(0);
            }
            out[filled] = b'\n';
            filled += 1;
        }
        used += count;
    }
    (filled, used)
}

/// Inflates the first bytes of a member, and more of them on demand. It can be used again for other
/// members, which saves the memory that it would otherwise have to get and to clear each time.
///
/// ```
/// use waypost_io::{gzip::Gzip, members::MemberReader};
///
/// let mut member = Vec::new();
/// Gzip::new(6).compress(&b"a long text ".repeat(1000), &mut member)?;
/// let mut reader = MemberReader::default();
/// let mut start = [0; 6];
/// assert_eq!(reader.read(&member, &mut start)?, 6);
/// assert_eq!(&start, b"a long");
/// # Ok::<(), waypost_io::Error>(())
/// ```
#[derive(Default)]
pub struct MemberReader {
    gunzip: Gunzip,
    taken: usize,
    ended: bool,
}

impl MemberReader {
    /// Prepares for a member at the start of other bytes.
    pub fn restart(&mut self) {
        self.gunzip.restart();
        self.taken = 0;
        self.ended = false;
    }

    /// Prepares for what follows the member that was read to its end. Returns whether there is
    /// anything.
    pub fn next_member(&mut self, packed: &[u8]) -> bool {
        self.gunzip.restart();
        self.ended = false;
        self.taken < packed.len()
    }

    /// Whether the member was read to its end, and its checksum was right.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Fills `out` with the next bytes of the member at the start of `packed`, which must be the same
    /// in every call. Returns how many there were: fewer than `out` has room for only at the end of
    /// the member.
    ///
    /// # Errors
    /// If the data is corrupt or ends within the member.
    pub fn read(&mut self, packed: &[u8], out: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while !self.ended && filled < out.len() {
            let rest = packed.get(self.taken..).unwrap_or_default();
            let step = self
                .gunzip
                .step(rest, &mut out[filled..])
                .map_err(|fault| {
                    let compression = "gzip";
                    let detail = fault.detail;
                    Error::new(ErrorKind::Corrupt {
                        compression,
                        detail,
                    })
                })?;
            self.taken += step.read;
            filled += step.written;
            self.ended = step.end;
            if step.read == 0 && step.written == 0 && !step.end {
                let compression = "gzip";
                return Err(Error::new(ErrorKind::Truncated { compression }));
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(data).unwrap();
        out.finish().unwrap()
    }

    /// A member whose data is stored, so that it can hold any bytes.
    fn stored(data: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        out.write_all(data).unwrap();
        out.finish().unwrap()
    }

    fn all(bytes: &[u8]) -> Vec<Range<usize>> {
        let mut all = Vec::new();
        let mut start = 0;
        while start < bytes.len() {
            let end = next_start(bytes, start + 1).unwrap_or(bytes.len());
            all.push(start..end);
            start = end;
        }
        all
    }

    #[test]
    fn groups_end_at_members_and_a_huge_member_is_not_grouped() {
        let one = gzip(&[b'x'; 1000]);
        let bytes = one.repeat(10);
        assert_eq!(pieces(&bytes, true, 2500).len(), 2);
        assert_eq!(pieces(&bytes, true, 1).len(), 1);
        assert_eq!(pieces(&bytes, true, 1 << 20).len(), 10);
        assert_eq!(
            pieces(&bytes, false, 1 << 20).len(),
            9,
            "the last may go on"
        );
        let noise: Vec<u8> = (0..3_000_000u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        assert!(pieces(&stored(&noise), true, 1 << 20).is_empty());
    }

    #[test]
    fn a_member_that_seems_to_be_cut_in_two_is_in_one_group() {
        // Stored, so that the start of a member can be in the middle, after a length of eight megabytes.
        let mut text = vec![b'a'; 100_000];
        text[50_000..50_008].copy_from_slice(b"\0\0\x80\0\x1f\x8b\x08\0");
        let (cut, whole) = (stored(&text), gzip(b"line\n"));
        let bytes = [&cut[..], &whole[..]].concat();
        assert_eq!(pieces(&bytes, true, 1 << 20).len(), 1);
        let found = group(&bytes, true, 1 << 20);
        let mut out = Vec::new();
        let inflated = inflate(&mut Decompressor::new(), &bytes, &found, &mut out);
        assert_eq!((inflated, found[1].end), ((text.len() + 1, 2), cut.len()));
        // All else is grouped as usual.
        let bytes = whole.repeat(3);
        assert_eq!(group(&bytes, true, 1 << 20), pieces(&bytes, true, 1 << 20));
    }

    #[test]
    fn a_reader_gives_the_bytes_of_each_member_in_any_steps() {
        let (one, two) = (b"one two three ".repeat(5000), b"x".repeat(70_000));
        let packed = [gzip(&one), gzip(b""), gzip(&two)].concat();
        let mut reader = MemberReader::default();
        for step in [1, 7, 1000, 100_000] {
            reader.restart();
            let mut found = Vec::new();
            let mut members = 0;
            loop {
                let mut piece = vec![0; step];
                let read = reader.read(&packed, &mut piece).unwrap();
                found.extend_from_slice(&piece[..read]);
                if reader.is_ended() {
                    members += 1;
                    if !reader.next_member(&packed) {
                        break;
                    }
                }
            }
            assert_eq!(members, 3);
            assert!(found == [&one[..], &two[..]].concat(), "{step}");
        }
    }

    #[test]
    fn a_reader_tells_truncated_from_corrupt_members() {
        let packed = gzip(&b"one two three ".repeat(5000));
        let mut out = vec![0; 100_000];
        let mut reader = MemberReader::default();
        let error = reader.read(&packed[..packed.len() - 1], &mut out);
        assert!(matches!(
            error.unwrap_err().kind(),
            ErrorKind::Truncated { .. }
        ));
        let mut wrong = packed.clone();
        *wrong.last_mut().unwrap() ^= 1;
        reader.restart();
        let error = reader.read(&wrong, &mut out).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }));
        // Of what was not asked for, nothing is known.
        reader.restart();
        assert_eq!(reader.read(&wrong, &mut out[..100]).unwrap(), 100);
    }

    #[test]
    fn members_are_found_and_inflated() {
        let bytes = [gzip(b"one\n"), gzip(b""), gzip(&[b'x'; 100_000])].concat();
        let pieces = all(&bytes);
        assert_eq!(pieces.len(), 3);
        let mut out = Vec::new();
        let (filled, used) = inflate(&mut Decompressor::new(), &bytes, &pieces, &mut out);
        assert_eq!((filled, used), (100_005, 3));
        assert!(out.starts_with(b"one\nxxx"));
    }

    #[test]
    fn an_empty_member_does_not_hide_a_damaged_one() {
        let inflated = |bytes: &[u8]| {
            inflate(
                &mut Decompressor::new(),
                bytes,
                &all(bytes),
                &mut Vec::new(),
            )
        };
        for level in [gzip(b""), stored(b"")] {
            assert_eq!(inflated(&[&level[..], &[0; 7]].concat()), (0, 1));
            for at in 0..3 {
                let mut damaged = level.clone();
                damaged[at] ^= 1;
                assert_eq!(
                    inflated(&[&level[..], &damaged].concat()),
                    (0, 0),
                    "byte {at}"
                );
            }
            assert_eq!(
                inflated(&[&level[..], &[0, 0, 1, 0, 0, 0, 0]].concat()),
                (0, 0)
            );
        }
    }

    #[test]
    fn a_wrong_candidate_is_detected() {
        let inner = b"a\x1f\x8b\x08\x00b\x1f\x8b\x08\x00c";
        let bytes = [stored(inner), gzip(b"two")].concat();
        let pieces = all(&bytes);
        assert_eq!(pieces.len(), 4);
        let mut out = Vec::new();
        let (filled, used) = inflate(&mut Decompressor::new(), &bytes, &pieces, &mut out);
        assert_eq!(used, 4);
        assert_eq!(&out[..filled], [&inner[..], b"\ntwo\n"].concat());
    }

    #[test]
    fn a_member_with_a_damaged_header_is_not_lost_behind_one_of_the_same_length() {
        let mut bytes = [gzip(b"one\n"), gzip(b"two\n"), gzip(b"three\n")].concat();
        let second = gzip(b"one\n").len();
        bytes[second] ^= 1;
        let pieces = all(&bytes);
        assert_eq!(pieces.len(), 2);
        let (_, used) = inflate(&mut Decompressor::new(), &bytes, &pieces, &mut Vec::new());
        assert_eq!(used, 0);
    }

    #[test]
    fn pieces_that_cannot_be_inflated_are_left() {
        for tail in [&b"garbage"[..], &[0; 100], &gzip(b"three")[..12]] {
            let bytes = [gzip(b"one"), gzip(b"two"), tail.to_vec()].concat();
            let pieces = all(&bytes);
            let (filled, used) =
                inflate(&mut Decompressor::new(), &bytes, &pieces, &mut Vec::new());
            assert!(used < pieces.len());
            assert!(filled == 4 || filled == 8, "{filled}");
        }
    }
}
