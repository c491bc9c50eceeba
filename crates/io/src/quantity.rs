//! Quantities as people write them: sizes, numbers and durations.

use std::time::Duration;

/// Parses a size: `200K`, `1.5M`, `4GiB`. K, M, G and T are powers of 1,000; KiB, MiB, GiB and TiB
/// are powers of 1,024.
///
/// # Errors
/// If the text has another form, or is 0.
pub fn size(text: &str) -> Result<u64, String> {
    let invalid = || format!("invalid size `{text}`: write 200K, 512M or 4GiB");
    let (number, unit) = split_unit(text);
    let scale = match unit.as_str() {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "T" | "TB" => 1e12,
        "KIB" => 1024.0,
        "MIB" => 1024.0 * 1024.0,
        "GIB" => 1024.0 * 1024.0 * 1024.0,
        "TIB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(invalid()),
    };
    scaled(number, scale)
        .filter(|&bytes| bytes > 0)
        .ok_or_else(invalid)
}

/// Parses a number: `800M`, `1.5G`, `200,000`; K, M, G and T are powers of 1,000.
///
/// # Errors
/// If the text has another form.
pub fn number(text: &str) -> Result<u64, String> {
    let invalid = || format!("invalid number `{text}`: write 800M or 200000");
    let (number, unit) = split_unit(text);
    let scale = match unit.as_str() {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return Err(invalid()),
    };
    scaled(number, scale).ok_or_else(invalid)
}

fn split_unit(text: &str) -> (&str, String) {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    (number, text[number.len()..].to_ascii_uppercase())
}

fn scaled(number: &str, scale: f64) -> Option<u64> {
    let plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b'_');
    if !number.bytes().all(plain) {
        return None;
    }
    let value: f64 = number.replace([',', '_'], "").parse().ok()?;
    Some(value * scale)
        .filter(|value| *value < 1e18)
        .map(|value| value as u64)
}

/// Parses a duration: `15s`, `500ms`, `1m30s`, `2h`, `7d`. As in Go, every number has a unit, except
/// for a plain `0`.
///
/// # Errors
/// If the text has another form.
pub fn duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("invalid duration `{text}`: write 500ms, 15s, 5m, 2h or 7d");
    let mut seconds = 0.0;
    let mut rest = text;
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    loop {
        let unit = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (number, tail) = rest.split_at(unit.ok_or_else(invalid)?);
        let end = tail.find(|letter: char| letter.is_ascii_digit() || letter == '.');
        let (unit, tail) = tail.split_at(end.unwrap_or(tail.len()));
        let scale = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(invalid()),
        };
        let number: f64 = number.parse().map_err(|_| invalid())?;
        seconds += number * scale;
        if tail.is_empty() {
            // A century is as good as for ever, and can still be added to a time.
            return match seconds <= 100.0 * 365.0 * 86400.0 {
                true => Duration::try_from_secs_f64(seconds).map_err(|_| invalid()),
                false => Err(invalid()),
            };
        }
        rest = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k_is_a_thousand_and_kib_is_1024() {
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("1K"), Ok(1_000));
        assert_eq!(size("1KiB"), Ok(1_024));
        assert_eq!(size("256m"), Ok(256_000_000));
        assert_eq!(size("4GiB"), Ok(4 << 30));
        assert_eq!(size("1.04M"), Ok(1_040_000));
        assert_eq!(size("1.5GB"), Ok(1_500_000_000));
        for wrong in [
            "",
            "M",
            "0",
            "-1",
            "1X",
            "99999999999T",
            "nan",
            "inf",
            "1e3",
        ] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!(number("800M"), Ok(800_000_000));
        assert_eq!(number("200,000"), Ok(200_000));
        assert_eq!(number("0"), Ok(0));
        for wrong in ["", "M", "-1", "1X", "9999999999T", "nan", "inf", "1KiB"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_number_of_a_duration_has_a_unit() {
        let millis = |text| duration(text).map(|duration| duration.as_millis());
        assert_eq!(millis("0"), Ok(0));
        assert_eq!(millis("0s"), Ok(0));
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("1.5s"), Ok(1_500));
        assert_eq!(millis("1m30s"), Ok(90_000));
        assert_eq!(millis("1h0m1s"), Ok(3_601_000));
        assert_eq!(millis("7d"), Ok(604_800_000));
        assert_eq!(millis("250us4ns"), Ok(0));
        let wrong = [
            "",
            "5",
            "s",
            "-1s",
            "1s5",
            "1 s",
            ".s",
            "1x",
            "1e3s",
            "nans",
            "99999999d",
            "1..2s",
            "5m ",
        ];
        for wrong in wrong {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
