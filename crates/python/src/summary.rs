//! Lookups in a summary of any kind.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rayon::prelude::*;
use waypost_io::Source;
use waypost_summary::filter::Secret;
use waypost_summary::{Answer, LookupBuffer, Presence};

use crate::arrow::{self, Chunk, Strings};
use crate::{errors, surts};

type Inner = Arc<dyn waypost_summary::Summary>;

/// Presence, key, captures and URI-Rs.
type Details = (&'static str, Option<String>, Option<u64>, Option<u64>);

/// A profile, map or filter.
#[pyclass(module = "waypost._waypost", frozen, subclass)]
pub(crate) struct Summary {
    path: PathBuf,
    inner: RwLock<Option<Inner>>,
}

/// How many lookups one thread takes at a time.
const SOME: usize = 4096;

#[pymethods]
impl Summary {
    #[new]
    #[pyo3(signature = (path, key_file=None))]
    fn new(py: Python<'_>, path: PathBuf, key_file: Option<PathBuf>) -> PyResult<Summary> {
        let opened = py.detach(|| open(&path, key_file.as_deref()));
        let inner = opened.map_err(|error| errors::of_summary(py, &error))?;
        Ok(Summary {
            path,
            inner: RwLock::new(Some(inner)),
        })
    }

    /// The file.
    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    /// `profile`, `map` or `filter`.
    #[getter]
    fn kind(&self) -> PyResult<String> {
        Ok(self.inner()?.kind().to_string())
    }

    /// What the summary says about itself.
    #[getter]
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.inner()?;
        let about = inner.about();
        let dict = PyDict::new(py);
        let time = |time: Option<waypost_index::timestamp::Time>| {
            time.map(|time| format!("{:014}", time.digits14()))
        };
        dict.set_item("kind", inner.kind().to_string())?;
        dict.set_item("dialect", about.dialect.name())?;
        dict.set_item("policy", about.policy.map(|policy| policy.to_string()))?;
        dict.set_item("by", about.by.map(waypost_summary::By::name))?;
        dict.set_item("archive", about.archive.id.first())?;
        dict.set_item("name", about.archive.name.first())?;
        dict.set_item("home", about.archive.home.first())?;
        dict.set_item("captures", about.captures.map(|number| number.value))?;
        dict.set_item("urirs", about.urirs.map(|number| number.value))?;
        dict.set_item("first", time(about.first))?;
        dict.set_item("last", time(about.last))?;
        dict.set_item("updated", time(about.updated))?;
        Ok(dict)
    }

    /// The number of keys and the size in bytes.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let inner = self.inner()?;
        let size = py.detach(|| inner.size());
        Ok((size.keys, size.bytes))
    }

    /// The answer to one lookup: presence, key, captures and URI-Rs of the key.
    fn _lookup(&self, py: Python<'_>, uri: &Bound<'_, PyAny>) -> PyResult<Details> {
        let inner = self.inner()?;
        let uri = surts::bytes_of(uri)?;
        let answer = py.detach(|| {
            let mut buffer = LookupBuffer::new(inner.about().dialect);
            let uris = [&*uri];
            let batch = buffer.fill(&uris);
            match batch.iter().next() {
                Some((_, Ok(lookup))) => Ok(inner.lookup(&lookup)),
                Some((_, Err(error))) => Err(error.to_string()),
                None => Err("no URI".to_owned()),
            }
        });
        let answer = answer
            .map_err(|error| PyValueError::new_err(format!("{error}: {}", surts::text(&uri))))?;
        let answer = answer.map_err(|error| errors::of_summary(py, &error))?;
        let found = answer.found();
        let key = found.and_then(|found| found.key.as_deref());
        let frequency = found.map(|found| found.frequency).unwrap_or_default();
        Ok((
            answer.presence().name(),
            key.map(|key| surts::text(key).into_owned()),
            frequency.captures.map(|number| number.value),
            frequency.urirs.map(|number| number.value),
        ))
    }

    /// The answers to a sequence of lookups; `None` for a URI without a SURT.
    fn _lookup_list<'py>(
        &self,
        py: Python<'py>,
        uris: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let inner = self.inner()?;
        let uris = surts::uris_of(uris)?;
        let answers = py.detach(|| {
            let uris: Vec<Option<&[u8]>> = uris.iter().map(Option::as_deref).collect();
            lookup_all(&*inner, &uris)
        });
        let answers = answers.map_err(|error| errors::of_summary(py, &error))?;
        PyList::new(py, answers.iter().map(|answer| answer.map(Presence::name)))
    }

    /// The answers to an Arrow array of lookups, as an Arrow array.
    fn _lookup_arrow(&self, py: Python<'_>, uris: &Bound<'_, PyAny>) -> PyResult<Chunk> {
        let inner = self.inner()?;
        let strings = Strings::of(uris)?;
        let values = strings.values()?;
        let answers = py.detach(|| lookup_all(&*inner, &values));
        let answers = answers.map_err(|error| errors::of_summary(py, &error))?;
        let (mut bytes, mut ends, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for answer in answers {
            bytes.extend_from_slice(answer.map_or("", Presence::name).as_bytes());
            ends.push(bytes.len());
            valid.push(answer.is_some());
        }
        let (kind, array) = arrow::texts(bytes, &ends, &valid);
        Ok(Chunk::new(arrow::schema(kind, "", Vec::new()), array))
    }

    /// Closes the file.
    fn close(&self) {
        if let Ok(mut inner) = self.inner.write() {
            *inner = None;
        }
    }
}

impl Summary {
    fn inner(&self) -> PyResult<Inner> {
        let inner = self.inner.read().ok().and_then(|inner| inner.clone());
        inner.ok_or_else(|| PyValueError::new_err("the summary is closed"))
    }
}

fn open(path: &Path, key_file: Option<&Path>) -> waypost_summary::Result<Inner> {
    let secret = key_file.map(Secret::read).transpose()?;
    Ok(waypost_summary::open_source(&Source::new(path), false, secret)?.into())
}

fn lookup_all(
    summary: &dyn waypost_summary::Summary,
    uris: &[Option<&[u8]>],
) -> waypost_summary::Result<Vec<Option<Presence>>> {
    let dialect = summary.about().dialect;
    let parts: Vec<_> = uris
        .par_chunks(SOME)
        .map_init(
            || LookupBuffer::new(dialect),
            |buffer, uris| {
                // An empty line has no SURT, like a missing value.
                let lines: Vec<&[u8]> = uris.iter().map(|uri| uri.unwrap_or_default()).collect();
                let batch = buffer.fill(&lines);
                let lookups: Vec<_> = batch.valid().collect();
                let mut answers = summary.lookup_all(&lookups)?.into_iter();
                let presence = batch.iter().map(|(_, lookup)| {
                    lookup
                        .ok()
                        .and_then(|_| answers.next())
                        .map(|answer: Answer| answer.presence())
                });
                Ok(presence.collect::<Vec<_>>())
            },
        )
        .collect::<waypost_summary::Result<_>>()?;
    Ok(parts.into_iter().flatten().collect())
}
