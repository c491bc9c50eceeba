//! Dates that servers send.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use waypost_insight::calendar::Date;
use waypost_insight::lastmod::date::{self, Form, Oddity, Rejection};

/// `\t` is a tab and `\xHH` a byte.
fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        if let Some(hex) = escape.strip_prefix('x') {
            out.push(u8::from_str_radix(&hex[..2], 16).unwrap());
            rest = &hex[2..];
        } else {
            assert!(escape.starts_with('t'), "{text}");
            out.push(b'\t');
            rest = &escape[1..];
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

#[test]
fn every_shape_means_what_the_table_says() {
    let table = include_str!("dates.tsv");
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let (value, expected) = line.rsplit_once('\t').unwrap();
        count += 1;
        let found = match date::parse(&bytes(value)) {
            Ok(parsed) => date::format(parsed.time, Form::Iso8601).unwrap(),
            Err(rejection) => rejection.name().to_owned(),
        };
        if found != expected {
            wrong.push(format!("{value:?}: {found} instead of {expected}"));
        }
    }
    assert!(count >= 300, "{count}");
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_is_odd_about_a_date_is_said() {
    for (value, form, oddities) in [
        ("Wed, 21 Aug 2019 12:34:56 GMT", Form::Rfc1123, &[][..]),
        ("Wednesday, 21-Aug-19 12:34:56 GMT", Form::Rfc850, &[]),
        ("Wed Aug 21 12:34:56 2019", Form::Asctime, &[]),
        (
            "Wed, 21 Aug 2019 12:34:56",
            Form::Rfc1123,
            &[Oddity::NoZone],
        ),
        (
            "Wed, 21 Aug 2019 GMT 12:34:56",
            Form::Rfc1123,
            &[Oddity::MisplacedZone],
        ),
        (
            "Wed, 21 Aug 2019 14:34:56 +0200",
            Form::Rfc1123,
            &[Oddity::NumericZone],
        ),
        (
            "Wed, 21 Aug 2019 12:34:56 UTC",
            Form::Rfc1123,
            &[Oddity::NamedZone],
        ),
        (
            "Mon, 21 Aug 2019 12:34:56 GMT",
            Form::Rfc1123,
            &[Oddity::WrongWeekday],
        ),
        (
            "21 Aug 2019 12:34:56 GMT",
            Form::Rfc1123,
            &[Oddity::NoWeekday],
        ),
        (
            "Wed, 21 Aug 19 12:34:56 GMT",
            Form::Rfc1123,
            &[Oddity::TwoDigitYear],
        ),
        (
            "Wed,  21 Aug 2019 12:34:56 GMT",
            Form::Rfc1123,
            &[Oddity::Spelling],
        ),
        (
            "Mi, 21 Aug 2019 12:34:56 GMT",
            Form::Rfc1123,
            &[Oddity::ForeignWeekday],
        ),
        (
            "Wed, 21 août 2019 12:34:56 GMT",
            Form::Rfc1123,
            &[Oddity::ForeignMonth],
        ),
        ("1566390896", Form::Seconds, &[Oddity::Spelling]),
    ] {
        let parsed = date::parse(value.as_bytes()).unwrap();
        assert_eq!((parsed.time, parsed.form), (1_566_390_896, form), "{value}");
        assert_eq!(
            parsed.oddities.iter().collect::<Vec<_>>(),
            oddities,
            "{value}"
        );
    }
}

#[test]
fn dates_before_1990_and_after_the_capture_are_not_credible() {
    let captured = 1_566_390_896;
    let check = |value: &str| {
        date::credible(value.as_bytes(), captured, date::LATEST).map(|parsed| parsed.time)
    };
    assert_eq!(
        check("Sun, 31 Dec 1989 23:59:59 GMT"),
        Err(Rejection::TooEarly)
    );
    assert_eq!(check("Mon, 01 Jan 1990 00:00:00 GMT"), Ok(date::EARLIEST));
    assert_eq!(check("Wed, 21 Aug 2019 14:34:56 GMT"), Ok(captured + 7200));
    assert_eq!(
        check("Thu, 22 Aug 2019 12:34:57 GMT"),
        Err(Rejection::Future)
    );
}

proptest! {
    /// Every time of the years 1 to 9999 in every form of HTTP; years with two digits where they are
    /// those that POSIX means.
    #[test]
    fn every_http_date_is_read_back(
        day in Date { year: 1, month: 1, day: 1 }.day_number()..=Date { year: 9999, month: 12, day: 31 }.day_number(),
        second in 0i64..86_400,
    ) {
        let time = day * 86_400 + second;
        let year = Date::of_unix(time).year;
        for form in [Form::Rfc1123, Form::Rfc850, Form::Asctime, Form::Iso8601] {
            let text = date::format(time, form).unwrap();
            if form == Form::Rfc850 && !(1970..2070).contains(&year) {
                continue;
            }
            let parsed = date::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(parsed.time, time, "{}", text);
            prop_assert_eq!(parsed.form, form);
            prop_assert!(parsed.oddities.is_empty() || form == Form::Iso8601, "{} {:?}", text, parsed);
        }
    }

    #[test]
    fn any_bytes_give_a_date_in_bounds_or_a_rejection(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        words in prop::collection::vec(prop::sample::select(vec![
            "Wed", ",", " ", "21", "Aug", "2019", "12:34:56", "GMT", "-", "+0200", ":", "/", ".", "99", "0", "août", "T", "Z", "19119", "(", ")", ";", "PM", "00000000", "99999999999999", "年",
        ]), 0..14),
    ) {
        for value in [bytes, words.concat().into_bytes(), words.join(" ").into_bytes()] {
            if let Ok(parsed) = date::parse(&value) {
                let year = Date::of_unix(parsed.time).year;
                prop_assert!((1..=9999).contains(&year), "{} {}", year, String::from_utf8_lossy(&value));
            }
            if let Ok(parsed) = date::credible(&value, 1_566_390_896, 86_400) {
                prop_assert!((date::EARLIEST..=1_566_390_896 + 86_400).contains(&parsed.time));
            }
        }
    }
}
