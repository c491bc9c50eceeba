//! The bytes of a node in the outline.

use super::fold::Folded;
use super::outline::{BY_POWER, HELD, HOLDS, Node, Own};
use super::top::Top;

/// Whether parts of a node's own data differ from the defaults.
const TOP: u32 = 1 << 10;
const GIVEN: u32 = 1 << 11;
const ROWS: u32 = 1 << 12;
const ASKED: u32 = 1 << 13;
const ASIDE: u32 = 1 << 14;
const FRESH: u32 = 1 << 15;
const STRAY: u32 = 1 << 16;
const STRAY_ASIDE: u32 = 1 << 17;
const EXPECTED: u32 = 1 << 18;
const WEIGHTS: u32 = ASKED | ASIDE | FRESH | STRAY | STRAY_ASIDE | EXPECTED;

/// Appends a node's own data.
pub(super) fn push_own(own: &Own, out: &mut Vec<u8>) {
    let mut flags = u32::from(own.flags);
    for (flag, is) in [
        (TOP, own.top.is_some()),
        (GIVEN, own.given != 0),
        (ROWS, own.exact_rows > 1 || own.wildcard_rows != 1),
        (ASKED, own.asked != 0.0),
        (ASIDE, own.aside != 0.0),
        (FRESH, own.fresh != 0.0),
        (STRAY, own.stray != 0.0),
        (STRAY_ASIDE, own.stray_aside != 0.0),
        (EXPECTED, own.expected != 0.0),
    ] {
        flags |= if is { flag } else { 0 };
    }
    push_number(out, u64::from(flags));
    out.push(own.length);
    if let Some(top) = own.top {
        out.push(top as u8);
    }
    if own.is(HELD) {
        push_number(out, own.held);
    }
    if own.given != 0 {
        push_number(out, own.given);
    }
    if flags & ROWS != 0 {
        push_number(out, own.exact_rows);
        push_number(out, own.wildcard_rows);
    }
    for weight in [
        own.asked,
        own.aside,
        own.fresh,
        own.stray,
        own.stray_aside,
        own.expected,
    ] {
        if weight != 0.0 {
            out.extend_from_slice(&weight.to_le_bytes());
        }
    }
    if own.is(HOLDS) && !own.is(BY_POWER) {
        out.extend_from_slice(&own.class.to_le_bytes());
    }
}

/// Whether parts of what is folded differ from zero.
const ABSENT_ROWS: u64 = 1;
const OPEN_ROWS: u64 = 1 << 1;
const ABSENT_WRONG: u64 = 1 << 2;
const OPEN_WRONG: u64 = 1 << 3;
const GIVEN_WRONG: u64 = 1 << 4;
const FOLDED_BITS: u32 = 5;

/// Appends the grouped and folded children of a node.
pub(super) fn push_children(groups: &[(u32, u32)], folded: &Folded, out: &mut Vec<u8>) {
    let mut shape = (groups.len() as u64) << FOLDED_BITS;
    for (flag, is) in [
        (ABSENT_ROWS, folded.absent_rows != 0),
        (OPEN_ROWS, folded.open_rows != 0),
        (ABSENT_WRONG, folded.absent_wrong != 0.0),
        (OPEN_WRONG, folded.open_wrong != 0.0),
        (GIVEN_WRONG, folded.given_wrong != 0.0),
    ] {
        shape |= if is { flag } else { 0 };
    }
    push_number(out, shape);
    for rows in [folded.absent_rows, folded.open_rows] {
        if rows != 0 {
            push_number(out, rows);
        }
    }
    for wrong in [folded.absent_wrong, folded.open_wrong, folded.given_wrong] {
        if wrong != 0.0 {
            out.extend_from_slice(&wrong.to_le_bytes());
        }
    }
    let mut last = 0;
    for &(group, count) in groups {
        push_number(out, u64::from(group - last));
        push_number(out, u64::from(count));
        last = group;
    }
}

#[inline]
pub(super) fn read_children(rest: &mut &[u8], groups: &mut Vec<(u32, u32)>) -> Option<Folded> {
    let shape = number(rest)?;
    let has = |flag: u64| shape & flag != 0;
    let folded = Folded {
        absent_rows: number_if(has(ABSENT_ROWS), rest)?,
        open_rows: number_if(has(OPEN_ROWS), rest)?,
        absent_wrong: weight_if(has(ABSENT_WRONG), rest)?,
        open_wrong: weight_if(has(OPEN_WRONG), rest)?,
        given_wrong: weight_if(has(GIVEN_WRONG), rest)?,
    };
    groups.clear();
    let mut group = 0;
    for _ in 0..shape >> FOLDED_BITS {
        group += number(rest)? as u32;
        groups.push((group, number(rest)? as u32));
    }
    Some(folded)
}

/// Decodes the next node. `None` if the bytes are invalid.
#[inline]
pub(super) fn read_node(rest: &mut &[u8], last: &mut usize, node: &mut Node) -> Option<()> {
    let step = number(rest)?;
    let step = (step >> 1) as i64 ^ -((step & 1) as i64);
    *last = last.wrapping_add(step as usize);
    node.id = *last;
    node.slot = number(rest)? as usize;
    node.parent = node.slot.checked_sub(number(rest)? as usize)?;
    node.own = read_own(rest)?;
    node.folded = read_children(rest, &mut node.groups)?;
    Some(())
}

#[inline]
pub(super) fn read_own(rest: &mut &[u8]) -> Option<Own> {
    let flags = number(rest)? as u32;
    let has = |flag: u32| flags & flag != 0;
    let mut own = Own {
        flags: flags as u16 & (TOP as u16 - 1),
        length: byte(rest)?,
        ..Own::default()
    };
    if has(TOP) {
        own.top = Some(*Top::ALL.get(usize::from(byte(rest)?))?);
    }
    own.held = number_if(own.is(HELD), rest)?;
    own.given = number_if(has(GIVEN), rest)?;
    (own.exact_rows, own.wildcard_rows) = match has(ROWS) {
        true => (number(rest)?, number(rest)?),
        false => (u64::from(own.is(HELD)), 1),
    };
    if has(WEIGHTS) {
        own.asked = weight_if(has(ASKED), rest)?;
        own.aside = weight_if(has(ASIDE), rest)?;
        own.fresh = weight_if(has(FRESH), rest)?;
        own.stray = weight_if(has(STRAY), rest)?;
        own.stray_aside = weight_if(has(STRAY_ASIDE), rest)?;
        own.expected = weight_if(has(EXPECTED), rest)?;
    }
    if own.is(HOLDS) && !own.is(BY_POWER) {
        own.class = u16::from_le_bytes(bytes(rest)?);
    }
    Some(own)
}

#[inline]
fn number_if(is: bool, rest: &mut &[u8]) -> Option<u64> {
    if is { number(rest) } else { Some(0) }
}

#[inline]
fn weight_if(is: bool, rest: &mut &[u8]) -> Option<f64> {
    match is {
        true => bytes(rest).map(f64::from_le_bytes),
        false => Some(0.0),
    }
}

#[inline]
fn bytes<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*bytes)
}

#[inline]
fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, behind) = rest.split_first()?;
    *rest = behind;
    Some(byte)
}

/// A variable-length integer: seven bits per byte, lowest first.
#[inline]
pub(super) fn number(rest: &mut &[u8]) -> Option<u64> {
    match byte(rest)? {
        small @ ..0x80 => Some(u64::from(small)),
        first => large_number(first, rest),
    }
}

fn large_number(first: u8, rest: &mut &[u8]) -> Option<u64> {
    let mut number = u64::from(first & 0x7f);
    let mut shift = 7;
    while shift < 64 {
        let byte = byte(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
    None
}

#[inline]
pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own() -> impl Strategy<Value = Own> {
        let weight = || prop_oneof![Just(0.0), 0.1..1e9f64];
        (
            (
                0..512u16,
                prop::option::of(prop::sample::select(&Top::ALL[..])),
                any::<u8>(),
            ),
            (any::<u32>(), 0..3u64, 0..3u64, 0..3u64),
            (weight(), weight(), weight(), weight(), weight()),
            (any::<u16>(), weight()),
        )
            .prop_map(
                |(
                    (flags, top, length),
                    (held, given, exact, wildcard_rows),
                    (asked, aside, fresh, stray, stray_aside),
                    (class, expected),
                )| {
                    let is = |flag: u16| flags & flag != 0;
                    Own {
                        flags,
                        top,
                        held: if is(HELD) { u64::from(held) } else { 0 },
                        given,
                        // Without second keys it follows from whether the node is held.
                        exact_rows: if exact > 1 || wildcard_rows != 1 {
                            exact
                        } else {
                            u64::from(is(HELD))
                        },
                        wildcard_rows,
                        asked,
                        aside,
                        stray,
                        stray_aside,
                        fresh,
                        class: if is(HOLDS) && !is(BY_POWER) { class } else { 0 },
                        expected: if is(BY_POWER) && expected != 0.0 {
                            expected
                        } else {
                            0.0
                        },
                        length,
                    }
                },
            )
    }

    fn folded() -> impl Strategy<Value = Folded> {
        let wrong = || prop_oneof![Just(0.0), -5.0..1e9f64];
        (0..3u64, any::<u64>(), (wrong(), wrong(), wrong())).prop_map(
            |(open_rows, absent_rows, wrong)| Folded {
                absent_rows,
                open_rows,
                absent_wrong: wrong.0,
                open_wrong: wrong.1,
                given_wrong: wrong.2,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_kept_comes_back(owns in prop::collection::vec((own(), folded(), prop::collection::btree_map(any::<u32>(), 1..9u32, 0..4)), 0..40)) {
            let mut kept = Vec::new();
            for (own, folded, groups) in &owns {
                let groups: Vec<(u32, u32)> = groups.iter().map(|(group, count)| (*group, *count)).collect();
                push_own(own, &mut kept);
                push_children(&groups, folded, &mut kept);
            }
            let mut rest = &kept[..];
            let mut read = Vec::new();
            for (own, folded, groups) in &owns {
                prop_assert_eq!(read_own(&mut rest), Some(*own));
                prop_assert_eq!(read_children(&mut rest, &mut read), Some(*folded));
                prop_assert_eq!(&read, &groups.iter().map(|(group, count)| (*group, *count)).collect::<Vec<_>>());
            }
            prop_assert!(rest.is_empty());
        }
    }
}
