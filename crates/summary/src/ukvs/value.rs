//! JSON values on one line, read leniently and written strictly.
//!
//! The published examples of the format omit the quotes around names (`{uri: "…"}`), which no JSON
//! parser accepts. The order of members and the spelling of numbers are preserved, so reading and
//! writing a value loses nothing.

use std::fmt;

use crate::error::{Error, Result};

/// The maximum nesting depth. Nobody nests deeper, and the stack is finite.
const DEEPEST: usize = 64;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    /// A string.
    Text(String),
    /// `[…]`.
    List(Vec<Value>),
    /// `{…}`, in the order of the line. Names may repeat; the last one wins.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Parses one value, followed by nothing but white space. Columns in errors count from
    /// `column`, the position of `text` in its line.
    ///
    /// # Errors
    /// If it is not a valid value.
    pub fn parse(text: &[u8], column: usize) -> Result<Value> {
        let mut parser = Parser {
            text,
            at: 0,
            column,
        };
        let value = parser.value(0)?;
        parser.skip_white();
        match parser.peek() {
            None => Ok(value),
            Some(_) => Err(parser.error("unexpected text after the value")),
        }
    }

    /// A member of an object.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Object(members) => members
                .iter()
                .rev()
                .find(|(n, _)| n == name)
                .map(|(_, v)| v),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A non-negative integer.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Number(number) => number.parse().ok(),
            _ => None,
        }
    }

    /// Merges another value of the same header: objects and lists are combined; otherwise the later
    /// value wins.
    pub fn merge(&mut self, later: Value) {
        match (self, later) {
            (Value::Object(members), Value::Object(more)) => {
                for (name, value) in more {
                    match members.iter_mut().find(|(n, _)| *n == name) {
                        Some((_, known)) => known.merge(value),
                        None => members.push((name, value)),
                    }
                }
            }
            (Value::List(items), Value::List(more)) => {
                for item in more {
                    if !items.contains(&item) {
                        items.push(item);
                    }
                }
            }
            (value, later) => *value = later,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number.to_string())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(true) => f.write_str("true"),
            Value::Bool(false) => f.write_str("false"),
            Value::Number(number) => f.write_str(number),
            Value::Text(text) => write_text(f, text),
            Value::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    item.fmt(f)?;
                }
                f.write_str("]")
            }
            Value::Object(members) => {
                f.write_str("{")?;
                for (i, (name, value)) in members.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    write_text(f, name)?;
                    f.write_str(": ")?;
                    value.fmt(f)?;
                }
                f.write_str("}")
            }
        }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for character in text.chars() {
        match character {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if (c as u32) < 0x20 || c as u32 == 0x7f => write!(f, "\\u{:04x}", c as u32)?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    column: usize,
}

impl Parser<'_> {
    fn error(&self, message: impl Into<String>) -> Error {
        Error::syntax(message, self.column + self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_white(&mut self) {
        while let Some(b' ' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > DEEPEST {
            return Err(self.error(format!("values are nested more than {DEEPEST} deep")));
        }
        self.skip_white();
        match self.peek() {
            None => Err(self.error("a value is missing")),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.text().map(Value::Text),
            Some(_) => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value> {
        let mut members = Vec::new();
        self.at += 1;
        self.skip_white();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_white();
            let name = match self.peek() {
                Some(b'"') => self.text()?,
                _ => self.bare_name()?,
            };
            self.skip_white();
            if self.peek() != Some(b':') {
                return Err(self.error("a colon is missing after the name"));
            }
            self.at += 1;
            members.push((name, self.value(depth + 1)?));
            self.skip_white();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                _ => return Err(self.error("a comma or } is missing")),
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_white();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_white();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::List(items));
                }
                _ => return Err(self.error("a comma or ] is missing")),
            }
        }
    }

    /// A name without quotes, as in the published examples.
    fn bare_name(&mut self) -> Result<String> {
        let rest = &self.text[self.at..];
        let length = rest
            .iter()
            .position(|byte| {
                !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$' | b'@' | b'.'))
            })
            .unwrap_or(rest.len());
        if length == 0 {
            return Err(self.error("a name is missing"));
        }
        let name = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.at += length;
        Ok(name)
    }

    fn word(&mut self) -> Result<Value> {
        let rest = &self.text[self.at..];
        let length = rest
            .iter()
            .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b':'))
            .unwrap_or(rest.len());
        let value = match &rest[..length] {
            b"null" => Value::Null,
            b"true" => Value::Bool(true),
            b"false" => Value::Bool(false),
            number if is_number(number) => {
                Value::Number(String::from_utf8_lossy(number).into_owned())
            }
            _ => return Err(self.error("invalid value")),
        };
        self.at += length;
        Ok(value)
    }

    fn text(&mut self) -> Result<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(plain) = memchr::memchr2(b'"', b'\\', rest) else {
                return Err(self.error("the closing quote is missing"));
            };
            match std::str::from_utf8(&rest[..plain]) {
                Ok(piece) => text.push_str(piece),
                Err(error) => {
                    self.at += error.valid_up_to();
                    return Err(self.error("the text is not UTF-8"));
                }
            }
            self.at += plain;
            if self.peek() == Some(b'"') {
                self.at += 1;
                return Ok(text);
            }
            text.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char> {
        let escaped = self.text.get(self.at + 1).copied();
        let character = match escaped {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = self.unit(self.at + 2)?;
                self.at += 6;
                let code = match high {
                    0xd800..=0xdbff => {
                        let paired = self.text.get(self.at..self.at + 2) == Some(b"\\u");
                        let low = if paired { self.unit(self.at + 2)? } else { 0 };
                        if !(0xdc00..=0xdfff).contains(&low) {
                            return Err(self.error("half of a surrogate pair is missing"));
                        }
                        self.at += 6;
                        0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
                    }
                    code => code,
                };
                return char::from_u32(code)
                    .ok_or_else(|| self.error("half of a surrogate pair is missing"));
            }
            _ => return Err(self.error("invalid escape")),
        };
        self.at += 2;
        Ok(character)
    }

    /// Four hexadecimal digits.
    fn unit(&self, at: usize) -> Result<u32> {
        self.text
            .get(at..at + 4)
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.error("\\u is not followed by four hexadecimal digits"))
    }
}

/// JSON's grammar: `-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?`.
fn is_number(text: &[u8]) -> bool {
    fn digits(text: &[u8]) -> Option<&[u8]> {
        let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (length > 0).then(|| &text[length..])
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let rest = match text {
        [b'0', rest @ ..] => Some(rest),
        _ => digits(text),
    };
    let rest = rest.and_then(|rest| match rest {
        [b'.', rest @ ..] => digits(rest),
        _ => Some(rest),
    });
    let rest = rest.and_then(|rest| match rest {
        [b'e' | b'E', b'+' | b'-', rest @ ..] | [b'e' | b'E', rest @ ..] => digits(rest),
        _ => Some(rest),
    });
    rest == Some(b"")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any value.
    pub(crate) fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(|n| Value::Number(n.to_string())),
            "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?".prop_map(Value::Number),
            any::<String>().prop_map(Value::Text),
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::List),
                prop::collection::vec((any::<String>(), inner), 0..5).prop_map(Value::Object),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_comes_back_from_one_line(value in values()) {
            let text = value.to_string();
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(Value::parse(text.as_bytes(), 1).unwrap(), value);
        }

        #[test]
        fn any_bytes_are_a_value_or_an_error_inside_them(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Err(error) = Value::parse(&bytes, 1) {
                prop_assert!(error.place().column.unwrap() <= bytes.len() + 1);
            }
        }
    }

    #[test]
    fn names_without_quotes_are_those_of_the_published_examples() {
        let value =
            Value::parse(br#"{keys: ["surt"], values: ["frequency"], year: 1996}"#, 1).unwrap();
        assert_eq!(
            value.to_string(),
            r#"{"keys": ["surt"], "values": ["frequency"], "year": 1996}"#
        );
    }

    #[test]
    fn errors_say_at_which_column() {
        for (text, column) in [
            ("{\"a\" 1}", 6),
            ("[1, 2", 6),
            ("{\"a\": x}", 7),
            ("\"abc", 2),
            ("{} {}", 4),
            ("\"\\ud800\"", 8),
            ("[01]", 2),
            ("", 1),
        ] {
            let error = Value::parse(text.as_bytes(), 1).unwrap_err();
            assert_eq!(error.place().column, Some(column), "{text}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(Value::parse(deep.as_bytes(), 1).is_err());
    }

    #[test]
    fn merging_unites_objects_and_lists() {
        let mut value = Value::parse(br#"{"a": [1], "b": 1}"#, 1).unwrap();
        value.merge(Value::parse(br#"{"a": [1, 2], "b": 2, "c": 3}"#, 1).unwrap());
        assert_eq!(value.to_string(), r#"{"a": [1, 2], "b": 2, "c": 3}"#);
    }
}
