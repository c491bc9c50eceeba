//! The indexes of web archives, read and written: CDX, CDXJ, ZipNum.
//!
//! An index has one line for each capture. [`input`] opens files, folders and standard input,
//! whatever their compression.

pub mod error;
pub mod input;
mod map;
pub mod merge;
mod ordered;
pub mod output;
mod search;
pub mod sort;
pub mod zipnum;

pub use error::{Error, ErrorKind, Place, Result};
