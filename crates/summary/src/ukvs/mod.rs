//! The family of text formats that summaries are written in: ORS, CDXJ, UKVS.
//!
//! ```text
//! !id {"uri": "https://archive.example.org/"}      header: a name and a JSON value
//! !meta {type: "MementoMap"}                       names without quotes are read, too
//! com,example)/* 54321/20000                       row: key fields, value fields
//! com,example)/a 14 {"language": "en"}             and perhaps one JSON value, on the same line
//! ```
//!
//! Headers start with `!`, in older files with `@`. Headers of the same name are merged wherever
//! they occur, so files can be concatenated and sorted. Fields are separated by spaces or tabs; a
//! field that contains white space is in double quotes. A field that starts with a special byte
//! (`{`, `[`, `"`, `\`, and `!` or `@` at the start of the line) is preceded by a backslash.
//! Reading and writing a file loses nothing.

mod digits;
mod rows;
mod value;

pub(crate) use digits::{digits, push_digits};
pub(crate) use rows::{CaptureSum, RowSum, RowWriter};
pub use rows::{Wholeness, described};
pub use value::Value;
#[cfg(test)]
pub(crate) use value::tests as value_tests;

use std::borrow::Cow;
use std::io::Read;

use memchr::memchr2;
use waypost_io::Lines;

use crate::error::{Error, Result};

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// White space only.
    Blank,
    /// `!meta {…}`.
    Header(Header),
    /// Keys and values.
    Row(Row<'a>),
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whether it starts with `@`, as in older files, rather than `!`.
    pub old: bool,
    /// Its name, without the prefix.
    pub name: String,
    /// Its value.
    pub content: Content,
}

/// The value of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A JSON value.
    Json(Value),
    /// Text that isn't JSON: `@id http://example.org/`.
    Text(String),
}

/// A row: fields, optionally followed by a JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row<'a> {
    /// Keys, then values.
    pub fields: Vec<Cow<'a, [u8]>>,
    /// The JSON value.
    pub json: Option<Value>,
}

impl<'a> Line<'a> {
    /// Parses a line, given without its terminator.
    ///
    /// # Errors
    /// If it is malformed, with the column.
    pub fn parse(line: &'a [u8]) -> Result<Line<'a>> {
        let start = skip_white(line, 0);
        match line.get(start) {
            None => Ok(Line::Blank),
            Some(b'!' | b'@') => parse_header(line, start).map(Line::Header),
            Some(_) => parse_row(line, start).map(Line::Row),
        }
    }

    /// Appends the line, without its terminator.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Line::Blank => {}
            Line::Header(header) => header.write(out),
            Line::Row(row) => row.write(out),
        }
    }
}

fn skip_white(line: &[u8], from: usize) -> usize {
    let white = line[from..]
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
        .count();
    from + white
}

fn parse_header(line: &[u8], start: usize) -> Result<Header> {
    let end = memchr2(b' ', b'\t', &line[start..]).map_or(line.len(), |at| start + at);
    let name = match std::str::from_utf8(&line[start + 1..end]) {
        Ok(name) => name.trim_end_matches('\r').to_owned(),
        Err(_) => {
            return Err(Error::syntax(
                "the name of the header is not UTF-8",
                start + 2,
            ));
        }
    };
    let from = skip_white(line, end);
    let rest = line[from..].trim_ascii_end();
    let content = match Value::parse(rest, from + 1) {
        Ok(value) => Content::Json(value),
        // Text that starts like JSON must be JSON.
        Err(error) if matches!(rest.first(), Some(b'{' | b'[' | b'"')) => return Err(error),
        Err(_) => match std::str::from_utf8(rest) {
            Ok(text) => Content::Text(text.to_owned()),
            Err(error) => {
                let column = from + 1 + error.valid_up_to();
                return Err(Error::syntax("the header is not UTF-8", column));
            }
        },
    };
    Ok(Header {
        old: line[start] == b'@',
        name,
        content,
    })
}

fn parse_row(line: &[u8], start: usize) -> Result<Row<'_>> {
    let mut row = Row::default();
    let mut at = start;
    while let Some(&first) = line.get(at) {
        match first {
            b'{' | b'[' => {
                row.json = Some(Value::parse(&line[at..], at + 1)?);
                break;
            }
            b'"' => {
                let (field, end) = parse_quoted(line, at)?;
                row.fields.push(Cow::Owned(field));
                at = end;
            }
            _ => {
                let from = at + usize::from(first == b'\\');
                let end = memchr2(b' ', b'\t', &line[from..]).map_or(line.len(), |at| from + at);
                let field = &line[from..end];
                row.fields.push(Cow::Borrowed(if end == line.len() {
                    field.strip_suffix(b"\r").unwrap_or(field)
                } else {
                    field
                }));
                at = end;
            }
        }
        at = skip_white(line, at);
    }
    Ok(row)
}

/// A field in double quotes that starts at `start`, and its end.
fn parse_quoted(line: &[u8], start: usize) -> Result<(Vec<u8>, usize)> {
    let mut field = Vec::new();
    let mut at = start + 1;
    loop {
        match (line.get(at), line.get(at + 1)) {
            (None, _) => return Err(Error::syntax("the closing quote is missing", start + 1)),
            (Some(b'"'), None | Some(b' ' | b'\t' | b'\r')) => return Ok((field, at + 1)),
            (Some(b'"'), Some(_)) => {
                return Err(Error::syntax("a space is missing after the quote", at + 2));
            }
            (Some(b'\\'), Some(&escaped)) => {
                field.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    other => other,
                });
                at += 2;
            }
            (Some(&byte), _) => {
                field.push(byte);
                at += 1;
            }
        }
    }
}

impl Header {
    /// A header with the current prefix.
    pub fn new(name: impl Into<String>, value: Value) -> Header {
        Header {
            old: false,
            name: name.into(),
            content: Content::Json(value),
        }
    }

    /// Appends the line, without its terminator.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(if self.old { b'@' } else { b'!' });
        out.extend_from_slice(self.name.as_bytes());
        let text = match &self.content {
            Content::Json(value) => value.to_string(),
            Content::Text(text) => text.clone(),
        };
        if !text.is_empty() {
            out.push(b' ');
            out.extend_from_slice(text.as_bytes());
        }
    }
}

impl Row<'_> {
    /// Appends the line, without its terminator.
    pub fn write(&self, out: &mut Vec<u8>) {
        for (i, field) in self.fields.iter().enumerate() {
            if i > 0 {
                out.push(b' ');
            }
            write_field(field, i == 0, out);
        }
        if let Some(json) = &self.json {
            if !self.fields.is_empty() {
                out.push(b' ');
            }
            out.extend_from_slice(json.to_string().as_bytes());
        }
    }
}

/// Appends a field in the format of rows; `first` at the start of the line.
pub(crate) fn write_field(field: &[u8], first: bool, out: &mut Vec<u8>) {
    let quoted = field.is_empty()
        || memchr::memchr3(b' ', b'\t', b'\n', field).is_some()
        || memchr::memchr(b'\r', field).is_some();
    if quoted {
        out.push(b'"');
        for &byte in field {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                _ => out.push(byte),
            }
        }
        out.push(b'"');
        return;
    }
    let marked = match field[0] {
        b'{' | b'[' | b'"' | b'\\' => true,
        b'!' | b'@' => first,
        _ => false,
    };
    if marked {
        out.push(b'\\');
    }
    out.extend_from_slice(field);
}

/// Real files have about ten header lines. Merging headers compares each with all before it, so the
/// number of header lines is limited.
const MOST_HEADER_LINES: usize = 10_000;

/// The headers of a file, merged by name.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    headers: Vec<(String, Content)>,
    /// The number of header lines read.
    lines: usize,
}

impl PartialEq for Headers {
    fn eq(&self, other: &Headers) -> bool {
        self.headers == other.headers
    }
}

impl Eq for Headers {}

impl Headers {
    /// Adds a header line of a file.
    ///
    /// # Errors
    /// If the file has more than 10,000 of them.
    pub fn read(&mut self, header: Header) -> Result<()> {
        self.lines += 1;
        if self.lines > MOST_HEADER_LINES {
            return Err(Error::format("more than 10,000 header lines"));
        }
        self.add(header);
        Ok(())
    }

    /// Adds a header.
    pub fn add(&mut self, header: Header) {
        let known = self
            .headers
            .iter_mut()
            .find(|(name, _)| *name == header.name);
        match (known, header.content) {
            (Some((_, Content::Json(value))), Content::Json(later)) => value.merge(later),
            (Some((_, content)), later) => *content = later,
            (None, content) => self.headers.push((header.name, content)),
        }
    }

    /// The value of a header; text that isn't JSON is returned as a string.
    pub fn get(&self, name: &str) -> Option<Value> {
        let (_, content) = self.headers.iter().find(|(n, _)| n == name)?;
        Some(match content {
            Content::Json(value) => value.clone(),
            Content::Text(text) => Value::Text(text.clone()),
        })
    }

    /// Removes a field from the object of a header.
    pub(crate) fn drop_field(&mut self, name: &str, field: &str) {
        for (known, content) in &mut self.headers {
            if let (true, Content::Json(Value::Object(fields))) = (known == name, content) {
                fields.retain(|(name, _)| name != field);
            }
        }
    }

    /// All headers, in the order in which their names first occurred.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Content)> {
        self.headers
            .iter()
            .map(|(name, content)| (name.as_str(), content))
    }

    /// Appends the header lines, with their terminators. `!rows` is left out: it describes the rows that
    /// it was read with, and who writes rows writes it anew.
    pub fn write(&self, out: &mut Vec<u8>) {
        for (name, content) in self.headers.iter().filter(|(name, _)| name != rows::NAME) {
            Header {
                old: false,
                name: name.clone(),
                content: content.clone(),
            }
            .write(out);
            out.push(b'\n');
        }
    }
}

/// Reads the rows of a file, collecting headers on the way.
pub struct Reader<R> {
    lines: Lines<R>,
    name: String,
    headers: Headers,
    /// Whether the first row was already read, along with the headers.
    waiting: bool,
    /// The rows read so far.
    sum: RowSum,
}

impl<R: Read> Reader<R> {
    /// Reads the headers before the first row.
    ///
    /// # Errors
    /// If the file can't be read, or a header is malformed.
    pub fn new(name: impl Into<String>, source: R) -> Result<Reader<R>> {
        let mut reader = Reader {
            lines: Lines::new(source),
            name: name.into(),
            headers: Headers::default(),
            waiting: false,
            sum: RowSum::default(),
        };
        reader.waiting = reader.advance()?;
        Ok(reader)
    }

    /// The headers read so far.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The number of the current line, from 1.
    pub fn line_number(&self) -> u64 {
        self.lines.number()
    }

    /// The file name, for errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The line of the next row, unparsed. `None` at the end.
    ///
    /// # Errors
    /// If the file can't be read, a header is malformed, or the file ends before all rows that its
    /// headers describe.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>> {
        if !std::mem::take(&mut self.waiting) && !self.advance()? {
            self.wholeness()?;
            return Ok(None);
        }
        let line = self.lines.line();
        self.sum.add(line);
        Ok(Some(line))
    }

    /// Whether what was read has all of its rows.
    ///
    /// # Errors
    /// If it has not.
    pub fn wholeness(&self) -> Result<Wholeness> {
        let checked = self.sum.check(&self.headers);
        checked.map_err(|error| error.in_file(&self.name))
    }

    /// The next row. `None` at the end.
    ///
    /// # Errors
    /// If the file can't be read, or a line is malformed.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>> {
        if self.next_line()?.is_none() {
            return Ok(None);
        }
        let number = self.lines.number();
        match Line::parse(self.lines.line()) {
            Ok(Line::Row(row)) => Ok(Some(row)),
            // `advance` stops only at rows.
            Ok(_) => Ok(Some(Row::default())),
            Err(error) => Err(error.in_file(&self.name).at_line(number)),
        }
    }

    /// An error at the current line.
    pub fn error(&self, error: Error) -> Error {
        error.in_file(&self.name).at_line(self.lines.number())
    }

    /// Advances to the next row, collecting headers.
    fn advance(&mut self) -> Result<bool> {
        while self
            .lines
            .advance()
            .map_err(|error| error.in_file(&self.name))?
        {
            let line = self.lines.line();
            match line.first() {
                Some(b' ' | b'\t' | b'\r' | b'!' | b'@') | None => {
                    let number = self.lines.number();
                    let parsed = Line::parse(line)
                        .map_err(|error| error.in_file(&self.name).at_line(number))?;
                    match parsed {
                        Line::Blank => {}
                        Line::Header(header) => self
                            .headers
                            .read(header)
                            .map_err(|error| error.in_file(&self.name).at_line(number))?,
                        Line::Row(_) => return Ok(true),
                    }
                }
                Some(_) => return Ok(true),
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rewritten(text: &str) -> String {
        let mut out = Vec::new();
        for line in text.lines() {
            Line::parse(line.as_bytes()).unwrap().write(&mut out);
            out.push(b'\n');
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn published_examples_are_read_and_what_we_write_is_written_back_byte_for_byte() {
        let paper = "@context \"https://oduwsdl.github.io/contexts/archiveprofile.jsonld\"\n\
            @id http://www.webarchive.org.uk/ukwa/\n\
            @about {\"name\": \"UKWA 1996 Collection\", \"type\": \"suburi#H3P1\", \"...\": \"...\"}\n\
            com,dilos)/region {\"frequency\": 14, \"spread\": 2}\n";
        assert_eq!(rewritten(paper), paper);
        let ukvs = "!fields {keys: [\"surt\"], values: [\"frequency\"]}\n\
            com,twitter)/* 100/35 {datetime: {\"2014\": \"20~/10\", \"2015\": \"60+/30+\"}}\n* 54321/20000\n";
        assert_eq!(
            rewritten(ukvs),
            "!fields {\"keys\": [\"surt\"], \"values\": [\"frequency\"]}\n\
            com,twitter)/* 100/35 {\"datetime\": {\"2014\": \"20~/10\", \"2015\": \"60+/30+\"}}\n* 54321/20000\n"
        );
    }

    #[test]
    fn headers_of_one_name_are_merged_wherever_they_stand() {
        let text = "!meta {\"a\": 1}\n@id x\n!meta {\"b\": [1]}\nk 1\n!meta {\"b\": [2]}\nl 2\n\n";
        let mut reader = Reader::new("t", text.as_bytes()).unwrap();
        assert_eq!(
            reader.headers().get("meta").unwrap().to_string(),
            r#"{"a": 1, "b": [1]}"#
        );
        let mut keys = Vec::new();
        while let Some(row) = reader.next_row().unwrap() {
            keys.push(row.fields[0].to_vec());
        }
        assert_eq!(keys, [b"k", b"l"]);
        assert_eq!(
            reader.headers().get("meta").unwrap().to_string(),
            r#"{"a": 1, "b": [1, 2]}"#
        );
        assert_eq!(reader.headers().get("id").unwrap().as_text(), Some("x"));
    }

    #[test]
    fn errors_say_at_which_line_and_column() {
        for (text, line, column) in [
            ("!meta {\"a\" 1}\n", 1, 12),
            ("a 1\nb {\"x\": }\n", 2, 9),
            ("a \"b\n", 1, 3),
            ("a \"b\"c\n", 1, 6),
        ] {
            let found = Reader::new("t", text.as_bytes()).and_then(|mut reader| {
                while reader.next_row()?.is_some() {}
                Ok(())
            });
            let error = found.unwrap_err();
            assert_eq!(
                (error.place().line, error.place().column),
                (Some(line), Some(column)),
                "{error}"
            );
        }
    }

    #[test]
    fn line_ends_of_windows_and_runs_of_white_space_are_taken() {
        let Line::Row(row) = Line::parse(b"  a \t b\t{\"c\": 1} \r").unwrap() else {
            panic!()
        };
        assert_eq!(row.fields, [&b"a"[..], b"b"]);
        let Line::Row(row) = Line::parse(b"a 1\r").unwrap() else {
            panic!()
        };
        assert_eq!(row.fields, [&b"a"[..], b"1"]);
    }

    fn fields() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..12),
            prop::collection::vec(
                prop::sample::select(b"ab !@{[\"\\\t\n\r,)/*-".to_vec()),
                0..8
            ),
        ]
    }

    proptest! {
        #[test]
        fn any_row_comes_back(
            fields in prop::collection::vec(fields(), 0..4),
            json in prop::option::of(super::value_tests::values()),
        ) {
            // What is neither of the two kinds of JSON that can begin behind fields is a field.
            let json = json.filter(|json| matches!(json, Value::List(_) | Value::Object(_)));
            let row = Row { fields: fields.into_iter().map(Cow::Owned).collect(), json };
            let mut line = Vec::new();
            row.write(&mut line);
            prop_assert!(!line.contains(&b'\n'));
            let expected = if line.is_empty() { Line::Blank } else { Line::Row(row) };
            prop_assert_eq!(Line::parse(&line).unwrap(), expected);
        }

        #[test]
        fn any_header_comes_back(name in "[a-z_]{1,8}", value in super::value_tests::values(), old: bool) {
            let header = Header { old, name, content: Content::Json(value) };
            let mut line = Vec::new();
            header.write(&mut line);
            prop_assert_eq!(Line::parse(&line).unwrap(), Line::Header(header));
        }

        #[test]
        fn any_bytes_are_lines_or_errors_and_what_is_read_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            for line in bytes.split(|&byte| byte == b'\n') {
                if let Ok(parsed) = Line::parse(line) {
                    let mut again = Vec::new();
                    parsed.write(&mut again);
                    prop_assert_eq!(Line::parse(&again).unwrap(), parsed);
                }
            }
        }
    }
}
