//! Numbers with their nouns: `1 lookup`, `1,234 lookups`.

use waypost_report::count;

/// Formats a number with its noun, whose plural ends with `s`.
pub(crate) fn of(n: u64, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {noun}{s}", count(n))
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_one_is_one() {
        assert_eq!(super::of(0, "URI-R"), "0 URI-Rs");
        assert_eq!(super::of(1, "URI-R"), "1 URI-R");
        assert_eq!(super::of(2_000, "key"), "2,000 keys");
    }
}
