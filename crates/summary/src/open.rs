//! Opening a summary of whatever kind it is.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::profile::Profile;
use crate::summary::Summary;

/// Opens a summary, told by how it begins.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn open(path: &Path) -> Result<Box<dyn Summary>> {
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(8).read_to_end(&mut start))
        .map_err(|error| Error::io("open", path, error))?;
    if Filter::begins(&start) {
        return Ok(Box::new(Filter::open(path)?));
    }
    Ok(Box::new(Profile::open(path)?))
}
