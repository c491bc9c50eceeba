//! A row of a profile: `com,example)/a {"frequency": 14, "spread": 2, "urirs": 3}`.
//!
//! `frequency` counts captures, `spread` sources, `urirs` URI-Rs; a number that is not exact is a
//! string with its sign, `"900-"`. Rows of maps, `key 14/3`, are also accepted.

use crate::error::{Error, Result};
use crate::frequency::{Frequency, Number, Sureness};
use crate::ukvs::{self, Line, Value, digits, push_digits};

/// What a profile says about a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Captures and URI-Rs.
    pub frequency: Frequency,
    /// Sources.
    pub spread: u64,
}

impl Row {
    /// Appends the row of a key, with its line feed. A second key is part of `key`, after a space.
    pub(crate) fn write(&self, key: &[u8], out: &mut Vec<u8>) {
        write_key(key, out);
        self.write_value(out);
    }

    /// Appends what follows the key.
    pub(crate) fn write_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b" {\"frequency\": ");
        match self.frequency.captures {
            Some(number) => push_number(number, out),
            None => out.extend_from_slice(b"\"/\""),
        }
        out.extend_from_slice(b", \"spread\": ");
        push_digits(self.spread, out);
        if let Some(urirs) = self.frequency.urirs {
            out.extend_from_slice(b", \"urirs\": ");
            push_number(urirs, out);
        }
        out.extend_from_slice(b"}\n");
    }

    /// Parses a row with `fields` key fields into `key`, joined by spaces.
    ///
    /// # Errors
    /// If it is not a row of a profile or map.
    pub fn parse(line: &[u8], fields: usize, key: &mut Vec<u8>) -> Result<Row> {
        key.clear();
        if let Some((found, row)) = parse_usual(line, fields) {
            key.extend_from_slice(found);
            return Ok(row);
        }
        let Line::Row(row) = Line::parse(line)? else {
            return Err(Error::syntax("found a header, expected a row", 1));
        };
        if row.fields.len() < fields {
            return Err(Error::syntax(
                format!("expected {fields} keys, found {}", row.fields.len()),
                1,
            ));
        }
        for (i, field) in row.fields[..fields].iter().enumerate() {
            if i > 0 {
                key.push(b' ');
            }
            key.extend_from_slice(field);
        }
        let column = line.len().min(key.len()) + 1;
        let json = row.json.as_ref();
        let mut frequency = match (
            row.fields.get(fields),
            json.and_then(|json| json.get("frequency")),
        ) {
            (Some(field), _) => String::from_utf8_lossy(field).parse::<Frequency>(),
            (None, Some(Value::Number(number))) => number.parse(),
            (None, Some(Value::Text(text))) => text.parse(),
            (None, _) => return Err(Error::syntax("the frequency is missing", column)),
        }
        .map_err(|error| Error::syntax(error.to_string(), column))?;
        if let Some(urirs) = json.and_then(|json| json.get("urirs")) {
            let number = match urirs {
                Value::Number(text) | Value::Text(text) => text.parse::<Number>(),
                _ => return Err(Error::syntax("invalid number of URI-Rs", column)),
            };
            frequency.urirs =
                Some(number.map_err(|error| Error::syntax(error.to_string(), column))?);
        }
        let spread = json
            .and_then(|json| json.get("spread"))
            .and_then(Value::as_u64)
            .unwrap_or(1);
        Ok(Row { frequency, spread })
    }
}

/// Fast path for rows as we write them.
fn parse_usual(line: &[u8], fields: usize) -> Option<(&[u8], Row)> {
    let json = memchr::memmem::find(line, b" {\"frequency\": ")?;
    let key = &line[..json];
    if matches!(key.first(), None | Some(b'"' | b'\\' | b'{' | b'[' | b' '))
        || memchr::memchr_iter(b' ', key).count() + 1 != fields
        || memchr::memchr(b'\t', key).is_some()
    {
        return None;
    }
    let rest = &line[json + b" {\"frequency\": ".len()..];
    let (captures, rest) = number(rest)?;
    let (spread, rest) = digits(rest.strip_prefix(b", \"spread\": ")?)?;
    let (urirs, rest) = match rest.strip_prefix(b", \"urirs\": ") {
        Some(rest) => {
            let (urirs, rest) = number(rest)?;
            (Some(urirs), rest)
        }
        None => (None, rest),
    };
    let frequency = Frequency {
        captures: Some(captures),
        urirs,
    };
    (rest == b"}").then_some((key, Row { frequency, spread }))
}

fn number(text: &[u8]) -> Option<(Number, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let (value, rest) = digits(text)?;
        return Some((Number::exact(value), rest));
    };
    let (value, rest) = digits(quoted)?;
    let sureness = match rest.first()? {
        b'+' => Sureness::AtLeast,
        b'-' => Sureness::AtMost,
        b'~' => Sureness::About,
        _ => return None,
    };
    Some((Number { value, sureness }, rest[1..].strip_prefix(b"\"")?))
}

/// Appends a key.
#[inline]
pub(crate) fn write_key(key: &[u8], out: &mut Vec<u8>) {
    match key.first() {
        Some(b'{' | b'[' | b'"' | b'\\' | b'!' | b'@' | b' ') | None => {
            for (i, field) in key.split(|&byte| byte == b' ').enumerate() {
                if i > 0 {
                    out.push(b' ');
                }
                ukvs::write_field(field, i == 0, out);
            }
        }
        _ => out.extend_from_slice(key),
    }
}

fn push_number(number: Number, out: &mut Vec<u8>) {
    if number.sureness == Sureness::Exact {
        push_digits(number.value, out);
    } else {
        out.push(b'"');
        push_digits(number.value, out);
        out.extend_from_slice(number.sureness.sign().as_bytes());
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_of_the_paper_and_of_maps_are_read() {
        let mut key = Vec::new();
        for (line, expected, spread) in [
            (
                "com,dilos)/region {\"frequency\": 14, \"spread\": 2}",
                "14",
                2,
            ),
            (
                "com,x)/ {\"frequency\": 900, \"spread\": 3, \"urirs\": \"20-\"}",
                "900/20-",
                3,
            ),
            ("com,x)/ {frequency: \"10+\"}", "10+", 1),
            ("com,x)/ 54321/20000", "54321/20000", 1),
            ("com,x)/* / {}", "/", 1),
        ] {
            let row = Row::parse(line.as_bytes(), 1, &mut key).unwrap();
            assert_eq!(
                (row.frequency.to_string().as_str(), row.spread),
                (expected, spread),
                "{line}"
            );
        }
        for bad in [
            "com,x)/",
            "com,x)/ x",
            "com,x)/ {\"frequency\": -1}",
            "com,x)/ {\"frequency\": 1",
            "",
        ] {
            assert!(Row::parse(bad.as_bytes(), 1, &mut key).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_row_comes_back(
            key in prop::collection::vec(0x21..=0xffu8, 0..10),
            second in prop::option::of("[0-9a-z/-]{1,8}"),
            captures: u64, urirs in prop::option::of(any::<u64>()), spread: u64, bound: bool,
        ) {
            let mut key = key;
            let fields = if let Some(second) = second {
                key.push(b' ');
                key.extend_from_slice(second.as_bytes());
                2
            } else { 1 };
            let urirs = urirs.map(|value| if bound { Number::at_most(value) } else { Number::exact(value) });
            let row = Row { frequency: Frequency { captures: Some(Number::exact(captures)), urirs }, spread };
            let mut line = Vec::new();
            row.write(&key, &mut line);
            let mut found = Vec::new();
            prop_assert_eq!(Row::parse(&line[..line.len() - 1], fields, &mut found).unwrap(), row);
            prop_assert_eq!(found, key);
        }
    }
}
