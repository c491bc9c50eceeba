//! URIs that look like those of a crawler trap.

use waypost_surt::Surt;

/// A path with this many segments is suspicious.
const DEEP: usize = 20;
/// So is a SURT of this many bytes.
const LONG: usize = 1_500;

/// Whether a SURT looks like that of a crawler trap: a segment that repeats, alone or as a group
/// (`/a/b/a/b/a/b`), a very deep path, or a very long URI.
pub(super) fn is_trap(surt: &Surt<'_>, segments: usize) -> bool {
    if segments < 3 {
        return surt.as_bytes().len() > LONG;
    }
    segments >= DEEP || surt.as_bytes().len() > LONG || repeats(surt)
}

/// Whether a group of one to three segments occurs three times in a row. Numbers may repeat, as in
/// dates.
fn repeats(surt: &Surt<'_>) -> bool {
    let mut last: [&[u8]; DEEP] = [b""; DEEP];
    let mut count = 0;
    for segment in surt.segments().take(DEEP) {
        last[count] = segment;
        count += 1;
    }
    let segments = &last[..count];
    (1..=3).any(|size| {
        segments.windows(3 * size).any(|window| {
            let (group, rest) = window.split_at(size);
            rest.chunks(size).all(|other| other == group)
                && group
                    .iter()
                    .any(|segment| segment.iter().any(u8::is_ascii_alphabetic))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trap(surt: &str) -> bool {
        let surt = Surt::new(surt.as_bytes());
        is_trap(&surt, surt.segments().count())
    }

    #[test]
    fn repeated_segments_are_a_trap_and_dates_are_not() {
        assert!(trap("com,a)/x/x/x"));
        assert!(trap("com,a)/shop/a/b/a/b/a/b/page.html"));
        assert!(trap(&format!(
            "com,a)/{}",
            "abcdefgh/".repeat(2) + &"x/y/z/".repeat(9)
        )));
        assert!(trap(&format!("com,a)/?q={}", "x".repeat(2_000))));
        assert!(!trap("com,a)/2004/01/01/01/01"));
        assert!(!trap("com,a)/x/x/y"));
        assert!(!trap("com,a)/a/b/c/a/b/d"));
    }
}
