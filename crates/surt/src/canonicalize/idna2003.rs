//! Converts internationalised hosts to ASCII by IDNA2003, like Python's `idna` codec.
//!
//! This is nameprep (RFC 3491) over Unicode 3.2 and punycode (RFC 3492). The newer IDNA2008 and
//! UTS 46 give other results (`faß.de`, joiners, final sigma), and therefore other keys than those of
//! archives. Two peculiarities of the codec are kept: code points that are unassigned in Unicode 3.2
//! pass through, and letters are lower-cased by Unicode 14 (Python 3.11).

use stringprep::tables;
use unicode_normalization::UnicodeNormalization;

/// Buffers for the conversion.
#[derive(Clone, Debug, Default)]
pub(super) struct Idna {
    ascii: String,
    mapped: String,
    prepared: String,
}

/// What to do with code points that are unassigned in Unicode 3.2.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unassigned {
    /// Let them pass, as Python does.
    Pass,
    /// Refuse them, as the standard says and Java does.
    Refuse,
}

impl Idna {
    /// `host` in ASCII, or `None` if a label is empty, too long or prohibited.
    pub(super) fn ascii_of(&mut self, host: &str, unassigned: Unassigned) -> Option<&str> {
        self.ascii.clear();
        let mut rest = Some(host);
        while let Some(text) = rest {
            let label = match text.split_once(is_dot) {
                Some((label, behind)) => {
                    rest = Some(behind);
                    label
                }
                None => {
                    rest = None;
                    text
                }
            };
            // A dot at the end stays; an empty label anywhere else is an error.
            if rest.is_none() && label.is_empty() {
                break;
            }
            self.push_label(label, unassigned)?;
            if rest.is_some() {
                self.ascii.push('.');
            }
        }
        Some(&self.ascii)
    }

    fn push_label(&mut self, label: &str, unassigned: Unassigned) -> Option<()> {
        const MOST: usize = 63;
        // Python's codec refuses these early; punycode would take quadratic time on them.
        const HOPELESS: usize = 1024;
        if label.len() > HOPELESS && label.chars().count() > HOPELESS {
            return None;
        }
        let start = self.ascii.len();
        if label.is_ascii() {
            self.ascii.push_str(label);
        } else {
            if unassigned == Unassigned::Refuse && label.chars().any(tables::unassigned_code_point)
            {
                return None;
            }
            self.nameprep(label)?;
            if self.prepared.is_ascii() {
                self.ascii.push_str(&self.prepared);
            } else if self.prepared.starts_with("xn--") {
                return None;
            } else {
                self.ascii.push_str("xn--");
                punycode(&self.prepared, &mut self.ascii)?;
            }
        }
        (1..=MOST)
            .contains(&(self.ascii.len() - start))
            .then_some(())
    }

    /// Nameprep: map, normalise, refuse what is prohibited, check the direction of writing.
    fn nameprep(&mut self, label: &str) -> Option<()> {
        self.mapped.clear();
        for c in label.chars() {
            if !tables::commonly_mapped_to_nothing(c) {
                fold(c, &mut self.mapped);
            }
        }
        self.prepared.clear();
        push_nfkc(&self.mapped, &mut self.prepared);
        let prepared = &self.prepared;
        if prepared.chars().any(is_prohibited) {
            return None;
        }
        if prepared.chars().any(is_right_to_left) {
            let ends_right_to_left = |c: Option<char>| c.is_some_and(is_right_to_left);
            if prepared.chars().any(is_left_to_right)
                || !ends_right_to_left(prepared.chars().next())
                || !ends_right_to_left(prepared.chars().next_back())
            {
                return None;
            }
        }
        Some(())
    }
}

/// The full stop and its East Asian equivalents.
fn is_dot(c: char) -> bool {
    matches!(c, '.' | '\u{3002}' | '\u{FF0E}' | '\u{FF61}')
}

/// Table B.2; code points that are not in it are lower-cased by Unicode 14.
fn fold(c: char, out: &mut String) {
    let start = out.len();
    out.extend(tables::case_fold_for_nfkc(c));
    if out[start..].chars().eq([c]) && !is_letter_since_unicode_15(c) {
        out.truncate(start);
        for lower in c.to_lowercase() {
            if lower == c {
                out.push(c);
            } else {
                out.extend(tables::case_fold_for_nfkc(lower));
            }
        }
    }
}

/// Capitals that Rust lower-cases and Unicode 14 does not have. Keys must not depend on the compiler.
fn is_letter_since_unicode_15(c: char) -> bool {
    matches!(c,
        '\u{1C89}' | '\u{A7CB}'..='\u{A7CF}' | '\u{A7D2}'..='\u{A7D4}' | '\u{A7DA}'..='\u{A7DC}'
        | '\u{10D50}'..='\u{10D65}' | '\u{16EA0}'..='\u{16EB8}')
}

/// Five ideographs whose decomposition was wrong in Unicode 3.2 and corrected later.
fn decomposition_of_2002(c: char) -> char {
    match c {
        '\u{2F868}' => '\u{2136A}',
        '\u{2F874}' => '\u{5F33}',
        '\u{2F91F}' => '\u{43AB}',
        '\u{2F95F}' => '\u{7AAE}',
        '\u{2F9BF}' => '\u{4D57}',
        _ => c,
    }
}

/// NFKC of Unicode 3.2. Normal forms are stable, so current tables are right for code points assigned in
/// 3.2; others are left unchanged.
fn push_nfkc(text: &str, out: &mut String) {
    for piece in text.split_inclusive(tables::unassigned_code_point) {
        let known = piece.trim_end_matches(tables::unassigned_code_point);
        out.extend(known.chars().map(decomposition_of_2002).nfkc());
        out.push_str(&piece[known.len()..]);
    }
}

/// Table D.1. The crate uses current classes, which also give a direction to unassigned blocks.
fn is_right_to_left(c: char) -> bool {
    tables::bidi_r_or_al(c) && !tables::unassigned_code_point(c)
}

/// Table D.2.
fn is_left_to_right(c: char) -> bool {
    tables::bidi_l(c) && !tables::unassigned_code_point(c)
}

fn is_prohibited(c: char) -> bool {
    tables::non_ascii_space_character(c)
        || tables::non_ascii_control_character(c)
        || tables::private_use(c)
        || tables::non_character_code_point(c)
        || tables::surrogate_code(c)
        || tables::inappropriate_for_plain_text(c)
        || tables::inappropriate_for_canonical_representation(c)
        || tables::change_display_properties_or_deprecated(c)
        || tables::tagging_character(c)
}

/// Appends the punycode of `label` (RFC 3492, section 6.3).
fn punycode(label: &str, out: &mut String) -> Option<()> {
    const BASE: u32 = 36;
    const T_MIN: u32 = 1;
    const T_MAX: u32 = 26;

    let digit = |value: u32| char::from_digit(value, BASE).map(punycode_digit);
    let adapt = |mut delta: u32, points: u32, first: bool| {
        delta /= if first { 700 } else { 2 };
        delta += delta / points;
        let mut k = 0;
        while delta > (BASE - T_MIN) * T_MAX / 2 {
            delta /= BASE - T_MIN;
            k += BASE;
        }
        k + (BASE - T_MIN + 1) * delta / (delta + 38)
    };

    let basic = label.chars().filter(char::is_ascii);
    let basic_count = basic.clone().count() as u32;
    out.extend(basic);
    if basic_count > 0 {
        out.push('-');
    }
    let total = label.chars().count() as u32;
    let (mut n, mut delta, mut bias, mut handled) = (128_u32, 0_u32, 72_u32, basic_count);
    while handled < total {
        let next = label.chars().map(u32::from).filter(|&c| c >= n).min()?;
        delta = delta.checked_add((next - n).checked_mul(handled + 1)?)?;
        n = next;
        for c in label.chars().map(u32::from) {
            if c < n {
                delta = delta.checked_add(1)?;
            }
            if c == n {
                let mut q = delta;
                let mut k = BASE;
                loop {
                    let t = k.saturating_sub(bias).clamp(T_MIN, T_MAX);
                    if q < t {
                        break;
                    }
                    out.push(digit(t + (q - t) % (BASE - t))?);
                    q = (q - t) / (BASE - t);
                    k += BASE;
                }
                out.push(digit(q)?);
                bias = adapt(delta, handled + 1, handled == basic_count);
                delta = 0;
                handled += 1;
            }
        }
        delta = delta.checked_add(1)?;
        n += 1;
    }
    Some(())
}

/// Rust's digits are 0–9 then a–z, those of punycode a–z then 0–9.
fn punycode_digit(digit: char) -> char {
    match digit {
        '0'..='9' => (digit as u8 - b'0' + b'a') as char,
        'a'..='p' => (digit as u8 - b'a' + b'k') as char,
        other => (other as u8 - b'q' + b'0') as char,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_ascii(host: &str) -> Option<String> {
        Idna::default()
            .ascii_of(host, Unassigned::Pass)
            .map(str::to_owned)
    }

    #[test]
    fn hosts_come_out_as_idna2003_has_them() {
        assert_eq!(to_ascii("bücher.ch").unwrap(), "xn--bcher-kva.ch");
        assert_eq!(to_ascii("faß.de").unwrap(), "fass.de");
        assert_eq!(to_ascii("例え。テスト").unwrap(), "xn--r8jz45g.xn--zckzah");
        assert_eq!(to_ascii("💩.la").unwrap(), "xn--ls8h.la");
        assert_eq!(to_ascii("ÖBB.at.").unwrap(), "xn--bb-eka.at.");
        assert_eq!(to_ascii("ａｂｃ.com").unwrap(), "abc.com");
    }

    #[test]
    fn what_idna2003_forbids_has_no_ascii_form() {
        assert_eq!(to_ascii("ä..b"), None);
        assert_eq!(to_ascii(&"ä".repeat(64)), None);
        assert_eq!(to_ascii("xn--ä.de"), None);
        assert_eq!(to_ascii("אa.de"), None);
        assert_eq!(Idna::default().ascii_of("💩.la", Unassigned::Refuse), None);
    }
}
