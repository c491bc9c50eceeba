//! Human-readable numbers.

/// `48213` as `48,213`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number for an axis: exact below ten thousand, else with three digits and a unit: `1.5M`.
pub fn short(value: f64) -> String {
    if value.abs() < 10_000.0 {
        return match value.fract() == 0.0 && value >= 0.0 {
            true => count(value as u64),
            false => format!("{}", (value * 1e4).round() / 1e4),
        };
    }
    let mut value = value;
    let mut unit = "";
    for next in ["k", "M", "B", "T"] {
        if value.abs() < 999.5 {
            break;
        }
        value /= 1_000.0;
        unit = next;
    }
    let digits = if value.abs() < 99.95 { 1 } else { 0 };
    let text = format!("{value:.digits$}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    format!("{text}{unit}")
}

/// A size in decimal units with three digits: `1.43 GB`. Exact below a thousand bytes.
pub fn bytes(n: u64) -> String {
    if n < 1_000 {
        return format!("{n} B");
    }
    let mut value = n as f64;
    let mut unit = "B";
    for next in ["kB", "MB", "GB", "TB", "PB", "EB"] {
        if value < 999.5 {
            break;
        }
        value /= 1_000.0;
        unit = next;
    }
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(5_000_000_000), "5,000,000,000");
    }

    #[test]
    fn numbers_on_axes_are_short() {
        assert_eq!(short(0.0), "0");
        assert_eq!(short(2.5), "2.5");
        assert_eq!(short(9_999.0), "9,999");
        assert_eq!(short(10_000.0), "10k");
        assert_eq!(short(12_345.0), "12.3k");
        assert_eq!(short(999_600.0), "1M");
        assert_eq!(short(4_923_080_506.0), "4.9B");
    }

    #[test]
    fn sizes_keep_three_digits_and_never_print_a_thousand_of_a_unit() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_000), "1.00 kB");
        assert_eq!(bytes(999_499), "999 kB");
        assert_eq!(bytes(999_500), "1.00 MB");
        assert_eq!(bytes(1_430_000_000), "1.43 GB");
        assert_eq!(bytes(99_950_000), "100 MB");
        assert_eq!(bytes(u64::MAX), "18.4 EB");
    }
}
