//! URI → SURT → key, as web archives do it. Pure functions over bytes.

mod canonicalize;
mod dialect;
mod error;

pub use canonicalize::Canonicalizer;
pub use dialect::{Dialect, UnknownDialect};
pub use error::Error;
