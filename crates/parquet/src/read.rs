//! Reads Parquet as lines of CDXJ: files of Common Crawl's columnar index, and others with its columns.
//!
//! A few thousand rows are decoded at a time, and of each only the columns that a line has.

use std::io::{self, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::basic::{LogicalType, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, FileReader, Length};
use parquet::file::serialized_reader::SerializedFileReader;
use waypost_index::Field;
use waypost_io::{Error, ErrorKind, RangeRead, Result};

use crate::line::{FIELDS, Line, digits};

/// The first bytes of a file.
pub const MAGIC: &[u8] = b"PAR1";
/// How names of files end.
pub const EXTENSION: &str = ".parquet";
/// The number of rows to decode at a time.
const ROWS: usize = 4096;

/// Reads a file as lines of CDXJ, in the order of its rows.
///
/// # Errors
/// If it is not a Parquet file, or lacks the columns `url_surtkey`, `url` and `fetch_time`.
pub fn lines(bytes: Arc<dyn RangeRead>) -> Result<Box<dyn Read + Send>> {
    let name = bytes.name().to_owned();
    let size = bytes.size()?;
    let chunks = Chunks(Arc::new(Blocks {
        bytes,
        size,
        kept: Mutex::default(),
    }));
    let damaged = |error| damage(error, &name);
    let file = guarded(|| SerializedFileReader::new(chunks)).map_err(damaged)?;
    let schema = file.metadata().file_metadata().schema_descr();
    let missing = |column: &str| {
        let message = format!("a Parquet file without the column {column}");
        Error::new(ErrorKind::Format(message)).in_file(&name)
    };
    let find = |wanted: &str| {
        (0..schema.num_columns()).find(|at| schema.column(*at).path().string() == wanted)
    };
    let mut columns = Vec::new();
    for (kind, wanted) in [(Kind::Key, "url_surtkey"), (Kind::Time, "fetch_time")]
        .into_iter()
        .chain(FIELDS.map(|(field, column)| (Kind::Field(field), column)))
    {
        let Some(number) = find(wanted) else {
            match kind {
                Kind::Key | Kind::Time | Kind::Field(Field::Url) => return Err(missing(wanted)),
                Kind::Field(_) => continue,
            }
        };
        let column = schema.column(number);
        let is_number = matches!(
            kind,
            Kind::Time | Kind::Field(Field::Status | Field::Offset | Field::Length)
        );
        let fits = match column.physical_type() {
            Physical::BYTE_ARRAY => !is_number,
            Physical::INT32 | Physical::INT64 => is_number,
            Physical::INT96 => kind == Kind::Time,
            _ => false,
        };
        if !fits || column.max_rep_level() > 0 {
            let message = format!("the column {wanted} of a Parquet file has an unexpected type");
            return Err(Error::new(ErrorKind::Format(message)).in_file(&name));
        }
        columns.push(Column {
            kind,
            number,
            per_second: match column.logical_type_ref() {
                Some(LogicalType::Timestamp(time)) => match time.unit {
                    TimeUnit::MILLIS => 1_000,
                    TimeUnit::MICROS => 1_000_000,
                    TimeUnit::NANOS => 1_000_000_000,
                },
                _ => match column.converted_type() {
                    parquet::basic::ConvertedType::TIMESTAMP_MICROS => 1_000_000,
                    _ => 1_000,
                },
            },
            nullable: column.max_def_level() > 0,
            values: Values::default(),
        });
    }
    Ok(Box::new(Lines {
        groups: 0..file.num_row_groups(),
        file,
        name,
        columns,
        readers: Vec::new(),
        left: 0,
        text: Vec::new(),
        at: 0,
    }))
}

/// Turns a panic into an error: the crate `parquet` panics on some damaged files.
fn guarded<T>(work: impl FnOnce() -> ParquetResult<T>) -> ParquetResult<T> {
    // After an error, what was in use is dropped.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(ParquetError::General(
            "the file cannot be decoded".to_owned(),
        ))
    })
}

fn damage(error: ParquetError, name: &str) -> Error {
    // What could not be read is not damaged.
    if let ParquetError::External(source) = error {
        return match source.downcast::<Error>() {
            Ok(error) => *error,
            Err(source) => corrupt(source.to_string(), name),
        };
    }
    corrupt(error.to_string(), name)
}

fn corrupt(detail: String, name: &str) -> Error {
    let compression = "Parquet";
    Error::new(ErrorKind::Corrupt {
        compression,
        detail,
    })
    .in_file(name)
}

/// What a column is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Key,
    Time,
    Field(Field),
}

/// A column that is read, and the values of some rows.
struct Column {
    kind: Kind,
    number: usize,
    /// The unit of times.
    per_second: i64,
    nullable: bool,
    values: Values,
}

#[derive(Default)]
struct Values {
    levels: Vec<i16>,
    texts: Vec<ByteArray>,
    numbers: Vec<i64>,
    /// The next value that is not null.
    next: usize,
}

/// The lines of a file.
struct Lines {
    file: SerializedFileReader<Chunks>,
    name: String,
    columns: Vec<Column>,
    /// The row groups that are left, and the readers and rows of the current one.
    groups: std::ops::Range<usize>,
    readers: Vec<ColumnReader>,
    left: usize,
    text: Vec<u8>,
    at: usize,
}

impl Lines {
    /// Decodes the next rows. Returns whether there are any.
    fn advance(&mut self) -> ParquetResult<bool> {
        while self.left == 0 {
            let Some(number) = self.groups.next() else {
                return Ok(false);
            };
            let group = self.file.get_row_group(number)?;
            self.left = usize::try_from(group.metadata().num_rows())
                .map_err(|_| ParquetError::General("a row group with fewer than no rows".into()))?;
            self.readers = self
                .columns
                .iter()
                .map(|column| group.get_column_reader(column.number))
                .collect::<ParquetResult<_>>()?;
        }
        let rows = self.left.min(ROWS);
        for (column, reader) in self.columns.iter_mut().zip(&mut self.readers) {
            column.read(reader, rows)?;
        }
        self.left -= rows;
        self.text.clear();
        self.at = 0;
        for row in 0..rows {
            self.push(row);
        }
        Ok(true)
    }

    fn push(&mut self, row: usize) {
        let [key, time, fields @ ..] = &mut self.columns[..] else {
            return;
        };
        let key = key.text(row);
        let per_second = time.per_second;
        let time = time.number(row).and_then(|time| {
            let milliseconds = i128::from(time) * 1_000 / i128::from(per_second);
            digits(i64::try_from(milliseconds).ok()?)
        });
        let timestamp = time.as_ref().map_or(&b"-"[..], |digits| digits);
        let key = key.as_ref().map_or(&b"-"[..], |key| key.data());
        let mut line = Line::begin(&mut self.text, key, timestamp);
        for column in fields {
            let Kind::Field(field) = column.kind else {
                continue;
            };
            match field {
                // -1 is Common Crawl's value for a missing status.
                Field::Status | Field::Offset | Field::Length => {
                    let number = column.number(row).filter(|number| *number >= 0);
                    if let Some(number) = number {
                        line.field(field, number.to_string().as_bytes());
                    }
                }
                _ => {
                    let text = column.text(row);
                    if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
                        line.field(field, text.data());
                    }
                }
            }
        }
        line.end();
    }
}

impl Read for Lines {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() {
            self.text.clear();
            self.at = 0;
            let more = guarded(|| self.advance()).map_err(|error| damage(error, &self.name))?;
            if !more {
                self.readers.clear();
                return Ok(0);
            }
        }
        let rest = &self.text[self.at..];
        let length = rest.len().min(out.len());
        out[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

impl Column {
    /// Decodes the values of the next rows.
    fn read(&mut self, reader: &mut ColumnReader, rows: usize) -> ParquetResult<()> {
        let values = &mut self.values;
        values.levels.clear();
        values.texts.clear();
        values.numbers.clear();
        values.next = 0;
        match reader {
            ColumnReader::ByteArrayColumnReader(reader) => {
                exactly(reader, rows, &mut values.levels, &mut values.texts)?;
            }
            ColumnReader::Int32ColumnReader(reader) => {
                let mut numbers = Vec::new();
                exactly(reader, rows, &mut values.levels, &mut numbers)?;
                values.numbers.extend(numbers.into_iter().map(i64::from));
            }
            ColumnReader::Int64ColumnReader(reader) => {
                exactly(reader, rows, &mut values.levels, &mut values.numbers)?;
            }
            ColumnReader::Int96ColumnReader(reader) => {
                let mut times = Vec::new();
                exactly(reader, rows, &mut values.levels, &mut times)?;
                self.per_second = 1;
                values
                    .numbers
                    .extend(times.iter().map(|time| time.to_seconds()));
            }
            _ => return Err(ParquetError::General("an unexpected type".to_owned())),
        }
        Ok(())
    }

    /// The number of the value of a row; `None` if it is null. Rows are asked for in order, each once.
    fn next(&mut self, row: usize) -> Option<usize> {
        if self.nullable && self.values.levels.get(row) != Some(&1) {
            return None;
        }
        self.values.next += 1;
        Some(self.values.next - 1)
    }

    fn text(&mut self, row: usize) -> Option<ByteArray> {
        let at = self.next(row)?;
        self.values.texts.get(at).cloned()
    }

    fn number(&mut self, row: usize) -> Option<i64> {
        let at = self.next(row)?;
        self.values.numbers.get(at).copied()
    }
}

/// Reads the values of exactly so many rows: a column that ends early is damaged.
fn exactly<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    levels: &mut Vec<i16>,
    values: &mut Vec<T::T>,
) -> ParquetResult<()> {
    let mut read = 0;
    while read < rows {
        let (more, _, _) = reader.read_records(rows - read, Some(levels), None, values)?;
        if more == 0 {
            let message = format!("a column ends {} rows early", rows - read);
            return Err(ParquetError::EOF(message));
        }
        read += more;
    }
    Ok(())
}

/// The size of what is requested at a time from a remote file, and how many such blocks are kept: one or
/// two for each column.
const BLOCK: u64 = 1 << 20;
const KEPT: usize = 32;

/// The bytes of a file, as the crate `parquet` reads them.
#[derive(Clone)]
struct Chunks(Arc<Blocks>);

struct Blocks {
    bytes: Arc<dyn RangeRead>,
    size: u64,
    /// The blocks of a remote file that were used last.
    kept: Mutex<Vec<(u64, Bytes)>>,
}

impl Blocks {
    fn get(&self, start: u64, length: usize) -> Result<Bytes> {
        if !self.bytes.is_remote() || length as u64 > BLOCK {
            return self.read(start, length as u64);
        }
        let mut whole = Vec::with_capacity(length);
        let (mut at, end) = (start, start + length as u64);
        while at < end {
            let number = at / BLOCK;
            let block = self.block(number)?;
            let from = (at - number * BLOCK) as usize;
            let to = ((end - number * BLOCK) as usize).min(block.len());
            let Some(part) = block.get(from..to).filter(|part| !part.is_empty()) else {
                return Err(Error::new(ErrorKind::EndsEarly).in_file(self.bytes.name()));
            };
            whole.extend_from_slice(part);
            at += part.len() as u64;
        }
        Ok(whole.into())
    }

    fn block(&self, number: u64) -> Result<Bytes> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(known, _)| *known == number) {
            let found = kept.remove(at);
            let bytes = found.1.clone();
            kept.push(found);
            return Ok(bytes);
        }
        let start = number * BLOCK;
        let bytes = self.read(start, BLOCK.min(self.size.saturating_sub(start)))?;
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((number, bytes.clone()));
        Ok(bytes)
    }

    fn read(&self, start: u64, length: u64) -> Result<Bytes> {
        if start.checked_add(length).is_none_or(|end| end > self.size) {
            return Err(Error::new(ErrorKind::EndsEarly).in_file(self.bytes.name()));
        }
        let mut buffer = vec![0; length as usize];
        self.bytes.read_at(start, &mut buffer)?;
        Ok(buffer.into())
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.size
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<Reader>;

    fn get_read(&self, start: u64) -> ParquetResult<BufReader<Reader>> {
        let reader = Reader {
            blocks: Arc::clone(&self.0),
            at: start,
        };
        Ok(BufReader::with_capacity(4096, reader))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.0.get(start, length);
        bytes.map_err(|error| ParquetError::External(Box::new(error)))
    }
}

/// Reads from an offset on.
struct Reader {
    blocks: Arc<Blocks>,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.blocks.size.saturating_sub(self.at);
        let length = left.min(out.len() as u64) as usize;
        let bytes = self.blocks.get(self.at, length)?;
        out[..length].copy_from_slice(&bytes);
        self.at += length as u64;
        Ok(length)
    }
}
