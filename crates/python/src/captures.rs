//! The captures of indexes as a stream of Arrow record batches.
//!
//! ```text
//! scan, on all cores ─► columns of a block ─► joined in order ─► bounded channel ─► stream
//! ```
//!
//! The scan waits for the reader, so memory is bounded. It ends when the reader closes the stream.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};
use pyo3::exceptions::{PyBaseException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use waypost_index::scan::{self, At, Job};
use waypost_index::select::{Revisits, Select};
use waypost_index::{Capture, Field, Fields, Takedowns, input};
use waypost_io::{Error, ErrorKind, Source};

use crate::arrow::{self, ArrowArray, ArrowSchema, Batches, Buffer, Type};
use crate::errors;

/// The least number of rows of a batch, except for the last.
const ROWS: usize = 1 << 16;

/// A column of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Key,
    Timestamp,
    Field(Field),
}

impl Column {
    fn of_name(name: &str) -> PyResult<Column> {
        Ok(match name {
            "urlkey" => Column::Key,
            "timestamp" => Column::Timestamp,
            name => {
                let field = Field::ALL.into_iter().find(|field| field.name() == name);
                Column::Field(field.ok_or_else(|| {
                    let names: Vec<&str> = Field::ALL.iter().map(|field| field.name()).collect();
                    PyValueError::new_err(format!(
                        "unknown field `{name}`; the fields are urlkey, timestamp, {}",
                        names.join(", ")
                    ))
                })?)
            }
        })
    }

    fn name(self) -> &'static str {
        match self {
            Column::Key => "urlkey",
            Column::Timestamp => "timestamp",
            Column::Field(field) => field.name(),
        }
    }

    fn kind(self) -> Type {
        match self {
            Column::Timestamp => Type::Time,
            Column::Field(Field::Status) => Type::Int16,
            Column::Field(
                Field::Length
                | Field::Offset
                | Field::OriginalLength
                | Field::OriginalOffset
                | Field::LastMod,
            ) => Type::Int64,
            Column::Key | Column::Field(_) => Type::Text,
        }
    }
}

/// The values of a column.
#[derive(Default)]
struct Values {
    /// Text, one value after the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<i32>,
    numbers: Vec<i64>,
    valid: Vec<bool>,
    nulls: usize,
}

impl Values {
    fn push_text(&mut self, text: Option<&[u8]>) {
        if let Some(text) = text {
            match std::str::from_utf8(text) {
                Ok(_) => self.bytes.extend_from_slice(text),
                // Arrow's strings are UTF-8.
                Err(_) => self
                    .bytes
                    .extend_from_slice(String::from_utf8_lossy(text).as_bytes()),
            }
        }
        self.ends.push(self.bytes.len() as i32);
        self.push_valid(text.is_some());
    }

    fn push_number(&mut self, number: Option<i64>) {
        self.numbers.push(number.unwrap_or_default());
        self.push_valid(number.is_some());
    }

    fn push_valid(&mut self, valid: bool) {
        self.valid.push(valid);
        self.nulls += usize::from(!valid);
    }

    fn append(&mut self, later: &Values) {
        let base = self.bytes.len() as i32;
        self.bytes.extend_from_slice(&later.bytes);
        self.ends.extend(later.ends.iter().map(|end| base + end));
        self.numbers.extend_from_slice(&later.numbers);
        self.valid.extend_from_slice(&later.valid);
        self.nulls += later.nulls;
    }

    fn export(self, kind: Type) -> ArrowArray {
        let validity = match self.nulls {
            0 => Buffer::None,
            _ => Buffer::Bytes(arrow::bitmap(&self.valid)),
        };
        let buffers = match kind {
            Type::Int16 => {
                let numbers = self.numbers.iter().map(|number| *number as i16);
                vec![validity, Buffer::Int16(numbers.collect())]
            }
            Type::Int64 | Type::Time => vec![validity, Buffer::Int64(self.numbers)],
            Type::Text | Type::LargeText | Type::Struct => {
                let mut offsets = self.ends;
                offsets.insert(0, 0);
                vec![validity, Buffer::Int32(offsets), Buffer::Bytes(self.bytes)]
            }
        };
        arrow::array(self.valid.len(), self.nulls, buffers, Vec::new())
    }
}

/// Rows of all columns.
struct Rows {
    columns: Vec<Values>,
    length: usize,
}

impl Rows {
    fn new(columns: usize) -> Rows {
        Rows {
            columns: (0..columns).map(|_| Values::default()).collect(),
            length: 0,
        }
    }

    fn export(self, columns: &[Column]) -> ArrowArray {
        let arrays = self.columns.into_iter().zip(columns);
        let arrays = arrays.map(|(values, column)| values.export(column.kind()));
        arrow::array(self.length, 0, vec![Buffer::None], arrays.collect())
    }
}

/// The scan job: collects rows and sends them in order.
struct Reading {
    columns: Arc<[Column]>,
    waiting: Mutex<Rows>,
    sender: Sender<Result<ArrowArray, String>>,
}

/// The most bytes of a batch: offsets have 31 bits, and a block has less than a GiB.
const BYTES: usize = 1 << 28;

impl Reading {
    fn send(&self, rows: &mut Rows) -> waypost_io::Result<()> {
        let rows = std::mem::replace(rows, Rows::new(self.columns.len()));
        let batch = rows.export(&self.columns);
        self.sender
            .send(Ok(batch))
            .map_err(|_| Error::new(ErrorKind::Invalid("the reader closed the stream".into())))
    }
}

impl Job for Reading {
    type Partial = Rows;

    fn fields(&self) -> Fields {
        let fields = self.columns.iter().filter_map(|column| match column {
            Column::Field(field) => Some(*field),
            _ => None,
        });
        fields.collect()
    }

    fn empty(&self) -> Rows {
        Rows::new(self.columns.len())
    }

    fn add(&self, rows: &mut Rows, capture: &Capture<'_>, _: At) {
        rows.length += 1;
        for (column, values) in self.columns.iter().zip(&mut rows.columns) {
            match column {
                Column::Key => values.push_text(Some(capture.key())),
                Column::Timestamp => values.push_number(capture.time().map(|time| time.unix())),
                Column::Field(Field::Status) => {
                    values.push_number(capture.status().map(i64::from));
                }
                Column::Field(field) if column.kind() == Type::Int64 => {
                    let number = capture.number(*field);
                    values.push_number(number.and_then(|number| i64::try_from(number).ok()));
                }
                Column::Field(field) => values.push_text(capture.text(*field).as_deref()),
            }
        }
    }

    fn merge(&self, _: &mut Rows, later: Rows, _: At) -> waypost_io::Result<()> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.length == 0 {
            *waiting = later;
        } else {
            waiting.length += later.length;
            for (values, later) in waiting.columns.iter_mut().zip(&later.columns) {
                values.append(later);
            }
        }
        let bytes = waiting.columns.iter().map(|values| values.bytes.len());
        if waiting.length >= ROWS || bytes.max().unwrap_or(0) >= BYTES {
            self.send(&mut waiting)?;
        }
        Ok(())
    }

    fn to_bytes(&self, _: &Rows) -> waypost_io::Result<Vec<u8>> {
        Err(not_sent())
    }

    fn from_bytes(&self, _: &[u8]) -> waypost_io::Result<Rows> {
        Err(not_sent())
    }
}

/// Rows go to the reader at once: a cluster has other partials to merge.
fn not_sent() -> Error {
    Error::new(ErrorKind::Invalid(
        "record batches are not merged by other machines".to_owned(),
    ))
}

/// What a scan has found, besides the captures.
#[derive(Default)]
struct Report {
    lines: u64,
    captures: u64,
    selected: u64,
    bad_lines: u64,
    examples: Vec<String>,
    damage: Vec<String>,
}

/// Captures that have not been read yet.
#[pyclass(module = "waypost._waypost", frozen, subclass)]
pub(crate) struct Captures {
    sources: Vec<Source>,
    columns: Arc<[Column]>,
    select: Select,
    strict: bool,
    report: Arc<Mutex<Option<Report>>>,
    /// Why the last reading failed.
    error: Arc<Mutex<Option<Error>>>,
}

#[pymethods]
impl Captures {
    /// Reads `fields` of the captures in `paths` that match the filters `(name, value)`.
    #[new]
    fn new(
        py: Python<'_>,
        paths: Vec<std::path::PathBuf>,
        fields: Vec<String>,
        filters: Vec<(String, String)>,
        strict: bool,
    ) -> PyResult<Captures> {
        let columns = fields.iter().map(|name| Column::of_name(name));
        let columns = columns.collect::<PyResult<Vec<_>>>()?;
        waypost_cli::adapt_inputs();
        let expanded = py.detach(|| input::expand(paths));
        let sources = expanded.map_err(|error| errors::of_io(py, &error))?.sources;
        Ok(Captures {
            sources,
            columns: columns.into(),
            select: select(&filters)?,
            strict,
            report: Arc::default(),
            error: Arc::default(),
        })
    }

    /// Starts to read. Each call reads from the start.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A library that wants other types casts the result.
        drop(requested_schema);
        let (sender, receiver) = bounded(2);
        let job = Reading {
            columns: Arc::clone(&self.columns),
            waiting: Mutex::new(Rows::new(self.columns.len())),
            sender,
        };
        let options = scan::Options {
            select: self.select.clone(),
            strict: self.strict,
            ..scan::Options::default()
        };
        let (sources, report) = (self.sources.clone(), Arc::clone(&self.report));
        let failed = Arc::clone(&self.error);
        *failed.lock().unwrap_or_else(PoisonError::into_inner) = None;
        std::thread::spawn(move || {
            if let Err(error) = read(&sources, &job, options, &report) {
                let message = errors::chain(&error);
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                // Nobody is there to tell if the reader closed the stream.
                let _ = job.sender.send(Err(message));
            }
        });
        let stream = Stream {
            columns: Arc::clone(&self.columns),
            receiver,
        };
        arrow::stream_capsule(py, arrow::stream(Box::new(stream)))
    }

    /// The exception for what ended the last reading: the C interface passes only a message.
    fn _error(&self, py: Python<'_>) -> Option<Py<PyBaseException>> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        let error = error.as_ref()?;
        Some(errors::of_io(py, error).into_value(py))
    }

    /// What was found, once everything was read: counts, bad lines and damage.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(report) = &*report else {
            return Ok(None);
        };
        let dict = PyDict::new(py);
        dict.set_item("lines", report.lines)?;
        dict.set_item("captures", report.captures)?;
        dict.set_item("selected", report.selected)?;
        dict.set_item("bad_lines", report.bad_lines)?;
        dict.set_item("examples", &report.examples)?;
        dict.set_item("damage", &report.damage)?;
        Ok(Some(dict))
    }
}

/// Reads all sources, and reports how it ended.
fn read(
    sources: &[Source],
    job: &Reading,
    options: scan::Options<'_>,
    report: &Mutex<Option<Report>>,
) -> waypost_io::Result<()> {
    scan::scan(sources, job, options).and_then(|(_, outcome)| {
        let mut waiting = job.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let found = Report {
            lines: outcome.tally.lines,
            captures: outcome.tally.captures,
            selected: outcome.tally.selected,
            bad_lines: outcome.rejects.total(),
            examples: outcome
                .rejects
                .examples()
                .iter()
                .map(|example| {
                    let meaning = example.kind.meaning();
                    format!("{}: line {}: {meaning}", example.file, example.line)
                })
                .collect(),
            damage: outcome
                .damage
                .iter()
                .map(|damage| errors::chain(damage))
                .collect(),
        };
        *report.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        match waiting.length {
            0 => Ok(()),
            _ => job.send(&mut waiting),
        }
    })
}

struct Stream {
    columns: Arc<[Column]>,
    receiver: Receiver<Result<ArrowArray, String>>,
}

impl Batches for Stream {
    fn schema(&self) -> ArrowSchema {
        let columns = self.columns.iter();
        let children =
            columns.map(|column| arrow::schema(column.kind(), column.name(), Vec::new()));
        arrow::schema(Type::Struct, "", children.collect())
    }

    fn next(&mut self) -> Result<Option<ArrowArray>, String> {
        self.receiver.recv().ok().transpose()
    }
}

/// Filters by the names of the options of the command.
fn select(filters: &[(String, String)]) -> PyResult<Select> {
    let mut select = Select::new();
    for (name, value) in filters {
        let set = match name.as_str() {
            "status" => select.status(value).map(|_| ()),
            "mime" => select.mime(value).map(|_| ()),
            "from" | "from_" => select.from(value).map(|_| ()),
            "to" => select.to(value).map(|_| ()),
            "include" => select.include(value).map(|_| ()),
            "exclude" => select.exclude(value).map(|_| ()),
            "exclude_list" => Takedowns::read(Path::new(value)).map(|list| {
                select.takedowns(Some(Arc::new(list)));
            }),
            "revisits" => {
                let revisits = match value.as_str() {
                    "keep" => Revisits::Keep,
                    "drop" => Revisits::Drop,
                    "resolve" => Revisits::Resolve,
                    _ => {
                        return Err(PyValueError::new_err(
                            "revisits must be `keep`, `drop` or `resolve`",
                        ));
                    }
                };
                select.revisits(revisits);
                Ok(())
            }
            "include_non_web" => {
                select.include_non_web(value == "True");
                Ok(())
            }
            name => {
                return Err(PyValueError::new_err(format!(
                    "unknown filter `{name}`; the filters are status, mime, from_, to, include, exclude, exclude_list, revisits, include_non_web"
                )));
            }
        };
        set.map_err(|error| PyValueError::new_err(format!("{name}: {error}")))?;
    }
    Ok(select)
}
