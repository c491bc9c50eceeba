//! The forms in which classic Bloom filters are exchanged: a text file, and the JSON of Orestes.
//!
//! ```text
//! # dc:title Croatian TLD (hr) harvest bloom filter
//! name,hash,m,k,n,bits
//! 0,Murmur3KirschMitzenmacher,1969700000,5,11273714,AAQIAA…
//! …
//! f,Murmur3KirschMitzenmacher,1969700000,5,11275022,AEAAAA…
//! ```
//!
//! `bits` is base64; bit i of the filter is bit i mod 8 of byte i / 8, counted from the lowest. The
//! JSON of a filter is `{"m": 1969700000, "h": 5, "b": "AAQIAA…"}`, where zero bytes at the end are
//! left out; it says neither the hash method nor the number of URLs.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_PAD_INDIFFERENT};
use waypost_io::{AtomicFile, AtomicFolder, Mapped, Resources, Source, temporary};

use super::file::Writer;
use super::hash::Method;
use super::{Shape, Split};
use crate::error::{Error, Result};
use crate::filter::format::Metadata;

/// What filters are written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A text file with a row for each filter.
    #[default]
    Text,
    /// A folder with a JSON file for each filter, or a single file if there is only one.
    Json,
    /// The binary file that lookups read.
    Binary,
}

/// How many bytes tell the form of a file.
pub(super) const START: usize = 64 << 10;

/// The columns of the text form.
const COLUMNS: &str = "name,hash,m,k,n,bits";

impl Form {
    /// The form of a file that starts with these bytes, if it is one of these.
    pub fn of(start: &[u8]) -> Option<Form> {
        if super::ClassicFilter::begins(start) {
            return Some(Form::Binary);
        }
        let start = start.trim_ascii_start();
        let mut lines = start.split(|&byte| byte == b'\n');
        let first = lines.find(|line| !line.starts_with(b"#")).unwrap_or(start);
        if first.trim_ascii() == COLUMNS.as_bytes() {
            return Some(Form::Text);
        }
        // The members may come in any order.
        let inside = start.strip_prefix(b"{")?.trim_ascii_start();
        let members = [&b"\"m\""[..], b"\"h\"", b"\"b\""];
        let json = members.iter().any(|member| inside.starts_with(member));
        json.then_some(Form::Json)
    }

    /// The form of a source, which can still be read from its start.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn of_source(source: &Source) -> Result<Option<Form>> {
        let mut start = vec![0; START];
        let (length, _) = source.open()?.read_full(&mut start);
        Ok(Form::of(&start[..length]))
    }
}

/// Writes filters in any form.
pub(super) struct Output {
    split: Split,
    method: Method,
    target: Target,
    /// Bytes that are not yet a whole group of base64.
    group: Vec<u8>,
    /// Zero bytes that are written only if others follow.
    zeros: u64,
}

enum Target {
    Text(BufWriter<AtomicFile>),
    /// The JSON of the only filter.
    One(BufWriter<AtomicFile>),
    Folder(AtomicFolder, Option<BufWriter<File>>),
    Binary(Box<Writer>),
}

impl Output {
    pub(super) fn create(
        form: Form,
        path: &Path,
        method: Method,
        split: Split,
        metadata: &Metadata,
    ) -> Result<Output> {
        let file = || -> Result<_> {
            let file = AtomicFile::create(path)?;
            Ok(BufWriter::with_capacity(1 << 18, file))
        };
        let target = match form {
            Form::Text => {
                let mut file = file()?;
                let mut text = String::new();
                for (element, value) in metadata.iter() {
                    let value = value.replace(['\n', '\r'], " ");
                    text += &format!("# dc:{element} {value}\n");
                }
                text += COLUMNS;
                text += "\n";
                let written = file.write_all(text.as_bytes());
                written.map_err(|error| Error::io("write", path, error))?;
                Target::Text(file)
            }
            Form::Json if split == Split::One => Target::One(file()?),
            Form::Json => Target::Folder(AtomicFolder::create(path)?, None),
            Form::Binary => Target::Binary(Box::new(Writer::create(path, method, split)?)),
        };
        Ok(Output {
            split,
            method,
            target,
            group: Vec::new(),
            zeros: 0,
        })
    }

    pub(super) fn begin(&mut self, number: usize, shape: Shape, urls: u64) -> Result<()> {
        let Shape { bits, hashes } = shape;
        let name = self.split.name(number);
        let json = format!("{{\"m\":{bits},\"h\":{hashes},\"b\":\"");
        let start = match &mut self.target {
            Target::Binary(writer) => return writer.begin(shape, Some(urls)),
            Target::Text(_) => format!("{name},{},{bits},{hashes},{urls},", self.method),
            Target::One(_) => json,
            Target::Folder(folder, file) => {
                let path = folder.inside().join(format!("{name}.json"));
                let created = File::create(&path).map_err(|e| Error::io("write", &path, e))?;
                *file = Some(BufWriter::with_capacity(1 << 18, created));
                json
            }
        };
        self.put(start.as_bytes())
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.target {
            Target::Binary(writer) => writer.write(bytes),
            Target::Text(_) => self.encode(bytes),
            Target::One(_) | Target::Folder(..) => {
                let end = bytes
                    .iter()
                    .rposition(|&byte| byte != 0)
                    .map_or(0, |at| at + 1);
                if end > 0 {
                    let zeros = std::mem::take(&mut self.zeros);
                    self.encode(&vec![0; zeros as usize])?;
                    self.encode(&bytes[..end])?;
                }
                self.zeros += (bytes.len() - end) as u64;
                Ok(())
            }
        }
    }

    pub(super) fn end(&mut self) -> Result<()> {
        self.zeros = 0;
        let last = STANDARD.encode(std::mem::take(&mut self.group));
        let end = match &self.target {
            Target::Binary(_) => return Ok(()),
            Target::Text(_) => "\n",
            Target::One(_) | Target::Folder(..) => "\"}\n",
        };
        self.put(last.as_bytes())?;
        self.put(end.as_bytes())?;
        if let Target::Folder(folder, file) = &mut self.target
            && let Some(file) = file.take()
        {
            let done = file.into_inner().map_err(|error| error.into_error());
            let done = done.and_then(|file| file.sync_all());
            done.map_err(|error| Error::io("write", folder.inside(), error))?;
        }
        Ok(())
    }

    pub(super) fn finish(self, metadata: &Metadata) -> Result<()> {
        match self.target {
            Target::Binary(writer) => writer.finish(metadata).map(drop),
            Target::Folder(folder, _) => Ok(folder.commit()?),
            Target::Text(file) | Target::One(file) => {
                let path = file.get_ref().path().to_owned();
                let file = file.into_inner().map_err(|error| error.into_error());
                let file = file.map_err(|error| Error::io("write", &path, error))?;
                Ok(file.commit()?)
            }
        }
    }

    /// Appends bytes as base64.
    fn encode(&mut self, mut bytes: &[u8]) -> Result<()> {
        const PIECE: usize = 3 << 14;
        if !self.group.is_empty() {
            let some = (3 - self.group.len()).min(bytes.len());
            self.group.extend_from_slice(&bytes[..some]);
            bytes = &bytes[some..];
            if self.group.len() == 3 {
                let text = STANDARD.encode(std::mem::take(&mut self.group));
                self.put(text.as_bytes())?;
            }
        }
        let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % 3);
        let mut text = vec![0; PIECE / 3 * 4];
        for piece in whole.chunks(PIECE) {
            let length = STANDARD
                .encode_slice(piece, &mut text)
                .map_err(|error| Error::invalid(error.to_string()))?;
            self.put(&text[..length])?;
        }
        self.group.extend_from_slice(rest);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let (path, written) = match &mut self.target {
            Target::Binary(_) => return Ok(()),
            Target::Text(file) | Target::One(file) => {
                let written = file.write_all(bytes);
                (file.get_ref().path().to_owned(), written)
            }
            Target::Folder(folder, Some(file)) => {
                (folder.inside().to_owned(), file.write_all(bytes))
            }
            Target::Folder(_, None) => return Err(Error::invalid("bits without a filter")),
        };
        written.map_err(|error| Error::io("write", &path, error))
    }
}

/// What files do not say.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The hash method of JSON files, and of text without a header [default: that of Orestes].
    pub method: Option<Method>,
    /// The size of the filters in text without a header.
    pub shape: Option<Shape>,
    /// Metadata given by the user.
    pub metadata: Metadata,
}

/// Imports the text form, or the JSON of one filter or of a folder of them, to the binary file that
/// lookups read.
///
/// # Errors
/// If the files can't be read or contradict themselves, or the output can't be written.
pub fn import(path: &Path, options: &ImportOptions, out: &Path) -> Result<f64> {
    if path.is_dir() {
        return import_folder(path, options, out);
    }
    let bytes = Mapped::of(&Source::new(path))?;
    let imported = match bytes.trim_ascii_start().first() {
        Some(b'{') => import_json(&[&bytes], options, out),
        _ => import_text(&bytes, options, out),
    };
    imported.map_err(|error| error.in_file(path.display()))
}

fn import_folder(path: &Path, options: &ImportOptions, out: &Path) -> Result<f64> {
    let names = |split: Split| (0..split.filters()).map(move |number| split.name(number));
    let has = |split: &Split| names(*split).all(|name| path.join(name + ".json").is_file());
    // The names of 16 differ from those of 32, but those of 32 are among those of 256.
    let split = [Split::All256, Split::ThirtyTwo, Split::Sixteen, Split::One]
        .into_iter()
        .find(has)
        .ok_or_else(|| {
            let problem = "expected 0.json to f.json, 00.json to f8.json or 00.json to ff.json";
            Error::format(problem).in_file(path.display())
        })?;
    let mut files = Vec::new();
    for name in names(split) {
        files.push(Mapped::of(&Source::new(path.join(name + ".json")))?);
    }
    let files: Vec<&[u8]> = files.iter().map(|file| &file[..]).collect();
    import_json(&files, options, out).map_err(|error| error.in_file(path.display()))
}

/// A filter as Orestes writes it.
#[derive(serde::Deserialize)]
struct Json<'a> {
    m: u64,
    h: u32,
    #[serde(borrow)]
    b: Cow<'a, str>,
}

fn import_json(files: &[&[u8]], options: &ImportOptions, out: &Path) -> Result<f64> {
    let split = Split::of(files.len())?;
    let mut writer = Writer::create(out, options.method.unwrap_or_default(), split)?;
    for (number, file) in files.iter().enumerate() {
        let problem = |why: String| Error::format(format!("filter {}: {why}", split.name(number)));
        let json: Json<'_> =
            serde_json::from_slice(file).map_err(|error| problem(error.to_string()))?;
        let shape = Shape {
            bits: json.m,
            hashes: json.h,
        };
        writer.begin(shape, None)?;
        decode(json.b.as_bytes(), &mut writer).map_err(|error| problem(error.to_string()))?;
    }
    writer.finish(&options.metadata)
}

/// A row of the text form.
struct Row<'a> {
    line: u64,
    name: &'a str,
    method: Method,
    shape: Shape,
    urls: Option<u64>,
    bits: &'a [u8],
}

fn import_text(text: &[u8], options: &ImportOptions, out: &Path) -> Result<f64> {
    let mut metadata = options.metadata.clone();
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut has_header = false;
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let line = line.trim_ascii();
        if let Some(comment) = line.strip_prefix(b"# dc:") {
            let comment = String::from_utf8_lossy(comment);
            // What is not Dublin Core is only a comment.
            if let Some((element, value)) = comment.split_once(' ') {
                let _ = metadata.add(element, value);
            }
        } else if line == COLUMNS.as_bytes() {
            has_header = true;
        } else if !line.is_empty() && !line.starts_with(b"#") {
            let row = match has_header {
                true => parse_row(line),
                false => parse_bare(line, options),
            };
            let row = row.map_err(|why| Error::format(why).at_line(number))?;
            rows.push(Row {
                line: number,
                ..row
            });
        }
    }
    let split = Split::of(rows.len())?;
    let method = rows.first().map_or(Method::default(), |row| row.method);
    let mut writer = Writer::create(out, method, split)?;
    for number in 0..split.filters() {
        let name = split.name(number);
        let row = match has_header {
            true => rows.iter().find(|row| row.name == name),
            false => rows.get(number),
        };
        let row = row.ok_or_else(|| Error::format(format!("there is no filter named {name}")))?;
        let at = |error: Error| error.at_line(row.line);
        if row.method != method {
            return Err(at(Error::format("the filters have different hash methods")));
        }
        writer.begin(row.shape, row.urls).map_err(at)?;
        decode(row.bits, &mut writer).map_err(at)?;
        // Other files may leave out zeros at the end, but these are whole.
        if has_header && writer.is_short() {
            return Err(at(Error::format("the bits of the filter are cut short")));
        }
    }
    writer.finish(&metadata)
}

/// Decodes the text form to a file without a name, and maps that.
pub(super) fn decoded(text: &[u8]) -> Result<Mapped> {
    let folder = temporary::folder_in(&Resources::default().temporary)?;
    let out = folder.path().join("decoded");
    import_text(text, &ImportOptions::default(), &out)?;
    Ok(Mapped::open(&out)?)
}

fn parse_row(line: &[u8]) -> Result<Row<'_>, String> {
    let mut fields = line.splitn(6, |&byte| byte == b',');
    let mut next = || {
        let field = fields.next().map(<[u8]>::trim_ascii);
        field.ok_or_else(|| format!("fewer columns than {COLUMNS}"))
    };
    let text = |field| std::str::from_utf8(field).map_err(|_| "not UTF-8".to_owned());
    let name = text(next()?)?;
    let method = text(next()?)?.parse::<Method>();
    let method = method.map_err(|error| error.to_string())?;
    let mut number = |what: &str| -> Result<u64, String> {
        let digits = text(next()?)?;
        let number = digits.parse();
        number.map_err(|_| format!("invalid {what} `{digits}`"))
    };
    let (bits, hashes) = (number("m")?, number("k")?);
    let urls = number("n").ok();
    Ok(Row {
        line: 0,
        name,
        method,
        shape: Shape {
            bits,
            hashes: u32::try_from(hashes).map_err(|_| "k is too large".to_owned())?,
        },
        urls,
        bits: next()?,
    })
}

/// A row of a file without our header: the bits are its last column.
fn parse_bare<'a>(line: &'a [u8], options: &ImportOptions) -> Result<Row<'a>, String> {
    let shape = options
        .shape
        .ok_or_else(|| format!("expected the header {COLUMNS}, or the size of the filters"))?;
    let separated = |byte: &u8| matches!(byte, b',' | b';' | b'\t' | b' ');
    let bits = line.rsplit(separated).next().unwrap_or_default();
    Ok(Row {
        line: 0,
        name: "",
        method: options.method.unwrap_or_default(),
        shape,
        urls: None,
        bits: bits
            .trim_ascii()
            .strip_prefix(b"\"")
            .map_or(bits, |bits| bits.strip_suffix(b"\"").unwrap_or(bits)),
    })
}

/// Decodes base64 piece by piece.
fn decode(text: &[u8], writer: &mut Writer) -> Result<()> {
    const PIECE: usize = 4 << 14;
    let mut bytes = vec![0; PIECE / 4 * 3];
    for (number, piece) in text.chunks(PIECE).enumerate() {
        let length = STANDARD_PAD_INDIFFERENT
            .decode_slice(piece, &mut bytes)
            .map_err(|error| {
                Error::format(format!(
                    "invalid base64 after {} bytes: {error}",
                    number * PIECE
                ))
            })?;
        writer.write(&bytes[..length])?;
    }
    Ok(())
}
