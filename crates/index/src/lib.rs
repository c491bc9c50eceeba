//! The indexes of web archives, read and written: CDX, CDXJ, ZipNum.
//!
//! An index has one line for each capture. [`input`] opens files, folders and standard input,
//! whatever their compression.

pub mod error;
mod web;
pub mod timestamp;
pub mod rejects;
pub mod layout;
mod key;
pub mod json;
pub mod capture;
pub mod input;
pub mod lookup;
mod map;
pub mod merge;
mod ordered;
pub mod output;
pub mod range;
mod search;
pub mod sort;
pub mod zipnum;

pub use error::{Error, ErrorKind, Place, Result};
