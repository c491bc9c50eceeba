//! The bytes of a node in the outline.

use super::fold::Folded;
use super::outline::{BY_POWER, HELD, HOLDS, Node, Own};
use super::top::Top;

/// Whether parts of a node's own data differ from the defaults.
const TOP: u16 = 1 << 8;
const GIVEN: u16 = 1 << 9;
const ROWS: u16 = 1 << 10;
const ASKED: u16 = 1 << 11;
const ASIDE: u16 = 1 << 12;
const FRESH: u16 = 1 << 13;
const STRAY: u16 = 1 << 14;
const STRAY_ASIDE: u16 = 1 << 15;

/// Appends a node's own data.
pub(super) fn push_own(own: &Own, out: &mut Vec<u8>) {
    let mut flags = own.flags;
    for (flag, is) in [
        (TOP, own.top.is_some()),
        (GIVEN, own.given != 0),
        (ROWS, own.exact_rows > 1 || own.wildcard_rows != 1),
        (ASKED, own.asked != 0.0),
        (ASIDE, own.aside != 0.0),
        (FRESH, own.fresh != 0.0),
        (STRAY, own.stray != 0.0),
        (STRAY_ASIDE, own.stray_aside != 0.0),
    ] {
        flags |= if is { flag } else { 0 };
    }
    out.extend_from_slice(&flags.to_le_bytes());
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
    let weights = [own.asked, own.aside, own.fresh, own.stray, own.stray_aside];
    for weight in weights {
        if weight != 0.0 {
            out.extend_from_slice(&weight.to_le_bytes());
        }
    }
    if own.is(BY_POWER) {
        out.extend_from_slice(&own.expected.to_le_bytes());
    } else if own.is(HOLDS) {
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
fn read_children(rest: &mut &[u8], groups: &mut Vec<(u32, u32)>) -> Option<Folded> {
    let shape = number(rest)?;
    let has = |flag: u64| shape & flag != 0;
    let mut rows = |flag: u64| match has(flag) {
        true => number(rest),
        false => Some(0),
    };
    let (absent_rows, open_rows) = (rows(ABSENT_ROWS)?, rows(OPEN_ROWS)?);
    let mut wrong = |flag: u64| match has(flag) {
        true => bytes(rest).map(f64::from_le_bytes),
        false => Some(0.0),
    };
    let folded = Folded {
        absent_rows,
        open_rows,
        absent_wrong: wrong(ABSENT_WRONG)?,
        open_wrong: wrong(OPEN_WRONG)?,
        given_wrong: wrong(GIVEN_WRONG)?,
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
fn read_own(rest: &mut &[u8]) -> Option<Own> {
    let flags = u16::from_le_bytes(bytes(rest)?);
    let has = |flag: u16| flags & flag != 0;
    let length = byte(rest)?;
    let top = match has(TOP) {
        true => Some(*Top::ALL.get(usize::from(byte(rest)?))?),
        false => None,
    };
    let held = if has(HELD) { number(rest)? } else { 0 };
    let given = if has(GIVEN) { number(rest)? } else { 0 };
    let (exact_rows, wildcard_rows) = match has(ROWS) {
        true => (number(rest)?, number(rest)?),
        false => (u64::from(has(HELD)), 1),
    };
    let mut weight = |flag: u16| match has(flag) {
        true => bytes(rest).map(f64::from_le_bytes),
        false => Some(0.0),
    };
    let (asked, aside, fresh) = (weight(ASKED)?, weight(ASIDE)?, weight(FRESH)?);
    let (stray, stray_aside) = (weight(STRAY)?, weight(STRAY_ASIDE)?);
    let expected = weight(BY_POWER)?;
    let class = match has(HOLDS) && !has(BY_POWER) {
        true => u16::from_le_bytes(bytes(rest)?),
        false => 0,
    };
    Some(Own {
        flags: flags & (TOP - 1),
        top,
        held,
        given,
        exact_rows,
        wildcard_rows,
        asked,
        aside,
        stray,
        stray_aside,
        fresh,
        class,
        expected,
        length,
    })
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
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = byte(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
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
                0..256u16,
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
