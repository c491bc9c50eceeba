//! URI → SURT → key, as web archives do it. Pure functions over bytes.

mod dialect;
mod error;

pub use dialect::{Dialect, UnknownDialect};
pub use error::Error;
