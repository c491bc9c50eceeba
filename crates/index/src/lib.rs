//! The indexes of web archives, read and written: CDX, CDXJ, ZipNum.
//!
//! An index has one line for each capture. [`input`] opens files, folders and standard input,
//! whatever their compression.

pub mod capture;
pub mod error;
pub mod input;
pub mod json;
pub mod key;
pub mod layout;
pub mod lookup;
mod map;
pub mod merge;
mod ordered;
pub mod output;
pub mod range;
pub mod rejects;
pub mod scan;
mod search;
pub mod select;
pub mod sort;
pub mod timestamp;
pub mod web;
pub mod zipnum;

pub use capture::{Capture, Field, Fields};
pub use error::{Error, ErrorKind, Place, Result};
pub use input::Source;
pub use select::Select;
