//! What a web archive holds, written small.

mod error;
pub mod frequency;
pub mod ukvs;

pub use error::{Error, ErrorKind, Place, Result};
pub use frequency::{Frequency, Number, Sureness};
