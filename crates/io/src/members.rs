//! Finds the members of a gzip file without inflating it, so that they can be inflated in parallel.
//!
//! A member can begin only where the bytes `1f 8b 08` and a flag byte with three zero bits stand,
//! but these also occur inside compressed data, about once in 100 MB. So a match is only a
//! candidate. If it is wrong, the member before it cannot be inflated; then the two pieces are tried
//! as one. What still cannot be inflated is left to a [`Stream`](crate::Stream), which reports
//! exactly what is wrong.

use std::ops::Range;

use libdeflater::Decompressor;
use memchr::memmem;

use crate::compression::EXTRA;

/// Members larger than this are not worth waiting for: their file is inflated as a stream.
pub const LARGEST: usize = 2 * 1024 * 1024;
/// The maximum size of a group of members when inflated, which limits memory for gzip bombs. At most
/// the longest line, so that every line that is too long is found where lines are joined.
const LARGEST_INFLATED: usize = crate::LONGEST_LINE;
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
                Ok(written) if written == length => Some((count, length)),
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
