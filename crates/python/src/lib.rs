//! The native part of the Python package `waypost`; `python/waypost` is the part that users see.
//!
//! | file | subject |
//! |---|---|
//! | `surts.rs` | SURTs and keys of one URI or of many |
//! | `summary.rs` | lookups in summaries |
//! | `captures.rs` | captures of an index as a stream of Arrow record batches |
//! | `arrow.rs` | Arrow's C data interface, the only module with `unsafe` code |
//! | `commands.rs` | the commands, called in this process |

use pyo3::prelude::*;

mod arrow;
mod captures;
mod commands;
mod summary;
mod surts;

/// Errors of the libraries as Python exceptions.
pub(crate) mod errors {
    use pyo3::create_exception;
    use pyo3::exceptions::PyException;
    use pyo3::prelude::*;

    create_exception!(
        waypost,
        WaypostError,
        PyException,
        "What went wrong, with the file, line and byte where it happened, and a hint."
    );

    /// The exception for an error with a place.
    pub(crate) fn error(
        py: Python<'_>,
        message: &str,
        hint: Option<&str>,
        place: &waypost_io::Place,
    ) -> PyErr {
        let text = match hint {
            Some(hint) => format!("{message}\nhint: {hint}"),
            None => message.to_owned(),
        };
        let error = WaypostError::new_err(text);
        let value = error.value(py);
        let attributes = [
            ("hint", hint.into_pyobject(py).map(Bound::into_any)),
            (
                "file",
                place.file.as_deref().into_pyobject(py).map(Bound::into_any),
            ),
            ("line", place.line.into_pyobject(py).map(Bound::into_any)),
            ("byte", place.byte.into_pyobject(py).map(Bound::into_any)),
        ];
        for (name, attribute) in attributes {
            let Ok(attribute) = attribute;
            // An exception takes any attribute.
            let _ = value.setattr(name, attribute);
        }
        error
    }

    /// The text of an error with all its causes.
    pub(crate) fn chain(error: &dyn std::error::Error) -> String {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }

    pub(crate) fn of_io(py: Python<'_>, error: &waypost_io::Error) -> PyErr {
        self::error(py, &chain(error), None, error.place())
    }

    pub(crate) fn of_summary(py: Python<'_>, error: &waypost_summary::Error) -> PyErr {
        self::error(py, &chain(error), None, error.place())
    }
}

#[pymodule]
fn _waypost(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add(
        "WaypostError",
        module.py().get_type::<errors::WaypostError>(),
    )?;
    module.add_function(wrap_pyfunction!(surts::surt, module)?)?;
    module.add_function(wrap_pyfunction!(surts::surts, module)?)?;
    module.add_function(wrap_pyfunction!(surts::surts_of_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(surts::keys, module)?)?;
    module.add_function(wrap_pyfunction!(surts::keys_of_list, module)?)?;
    module.add_function(wrap_pyfunction!(surts::keys_of_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(surts::policies, module)?)?;
    module.add_function(wrap_pyfunction!(commands::call, module)?)?;
    module.add_function(wrap_pyfunction!(commands::work, module)?)?;
    module.add_function(wrap_pyfunction!(commands::combine, module)?)?;
    module.add_class::<summary::Summary>()?;
    module.add_class::<captures::Captures>()?;
    module.add_class::<arrow::Chunk>()?;
    Ok(())
}
