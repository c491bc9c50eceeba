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

/// Many SURTs, one after the other; a URI without a SURT has none.
struct Surts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    valid: Vec<bool>,
}

impl Surts {
    fn of(uris: &[Option<&[u8]>], dialect: Dialect) -> Surts {
        let parts: Vec<Surts> = uris
            .par_chunks(SOME)
            .map_init(
                || Canonicalizer::new(dialect),
                |canonicalizer, uris| {
                    let mut part = Surts {
                        bytes: Vec::with_capacity(uris.len() * 64),
                        ends: Vec::with_capacity(uris.len()),
                        valid: Vec::with_capacity(uris.len()),
                    };
                    for uri in uris {
                        let written =
                            uri.map(|uri| canonicalizer.canonicalize(uri, &mut part.bytes).is_ok());
                        part.ends.push(part.bytes.len());
                        part.valid.push(written == Some(true));
                    }
                    part
                },
            )
            .collect();
        let mut whole = Surts {
            bytes: Vec::with_capacity(parts.iter().map(|part| part.bytes.len()).sum()),
            ends: Vec::with_capacity(uris.len()),
            valid: Vec::with_capacity(uris.len()),
        };
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
        Surts::of(&uris, dialect)
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
        let mut surts = Surts::of(&values, dialect);
        if std::str::from_utf8(&surts.bytes).is_err() {
            surts = surts.in_utf8();
        }
        let (kind, array) = arrow::texts(surts.bytes, &surts.ends, &surts.valid);
        Chunk::new(arrow::schema(kind, "", Vec::new()), array)
    }))
}

impl Surts {
    /// The same with bytes that are not UTF-8 replaced: Arrow's strings are UTF-8.
    fn in_utf8(&self) -> Surts {
        let mut whole = Surts {
            bytes: Vec::new(),
            ends: Vec::new(),
            valid: self.valid.clone(),
        };
        for at in 0..self.ends.len() {
            let surt = self.get(at).map(text).unwrap_or_default();
            whole.bytes.extend_from_slice(surt.as_bytes());
            whole.ends.push(whole.bytes.len());
        }
        whole
    }
}

/// The keys of a URI or SURT under policies, by their names.
#[pyfunction]
pub(crate) fn keys<'py>(
    py: Python<'py>,
    uri: &Bound<'py, PyAny>,
    policies: Vec<String>,
    dialect: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let uri = bytes_of(uri)?;
    let mut surt = Vec::new();
    if is_surt(&uri) {
        surt.extend_from_slice(&uri);
    } else {
        Canonicalizer::new(self::dialect(dialect)?)
            .canonicalize(&uri, &mut surt)
            .map_err(|error| PyValueError::new_err(format!("{error}: {}", text(&uri))))?;
    }
    let keys = PyDict::new(py);
    let mut key = Vec::new();
    for name in policies {
        let policy: Policy = name.parse().map_err(|error: waypost_surt::UnknownPolicy| {
            PyValueError::new_err(error.to_string())
        })?;
        key.clear();
        policy.cut(&Surt::new(&surt), &mut key);
        keys.set_item(policy.to_string(), text(&key))?;
    }
    Ok(keys)
}

/// The names of the 23 policies.
#[pyfunction]
pub(crate) fn policies() -> Vec<String> {
    Policy::ALL.iter().map(ToString::to_string).collect()
}
