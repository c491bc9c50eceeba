//! SURTs and keys of one URI or of many.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use rayon::prelude::*;
use waypost_surt::{Canonicalizer, Dialect, Policy, Surt, is_surt};

use crate::arrow::{self, Chunk, Strings};

/// How many URIs one thread takes at a time.
const SOME: usize = 4096;

pub(crate) fn dialect(name: &str) -> PyResult<Dialect> {
    name.parse()
        .map_err(|error: waypost_surt::UnknownDialect| PyValueError::new_err(error.to_string()))
}

/// The bytes of a `str` or `bytes`.
pub(crate) fn bytes_of<'a>(uri: &'a Bound<'_, PyAny>) -> PyResult<std::borrow::Cow<'a, [u8]>> {
    if let Ok(bytes) = uri.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().into());
    }
    match uri.cast::<PyString>() {
        Ok(text) => Ok(text.to_cow()?.into_owned().into_bytes().into()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "a URI must be str or bytes, not {}",
            uri.get_type().name()?
        ))),
    }
}

pub(crate) fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The SURT of a URI.
#[pyfunction]
#[pyo3(signature = (uri, dialect))]
pub(crate) fn surt(uri: &Bound<'_, PyAny>, dialect: &str) -> PyResult<String> {
    let uri = bytes_of(uri)?;
    let mut out = Vec::new();
    Canonicalizer::new(self::dialect(dialect)?)
        .canonicalize(&uri, &mut out)
        .map_err(|error| PyValueError::new_err(format!("{error}: {}", text(&uri))))?;
    Ok(text(&out).into_owned())
}

/// Many SURTs or keys, one after the other; a URI without a SURT has none.
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    valid: Vec<bool>,
}

impl Texts {
    fn with_capacity(texts: usize, bytes: usize) -> Texts {
        Texts {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(texts),
            valid: Vec::with_capacity(texts),
        }
    }

    /// The SURTs of URIs, on all cores.
    fn surts(uris: &[Option<&[u8]>], dialect: Dialect) -> Texts {
        let parts: Vec<Texts> = uris
            .par_chunks(SOME)
            .map_init(
                || Canonicalizer::new(dialect),
                |canonicalizer, uris| {
                    let mut part = Texts::with_capacity(uris.len(), uris.len() * 64);
                    for uri in uris {
                        let written =
                            uri.map(|uri| canonicalizer.canonicalize(uri, &mut part.bytes).is_ok());
                        part.push(written == Some(true));
                    }
                    part
                },
            )
            .collect();
        Texts::join(&parts.iter().collect::<Vec<_>>())
    }

    /// The keys of URIs or SURTs, on all cores: a column for each policy.
    fn keys(uris: &[Option<&[u8]>], policies: &[Policy], dialect: Dialect) -> Vec<Texts> {
        let parts: Vec<Vec<Texts>> = uris
            .par_chunks(SOME)
            .map_init(
                || (Canonicalizer::new(dialect), Vec::new()),
                |(canonicalizer, surt), uris| {
                    let column = |_| Texts::with_capacity(uris.len(), uris.len() * 16);
                    let mut columns: Vec<Texts> = policies.iter().map(column).collect();
                    for uri in uris {
                        let valid =
                            uri.is_some_and(|uri| surt_of(uri, canonicalizer, surt).is_ok());
                        for (column, policy) in columns.iter_mut().zip(policies) {
                            if valid {
                                policy.cut(&Surt::new(surt), &mut column.bytes);
                            }
                            column.push(valid);
                        }
                    }
                    columns
                },
            )
            .collect();
        let column = |number: usize| {
            let parts = parts.iter().map(|columns| &columns[number]);
            Texts::join(&parts.collect::<Vec<_>>())
        };
        (0..policies.len()).map(column).collect()
    }

    /// Ends the text that was appended to the bytes.
    fn push(&mut self, valid: bool) {
        self.ends.push(self.bytes.len());
        self.valid.push(valid);
    }

    fn join(parts: &[&Texts]) -> Texts {
        let mut whole = Texts::with_capacity(
            parts.iter().map(|part| part.ends.len()).sum(),
            parts.iter().map(|part| part.bytes.len()).sum(),
        );
        for part in parts {
            let base = whole.bytes.len();
            whole.bytes.extend_from_slice(&part.bytes);
            whole.ends.extend(part.ends.iter().map(|end| base + end));
            whole.valid.extend_from_slice(&part.valid);
        }
        whole
    }

    fn get(&self, at: usize) -> Option<&[u8]> {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        self.valid[at].then(|| &self.bytes[start..self.ends[at]])
    }
}

/// The URIs of a sequence; `None` stays.
pub(crate) fn uris_of(list: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Vec<u8>>>> {
    let mut uris = Vec::new();
    for item in list.try_iter()? {
        let item = item?;
        uris.push(match item.is_none() {
            true => None,
            false => Some(bytes_of(&item)?.into_owned()),
        });
    }
    Ok(uris)
}

/// The SURTs of a sequence of URIs; `None` for those without one.
#[pyfunction]
pub(crate) fn surts<'py>(
    py: Python<'py>,
    uris: &Bound<'py, PyAny>,
    dialect: &str,
) -> PyResult<Bound<'py, PyList>> {
    let dialect = self::dialect(dialect)?;
    let uris = uris_of(uris)?;
    let surts = py.detach(|| {
        let uris: Vec<Option<&[u8]>> = uris.iter().map(Option::as_deref).collect();
        Texts::surts(&uris, dialect)
    });
    PyList::new(py, (0..uris.len()).map(|at| surts.get(at).map(text)))
}

/// The SURTs of an Arrow array of URIs, as an Arrow array.
#[pyfunction]
pub(crate) fn surts_of_arrow(
    py: Python<'_>,
    uris: &Bound<'_, PyAny>,
    dialect: &str,
) -> PyResult<Chunk> {
    let dialect = self::dialect(dialect)?;
    let strings = Strings::of(uris)?;
    let values = strings.values()?;
    Ok(py.detach(|| {
        let (kind, array) = Texts::surts(&values, dialect).export();
        Chunk::new(arrow::schema(kind, "", Vec::new()), array)
    }))
}

impl Texts {
    /// Exports an Arrow array. Arrow's strings are UTF-8, so other bytes are replaced.
    fn export(self) -> (arrow::Type, arrow::ArrowArray) {
        if std::str::from_utf8(&self.bytes).is_ok() {
            return arrow::texts(self.bytes, &self.ends, &self.valid);
        }
        let mut whole = Texts::with_capacity(self.ends.len(), self.bytes.len());
        for at in 0..self.ends.len() {
            let text = self.get(at).map(text).unwrap_or_default();
            whole.bytes.extend_from_slice(text.as_bytes());
            whole.push(self.valid[at]);
        }
        arrow::texts(whole.bytes, &whole.ends, &whole.valid)
    }
}

/// Replaces `out` by the SURT of a URI, or by the URI itself if it is a SURT.
fn surt_of(
    uri: &[u8],
    canonicalizer: &mut Canonicalizer,
    out: &mut Vec<u8>,
) -> Result<(), waypost_surt::Error> {
    out.clear();
    if is_surt(uri) {
        out.extend_from_slice(uri);
        return Ok(());
    }
    canonicalizer.canonicalize(uri, out).map(drop)
}

fn policies_of(names: &[String]) -> PyResult<Vec<Policy>> {
    let policies = names.iter().map(|name| name.parse());
    policies
        .collect::<Result<_, _>>()
        .map_err(|error: waypost_surt::UnknownPolicy| PyValueError::new_err(error.to_string()))
}

/// The keys of a URI or SURT under policies, by their names.
#[pyfunction]
pub(crate) fn keys<'py>(
    py: Python<'py>,
    uri: &Bound<'py, PyAny>,
    policies: Vec<String>,
    dialect: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let policies = policies_of(&policies)?;
    let uri = bytes_of(uri)?;
    let mut surt = Vec::new();
    surt_of(
        &uri,
        &mut Canonicalizer::new(self::dialect(dialect)?),
        &mut surt,
    )
    .map_err(|error| PyValueError::new_err(format!("{error}: {}", text(&uri))))?;
    let keys = PyDict::new(py);
    let mut key = Vec::new();
    for policy in policies {
        key.clear();
        policy.cut(&Surt::new(&surt), &mut key);
        keys.set_item(policy.to_string(), text(&key))?;
    }
    Ok(keys)
}

/// The keys of a sequence of URIs or SURTs: a dictionary for each, `None` for those without a SURT.
#[pyfunction]
pub(crate) fn keys_of_list<'py>(
    py: Python<'py>,
    uris: &Bound<'py, PyAny>,
    policies: Vec<String>,
    dialect: &str,
) -> PyResult<Bound<'py, PyList>> {
    let (policies, dialect) = (policies_of(&policies)?, self::dialect(dialect)?);
    let uris = uris_of(uris)?;
    let columns = py.detach(|| {
        let uris: Vec<Option<&[u8]>> = uris.iter().map(Option::as_deref).collect();
        Texts::keys(&uris, &policies, dialect)
    });
    let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
    let list = PyList::empty(py);
    for at in 0..uris.len() {
        let keys = PyDict::new(py);
        for (name, column) in names.iter().zip(&columns) {
            if let Some(key) = column.get(at) {
                keys.set_item(name, text(key))?;
            }
        }
        match keys.is_empty() && !names.is_empty() {
            true => list.append(py.None())?,
            false => list.append(keys)?,
        }
    }
    Ok(list)
}

/// The keys of an Arrow array of URIs or SURTs, as an Arrow array of structures.
#[pyfunction]
pub(crate) fn keys_of_arrow(
    py: Python<'_>,
    uris: &Bound<'_, PyAny>,
    policies: Vec<String>,
    dialect: &str,
) -> PyResult<Chunk> {
    let (policies, dialect) = (policies_of(&policies)?, self::dialect(dialect)?);
    let strings = Strings::of(uris)?;
    let values = strings.values()?;
    Ok(py.detach(|| {
        let columns = Texts::keys(&values, &policies, dialect);
        let valid = columns.first().map(|column| column.valid.clone());
        let valid = valid.unwrap_or_else(|| vec![true; values.len()]);
        let (mut schemas, mut arrays) = (Vec::new(), Vec::new());
        for (policy, column) in policies.iter().zip(columns) {
            let (kind, array) = column.export();
            schemas.push(arrow::schema(kind, &policy.to_string(), Vec::new()));
            arrays.push(array);
        }
        let schema = arrow::schema(arrow::Type::Struct, "", schemas);
        Chunk::new(schema, arrow::structures(&valid, arrays))
    }))
}

/// The names of the 23 policies.
#[pyfunction]
pub(crate) fn policies() -> Vec<String> {
    Policy::ALL.iter().map(ToString::to_string).collect()
}
